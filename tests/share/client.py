#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""client.py - a client of a shared pool, and of a control socket, from doc/protocol.md alone, as a second opinion on what they say.

    client.py SOCKET acquire NAME [--wait SECONDS]
    client.py SOCKET read RING COUNT [--leases N] [--wait SECONDS]
    client.py SOCKET list
    client.py SOCKET evict PID
    client.py CONTROL-SOCKET figures
    client.py CONTROL-SOCKET offer UUID

SOCKET is what the policy has as share.socket, a path or a name; CONTROL-SOCKET is a path. Prints one JSON object a line. It never calls
CUDA: it keeps the pool's descriptor and imports nothing, releases with DONE, and answers WITHDRAW and RETIRE at once. It holds the other
side to the document: whatever a message, its order or its state should not be raises ProtocolError. Needs nothing but Python 3 on Linux.
"""
import argparse
import array
import contextlib
import json
import os
import select
import socket
import struct
import sys
import time

from client_wire import (DONE, Ended, HAS_BLOCK, HAS_RELEASE, HOLDS, IMPORTER, LAYOUTS, OBSERVER, ProtocolError, REFUSED, Refusal,
                         SIZE_MAX, STATES, Timeout, WAIT, decode, encode, require)

# The connection -------------------------------------------------------------------------------------------------------------------------


def find_socket(name):
    """The path of a share.socket."""
    if name.startswith("/"):
        return name
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folders = ([os.path.join(runtime, "weir", "share")] if runtime else []) + ["/run/weir/share"]
    paths = [os.path.join(folder, name) for folder in folders]
    return next((path for path in paths if os.path.exists(path)), paths[0])


def check_server(sock, path):
    pid, uid, gid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if uid not in (os.getuid(), 0, os.stat(os.path.dirname(path) or ".").st_uid):
        raise Refusal(REFUSED, f"{path} is served by process {pid} of user {uid}, group {gid}, who does not own it")


def receive_packet(sock, deadline):
    """The next packet, its flags and the descriptors that came with it, which are the caller's."""
    if not select.select([sock], [], [], max(0.0, deadline - time.monotonic()))[0]:
        raise Timeout("nothing was sent in time")
    arguments = SIZE_MAX, socket.CMSG_SPACE(4 * 4), socket.MSG_CMSG_CLOEXEC
    try:
        packet, ancillary, flags, _ = sock.recvmsg(*arguments)
    except ConnectionResetError:
        # Told once where the other side closed without reading all that it was sent; what it sent itself is still there.
        packet, ancillary, flags, _ = sock.recvmsg(*arguments)
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
    return packet, flags, fds


