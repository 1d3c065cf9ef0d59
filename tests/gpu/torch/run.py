#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py - Weir under the real PyTorch, on a real GPU: each case in a process of its own, with a time limit.

    run.py [--only PATTERN]... [--mode MODE]... [--json FILE] [--logs FOLDER] [--gpus N] [--jobs N]
           [--limit SECONDS] [--list]

PATTERN is a shell pattern for "case" or "case[mode]"; a mode is an allocator (native, async, plain, weir, shim). Weir
is found on PYTHONPATH and by $WEIR_TORCH_LIBRARY; the case of `weir run` wants the program in $WEIR or on PATH. Cases
that look at the memory of the whole device run one at a time, after the others; then what failed runs once more with
torch's own allocator, as a control. Without torch or a GPU everything is skipped. Nothing that a case does stops the
rest. Prints TAP and a table.
"""

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Dict, List, Optional, Set, Tuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402,I001  (which puts the allocators on the path)
import allocators  # noqa: E402

MODULES = (
    "cases_memory",
    "cases_streams",
    "cases_graphs",
    "cases_trees",
    "cases_arenas",
    "cases_history",
    "cases_processes",
    "cases_reports",
    "cases_registered",
)
SKIPPED = 77
SKIP_MARK = "SKIP: "
running: Set["subprocess.Popen[str]"] = set()


@dataclass(frozen=True)
class Result:
    """What came of one run."""

    name: str
    verdict: str  # ok, skipped, failed
    reason: str  # of a skip or a failure, in one line
    seconds: float
    output: str


def judge(name: str, status: Optional[int], output: str, seconds: float, limit: float) -> Result:
    """The verdict on a process that ended with this status (None: it was stopped at its limit), and printed this."""
    lines = [line for line in output.splitlines() if line.strip()]
    last = lines[-1] if lines else "no output"
    if status == 0:
        return Result(name, "ok", "", seconds, output)
    if status == SKIPPED and last.startswith(SKIP_MARK):
        return Result(name, "skipped", last[len(SKIP_MARK) :], seconds, output)
    if status is None:
        reason = f"stopped after {limit:.0f} s"
    elif status < 0:
        reason = f"killed by {signal.Signals(-status).name}"
    else:
        reason = last
    return Result(name, "failed", reason, seconds, output)


def run_process(name: str, command: List[str], environment: Dict[str, str], limit: float) -> Result:
    """Runs a command to its end or its limit, and then ends all processes of its session."""
    start = time.monotonic()
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        running.add(process)
        status: Optional[int] = None
        try:
            output = process.communicate(timeout=limit)[0]
            status = process.returncode
        except subprocess.TimeoutExpired:
            end(process)
            output = process.communicate()[0]
        end(process)
        running.discard(process)
    return judge(name, status, output, time.monotonic() - start, limit)


def end(process: "subprocess.Popen[str]") -> None:
    """Kills a process and what it left behind: it leads a process group of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def stop(number: int, _frame: object) -> None:
    """This process was told to end: so are those that it started."""
    for process in list(running):
        end(process)
    os._exit(128 + number)


def environment_of(mode: str) -> Dict[str, str]:
    """
    What every case runs with: nothing of this machine's policies, the same results each time, and a stack when it
    crashes.
    """
    variables = allocators.environment(mode)
    for name in ("WEIR_POLICY", "WEIR_CONF", "WEIR_SIM", "WEIR_GPU", "XDG_CONFIG_HOME"):
        variables.pop(name, None)
    variables.update(
        CUBLAS_WORKSPACE_CONFIG=":4096:8", PYTHONFAULTHANDLER="1", PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1"
    )
    return variables


def run_case(one: harness.Case, mode: str, deadline: float) -> Result:
    """One case with one allocator, in a new process."""
    name = f"{one.name}[{mode}]"
    left = deadline - time.monotonic()
    if left < 1:
        return Result(name, "failed", "the time for all of them was over", 0, "")
    command = [sys.executable, os.path.abspath(__file__), "--case", one.name, "--mode", mode]
    return run_process(name, command, environment_of(mode), min(one.seconds, left))


def in_child(name: str, mode: str) -> int:
    """The process of a case: the exit status says what came of it, and the last line why."""
    try:
        harness.CASES[name].run(mode)
    except harness.Skip as reason:
        print(f"{SKIP_MARK}{reason}", flush=True)
        return SKIPPED
    except BaseException as error:  # whatever it is, the log wants all of it and the table one line
        traceback.print_exc()
        text = " ".join(str(error).split())
        print(f"{type(error).__name__}: {text[:300]}", flush=True)
        return 1
    return 0


