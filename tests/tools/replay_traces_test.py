# SPDX-License-Identifier: MIT
"""replay_traces_test.py BUILD - replays of traces that no recorder wrote: their numbers, names and policies may be anything."""
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))
import tap  # noqa: E402
from tap import fact  # noqa: E402
from export_support import WEIR  # noqa: E402
from trace_file import Trace  # noqa: E402

POLICY = "weir: 1\ndefaults.pool: main\npools.main.devices: all\n"
UUID = "GPU-00000000-1111-2222-3333-444444444444"
FOLDER = tap.FOLDER.name
os.mkdir(os.path.join(FOLDER, "empty"))
# The largest memory of all processes so far, in KiB.
MEMORY_MAX = 400 << 10


def trace(policy=POLICY, device=0, **header):
    """One with steps of 20 MiB, and little memory."""
    made = Trace(policy=policy)
    made.pairs["gpu.0.memory"] = str(1 << 30)
    made.pairs.update({key.replace("_", "."): value for key, value in header.items()})
    made.pool(1, "main", device)
    made.event("stream open", stream=5, pool=1)
    for _ in range(3):
        for number in range(20):
            made.event("malloc", stream=5, pool=1, address=4096 * number, size=1 << 20)
        for number in range(20):
            made.event("free", stream=5, pool=1, address=4096 * number, size=1 << 20)
        made.event("synchronise", stream=5, pool=1)
    return made


def weir(*arguments, stdout=subprocess.PIPE, **environment):
    """Status, what is printed, and what is complained of."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("WEIR_") and key != "XDG_CACHE_HOME"}
    clean.update({"WEIR_GPU": "sim", "HOME": os.path.join(FOLDER, "empty"), "WEIR_COSTS_DIR": os.path.join(FOLDER, "empty"), **environment})
    done = subprocess.run([WEIR, *arguments], stdout=stdout, stderr=subprocess.PIPE, timeout=120, check=False, env=clean, cwd=FOLDER)
    return done.returncode, (done.stdout or b"").decode(), done.stderr.decode()


def replay(made, *options, **environment):
    """The document of its replay."""
    status, text, complaint = weir("replay", "--json", made.write(os.path.join(FOLDER, "made.weir")), *options, **environment)
    assert status in (0, 1), (status, complaint)
    document = json.loads(text)[0]
    for outcome in document["policies"]:
        if outcome["is_done"]:
            add_up(outcome)
    return document


def add_up(outcome):
    """What holds of every outcome."""
    assert outcome["mean_reserved"] <= outcome["peak_reserved"] and outcome["end_reserved"] <= outcome["peak_reserved"], outcome
    assert outcome["slow_stall"] <= outcome["stall"] and outcome["p50"] <= outcome["p99"] <= outcome["worst"] <= outcome["stall"], outcome
    assert outcome["hits"] <= outcome["requests"] and outcome["refused"] <= outcome["requests"], outcome
    assert outcome["gib_seconds"] * 0.99 <= outcome["peak_reserved"] / (1 << 30) * outcome["elapsed"] / 1e9, outcome


def own_policy(text):
    """A policy of the user's."""
    path = os.path.join(FOLDER, "own.yaml")
    with open(path, "w") as file:
        file.write(text)
    return path


@fact
def recorded_policy_that_is_deep_takes_little_memory():
    for policy in (".".join("a" * 20000) + ": 1\n", "." * 20000 + ": 1\n", "\n".join("a." * n + "b: 1" for n in range(200))):
        (outcome,) = replay(trace(policy))["policies"]
        assert not outcome["is_done"] and "policy_text" in outcome["why"], outcome
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        assert used < MEMORY_MAX, used


@fact
def what_is_no_uuid_stands_for_no_device():
    policy = own_policy("weir: 1\npools: { main: { release_threshold: 256MiB, small_below: 1MiB } }\n")
    wanted = replay(trace(), "-p", policy)["policies"]
    for word in ("256MiB", "main", "2", "\n", "GPU-", "release_threshold: ", "GPU-" + "x" * 100000):
        assert replay(trace(gpu_0_uuid=word), "-p", policy)["policies"] == wanted, word


