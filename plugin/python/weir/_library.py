# SPDX-License-Identifier: MIT
"""
Finds and loads libweir-torch.so, once, and has what the package calls of it: plugin/torch/weir_torch.h and a few
functions of weir.h.

Its calls release the GIL, since an allocation may wait for the recovery of memory. So none of them may take a Python
callback: it would be called with locks of Weir's held, and wait for the GIL, whose holder may wait for these.
"""

import atexit
import ctypes
import os
import re
import sysconfig
import threading
from typing import Iterator, List, NamedTuple, NoReturn, Optional, Tuple, Union

from weir._errors import Status, WeirError
from weir._version import VERSION

NAME = "libweir-torch.so"
INSTALLED = "/usr/local/lib"


def encoded(text: str) -> bytes:
    """As C reads it: to the first zero byte, behind which nothing may be lost unsaid."""
    if "\0" in text:
        raise ValueError(f"{text!r} has a zero byte, where it would end: leave that out")
    return text.encode()


class Error(ctypes.Structure):
    """weir_error"""

    _fields_ = [
        ("status", ctypes.c_int),
        ("cuda_code", ctypes.c_int),
        ("line", ctypes.c_uint),
        ("column", ctypes.c_uint),
        ("file", ctypes.c_char * 256),
        ("text", ctypes.c_char * 4096),
    ]

    status: int
    text: bytes

    def throw(self, status: int) -> NoReturn:
        """Raises what the record says of a call that returned this status."""
        text = self.text.decode(errors="replace")
        self.status = 0  # C keeps the first error that a record has: it may be used again
        raise WeirError(Status(status), text or "Weir: " + Status(status).name.lower().replace("_", " "))


