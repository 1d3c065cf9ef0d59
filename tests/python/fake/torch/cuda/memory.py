# SPDX-License-Identifier: MIT
"""A stand-in for torch.cuda.memory, which remembers what it is told, and answers as torch does for pluggable allocators."""

import torch

__all__ = [
    "change_current_allocator",
    "empty_cache",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
]

HOOKS = (
    "set_init_fn",
    "set_reset_fn",
    "set_memory_fraction_fn",
    "set_base_alloc_fn",
    "set_record_stream_fn",
    "set_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn",
    "set_release_pool",
)
class Raw:
    """What torch._C has of an allocator."""

    def __init__(self, malloc, free):
        self.malloc, self.free, self.hooks = malloc, free, {}
        for name in HOOKS:
            setattr(self, name, lambda address, name=name: self.hooks.__setitem__(name, address))


class _CUDAAllocator:
    def __init__(self, allocator):
        self._allocator = allocator

    def allocator(self):
        return self._allocator


class CUDAPluggableAllocator(_CUDAAllocator):
    def __init__(self, path, malloc, free):
        self.path = path
        super().__init__(Raw(malloc, free))


def change_current_allocator(allocator):
    torch._C._cuda_changeCurrentAllocator(allocator.allocator())


def _not_supported(name):
    def function(*_, **__):
        raise RuntimeError("CUDAPluggableAllocator does not yet support %s" % name)

    function.__name__ = name
    return function


# The device's, which no allocator is asked for.
def mem_get_info(device=None):
    return (700, 801 if str(device) in ("1", "cuda:1") else 800)


for _name in __all__[1:]:
    globals()[_name] = _not_supported(_name)
