# SPDX-License-Identifier: MIT
"""The side that has the memory."""

import ctypes
import os
import weakref
from types import TracebackType
from typing import Any, Dict, Optional, Sequence, Tuple, Type, Union

from weir._errors import Status, WeirError
from weir._library import Error
from weir.share import _native
from weir.share._array import Array, Shared, stream_of
from weir.share._layout import Layout, bytes_of, dtype_of, layout, write_metadata
from weir.share._native import Handle, Held, Hold

_OVERFLOW = {"block": 0, "drop_oldest": 1, "fail": 2}


class Slot(Shared):
    """
    The next frame, to be written: by `with`, which pushes it at its end, and drops it where that is an exception. Do not
    write to its arrays and tensors afterwards.
    """

    def __init__(self, ring: "Ring", ptr: int, home: int) -> None:
        self._ring = ring
        self._ptr = ptr
        self._home = home
        self._device = ring._exporter.device
        self._what: Optional[Layout] = None
        self._is_open = True
        self.metadata = b""  # the program's own
        self._hold = Hold(Held.SLOT, ptr, ring._exporter._weir, self._device, home, 0, ring._hold)

    def array(self, shape: Sequence[int], dtype: Any = "uint8") -> Array:
        """What readers shall see: its type and shape go with the frame."""
        self._what = layout(self._ring.slot_size, shape, dtype)
        return self._make(self._what, True)

    def _view(self) -> Array:
        return self.array([self._ring.slot_size]) if self._what is None else self._make(self._what, True)

    def _end(self, stream: Any) -> "Tuple[int, Error]":
        """The stream at which the slot is done with."""
        if not self._is_open:
            raise WeirError(Status.INVALID, "the slot was pushed or dropped already")
        home, error = self._home if stream is None else stream_of(stream), _native.error_of_thread()
        _native.check(_native.load().weir_torch_hold_join(self._hold.ptr, home, ctypes.byref(error)), error)
        return home, error

    def push(self, *, size: Optional[int] = None, stream: Any = None) -> None:
        """Publishes it, behind what is on the streams that it was used on. size: bytes; None: those of the array, or all."""
        metadata = write_metadata(self._what, bytes(self.metadata))
        wanted = size if size is not None else bytes_of(self._what.dtype, self._what.shape) if self._what else 0
        with self._ring._handle as ring:
            home, error = self._end(stream)
            status = _native.load().weir_ring_push(
                ring, self._ptr, wanted, metadata, len(metadata), home, ctypes.byref(error)
            )
            _native.check(status, error)
            self._is_open = False
        self._hold.drop()

    def drop(self, *, stream: Any = None) -> None:
        """Gives it back without a frame."""
        with self._ring._handle as ring:
            home, error = self._end(stream)
            _native.check(_native.load().weir_ring_drop(ring, self._ptr, home, ctypes.byref(error)), error)
            self._is_open = False
        self._hold.drop()

    def __del__(self) -> None:
        # Of one that nobody ended; that of a ring which is closed went with it.
        if getattr(self, "_is_open", False) and self._hold.ptr is not None:
            try:
                self.drop()
            except WeirError:
                pass

    def __enter__(self) -> "Slot":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._is_open:
            self.push() if kind is None else self.drop()


class Ring:
    """Frames that readers get in order. Closed by close(), `with`, or its exporter."""

    _hold: Hold
    _handle: Handle

    def __init__(self, exporter: "Exporter", name: str, slot_size: int, depth: int, overflow: str, stream: Any) -> None:
        if overflow not in _OVERFLOW:
            raise WeirError(Status.INVALID, f"overflow is {overflow!r}: use one of {', '.join(_OVERFLOW)}")
        self.name, self.slot_size, self._exporter = name, slot_size, exporter
        options = _native.RingOptions(ctypes.sizeof(_native.RingOptions), slot_size, depth, _OVERFLOW[overflow])
        error, opened, c = _native.error_of_thread(), ctypes.c_void_p(), _native.load()
        home = stream_of(stream)
        with exporter._handle as export:
            status = c.weir_ring_open(
                export, name.encode(), ctypes.byref(options), home, ctypes.byref(error), ctypes.byref(opened)
            )
            _native.check(status, error)
            self._hold = Hold(Held.RING, opened, exporter._weir, exporter.device, 0, 0, exporter._hold)
        self._handle = Handle(opened, f"ring {name!r}", lambda thing: self._hold.drop())
        exporter._rings.add(self)

    def take(self, timeout: Optional[float] = None, *, stream: Any = None) -> Slot:
        """A free slot. timeout: seconds to wait for readers, where overflow is "block"; None: no limit."""
        error, taken, home = _native.error_of_thread(), ctypes.c_void_p(), stream_of(stream)
        limit = _native.milliseconds(timeout)
        with self._handle as ring:
            status = _native.load().weir_ring_take(ring, limit, home, ctypes.byref(error), ctypes.byref(taken))
            _native.check(status, error)
            assert taken.value is not None
            return Slot(self, taken.value, home)

    @property
    def readers(self) -> int:
        with self._handle as ring:
            return int(_native.load().weir_ring_readers(ring))

    def close(self) -> None:
        """Ends it for readers, once no array or tensor of its slots is left."""
        self._handle.close()

    def __enter__(self) -> "Ring":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


