#!/bin/sh
# SPDX-License-Identifier: MIT
#
# build.sh RMM WHEELS LIBRARY OUTPUT: builds RMM's tests of memory resources for Weir's, into the folder OUTPUT, with the libraries that they
# need. OUTPUT/rmm-tests then runs on a machine with a GPU.
#
# RMM has RMM's sources, of 26.8 or later. WHEELS has the wheels of RMM and of its logger, unpacked: pip install --target WHEELS librmm-cu13.
# LIBRARY is a libweir.so. Needs a C++20 compiler, CUDA's headers and GoogleTest (Debian: libgtest-dev, libgmock-dev).
set -eu
[ $# -eq 4 ] || { echo "usage: build.sh RMM WHEELS LIBRARY OUTPUT" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
tests=$1/cpp/tests/mr
wheels=$(cd "$2" && pwd)
library=$3 output=$4
[ -e "$tests/cccl_mr_ref_test_basic.hpp" ] || { echo "build.sh: $1 has no RMM of 26.8 or later" >&2; exit 2; }
[ -e "$wheels/librmm/include/rmm/version_config.hpp" ] || {
    echo "build.sh: $2 has no librmm: pip install --target $2 librmm-cu13" >&2
    exit 2
}
cuda=${CUDA_HOME:-/usr/local/cuda}
mkdir -p "$output"
cp -L "$wheels/librmm/lib64/librmm.so" "$wheels/rapids_logger/lib64/librapids_logger.so" "$output"
cp -L "$library" "$output/$(objdump -p "$library" | sed -n 's/^ *SONAME *//p')"
"${CXX:-c++}" -std=c++20 -O2 -Wno-deprecated-declarations -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE -I"$here/../../.." -I"$tests" \
    -isystem "$wheels/librmm/include" -isystem "$wheels/librmm/include/rapids" -isystem "$wheels/rapids_logger/include" \
    -isystem "$cuda/include" -o "$output/rmm-tests" "$here/suites.cc" "$library" "$output/librmm.so" "$output/librapids_logger.so" \
    -l:libgtest.a -l:libgtest_main.a -L"$cuda/lib64" -lcudart -lpthread -Wl,-rpath,"\$ORIGIN"
# The runtime that the program was linked with, where it is a shared one.
for file in "$cuda"/lib64/libcudart.so.*; do
    [ ! -e "$file" ] || cp -L "$file" "$output"
done
