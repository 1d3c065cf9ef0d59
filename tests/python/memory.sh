#!/bin/sh
# SPDX-License-Identifier: MIT
# The figures of weir.torch, of allocations on the simulator.
# shellcheck source=tests/python/python.sh
. "${top_srcdir:-.}/tests/python/python.sh"
needs_simulator
python3 "$top_srcdir/tests/python/memory_test.py"
