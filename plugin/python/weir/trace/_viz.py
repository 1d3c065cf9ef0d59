# SPDX-License-Identifier: MIT
"""
Traces as a snapshot of torch's caching allocator, which torch.cuda._memory_viz and its like read.

Viewers start from the segments that are there at the end, and go back through the events: so each live block lies in a segment at each
step, and the segments at the end are what the events left. Here each piece of memory that was taken from the device is a segment of its
own: of the pages that blocks of an arena share a trace has sums, but no addresses. All segments are of stream 0, since viewers take pools
apart by it; the stream of each event is in its user_metadata.
"""

import bisect
import os
import pickle
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from weir.trace._read import HOST, KINDS, PRIVATE, Trace, output

NUMBER_MAX = (1 << 53) - 1  # viewers' numbers are doubles
DEVICES_MAX = 64  # viewers have a list of events for each device up to the last
ENDED, GIVEN, TAKEN, BEGUN, REFUSED = range(5)  # what happens at one event, in this order


class _Row:
    """The events of one device of a trace, and what is there at their end."""

    def __init__(self, trace: Trace, device: int) -> None:
        self.trace, self.device = trace, device
        self.numpy = trace._numpy
        self.events: List[Dict[str, Any]] = []
        self.left_out = 0
        self.there: Dict[int, Dict[str, Any]] = {}
        self.starts: List[int] = []  # sorted keys of `there`
        numpy, flags = self.numpy, trace.pools["flags"]
        devices = numpy.append(trace.pools["device"], numpy.array([0], dtype="Q"))  # the last is that of no pool, -1
        self.is_ours = (devices == device) & ~numpy.append(flags & HOST > 0, [False])
        kind = trace.events["kind"]
        counts = (devices[trace.events["pool"]] == device) | (kind == KINDS["mark"]) | (kind == KINDS["asked"])
        times = numpy.maximum.accumulate(numpy.where(counts, trace.events["time"], 0)) if len(kind) else trace.events["time"]
        self.end = int(times[-1]) if len(times) else 0
        self.times = numpy.minimum(times // 1000 + trace.started // 1000, NUMBER_MAX).tolist()
        self.columns = {name: trace.events[name].tolist() for name in ("pool", "tag", "stack", "stream", "thread", "a")}
        self.owners: Dict[Tuple[int, int, int, int], str] = {}
        self.frames = _Frames(trace)

    def steps(self) -> List[Tuple[int, int, int]]:
        """(event, what happens, the row of a block or a segment), in their order."""
        numpy, blocks, segments = self.numpy, self.trace.blocks, self.trace.segments
        parts = []
        sorts = ((blocks, "last", ENDED), (segments, "last", GIVEN), (segments, "first", TAKEN), (blocks, "first", BEGUN))
        for table, column, what in sorts:
            rows = numpy.flatnonzero(self.is_ours[table["pool"]] & (table[column] >= 0))
            parts.append((table[column][rows].astype("q"), numpy.full(len(rows), what), rows))
        kind = self.trace.events["kind"]
        devices = numpy.append(self.trace.pools["device"], numpy.array([0], dtype="Q"))
        rows = numpy.flatnonzero((kind == KINDS["out of memory"]) & (devices[self.trace.events["pool"]] == self.device))
        parts.append((rows, numpy.full(len(rows), REFUSED), rows))
        event, happens, row = (numpy.concatenate([part[place] for part in parts]) for place in range(3))
        order = numpy.lexsort((happens, event))
        return list(zip(event[order].tolist(), happens[order].tolist(), row[order].tolist()))

    def pool_id(self, pool: int) -> Tuple[int, int]:
        """(0, 0) is torch's own pool, any other is private to its user."""
        return (0, pool + 1) if pool >= 0 and int(self.trace.pools["flags"][pool]) & PRIVATE else (0, 0)

    def owner(self, event: int) -> str:
        columns = self.columns
        key = (columns["pool"][event], columns["tag"][event], columns["stream"][event], columns["thread"][event])
        if key not in self.owners:
            pool = self.trace.pools["name"][key[0]] if key[0] >= 0 else "?"
            tag = f", tag {self.trace.tags['name'][key[1]]}" if key[1] >= 0 else ""
            self.owners[key] = f"pool {pool}, stream {key[2]:#x}{tag}, thread {key[3]}"
        return self.owners[key]

    def put(self, action: str, event: int, address: Optional[int], size: int, pool: int) -> None:
        made = {"action": action, "size": size, "stream": 0, "time_us": self.times[event], "pool_id": self.pool_id(pool)}
        made.update({"addr": address} if address is not None else {"device_free": 0})  # which a trace does not have
        made.update({"frames": self.frames.of(self.columns["stack"][event]), "user_metadata": self.owner(event)})
        self.events.append(made)

    def end_allocation(self, segment: Dict[str, Any], event: int) -> None:
        for action in ("free_requested", "free_completed"):
            self.put(action, event, segment["address"], segment["size"], segment["pool"])
        segment.update(is_live=False, size=0, event=event)

    def take(self, segment: Dict[str, Any], event: int) -> None:
        """Blocks whose ends were lost make way for what stands there now."""
        begin, end = segment["address"], segment["address"] + segment["given"]
        at = bisect.bisect_left(self.starts, begin)
        if at and self.starts[at - 1] + self.there[self.starts[at - 1]]["given"] > begin:
            at -= 1
        while at < len(self.starts) and self.starts[at] < end:
            old = self.there[self.starts[at]]
            if old["is_live"]:
                self.end_allocation(old, event)
            self.put("segment_free", event, old["address"], old["given"], old["pool"])
            del self.there[self.starts.pop(at)]
        self.put("segment_alloc", event, begin, segment["given"], segment["pool"])
        self.there[begin] = segment
        self.starts.insert(at, begin)

    def play(self) -> None:
        blocks = {name: self.trace.blocks[name].tolist() for name in ("address", "size", "pool")}
        segments = {name: self.trace.segments[name].tolist() for name in ("address", "given", "pool")}
        for event, what, row in self.steps():
            if what == REFUSED:
                self.put("oom", event, None, min(self.columns["a"][event], NUMBER_MAX), self.columns["pool"][event])
                continue
            table = segments if what in (GIVEN, TAKEN) else blocks
            address, pool = table["address"][row], table["pool"][row]
            found = self.there.get(address)
            found = found if found and found["pool"] == pool else None  # else it made way, or could not be
            if what == TAKEN:
                given = segments["given"][row]
                if given and address + given < NUMBER_MAX:
                    made = {"address": address, "given": given, "pool": pool, "is_live": False, "size": 0, "event": event}
                    self.take(made, event)
                else:
                    self.left_out += 1
            elif found and what == ENDED and found["is_live"]:
                self.end_allocation(found, event)
            elif found and what == GIVEN:
                self.put("segment_free", event, address, found["given"], pool)
                del self.there[self.starts.pop(bisect.bisect_left(self.starts, address))]
            elif found and what == BEGUN:
                found.update(is_live=True, size=blocks["size"][row], event=event)
                self.put("alloc", event, address, found["size"], pool)

    def segments(self, device: int) -> List[Dict[str, Any]]:
        made = []
        for address in self.starts:
            found = self.there[address]
            given, frames = found["given"], self.frames.of(self.columns["stack"][found["event"]])
            live = given if found["is_live"] else 0
            block = {"address": address, "size": given, "requested_size": found["size"], "frames": frames}
            block["state"] = "active_allocated" if live else "inactive"
            segment = {"device": device, "address": address, "total_size": given, "allocated_size": live, "active_size": live}
            segment.update(requested_size=found["size"], stream=0, segment_type="small" if given <= 1 << 20 else "large")
            segment.update(segment_pool_id=self.pool_id(found["pool"]), is_expandable=False, frames=frames, blocks=[block])
            made.append(segment)
        return made

    def annotations(self, device: int) -> List[Dict[str, Any]]:
        """From each mark to the next."""
        events, started = self.trace.events, self.trace.started // 1000
        marks = self.numpy.flatnonzero(events["kind"] == KINDS["mark"]).tolist()
        ends = [self.times[mark] for mark in marks[1:]] + [min(self.end // 1000 + started, NUMBER_MAX)]
        made = []
        for mark, end in zip(marks, ends):
            name = self.trace.names["name"][events["name"][mark]] if events["name"][mark] >= 0 else ""
            for stage, time in (("START", self.times[mark]), ("END", end)):
                made.append({"device": device, "time_us": time, "stage": stage, "name": name})
        return made


class _Frames:
    """Each stack once, as a list that all its events share."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.lists: Dict[int, List[Dict[str, Any]]] = {-1: []}
        self.made: Dict[int, Dict[str, Any]] = {}

    def frame(self, number: int) -> Dict[str, Any]:
        if number not in self.made:
            frames, module = self.trace.frames, int(self.trace.frames["module"][number])
            path = self.trace.modules["path"][module] if module >= 0 else "??"
            function, line = frames["function"][number], min(int(frames["line"][number]), NUMBER_MAX)
            is_line = module < 0 and not int(frames["address"][number])
            place = {"filename": frames["file"][number] if is_line else frames["file"][number] or path, "line": line, "name": function}
            if not is_line and not function:
                place = {"filename": path, "line": 0, "name": self.trace._frame_text(number)}
            self.made[number] = place
        return self.made[number]

    def of(self, stack: int) -> List[Dict[str, Any]]:
        if stack not in self.lists:
            begin, end = self.trace._ends[stack], self.trace._ends[stack + 1]
            self.lists[stack] = [self.frame(number) for number in self.trace.stacks["frame"][begin:end].tolist()]
        return self.lists[stack]


def _rows(traces: Sequence[Trace]) -> List[Optional[_Row]]:
    """A device of one trace keeps its number; those of several follow each other. Devices without pools of their own have no events."""
    rows: List[Optional[_Row]] = []
    for trace in traces:
        devices = {0}
        for device, flags in zip(trace.pools["device"].tolist(), trace.pools["flags"].tolist()):
            if device < DEVICES_MAX and not flags & HOST:
                devices.add(device)
        for device in range(max(devices) + 1) if len(traces) == 1 else sorted(devices):
            rows.append(_Row(trace, device) if device in devices else None)
    return rows


def _settings(rows: Sequence[Optional[_Row]]) -> Dict[str, str]:
    """Viewers show these as they are: whose lists of events there are, and by which policy."""
    settings = {"allocator": "weir"}
    for number, row in enumerate(rows):
        if row is None:
            continue
        header = row.trace.header
        rank = f"rank {header['rank']}, " if "rank" in header else ""
        program = header.get("program", row.trace.path)
        settings[f"device {number}"] = f"{program}, process {header.get('pid', '0')}, {rank}device {row.device}"
        if "policy" in header:
            settings[f"policy of device {number}"] = header["policy"]
    return settings


def to_memory_viz(traces: Sequence[Trace], path: Union[str, "os.PathLike[str]", None] = None) -> Dict[str, Any]:
    """One snapshot of all traces. Blocks at addresses where no memory is are left out."""
    rows = _rows(traces)
    snapshot: Dict[str, Any] = {"device_traces": [], "segments": [], "external_annotations": []}
    for number, row in enumerate(rows):
        if row is not None:
            row.play()
            snapshot["segments"] += row.segments(number)
            snapshot["external_annotations"] += row.annotations(number)
        snapshot["device_traces"].append(row.events if row is not None else [])
    snapshot["allocator_settings"] = _settings(rows)
    if path is not None:
        output(path, pickle.dumps(snapshot, protocol=4), traces)
    return snapshot
