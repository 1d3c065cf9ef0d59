# SPDX-License-Identifier: MIT
"""
Traces on the time axis of Perfetto: a process of each, with counters of its pools, what its threads waited for, its marks, and where the
trace has stacks, its requests with them.

All times are nanoseconds since 1970, so that several files stand on one axis. Events of blocks have times of a coarse clock: of those at
one time the counters show the highest and the last value.
"""

import os
from typing import Any, Dict, List, NamedTuple, Sequence, Set, Tuple, Union

from weir.trace._read import CALLS, HOST, KINDS, PRIVATE, Trace, need, output

PROCESS, THREAD, LIVE, HELD = range(4)  # sorts of tracks; their numbers are unique in all the trace
PID_BITS = 22
MOST = (1 << 63) - 1
RUNGS = ("flush", "wait", "trim", "callbacks", "neighbours")
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4  # of perfetto.protos.TrackEvent.Type
CLEARED, NEEDS = 1, 2  # of perfetto.protos.TracePacket.SequenceFlags
CLOCK_IS_REAL, CLOCK_IS_BOOT, UNIT_BYTES = 1, 6, 3
# How long events of these kinds lasted, by the column.
LASTED = {KINDS[name]: "b" for name in ("map", "unmap", "trim", "rung", "held")}
LASTED.update({KINDS["wait"]: "a", KINDS["synchronise"]: "a"})
REQUESTS = {KINDS["malloc"], KINDS["serve"], KINDS["graph malloc"]}
MARK, ASKED, OUT_OF_MEMORY, SETTINGS = KINDS["mark"], KINDS["asked"], KINDS["out of memory"], KINDS["settings"]


class _Span(NamedTuple):
    """Something that lasted. In a thread what has others in it comes before these."""

    thread: int
    begin: int
    end: int
    place: int
    event: int

    def order(self) -> Tuple[int, int, int, int, int]:
        """What took no time comes first. Of two others with the same times the one that ended later has the other in it."""
        is_moment = self.begin == self.end
        return self.thread, self.begin, not is_moment, -self.end, self.place if is_moment else -self.place


class _Counter:
    def __init__(self) -> None:
        self.time = self.last = self.highest = self.written = 0
        self.is_pending = self.is_described = False


