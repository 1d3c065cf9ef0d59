# SPDX-License-Identifier: MIT
"""export_perfetto_test.py - traces of Perfetto: a decoder by perfetto.proto, and facts of what is exported."""
import os
import re
import shutil
import struct
import subprocess

from tap import fact
from export_support import chance, export, life
from trace_file import Trace

PROTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "perfetto.proto")
BEGAN = 1700000000000000000


def read_schema():
    """{message: {number: (name, type, is repeated)}} of perfetto.proto."""
    messages, current = {}, []
    with open(PROTO, encoding="utf-8") as file:
        for line in file:
            opened = re.match(r" *(message|enum) (\w+) \{", line)
            field = re.match(r" *(optional|repeated) (\w+) (\w+) = (\d+);", line)
            if opened:
                current.append(opened.group(2))
                if opened.group(1) == "message":
                    messages[current[-1]] = {}
            elif field:
                messages[current[-1]][int(field.group(4))] = (field.group(3), field.group(2), field.group(1) == "repeated")
            elif line.strip() == "}":
                current.pop()
    return messages


SCHEMA = read_schema()


def take_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def decode(data, message):
    """The message as a dictionary; fields that the schema lacks are errors."""
    found, at = {}, 0
    while at < len(data):
        key, at = take_varint(data, at)
        name, kind, is_repeated = SCHEMA[message][key >> 3]
        value, at = (0, at) if key & 7 == 1 else take_varint(data, at)
        if key & 7 == 1:
            assert kind == "double"
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif key & 7 == 2:
            assert kind in ("string", "bytes") or kind in SCHEMA
            content, at = data[at:at + value], at + value
            assert at <= len(data)
            value = decode(content, kind) if kind in SCHEMA else content.decode()
        else:
            assert key & 7 == 0 and kind not in ("string", "bytes", "double") and kind not in SCHEMA
        if is_repeated:
            found.setdefault(name, []).append(value)
        else:
            assert name not in found
            found[name] = value
    return found


class Tracks:
    """What is on each track, by the names of the tracks; of counters values, of threads slices that were begun and ended in order."""

    def __init__(self, *traces):
        self.packets = decode(export("perfetto", *traces), "Trace").get("packet", [])
        self.tracks, self.counters, self.moments, self.slices, self.requests = {}, {}, [], [], []
        self.interned = {}
        for packet in self.packets:
            assert packet["trusted_packet_sequence_id"] > 0
            if "track_descriptor" in packet:
                track = packet["track_descriptor"]
                assert track["uuid"] not in self.tracks and (track.get("parent_uuid") in self.tracks or "process" in track)
                self.tracks[track["uuid"]] = track
            elif "track_event" in packet:
                self.intern(packet)
                self.add(packet["timestamp"], packet["track_event"], packet["trusted_packet_sequence_id"])
        assert not any(track.get("open") for track in self.tracks.values())

    def process(self, track):
        return self.tracks[track.get("parent_uuid", track["uuid"])]["process"]["pid"]

    def intern(self, packet):
        """What each sequence defines, in order: by the kind and the id, each once."""
        sequence = packet["trusted_packet_sequence_id"]
        assert ("callstack_iid" in packet["track_event"]) == ("sequence_flags" in packet)
        if packet.get("sequence_flags") == 3:
            assert sequence not in self.interned
            self.interned[sequence] = {}
        for kind, rows in packet.get("interned_data", {}).items():
            for row in rows:
                assert row["iid"] > 0 and (kind, row["iid"]) not in self.interned[sequence]
                self.interned[sequence][kind, row["iid"]] = row

    def stack(self, sequence, number):
        """Its frames, the outermost first: (function, source, line, file, place)."""
        known, frames = self.interned[sequence], []
        for frame in (known["frames", number] for number in known["callstacks", number]["frame_ids"]):
            source = known["source_paths", frame["source_path_iid"]]["str"] if "source_path_iid" in frame else None
            file, = known["mappings", frame["mapping_id"]]["path_string_ids"]
            frames.append((known["function_names", frame["function_name_id"]]["str"], source, frame.get("line_number"),
                           known["mapping_paths", file]["str"], frame["rel_pc"]))
        return frames

    def add(self, time, event, sequence):
        track = self.tracks[event["track_uuid"]]
        notes = {note["name"]: note.get("uint_value", note.get("string_value")) for note in event.get("debug_annotations", [])}
        if event["type"] == 4:
            values = self.counters.setdefault((self.process(track), track["name"]), [])
            assert track["counter"] == {"unit": 3} and (not values or values[-1][0] <= time)
            values.append((time, event["counter_value"]))
            return
        if "callstack_iid" in event:
            assert event["type"] == 3 and event["callstack_weight"] == notes["bytes"]
            self.requests.append((track["thread"]["tid"], time, event["name"], notes, self.stack(sequence, event["callstack_iid"])))
            return
        if event["type"] == 3:
            self.moments.append((self.process(track), time, event["name"], notes))
            return
        opened = track.setdefault("open", [])
        assert track.get("last", 0) <= time
        track["last"] = time
        if event["type"] == 1:
            opened.append((time, event["name"], notes))
        else:
            begin, name, notes = opened.pop()
            self.slices.append((track["thread"]["tid"], len(opened), begin, time, name, notes))


