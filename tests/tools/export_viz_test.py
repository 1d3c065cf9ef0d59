# SPDX-License-Identifier: MIT
"""export_viz_test.py - snapshots for torch's viewers of memory: a reader of their rules, and facts of what is exported."""
import ctypes
import os
import pickle
import pickletools
import subprocess
import tempfile

from tap import fact
from export_support import BUILD, chance, export, life
from trace_file import Trace

ACTIONS = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom"}


def check_codes(data):
    """A pickle as torch writes them: of protocol 4, and nothing in it names a class or a function."""
    for code, value, _ in pickletools.genops(data):
        assert code.name not in ("GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "REDUCE", "BUILD", "NEWOBJ", "PERSID", "BINPERSID"), code.name
        assert code.name != "PROTO" or value == 4
        assert code.name != "LONG1" or -1 << 53 < value < 1 << 53


def check_nothing_is_named_category(value):
    if isinstance(value, dict):
        assert "category" not in value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            check_nothing_is_named_category(item)


def check_frames(item):
    for frame in item["frames"]:
        assert isinstance(frame["filename"], str) and isinstance(frame["name"], str) and isinstance(frame["line"], int)


def inside(address, size, segments):
    return any(start <= address and address + size <= start + segment["size"] for start, segment in segments.items())


def check_event(event, segments, blocks):
    """One step: every live block lies in a segment of the event's stream before and after it."""
    address, size, action = event.get("addr"), event["size"], event["action"]
    if action == "oom":
        assert "addr" not in event and isinstance(event["device_free"], int)
        return
    if action == "segment_alloc":
        assert size > 0 and not any(start < address + size and address < start + held["size"] for start, held in segments.items())
        segments[address] = event
    elif action == "segment_free":
        assert segments.pop(address)["size"] == size
        assert not any(address <= block < address + size for block in blocks)
    elif action == "alloc":
        assert address not in blocks and inside(address, size, segments)
        blocks[address] = dict(event, pending=False)
    elif action == "free_requested":
        assert blocks[address]["size"] == size and not blocks[address]["pending"]
        blocks[address]["pending"] = True
    elif action == "free_completed":
        assert blocks[address]["pending"] and blocks.pop(address)["size"] == size
    for start, segment in segments.items():
        if start <= address < start + segment["size"]:
            assert segment["stream"] == event["stream"] and segment["pool_id"] == event["pool_id"]


def check_end(device, found, segments, blocks):
    """The segments at the end are those which the events left, block by block."""
    assert {segment["address"]: segment["total_size"] for segment in found} == {start: held["size"] for start, held in segments.items()}
    live = {}
    for segment in found:
        assert segment["device"] == device and segment["stream"] == segments[segment["address"]]["stream"]
        assert segment["segment_type"] in ("small", "large") and segment["is_expandable"] is False
        assert segment["segment_pool_id"] == segments[segment["address"]]["pool_id"]
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
        active = [block for block in segment["blocks"] if block["state"] == "active_allocated"]
        assert segment["allocated_size"] == segment["active_size"] == sum(block["size"] for block in active)
        assert segment["requested_size"] == sum(block["requested_size"] for block in active)
        address = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == address and block["state"] in ("active_allocated", "inactive")
            assert block["requested_size"] <= block["size"]
            check_frames(block)
            address += block["size"]
        live.update((block["address"], block["requested_size"]) for block in active)
        check_frames(segment)
    assert live == {address: block["size"] for address, block in blocks.items()}


def snapshot(*traces):
    """The snapshot of the traces, of which all rules hold."""
    data = export("memory-viz", *traces)
    check_codes(data)
    found = pickle.loads(data)
    assert set(found) == {"segments", "device_traces", "allocator_settings", "external_annotations"}
    check_nothing_is_named_category(found)
    for device, events in enumerate(found["device_traces"]):
        segments, blocks, time = {}, {}, 0
        for event in events:
            assert event["action"] in ACTIONS and event["time_us"] >= time and isinstance(event["user_metadata"], str)
            time = event["time_us"]
            check_frames(event)
            check_event(event, segments, blocks)
        check_end(device, [segment for segment in found["segments"] if segment["device"] == device], segments, blocks)
    assert all(0 <= segment["device"] < len(found["device_traces"]) for segment in found["segments"])
    for note in found["external_annotations"]:
        assert note["stage"] in ("START", "END") and 0 <= note["device"] < len(found["device_traces"])
        assert isinstance(note["name"], str) and isinstance(note["time_us"], int)
    return found


def actions(found, device=0):
    return [(event["action"], event.get("addr"), event["size"]) for event in found["device_traces"][device]]


@fact
def memory_viz_snapshot_has_each_block_from_the_device_as_a_segment():
    assert actions(snapshot(life())) == [
        ("segment_alloc", 0x10000, 1024), ("alloc", 0x10000, 1000),
        ("segment_alloc", 0x20000, 2048),
        ("segment_alloc", 0x30000, 8192), ("alloc", 0x30000, 5000),
        ("alloc", 0x20000, 1500),
        ("segment_alloc", 0x500000, 1024), ("alloc", 0x500000, 700),
        ("segment_alloc", 0x500400, 1024), ("alloc", 0x500400, 600),
        ("segment_alloc", 0x700000, 1 << 21), ("alloc", 0x700000, 1 << 21),
        ("free_requested", 0x30000, 5000), ("free_completed", 0x30000, 5000), ("alloc", 0x30000, 8000),
        ("oom", None, 1 << 30),
        ("free_requested", 0x10000, 1000), ("free_completed", 0x10000, 1000), ("segment_free", 0x10000, 1024),
        ("free_requested", 0x20000, 1500), ("free_completed", 0x20000, 1500), ("segment_free", 0x20000, 2048),
        ("free_requested", 0x500400, 600), ("free_completed", 0x500400, 600), ("segment_free", 0x500400, 1024),
    ]


@fact
def memory_viz_devices_have_lists_of_their_own_and_host_memory_has_none():
    found = snapshot(life())
    assert actions(found, 1) == [("segment_alloc", 0x930000, 512), ("alloc", 0x930000, 333)]
    assert not any(event.get("addr") == 0x800000 for events in found["device_traces"] for event in events)
    assert sorted((segment["device"], segment["address"]) for segment in found["segments"]) == [
        (0, 0x30000), (0, 0x500000), (0, 0x700000), (1, 0x930000)]


@fact
def memory_viz_events_say_whose_they_are_and_only_private_pools_are_private():
    events = [event for event in snapshot(life())["device_traces"][0] if event["action"] in ("alloc", "oom")]
    assert [event["user_metadata"] for event in events] == [
        "pool main, stream 0xa0, thread 100", "pool main, stream 0xa0, tag weights, thread 100",
        "pool main, stream 0xa0, tag not \ufffd utf-8, thread 100", "pool arena, stream 0xb0, thread 200",
        "pool arena, stream 0xb0, thread 200", "pool graph, stream 0xb0, thread 100", "pool main, stream 0xb0, thread 100",
        "pool main, stream 0xa0, thread 200"]
    assert {event["stream"] for event in events} == {0}
    assert [event["pool_id"] == (0, 0) for event in events] == [True, True, True, True, True, False, True, True]


@fact
def memory_viz_frames_are_those_of_the_stack():
    frames = next(event for event in snapshot(life())["device_traces"][0] if event["frames"])["frames"]
    assert frames == [{"filename": "/usr/lib/libexample.so.1", "line": 0, "name": "libexample.so.1+0x1234"},
                      {"filename": "/home/me/model.py", "line": 42, "name": "forward"},
                      {"filename": "??", "line": 0, "name": "0x7e0000000010"}]


def loaded(function):
    """Where this process has a function of libc, and the mapping around it: address, first, size, offset in the file, path."""
    address = ctypes.cast(getattr(ctypes.CDLL(None), function), ctypes.c_void_p).value
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            first, last = (int(end, 16) for end in line.split()[0].split("-"))
            if first <= address < last:
                return address, first, last - first, int(line.split()[2], 16), line.split()[5]
    raise LookupError(function)


def build_id(path):
    """Of a file of ELF with 64 bits, from its note."""
    with open(path, "rb") as file:
        data = file.read()
    at = data.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0")
    return data[at + 16:at + 36].hex()


def memory_viz_functions_are_looked_up_in_the_files_that_were_loaded():
    address, first, size, offset, file = loaded("getenv")
    trace = Trace()
    trace.pool(1, "main")
    trace.module(1, first, size, file, offset, build_id(file))
    trace.stack(1, [address + 5, 0x1234567890])
    trace.event("malloc", pool=1, address=0x1000, size=512, stack=1)
    frames = snapshot(trace)["device_traces"][0][1]["frames"]
    assert frames[0]["name"] == "getenv" and frames[0]["filename"], frames
    assert frames[1] == {"filename": "??", "line": 0, "name": "0x1234567890"}


with open(os.path.join(BUILD, "config.h"), encoding="utf-8") as config:
    if "#define HAVE_LIBDW 1" in config.read():
        fact(memory_viz_functions_are_looked_up_in_the_files_that_were_loaded)


@fact
def memory_viz_annotations_go_from_a_mark_to_the_next():
    found = snapshot(life())
    begin = 1700000000000000
    assert [(note["stage"], note["name"], note["time_us"] - begin) for note in found["external_annotations"] if note["device"] == 0] == [
        ("START", "step 1", 3), ("END", "step 1", 13), ("START", "step 2", 13), ("END", "step 2", 25)]


@fact
def memory_viz_settings_name_the_process_of_each_device():
    settings = snapshot(life(rank=3, policy="defaults.pool: main\n"), life(pid=4712))["allocator_settings"]
    assert settings["device 0"] == "train, process 4711, rank 3, device 0" and settings["device 3"] == "train, process 4712, device 1"
    assert settings["policy of device 1"] == "defaults.pool: main\n" and "policy of device 2" not in settings


@fact
def memory_viz_rules_hold_for_random_programs_and_what_they_have_at_the_end_is_there():
    for seed in range(20):
        trace, live, cached = chance(seed, 400)
        found = snapshot(trace)
        assert {s["address"]: s["requested_size"] for s in found["segments"] if s["allocated_size"]} == {
            address: block["size"] for address, block in live.items()}
        assert sorted(s["address"] for s in found["segments"] if not s["allocated_size"]) == sorted(cached)


@fact
def memory_viz_rules_hold_where_events_were_lost():
    for seed in range(100, 130):
        snapshot(chance(seed, 400, lossy=True)[0])


@fact
def memory_viz_blocks_over_others_end_these():
    trace = Trace()
    for pool in (1, 2):
        trace.pool(pool, "pool")
    trace.event("malloc", pool=1, address=0x1000, size=512)
    trace.event("malloc", pool=1, address=0x1200, size=512)
    trace.event("malloc", pool=2, address=0x1100, size=512)
    trace.event("free", pool=1, address=0x1200, size=512)
    trace.event("malloc", pool=1, address=0x1100, size=100)
    found = snapshot(trace)
    assert [(s["address"], s["total_size"]) for s in found["segments"]] == [(0x1100, 100)]


@fact
def memory_viz_leaves_out_what_no_address_can_be():
    trace = Trace()
    trace.pool(1, "main", device=1 << 40)
    trace.pool(2, "main")
    trace.event("malloc", pool=2, address=(1 << 64) - 512, size=512)
    trace.event("malloc", pool=2, address=1 << 53, size=512)
    trace.event("malloc", pool=2, address=512, size=(1 << 64) - 1)
    trace.event("malloc", pool=2, address=0x1000, size=0)
    trace.event("malloc", pool=1, address=0x1000, size=512)
    trace.event("out of memory", pool=2, stream=1, a=(1 << 64) - 1)
    found = snapshot(trace)
    assert not found["segments"] and len(found["device_traces"]) == 1
    assert actions(found) == [("oom", None, (1 << 53) - 1)]


@fact
def memory_viz_of_no_events_is_a_snapshot():
    assert snapshot(Trace())["device_traces"] == [[]]


REPORTS = """
import importlib.util, pickle, sys
spec = importlib.util.spec_from_file_location("_memory_viz", sys.argv[1])
viz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(viz)
data = pickle.load(open(sys.argv[2], "rb"))
print(viz.segsum(data), viz.trace(data))
for report in (viz.memory, viz.segments):
    text = report(data, format_flamegraph=lambda text: text)
    assert text and sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines()) == sum(s["total_size"] for s in data["segments"])
for report in (viz.trace_plot, viz.segment_plot):
    assert "base64" in report(data)
"""


def find_viewer():
    """Torch's own viewer, if there is torch: a file that needs no more of it."""
    python = os.environ.get("WEIR_TORCH_PYTHON", "python3")
    where = "import importlib.util as u, os; print(os.path.join(os.path.dirname(u.find_spec('torch').origin), 'cuda', '_memory_viz.py'))"
    done = subprocess.run([python, "-c", where], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, universal_newlines=True)
    return python, done.stdout.strip() if done.returncode == 0 else None


def torch_s_own_reports_read_memory_viz_snapshots():
    for trace in (life(), chance(1, 1000)[0], chance(2, 1000, lossy=True)[0]):
        with tempfile.NamedTemporaryFile() as file:
            file.write(export("memory-viz", trace))
            file.flush()
            done = subprocess.run([PYTHON, "-c", REPORTS, VIEWER, file.name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                                  universal_newlines=True)
            assert done.returncode == 0, done.stderr
            assert "total_reserved" in done.stdout and "cudaMalloc" in done.stdout


PYTHON, VIEWER = find_viewer()
if VIEWER:
    fact(torch_s_own_reports_read_memory_viz_snapshots)
