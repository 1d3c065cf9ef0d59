# SPDX-License-Identifier: MIT
"""
What torch's memory history answers, as text that is the same in every process: addresses, streams and pools by the order
in which they appear, and of stacks this file's functions.

`history_stories.py [POLICY [COMMAND]]` prints all answers as they stand in history_stories.txt. POLICY: lines more of the
policy. COMMAND: of the shell, runs beside the stories; PID in it is this process.
"""
import contextlib
import ctypes
import gc
import os
import subprocess
import sys
import threading

import snapshots
import torch
import weir.torch

MIB = 1 << 20
GIB = 1 << 30
LETTERS = {
    "alloc": "a", "free_requested": "f", "free_completed": "c", "segment_alloc": "S", "segment_free": "F", "snapshot": "s", "oom": "o",
}
STATES = {"active_allocated": "live", "active_pending_free": "waits", "inactive": "free"}
LACKS = "this torch lacks it"
STORIES = []


def story(function):
    STORIES.append(function)
    return function


def make(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def outer(size):
    return make(size)


@contextlib.contextmanager
def recording(**options):
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history(**options)
    try:
        yield
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


class Names:
    """Of what differs from process to process, by the order in which it appears."""

    def __init__(self, letter, same=()):
        self.letter = letter
        self.known = {one: str(one) for one in same}

    def of(self, value):
        return self.known.setdefault(value, "%s%d" % (self.letter, len(self.known)))


class Teller:
    def __init__(self):
        self.addresses, self.streams, self.pools = Names("@"), Names("stream", [0]), Names("pool", [(0, 0)])

    def stack(self, entry):
        """The functions of this file, and what kinds of frames there are."""
        frames = entry.get("frames") or []
        own = [frame["name"].split(".")[-1] for frame in frames if frame["filename"].endswith("history_stories.py")]
        text = "<".join(name for name in own if name not in ("everything", "main", "<module>"))
        is_native = any("Allocator" in frame["name"] or "empty" in frame["name"] for frame in frames)
        return "[%s]" % (text + "+native" if is_native else text) if frames else ""

    def words(self, entry):
        said = entry.get("user_metadata", "")
        parts = ["stream " + self.streams.of(int(part[7:])) if part.startswith("stream ") else part for part in said.split("; ") if part]
        compiled = entry.get("compile_context", "N/A")
        return "".join([" {%s}" % "; ".join(parts) if parts else "", " <%s>" % compiled if compiled != "N/A" else ""])

    def event(self, event):
        where = event.get("addr", event.get("device_free"))
        where = "free" if event["action"] == "oom" else where if event["action"] == "snapshot" else self.addresses.of(where)
        stream = self.streams.of(event["stream"])
        return "%s %s %d%s%s%s" % (
            LETTERS[event["action"]], where, event["size"], " " + stream if stream != "0" else "", self.stack(event), self.words(event))

    def segment(self, segment):
        head = "device %d %s %d (%d, %d) %s %s%s" % (
            segment["device"], self.addresses.of(segment["address"]), segment["total_size"],
            segment["allocated_size"], segment["active_size"],
            self.streams.of(segment["stream"]), self.pools.of(tuple(segment["segment_pool_id"])), self.stack(segment))
        blocks = ["%s %d/%d%s" % (STATES[block["state"]], block["requested_size"], block["size"], self.stack(block))
                  for block in segment["blocks"]]
        return head + ": " + ", ".join(blocks)


def told(snapshot, rules=True):
    """The snapshot as text."""
    teller = Teller()
    if rules:
        snapshots.check(snapshot)
    for events in snapshot["device_traces"]:
        times = [event["time_us"] for event in events]
        assert times == sorted(times)
    traces = [[teller.event(event) for event in events] for events in snapshot["device_traces"]]
    known = dict(teller.addresses.known)
    # Those that no event tells of stand in the order of their sizes.
    def order(one):
        return one["address"] not in known, int(known.get(one["address"], "@0")[1:]), one["device"], one["total_size"]

    events = ["device %d: %s" % (device, "; ".join(trace)) for device, trace in enumerate(traces) if trace]
    return events + [teller.segment(one) for one in sorted(snapshot["segments"], key=order)]


def taken(rules=True):
    return told(torch.cuda.memory._snapshot(), rules)


def letters(device=0):
    return "".join(LETTERS.get(event["action"], "?") for event in torch.cuda.memory._snapshot()["device_traces"][device])


def refused(size):
    try:
        make(size)
    except torch.OutOfMemoryError:
        return
    raise AssertionError("%d bytes were served" % size)


@story
def contexts_and_stacks():
    found = {}
    for context in "all", "alloc", "state", None:
        for stacks in "python", "all":
            with recording(context=context, stacks=stacks):
                kept = outer(3 * MIB)
                outer(5000)
                kept_small = outer(700)
                found["%s %s" % (context, stacks)] = taken()
                del kept, kept_small
    return found


@story
def state_alone_is_recorded_as_state():
    with recording(enabled="state"):
        kept = outer(3 * MIB)
        found = taken()
        del kept
    return found


@story
def bounds():
    found = {}
    for most in 0, 1, 2, 7, 64, 65, 100000:
        with recording(max_entries=most, context=None):
            for number in range(30):
                make(1000 + number)
            snapshot = torch.cuda.memory._snapshot()
            found["%d" % most] = letters(), " ".join(str(event["size"]) for event in snapshot["device_traces"][0])
            told(snapshot)
    return found


@story
def sizes_that_change_while_it_records():
    found = []
    with recording(max_entries=100, stacks="python"):
        for _ in range(10):
            make(4096)
        for most, clears in (10, False), (50, False), (5, False), (0, False), (20, False), (20, True), (1000, False):
            torch.cuda.memory._record_memory_history(max_entries=most, clear_history=clears, stacks="python")
            before = letters()
            kept = make(2000)
            found.append("%d %s: %s, then %s" % (most, clears, before, letters()))
            taken()
            del kept
    return found


@story
def stopped_and_started_again():
    found = []
    kept = [outer(1000)]
    for _ in range(3):
        torch.cuda.memory._record_memory_history(stacks="python")
        kept.append(outer(2 * MIB))
        found.append(taken())
        torch.cuda.memory._record_memory_history(enabled=None)
        kept.append(outer(3000))
        found.append(taken())
    return found


@story
def segments_come_and_go():
    found = []
    with recording(stacks="python"):
        small, large = make(600), make(30 * MIB)
        del large
        again = make(20 * MIB)
        del small
        found.append(taken())
        torch.cuda.empty_cache()
        found.append(taken())
        del again
        torch.cuda.empty_cache()
        found.append(taken())
    return found


@story
def out_of_memory():
    found = []
    torch.cuda.set_per_process_memory_fraction(0.25)
    with recording(stacks="python"):
        kept = make(GIB)
        refused(3 * GIB)
        refused(9 << 30)
        found.append(taken())
        del kept
    torch.cuda.set_per_process_memory_fraction(1.0)
    return found


@story
def actions_left_out():
    found = {}
    for skipped in "alloc", "free_requested free_completed", "segment_alloc segment_free", "snapshot", "oom annotate", "nothing":
        try:
            with recording(stacks="python", skip_actions=skipped.split()):
                make(1000)
                refused(9 << 30)
                torch.cuda.empty_cache()
                torch.cuda.memory._snapshot()
                found[skipped] = taken(rules=False)
        except TypeError:
            return LACKS
    return found


@story
def words_of_the_user():
    if not hasattr(torch._C, "_cuda_setMemoryMetadata"):
        return LACKS
    with recording(stacks="python"):
        torch._C._cuda_setMemoryMetadata("layer 7")
        kept = make(1000)
        assert torch._C._cuda_getMemoryMetadata() == "layer 7"
        make(5000)
        torch._C._cuda_setMemoryMetadata("")
        del kept
        found = taken()
    return found


@story
def annotations():
    found = []
    with recording(stacks="python", global_record_annotations=True, max_entries=3):
        for number in range(3):
            with torch.profiler.record_function("step %d" % number):
                make(1000)
        snapshot = torch.cuda.memory._snapshot()
        if "external_annotations" not in snapshot:
            return LACKS
        found += ["%s %s of device %d" % (one["name"], one["stage"], one["device"]) for one in snapshot["external_annotations"]]
        torch.cuda.memory._record_memory_history(clear_history=True, stacks="python", max_entries=3)
        found.append(str(len(torch.cuda.memory._snapshot()["external_annotations"])))
    return found


@contextlib.contextmanager
def allocating_to(device, pool_id):
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        torch._C._cuda_beginAllocateCurrentStreamToPool(device, pool_id)
        try:
            yield
        finally:
            (getattr(torch._C, "_cuda_endAllocateToPool", None) or torch._C._cuda_endAllocateCurrentStreamToPool)(device, pool_id)


@story
def private_pools():
    found = []
    pool_id = torch.cuda.graph_pool_handle()
    with allocating_to(0, pool_id):
        before = outer(9000)
    with recording(stacks="python"):
        with allocating_to(0, pool_id):
            tensors = [outer(1000), outer(3 * MIB), outer(513)]
        found.append(taken())
        plain = outer(1000)
        del tensors[0]
        found.append(taken())
        with allocating_to(0, pool_id):
            tensors.append(outer(700))
        found.append(taken())
        found.append(told({"device_traces": [], "segments": torch.cuda.memory_snapshot(pool_id)}, rules=False))
        tensors.clear()
        del before
        for _ in range(3):
            torch._C._cuda_releasePool(0, pool_id)
        torch.cuda.empty_cache()
        found.append(taken())
        del plain
    return found


@story
def a_restored_pool():
    found = []
    pool_id = torch.cuda.graph_pool_handle()
    with allocating_to(0, pool_id):
        kept, dying = outer(1000), outer(3 * MIB)
    state = torch._C._cuda_getCheckpointState(0, pool_id)
    address = dying.data_ptr()
    del dying
    with recording(stacks="python"):
        with allocating_to(0, pool_id):
            stale = outer(5 * MIB)
        torch._C._cuda_setCheckpointPoolState(0, state, [one.untyped_storage()._cdata for one in (kept, stale)], [])
        found.append(taken())
        torch._C._cuda_cudaCachingAllocator_raw_delete(address)
        torch._C._cuda_cudaCachingAllocator_raw_delete(kept.data_ptr())
        del kept, stale
        torch._C._cuda_releasePool(0, pool_id)
        torch._C._cuda_releasePool(0, pool_id)
        torch.cuda.empty_cache()
        found.append(taken())
    return found


@story
def mem_pools():
    found = []
    pool = torch.cuda.MemPool()
    with recording(stacks="python"):
        with torch.cuda.use_mem_pool(pool):
            kept = outer(1000)
            outer(40 * MIB)
        found.append(taken())
        del kept, pool
        gc.collect()
        torch.cuda.empty_cache()
        found.append(taken())
    return found


@story
def a_pools_own_allocator():
    found = []
    path = os.path.join(os.environ["XDG_CACHE_HOME"], "libcuda.so.1")
    allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "shim_own_malloc", "shim_own_free")
    pool = torch.cuda.MemPool(allocator.allocator())
    with torch.cuda.use_mem_pool(pool):
        early = outer(MIB)
    with recording(stacks="python"):
        with torch.cuda.use_mem_pool(pool):
            kept = [outer(MIB), outer(3 * MIB)]
        found.append(taken())
        del kept, early, pool
        gc.collect()
        found.append(taken())
    return found


