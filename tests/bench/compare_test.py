# SPDX-License-Identifier: MIT
"""
bench/torch/compare.py without torch and a GPU: rounds that are cut off and go on, files of anybody's, time that is over, what is
missing here, weir-bench's figures, medians, and tables. TAP.
"""

import argparse
import contextlib
import io
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench", "torch"), os.path.join(ROOT, "tests", "python")]

import bench  # noqa: E402
import compare  # noqa: E402
import machine  # noqa: E402
import micro  # noqa: E402
import report  # noqa: E402
import rows as rows_of  # noqa: E402
from results import FORMAT, Refused, Results, key, load  # noqa: E402
from tap import FOLDER, fact, main, raises  # noqa: E402

MACHINE = {"gpu": "Test 1", "build": "a"}
MIB = 1 << 20
HEADER = json.dumps({"format": FORMAT, "machine": MACHINE}).encode() + b"\n"


class Process:
    """Stands in for bench.Process: measures by a table, and notes what was asked of it."""

    asked = []
    failing = set()
    clock, takes = None, 10

    def __init__(self, workload, allocator, policy):
        self.allocator = allocator
        self.workload = workload
        self.row = bench.empty_row(workload, allocator)
        self.has_ended = False

    def attempt(self, command, count, deadline):
        if self.row["error"]:
            return
        assert not self.has_ended, "it is gone after a failure"
        self.asked.append((self.allocator, command, count))
        if command == "begin" and self.clock is not None:
            self.clock.now += self.takes
        self.row["memory"] += 5 * MIB
        if {self.allocator, f"{self.row['workload']} {self.allocator}"} & self.failing:
            self.row["error"] = "out of memory"
            self.has_ended = True
        elif command in ("count", "round"):
            self.row["rounds_ms"].append([2.0, 4.0])
            self.row["reserved"] = 3 * MIB
            self.row["counted"] = {"allocations": 10, "frees": 10, "allocating_ns": 3000, "freeing_ns": 1000, "empty_ns": 50}

    def end(self):
        pass


class Here:
    """Stands in for compare.Here."""

    def __init__(self, **lacks):
        self.policy, self.counts, self.lacks, self.weir_bench = "p", True, {"rmm": "none", **lacks}, "none"

    def reason(self, row, contender):
        return self.lacks.get(contender, "")


def folder():
    """A new one."""
    return tempfile.mkdtemp(dir=FOLDER.name)


def options(out, **more):
    """A command line."""
    found = dict(out=out, rows=["lora"], contenders="native,expandable,shim", rounds=5, quick=False, retry=False, time_limit=None)
    return argparse.Namespace(**{**found, "begun": time.monotonic(), "into": None, **more})


def run(out, here=None, **more):
    """A run with the stand-ins. How many measurements are missing at its end."""
    arguments, process, cores = options(out, **more), bench.Process, os.cpu_count
    Process.asked = []
    bench.Process, os.cpu_count = Process, lambda: 16
    results = Results(os.path.join(out, "results.jsonl"), MACHINE)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return compare.Comparison(arguments, here or Here(), results).run()
    finally:
        bench.Process, os.cpu_count = process, cores
        results.close()


def rows(out):
    """What its file has."""
    return load(os.path.join(out, "results.jsonl"))[1]


def contents(path, data):
    """Makes the file these bytes; its path."""
    with open(path, "wb") as file:
        file.write(data)
    return path


@fact
def contenders_run_in_turn_and_every_other_round_the_other_way():
    out = folder()
    assert run(out, rounds=3) == 0
    assert [(one["allocator"], one["round"]) for one in rows(out)] == [
        ("native", 1), ("expandable", 1), ("shim", 1), ("shim", 2), ("expandable", 2), ("native", 2), ("native", 3), ("expandable", 3), ("shim", 3),
    ]


@fact
def a_measurement_warms_up_and_then_counts_the_steps_of_its_row():
    run(folder(), rounds=1, contenders="native")
    work = rows_of.PROGRAMS["lora"]
    assert Process.asked == [("native", "start", 0), ("native", "begin", work.warm_up), ("native", "count", work.steps)], Process.asked
    run(folder(), rounds=1, contenders="native", quick=True)
    assert Process.asked[-1] == ("native", "count", work.quick)


