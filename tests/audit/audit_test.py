# SPDX-License-Identifier: MIT
"""Facts of `weir record --any`: audit_test.py SOURCES BUILD. Traces are read by the tests' own reader."""

import glob
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.path[:0] = [os.path.join(sys.argv[1], "tests", folder) for folder in ("python", "tools")]
from tap import FOLDER, MIB, fact, main, write  # noqa: E402
from weirtrace import Trace, Wrong  # noqa: E402

BUILD = os.path.abspath(sys.argv[2])
WEIR = os.path.join(BUILD, "tools", "weir")
DRIVERS = os.path.join(BUILD, "tests", "audit", ".libs")
AUDITOR = os.path.join(BUILD, "audit", ".libs", "libweir-audit.so")
PROGRAM = os.path.join(BUILD, "tests", "audit", "program")
LINKED = os.path.join(BUILD, "tests", "audit", "linked")
SHAPES = [(PROGRAM, "lookup"), (PROGRAM, "old"), (PROGRAM, "own"), (PROGRAM, "names"), (LINKED, "linked")]
ENVIRONMENT = dict(os.environ, LD_LIBRARY_PATH=DRIVERS, TMPDIR=FOLDER.name)
HELD = {1: "cudaFree", 2: "cudaFreeHost", 3: "cudaHostAlloc", 4: "cudaMalloc", 5: "cudaMallocManaged"}

number = 0


