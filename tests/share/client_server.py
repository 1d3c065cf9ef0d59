# SPDX-License-Identifier: MIT
"""client_server.py - the bytes of doc/protocol.md, written by hand, and a server that says what its script has, for client_test.py."""
import os
import socket
import tempfile
import threading

FOLDER = tempfile.TemporaryDirectory(prefix="weir-client-")


def packet(*parts):
    """Bytes from hexadecimal; a pair (hexadecimal, size) is filled with zeros up to its size."""
    return b"".join(bytes.fromhex(part) if isinstance(part, str) else bytes.fromhex(part[0]).ljust(part[1], b"\0") for part in parts)


def text(string, size):
    return string.encode().hex(), size


HELLO = packet("57454952 0100 0100 44000000 01000000", "0100 0000", text("client.py", 64))
HELLO_OBSERVER = packet("57454952 0100 0100 44000000 01000000", "0200 0000", text("client.py", 64))
WELCOME = packet("57454952 0100 2000 7c000000 01000000", "0100000000000000 d2040000", text("frames", 64), text("GPU-01", 48))
ACQUIRE = packet("57454952 0100 0200 44000000 02000000", "00000000", text("weights", 64))
ACQUIRE_WAIT = packet("57454952 0100 0200 44000000 02000000", "01000000", text("weights", 64))
LEASE = packet("57454952 0100 2200 f0000000 02000000", "00000000 00000000 03000000 00000000", "0000000000000000 0700000000000000",
               "0001000000000000", "0002000000000000", ("aa", 64), ("bb", 64), ("cc", 64))
LEASE_AGAIN = packet("57454952 0100 2200 28000000 03000000", "00000000 00000000 00000000 00000000", "0000000000000000 0700000000000000",
                     "0001000000000000")
RELEASE = packet("57454952 0100 0500 08000000 00000000", "00000000 0200 0000")
RELEASE_EVENT = packet("57454952 0100 0500 08000000 00000000", "00000000 0100 0000")
CANCEL = packet("57454952 0100 0800 00000000 02000000")
TIMED_OUT = packet("57454952 0100 2100 04010000 02000000", "0e000000", text("cancelled", 256))
NOT_FOUND = packet("57454952 0100 2100 04010000 02000000", "05000000", text("there is no block 'weights'", 256))
WITHDRAW = packet("57454952 0100 2400 08000000 00000000", "0700000000000000")
UNMAPPED = packet("57454952 0100 0600 08000000 00000000", "0700000000000000")
RETIRE = packet("57454952 0100 2500 08000000 00000000", "0100000000000000")
RETIRED = packet("57454952 0100 0700 08000000 00000000", "0100000000000000")
GOODBYE = packet("57454952 0100 0900 00000000 00000000")
SUBSCRIBE = packet("57454952 0100 0300 44000000 02000000", "00000000", text("camera", 64))
SUBSCRIBED = packet("57454952 0100 2300 18000000 02000000", "05000000 03000000 02000000 00000000", "0010000000000000")
UNSUBSCRIBE = packet("57454952 0100 0400 04000000 03000000", "05000000")
UNSUBSCRIBED = packet("57454952 0100 2700 00000000 03000000")
ENDED = packet("57454952 0100 2600 04000000 00000000", "05000000")
LIST = packet("57454952 0100 0a00 00000000 02000000")
LISTED = packet("57454952 0100 2700 00000000 02000000")
IMPORTER = packet("57454952 0100 2800 60000000 02000000", "4d000000 e8030000 0200 0000 01000000 02000000 00000000", "0300000000000000",
                  text("python3", 64))
HOLDS = packet("57454952 0100 2900 70000000 02000000", "4d000000 0200 0000 01000000 00000000", "0200000000000000 0300000000000000",
               "0400000000000000 0500000000000000", text("camera", 64))
COUNT = packet("57454952 0100 0c00 00000000 02000000")
EXPORT = packet("57454952 0100 2a00 78000000 02000000", "0100000000000000 0200000000000000", ("00", 40), ("0b", 8), ("00", 56))
RING = packet("57454952 0100 2b00 b8000000 02000000", "01000000 02000000", "0010000000000000 0300000000000000", ("00", 32), ("0c", 8),
              ("00", 56), text("camera", 64))
FIGURES = packet("57454952 0200 4c00 00000000 01000000")
OFFER = packet("57454952 0200 4100 30000000 01000000", text("GPU-01", 48))
OFFERED = packet("57454952 0200 6300 10000000 01000000", "0000008001000000 0000004000000000")
DOCUMENT = """{"version": "1.0", "pid": 1234, "program": "trainer", "age_ms": 1000, "policy": "/etc/weir/policy.yaml", "values": [],
"devices": [{"index": 2, "uuid": "GPU-01", "memory": 1073741824}],
"pools": [{"device": 2, "name": "frames", "live": 1, "cached": 2, "slack": 3, "idle": 4, "reserved": 10}], "tags": []}"""
READY = packet("57454952 0200 6500 00000000 01000000")
DENIED = packet("57454952 0200 6600 04010000 01000000", "10000000", text("not you", 256))
EVICT = packet("57454952 0100 0b00 04000000 02000000", "4d000000")


def frame(lease, sequence, block, first=False):
    """A frame of ring 5 with the metadata "abc". first: the client is told of the block and of the release event."""
    head = packet("57454952 0100 2200", ("f8" if first else "30", 4), "00000000")
    body = bytes([lease, 0, 0, 0, 5, 0, 0, 0, 3 if first else 0, 0, 0, 0, 3, 0, 0, 0]) + sequence.to_bytes(8, "little")
    body += block.to_bytes(8, "little") + packet("0001000000000000", ("616263", 8))
    return head + body + (packet("0002000000000000", ("aa", 64), ("bb", 64), ("cc", 64)) if first else b"")


def piece(part):
    return packet("57454952 0200 6c00 f0030000 01000000", text(part, 1008))


def changed(data, at, new):
    return data[:at] + bytes.fromhex(new) + data[at + len(new) // 2:]


def with_length(data, body):
    """The packet with other bytes behind the header, which tells their length."""
    return changed(data, 8, len(body).to_bytes(4, "little").hex())[:16] + body


class Server:
    """Plays a script on the first connection: bytes are expected of the client; (bytes, n) are sent, with n descriptors; None waits for
    the client to close. At the end it closes."""

    count = 0

    def __init__(self, *script):
        Server.count += 1
        self.path = os.path.join(FOLDER.name, f"socket{Server.count}")
        self.script, self.problem = script, None
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen(1)
        self.thread = threading.Thread(target=self.play)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.thread.join(120)
        self.listener.close()
        if kind is None and self.problem:
            raise AssertionError(self.problem)

    def play(self):
        self.listener.settimeout(60)
        connection, _ = self.listener.accept()
        with connection:
            connection.settimeout(60)
            for number, step in enumerate(self.script):
                if isinstance(step, tuple):
                    with open(os.devnull, "rb") as file:
                        socket.send_fds(connection, [step[0]], [file.fileno()] * step[1])
                    continue
                try:
                    got = connection.recv(2048)
                except OSError as error:
                    got = repr(error).encode()
                if got != (step or b""):
                    self.problem = f"step {number}: expected {step.hex() if step else 'the end'}, got {got.hex()}"
                    return


def says(data, fds=0):
    return data, fds
