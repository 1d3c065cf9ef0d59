#!/bin/sh
# SPDX-License-Identifier: MIT
# The shim: compiled against the torch that $WEIR_TORCH_PYTHON (else python3) has, and driven by it, on the simulator. Where there is a
# torch with CUDA and a C++ compiler; a GPU is not needed, as shim_cuda.c takes the place of CUDA's runtime.
# shellcheck source=tests/python/python.sh
. "${top_srcdir:-.}/tests/python/python.sh"
python=${WEIR_TORCH_PYTHON:-python3}
PYTHONPATH=$WEIR_PYTHON_DIR:$top_srcdir/tests/python:$top_srcdir/tests/gpu/torch
"$python" -c 'import sys, torch; sys.exit(torch.version.cuda is None)' 2>/dev/null ||
    no_python "$python has no torch that is built with CUDA: name one that has in WEIR_TORCH_PYTHON"
command -v "${CC:-cc}" >/dev/null && command -v "${CXX:-c++}" >/dev/null || no_python "there are no compilers: install them"

XDG_CACHE_HOME=$tap_dir/cache
mkdir "$XDG_CACHE_HOME" || exit 99
WEIR_GPU=sim WEIR_SIM=memory=8GiB
export XDG_CACHE_HOME WEIR_GPU WEIR_SIM
unset WEIR_POLICY WEIR_CONF
"$python" -m weir.torch build >"$XDG_CACHE_HOME/said" 2>&1 || {
    echo "1..1"
    echo "not ok 1 - the_shim_compiles_against_this_torch"
    sed 's/^/# /' "$XDG_CACHE_HOME/said"
    exit 1
}
cuda=$("$python" -c 'from weir.torch import _build; print(" ".join("-I" + name for name in _build._cuda_includes()))' 2>/dev/null)
fake=$XDG_CACHE_HOME/libcuda.so.1
# shellcheck disable=SC2086 # several words
"${CC:-cc}" -shared -fPIC -O1 -Wl,-soname,libcuda.so.1 $cuda -I"$top_srcdir/include" "$top_srcdir/tests/python/shim_cuda.c" -o "$fake" -ldl ||
    exit 99
LD_PRELOAD=$fake LD_LIBRARY_PATH=$XDG_CACHE_HOME "$python" "$top_srcdir/tests/python/shim_test.py"
