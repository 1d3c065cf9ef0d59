# SPDX-License-Identifier: MIT
"""
The figures of Weir under torch's names. Each function takes what torch.cuda's function of that name takes: device is a
torch.device, a number, a string, or None for the current device. None of them makes the first CUDA call of a process;
before that all figures are 0.
"""

import collections
import contextlib
import importlib
import json
import os
import sys
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple

from weir import _library
from weir._errors import Status, WeirError
from weir._library import Stats

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "report",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "stats",
]

_POOLS = ("all", "large_pool", "small_pool")
_METRICS = ("current", "peak", "allocated", "freed")
_BY_POOL = (
    "active",
    "active_bytes",
    "allocated_bytes",
    "allocation",
    "inactive_split",
    "inactive_split_bytes",
    "requested_bytes",
    "reserved_bytes",
    "segment",
)
_OVERSIZE = ("oversize_allocations", "oversize_segments")
_COUNTERS = (
    "max_split_size",
    "num_alloc_retries",
    "num_device_alloc",
    "num_device_free",
    "num_ooms",
    "num_sync_all_streams",
)
# From here on torch calls a block large.
_LARGE = 1 << 20
# As many as torch can number. To ask for those that there are could be the first CUDA call of the process.
_DEVICES = 64


def device_index(device: Any) -> int:
    """The number of the device. Does not make torch use CUDA."""
    if isinstance(device, int):
        return device
    torch = sys.modules.get("torch")
    # Until torch uses CUDA its current device is the first one, and asking torch for it would have it begin.
    if (torch is None or not torch.cuda.is_initialized()) and (device is None or str(device) == "cuda"):
        return 0
    index: int = importlib.import_module("torch.cuda._utils")._get_device_index(device, optional=True)
    return index


def device_stats(device: Any) -> Stats:
    """Weir's own figures of the device; all 0 in the child of a fork, which has none of its memory."""
    try:
        return _library.load().stats(device_index(device))
    except WeirError as error:
        if error.status != Status.FORKED:
            raise
        return Stats()


def stats(device: Any = None) -> Dict[str, Any]:
    """
    Weir's figures by pool, as weir_stats_json() has them: `devices`, `pools`, `tags`, who the process is, and the policy in force with its
    `values`. {} before the first allocation on the device, and in the child of a fork.
    """
    if not device_stats(device).memory:
        return {}
    figures: Dict[str, Any] = json.loads(_library.load().stats_json(device_index(device)))
    return figures


# torch's own, once enable() has put the function below in its place.
native_mem_get_info: Optional[Callable[..., Tuple[int, int]]] = None


def mem_get_info(device: Any = None) -> Tuple[int, int]:
    """
    The free and all bytes of the device, as torch.cuda.mem_get_info(). Under a claim, of weir_reserve() or `weir run --reserve`, all bytes of
    the claim, and as free those that Weir's pools in this process have not taken of it: then programs that take a part of the device, or what
    is free of it, fit beside others.
    """
    # What keeps Weir from the device, keeps CUDA from it as well, or is said by the first allocation.
    with contextlib.suppress(WeirError):
        is_used = "WEIR_RESERVATION" in os.environ or device_stats(device).memory
        claim = _library.load().claim(device_index(device)) if is_used else None
        if claim:
            return claim
    native = native_mem_get_info or importlib.import_module("torch.cuda.memory").mem_get_info
    free, total = native(device)
    return free, total


def memory_stats_as_nested_dict(device: Any = None) -> Dict[str, Any]:
    """memory_stats() as a nested dictionary."""
    stats = device_stats(device)
    calls = {"current": stats.blocks, "peak": stats.blocks, "allocated": stats.mallocs, "freed": stats.frees}
    kept = max(0, stats.graph_reserved - stats.graph_live)
    known: Dict[str, Any] = {
        "active": calls,
        "active_bytes": {"current": stats.active, "peak": max(stats.active, stats.allocated_high)},
        "allocated_bytes": {"current": stats.allocated, "peak": stats.allocated_high},
        "allocation": calls,
        "inactive_split_bytes": {"current": kept, "peak": kept},
        "requested_bytes": {"current": stats.allocated, "peak": stats.allocated_high},
        "reserved_bytes": {"current": stats.reserved, "peak": stats.reserved_high},
        "num_alloc_retries": stats.recoveries,
        "num_ooms": stats.failures,
    }
    nothing = dict.fromkeys(_METRICS, 0)
    nested: Dict[str, Any] = {name: known.get(name, 0) for name in _COUNTERS}
    for name in _OVERSIZE:
        nested[name] = dict(nothing)
    for name in _BY_POOL:
        figures = {**nothing, **known.get(name, {})}
        nested[name] = {"all": figures, "large_pool": dict(figures), "small_pool": dict(nothing)}
    return nested


