# SPDX-License-Identifier: MIT
# compare.py without torch and a GPU: what becomes of runs that are cut off, of files, of time, and the tables.
# shellcheck shell=sh
: "${top_srcdir:?is set by make check}"
command -v python3 >/dev/null || { echo "1..0 # SKIP python3 is missing: install it"; exit 0; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || { echo "1..0 # SKIP python3 is older than 3.9"; exit 0; }
PYTHONDONTWRITEBYTECODE=1 exec python3 "$top_srcdir/tests/bench/compare_test.py"
