#!/bin/sh
# SPDX-License-Identifier: MIT
# Traces in the formats of other tools, as these read them. With perfetto's, where this Python has the package.
# shellcheck source=tests/python/python.sh
. "${top_srcdir:-.}/tests/python/python.sh"
# Of torch the real one is asked, if any.
PYTHONPATH=$WEIR_PYTHON_DIR
"${WEIR_TORCH_PYTHON:-python3}" -c 'import numpy' 2>/dev/null || no_python "numpy is missing: pip install numpy"
"${WEIR_TORCH_PYTHON:-python3}" "$top_srcdir/tests/tools/export_test.py" "$top_builddir"