class Run:
    """A command, recorded in a folder of its own: what it printed, how it ended, and the traces by their names."""

    def __init__(self, *command, options=(), environment=None, expected=0, reads=True):
        global number
        number += 1
        self.folder = os.path.join(FOLDER.name, "run-%d" % number)
        os.mkdir(self.folder)
        done = subprocess.run([WEIR, "record", "--any", *options, "--", *command], cwd=self.folder, env=dict(ENVIRONMENT, **(environment or {})),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
        self.out, self.err = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == expected, (done.returncode, self.out, self.err)
        self.names = sorted(os.path.basename(path) for path in glob.glob(self.folder + "/*.weir"))
        self.traces = [Trace(os.path.join(self.folder, name)) for name in self.names if reads]

    def trace(self):
        assert len(self.traces) == 1, (self.names, self.err)
        return self.traces[0]

    def says(self, *texts):
        for text in texts:
            assert text in self.err, (text, self.err)


def told(trace, *kinds):
    """(kind, pool, size) of events of these kinds, in their order."""
    events = sorted((event for event in trace.events if event["kind"] in kinds), key=lambda event: event["order"])
    return [(event["kind"], (event["pool"] or {}).get("name", "")[:5], event.get("size", event.get("a"))) for event in events]


# What tests/audit/program.c does in its scenario `all`.
MEMORY = [
    ("malloc", "cudaM", 3 * MIB), ("malloc", "cudaM", 10240), ("malloc", "manag", 5 * MIB), ("malloc", "host", 6 * MIB),
    ("malloc", "host", 7 * MIB), ("malloc", "defau", MIB), ("free", "defau", MIB), ("malloc", "defau", 2 * MIB), ("free", "defau", 2 * MIB),
    ("malloc", "async", 9 * MIB), ("free", "async", 9 * MIB), ("malloc", "async", 10 * MIB), ("free", "async", 10 * MIB),
    ("trim", "async", 10 * MIB), ("map", "mappe", 4 * MIB), ("malloc", "mappe", 4 * MIB), ("free", "mappe", 4 * MIB),
    ("unmap", "mappe", 4 * MIB), ("graph malloc", "async", 11 * MIB), ("graph free", "async", 11 * MIB), ("free", "host", 7 * MIB),
    ("free", "host", 6 * MIB), ("free", "manag", 5 * MIB), ("free", "cudaM", 10240), ("free", "cudaM", 3 * MIB),
    ("malloc", "cudaM", 12 * MIB), ("free", "cudaM", 12 * MIB), ("malloc", "cudaM", 13 * MIB), ("free", "cudaM", 13 * MIB),
]  # fmt: skip


def each_function(program, shape):
    run = Run(program, shape, "all")
    trace = run.trace()
    kinds = {kind for kind, _, _ in MEMORY}
    assert told(trace, *kinds) == MEMORY, told(trace, *kinds)
    assert trace.end == 0 and trace.lost_in_threads == 0
    streams = [event["kind"] for event in sorted(trace.events, key=lambda event: event["order"]) if event["kind"].startswith("stream")]
    assert streams == ["stream open"] * 2 + ["stream close"] * 2 + ["stream open", "stream close"], streams
    assert sum(event["kind"] == "synchronise" for event in trace.events) == 4
    settings = [(event["a"], event["b"]) for event in trace.events if event["kind"] == "settings"]
    assert settings == [(0, 64 * MIB), (4096, 64 * MIB)], settings
    figures = [(event["a"], event["b"]) for event in trace.events if event["kind"] == "figures" and event["pool"]["name"] == "mapped"]
    assert figures == [(0, 4 * MIB), (4 * MIB, 4 * MIB), (0, 0)], figures
    names = [event["name"] for event in trace.events if event["kind"] == "mark"]
    assert [name.split()[0] for name in names] == ["exports", "context", "context", "context"], names
    pools = [what for versions in trace.definitions["pool"].values() for _, what in versions]
    assert all(pool["flags"] == (8 | 2 * (pool["name"] == "host")) for pool in pools), pools
    assert any(module[4] == os.path.realpath(program) for versions in trace.definitions["module"].values() for _, module in versions)
    assert trace.header["gpu.0.name"] == "Stand-in" and trace.header["gpu.0.uuid"].startswith("GPU-abababab-abab-")
    assert run.out == ""


@fact
def runtime_that_looks_up_through_itself_is_seen_whole():
    each_function(*SHAPES[0])


@fact
def runtime_of_cuda_11_3_is_seen_whole():
    each_function(*SHAPES[1])


@fact
def functions_of_per_thread_default_streams_are_seen_whole():
    each_function(*SHAPES[2])


@fact
def program_that_looks_names_up_is_seen_whole():
    each_function(*SHAPES[3])


@fact
def program_that_is_linked_is_seen_whole():
    each_function(*SHAPES[4])


@fact
def per_thread_default_stream_is_a_stream_of_its_own():
    handles = {}
    for program, shape in SHAPES[:3]:
        trace = Run(program, shape, "all").trace()
        handles[shape] = [event["stream"] for event in trace.events if event["kind"] == "malloc" and event["size"] == 2 * MIB]
    assert handles == {"lookup": [0], "old": [0], "own": [2]}, handles


@fact
def failing_calls_change_nothing():
    trace = Run(PROGRAM, "lookup", "failing").trace()
    blocks = told(trace, "malloc", "free", "live", "map", "unmap")
    assert blocks == [
        ("malloc", "cudaM", 3 * MIB), ("malloc", "defau", MIB), ("map", "mappe", 4 * MIB), ("live", "cudaM", 3 * MIB),
        ("live", "defau", MIB), ("free", "defau", MIB), ("unmap", "mappe", 4 * MIB),
    ], blocks  # fmt: skip
    refused = told(trace, "out of memory")
    assert refused == [("out of memory", "cudaM", 5 * MIB), ("out of memory", "defau", 6 * MIB), ("out of memory", "mappe", 7 * MIB),
                       ("out of memory", "host", 8 * MIB)], refused  # fmt: skip


@fact
def request_that_finds_no_memory_has_its_holders():
    run = Run(PROGRAM, "lookup", "exhausts", environment={"STANDIN_MEMORY": str(1000 * MIB)})
    assert told(run.trace(), "out of memory") == [("out of memory", "cudaM", 100 * MIB)]
    said = subprocess.run([WEIR, "trace", "why", "--json", run.names[0]], cwd=run.folder, env=ENVIRONMENT, stdout=subprocess.PIPE)
    assert b'"cudaMalloc"' in said.stdout, said.stdout


# Threads and processes ----------------------------------------------------------------------------------------------------------------


def totals(*command):
    run = Run(*command)
    mallocs, frees, size, calls = map(int, run.out.split())
    trace = run.trace()
    taken = [event["size"] for event in trace.events if event["kind"] == "malloc"]
    given = sum(event["kind"] == "free" for event in trace.events)
    assert (len(taken), given, sum(taken)) == (mallocs, frees, size), (len(taken), given, sum(taken), run.out)
    assert trace.end == 0 and trace.lost_in_threads == 0, trace.end
    run.says("{:,} calls of the driver seen".format(calls))
    return trace


def never_twice(trace):
    """In the order of the events no block is given out that is live already."""
    live = set()
    for event in sorted(trace.events, key=lambda event: event["order"]):
        if event["kind"] == "malloc":
            assert event["address"] not in live
            live.add(event["address"])
        elif event["kind"] == "free":
            live.remove(event["address"])


@fact
def totals_of_16_threads_are_the_programs_own():
    trace = totals(PROGRAM, "lookup", "threads", "16")
    never_twice(trace)
    assert len({event["thread"] for event in trace.events if event["kind"] == "malloc"}) == 16


@fact
def totals_of_threads_that_end_are_the_programs_own():
    never_twice(totals(LINKED, "linked", "in_turn", "200"))


@fact
def thread_may_be_the_first_to_use_memory_where_costs_were_measured():
    cache = os.path.join(FOLDER.name, "cache")
    os.makedirs(cache + "/weir", mode=0o700)
    run = Run(PROGRAM, "lookup", "in_turn", "1", environment={"XDG_CACHE_HOME": cache})
    assert run.trace().end == 0


@fact
def thread_with_the_smallest_stack_is_recorded():
    for options in ([], ["--stacks"]):
        trace = Run(PROGRAM, "lookup", "small", options=options).trace()
        assert told(trace, "malloc", "free") == [("malloc", "cudaM", 2 * MIB), ("free", "cudaM", 2 * MIB)]


@fact
def constructor_that_uses_memory_while_another_thread_begins_does_not_wait_for_it():
    trace = Run(PROGRAM, "lookup", "constructs", os.path.join(DRIVERS, "libroom.so")).trace()
    assert sorted(told(trace, "malloc")) == [("malloc", "cudaM", 2 * MIB), ("malloc", "cudaM", 3 * MIB)]


@fact
def keys_of_the_program_keep_their_values():
    Run(PROGRAM, "lookup", "own_keys")


@fact
def child_of_a_fork_writes_nothing_into_its_parents_trace():
    trace = Run(PROGRAM, "lookup", "forks").trace()
    assert told(trace, "malloc", "free") == [("malloc", "cudaM", MIB), ("malloc", "cudaM", 2 * MIB)] and trace.end == 0


@fact
def child_that_is_the_first_to_use_the_driver_has_a_trace():
    assert told(Run(PROGRAM, "lookup", "forks_first").trace(), "malloc") == [("malloc", "cudaM", 5 * MIB)]


@fact
def program_that_starts_another_by_vfork_goes_on_recording():
    trace = Run(PROGRAM, "lookup", "starts").trace()
    assert told(trace, "malloc", "free") == [("malloc", "cudaM", MIB), ("free", "cudaM", MIB)] and trace.end == 0


@fact
def program_that_becomes_another_leaves_two_traces():
    run = Run(PROGRAM, "lookup", "executes")
    assert [told(trace, "malloc") for trace in run.traces] == [[("malloc", "cudaM", 2 * MIB)], [("malloc", "cudaM", 3 * MIB)]], run.names
    assert [trace.end for trace in run.traces] == [0, 0]


@fact
def program_that_ends_without_its_destructors_is_written_whole():
    for scenario, expected in (("leaves", 4), ("leaves_quickly", 4), ("aborts", -signal.SIGABRT)):
        trace = Run(PROGRAM, "lookup", scenario, expected=expected).trace()
        assert told(trace, "malloc") == [("malloc", "cudaM", 2 * MIB)] and trace.end == 0, scenario


@fact
def closed_standard_streams_leave_the_programs_exit_status():
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        done = subprocess.run(["sh", "-c", '"$0" record --any -- sh -c "exit 3" ' + closed, WEIR], cwd=FOLDER.name, env=ENVIRONMENT)
        assert done.returncode == 3, (closed, done.returncode)


@fact
def program_that_looks_for_another_goes_on_recording():
    run = Run(PROGRAM, "lookup", "tries")
    assert told(run.trace(), "malloc") == [("malloc", "cudaM", 2 * MIB)] * 2 and "no trace" not in run.err, run.err


@fact
def program_that_fails_to_become_another_is_told_of():
    run = Run(PROGRAM, "lookup", "fails_to_become")
    assert told(run.trace(), "malloc") == [("malloc", "cudaM", 2 * MIB)]
    run.says("called execvp(), which failed: what it did later is not recorded")


@fact
def driver_that_comes_and_goes_is_seen_each_time():
    trace = Run(PROGRAM, "lookup", "reloads").trace()
    assert told(trace, "malloc", "free") == [("malloc", "cudaM", MIB), ("free", "cudaM", MIB)] * 3


@fact
def killed_program_leaves_what_was_written():
    folder = os.path.join(FOLDER.name, "killed")
    os.mkdir(folder)
    child = subprocess.Popen([WEIR, "record", "--any", "--", PROGRAM, "lookup", "lasts"], cwd=folder, env=ENVIRONMENT,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wanted = [("malloc", "cudaM", 3 * MIB), ("malloc", "cudaM", 4 * MIB)]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = glob.glob(folder + "/*.weir")
        try:
            if found and told(Trace(found[0]), "malloc") == wanted:
                break
        except Wrong:
            pass
        time.sleep(0.02)
    os.kill(int(re.search(r"weir-(\d+)\.weir", found[0]).group(1)), signal.SIGKILL)
    err = child.communicate(timeout=120)[1].decode()
    trace = Trace(found[0])
    assert told(trace, "malloc") == wanted and trace.end is None and child.returncode == -signal.SIGKILL, (child.returncode, err)


# Waits ----------------------------------------------------------------------------------------------------------------------------------


@fact
def calls_that_wait_for_kernels_are_events_from_the_first_on():
    run = Run(PROGRAM, "lookup", "waits", "2", options=["--stacks"])
    trace = run.trace()
    held = [event for event in trace.events if event["kind"] == "held" and event["b"] > 50 * 10**6]
    assert [HELD[event["a"]] for event in held] == ["cudaFree", "cudaHostAlloc", "cudaFreeHost"] * 2, held
    assert [event["pool"]["name"] for event in held] == ["cudaMalloc", "host", "host"] * 2
    assert sum(event["b"] for event in held) >= 0.98 * int(run.out)
    stacks = [event["stack"] for event in held]
    assert all(stacks) and stacks[:3] == stacks[3:] and len(set(map(tuple, stacks))) == 3, stacks


# Who is not recorded --------------------------------------------------------------------------------------------------------------------


@fact
def program_without_cuda_leaves_no_file_and_is_told_so():
    run = Run(PROGRAM, "lookup", "nothing")
    assert not run.names
    run.says("does not use CUDA", "loaded libcuda.so, so there is no trace")


@fact
def program_that_asks_for_no_memory_leaves_no_file_and_is_told_so():
    run = Run(PROGRAM, "lookup", "idle")
    assert not run.names
    run.says("asked it for no memory", "built with -fno-plt does so unseen")


def elf(name, loader=None, machine=None):
    """The headers of a program, without what would run."""
    own = open(WEIR, "rb").read(64)
    machine = machine if machine is not None else struct.unpack_from("<H", own, 18)[0]
    text = (loader or "").encode() + b"\0"
    header = own[:16] + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 3 if loader else 1, 4, 120, 0, 0, len(text), len(text), 1)
    path = os.path.join(FOLDER.name, name)
    with open(path, "wb") as file:
        file.write(header + segment + text)
    os.chmod(path, 0o755)
    return path


def refused(command, *texts, options=()):
    run = Run(command, options=options, expected=2)
    assert not run.names and run.out == ""
    run.says(*texts)


@fact
def static_program_is_refused_with_the_reason():
    refused(elf("static"), "is linked fully statically", "link it dynamically")


@fact
def program_of_musl_is_refused_with_the_reason():
    refused(elf("musl", "/lib/ld-musl-x86_64.so.1"), "musl, whose loader has no LD_AUDIT")


@fact
def program_of_a_strange_loader_is_refused_with_the_reason():
    refused(elf("strange", "/lib/loader"), "a loader of its own")


@fact
def program_for_another_processor_is_refused_with_the_reason():
    refused(elf("other", "/lib/ld-linux.so.2", machine=3), "another kind of processor")


@fact
def script_of_a_refused_program_is_refused():
    interpreter = elf("interpreter")
    for line in ("#!%s\n" % interpreter, "#! /usr/bin/env -S %s x\n" % interpreter):
        script = write("script", line)
        os.chmod(script, 0o755)
        refused(script, "interpreter is linked fully statically")


@fact
def program_with_the_rights_of_others_is_refused_with_the_reason():
    path = os.path.join(FOLDER.name, "rights")
    shutil.copy(PROGRAM, path)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o4755)
        refused(path, "runs with the rights of another user")
    else:
        os.chmod(path, 0o4755)  # of this user: no rights of others
        Run(path, "lookup", "one")


