#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""client_test.py - client.py against a server that says what its script has: the bytes of doc/protocol.md, written by hand. Speaks TAP."""
import contextlib
import functools
import io
import json
import os
import sys

import client as wire
import client_wire
from client_server import (ACQUIRE, ACQUIRE_WAIT, CANCEL, COUNT, DENIED, DOCUMENT, ENDED, EVICT, EXPORT, FIGURES, FOLDER, GOODBYE,
                           HELLO, HELLO_OBSERVER, HOLDS, IMPORTER, LEASE, LEASE_AGAIN, LIST, LISTED, NOT_FOUND, OFFER, OFFERED,
                           READY, RELEASE, RELEASE_EVENT, RETIRE, RETIRED, RING, SUBSCRIBE, SUBSCRIBED, Server, TIMED_OUT, UNMAPPED,
                           UNSUBSCRIBE, UNSUBSCRIBED, WELCOME, WITHDRAW, changed, frame, packet, piece, says, with_length)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))
import tap

SHORT = 0.05  # seconds: long enough for nothing to come


GREETING = (HELLO, says(WELCOME, 1))
LEASED = GREETING + (ACQUIRE, says(LEASE))
SUBSCRIPTION = GREETING + (SUBSCRIBE, says(SUBSCRIBED))


def fact(function):
    """One that leaves no descriptor either."""

    @functools.wraps(function)
    def closes_all():
        fds = len(os.listdir("/proc/self/fd"))
        function()
        left = len(os.listdir("/proc/self/fd")) - fds
        assert left == 0, f"{left} descriptors are left"

    return tap.fact(closes_all)


def expect(exception, call, *arguments, has=""):
    try:
        call(*arguments)
    except exception as error:
        assert has in str(error), f"'{error}' does not have '{has}'"
        return error
    raise AssertionError(f"no {exception.__name__}")


# Facts ------------------------------------------------------------------------------------------------------------------------------------


@fact
def importer_is_welcomed_with_a_descriptor():
    with Server(*GREETING, None) as server, wire.Client(server.path) as importer:
        assert (importer.epoch, importer.pid, importer.pool, importer.uuid) == (1, 1234, "frames", "GPU-01")
        assert os.fstat(importer.fd)
        assert not os.get_inheritable(importer.fd)


@fact
def observer_is_welcomed_without_a_descriptor():
    with Server(HELLO_OBSERVER, says(WELCOME), None) as server, wire.Client(server.path, wire.OBSERVER) as observer:
        assert observer.fd == -1


@fact
def block_of_a_name_is_leased_and_released():
    with Server(*LEASED, RELEASE, None) as server, wire.Client(server.path) as importer:
        lease = importer.acquire("weights")
        assert (lease["block"], lease["size"], lease["block_size"], lease["metadata"]) == (7, 256, 512, b"")
        assert (lease["shared"][:2], lease["ready"][:2], lease["release"][:2]) == (b"\xaa\0", b"\xbb\0", b"\xcc\0")
        importer.release(lease)


@fact
def second_lease_of_a_block_needs_no_handles():
    again = changed(ACQUIRE, 12, "03")
    with Server(*LEASED, RELEASE_EVENT, again, says(LEASE_AGAIN), RELEASE, None) as server, wire.Client(server.path) as importer:
        importer.release(importer.acquire("weights"), client_wire.EVENT)
        lease = importer.acquire("weights")
        assert "ready" not in lease and "release" not in lease
        importer.release(lease)


@fact
def refused_request_says_why_and_leaves_the_connection():
    with Server(*GREETING, ACQUIRE, says(NOT_FOUND), GOODBYE) as server, wire.Client(server.path) as importer:
        assert expect(wire.Refusal, importer.acquire, "weights", has="there is no block").status == client_wire.NOT_FOUND
        importer.goodbye()


@fact
def waiting_is_given_up_by_cancel():
    with Server(*GREETING, ACQUIRE_WAIT, CANCEL, says(TIMED_OUT), None) as server, wire.Client(server.path) as importer:
        assert expect(wire.Refusal, importer.acquire, "weights", SHORT).status == client_wire.TIMED_OUT


