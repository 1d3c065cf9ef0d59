# SPDX-License-Identifier: MIT
"""client_wire.py - the messages of doc/protocol.md as bytes, for client.py: what a message should not be raises ProtocolError."""
import struct

MAGIC = b"WEIR"
HEADER = struct.Struct("<4sHHII")  # magic, version, type, length of what follows, request
SIZE_MAX, METADATA_MAX, LEASES_MAX = 1024, 256, 1024
IMPORTER, OBSERVER = 1, 2
WAIT = 1
HAS_BLOCK, HAS_RELEASE = 1, 2
EVENT, DONE = 1, 2
NOT_FOUND, BUSY, TIMED_OUT, GONE, REFUSED, PROTOCOL = 5, 11, 14, 15, 16, 17
STATES = {1: "connected", 2: "hung", 3: "evicted"}
HOLDS = {1: "leased", 2: "releasing", 3: "mapped"}
NAME_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
U32, U64, PID = (1 << 32) - 1, (1 << 64) - 1, (1 << 31) - 1

FLOW = ("pushed", "bytes", "dropped", "refused", "hangs", "leases_given", "lag", "lag_high")

# Each type: number, who sends it, its request number, its fields. A field is (name, format, lowest, highest): the format is struct's, or
# 'name', 'name?' (may be empty), 'uuid', 'text' and 'piece', or 'zero2' and 'zero4' for reserved bytes.
LAYOUTS = {
    "HELLO": (1, "client", "some", [("role", "H", 1, 2), ("", "zero2"), ("name", "name?")]),
    "ACQUIRE": (2, "client", "some", [("flags", "I", 0, WAIT), ("name", "name")]),
    "SUBSCRIBE": (3, "client", "some", [("leases", "I", 0, LEASES_MAX - 1), ("name", "name")]),
    "UNSUBSCRIBE": (4, "client", "some", [("ring", "I", 1, U32)]),
    "RELEASE": (5, "client", "zero", [("lease", "I", 0, LEASES_MAX - 1), ("how", "H", 1, 2), ("", "zero2")]),
    "UNMAPPED": (6, "client", "zero", [("block", "Q", 1, U64)]),
    "RETIRED": (7, "client", "zero", [("epoch", "Q", 1, U64)]),
    "CANCEL": (8, "client", "some", []),
    "GOODBYE": (9, "client", "zero", []),
    "LIST": (10, "client", "some", []),
    "EVICT": (11, "client", "some", [("pid", "i", 1, PID)]),
    "COUNT": (12, "client", "some", []),
    "WELCOME": (32, "exporter", "some", [("epoch", "Q", 1, U64), ("pid", "i", 1, PID), ("pool", "name"), ("uuid", "uuid")]),
    "REFUSED": (33, "exporter", "any", [("status", "I", 1, 17), ("text", "text")]),
    "LEASE": (34, "exporter", "any", [
        ("lease", "I", 0, LEASES_MAX - 1), ("ring", "I", 0, U32), ("flags", "I", 0, 3), ("metadata_size", "I", 0, METADATA_MAX),
        ("sequence", "Q", 0, U64), ("block", "Q", 1, U64), ("size", "Q", 1, U64)]),  # and what decode_lease_rest() reads
    "SUBSCRIBED": (35, "exporter", "some", [
        ("ring", "I", 1, U32), ("depth", "I", 2, LEASES_MAX), ("leases", "I", 1, LEASES_MAX - 1), ("", "zero4"),
        ("slot_size", "Q", 1, U64)]),
    "WITHDRAW": (36, "exporter", "zero", [("block", "Q", 1, U64)]),
    "RETIRE": (37, "exporter", "zero", [("epoch", "Q", 1, U64)]),
    "ENDED": (38, "exporter", "zero", [("ring", "I", 1, U32)]),
    "DONE": (39, "exporter", "some", []),
    "IMPORTER": (40, "exporter", "some", [
        ("pid", "i", 1, PID), ("uid", "I", 0, U32), ("state", "H", 1, 3), ("", "zero2"), ("leases", "I", 0, U32), ("mappings", "I", 0, U32),
        ("", "zero4"), ("idle_ms", "Q", 0, U64), ("name", "name?")]),
    "HOLDS": (41, "exporter", "some", [
        ("pid", "i", 1, PID), ("hold", "H", 1, 3), ("", "zero2"), ("ring", "I", 0, U32), ("", "zero4"), ("sequence", "Q", 0, U64),
        ("block", "Q", 1, U64), ("size", "Q", 1, U64), ("held_ms", "Q", 0, U64), ("name", "name")]),
    "EXPORT": (42, "exporter", "some", [(name, "Q", 0, U64) for name in (
        "importers", "hung", "evicted", "blocks", "leases", "mappings", "evictions") + FLOW]),
    "RING": (43, "exporter", "some", [("ring", "I", 1, U32), ("overflow", "I", 0, 2)] + [(name, "Q", 0, U64) for name in (
        "slot_size", "depth", "taken", "queued", "readers", "hung") + FLOW] + [("name", "name")]),
    "OFFER": (65, "controller", "some", [("uuid", "uuid")]),
    "FIGURES": (76, "controller", "some", []),
    "OFFERED": (99, "process", "some", [("bytes", "Q", 0, U64), ("yielded", "Q", 0, U64)]),
    "READY": (101, "process", "some", []),
    "DENIED": (102, "process", "any", [("status", "I", 1, 17), ("text", "text")]),
    "TEXT": (108, "process", "some", [("piece", "piece")]),
}
NAME_OF = {layout[0]: name for name, layout in LAYOUTS.items()}
STRING_WIDTHS = {"name": 64, "name?": 64, "uuid": 48, "text": 256, "piece": 1008}


