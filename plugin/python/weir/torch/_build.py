# SPDX-License-Identifier: MIT
"""
Compiles shim.cpp against the torch of this Python, and finds what was compiled.

torch promises no binary interface between its versions, so there is one shim for each torch and each release of Weir, which
serves every Python that this torch is there for. A wheel may bring some, in shims/ beside this file. Others are made on the
user's machine, into ${XDG_CACHE_HOME:-~/.cache}/weir/torch-VERSION-ABI-MACHINE-weir-VERSION/. The name of the file has a
digest of the sources, so that one of other sources is never loaded. Nothing here is ever removed or changed for another
release: what a running process has loaded stays where it is.
"""

import contextlib
import fcntl
import glob
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from typing import Iterator, List, Optional, Tuple

from weir._errors import Status, WeirError, tell
from weir._version import VERSION

NAME = "weir_torch_shim"
# What makes the shim. `weir run`, which sets that variable, finds this package where Python alone may not.
COMMAND = ("weir run -- " if "WEIR_TORCH_PATCH" in os.environ else "") + "python -m weir.torch build"
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_SOURCES = ["shim.cpp", "shim_blocks.h", "shim_history.h", "shim_ledger.h", "shim_library.h", "shim_regions.h", "shim_trackers.h"]
_SOURCES += ["weir_torch.h", "weir.h"]
_LIBRARIES = ["c10", "c10_cuda", "torch", "torch_cpu", "torch_cuda"]


def _digest() -> str:
    """Of the sources: a shim that was made of others does not fit."""
    digest = hashlib.sha256()
    for name in _SOURCES:
        with open(os.path.join(_FOLDER, name), "rb") as source:
            digest.update(source.read())
    return digest.hexdigest()[:16]


def _torch() -> str:
    """What tells torches apart that need shims of their own."""
    import torch

    abi = "cxx11" if torch.compiled_with_cxx11_abi() else "precxx11"
    return f"torch-{torch.__version__}-{abi}-{platform.machine()}"


def _folders() -> str:
    """What the folders of the shims for this torch begin with, whatever the release of Weir."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "weir", f"{_torch()}-weir-")


def folder() -> str:
    """Where the shims for this torch and this release of Weir are made, whether there are any or not."""
    return _folders() + VERSION


def _target() -> str:
    return os.path.join(folder(), f"{NAME}.{_digest()}.so")


def _brought() -> str:
    """The shim that a wheel brings for this torch, whether it does or not."""
    return os.path.join(_FOLDER, "shims", f"{_torch()}.{_digest()}.so")


def path() -> Optional[str]:
    """The shim for this torch and this release of Weir, one that was made here first; None: there is none, COMMAND makes it."""
    return next((path for path in (_target(), _brought()) if os.path.exists(path)), None)


def is_stale() -> bool:
    """Whether there are shims for this torch, but none of this release of Weir."""
    return path() is None and bool(glob.glob(os.path.join(glob.escape(_folders()) + "*", NAME + ".*.so")))


def _compiler() -> List[str]:
    """The command of a C++ compiler: $CXX or what is usual."""
    chosen = os.environ.get("CXX")
    if chosen:
        command = shlex.split(chosen)
        if shutil.which(command[0]) is None:
            raise WeirError(Status.NOT_FOUND, f"there is no C++ compiler {command[0]}, which $CXX names: correct or unset CXX")
        return command
    for name in ["c++", "g++", "clang++"]:
        if shutil.which(name) is not None:
            return [name]
    raise WeirError(Status.NOT_FOUND, "there is no C++ compiler (c++, g++, clang++): install one, or name it in $CXX")


def _cuda_folders() -> Iterator[str]:
    """Where CUDA's headers may be, the likeliest to fit first: what the user says, what came with torch, what the system has."""
    import torch

    for variable in ["CUDA_HOME", "CUDA_PATH"]:
        if os.environ.get(variable):
            yield os.path.join(os.environ[variable], "include")
    packages = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__)))
    major = str(torch.version.cuda).split(".", maxsplit=1)[0]
    for name in [f"cu{major}", "cuda_runtime", "cuda_nvcc"]:
        yield os.path.join(packages, "nvidia", name, "include")
    nvcc = shutil.which("nvcc")
    if nvcc:
        yield os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "include")
    yield "/usr/local/cuda/include"
    yield "/usr/include"
    # Comes with torch, and has crt/, which the packages of the runtime lack.
    yield os.path.join(packages, "triton", "backends", "nvidia", "include")


def _is_of_torch(directory: str) -> bool:
    """Whether the runtime's headers there are of the major version that this torch is built with."""
    import torch

    try:
        with open(os.path.join(directory, "cuda_runtime_api.h"), encoding="utf-8", errors="replace") as file:
            version = re.search(r"^#define CUDART_VERSION +(\d+)", file.read(), re.M)
    except OSError:
        return False
    return version is not None and int(version.group(1)) // 1000 == int(str(torch.version.cuda).split(".", maxsplit=1)[0])