@fact
def requests_alone_share_a_process_and_programs_have_their_own():
    out = folder()
    assert run(out, rows=["pair-16MiB", "random-1000-1MiB", "full", "lora"], contenders="native", rounds=2) == 0
    one = [("native", "begin", 1), ("native", "count", 1), ("native", "next", 1), ("native", "count", 1)]
    assert [asked for asked in Process.asked if asked[1] != "start" and asked[2] == 1][-8:] == one * 2, Process.asked
    assert sum(asked[1] == "start" for asked in Process.asked) == 6
    assert [asked for asked in Process.asked if asked[1] == "begin"][:2] == [("native", "begin", 1), ("native", "begin", 2)], "full has its round"
    found = [(one["workload"], one["round"], one["memory"]) for one in rows(out) if one["allocator"] == "native"]
    assert found[-4:] == [(row, number, 10 * MIB) for number in (1, 2) for row in ("pair-16MiB", "random-1000-1MiB")], found


@fact
def a_request_that_fails_leaves_the_other_rows_to_a_new_process():
    out, more = folder(), dict(rows=["pair-16MiB", "random-1000-1MiB", "random-1000-4MiB"], contenders="native,shim", rounds=2)
    Process.failing = {"random-1000-1MiB shim"}
    try:
        run(out, **more)
    finally:
        Process.failing = set()
    grid = report.Grid(rows(out))
    for row in more["rows"]:
        assert set(grid.figures(row, "native", "value")) == {1, 2}
        assert set(grid.figures(row, "shim", "value")) == (set() if "1MiB" in row else {1, 2}), row


@fact
def a_file_that_is_cut_off_anywhere_goes_on_behind_its_last_whole_line():
    out = folder()
    run(out, rounds=2)
    path = os.path.join(out, "results.jsonl")
    with open(path, "rb") as file:
        whole = file.read()
    keys = {key(one) for one in rows(out)}
    for size in range(0, len(whole), 7):
        contents(path, whole[:size])
        missing = len(keys) - max(0, whole[:size].count(b"\n") - 1)
        assert run(out, rounds=2) == 0
        assert {key(one) for one in rows(out)} == keys and len(rows(out)) == len(keys), size
        assert sum(command == "begin" for _, command, _ in Process.asked) == missing, size


@fact
def what_is_done_is_not_measured_again():
    out = folder()
    run(out)
    run(out)
    assert Process.asked == []
    run(out, rounds=6)
    assert [asked[0] for asked in Process.asked if asked[1] == "begin"] == ["shim", "expandable", "native"]


@fact
def of_two_lines_of_one_key_the_later_holds():
    one = {"workload": "lora", "allocator": "shim", "round": 1, "rounds_ms": [[1.0]], "memory": 0, "error": ""}
    grid = report.Grid([one, {**one, "rounds_ms": [[3.0]]}])
    assert grid.figures("lora", "shim", "time") == {1: 3.0}


@fact
def a_second_run_is_refused_while_the_first_writes():
    path = os.path.join(folder(), "results.jsonl")
    first = Results(path, MACHINE)
    assert "another run writes it" in str(raises(Refused, Results, path, MACHINE))
    first.close()
    Results(path, MACHINE).close()


@fact
def another_machine_or_build_is_refused_by_name():
    path = os.path.join(folder(), "results.jsonl")
    Results(path, MACHINE).close()
    text = str(raises(Refused, Results, path, {**MACHINE, "gpu": "Test 2"}))
    assert path in text and "gpu 'Test 1'" in text and "'Test 2'" in text and "another folder" in text
    assert "build 'a'" in str(raises(Refused, Results, path, {**MACHINE, "build": "b"}))
    assert "torch 'none'" in str(raises(Refused, Results, path, {**MACHINE, "torch": "2"}))


