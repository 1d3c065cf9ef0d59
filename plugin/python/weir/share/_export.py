# SPDX-License-Identifier: MIT
"""The side that has the memory."""

import ctypes
import os
import weakref
from types import TracebackType
from typing import Any, Dict, Optional, Sequence, Type, Union

from weir._errors import Status, WeirError
from weir._library import encoded
from weir.share import _native
from weir.share._array import Array, Shared, stream_of
from weir.share._layout import Layout, bytes_of, dtype_of, layout, write_metadata
from weir.share._native import Held, Hold, close_all, closed, hold

_OVERFLOW = {"block": 0, "drop_oldest": 1, "fail": 2}
_LATE = {None: 0, "next": 1, "newest": 2}


class Slot(Shared):
    """
    The next frame, to be written: by `with`, which pushes it at its end, and drops it where that is an exception. Do not
    write to its arrays and tensors afterwards.
    """

    def __init__(self, slot_size: int, hold: Hold, ptr: int, device: int, home: int) -> None:
        self._hold = hold
        self._ptr = ptr
        self._device = device
        self._home = home
        self._size = slot_size
        self._what: Optional[Layout] = None
        self.metadata = b""  # the program's own

    def array(self, shape: Sequence[int], dtype: Any = "uint8") -> Array:
        """What readers shall see: its type and shape go with the frame."""
        self._what = layout(self._size, shape, dtype)
        return self._make(self._what, True)

    def _view(self) -> Array:
        return self.array([self._size]) if self._what is None else self._make(self._what, True)

    def _held(self) -> Hold:
        hold = self._hold
        if hold is None:
            raise WeirError(Status.INVALID, "the slot was pushed or dropped already")
        return hold

    def push(self, *, size: Optional[int] = None, stream: Any = None) -> None:
        """
        Publishes it, behind what is on the streams that it was used on. size: bytes; None: those of the array, or all. An array
        without elements makes an empty frame, as 0 does.
        """
        metadata = write_metadata(self._what, bytes(self.metadata))
        if size is None:
            size = bytes_of(self._what.dtype, self._what.shape) if self._what else self._size
        if not 0 <= size <= self._size:
            raise WeirError(Status.INVALID, f"size is {size}: the slot has {self._size} bytes")
        wanted = size or _native.EMPTY
        slot, home, error = self._held(), self._home if stream is None else stream_of(stream), _native.error_of_thread()
        _native.check(_native.load().weir_torch_slot_push(slot.ptr, wanted, metadata, len(metadata), home, error), error)
        self._hold = None

    def drop(self, *, stream: Any = None) -> None:
        """Gives it back without a frame. Its tensors must not be used any more."""
        slot, home, error = self._held(), self._home if stream is None else stream_of(stream), _native.error_of_thread()
        _native.check(_native.load().weir_torch_hold_discard(slot.ptr, home, error), error)
        self._hold = None

    def __enter__(self) -> "Slot":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._hold is not None:
            self.push() if kind is None else self.drop()


