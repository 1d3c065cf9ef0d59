# SPDX-License-Identifier: MIT
"""trace_test.py BUILD - weir.trace: imports of RMM's logs and torch's snapshots, whole and hostile, and traces as columns. Speaks TAP."""

import array
import fcntl
import gzip
import importlib.util
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import termios
import time

import tap
from tap import fact, has

import weir.trace
from weir._errors import WeirError

BUILD = sys.argv[1]
WEIR = os.path.join(BUILD, "tools", "weir")
COSTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "config", "costs")
FOLDER = tap.FOLDER.name
HEADING = "Thread,Time,Action,Pointer,Size,Stream\n"
numbers = iter(range(1 << 30))


def there(module):
    return importlib.util.find_spec(module) is not None


def put(data):
    """A new file with these bytes; its path."""
    path = os.path.join(FOLDER, "in-%d" % next(numbers))
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path


def run(*arguments, status=0, stdin=None):
    done = subprocess.run([sys.executable, "-m", "weir.trace", *arguments], input=stdin, capture_output=True, timeout=120, check=False)
    assert done.returncode == status, (done.returncode, done.stderr)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.stdout, done.stderr.decode()


def unread(fd):
    """Bytes that wait in a pipe."""
    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]


def make(data, *options):
    """The trace that the import makes of the bytes, and what it said."""
    made = os.path.join(FOLDER, "made-%d.weir" % next(numbers))
    return made, run("import", put(data), "-o", made, *options)[1]


def refused(data):
    """Why the import does not make one; nothing is left of it."""
    made = os.path.join(FOLDER, "refused.weir")
    said = run("import", put(data), "-o", made, status=2)[1]
    assert not os.path.exists(made)
    return said


def weir_json(*arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WEIR_")}
    done = subprocess.run([WEIR, *arguments], capture_output=True, timeout=120, check=False, env=dict(environment, WEIR_GPU="sim", WEIR_COSTS_DIR=COSTS))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def summary(made):
    return weir_json("trace", "--json", made)["files"][0]


def events(made):
    return weir_json("trace", "events", "--json", made)["files"][0]["events"]


# Logs of RMM --------------------------------------------------------------------------------------------------------------

ROWS = (
    "140,11:52:08.123456,allocate,0x7f10,1024,0x0\n141,11:52:08.123500,allocate failure,(nil),99999,0x2\n"
    "140,11:52:09.123456,free,0x7f10,1024,0x0\n"
)


def kinds_of(made):
    return {kind: count for kind, count in summary(made)["kinds"].items() if kind != "stream open"}


@fact
def log_is_imported_with_its_clock():
    made, said = make(HEADING + ROWS)
    found = [event for event in events(made) if event["kind"] != "stream open"]
    assert [(event["kind"], event["time"], event["thread"]) for event in found] == [
        ("malloc", 0, 140), ("out of memory", 44000, 141), ("free", 1000000000, 140)], found
    assert found[0]["address"] == "0x7f10" and found[0]["size"] == 1024 and found[1]["a"] == 99999
    assert summary(made)["started"] == (11 * 3600 + 52 * 60 + 8) * 10**9 + 123456000
    has(said, "A log of RMM, of which", "does not tell what was allocated before its first row")
    assert os.stat(made).st_mode & 0o777 == 0o600


@fact
def logs_of_all_releases_and_ways_are_the_same():
    want = {"malloc": 1, "free": 1, "out of memory": 1}
    rows_without_thread = "".join(line.split(",", 1)[1] for line in ROWS.splitlines(True))
    between = HEADING + "25/02/24 14:21:19.120 ERROR SparkContext: x\n" + ROWS.replace("\n", "\nINFO rmm, free of 3 bytes\n")
    for data in (ROWS, HEADING + ROWS, (HEADING + ROWS).replace("\n", "\r\n"), "\ufeff" + HEADING + ROWS, between,
                 (HEADING + ROWS).replace(":08.", ":08:").replace(":09.", ":09:"), "Time,Action,Pointer,Size,Stream\n" + rows_without_thread,
                 rows_without_thread.replace("(nil)", ""), HEADING + ROWS.replace("0x0", "0").replace("0x2", "2"),
                 gzip.compress((HEADING + ROWS).encode())):
        made, said = make(data)
        assert kinds_of(made) == want, data
        if data is between:
            has(said, "4 of 8 lines are no rows of RMM and left out; the first is line 2: '25/02/24 14:21:19.120 ERROR SparkContext: x'")


@fact
def standard_input_and_output_are_taken():
    data, said = run("import", "-", "-o", "-", "-q", stdin=ROWS.encode())
    assert kinds_of(put(data)) == {"malloc": 1, "free": 1, "out of memory": 1} and said == ""


@fact
def pipe_is_read_to_its_end_though_its_writer_is_slow():
    pipe, made = os.path.join(FOLDER, "pipe"), os.path.join(FOLDER, "piped.weir")
    os.mkfifo(pipe)
    # A reader of our own lets the writer open it; the first row is there at once, the others once the command has taken that.
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)
    with subprocess.Popen([sys.executable, "-m", "weir.trace", "import", pipe, "-o", made, "-q"], stderr=subprocess.PIPE) as importer:
        rows = (HEADING + ROWS).splitlines(True)
        for row in rows:
            os.write(writer, row.encode())
            limit = time.monotonic() + 60
            while importer.poll() is None and time.monotonic() < limit and unread(reader):
                time.sleep(0.01)
        os.close(writer)
        os.close(reader)
        said = importer.stderr.read()
    assert importer.returncode == 0 and said == b"", said
    assert kinds_of(made) == {"malloc": 1, "free": 1, "out of memory": 1}


