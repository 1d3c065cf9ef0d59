#!/bin/sh
# SPDX-License-Identifier: MIT
#
# build.sh FOLDER OUTPUT: builds bench/rmm/rmm.cpp for `weir-bench --rmm OUTPUT`.
#
# FOLDER has the wheels of RMM and of its logger, unpacked: pip install --target FOLDER librmm-cu13. Needs a C++20 compiler and CUDA's
# headers.
set -eu
[ $# -eq 2 ] || { echo "usage: build.sh FOLDER OUTPUT" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$1" && pwd)
[ -e "$folder/librmm/include/rmm/version_config.hpp" ] || {
    echo "build.sh: $folder has no librmm: pip install --target $folder librmm-cu13" >&2
    exit 2
}
cuda=${CUDA_HOME:-/usr/local/cuda}
exec "${CXX:-c++}" -std=c++20 -O2 -DNDEBUG -shared -fPIC -fvisibility=hidden -Wno-deprecated-declarations \
    -isystem "$folder/librmm/include" -isystem "$folder/librmm/include/rapids" -isystem "$folder/rapids_logger/include" \
    -isystem "$cuda/include" -o "$2" "$here/rmm.cpp" \
    "$folder/librmm/lib64/librmm.so" "$folder/rapids_logger/lib64/librapids_logger.so" \
    -L"$cuda/lib64" -lcudart \
    -Wl,-rpath,"$folder/librmm/lib64:$folder/rapids_logger/lib64:$cuda/lib64"
