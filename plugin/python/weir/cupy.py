# SPDX-License-Identifier: MIT
"""
Weir as the allocator of CuPy.

    import cupy, weir.cupy
    cupy.cuda.set_allocator(weir.cupy.allocator("policy.yaml"))

Arrays come from the pools of the policy, on the current stream of CuPy, and go back in the order of that stream.
"""

import collections
import os
from typing import Any, Callable, Deque, Dict, Optional, Union

from weir import _library
from weir._errors import Status, WeirError
from weir._library import Library

__all__ = ["allocator"]

_PER_THREAD = 2  # cudaStreamPerThread

# Blocks that could not be freed where a stream was being captured; each is freed with the next allocation after that.
_deferred: Deque["_Block"] = collections.deque()


class _Block:
    """What an array owns. The stream is kept with it, since CuPy destroys a stream once nobody has it."""

    def __init__(self, library: Library, weir: int, ptr: int, stream: Any) -> None:
        self.library = library
        self.weir = weir
        self.ptr = ptr
        self.stream = stream

    def free(self) -> bool:
        """False: not now, since something captures."""
        # Whatever thread comes to drop an array last: its own per-thread stream knows nothing of the array's. The
        # legacy stream comes behind those of all threads.
        stream = 0 if self.stream.ptr == _PER_THREAD else self.stream.ptr
        return self.library.free(self.weir, self.ptr, stream) != Status.CAPTURING

    def __del__(self) -> None:
        if self.ptr and not self.free():
            _deferred.append(_Block(self.library, self.weir, self.ptr, self.stream))
            self.ptr = 0


def _free_deferred() -> None:
    for _ in range(len(_deferred)):
        try:
            # Its __del__ frees it, or puts another in its place.
            _deferred.popleft()
        except IndexError:
            break  # another thread was faster


def allocator(
    policy: Union[str, "os.PathLike[str]", None] = None, *, policy_text: Optional[str] = None
) -> Callable[[int], Any]:
    """
    The function for cupy.cuda.set_allocator().

    policy, policy_text: as for weir.torch.enable(); a process that uses both has one policy for both. Raises
    weir.WeirError. What it allocates is a cupy.cuda.MemoryPointer; without memory it raises
    cupy.cuda.memory.OutOfMemoryError, and WeirError for other reasons.
    """
    import cupy

    library = _library.configure(policy, policy_text)
    weirs: Dict[int, int] = {}

    def allocate(size: int) -> Any:
        device = cupy.cuda.runtime.getDevice()
        stream = cupy.cuda.get_current_stream()
        weir = weirs.get(device) or weirs.setdefault(device, library.get(device))
        _free_deferred()
        try:
            ptr = library.malloc(weir, size, device, stream.ptr)
        except WeirError as error:
            if error.status != Status.OUT_OF_MEMORY:
                raise
            total = library.stats(device).allocated
            raise cupy.cuda.memory.OutOfMemoryError(size, total) from error
        block = _Block(library, weir, ptr, stream)
        memory = cupy.cuda.UnownedMemory(ptr, size, block, device)
        return cupy.cuda.MemoryPointer(memory, 0)

    return allocate
