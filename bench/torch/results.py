# SPDX-License-Identifier: MIT
"""
The results file of compare.py. The first line says what was measured on; each further line is a measurement, appended once it has
ended. So a run may be cut off anywhere: the next one goes on behind the last whole line. Of two lines of one key the later holds.

A line is a Row of figures.py, with the number of its `round`. Rows of requests alone have a `value` and its `unit`. A row of round 0
says why a contender was `skipped`. A file is read as anybody's: what is not as described here is refused by file and line.
"""

import fcntl
import json
import os
import re
import stat
from typing import Any, Dict, List, Tuple

from figures import Row

Machine = Dict[str, str]
Key = Tuple[str, str, int]
FORMAT = "weir compare 1"
SIZE_MOST = 64 << 20
ROUNDS_MOST = 1000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ,.+-]{0,79}")
NUMBERS = ("memory", "reserved", "allocated", "seconds", "value")
TEXTS = ("error", "skipped", "unit")


class Refused(Exception):
    """What is wrong with a file, and what to do about it."""


def key(row: Row) -> Key:
    """What a measurement is of."""
    return row["workload"], row["allocator"], row["round"]


def is_number(value: Any) -> bool:
    """Whether it is one that a measurement can have."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e18


def are_numbers(value: Any) -> bool:
    """The same of all in a list."""
    return isinstance(value, list) and all(is_number(one) for one in value)


def fault_of(row: Any) -> str:
    """What keeps it from being a measurement; "" if nothing does."""
    if not isinstance(row, dict):
        return "is no measurement"
    for name in ("workload", "allocator"):
        if not isinstance(row.get(name), str) or not NAME.fullmatch(row[name]):
            return f"has no name for its {name}"
    number = row.get("round")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= ROUNDS_MOST:
        return f"has no round from 0 to {ROUNDS_MOST}"
    for name in NUMBERS:
        if not is_number(row.get(name, 0)):
            return f"has no number for {name}"
    for name in TEXTS:
        if not isinstance(row.get(name, ""), str):
            return f"has no text for {name}"
    steps = row.get("rounds_ms", [])
    if not isinstance(steps, list) or not all(are_numbers(times) and times for times in steps):
        return "has no lists of milliseconds for rounds_ms"
    counted = row.get("counted", {})
    if not isinstance(counted, dict) or not are_numbers(list(counted.values())):
        return "has no numbers for counted"
    return fault_of_verdicts(row.get("asked", []))


def fault_of_verdicts(asked: Any) -> str:
    """The same of what weir-bench asked of its figures."""
    for one in asked if isinstance(asked, list) else [None]:
        if not isinstance(one, dict) or not all(isinstance(one.get(name), str) for name in ("name", "unit", "asked")):
            return "has no names of figures for asked"
        if not is_number(one.get("value")) or not is_number(one.get("limit")) or not isinstance(one.get("reached"), bool):
            return "has no figures for asked"
    return ""


def parsed(line: bytes) -> Any:
    """What a line says; None: nothing."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def read(path: str, data: bytes) -> Tuple[Machine, List[Row], int]:
    """The machine, the measurements, and how many bytes of the file are whole lines."""
    lines = data.split(b"\n")[:-1]
    first = parsed(lines[0]) if lines else None
    machine = None
    if isinstance(first, dict) and first.get("format") == FORMAT:
        machine = first.get("machine")
    if not isinstance(machine, dict) or not all(isinstance(value, str) for value in machine.values()):
        raise Refused(f"{path}: line 1 does not begin a file of results: name another folder, or remove the file")
    rows = []
    for number, line in enumerate(lines[1:], 2):
        row = parsed(line)
        fault = fault_of(row)
        if fault:
            raise Refused(f"{path}: line {number} {fault}: remove the line, and it is measured again")
        rows.append(row)
    return machine, rows, sum(len(line) + 1 for line in lines)


def read_all(descriptor: int, path: str) -> bytes:
    """The contents of a file that may be anything."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > SIZE_MOST:
        raise Refused(f"{path}: is no file of at most {SIZE_MOST >> 20} MiB: name another folder")
    with open(descriptor, "rb", closefd=False) as file:
        return file.read()


def load(path: str) -> Tuple[Machine, List[Row]]:
    """What a file has, whoever writes it meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}: name the results.jsonl of a run") from error
    try:
        return read(path, read_all(descriptor, path))[:2]
    finally:
        os.close(descriptor)


class Results:
    """The file while it is written. One process has it at a time."""

    def __init__(self, path: str, machine: Machine) -> None:
        self.path = path
        self.machine = machine
        self.rows: List[Row] = []
        try:
            self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o644)
        except OSError as error:
            raise Refused(f"{path}: {error.strerror}: name a folder that can be written") from error
        try:
            self.begin()
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Reads what is there, cuts off half a line, and begins a new file."""
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Refused(f"{self.path}: another run writes it: wait for its end, or name another folder") from error
        data = read_all(self.descriptor, self.path)
        header = json.dumps({"format": FORMAT, "machine": self.machine}).encode()
        if header.startswith(data):
            os.ftruncate(self.descriptor, 0)
            self.write(header + b"\n")
            return
        machine, self.rows, whole = read(self.path, data)
        for name in {**self.machine, **machine}:
            there, here = machine.get(name, "none"), self.machine.get(name, "none")
            if there != here:
                raise Refused(
                    f"{self.path}: was measured with {name} {there!r}, and here it is {here!r}, which cannot be compared: name another folder"
                )
        os.ftruncate(self.descriptor, whole)

    def write(self, data: bytes) -> None:
        """Appends all of it. What a full disk cuts off is measured again."""
        try:
            while data:
                data = data[os.write(self.descriptor, data) :]
        except OSError as error:
            raise Refused(f"{self.path}: {error.strerror}: make room, and run the same command again") from error

    def add(self, rows: List[Row]) -> None:
        """Measurements that have ended."""
        for row in rows:
            fault = fault_of(row)
            assert not fault, f"{row}: {fault}"
        self.rows += rows
        self.write(b"".join(json.dumps(row).encode() + b"\n" for row in rows))

    def latest(self) -> Dict[Key, Row]:
        """The measurements that hold."""
        return {key(row): row for row in self.rows}

    def close(self) -> None:
        """Gives the file to others."""
        os.close(self.descriptor)
