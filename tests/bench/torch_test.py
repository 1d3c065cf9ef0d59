# SPDX-License-Identifier: MIT
"""
What of bench/torch and tests/gpu/torch needs neither torch nor a GPU: statistics, tables, and what becomes of bad
processes. TAP.
"""

import argparse
import contextlib
import io
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from typing import Any, Callable, Dict, List

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench", "torch"), os.path.join(ROOT, "tests", "gpu", "torch")]

import allocators  # noqa: E402
import bench  # noqa: E402
import figures  # noqa: E402
import harness  # noqa: E402
import run  # noqa: E402
import upstream  # noqa: E402

GIB = 1 << 30
TESTS: List[Callable[[], None]] = []


def test(function: Callable[[], None]) -> Callable[[], None]:
    """Registers a function whose name is a fact."""
    TESTS.append(function)
    return function


def row(allocator: str, rounds: List[List[float]], memory: int = 4 * GIB, **more: Any) -> Dict[str, Any]:
    """What bench.py would have written."""
    found = {"workload": "transformer", "allocator": allocator, "rounds_ms": rounds, "memory": memory, "error": ""}
    found.update(more)
    return found


NATIVE = row("native", [[20.0, 20.0, 20.0], [30.0, 30.0, 30.0], [20.0, 20.0, 20.0]])
ASYNC = row("async", [[25.0], [30.0], [25.0]], 3 * GIB)
SHIM = row("shim", [[18.0, 18.0, 90.0], [30.0, 27.0, 27.0], [19.0, 19.0, 19.0]], 2 * GIB)


@test
def a_single_slow_step_does_not_count() -> None:
    assert figures.round_medians(SHIM) == [18.0, 27.0, 19.0]


@test
def the_spread_is_that_of_the_rounds() -> None:
    assert figures.Spread.of(figures.round_medians(SHIM)) == figures.Spread(19.0, 18.0, 27.0)


@test
def ratios_are_taken_round_by_round() -> None:
    ratio = figures.time_ratio(SHIM, NATIVE)
    assert (ratio.median, ratio.least, ratio.greatest) == (0.9, 0.9, 0.95), ratio


@test
def memory_is_compared_as_a_whole() -> None:
    assert figures.memory_ratio(SHIM, NATIVE) == 0.5


@test
def every_other_round_runs_the_other_way() -> None:
    assert figures.orders(["a", "b", "c"], 3) == [["a", "b", "c"], ["c", "b", "a"], ["a", "b", "c"]]


@test
def the_table_has_medians_spread_and_both_ratios() -> None:
    lines = figures.table([NATIVE, ASYNC, SHIM]).splitlines()
    assert len({len(line) for line in lines}) == 1, "the columns do not line up"
    assert lines[3].split() == [
        "transformer",
        "shim",
        "19.000",
        "(18.000-27.000)",
        "0.900",
        "0.760",
        "2.000",
        "0.500",
    ], lines[3]
    assert lines[1].split()[4:6] == ["1.000", "0.800"], lines[1]


@test
def the_table_says_what_could_not_be_measured() -> None:
    text = figures.table(
        [row("plain", [], error="ended with status -11"), row("weir", [], second_ms=12.4, workload="large")]
    )
    assert "plain" in text and "ended with status -11" in text
    assert "works, the second allocation in 12 ms" in text


@test
def without_native_there_are_no_ratios_to_it() -> None:
    assert figures.table([ASYNC, SHIM]).splitlines()[2].split()[4:] == ["-", "0.760", "2.000", "-"]


@test
def what_failed_halfway_is_compared_with_nothing() -> None:
    broken = row("native", [[20.0]], error="no answer after 60 s")
    assert figures.verdict([broken, SHIM], figures.Asked("transformer", "time", "native", 1.0), "shim") is None


@test
def a_limit_is_reached_at_its_value_and_missed_above() -> None:
    rows = [NATIVE, ASYNC, SHIM]
    assert figures.verdict(rows, figures.Asked("transformer", "time", "native", 0.9), "shim") == (0.9, True)
    assert figures.verdict(rows, figures.Asked("transformer", "time", "native", 0.89), "shim") == (0.9, False)
    assert figures.verdict(rows, figures.Asked("transformer", "memory", "native", 0.4), "shim") == (0.5, False)
    lines = [line.split() for line in figures.asked_table(rows).splitlines()]
    assert ["transformer", "time", "shim", "<=", "0.95", "async", "0.760", "reached"] in lines
    assert ["transformer", "time", "weir", "<=", "0.95", "async", "-"] in lines