@fact
def uuid_of_a_recorded_device_stands_for_its_number():
    policy = own_policy("weir: 1\npools: { main: { devices: [ %s, '%s'], small_below: 1MiB } }\n" % (UUID, UUID[:-1] + "5"))
    made = trace(gpu_0_uuid=UUID[:-1], gpu_1_uuid=UUID, gpu_2_uuid=UUID[:-1] + "5", device=2)
    outcome = replay(made, "-p", policy)["policies"][1]
    assert outcome["is_done"] and outcome["requests"] == 60, outcome


@fact
def time_of_a_thread_counts_once_whatever_it_waited_for():
    made = trace()
    begin = made.time
    for _ in range(40):
        made.event("trim", pool=1, a=1, b=900)
    made.event("rung", pool=1, a=0, b=made.time + 1000 - begin)
    assert replay(made)["recorded"]["slow_stall"] == made.time - begin
    made = trace()
    for _ in range(8):
        made.event("wait", pool=1, a=(1 << 63) - 5, b=1, time=max(made.time, 1 << 63) + 1000)
    assert replay(made)["recorded"]["slow_stall"] <= made.time


@fact
def trims_within_a_request_are_no_deed_of_the_program():
    trim, us = ("trim", 4000, {"b": 100 * 1000}), 1000
    for name, trims, events in (
        ("of the program, before a growth", 1, [trim, ("map", 4300, {"b": 200 * us})]),
        ("of the program, before a step of recovery", 1, [trim, ("rung", 4200, {"b": 150 * us})]),
        ("of the program, behind a request that had waited", 1, [("wait", 3500, {"a": 90 * us, "b": 1}), ("malloc", 3600, {}), trim]),
        ("between what grew and the block above the cap", 0, [trim, ("map", 4000, {"b": 300 * us})]),
        ("in a wait", 0, [trim, ("wait", 4000, {"a": 300 * us, "b": 1})]),
        ("in a step of recovery", 0, [trim, ("rung", 4100, {"b": 300 * us})]),
        ("of what a refused request had taken", 0, [("rung", 3800, {"b": 50 * us}), trim, ("out of memory", 4000, {"stream": 5, "b": 1})]),
    ):
        made = Trace(policy="weir: 1\ndefaults.pool: main\npools.main.devices: all\npools.main.release_threshold: all\n")
        made.pool(1, "main")
        made.event("malloc", stream=5, pool=1, address=4096, size=64 << 20, time=1000 * us)
        made.event("free", stream=5, pool=1, address=4096, size=64 << 20, time=2000 * us)
        for kind, time, values in events:
            block = {"stream": 5, "address": 1 << 30, "size": 4096} if kind == "malloc" else {"a": 64 << 20}
            made.event(kind, pool=1, time=time * us, **{**block, **values})
        made.event("malloc", stream=5, pool=1, address=4096, size=4096, time=5000 * us)
        (outcome,) = replay(made)["policies"]
        assert outcome["is_done"] and outcome["trims"] == trims, (name, outcome["trims"])


@fact
def wait_that_began_before_the_first_event_moves_no_clock():
    made = Trace(policy=POLICY)
    made.pool(1, "main")
    made.event("wait", pool=1, a=900000, b=1 << 20, time=1000000)
    made.event("malloc", stream=5, pool=1, address=4096, size=1 << 20, time=1001000)
    made.event("free", stream=5, pool=1, address=4096, size=1 << 20, time=2000000)
    (outcome,) = replay(made)["policies"]
    assert outcome["is_done"] and 1000000 <= outcome["elapsed"] < 2000000, outcome


@fact
def time_that_no_clock_has_ends_a_replay_all_the_same():
    """The keeper has its turns at each moment that it asked for."""
    for policy in ("pools.main.release_threshold: 1MiB\n", "pools.main.release_threshold: auto\n"):
        for time in (1 << 62, 1 << 63, (1 << 64) - 1):
            made = trace("weir: 1\ndefaults.pool: main\nkeeper: true\npools.main.devices: all\n" + policy)
            made.event("serve", stream=5, pool=1, address=4096, size=1000)
            made.event("keep", stream=5, pool=1, address=4096, size=1000)
            made.event("mark", time=time)
            made.event("mark", time=time)
            (outcome,) = replay(made)["policies"]
            assert outcome["is_done"] and outcome["elapsed"] <= 1 << 62, outcome


