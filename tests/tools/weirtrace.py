# SPDX-License-Identifier: MIT
"""Reads `.weir` traces, format 1. Written from doc/trace.md alone, to see that the page is enough for another reader.

    for event in Trace(path).events: print(event)      # in the order of the file
"""

import ctypes
import struct

KINDS = {
    16: ("malloc", "stream pool address size given tag stack"),
    17: ("free", "stream pool address size given tag stack"),
    18: ("serve", "stream pool address size given tag stack"),
    19: ("keep", "stream pool address size given tag stack"),
    20: ("return", "stream pool address size given tag stack"),
    21: ("live", "stream pool address size given tag stack"),
    22: ("cached", "stream pool address size given tag stack"),
    23: ("graph malloc", "stream pool address size given tag stack"),
    24: ("graph free", "stream pool address size given tag stack"),
    32: ("map", "pool a b"),
    33: ("unmap", "pool a b"),
    34: ("trim", "pool a b"),
    35: ("figures", "pool a b"),
    36: ("settings", "pool a b"),
    37: ("stream open", "stream pool a"),
    38: ("stream close", "stream pool"),
    39: ("synchronise", "stream pool a"),
    40: ("wait", "pool a b"),
    41: ("rung", "pool a b"),
    42: ("out of memory", "stream pool a b"),
    43: ("mark", "a"),
    44: ("asked", "a b"),
    45: ("held", "stream pool address size given tag stack a b"),
    46: ("yield", "pool"),
    47: ("sleep", "pool a b"),
    48: ("wake", "pool a b"),
}
DEFINITIONS = {1: "pool", 2: "tag", 3: "name", 4: "stack", 5: "module", 6: "frame"}
SERVE_AND_KEEP = (18, 19)
CONTENT_MAX = 4 << 20
WRAP = (1 << 64) - 1


class Wrong(Exception):
    """The bytes are not as the page says."""


def crc32c(data):
    """CRC32C, with its table made once."""
    table = crc32c.__dict__.setdefault("table", [])
    for byte in range(256 if not table else 0):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    crc = WRAP >> 32
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ WRAP >> 32


def unzstd(frame):
    """One frame of zstd, by the library that Weir is linked with: Python has a module for it since 3.14 alone."""
    unpack = ctypes.CDLL("libzstd.so.1").ZSTD_decompress
    unpack.restype, unpack.argtypes = ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    content = ctypes.create_string_buffer(CONTENT_MAX)
    length = unpack(content, CONTENT_MAX, frame, len(frame))
    if length > CONTENT_MAX:
        raise Wrong("no frame of zstd")
    return content.raw[:length]