GOOD = {"workload": "lora", "allocator": "shim", "round": 1, "rounds_ms": [[1.0]], "memory": 0, "error": ""}
HOSTILE = {
    b"[]": "is no measurement",
    b"{": "is no measurement",
    b"": "is no measurement",
    b"[" * 100000: "is no measurement",
    b"\xff\xfe": "is no measurement",
    b"9" * 5000: "is no measurement",
    **{
        json.dumps({**GOOD, **wrong}).encode(): words
        for words, wrong in (
            ("name for its workload", {"workload": "a|b"}),
            ("name for its workload", {"workload": "x" * 100}),
            ("name for its allocator", {"allocator": 3}),
            ("no round", {"round": 0.5}),
            ("no round", {"round": True}),
            ("no round", {"round": -1}),
            ("no round", {"round": 10**9}),
            ("number for memory", {"memory": -1}),
            ("number for value", {"value": float("nan")}),
            ("number for seconds", {"seconds": float("inf")}),
            ("number for reserved", {"reserved": 10**30}),
            ("text for error", {"error": None}),
            ("text for skipped", {"skipped": {}}),
            ("milliseconds", {"rounds_ms": [[]]}),
            ("milliseconds", {"rounds_ms": [["1"]]}),
            ("milliseconds", {"rounds_ms": {"a": 1}}),
            ("numbers for counted", {"counted": {"frees": "many"}}),
            ("numbers for counted", {"counted": []}),
            ("figures for asked", {"asked": 1}),
            ("figures for asked", {"asked": [{"name": "a"}]}),
            ("figures for asked", {"asked": [{"name": "a", "unit": "x", "asked": "<=", "value": 1, "limit": 1, "reached": 1}]}),
        )
    },
}


@fact
def a_hostile_line_is_refused_by_its_number_and_left_as_it_is():
    path = os.path.join(folder(), "results.jsonl")
    for line, words in HOSTILE.items():
        data = HEADER + json.dumps(GOOD).encode() + b"\n" + line + b"\n"
        contents(path, data)
        for opened in (lambda: load(path), lambda: Results(path, MACHINE)):
            text = str(raises(Refused, opened))
            assert f"{path}: line 3 " in text and words.split(" for ")[-1] in text, (line[:60], text)
        with open(path, "rb") as file:
            assert file.read() == data


@fact
def what_is_no_file_of_results_is_refused_and_left_as_it_is():
    path = os.path.join(folder(), "results.jsonl")
    for data in (b"a letter without an end", b"a letter\nof two lines\n", b"{}\n", b"\x00" * 4096, HEADER[:20].replace(b"weir", b"were")):
        contents(path, data)
        assert "line 1" in str(raises(Refused, Results, path, MACHINE))
        with open(path, "rb") as file:
            assert file.read() == data


@fact
def a_pipe_and_a_file_of_gigabytes_are_refused():
    path = os.path.join(folder(), "results.jsonl")
    os.mkfifo(path)
    for opened in (lambda: load(path), lambda: Results(path, MACHINE)):
        assert "is no file" in str(raises(Refused, opened))
    os.unlink(path)
    with open(path, "wb") as file:
        file.truncate(1 << 32)
    assert "is no file of at most" in str(raises(Refused, load, path))
    assert "No such file" in str(raises(Refused, load, path + ".none"))


@fact
def a_full_disk_is_said_and_what_it_cut_off_is_measured_again():
    out = folder()
    results = Results(os.path.join(out, "results.jsonl"), MACHINE)
    results.add([GOOD])
    real = os.write

    def hold(descriptor, data):
        if not hold.left:
            raise OSError(28, "No space left on device")
        hold.left -= 1
        return real(descriptor, data[:30])

    hold.left, os.write = 1, hold
    try:
        assert "No space left" in str(raises(Refused, results.add, [{**GOOD, "round": 2}]))
    finally:
        os.write = real
    results.close()
    again = Results(os.path.join(out, "results.jsonl"), MACHINE)
    assert [one["round"] for one in again.rows] == [1]
    again.add([{**GOOD, "round": 2}])
    again.close()
    assert [one["round"] for one in rows(out)] == [1, 2]


