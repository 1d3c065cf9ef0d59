# SPDX-License-Identifier: MIT
"""
The rows of compare.py: what is measured of each, by whom, and how long it takes. A row has a section of weir-bench, work for
worker.py, or both, whose contenders then stand side by side.
"""

import fnmatch
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

import allocators
from results import Refused

TORCH = ("native", "expandable", "async", "rmm-pool", "rmm-arena", "rmm-binning", "default", "shim")
CUPY = tuple(name for name in TORCH if name in allocators.CUPY_NAMES)
TORCH_ALONE = ("native", "expandable", "async", "default", "shim")  # RMM's are measured by weir-bench
SECTION = "weir-bench"  # the contender that stands for all of a section's
RMM_IN_SECTION = ("RMM pool", "RMM arena", "RMM binning")  # of them those that need RMM


@dataclass(frozen=True)
class Work:
    """Work in a worker.py: how many steps warm it up, how many are measured, and what a measurement takes, in seconds."""

    warm_up: int
    steps: int
    quick: int
    seconds: float
    contenders: Tuple[str, ...] = TORCH
    modules: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """A section of weir-bench: which of its rows, how the figures with its samples begin, and what it takes, in seconds."""

    name: str
    figure: str
    seconds: float
    only: str = ""


PROGRAMS = {
    "generate-b1": Work(1, 2, 1, 12, modules=("transformers",)),
    "generate-b16": Work(1, 2, 1, 12, modules=("transformers",)),
    "lora": Work(4, 12, 6, 12, modules=("transformers", "peft")),
    "resnet50-sizes": Work(7, 28, 14, 8),
    "diffusion": Work(2, 8, 4, 10),
    "speech": Work(3, 20, 8, 8),
    "graphs": Work(3, 20, 8, 8),
    "recommender": Work(3, 20, 8, 10),
    "data-parallel": Work(3, 20, 8, 15),
    "two-models": Work(3, 20, 8, 10),
    "cupy-join": Work(2, 10, 4, 8, CUPY, ("cupy",)),
}
# Measured where they are named alone.
FURTHER = {
    "resnet50-b32": Work(15, 40, 20, 8),
    "resnet50-b2": Work(15, 100, 40, 8),
    "transformer": Work(15, 100, 40, 12),
    "reduce-overhead": Work(15, 100, 40, 30),
    "offload": Work(4, 8, 4, 10),
}
SIZES = {"1MiB": "1 MiB", "4MiB": "4 MiB", "64MiB": "64 MiB", "256MiB": "256 MiB", "1GiB": "1 GiB"}
# What weir-bench takes for a row, and what a worker takes for one contender: of the larger rows it is CUDA's time to map memory.
RANDOM_SECONDS = {(1000, "1GiB"): (20.0, 0.6), (10000, "256MiB"): (25.0, 1.0), (10000, "1GiB"): (90.0, 4.0)}
MICRO: Dict[str, Tuple[Optional[Section], Optional[Work]]] = {
    **{
        f"pair-{name}": (Section("rmm-pairs", f"{size}, a hot pair", 10, size), Work(1, 1, 1, 0.3, TORCH_ALONE))
        for name, size in (("64KiB", "64 KiB"), ("16MiB", "16 MiB"), ("1GiB", "1 GiB"))
    },
    "threads": (Section("rmm-threads", "16 threads", 40), None),
    **{
        f"random-{count}-{name}": (Section("rmm-random", f"{count} of up to {size},", most, f"{count} of up to {size},"), Work(1, 1, 1, each, TORCH_ALONE))
        for count in (1000, 10000)
        for name, size in SIZES.items()
        for most, each in [RANDOM_SECONDS.get((count, name), (12.0, 0.3))]
    },
    "comb": (Section("comb", "stranded in a comb", 20), None),
    "full": (Section("full", "live when", 45), Work(0, 0, 0, 5, TORCH_ALONE)),
}
REQUESTS = [row for row, (_, work) in MICRO.items() if work and row != "full"]


def section_of(row: str) -> Optional[Section]:
    """What weir-bench measures of a row."""
    return MICRO[row][0] if row in MICRO else None


def work_of(row: str) -> Optional[Work]:
    """What processes with torch measure of a row."""
    return MICRO[row][1] if row in MICRO else {**PROGRAMS, **FURTHER}[row]


def chosen(names: str) -> List[str]:
    """The rows that a list of names and patterns means, in the order of the tables."""
    everything = [*MICRO, *PROGRAMS, *FURTHER]
    groups = {"all": [*MICRO, *PROGRAMS], "micro": [*MICRO], "programs": [*PROGRAMS]}
    wanted = set()
    for name in names.split(","):
        found = groups.get(name) or fnmatch.filter(everything, name)
        if not found:
            raise Refused(f"--rows: there is no row '{name}': --list names them")
        wanted.update(found)
    return [name for name in everything if name in wanted]