class Block(Shared):
    """Memory of the exported pool, to be filled and then published under a name: by publish(), or `with`, which drops it
    where that ends with an exception."""

    def __init__(self, exporter: "Exporter", name: str, shape: Sequence[int], dtype: Any, stream: Any) -> None:
        self.name, self._exporter, self._home, self._device = name, exporter, stream_of(stream), exporter.device
        kind = dtype_of(dtype)
        self._size = bytes_of(kind, [int(extent) for extent in shape])
        if self._size <= 0:
            raise WeirError(Status.INVALID, f"shape {tuple(shape)} has no elements: a block has at least one")
        self._what = layout(self._size, shape, dtype)
        self.metadata = b""
        ptr, c = ctypes.c_void_p(), _native.load()
        status = c.weir_pool_malloc(exporter._pool, ctypes.byref(ptr), self._size, self._home)
        if status:
            error = _native.error_of_thread()
            c.weir_last_error(ctypes.byref(error))
            error.throw(status)
        assert ptr.value is not None
        self._ptr = ptr.value
        self._is_open = True
        self._hold = Hold(Held.SLOT, ptr, exporter._weir, self._device, self._home, 0, exporter._hold)

    def _view(self) -> Array:
        return self._make(self._what, True)

    def array(self) -> Array:
        return self._view()

    def publish(self) -> None:
        """From now on it is the exporter's, and only to be read."""
        if not self._is_open:
            raise WeirError(Status.INVALID, f"block {self.name!r} was published or freed already")
        metadata, error, c = write_metadata(self._what, bytes(self.metadata)), _native.error_of_thread(), _native.load()
        _native.check(c.weir_torch_hold_join(self._hold.ptr, self._home, ctypes.byref(error)), error)
        with self._exporter._handle as export:
            status = c.weir_export_publish(
                export, self.name.encode(), self._ptr, self._size, metadata, len(metadata), self._home, ctypes.byref(error)
            )
        _native.check(status, error)
        self._is_open = False
        self._hold.drop()

    def free(self) -> None:
        """Without publishing it. No tensor of it may be used any more."""
        if self._is_open and self._hold.ptr is not None:
            error, c = _native.error_of_thread(), _native.load()
            _native.check(c.weir_torch_hold_join(self._hold.ptr, self._home, ctypes.byref(error)), error)
            _native.check(c.weir_free(self._exporter._weir, self._ptr, self._home), error)
            self._is_open = False
            self._hold.drop()

    def __enter__(self) -> "Block":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._is_open:
            self.publish() if kind is None else self.free()


class Exporter:
    """
    Shares a pool of the policy, one that has `share.socket`. policy: a file; policy_text: the YAML itself; both None: the
    usual search. close_timeout: seconds that close() waits for readers to get what is queued.
    """

    def __init__(
        self,
        pool: str,
        device: int = 0,
        *,
        policy: Union[str, "os.PathLike[str]", None] = None,
        policy_text: Optional[str] = None,
        close_timeout: float = 5.0,
    ) -> None:
        self.device = device
        timeout_ms = _native.milliseconds(close_timeout)
        self._weir = _native.open_weir(policy, policy_text)
        c, error, opened = _native.load(), _native.error_of_thread(), ctypes.c_void_p()
        self._pool = ctypes.c_void_p()
        status = c.weir_pool_get(self._weir, pool.encode(), device, ctypes.byref(error), ctypes.byref(self._pool))
        status = status or c.weir_export_open(self._pool, ctypes.byref(error), ctypes.byref(opened))
        if status:
            c.weir_close(self._weir)
            error.throw(status)
        self._rings: "weakref.WeakSet[Ring]" = weakref.WeakSet()
        self._hold = Hold(Held.EXPORT, opened, self._weir, device, 0, timeout_ms)
        self._handle = Handle(opened, "the exporter", lambda thing: self._hold.drop())

    def ring(self, name: str, slot_size: int, depth: int = 4, overflow: str = "block", *, stream: Any = None) -> Ring:
        """Frames of up to slot_size bytes in so many slots."""
        return Ring(self, name, slot_size, depth, overflow, stream)

    def block(self, name: str, shape: Sequence[int], dtype: Any, *, stream: Any = None) -> Block:
        with self._handle:
            return Block(self, name, shape, dtype, stream)

    def withdraw(self, name: str) -> None:
        """The block goes once nobody has it. Arrays and tensors of it in this process must not be used any more."""
        error = _native.error_of_thread()
        with self._handle as export:
            _native.check(_native.load().weir_export_withdraw(export, name.encode(), ctypes.byref(error)), error)

    def evict(self, pid: int) -> None:
        error = _native.error_of_thread()
        with self._handle as export:
            _native.check(_native.load().weir_export_evict(export, pid, ctypes.byref(error)), error)

    def info(self) -> Dict[str, int]:
        """The figures of weir_export_info, by their names there."""
        info = _native.ExportInfo(ctypes.sizeof(_native.ExportInfo))
        with self._handle as export:
            status = _native.load().weir_export_get_info(export, ctypes.byref(info))
        if status:
            raise WeirError(Status(status), "the exporter cannot be asked: " + Status(status).name.lower())
        return {field[0]: getattr(info, field[0]) for field in info._fields_[1:]}

    def close(self) -> None:
        """Once no ring, slot, array or tensor of it is left; those that are go on."""
        for ring in list(self._rings):
            ring.close()
        self._handle.close()

    def __enter__(self) -> "Exporter":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()
