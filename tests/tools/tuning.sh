#!/bin/sh
# SPDX-License-Identifier: MIT
# doc/tuning.md says what the commands print.
: "${top_srcdir:=.}" "${top_builddir:=.}"
command -v python3 >/dev/null || { echo "1..0 # SKIP python3 is missing: install it"; exit 0; }
grep -q 'define HAVE_ZSTD 1' "$top_builddir/config.h" || { echo "1..0 # SKIP built without libzstd, which packs the shipped trace"; exit 0; }
PYTHONDONTWRITEBYTECODE=1 exec python3 "$top_srcdir/tests/tools/tuning.py" "$top_srcdir" "$top_builddir"
