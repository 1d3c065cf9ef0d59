#!/bin/sh
# SPDX-License-Identifier: MIT
# weir.h, and each weir_*.h beside it, compiles alone, as C and as C++, with and without CUDA's headers, with either meaning of stream 0, and without a warning.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"

# The compilers and the CUDA folder that configure found.
made() {
    sed -n "s/^$1 = //p" "$top_builddir/Makefile"
}
cc=$(made CC)
cuda=$(made CUDA_CPPFLAGS)
cxx=${CXX:-}
for name in c++ g++ clang++; do
    [ -n "$cxx" ] || cxx=$(command -v "$name")
done

printf '#include "include/weir.h"\n' >"$tap_dir/alone.c"
rest=
for header in "$top_srcdir"/include/weir_*.h; do
    name=${header##*/}
    name=${name%.h}
    printf '#include "include/%s.h"\n' "$name" >"$tap_dir/$name.c"
    rest="$rest $name"
done
printf '#include <cuda_runtime_api.h>\n#include "include/weir.h"\n' >"$tap_dir/cuda_first.c"
printf '#include "include/weir.h"\n#include <cuda_runtime_api.h>\n' >"$tap_dir/cuda_last.c"
# The types are CUDA's own, so that handles pass without a cast.
cat >"$tap_dir/types.c" <<'CODE'
#include "include/weir.h"
#include <cuda_runtime_api.h>
cudaStream_t stream(const weir_stream *s);
cudaMemPool_t pool(const weir_pool *p);
cudaStream_t stream(const weir_stream *s) { return weir_stream_handle(s); }
cudaMemPool_t pool(const weir_pool *p) { return weir_pool_handle(p); }
CODE
cat >"$tap_dir/calls.c" <<'CODE'
#include "include/weir.h"
weir_status call(weir *w);
weir_status call(weir *w)
{
    void *ptr;
    weir_status status = weir_malloc(w, &ptr, 1, 0, NULL);
    return status ? status : weir_free(w, ptr, NULL);
}
/* As bindings and wrappers take them. */
extern weir_status (*const pointers[])(weir *, void **, size_t, int, weir_cuda_stream);
weir_status (*const pointers[])(weir *, void **, size_t, int, weir_cuda_stream) = { weir_malloc, &weir_malloc };
CODE

compiles() {
    # The compiler and the CUDA flags are several words each.
    # shellcheck disable=SC2086
    $1 -Wall -Wextra -Wpedantic -Werror -fsyntax-only $cuda -I"$top_srcdir" $2 "$tap_dir/$3.c"
}

for file in $rest alone calls cuda_first cuda_last types; do
    for streams in "" -DCUDA_API_PER_THREAD_DEFAULT_STREAM; do
        name=${file}_compiles${streams:+_with_per_thread_streams}
        case $file in
        alone | calls | weir_*) ;;
        *) if [ -z "$cuda" ]; then
            skip "$name" "configured without CUDA's headers"
            continue
        fi ;;
        esac
        check "${name}_as_c11" compiles "$cc -std=c11" "$streams" "$file"
        if [ -n "$cxx" ]; then
            check "${name}_as_cxx17" compiles "$cxx -x c++ -std=c++17" "$streams" "$file"
        else
            skip "${name}_as_cxx17" "there is no C++ compiler"
        fi
    done
done

# NVIDIA's wheels of the CUDA runtime have no crt/, and so take the stand-in that configure names.
headers=$(printf '%s\n' "$cuda" | sed -n 's/.*-isystem \([^ ]*\).*/\1/p')
of_a_wheel() {
    # The compiler is several words.
    # shellcheck disable=SC2086
    $1 -Wall -Wextra -Werror -fsyntax-only -isystem "$tap_dir/wheel" -isystem "$top_srcdir/lib/gpu/host_defines" -I"$top_srcdir" "$tap_dir/types.c"
}
if [ -n "$headers" ]; then
    mkdir "$tap_dir/wheel" && ln -s "$headers"/*.h "$tap_dir/wheel"
    check "headers_of_a_wheel_compile_as_c11" of_a_wheel "$cc -std=c11"
    [ -z "$cxx" ] || check "headers_of_a_wheel_compile_as_cxx17" of_a_wheel "$cxx -x c++ -std=c++17"
else
    skip "headers_of_a_wheel_compile" "configured without CUDA's headers"
fi
done_testing