def _flatten(prefix: str, nested: Dict[str, Any]) -> List[Tuple[str, int]]:
    flat: List[Tuple[str, int]] = []
    for key, value in nested.items():
        flat += _flatten(f"{prefix}{key}.", value) if isinstance(value, dict) else [(prefix + key, value)]
    return flat


def memory_stats(device: Any = None) -> "collections.OrderedDict[str, Any]":
    """
    Figures of the device's memory, with all keys of torch.cuda.memory_stats().

    What they are with Weir, for all of them .all; .large_pool is the same, and .small_pool 0:

    - allocated_bytes, requested_bytes .current, .peak: bytes in tensors. Peaks are exact with `exact_peaks: true` in
      the policy.
    - active_bytes.current: that, and what was freed but waits for other streams or for the end of a capture.
    - reserved_bytes .current, .peak: bytes of the device that the pools hold.
    - inactive_split_bytes.current: bytes that graphs keep and no tensor is in.
    - allocation, active .current: live blocks; .allocated and .freed: calls since the start, or the last
      reset_accumulated_memory_stats().
    - num_alloc_retries: how often memory ran out and recovery ran; num_ooms: how often that did not help.

    Where Weir keeps no peak, .peak is the least that it was: the current figure, or the peak of allocated_bytes for
    active_bytes. What else it does not count is 0: the .allocated and .freed of bytes (which the shim counts, for
    torch's own functions), segment, inactive_split, oversize_allocations, oversize_segments, max_split_size,
    num_device_alloc, num_device_free, num_sync_all_streams.
    """
    return collections.OrderedDict(sorted(_flatten("", memory_stats_as_nested_dict(device))))


def memory_allocated(device: Any = None) -> int:
    """Bytes in tensors."""
    return device_stats(device).allocated


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were in tensors at a time, since the start or the last reset_peak_memory_stats()."""
    return device_stats(device).allocated_high


def memory_reserved(device: Any = None) -> int:
    """Bytes of the device that the pools hold."""
    return device_stats(device).reserved


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the pools held at a time, since the start or the last reset_peak_memory_stats()."""
    return device_stats(device).reserved_high


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(f"{name} is deprecated: use {instead}", FutureWarning, stacklevel=3)


def memory_cached(device: Any = None) -> int:
    """The former name of memory_reserved()."""
    _deprecated("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """The former name of max_memory_reserved()."""
    _deprecated("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def reset_peak_memory_stats(device: Any = None) -> None:
    """The peaks start anew from now."""
    _library.load().reset_peaks(device_index(device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """The counts of calls, recoveries and failures start anew from 0."""
    _library.load().reset_totals(device_index(device))


def reset_max_memory_allocated(device: Any = None) -> None:
    """A former name of reset_peak_memory_stats()."""
    _deprecated("reset_max_memory_allocated", "reset_peak_memory_stats, which resets all peaks, as this does")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """A former name of reset_peak_memory_stats()."""
    _deprecated("reset_max_memory_cached", "reset_peak_memory_stats, which resets all peaks, as this does")
    reset_peak_memory_stats(device)


def report() -> Optional[str]:
    """
    Why the last allocation of this thread that failed did so: what was asked for, what each pool holds, and what was
    tried to get more. None: none failed.

    The shim has torch.OutOfMemoryError say this. Without it, ask where RuntimeError (std::bad_alloc) was caught; what
    failed in a backward pass did so on a thread of torch's own.
    """
    return _library.load().report()


def empty_cache() -> None:
    """Gives back to the devices what no tensor is in. Waits for work of the streams that freed something."""
    _library.load().reset()


def _segment(device: int, address: int, size: int) -> Dict[str, Any]:
    """One block in the form of torch's snapshots."""
    block = {"address": address, "size": size, "requested_size": size, "state": "active_allocated", "frames": []}
    return {
        "device": device,
        "address": address,
        "total_size": size,
        "allocated_size": size,
        "active_size": size,
        "requested_size": size,
        "stream": 0,
        "segment_type": "large" if size >= _LARGE else "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [block],
    }


def memory_snapshot(mempool_id: Optional[Tuple[int, int]] = None, include_traces: bool = True) -> List[Dict[str, Any]]:
    """
    All live blocks of all devices, in the form of torch.cuda.memory_snapshot().

    CUDA does not tell of what its pools consist, so each block is a segment of its own, and what is reserved and in no
    tensor is missing. Nor does Weir keep the stream that a block was asked for, or who asked: stream is 0, frames are
    empty, whatever include_traces says.

    mempool_id: the id of a torch.cuda.MemPool, whose blocks are torch's to show, and not here.
    """
    if mempool_id is not None and tuple(mempool_id) != (0, 0):
        raise NotImplementedError("weir.torch.memory_snapshot: Weir does not know which blocks belong to a MemPool")
    library = _library.load()
    return [_segment(device, *block) for device in range(_DEVICES) for block in library.blocks(device)]
