# SPDX-License-Identifier: MIT
"""A trace as columns of NumPy, which the C reader fills."""

import ctypes
import functools
import os
import stat
import sys
import weakref
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from weir._errors import Status, WeirError
from weir.trace import _native
from weir.trace._native import Table

Columns = Dict[str, Any]
KINDS = {"malloc": 16, "free": 17, "serve": 18, "keep": 19, "return": 20, "live": 21, "cached": 22, "graph malloc": 23, "graph free": 24}
KINDS.update({"map": 32, "unmap": 33, "trim": 34, "figures": 35, "settings": 36, "stream open": 37, "stream close": 38})
KINDS.update({"synchronise": 39, "wait": 40, "rung": 41, "out of memory": 42, "mark": 43, "asked": 44, "held": 45, "yield": 46})
KINDS.update({"sleep": 47, "wake": 48})
# What an event "held" is of, by its column a.
CALLS = ["call 0", "cudaFree", "cudaFreeHost", "cudaHostAlloc", "cudaMalloc", "cudaMallocManaged", "cudaMallocAsync", "cudaFreeAsync"]
CALLS += ["cudaMemPoolTrimTo", "cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemRelease"]
ARENA, HOST, PRIVATE, UNAWARE = 1, 2, 4, 8  # of a pool's flags


