# SPDX-License-Identifier: MIT
"""What weir.share calls of weir.h and weir_torch.h. Every call lets go of the GIL, but that which makes a capsule."""

import atexit
import ctypes
import enum
import functools
import os
import threading
import warnings
import weakref
from typing import Any, Callable, NoReturn, Optional, Union

from weir import _library
from weir._errors import Status, WeirError
from weir._library import Error, Options, encoded


class RingOptions(ctypes.Structure):
    """weir_ring_options"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("slot_size", ctypes.c_size_t),
        ("depth", ctypes.c_uint),
        ("overflow", ctypes.c_int),
        ("late", ctypes.c_int),
        ("reserved", ctypes.c_uint),
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
        ("generation", ctypes.c_uint64),
    ]


LeaseInfoPointer = ctypes.POINTER(LeaseInfo)


class Tensor(ctypes.Structure):
    """weir_torch_tensor"""

    _fields_ = [
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]


class Capsules(ctypes.Structure):
    """weir_torch_capsules"""

    _fields_ = [
        ("create", ctypes.c_void_p),
        ("is_valid", ctypes.c_void_p),
        ("pointer", ctypes.c_void_p),
        ("no_memory", ctypes.c_void_p),
    ]


class Held(enum.IntEnum):
    """weir_torch_held"""

    LEASE = 0
    READER = 1
    IMPORT = 2
    EXPORT = 3
    RING = 4
    SLOT = 5
    BLOCK = 6
    MEMORY = 7


_P = ctypes.c_void_p
_I = ctypes.c_int
_U = ctypes.c_uint
_Z = ctypes.c_size_t
_S = ctypes.c_char_p
_E = ctypes.POINTER(Error)
_O = ctypes.POINTER(_P)
_L = ctypes.POINTER(LeaseInfoPointer)
_PROTOTYPES = {
    "weir_open": (_I, [ctypes.POINTER(Options), _E, _O]),
    "weir_close": (None, [_P]),
    "weir_import_close": (None, [_P]),
    "weir_pool_get": (_I, [_P, _S, _I, _E, _O]),
    "weir_pool_malloc": (_I, [_P, ctypes.POINTER(_P), _Z, _P]),
    "weir_last_error": (None, [_E]),
    "weir_export_open": (_I, [_P, _E, _O]),
    "weir_export_withdraw": (_I, [_P, _S, _E]),
    "weir_export_get_info": (_I, [_P, ctypes.POINTER(ExportInfo)]),
    "weir_export_evict": (_I, [_P, _I, _E]),
    "weir_ring_open": (_I, [_P, _S, ctypes.POINTER(RingOptions), _P, _E, _O]),
    "weir_ring_readers": (_U, [_P]),
    "weir_ring_wait": (_I, [_P, _U, _E]),
    "weir_import_open": (_I, [_P, _S, ctypes.POINTER(ImportOptions), _E, _O]),
    "weir_reader_open": (_I, [_P, _S, _U, _E, _O]),
    "weir_reader_fd": (_I, [_P]),
    "weir_torch_hold_new": (_P, [_I, _P, _P, _I, _P, _U, _P]),
    "weir_torch_hold_drop": (None, [_P]),
    "weir_torch_hold_use": (_I, [_P, _P, _I, _E]),
    "weir_torch_hold_finish": (_I, [_P, _E]),
    "weir_torch_hold_holders": (_U, [_P]),
    "weir_torch_hold_discard": (_I, [_P, _P, _E]),
    "weir_torch_holds_end": (None, []),
    "weir_torch_slot_take": (_I, [_P, _U, _P, _E, _O, _O]),
    "weir_torch_slot_push": (_I, [_P, _Z, _S, _Z, _P, _E]),
    "weir_torch_block_publish": (_I, [_P, _S, _Z, _S, _Z, _E]),
    "weir_torch_lease_next": (_I, [_P, _U, _P, _E, _O, _L]),
    "weir_torch_lease_acquire": (_I, [_P, _S, _U, _P, _E, _O, _L]),
    "weir_torch_capsules_set": (None, [ctypes.POINTER(Capsules)]),
}

_lock = threading.Lock()
_c: Any = None
new_capsule: Any = None


def load() -> Any:
    """The functions, by their names in C."""
    global _c, new_capsule
    if _c is not None:
        return _c
    with _lock:
        if _c is not None:
            return _c
        path = _library.load().path
        c = ctypes.CDLL(path)
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(c, name)
            function.restype = result
            function.argtypes = arguments
        python = ctypes.pythonapi
        addresses = (python.PyCapsule_New, python.PyCapsule_IsValid, python.PyCapsule_GetPointer, python.PyErr_NoMemory)
        c.weir_torch_capsules_set(Capsules(*(ctypes.cast(function, _P).value for function in addresses)))
        # With the GIL, as it makes an object of Python.
        capsule = ctypes.PyDLL(path).weir_torch_capsule_new
        capsule.restype, capsule.argtypes = ctypes.py_object, [_P, _P, ctypes.POINTER(Tensor), _I, ctypes.c_uint64]
        new_capsule = capsule
        Hold.c_drop = c.weir_torch_hold_drop
        _c = c
        return c


@atexit.register
def _end() -> None:
    """
    Registered as soon as weir.share is imported, so that a program's own exit handlers come first, and can close what it has. A
    sub-interpreter may end long before the process does: what it has is given back as its objects go.
    """
    if _c is not None and _library.is_main_interpreter():
        _c.weir_torch_holds_end()


class _Local(threading.local):
    error: Optional[Error] = None


_local = _Local()


def error_of_thread() -> Error:
    """A record that this thread has for its calls: as large as it is, making one takes longer than a call."""
    error = _local.error
    if error is None:
        error = _local.error = Error()
    error.status = 0  # a signal may have ended a call that had failed
    return error


def check(status: int, error: Error) -> None:
    if status:
        error.throw(status)


# Milliseconds that C waits at a time, so that Python hears of signals in between.
UNINTERRUPTED = 200
EMPTY = ctypes.c_size_t(-1).value  # WEIR_EMPTY


def wait_in_pieces(timeout: Optional[float], error: Error, wait: Callable[[int], int], vain: Status = Status.TIMEOUT) -> int:
    """The status of wait(milliseconds), which is called until it is another one than `vain`, or the time is up."""
    limit = milliseconds(timeout)
    while limit > UNINTERRUPTED:
        status = wait(UNINTERRUPTED)
        if status != vain:
            return status
        error.status = 0
        limit -= UNINTERRUPTED if timeout is not None else 0
    return wait(limit)


def milliseconds(timeout: Optional[float]) -> int:
    """Of seconds; None: as long as C counts."""
    if timeout is None:
        return 0xFFFFFFFF
    if not timeout >= 0:
        raise WeirError(Status.INVALID, f"timeout is {timeout}: give seconds, 0 or more, or None for no limit")
    return int(min(timeout * 1000 + 0.999, 0xFFFFFFFF))


def open_weir(policy: Union[str, "os.PathLike[str]", None], policy_text: Optional[str]) -> ctypes.c_void_p:
    if policy is not None and policy_text is not None:
        raise WeirError(Status.INVALID, "policy and policy_text are both given: give one of them")
    options = Options(size=ctypes.sizeof(Options))
    options.policy_file = None if policy is None else os.fsencode(policy)
    options.policy_text = None if policy_text is None else encoded(policy_text)
    error, opened = Error(), ctypes.c_void_p()
    check(load().weir_open(ctypes.byref(options), ctypes.byref(error), ctypes.byref(opened)), error)
    return opened


@functools.lru_cache(maxsize=None)
def is_simulated() -> bool:
    """Whether the memory is the simulator's, which is the host's. Asked once, as $WEIR_GPU decides for the process."""
    return os.environ.get("WEIR_GPU") == "sim"


class Hold:
    """
    One holder of something in C (plugin/torch/hold.h). It lets go when nothing refers to this object any more: who closes
    forgets it, and a call that another thread is in still has it.
    """

    __slots__ = ("ptr", "thing")
    c_drop: Any = None

    def __init__(self, ptr: Optional[int] = None, thing: Optional[int] = None) -> None:
        """Without ptr it is what C fills: this object is there before, as a signal may raise as soon as C is done."""
        self.ptr, self.thing = ctypes.c_void_p(ptr), thing

    def __del__(self) -> None:
        self.c_drop(self.ptr)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("shared objects cannot be copied or pickled: send the name of the ring or the block, or copy the tensor")


def hold(
    kind: Held,
    thing: ctypes.c_void_p,
    weir: Optional[ctypes.c_void_p],
    device: int,
    home: int = 0,
    timeout_ms: int = 0,
    parent: Optional[Hold] = None,
) -> Hold:
    ptr = load().weir_torch_hold_new(kind, thing, weir, device, home, timeout_ms, parent.ptr if parent else None)
    if ptr is None:
        raise MemoryError("no host memory, or the child of a fork, where nothing of Weir's works")
    return Hold(ptr, thing.value)


def close_all(things: "weakref.WeakValueDictionary[int, Any]") -> None:
    """Those that there are: other threads may add more meanwhile, which a WeakSet does not stand."""
    for reference in things.valuerefs():
        thing = reference()
        if thing is not None:
            thing.close()


def let_go(thing: Optional[Hold], what: str) -> None:
    """Warns if objects that were made of it still exist, which keep it open."""
    others = load().weir_torch_hold_holders(thing.ptr) - 1 if thing is not None else 0
    if others > 0:
        warnings.warn(
            f"{what} is not closed yet: {others} array(s), tensor(s), slot(s) or ring(s) of it still exist, and the last of them closes it: "
            "delete them first, or copy their data",
            RuntimeWarning,
            stacklevel=4,
        )


def closed(what: str, name: str = "") -> NoReturn:
    raise WeirError(Status.INVALID, f"{what} {name!r} is closed" if name else what + " is closed")
