#!/bin/sh
# SPDX-License-Identifier: MIT
#
# make-bundle.sh SOURCE BUILD BUNDLE PROGRAM... -- FILE...
#
# Puts programs of BUILD and files of SOURCE into BUNDLE under the same paths, with run.sh and the list of programs, and checks that the
# programs need nothing that another machine may lack. A program may be a shared library for a host (NAME.so). Called by `make gpu-bundle`.
set -eu

# All that a program may load: what every glibc system has. A CUDA runtime linked dynamically would not be there.
allowed=' libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libgcc_s.so.1 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 '
# What a host of ours, torch, has loaded before it loads a shared library.
allowed_in_host=' libstdc++.so.6 '
limit_kib=49152

source=$1 build=$2 bundle=$3
shift 3
mkdir -p "$bundle"
: >"$bundle/programs"
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    program=$bundle/$1
    mkdir -p "$(dirname "$program")"
    cp "$build/$1" "$program"
    strip --strip-unneeded "$program"
    case $1 in
    *.so) may_load=$allowed$allowed_in_host ;;
    *) may_load=$allowed ;;
    esac
    for library in $(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
        case $may_load in
        *" $library "*) ;;
        *)
            echo "gpu-bundle: $1 needs $library, which another machine may lack: link it statically" >&2
            exit 1
            ;;
        esac
    done
    echo "$1" >>"$bundle/programs"
    shift
done
[ $# -eq 0 ] || shift
for file in "$@"; do
    mkdir -p "$bundle/$(dirname "$file")"
    cp "$source/$file" "$bundle/$file"
done
cp "$source/tests/gpu/run-bundle.sh" "$bundle/run.sh"
chmod +x "$bundle/run.sh"

size_kib=$(du -sk "$bundle" | cut -f 1)
echo "gpu-bundle: $(wc -l <"$bundle/programs") programs, $size_kib KiB in $bundle; run it with $bundle/run.sh"
if [ "$size_kib" -gt "$limit_kib" ]; then
    echo "gpu-bundle: that is more than $limit_kib KiB: take programs out of gpu_bundle_programs" >&2
    exit 1
fi
