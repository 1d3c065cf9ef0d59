#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare.py - Weir beside the allocators of CUDA, RMM and torch: requests alone, and real programs, in rounds in turn.

    compare.py --out FOLDER [--rows NAME,...] [--contenders NAME,...] [--rounds N] [--quick] [--time-limit SECONDS]
               [--rmm PATH] [--weir-bench FILE] [--policy FILE] [--retry]
    compare.py --table FOLDER [--into FILE]     the tables of what was measured before; needs no GPU
    compare.py --list                           the rows

A measurement is one contender in one round of one row. A program has a process of its own, which has the GPU alone; requests alone
share one for a contender and a round. weir-bench measures its contenders in turn in one process, all rounds in one go.

Each measurement is appended to FOLDER/results.jsonl when it has ended, so that a run may be cut off anywhere: the same command does
what is missing. FOLDER/tables.md has the tables. What this machine lacks the files or packages for is skipped by name.

Example: compare.py --out results --rows micro,lora --rmm wheels --time-limit 480
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import allocators  # noqa: E402
import bench  # noqa: E402
import figures  # noqa: E402
import report  # noqa: E402
from machine import ROOT, Here, last_line  # noqa: E402
from results import Machine, Refused, Results, fault_of, load  # noqa: E402
from rows import FURTHER, MICRO, PROGRAMS, REQUESTS, RMM_IN_SECTION, SECTION, Section, chosen, section_of, work_of  # noqa: E402

MINUTES = 60
ROUNDS, QUICK_ROUNDS = 5, 3
START = 20.0  # seconds in which all processes of a batch import torch
BEGIN = 4.0  # and those that a process takes before its first request
SECTION_ROUNDS_LEAST = 5  # of weir-bench --repetitions


@dataclass(frozen=True)
class Job:
    """What one worker measures: rows with one contender, in one round."""

    allocator: str
    number: int
    rows: List[str]