@fact
def devices_are_refused():
    has(run("import", "/dev/zero", "-o", os.path.join(FOLDER, "zero.weir"), status=2)[1], "/dev/zero: it cannot be read: it is a device")


@fact
def names_tell_a_terminal_nothing():
    said = run("import", put(ROWS), "--name", "a\x1b[31m\nb", "-o", "-", stdin=b"")[1]
    has(said, "weir.trace: a\\x1b[31m\\nb: A log of RMM")
    has(refused(b"\x80\x02c\x1b[31m\nx\n."), "it names \\x1b[31m.x")


@fact
def log_goes_on_after_midnight():
    found = events(make("1,23:59:59.5,allocate,0x10,1,0x0\n2,23:59:59.4,allocate,0x20,1,0x0\n1,00:00:01.5,free,0x10,1,0x0\n")[0])
    assert [event["time"] for event in found if event["kind"] != "stream open"] == [0, 0, 2 * 10**9]


@fact
def per_thread_default_stream_is_one_of_each_thread_and_never_opened():
    found = events(make("7,10:00:00,allocate,0x10,1,0x2\n8,10:00:00,allocate,0x20,1,0x2\n8,10:00:01,free,0x10,1,2\n7,10:00:01,free,0x20,1,0x3\n")[0])
    assert [event["stream"] for event in found if event["kind"] in ("malloc", "free")] == ["0x100000002", "0x200000002", "0x200000002", "0x3"]
    assert [event["stream"] for event in found if event["kind"] == "stream open"] == ["0x3"]


@fact
def lines_that_are_no_rows_are_left_out_alone():
    for line in ("1,11:52:08,allocate,0x10,1", "1,11:52:08,allocate,0x10,1,0x0,7", "1,11:52:08,reallocate,0x10,1,0x0",
                 "1,25:52:08,allocate,0x10,1,0x0", "1,11:52,allocate,0x10,1,0x0", "x,11:52:08,allocate,0x10,1,0x0",
                 "1,11:52:08,allocate,nothing,1,0x0", "1,11:52:08,allocate,0x10,-1,0x0", "1,11:52:08,allocate,0x10,1,0x",
                 "1,11:52:08,allocate,0x10,%d,0x0" % (1 << 64), "\x1b[2J\x00\xff", "x" * 200000, "," * 65536):
        made, said = make(ROWS + line + "\n" + ROWS)
        assert kinds_of(made) == {"malloc": 2, "free": 2, "out of memory": 2}, line[:80]
        has(said, "1 of 7 lines are no rows")
        assert "\x1b" not in said