class Clock:
    """Time that passes by measurements alone."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


def timed(out, limit):
    """A run on that clock, and the time at its end."""
    clock, real = Clock(), compare.time
    Process.clock, compare.time = clock, clock
    try:
        return run(out, time_limit=limit, begun=clock.now), clock.now - 1000
    finally:
        Process.clock, compare.time = None, real


@fact
def a_time_limit_ends_the_run_between_measurements():
    out = folder()
    missing, took = timed(out, 60)
    assert 0 < missing < 15 and took <= 60 and len(rows(out)) == 15 - missing, (missing, took)
    for _ in range(15):
        before = len(rows(out))
        missing, took = timed(out, 60)
        assert took <= 60 and (len(rows(out)) > before or not missing)
    assert missing == 0 and len(rows(out)) == 15


@fact
def measurements_that_take_longer_than_thought_leave_the_rest_of_their_batch():
    out = folder()
    Process.takes = 40
    try:
        missing, took = timed(out, 400)
        assert missing > 0 and took <= 400 + 40 and len(rows(out)) == 15 - missing, (missing, took)
        assert sum(command == "start" for _, command, _ in Process.asked) > len(rows(out))
    finally:
        Process.takes = 10


@fact
def what_fits_is_measured_although_weir_bench_does_not():
    out, real = folder(), rows_of.MICRO["pair-16MiB"]
    rows_of.MICRO["pair-16MiB"] = (rows_of.Section("rmm-pairs", "16 MiB", 1000.0), real[1])
    clock, time_of = Clock(), compare.time
    Process.clock, compare.time = clock, clock
    try:
        assert run(out, rows=["pair-16MiB"], rounds=1, time_limit=300, begun=clock.now) == 1
    finally:
        rows_of.MICRO["pair-16MiB"], Process.clock, compare.time = real, None, time_of
    assert [one["allocator"] for one in rows(out) if one["round"]] == ["native", "expandable", "shim"]


@fact
def without_time_nothing_is_begun():
    out = folder()
    assert timed(out, 1) == (15, 0.0) and rows(out) == []


@fact
def what_is_missing_is_skipped_by_name_and_measured_once_it_is_there():
    out = folder()
    for _ in range(2):
        assert run(out, Here(shim="weir.torch cannot be built: no compiler"), rounds=1) == 0
    skipped = [one for one in rows(out) if "skipped" in one]
    assert [(one["allocator"], one["round"], one["skipped"]) for one in skipped] == [("shim", 0, "weir.torch cannot be built: no compiler")]
    assert "- skipped: weir.torch cannot be built: no compiler: lora (Weir, pytorch.yaml)" in report.document(MACHINE, rows(out), 1)
    assert run(out, rounds=1) == 0
    assert len(rows(out)) == 4 and "skipped" not in report.document(MACHINE, rows(out), 1)


@fact
def rmm_that_comes_later_is_measured_in_turn_with_the_others_of_weir_bench():
    out, here = folder(), weir_bench((WEIR_BENCH % sys.executable).replace("STATUS", "0"))
    more = dict(rows=["random-1000-64MiB"], contenders="native", rounds=1)
    assert run(out, here, **more) == 0
    assert "- skipped: none: random-1000-64MiB (RMM pool, RMM arena, RMM binning)" in report.document(MACHINE, rows(out), 5)
    count = len(rows(out))
    del here.lacks["rmm"]
    os.environ["WEIR_BENCH_RMM"] = "lib.so"
    for added in (11, 0):
        assert run(out, here, **more) == 0 and len(rows(out)) == count + added
        count += added


@fact
def a_package_that_is_missing_is_named():
    here = machine.Here.__new__(machine.Here)
    here.lacks, here.counts = {"peft": "python3 has no peft", "rmm": "no RMM", "weir": "no Weir"}, True
    assert here.reason("lora", "native") == "python3 has no peft" and not here.reason("generate-b1", "native")
    assert here.reason("graphs", "rmm-pool") == "no RMM" and here.reason("graphs", "shim") == "no Weir" and not here.reason("graphs", "async")
    here.counts = False
    assert "counter" in here.reason("pair-16MiB", "native") and not here.reason("full", "native") and not here.reason("graphs", "native")


@fact
def what_has_failed_is_left_alone_until_retried():
    out = folder()
    Process.failing = {"expandable"}
    try:
        assert run(out, rounds=3) == 0
        assert [one["round"] for one in rows(out) if one["allocator"] == "expandable"] == [1]
        count = len(rows(out))
        assert run(out, rounds=3) == 0 and len(rows(out)) == count
        assert "failed in round 1: out of memory" in report.document(MACHINE, rows(out), 3)
        assert run(out, rounds=3, retry=True) == 0
    finally:
        Process.failing = set()
    assert run(out, rounds=3, retry=True) == 0
    assert report.Grid(rows(out)).figures("lora", "expandable", "time") == {1: 3.0, 2: 3.0, 3: 3.0}
    assert "failed" not in report.document(MACHINE, rows(out), 3)


@fact
def a_run_that_is_killed_loses_the_measurement_that_it_was_in():
    out = folder()
    worker = contents(os.path.join(out, "worker.py"), WORKER.encode())
    script = (
        f"import sys; sys.path[:0] = {sys.path[:2]!r}\n"
        f"import bench, compare_test as t; bench.HERE = {os.path.dirname(worker)!r}\n"
        "from results import Results; import compare\n"
        f"results = Results({os.path.join(out, 'results.jsonl')!r}, t.MACHINE)\n"
        f"compare.Comparison(t.options({out!r}, rounds=2), t.Here(), results).run()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__)), "HANG_AT": "shim"}
    child = subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL)
    path, deadline = os.path.join(out, "results.jsonl"), time.monotonic() + 120
    while not os.path.exists(path) or open(path, "rb").read().count(b"\n") < 3:
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert [(one["allocator"], one["round"]) for one in rows(out)] == [("native", 1), ("expandable", 1)]
    subprocess.run([sys.executable, "-c", script], env={**environment, "HANG_AT": ""}, stderr=subprocess.DEVNULL, check=True)
    found = rows(out)
    assert len(found) == 6 and not any(one["error"] for one in found), found
    assert found[0]["counted"] == {"allocations": 10, "frees": 10, "allocating_ns": 3000, "freeing_ns": 1000, "empty_ns": 50}


WORKER = """
import json, os, sys, time
allocator, workload, policy = sys.argv[1:]
print("{}", flush=True)
for line in sys.stdin:
    command, count = line.split()
    if command == "begin" and allocator == os.environ["HANG_AT"]:
        sys.stdin.read()  # until the run that is killed is gone
        sys.exit()
    answer = {"times_ms": [1.5] * int(count), "grown": 100, "reserved": 1 << 20, "allocated": 0}
    if command == "count":
        answer["counted"] = {"allocations": 10, "frees": 10, "allocating_ns": 3000, "freeing_ns": 1000, "empty_ns": 50}
    print(json.dumps(answer), flush=True)