@fact
def recorded_policy_brings_no_control_character_to_a_terminal():
    for value in ("\\e[31m", "\\x9b31m", "\\a\\b\\x7f\\r"):
        for policy in ('weir: 1\n"%s": 1\n', 'weir: 1\npools.main.devices: "a%s"\n', 'weir: 1\n"pools": {"%s": {}}\n'):
            status, text, complaint = weir("replay", trace(policy % value).write(os.path.join(FOLDER, "made.weir")))
            assert status == 1 and "policy_text:" in text, (status, text, complaint)
            assert not [letter for letter in text + complaint if letter != "\n" and (ord(letter) < 32 or 127 <= ord(letter) < 160)], text


TABLE = "weir_costs: 1\ngpu: Simulated\ngrow: %s\n"


def stall(made, *options, **environment):
    """Of the recorded policy, in nanoseconds; and where the costs come from."""
    document = replay(made, *options, **environment)
    return document["policies"][0]["stall"], document["costs_origin"]


@fact
def table_of_the_trace_is_taken_unless_another_one_is_named():
    made, named = trace(**{"gpu.0.costs": TABLE % "80ms/GiB"}), os.path.join(FOLDER, "named.yaml")
    with open(named, "w") as file:
        file.write(TABLE % "8ms/GiB")
    plain, origin = stall(trace())
    assert origin == "built-in", origin
    own, origin = stall(made)
    assert origin == "recorded" and own > 50 * plain > 0, (own, plain, origin)
    other, origin = stall(made, "--costs", named)
    assert origin == "named" and own > 8 * other > 0, (own, other, origin)


@fact
def table_of_the_trace_that_is_none_is_left_aside_and_that_is_said():
    plain, _ = stall(trace())
    for text in ("", "x", TABLE % "much", TABLE % "101ms/GiB", TABLE % "1ms/GiB" + "malloc_async: 101ms\n", "weir_costs: 2\n", "\n" * 70000,
                 "\x1b[31m: 1\n"):
        path = trace(**{"gpu.0.costs": text}).write(os.path.join(FOLDER, "made.weir"))
        status, printed, complaint = weir("replay", path)
        assert "no cost table of this GPU was found" in printed, printed
        assert "the trace's own cost table is left aside: gpu.0.costs:" in complaint and "\x1b" not in complaint, (status, complaint)
        assert stall(trace(**{"gpu.0.costs": text})) == (plain, "built-in"), text


@fact
def costs_at_their_bound_end_a_replay_all_the_same():
    keys = ("malloc_async", "free_async", "event_query", "event_record", "stream_wait_event", "stream_synchronize", "page_create")
    for time in ("0ns", "100ms"):
        table = TABLE % (time + "/GiB") + "trim: %s/GiB\n" % time + "".join("%s: %s\n" % (key, time) for key in keys)
        for policy in ("", "pools.main.release_threshold: 0\n", "pools.main.release_threshold: auto\n", "pools.main.backing: arena\n"):
            made = trace("weir: 1\ndefaults.pool: main\nkeeper: true\npools.main.devices: all\n" + policy, **{"gpu.0.costs": table})
            made.event("mark", time=10**9)
            (outcome,) = replay(made)["policies"]
            assert outcome["is_done"] and outcome["elapsed"] < 1000 * 10**9, outcome


@fact
def longest_times_are_printed_whole():
    made = trace()
    made.event("wait", pool=1, a=1 << 62, b=1 << 20, time=1 << 62)
    _, printed, complaint = weir("replay", made.write(os.path.join(FOLDER, "made.weir")))
    assert " in 4611686018 s\n" in printed and "  4611686018 s " in printed, (printed, complaint)