class Bytes:
    """Numbers and strings, one after the other."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def left(self):
        return len(self.data) - self.at

    def byte(self):
        if self.at >= len(self.data):
            raise Wrong("cut off")
        self.at += 1
        return self.data[self.at - 1]

    def number(self):
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > WRAP:
                    break
                return value
        raise Wrong("a number above 64 bits")

    def signed(self):
        return unzigzag(self.number())

    def bytes(self, most):
        length = self.number()
        if length > min(most, self.left()):
            raise Wrong("a string that is too long")
        self.at += length
        return self.data[self.at - length : self.at]

    def string(self, most=4096):
        return self.bytes(most).decode("utf-8", "replace")


def unzigzag(coded):
    return coded >> 1 if coded & 1 == 0 else -(coded >> 1) - 1


class Trace:
    """A whole file."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:4] != b"WEIR" or len(self.data) < 8:
            raise Wrong("no trace")
        if struct.unpack_from("<H", self.data, 4)[0] != 1:
            raise Wrong("another format")
        self.header, self.events, self.lost_bytes, self.lost_in_threads, self.end = {}, [], 0, 0, None
        self.definitions = {name: {} for name in DEFINITIONS.values()}  # of each id: (place, meaning), in the order of the file
        self.place = 0
        at = 8
        while at < len(self.data):
            length = self.block(at)
            if length:
                at += length
                continue
            found = self.data.find(b"WBLK", at + 1)
            found = len(self.data) if found < 0 else found
            self.lost_bytes += found - at
            at = found
        for event in self.events:
            self.resolve(event)

    def meaning(self, sort, number, place):
        """The last definition before the place, or the first behind it."""
        found = self.definitions[sort].get(number, [])
        before = [what for at, what in found if at < place]
        return before[-1] if before else found[0][1] if found else None

    def resolve(self, event):
        place = event.pop("place")
        for field in ("pool", "tag", "stack"):
            if field in event:
                event[field] = self.meaning(field, event[field], place)
        if event.get("stack"):
            event["stack"] = [self.meaning("frame", -frame, place) if frame < 0 else frame for frame in event["stack"]]
        if event["kind"] in ("mark", "stream open"):
            event["name"] = self.meaning("name", event["a"], place)

    def block(self, at):
        """Reads the block there. How long it is; 0: there is no whole one."""
        if len(self.data) - at < 20 or self.data[at : at + 4] != b"WBLK":
            return 0
        kind, coding, _, stored, decoded, crc = struct.unpack_from("<BBHIII", self.data, at + 4)
        content = self.data[at + 20 : at + 20 + stored]
        if decoded > CONTENT_MAX or len(content) < stored or crc32c(self.data[at : at + 16] + content) != crc:
            return 0
        if kind in (1, 2, 3):
            content = unzstd(content) if coding == 1 else content
            if len(content) != decoded:
                raise Wrong("another length than the block claims")
            (None, self.read_header, self.read_events, self.read_end)[kind](Bytes(content))
        return 20 + stored

    def read_header(self, content):
        for _ in range(content.number()):
            key = content.string()
            self.header[key] = content.string(1 << 20)

    def read_end(self, content):
        self.end = content.number()

    def read_events(self, content):
        thread, time, lost = content.number(), content.number(), content.number()
        self.lost_in_threads += lost
        state = {"time": time, "stream": 0, "address": 0, "orders": [0, 0]}
        while content.left():
            code = content.byte()
            if code in DEFINITIONS:
                self.read_definition(code, content)
            elif code in KINDS:
                self.events.append(self.read_event(code, content, thread, state))
            elif code >= 64:
                content.bytes(CONTENT_MAX)
            else:
                raise Wrong("a code that format 1 does not have")

    def read_definition(self, code, content):
        number = content.number()
        if code == 1:
            what = {"device": content.number(), "flags": content.number(), "name": content.string()}
        elif code in (2, 3):
            what = content.string()
        elif code == 4:
            what, before = [], 0
            for _ in range(content.number()):
                coded = content.number()
                if coded & 1:
                    what.append(-(coded >> 1))
                else:
                    before = before + unzigzag(coded >> 1) & WRAP
                    what.append(before)
        elif code == 5:
            what = [content.number() for _ in range(3)] + [content.string(), content.string()]
        else:
            what = [content.number(), content.string(), content.string()]
        self.place += 1
        self.definitions[DEFINITIONS[code]].setdefault(number, []).append((self.place, what))

    def read_event(self, code, content, thread, state):
        kind, fields = KINDS[code]
        event = {"kind": kind, "thread": thread}
        state["time"] += content.number()
        event["time"] = state["time"]
        sort = code in SERVE_AND_KEEP
        event["order"] = state["orders"][sort] + content.signed() & WRAP
        state["orders"][sort] = event["order"] + 1
        if sort:
            event["after"] = max(state["orders"][0] - 1, 0) + content.signed() & WRAP
        for field in fields.split():
            if field in ("stream", "address"):
                state[field] = event[field] = state[field] + content.signed() & WRAP
            elif field == "given":
                event[field] = event["size"] + content.number()
            else:
                event[field] = content.number()
        self.place += 1
        event["place"] = self.place
        return event
