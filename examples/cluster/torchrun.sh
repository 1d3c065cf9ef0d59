#!/bin/sh
# SPDX-License-Identifier: MIT
# torchrun.sh - starts the ranks of a PyTorch program on this machine, each with pools on its own GPU: torchrun sets LOCAL_RANK.
#
#     ./torchrun.sh 4 train.py --epochs 90
#
# Limits of MPS and HAMi count. Without them, WEIR_QUOTA=50% ./torchrun.sh … tells Weir that the job has half of each GPU.
set -eu
usage='usage: torchrun.sh RANKS PROGRAM [ARGUMENT]...'
ranks=${1:?$usage}
: "${2:?$usage}"
shift
here=$(cd "$(dirname "$0")" && pwd)
exec weir run --policy="$here/policy.yaml" -- torchrun --nproc-per-node="$ranks" "$@"