@story
def streams():
    found = []
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    with recording(stacks="python"):
        with torch.cuda.stream(one):
            tensor = outer(3 * MIB)
            tensor.record_stream(two)
            del tensor
            found.append(taken())
            again = outer(3 * MIB)
        with torch.cuda.stream(two):
            other = outer(2 * MIB)
        del again, other
        torch.cuda.empty_cache()
        found.append(taken())
    return found


def raw_stream():
    stream = ctypes.c_void_p()
    assert ctypes.CDLL(None).cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
    return stream.value


@story
def frees_that_wait():
    found = []
    external = torch.cuda.ExternalStream(raw_stream())
    with torch.cuda.stream(external):
        early = outer(4 * MIB)
        early_freed = outer(6 * MIB)
    del early_freed
    with recording(stacks="python"):
        with torch.cuda.stream(external):
            tensor = outer(8 * MIB)
        del tensor
        found.append(taken())
        del early
        found.append(taken())
        with torch.cuda.stream(external):
            outer(512)
        found.append(taken())
        torch.cuda.empty_cache()
        found.append(taken())
    return found


@story
def children_of_a_fork():
    found = []
    with recording(stacks="python"):
        kept = make(1000)
        for what in (torch.cuda.memory._snapshot, torch.cuda.memory._record_memory_history,
                     lambda: torch.cuda.memory._record_memory_history(enabled=None), kept.untyped_storage):
            reads, writes = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    what()
                    os.write(writes, b"fine")
                except BaseException as error:
                    os.write(writes, str(error).splitlines()[0].encode())
                os._exit(0)
            os.close(writes)
            found.append("%d: %s" % (os.waitpid(child, 0)[1], os.read(reads, 4096).decode()))
            os.close(reads)
        found.append(taken())
        del kept
    return found