@fact
def lease_that_crosses_cancel_counts():
    with Server(*GREETING, ACQUIRE_WAIT, CANCEL, says(LEASE), RELEASE, None) as server, wire.Client(server.path) as importer:
        importer.release(importer.acquire("weights", SHORT))


@fact
def withdrawn_block_is_unmapped():
    with Server(*LEASED, RELEASE, says(WITHDRAW), UNMAPPED) as server, wire.Client(server.path) as importer:
        importer.release(importer.acquire("weights"))
        expect(wire.Ended, importer.poll, 5)
        assert not importer.mapped


@fact
def unmapping_can_be_put_off():
    with Server(*LEASED, RELEASE, says(WITHDRAW), UNMAPPED, None) as server, wire.Client(server.path, automatic=False) as importer:
        importer.release(importer.acquire("weights"))
        importer.step(wire.time.monotonic() + 60)
        assert importer.mapped and importer.unanswered
        importer.answer_all()
        assert not importer.mapped


@fact
def retired_pool_ends_the_connection():
    with Server(*GREETING, says(RETIRE), RETIRED) as server, wire.Client(server.path) as importer:
        expect(wire.Ended, importer.poll, 5, has="connect again")


@fact
def goodbye_gives_everything_back_first():
    with Server(*LEASED, RELEASE, UNMAPPED, GOODBYE) as server, wire.Client(server.path) as importer:
        importer.acquire("weights")
        importer.goodbye()


@fact
def frames_come_in_order_with_their_metadata():
    script = (says(frame(0, 1, 7, True)), says(frame(1, 4, 8, True)), RELEASE, changed(RELEASE, 16, "01"), None)
    with Server(*SUBSCRIPTION, *script) as server, wire.Client(server.path) as importer:
        ring = importer.subscribe("camera")
        first, second = importer.frame(ring), importer.frame(ring)
        assert (first["sequence"], second["sequence"], first["metadata"]) == (1, 4, b"abc")
        importer.release(first)
        importer.release(second)


@fact
def frames_that_cross_unsubscribe_are_given_back():
    script = (UNSUBSCRIBE, says(frame(0, 1, 7, True)), says(UNSUBSCRIBED), RELEASE, None)
    with Server(*SUBSCRIPTION, *script) as server, wire.Client(server.path) as importer:
        importer.unsubscribe(importer.subscribe("camera"))


@fact
def ended_ring_has_no_more_frames():
    script = (says(frame(0, 1, 7, True)), says(ENDED), RELEASE, None)
    with Server(*SUBSCRIPTION, *script) as server, wire.Client(server.path) as importer:
        ring = importer.subscribe("camera")
        lease = importer.frame(ring)
        assert importer.frame(ring) is None
        importer.release(lease)


@fact
def frame_that_does_not_come_is_a_timeout():
    with Server(*SUBSCRIPTION, None) as server, wire.Client(server.path) as importer:
        expect(wire.Timeout, importer.frame, importer.subscribe("camera"), SHORT)


@fact
def observer_gets_who_holds_what():
    script = (HELLO_OBSERVER, says(WELCOME), LIST, says(IMPORTER), says(HOLDS), says(changed(IMPORTER, 16, "4e")), says(LISTED), None)
    with Server(*script) as server, wire.Client(server.path, wire.OBSERVER) as observer:
        (first, holds), (second, none) = observer.list()
        assert (first["pid"], first["uid"], first["state"], first["leases"], first["mappings"]) == (77, 1000, 2, 1, 2)
        assert (first["idle_ms"], first["name"], second["pid"], none) == (3, "python3", 78, [])
        assert [(hold["hold"], hold["sequence"], hold["block"], hold["size"], hold["held_ms"]) for hold in holds] == [(2, 2, 3, 4, 5)]


