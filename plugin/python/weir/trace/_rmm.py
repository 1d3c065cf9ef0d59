# SPDX-License-Identifier: MIT
"""
Logs of RMM's logging resource, as people have them: of any release since 0.13, with or without their heading, between lines of other
loggers.

A row is Thread,Time,Action,Pointer,Size,Stream; 0.13 and 0.14 have no thread, and releases before 21.06 have a colon before the fraction
of a second. Times are of a day that the log does not say.
"""

import gzip
import re
import zlib
from typing import Dict, IO, Tuple

from weir._errors import Status, WeirError
from weir.trace._read import HOST, Trace
from weir.trace._write import FREE, MALLOC, NUMBER, OUT_OF_MEMORY, Making

HEADING = "Thread,Time,Action,Pointer,Size,Stream"
LACKS = (
    "A log of RMM does not tell what was allocated before its first row, which streams waited for which, what memory was reserved, and who "
    "asked for it. Streams count as opened, so that they may have caches, but for the per-thread default stream, of which each thread has "
    "its own."
)
_HEADINGS = {HEADING, "Time,Action,Pointer,Size,Stream"}
_OLD_HEADING = "Event Type,Device ID,Address,Stream,Size (bytes)"
# "(nil)" is glibc's way to print no pointer; of a failure older releases print none.
_ROW = re.compile(
    r"(?:(?P<thread>\d{1,20}),)?(?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d)(?:[.:](?P<fraction>\d{1,9}))?,"
    r"(?P<action>allocate failure|allocate|free),(?P<pointer>(?:0x)?[0-9a-fA-F]{1,16}|\(nil\)|),(?P<size>\d{1,20}),"
    r"(?P<stream>0x[0-9a-fA-F]{1,16}|\d{1,20}|\(nil\)|)"
)
_LINE_MAX = 65536  # bytes; what is longer is no row
_SECOND, _DAY = 10**9, 86400 * 10**9
_PER_THREAD = 2  # the handle of CUDA's per-thread default stream


class _Clock:
    """Times of several threads may step back a little, but by half a day only at midnight."""

    def __init__(self) -> None:
        self.first = self.last = -1
        self.days = 0

    def of(self, row: "re.Match[str]") -> int:
        """Nanoseconds since the first row; -1: it is no time of a day."""
        hour, minute, second = int(row["hour"]), int(row["minute"]), int(row["second"])
        if hour > 23 or minute > 59 or second > 60:
            return -1
        time = (hour * 3600 + minute * 60 + second) * _SECOND + int((row["fraction"] or "0").ljust(9, "0"))
        if self.first < 0:
            self.first = self.last = time
        self.days += time + _DAY // 2 < self.last
        self.last = time
        return max(0, self.days * _DAY + time - self.first)


def _number(text: str, base: int) -> int:
    text = "" if text == "(nil)" else text
    return int(text, 16 if text.startswith("0x") else base) if text else 0


class _Reader:
    def __init__(self) -> None:
        self.making = Making("A log of RMM", LACKS)
        self.clock = _Clock()
        self.pool = self.making.pool("rmm", 0)
        self.threads: Dict[int, int] = {}
        self.skipped = 0
        self.first_skipped: Tuple[int, str] = (0, "")

    def skip(self, line: int, text: str) -> None:
        self.skipped += 1
        if self.skipped == 1:
            self.first_skipped = (line, "".join(letter if letter.isprintable() else "?" for letter in text[:60]))

    def take(self, row: "re.Match[str]") -> bool:
        """Whether it is a row indeed."""
        thread, size = int(row["thread"] or 1), int(row["size"])
        pointer, stream = _number(row["pointer"], 16), _number(row["stream"], 10)
        time = self.clock.of(row)
        if time < 0 or max(thread, size, stream) > NUMBER:
            return False
        if stream == _PER_THREAD:
            stream |= (self.threads.setdefault(thread, len(self.threads)) + 1) << 32
        else:
            self.making.open_stream(time, thread, stream, self.pool)
        if row["action"] == "allocate failure":
            self.making.add(OUT_OF_MEMORY, time, thread, stream=stream, pool=self.pool, a=size)
        else:
            kind = MALLOC if row["action"] == "allocate" else FREE
            self.making.add(kind, time, thread, stream=stream, pool=self.pool, address=pointer, size=size, given=size)
        return True

    def look(self, number: int, data: bytes) -> None:
        text = data.decode("utf-8", "replace").strip().strip("\ufeff")
        row = _ROW.fullmatch(text)
        if row is None and text.startswith(_OLD_HEADING):
            raise WeirError(Status.NOT_SUPPORTED, "it is a log of RMM before 0.13, of 2019, which is not read: its frees say no size")
        if row is not None and self.take(row):
            return
        if text and text not in _HEADINGS:
            self.skip(number, text)


