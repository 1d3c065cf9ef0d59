# SPDX-License-Identifier: MIT
"""A piece of shared memory with a type and a shape, which other libraries take without copying it."""

import ctypes
import functools
from typing import Any, Dict, Optional, Tuple

from weir._errors import Status, WeirError
from weir.share import _native
from weir.share._layout import Layout, bytes_of
from weir.share._native import Held, Hold, Tensor, hold

CPU, CUDA = 1, 2  # kDLCPU, kDLCUDA
_READ_ONLY, _IS_COPIED = 1, 2
_LEGACY, _PER_THREAD = 1, 2


def stream_of(stream: Any) -> int:
    """The handle of a stream: an int, a stream of torch's or CuPy's, or None for the legacy stream."""
    if stream is None:
        return 0
    for name in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    return int(stream)


@functools.lru_cache(maxsize=256)
def _tensor(what: Layout, device: Tuple[int, int]) -> Tensor:
    dimensions, dtype = len(what.shape), what.dtype
    numbers = ctypes.c_int64 * dimensions
    return Tensor(*device, dimensions, dtype.code, dtype.bits, numbers(*what.shape), numbers(*what.strides))


class Array:
    """
    Speaks DLPack and __cuda_array_interface__; on the simulator, whose memory is the host's, __array_interface__.

    It keeps what it is of, and so does every tensor that is made of it. The memory is given back in the order of the
    streams that the consumers named, once the array and all its tensors are gone.
    """

    def __init__(self, hold: Hold, ptr: int, device: int, home: int, what: Layout, writable: bool) -> None:
        self._hold = hold
        self._ptr = ptr + what.offset * what.dtype.size
        self._device = device
        self._home = home
        self._layout = what
        self._writable = writable
        self._is_simulated = _native.is_simulated()

    @property
    def shape(self) -> Tuple[int, ...]:
        return self._layout.shape

    @property
    def dtype(self) -> str:
        return self._layout.dtype.name

    @property
    def strides(self) -> Tuple[int, ...]:
        """In elements."""
        return self._layout.strides

    @property
    def nbytes(self) -> int:
        return bytes_of(self._layout.dtype, self._layout.shape)

    @property
    def writable(self) -> bool:
        return self._writable

    def __repr__(self) -> str:
        return f"<weir.share.Array {self.dtype} {self.shape} at {self._ptr:#x}>"

    # DLPack

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (CPU, 0) if self._is_simulated else (CUDA, self._device)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        if dl_device is not None and (int(dl_device[0]), int(dl_device[1])) != self.__dlpack_device__():
            raise BufferError(
                f"the memory is on device {self.__dlpack_device__()}, and is not copied to {tuple(dl_device)}: take it here, and copy that"
            )
        is_versioned = max_version is not None and max_version[0] >= 1
        if copy and not self._is_simulated:
            raise BufferError("a copy on the GPU is the consumer's to make: torch.from_dlpack(frame).clone(), cupy.from_dlpack(frame).copy()")
        if not self._writable and not copy and not is_versioned:
            raise BufferError(
                "the memory is read-only, which DLPack before 1.0 cannot express: use a newer consumer, or array(writable=True) "
                "and do not write to it"
            )
        if self._is_simulated:
            if stream is not None:
                raise BufferError(f"stream={stream!r}: the memory is the host's, which has no streams")
            self._finish()
        else:
            self._order(stream)
        if copy:
            return self._copied(is_versioned)
        tensor = _tensor(self._layout, self.__dlpack_device__())
        return _native.new_capsule(self._hold.ptr, self._ptr, tensor, is_versioned, 0 if self._writable else _READ_ONLY)

    def _finish(self) -> None:
        error = _native.error_of_thread()
        _native.check(_native.load().weir_torch_hold_finish(self._hold.ptr, error), error)

    def _order(self, stream: Any) -> None:
        """The consumer's stream waits for ours. Of one that says -1 we know nothing."""
        consumer = _LEGACY if stream is None else int(stream)
        if consumer == -1:
            return
        if consumer == 0 or consumer < -1:
            raise BufferError(f"stream={stream!r} is ambiguous: 1 is the legacy stream, 2 that of the thread, -1 none")
        error = _native.error_of_thread()
        _native.check(_native.load().weir_torch_hold_use(self._hold.ptr, consumer, 1, error), error)

    def _copied(self, is_versioned: bool) -> Any:
        """Of the host's memory, from the first element to the last."""
        what = self._layout
        count = 0 if 0 in what.shape else 1 + sum((extent - 1) * step for extent, step in zip(what.shape, what.strides))
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        memory = libc.malloc(max(count * what.dtype.size, 1))
        if not memory:
            raise MemoryError(f"no host memory to copy {count} elements")
        ctypes.memmove(memory, self._ptr, count * what.dtype.size)
        try:
            copied = hold(Held.MEMORY, ctypes.c_void_p(memory), None, 0)
        except MemoryError:
            libc.free(ctypes.c_void_p(memory))
            raise
        return _native.new_capsule(copied.ptr, memory, _tensor(what, (CPU, 0)), is_versioned, _IS_COPIED)

    # The interfaces of NumPy and CUDA

    def _interface(self) -> Dict[str, Any]:
        what = self._layout
        if what.dtype.typestr is None:
            raise AttributeError(f"{self.dtype} is unknown to array interfaces: use DLPack")
        return {
            "shape": what.shape,
            "typestr": what.dtype.typestr,
            "data": (0 if 0 in what.shape else self._ptr, not self._writable),
            "strides": tuple(step * what.dtype.size for step in what.strides),
            "version": 3,
        }

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        if self._is_simulated:
            raise AttributeError("the memory is the simulator's: use __array_interface__ or DLPack")
        return {**self._interface(), "stream": self._home or _LEGACY}

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        if not self._is_simulated:
            raise AttributeError("the memory is on the GPU: use __cuda_array_interface__ or DLPack")
        self._finish()
        return self._interface()


class Shared:
    """
    What has memory of an array: a lease, a slot or a block. It speaks what its array does. An interface without a
    deleter is of an array that this object keeps, so its memory stays for as long as a consumer has this object.
    """

    _hold: Optional[Hold]  # None: it was given back
    _ptr: int
    _device: int
    _home: int
    _lent: Optional[Array] = None

    def _make(self, what: Layout, writable: bool) -> Array:
        hold = self._hold
        if hold is None:
            raise WeirError(Status.INVALID, "the memory was given back already: make arrays before that")
        return Array(hold, self._ptr, self._device, self._home, what, writable)

    def _view(self) -> Array:
        raise NotImplementedError

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (CPU, 0) if _native.is_simulated() else (CUDA, self._device)

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._view().__dlpack__(**arguments)

    def _lend(self) -> Array:
        """What it is now, or was when it was given back."""
        if self._hold is not None or self._lent is None:
            self._lent = self._view()
        return self._lent

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        return self._lend().__cuda_array_interface__

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        return self._lend().__array_interface__