class _Writer:
    """One trace, as packets of a sequence of its own."""

    def __init__(self, builder: Any, trace: Trace, number: int, started: int, high_bits: int) -> None:
        self.builder, self.trace, self.number, self.started, self.high_bits = builder, trace, number, started, high_bits
        columns = ("kind", "time", "thread", "stream", "size", "a", "b", "pool", "tag", "stack", "name", "live", "held")
        self.columns = {name: trace.events[name].tolist() for name in columns}
        self.threads: Dict[int, int] = {}  # their numbers, in the order in which they come
        self.described: Set[int] = set()
        self.counters: Dict[Tuple[int, int], _Counter] = {}
        self.spans: List[_Span] = []
        self.interned: Dict[Any, int] = {}
        self.stack_count = 0
        self.now = 0

    def uuid(self, track: int, number: int) -> int:
        return self.number << 35 | track << 33 | number

    def packet(self, time: int) -> Any:
        packet = self.builder.add_packet()
        packet.timestamp = min(self.started + time, MOST)
        packet.trusted_packet_sequence_id = self.number
        return packet

    def event(self, packet: Any, kind: int, track: int, name: str = "") -> Any:
        event = packet.track_event
        event.type, event.track_uuid = kind, track
        if name:
            event.categories.append("weir")
            event.name = name
        return event

    @staticmethod
    def annotate(event: Any, name: str, value: Union[int, str]) -> None:
        annotation = event.debug_annotations.add()
        annotation.name = name
        if isinstance(value, str):
            annotation.string_value = value
        else:
            annotation.uint_value = value

    def annotate_pool(self, event: Any, at: int) -> None:
        if self.columns["pool"][at] >= 0:
            self.annotate(event, "pool", self.trace.pools["name"][self.columns["pool"][at]])

    # Tracks ---------------------------------------------------------------------------------------------------------------

    def track(self, track: int, number: int) -> Any:
        descriptor = self.packet(0).track_descriptor
        descriptor.uuid = self.uuid(track, number)
        if track != PROCESS:
            descriptor.parent_uuid = self.uuid(PROCESS, 0)
        return descriptor

    def id_of(self, number: int) -> int:
        return number & (1 << PID_BITS) - 1 | self.high_bits

    @property
    def pid(self) -> int:
        return _pid_of(self.trace)

    def write_process(self) -> None:
        header = self.trace.header
        name = header.get("program", self.trace.path) + (f" rank {header['rank']}" if "rank" in header else "")
        descriptor = self.track(PROCESS, 0)
        descriptor.name = descriptor.process.process_name = name
        descriptor.process.pid = self.id_of(self.pid)

    def thread_track(self, at: int) -> int:
        """That of the event's thread, which is described before the first event on it."""
        number = self.threads[self.columns["thread"][at]]
        if number not in self.described:
            self.described.add(number)
            thread = self.track(THREAD, number).thread
            thread.pid, thread.tid = self.id_of(self.pid), self.id_of(self.columns["thread"][at])
        return self.uuid(THREAD, number)

    # Counters -------------------------------------------------------------------------------------------------------------

    def describe_counter(self, pool: int, track: int) -> None:
        pools, name = self.trace.pools, "-"
        if pool >= 0:
            flags, device = int(pools["flags"][pool]), int(pools["device"][pool])
            name = pools["name"][pool] + (f"#{int(pools['id'][pool])}" if flags & PRIVATE else "")
            name += f"@{device}" if device and not flags & HOST else ""
        descriptor = self.track(track, pool + 1)
        descriptor.name = f"{name}: {'live' if track == LIVE else 'held'}"
        descriptor.counter.unit = UNIT_BYTES

    def write_value(self, counter: _Counter, pool: int, track: int, value: int) -> None:
        event = self.event(self.packet(counter.time), COUNTER, self.uuid(track, pool + 1))
        event.counter_value = min(value, MOST)
        counter.written = value

    def flush(self, pool: int, track: int, counter: _Counter) -> None:
        if not counter.is_pending:
            return
        if not counter.is_described:
            self.describe_counter(pool, track)
        if counter.highest > counter.last and counter.highest > counter.written:
            self.write_value(counter, pool, track, counter.highest)
        if not counter.is_described or counter.last != counter.written:
            self.write_value(counter, pool, track, counter.last)
        counter.is_described, counter.is_pending = True, False

    def set_counter(self, pool: int, track: int, value: int) -> None:
        counter = self.counters.setdefault((pool, track), _Counter())
        if counter.is_pending and counter.time != self.now:
            self.flush(pool, track, counter)
        if not counter.is_pending and counter.is_described and counter.written == value:
            return
        if not counter.is_pending or counter.highest < value:
            counter.highest = value
        counter.time, counter.last, counter.is_pending = self.now, value, True

    # Spans ----------------------------------------------------------------------------------------------------------------

    def write_begin(self, span: _Span) -> None:
        kind, a = self.columns["kind"][span.event], self.columns["a"][span.event]
        name = self.trace.kinds[kind]
        if kind == KINDS["rung"]:
            name = f"rung {RUNGS[a] if a < len(RUNGS) else a}"
        elif kind == KINDS["held"]:
            name, a = CALLS[a] if a < len(CALLS) else f"call {a}", self.columns["size"][span.event]
        track = self.thread_track(span.event)
        event = self.event(self.packet(span.begin), BEGIN, track, name)
        self.annotate_pool(event, span.event)
        if kind == KINDS["synchronise"]:
            self.annotate(event, "stream", self.columns["stream"][span.event])
        elif kind != KINDS["rung"]:
            self.annotate(event, "bytes", self.columns["b"][span.event] if kind == KINDS["wait"] else a)

    def write_end(self, span: _Span) -> None:
        self.event(self.packet(span.end), END, self.thread_track(span.event))

    def write_spans(self) -> None:
        """Slices of a track have to lie in each other: what is not over when the one around it is, ends with that."""
        opened: List[_Span] = []
        for span in sorted(self.spans, key=_Span.order):
            while opened and (opened[-1].thread != span.thread or opened[-1].end <= span.begin):
                self.write_end(opened.pop())
            if opened and span.end > opened[-1].end:
                span = span._replace(end=opened[-1].end)
            self.write_begin(span)
            opened.append(span)
        while opened:
            self.write_end(opened.pop())

    # Moments --------------------------------------------------------------------------------------------------------------

    def write_moment(self, at: int) -> None:
        kind, a, b = (self.columns[name][at] for name in ("kind", "a", "b"))
        name = self.trace.kinds[kind]
        if kind == MARK:
            name = self.trace.names["name"][self.columns["name"][at]] if self.columns["name"][at] >= 0 else "mark"
        elif kind == ASKED:
            name = "asked by another process"
        elif kind not in (OUT_OF_MEMORY, SETTINGS):
            return
        event = self.event(self.packet(self.columns["time"][at]), INSTANT, self.uuid(PROCESS, 0), name)
        self.annotate_pool(event, at)
        if kind == OUT_OF_MEMORY:
            self.annotate(event, "bytes", a)
            self.annotate(event, "stream", self.columns["stream"][at])
            self.annotate(event, "at", "the pool's cap" if b else "the device")
        elif kind == ASKED:
            self.annotate(event, "bytes", a)
            self.annotate(event, "given", b)
        elif kind == SETTINGS:
            self.annotate(event, "release threshold", a)
            self.annotate(event, "cap", b)

    # Stacks ---------------------------------------------------------------------------------------------------------------

    def intern(self, key: Any) -> Tuple[int, bool]:
        """The number of something, from 1, in its sort, the first of the key; and whether it is new."""
        count = self.interned.get(key[0], 0)
        number = self.interned.setdefault(key, count + 1)
        self.interned[key[0]] = max(count, number)
        return number, number > count

    def intern_file(self, data: Any, module: int, is_line: bool) -> int:
        """Viewers have no frame without a file."""
        number, is_new = self.intern(("file", module, is_line))
        if is_new:
            modules = self.trace.modules
            path = modules["path"][module] if module >= 0 else "(interpreter)" if is_line else "(unknown)"
            data.mapping_paths.add(iid=number, str=path.encode())
            mapping = data.mappings.add(iid=number)
            if module >= 0:
                mapping.start = int(modules["first"][module])
                mapping.end = min(mapping.start + int(modules["bytes"][module]), (1 << 64) - 1)
            mapping.path_string_ids.append(number)
        return number

    def intern_frame(self, data: Any, frame: int) -> int:
        number, is_new = self.intern(("frame", frame))
        if not is_new:
            return number
        frames, modules = self.trace.frames, self.trace.modules
        module, place = int(frames["module"][frame]), int(frames["address"][frame])
        is_line = module < 0 and not place
        function, source, line = frames["function"][frame], frames["file"][frame], int(frames["line"][frame])
        if module >= 0:
            place = (place - int(modules["first"][module]) + int(modules["offset"][module])) & (1 << 64) - 1
        if not is_line and not function:
            function, source, line = self.trace._frame_text(frame), "", 0
        mapping = self.intern_file(data, module, is_line)
        data.function_names.add(iid=number, str=function.encode())
        made = data.frames.add(iid=number, function_name_id=number, mapping_id=mapping, rel_pc=number if is_line else place)
        if source:
            data.source_paths.add(iid=number, str=source.encode())
            made.source_path_iid = number
            if 0 < line < 1 << 32:
                made.line_number = line
        return number

    def write_request(self, at: int) -> None:
        """Who asked for the block: on a trace with stacks, as the rest is in the counters."""
        stack = self.columns["stack"][at]
        begin, end = (int(place) for place in self.trace._ends[stack : stack + 2])
        if begin == end:
            return
        track = self.thread_track(at)
        packet = self.packet(self.columns["time"][at])
        packet.sequence_flags = NEEDS if self.interned.get("stack") else CLEARED | NEEDS
        number, is_new = self.intern(("stack", stack))
        if is_new:
            data = packet.interned_data
            frames = [self.intern_frame(data, frame) for frame in self.trace.stacks["frame"][begin:end].tolist()]
            data.callstacks.add(iid=number, frame_ids=frames[::-1])  # the outermost first
        event = self.event(packet, INSTANT, track, self.trace.kinds[self.columns["kind"][at]])
        event.callstack_iid, event.callstack_weight = number, float(self.columns["size"][at])
        self.annotate(event, "bytes", self.columns["size"][at])
        self.annotate_pool(event, at)
        if self.columns["tag"][at] >= 0:
            self.annotate(event, "tag", self.trace.tags["name"][self.columns["tag"][at]])

    def write(self) -> None:
        columns = self.columns
        self.write_process()
        for at, kind in enumerate(columns["kind"]):
            time, pool = columns["time"][at], columns["pool"][at]
            self.threads.setdefault(columns["thread"][at], len(self.threads))
            self.now = max(self.now, time)
            if kind not in (MARK, ASKED):
                self.set_counter(pool, LIVE, columns["live"][at])
                self.set_counter(pool, HELD, columns["held"][at])
            if kind in LASTED:
                lasted = columns[LASTED[kind]][at]
                self.spans.append(_Span(self.threads[columns["thread"][at]], max(0, time - lasted), time, len(self.spans), at))
            else:
                self.write_moment(at)
            if kind in REQUESTS and columns["stack"][at] >= 0:
                self.write_request(at)
        for (pool, track), counter in sorted(self.counters.items(), key=lambda item: item[0]):
            self.flush(pool, track, counter)
        self.write_spans()


