# SPDX-License-Identifier: MIT
"""From samples to the table: medians, their spread, and ratios of what ran next to each other. Knows no torch."""

import statistics
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True)
class Spread:
    """The median of the repetitions, the least and the greatest."""

    median: float
    least: float
    greatest: float

    @staticmethod
    def of(samples: List[float]) -> "Spread":
        """Of at least one sample."""
        return Spread(statistics.median(samples), min(samples), max(samples))


@dataclass(frozen=True)
class Asked:
    """What is asked of Weir's allocators: a measure of a workload is at most so many times another allocator's."""

    workload: str
    measure: str  # time or memory
    other: str
    limit: float


ASKED = (
    Asked("resnet50-b32", "time", "native", 1.02),
    Asked("resnet50-b2", "time", "native", 1.00),
    Asked("resnet50-b2", "time", "async", 0.95),
    Asked("transformer", "time", "native", 1.00),
    Asked("transformer", "time", "async", 0.95),
    Asked("resnet50-b32", "memory", "native", 1.00),
    Asked("resnet50-b2", "memory", "native", 1.00),
    Asked("transformer", "memory", "native", 1.00),
)
OURS = ("weir", "shim")

# {"workload", "allocator", "rounds_ms": [[...]], "memory", "error"}: what bench.py writes for each process.
Row = Dict[str, Any]


def round_medians(row: Row) -> List[float]:
    """The median step of each round: one step that something disturbed does not count."""
    return [statistics.median(times) for times in row["rounds_ms"]]


def find(rows: List[Row], workload: str, allocator: str) -> Optional[Row]:
    """The row of that process, if it gave figures."""
    for row in rows:
        if (
            row["workload"] == workload
            and row["allocator"] == allocator
            and row.get("rounds_ms")
            and not row.get("error")
        ):
            return row
    return None


def time_ratio(row: Row, other: Row) -> Spread:
    """Round by round, as the two ran next to each other; what changed on the machine between the rounds cancels out."""
    pairs = zip(round_medians(row), round_medians(other))
    return Spread.of([one / two for one, two in pairs])


def memory_ratio(row: Row, other: Row) -> float:
    """Of what the two held at their end."""
    return float(row["memory"] / other["memory"])


def orders(allocators: List[str], rounds: int) -> List[List[str]]:
    """ABBA: each round runs the other way round than the one before, so that a drift favours nobody."""
    return [list(allocators) if number % 2 == 0 else list(reversed(allocators)) for number in range(rounds)]


def ratio_text(row: Optional[Row], other: Optional[Row]) -> str:
    """A ratio for the table."""
    return "-" if row is None or other is None else f"{time_ratio(row, other).median:.3f}"


def table(rows: List[Row]) -> str:
    """A line for each process, with ratios to native and to async."""
    lines = [
        f"{'workload':<14} {'allocator':<9} {'ms/step':>9} {'(spread)':>17} "
        f"{'x native':>9} {'x async':>9} {'GiB':>7} {'x native':>9}"
    ]
    for row in rows:
        name = f"{row['workload']:<14} {row['allocator']:<9}"
        if row.get("error"):
            lines.append(f"{name} {row['error']}")
        elif "second_ms" in row:
            lines.append(f"{name} works, the second allocation in {row['second_ms']:.0f} ms")
        else:
            native, asynchronous = (find(rows, row["workload"], other) for other in ("native", "async"))
            step = Spread.of(round_medians(row))
            memory = "-" if native is None else f"{memory_ratio(row, native):.3f}"
            spread = f"({step.least:.3f}-{step.greatest:.3f})"
            lines.append(
                f"{name} {step.median:9.3f} {spread:>17} {ratio_text(row, native):>9} "
                f"{ratio_text(row, asynchronous):>9} {row['memory'] / GIB:7.3f} {memory:>9}"
            )
    return "\n".join(lines)


def verdict(rows: List[Row], asked: Asked, allocator: str) -> Optional[Tuple[float, bool]]:
    """What was measured of it, and whether that is enough; None: it was not measured."""
    row, other = find(rows, asked.workload, allocator), find(rows, asked.workload, asked.other)
    if row is None or other is None:
        return None
    measured = time_ratio(row, other).median if asked.measure == "time" else memory_ratio(row, other)
    return measured, measured <= asked.limit


def asked_table(rows: List[Row]) -> str:
    """A line for each figure that is asked for, for each of Weir's allocators."""
    lines = [f"{'workload':<14} {'measure':<7} {'allocator':<9} {'asked':>16} {'measured':>9}"]
    for asked in ASKED:
        for allocator in OURS:
            found = verdict(rows, asked, allocator)
            measured = "-" if found is None else f"{found[0]:.3f}"
            reached = "" if found is None else "reached" if found[1] else "missed"
            limit = f"<= {asked.limit:.2f} {asked.other}"
            lines.append(
                f"{asked.workload:<14} {asked.measure:<7} {allocator:<9} {limit:>16} {measured:>9} {reached}".rstrip()
            )
    return "\n".join(lines)
