# SPDX-License-Identifier: MIT
"""libweir-trace, which is found and loaded by the first call: trace/weir_trace.h. Every call lets go of the GIL."""

import ctypes
import functools
from typing import Any, Iterator, List, NoReturn, Tuple

from weir import _library
from weir._errors import Status, WeirError
from weir._version import VERSION

NAME = "libweir-trace.so.0"


class Error(ctypes.Structure):
    """weir_trace_error"""

    _fields_ = [("text", ctypes.c_char * 400)]

    text: bytes

    def throw(self, status: Status, what: str) -> NoReturn:
        """Raises it of a file."""
        raise WeirError(status, f"{what}: {self.text.decode(errors='replace')}")


# The columns of each table, and the letter that the modules array and numpy have for what is in them.
EVENTS = [("kind", "B")] + [(name, "Q") for name in ("time", "thread", "stream", "address", "size", "given", "a", "b")]
EVENTS += [(name, "i") for name in ("pool", "tag", "stack", "name")] + [("live", "Q"), ("held", "Q")]
BLOCKS = [(name, "Q") for name in ("address", "size", "given", "stream", "born", "died")]
BLOCKS += [(name, "i") for name in ("first", "last", "pool", "tag", "stack")]
SEGMENTS = [("address", "Q"), ("given", "Q"), ("first", "i"), ("last", "i"), ("pool", "i")]


class Events(ctypes.Structure):
    """weir_trace_events"""

    _fields_ = [(name, ctypes.c_void_p) for name, _ in EVENTS]


class Blocks(ctypes.Structure):
    """weir_trace_blocks"""

    _fields_ = [(name, ctypes.c_void_p) for name, _ in BLOCKS]


class Segments(ctypes.Structure):
    """weir_trace_segments"""

    _fields_ = [(name, ctypes.c_void_p) for name, _ in SEGMENTS]


class Row(ctypes.Structure):
    """weir_trace_row"""

    _fields_ = [("numbers", ctypes.c_uint64 * 4), ("texts", ctypes.c_char_p * 2)]

    numbers: Any
    texts: Any


class Table:
    """weir_trace_table"""

    EVENTS, BLOCKS, VALUES, POOLS, TAGS, NAMES, STACKS, MODULES, LINES, LOSSES, KINDS = range(11)


_ERROR, _ROW = ctypes.POINTER(Error), ctypes.POINTER(Row)
_PROTOTYPES = {
    "weir_trace_version": (ctypes.c_char_p, []),
    "weir_trace_open": (ctypes.c_bool, [ctypes.c_char_p, _ERROR, ctypes.POINTER(ctypes.c_void_p)]),
    "weir_trace_close": (None, [ctypes.c_void_p]),
    "weir_trace_play": (
        ctypes.c_bool,
        [ctypes.c_void_p, ctypes.POINTER(Events), ctypes.POINTER(Blocks), ctypes.POINTER(Segments), _ERROR]
        + [ctypes.POINTER(ctypes.c_uint64)] * 2,
    ),
    "weir_trace_count": (ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_int]),
    "weir_trace_get": (ctypes.c_bool, [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, _ROW]),
    "weir_trace_frames": (ctypes.c_bool, [ctypes.c_void_p, ctypes.c_uint64] + [ctypes.c_void_p] * 3),
    "weir_trace_symbol": (ctypes.c_bool, [ctypes.c_void_p, ctypes.c_uint64, _ERROR, _ROW]),
    "weir_trace_write_begin": (ctypes.c_bool, [ctypes.c_int, _ERROR, ctypes.POINTER(ctypes.c_void_p)]),
    "weir_trace_write_row": (None, [ctypes.c_void_p, ctypes.c_int, _ROW]),
    "weir_trace_write_stack": (None, [ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t]),
    "weir_trace_write_events": (None, [ctypes.c_void_p, ctypes.POINTER(Events), ctypes.c_uint64]),
    "weir_trace_write_end": (ctypes.c_bool, [ctypes.c_void_p, ctypes.c_uint64, _ERROR]),
}


@functools.lru_cache(maxsize=None)
def load() -> Any:
    """The library."""
    path = _library.find(NAME, "WEIR_TRACE_LIBRARY")
    try:
        library = _library.open_file(path)
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise WeirError(
            Status.NOT_FOUND,
            f"cannot load {path}: {error}. Install Weir's wheel, or Weir itself with `make install`, or set "
            f"WEIR_TRACE_LIBRARY to the path of {NAME}",
        ) from None
    version = library.weir_trace_version().decode()
    if version != VERSION:
        raise WeirError(
            Status.NOT_SUPPORTED,
            f"{path} is of version {version}, and the Python package {__file__} of {VERSION}: install both from the same release",
        )
    return library


def rows(trace: ctypes.c_void_p, table: int) -> Iterator[Tuple[List[int], List[str]]]:
    """The numbers and texts of each row. What is no UTF-8 is replaced."""
    library, row = load(), Row()
    for number in range(library.weir_trace_count(trace, table)):
        library.weir_trace_get(trace, table, number, ctypes.byref(row))
        yield list(row.numbers), [text.decode(errors="replace") for text in row.texts if text is not None]