def need(module: str, package: str) -> Any:
    """An optional module; WeirError names what to install."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise WeirError(Status.NOT_FOUND, f"weir.trace needs {package} for this ({error}): pip install {package}") from None


class Trace:
    """
    What a trace has. Tables are dicts of columns of one length, which pandas.DataFrame() and polars.DataFrame() take as they are; numbers
    of other tables' rows are -1 for none.

    path: the file. header: its keys and values, such as "program" and "policy" (doc/trace.md).
    events: kind (see kinds), time (ns since the recording was started), thread, stream, address, size (bytes asked for), given, a, b, pool,
    tag, stack, name; live and held are what the program has, and what the pool holds, of the event's pool behind it.
    blocks: each block of the program, in the order of births: address, size, given, stream, born and died (times), first and last
    (events; last is -1 where it was never freed, and died then the end), pool, tag, stack.
    segments: the memory that blocks lie in, from the device to the device: address, given, first, last, pool.
    pools: name, id, device, flags (1 arena, 2 host memory, 4 private, 8 of a program that calls CUDA by itself).
    tags, names: name. modules: path, build_id, first, bytes, offset.
    stacks: a row for each frame of each stack, the innermost first: stack, depth, frame.
    kinds: the name of each kind of event. losses: what the file lacks; all 0 and closed if that is nothing.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self._numpy = need("numpy", "numpy")
        self.path = os.fspath(path)
        self._library = _native.load()
        self._trace = ctypes.c_void_p()
        error = _native.Error()
        if not self._library.weir_trace_open(os.fsencode(self.path), error, self._trace):
            error.throw(Status.UNREADABLE, self.path)
        weakref.finalize(self, self._library.weir_trace_close, self._trace)
        self.events: Columns = self._room(_native.EVENTS, Table.EVENTS)
        self.blocks: Columns = self._room(_native.BLOCKS, Table.BLOCKS)
        self._play(events=self.events, blocks=self.blocks)
        self._read_tables()

    def _room(self, columns: List[Tuple[str, str]], table: int) -> Columns:
        # Blocks never outnumber the play's own bound, which is one more than their count.
        count = self._library.weir_trace_count(self._trace, table) + (table == Table.BLOCKS)
        return {name: self._numpy.empty(count, dtype=letter) for name, letter in columns}

    def _play(self, events: Optional[Columns] = None, blocks: Optional[Columns] = None, segments: Optional[Columns] = None) -> None:
        """Fills the columns, and cuts them to what there is."""

        def pointers(kind: Any, columns: Optional[Columns]) -> Any:
            return None if columns is None else kind(*[column.ctypes.data for column in columns.values()])

        counts, error = (ctypes.c_uint64(), ctypes.c_uint64()), _native.Error()
        tables = pointers(_native.Events, events), pointers(_native.Blocks, blocks), pointers(_native.Segments, segments)
        if not self._library.weir_trace_play(self._trace, *tables, error, *counts):
            error.throw(Status.UNREADABLE, self.path)
        for table, count in ((blocks, counts[0].value), (segments, counts[1].value)):
            if table is not None:
                table.update({name: column[:count] for name, column in table.items()})

    @functools.cached_property
    def segments(self) -> Columns:
        """The memory that blocks lie in; read from the file by the first use."""
        columns = self._room(_native.SEGMENTS, Table.BLOCKS)
        self._play(segments=columns)
        return columns

    def _read_tables(self) -> None:
        def rows(table: int) -> List[Tuple[List[int], List[str]]]:
            return list(_native.rows(self._trace, table))

        def numbers(of: List[Tuple[List[int], List[str]]], place: int) -> Any:
            return self._numpy.array([row[0][place] for row in of], dtype="Q")

        self.header: Dict[str, str] = {texts[0]: texts[1] for _, texts in reversed(rows(Table.VALUES))}
        (lost, texts), *_ = rows(Table.LOSSES)
        self.losses = {"events": lost[0], "blocks": lost[1], "bytes": lost[2], "closed": bool(lost[3]), "first": texts[0]}
        self.kinds: Dict[int, str] = {row[0][0]: row[1][0] for row in rows(Table.KINDS) if row[1][0]}
        pools, modules = rows(Table.POOLS), rows(Table.MODULES)
        self.pools: Columns = {"name": [row[1][0] for row in pools]}
        self.pools.update({name: numbers(pools, place) for place, name in enumerate(("id", "device", "flags"))})
        self.tags: Columns = {"name": [row[1][0] for row in rows(Table.TAGS)]}
        self.names: Columns = {"name": [row[1][0] for row in rows(Table.NAMES)]}
        self.modules: Columns = {"path": [row[1][1] for row in modules], "build_id": [row[1][0] for row in modules]}
        self.modules.update({name: numbers(modules, place) for place, name in enumerate(("first", "bytes", "offset"))})
        self._lines = rows(Table.LINES)
        self._read_stacks([row[0][0] for row in rows(Table.STACKS)])

    def _read_stacks(self, counts: List[int]) -> None:
        """Equal frames of different stacks become one."""
        numpy, total = self._numpy, sum(counts)
        ends = numpy.cumsum(numpy.array([0] + counts, dtype="q"))
        frames = numpy.empty(total, dtype=[("address", "Q"), ("line", "i"), ("module", "i")])
        address, line, module = (numpy.empty(total, dtype=letter) for letter in ("Q", "i", "i"))
        for stack in range(len(counts)):
            at = int(ends[stack])
            self._library.weir_trace_frames(
                self._trace, stack, address.ctypes.data + 8 * at, line.ctypes.data + 4 * at, module.ctypes.data + 4 * at
            )
        frames["address"], frames["line"], frames["module"] = address, line, module
        self._unique, which = numpy.unique(frames, return_inverse=True)
        stacks = numpy.repeat(numpy.arange(len(counts), dtype="i"), counts)
        depth = (numpy.arange(total, dtype="q") - numpy.repeat(ends[:-1], counts)).astype("i")
        self.stacks: Columns = {"stack": stacks, "depth": depth, "frame": which.reshape(-1).astype("i")}
        self._ends = ends

    @functools.cached_property
    def frames(self) -> Columns:
        """
        function, file, line; of native frames address and module (a row of modules). Functions of native code are looked up in the recorded
        files, as far as these are on this machine: the first use may take a while. "" and 0 where nothing is known.
        """
        functions, files, lines = [], [], []
        row, error = _native.Row(), _native.Error()
        for address, line, module in self._unique.tolist():
            if line >= 0:
                numbers, texts = self._lines[line]
            elif module < 0:
                numbers, texts = [0], ["", ""]
            elif self._library.weir_trace_symbol(self._trace, address, error, row):
                numbers, texts = list(row.numbers), [text.decode(errors="replace") for text in row.texts]
            else:
                error.throw(Status.NO_HOST_MEMORY, self.path)
            functions.append(texts[0])
            files.append(texts[1])
            lines.append(numbers[0])
        numpy = self._numpy
        columns = {"function": functions, "file": files, "line": numpy.array(lines, dtype="Q")}
        return {**columns, "address": self._unique["address"], "module": self._unique["module"]}

    def stack(self, number: int) -> List[str]:
        """The frames of a stack as texts, the innermost first; none for -1."""
        if number < 0:
            return []
        return [self._frame_text(frame) for frame in self.stacks["frame"][self._ends[number] : self._ends[number + 1]].tolist()]

    def _frame_text(self, frame: int) -> str:
        frames, address, module = self.frames, int(self._unique["address"][frame]), int(self._unique["module"][frame])
        function, file, line = frames["function"][frame], frames["file"][frame], int(frames["line"][frame])
        if function and file:
            return f"{function} ({file}:{line})" if line else f"{function} ({file})"
        if module < 0:
            return function or f"{address:#x}"
        name = os.path.basename(self.modules["path"][module])
        offset = address - int(self.modules["first"][module]) + int(self.modules["offset"][module])
        return f"{function} ({name})" if function else f"{name}+{offset:#x}"

    @property
    def started(self) -> int:
        """Nanoseconds since 1970 of the moment that times count from; 0: the file does not say."""
        text = self.header.get("started.real", "")
        return int(text) if text.isascii() and text.isdigit() and int(text) < 1 << 64 else 0

    def live(self, device: Optional[int] = None) -> Any:
        """
        Bytes that the program has behind each event, over all pools, or those of one device: by the blocks. Its maximum is the peak that
        `weir trace` names.
        """
        numpy = self._numpy
        change = numpy.zeros(len(self.events["time"]) + 1, dtype="q")
        size, pool = self.blocks["size"].astype("q"), self.blocks["pool"]
        if device is not None:
            devices = numpy.append(self.pools["device"], numpy.array([0], dtype="Q"))
            size = numpy.where(devices[pool] == device, size, 0)
        numpy.add.at(change, self.blocks["first"], size)
        numpy.subtract.at(change, self.blocks["last"], size)  # those that were never freed: behind the last event
        return numpy.cumsum(change[:-1])

    def to_memory_viz(self, path: Union[str, "os.PathLike[str]", None] = None) -> Dict[str, Any]:
        """A snapshot for torch's viewers of memory (torch.cuda._memory_viz); also written to a file, if one is named."""
        from weir.trace._viz import to_memory_viz

        return to_memory_viz([self], path)

    def to_perfetto(self, path: Union[str, "os.PathLike[str]", None] = None) -> bytes:
        """A trace for ui.perfetto.dev; also written to a file, if one is named. Needs the package perfetto."""
        from weir.trace._perfetto import to_perfetto

        return to_perfetto([self], path)

    def plot(self, by: str = "tag", ax: Any = None, count: int = 8) -> Any:
        """
        Draws live memory over time, stacked by "tag", "pool", "stack" or "stream": the `count` that have most at their peaks, and the
        rest as one. ax: axes of matplotlib; None: new ones. Returns the axes. Needs the package matplotlib.
        """
        from weir.trace._plot import plot

        return plot(self, by, ax, count)


