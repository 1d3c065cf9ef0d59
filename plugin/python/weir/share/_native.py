# SPDX-License-Identifier: MIT
"""What weir.share calls of weir.h and weir_torch.h. Every call lets go of the GIL."""

import atexit
import ctypes
import enum
import functools
import os
import threading
from typing import Any, Callable, Optional, Union

from weir import _library
from weir._errors import Status, WeirError
from weir._library import Error, Options


class RingOptions(ctypes.Structure):
    """weir_ring_options"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("slot_size", ctypes.c_size_t),
        ("depth", ctypes.c_uint),
        ("overflow", ctypes.c_int),
    ]


class ExportInfo(ctypes.Structure):
    """weir_export_info"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("epoch", ctypes.c_uint64),
        ("importers", ctypes.c_uint),
        ("hung", ctypes.c_uint),
        ("evicted", ctypes.c_uint),
        ("blocks", ctypes.c_uint64),
        ("leases", ctypes.c_uint64),
        ("mappings", ctypes.c_uint64),
        ("pushed", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("dropped", ctypes.c_uint64),
        ("refused", ctypes.c_uint64),
        ("hangs", ctypes.c_uint64),
        ("leases_given", ctypes.c_uint64),
        ("evictions", ctypes.c_uint64),
        ("lag", ctypes.c_uint64),
        ("lag_high", ctypes.c_uint64),
    ]