@fact
def observer_gets_what_went_through():
    with Server(HELLO_OBSERVER, says(WELCOME), COUNT, says(EXPORT), says(RING), says(LISTED), None) as server:
        with wire.Client(server.path, wire.OBSERVER) as observer:
            whole, (ring,) = observer.count()
    assert (whole["importers"], whole["hung"], whole["pushed"] & 0xff) == (1, 2, 11)
    assert (ring["name"], ring["overflow"], ring["slot_size"], ring["depth"], ring["pushed"] & 0xff) == ("camera", 2, 4096, 3, 12)


@fact
def observer_of_an_exporter_that_cannot_count_reads_the_end():
    with Server(HELLO_OBSERVER, says(WELCOME), COUNT) as server, wire.Client(server.path, wire.OBSERVER) as observer:
        expect(wire.Ended, observer.count)


@fact
def observer_evicts():
    script = (HELLO_OBSERVER, says(WELCOME), EVICT, says(LISTED), None)
    with Server(*script) as server, wire.Client(server.path, wire.OBSERVER) as observer:
        observer.evict(77)


@fact
def refused_connection_says_why():
    with Server(HELLO, says(changed(changed(NOT_FOUND, 12, "01"), 16, "10"))) as server:
        assert expect(wire.Refusal, wire.Client, server.path).status == wire.REFUSED


@fact
def connection_refused_before_hello_says_why():
    with Server(says(changed(changed(NOT_FOUND, 12, "00"), 16, "10")), HELLO) as server:
        assert expect(wire.Refusal, wire.Client, server.path).status == wire.REFUSED


@fact
def refusal_is_heard_though_the_exporter_has_closed():
    with Server(says(changed(changed(NOT_FOUND, 12, "00"), 16, "10"))) as server:
        assert expect(wire.Refusal, wire.Client, server.path).status == wire.REFUSED
    with Server(*GREETING, says(changed(changed(NOT_FOUND, 12, "00"), 16, "10"))) as server, wire.Client(server.path) as importer:
        server.thread.join(120)
        assert expect(wire.Refusal, importer.acquire, "weights").status == wire.REFUSED


@fact
def other_version_is_named():
    with Server(HELLO, says(packet("57454952 0300 ffff"))) as server:
        expect(client_wire.OtherVersion, wire.Client, server.path, has="version 3")


@fact
def end_of_the_exporter_is_told():
    with Server(*GREETING) as server, wire.Client(server.path) as importer:
        expect(wire.Ended, importer.poll, 5)


@fact
def exporter_that_is_not_there_is_an_error():
    expect(OSError, wire.Client, os.path.join(FOLDER.name, "nobody"))


@fact
def eviction_is_told():
    with Server(*GREETING, says(changed(changed(NOT_FOUND, 12, "00"), 16, "10"))) as server, wire.Client(server.path) as importer:
        expect(wire.Refusal, importer.poll, 5)


