# SPDX-License-Identifier: MIT
"""python -m weir.trace import: traces of what other programs wrote; python -m weir.trace export: files for other programs, of traces."""

import argparse
import gzip
import io
import os
import stat
import sys
import zlib
from typing import IO, Any, List, Optional, Tuple, cast

from weir._errors import Status, WeirError
from weir.trace import _rmm, _snapshot
from weir.trace._read import output
from weir.trace._write import Making

_SNAPSHOT = b"\x80"  # what a pickle begins with


def _say(text: str) -> None:
    """Names and files are of anybody: what a terminal would obey is shown as Python writes it."""
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    print(f"weir.trace: {shown}", file=sys.stderr)


def _open(path: str) -> IO[bytes]:
    """A pipe that nobody writes to is empty; of one that somebody writes to, each read waits for more."""
    file: IO[bytes] = sys.stdin.buffer
    if path != "-":
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    if stat.S_ISCHR(os.fstat(file.fileno()).st_mode):
        raise OSError(0, "it is a device, and no file")
    os.set_blocking(file.fileno(), True)
    return file


def _read(path: str) -> Tuple[Making, str]:
    try:
        file = cast(io.BufferedReader, _open(path))
        if file.peek(2)[:2] == b"\x1f\x8b":
            unpacked: Any = gzip.GzipFile(fileobj=file)
            file = io.BufferedReader(unpacked)
        head = file.peek(4)[:4]
        if head == b"WEIR":
            raise WeirError(Status.INVALID, "it is a trace of Weir already")
        return _snapshot.read(file) if head[:1] == _SNAPSHOT else _rmm.read(file)
    except (OSError, EOFError, zlib.error) as error:
        raise WeirError(Status.UNREADABLE, f"it cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _import(arguments: argparse.Namespace) -> None:
    name = arguments.name or ("standard input" if arguments.file == "-" else arguments.file)
    if arguments.output == "-" and os.isatty(1):
        raise WeirError(Status.INVALID, "a trace is not for a terminal: name a file with --output")
    try:
        making, left_out = _read(arguments.file)
    except WeirError as error:
        raise WeirError(error.status, f"{name}: {error.text}") from None
    making.values["program"] = os.path.basename(name)
    making.write_file(arguments.output)
    if left_out:
        _say(f"{name}: {left_out}")
    if not arguments.quiet:
        kind, lacks = making.values["imported"], making.values["imported.lacks"]
        _say(f"{name}: {kind}, of which {len(making):,} events were made. {lacks}")


def _export(arguments: argparse.Namespace) -> None:
    from weir.trace import read

    traces = [read(path) for path in arguments.file]
    for trace in traces:
        if trace.losses["first"]:
            _say(f"{trace.path}: {trace.losses['first']}")
    if arguments.memory_viz is not None:
        from weir.trace._viz import to_memory_viz

        to_memory_viz(traces, arguments.memory_viz)
    if arguments.perfetto is not None:
        from weir.trace._perfetto import to_perfetto

        to_perfetto(traces, arguments.perfetto)
    if arguments.rmm is not None:
        if len(traces) > 1:
            raise WeirError(Status.INVALID, "a log of RMM is of one process: export each trace into a file of its own")
        output(arguments.rmm, _rmm.to_rmm(traces[0]), traces)


def main(arguments: Optional[List[str]] = None) -> int:
    """The exit status: 0 it is done, 2 it could not be."""
    parser = argparse.ArgumentParser(prog="python -m weir.trace", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("import", help="make a trace of a memory snapshot of torch, or of a log of RMM")
    make.add_argument("file", metavar="FILE", help="the snapshot or the log, which may be packed with gzip; -: standard input")
    make.add_argument("-o", "--output", metavar="TRACE", required=True, help="the new trace; -: standard output")
    make.add_argument("--name", help="what the file is called in messages and in the trace")
    make.add_argument("-q", "--quiet", action="store_true", help="do not say what was made, and what such a file does not tell")
    files = "FILE may be -, standard output. One that is there is replaced; links are refused, devices and pipes written to."
    give = commands.add_parser("export", help="write traces for other tools", epilog=files)
    give.add_argument("file", metavar="TRACE", nargs="+")
    form = give.add_mutually_exclusive_group(required=True)
    form.add_argument("--memory-viz", metavar="FILE", help="a snapshot for torch's viewers of memory")
    form.add_argument("--perfetto", metavar="FILE", help="a trace for ui.perfetto.dev; needs the package perfetto")
    form.add_argument("--rmm", metavar="FILE", help="a log of RMM, of one trace")
    try:
        parsed = parser.parse_args(arguments)
        (_import if parsed.command == "import" else _export)(parsed)
    except WeirError as error:
        _say(str(error))
        return 2
    except MemoryError:
        _say("there is no host memory for it")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