class Options(ctypes.Structure):
    """weir_options"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("policy_file", ctypes.c_char_p),
        ("policy_text", ctypes.c_char_p),
        ("gpu", ctypes.c_char_p),
        ("log", ctypes.c_void_p),
        ("log_data", ctypes.c_void_p),
    ]


class Stats(ctypes.Structure):
    """weir_torch_stats: the figures of one device."""

    size: int
    memory: int
    memory_free: int
    allocated: int
    allocated_high: int
    active: int
    reserved: int
    reserved_high: int
    cached: int
    idle: int
    graph_reserved: int
    graph_live: int
    blocks: int
    mallocs: int
    frees: int
    cache_hits: int
    recoveries: int
    rescues: int
    failures: int
    max_size: int


Stats._fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in list(Stats.__annotations__)[1:]]


class Block(ctypes.Structure):
    """weir_torch_block: a live block."""

    _fields_ = [("ptr", ctypes.c_void_p), ("size", ctypes.c_uint64)]

    ptr: int
    size: int


# Devices that libweir-torch can have.
DEVICES_MAX = 64

_ERROR = ctypes.POINTER(Error)
_PROTOTYPES = {
    "weir_version": (ctypes.c_char_p, []),
    "weir_torch_pool_malloc": (ctypes.c_void_p, [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]),
    "weir_torch_free": (None, [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]),
    "weir_torch_free_alive": (None, [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]),
    "weir_torch_configure": (ctypes.c_int, [ctypes.POINTER(Options), _ERROR]),
    "weir_torch_report": (None, [_ERROR]),
    "weir_torch_reset": (None, []),
    "weir_torch_memory_fraction": (None, [ctypes.c_double, ctypes.c_int]),
    "weir_torch_stream_lives": (None, [ctypes.c_int, ctypes.c_void_p]),
    "weir_torch_python_begin": (ctypes.c_int, [_ERROR]),
    "weir_torch_python_end": (None, []),
    "weir_torch_stats_take": (ctypes.c_int, [ctypes.c_int, _ERROR, ctypes.POINTER(Stats)]),
    "weir_torch_reset_peaks": (None, [ctypes.c_int]),
    "weir_torch_reset_totals": (None, [ctypes.c_int]),
    "weir_torch_claim": (ctypes.c_int, [ctypes.c_int, _ERROR, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64)]),
    "weir_torch_mark": (ctypes.c_int, [ctypes.c_char_p]),
    "weir_torch_tag_push": (ctypes.c_int, [ctypes.c_char_p]),
    "weir_torch_tag_pop": (None, [ctypes.c_char_p]),
    "weir_torch_region_begin": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_int, _ERROR]),
    "weir_torch_region_end": (None, []),
    "weir_last_error": (None, [_ERROR]),
    "weir_torch_get": (ctypes.c_int, [ctypes.c_int, _ERROR, ctypes.POINTER(ctypes.c_void_p)]),
    "weir_stats_take": (ctypes.c_int, [ctypes.c_void_p, _ERROR, ctypes.POINTER(ctypes.c_void_p)]),
    "weir_stats_json": (ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]),
    "weir_stats_free": (None, [ctypes.c_void_p]),
    "weir_pool_get": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, _ERROR, ctypes.POINTER(ctypes.c_void_p)]),
    "weir_pool_sleep": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, _ERROR, ctypes.POINTER(ctypes.c_uint64)]),
    "weir_pool_wake": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint, _ERROR, ctypes.POINTER(ctypes.c_int)]),
    "weir_pool_yield": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint, _ERROR]),
    "weir_torch_list_blocks": (ctypes.c_size_t, [ctypes.c_int, ctypes.POINTER(Block), ctypes.c_size_t]),
}


def is_main_interpreter() -> bool:
    """Whether the end of this interpreter is that of Python; a process may have others, which come and go."""
    try:
        current, main = ctypes.pythonapi.PyInterpreterState_Get, ctypes.pythonapi.PyInterpreterState_Main
    except AttributeError:
        return True  # not CPython
    current.restype = main.restype = ctypes.c_void_p
    return bool(current() == main())


class Library:
    """The loaded library. Any thread may call any of its methods."""

    def __init__(self, path: str) -> None:
        self._c = open_file(path)
        self.path = self._c._name
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(self._c, name)
            function.restype = result
            function.argtypes = arguments
        self.version: str = self._c.weir_version().decode()
        # The structs above are those of this version.
        if self.version != VERSION:
            raise WeirError(
                Status.NOT_SUPPORTED,
                f"{path} is of version {self.version}, and the Python package {__file__} of {VERSION}: install both "
                "from the same release",
            )

    def add_frames(self) -> None:
        """
        Stacks have Python's frames, until Python ends. On an interpreter other than CPython they have none, nor by what is
        loaded in a sub-interpreter alone, whose end is not that of the others.
        """
        if is_main_interpreter() and not self._c.weir_torch_python_begin(None):
            atexit.register(self._c.weir_torch_python_end)

    def address(self, name: str) -> int:
        """Where the function of that name is."""
        address = ctypes.cast(getattr(self._c, name), ctypes.c_void_p).value
        assert address is not None
        return address

    def configure(self, policy_file: Optional[str], policy_text: Optional[str], gpu: Optional[str]) -> None:
        options = Options(size=ctypes.sizeof(Options))
        options.gpu = None if gpu is None else encoded(gpu)
        options.policy_file = None if policy_file is None else os.fsencode(policy_file)
        options.policy_text = None if policy_text is None else encoded(policy_text)
        error = Error()
        status = self._c.weir_torch_configure(ctypes.byref(options), ctypes.byref(error))
        if status:
            error.throw(status)

    def malloc(self, size: int, device: int, stream: int) -> int:
        """The address of a block; 0 for size 0."""
        ptr: Optional[int] = self._c.weir_torch_pool_malloc(size, device, stream)
        if ptr is None and size:
            error = self._report()
            error.throw(error.status)
        return ptr or 0

    def free(self, ptr: int, size: int, device: int, stream: int, alive: bool) -> None:
        """alive: the stream is, until this returns, and it is behind every use of the block."""
        (self._c.weir_torch_free_alive if alive else self._c.weir_torch_free)(ptr, size, device, stream)

    def _report(self) -> Error:
        error = Error()
        self._c.weir_torch_report(ctypes.byref(error))
        return error

    def report(self) -> Optional[str]:
        """Why the last allocation of this thread for torch failed; None: none did."""
        error = self._report()
        return error.text.decode(errors="replace") if error.status else None

    def reset(self) -> None:
        self._c.weir_torch_reset()

    def memory_fraction(self, fraction: float, device: int) -> None:
        self._c.weir_torch_memory_fraction(fraction, device)

    def stream_lives(self, device: int, stream: int) -> None:
        self._c.weir_torch_stream_lives(device, stream)

    def stats(self, device: int) -> Stats:
        stats = Stats(size=ctypes.sizeof(Stats))
        error = Error()
        status = self._c.weir_torch_stats_take(device, ctypes.byref(error), ctypes.byref(stats))
        if status:
            error.throw(status)
        return stats

    def stats_json(self, device: int) -> bytes:
        """weir_stats_json() of the weir of that device, which is opened if it is not yet."""
        error, weir, stats = Error(), ctypes.c_void_p(), ctypes.c_void_p()
        status = self._c.weir_torch_get(device, error, weir) or self._c.weir_stats_take(weir, error, stats)
        if status:
            error.throw(status)
        try:
            text = ctypes.create_string_buffer(self._c.weir_stats_json(stats, None, 0) + 1)
            self._c.weir_stats_json(stats, text, len(text))
            return text.value
        finally:
            self._c.weir_stats_free(stats)

    def pool(self, name: str, device: int) -> ctypes.c_void_p:
        """That pool of the policy, on a device whose weir is opened if it is not yet."""
        error, weir, pool = Error(), ctypes.c_void_p(), ctypes.c_void_p()
        status = self._c.weir_torch_get(device, error, weir) or self._c.weir_pool_get(weir, encoded(name), device, error, pool)
        if status:
            error.throw(status)
        return pool

    def pool_sleep(self, pool: ctypes.c_void_p, flags: int, milliseconds: int) -> int:
        error, given = Error(), ctypes.c_uint64()
        if status := self._c.weir_pool_sleep(pool, flags, milliseconds, error, given):
            error.throw(status)
        return given.value

    def pool_wake(self, pool: ctypes.c_void_p, milliseconds: int) -> bool:
        error, kept = Error(), ctypes.c_int()
        if status := self._c.weir_pool_wake(pool, milliseconds, error, kept):
            error.throw(status)
        return bool(kept.value)

    def pool_yield(self, pool: ctypes.c_void_p, flags: int) -> None:
        error = Error()
        if status := self._c.weir_pool_yield(pool, flags, error):
            error.throw(status)

    def claim(self, device: int) -> Optional[Tuple[int, int]]:
        """What is left of the claim on the device, and all of it; None: there is none."""
        error, total, left = Error(), ctypes.c_uint64(), ctypes.c_uint64()
        status = self._c.weir_torch_claim(device, ctypes.byref(error), ctypes.byref(total), ctypes.byref(left))
        if status:
            error.throw(status)
        return (left.value, total.value) if total.value else None

    def reset_peaks(self, device: int) -> None:
        self._c.weir_torch_reset_peaks(device)

    def reset_totals(self, device: int) -> None:
        self._c.weir_torch_reset_totals(device)

    def _check(self, status: int) -> None:
        """Of a call of the recorder, which leaves its error with the thread."""
        if status:
            error = Error()
            self._c.weir_last_error(ctypes.byref(error))
            error.throw(status)

    def mark(self, name: str) -> None:
        self._check(self._c.weir_torch_mark(encoded(name)))

    def tag_push(self, name: str) -> None:
        self._check(self._c.weir_torch_tag_push(encoded(name)))

    def tag_pop(self, name: str) -> None:
        self._c.weir_torch_tag_pop(encoded(name))

    def region_begin(self, pool: str, device: int) -> None:
        error = Error()
        if status := self._c.weir_torch_region_begin(encoded(pool), device, ctypes.byref(error)):
            error.throw(status)

    def region_end(self) -> None:
        self._c.weir_torch_region_end()

    def blocks(self, device: int) -> List[Tuple[int, int]]:
        """Address and size of each live block, in the order of addresses."""
        count = 0
        room = 1024
        blocks = (Block * room)()
        # Others may allocate meanwhile: it is asked until all have room.
        while (count := self._c.weir_torch_list_blocks(device, blocks, room)) > room:
            room = count + count // 8
            blocks = (Block * room)()
        return sorted((block.ptr, block.size) for block in blocks[:count])


def _candidates(name: str) -> Iterator[str]:
    """Where a library of Weir's may be, the best guess first."""
    package = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(package, name)
    yield os.path.join(package, "lib", name)  # of a wheel
    # The package is in PREFIX/share/weir/python/weir.
    prefix = os.path.normpath(os.path.join(package, "..", "..", "..", ".."))
    multiarch = sysconfig.get_config_var("MULTIARCH")
    for lib in ["lib", "lib64"] + ([os.path.join("lib", multiarch)] if multiarch else []):
        yield os.path.join(prefix, lib, name)


