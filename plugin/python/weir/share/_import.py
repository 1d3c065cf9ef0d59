# SPDX-License-Identifier: MIT
"""The side that uses the memory of another process."""

import asyncio
import ctypes
import os
import time
import weakref
from types import TracebackType
from typing import Any, AsyncIterator, Dict, Iterator, Optional, Sequence, Type, Union

from weir._errors import Status, WeirError
from weir._library import encoded
from weir.share import _native
from weir.share._array import Array, Shared, stream_of
from weir.share._layout import Layout, layout, read_metadata
from weir.share._native import Held, Hold, LeaseInfo, close_all, closed, hold


class Lease(Shared):
    """
    The use of a block, or of a frame, of another process. Torch, CuPy and NumPy take it as it is, or array() of it. It is
    given back when release() was called, or the `with` has ended, and the last tensor of it is gone: while there are
    tensors it counts, and a ring whose frames are kept stands still. To keep one for longer, copy it.

    sequence: of a frame, from 1; 0 of a block. generation: a number of the ring, or of the block's publication, which is another one
    when it is made anew. size: bytes. metadata: the producer's own bytes.
    """

    def __init__(self, hold: Hold, info: LeaseInfo, home: int) -> None:
        self._hold = hold
        self._ptr, self._device, self._home = info.ptr or 0, info.device, home
        self.size: int = info.size
        self.sequence: int = info.sequence
        self.generation: int = info.generation
        self.raw_metadata: bytes = ctypes.string_at(info.metadata, info.metadata_size)

    @property
    def metadata(self) -> bytes:
        return read_metadata(self.size, self.raw_metadata)[1]

    def _layout(self) -> Layout:
        what = read_metadata(self.size, self.raw_metadata)[0]
        return layout(self.size, [self.size], "uint8") if what is None else what

    def array(
        self,
        shape: Optional[Sequence[int]] = None,
        dtype: Any = None,
        *,
        strides: Optional[Sequence[int]] = None,
        offset: int = 0,
        writable: bool = False,
    ) -> Array:
        """
        As its producer says, or of this shape and type, whatever it says. strides and offset are in elements. writable:
        for consumers that cannot be told to only read, and where all who map the memory agree to write.
        """
        if shape is None and dtype is None and strides is None and not offset:
            return self._make(self._layout(), writable)
        if shape is None:
            raise WeirError(Status.INVALID, "dtype, strides or offset without a shape: give the shape, too")
        return self._make(layout(self.size, shape, "uint8" if dtype is None else dtype, strides, offset), writable)

    def _view(self) -> Array:
        return self._make(self._layout(), False)

    def release(self, stream: Any = None) -> None:
        """Behind the streams that DLPack named, and behind this one. With tensors alive, once they are gone."""
        lease = self._hold
        if lease is not None and stream is not None:
            error = _native.error_of_thread()
            _native.check(_native.load().weir_torch_hold_use(lease.ptr, stream_of(stream), 0, error), error)
        self._hold = None

    def __enter__(self) -> "Lease":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.release()


