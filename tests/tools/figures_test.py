# SPDX-License-Identifier: MIT
"""figures_test.py BUILD - documents of hostile and strange processes, as `weir ps`, `metrics` and `show --pid` take them. Speaks TAP."""
import contextlib
import copy
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))
import tap
from tap import fact

WEIR = os.path.join(os.path.abspath(sys.argv[1]), "tools", "weir")
FOLDER = tempfile.TemporaryDirectory(prefix="weir-figures-")
SOCKETS = os.path.join(FOLDER.name, "weir", "control")
FIGURES, READY, DENIED, TEXT = 76, 101, 102, 108
PIECE = 1007
PATIENT = "--timeout=60"

DOCUMENT = {
    "version": "9.8.7", "pid": 1, "program": "actor", "age_ms": 5000, "labels": {"rank": "7", "local_rank": None, "job": None, "pod": None},
    "policy": "/etc/weir/policy.yaml",
    "values": [{"key": "pools.main.keep", "value": "1MiB", "live": True, "file": "weir set", "line": 1, "column": 1},
               {"key": "keeper", "value": "false", "live": True, "file": None}],
    "devices": [{"index": 0, "uuid": "GPU-0123", "memory": 1 << 30, "memory_free": 1 << 29, "quota": 1 << 30, "quota_from": None,
                 "rescues": {"flush": 1, "wait": 2}}],
    "pools": [{"device": 0, "name": "main", "is_private": False, "live": 1 << 20, "reserved": 1 << 25, "max_size": 1 << 28,
               "release_threshold": (1 << 64) - 1}],
    "tags": [{"name": "kv", "live": 1 << 20, "live_high": 1 << 20, "live_blocks": 1}],
}


def packet(number, request, body=b"", version=2):
    return struct.pack("<4sHHII", b"WEIR", version, number, len(body), request) + body


def pieces(document, request=1):
    """The packets that say the document."""
    data = document if isinstance(document, bytes) else json.dumps(document, ensure_ascii=False).encode()
    parts, at = [], 0
    while at < len(data):
        size = min(len(data) - at, PIECE)
        while at + size < len(data) and data[at + size] & 0xc0 == 0x80:
            size -= 1
        parts.append(packet(TEXT, request, data[at:at + size].ljust(PIECE + 1, b"\0")))
        at += size
    return parts + [packet(READY, request)]


class Process:
    """One that answers every question with these packets."""

    def __init__(self, packets):
        ours, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.serve(packets, theirs)
            finally:
                os._exit(1)
        os.close(theirs)
        assert os.read(ours, 1), "the process does not listen"
        os.close(ours)

    def serve(self, packets, ready):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(os.path.join(SOCKETS, "%d.1" % os.getpid()))
        listener.listen(8)
        os.write(ready, b"x")
        while True:
            connection = listener.accept()[0]
            try:
                if connection.recv(2048):
                    for sent in packets() if callable(packets) else packets:
                        connection.send(sent)
                    connection.recv(2048)
            except OSError:
                pass
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.unlink(os.path.join(SOCKETS, "%d.1" % self.pid))


