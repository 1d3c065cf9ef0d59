# SPDX-License-Identifier: MIT
# The programs that compare.py measures, small, on the processor: each needs the torch that $WEIR_TORCH_PYTHON (else python3) has.
# shellcheck shell=sh
: "${top_srcdir:?is set by make check}"
python=${WEIR_TORCH_PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null || { echo "1..0 # SKIP $python has no torch: name one that has in WEIR_TORCH_PYTHON"; exit 0; }
PYTHONDONTWRITEBYTECODE=1 CUDA_VISIBLE_DEVICES='' exec "$python" "$top_srcdir/tests/bench/programs_test.py"