@fact
def perfetto_has_a_process_with_counters_of_each_pool():
    tracks = Tracks(life(rank=3))
    processes = [track["process"] for track in tracks.tracks.values() if "process" in track]
    assert processes == [{"pid": 4711, "process_name": "train rank 3"}]
    assert {name for _, name in tracks.counters} == {
        pool + figure for pool in ("main", "arena", "graph#3", "pinned", "second@1") for figure in (": live", ": held")}
    assert [(time - BEGAN, value) for time, value in tracks.counters[4711, "main: live"]] == [
        (1000, 1000), (4000, 6000), (6000, 7500), (14000, 2500), (15000, 10500), (21000, 9500), (22000, 8000)]
    assert [value for _, value in tracks.counters[4711, "main: held"]] == [1024, 3072, 11264, 65536, 61440]
    assert [value for _, value in tracks.counters[4711, "arena: held"]][0] == 2 << 20


@fact
def perfetto_slices_are_what_threads_waited_for():
    tracks = Tracks(life())
    assert sorted((tid, depth, begin - BEGAN, end - BEGAN, name, notes) for tid, depth, begin, end, name, notes in tracks.slices) == [
        (100, 0, 6700, 7000, "map", {"pool": "arena", "bytes": 2 << 20}),
        (100, 0, 15600, 16000, "wait", {"pool": "main", "bytes": 1 << 30}),
        (100, 0, 19900, 20000, "synchronise", {"pool": "main", "stream": 0xA0}),
        (100, 0, 24900, 25000, "unmap", {"pool": "arena", "bytes": 1 << 20}),
        (200, 0, 16800, 17000, "trim", {"pool": "main", "bytes": 4096}),
        (200, 0, 17100, 18000, "rung trim", {"pool": "main"})]


@fact
def perfetto_slices_lie_in_each_other():
    trace = Trace()
    trace.pool(1, "main")
    trace.event("trim", pool=1, b=2000, time=5000)
    trace.event("trim", pool=1, b=0, time=6000)
    trace.event("map", pool=1, b=1000, time=9000)
    trace.event("rung", pool=1, a=1, b=9000, time=9500)
    trace.event("wait", pool=1, a=600, time=9900)
    trace.event("wait", pool=1, a=1 << 50, time=10000)
    assert [(depth, begin - BEGAN, end - BEGAN, name) for _, depth, begin, end, name, _ in Tracks(trace).slices] == [
        (2, 3000, 5000, "trim"), (2, 6000, 6000, "trim"), (2, 8000, 9000, "map"), (2, 9300, 9500, "wait"), (1, 500, 9500, "rung wait"),
        (0, 0, 10000, "wait")]


@fact
def perfetto_slices_that_took_no_time_come_before_what_began_with_them():
    trace = Trace()
    trace.pool(1, "main")
    for number, ns, time in ((0, 0, 5000), (1, 2000, 7000), (2, 0, 7000), (3, 0, 7000), (4, 1000, 8000)):
        trace.event("rung", pool=1, a=number, b=ns, time=time)
    assert [(depth, name) for _, depth, _, _, name, _ in Tracks(trace).slices] == [
        (0, "rung " + name) for name in ("flush", "wait", "trim", "callbacks", "neighbours")]


@fact
def perfetto_moments_are_marks_and_failures():
    assert [(time - BEGAN, name, notes) for _, time, name, notes in Tracks(life()).moments] == [
        (3000, "step 1", {}), (13000, "step 2", {}),
        (19000, "out of memory", {"pool": "main", "bytes": 1 << 30, "stream": 0xA0, "at": "the pool's cap"})]