class Comparison:
    """A run: what is to be measured, what has been, and when it must end."""

    def __init__(self, arguments: argparse.Namespace, here: Any, results: Results) -> None:
        self.here = here
        self.results = results
        self.rows = arguments.rows
        self.rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
        self.quick = arguments.quick
        self.retry = arguments.retry
        self.contenders = arguments.contenders.split(",") if arguments.contenders else None
        self.until = arguments.begun + arguments.time_limit if arguments.time_limit else float("inf")
        self.begun = len(results.rows)

    def contenders_of(self, row: str) -> List[str]:
        """Those of a row that are asked for, with what is missing noted in the results."""
        work = work_of(row)
        names = list(work.contenders) if work else []
        if work and self.contenders:
            names = [name for name in self.contenders if "cupy" not in work.modules or name in allocators.CUPY_NAMES]
        if section_of(row):
            names = [SECTION, *RMM_IN_SECTION, *names]
        found, latest = [], self.results.latest()
        for name in names:
            reason = self.here.lacks.get("rmm", "") if name in RMM_IN_SECTION else self.here.reason(row, name)
            if not reason:
                found.append(name)
            elif latest.get((row, name, 0), {}).get("skipped") != reason:
                print(f"compare: {row}, {name}: skipped: {reason}", file=sys.stderr, flush=True)
                self.results.add([{"workload": row, "allocator": name, "round": 0, "skipped": reason}])
        return found

    def left_of(self, row: str) -> List[Tuple[str, int]]:
        """Contenders and rounds of a row that are to be measured."""
        latest = self.results.latest()
        # What has failed once fails in each round. With --retry failures of earlier runs do not count.
        tried = self.results.rows[self.begun :] if self.retry else latest.values()
        failed = {one["allocator"] for one in tried if one["workload"] == row and one.get("error")}
        contenders = [name for name in self.contenders_of(row) if name not in failed]
        done = {key for key, one in latest.items() if not one.get("error")}
        if "rmm" not in self.here.lacks and not latest.get((row, SECTION, 1), {}).get("with_rmm"):
            done.discard((row, SECTION, 1))  # RMM has come since, and is measured in turn with the others
        wanted = [(SECTION, 1)] if SECTION in contenders else []
        wanted += [(name, number) for number in range(1, self.rounds + 1) for name in contenders if name not in (SECTION, *RMM_IN_SECTION)]
        return [(name, number) for name, number in wanted if (row, name, number) not in done]

    def missing(self, unit: List[str]) -> List[Job]:
        """What of a unit is to be measured by workers, in the order in which it is: every other round the other way round."""
        rows: Dict[Tuple[str, int], List[str]] = {}
        for row in unit:
            for name, number in self.left_of(row):
                rows.setdefault((name, number), []).append(row)
        names = list(dict.fromkeys(name for row in unit for name in self.contenders_of(row) if name not in (SECTION, *RMM_IN_SECTION)))
        return [
            Job(name, number, rows[name, number])
            for number, order in enumerate(figures.orders(names, self.rounds), 1)
            for name in order
            if (name, number) in rows
        ]

    def units(self) -> List[List[str]]:
        """The rows that a worker measures in one process: requests alone take less time than its start."""
        requests = [row for row in self.rows if row in REQUESTS]
        return [[row] for row in self.rows if row not in REQUESTS and work_of(row)] + ([requests] if requests else [])

    def estimate(self, rows: List[str]) -> float:
        """Seconds that a worker's measurement of them will take: the median of earlier ones, or what is usual."""
        seconds = BEGIN if rows[0] in REQUESTS else 0.0
        for row in rows:
            work = work_of(row)
            assert work is not None
            found = self.results.latest().items()
            took = [one["seconds"] for (workload, name, _), one in found if workload == row and name != SECTION and "seconds" in one]
            seconds += statistics.median(took) if took else work.seconds
        return seconds

    def run(self) -> int:
        """Measures until all is done or the time is over. Returns how many measurements are missing then."""
        for row in self.rows:
            section = section_of(row)
            if section and (SECTION, 1) in self.left_of(row) and section.seconds <= self.until - time.monotonic():
                self.measure_section(row, section)
        for unit in self.units():
            while self.measure(self.missing(unit)):
                pass
        return sum(len(self.left_of(row)) for row in self.rows)

    def measure(self, pending: List[Job]) -> bool:
        """The first of what is pending, as much as there are cores to start it. False: there is nothing, or no time."""
        batch: List[Job] = []
        end = time.monotonic() + START
        for job in pending[: os.cpu_count() or 1]:
            end += self.estimate(job.rows)
            if end <= self.until:
                batch.append(job)
        if batch:
            self.measure_batch(batch)
        return bool(batch)

    def measure_batch(self, batch: List[Job]) -> None:
        """All import torch at once; then one at a time is measured, and ends before the next begins."""
        started = [(job, bench.Process(",".join(job.rows), job.allocator, self.here.policy)) for job in batch]
        try:
            for _, process in started:
                process.attempt("start", 0, time.monotonic() + bench.START_SECONDS)
            failed = set()
            for job, process in started:
                if job.allocator not in failed and time.monotonic() + self.estimate(job.rows) <= self.until:
                    self.measure_job(job, process)
                if process.row["error"]:
                    failed.add(job.allocator)
        finally:
            for _, process in started:
                process.end()

    def measure_job(self, job: Job, process: "bench.Process") -> None:
        """One contender in one round."""
        error = process.row["error"]
        for row in job.rows:
            begun = time.monotonic()
            process.row = {**bench.empty_row(row, job.allocator), "error": error}
            self.obey(process, row, "next" if row != job.rows[0] else "begin", job.number)
            found = {**process.row, "memory": max(0, process.row["memory"]), "round": job.number, "seconds": round(time.monotonic() - begun, 1)}
            if row in MICRO and not found["error"]:
                found.update(of_request(row, found))
            self.results.add([found])
            print(f"compare: {row}, round {job.number}, {job.allocator}: {described(found)}", file=sys.stderr, flush=True)
            if process.row["error"]:
                break
        process.end()

    def obey(self, process: "bench.Process", row: str, first: str, number: int) -> None:
        """Has it warm up and do the steps of a row."""
        work, deadline = work_of(row), time.monotonic() + 10 * MINUTES
        assert work is not None
        if row == "full":
            process.attempt(first, number, deadline)
            return
        process.attempt(first, work.warm_up, deadline)
        process.attempt("count" if self.here.counts else "round", work.quick if self.quick else work.steps, deadline)

    def measure_section(self, row: str, section: Section) -> None:
        """What weir-bench has of a row, all contenders and rounds."""
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "figures.json")
            command = [self.here.weir_bench, "--json", path, "--repetitions", str(max(SECTION_ROUNDS_LEAST, self.rounds))]
            if section.only:
                command += ["--only", section.only]
            with_rmm = "rmm" not in self.here.lacks
            if with_rmm:
                command += ["--rmm", os.environ["WEIR_BENCH_RMM"]]
            rows = self.section_rows(row, section, [*command, section.name], path)
        rows[-1].update(with_rmm=with_rmm, seconds=round(time.monotonic() - begun, 1))
        self.results.add(rows)
        print(f"compare: {row}, weir-bench: {described(rows[-1])}", file=sys.stderr, flush=True)

    def section_rows(self, row: str, section: Section, command: List[str], path: str) -> List[figures.Row]:
        """Runs weir-bench. The last row is its own; without it the section counts as not measured."""
        own: figures.Row = {"workload": row, "allocator": SECTION, "round": 1, "error": ""}
        try:
            made = subprocess.run(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", check=False, timeout=10 * MINUTES
            )
            if made.returncode not in (0, 1):
                own["error"] = f"ended with status {made.returncode}: {last_line(made.stderr)}"
                return [own]
            with open(path, encoding="utf-8") as file:
                found = [one for one in json.load(file)["figures"] if one["name"].startswith(section.figure)]
            own["asked"] = [
                {"name": f"{one['section']}: {one['name']}", "unit": one["value_unit"], **{name: one[name] for name in ("value", "asked", "limit", "reached")}}
                for one in found
                if one["asked"]
            ]
            rows = [*samples(row, found[0]), own]
            faults = [fault for fault in map(fault_of, rows) if fault]
            if not faults:
                return rows
            own = {**own, "asked": [], "error": f"{command[0]} wrote a figure that {faults[0]}"}
        except subprocess.TimeoutExpired:
            own["error"] = f"no answer after {10 * MINUTES} s"
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            own["error"] = f"{command[0]} wrote no figures: {type(error).__name__}: {error}"
        return [own]


