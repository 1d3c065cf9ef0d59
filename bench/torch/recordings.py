#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""recordings.py - real work recorded under several policies, and what weir replay says of it beside what was.

    recordings.py record FOLDER [--workload NAME]... [--steps N] [--rounds N]
    recordings.py judge FOLDER [--costs FILE] [--json FILE]

`record` runs each workload under each policy and keeps the traces in FOLDER, with the policies beside them. Rounds after
the first one say how far a program differs from itself. `judge` needs no GPU: it replays each trace of the first round
under the policies of the others, and holds peak memory and stall time beside what was recorded under them, and the order
of the policies beside the recorded one, wherever no rounds of two policies lie between each other. Stall time is that of
calls of more than some 16 us, which is what a recording knows, without the longest of them: of CUDA's pools that is the
first growth of the process, 7 to 12 ms once, which differs between two runs of one program by more than all the others
last. Takes $WEIR, or weir of PATH.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, List, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
# Steps of each. Requests of a step: tens of thousands of a generation, thousands of the others.
STEPS = {"generate-b1": 4, "generate-b16": 4, "lora": 10, "resnet50-sizes": 14, "resnet50-b2": 40, "transformer": 40}
TENSORS = "weir: 1\npools:\n  tensors:\n    release_threshold: {}\n    small_below: 1MiB\n"
POLICIES = {
    "cached": TENSORS.format("all") + "    cache: { largest: 1MiB, per_stream: 512MiB, per_device: 1GiB }\n",
    "uncached": TENSORS.format("all") + "    cache: off\n",
    "arena": TENSORS.format("all") + "    backing: arena\n    cache: { largest: 1MiB }\n",
}
MEMORY_ERROR, STALL_ERROR = 0.05, 0.15
# Below this a difference of stall time is none, ms: weir replay's own bound.
STALL_FREE_MS = 1.0


def weir() -> str:
    """The command."""
    return os.environ.get("WEIR") or shutil.which("weir") or "weir"


def record(folder: str, workloads: List[str], steps: int, rounds: int) -> int:
    """Each in a process of its own, one after the other. All of a workload import torch meanwhile."""
    os.makedirs(folder, exist_ok=True)
    failures = 0
    for name, text in POLICIES.items():
        with open(os.path.join(folder, name + ".yaml"), "w", encoding="utf-8") as file:
            file.write(text)
    for workload in workloads:
        started = [(policy, start(folder, workload, policy, nth)) for nth in range(rounds) for policy in POLICIES]
        for policy, process in started:
            failures += not obey(workload, policy, process, steps or STEPS[workload])
    return failures


def trace_of(folder: str, workload: str, policy: str, nth: int = 0) -> str:
    """The file of a round."""
    return os.path.join(folder, f"{workload}.{policy}{'.' + str(nth + 1) if nth else ''}.weir")


