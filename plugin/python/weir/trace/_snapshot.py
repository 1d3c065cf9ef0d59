# SPDX-License-Identifier: MIT
"""
Memory snapshots of torch (torch.cuda.memory._dump_snapshot(), and what people have after an out-of-memory): pickles of dicts and lists.

The pickle is read without anything that could run code: one that names a class or a function is refused. What is in it was written by
anybody, so each field is looked at before it is used.
"""

import io
import pickle
import resource
from typing import Any, Dict, IO, Iterator, List, NamedTuple, NoReturn, Tuple

from weir._errors import Status, WeirError
from weir.trace._native import Table
from weir.trace._write import FREE, LIVE, MALLOC, MARK, NUMBER, OUT_OF_MEMORY, Frame, Making

LACKS = (
    "A snapshot of torch does not tell which streams waited for which, nor when frees of blocks that other streams used were over: a block "
    "counts as free when the program freed it. Nor does it tell threads; its history begins where torch's ring did."
)
_FRAMES_MAX = 256
_ALIGNMENT = 512  # of torch's sizes
_TAG_MAX = 63  # bytes
_PRIVATE = 4  # of a pool's flags
_TEXT_MAX = 4096  # letters of a name
_FILE_MAX = 4 << 30  # bytes, unpacked
# Bytes of memory that a pickle may ask for: torch's need some ten for each byte of theirs. A few bytes of a hostile one ask for all.
_MEMORY_MIN, _MEMORY_OF_BYTE = 1 << 30, 64


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module[:99]}.{name[:99]}, which no snapshot of torch does")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("it names objects outside of it, which no snapshot of torch does")


class _Step(NamedTuple):
    """One entry of the history, or a block that is there at its end."""

    what: str
    address: int
    size: int
    given: int
    stream: int
    pool: Tuple[int, int]
    time: int  # nanoseconds since 1970
    stack: int
    tag: int


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value <= NUMBER else 0


