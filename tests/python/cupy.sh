#!/bin/sh
# SPDX-License-Identifier: MIT
# weir.cupy: arrays of a stand-in for CuPy, from the simulator.
# shellcheck source=tests/python/python.sh
. "${top_srcdir:-.}/tests/python/python.sh"
needs_simulator
python3 "$top_srcdir/tests/python/cupy_test.py"
