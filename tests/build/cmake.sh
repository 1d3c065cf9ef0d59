#!/bin/sh
# SPDX-License-Identifier: MIT
# A CMake project finds an installed Weir by find_package(), wherever the installation was moved to, and what it links runs.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"
command -v cmake >/dev/null || skip_all "cmake is missing: install it"
top_srcdir=$(cd "$top_srcdir" && pwd -P)
[ -e "$top_builddir/lib/.libs/libweir.so" ] || skip_all "there is no shared libweir in this build"

made() {
    sed -n "s/^$1 = //p" "$top_builddir/Makefile"
}
stage=$tap_dir/stage
installed() {
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$top_builddir" DESTDIR="$stage" \
        install-libLTLIBRARIES install-includeHEADERS install-cmakeDATA && find "$stage" -name weirConfig.cmake | grep .
}
check "package_is_installed" installed
moved=$tap_dir/moved
mv "$stage$(made prefix)" "$moved" || exit 1
export CMAKE_PREFIX_PATH="$moved"

# configures VERSION [LINE]: a project that asks for this version, with one line more at its end.
configures() {
    rm -rf "$tap_dir/project" && mkdir "$tap_dir/project" && cp "$top_srcdir/examples/embed.c" "$tap_dir/project/program.c" || return
    cat >"$tap_dir/project/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.13)
project(program C)
find_package(weir $1 CONFIG REQUIRED)
find_package(weir $1 CONFIG REQUIRED)
add_executable(program program.c)
target_link_libraries(program PRIVATE weir::weir)
${2-}
CMAKE
    CC=$(made CC) CFLAGS=$(made WEIR_CFLAGS | grep -o -e '-fsanitize=[^ ]*' | tr '\n' ' ') \
        cmake -S "$tap_dir/project" -B "$tap_dir/project/b" -Wno-dev
}
refuses() {
    ! configures "$1" >"$tap_dir/said" 2>&1 || return
    tr -s '[:space:]' ' ' <"$tap_dir/said" | grep -F "$2" || { cat "$tap_dir/said" && return 1; }
}
runs() {
    cmake --build "$tap_dir/project/b" && WEIR_GPU=sim WEIR_POLICY=$top_srcdir/config/default.yaml "$tap_dir/project/b/program"
}
version=$(sed -n 's/^VERSION = //p' "$top_builddir/Makefile")
check "package_is_found_after_the_installation_was_moved" configures ''
if has_simulator; then
    check "program_of_the_project_runs" runs
else
    skip "program_of_the_project_runs" "libweir was built without the simulator"
fi
check "installed_version_is_found" configures "$version"
check "earlier_version_is_served" configures "${version%.*}"
check "later_version_is_refused" refuses "${version%%.*}.999" "$version"
check "other_first_number_is_refused" refuses "$((${version%%.*} + 1))" "$version"

# Where pieces are missing, CMake says which and what to do.
header=$(find "$moved" -name weir.h)
mv "$header" "$tap_dir/weir.h"
check "missing_header_is_named" refuses '' "no weir.h in ${header%/*}: install Weir again, whole"
mv "$tap_dir/weir.h" "$header"
find "$moved" -name libweir.so -exec rm {} +
check "missing_library_is_named" refuses '' "pkg_check_modules(WEIR REQUIRED IMPORTED_TARGET weir)"
done_testing
