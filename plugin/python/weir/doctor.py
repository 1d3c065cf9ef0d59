# SPDX-License-Identifier: MIT
"""
python -m weir.doctor: what matters to Weir of this Python and its packages, what it means, and what to do.

Beside `weir doctor`, which looks at devices, limits and sockets, this looks at what only a Python knows: which torch and which
CuPy an import would find here, whether the plug-in's library can be loaded, and whether there is a shim. Neither package is
imported, as that takes seconds, and under `weir run` would make Weir torch's allocator: versions are read from their files.
Nothing is changed.
"""

import argparse
import ast
import glob
import importlib.util
import json
import os
import platform
import shutil
import stat
import sys
import textwrap
from typing import Any, Dict, List, NamedTuple, Optional

from weir import _library
from weir._errors import WeirError
from weir._version import VERSION
from weir.torch import _build, _conf

GOOD, NOTE, BAD = "good", "note", "bad"

_FILE_MAX = 1 << 16  # bytes of a file with a version
_TEXT_MAX = 1024  # characters of what is printed; what is longer is cut


class Finding(NamedTuple):
    """One thing that was looked at."""

    topic: str
    about: Optional[str]  # which one: a path, a variable; None: the topic itself
    state: str  # GOOD, NOTE (good to know) or BAD (to be repaired)
    text: str  # what is, and what it means
    remedy: Optional[str]  # what to do; None: nothing


# What is installed ------------------------------------------------------------------------------------------------------


def _folder(name: str) -> Optional[str]:
    """Where an import of that name would find a package; None: it would find none."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    # A folder of that name without an __init__.py has no origin, and is hardly meant.
    folders = list(spec.submodule_search_locations or []) if spec is not None and spec.origin else []
    return os.path.realpath(folders[0]) if folders else None


def _constants(path: str) -> Dict[str, str]:
    """The names that a file of Python sets to texts at its top level. The file is parsed, and nothing of it is run."""
    try:
        # Without O_NONBLOCK a pipe in the place of the file would keep the doctor waiting.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            text = file.read(_FILE_MAX) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
        statements = ast.parse(text).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: Dict[str, str] = {}
    for statement in statements:
        targets: List[Any] = list(statement.targets) if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            found.update({target.id: value.value for target in targets if isinstance(target, ast.Name)})
    return found


# What is looked at ------------------------------------------------------------------------------------------------------


def _package() -> Finding:
    here = f"{VERSION} for Python {platform.python_version()} ({sys.executable})"
    folder = os.path.dirname(os.path.abspath(__file__))
    if platform.python_implementation() != "CPython":
        remedy = "use CPython, if stacks are to have Python's frames"
        return Finding("package", folder, NOTE, f"{here} is not CPython: recorded stacks have no frames of Python", remedy)
    return Finding("package", folder, GOOD, here, None)


def _plugin() -> Finding:
    """The library that torch and CuPy allocate by."""
    path = _library.find()
    try:
        library = _library.load()
    except WeirError as error:
        named = "WEIR_TORCH_LIBRARY" in os.environ
        remedy = "correct or unset WEIR_TORCH_LIBRARY" if named else "install the library and the Python package of one release of Weir"
        return Finding("plug-in", path, BAD, error.text, remedy)
    return Finding("plug-in", library.path, GOOD, f"{library.version}: torch and CuPy can allocate from Weir", None)


def _shims(version: str) -> List[str]:
    """The shims of this release of Weir for that version of torch, whatever its ABI: which one it has, only an import tells."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    torch = f"torch-{glob.escape(version)}-*-{platform.machine()}"
    made = os.path.join(glob.escape(cache), "weir", f"{torch}-weir-{VERSION}", f"{_build.NAME}.*.so")
    # A wheel brings some, and its library may lie in another environment than this package.
    packages = {os.path.dirname(_build.__file__), os.path.join(os.path.dirname(_library.find()), os.pardir, "torch")}
    brought = [os.path.join(glob.escape(package), "shims", f"{torch}.*.so") for package in packages]
    return [path for pattern in [made, *brought] for path in glob.glob(pattern)]


def _torch() -> Finding:
    folder = _folder("torch")
    if folder is None:
        return Finding("torch", None, NOTE, "this Python has no PyTorch", None)
    constants = _constants(os.path.join(folder, "version.py"))
    version, cuda = constants.get("__version__"), constants.get("cuda")
    if not version:
        return Finding("torch", folder, BAD, "has no version that could be read in version.py", "install PyTorch anew")
    if not cuda:
        text = f"{version} is built without CUDA, so there is nothing for Weir to allocate"
        return Finding("torch", folder, NOTE, text, "install a PyTorch for CUDA, if it is to use a GPU")
    if _shims(version):
        return Finding("torch", folder, GOOD, f"{version} for CUDA {cuda}, and a shim of this release of Weir for it", None)
    text = f"{version} for CUDA {cuda}, with no shim of this release of Weir: torch works on Weir all the same, but for what doc/pytorch.md lists"
    return Finding("torch", folder, NOTE, text, _build.COMMAND)