@fact
def damaged_program_is_left_to_the_system():
    Run(write("damaged", "no program"), expected=126)
    Run("/nonexistent/program", expected=127)


@fact
def live_process_cannot_be_recorded_so_and_the_reason_is_said():
    done = subprocess.run([WEIR, "record", "--any", "--pid", "1"], env=ENVIRONMENT, stderr=subprocess.PIPE)
    assert done.returncode == 2 and b"has its CUDA functions, and cannot be given others" in done.stderr, done.stderr


@fact
def level_cannot_be_chosen():
    done = subprocess.run([WEIR, "record", "--any", "--level=pool", "true"], env=ENVIRONMENT, stderr=subprocess.PIPE)
    assert done.returncode == 2 and b"leave --level away" in done.stderr, done.stderr


# Beside others --------------------------------------------------------------------------------------------------------------------------


def libweir():
    return os.path.join(BUILD, "lib", ".libs", "libweir.so.0")


@fact
def program_that_uses_weir_is_left_to_its_own_recording():
    run = Run(PROGRAM, "lookup", "joins", libweir())
    assert [told(trace, "malloc") for trace in run.traces] == [[("malloc", "cudaM", 2 * MIB)]]
    assert run.names[0].endswith("-2.weir"), run.names  # the name is free for Weir's own
    run.says("uses Weir, whose own recording holds there")


