#!/bin/sh
# SPDX-License-Identifier: MIT
# `python -m weir.doctor`: what it finds of a Python and its packages, what it says to do, and its exit status.
# shellcheck source=tests/python/python.sh
. "${top_srcdir:-.}/tests/python/python.sh"
python3 "$top_srcdir/tests/python/doctor_test.py"
