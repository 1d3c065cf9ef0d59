#!/bin/sh
# SPDX-License-Identifier: MIT
# What processes may tell of themselves, whatever it is: the command shows it, or says what is wrong with it.
: "${top_srcdir:=.}" "${top_builddir:=.}"
command -v python3 >/dev/null || { echo "1..0 # SKIP python3 is missing: install it"; exit 0; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || { echo "1..0 # SKIP python3 is older than 3.9"; exit 0; }
PYTHONDONTWRITEBYTECODE=1 exec python3 "$top_srcdir/tests/tools/figures_test.py" "$top_builddir"