@story
def threads_that_end():
    found = []
    kept = {}

    def work(name):
        kept[name] = outer(2 * MIB)
        outer(1000)

    with recording(stacks="python"):
        for name in "one", "two":
            thread = threading.Thread(target=work, args=(name,))
            thread.start()
            thread.join()
        found.append(taken())
        kept.clear()
        found.append(taken())
    return found


@story
def observers_take_snapshots():
    found = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *what: found.append("%d %d %d %s" % (*what[:3], letters())))
    with recording(stacks="python"):
        refused(9 << 30)
        return found[:1] + [taken()]


@story
def devices():
    found = []
    with recording(stacks="python", max_entries=6):
        tensors = []
        for number in range(2):
            with torch.cuda.device(number):
                tensors.append(outer(1000 + number))
                outer(3 * MIB + number)
        found.append(taken())
        pool_id = torch.cuda.graph_pool_handle()
        with torch.cuda.device(1), allocating_to(1, pool_id):
            tensors.append(outer(7000))
        with torch.cuda.device(1):
            refused(9 << 30)
        found.append(taken())
        tensors.clear()
        torch._C._cuda_releasePool(1, pool_id)
        torch.cuda.empty_cache()
        found.append(taken())
    return found


def lines(answer, indent=1):
    """Of strings, in lists and dictionaries."""
    if isinstance(answer, str):
        return [" " * indent + answer]
    if isinstance(answer, dict):
        return [line for name, one in answer.items() for line in [" " * indent + name + ":"] + lines(one, indent + 1)]
    whole = []
    for one in answer:
        whole += lines(one, indent) if isinstance(one, str) else [" " * indent + "-"] + lines(one, indent + 1)
    return whole or [" " * indent + "nothing"]


def everything():
    for one in STORIES:
        gc.collect()
        torch.cuda.empty_cache()
        print("\n".join([one.__name__] + lines(one())), flush=True)


def main():
    more, command = (sys.argv[1:] + ["", ""])[:2]
    policy = "weir: 1\npools: { tensors: { cache: { largest: 4MiB } } }\ndefaults: { pool: tensors }\n%s" % more
    assert weir.torch.enable(policy_text=policy, shim=True, gpu="sim").shim
    # Here Weir begins, and can be asked.
    for device in range(torch.cuda.device_count()):
        torch.empty(1, device=device)
    beside = subprocess.Popen(["sh", "-c", command.replace("PID", str(os.getpid()))], stdout=sys.stderr) if command else None
    everything()
    if beside:
        sys.exit(beside.wait())


if __name__ == "__main__":
    main()