def _cupy() -> List[Finding]:
    folder = _folder("cupy")
    if folder is None:
        return []
    version = _constants(os.path.join(folder, "_version.py")).get("__version__")
    if version is None:
        return [Finding("CuPy", folder, BAD, "has no version that could be read in _version.py", "install CuPy anew")]
    return [Finding("CuPy", folder, GOOD, f"{version}: cupy.cuda.set_allocator(weir.cupy.allocator()) has it allocate from Weir", None)]


def _environment() -> List[Finding]:
    """Variables that decide whether, and how, torch allocates from Weir."""
    findings = []
    if os.environ.get("WEIR_GPU") == "sim":
        text = "is 'sim': no kernel reaches the memory of the simulator, so enable() and weir run refuse it"
        findings.append(Finding("environment", "WEIR_GPU", BAD, text, "unset WEIR_GPU"))
    if "WEIR_RUN_REACHED" in os.environ:
        text = "this Python was started by weir run: once a program imports torch, torch allocates from Weir"
        findings.append(Finding("environment", "weir run", GOOD, text, None))
    if os.environ.get(_conf.UNCACHED):
        text = "is set: torch takes each tensor from CUDA and keeps nothing, on Weir as without"
        findings.append(Finding("environment", _conf.UNCACHED, NOTE, text, f"unset {_conf.UNCACHED}"))
    variable = next((name for name in _conf.VARIABLES if name in os.environ), None)
    for setting in _conf.settings():
        state = GOOD if setting.is_used else NOTE
        text = f"{setting.key}:{setting.value} {'' if setting.is_used else 'is not in force: '}{setting.text}"
        findings.append(Finding("environment", variable, state, text, None))
    return findings


def look() -> List[Finding]:
    """All findings, in the order in which they are shown."""
    return [_package(), _plugin(), _torch(), *_cupy(), *_environment()]


# The command ------------------------------------------------------------------------------------------------------------


def _plain(text: str) -> str:
    """On one line, with nothing that a terminal takes for an order: names and variables may have anything in them."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_TEXT_MAX])


def _words(findings: List[Finding], repair: int) -> str:
    width = max(shutil.get_terminal_size().columns, 40)
    lines: List[str] = []
    for finding in findings:
        state = "BAD" if finding.state == BAD else finding.state
        about = f" {finding.about}" if finding.about is not None else ""
        for first, text in [(state, f"{finding.topic}{about}: {finding.text}"), ("", f"To do: {finding.remedy}" if finding.remedy else "")]:
            if text:
                lines += textwrap.wrap(
                    _plain(text),
                    width,
                    initial_indent=f"  {first:4} ",
                    subsequent_indent=" " * 7,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
    lines += ["", f"{repair} thing{'s' if repair != 1 else ''} to repair." if repair else "Nothing to repair."]
    return "\n".join(lines + ["Devices, limits and sockets are looked at by: weir doctor", ""])


def _print(text: str) -> bool:
    """False, after a complaint: it could not be written. That a reader such as head has read enough is no error."""
    if sys.stdout is None:
        print("weir.doctor: cannot write the output: it is closed", file=sys.stderr)
        return False
    try:
        sys.stdout.write(text.encode(sys.stdout.encoding, "replace").decode(sys.stdout.encoding))
        sys.stdout.flush()
    except OSError as error:
        # Else the interpreter would try once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return True
        print(f"weir.doctor: cannot write the output: {error.strerror}", file=sys.stderr)
        return False
    return True


def main() -> int:
    """The exit status: 0 there is nothing to repair, 1 there is, 2 wrong usage or an output that cannot be written."""
    parser = argparse.ArgumentParser(
        prog="python -m weir.doctor",
        description="Looks at this Python, PyTorch, CuPy and Weir's parts for them. Exit status: 0 nothing to repair, 1 there is.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    findings = look()
    repair = sum(finding.state == BAD for finding in findings)
    status = 1 if repair else 0
    if arguments.json:
        document = {"findings": [finding._asdict() for finding in findings], "repair": repair, "status": status}
        text = json.dumps(document, indent=2) + "\n"
    else:
        text = _words(findings, repair)
    return status if _print(text) else 2


if __name__ == "__main__":
    sys.exit(main())