class Ring:
    """Frames that readers get in order. Closed by close(), `with`, or its exporter."""

    def __init__(
        self, exporter: "Exporter", name: str, slot_size: int, depth: int, overflow: str, late: Optional[str], stream: Any
    ) -> None:
        if overflow not in _OVERFLOW:
            raise WeirError(Status.INVALID, f"overflow is {overflow!r}: use one of {', '.join(_OVERFLOW)}")
        if late not in _LATE:
            raise WeirError(Status.INVALID, f"late is {late!r}: use 'newest', 'next' or None")
        self.name, self.slot_size, self._device = name, slot_size, exporter.device
        options = _native.RingOptions(ctypes.sizeof(_native.RingOptions), slot_size, depth, _OVERFLOW[overflow], _LATE[late])
        self._waits = overflow == "block"
        error, opened, c = _native.error_of_thread(), ctypes.c_void_p(), _native.load()
        export = exporter._held()
        _native.check(c.weir_ring_open(export.thing, encoded(name), options, stream_of(stream), error, opened), error)
        self._hold: Optional[Hold] = hold(Held.RING, opened, exporter._weir, exporter.device, parent=export)
        exporter._rings[id(self)] = self

    def _held(self) -> Hold:
        return self._hold or closed("ring", self.name)

    def take(self, timeout: Optional[float] = None, *, stream: Any = None) -> Slot:
        """A free slot. timeout: seconds to wait for readers, where overflow is "block"; None: no limit."""
        ring, home, error = self._held(), stream_of(stream), _native.error_of_thread()
        slot, ptr, c = Hold(), ctypes.c_void_p(), _native.load()

        def take(limit: int) -> int:
            # Readers count as hung once the whole time is up, not at the end of each piece.
            if self._waits and limit == _native.UNINTERRUPTED:
                status = int(c.weir_ring_wait(ring.thing, limit, error))
                if status:
                    return status
                limit = 0
            return int(c.weir_torch_slot_take(ring.ptr, limit, home, error, slot.ptr, ptr))

        _native.check(_native.wait_in_pieces(timeout, error, take), error)
        assert ptr.value is not None
        return Slot(self.slot_size, slot, ptr.value, self._device, home)

    @property
    def readers(self) -> int:
        ring = self._held()
        return int(_native.load().weir_ring_readers(ring.thing))

    def close(self) -> None:
        """Ends it for readers, once no array or tensor of its slots is left; warns where some are."""
        ring, self._hold = self._hold, None
        _native.let_go(ring, f"ring {self.name!r}")

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
        export, ptr, c = exporter._held(), ctypes.c_void_p(), _native.load()
        status = c.weir_pool_malloc(exporter._pool, ptr, self._size, self._home)
        if status:
            error = _native.error_of_thread()
            c.weir_last_error(error)
            error.throw(status)
        assert ptr.value is not None
        self._ptr = ptr.value
        self._hold = hold(Held.BLOCK, ptr, exporter._weir, self._device, self._home, parent=export)

    def _view(self) -> Array:
        return self._make(self._what, True)

    def array(self) -> Array:
        return self._view()

    def publish(self) -> None:
        """From now on it is the exporter's, and only to be read."""
        block, metadata, error = self._hold, write_metadata(self._what, bytes(self.metadata)), _native.error_of_thread()
        if block is None:
            raise WeirError(Status.INVALID, f"block {self.name!r} was published or freed already")
        self._exporter._held()
        status = _native.load().weir_torch_block_publish(
            block.ptr, encoded(self.name), self._size, metadata, len(metadata), error
        )
        _native.check(status, error)
        self._hold = None

    def free(self) -> None:
        """Without publishing it. No tensor of it may be used any more."""
        block, error = self._hold, _native.error_of_thread()
        if block is not None:
            _native.check(_native.load().weir_torch_hold_discard(block.ptr, self._home, error), error)
            self._hold = None

    def __enter__(self) -> "Block":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._hold is not None:
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
        timeout_ms, called = _native.milliseconds(close_timeout), encoded(pool)
        self._weir = _native.open_weir(policy, policy_text)
        c, error, opened = _native.load(), _native.error_of_thread(), ctypes.c_void_p()
        self._pool = ctypes.c_void_p()
        status = c.weir_pool_get(self._weir, called, device, error, self._pool)
        status = status or c.weir_export_open(self._pool, error, opened)
        if status:
            c.weir_close(self._weir)
            error.throw(status)
        self._rings: "weakref.WeakValueDictionary[int, Ring]" = weakref.WeakValueDictionary()
        self._hold: Optional[Hold] = hold(Held.EXPORT, opened, self._weir, device, timeout_ms=timeout_ms)

    def _held(self) -> Hold:
        return self._hold or closed("the exporter")

    def ring(
        self,
        name: str,
        slot_size: int,
        depth: int = 4,
        overflow: str = "block",
        *,
        late: Optional[str] = None,
        stream: Any = None,
    ) -> Ring:
        """
        Frames of up to slot_size bytes in so many slots. late: what a reader gets first that comes later, the "newest" frame or
        the "next"; None: the newest where overflow is "drop_oldest".
        """
        return Ring(self, name, slot_size, depth, overflow, late, stream)

    def block(self, name: str, shape: Sequence[int], dtype: Any, *, stream: Any = None) -> Block:
        return Block(self, name, shape, dtype, stream)

    def withdraw(self, name: str) -> None:
        """The block goes once nobody has it. Arrays and tensors of it in this process must not be used any more."""
        export, error = self._held(), _native.error_of_thread()
        _native.check(_native.load().weir_export_withdraw(export.thing, encoded(name), error), error)

    def evict(self, pid: int) -> None:
        export, error = self._held(), _native.error_of_thread()
        _native.check(_native.load().weir_export_evict(export.thing, pid, error), error)

    def info(self) -> Dict[str, int]:
        """The figures of weir_export_info, by their names there."""
        export, info = self._held(), _native.ExportInfo(ctypes.sizeof(_native.ExportInfo))
        status = _native.load().weir_export_get_info(export.thing, info)
        if status:
            raise WeirError(Status(status), "the exporter cannot be asked: " + Status(status).name.lower())
        return {field[0]: getattr(info, field[0]) for field in info._fields_[1:]}

    def close(self) -> None:
        """Closes the exporter, or warns of the rings, slots, arrays and tensors that still exist: the last of them closes it."""
        close_all(self._rings)
        export, self._hold = self._hold, None
        _native.let_go(export, "the exporter")

    def __enter__(self) -> "Exporter":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()