@fact
def weirs_own_recording_has_the_name_that_was_asked_for():
    worker = os.path.join(BUILD, "tests", "tools", "worker")
    folder = os.path.join(FOLDER.name, "own")
    os.mkdir(folder)
    done = subprocess.run([WEIR, "record", "--any", "-o", "own.weir", "--", worker], cwd=folder, input=b"malloc 4\n", stdout=subprocess.PIPE,
                          env=dict(ENVIRONMENT, WEIR_SIM="name=audit-%d" % os.getpid()), stderr=subprocess.PIPE)
    trace = Trace(folder + "/own.weir")
    assert done.returncode == 0 and [event["size"] for event in trace.events if event["kind"] == "malloc"] == [4 * MIB], done.stderr


@fact
def allocator_of_torch_is_told_of():
    path = os.path.join(FOLDER.name, "libc10_cuda.so")
    shutil.copy(os.path.join(DRIVERS, "libcuda.so.1"), path)
    run = Run(PROGRAM, "lookup", "joins", path)
    run.says("PyTorch's own allocator", "python3 -m weir.trace import", "weir record -- weir run")


@fact
def second_copy_of_the_driver_is_told_of():
    path = os.path.join(FOLDER.name, "libcuda.so.1")
    shutil.copy(os.path.join(DRIVERS, "libcuda.so.1"), path)
    run = Run(PROGRAM, "lookup", "joins", path)
    assert told(run.trace(), "malloc") == [("malloc", "cudaM", 2 * MIB)] * 2
    run.says("a second copy of libcuda.so")