# What an exporter must not say: (why, what it says after the greeting or the lease, what the client says of it).
WRONG = [
    ("another magic", changed(WITHDRAW, 0, "58"), "no message"),
    ("a client's type", RETIRED, "sent RETIRED"),
    ("an unknown type", changed(WITHDRAW, 6, "2c"), "type 44"),
    ("a length of its own", changed(WITHDRAW, 8, "09"), "says 9 bytes"),
    ("a long packet", with_length(WITHDRAW, WITHDRAW[16:] + bytes(1)), "too long"),
    ("a short packet", with_length(WITHDRAW, WITHDRAW[16:20]), "too short"),
    ("a packet over the limit", WITHDRAW + bytes(1024), "truncated"),
    ("a request number", changed(WITHDRAW, 12, "01"), "request 1"),
    ("an answer to nobody", LEASE_AGAIN, "nobody asked"),
    ("no block", changed(WITHDRAW, 16, "00"), "block is 0"),
    ("a frame of no ring", frame(0, 1, 7, True), "ring 5"),
    ("the end of no ring", ENDED, "ring 5"),
    ("a withdrawal of what is not mapped", WITHDRAW, "block 7"),
    ("another epoch", changed(RETIRE, 16, "02"), "epoch 2"),
]
WRONG_LEASES = [
    ("unknown flags", changed(LEASE, 24, "07"), "flags"),
    ("lease 1,024", changed(LEASE, 16, "0004"), "lease is 1024"),
    ("more than the block", changed(LEASE, 48, "0102"), "more bytes"),
    ("a sequence without ring", changed(LEASE, 32, "01"), "sequence"),
    ("metadata that are not there", changed(LEASE, 28, "01"), "not 208"),
    ("bytes behind the metadata", with_length(LEASE, changed(LEASE, 28, "01")[16:56] + packet("6101", ("", 6)) + LEASE[56:]), "zero"),
    ("no handles of a new block", changed(LEASE_AGAIN, 12, "02"), "HAS_RELEASE"),
]
WRONG_FRAMES = [
    ("a sequence again", (frame(0, 1, 7, True), frame(1, 1, 8, True)), "frame 1 after 1"),
    ("a lease again", (frame(0, 1, 7, True), frame(0, 2, 8)), "given out twice"),
    ("handles again", (frame(0, 1, 7, True), frame(1, 2, 7, True)), "HAS_BLOCK"),
    ("more leases than given", (frame(0, 1, 7, True), frame(1, 2, 8, True), frame(2, 3, 9, True)), "3 leases"),
    ("a withdrawn block that is leased", (frame(0, 1, 7, True), WITHDRAW), "while it is leased"),
    ("a retired pool that is mapped", (frame(0, 1, 7, True), RETIRE), "mapped"),
]


def drain(importer):
    while True:
        importer.step(wire.time.monotonic() + 60)


@fact
def wrong_messages_are_refused():
    for why, wrong, has in WRONG:
        print(f"# {why}")
        with Server(*GREETING, says(wrong)) as server, wire.Client(server.path) as importer:
            expect(wire.ProtocolError, drain, importer, has=has)


@fact
def wrong_leases_are_refused():
    for why, wrong, has in WRONG_LEASES:
        print(f"# {why}")
        with Server(*GREETING, ACQUIRE, says(wrong)) as server, wire.Client(server.path) as importer:
            expect(wire.ProtocolError, importer.acquire, "weights", has=has)


@fact
def wrong_frames_are_refused():
    for why, wrong, has in WRONG_FRAMES:
        print(f"# {why}")
        with Server(*SUBSCRIPTION, *map(says, wrong)) as server, wire.Client(server.path) as importer:
            importer.subscribe("camera")
            expect(wire.ProtocolError, drain, importer, has=has)


@fact
def descriptors_come_only_where_they_belong():
    for script, has in (
        ((HELLO, says(WELCOME)), "0 descriptors"),
        ((HELLO, says(WELCOME, 2)), "2 descriptors"),
        ((HELLO, says(WELCOME, 20)), "truncated"),
    ):
        with Server(*script) as server:
            expect(wire.ProtocolError, wire.Client, server.path, has=has)
    with Server(*GREETING, says(WITHDRAW, 1)) as server, wire.Client(server.path) as importer:
        expect(wire.ProtocolError, drain, importer, has="1 descriptors")


@fact
def name_that_is_too_long_is_not_sent():
    with Server(*GREETING, None) as server, wire.Client(server.path) as importer:
        expect(ValueError, importer.acquire, "x" * 64, has="at most 63")


def command(*arguments):
    """The command's exit status, and its lines as JSON."""
    sys.argv = ["client.py", *arguments]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        status = wire.main()
    return status, [json.loads(line) for line in out.getvalue().splitlines()]


@fact
def command_acquires():
    with Server(*LEASED, RELEASE, UNMAPPED, GOODBYE) as server:
        status, (lease,) = command(server.path, "acquire", "weights")
    assert (status, lease["block"], lease["metadata"], "ready" in lease) == (0, 7, "", False)


