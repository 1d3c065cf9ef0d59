#!/bin/sh
# SPDX-License-Identifier: MIT
# make wheel, and what it makes, in a new environment of Python: without torch, and without a network.
# shellcheck source=tests/python/python.sh
. "${top_srcdir:-.}/tests/python/python.sh"
python3 -c 'import venv, ensurepip' 2>/dev/null || no_python "python3 has no venv and pip of its own: install python3-venv"
{ command -v readelf && command -v objdump; } >/dev/null || no_python "there is no readelf or objdump: install binutils"
WHEEL_TEST_DIR=$tap_dir/wheel
mkdir "$WHEEL_TEST_DIR" || exit 99
PYTHONPATH=$WEIR_PYTHON_DIR:$src/tests/python
export WHEEL_TEST_DIR top_srcdir top_builddir
unset WEIR_TORCH_LIBRARY WEIR_COSTS_DIR WEIR_POLICY WEIR_CONF XDG_CACHE_HOME
WEIR_GPU=sim MAKE=${MAKE:-make}
export WEIR_GPU MAKE
python3 "$src/tests/python/wheel_test.py"