class ProtocolError(Exception):
    """The exporter said what the document does not allow."""


class OtherVersion(ProtocolError):
    """The exporter speaks another version of the protocol."""


class Refusal(Exception):
    """The exporter refused a request, or the connection."""

    def __init__(self, status, text):
        super().__init__(f"{text or 'refused'} (status {status})")
        self.status, self.text = status, text


class Ended(Exception):
    """The connection has ended: the exporter is gone, or retired its pool (then connect again)."""


class Timeout(Exception):
    """Nothing came in the time given."""


# Bytes ------------------------------------------------------------------------------------------------------------------------------------


def require(holds, what):
    if not holds:
        raise ProtocolError(what)


def version_of(number):
    """That of the sockets whose type it is: of exports, or control sockets."""
    return 1 if number < 64 else 2


def width_of(kind):
    if kind.startswith("zero"):
        return int(kind[4:])
    return STRING_WIDTHS.get(kind) or struct.calcsize("<" + kind)


def decode_string(kind, data, what):
    text, _, rest = data.partition(b"\0")
    require(len(text) < len(data), f"{what} has no end")
    require(not any(rest), f"{what} has bytes behind its end")
    if kind in ("text", "piece"):
        require(text or kind == "text", f"{what} is empty")
        require(all(c == 10 or (c >= 32 and c != 127) for c in text), f"{what} has control characters")
        return text.decode("utf-8", "replace")
    require(text or kind == "name?", f"{what} is empty")
    require(NAME_LETTERS.issuperset(text), f"{what} is no name: {text!r}")
    return text.decode("ascii")


def decode_field(field, data, what):
    name, kind = field[0], field[1]
    if kind.startswith("zero"):
        require(not any(data), f"{what} has bytes that should be zero")
        return None
    if kind in STRING_WIDTHS:
        return decode_string(kind, data, f"{what}'s {name}")
    value = struct.unpack("<" + kind, data)[0]
    require(field[2] <= value <= field[3], f"{what}'s {name} is {value}, not {field[2]} to {field[3]}")
    return value


def decode_lease_rest(data, fields):
    """What follows the fixed fields of LEASE: metadata, and the parts that its flags name."""
    size = fields["metadata_size"]
    padded = (size + 7) // 8 * 8
    parts = (136 if fields["flags"] & HAS_BLOCK else 0) + (64 if fields["flags"] & HAS_RELEASE else 0)
    require(len(data) == padded + parts, f"LEASE has {len(data)} bytes behind the fixed ones, not {padded + parts}")
    require(not any(data[size:padded]), "LEASE has bytes behind its metadata that should be zero")
    fields["metadata"] = data[:size]
    at = padded
    if fields["flags"] & HAS_BLOCK:
        fields["block_size"] = struct.unpack_from("<Q", data, at)[0]
        fields["shared"], fields["ready"] = data[at + 8:at + 72], data[at + 72:at + 136]
        require(fields["size"] <= fields["block_size"], "LEASE has more bytes than its block")
        at += 136
    if fields["flags"] & HAS_RELEASE:
        fields["release"] = data[at:at + 64]


def decode_relations(name, request, fields):
    if name == "LEASE":
        frame = fields["ring"] != 0
        require(frame == (fields["sequence"] != 0), "LEASE has a ring without sequence, or a sequence without ring")
        require(frame == (request == 0), "LEASE answers a request with a frame, or nothing with a block")
    if name == "SUBSCRIBED":
        require(fields["leases"] < fields["depth"], "SUBSCRIBED has as many leases as slots")


def decode(packet):
    """(name, request, fields) of a packet."""
    require(len(packet) >= 8 and packet[:4] == MAGIC, "this is no message of Weir")
    version, number = struct.unpack_from("<HH", packet, 4)
    if version != version_of(number):
        raise OtherVersion(f"the other side speaks version {version}, this client version {version_of(number)}")
    require(HEADER.size <= len(packet) <= SIZE_MAX, f"a packet of {len(packet)} bytes")
    _, _, number, length, request = HEADER.unpack_from(packet)
    require(number in NAME_OF, f"type {number} is unknown")
    name = NAME_OF[number]
    _, _, rule, layout = LAYOUTS[name]
    data = packet[HEADER.size:]
    require(length == len(data), f"{name} says {length} bytes and has {len(data)}")
    require(rule == "any" or (rule == "some") == (request != 0), f"{name} with request {request}")
    fields, at = {}, 0
    for field in layout:
        width = width_of(field[1])
        require(at + width <= len(data), f"{name} is too short")
        value = decode_field(field, data[at:at + width], name)
        if field[0]:
            fields[field[0]] = value
        at += width
    if name == "LEASE":
        decode_lease_rest(data[at:], fields)
    else:
        require(at == len(data), f"{name} is too long")
    decode_relations(name, request, fields)
    return name, request, fields


def encode(name, /, request=0, **fields):
    """The packet of a client's message."""
    number, _, _, layout = LAYOUTS[name]
    data = b""
    for field in layout:
        kind = field[1]
        if kind.startswith("zero"):
            data += bytes(width_of(kind))
        elif kind in STRING_WIDTHS:
            text = fields[field[0]].encode()
            if len(text) >= STRING_WIDTHS[kind]:
                raise ValueError(f"{field[0]} has {len(text)} characters: use at most {STRING_WIDTHS[kind] - 1}")
            data += text.ljust(STRING_WIDTHS[kind], b"\0")
        else:
            data += struct.pack("<" + kind, fields[field[0]])
    return HEADER.pack(MAGIC, version_of(number), number, len(data), request) + data