@fact
def form_of_a_function_that_is_not_known_is_the_drivers_and_told_of():
    run = Run(PROGRAM, "lookup", "asks_for_old")
    assert told(run.trace(), "malloc") == [("malloc", "cudaM", 2 * MIB)]
    run.says("a form of cuMemAlloc that this Weir does not know")


@fact
def environment_of_the_user_is_kept():
    run = Run("/usr/bin/env", environment={"LD_AUDIT": "/nonexistent.so", "GLIBC_TUNABLES": "glibc.malloc.arena_max=2"})
    lines = run.out.splitlines()
    assert "LD_AUDIT=%s:/nonexistent.so" % os.path.realpath(AUDITOR) in lines, run.out
    assert "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096:glibc.malloc.arena_max=2" in lines, run.out
    run = Run("/usr/bin/env", environment={"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=2048"})
    assert "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=2048" in run.out.splitlines(), run.out


@fact
def preloaded_library_finds_room_for_its_thread_local_variables():
    room = {"LD_PRELOAD": os.path.join(DRIVERS, "libroom.so")}
    assert told(Run(PROGRAM, "lookup", "one", environment=room).trace(), "malloc") == [("malloc", "cudaM", 2 * MIB)]
    # So large it is not of itself.
    small = dict(room, GLIBC_TUNABLES="glibc.rtld.optional_static_tls=128")
    assert "static TLS" in Run(PROGRAM, "lookup", "one", environment=small, expected=127).err