"""

WEIR_BENCH = """#!%s
import json, sys
words = sys.argv[1:]
assert words[words.index("--only") + 1] == "1000 of up to 64 MiB," and words[words.index("--repetitions") + 1] == "5" and words[-1] == "rmm-random"
series = [{"name": name, "values": [base + n for n in range(5)]} for name, base in (("raw", 300.0), ("weir, arena", 90.5))]
figure = {"section": "rmm-random", "unit": "ns", "value_unit": "x", "series": series, "asked": None, "limit": None, "reached": None}
named = {"name": "1000 of up to 64 MiB, weir, arena against raw", "value": 0.3, "asked": "<=", "limit": 1.05, "reached": True}
others = {**figure, "name": "1000 of up to 1 GiB, weir against raw", "value": 1.0}
with open(words[words.index("--json") + 1], "w") as file:
    json.dump({"figures": [others, {**figure, **named}]}, file)
sys.exit(STATUS)
"""


def weir_bench(text):
    """A program in the place of weir-bench."""
    path = contents(os.path.join(folder(), "weir-bench"), text.encode())
    os.chmod(path, stat.S_IRWXU)
    here = Here()
    here.weir_bench = path
    return here


@fact
def samples_of_weir_bench_are_rounds_and_what_it_asks_is_kept():
    out, here = folder(), weir_bench((WEIR_BENCH % sys.executable).replace("STATUS", "1"))
    assert run(out, here, rows=["random-1000-64MiB"], contenders="native", rounds=1) == 0
    grid = report.Grid(rows(out))
    assert grid.figures("random-1000-64MiB", "weir, arena", "value") == {1: 90.5, 2: 91.5, 3: 92.5, 4: 93.5, 5: 94.5}
    text = report.document(MACHINE, rows(out), 5)
    assert "| RANDOM of 1,000 up to 64MiB, a call, ns | 302 (300–304) | 92.5 (90.5–94.5) | 150, 1 of 5 rounds |" in text, text
    assert "| rmm-random: 1000 of up to 64 MiB, weir, arena against raw | ≤ 1.05 × | 0.30 × |  |" in text, text


@fact
def a_section_whose_lines_were_cut_off_is_measured_again():
    out, here = folder(), weir_bench((WEIR_BENCH % sys.executable).replace("STATUS", "0"))
    more = dict(rows=["random-1000-64MiB"], contenders="native", rounds=1)
    run(out, here, **more)
    path = os.path.join(out, "results.jsonl")
    with open(path, "rb") as file:
        lines = file.read().splitlines(keepends=True)
    for count in range(1, 11):
        contents(path, b"".join(lines[:count]))
        assert run(out, here, **more) == 0
        assert {key(one) for one in rows(out)} == {key(json.loads(line)) for line in lines[1:]}


@fact
def a_weir_bench_that_fails_is_a_row_with_its_words():
    for text, words in (
        ("#!/bin/sh\necho 'no room for 1 GiB' >&2\nexit 2\n", "ended with status 2: no room for 1 GiB"),
        ("#!/bin/sh\nexit 0\n", "wrote no figures"),
        ((WEIR_BENCH % sys.executable).replace("STATUS", "0").replace('"raw"', '"r|w"'), "wrote a figure that has no name for its allocator"),
        ((WEIR_BENCH % sys.executable).replace("STATUS", "0").replace("300.0", "float('nan')"), "wrote a figure that has no number for value"),
        ('#!/bin/sh\nwhile [ "$1" != --json ]; do shift; done; echo "{}" >"$2"\n', "wrote no figures: KeyError"),
        ('#!/bin/sh\nwhile [ "$1" != --json ]; do shift; done; echo \'{"figures": []}\' >"$2"\n', "wrote no figures: IndexError"),
    ):
        out = folder()
        assert run(out, weir_bench(text), rows=["random-1000-64MiB"], contenders="native", rounds=1) == 0
        error = next(one["error"] for one in rows(out) if one["allocator"] == rows_of.SECTION)
        assert words in error, error


@fact
def a_pair_is_two_calls_without_the_counter_s_clock():
    counted = {"allocations": 100, "frees": 100, "allocating_ns": 30000, "freeing_ns": 10000, "empty_ns": 50}
    assert compare.of_request("pair-16MiB", {"counted": counted}) == {"value": 300.0, "unit": "ns"}
    assert compare.of_request("random-1000-1MiB", {"counted": counted}) == {"value": 150.0, "unit": "ns"}
    assert "counted" in compare.of_request("random-1000-1MiB", {})["error"]


def measured(allocator, number, **more):
    """A measurement of batch 1."""
    return {"workload": "generate-b1", "allocator": allocator, "round": number, "rounds_ms": [[10.0, 30.0]], "memory": MIB, "error": "", **more}


@fact
def a_cell_has_the_median_the_least_and_the_most_and_says_when_rounds_lack():
    assert report.cell({1: 3.0, 2: 1.0, 3: 2.5}, 2, 3) == "2.50 (1.00–3.00)"
    assert report.cell({1: 1234.0, 3: 1238.0}, 2, 3) == "1,236 (1,234–1,238), 2 of 3 rounds"
    assert report.cell({}, 2, 3) == "–" and report.cell({2: 7.0}, 0, 1) == "7"


@fact
def a_target_that_one_round_misses_is_missed():
    found = [measured("expandable", number, reserved=100 * MIB) for number in range(1, 6)]
    found += [measured("shim", number, reserved=(101 if number == 4 else 99) * MIB) for number in range(1, 6)]
    text = report.document(MACHINE, found, 5)
    assert "| text generation, batch 1: peak reserved, against expandable | ≤ 1.00 × | 0.99 × (0.99–1.01) | **missed** in 1 of 5 |" in text, text
    text = report.document(MACHINE, [one for one in found if one["round"] != 4], 5)
    assert "0.99 × (0.99–0.99), 4 of 5 rounds |  |" in text, text


@fact
def rounds_are_compared_with_the_same_rounds():
    found = [measured("expandable", number, reserved=number * MIB) for number in (1, 2, 4)]
    found += [measured("shim", number, reserved=number * MIB) for number in (2, 3, 4)]
    spread, missed, count = report.verdict(report.Grid(found), report.Asked("generate-b1", "reserved", "expandable", 1.0))
    assert (spread.median, spread.greatest, missed, count) == (1.0, 1.0, 0, 2)


@fact
def an_allocator_that_does_not_say_what_it_reserved_has_what_the_device_lacks():
    assert report.peak_of(measured("rmm-pool", 1, reserved=0, memory=7 * MIB)) == 7
    assert report.peak_of(measured("shim", 1, reserved=3 * MIB, memory=7 * MIB)) == 3


@fact
def no_text_of_a_file_breaks_a_table():
    error = "a | b <script>\n# c `d` [e](f) \\"
    text = report.document({"gpu": error}, [measured("native", 1), measured("shim", 1, error=error, rounds_ms=[])], 1)
    assert "<script>" not in text.replace("\\<", "") and "\n# c" not in text
    widths = {line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("| ") or line.startswith("|---")}
    assert widths == {3}, text


@fact
def tables_go_between_the_marks_of_a_document_and_nowhere_else():
    before, after = f"one\n{report.BEGIN}\nold\n", f"{report.END}\ntwo\n"
    assert report.inserted(before + after, "new\n") == f"one\n{report.BEGIN}\nnew\n{report.END}\ntwo\n"
    for document in ("", before, after, after + before, before + after + after, before + before + after):
        assert report.inserted(document, "new\n") is None, document


def printed(*words):
    """The status, the output and the errors of the command."""
    command = [sys.executable, os.path.join(ROOT, "bench", "torch", "compare.py"), *words]
    made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return made.returncode, made.stdout, made.stderr


@fact
def tables_are_made_of_what_was_measured_before():
    out = folder()
    run(out, rounds=2)
    document = contents(os.path.join(out, "doc.md"), f"top\n{report.BEGIN}\n{report.END}\n".encode())
    status, text, _ = printed("--table", out, "--into", document)
    assert status == 0 and "| LoRA | 3.00 (3.00–3.00) | 3.00 (3.00–3.00) | 3.00 (3.00–3.00) |" in text, text
    with open(document, encoding="utf-8") as file:
        assert text.strip() in file.read()
    contents(document, b"no marks")
    status, _, errors = printed("--table", out, "--into", document)
    assert status == 2 and document in errors and report.BEGIN in errors


@fact
def a_machine_without_torch_measures_what_needs_none_and_names_the_rest():
    out, programs, packages = folder(), folder(), folder()
    smi = contents(os.path.join(programs, "nvidia-smi"), b"#!/bin/sh\necho 'Test GPU 80GB, 580.1'\n")
    os.chmod(smi, stat.S_IRWXU)
    contents(os.path.join(packages, "torch.py"), b"raise ImportError('no torch today')\n")
    words = ["--out", out, "--rows", "random-1000-64MiB", "--weir-bench", weir_bench((WEIR_BENCH % sys.executable).replace("STATUS", "1")).weir_bench]
    before = {name: os.environ.get(name) for name in ("PATH", "PYTHONPATH")}
    os.environ.update(PATH=programs + os.pathsep + os.environ["PATH"], PYTHONPATH=packages)
    try:
        status, text, errors = printed(*words)
        assert status == 0 and "nothing is missing" in errors, errors
        assert "random-1000-64MiB, native: skipped: torch cannot be imported: ImportError: no torch today" in errors, errors
        assert "gpu Test GPU 80GB, driver 580.1" in text and "92.5 (90.5–94.5)" in text, text
        with open(os.path.join(out, "tables.md"), encoding="utf-8") as file:
            assert file.read() == text[:-1]
        count = len(rows(out))
        assert printed(*words)[0] == 0 and len(rows(out)) == count
        contents(smi, b"#!/bin/sh\necho 'Test GPU 96GB, 580.1'\n")
        status, _, errors = printed(*words)
        assert status == 2 and "'Test GPU 96GB'" in errors and "another folder" in errors, errors
        contents(smi, b"#!/bin/sh\nexit 9\n")
        status, text, _ = printed(*words)
        assert status == 0 and text.startswith("1..0 # SKIP torch cannot be imported"), text
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@fact
def bad_words_are_refused_with_what_to_write():
    for words, expected in (
        (["--rows", "lorax", "--out", folder()], "no row 'lorax'"),
        (["--out", folder(), "--contenders", "native,exp"], "no 'exp'"),
        (["--out", folder(), "--rounds", "0"], "from 1 to 64"),
        (["--out", folder(), "--time-limit", "nan"], "--time-limit 480"),
        (["--out", folder(), "--rmm", "/none"], "--rmm /none"),
        (["--table", "/none"], "/none/results.jsonl"),
        ([], "required"),
    ):
        status, _, errors = printed(*words)
        assert status == 2 and expected in errors, (words, status, errors)


@fact
def rows_are_chosen_by_names_patterns_and_groups():
    assert rows_of.chosen("lora,pair-*") == ["pair-64KiB", "pair-16MiB", "pair-1GiB", "lora"]
    assert rows_of.chosen("all") == [*rows_of.MICRO, *rows_of.PROGRAMS]
    assert rows_of.chosen("micro,offload") == [*rows_of.MICRO, "offload"]
    status, text, _ = printed("--list")
    assert status == 0 and [line.split()[0] for line in text.splitlines()] == [*rows_of.MICRO, *rows_of.PROGRAMS, *rows_of.FURTHER]


@fact
def requests_through_torch_are_those_of_weir_bench():
    for count, largest, expected in ((1000, 1 << 20, 104951809874400851), (1000, 1 << 30, 13428540911333931793), (10000, 64 << 20, 962555434324528332)):
        total = 0
        for size, slot in micro.sequence(count, largest):
            total = (total * 31 + size * 7 + slot) % (1 << 64)
        assert total == expected, (count, largest, total)
    sections = [work for _, work in rows_of.MICRO.values() if work]
    assert len(sections) == len(micro.WORKLOADS) + 1 and set(micro.WORKLOADS) | {micro.FULL, "threads", "comb"} == set(rows_of.MICRO)


class Device:
    """Memory of so many bytes, whose blocks give theirs back when they go."""

    def __init__(self, size):
        self.left, self.taken, self.refused, self.events = size, 0, 0, []

    def take(self, size):
        device = self
        if size > self.left:
            self.refused += 1
            self.events.append(f"no {size}")
            raise MemoryError
        self.events.append(f"take {size}")

        class Block:
            def __del__(self):
                device.left += size
                device.events.append(f"free {size}")

        self.left -= size
        self.taken += 1
        return Block()


@fact
def requests_that_find_no_room_become_frees_and_all_goes_back():
    device = Device(256 * MIB)
    micro.random_step(200, 8 * MIB, device.take)()
    assert device.refused > 10 and device.taken > 100 and device.left == 256 * MIB, (device.refused, device.taken, device.left)
    micro.pairs_step(MIB, 10, device.take)()
    assert device.left == 256 * MIB


@fact
def a_refused_request_frees_the_next_live_block_of_the_sequence_once():
    device, real = Device(8), micro.sequence
    micro.sequence = lambda count, largest: [(5, 0), (3, 1), (2, 2), (1, 3), (0, 2), (0, 1), (0, 3), (0, 0)]
    try:
        micro.random_step(1, 1, device.take)()
    finally:
        micro.sequence = real
    assert device.events == ["take 5", "take 3", "no 2", "free 3", "take 1", "free 1", "free 5"], device.events


@fact
def a_device_without_waste_is_full_at_nearly_all_of_it():
    device = Device(1 << 30)
    assert 75 < micro.fill(1, 1 << 30, device.take) <= 100 and device.left == 1 << 30
    assert micro.fill(1, 1 << 30, device.take) == micro.fill(1, 1 << 30, device.take) != micro.fill(2, 1 << 30, device.take)


if __name__ == "__main__":
    main()