@test
def every_figure_that_is_asked_for_is_of_a_workload_that_is_measured() -> None:
    assert {asked.workload for asked in figures.ASKED} <= set(bench.PLAN) == set(bench.QUICK_PLAN)
    assert {asked.other for asked in figures.ASKED} <= set(allocators.NAMES) and set(figures.OURS) <= set(
        allocators.NAMES
    )


@test
def tables_are_printed_from_a_file() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"machine": {}, "rows": [NATIVE, ASYNC, SHIM]}, file)
        assert figures.table([NATIVE, ASYNC, SHIM]) in printed_by_bench("--table", path)


def printed_by_bench(*arguments: str) -> str:
    """The standard output of bench.py, run in this process."""
    output, before = io.StringIO(), sys.argv
    sys.argv = ["bench.py", *arguments]
    try:
        with contextlib.redirect_stdout(output):
            assert bench.main() == 0
    finally:
        sys.argv = before
    return output.getvalue()


WORKER = """
import json, sys, time
allocator, workload, policy = sys.argv[1:]
print("a library says hello")
print("{}", flush=True)
for line in sys.stdin:
    command, count = line.split()
    if allocator == "plain" and command == "round":
        sys.exit("bad block")
    if allocator == "async" and command == "begin":
        print(json.dumps({"error": "OutOfMemoryError: none left"}), flush=True)
        sys.exit(1)
    if allocator == "weir" and command == "round":
        time.sleep(600)
    if workload == "large":
        print(json.dumps({"second_ms": 3.0}), flush=True)
    else:
        print(json.dumps({"times_ms": [1.5] * int(count), "grown": 100}), flush=True)
"""


def measured(workload: str, names: List[str], seconds: float = 60) -> Dict[str, Dict[str, Any]]:
    """The rows of bench.py by allocator, with a worker that needs no torch."""
    options = argparse.Namespace(
        limit=seconds, quick=True, rounds=2, workload=[workload], allocator=names, policy="p"
    )
    before = bench.HERE
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "worker.py"), "w", encoding="utf-8") as file:
            file.write(WORKER)
        bench.HERE = folder
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                rows = bench.measure(options)
        finally:
            bench.HERE = before
    return {one["allocator"]: one for one in rows}


class FakeProcess:
    """Notes what it is told."""

    def __init__(self, allocator: str) -> None:
        self.allocator = allocator
        self.workload = "transformer"
        self.commands: List[str] = []

    def attempt(self, command: str, _count: int, _deadline: float) -> bool:
        """As of bench.Process."""
        self.commands.append(command)
        return True


@test
def a_workload_gives_its_rounds_and_the_memory_it_took() -> None:
    found = measured("transformer", ["native", "shim"])
    steps, _ = bench.QUICK_PLAN["transformer"]
    assert found["shim"]["rounds_ms"] == [[1.5] * steps] * 2 and found["shim"]["memory"] == 300
    assert not found["shim"]["error"]


@test
def a_workload_whose_time_is_over_keeps_the_rounds_that_it_has() -> None:
    processes = [FakeProcess("native"), FakeProcess("shim")]
    bench.run_workload(processes, 3, 100, time.monotonic() - 1, time.monotonic() + 60)  # type: ignore[arg-type]
    assert [process.commands for process in processes] == [["begin"] + ["round"] * bench.FEWEST_ROUNDS] * 2


@test
def a_process_that_fails_leaves_the_others_alone() -> None:
    found = measured("transformer", ["native", "async", "plain"])
    assert found["async"]["error"] == "OutOfMemoryError: none left"
    assert found["plain"]["error"] == "ended with status 1: bad block"
    assert len(found["native"]["rounds_ms"]) == 2 and not found["native"]["error"]


@test
def a_process_that_hangs_is_ended() -> None:
    before = bench.ANSWER_SECONDS
    bench.ANSWER_SECONDS = 1
    try:
        found = measured("transformer", ["weir"])
    finally:
        bench.ANSWER_SECONDS = before
    assert found["weir"]["error"] == "no answer after 1 s"


@test
def the_large_blocks_are_timed() -> None:
    assert measured("large", ["native"])["native"]["second_ms"] == 3.0


def outcome(program: str, limit: float = 60) -> run.Result:
    """What run.py makes of a Python program."""
    return run.run_process("case[weir]", [sys.executable, "-c", program], dict(os.environ), limit)


@test
def a_case_that_ends_well_is_ok() -> None:
    result = outcome("print('a word')")
    assert (result.verdict, result.reason, result.output) == ("ok", "", "a word\n")


