#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench.py - training steps under PyTorch with several allocators, a process for each, in ABBA order.

    bench.py [--quick] [--json FILE] [--workload NAME]... [--allocator NAME]... [--rounds N] [--policy FILE]
             [--limit SECONDS]
    bench.py --table FILE       prints the tables of what was measured before

The processes of a workload live beside each other; one at a time works, and the others wait. Each round runs all of
them, each other round in the reverse order; a figure is the median of the rounds, each the median of its steps.
Work whose sizes change is measured by compare.py.
Allocators: native, async (cudaMallocAsync), plain (a pluggable one over cudaMallocFromPoolAsync), weir and shim
(without and with it, under --policy). About five minutes on an H200, two with --quick; a workload whose part of --limit
is over has fewer rounds, five at least. Exits with 1 if there is something that could not be measured, with 0 whatever
the figures are.
"""

import argparse
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from typing import IO, Any, Dict, List, Optional

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import allocators  # noqa: E402
import figures  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
LARGE = "large"
# Steps of a round, and rounds. Where the host is the limit, rounds are short and many: what else the host does comes and
# goes within seconds, and hits those that run next to each other alike.
PLAN = {"resnet50-b32": (40, 8), "resnet50-b2": (20, 30), "transformer": (10, 60), "tensors": (50, 20)}
QUICK_PLAN = {"resnet50-b32": (20, 6), "resnet50-b2": (20, 10), "transformer": (10, 16), "tensors": (20, 8)}
FEWEST_ROUNDS = 5  # however little time there is
# Steps before the first round: enough for libraries to have chosen their kernels and for caches to be filled.
WARM_UP = 15
START_SECONDS = 90  # for the import of torch, all processes at once
ANSWER_SECONDS = 90  # for any command: the first loads the libraries of CUDA


class Failed(Exception):
    """What a process said of its failure, or what became of it."""


def empty_row(workload: str, allocator: str) -> figures.Row:
    """What is known of work before it begins."""
    return {"workload": workload, "allocator": allocator, "rounds_ms": [], "memory": 0, "error": ""}


class Process:
    """A worker.py, from its start to its end."""

    def __init__(self, workload: str, allocator: str, policy: str) -> None:
        self.workload = workload
        self.allocator = allocator
        self.row = empty_row(workload, allocator)
        self.errors: IO[bytes] = tempfile.TemporaryFile()
        self.rest = b""
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "worker.py"), allocator, workload, policy],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment(allocator),
            bufsize=0,
        )

    def read(self, seconds: float) -> Dict[str, Any]:
        """The next answer. Other lines, which a library printed, are passed over."""
        deadline = time.monotonic() + seconds
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                line, separator, rest = self.rest.partition(b"\n")
                if separator:
                    self.rest = rest
                    if line.startswith(b"{"):
                        break
                    continue
                if not selector.select(max(0, deadline - time.monotonic())):
                    raise Failed(f"no answer after {seconds:.0f} s")
                more = os.read(self.process.stdout.fileno(), 1 << 16)
                if not more:
                    raise Failed(self.how_it_ended())
                self.rest += more
        message: Dict[str, Any] = json.loads(line)
        if "error" in message:
            raise Failed(message["error"])
        return message

    def how_it_ended(self) -> str:
        """The status and the last line on its standard error."""
        status = self.process.wait()
        self.errors.seek(0)
        lines = [line for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()]
        return f"ended with status {status}: {lines[-1] if lines else 'nothing was said'}"

    def ask(self, command: str, count: int, seconds: float) -> Dict[str, Any]:
        """Gives a command and waits for the answer."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{command} {count}\n".encode())
        except BrokenPipeError as error:
            raise Failed(self.how_it_ended()) from error
        return self.read(seconds)

    def attempt(self, command: str, count: int, deadline: float) -> bool:
        """The same, with the figures put into the row. False: it failed, now or before."""
        if self.row["error"]:
            return False
        try:
            left = deadline - time.monotonic()
            if left < 1:
                raise Failed("the time for all of them was over")
            if command == "start":
                self.read(min(START_SECONDS, left))
                return True
            message = self.ask(command, count, min(ANSWER_SECONDS, left))
        except Failed as error:
            self.row["error"] = str(error)
            self.end()
            return False
        if "second_ms" in message:
            self.row["second_ms"] = message["second_ms"]
        self.row["memory"] += message.get("grown", 0)
        for peak in ("reserved", "allocated"):
            self.row[peak] = max(self.row.get(peak, 0), message.get(peak, 0))
        self.row.update((name, message[name]) for name in ("counted", "value") if name in message)
        if command in ("round", "count"):
            self.row["rounds_ms"].append(message["times_ms"])
        return True

    def end(self) -> None:
        """Kills it, if it lives: it has nothing to put in order."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            if pipe is not None:
                pipe.close()


def environment(allocator: str) -> Dict[str, str]:
    """What every process runs with."""
    variables = allocators.environment(allocator)
    variables.update(PYTHONDONTWRITEBYTECODE="1")
    return variables


def run_workload(processes: List[Process], steps: int, rounds: int, until: float, deadline: float) -> None:
    """Warms each up and runs the rounds; after `until` only those that a figure cannot do without."""
    for process in processes:
        process.attempt("begin", WARM_UP, deadline)
    by_name = {process.allocator: process for process in processes}
    for number, order in enumerate(figures.orders(list(by_name), rounds)):
        if number >= FEWEST_ROUNDS and time.monotonic() > until:
            break
        for name in order:
            by_name[name].attempt("round", steps, deadline)


def measure(arguments: argparse.Namespace) -> List[figures.Row]:
    """Everything; what has failed has its error in its row."""
    deadline = time.monotonic() + arguments.limit
    plan = QUICK_PLAN if arguments.quick else PLAN
    names = arguments.workload or [*PLAN, LARGE]
    started = {
        name: [Process(name, allocator, arguments.policy) for allocator in arguments.allocator or allocators.USUAL]
        for name in names
    }
    try:
        for processes in started.values():
            for process in processes:
                process.attempt("start", 0, deadline)
        for number, (name, processes) in enumerate(started.items()):
            # What one workload does not take of the time the others may have.
            now = time.monotonic()
            until = now + (deadline - now) / (len(started) - number)
            print(f"bench.py: {name}", file=sys.stderr, flush=True)
            if name == LARGE:
                # Each has the device for itself.
                for process in processes:
                    process.attempt("begin", 0, deadline)
                    process.end()
            else:
                steps, rounds = plan[name]
                run_workload(processes, steps, arguments.rounds or rounds, until, deadline)
            for process in processes:
                process.end()
    finally:
        for processes in started.values():
            for process in processes:
                process.end()
    return [process.row for processes in started.values() for process in processes]


def machine() -> Dict[str, str]:
    """What it was measured on."""
    import torch

    found = {"torch": torch.__version__, "cuda": str(torch.version.cuda)}
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name(0)
    return found


def unavailable() -> Optional[str]:
    """Why nothing can be measured, if so."""
    try:
        import torch
    except ImportError as error:
        return f"torch cannot be imported ({error})"
    return None if torch.cuda.is_available() else "torch sees no GPU"


def main() -> int:
    """Parses the arguments, measures, prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--json", metavar="FILE", help="write every sample there")
    parser.add_argument("--table", metavar="FILE", help="print the tables of what --json wrote, and leave")
    parser.add_argument("--workload", action="append", choices=[*PLAN, LARGE], help="this one alone (may be given again)")
    parser.add_argument(
        "--allocator", action="append", choices=allocators.NAMES, help="with this one alone (may be given again)"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="repetitions, instead of 8 to 60")
    parser.add_argument("--policy", metavar="FILE", default=allocators.POLICY, help="of Weir (config/pytorch.yaml)")
    parser.add_argument("--limit", type=float, default=360, metavar="SECONDS", help="for all of it (360)")
    arguments = parser.parse_args()

    if arguments.table:
        with open(arguments.table, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
    else:
        reason = unavailable()
        if reason:
            print(f"1..0 # SKIP {reason}")
            return 0
        rows = measure(arguments)
        if arguments.json:
            with open(arguments.json, "w", encoding="utf-8") as file:
                json.dump({"machine": machine(), "rows": rows}, file)
    print(figures.table(rows))
    print()
    print(figures.asked_table(rows))
    return 1 if any(row["error"] for row in rows if not row["workload"] == LARGE) else 0


if __name__ == "__main__":
    sys.exit(main())