class Client:
    """One connection. An importer has .fd, the pool's descriptor, .epoch, .pid, .pool and .uuid; so has an observer, but for .fd.

    leases: number -> LEASE's fields; mapped: block -> its size; rings: number -> SUBSCRIBED's fields with 'frames', the list of those that
    came and were not taken by frame(), and 'ended'. automatic: WITHDRAW and RETIRE are answered as they come; else they wait in
    .unanswered.
    """

    def __init__(self, path, role=IMPORTER, name="client.py", timeout=60.0, automatic=True):
        self.timeout, self.automatic, self.role = timeout, automatic, role
        self.fd, self.over, self.request = -1, False, 0
        self.leases, self.mapped, self.rings, self.unanswered = {}, {}, {}, []
        self.numbers, self.withdrawn, self.ended_rings, self.answers, self.waiting = set(), set(), set(), {}, set()
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            self.sock.settimeout(timeout)
            self.sock.connect(find_socket(path))
            check_server(self.sock, find_socket(path))
            welcome = self.ask("HELLO", "WELCOME", role=role, name=name)
        except BaseException:
            self.close()
            raise
        self.epoch, self.pid, self.pool, self.uuid = (welcome[key] for key in ("epoch", "pid", "pool", "uuid"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the connection without GOODBYE, as a crash of the connection does."""
        self.over = True
        self.sock.close()
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    # Packets

    def send(self, name, /, request=0, **fields):
        if self.over:
            raise Ended("the connection has ended")
        packet = encode(name, request, **fields)
        try:
            self.sock.send(packet)
        except (BrokenPipeError, ConnectionResetError):
            # What the exporter said before it closed may tell why.
            while True:
                self.step(time.monotonic() + self.timeout)

    def receive(self, deadline):
        """The next message and the descriptor that came with it, or -1."""
        packet, flags, fds = receive_packet(self.sock, deadline)
        try:
            if not packet:
                self.over = True
                raise Ended("the exporter has closed the connection")
            require(not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC), "the packet was truncated")
            name, request, fields = decode(packet)
            require(LAYOUTS[name][1] == "exporter", f"the exporter sent {name}")
            expected = 1 if name == "WELCOME" and self.role == IMPORTER else 0
            require(len(fds) == expected, f"{name} came with {len(fds)} descriptors instead of {expected}")
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        return name, request, fields, fds[0] if fds else -1

    def step(self, deadline):
        """Takes one message from the exporter, and keeps or answers it."""
        name, request, fields, fd = self.receive(deadline)
        if fd >= 0:
            require(self.fd < 0, "a second WELCOME")
            self.fd = fd
        if request:
            require(request in self.waiting, f"{name} answers request {request}, which nobody asked")
            if name == "LEASE":
                self.take_lease(fields)
            elif name == "SUBSCRIBED":
                self.take_ring(fields)
            self.answers.setdefault(request, []).append((name, fields))
        else:
            getattr(self, "on_" + name.lower())(fields)

    def ask_begin(self, name, /, **fields):
        self.request += 1
        self.waiting.add(self.request)
        self.send(name, self.request, **fields)
        return self.request

    def answer(self, request, expected, deadline, last=None):
        """The fields of the answer; with `last`, the list of (name, fields) up to the message of that name."""
        found = []
        while True:
            while not self.answers.get(request):
                self.step(deadline)
            name, fields = self.answers[request].pop(0)
            if name == "REFUSED" or name == (last or expected):
                del self.answers[request]
                self.waiting.discard(request)
            if name == "REFUSED":
                raise Refusal(fields["status"], fields["text"])
            if last and name == last:
                return found
            require(name in (expected if last else (expected,)), f"{name} answers a request for {expected}")
            if not last:
                return fields
            found.append((name, fields))

    def ask(self, name, expected, /, **fields):
        return self.answer(self.ask_begin(name, **fields), expected, time.monotonic() + self.timeout)

    # What comes unasked

    def take_lease(self, fields):
        number, block = fields["lease"], fields["block"]
        require(number not in self.leases, f"lease {number} is given out twice")
        require(block not in self.withdrawn, f"block {block} is leased, and was withdrawn")
        require(bool(fields["flags"] & HAS_RELEASE) == (number not in self.numbers), f"lease {number}: HAS_RELEASE is wrong")
        require(bool(fields["flags"] & HAS_BLOCK) == (block not in self.mapped), f"block {block}: HAS_BLOCK is wrong")
        self.numbers.add(number)
        if fields["flags"] & HAS_BLOCK:
            self.mapped[block] = fields["block_size"]
        require(fields["size"] <= self.mapped[block], f"block {block} has {self.mapped[block]} bytes, the lease {fields['size']}")
        self.leases[number] = fields

    def take_ring(self, fields):
        require(fields["ring"] not in self.rings and fields["ring"] not in self.ended_rings, f"ring {fields['ring']} is given out twice")
        self.rings[fields["ring"]] = dict(fields, frames=[], ended=False, sequence=0)

    def on_lease(self, fields):
        ring = self.rings.get(fields["ring"])
        require(ring and not ring["ended"], f"a frame of ring {fields['ring']}, which has none")
        require(fields["sequence"] > ring["sequence"], f"frame {fields['sequence']} after {ring['sequence']}")
        require(fields["size"] <= ring["slot_size"], "a frame larger than the slots")
        ring["sequence"] = fields["sequence"]
        self.take_lease(fields)
        held = sum(lease["ring"] == fields["ring"] for lease in self.leases.values())
        require(held <= ring["leases"], f"{held} leases of a ring that gives {ring['leases']}")
        ring["frames"].append(fields)

    def on_ended(self, fields):
        require(fields["ring"] in self.rings and not self.rings[fields["ring"]]["ended"], f"ring {fields['ring']} ended without being open")
        self.rings[fields["ring"]]["ended"] = True

    def on_withdraw(self, fields):
        block = fields["block"]
        require(all(lease["block"] != block for lease in self.leases.values()), f"block {block} is withdrawn while it is leased")
        require(block in self.mapped and block not in self.withdrawn, f"block {block} is withdrawn out of the blue")
        self.withdrawn.add(block)
        self.unanswered.append(("WITHDRAW", fields))
        if self.automatic:
            self.answer_all()

    def on_retire(self, fields):
        require(fields["epoch"] == self.epoch, f"epoch {fields['epoch']} is retired, this is {self.epoch}")
        require(not self.leases and not self.mapped, "the pool is retired while blocks are mapped")
        self.unanswered.append(("RETIRE", fields))
        if self.automatic:
            self.answer_all()

    def on_refused(self, fields):
        self.over = True
        raise Refusal(fields["status"], fields["text"])

    def answer_all(self):
        """Answers each WITHDRAW and RETIRE that came. Raises Ended after a RETIRE."""
        while self.unanswered:
            name, fields = self.unanswered.pop(0)
            if name == "WITHDRAW":
                del self.mapped[fields["block"]]
                self.send("UNMAPPED", block=fields["block"])
            else:
                self.send("RETIRED", epoch=fields["epoch"])
                self.wait_for_end()
                raise Ended(f"the pool of epoch {self.epoch} is retired: connect again")

    def wait_for_end(self):
        """Until the exporter has closed the connection; what crossed on the way is dropped."""
        deadline = time.monotonic() + self.timeout
        try:
            while True:
                self.receive(deadline)
        except Ended:
            return

    def poll(self, seconds):
        """Takes what comes for so long."""
        deadline = time.monotonic() + seconds
        try:
            while True:
                self.step(deadline)
        except Timeout:
            return

    # What an importer asks

    def acquire(self, name, wait=0.0):
        """Leases the block of a name; wait: how many seconds until there is one. The lease is the dict of LEASE's fields."""
        request = self.ask_begin("ACQUIRE", flags=WAIT if wait else 0, name=name)
        if wait:
            try:
                return self.answer(request, "LEASE", time.monotonic() + wait)
            except Timeout:
                self.send("CANCEL", request)
        return self.answer(request, "LEASE", time.monotonic() + self.timeout)

    def release(self, lease, how=DONE):
        require(self.leases.pop(lease["lease"], None) is not None, f"lease {lease['lease']} is not held")
        self.send("RELEASE", lease=lease["lease"], how=how)

    def subscribe(self, name, leases=0):
        """The number of a subscription."""
        return self.ask("SUBSCRIBE", "SUBSCRIBED", leases=leases, name=name)["ring"]

    def frame(self, ring, wait=None):
        """The next frame of a subscription, a lease; None once the ring has ended."""
        deadline = time.monotonic() + (self.timeout if wait is None else wait)
        state = self.rings[ring]
        while not state["frames"]:
            if state["ended"]:
                return None
            self.step(deadline)
        return state["frames"].pop(0)

    def unsubscribe(self, ring):
        """Frames that were not taken are given back."""
        self.ask("UNSUBSCRIBE", "DONE", ring=ring)
        for lease in self.rings.pop(ring)["frames"]:
            self.release(lease)
        self.ended_rings.add(ring)

    def goodbye(self):
        for lease in list(self.leases.values()):
            self.release(lease)
        for block in list(self.mapped):
            self.send("UNMAPPED", block=block)
        self.send("GOODBYE")
        self.wait_for_end()
        self.close()

    # What an observer asks

    def list(self):
        """[(IMPORTER's fields, [HOLDS' fields, ...]), ...]"""
        request = self.ask_begin("LIST")
        found = []
        for name, fields in self.answer(request, ("IMPORTER", "HOLDS"), time.monotonic() + self.timeout, last="DONE"):
            if name == "IMPORTER":
                found.append((fields, []))
            else:
                require(found and found[-1][0]["pid"] == fields["pid"], "HOLDS of another importer than the last")
                found[-1][1].append(fields)
        return found

    def count(self):
        """(EXPORT's fields, [RING's fields, ...])"""
        answer = self.answer(self.ask_begin("COUNT"), ("EXPORT", "RING"), time.monotonic() + self.timeout, last="DONE")
        found = list(answer)
        require([name for name, _ in found] == ["EXPORT"] + ["RING"] * (len(found) - 1), "no EXPORT, or not at the beginning")
        return found[0][1], [fields for _, fields in found[1:]]

    def evict(self, pid):
        self.ask("EVICT", "DONE", pid=pid)


class Controller:
    """One connection to a control socket."""

    def __init__(self, path, timeout=60.0):
        self.timeout, self.request = timeout, 0
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            self.sock.settimeout(timeout)
            self.sock.connect(path)
            check_server(self.sock, path)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def receive(self, deadline):
        packet, flags, fds = receive_packet(self.sock, deadline)
        for fd in fds:
            os.close(fd)
        if not packet:
            raise Ended("the process has closed the connection")
        require(not fds, "the packet came with a descriptor")
        require(not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC), "the packet was truncated")
        name, request, fields = decode(packet)
        require(LAYOUTS[name][1] == "process", f"the process sent {name}")
        if name == "DENIED" and request in (0, self.request):
            raise Refusal(fields["status"], fields["text"])
        require(request == self.request, f"{name} answers request {request}, the last one is {self.request}")
        return name, fields

    def ask(self, name, last, /, **fields):
        """The answer up to the message that ends it, as a list of (name, fields)."""
        deadline = time.monotonic() + self.timeout
        self.request += 1
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # what it said before it closed may tell why
            self.sock.send(encode(name, self.request, **fields))
        answers = []
        while not answers or answers[-1][0] != last:
            answers.append(self.receive(deadline))
        return answers

    def figures(self):
        """The document, which is JSON."""
        answers = self.ask("FIGURES", "READY")
        require(all(name == "TEXT" for name, _ in answers[:-1]), f"FIGURES is answered by {', '.join(name for name, _ in answers)}")
        try:
            document = json.loads("".join(fields["piece"] for _, fields in answers[:-1]))
        except ValueError as error:
            raise ProtocolError(f"the figures are no JSON: {error}") from error
        for pool in document["pools"]:
            require(any(device["index"] == pool["device"] for device in document["devices"]), f"no device is that of pool {pool['name']}")
            used = pool["live"] + pool["cached"] + pool["slack"]
            require(used + pool["idle"] == pool["reserved"] + pool.get("asleep", 0), f"the figures of pool {pool['name']} do not add up")
        return document

    def offer(self, uuid):
        answers = self.ask("OFFER", "OFFERED", uuid=uuid)
        require(len(answers) == 1, f"OFFER is answered by {answers[0][0]}")
        return answers[0][1]["bytes"]


# The command ----------------------------------------------------------------------------------------------------------------------------


def show(fields):
    # The handles of CUDA say nothing to people.
    shown = {key: value for key, value in fields.items() if key not in ("shared", "ready", "release")}
    print(json.dumps({key: value.hex() if isinstance(value, bytes) else value for key, value in shown.items()}), flush=True)


def run_controller(arguments):
    with Controller(arguments.socket) as controller:
        show(controller.figures() if arguments.command == "figures" else {"bytes": controller.offer(arguments.uuid)})


def run(arguments):
    if arguments.command in ("figures", "offer"):
        run_controller(arguments)
        return
    role = OBSERVER if arguments.command in ("list", "evict") else IMPORTER
    with Client(arguments.socket, role) as client:
        if arguments.command == "list":
            for importer, holds in client.list():
                show(dict(importer, state=STATES[importer["state"]], holds=[dict(hold, hold=HOLDS[hold["hold"]]) for hold in holds]))
            return
        if arguments.command == "evict":
            client.evict(arguments.pid)
            return
        if arguments.command == "acquire":
            lease = client.acquire(arguments.name, arguments.wait)
            show(lease)
            client.release(lease)
        else:
            ring = client.subscribe(arguments.ring, arguments.leases)
            for _ in range(arguments.count):
                lease = client.frame(ring, arguments.wait or None)
                if lease is None:
                    break
                show(lease)
                client.release(lease)
            client.unsubscribe(ring)
        client.goodbye()


def main():
    parser = argparse.ArgumentParser(description="A client of a shared pool or a control socket that calls no CUDA.")
    parser.add_argument("socket")
    commands = parser.add_subparsers(dest="command", required=True)
    acquire = commands.add_parser("acquire")
    acquire.add_argument("name")
    read = commands.add_parser("read")
    read.add_argument("ring")
    read.add_argument("count", type=int)
    read.add_argument("--leases", type=int, default=0)
    for command in (acquire, read):
        command.add_argument("--wait", type=float, default=0.0, metavar="SECONDS")
    commands.add_parser("list")
    commands.add_parser("evict").add_argument("pid", type=int)
    commands.add_parser("figures")
    commands.add_parser("offer").add_argument("uuid")
    arguments = parser.parse_args()
    try:
        run(arguments)
    except (ProtocolError, Refusal, Ended, Timeout, OSError) as error:
        print(f"client.py: {arguments.socket}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
