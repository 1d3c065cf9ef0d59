#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""upstream.py - those cases of PyTorch's own test/test_cuda.py that concern allocation, on Weir and on torch's
allocator.

    upstream.py [--mode weir|shim] [--only PATTERN]... [--json FILE] [--limit SECONDS] [--list] TEST_CUDA_PY

TEST_CUDA_PY is the file of the very release of torch that is installed. upstream.txt says which cases, and of some why
they cannot pass. A difference is a case that passes with torch's own allocator and not with Weir; it is a failure
unless upstream.txt explains it. The cases of one allocator run in one process, one after the other; if that dies or
hangs, the case at hand has failed, and the rest go on in another. Prints TAP and a table.
"""

import argparse
import fnmatch
import importlib.util
import json
import os
import selectors
import signal
import subprocess
import sys
import time
import types
import unittest
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import harness  # noqa: E402

CASE_SECONDS = 60  # of silence, after which a case is stopped
START_SECONDS = 90  # until the first case begins: the imports of torch's tests are many


@dataclass(frozen=True)
class Rule:
    """A line of upstream.txt."""

    pattern: str
    reason: str  # why such a case cannot pass; "" if it should


def read_rules(path: str) -> List[Rule]:
    """The lines of the list, in their order."""
    rules = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            text = line.split("#")[0].strip() if line.lstrip().startswith("#") else line.strip()
            if text:
                pattern, _, reason = text.partition(":")
                rules.append(Rule(pattern.strip(), reason.strip()))
    return rules


def rule_of(name: str, rules: List[Rule]) -> Optional[Rule]:
    """The first that matches "Class.test"; None: the case does not concern allocation."""
    return next((rule for rule in rules if fnmatch.fnmatchcase(name, rule.pattern)), None)


# The process of the cases


def stand_in_for_expecttest() -> None:
    """torch's tests import it for comparisons that none of the listed cases makes; a machine may lack it."""
    if importlib.util.find_spec("expecttest") is None:
        module = types.ModuleType("expecttest")
        setattr(module, "TestCase", unittest.TestCase)
        setattr(module, "ACCEPT", False)
        sys.modules["expecttest"] = module


def load_cases(path: str) -> Iterator[Tuple[str, unittest.TestCase]]:
    """All cases of the file by "Class.test"."""
    stand_in_for_expecttest()
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("test_cuda", path)
    assert spec is not None and spec.loader is not None, f"{path} is not a Python file"
    module = importlib.util.module_from_spec(spec)
    sys.modules["test_cuda"] = module
    spec.loader.exec_module(module)
    for value in list(vars(module).values()):
        if isinstance(value, type) and issubclass(value, unittest.TestCase) and value.__module__ == "test_cuda":
            for name in unittest.defaultTestLoader.getTestCaseNames(value):
                yield f"{value.__name__}.{name}", value(name)


def say(message: Dict[str, Any]) -> None:
    """A line for the parent, beside whatever the cases print."""
    print(f"\n@{json.dumps(message)}", flush=True)


def outcome_of(one: unittest.TestCase) -> Tuple[str, str]:
    """Runs it: ok, skipped or failed, and the last line of why."""
    result = unittest.TestResult()
    one.run(result)
    for _, text in result.errors + result.failures:
        lines = [line for line in text.splitlines() if line.strip()]
        print(text, flush=True)
        return "failed", lines[-1][:300]
    if result.skipped:
        return "skipped", str(result.skipped[0][1])[:300]
    return "ok", ""


def in_child(mode: str, path: str, only: List[str]) -> int:
    """Runs the cases named, or, if there are none, names those that there are."""
    harness.use_allocator(mode)
    cases = dict(load_cases(path))
    say({"names": sorted(cases)} if not only else {"loaded": len(cases)})
    for name in only:
        say({"begin": name})
        verdict, reason = outcome_of(cases[name])
        say({"end": name, "verdict": verdict, "reason": reason})
    sys.stdout.flush()
    os._exit(0)


# The process that looks on