@fact
def recording_within_a_recording_is_the_inner_ones():
    run = Run(WEIR, "record", "--any", "--", PROGRAM, "lookup", "one")
    assert told(run.trace(), "malloc") == [("malloc", "cudaM", 2 * MIB)]


@fact
def library_does_nothing_where_no_report_of_the_users_is():
    wide = write("wide", "x" * 4096)
    os.chmod(wide, 0o666)
    os.symlink(wide, os.path.join(FOLDER.name, "link"))
    os.mkfifo(os.path.join(FOLDER.name, "pipe"), 0o600)
    folder = os.path.join(FOLDER.name, "hostile")
    os.mkdir(folder)
    for path in ("", "relative", wide, os.path.join(FOLDER.name, "link"), os.path.join(FOLDER.name, "pipe"), "/", "/dev/zero", "/nonexistent"):
        done = subprocess.run([PROGRAM, "lookup", "all"], cwd=folder, env=dict(ENVIRONMENT, LD_AUDIT=AUDITOR, WEIR_AUDIT=path),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        assert (done.returncode, done.stdout, done.stderr, os.listdir(folder)) == (0, b"", b"", []), (path, done)
    assert open(wide).read() == "x" * 4096


# Files ----------------------------------------------------------------------------------------------------------------------------------


@fact
def second_process_of_one_name_is_told_of():
    run = Run("sh", "-c", '"$0" lookup one && "$0" lookup one', PROGRAM, options=["-o", "one.weir"])
    assert run.names == ["one.weir"] and told(run.trace(), "malloc") == [("malloc", "cudaM", 2 * MIB)]
    run.says("one.weir exists, and existing files are never overwritten", "put %p into the name")


@fact
def disk_without_room_ends_the_trace_and_not_the_program():
    run = subprocess.run(["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", WEIR, "record", "--any", "--", PROGRAM, "lookup", "one"],
                         cwd=FOLDER.name, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert b"TMPDIR" in run.stderr and run.returncode == 2, run  # there is no room for the report either


@fact
def program_that_closes_all_descriptors_keeps_its_own_files():
    path = os.path.join(FOLDER.name, "mine")
    run = Run(PROGRAM, "lookup", "closes", path, reads=False)  # it may not have begun to be written
    assert open(path).read() == "mine\n"
    run.says("ends early: Bad file descriptor")


@fact
def no_file_of_the_commands_own_stays_behind():
    assert not glob.glob(FOLDER.name + "/weir-record.*")


@fact
def installed_command_finds_the_library_beside_it():
    root = os.path.join(FOLDER.name, "root")
    os.makedirs(root + "/bin")
    os.makedirs(root + "/lib")
    shutil.copy(WEIR, root + "/bin/weir")
    shutil.copy(AUDITOR, root + "/lib/libweir-audit.so")
    done = subprocess.run([root + "/bin/weir", "record", "--any", "-o", root + "/a.weir", "--", PROGRAM, "lookup", "one"], env=ENVIRONMENT,
                          stderr=subprocess.PIPE)
    assert done.returncode == 0 and told(Trace(root + "/a.weir"), "malloc") == [("malloc", "cudaM", 2 * MIB)], done.stderr


main()
