# SPDX-License-Identifier: MIT
"""A stand-in for torch._C: its allocator, and the settings that it was told of while the program ran."""

is_used = False
current = None
told = []


def _cuda_changeCurrentAllocator(allocator):
    global current
    if is_used:
        raise RuntimeError("Can't swap an already initialized allocator")
    current = allocator


def _accelerator_setAllocatorSettings(text):
    told.append(text)