def _cuda_includes() -> List[str]:
    """
    The folders that CUDA's headers take: those of the runtime, and, where they are packed apart, those of its compiler. Those
    of torch's own major version come before others, as functions have other names in each.
    """
    folders = sorted(_cuda_folders(), key=lambda directory: not _is_of_torch(directory))
    found: List[str] = []
    for header in ["cuda_runtime_api.h", os.path.join("crt", "host_defines.h")]:
        first = next((name for name in folders if os.path.exists(os.path.join(name, header))), None)
        if first is None:
            raise WeirError(
                Status.NOT_FOUND,
                f"there is no {header} in " + ", ".join(folders) + ": install CUDA's headers (the toolkit, or `pip install "
                "nvidia-cuda-runtime nvidia-cuda-crt`) and set CUDA_HOME to where their include/ is",
            )
        if not any(os.path.exists(os.path.join(name, header)) for name in found):
            found.append(first)
    # Compilers know this one, and are confused if it is named.
    return [name for name in found if name != "/usr/include"]


def _standard(version: str) -> int:
    """Of C++, which torch's headers are written in."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return 20 if (major, minor) >= (2, 14) else 17


def _command(target: str, source: str = os.path.join(_FOLDER, "shim.cpp")) -> List[str]:
    """What compiles the shim, or another C++ library of torch's."""
    import torch

    if torch.version.cuda is None:
        raise WeirError(Status.NOT_SUPPORTED, f"torch {torch.__version__} is built without CUDA, so there is nothing for Weir to allocate")
    command = _compiler() + ["-O2", "-fPIC", "-shared", f"-std=c++{_standard(torch.__version__)}"]
    # Types are shared only between libraries that agree on this.
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    home = os.path.dirname(os.path.abspath(torch.__file__))
    includes = [os.path.join(home, "include"), os.path.join(home, "include", "torch", "csrc", "api", "include")]
    for name in includes + _cuda_includes():
        command += ["-isystem", name]
    # No run path: torch has loaded its libraries before, wherever they are.
    command += [source, "-o", target, "-L" + os.path.join(home, "lib")]
    return command + ["-l" + name for name in _LIBRARIES]


def _compile(target: str, verbose: bool = False) -> None:
    """Makes the shim, or raises what the compiler said."""
    command = _command(target)
    if verbose:
        print(shlex.join(command), flush=True)
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    except OSError as error:
        raise WeirError(Status.NOT_FOUND, f"cannot run the C++ compiler {command[0]}: {error.strerror}: name another in $CXX") from error
    if verbose and done.stdout:
        print(done.stdout, end="", flush=True)
    if done.returncode != 0:
        raise WeirError(
            Status.NOT_SUPPORTED, f"{shlex.join(command)}\nfailed with status {done.returncode}:\n{done.stdout[-4000:]}"
        )


def compile_into(directory: str) -> str:
    """The path of the shim for this torch in a folder, where `make wheel` packs it from."""
    target = os.path.join(directory, os.path.basename(_brought()))
    _compile(target)
    return target


def _cannot_write(error: OSError) -> WeirError:
    return WeirError(
        Status.UNREADABLE, f"cannot write to {folder()}: {error.strerror}. Set XDG_CACHE_HOME to a folder that can be written to"
    )


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """
    One process at a time, since those of a job start at once. Where files cannot be locked each compiles for itself, and
    whoever renames last has made the same file.
    """
    try:
        os.makedirs(folder(), exist_ok=True)
        file = open(os.path.join(folder(), "lock"), "a", encoding="utf-8")
    except OSError as error:
        raise _cannot_write(error) from error
    with file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # A child that was forked meanwhile has the file open too, and to close it here alone would unlock nothing.
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)


def _failure() -> str:
    """The file that says how the compiler failed on these sources, if it did."""
    return _target()[: -len(".so")] + ".failed"


def _failed_at() -> Optional[Tuple[int, int]]:
    """Which failure that was; None: there was none."""
    try:
        status = os.stat(_failure())
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def _tell_failure() -> WeirError:
    with open(_failure(), encoding="utf-8", errors="replace") as file:
        return WeirError(Status.NOT_SUPPORTED, file.read())


def _make(target: str, verbose: bool) -> None:
    """Under the lock: the shim, whole or not at all; or what the compiler said, also for those who wait."""
    try:
        with tempfile.TemporaryDirectory(dir=folder()) as scratch:
            made = os.path.join(scratch, NAME)
            try:
                _compile(made + ".so", verbose)
            except WeirError as error:
                # What lacks is said without a compiler, and may be there the next time.
                if error.status == Status.NOT_SUPPORTED:
                    with open(made + ".failed", "w", encoding="utf-8") as file:
                        file.write(str(error))
                    os.replace(made + ".failed", _failure())
                raise
            os.replace(made + ".so", target)
    except OSError as error:
        raise _cannot_write(error) from error
    with contextlib.suppress(FileNotFoundError):
        os.remove(_failure())


def build(force: bool = False, verbose: bool = False, says: bool = False, again: bool = True) -> str:
    """
    The path of the shim, which is compiled if there is none yet, or if force. says: a line on stderr says so before. again:
    also if the compiler failed on it before this call. Raises WeirError, ImportError.
    """
    found = path()
    if found is not None and not force:
        return found
    before = _failed_at()
    if before is not None and not again:
        raise _tell_failure()
    target = _target()
    with _alone():
        if not force and os.path.exists(target):
            return target
        _command(target)  # raises what lacks, before anything is said
        # Another process tried meanwhile.
        if _failed_at() not in (None, before):
            raise _tell_failure()
        if says:
            tell(f"weir.torch: compiling the shim for torch {sys.modules['torch'].__version__}, once, into {folder()}")
        _make(target, verbose)
    return target
