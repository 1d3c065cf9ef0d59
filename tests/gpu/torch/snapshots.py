# SPDX-License-Identifier: MIT
"""
What has to hold of torch's memory snapshots for its viewers to read them, whoever took them.

A snapshot is played backwards, from the segments and blocks that there are at its end: each event has to fit to what there
is behind it, and at each step every block lies in a segment.
"""

import pickle
from typing import Any, Dict, List

import torch

ACTIONS = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "snapshot", "oom", "annotate"}
STATES = {"active_allocated", "active_pending_free", "inactive"}

Dictionary = Dict[str, Any]


class _Step:
    """The segments and the active blocks of one device at one step."""

    def __init__(self, segments: List[Dictionary]) -> None:
        self.segments = {segment["address"]: (segment["total_size"], segment["stream"]) for segment in segments}
        self.blocks: Dict[int, List[Any]] = {}  # by address: bytes asked for, and whether it is still torch's
        for segment in segments:
            for block in segment["blocks"]:
                if block["state"] != "inactive":
                    is_torchs = block["state"] == "active_allocated"
                    self.blocks[block["address"]] = [block["requested_size"], is_torchs]

    def stream_of(self, address: int, size: int) -> int:
        """Of the segment that has all of these bytes."""
        for base, (total, stream) in self.segments.items():
            if base <= address and address + size <= base + total:
                return int(stream)
        raise AssertionError(f"{size} bytes at {address:#x} lie in no segment")

    def is_free(self, address: int, size: int) -> bool:
        """Whether no block has any of these bytes."""
        return not any(at < address + size and address < at + asked for at, (asked, _) in self.blocks.items())

    def undo(self, event: Dictionary) -> None:
        """What there was before the event."""
        action = event["action"]
        if action in ("snapshot", "oom", "annotate"):
            return
        address, size = event["addr"], event["size"]
        if action == "segment_free":
            for base, (total, _) in self.segments.items():
                assert base + total <= address or address + size <= base, f"segments overlap: {event}"
            self.segments[address] = (size, event["stream"])
        elif action == "segment_alloc":
            assert self.segments.pop(address, None) == (size, event["stream"]), f"there is no such segment: {event}"
            assert self.is_free(address, size), f"a block is older than its segment: {event}"
        else:
            assert self.stream_of(address, size) == event["stream"], f"the stream is not the segment's: {event}"
            self._undo_block(action, address, size, event)

    def _undo_block(self, action: str, address: int, size: int, event: Dictionary) -> None:
        if action == "free_completed":
            assert self.is_free(address, size), f"somebody has the block: {event}"
            self.blocks[address] = [size, False]
            return
        assert self.blocks.get(address) == [size, action == "alloc"], f"there is no such block: {event}"
        if action == "alloc":
            del self.blocks[address]
        else:
            self.blocks[address][1] = True


def _check_segment(segment: Dictionary) -> None:
    at = segment["address"]
    sums = dict.fromkeys(STATES, 0)
    assert segment["blocks"], segment
    for block in segment["blocks"]:
        assert block["state"] in STATES and block["size"] > 0, block
        assert block.get("address", at) == at, f"a block is not where it should be: {segment}"
        assert block["requested_size"] <= block["size"], block
        at += block["size"]
        sums[block["state"]] += block["size"]
    assert at == segment["address"] + segment["total_size"], f"the blocks do not fill the segment: {segment}"
    assert segment["allocated_size"] == sums["active_allocated"], segment
    assert segment["active_size"] == sums["active_allocated"] + sums["active_pending_free"], segment


def check(snapshot: Dictionary) -> Dictionary:
    """Raises where a rule does not hold; returns the snapshot."""
    for segment in snapshot["segments"]:
        _check_segment(segment)
    for device, events in enumerate(snapshot["device_traces"]):
        step = _Step([segment for segment in snapshot["segments"] if segment["device"] == device])
        for event in events:
            assert event["action"] in ACTIONS and "category" not in event, event
            assert ("device_free" if event["action"] == "oom" else "addr") in event, event
        for event in reversed(events):
            step.undo(event)
    return snapshot


def checked() -> Dictionary:
    """A snapshot of this process, for which the rules hold."""
    return check(torch.cuda.memory._snapshot())


def reports(path: str, rules: bool = True) -> Dict[str, str]:
    """
    What torch's viewer makes of a pickle: its four reports. Two are flame graphs, which are taken before they are drawn.
    rules: they have to hold of it; torch's own snapshots have other streams in some events.
    """
    from torch.cuda import _memory_viz as viewer

    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    if rules:
        check(snapshot)
    return {
        "segsum": viewer.segsum(snapshot),
        "trace": viewer.trace(snapshot),
        "memory": viewer.memory(snapshot, format_flamegraph=str),
        "segments": viewer.segments(snapshot, format_flamegraph=str),
    }