def weir(*arguments, status=0):
    done = subprocess.run([WEIR, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == status, (done.returncode, said)
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", said), "a terminal gets %r" % said
    return done.stdout.decode(), done.stderr.decode()


def ps_json(status=0):
    document = json.loads(weir("ps", "--json", PATIENT, status=status)[0])
    assert document["status"] == status
    return document["processes"]


def series(text):
    """The samples of metrics, each named once."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = re.fullmatch(r'([a-z_]+(?:\{(?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*\})?) (\+Inf|[0-9.]+)', line)
        assert match, line
        assert match.group(1) not in found, "%s is there twice" % match.group(1)
        found[match.group(1)] = match.group(2)
    return found


def changed(**members):
    return {**copy.deepcopy(DOCUMENT), **members}


def with_first(array, **members):
    document = copy.deepcopy(DOCUMENT)
    document[array][0].update(members)
    return document


@fact
def document_is_shown():
    with Process(pieces(DOCUMENT)) as process:
        out, _ = weir("ps", PATIENT)
        assert re.search(r"%d +\S+ +actor +5 s +0 +main +32 MiB +1 MiB +0 B +0 B +256 MiB +/etc/weir/policy.yaml" % process.pid, out), out
        (told,) = ps_json()
        assert {key: told[key] for key in ("version", "policy", "age_ms", "labels", "devices", "pools", "tags")} == \
            {key: DOCUMENT[key] for key in ("version", "policy", "age_ms", "labels", "devices", "pools", "tags")}
        found = series(weir("metrics", PATIENT)[0])
        assert found['weir_tag_live_bytes{pid="%d",weir="1",program="actor",tag="kv"}' % process.pid] == str(1 << 20)
        shown = weir("show", PATIENT, "--pid", str(process.pid))[0]
        assert re.search(r"pools.main.keep +1MiB +live +weir set\n +keeper +false +live +default\n", shown), shown


@fact
def member_of_a_later_release_is_in_the_json():
    with Process(pieces(with_first("pools", later=[1, {"a": "b"}], is_new=True))):
        (told,) = ps_json()
        assert (told["pools"][0]["later"], told["pools"][0]["is_new"]) == ([1, {"a": "b"}], True)


@fact
def release_of_another_version_is_named_with_both_and_hides_nobody():
    denial = struct.pack("<I", 16) + b"version 2 is not spoken here".ljust(256, b"\0")
    with Process([packet(DENIED, 0, denial, version=1)]) as other, Process(pieces(DOCUMENT)) as process:
        out, err = weir("ps", PATIENT, status=2)
        assert "%d " % process.pid in out, out
        assert "process %d: " % other.pid in err and "speaks version 1 of the protocol, this one version 2: use the same release" in err, err
        assert {told["pid"]: told["status"] for told in ps_json(status=2)} == {process.pid: "WEIR_OK", other.pid: "WEIR_REFUSED"}
        assert series(weir("metrics", PATIENT, status=2)[0])['weir_process_up{pid="%d",weir="1"}' % other.pid] == "0"


WRONG = {
    "nothing": (b"", "their end is missing"),
    "half of it": (json.dumps(DOCUMENT).encode()[:-1], "their end is missing"),
    "no JSON": (b"<figures/>", "unexpected"),
    "something behind it": (json.dumps(DOCUMENT).encode() + b"{}", "unexpected"),
    "an array": (b"[]", "they are no object"),
    "a number": (b"17 ", "they are no object"),
    "depth": (b'{"a":' * 100, "nesting too deep"),
    "no UTF-8": (b'{"program": "\xff"}', "utf"),
    "no policy": (changed(policy=None), "there is no text 'policy'"),
    "a program of 5,000 characters": (changed(program="x" * 5000), "there is no text 'program'"),
    "no pools": (changed(pools=None), "there is no array 'pools'"),
    "pools that are none": (changed(pools=[1]), "item 0 of 'pools' is no object"),
    "a pool without a name": (with_first("pools", name=7), "item 0 of 'pools' is no object with 'name' and the number device"),
    "a pool on no device": (with_first("pools", device="0"), "item 0 of 'pools'"),
    "a pool on device -1": (with_first("pools", device=-1 << 40), "item 0 of 'pools'"),
    "a device without a UUID": (with_first("devices", uuid=None), "item 0 of 'devices'"),
    "a device with a large number": (with_first("devices", index=1 << 32), "item 0 of 'devices'"),
    "one device twice": (changed(devices=2 * DOCUMENT["devices"]), "one device is there twice"),
    "many devices": (changed(devices=[{**DOCUMENT["devices"][0], "index": n} for n in range(257)]), "there are 257 devices, more than 256"),
    "many objects": (b"[" + b"{}," * 250000 + b"{}]", "they are 750004 bytes, and to read them takes 304752052, more than 268435456"),
    "many values": (b"[" + b"0," * 1500000 + b"0]", "to read them takes 291001027, more than 268435456"),
    "many pools": (changed(pools=16385 * [{"device": 0, "name": "x"}]), "there are 16385 pools, more than 16384"),
    "many tags": (changed(tags=4097 * [{"name": "x"}]), "there are 4097 tags, more than 4096"),
    "a tag without a name": (changed(tags=[{}]), "item 0 of 'tags'"),
    "a value without a key": (changed(values=[{"value": "x"}]), "item 0 of 'values'"),
}


@fact
def what_is_no_document_is_refused_with_the_reason():
    for name, (document, reason) in WRONG.items():
        with Process(pieces(document)) as process:
            (told,) = ps_json(status=2)
            assert (told["pid"], told["status"], "pools" in told) == (process.pid, "WEIR_PROTOCOL", False), (name, told)
            assert "its figures cannot be read: " in told["reason"] and reason in told["reason"], (name, told["reason"])
            assert "cannot be read" in weir("show", PATIENT, "--pid", str(process.pid), status=2)[1], name
            series(weir("metrics", PATIENT, status=2)[0])


@fact
def what_is_too_long_is_refused():
    def endless():
        while True:
            yield packet(TEXT, 1, (b" " * PIECE).ljust(PIECE + 1, b"\0"))

    with Process(lambda: endless()):
        (told,) = ps_json(status=2)
        assert told["status"] == "WEIR_PROTOCOL" and "longer than 16 MiB" in told["reason"], told


@fact
def one_user_s_processes_do_not_take_all_memory():
    for name, later in (("objects", 90000 * [{}]), ("values", 500000 * [0])):
        with contextlib.ExitStack() as stack:
            for _ in range(8):
                stack.enter_context(Process(pieces(changed(later=later))))
            told = ps_json(status=2)
            good = [one["status"] for one in told].count("WEIR_OK")
            assert 3 < good < 8, (name, good)
            assert [one["reason"] for one in told if "reason" in one][-1].endswith("tell more than 512 MiB"), (name, told[-1])


@fact
def nor_do_their_texts_while_no_end_comes():
    heard, said = os.pipe()
    text = pieces(b" " * (16 << 20))[:-1]

    def long_text():
        try:
            yield from text
        finally:
            os.write(said, b"x")
        signal.pause()

    processes = [Process(lambda: long_text()) for _ in range(40)]
    with subprocess.Popen([WEIR, "ps", "--json", "--timeout=3600"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as command:
        for _ in processes:
            os.read(heard, 1)
        for process in processes:
            process.__exit__()
        told = json.loads(command.stdout.read())["processes"]
    os.close(heard)
    os.close(said)
    assert len(told) == 40 - 32 and all(one["reason"].endswith("tell more than 512 MiB") for one in told), told


@fact
def process_with_the_largest_policy_is_shown():
    document = changed(
        pools=[{**DOCUMENT["pools"][0], "name": "p%d" % n} for n in range(1024)], tags=[{"name": "t%d" % n} for n in range(4095)],
        values=[{"key": "k%d" % n, "value": "1", "live": True, "file": None} for n in range(22 * 1024 + 2 * 4096)])
    with Process(pieces(document)) as process:
        (told,) = ps_json()
        assert (len(told["pools"]), len(told["tags"])) == (1024, 4095)
        assert len(json.loads(weir("show", "--json", PATIENT, "--pid", str(process.pid))[0])["values"]) == 22 * 1024 + 2 * 4096


STRANGE = "\x1b[2J\x07\x7f\x85\u202e\"\\\n\u00e9"


@fact
def strange_texts_reach_no_terminal_and_no_metrics_as_they_are():
    document = changed(program=STRANGE, version=STRANGE, policy=STRANGE, labels={"rank": STRANGE, "job": STRANGE, STRANGE: STRANGE})
    document["devices"][0].update(uuid=STRANGE, quota_from=STRANGE)
    document["pools"] = [{**document["pools"][0], "name": STRANGE, STRANGE: STRANGE}]
    document["tags"] = [{"name": STRANGE + "a"}, {"name": STRANGE + "b"}]
    document["values"] = [{"key": STRANGE, "value": STRANGE, "file": STRANGE, "line": 1}]
    with Process(pieces(document)):  # as they are no process may send them
        assert "does not keep to the protocol" in ps_json(status=2)[0]["reason"]
    with Process(pieces(json.dumps(document).encode())) as process:
        for command in (("ps",), ("ps", "--list=pools"), ("metrics",), ("show", "--pid", str(process.pid)), ("doctor", "--gpu=sim")):
            done = subprocess.run([WEIR, *command, PATIENT], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.stdout.decode()), (command, done.stdout)
        series(weir("metrics", PATIENT)[0])
        (told,) = ps_json()
        assert told["program"] == STRANGE and told["pools"][0]["name"] == STRANGE, told
        shown = json.loads(weir("show", "--json", PATIENT, "--pid", str(process.pid))[0])
        assert shown["values"][0]["value"] == STRANGE, shown


@fact
def figures_of_another_type_count_as_none():
    for wrong in ("-1", "1e3", "NaN", "Infinity", "null", '"7"', "[]", "{}", "true"):
        text = json.dumps(with_first("pools", live="WRONG", reserved="WRONG", max_size="WRONG", is_private="WRONG"))
        with Process(pieces(text.replace('"WRONG"', wrong).encode())) as process:
            out, _ = weir("ps", PATIENT)
            assert re.search(r"main( \(private\))? +0 B +0 B +0 B +0 B +-", out), (wrong, out)
            found = series(weir("metrics", PATIENT)[0])
            assert any(name.startswith('weir_pool_live_bytes{pid="%d"' % process.pid) for name in found), wrong
            ps_json()


@fact
def largest_numbers_stay_what_they_are():
    def document(live):
        return pieces(json.dumps(with_first("pools", live="MUCH")).replace('"MUCH"', live).encode())

    with Process(document(str((1 << 64) - 1))):
        (told,) = ps_json()
        assert told["pools"][0]["live"] == (1 << 64) - 1, told["pools"]
    # json-c takes a larger one for the largest; from 0.18 on it refuses such a document.
    with Process(document("9" * 40)):
        try:
            (told,) = ps_json()
        except AssertionError:
            (told,) = ps_json(status=2)
            assert told["reason"].endswith("its figures cannot be read: number expected"), told
        else:
            assert told["pools"][0]["live"] == (1 << 64) - 1, told["pools"]


@fact
def private_pools_of_one_name_are_one_series_and_so_are_tags():
    own = {**DOCUMENT["pools"][0], "is_private": True, "max_size": 0, "kept_used": 5}
    with Process(pieces(changed(pools=3 * [own] + DOCUMENT["pools"], tags=2 * DOCUMENT["tags"]))) as process:
        found = series(weir("metrics", PATIENT)[0])
        labels = 'pid="%d",weir="1",program="actor",device="0",uuid="GPU-0123",pool="main",private=' % process.pid
        assert found['weir_pool_live_bytes{%s"true"}' % labels] == str(3 << 20), found
        assert found['weir_pool_max_size_bytes{%s"true"}' % labels] == "+Inf", found
        assert found['weir_pool_live_bytes{%s"false"}' % labels] == str(1 << 20), found
        assert found['weir_pool_kept_used_bytes_total{%s"true"}' % labels] == "15", found
        assert 'weir_pool_kept_used_bytes_total{%s"false"}' % labels not in found, found
        assert found['weir_tag_live_bytes{pid="%d",weir="1",program="actor",tag="kv"}' % process.pid] == str(2 << 20), found
        assert [audit["kept_used"] for audit in ps_json()[0]["audits"]] == [5, 5, 5]


@fact
def many_pools_are_shown_in_time():
    pools = [{**DOCUMENT["pools"][0], "is_private": True, "name": "p%d" % (n % 64)} for n in range(4096)]
    with Process(pieces(changed(pools=pools))):
        assert len(ps_json()[0]["pools"]) == 4096
        assert sum(name.startswith("weir_pool_live_bytes") for name in series(weir("metrics", PATIENT)[0])) == 64


def cpu_of(*arguments):
    """Seconds of the processor that the command took, and what it said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    out, _ = weir(*arguments, PATIENT)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, out


@fact
def names_that_differ_cost_no_more_than_their_number():
    with contextlib.ExitStack() as stack:
        for process in range(4):
            pools = [{"device": 0, "name": "%d-%d" % (process, n)} for n in range(4096)]
            devices = [{"index": n, "uuid": "GPU-%d-%d" % (process, n)} for n in range(256)]
            stack.enter_context(Process(pieces(changed(pools=pools, devices=devices))))
        reading, _ = cpu_of("ps", "--json")
        listing, names = cpu_of("ps", "--list=pools")
        writing, text = cpu_of("metrics")
        assert names.splitlines() == list(dict.fromkeys(names.splitlines())) and len(names.splitlines()) == 4 * 4096
        assert text.count("\nweir_gpu_memory_bytes{") == 4 * 256
        assert listing < 10 * reading, "to list them took %.2f s, to read them %.2f" % (listing, reading)
        assert writing < 50 * reading, "to write them took %.2f s, to read them %.2f" % (writing, reading)


os.makedirs(SOCKETS, mode=0o700)
os.environ.update(WEIR_CONTROL_DIR=FOLDER.name, WEIR_GPU="sim", HOME=FOLDER.name, LC_ALL="C.UTF-8")
for variable in ("WEIR_CONF", "WEIR_POLICY", "WEIR_QUOTA", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
    os.environ.pop(variable, None)
tap.main()
