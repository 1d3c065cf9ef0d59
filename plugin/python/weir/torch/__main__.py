# SPDX-License-Identifier: MIT
"""python -m weir.torch: what of Weir is found for this torch; python -m weir.torch build: compiles the shim for it."""

import argparse
import os
import sys

from weir import _library
from weir._errors import WeirError
from weir._version import VERSION
from weir.torch import _build, _conf


def _show() -> None:
    """One line for each part: package, library, torch, shim."""
    print(f"package  {VERSION}  {_library.__file__}")
    try:
        library = _library.load()
        print(f"library  {library.version}  {library.path}")
    except WeirError as error:
        print(f"library  none: {error}")
    try:
        import torch
    except ImportError as error:
        print(f"torch    none: {error}")
        return
    print(f"torch    {torch.__version__}  {torch.__file__}")
    for setting in _conf.settings():
        print(f"setting  {setting.key}:{setting.value}  {'' if setting.is_used else 'not in force: '}{setting.text}")
    if torch.version.cuda is None:
        print("shim     none: this torch is built without CUDA")
    elif _build.path() is not None:
        print(f"shim     {_build.path()}")
    elif _build.is_stale():
        print(f"shim     of another release of Weir only: run `{_build.COMMAND}`")
    else:
        print(f"shim     none: run `{_build.COMMAND}`")


def main() -> int:
    """The exit status."""
    # torch is imported to be looked at: `weir run` need not say what it lacks.
    os.environ["WEIR_RUN_TOLD"] = "1"
    parser = argparse.ArgumentParser(prog="python -m weir.torch", description="Weir for PyTorch. Without a command: what is found.")
    commands = parser.add_subparsers(dest="command")
    build = commands.add_parser(
        "build", help="compile the shim for this torch", description="Compiles the shim for this torch, for this user, and prints its path."
    )
    build.add_argument("--force", action="store_true", help="also if there is one already")
    build.add_argument("--verbose", action="store_true", help="show the compiler's command and what it says")
    arguments = parser.parse_args()
    if arguments.command is None:
        _show()
        return 0
    try:
        print(_build.build(arguments.force, arguments.verbose))
    except (WeirError, ImportError, OSError) as error:
        print(f"weir.torch: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