def import_cases() -> Optional[str]:
    """Why there are none, if so."""
    try:
        importlib.import_module("torch")
    except ImportError as error:
        return f"torch cannot be imported ({error})"
    for module in MODULES:
        importlib.import_module(module)
    return None


class Report:
    """Prints results as TAP as they come, and keeps them."""

    def __init__(self, logs: Optional[str]) -> None:
        self.results: List[Result] = []
        self.logs = logs
        if logs:
            os.makedirs(logs, exist_ok=True)

    def add(self, result: Result) -> None:
        self.results.append(result)
        line = f"{'not ok' if result.verdict == 'failed' else 'ok'} {len(self.results)} - {result.name}"
        if result.verdict == "skipped":
            line += f" # SKIP {result.reason}"
        print(line)
        if result.verdict == "failed":
            print(f"# {result.reason}")
            for text in result.output.splitlines()[-30:]:
                print(f"#   {text}")
        sys.stdout.flush()
        if self.logs:
            name = result.name.replace("[", "-").replace("]", "")
            with open(os.path.join(self.logs, f"{name}.log"), "w", encoding="utf-8") as file:
                file.write(f"{result.verdict} {result.reason}\n{result.output}")

    def finish(self, path: Optional[str]) -> bool:
        """Prints the plan and the table, writes the JSON. True if nothing failed."""
        print(f"1..{len(self.results)}")
        for result in sorted(self.results, key=lambda r: r.name):
            print(f"# {result.verdict:<8} {result.seconds:6.1f} s  {result.name}  {result.reason}".rstrip())
        counts = {verdict: sum(r.verdict == verdict for r in self.results) for verdict in ("ok", "skipped", "failed")}
        print("# " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
        if path:
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"results": [asdict(result) for result in self.results], **counts}, file, indent=1)
        return counts["failed"] == 0


def run_all(runs: List[Tuple[harness.Case, str]], arguments: argparse.Namespace) -> bool:
    """
    Those that can run beside each other first, then those that want the device for themselves. torch's own allocator is
    the control: unless it was asked for, it gets only the cases that failed with another. What fails there too is no
    fault of Weir's.
    """
    deadline = time.monotonic() + arguments.limit
    report = Report(arguments.logs)
    controls = [] if arguments.mode else [run for run in runs if run[1] == harness.NATIVE]
    runs = [run for run in runs if run not in controls]
    there = harness.gpu_count()
    for one, mode in runs:
        if one.gpus > there:
            report.add(Result(f"{one.name}[{mode}]", "skipped", f"{one.gpus} GPUs needed, {there} there", 0, ""))
    runs = [run for run in runs if run[0].gpus <= there]
    together = [run for run in runs if not run[0].alone]
    with ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        for result in pool.map(lambda run: run_case(run[0], run[1], deadline), together):
            report.add(result)
    for one, mode in runs:
        if one.alone:
            report.add(run_case(one, mode, deadline))
    failed = {result.name.split("[")[0] for result in report.results if result.verdict == "failed"}
    for one, mode in controls:
        if one.name in failed:
            report.add(run_case(one, mode, deadline))
    return report.finish(arguments.json)


def main() -> int:
    """Parses the arguments, and is either the runner or the process of one case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="cases that match (may be given again)"
    )
    parser.add_argument(
        "--mode", action="append", default=[], choices=allocators.NAMES, help="with these allocators alone"
    )
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    parser.add_argument("--logs", metavar="FOLDER", help="keep the whole output of each case there")
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help="only those that take so many GPUs or more")
    parser.add_argument("--jobs", type=int, default=8, metavar="N", help="so many at a time (8), of those that may")
    parser.add_argument(
        "--limit",
        type=float,
        default=540,
        metavar="SECONDS",
        help="for all of them (540); what comes too late has failed",
    )
    parser.add_argument("--list", action="store_true", help="print the cases and leave")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()

    missing = import_cases()
    if missing:
        print(f"1..0 # SKIP {missing}")
        return 0
    if arguments.case:
        status = in_child(arguments.case, arguments.mode[0])
        if arguments.mode[0] == harness.PLAIN:
            os._exit(status)  # its faults were looked at; how a process ends after them says nothing
        return status
    runs = harness.selected(arguments.only, arguments.mode, arguments.gpus)
    if arguments.list:
        print("\n".join(f"{one.name}[{mode}]" for one, mode in runs))
        return 0
    if not runs:
        print(
            f"run.py: no case matches {' '.join(arguments.only + arguments.mode)}; --list prints them", file=sys.stderr
        )
        return 2
    try:
        harness.need_gpus(1)
    except harness.Skip as reason:
        print(f"1..0 # SKIP {reason}")
        return 0
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    return 0 if run_all(runs, arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