def find(name: str = NAME, variable: str = "WEIR_TORCH_LIBRARY") -> str:
    """The path of one: what the variable says, beside the package, where `make install` put it, else left to the loader."""
    return os.environ.get(variable, "") or next((path for path in _candidates(name) if os.path.exists(path)), name)


class Policy(NamedTuple):
    """Which policy was asked for; both None: that of the usual search."""

    file: Optional[str]
    text: Optional[str]


_lock = threading.Lock()
_library: Optional[Library] = None
_policy: Optional[Policy] = None


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


# A thread that held it is not there in the child of a fork to let go.
os.register_at_fork(after_in_child=_renew_lock)


def open_file(path: str) -> ctypes.CDLL:
    """Loads a library that find() found."""
    try:
        return ctypes.CDLL(path)
    except OSError:
        # Where `make install` puts it by itself the loader looks only after somebody ran ldconfig.
        installed = os.path.join(INSTALLED, path)
        if "/" in path or not os.path.exists(installed):
            raise
        return ctypes.CDLL(installed)


def _load() -> Library:
    global _library
    if _library is None:
        path = find()
        try:
            library = Library(path)
        except OSError as error:
            raise WeirError(
                Status.NOT_FOUND,
                f"cannot load {path}: {error}. Install Weir's wheel, or Weir itself with `make install`, or set "
                f"WEIR_TORCH_LIBRARY to the path of {NAME}",
            ) from None
        except AttributeError as error:
            raise WeirError(
                Status.NOT_SUPPORTED, f"{path} is not of the same release as the Python package {__file__}: {error}"
            ) from None
        library.add_frames()
        _library = library
    return _library