@dataclass
class Child:
    """A process of cases, whose messages are read with a time limit."""

    command: List[str]
    environment: Dict[str, str]
    rest: bytes = b""
    output: List[str] = field(default_factory=list)
    has_ended: bool = False  # it says nothing more: its status comes for certain

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environment,
            start_new_session=True,
        )

    def message(self, deadline: float) -> Optional[Dict[str, Any]]:
        """The next; None: it ended, or the time is over."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                line, separator, rest = self.rest.partition(b"\n")
                if separator:
                    self.rest = rest
                    if line.startswith(b"@{"):
                        found: Dict[str, Any] = json.loads(line[1:])
                        return found
                    self.output.append(line.decode(errors="replace"))
                    continue
                if not selector.select(max(0, deadline - time.monotonic())):
                    return None
                more = os.read(self.process.stdout.fileno(), 1 << 16)
                if not more:
                    self.has_ended = True
                    return None
                self.rest += more

    def end(self) -> str:
        """Kills what is left of it, and says how it ended."""
        try:
            status: Optional[int] = self.process.wait(timeout=60 if self.has_ended else 1)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        last = next((line for line in reversed(self.output) if line.strip()), "")
        return f"it did not answer any more: {last}" if status is None else f"it ended with status {status}: {last}"


@dataclass(frozen=True)
class Outcome:
    """What came of a case with one allocator."""

    verdict: str
    reason: str


def child_of(mode: str, path: str, only: List[str]) -> Child:
    """Starts one."""
    environment = harness.allocators.environment(mode)
    environment.update(PYTHONFAULTHANDLER="1", PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1", PYTORCH_PRINT_REPRO_ON_FAILURE="0")
    return Child([sys.executable, os.path.abspath(__file__), "--child", mode, path, *only], environment)


def names_of(path: str) -> List[str]:
    """All cases of the file."""
    child = child_of(harness.NATIVE, path, [])
    message = child.message(time.monotonic() + START_SECONDS)
    how = child.end()
    if message is None:
        raise SystemExit(f"upstream.py: {path} cannot be loaded: {how}\n" + "\n".join(child.output[-20:]))
    return list(message["names"])


def run_cases(mode: str, path: str, names: List[str], deadline: float) -> Dict[str, Outcome]:
    """Each of them, in as many processes as it takes."""
    outcomes: Dict[str, Outcome] = {}
    left = list(names)
    while left and time.monotonic() < deadline:
        child = child_of(mode, path, left)
        current = None
        limit = START_SECONDS
        while True:
            message = child.message(min(deadline, time.monotonic() + limit))
            if message is None:
                break
            limit = CASE_SECONDS
            current = message.get("begin")
            if "end" in message:
                outcomes[message["end"]] = Outcome(message["verdict"], message["reason"])
                left.remove(message["end"])
        how = child.end()
        if not left:
            break
        # The case at hand is to blame; if none had begun, the first is as good as any, and it goes on.
        outcomes[current or left[0]] = Outcome("failed", how[:300])
        left.remove(current or left[0])
    for name in left:
        outcomes[name] = Outcome("failed", "the time for all of them was over")
    return outcomes


@dataclass(frozen=True)
class Comparison:
    """One case with both."""

    name: str
    native: Outcome
    ours: Outcome
    explained: str  # what upstream.txt says

    @property
    def differs(self) -> bool:
        """Whether it is worse with Weir."""
        return self.native.verdict == "ok" and self.ours.verdict != "ok"


def report(mode: str, comparisons: List[Comparison], path: Optional[str]) -> bool:
    """Prints TAP and the table, and writes the JSON. True if every difference is explained."""
    for number, one in enumerate(comparisons, 1):
        note = ""
        if one.differs and one.explained:
            note = f" # SKIP {one.explained}"
        elif one.native.verdict != "ok" and one.ours.verdict != "ok":
            note = f" # SKIP with torch's own allocator: {one.native.verdict}: {one.native.reason}"
        print(f"{'not ok' if one.differs and not one.explained else 'ok'} {number} - {one.name}{note}")
        if one.differs:
            print(f"#   {mode}: {one.ours.reason}")
    print(f"1..{len(comparisons)}")
    same = sum(one.ours.verdict == one.native.verdict for one in comparisons)
    explained = [one for one in comparisons if one.differs and one.explained]
    bad_ones = [one for one in comparisons if one.differs and not one.explained]
    better = [one for one in comparisons if one.explained and not one.differs and one.ours.verdict == "ok"]
    for title, group in (("differ, and nobody knows why", bad_ones), ("differ, explained", explained)):
        print(f"# {len(group)} {title}")
        for one in group:
            print(f"#   {one.name}: {one.explained or one.ours.reason}")
    print(f"# {len(better)} pass although they are listed as not: " + ", ".join(one.name for one in better))
    print(f"# {same} of {len(comparisons)} are the same with both")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"mode": mode, "cases": [asdict(one) for one in comparisons]}, file, indent=1)
    return not bad_ones


def main() -> int:
    """Parses the arguments, and is either the onlooker or the process of the cases."""
    if sys.argv[1:2] == ["--child"]:
        return in_child(sys.argv[2], sys.argv[3], sys.argv[4:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--mode", default=harness.SHIM, choices=(*harness.OURS, harness.RUN), help="Weir with the shim (default), without, or by `weir run`"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="Class.test (may be given again)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the outcomes there")
    parser.add_argument("--limit", type=float, default=540, metavar="SECONDS", help="for all of them (540)")
    parser.add_argument("--list", action="store_true", help="print the cases and leave")
    parser.add_argument("file", metavar="TEST_CUDA_PY")
    arguments = parser.parse_args()
    if not os.path.exists(arguments.file):
        print(f"1..0 # SKIP there is no {arguments.file}: it is test/test_cuda.py of the sources of torch")
        return 0
    try:
        harness.need_gpus(1)
    except (ImportError, harness.Skip) as reason:
        print(f"1..0 # SKIP {reason}")
        return 0
    deadline = time.monotonic() + arguments.limit
    rules = read_rules(os.path.join(HERE, "upstream.txt"))
    chosen: List[Tuple[str, Rule]] = []
    for name in names_of(arguments.file):
        rule = rule_of(name, rules)
        if rule and (not arguments.only or any(fnmatch.fnmatchcase(name, pattern) for pattern in arguments.only)):
            chosen.append((name, rule))
    names = [name for name, _ in chosen]
    if arguments.list:
        print("\n".join(names))
        return 0
    # Half of what is left for each.
    half = time.monotonic() + (deadline - time.monotonic()) / 2
    native = run_cases(harness.NATIVE, arguments.file, names, half)
    ours = run_cases(arguments.mode, arguments.file, names, deadline)
    comparisons = [Comparison(name, native[name], ours[name], rule.reason) for name, rule in chosen]
    return 0 if report(arguments.mode, comparisons, arguments.json) else 1


if __name__ == "__main__":
    sys.exit(main())