@test
def a_case_that_is_skipped_says_why() -> None:
    result = outcome("print('x'); print('SKIP: no second GPU'); raise SystemExit(77)")
    assert (result.verdict, result.reason) == ("skipped", "no second GPU")


@test
def a_case_that_raises_has_failed_with_its_last_line() -> None:
    result = outcome("raise ValueError('seven')")
    assert (result.verdict, result.reason) == ("failed", "ValueError: seven")


@test
def a_case_that_is_killed_has_failed_by_its_signal() -> None:
    result = outcome("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert (result.verdict, result.reason) == ("failed", "killed by SIGSEGV")


@test
def a_case_that_hangs_is_stopped_with_its_children() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "child")
        program = (
            "import os, subprocess, sys, time\n"
            "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
            f"open({path + '.new'!r}, 'w').write(str(child.pid)); os.rename({path + '.new'!r}, {path!r})\n"
            "time.sleep(600)"
        )
        result = outcome(program, 3)
        assert (result.verdict, result.reason) == ("failed", "stopped after 3 s")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                wait_for_end(int(file.read()))


def wait_for_end(pid: int) -> None:
    """Until there is no such process any more, or only what is left of it."""
    for _ in range(600):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except OSError:
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError(f"process {pid} was left behind")


@test
def a_skip_of_another_status_is_a_failure() -> None:
    assert outcome("print('SKIP: so it says'); raise SystemExit(1)").verdict == "failed"


@test
def the_report_is_tap_with_a_table() -> None:
    output = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(output):
        report = run.Report(os.path.join(folder, "logs"))
        report.add(run.Result("one[weir]", "ok", "", 1, "words\n"))
        report.add(run.Result("two[shim]", "skipped", "no GPU", 1, ""))
        report.add(run.Result("three[shim]", "failed", "stopped after 5 s", 5, "the end\n"))
        assert not report.finish(os.path.join(folder, "results.json"))
        with open(os.path.join(folder, "results.json"), encoding="utf-8") as file:
            found = json.load(file)
        assert sorted(os.listdir(os.path.join(folder, "logs"))) == ["one-weir.log", "three-shim.log", "two-shim.log"]
    assert (found["ok"], found["skipped"], found["failed"]) == (1, 1, 1) and len(found["results"]) == 3
    lines = output.getvalue().splitlines()
    assert lines[:3] == ["ok 1 - one[weir]", "ok 2 - two[shim] # SKIP no GPU", "not ok 3 - three[shim]"]
    assert "1..3" in lines and lines[-1] == "# 1 ok, 1 skipped, 1 failed"


@test
def patterns_choose_cases_and_modes() -> None:
    before = dict(harness.CASES)
    harness.CASES.clear()
    try:
        for name, modes in (("first", ("weir", "shim")), ("second", ("native", "shim"))):
            harness.CASES[name] = harness.Case(name, lambda _run: None, modes, 60, 1, False, False)
        found = {
            tuple(f"{one.name}[{mode}]" for one, mode in harness.selected(patterns, modes))
            for patterns, modes in (([], []), (["f*"], []), (["*[[]shim]"], []), (["second"], ["native"]))
        }
    finally:
        harness.CASES.clear()
        harness.CASES.update(before)
    assert found == {
        ("first[weir]", "first[shim]", "second[native]", "second[shim]"),
        ("first[weir]", "first[shim]"),
        ("first[shim]", "second[shim]"),
        ("second[native]",),
    }, found


def ran(cases: Dict[str, Any], verdicts: Dict[str, str], modes: List[str]) -> Dict[str, str]:
    """The verdicts of run.py in the order in which it ran them, of cases with these options, which come out so."""
    before = dict(harness.CASES), run.run_case, harness.gpu_count
    harness.CASES.clear()
    for name, options in cases.items():
        harness.CASES[name] = harness.Case(name, lambda _run: None, ("native", "shim"), 60, **options)

    def run_case(one: harness.Case, mode: str, deadline: float) -> run.Result:
        assert deadline > time.monotonic()
        name = f"{one.name}[{mode}]"
        return run.Result(name, verdicts.get(name, "ok"), "", 1, "")

    run.run_case, harness.gpu_count = run_case, lambda: 1
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            path = os.path.join(folder, "results.json")
            options = argparse.Namespace(limit=60, jobs=1, logs=None, json=path, mode=modes)
            run.run_all(harness.selected([], modes), options)
            with open(path, encoding="utf-8") as file:
                return {one["name"]: one["verdict"] for one in json.load(file)["results"]}
    finally:
        harness.CASES.clear()
        harness.CASES.update(before[0])
        run.run_case, harness.gpu_count = before[1:]