def load() -> Library:
    """The library, loaded by the first call."""
    with _lock:
        return _load()


def _describe(policy: Policy) -> str:
    if policy.text is not None:
        return "a text"
    return policy.file or "the one of the usual search"


def _place(file: Union[str, "os.PathLike[str]"]) -> str:
    """The absolute path, but for the name of an installed policy, which the library finds."""
    if isinstance(file, str) and re.fullmatch("[A-Za-z0-9][A-Za-z0-9-]*", file):
        return file
    return os.path.abspath(os.fspath(file))


def configure(policy: Union[str, "os.PathLike[str]", None], policy_text: Optional[str], gpu: Optional[str] = None) -> Library:
    """
    The library, with this policy in force. The first call decides; a later one may ask for the same, or for none in
    particular.

    policy: the path of a file, or the name of an installed policy. policy_text: the YAML itself, instead. Both None: as weir_open() searches.
    gpu: "cuda", or "sim" in a test that runs no kernel; None: $WEIR_GPU, in which "sim" is refused.
    """
    global _policy
    if policy is not None and policy_text is not None:
        raise WeirError(Status.INVALID, "policy and policy_text are both given: give one of them")
    if policy is not None and not os.fspath(policy):
        raise WeirError(Status.INVALID, "policy is '': give the path of a file, or None for the usual search")
    # The weirs are opened by the first allocations, and the program may have changed its directory by then.
    file = policy if policy is not None else os.environ.get("WEIR_POLICY") if policy_text is None else None
    wanted = Policy(_place(file) if file else None, policy_text)
    with _lock:
        library = _load()
        if _policy is None:
            if gpu is None and os.environ.get("WEIR_GPU") == "sim":
                raise WeirError(
                    Status.INVALID,
                    "WEIR_GPU=sim is set: no kernel reaches the memory of the simulator, and the first one would end the process. "
                    "Unset WEIR_GPU",
                )
            library.configure(wanted.file, wanted.text, gpu)
            _policy = wanted
        elif _policy != wanted and (policy is not None or policy_text is not None):
            raise WeirError(
                Status.BUSY,
                f"the policy is {_describe(_policy)} already, and {_describe(wanted)} is asked for: one process has "
                "one policy for all",
            )
    return library


def forget_policy() -> None:
    """Of a caller of configure() that came to nothing: another policy may be asked for."""
    global _policy
    with _lock:
        _policy = None


def policy_in_force() -> Optional[Policy]:
    """What configure() was asked for first; None: nothing yet."""
    return _policy
