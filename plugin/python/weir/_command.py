# SPDX-License-Identifier: MIT
"""The command `weir` of a wheel: the program that lies in it takes the place of this process."""

import os
import sys
from typing import NoReturn

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "weir")


def main() -> NoReturn:
    """Does not return; ends with status 126 if the program cannot be run."""
    try:
        os.execv(PROGRAM, ["weir"] + sys.argv[1:])
    except OSError as error:
        print(f"weir: cannot run {PROGRAM}: {error.strerror}; it is of a wheel alone: install that of Weir", file=sys.stderr)
        sys.exit(126)
