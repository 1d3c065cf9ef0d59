# SPDX-License-Identifier: MIT
"""A stand-in for CuPy: streams, and what arrays own."""

from types import SimpleNamespace


class ExternalStream:
    """A stream that somebody else made, and destroys."""

    def __init__(self, ptr):
        self.ptr = ptr


class Stream:
    """A stream of CuPy's own, which destroys it once nobody has it."""

    def __init__(self, ptr, destroy=None, device_id=0):
        self.ptr, self.destroy, self.device_id = ptr, destroy, device_id

    def __del__(self):
        if self.destroy:
            self.destroy(self.ptr)


class UnownedMemory:
    def __init__(self, ptr, size, owner, device_id=-1):
        assert device_id >= 0
        self.ptr, self.size, self.device_id = ptr, size, device_id
        self._owner = owner


class MemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset


class OutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        super().__init__("Out of memory allocating %d bytes (allocated so far: %d bytes)." % (size, total))


device = 0
stream = Stream(0)
cuda = SimpleNamespace(
    ExternalStream=ExternalStream,
    MemoryPointer=MemoryPointer,
    Stream=Stream,
    UnownedMemory=UnownedMemory,
    get_current_stream=lambda: stream,
    memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    set_allocator=lambda allocator: None,
    runtime=SimpleNamespace(getDevice=lambda: device),
)
