# SPDX-License-Identifier: MIT
"""A trace that is made of another program's file, which the C library writes. Needs no NumPy."""

import ctypes
import os
import sys
from array import array
from typing import Any, Dict, List, Sequence, Tuple

from weir._errors import Status, WeirError
from weir._version import VERSION
from weir.trace import _native
from weir.trace._native import EVENTS, Row, Table

MALLOC, FREE, LIVE, STREAM_OPEN, OUT_OF_MEMORY, MARK = 16, 17, 21, 37, 42, 43
NUMBER = (1 << 64) - 1

Frame = Tuple[str, str, int]  # function, file, line


class Making:
    """What was read so far. Events come in the order in which they happened."""

    def __init__(self, kind: str, lacks: str) -> None:
        """kind: what the file is, "a log of RMM"; lacks: a sentence on what such a file does not tell."""
        self.values: Dict[str, str] = {"weir": VERSION, "reason": "file", "level": "all", "imported": kind, "imported.lacks": lacks}
        self.columns: Dict[str, Any] = {name: array(letter) for name, letter in EVENTS if name not in ("live", "held")}
        self.pools: List[Tuple[str, int, int]] = []
        self.stacks: Dict[Tuple[Frame, ...], int] = {}
        self.texts: Dict[int, Dict[str, int]] = {Table.TAGS: {}, Table.NAMES: {}}
        self._opened: Dict[Tuple[int, int], bool] = {}
        self.lost = 0

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def pool(self, name: str, device: int, flags: int = 0) -> int:
        self.pools.append((name, device, flags))
        return len(self.pools) - 1

    def text(self, table: int, name: str) -> int:
        """The row of a tag or a name, which is made if it is new."""
        return self.texts[table].setdefault(name, len(self.texts[table]))

    def stack(self, frames: Sequence[Frame]) -> int:
        """The innermost frame first; -1 for none."""
        return self.stacks.setdefault(tuple(frames), len(self.stacks)) if frames else -1

    def add(self, kind: int, time: int, thread: int, **fields: int) -> None:
        """One event; fields that are not named are 0, rows of tables none."""
        for name, letter in EVENTS[3:-2]:
            self.columns[name].append(fields.get(name, -1 if letter == "i" else 0))
        self.columns["kind"].append(kind)
        self.columns["time"].append(time)
        self.columns["thread"].append(thread)

    def open_stream(self, time: int, thread: int, stream: int, pool: int) -> None:
        """The program's stream is one that Weir may have a cache for, from its first use on."""
        if (stream, pool) not in self._opened:
            self._opened[(stream, pool)] = True
            self.add(STREAM_OPEN, time, thread, stream=stream, pool=pool)

    # Writing --------------------------------------------------------------------------------------------------------------

    def _write_tables(self, library: Any, writer: ctypes.c_void_p) -> None:
        def put(table: int, texts: Sequence[str], numbers: Sequence[int] = ()) -> None:
            row = Row()
            for place, text in enumerate(texts):
                row.texts[place] = text.replace("\0", " ").encode("utf-8", "replace")
            for place, number in enumerate(numbers):
                row.numbers[place] = number
            library.weir_trace_write_row(writer, table, row)

        self.values["stacks"] = "true" if self.stacks else "false"
        for key, value in self.values.items():
            put(Table.VALUES, (key, value))
        for name, device, flags in self.pools:
            put(Table.POOLS, (name,), (0, device, flags))
        for table, names in self.texts.items():
            for name in names:
                put(table, (name,))
        lines: Dict[Frame, int] = {}
        for frames in self.stacks:
            rows = []
            for function, file, line in frames:
                if (function, file, line) not in lines:
                    lines[(function, file, line)] = len(lines)
                    put(Table.LINES, (function, file), (min(max(line, 0), NUMBER),))
                rows.append(lines[(function, file, line)])
            library.weir_trace_write_stack(writer, (ctypes.c_uint32 * len(rows))(*rows), len(rows))

    def write(self, fd: int, name: str) -> None:
        """Writes the trace into an open file. name: what errors call it."""
        library, writer, error = _native.load(), ctypes.c_void_p(), _native.Error()
        if not library.weir_trace_write_begin(fd, error, writer):
            error.throw(Status.NO_HOST_MEMORY, name)
        self._write_tables(library, writer)
        pointers = [self.columns[column].buffer_info()[0] if column in self.columns else None for column, _ in EVENTS]
        library.weir_trace_write_events(writer, _native.Events(*pointers), len(self))
        if not library.weir_trace_write_end(writer, self.lost, error):
            error.throw(Status.UNREADABLE, name)

    def write_file(self, path: str) -> None:
        """Into a new file for this user alone, which does not stay if it could not be written whole; "-": standard output."""
        if path == "-":
            sys.stdout.flush()
            self.write(1, "standard output")
            return
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            raise WeirError(Status.BUSY, f"{path} is there already: name a file that is not, as traces replace none") from None
        except OSError as error:
            raise WeirError(Status.UNREADABLE, f"{path} cannot be made: {error.strerror}") from None
        try:
            os.fchmod(fd, 0o600)  # whatever the umask is
            self.write(fd, path)
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(fd)