def read(file: IO[bytes]) -> Tuple[Making, str]:
    """What the log says, and what of it could not be read, "" if that is nothing. Raises WeirError: nothing could be."""
    reader, number, cut = _Reader(), 0, ""
    try:
        while data := file.readline(_LINE_MAX):
            number += 1
            whole = data
            while len(data) == _LINE_MAX and not data.endswith(b"\n"):
                data = file.readline(_LINE_MAX)
                whole = b"a line of more than 65,536 bytes"
            reader.look(number, whole)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        cut = f"it ends too early, within what gzip packed: {error}"
    making, line = reader.making, reader.first_skipped
    if not len(making):
        began = ": no call was logged" if number else ": it is empty"
        began = f"; line {line[0]} is '{line[1]}'" if reader.skipped else began
        raise WeirError(
            Status.UNREADABLE,
            f"it has no row of a log of RMM, which are {HEADING}{began}. A memory snapshot of torch would begin as a pickle",
        )
    making.values["started.real"] = str(reader.clock.first)
    making.values["imported.lines"] = str(number)
    left_out = cut
    if reader.skipped:
        left_out += "; " if cut else ""
        left_out += f"{reader.skipped:,} of {number:,} lines are no rows of RMM and left out; the first is line {line[0]}: '{line[1]}'"
    return making, left_out


def to_rmm(trace: Trace) -> bytes:
    """
    A trace as a log of RMM: what the program allocated and freed, whichever pool of a device it came from. What it had before the
    recording is allocated at the beginning, and each free has its allocation, so that whoever replays the log never frees what is not
    there. Times are those of the day in UTC.
    """
    numpy, blocks, events = trace._numpy, trace.blocks, trace.events
    flags = numpy.append(trace.pools["flags"], numpy.array([0], dtype="Q"))
    ours = numpy.flatnonzero((flags[blocks["pool"]] & HOST == 0) & (blocks["given"] > 0))
    steps = [(last, 0, row) for last, row in zip(blocks["last"][ours].tolist(), ours.tolist()) if last >= 0]
    steps += [(first, 1, row) for first, row in zip(blocks["first"][ours].tolist(), ours.tolist())]
    steps += [(event, 2, 0) for event in numpy.flatnonzero(events["kind"] == OUT_OF_MEMORY).tolist()]
    moments = (trace.started // 1000 + (trace.started % 1000 + numpy.maximum.accumulate(events["time"])) // 1000).tolist() if steps else []
    columns = {name: events[name].tolist() for name in ("thread", "stream", "a")}
    addresses, sizes = blocks["address"].tolist(), blocks["size"].tolist()
    lines, there = [HEADING], dict[int, int]()

    def put(event: int, action: str, address: int, size: int) -> None:
        second, micro = divmod(moments[event], 10**6)
        clock = f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}.{micro:06}"
        lines.append(f"{columns['thread'][event]},{clock},{action},{address:#x},{size},{columns['stream'][event]:#x}")

    for event, what, row in sorted(steps):
        address = addresses[row] if what < 2 else 0
        if what == 2:
            put(event, "allocate failure", 0, columns["a"][event])
        elif what == 1:
            if address in there:  # of another pool, and its free was lost
                put(event, "free", address, sizes[there[address]])
            there[address] = row
            put(event, "allocate", address, sizes[row])
        elif there.get(address) == row:
            del there[address]
            put(event, "free", address, sizes[row])
    return "\n".join(lines + [""]).encode()
