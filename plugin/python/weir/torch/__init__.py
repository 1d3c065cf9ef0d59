# SPDX-License-Identifier: MIT
"""
Weir as the allocator of PyTorch.

    import weir.torch
    weir.torch.enable("policy.yaml")    # before the first CUDA call

From then on torch's tensors on GPUs live in the pools of that policy. The functions below that torch.cuda has as well
answer with Weir's figures; enable(patch=True) puts them in the place of torch's, so that programs which know nothing of
Weir see them.
"""

from weir.torch import _memory
from weir.torch._enable import State, enable, mem_pool_allocator, state
from weir.torch._marks import mark, pool, tag
from weir.torch._memory import *
from weir.torch._sleep import is_asleep, sleep, wake, yield_pool, yielded
from weir.torch._summary import memory_summary
from weir.torch._watch import Watch, watch

__all__ = ["State", "Watch", "enable", "mark", "mem_pool_allocator", "memory_summary", "pool", "state", "tag", "watch"]
__all__ += ["is_asleep", "sleep", "wake", "yield_pool", "yielded"]
__all__ += _memory.__all__
