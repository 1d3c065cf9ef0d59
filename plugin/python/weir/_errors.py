# SPDX-License-Identifier: MIT
"""What can go wrong, as weir.h has it, and how a program is told of what is no error."""

import contextlib
import enum
import os
import sys


class Status(enum.IntEnum):
    """weir_status of weir.h, which says of each when it occurs and what survives."""

    OK = 0
    OUT_OF_MEMORY = 1
    NO_HOST_MEMORY = 2
    INVALID = 3
    NOT_A_BLOCK = 4
    NOT_FOUND = 5
    BAD_POLICY = 6
    UNREADABLE = 7
    NO_GPU = 8
    NOT_SUPPORTED = 9
    CAPTURING = 10
    BUSY = 11
    FORKED = 12
    CUDA_ERROR = 13
    TIMEOUT = 14
    GONE = 15
    REFUSED = 16
    PROTOCOL = 17
    ENDED = 18


class WeirError(RuntimeError):
    """
    Something that Weir refused or could not do.

    status: which kind of thing, one of Status. text: what it was and what to do about it; of a policy, one line for
    each error, with file, line and column; of an out-of-memory, the report of what was tried.
    """

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text

    def __str__(self) -> str:
        return self.text


def tell(line: str) -> None:
    """
    Writes a line to stderr, if there is one that can be written to. Python's own stderr is written to by its descriptor: print() would leave a
    line for which there is no room in the buffer, and Python would end with status 120 because of it.
    """
    stream = sys.stderr
    is_pythons_own = stream is sys.__stderr__
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        if not is_pythons_own:
            print(line, file=stream, flush=True)
            return
        stream.flush()
        os.write(stream.fileno(), (line + "\n").encode(stream.encoding, "backslashreplace"))