TOGETHER = {"gpus": 1, "alone": False, "starts_itself": False}
SCENE = {"large": {**TOGETHER, "alone": True}, "small": TOGETHER, "peers": {**TOGETHER, "gpus": 2}}


@test
def cases_that_want_the_device_alone_come_after_the_others() -> None:
    found = ran(SCENE, {}, [])
    assert list(found) == ["peers[shim]", "small[shim]", "large[shim]"] and found["peers[shim]"] == "skipped"


@test
def what_failed_is_tried_with_torch_s_own_allocator_too() -> None:
    found = ran(SCENE, {"large[shim]": "failed"}, [])
    assert (
        list(found) == ["peers[shim]", "small[shim]", "large[shim]", "large[native]"] and found["large[native]"] == "ok"
    )


@test
def torch_s_own_allocator_is_tried_when_asked_for() -> None:
    assert list(ran(SCENE, {}, ["native"])) == ["peers[native]", "small[native]", "large[native]"]


@test
def settings_of_torch_s_allocator_do_not_reach_the_others() -> None:
    base = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "a:b", "HOME": "/root"}
    assert allocators.environment("native", base) == {"HOME": "/root"}
    assert "WEIR_CONF" not in allocators.environment("shim", {"WEIR_CONF": "pools.tensors.backing=arena"})
    assert allocators.environment("expandable", base)["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert allocators.environment("pools", base)["WEIR_CONF"] == "pools.tensors.backing=new"
    assert allocators.environment("recorded", base)["WEIR_CONF"] == "record.level=all,record.stacks=true"
    assert allocators.environment("rmm-pool", base) == allocators.environment("default", base) == {"HOME": "/root"}
    assert allocators.environment("async", base) == {
        "HOME": "/root",
        "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync",
    }


@test
def first_line_that_matches_an_upstream_case_counts() -> None:
    rules = upstream.read_rules(os.path.join(ROOT, "tests", "gpu", "torch", "upstream.txt"))
    two = upstream.rule_of("TestCuda.test_graph_two_successive", rules)
    assert two is not None and "segments" in two.reason
    graph = upstream.rule_of("TestCuda.test_graph_capture_simple", rules)
    assert graph is not None and graph.pattern == "TestCuda.test_graph_*" and not graph.reason
    assert upstream.rule_of("TestCuda.test_nvtx", rules) is None


UPSTREAM = """
import os, signal, time, unittest
class TestOne(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): self.fail("b is bad")
    def test_c(self): os.kill(os.getpid(), signal.SIGKILL)
    def test_d(self): self.skipTest("no d here")
    def test_e(self): print("so far"); time.sleep(600)
    def test_f(self): pass
"""


@test
def upstream_cases_that_kill_or_hang_leave_the_others_alone() -> None:
    before = upstream.CASE_SECONDS
    upstream.CASE_SECONDS = 15
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "test_cuda.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(UPSTREAM)
            names = upstream.names_of(path)
            found = upstream.run_cases("native", path, names, time.monotonic() + 600)
    finally:
        upstream.CASE_SECONDS = before
    assert names == [f"TestOne.test_{letter}" for letter in "abcdef"]
    assert [found[name].verdict for name in names] == ["ok", "failed", "failed", "skipped", "failed", "ok"], found
    assert found["TestOne.test_b"].reason == "AssertionError: b is bad"
    assert found["TestOne.test_c"].reason.startswith("it ended with status -9")
    assert found["TestOne.test_e"].reason == "it did not answer any more: so far"


@test
def only_differences_without_an_explanation_are_failures() -> None:
    good, bad = upstream.Outcome("ok", ""), upstream.Outcome("failed", "no memory")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert upstream.report("shim", [upstream.Comparison("T.a", good, bad, "of its nature")], None)
        assert upstream.report("shim", [upstream.Comparison("T.b", bad, bad, "")], None)
        assert not upstream.report("shim", [upstream.Comparison("T.c", good, bad, "")], None)
    lines = output.getvalue().splitlines()
    assert "ok 1 - T.a # SKIP of its nature" in lines and "not ok 1 - T.c" in lines
    assert "ok 1 - T.b # SKIP with torch's own allocator: failed: no memory" in lines


def main() -> int:
    """Runs them all."""
    for number, function in enumerate(TESTS, 1):
        try:
            function()
            print(f"ok {number} - {function.__name__}")
        except (Exception, SystemExit):  # any of them has failed
            print(f"not ok {number} - {function.__name__}")
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="")
        sys.stdout.flush()
    print(f"1..{len(TESTS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
