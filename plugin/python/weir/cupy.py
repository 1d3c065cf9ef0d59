# SPDX-License-Identifier: MIT
"""
Weir as the allocator of CuPy.

    import cupy, weir.cupy
    cupy.cuda.set_allocator(weir.cupy.allocator("policy.yaml"))

Arrays come from the pools of the policy, on the current stream of CuPy, and go back in the order of that stream. The
default stream and the first 32 of CuPy's streams that allocate on a device have caches.
"""

import ctypes
import os
from typing import Any, Callable, Dict, Optional, Set, Union

from weir import _library
from weir._errors import Status, WeirError
from weir._library import Library

__all__ = ["allocator"]

_PER_THREAD = 2  # cudaStreamPerThread
_OPENED_MOST = 32  # of each device


# The streams of CuPy's that Weir has opened, by device: they have caches, and live until the process ends, since nobody
# would tell Weir before CuPy destroyed one. So there are only so many, the first ones that allocate. Without a lock, as
# the collector of garbage may allocate in the midst of it: threads that come at once may open one more each.
_opened: Dict[int, Set[int]] = {}


def _is_opened(library: Library, stream: Any, device: int) -> bool:
    """Whether that stream of CuPy's is one of them, from now on if there is room."""
    opened = _opened.setdefault(device, set())
    if id(stream) in opened:
        return True
    if stream.ptr <= _PER_THREAD or getattr(stream, "device_id", -1) != device or len(opened) >= _OPENED_MOST:
        return False
    # No object of ours has it: at the end of the interpreter that might go before the last arrays.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))
    library.stream_lives(device, stream.ptr)
    opened.add(id(stream))
    return True


class _Block:
    """What an array owns."""

    # The streams of live blocks that CuPy made, by the block's id. CuPy destroys them once nobody has them. They stand
    # here and not in the block, since the collector of garbage may take a stream apart before the block that has it.
    streams: Dict[int, Any] = {}

    def __init__(
        self, library: Library, ptr: int, size: int, device: int, stream: Any, is_cupys: bool, keeps_stream: bool
    ) -> None:
        self.library = library
        self.ptr = ptr
        self.size = size
        self.device = device
        # Whatever thread comes to drop an array last: its own per-thread stream knows nothing of the array's. The
        # legacy stream comes behind those of all threads.
        self.stream = 0 if stream.ptr == _PER_THREAD else stream.ptr
        self.is_alive = is_cupys or not self.stream
        if keeps_stream:
            self.streams[id(self)] = stream

    def __del__(self) -> None:
        if self.ptr:
            self.library.free(self.ptr, self.size, self.device, self.stream, self.is_alive)
        self.streams.pop(id(self), None)


def allocator(
    policy: Union[str, "os.PathLike[str]", None] = None, *, policy_text: Optional[str] = None, gpu: Optional[str] = None
) -> Callable[[int], Any]:
    """
    The function for cupy.cuda.set_allocator().

    policy, policy_text, gpu: as for weir.torch.enable(); a process that uses both has one policy for both. Raises
    weir.WeirError. What it allocates is a cupy.cuda.MemoryPointer; without memory it raises
    cupy.cuda.memory.OutOfMemoryError, and WeirError for other reasons.
    """
    import cupy

    library = _library.configure(policy, policy_text, gpu)

    def allocate(size: int) -> Any:
        device = cupy.cuda.runtime.getDevice()
        stream = cupy.cuda.get_current_stream()
        is_cupys = isinstance(stream, cupy.cuda.Stream)
        is_opened = is_cupys and _is_opened(library, stream, device)
        try:
            ptr = library.malloc(size, device, stream.ptr)
        except WeirError as error:
            if error.status != Status.OUT_OF_MEMORY:
                raise
            total = library.stats(device).allocated
            raise cupy.cuda.memory.OutOfMemoryError(size, total) from error
        block = _Block(library, ptr, size, device, stream, is_cupys, is_cupys and not is_opened)
        memory = cupy.cuda.UnownedMemory(ptr, size, block, device)
        return cupy.cuda.MemoryPointer(memory, 0)

    return allocate
