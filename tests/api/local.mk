## SPDX-License-Identifier: MIT
## libweir through weir.h, on the simulator or, with WEIR_TEST_GPU=cuda, on a GPU.
include tests/api/pools.mk
include tests/api/recovery.mk
include tests/api/cache.mk