_PAUSE = 0.05  # seconds between two looks for a ring that is not there


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class Reader:
    """
    The frames of a ring, in order: next(), `for` and `async for`, which end when the ring was closed; with follow they go on
    with the next ring of that name. One task or thread at a time waits.
    """

    def __init__(self, importer: "Importer", ring: str, leases: int, follow: bool, stream: Any) -> None:
        self.ring, self._follow, self._stream = ring, follow, stream
        self._waiting: Dict["asyncio.Future[None]", asyncio.AbstractEventLoop] = {}
        error, opened, c = _native.error_of_thread(), ctypes.c_void_p(), _native.load()
        thing = importer._held()
        _native.check(c.weir_reader_open(thing.thing, encoded(ring), leases, error, opened), error)
        self._hold: Optional[Hold] = hold(Held.READER, opened, importer._weir, 0, parent=thing)
        importer._readers[id(self)] = self

    def _held(self) -> Hold:
        return self._hold or closed("the reader of ring", self.ring)

    def next(self, timeout: Optional[float] = None, *, stream: Any = None) -> Lease:
        """The next frame, for work on `stream`. timeout: seconds; None: no limit. WeirError: TIMEOUT, BUSY, ENDED, GONE…"""
        reader, error = self._held(), _native.error_of_thread()
        home = stream_of(self._stream if stream is None else stream)
        lease, info, wait = Hold(), _native.LeaseInfoPointer(), _native.load().weir_torch_lease_next
        status = _native.wait_in_pieces(timeout, error, lambda limit: int(wait(reader.ptr, limit, home, error, lease.ptr, info)))
        _native.check(status, error)
        return Lease(lease, info.contents, home)

    def fileno(self) -> int:
        """For select, epoll and event loops: readable while next(0) has something to say. See weir_reader_fd()."""
        reader = self._held()
        fd = int(_native.load().weir_reader_fd(reader.thing))
        if fd < 0:
            error = _native.error_of_thread()
            _native.load().weir_last_error(error)
            error.throw(error.status)
        return fd

    def _goes_on(self, error: WeirError) -> bool:
        """Whether a loop waits for the next ring of that name, and not ends here; raises what is no end."""
        if self._follow and error.status in (Status.ENDED, Status.GONE, Status.NOT_FOUND):
            return True
        if error.status == Status.ENDED:
            return False
        raise error

    def __iter__(self) -> Iterator[Lease]:
        while True:
            try:
                leases = [self.next()]
            except WeirError as error:
                if not self._goes_on(error):
                    return
                time.sleep(_PAUSE)
                continue
            yield leases.pop()  # nothing here keeps it while the consumer has it

    async def next_async(self, *, stream: Any = None) -> Lease:
        """The same as next() for asyncio: other tasks run meanwhile."""
        while True:
            try:
                return self.next(0, stream=stream)
            except WeirError as error:
                if error.status != Status.TIMEOUT:
                    raise
            await self._readable()

    async def _readable(self) -> None:
        reader = self._held()  # the descriptor is closed once the loop has forgotten it
        loop, fd = asyncio.get_running_loop(), self.fileno()
        future: "asyncio.Future[None]" = loop.create_future()
        self._waiting[future] = loop
        loop.add_reader(fd, _wake, future)
        try:
            if self._hold is reader:
                await future
        finally:
            loop.remove_reader(fd)
            del self._waiting[future], reader

    async def __aiter__(self) -> AsyncIterator[Lease]:
        while True:
            try:
                leases = [await self.next_async()]
            except WeirError as error:
                if not self._goes_on(error):
                    return
                await asyncio.sleep(_PAUSE)
                continue
            yield leases.pop()

    def close(self) -> None:
        """Leases and tensors stay. A task that waits is told."""
        self._hold = None
        for future, loop in list(self._waiting.items()):
            try:
                loop.call_soon_threadsafe(_wake, future)
            except RuntimeError:  # the loop was closed under its tasks
                pass

    def __enter__(self) -> "Reader":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


class Importer:
    """
    A connection to an exporter. socket: what its policy has as share.socket. timeout: seconds for each of its answers.
    wait: seconds to wait for one that is yet to come. host_waits: no stream waits for the exporter's work, but the thread that asks
    for it does; choose this where the exporter may be killed at any time. policy, policy_text: this process's own; by default
    one without shared pools.
    """

    def __init__(
        self,
        socket: str,
        *,
        policy: Union[str, "os.PathLike[str]", None] = None,
        policy_text: Optional[str] = None,
        timeout: float = 5.0,
        wait: float = 0.0,
        host_waits: bool = False,
    ) -> None:
        self._readers: "weakref.WeakValueDictionary[int, Reader]" = weakref.WeakValueDictionary()
        options = _native.ImportOptions(ctypes.sizeof(_native.ImportOptions))
        options.timeout_ms, options.host_waits = max(_native.milliseconds(timeout), 1), host_waits
        _native.milliseconds(wait)  # refuses what is no time before anything is opened
        called = encoded(socket)
        if policy is None and policy_text is None:
            policy_text = "weir: 1\npools: { work: {} }\n"
        self._weir = _native.open_weir(policy, policy_text)
        c, error, opened = _native.load(), _native.error_of_thread(), ctypes.c_void_p()

        def connect(limit: int) -> int:
            options.wait_ms = limit
            return int(c.weir_import_open(self._weir, called, options, error, opened))

        try:
            _native.check(_native.wait_in_pieces(wait, error, connect, Status.GONE), error)
        except BaseException:
            c.weir_import_close(opened)
            c.weir_close(self._weir)
            raise
        self._hold: Optional[Hold] = hold(Held.IMPORT, opened, self._weir, 0)

    def _held(self) -> Hold:
        return self._hold or closed("the importer")

    def acquire(self, name: str, timeout: float = 0.0, *, stream: Any = None) -> Lease:
        """The block of that name, for work on `stream`. timeout: seconds to wait until it is published."""
        importer, error, home = self._held(), _native.error_of_thread(), stream_of(stream)
        lease, info, wait = Hold(), _native.LeaseInfoPointer(), _native.load().weir_torch_lease_acquire
        called = encoded(name)
        status = _native.wait_in_pieces(
            timeout, error, lambda limit: int(wait(importer.ptr, called, limit, home, error, lease.ptr, info))
        )
        _native.check(status, error)
        return Lease(lease, info.contents, home)

    def reader(self, ring: str, leases: int = 2, *, follow: bool = False, stream: Any = None) -> Reader:
        """
        leases: how many frames this process may have at a time; 0: as many as are allowed. follow: loops survive the restart of the
        producer. stream: of next().
        """
        return Reader(self, ring, leases, follow, stream)

    def close(self) -> None:
        """Closes readers; the connection goes with the last lease, array and tensor."""
        close_all(self._readers)
        self._hold = None

    def __enter__(self) -> "Importer":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()