def samples(row: str, figure: Dict[str, Any]) -> Iterator[figures.Row]:
    """The rows of one figure of weir-bench: each sample of each contender is a round."""
    for series in figure["series"]:
        for number, value in enumerate(series["values"], 1):
            yield {"workload": row, "allocator": series["name"], "round": number, "value": value, "unit": figure["unit"], "error": ""}


def of_request(row: str, found: figures.Row) -> figures.Row:
    """The value of a row of requests alone, in the unit that weir-bench has for it: a pair has two calls."""
    if row == "full":
        return {"unit": "%"}
    call = report.call_of(found)
    if call is None:
        return {"error": "no call of the allocator was counted"}
    return {"value": (2 if row.startswith("pair-") else 1) * call, "unit": "ns"}


def described(row: figures.Row) -> str:
    """A measurement in a few words."""
    if row.get("error"):
        return str(row["error"])
    parts = [f"{row['value']:.1f} {row['unit']}"] if "value" in row else []
    step, peak = report.step_of(row), report.peak_of(row)
    if not parts and step is not None and peak is not None:
        parts = [f"{step:.2f} ms a step, {peak:,.0f} MiB"]
    return ", ".join([*parts, f"took {row['seconds']:.0f} s"])


def write_whole(path: str, text: str) -> None:
    """Puts a file in the place of what is there, or leaves that."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=os.path.dirname(os.path.abspath(path)), delete=False) as file:
        file.write(text)
    try:
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)
    except OSError:
        os.unlink(file.name)
        raise


def write_tables(machine: Machine, rows: List[figures.Row], rounds: Optional[int], path: Optional[str], into: Optional[str]) -> str:
    """The tables, put into that file and into a document."""
    most = max((row["round"] for row in rows if row.get("rounds_ms")), default=1)
    text = report.document(machine, rows, rounds or most)
    if path:
        write_whole(path, text)
    if into:
        with open(into, encoding="utf-8") as file:
            document = report.inserted(file.read(), text)
        if document is None:
            raise Refused(f"{into}: needs the lines {report.BEGIN} and {report.END}, once each, for the tables to go between them")
        write_whole(into, document)
    return text


def read_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", metavar="FOLDER", help="where results.jsonl and tables.md are, and go on")
    what.add_argument("--table", metavar="FOLDER", help="print the tables of what was measured there, and leave")
    what.add_argument("--list", action="store_true", help="list the rows, with the seconds of a measurement")
    parser.add_argument("--rows", metavar="NAME,...", default="all", help="these alone: names, patterns, micro, programs (all)")
    parser.add_argument("--contenders", metavar="NAME,...", help="of torch and CuPy these alone: " + ", ".join(allocators.NAMES))
    parser.add_argument("--rounds", type=int, metavar="N", help=f"rounds in turn ({ROUNDS}; with --quick {QUICK_ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="shorter and fewer rounds; needs a folder of its own")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="begin nothing that would end later")
    parser.add_argument("--rmm", metavar="PATH", help="the folder of RMM's wheels, unpacked, or the library that bench/rmm/build.sh made")
    parser.add_argument("--weir-bench", metavar="FILE", default=os.path.join(ROOT, "bench", "weir-bench"), help="(bench/weir-bench)")
    parser.add_argument("--policy", metavar="FILE", default=allocators.POLICY, help="of Weir in programs (config/pytorch.yaml)")
    parser.add_argument("--retry", action="store_true", help="measure again what failed before")
    parser.add_argument("--into", metavar="FILE", help="put the tables into this document too, between its marks")
    arguments = parser.parse_args()
    if arguments.rounds is not None and not 1 <= arguments.rounds <= 64:
        parser.error(f"--rounds {arguments.rounds}: write a number from 1 to 64")
    if arguments.time_limit is not None and not 0 < arguments.time_limit < 1e6:
        parser.error(f"--time-limit {arguments.time_limit:g}: write seconds, as in --time-limit 480")
    try:
        arguments.rows = chosen(arguments.rows)
    except Refused as error:
        parser.error(str(error))
    if arguments.rmm and not os.path.exists(arguments.rmm):
        parser.error(f"--rmm {arguments.rmm}: there is no such file or folder")
    for name in (arguments.contenders or "native").split(","):
        if name not in allocators.NAMES:
            parser.error(f"--contenders: there is no '{name}': write some of {', '.join(allocators.NAMES)}")
    return arguments


def compare(arguments: argparse.Namespace) -> int:
    """Measures what is missing, and writes the tables."""
    os.makedirs(arguments.out, exist_ok=True)
    arguments.out = os.path.abspath(arguments.out)
    with tempfile.TemporaryDirectory(prefix="weir-compare-") as scratch:
        os.environ["TMPDIR"] = tempfile.tempdir = scratch  # of the workers too, which are killed
        try:
            here = Here(arguments)
            if not here.machine.get("gpu"):
                print(f"1..0 # SKIP {here.lacks.get('torch', 'there is no GPU')}")
                return 0
            results = Results(os.path.join(arguments.out, "results.jsonl"), here.machine)
            try:
                here.build(arguments, scratch)
                return measure(arguments, here, results)
            finally:
                results.close()
        finally:
            tempfile.tempdir = None


def measure(arguments: argparse.Namespace, here: Any, results: Results) -> int:
    """The same, with a file of results that is this process's."""
    comparison = Comparison(arguments, here, results)
    try:
        missing = comparison.run()
    finally:
        text = write_tables(results.machine, results.rows, comparison.rounds, os.path.join(arguments.out, "tables.md"), arguments.into)
    print(text)
    print(f"compare: {f'{missing} measurements are missing: run the same command again' if missing else 'nothing is missing'}", file=sys.stderr)
    return 1 if any(row.get("error") for row in results.latest().values()) else 0


def main() -> int:
    """Parses the arguments and measures, or shows what was measured."""
    arguments = read_arguments()
    arguments.begun = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if arguments.list:
            for row in [*MICRO, *PROGRAMS, *FURTHER]:
                section, work = section_of(row), work_of(row)
                once = f"{section.seconds:g} s once" if section else ""
                each = f"{work.seconds:g} s for each of {len(work.contenders)} contenders and round" if work else ""
                print(f"{row:20} {', '.join(filter(None, (once, each)))}")
            return 0
        if arguments.table:
            machine, rows = load(os.path.join(arguments.table, "results.jsonl"))
            print(write_tables(machine, rows, arguments.rounds, None, arguments.into))
            return 0
        return compare(arguments)
    except (Refused, OSError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
