#!/bin/sh
# SPDX-License-Identifier: MIT
# weir.hpp compiles alone and without a warning by each C++ compiler that is there, with and without exceptions, with either meaning of
# stream 0. WEIR_TEST_RMM: a folder with the wheels of RMM and its logger, unpacked (see bench/rmm/build.sh); RMM then takes the resource.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"

cat >"$tap_dir/all.cc" <<'CODE'
#include "include/weir.hpp"
#ifdef __cpp_exceptions
struct theirs {
    explicit theirs(const std::string &)
    {
    }
};
template class weirpp::basic_resource<theirs>;
#endif
template class weirpp::basic_resource<>;
template class weirpp::result<weirpp::block>;
CODE
cat >"$tap_dir/installed.cc" <<'CODE'
#include <weir.h>
#include <weir.hpp>
weirpp::result<weirpp::weir> opened();
weirpp::result<weirpp::weir> opened()
{
    return weirpp::weir::open();
}
CODE

# compiles COMPILER FILE FLAG…
compiles() {
    compiler=$1 file=$2
    shift 2
    $compiler -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only "$@" "$tap_dir/$file.cc"
}

found=
for cxx in g++ clang++; do
    if ! command -v "$cxx" >/dev/null; then
        skip "${cxx}_compiles_it" "there is no $cxx"
        continue
    fi
    found=$cxx
    for std in 17 20; do
        check "${cxx}_compiles_it_as_cxx$std" compiles "$cxx" all -std=c++$std -I"$top_srcdir"
    done
    check "${cxx}_compiles_it_without_exceptions" compiles "$cxx" all -std=c++17 -fno-exceptions -I"$top_srcdir"
    check "${cxx}_compiles_it_with_per_thread_streams" \
        compiles "$cxx" all -std=c++20 -DCUDA_API_PER_THREAD_DEFAULT_STREAM -I"$top_srcdir"
    check "${cxx}_compiles_it_where_it_is_installed" compiles "$cxx" installed -std=c++17 -I"$top_srcdir/include"
done

# rmm_takes_it COMPILER CUDA: builds rmm.cc against the wheels, and runs it.
rmm_takes_it() {
    flags=$(sed -n 's/^WEIR_CXXFLAGS = .*\(-fsanitize=[^ ]*\).*/\1/p' "$top_builddir/Makefile")
    # The flags are no word or one.
    # shellcheck disable=SC2086
    "$1" -std=c++20 $flags -Wall -Wextra -Werror -Wno-deprecated-declarations -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE \
        -isystem "$WEIR_TEST_RMM/librmm/include" -isystem "$WEIR_TEST_RMM/librmm/include/rapids" \
        -isystem "$WEIR_TEST_RMM/rapids_logger/include" -isystem "$2/include" -I"$top_srcdir" \
        -o "$tap_dir/rmm" "$top_srcdir/tests/cxx/rmm.cc" "$library" \
        "$WEIR_TEST_RMM/librmm/lib64/librmm.so" "$WEIR_TEST_RMM/rapids_logger/lib64/librapids_logger.so" -L"$2/lib64" -lcudart \
        -Wl,-rpath,"$(dirname "$library"):$WEIR_TEST_RMM/librmm/lib64:$WEIR_TEST_RMM/rapids_logger/lib64:$2/lib64" &&
        "$tap_dir/rmm" >"$tap_dir/rmm.tap" && ! grep '^not ok' "$tap_dir/rmm.tap" && grep '^1\.\.' "$tap_dir/rmm.tap"
}

library=$(cd "$top_builddir" && pwd -P)/lib/.libs/libweir.so
cuda=${CUDA_HOME:-/usr/local/cuda}
if [ -z "${WEIR_TEST_RMM:-}" ]; then
    skip "rmm_takes_it" "WEIR_TEST_RMM names no folder with RMM: pip install --target FOLDER librmm-cu13"
elif [ ! -e "$cuda/include/cuda_runtime_api.h" ] || [ ! -e "$library" ] || [ -z "$found" ]; then
    skip "rmm_takes_it" "it needs a C++ compiler, a shared libweir, and CUDA's headers in $cuda"
elif ! command -v g++ >/dev/null; then
    skip "rmm_takes_it" "there is no g++, by which RMM is built"
else
    check "rmm_takes_it" rmm_takes_it g++ "$cuda"
fi
done_testing
