#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir record --any`: programs that know nothing of Weir, on a driver of our own.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
have_python || skip_all "no python3"
exec python3 -S "$top_srcdir/tests/audit/audit_test.py" "$top_srcdir" "${weir%/tools/weir}"
