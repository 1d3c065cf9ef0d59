# SPDX-License-Identifier: MIT
"""The figures of a device as a table for people."""

from typing import Any, List, Optional

from weir.torch._memory import device_index, device_stats


def _bytes(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    size = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            break
    else:
        size, unit = size / 1024, "TiB"
    return f"{size:.2f} {unit}"


def _row(name: str, now: int, peak: Optional[int], what: str) -> str:
    return f"  {name:<12}{_bytes(now):>12}{'' if peak is None else _bytes(peak):>12}   {what}"


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """
    A table of what the memory of the device is used for, and how Weir served it.

    abbreviated: without the counts of calls and recoveries.
    """
    stats = device_stats(device)
    title = f"Weir, device {device_index(device)}: "
    if stats.memory:
        title += f"{_bytes(stats.memory)}, of which {_bytes(stats.memory_free)} free for all processes"
    else:
        title += "nothing was allocated yet"
    lines: List[str] = [
        title,
        f"  {'':<12}{'now':>12}{'peak':>12}",
        _row("in tensors", stats.allocated, stats.allocated_high, "asked for and not freed"),
        _row(
            "waiting",
            stats.active - stats.allocated,
            None,
            "freed, and kept until streams or captures are done with it",
        ),
        _row("cached", stats.cached, None, "freed, and kept by a stream to serve it again"),
        _row("idle", stats.idle, None, "kept by pools, and used by nobody"),
        _row("graphs", stats.graph_reserved, None, f"kept for graphs; {_bytes(stats.graph_live)} of it in tensors"),
        _row("reserved", stats.reserved, stats.reserved_high, "what all pools hold of the device"),
    ]
    if stats.max_size:
        lines.append(_row("at most", stats.max_size, None, "the cap of policy and memory fraction"))
    if not abbreviated:
        share = f" ({100 * stats.cache_hits / stats.mallocs:.1f} %)" if stats.mallocs else ""
        lines += [
            f"  blocks: {stats.blocks} live; {stats.mallocs} allocated, {stats.cache_hits}{share} of them from caches; "
            f"{stats.frees} freed",
            f"  out of memory: recovery ran {stats.recoveries} times and rescued {stats.rescues} requests; "
            f"{stats.failures} were refused",
        ]
    return "\n".join(lines) + "\n"
