#!/bin/sh
# SPDX-License-Identifier: MIT
# Frames of Python in stacks of the recorder, by the python3 that runs this.
# shellcheck source=tests/python/python.sh
. "${top_srcdir:-.}/tests/python/python.sh"
needs_simulator
python3 "$top_srcdir/tests/python/frames_test.py"