def _list(value: Any) -> List[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value[:_TEXT_MAX] if isinstance(value, str) else ""


def _pool_of(value: Any) -> Tuple[int, int]:
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return _number(value[0]), _number(value[1])
    return 0, 0


class _Reader:
    def __init__(self, snapshot: Dict[Any, Any]) -> None:
        self.making = Making("A memory snapshot of torch", LACKS)
        self.snapshot = snapshot
        # By their devices: a device that has memory may lack a history.
        self.histories: Dict[int, List[Any]] = dict(enumerate(map(_list, _list(snapshot.get("device_traces")))))
        self.segments: Dict[int, List[Dict[Any, Any]]] = {}
        for segment in _list(snapshot.get("segments")):
            if isinstance(segment, dict):
                device = _number(segment.get("device", 0))
                self.segments.setdefault(device, []).append(segment)
                self.histories.setdefault(device, [])
        self.stacks: Dict[int, int] = {}  # by the identity of the list, which is one for all its entries
        self.pools: Dict[Tuple[int, Tuple[int, int]], int] = {}
        self.unread = 0
        self.begin = 0

    def repeats(self) -> bool:
        """Whether a list of entries is named more than once, by which a small file would have as many entries as it likes."""
        lists = list(self.histories.values()) + [segment.get("blocks") for segments in self.segments.values() for segment in segments]
        places = [id(entries) for entries in lists if _list(entries)]
        return len(set(places)) < len(places)

    def stack(self, value: Any) -> int:
        frames = _list(value)
        if id(frames) not in self.stacks or not frames:
            made: List[Frame] = []
            for frame in frames[:_FRAMES_MAX]:
                if isinstance(frame, dict):
                    made.append((_text(frame.get("name")), _text(frame.get("filename")), _number(frame.get("line"))))
            if not frames:
                return -1
            self.stacks[id(frames)] = self.making.stack(made)
        return self.stacks[id(frames)]

    def tag(self, value: Any) -> int:
        text = _text(value)
        return self.making.text(Table.TAGS, text) if text and len(text.encode("utf-8", "replace")) <= _TAG_MAX else -1

    def pool(self, device: int, pool: Tuple[int, int]) -> int:
        """(0, 0) is torch's own, others are those of graphs and of torch.cuda.MemPool."""
        if (device, pool) not in self.pools:
            name = "torch" if pool == (0, 0) else f"private {pool[0]}.{pool[1]}"
            self.pools[(device, pool)] = self.making.pool(name, device, 0 if pool == (0, 0) else _PRIVATE)
        return self.pools[(device, pool)]

    def step(self, entry: Any, last: int) -> "_Step | None":
        if not isinstance(entry, dict) or not isinstance(entry.get("action"), str):
            self.unread += 1
            return None
        size = _number(entry.get("size"))
        given = (max(size, 1) + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        time = min(_number(entry.get("time_us")) * 1000, NUMBER)
        if given > NUMBER:
            self.unread += 1
            return None
        stack, tag = self.stack(entry.get("frames")), self.tag(entry.get("user_metadata"))
        pool = _pool_of(entry.get("pool_id"))
        address, stream = _number(entry.get("addr")), _number(entry.get("stream"))
        return _Step(entry["action"], address, size, given, stream, pool, max(time, last), stack, tag)

    def history(self, entries: List[Any]) -> List[_Step]:
        steps: List[_Step] = []
        for entry in entries:
            step = self.step(entry, steps[-1].time if steps else 0)
            if step is not None:
                steps.append(step)
        return steps

    def blocks(self, device: int) -> Iterator[_Step]:
        """The blocks that the program has at the end."""
        for segment in self.segments.get(device, []):
            address = _number(segment.get("address"))
            stream, pool = _number(segment.get("stream")), _pool_of(segment.get("segment_pool_id"))
            for block in _list(segment.get("blocks")):
                if not isinstance(block, dict):
                    self.unread += 1
                    continue
                given = _number(block.get("size"))
                at = _number(block.get("address", address))
                address = at + given
                if block.get("state") == "active_allocated" and at <= NUMBER:
                    size = min(_number(block.get("requested_size", given)), given)
                    yield _Step("live", at, size, given, stream, pool, 0, self.stack(block.get("frames")), -1)

    def live_before(self, steps: List[_Step], device: int) -> List[_Step]:
        """What the program had when the history began: what is freed, or is there at its end, and was not allocated in it."""
        found, live, requested = [], set(), set()
        for step in steps:
            if step.what == "alloc":
                live.add(step.address)
                requested.discard(step.address)
            elif step.what == "free_requested":
                if step.address not in live and step.address not in requested:
                    found.append(step)
                live.discard(step.address)
                requested.add(step.address)
            elif step.what == "free_completed":
                live.discard(step.address)
                requested.discard(step.address)
        return found + [block for block in self.blocks(device) if block.address not in live]

    def memory(self, device: int, entries: List[Any]) -> int:
        """
        What the process could have of the device when a request last found no memory: what torch held then, by the segments that are
        there at the end and what went since, and what the device had free. 0: no request failed.
        """
        held = 0
        for segment in self.segments.get(device, []):
            held += _number(segment.get("total_size"))
        for entry in reversed(entries):
            if isinstance(entry, dict) and entry.get("action") == "oom":
                return min(max(held, 0) + _number(entry.get("device_free")), NUMBER)
            if isinstance(entry, dict) and entry.get("action") in ("segment_alloc", "segment_map"):
                held -= _number(entry.get("size"))
            elif isinstance(entry, dict) and entry.get("action") in ("segment_free", "segment_unmap"):
                held += _number(entry.get("size"))
        return 0

    def put(self, kind: int, time: int, device: int, step: _Step) -> None:
        """All of them are of one thread, as a snapshot does not tell."""
        pool = self.pool(device, step.pool)
        if step.stream != 2:  # the per-thread default stream, which Weir has no caches for
            self.making.open_stream(time, 1, step.stream, pool)
        if kind == OUT_OF_MEMORY:
            self.making.add(kind, time, 1, stream=step.stream, pool=pool, a=step.size)
            return
        fields = {"address": step.address, "size": step.size, "given": step.given, "tag": step.tag, "stack": step.stack}
        self.making.add(kind, time, 1, stream=step.stream, pool=pool, **fields)

    def marks(self) -> List[Tuple[int, str]]:
        """Annotations of regions: where they begin."""
        made = []
        for entry in _list(self.snapshot.get("external_annotations")):
            if isinstance(entry, dict) and entry.get("stage") == "START":
                made.append((min(_number(entry.get("time_us")) * 1000, NUMBER), _text(entry.get("name"))))
        return sorted(set(made))

    def play(self) -> None:
        histories = {device: self.history(entries) for device, entries in self.histories.items()}
        for device, entries in self.histories.items():
            if memory := self.memory(device, entries):
                self.making.values[f"gpu.{device}.memory"] = str(memory)
        marks = self.marks()
        times = [steps[0].time for steps in histories.values() if steps] + [mark[0] for mark in marks[:1]]
        self.begin = min(times, default=0)
        before = {device: self.live_before(steps, device) for device, steps in histories.items()}
        for device, steps in before.items():
            for step in steps:
                self.put(LIVE, 0, device, step)
        order = [(step.time, device, place) for device, steps in histories.items() for place, step in enumerate(steps)]
        order += [(time, -1, place) for place, (time, _) in enumerate(marks)]
        live = {device: {step.address for step in steps} for device, steps in before.items()}
        for time, device, place in sorted(order):
            time -= self.begin
            if device < 0:
                self.making.add(MARK, time, 1, name=self.making.text(Table.NAMES, marks[place][1]))
                continue
            step = histories[device][place]
            if step.what == "alloc":
                live[device].add(step.address)
                self.put(MALLOC, time, device, step)
            elif step.what in ("free_requested", "free_completed") and step.address in live[device]:
                live[device].discard(step.address)
                self.put(FREE, time, device, step)
            elif step.what == "oom":
                self.put(OUT_OF_MEMORY, time, device, step)


def _whole(file: IO[bytes]) -> bytes:
    parts, size = [], 0
    while part := file.read(1 << 20):
        parts.append(part)
        size += len(part)
        if size > _FILE_MAX:
            raise WeirError(Status.UNREADABLE, "it has more than 4 GiB: record fewer entries (max_entries of _record_memory_history())")
    return b"".join(parts)


def _unpickle(data: bytes) -> Any:
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = _MEMORY_MIN + _MEMORY_OF_BYTE * len(data)
    if soft == resource.RLIM_INFINITY or soft > bound:
        resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except MemoryError:
        raise WeirError(Status.NO_HOST_MEMORY, "its pickle asks for more memory than there is, or than one of its size needs") from None
    except Exception as error:  # whatever a damaged pickle does to its reader
        raise WeirError(Status.UNREADABLE, f"it is no snapshot of torch: {error}") from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def read(file: IO[bytes]) -> Tuple[Making, str]:
    """What the snapshot says, and what of it could not be read, "" if that is nothing. Raises WeirError: nothing could be."""
    snapshot = _unpickle(_whole(file))
    if isinstance(snapshot, list):  # of before torch 2.0: the segments alone
        snapshot = {"segments": snapshot}
    if not isinstance(snapshot, dict) or "segments" not in snapshot and "device_traces" not in snapshot:
        raise WeirError(Status.UNREADABLE, "it is a pickle, but no snapshot of torch: it has neither 'segments' nor 'device_traces'")
    reader = _Reader(snapshot)
    if reader.repeats():
        raise WeirError(Status.UNREADABLE, "it names one list of entries more than once, which no snapshot of torch does")
    reader.play()
    if not len(reader.making):
        raise WeirError(
            Status.UNREADABLE,
            "it has no history and no live blocks: call torch.cuda.memory._record_memory_history() before what you want to see",
        )
    if reader.begin:
        reader.making.values["started.real"] = str(reader.begin)
    left_out = f"{reader.unread:,} entries are not as torch writes them, and left out" if reader.unread else ""
    return reader.making, left_out
