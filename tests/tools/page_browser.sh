#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir trace page` in a browser: its figures, names that were made to do harm, its pictures, and that the keyboard alone will do.
: "${top_srcdir:=.}" "${top_builddir:=.}"
python=${WEIR_PAGE_PYTHON:-python3}
command -v "$python" >/dev/null || { echo "1..0 # SKIP python3 is missing: install it"; exit 0; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || { echo "1..0 # SKIP python3 is older than 3.9"; exit 0; }
for program in chromium chromedriver; do
    command -v $program >/dev/null || { echo "1..0 # SKIP $program is missing: install chromium and chromium-driver"; exit 0; }
done
"$python" -c 'import selenium' 2>/dev/null ||
    { echo "1..0 # SKIP selenium is missing: install it with pip, and name that python in WEIR_PAGE_PYTHON"; exit 0; }
PYTHONPATH="$top_srcdir/tests/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 \
    exec "$python" "$top_srcdir/tests/tools/page_browser_test.py" "$top_builddir"