def refused_between(other, at_cap):
    """192 MiB are live and 60 more are refused, though there is room for 64; 32 of a stream of the other thread came and went."""
    made = Trace(policy="weir: 1\ndefaults.pool: main\npools.main.devices: all\npools.main.small_below: 0\n"
                 + "pools.main.release_threshold: all\n" + "pools.main.max_size: 256MiB\n" * at_cap)
    made.pairs["gpu.0.memory"] = str((256 << 20) if not at_cap else 1 << 30)
    made.pool(1, "main")
    made.event("settings", pool=1, a=(1 << 64) - 1, b=(256 << 20) * at_cap)
    for number in range(6):
        made.event("malloc", stream=5, pool=1, address=(number + 1) << 26, size=32 << 20)
    made.event("malloc", stream=6, pool=1, address=1 << 34, size=32 << 20, thread=other)
    made.event("figures", pool=1, a=224 << 20, b=256 << 20)
    made.event("free", stream=6, pool=1, address=1 << 34, size=32 << 20, thread=other)
    made.event("out of memory", stream=5, pool=1, a=60 << 20, b=at_cap)
    made.event("mark", a=1)
    status, text, complaint = weir("trace", "why", "--json", made.write(os.path.join(FOLDER, "made.weir")))
    assert status in (0, 1), (status, text, complaint)
    return json.loads(text)["files"][0]


@fact
def request_that_threads_one_by_one_would_have_had_is_judged_within_a_lower_bound():
    for at_cap in (True, False):
        assert "the replay serves the request" in refused_between(100, at_cap)["why_not"]
        answer = refused_between(101, at_cap)
        assert answer["can_judge"] and any("with which the request is refused as it was" in guess for guess in answer["guesses"]), answer
        assert not at_cap or "max_size: 288MiB" in [change["change"] for change in answer["changes"]], answer["changes"]


@fact
def recorded_peak_is_of_devices_and_not_above_what_they_have():
    """A pool of the host is in no replay; and what CUDA took from one pool for another is known of both until the first is asked again."""
    made = Trace(policy=POLICY + "pools.other.devices: all\n")
    made.pairs["gpu.0.memory"] = str(1 << 30)
    for number, name, flags in ((1, "main", 0), (2, "other", 0), (3, "host", 2)):
        made.pool(number, name, flags=flags)
        made.event("figures", pool=number, a=0, b=800 << 20)
    assert replay(made)["recorded"]["peak_reserved"] == 1 << 30


@fact
def device_that_no_machine_has_is_named():
    for device in (16, 1 << 31, 1 << 32, (1 << 64) - 1):
        (outcome,) = replay(trace(device=device))["policies"]
        assert not outcome["is_done"] and "there is no device" in outcome["why"], outcome


def child_of(parent):
    """A process that it has started and that runs; None: it has none now."""
    for entry in os.listdir("/proc"):
        try:
            with open("/proc/%d/stat" % int(entry), encoding="utf-8", errors="replace") as file:
                state, above = file.read().rpartition(")")[2].split()[:2]
        except (ValueError, OSError):
            continue
        if int(above) == parent and state in "RSD":
            return int(entry)
    return None


def killed_replay(path):
    """The outcome of a replay whose process is killed, unless that has ended before."""
    process = subprocess.Popen([WEIR, "replay", "--json", path], stdout=subprocess.PIPE, env={**os.environ, "WEIR_GPU": "sim"})
    while process.poll() is None:
        child = child_of(process.pid)
        if child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            break
    text = process.communicate(timeout=120)[0]
    assert process.returncode in (0, 1), process.returncode
    return json.loads(text)[0]["policies"][0]


@fact
def replay_whose_process_is_killed_says_so():
    made = trace()
    for number in range(20000):
        made.event("malloc", stream=5, pool=1, address=4096, size=1 << 20 | number)
        made.event("free", stream=5, pool=1, address=4096, size=1 << 20 | number)
    path = made.write(os.path.join(FOLDER, "long.weir"))
    # One that ends before it is killed says nothing.
    outcomes = (killed_replay(path) for _ in range(100))
    outcome = next(outcome for outcome in outcomes if not outcome["is_done"])
    assert outcome["why"] == "the process of the replay was ended by signal 9 (Killed)", outcome


tap.main()