class ImportOptions(ctypes.Structure):
    """weir_import_options"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("timeout_ms", ctypes.c_uint),
        ("host_waits", ctypes.c_int),
        ("wait_ms", ctypes.c_uint),
        ("reserved", ctypes.c_uint),
    ]


class LeaseInfo(ctypes.Structure):
    """weir_lease_info"""

    _fields_ = [
        ("ptr", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("device", ctypes.c_int),
        ("sequence", ctypes.c_uint64),
        ("metadata_size", ctypes.c_size_t),
        ("metadata", ctypes.c_void_p),
    ]


class Tensor(ctypes.Structure):
    """weir_torch_tensor"""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]


class Held(enum.IntEnum):
    """weir_torch_held"""

    LEASE = 0
    IMPORT = 1
    EXPORT = 2
    RING = 3
    SLOT = 4
    MEMORY = 5


_P = ctypes.c_void_p
_I = ctypes.c_int
_U = ctypes.c_uint
_Z = ctypes.c_size_t
_S = ctypes.c_char_p
_E = ctypes.POINTER(Error)
_PROTOTYPES = {
    "weir_open": (_I, [ctypes.POINTER(Options), _E, ctypes.POINTER(_P)]),
    "weir_close": (None, [_P]),
    "weir_pool_get": (_I, [_P, _S, _I, _E, ctypes.POINTER(_P)]),
    "weir_pool_malloc": (_I, [_P, ctypes.POINTER(_P), _Z, _P]),
    "weir_free": (_I, [_P, _P, _P]),
    "weir_last_error": (None, [_E]),
    "weir_export_open": (_I, [_P, _E, ctypes.POINTER(_P)]),
    "weir_export_publish": (_I, [_P, _S, _P, _Z, _S, _Z, _P, _E]),
    "weir_export_withdraw": (_I, [_P, _S, _E]),
    "weir_export_get_info": (_I, [_P, ctypes.POINTER(ExportInfo)]),
    "weir_export_evict": (_I, [_P, _I, _E]),
    "weir_ring_open": (_I, [_P, _S, ctypes.POINTER(RingOptions), _P, _E, ctypes.POINTER(_P)]),
    "weir_ring_take": (_I, [_P, _U, _P, _E, ctypes.POINTER(_P)]),
    "weir_ring_push": (_I, [_P, _P, _Z, _S, _Z, _P, _E]),
    "weir_ring_drop": (_I, [_P, _P, _P, _E]),
    "weir_ring_readers": (_U, [_P]),
    "weir_import_open": (_I, [_P, _S, ctypes.POINTER(ImportOptions), _E, ctypes.POINTER(_P)]),
    "weir_import_acquire": (_I, [_P, _S, _U, _P, _E, ctypes.POINTER(_P)]),
    "weir_reader_open": (_I, [_P, _S, _U, _E, ctypes.POINTER(_P)]),
    "weir_reader_close": (None, [_P]),
    "weir_reader_next": (_I, [_P, _U, _P, _E, ctypes.POINTER(_P)]),
    "weir_reader_fd": (_I, [_P]),
    "weir_lease_get_info": (ctypes.POINTER(LeaseInfo), [_P]),
    "weir_lease_release": (_I, [_P, _P, _E]),
    "weir_torch_hold_new": (_P, [_I, _P, _P, _I, _P, _U, _P]),
    "weir_torch_hold_keep": (None, [_P]),
    "weir_torch_hold_drop": (None, [_P]),
    "weir_torch_hold_use": (_I, [_P, _P, _I, _E]),
    "weir_torch_hold_join": (_I, [_P, _P, _E]),
    "weir_torch_hold_finish": (_I, [_P, _E]),
    "weir_torch_hold_holders": (_U, [_P]),
    "weir_torch_holds_end": (None, []),
    "weir_torch_dlpack_new": (_P, [_P, ctypes.POINTER(Tensor), _I, ctypes.c_uint64]),
    "weir_torch_dlpack_python": (None, [_P, _P]),
    "weir_torch_dlpack_drop": (None, [_P]),
}

_lock = threading.Lock()
_c: Any = None
new_capsule: Any = None
drop_capsule: Any = None  # what a capsule calls that nobody consumed


def load() -> Any:
    """The functions, by their names in C."""
    global _c, drop_capsule, new_capsule
    if _c is not None:
        return _c
    with _lock:
        if _c is not None:
            return _c
        c = ctypes.CDLL(_library.load().path)
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(c, name)
            function.restype = result
            function.argtypes = arguments
        python = ctypes.pythonapi
        c.weir_torch_dlpack_python(
            ctypes.cast(python.PyCapsule_IsValid, _P), ctypes.cast(python.PyCapsule_GetPointer, _P)
        )
        # Its third parameter is a function of C, so that no capsule needs Python to be alive when it goes.
        new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, _P, _S, _P)(("PyCapsule_New", python))
        drop_capsule = ctypes.cast(c.weir_torch_dlpack_drop, _P)
        atexit.register(c.weir_torch_holds_end)
        _c = c
        return c


class _Local(threading.local):
    error: Optional[Error] = None


_local = _Local()


def error_of_thread() -> Error:
    """A record that this thread has for its calls: as large as it is, making one takes longer than a call."""
    error = _local.error
    if error is None:
        error = _local.error = Error()
    return error


def check(status: int, error: Error) -> None:
    if status:
        # Whoever holds the exception may look at it yet.
        _local.error = None
        error.throw(status)


def milliseconds(timeout: Optional[float]) -> int:
    """Of seconds; None: as long as C counts."""
    if timeout is None:
        return 0xFFFFFFFF
    if not timeout >= 0:
        raise WeirError(Status.INVALID, f"timeout is {timeout}: give seconds, 0 or more, or None for no limit")
    return min(int(timeout * 1000 + 0.999), 0xFFFFFFFF)


def open_weir(policy: Union[str, "os.PathLike[str]", None], policy_text: Optional[str]) -> ctypes.c_void_p:
    if policy is not None and policy_text is not None:
        raise WeirError(Status.INVALID, "policy and policy_text are both given: give one of them")
    options = Options(size=ctypes.sizeof(Options))
    options.policy_file = None if policy is None else os.fsencode(policy)
    options.policy_text = None if policy_text is None else policy_text.encode()
    error, opened = Error(), ctypes.c_void_p()
    check(load().weir_open(ctypes.byref(options), ctypes.byref(error), ctypes.byref(opened)), error)
    return opened


@functools.lru_cache(maxsize=None)
def is_simulated() -> bool:
    """Whether the memory is the simulator's, which is the host's. Asked once, as $WEIR_GPU decides for the process."""
    return os.environ.get("WEIR_GPU") == "sim"


class Hold:
    """One holder of something in C (hold.h), until it is dropped or collected."""

    def __init__(
        self, kind: Held, thing: Any, weir: Any, device: int, home: int = 0, timeout_ms: int = 0, parent: "Optional[Hold]" = None
    ) -> None:
        self.ptr: Optional[int] = None
        self._lock = threading.Lock()
        c = load()
        self._drop = c.weir_torch_hold_drop
        self.ptr = c.weir_torch_hold_new(kind, thing, weir, device, home, timeout_ms, parent.ptr if parent else None)
        if self.ptr is None:
            raise MemoryError("no host memory, or the child of a fork, where nothing of Weir's works")

    def another(self) -> "Optional[Hold]":
        """Another holder of the same; None: this one has let go of it."""
        hold = Hold.__new__(Hold)
        hold.ptr, hold._lock, hold._drop = None, threading.Lock(), self._drop
        with self._lock:
            if self.ptr is None:
                return None
            load().weir_torch_hold_keep(self.ptr)
            hold.ptr = self.ptr
        return hold

    def drop(self) -> None:
        # Nobody else has the lock where the collector of garbage calls this.
        with self._lock:
            ptr, self.ptr = self.ptr, None
        if ptr is not None:
            self._drop(ptr)

    def __del__(self) -> None:
        self.drop()


class Handle:
    """
    Something in C that threads call, and one closes: not under the others, but when the last of them has returned. `with`
    of use() is around each call.
    """

    def __init__(self, thing: ctypes.c_void_p, what: str, close: Callable[[int], None]) -> None:
        assert thing.value is not None
        self._thing: Optional[int] = thing.value
        self._what, self._close_thing = what, close
        self._users, self._guard, self._is_open = 0, threading.Lock(), True

    def __enter__(self) -> int:
        with self._guard:
            if not self._is_open or self._thing is None:
                raise WeirError(Status.INVALID, self._what + " is closed")
            self._users += 1
            return self._thing

    def __exit__(self, *error: object) -> None:
        with self._guard:
            self._users -= 1
        self._end()

    def _end(self) -> None:
        with self._guard:
            thing = self._thing
            if self._is_open or self._users or thing is None:
                return
            self._thing = None
        self._close_thing(thing)

    def close(self) -> None:
        with self._guard:
            self._is_open = False
        self._end()
