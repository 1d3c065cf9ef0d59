# SPDX-License-Identifier: MIT
"""trace_test.py BUILD - `weir trace` of small traces that are written here, from doc/trace.md. Speaks TAP."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import weirtrace
from trace_file import block, signed, string
from trace_file import varint as number

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))
import tap
from tap import fact, has

BUILD = os.path.abspath(sys.argv[1])
SOURCE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir))
WEIR = os.path.join(BUILD, "tools", "weir")
FOLDER = tempfile.TemporaryDirectory(prefix="weir-trace-")
with open(os.path.join(BUILD, "config.h"), encoding="utf-8") as config:
    HAS_LIBDW = "#define HAVE_LIBDW 1" in config.read()
MS = 1000000
MIB = 1 << 20
CODES = {kind: (code, fields) for code, (kind, fields) in weirtrace.KINDS.items()}

# Writing ---------------------------------------------------------------------------------------------------------------------------------


def events(thread, base, rows, definitions=b"", lost=0):
    """Rows: (kind, time, order, {field: value})."""
    content = number(thread) + number(base) + number(lost) + definitions
    time, stream, address, orders = base, 0, 0, [0, 0]
    for kind, at, order, given in rows:
        code, fields = CODES[kind]
        sort = kind in ("serve", "keep")
        content += bytes([code]) + number(at - time) + signed(order - orders[sort])
        time, orders[sort] = at, order + 1
        if sort:  # behind the last event of the weir in this block, if nothing else is said
            last = max(orders[0] - 1, 0)
            content += signed(given.get("after", last) - last)
        for field in fields.split():
            value = given.get(field, given.get("size", 0) if field == "given" else 0)
            if field == "stream":
                content += signed(value - stream)
                stream = value
            elif field == "address":
                content += signed(value - address)
                address = value
            else:
                content += number(value - given.get("size", 0) if field == "given" else value)
    return block(2, content)


def trace(name, blocks, header=(), end=0):
    pairs = list(header.items()) if header else []
    content = number(len(pairs)) + b"".join(string(key) + string(value) for key, value in pairs)
    data = b"WEIR\1\0\0\0" + block(1, content) + b"".join(blocks)
    return put(name, data if end is None else data + block(3, number(end)))


def put(name, data):
    path = os.path.join(FOLDER.name, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


MAIN = bytes([1]) + number(1) + number(0) + number(0) + string("main")
ARENA = bytes([1]) + number(2) + number(1) + number(1) + string("arena")
TAGS = bytes([2]) + number(1) + string("weights") + bytes([2]) + number(2) + string("cache")
NAMES = bytes([3]) + number(1) + string("step 1") + bytes([3]) + number(2) + string("step 2")
STACK = (
    bytes([5]) + number(1) + number(0x7F0000000000) + number(0x10000) + number(0) + string("ab") + string("/lib/libnowhere.so")
    + bytes([6]) + number(9) + number(42) + string("forward") + string("/home/me/model.py")
    + bytes([4]) + number(1) + number(2) + number(0x7F0000001234 << 2) + number(9 << 1 | 1)
)
HEADER = {"weir": "0.1.0", "pid": "4711", "program": "train", "rank": "0", "started.real": "1700000000000000000", "reason": "file",
          "level": "all", "stacks": "true"}


def of(address, size, pool=1, tag=0, stack=0, stream=0x10, given=None):
    return {"address": address, "size": size, "given": given or size, "pool": pool, "tag": tag, "stack": stack, "stream": stream}


def job(name, header, shift=0):
    """A job of two threads: the most, 7 MiB, at 30 ms; 4 MiB of weights and 1 MiB without a tag are left."""
    one = events(1, 0, [
        ("malloc", 10 * MS, 1, of(0x1000, 4 * MIB, tag=1, stack=1)),
        ("mark", 20 * MS, 3, {"a": 1}),
        ("figures", 21 * MS, 4, {"pool": 1, "a": 4 * MIB, "b": 8 * MIB}),
        ("malloc", 30 * MS, 5, of(0x2000, 2 * MIB + shift, tag=2)),
        ("keep", 40 * MS, 0, of(0x2000, 2 * MIB + shift, tag=2)),
        ("mark", 50 * MS, 8, {"a": 2}),
    ], MAIN + ARENA + TAGS + NAMES + STACK)
    two = events(2, 0, [
        ("malloc", 10 * MS, 2, of(0x3000, MIB, pool=2, stream=0x20)),
        ("wait", 41 * MS, 6, {"pool": 1, "a": 3 * MS, "b": 512}),
        ("rung", 42 * MS, 7, {"pool": 1, "a": 2, "b": 5 * MS}),
        ("out of memory", 60 * MS, 9, {"stream": 0x10, "pool": 1, "a": 1 << 40, "b": 1}),
        ("trim", 70 * MS, 10, {"pool": 1, "a": 2 * MIB, "b": 7000}),
    ])
    return trace(name, [one, two], header)


JOB = job("job.weir", HEADER)
LATER = job("later.weir", dict(HEADER, rank="1", **{"started.real": "1700000000500000000"}))
LOG = job("log.weir", {**HEADER, "started.real": str(11 * 3600 * 1000 * MS), "imported": "A log of RMM", "imported.lacks": "It tells no stacks."})

# Asking ----------------------------------------------------------------------------------------------------------------------------------


def weir(*words, status=0, **variables):
    """What it prints: standard output, and with `status` above 0 standard error behind it."""
    environment = {**os.environ, "COLUMNS": "80", "LC_ALL": "C", "TZ": "UTC", **variables}
    done = subprocess.run([WEIR, "trace", *words], env=environment, capture_output=True, text=True)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    if status == 0:
        assert "weir:" not in done.stderr, done.stderr
    return done.stdout + (done.stderr if status else "")


def ask(*words):
    """The object of the one file."""
    answer = json.loads(weir(*words, "--json"))
    assert len(answer["files"]) == 1
    return answer["files"][0]


def pick(rows, **wanted):
    """The one row that has these."""
    found = [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
    assert len(found) == 1, (wanted, rows)
    return found[0]


def is_so(row, **wanted):
    for key, value in wanted.items():
        assert row[key] == value, "%s is %r, not %r" % (key, row[key], value)


# Facts -----------------------------------------------------------------------------------------------------------------------------------


@fact
def summary_is_what_is_shown_without_a_view():
    assert weir(JOB) == weir("summary", JOB)
    has(weir(JOB), "train, pid 4711, rank 0: 11 events of 2 threads in 60.0 ms", "2023-11-14 22:13:20", "3 malloc", "step 2",
        "Most at a time: 7 MiB at 30.0 ms", "Out of memory: 1 at a pool's cap")


@fact
def summary_has_the_figures_of_each_pool():
    answer = ask(JOB)
    is_so(answer, threads=2, events=11, live=5 * MIB, live_blocks=2, live_peak=7 * MIB, live_peak_at=30 * MS, pid=4711, rank="0")
    is_so(answer["kinds"], malloc=3, keep=1, mark=2)
    main = pick(answer["pools"], pool="main")
    is_so(main, allocations=2, live=4 * MIB, cached=2 * MIB, held=6 * MIB, held_peak=8 * MIB, live_peak=6 * MIB, rungs=1,
          out_of_memory_at_cap=1, out_of_memory_at_device=0)
    is_so(main["trims"], count=1, bytes=2 * MIB)
    is_so(pick(answer["pools"], pool="arena"), live=MIB, device=1, is_arena=True)
    is_so(answer["lost"], events=0, blocks=0, bytes=0, is_closed=True, first=None)
    assert [mark["name"] for mark in answer["marks"]] == ["step 1", "step 2"]


@fact
def peak_says_who_had_memory_then():
    answer = ask("peak", JOB)
    is_so(answer, time=30 * MS, live=7 * MIB, live_blocks=3)
    is_so(pick(answer["by_tag"], tag="weights"), bytes=4 * MIB, blocks=1)
    is_so(pick(answer["by_tag"], tag="cache"), bytes=2 * MIB)
    is_so(pick(answer["by_tag"], tag=None), bytes=MIB)
    is_so(pick(answer["by_pool"], pool="main"), bytes=6 * MIB)
    is_so(pick(answer["by_stream"], stream="0x20"), bytes=MIB)
    is_so(pick(answer["by_size"], size=4 * MIB), blocks=1)
    is_so(pick(answer["by_stack"], bytes=4 * MIB), stack=["libnowhere.so+0x1234", "forward (model.py:42)"])
    has(weir("peak", JOB), "At 30.0 ms: 7 MiB in 3 blocks", "weights", "57.1 %", "forward (model.py:42)")


@fact
def leaks_are_what_is_live_at_the_end():
    answer = ask("leaks", JOB)
    assert [leak["bytes"] for leak in answer["leaks"]] == [4 * MIB, MIB]
    is_so(answer["leaks"][0], tag="weights", size=4 * MIB, blocks=1, age=60 * MS, pool="main")
    has(weir("leaks", JOB), "5 MiB in 2 blocks", "60.0 ms")


@fact
def leaks_since_a_moment_are_what_was_taken_behind_it():
    late = trace("late.weir", [events(1, 0, [
        ("malloc", 10 * MS, 1, of(0x1000, 4 * MIB, tag=1)),
        ("malloc", 10 * MS, 2, of(0x2000, 2 * MIB, tag=1)),
        ("mark", 10 * MS, 3, {"a": 1}),
        ("free", 10 * MS, 4, of(0x2000, 2 * MIB)),
        ("malloc", 10 * MS, 5, of(0x2000, MIB, tag=2)),
        ("mark", 30 * MS, 6, {"a": 2}),
    ], MAIN + ARENA + TAGS + NAMES)], HEADER)
    first, last = "step 1", "step 2"
    for since, left in ((first, [MIB]), ("0.005", [4 * MIB, MIB]), ("10ms", []), (last, [])):
        answer = ask("leaks", late, "--since", since)
        assert [leak["bytes"] for leak in answer["leaks"]] == left and answer["live"] == sum(left) and answer["since"] == since, answer
    has(weir("leaks", late, "--since", first), "1 MiB in 1 block taken since step 1")
    assert ask("leaks", late)["since"] is None
    has(weir("leaks", "--since=nowhere", late, status=1), "--since=nowhere: it has no such mark")
    has(weir("live", "--since=1s", late, status=2), "--since is of 'weir trace leaks', not of 'live'")


@fact
def live_is_of_the_moment_that_is_asked_for():
    for at, live in (("0", 0), ("10ms", 5), ("0.03s", 7), ("0.03", 7), ("40 ms", 5), ("step 1", 5), ("step 2", 5), ("0.07", 5)):
        assert ask("live", "--at=" + at, JOB)["live"] == live * MIB, at
    assert ask("live", JOB)["live"] == 5 * MIB


@fact
def live_at_a_mark_that_is_not_there_says_how_to_go_on():
    has(weir("live", "--at=step 3", JOB, status=1), "--at=step 3: it has no such mark", "'weir trace summary' lists the marks")


@fact
def tags_have_their_sums():
    answer = ask("tags", JOB)
    is_so(pick(answer["tags"], tag="weights"), at_peak=4 * MIB, live=4 * MIB, allocations=1, allocated=4 * MIB)
    is_so(pick(answer["tags"], tag="cache"), at_peak=2 * MIB, live=0, live_peak=2 * MIB)
    has(weir("tags", JOB), "weights", "cache", "4 MiB")


@fact
def stacks_have_their_sums_and_collapse():
    is_so(ask("stacks", JOB)["stacks"][0], stack=["libnowhere.so+0x1234", "forward (model.py:42)"], at_peak=4 * MIB, allocations=1)
    assert sorted(weir("stacks", "--collapsed", JOB).splitlines()) == [
        "(no stack) 3145728", "forward (model.py:42);libnowhere.so+0x1234 4194304"]
    has(weir("stacks", JOB), "4 MiB at the peak, 4 MiB at the end; 1 allocation of 4 MiB", "  forward (model.py:42)")


@fact
def functions_of_native_frames_are_looked_up_in_their_files():
    """In the C library, which has names for what others call."""
    malloc = ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            words = line.split()
            first, last = (int(word, 16) for word in words[0].split("-"))
            if first <= malloc < last:
                break
    if not os.path.isfile(words[-1]) or "libc" not in words[-1]:
        return  # under a sanitizer, malloc is of the program
    with open(words[-1], "rb") as file:
        data = file.read()
    note = data.find(b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0")
    build = data[note + 16 : note + 36].hex() if note >= 0 else ""
    definitions = (
        bytes([5]) + number(1) + number(first) + number(last - first) + number(int(words[2], 16)) + string(build)
        + string(words[-1])
        + bytes([4]) + number(1) + number(1) + number(malloc + 1 << 2)
    )
    path = trace("libc.weir", [events(1, 0, [("malloc", 1, 1, of(1, 100, stack=1))], MAIN + definitions)])
    has(ask("stacks", path)["stacks"][0]["stack"][0], "malloc" if build and HAS_LIBDW else "libc.so.6+0x")


@fact
def waits_have_their_times():
    waits = ask("waits", JOB)["waits"]
    is_so(pick(waits, kind="wait"), count=1, ns=3 * MS, longest_at=41 * MS, bytes=512)
    is_so(pick(waits, kind="rung"), rung=2, count=1, longest_ns=5 * MS)
    is_so(pick(waits, kind="trim"), bytes=2 * MIB)
    has(weir("waits", JOB), "rung trim", "5.00 ms", "42.0 ms")


@fact
def plot_has_the_highest_of_each_slice():
    answer = ask("plot", JOB)
    assert max(answer["live"]) == 7 * MIB and answer["live"][-1] == 5 * MIB
    assert max(answer["held"]) == ask("summary", JOB)["held_peak"] >= 8 * MIB
    is_so(answer["out_of_memory"][0], time=60 * MS)


@fact
def plot_draws_in_the_characters_that_there_are():
    plain, fancy = weir("plot", JOB), weir("plot", JOB, LC_ALL="C.UTF-8")
    assert plain.isascii() and "#" in plain and "!" in plain
    assert "\u2588" in fancy and not fancy.isascii()
    assert max(len(line) for line in (plain + fancy).splitlines()) <= 80


@fact
def files_of_several_ranks_have_one_axis_of_time():
    answer = json.loads(weir("summary", "--json", LATER, JOB))
    assert [(file["rank"], file["shift"]) for file in answer["files"]] == [("1", 500 * MS), ("0", 0)]
    has(weir(JOB, LATER), "rank 0", "rank 1", "Most at a time: 7 MiB at 30.0 ms", "Most at a time: 7 MiB at 530 ms")
    has(weir("live", "--at=530ms", JOB, LATER), "5 MiB in 2 blocks", "7 MiB in 3 blocks")


@fact
def moment_before_a_file_began_is_a_failure_of_that_file():
    has(weir("live", "--at=10ms", JOB, LATER, status=1), "it began later, at 500 ms", "5 MiB in 2 blocks")


def failure(*words, **variables):
    """What it says where it cannot do what was asked."""
    done = subprocess.run([WEIR, "trace", *words], capture_output=True, text=True, env={**os.environ, **variables})
    assert done.returncode == 2 and not done.stdout, done.stderr
    return done.stderr


def both(*words):
    """What it prints on standard error and output, where the trace is damaged."""
    done = subprocess.run([WEIR, "trace", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr, done.stdout


@fact
def imported_trace_says_of_what_it_was_made_and_what_that_does_not_tell():
    is_so(json.loads(both("--json", LOG)[1])["files"][0], imported="A log of RMM", lacks="It tells no stacks.")
    said, shown = both(LOG)
    has(shown, "Made of: A log of RMM", "from 11:00:00.")
    has(said, "It tells no stacks.")


@fact
def another_programs_file_names_the_command_that_imports_it():
    for data in (b"Thread,Time,Action\n", b"\x80\x04}."):
        # Whatever Python is there, and whether it finds the package.
        has(failure(put("foreign", data), WEIR_PYTHON_DIR="/nowhere"), "does not begin with WEIR", "python3 -m weir.trace import")


@fact
def what_is_lost_is_said_and_the_rest_is_shown():
    with open(JOB, "rb") as file:
        cut = put("cut.weir", file.read()[:-60])
    said, shown = both(cut)
    has(said, "the file ends within the block at byte", "lost are 1 block")
    has(shown, "6 events of 1 thread", "2 malloc")
    lost = json.loads(both(cut, "--json")[1])["files"][0]["lost"]
    assert lost["blocks"] == 1 and lost["bytes"] > 0 and not lost["is_closed"]


@fact
def file_of_a_newer_format_is_refused_by_its_number():
    has(weir(put("newer.weir", b"WEIR\2\0\0\0"), status=2), "it was made by a newer Weir: format 2, and this one reads 1")


@fact
def file_that_is_none_leaves_the_others():
    has(weir(JOB, "/nonexistent.weir", status=2), "7 MiB", "/nonexistent.weir: it cannot be opened: No such file")
    assert json.loads(weir("--json", "/dev/null", status=2))["errors"][0]["message"].startswith("/dev/null: it is no regular file")


@fact
def options_of_another_view_are_refused():
    has(weir("peak", "--at=1s", JOB, status=2), "--at is of 'weir trace live', not of 'peak'")
    has(weir("peak", status=2), "peak of which file? A file of that name would be ./peak")


@fact
def misspelt_view_is_answered_with_the_one_that_was_meant():
    for word, meant in ("peek", "peak"), ("event", "events"), ("wait", "waits"):
        has(weir(word, JOB, status=2), "there is no view '%s', and no such file; did you mean '%s'?" % (word, meant))
    has(weir("zzzzzz", JOB, status=2), "zzzzzz: it cannot be opened: No such file")


@fact
def moment_behind_the_end_is_refused():
    has(weir("live", "--at=12", JOB, status=1), "job.weir: --at=12: the trace ends at 70.0 ms")
    has(weir("live", "--at=70ms", JOB), "At 70.0 ms: 5 MiB")
    has(weir("live", "--at=70.04ms", JOB, status=1), "job.weir: --at=70.04ms: the trace ends at 70.0 ms")
    rounded = trace("rounded.weir", [events(1, 0, [("mark", 2_068_499, 1, {"a": 1})], NAMES)])
    has(weir("live", "--at=2.07ms", rounded), "At 2.07 ms: 0 B")  # as the end is shown
    has(weir("live", "--at=2.08ms", rounded, status=1), "the trace ends at 2.07 ms")
    has(weir("live", "--at=560ms", JOB, LATER), "At 560 ms: 5 MiB")  # one of them has not ended
    has(weir("live", "--at=580ms", JOB, LATER, status=1), "ends at 70.0 ms", "later.weir: --at=580ms: the trace ends at 570 ms")


@fact
def times_have_three_digits_that_count():
    shown = {0: "0 s", 87: "87 ns", 999: "999 ns", 2064: "2.06 \u00b5s", 2_068_499: "2.07 ms", 99_949_000: "99.9 ms", 99_960_000: "100 ms",
             999_400_000: "999 ms", 999_600_000: "1.00 s", 12_204_400_000: "12.2 s", 3_723_000_500_000: "3723 s"}
    marks = [("mark", time, order + 1, {"a": 1}) for order, time in enumerate(sorted(shown))]
    path = trace("times.weir", [events(1, 0, marks, NAMES)])
    for view in ("summary", "--limit=20"), ("events",):
        has(weir(*view, path), *(time + "  " for time in shown.values()))


@fact
def rows_of_other_times_have_as_many_digits_as_tell_them_apart():
    shown = [(2_064_000, "2.06 ms"), (2_064_100, "2.0641 ms"), (2_064_100, "2.0641 ms"), (2_065_000, "2.07 ms"), (2_080_000, "2.08 ms"),
             (12_204_000_001, "12.2 s"), (12_204_000_002, "12.204000002 s"), (12_204_000_002, "12.204000002 s"), (12_300_000_000, "12.3 s")]
    marks = [("mark", time, order, {"a": 1}) for order, (time, _) in enumerate(shown, 1)]
    path = trace("near.weir", [events(1, 0, marks, NAMES)])
    for view in ("summary", "--limit=20"), ("events",):
        rows = [line for line in weir(*view, path).splitlines() if "step 1" in line]
        assert len(rows) == len(shown), rows
        for row, (_, text) in zip(rows, shown):
            assert row.removeprefix("Marks").lstrip().startswith(text + "  "), (row, text)
    has(weir("plot", path), "2.06 ms", "12.3 s")
    twice = trace("twice.weir", [events(1, 0, [("mark", 12_204_000_001, 1, {"a": 1}), ("mark", 12_204_000_900, 2, {"a": 1})], NAMES)])
    has(weir("plot", twice), "12.2 s", "12.204001 s")


@fact
def streams_have_the_names_by_which_they_were_opened():
    names = bytes([3]) + number(1) + string("decode") + bytes([3]) + number(2) + string("copy") + bytes([3]) + number(3) + string("e\x1b[1m")
    rows = [("stream open", 1, 1, {"stream": 0x10, "pool": 1, "a": 1}), ("stream open", 2, 2, {"stream": 0x20, "pool": 1, "a": 2}),
            ("stream open", 3, 3, {"stream": 0x30, "pool": 1, "a": 2}), ("stream open", 4, 4, {"stream": 0x40, "pool": 1, "a": 0}),
            ("stream open", 5, 5, {"stream": 0x50, "pool": 1, "a": 3})]
    rows += [("malloc", 10 + i, 6 + i, of(0x1000 * (1 + i), MIB, stream=stream)) for i, stream in enumerate((0x10, 0x20, 0x30, 0x40, 0x50, 0x60))]
    rows += [("stream close", 20, 12, {"stream": 0x10, "pool": 1}), ("malloc", 21, 13, of(0x9000, MIB)),
             ("out of memory", 22, 14, {"pool": 1, "stream": 0x20, "a": MIB, "b": 0})]
    path = trace("streams.weir", [events(1, 0, rows, MAIN + names)])
    shown = weir("live", path)
    has(shown, "\n  decode ", "\n  copy 0x20 ", "\n  copy 0x30 ", "\n  0x40 ", "\n  e\\x1b[1m ", "\n  0x60 ", "\n  0x10 ")
    has(weir("events", path), "stream 0x10  decode\n", "stream decode  0x1000", "stream copy 0x20  0x2000", "stream 0x40  0x4000", "stream decode\n",
        "stream 0x10  0x9000", "stream copy 0x20  1 MiB, on the device")
    answer = ask("live", path)
    assert {(row["stream"], row["stream_name"]) for row in answer["by_stream"]} == {
        ("0x10", "decode"), ("0x20", "copy"), ("0x30", "copy"), ("0x40", None), ("0x50", "e\x1b[1m"), ("0x60", None), ("0x10", None)}, answer
    has(weir("why", path, status=1), "for stream copy 0x20: the device had no more memory")


@fact
def events_are_told_in_words_and_units():
    told = {
        "map  main  64 MiB in 52.0 ms": ("map", {"a": 64 * MIB, "b": 52 * MS}), "map  main  unknown size in 1.50 \u00b5s": ("map", {"b": 1500}),
        "unmap  main  2 MiB in 3.00 ms": ("unmap", {"a": 2 * MIB, "b": 3 * MS}), "trim  main  2 MiB in 7.00 \u00b5s": ("trim", {"a": 2 * MIB, "b": 7000}),
        "figures  main  used 2.2 GiB, reserved 3.8 GiB": ("figures", {"a": 2380114432, "b": 4060086272}),
        "settings  main  release threshold all, cap none": ("settings", {"a": (1 << 64) - 1, "b": 0}),
        "settings  main  release threshold 0 B, cap 1 GiB": ("settings", {"a": 0, "b": 1 << 30}),
        "synchronise  main  stream 0x10  3.00 ms": ("synchronise", {"a": 3 * MS}), "wait  main  3.00 ms for 512 B": ("wait", {"a": 3 * MS, "b": 512}),
        "rung  main  trim in 5.00 ms": ("rung", {"a": 2, "b": 5 * MS}), "rung  main  9 in 5.00 ms": ("rung", {"a": 9, "b": 5 * MS}),
        "out of memory  main  stream 0x10  1 TiB, at the cap": ("out of memory", {"a": 1 << 40, "b": 1}),
        "out of memory  main  stream 0x10  1 TiB, on the device": ("out of memory", {"a": 1 << 40, "b": 0}),
        "yield  main": ("yield", {}), "sleep  main  2 MiB in 3.00 ms": ("sleep", {"a": 2 * MIB, "b": 3 * MS}),
        "wake  main  0 B in 0 s": ("wake", {"a": 0, "b": 0}), "wake  main  2 MiB in 3.00 ms": ("wake", {"a": 2 * MIB, "b": 3 * MS}),
        "asked  for 2 MiB, gave 1 MiB": ("asked", {"a": 2 * MIB, "b": MIB}),
        "held  main  stream 0x10  0x1000  2 MiB of 2 MiB  cudaFree took 20.0 ms": ("held", {**of(0x1000, 2 * MIB), "a": 1, "b": 20 * MS}),
        "held  main  stream 0x10  0x1000  2 MiB of 2 MiB  call 70 took 20.0 ms": ("held", {**of(0x1000, 2 * MIB), "a": 70, "b": 20 * MS}),
    }
    rows = [(kind, order, order, {"pool": 1, "stream": 0x10, **given}) for order, (kind, given) in enumerate(told.values(), 1)]
    shown = [" ".join(line.split()) for line in weir("events", trace("words.weir", [events(1, 0, rows, MAIN)])).splitlines()]
    for line in told:
        assert any(text.endswith(" " + " ".join(line.split())) for text in shown), (line, shown)


@fact
def names_from_outside_give_the_terminal_no_orders():
    evil = bytes([1]) + number(1) + number(0) + number(0) + string("ma\x1b[31min\n") + bytes([2]) + number(1) + string(b"\xff\xc2\x9b\x07t")
    path = trace("evil.weir", [events(1, 0, [("malloc", 1, 1, of(1, 100, tag=1))], evil)], {"program": "pro\x1bgram"})
    for view in ("summary", "peak", "leaks", "live", "tags", "stacks", "waits", "plot", "events"):
        text = weir(view, path)
        assert all(char == "\n" or char.isprintable() for char in text), (view, text)


@fact
def why_says_what_a_trace_lacks_to_judge_a_refusal():
    has(weir("why", JOB, status=1), "no 1 TiB for stream 0x10: its max_size was reached", "TAG", "does not tell which policy was recorded")
    has(weir("why", trace("quiet.weir", [events(1, 0, [], MAIN)], HEADER), status=1), "no request in it failed for want of memory")


@fact
def why_takes_no_orders_from_a_trace():
    written = os.path.join(FOLDER.name, "written")
    rows = [("malloc", 1, 1, of(1, 100, tag=1)), ("figures", 2, 2, {"pool": 1, "a": 100, "b": 1 << 63}),
            ("out of memory", 3, 3, {"stream": 1, "pool": 1, "a": (1 << 64) - 1, "b": 0})]
    names = ("main,record.file=" + written, "main\x1b[31m", "m" * 64, "main")
    policies = ("pools.main.devices: all\n", "record.file: " + written + "\npools.main.devices: all\n", "pools.main.max_size: \x1b[31m\n", "{[")
    for name in names:
        definitions = bytes([1]) + number(1) + number(0) + number(0) + string(name) + bytes([2]) + number(1) + string(b"\xff\x07t")
        for policy in policies:
            for memory in ("0", "1", "1073741824", "18446744073709551615", "many,devices=9"):
                header = dict(HEADER, policy="weir: 1\n" + policy, **{"gpu.0.memory": memory})
                text = weir("why", trace("orders.weir", [events(1, 0, rows, definitions)], header), status=1)
                assert all(char == "\n" or char.isprintable() for char in text), text
                has(text, "cannot be judged")
    assert not os.path.exists(written)


@fact
def empty_trace_has_every_view():
    path = trace("empty.weir", [])
    for view in ("summary", "peak", "leaks", "live", "tags", "stacks", "waits", "plot", "events"):
        weir(view, path)
        assert json.loads(weir(view, path, "--json"))["view"] == view


def same_events(path):
    """The command and the reader that was written from the page have the same events; the former in one order."""
    mine, ours = weirtrace.Trace(path), ask("events", path)["events"]
    order = {}
    for event in ours:
        sort = (event["kind"] in ("serve", "keep")) and event["stream"]
        assert event["order"] > order.get(sort, -1), event
        order[sort] = event["order"]
    assert len(mine.events) == len(ours) > 0
    key = lambda event: (event["thread"], event["time"], event["kind"], event["order"])
    for one, other in zip(sorted(mine.events, key=key), sorted(ours, key=key)):
        for field in ("kind", "thread", "time", "order", "size", "given", "tag", "name", "b"):
            assert one.get(field) == other.get(field), (field, one, other)
        for field in ("stream", "address"):
            assert field not in one or "0x%x" % one[field] == other[field], (field, one, other)
        assert "pool" not in one or (one["pool"] or {}).get("name") == other["pool"], (one, other)
        stack = one.get("stack")
        assert len(stack or []) == len(other.get("stack") or []), (one, other)
    return mine


@fact
def another_reader_has_the_same_events():
    same_events(JOB)
    same_events(trace("kinds.weir", [events(7, 5, [
        (kind, 5 + code, code, {"stream": 1 << 63, "pool": 1, "address": weirtrace.WRAP - code, "size": 3, "given": 512,
                                "tag": 1, "stack": 1, "a": 1, "b": weirtrace.WRAP})
        for kind, (code, _) in CODES.items()], MAIN + TAGS + NAMES + STACK)]))


@fact
def another_reader_has_the_same_events_of_packed_blocks():
    path = os.path.join(SOURCE, "tests", "fuzz", "corpus", "trace", "whole")
    said = subprocess.run([WEIR, "trace", path], capture_output=True, text=True).stderr
    if not shutil.which("zstd") or "built without" in said:
        has(said, "built without" if said else "")
        return
    mine = same_events(path)
    assert mine.header["program"] == "train" and mine.end == 3 and mine.lost_in_threads == 3


@fact
def recorded_program_is_read_without_a_contradiction():
    """By the recorder itself: a workload of several threads on the simulator."""
    recorded = os.path.join(FOLDER.name, "recorded.weir")
    policy = put("policy.yaml", b"weir: 1\ndefaults: { pool: main }\npools: { main: {} }\n"
                 b"record: { level: all, stacks: true, file: %s }\n" % recorded.encode())
    done = subprocess.run([WEIR, "try", "--seconds=0.05", policy], env={**os.environ, "WEIR_GPU": "sim"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = ask(recorded)
    is_so(answer["lost"], bytes=0, blocks=0, is_closed=True)
    if answer["lost"]["events"] == 0:
        is_so(answer["contradictions"], ends_of_unknown_blocks=0, blocks_without_end=0, late_ends=0)
        is_so(answer, live=0)
    assert answer["threads"] > 1 and answer["live_peak"] > 0
    if shutil.which("zstd"):
        same_events(recorded)


@fact
def another_reader_loses_the_same_bytes():
    with open(JOB, "rb") as file:
        data = bytearray(file.read())
    data[len(data) // 2] ^= 4
    path = put("flipped.weir", bytes(data))
    ours = json.loads(both(path, "--json")[1])["files"][0]
    assert weirtrace.Trace(path).lost_bytes == ours["lost"]["bytes"] > 0


tap.main()