def _pid_of(trace: Trace) -> int:
    text = trace.header.get("pid", "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _write_clocks(builder: Any, started: int) -> None:
    """The clock of a trace is that of the boot; here it is the same as the real one."""
    packet = builder.add_packet()
    packet.timestamp, packet.trusted_packet_sequence_id = started, 1
    for clock in (CLOCK_IS_BOOT, CLOCK_IS_REAL):
        packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=started)


def to_perfetto(traces: Sequence[Trace], path: Union[str, "os.PathLike[str]", None] = None) -> bytes:
    """One trace of Perfetto of them all. Where one says no date, its times count from the earliest of the others."""
    builder = need("perfetto.trace_builder.proto_builder", "perfetto").TraceProtoBuilder()
    first = min((trace.started for trace in traces if trace.started), default=0)
    for place, trace in enumerate(traces):
        started = min(trace.started or first, MOST)
        # Processes of several machines with the same ids stay apart.
        pid = _pid_of(trace)
        is_taken = not pid or pid in [_pid_of(other) for other in traces[:place]]
        if place == 0 and started:
            _write_clocks(builder, started)
        _Writer(builder, trace, place + 1, started, (place % 511 + 1) << PID_BITS if is_taken else 0).write()
    data: bytes = builder.serialize()
    if path is not None:
        output(path, data, traces)
    return data
