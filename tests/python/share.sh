#!/bin/sh
# SPDX-License-Identifier: MIT
# weir.share on the simulator: processes that share frames and blocks, and what becomes of tensors. With NumPy where this Python has it.
# shellcheck source=tests/python/python.sh
. "${top_srcdir:-.}/tests/python/python.sh"
needs_simulator
# A stand-in for torch has nothing to share.
PYTHONPATH=$WEIR_PYTHON_DIR:$src/tests/python
"${WEIR_TORCH_PYTHON:-python3}" "$top_srcdir/tests/python/share_test.py"