def start(folder: str, workload: str, policy: str, nth: int) -> "subprocess.Popen[str]":
    """worker.py under weir record."""
    trace = trace_of(folder, workload, policy, nth)
    worker = [sys.executable, os.path.join(HERE, "worker.py"), "shim", workload, os.path.join(folder, policy + ".yaml")]
    return subprocess.Popen(
        [weir(), "record", "-o", trace, "--", *worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def obey(workload: str, policy: str, process: "subprocess.Popen[str]", steps: int) -> bool:
    """Has it do its steps and end."""
    assert process.stdin and process.stdout
    begun = time.monotonic()
    said: List[Dict[str, Any]] = []
    try:
        for command in ("", f"begin {steps}", "end 0"):
            if command:
                process.stdin.write(command + "\n")
                process.stdin.flush()
            line = next((line for line in process.stdout if line.startswith("{")), '{"error": "no answer"}')
            said.append(json.loads(line))
            if "error" in said[-1]:
                break
    except BrokenPipeError:
        said.append({"error": "it has gone"})
    process.stdin.close()
    status = process.wait(timeout=60)
    error = said[-1].get("error") or (f"status {status}" if status else "")
    print(f"{workload:16} {policy:10} {error or 'recorded'} {time.monotonic() - begun:6.1f} s", flush=True)
    return not error


def asked(command: List[str]) -> Any:
    """What weir says with --json."""
    made = subprocess.run([weir(), *command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if not made.stdout.strip():
        raise RuntimeError(f"{' '.join(command)}: {made.stderr.strip()[-300:]}")
    return json.loads(made.stdout)


def pairs(folder: str) -> Iterator[Tuple[str, List[str]]]:
    """Workloads, and the policies under which each was recorded."""
    found: Dict[str, List[str]] = {}
    for name in sorted(os.listdir(folder)):
        parts = name.split(".")
        if len(parts) == 3 and parts[-1] == "weir":
            found.setdefault(parts[0], []).append(parts[1])
    yield from found.items()


def rounds(folder: str, workload: str, policy: str) -> List[Dict[str, Any]]:
    """What was recorded in all of them."""
    found: List[Dict[str, Any]] = []
    while os.path.exists(trace := trace_of(folder, workload, policy, len(found))):
        recorded = asked(["replay", trace])[0]["recorded"]
        waits = asked(["trace", "waits", trace])["files"][0]["waits"]
        longest = max((wait["longest_ns"] for wait in waits if wait["kind"] == "growth"), default=0)
        found.append({**recorded, "others": recorded["slow_stall"] - longest})
    return found


def apart(one: float, other: float) -> float:
    """By how much of the second."""
    return abs(one - other) / other if other else float(one != 0)


def judge(folder: str, costs: str) -> List[Dict[str, Any]]:
    """A row for each trace and policy."""
    rows = []
    options = [f"--costs={costs}"] if costs else []
    for workload, policies in pairs(folder):
        real = {policy: rounds(folder, workload, policy) for policy in policies}
        others = [f"--policy={os.path.join(folder, other)}.yaml" for other in policies]
        for policy in policies:
            outcomes = asked(["replay", *options, *others, trace_of(folder, workload, policy)])[0]["policies"]
            for other, outcome in zip(policies, outcomes[1:]):
                outcome["others"] = max(0, outcome["slow_stall"] - outcome["worst"])
                rows.append({"workload": workload, "recorded": policy, "policy": other, "real": real[other], "replayed": outcome})
    return rows


def order(rows: List[Dict[str, Any]], real: str, replayed: str, free: float) -> str:
    """How often the order of two policies is right, of those whose rounds are apart by more than `free`."""
    right = judged = 0
    for row in rows:
        for other in rows:
            if (row["workload"], row["recorded"]) != (other["workload"], other["recorded"]):
                continue
            if max(recorded[real] for recorded in row["real"]) + free < min(recorded[real] for recorded in other["real"]):
                judged += 1
                right += row["replayed"][replayed] < other["replayed"][replayed]
    return f"{right} of {judged}"


def table(rows: List[Dict[str, Any]]) -> str:
    """MiB and ms; what is more than the bounds apart is marked."""
    lines = [
        f"{'workload':16} {'recorded':9} {'policy':9} {'peak real':>10} {'replayed':>9} {'off':>7}"
        f" {'stall real':>11} {'replayed':>9} {'off':>7}"
    ]
    for row in rows:
        real, replayed = row["real"][0], row["replayed"]
        peak, peak_replayed = real["peak_reserved"] / 2**20, replayed["peak_reserved"] / 2**20
        stall, stall_replayed = real["others"] / 1e6, replayed["others"] / 1e6
        memory = apart(peak_replayed, peak)
        stalled = 0.0 if abs(stall - stall_replayed) < STALL_FREE_MS else apart(stall_replayed, stall)
        lines.append(
            f"{row['workload']:16} {row['recorded']:9} {row['policy']:9} {peak:10.0f} {peak_replayed:9.0f} "
            f"{memory:6.1%}{'!' if memory > MEMORY_ERROR else ' '} {stall:11.2f} {stall_replayed:9.2f} "
            f"{stalled:6.0%}{'!' if stalled > STALL_ERROR else ' '}"
        )
    lines.append(
        f"order of the policies, where the rounds are apart: by peak {order(rows, 'peak_reserved', 'peak_reserved', 0)} right, "
        f"by stall time, more than {STALL_FREE_MS:.0f} ms apart, {order(rows, 'others', 'others', STALL_FREE_MS * 1e6)}"
    )
    for workload in sorted({row["workload"] for row in rows}):
        for row in (row for row in rows if row["workload"] == workload and row["recorded"] == row["policy"]):
            peaks = " ".join(f"{recorded['peak_reserved'] / 2**20:.0f}" for recorded in row["real"])
            stalls = ", ".join(f"{recorded['slow_stall'] / 1e6:.2f} ({recorded['others'] / 1e6:.2f})" for recorded in row["real"])
            lines.append(f"{workload:16} {row['policy']:9} rounds: peak {peaks} MiB, stall with the longest (without) {stalls} ms")
    return "\n".join(lines)


def main() -> int:
    """Parses the arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("command", choices=("record", "judge"))
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--workload", action="append", choices=tuple(STEPS), help="this one alone (may be given again)")
    parser.add_argument("--steps", type=int, default=0, metavar="N", help="of each process, instead of 4 to 14")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="of each (1)")
    parser.add_argument("--costs", metavar="FILE", default="", help="what weir calibrate wrote on that machine")
    parser.add_argument("--json", metavar="FILE", help="write every row there")
    arguments = parser.parse_args()
    if arguments.command == "record":
        return 1 if record(arguments.folder, arguments.workload or list(STEPS), arguments.steps, arguments.rounds) else 0
    rows = judge(arguments.folder, arguments.costs)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