@fact
def command_reads_a_ring():
    script = (says(frame(0, 1, 7, True)), RELEASE, says(frame(0, 2, 7)), RELEASE, says(ENDED),
              UNSUBSCRIBE, says(UNSUBSCRIBED), UNMAPPED, GOODBYE)
    with Server(*SUBSCRIPTION, *script) as server:
        status, leases = command(server.path, "read", "camera", "3")
    assert (status, [(lease["sequence"], lease["metadata"]) for lease in leases]) == (0, [(1, "616263"), (2, "616263")])


@fact
def command_lists():
    with Server(HELLO_OBSERVER, says(WELCOME), LIST, says(IMPORTER), says(HOLDS), says(LISTED), None) as server:
        status, (importer,) = command(server.path, "list")
    assert (status, importer["state"], importer["holds"][0]["hold"]) == (0, "hung", "releasing")


@fact
def command_evicts():
    with Server(HELLO_OBSERVER, says(WELCOME), EVICT, says(LISTED), None) as server:
        assert command(server.path, "evict", "77") == (0, [])


@fact
def controller_gets_all_figures():
    pieces = says(piece(DOCUMENT[:99])), says(piece(DOCUMENT[99:]))
    with Server(FIGURES, *pieces, says(READY), None) as server, wire.Controller(server.path) as controller:
        process = controller.figures()
    assert (process["pid"], process["program"], process["version"], process["age_ms"]) == (1234, "trainer", "1.0", 1000)
    assert (process["devices"][0]["uuid"], process["pools"][0]["name"]) == ("GPU-01", "frames")


@fact
def controller_gets_an_offer():
    with Server(OFFER, says(OFFERED), None) as server, wire.Controller(server.path) as controller:
        assert controller.offer("GPU-01") == 6 << 30


@fact
def controller_that_is_denied_says_why():
    for denial in (DENIED, changed(DENIED, 12, "00")):
        with Server(FIGURES, says(denial)) as server, wire.Controller(server.path) as controller:
            assert expect(wire.Refusal, controller.figures, has="not you").status == wire.REFUSED


@fact
def controller_takes_no_answer_that_does_not_belong_there():
    wrong = {
        "answers request 2": (changed(piece(DOCUMENT), 12, "02"),),
        "no JSON": (piece(DOCUMENT[:-1]), READY),
        "answered by OFFERED, READY": (OFFERED, READY),
        "sent DONE": (changed(changed(READY, 6, "27"), 4, "01"),),
        "version 1, this client version 2": (changed(READY, 4, "01"),),
        "piece is empty": (piece(""),),
        "no device is that of": (piece(DOCUMENT.replace('"index": 2', '"index": 3')), READY),
        "do not add up": (piece(DOCUMENT.replace('"live": 1', '"live": 2')), READY),
    }
    for what, answers in wrong.items():
        with Server(FIGURES, *map(says, answers), None) as server, wire.Controller(server.path) as controller:
            expect(wire.ProtocolError, controller.figures, has=what)


@fact
def controller_takes_no_descriptor():
    with Server(OFFER, says(OFFERED, 1), None) as server, wire.Controller(server.path) as controller:
        expect(wire.ProtocolError, controller.offer, "GPU-01", has="a descriptor")


@fact
def controller_knows_the_end():
    with Server(OFFER) as server, wire.Controller(server.path) as controller:
        expect(wire.Ended, controller.offer, "GPU-01")


@fact
def command_shows_figures_and_offers():
    with Server(FIGURES, says(piece(DOCUMENT)), says(READY), None) as server:
        status, (process,) = command(server.path, "figures")
    assert (status, process["pools"][0]["name"]) == (0, "frames")
    with Server(OFFER, says(OFFERED), None) as server:
        assert command(server.path, "offer", "GPU-01") == (0, [{"bytes": 6 << 30}])


@fact
def command_fails_where_nobody_listens():
    assert command(os.path.join(FOLDER.name, "nobody"), "list") == (1, [])


if __name__ == "__main__":
    tap.main()
