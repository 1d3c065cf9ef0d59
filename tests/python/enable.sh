#!/bin/sh
# SPDX-License-Identifier: MIT
# weir.torch.enable(): what a stand-in for torch is told.
# shellcheck source=tests/python/python.sh
. "${top_srcdir:-.}/tests/python/python.sh"
needs_simulator
python3 "$top_srcdir/tests/python/enable_test.py"
