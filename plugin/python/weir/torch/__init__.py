# SPDX-License-Identifier: MIT
"""
Weir as the allocator of PyTorch.

    import weir.torch
    weir.torch.enable("policy.yaml")    # before the first CUDA call

From then on torch's tensors on GPUs live in the pools of that policy. The functions below that torch.cuda has as well
answer with Weir's figures; enable(patch=True) puts them in the place of torch's, so that programs which know nothing of
Weir see them.
"""

from weir.torch._enable import State, enable, mem_pool_allocator, state
from weir.torch._memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    report,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
)
from weir.torch._summary import memory_summary

__all__ = [
    "State",
    "empty_cache",
    "enable",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_pool_allocator",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "report",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "state",
]