@fact
def perfetto_requests_have_the_stacks_that_were_recorded():
    frames = [("0x7e0000000010", None, None, "(unknown)", 0x7E0000000010), ("forward", "/home/me/model.py", 42, "(interpreter)", 2),
              ("libexample.so.1+0x1234", None, None, "/usr/lib/libexample.so.1", 0x1234)]
    tracks = Tracks(life(), life(pid=2))
    assert [(tid, time - BEGAN, name, notes, stack) for tid, time, name, notes, stack in tracks.requests] == [
        (100, 4000, "malloc", {"bytes": 5000, "pool": "main", "tag": "weights"}, frames)] * 2


@fact
def perfetto_stacks_are_written_once():
    trace = Trace()
    trace.pool(1, "main")
    trace.line(1, 1, "outer", "a.py")
    trace.line(2, 1 << 40, "inner", "")
    trace.line(3, 3, "other", "b.py")
    trace.stack(1, [2, 1])
    trace.stack(2, [3, 1])
    for number in range(300):
        trace.event("malloc", pool=1, address=4096 * (number + 1), size=number, stack=1 + number % 2)
    trace.event("serve", pool=1, address=1 << 40, size=7, stack=1)
    trace.event("free", pool=1, address=4096, stack=1)
    requests = Tracks(trace).requests
    assert [request[2] for request in requests] == ["malloc"] * 300 + ["serve"]
    assert [frame[:3] for frame in requests[0][4]] == [("outer", "a.py", 1), ("inner", None, None)]
    assert [frame[:3] for frame in requests[299][4]] == [("outer", "a.py", 1), ("other", "b.py", 3)]


@fact
def perfetto_traces_stand_on_one_axis_and_apart_though_their_pids_are_equal():
    tracks = Tracks(life(), life(started_real=BEGAN + 5000000), life(pid=1))
    pids = [track["process"]["pid"] for track in tracks.tracks.values() if "process" in track]
    assert pids[0] == 4711 and pids[1] != 4711 and pids[1] & (1 << 22) - 1 == 4711 and pids[2] == 1
    assert [time - BEGAN for pid, time, name, _ in tracks.moments if name == "step 1"] == [3000, 5003000, 3000]
    assert {time for packet in tracks.packets for clock in packet.get("clock_snapshot", {}).get("clocks", [])
            for time in [clock["timestamp"]]} == {BEGAN}


@fact
def perfetto_counters_show_the_highest_of_values_at_one_time():
    trace = Trace()
    trace.pool(1, "main")
    for address in (1, 2, 3):
        trace.event("malloc", pool=1, address=4096 * address, size=512, time=7000)
    trace.event("free", pool=1, address=4096, size=512, time=7000)
    trace.event("free", pool=1, address=8192, size=512, time=8000)
    assert [(time - BEGAN, value) for time, value in Tracks(trace).counters[4711, "main: live"]] == [
        (7000, 1536), (7000, 1024), (8000, 512)]


@fact
def perfetto_counters_of_random_programs_end_at_what_is_live():
    for seed in range(10):
        trace, live, cached = chance(seed, 400)
        tracks = Tracks(trace)
        for pool in range(1, 4):
            size = sum(block["size"] for block in live.values() if block["pool"] == pool)
            held = sum(block["given"] for block in [*live.values(), *cached.values()] if block["pool"] == pool)
            assert tracks.counters[4711, "pool %d: live" % pool][-1][1] == size
            assert tracks.counters[4711, "pool %d: held" % pool][-1][1] == held


def perfetto_traces_are_read_by_protoc():
    trace = chance(3, 400)[0]
    data = export("perfetto", trace, life())
    done = subprocess.run(["protoc", "--decode=perfetto.protos.Trace", "-I", os.path.dirname(PROTO), PROTO], input=data,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    assert not re.search(r"^ *\d+[:{ ]", text, re.M), "a field is not in perfetto.proto"
    assert text.count("packet {") == len(decode(data, "Trace")["packet"])


if shutil.which("protoc"):
    fact(perfetto_traces_are_read_by_protoc)


@fact
def perfetto_trace_of_hostile_times_and_names_can_be_decoded():
    trace = Trace(started_real=(1 << 64) - 1, program=b"\xff\xfe", pid=(1 << 64) - 1)
    trace.pool(1, b"\xc0\x80")
    trace.event("malloc", pool=1, address=0, size=(1 << 64) - 1, time=(1 << 63))
    trace.event("rung", pool=1, a=(1 << 64) - 1, b=(1 << 64) - 1, time=(1 << 64) - 1)
    tracks = Tracks(trace)
    assert [name for _, name in tracks.counters][0] == "\ufffd\ufffd: live"
    assert all(0 <= packet["timestamp"] < 1 << 63 for packet in tracks.packets)


