#!/bin/sh
# SPDX-License-Identifier: MIT
# The Python package and its library: that they belong together, and what it says where something is wrong.
# shellcheck source=tests/python/python.sh
. "${top_srcdir:-.}/tests/python/python.sh"
needs_simulator
python3 "$top_srcdir/tests/python/package_test.py"
