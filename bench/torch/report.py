# SPDX-License-Identifier: MIT
"""The tables that compare.py makes of its measurements, in Markdown: medians of rounds, least and most, what was asked and missed."""

import re
import statistics
from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Tuple

from figures import MIB, Row, Spread
from results import Machine

BEGIN, END = "<!-- compare: begin -->", "<!-- compare: end -->"

# In the order of the columns: how a contender is called in the results, and in the tables.
CONTENDERS = {
    "raw": "`cudaMallocAsync`",
    "RMM pool": "RMM pool",
    "RMM arena": "RMM arena",
    "RMM binning": "RMM binning",
    "weir": "Weir, inference.yaml",
    "weir, arena": "the same, on an arena",
    "native": "native",
    "expandable": "expandable",
    "async": "async",
    "rmm-pool": "RMM pool",
    "rmm-arena": "RMM arena",
    "rmm-binning": "RMM binning",
    "default": "Weir, default.yaml",
    "shim": "Weir, pytorch.yaml",
}
TITLES = {
    "generate-b1": "text generation, batch 1",
    "generate-b16": "text generation, batch 16",
    "lora": "LoRA",
    "resnet50-sizes": "pictures of many sizes",
    "diffusion": "diffusion sampler, resolutions",
    "speech": "speech encoder, lengths",
    "graphs": "minibatches of graphs",
    "recommender": "recommender, large embeddings",
    "data-parallel": "data-parallel step",
    "two-models": "two models in one process",
    "cupy-join": "CuPy, sort and join",
    "full": "live when 32 GiB are out",
    "threads": "hot pair of 16 MiB, 16 threads",
}


@dataclass(frozen=True)
class Measure:
    """A figure of a measurement: what the table of it is called, how a sentence calls it, and the digits."""

    title: str
    short: str
    of: Callable[[Row], Optional[float]]
    digits: int = 0


@dataclass(frozen=True)
class Asked:
    """What is asked of Weir with config/pytorch.yaml in each round: at most so many times another contender's."""

    workload: str
    measure: str
    other: str
    limit: float


def step_of(row: Row) -> Optional[float]:
    """Milliseconds of a step: the mean, as the steps of a round differ, and are the same for every contender."""
    times = [time for times in row.get("rounds_ms", []) for time in times]
    return statistics.fmean(times) if times else None


def peak_of(row: Row) -> Optional[float]:
    """MiB that the allocator reserved at most; of one that does not say, what the device lacked at the end."""
    return (row.get("reserved") or row["memory"]) / MIB if row.get("rounds_ms") else None


def call_of(row: Row) -> Optional[float]:
    """Nanoseconds of a call of the allocator, the counter's own clock taken off."""
    counted = row.get("counted") or {}
    calls = counted.get("allocations", 0) + counted.get("frees", 0)
    if not calls:
        return None
    spent = counted.get("allocating_ns", 0) + counted.get("freeing_ns", 0)
    return float(max(0, spent / calls - counted.get("empty_ns", 0)))


MEASURES = {
    "time": Measure("A step, ms", "a step", step_of, 2),
    "reserved": Measure("Peak reserved, MiB", "peak reserved", peak_of),
    "call": Measure("A call of the allocator, ns", "a call", call_of),
    "value": Measure("Requests alone", "a request", lambda row: row.get("value"), 1),
}
ASKED = [
    Asked(workload, measure, "expandable", 1.0)
    for workload in ("generate-b1", "generate-b16", "lora", "resnet50-sizes")
    for measure in ("reserved", "call")
]
WEIR = "shim"


class Grid:
    """Measurements by workload and contender. What failed or was skipped has no figure, and a reason instead."""

    def __init__(self, rows: List[Row]) -> None:
        self.rows: Dict[Tuple[str, str], Dict[int, Row]] = {}
        for row in rows:
            self.rows.setdefault((row["workload"], row["allocator"]), {})[row["round"]] = row

    def figures(self, workload: str, allocator: str, measure: str) -> Dict[int, float]:
        """By round. Of requests alone that is their value: their processes have served other rows before, and the steps are Python's."""
        found = {}
        for number, row in self.rows.get((workload, allocator), {}).items():
            is_shown = number and not row.get("error") and ("value" in row) == (measure == "value")
            figure = MEASURES[measure].of(row) if is_shown else None
            if figure is not None:
                found[number] = figure
        return found

    def names(self, measure: str) -> Tuple[List[str], List[str]]:
        """The workloads that have such a figure, as they came, and their contenders, in the order of the columns."""
        there = [key for key in self.rows if self.figures(*key, measure)]
        contenders = {allocator for _, allocator in there}
        return list(dict.fromkeys(workload for workload, _ in there)), [name for name in CONTENDERS if name in contenders] + sorted(
            contenders - set(CONTENDERS)
        )

    def reasons(self) -> List[Tuple[str, str, str]]:
        """Workload, contender, and why there is no figure of them, or fewer."""
        found = []
        for (workload, allocator), rounds in self.rows.items():
            failed = [f"round {number}: {row['error']}" for number, row in sorted(rounds.items()) if row.get("error")]
            measured = any(number and not row.get("error") for number, row in rounds.items())
            skipped = rounds.get(0, {}).get("skipped")
            if failed:
                found.append((workload, allocator, "failed in " + failed[0]))
            elif skipped and not measured:
                found.append((workload, allocator, "skipped: " + skipped))
        return found