@fact
def what_has_no_row_is_refused_with_what_it_should_be():
    for data in ("", "\n\n", HEADING, "hello\n", "\x00" * 5000, b"\xff\xfe" * 3000):
        has(refused(data), "it has no row of a log of RMM, which are Thread,Time,Action,Pointer,Size,Stream")
    has(refused(HEADING), "Stream: no call was logged")
    has(refused(""), "Stream: it is empty")
    has(refused("Event Type,Device ID,Address,Stream,Size (bytes),Free Memory\n"), "RMM before 0.13")
    has(refused(b"WEIR\x01\0\0\0"), "it is a trace of Weir already")
    has(run("import", "/nowhere", "-o", "x", status=2)[1], "/nowhere: it cannot be read: No such file")
    has(run("import", FOLDER, "-o", "x", status=2)[1], "it cannot be read: Is a directory")


@fact
def log_that_is_cut_within_its_gzip_is_read_so_far():
    packed = gzip.compress((HEADING + "".join("1,10:00:00.%06d,allocate,%#x,%d,0x0\n" % (n, random.Random(n).getrandbits(40), n) for n in range(9999))).encode())
    made, said = make(packed[: len(packed) // 2])
    assert 1000 < summary(made)["kinds"]["malloc"] < 9000
    has(said, "it ends too early")


@fact
def existing_file_is_never_replaced_and_half_a_trace_never_left():
    made = make(ROWS)[0]
    with open(made, "rb") as file:
        before = file.read()
    has(run("import", put(ROWS), "-o", made, status=2)[1], "is there already")
    with open(made, "rb") as file:
        assert file.read() == before
    link = os.path.join(FOLDER, "link")
    os.symlink("nothing", link)
    has(run("import", put(ROWS), "-o", link, status=2)[1], "is there already")
    has(run("import", put(ROWS), "-o", "/nowhere/x", status=2)[1], "/nowhere/x cannot be made")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", "weir.trace", "import", put(ROWS), "-o", "-"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2 and b"No space left" in done.stderr, done.stderr


@fact
def command_reads_such_files_by_the_package():
    environment = {**os.environ, "WEIR_GPU": "sim"}
    for way in ([put(ROWS)], ["-"]):
        with open(put(ROWS), "rb") as stdin:
            done = subprocess.run([WEIR, "trace", *way], stdin=stdin, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        has(done.stderr, "read as a trace that `python3 -m weir.trace import` makes of it", "does not tell")
        has(done.stdout, "rmm", "Made of: A log of RMM")
    piped = subprocess.run([WEIR, "trace", "-"], input=ROWS, capture_output=True, text=True, env=environment, check=False)
    assert piped.returncode == 0, piped.stderr
    done = subprocess.run([WEIR, "trace", put("hello\n")], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    has(done.stderr, "it is no trace: it does not begin with WEIR", "which says: it has no row of a log of RMM")


def stand_in(text):
    """The variables of a command that finds this script as its python3, and nothing else."""
    folder = os.path.join(FOLDER, "stand-in-%d" % next(numbers))
    os.mkdir(folder)
    if text:
        with open(os.path.join(folder, "python3"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(file.name, 0o700)
    return {**os.environ, "WEIR_GPU": "sim", "PATH": folder}


@fact
def command_says_why_python_did_not_read_a_file():
    for script, why in (("", "; python3 cannot be run: No such file"), ("kill -SEGV $$\n", "; python3 was ended by signal 11"),
                        ("echo why >&2; exit 1\n", ", which says: why")):
        done = subprocess.run([WEIR, "trace", put(ROWS)], capture_output=True, text=True, env=stand_in(script), check=False)
        assert done.returncode == 2
        has(done.stderr, "it does not begin with WEIR", "FILE.weir`" + why)


@fact
def command_says_that_python_takes_long():
    pipe = os.path.join(FOLDER, "go")
    os.mkfifo(pipe)
    script = "read line <%s\nexec %s \"$@\"\n" % (pipe, sys.executable)
    with subprocess.Popen([WEIR, "trace", put(ROWS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=stand_in(script)) as command:
        has(command.stderr.readline().decode(), "it is no trace, and python3 (process ", "still makes one of it")
        with open(pipe, "w", encoding="utf-8") as file:
            file.write("\n")
        said = command.communicate()[0].decode()
    assert command.returncode == 0
    has(said, "Made of: A log of RMM")


# Snapshots of torch -------------------------------------------------------------------------------------------------------


def step(action, addr, size, stream=0, time=1000, **more):
    return {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": time, "frames": [], **more}


def freed(addr, size, **more):
    return [step("free_requested", addr, size, **more), step("free_completed", addr, size, **more)]


def segment(*blocks, address=0x10000, device=0, **more):
    made = []
    for size, requested, state in blocks:
        made.append({"size": size, "requested_size": requested, "state": state, "frames": []})
    return {"address": address, "device": device, "stream": 0, "total_size": 0, "blocks": made, **more}


def snapshot(*histories, segments=(), **more):
    return pickle.dumps({"device_traces": [list(steps) for steps in histories], "segments": list(segments), **more}, protocol=4)


def calls(made):
    """The kind, address and size of each event that is one of a block."""
    return [(event["kind"], int(event["address"], 16), event["size"]) for event in events(made) if "address" in event]


@fact
def snapshot_is_imported_with_stacks_times_and_tags():
    frames = [{"name": "forward", "filename": "model.py", "line": 42}, {"name": "main", "filename": "train.py", "line": 7}]
    made, said = make(snapshot([step("segment_alloc", 0x10000, 1 << 21), step("alloc", 0x10000, 1000, stream=16, frames=frames, user_metadata="kv"),
                                step("free_requested", 0x10000, 1000, stream=16, time=3000), step("oom", 0, 1 << 40, time=4000)]))
    found = events(made)
    assert [event["kind"] for event in found] == ["stream open", "malloc", "free", "stream open", "out of memory"]
    assert found[1]["stack"] == ["forward (model.py:42)", "main (train.py:7)"] and found[1]["tag"] == "kv" and found[1]["stream"] == "0x10"
    assert found[2]["time"] == 2000000 and found[1]["given"] == 1024
    assert summary(made)["started"] == 1000000
    has(said, "A memory snapshot of torch", "which streams waited for which")


@fact
def blocks_from_before_the_history_are_live_at_its_beginning():
    made = make(snapshot([*freed(0x10000, 100), step("alloc", 0x20000, 200), step("free_completed", 0x50000, 7)],
                         segments=[segment((512, 100, "inactive"), (1024, 900, "active_allocated"), address=0x10000),
                                   segment((512, 200, "active_allocated"), address=0x20000),
                                   segment((512, 300, "active_pending_free"), address=0x30000)]))[0]
    assert calls(made) == [("live", 0x10000, 100), ("live", 0x10200, 900), ("free", 0x10000, 100), ("malloc", 0x20000, 200)]
    assert summary(made)["live"] == 1100


@fact
def block_that_waits_for_other_streams_is_free_when_the_program_freed_it():
    made = make(snapshot([step("alloc", 0x1000, 512), step("free_requested", 0x1000, 512), step("alloc", 0x2000, 512, time=2000),
                          step("free_completed", 0x1000, 512, time=3000)]))[0]
    assert calls(made) == [("malloc", 0x1000, 512), ("free", 0x1000, 512), ("malloc", 0x2000, 512)]


@fact
def devices_and_private_pools_are_pools_of_their_own_in_one_order():
    made = make(snapshot([step("alloc", 0x1000, 512, time=1000), step("alloc", 0x2000, 512, time=3000, pool_id=(0, 3))],
                         [step("alloc", 0x1000, 64, time=2000)],
                         external_annotations=[{"device": 0, "time_us": 2500, "stage": "START", "name": "step 1"}]))[0]
    found = events(made)
    assert [(event["pool"], event["pool_id"]) for event in found if event["kind"] == "malloc"] == [("torch", 1), ("torch", 2), ("private 0.3", 3)]
    pools = [(pool["pool"], pool["device"], pool["is_private"]) for pool in summary(made)["pools"]]
    assert pools == [("torch", 0, False), ("torch", 1, False), ("private 0.3", 0, True)], pools
    assert [event["kind"] for event in found if event["kind"] != "stream open"] == ["malloc", "malloc", "mark", "malloc"]


@fact
def device_has_what_torch_held_and_what_was_free_when_a_request_failed():
    # 64 MiB are held at the end, of which 20 came behind the failure, and 30 had gone by then: 74 were held, and 6 were free.
    policy = put("weir: 1\npools: { torch: { small_below: 0, cache: off } }\n")
    for size, served in ((30, 1), (90, 0)):
        steps = [step("alloc", 0x1000, 512), dict(step("oom", 0, size << 20), device_free=6 << 20), step("segment_alloc", 0x9000, 20 << 20),
                 step("segment_free", 0x8000, 30 << 20)]
        made = make(snapshot(steps, segments=[{**segment((512, 512, "active_allocated"), address=0x1000), "total_size": 64 << 20}]))[0]
        replayed = weir_json("replay", "--json", made, "-p", policy)[0]
        assert replayed["recorded"]["refused"] == 1 and replayed["policies"][-1]["newly_served"] == served, (size, replayed)
    if there("numpy"):
        assert weir.trace.read(made).header["gpu.0.memory"] == str(80 << 20)


@fact
def snapshot_without_a_history_has_what_is_live():
    made = make(snapshot([], segments=[segment((512, 100, "active_allocated"))]))[0]
    assert calls(made) == [("live", 0x10000, 100)]
    # Nor does a device need one.
    made = make(snapshot(segments=[segment((512, 200, "active_allocated"), device=3)]))[0]
    assert calls(made) == [("live", 0x10000, 200)]
    has(refused(snapshot([])), "it has no history and no live blocks: call torch.cuda.memory._record_memory_history()")


@fact
def pickle_that_names_code_is_refused_and_runs_nothing():
    proof = os.path.join(FOLDER, "proof")

    class Evil:
        def __reduce__(self):
            return os.system, ("touch " + proof,)

    for protocol in range(2, 6):
        for data in (pickle.dumps(Evil(), protocol=protocol), pickle.dumps({"segments": [Evil()], "device_traces": []}, protocol=protocol)):
            has(refused(data), "it names ", "system, which no snapshot of torch does")
    has(refused(b"\x80\x02cbuiltins\neval\n(X\x01\0\0\x001tR."), "it names builtins.eval")
    assert not os.path.exists(proof)


@fact
def damaged_and_hostile_pickles_are_refused():
    whole = snapshot([step("alloc", 0x1000, 512)])
    for cut in range(1, len(whole)):
        said = run("import", "-", "-o", os.path.join(FOLDER, "cut.weir"), status=2, stdin=whole[:cut])[1] if cut % 16 == 1 else ""
        assert not said or "it is no snapshot of torch" in said, said
    for value in (3, "x", None, [], {}, {"device_traces": 7, "segments": "x"}, {"segments": [[1]], "device_traces": [[3, None, {}]]}):
        has(refused(pickle.dumps(value, protocol=4)), "it ")
    has(refused(b"\x80\x04" + b"(" * 5000), "it is no snapshot of torch")


@fact
def small_pickles_ask_for_little():
    # A place of the table of objects, by which Python would make one of 64 GiB.
    has(refused(b"\x80\x02Nr\xff\xff\xff\x7f."), "asks for more memory")
    has(refused(b"\x80\x02Nr\xff\xff\xff\x0f."), "asks for more memory")
    history = [step("alloc", 512 * place, 512) for place in range(3000)]
    has(refused(pickle.dumps({"segments": [], "device_traces": [history] * 30000})), "one list of entries more than once")
    blocks = segment(*[(512, 512, "active_allocated")] * 3000)
    has(refused(snapshot([], segments=[blocks] * 30000)), "one list of entries more than once")
    # Of 100,000 frames each has one name, of 8 MiB, which is in the file once.
    name = "n" * (8 << 20)
    frames = [{"name": name, "filename": "f.py", "line": line} for line in range(100000)]
    make(snapshot([step("alloc", 512 * place, 512, frames=frames[place * 250 : place * 250 + 250]) for place in range(400)]), "-q")
    make(snapshot(*[[step("alloc", 512, 512)] for _ in range(20000)], segments=[segment(device=device) for device in range(20000)]), "-q")


@fact
def entries_with_impossible_fields_break_nothing():
    draw = random.Random(3)
    values = [0, -1, 1 << 70, 1 << 63, "x", "\ud800", None, [], {}, 1.5, float("nan"), True, (1 << 64) - 1, 512]
    keys = ["action", "addr", "size", "stream", "time_us", "frames", "pool_id", "user_metadata"]
    for _ in range(8):
        steps = [{key: draw.choice(values) for key in draw.sample(keys, draw.randrange(len(keys)))} for _ in range(60)]
        for entry in steps:
            if draw.random() < 0.8:
                entry["action"] = draw.choice(["alloc", "free_requested", "free_completed", "oom", "segment_alloc", "?"])
        blocks = [{key: draw.choice(values) for key in ("size", "requested_size", "address")} | {"state": "active_allocated"} for _ in range(5)]
        data = pickle.dumps({"device_traces": [steps, draw.choice(values)], "segments": [{"blocks": blocks, "address": draw.choice(values)}, 7]})
        made = os.path.join(FOLDER, "odd-%d.weir" % next(numbers))
        done = subprocess.run([sys.executable, "-m", "weir.trace", "import", put(data), "-o", made], capture_output=True, check=False)
        assert done.returncode in (0, 2) and b"Traceback" not in done.stderr, done.stderr.decode()
        if done.returncode == 0:
            summary(made)


@fact
def snapshot_of_a_training_run_has_its_peak_to_the_byte():
    # 3,000 requests and frees of fine-tuning by LoRA under torch 2.11; what memory_stats() said of their peak was added to its settings.
    with gzip.open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "training.pickle.gz")) as file:
        data = file.read()
    recorded = pickle.loads(data)
    made = make(data)[0]
    peak = summary(made)["live_peak"]
    assert peak == recorded["allocator_settings"]["peak of requested bytes"], peak
    policy = put("weir: 1\npools: { torch: { small_below: 0, cache: off } }\n")
    replayed = weir_json("replay", "--json", made, "-p", policy)[0]["policies"][-1]
    assert replayed["peak_live"] == peak, replayed


# Columns ------------------------------------------------------------------------------------------------------------------


def life():
    """A trace with all that there is."""
    import export_support

    return export_support.path(export_support.life())


if there("numpy"):
    import numpy

    @fact
    def columns_are_what_the_command_says():
        path = life()
        trace, said, listed = weir.trace.read(path), summary(path), events(path)
        assert trace.header["program"] == "train" and trace.losses == {"events": 0, "blocks": 0, "bytes": 0, "closed": True, "first": ""}
        assert [trace.kinds[kind] for kind in trace.events["kind"].tolist()] == [event["kind"] for event in listed]
        for name in ("time", "thread"):
            assert trace.events[name].tolist() == [event[name] for event in listed]
        assert [trace.pools["name"][pool] if pool >= 0 else None for pool in trace.events["pool"].tolist()] == [event.get("pool") for event in listed]
        assert trace.live().max() == said["live_peak"] and trace.live()[-1] == said["live"]
        assert trace.live(device=1).max() == 333
        assert trace.stack(0) == ["libexample.so.1+0x1234", "forward (/home/me/model.py:42)", "0x7e0000000010"] and trace.stack(-1) == []
        assert sorted(trace.tags["name"]) == ["not \ufffd utf-8", "weights"]

    @fact
    def sums_of_columns_are_those_of_the_command_for_random_programs():
        import export_support

        for seed in range(20):
            path = export_support.path(export_support.chance(seed, 400, lossy=seed % 2 == 1)[0])
            trace, said = weir.trace.read(path), summary(path)
            assert trace.live().max(initial=0) == said["live_peak"]
            by_pool = {pool["pool"]: pool["live"] for pool in said["pools"]}
            last = trace.blocks["last"] < 0
            for number, name in enumerate(trace.pools["name"]):
                mine = last & (trace.blocks["pool"] == number)
                assert trace.blocks["size"][mine].sum() == by_pool.get(name, 0), (seed, name)
            assert (trace.blocks["born"] <= trace.blocks["died"]).all()

    @fact
    def data_frames_take_tables_as_they_are():
        trace = weir.trace.read(life())
        tables = (trace.events, trace.blocks, trace.segments, trace.pools, trace.tags, trace.names, trace.modules, trace.stacks, trace.frames)
        for table in tables:
            count = len(next(iter(table.values())))
            assert count and all(len(column) == count for column in table.values())
            for module in ("pandas", "polars"):
                if there(module):
                    assert importlib.import_module(module).DataFrame(table).shape == (count, len(table))

    @fact
    def threads_read_traces_at_the_same_time():
        import concurrent.futures

        import export_support

        paths = [export_support.path(export_support.chance(seed, 600)[0]) for seed in range(8)] * 4
        alone = [weir.trace.read(path).live().tolist() for path in paths]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda path: weir.trace.read(path).live().tolist(), paths))
        assert together == alone

    @fact
    def what_is_no_trace_is_refused_by_read():
        for path in ("/nowhere", put("hello"), FOLDER, put(b"WEIR\x09\0\0\0" + b"\0" * 20)):
            has(str(tap.raises(WeirError, weir.trace.read, path)), str(path) + ": it ")

    @fact
    def damaged_traces_are_read_as_far_as_they_are_whole():
        with open(life(), "rb") as file:
            data = bytearray(file.read())
        draw = random.Random(11)
        for _ in range(200):
            hurt = bytearray(data)
            for _ in range(draw.randrange(1, 4)):
                hurt[draw.randrange(8, len(hurt))] = draw.randrange(256)
            hurt = hurt[: draw.randrange(9, len(hurt))] if draw.random() < 0.3 else hurt
            trace = weir.trace.read(put(bytes(hurt)))
            assert len(trace.events["kind"]) <= 30 and len(trace.segments["address"]) <= 30
            trace.to_memory_viz()

    @fact
    def blocks_that_come_and_go_are_as_recorded():
        from trace_file import Trace

        made = Trace()
        made.pool(1, "main")
        for number in range(5):
            made.event("malloc", pool=1, address=4096, size=10 + number, given=512)
            made.event("keep" if number % 2 else "free", pool=1, address=4096, size=10 + number, given=512)
        trace = weir.trace.read(made.write(os.path.join(FOLDER, "come.weir")))
        assert trace.blocks["size"].tolist() == [10, 11, 12, 13, 14] and (trace.blocks["last"] - trace.blocks["first"] == 1).all()
        assert trace.events["held"].tolist() == [512, 0, 512, 512, 512, 0, 512, 512, 512, 0]

    @fact
    def module_that_is_missing_is_named():
        trace = weir.trace.read(life())
        if not there("matplotlib"):
            has(str(tap.raises(WeirError, trace.plot)), "pip install matplotlib")
        if not there("perfetto"):
            has(str(tap.raises(WeirError, trace.to_perfetto)), "pip install perfetto")
        has(str(tap.raises(WeirError, trace.plot, by="colour")), "give 'tag', 'pool', 'stack' or 'stream'")

    @fact
    def curves_of_owners_add_up_to_what_is_live():
        from weir.trace._plot import curves

        trace = weir.trace.read(life())
        for by in ("tag", "pool", "stack", "stream"):
            for count in (1, 2, 9):
                _, owners = curves(trace, by, count)
                assert len(owners) <= count + 1
                assert (sum(values for _, values in owners) == trace.live()).all(), by
        if there("matplotlib"):
            importlib.import_module("matplotlib").use("agg")
            assert trace.plot().get_ylabel() == "GiB live"
else:

    @fact
    def numpy_that_is_missing_is_named():
        has(str(tap.raises(WeirError, weir.trace.read, life())), "pip install numpy")


assert struct.calcsize("P") == 8
tap.main()
