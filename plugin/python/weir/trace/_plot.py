# SPDX-License-Identifier: MIT
"""Live memory over time, as a picture of matplotlib."""

from typing import Any, Dict, List, Tuple

from weir._errors import Status, WeirError
from weir.trace._read import KINDS, Trace, need

POINTS = 2000  # of a curve, more than a picture has columns: the highest value of each piece of time is drawn


def _names(trace: Trace, by: str) -> Dict[int, str]:
    if by == "stack":
        return {number: " < ".join(trace.stack(number)[:2]) or "no stack" for number in set(trace.blocks["stack"].tolist())}
    if by == "stream":
        return {number: f"stream {number:#x}" for number in set(trace.blocks["stream"].tolist())}
    table = {"tag": trace.tags, "pool": trace.pools}[by]
    return {**dict(enumerate(table["name"])), -1: f"no {by}"}


def curves(trace: Trace, by: str, count: int) -> Tuple[Any, List[Tuple[str, Any]]]:
    """
    Seconds, and the live bytes of each of the `count` owners that have most at their peaks, then of all others. Sums are those of one
    moment in each piece of time: that at which the program had the most.
    """
    numpy = need("numpy", "numpy")
    live = trace.live()
    pieces = numpy.array_split(numpy.arange(len(live)), min(POINTS, len(live)))
    moments = numpy.array([piece[numpy.argmax(live[piece])] for piece in pieces], dtype="q")
    owners = trace.blocks[by]
    totals, change = {}, numpy.zeros(len(live) + 1, dtype="q")
    for owner in set(owners.tolist()):
        is_its = owners == owner
        size = trace.blocks["size"][is_its].astype("q")
        change[:] = 0
        numpy.add.at(change, trace.blocks["first"][is_its], size)
        numpy.subtract.at(change, trace.blocks["last"][is_its], size)
        totals[owner] = numpy.cumsum(change[:-1])[moments]
    most = sorted(totals, key=lambda owner: int(totals[owner].max(initial=0)), reverse=True)
    names = _names(trace, by)
    made = [(names[owner], totals[owner]) for owner in most[:count]]
    if most[count:]:
        made.append((f"{len(most) - count} others", sum(totals[owner] for owner in most[count:])))
    return numpy.maximum.accumulate(trace.events["time"])[moments] / 1e9 if len(live) else live, made


def plot(trace: Trace, by: str, ax: Any, count: int) -> Any:
    """Trace.plot()"""
    if by not in ("tag", "pool", "stack", "stream"):
        raise WeirError(Status.INVALID, f"by is {by!r}: give 'tag', 'pool', 'stack' or 'stream'")
    if ax is None:
        _, ax = need("matplotlib.pyplot", "matplotlib").subplots()
    seconds, owners = curves(trace, by, count)
    if owners:
        ax.stackplot(seconds, [values / (1 << 30) for _, values in owners], labels=[name for name, _ in owners])
        ax.legend(loc="upper left", fontsize="small")
    events = trace.events
    for time in events["time"][events["kind"] == KINDS["out of memory"]].tolist():
        ax.axvline(time / 1e9, color="black", linestyle="--")
    ax.set_xlabel("s")
    ax.set_ylabel("GiB live")
    ax.set_title(trace.header.get("program", trace.path))
    return ax
