#!/bin/sh
# SPDX-License-Identifier: MIT
# weir.trace: what it makes of other programs' files, and, where this Python has NumPy, traces as columns. With pandas, polars and matplotlib
# where they are.
# shellcheck source=tests/python/python.sh
. "${top_srcdir:-.}/tests/python/python.sh"
# No stand-in for torch: nothing of it is asked for.
PYTHONPATH=$WEIR_PYTHON_DIR:$src/tests/python:$src/tests/tools
"${WEIR_TORCH_PYTHON:-python3}" "$top_srcdir/tests/python/trace_test.py" "$build"