def read(path: Union[str, "os.PathLike[str]"]) -> Trace:
    """Reads a trace. Raises WeirError: it cannot be read. What is lost of it is no error: see Trace.losses."""
    return Trace(path)


def _takes_the_place(path: str, traces: Sequence[Trace]) -> bool:
    """Whether a new file may replace what has that name, if anything has; False: that is a device or a pipe. Raises WeirError: neither."""
    there = os.stat(path) if os.path.exists(path) else None
    if there is not None and not stat.S_ISREG(there.st_mode) and not stat.S_ISDIR(there.st_mode):
        return False
    if there is not None and any(os.path.exists(trace.path) and os.path.samestat(there, os.stat(trace.path)) for trace in traces):
        raise WeirError(Status.INVALID, f"{path} is one of the traces: name another file")
    if os.path.islink(path):
        raise WeirError(Status.INVALID, f"{path} is a link, which would be replaced by a file: name the file itself, or remove the link")
    return True


def output(path: Union[str, "os.PathLike[str]"], data: bytes, traces: Sequence[Trace]) -> None:
    """
    Writes a file for this user alone, as it has the names and paths that the traces have, in one step: whole or not at all. Devices and
    pipes are written to as they are; "-" is standard output.
    """
    import tempfile

    path = os.fspath(path)
    try:
        if path == "-":
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        if not _takes_the_place(path, traces):
            with open(os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC), "wb") as stream:
                stream.write(data)
            return
        handle, partial = tempfile.mkstemp(prefix=".weir-", dir=os.path.dirname(os.path.abspath(path)))
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(partial, path)
        except BaseException:
            os.unlink(partial)
            raise
    except OSError as error:
        raise WeirError(Status.UNREADABLE, f"{path} cannot be written: {error.strerror}") from None