def plain(text: str) -> str:
    """A text of anybody's, as one cell of a table."""
    return re.sub(r"([\\`*_<>|\[\]&])", r"\\\1", " ".join("".join(one if one.isprintable() else " " for one in text).split()))[:300]


def number(value: float, digits: int) -> str:
    """With commas between thousands, and fewer digits behind the point the larger it is."""
    return f"{value:,.{max(0, digits - (value >= 100) - (value >= 1000))}f}"


def cell(figures: Dict[int, float], digits: int, rounds: int) -> str:
    """The median, the least and the most."""
    if not figures:
        return "–"
    spread = Spread.of(list(figures.values()))
    text = number(spread.median, digits)
    if len(figures) > 1:
        text += f" ({number(spread.least, digits)}–{number(spread.greatest, digits)})"
    return text + (f", {len(figures)} of {rounds} rounds" if len(figures) < rounds else "")


def title_of(grid: Grid, workload: str) -> str:
    """How a row begins: what is measured, and its unit."""
    words = workload.split("-")
    title = TITLES.get(workload, workload)
    if words[0] == "pair":
        title = f"hot pair, {words[1]}"
    elif words[0] == "random" and len(words) == 3:
        title = f"RANDOM of {int(words[1]):,} up to {words[2]}, a call" if words[1].isdigit() else workload
    unit = next((row["unit"] for (name, _), rounds in grid.rows.items() if name == workload for row in rounds.values() if row.get("unit")), "")
    return plain(f"{title}, {unit}" if unit else title)


def table(grid: Grid, measure: str, rounds: int) -> List[str]:
    """One table: workloads down, contenders across."""
    workloads, contenders = grid.names(measure)
    if not workloads:
        return []
    lines = ["| " + " | ".join([MEASURES[measure].title, *(CONTENDERS.get(name, plain(name)) for name in contenders)]) + " |"]
    lines.append("|---" * (len(contenders) + 1) + "|")
    for workload in workloads:
        cells = [cell(grid.figures(workload, name, measure), MEASURES[measure].digits, rounds) for name in contenders]
        lines.append("| " + " | ".join([title_of(grid, workload), *cells]) + " |")
    return lines + [""]


def verdict(grid: Grid, asked: Asked) -> Optional[Tuple[Spread, int, int]]:
    """The ratios of the rounds that both have, how many of them miss, and how many there are."""
    ours, theirs = (grid.figures(asked.workload, name, asked.measure) for name in (WEIR, asked.other))
    ratios = [figure / theirs[number] for number, figure in ours.items() if theirs.get(number)]
    return (Spread.of(ratios), sum(ratio > asked.limit for ratio in ratios), len(ratios)) if ratios else None


def asked_table(grid: Grid, rounds: int) -> List[str]:
    """What is asked of Weir, here and by weir-bench, and what was missed."""
    lines = []
    for asked in ASKED:
        found = verdict(grid, asked)
        if found:
            ratio, missed, count = found
            what = f"{TITLES[asked.workload]}: {MEASURES[asked.measure].short}, against {CONTENDERS[asked.other]}"
            spread = f"{ratio.median:.2f} × ({ratio.least:.2f}–{ratio.greatest:.2f})" + (f", {count} of {rounds} rounds" if count < rounds else "")
            lines.append(f"| {what} | ≤ {asked.limit:.2f} × | {spread} | {f'**missed** in {missed} of {count}' if missed else ''} |")
    for (workload, _), of_rounds in grid.rows.items():
        for one in of_rounds.get(1, {}).get("asked", []):
            unit = plain(one["unit"].replace("x", "×"))
            bound = "≥" if one["asked"] == ">=" else "≤"
            lines.append(
                f"| {plain(one['name'])} | {bound} {one['limit']:g} {unit} | {number(one['value'], 2)} {unit} | {'' if one['reached'] else '**missed**'} |"
            )
    return ["| Weir | asked | measured | |", "|---|---|---|---|", *lines, ""] if lines else []


def reasons_list(grid: Grid) -> List[str]:
    """What was not measured, and where it was not: by reason, as most hold for many rows."""
    found: Dict[str, Dict[str, List[str]]] = {}
    for workload, allocator, reason in grid.reasons():
        found.setdefault(reason, {}).setdefault(workload, []).append(CONTENDERS.get(allocator, allocator))
    if not found:
        return []
    lines = ["Not measured, or not in every round:", ""]
    for reason, workloads in found.items():
        places = [f"{plain(workload)} ({', '.join(plain(name) for name in names)})" for workload, names in workloads.items()]
        lines.append(f"- {plain(reason)}: {', '.join(places)}")
    return lines


def document(machine: Machine, rows: List[Row], rounds: int) -> str:
    """All tables."""
    grid = Grid(rows)
    lines = ["Medians of rounds in turn (least–most). " + ", ".join(f"{plain(name)} {plain(value)}" for name, value in machine.items()) + ".", ""]
    for measure in ("value", "time", "reserved", "call"):
        lines += table(grid, measure, rounds)
    lines += asked_table(grid, rounds)
    lines += reasons_list(grid)
    return "\n".join(lines).rstrip() + "\n"


def inserted(text: str, tables: str) -> Optional[str]:
    """A document with the tables between its two marks; None: it has not exactly these two, in this order."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in before + after:
        return None
    return f"{before}{BEGIN}\n{tables}{END}{after}"
