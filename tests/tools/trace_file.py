# SPDX-License-Identifier: MIT
"""trace_file.py - writes small .weir files for tests, by doc/trace.md alone."""
import struct

from weirtrace import crc32c

KINDS = {
    "malloc": (16, "spz"), "free": (17, "spz"), "serve": (18, "spz"), "keep": (19, "spz"), "return": (20, "spz"),
    "live": (21, "spz"), "cached": (22, "spz"), "map": (32, "pab"), "unmap": (33, "pab"), "trim": (34, "pab"),
    "figures": (35, "pab"), "settings": (36, "pab"), "stream open": (37, "spa"), "stream close": (38, "sp"), "synchronise": (39, "spa"),
    "wait": (40, "pab"), "rung": (41, "pab"), "out of memory": (42, "spab"), "mark": (43, "a"), "asked": (44, "ab"), "held": (45, "spzab"),
    "yield": (46, "p"), "sleep": (47, "pab"), "wake": (48, "pab"),
}
ARENA, HOST, PRIVATE, UNAWARE = 1, 2, 4, 8
MASK = (1 << 64) - 1


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value):
    value = (value + (1 << 63) & MASK) - (1 << 63)
    return varint((value << 1 ^ value >> 63) & MASK)


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return varint(len(data)) + data


def block(kind, content):
    head = struct.pack("<4sBBHII", b"WBLK", kind, 0, 0, len(content), len(content))
    return head + struct.pack("<I", crc32c(head + content)) + content


class Trace:
    """Events go to one block of each thread. Orders are given out as events are added, so that one without a row is a lost event."""

    def __init__(self, **pairs):
        self.pairs = {"weir": "0.1.0", "pid": "4711", "program": "train", "started.monotonic": "5", "started.real": "1700000000000000000",
                      "reason": "file", "level": "all", "stacks": "true", "driver": "0"}
        self.pairs.update((key.replace("_", "."), str(value)) for key, value in pairs.items())
        self.definitions = b""
        self.threads = {}
        self.orders = {}
        self.time = 0

    def pool(self, number, name, device=0, flags=0):
        self.definitions += bytes([1]) + varint(number) + varint(device) + varint(flags) + string(name)

    def tag(self, number, text):
        self.definitions += bytes([2]) + varint(number) + string(text)

    def name(self, number, text):
        self.definitions += bytes([3]) + varint(number) + string(text)

    def module(self, number, first, size, path, offset=0, build_id=""):
        self.definitions += bytes([5]) + varint(number) + varint(first) + varint(size) + varint(offset) + string(build_id) + string(path)

    def line(self, number, line, function, file):
        self.definitions += bytes([6]) + varint(number) + varint(line) + string(function) + string(file)

    def stack(self, number, frames):
        """Frames: an address, or, below 2^32, the number of a line."""
        out, before = bytes([4]) + varint(number) + varint(len(frames)), 0
        for frame in frames:
            if frame < 1 << 32:
                out += varint(frame << 1 | 1)
                continue
            step = (frame - before + (1 << 63) & MASK) - (1 << 63)
            out += varint(((step << 1 ^ step >> 63) & MASK) << 1)
            before = frame
        self.definitions += out

    def event(self, kind, thread=100, lost=False, **values):
        """Values: stream, pool, address, size, given, tag, stack, a, b, time (ns; else one more microsecond)."""
        self.time = values.pop("time", self.time + 1000)
        values.setdefault("given", values.get("size", 0))
        sort = ("stream", values.get("stream", 0)) if kind in ("serve", "keep") else "weir"
        order = self.orders[sort] = self.orders.get(sort, 0) + 1
        if not lost:
            values["after"] = self.orders.get("weir", 0)
            self.threads.setdefault(thread, []).append((kind, self.time, order, values))

    def encode(self, kind, time, order, values, state):
        code, fields = KINDS[kind]
        sort = kind in ("serve", "keep")
        out = bytes([code]) + varint(time - state["time"]) + signed(order - state[sort])
        if sort:
            out += signed(values["after"] - state["weir"])
        else:
            state["weir"] = order
        state["time"], state[sort] = time, order + 1
        names = {"p": "pool", "g": "tag", "t": "stack", "a": "a", "b": "b"}
        if "s" in fields:
            out += signed(values.get("stream", 0) - state["stream"])
            state["stream"] = values.get("stream", 0)
        if "z" in fields:
            size, address = values.get("size", 0), values.get("address", 0)
            out += varint(values.get("pool", 0)) + signed(address - state["address"]) + varint(size) + varint(values["given"] - size)
            out += varint(values.get("tag", 0)) + varint(values.get("stack", 0))
            state["address"] = address
        for field in fields:
            if field in names and (field != "p" or "z" not in fields):
                out += varint(values.get(names[field], 0))
        return out

    def write(self, path):
        pairs = b"".join(string(key) + string(value) for key, value in self.pairs.items())
        out = b"WEIR" + struct.pack("<HH", 1, 0) + block(1, varint(len(self.pairs)) + pairs)
        definitions = self.definitions
        for thread, events in self.threads.items():
            state = {"time": events[0][1], "stream": 0, "address": 0, "weir": 0, True: 0, False: 0}
            content = varint(thread) + varint(events[0][1]) + varint(0) + definitions
            definitions = b""
            out += block(2, content + b"".join(self.encode(*event, state) for event in events))
        out += block(3, varint(0))
        with open(path, "wb") as file:
            file.write(out)
        return path
