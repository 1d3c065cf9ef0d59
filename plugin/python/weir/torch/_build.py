# SPDX-License-Identifier: MIT
"""
Compiles shim.cpp against the torch of this Python, and finds what was compiled.

torch promises no binary interface between its versions, so the shim is made on the user's machine, once for each torch and
each release of Weir, into ${XDG_CACHE_HOME:-~/.cache}/weir/torch-VERSION-ABI-PYTHON-weir-VERSION/. The name of the file has
a digest of the sources, so that one of other sources is never loaded.
"""

import glob
import hashlib
import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from typing import Iterator, List, Optional

from weir._errors import Status, WeirError
from weir._version import VERSION

NAME = "weir_torch_shim"
# What makes the shim. `weir run`, which sets that variable, finds this package where Python alone may not.
COMMAND = ("weir run -- " if "WEIR_TORCH_PATCH" in os.environ else "") + "python -m weir.torch build"
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_SOURCES = ["shim.cpp", "shim_blocks.h", "shim_history.h", "shim_library.h", "weir_torch.h", "weir.h"]
_LIBRARIES = ["c10", "c10_cuda", "torch", "torch_cpu", "torch_cuda", "torch_python"]


def _digest() -> str:
    """Of the sources: a shim that was made of others does not fit."""
    digest = hashlib.sha256()
    for name in _SOURCES:
        with open(os.path.join(_FOLDER, name), "rb") as source:
            digest.update(source.read())
    return digest.hexdigest()[:16]


def _folders() -> str:
    """What the folders of the shims for this torch begin with, whatever the release of Weir."""
    import torch

    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    abi = "cxx11" if torch.compiled_with_cxx11_abi() else "precxx11"
    tag = sysconfig.get_config_var("SOABI") or "python"
    return os.path.join(cache, "weir", f"torch-{torch.__version__}-{abi}-{tag}-weir-")


def folder() -> str:
    """Where the shims for this torch and this release of Weir are kept, whether there are any or not."""
    return _folders() + VERSION


def _target() -> str:
    return os.path.join(folder(), f"{NAME}.{_digest()}.so")


def path() -> Optional[str]:
    """The shim for this torch and this release of Weir; None: there is none, COMMAND makes it."""
    target = _target()
    return target if os.path.exists(target) else None


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


def _cuda_includes() -> List[str]:
    """The folders that CUDA's headers take: those of the runtime, and, where they are packed apart, those of its compiler."""
    folders = list(_cuda_folders())
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
    """What compiles the shim, or another extension of torch."""
    import torch
    from torch.utils import cpp_extension

    if torch.version.cuda is None:
        raise WeirError(Status.NOT_SUPPORTED, f"torch {torch.__version__} is built without CUDA, so there is nothing for Weir to allocate")
    python = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(python, "Python.h")):
        raise WeirError(
            Status.NOT_FOUND, f"there is no Python.h in {python}: install the headers of this Python (a package such as python3-dev)"
        )
    command = _compiler() + ["-O2", "-fPIC", "-shared", f"-std=c++{_standard(torch.__version__)}"]
    # Types are shared only between extensions that agree on these. Older torches name some of them themselves.
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    # Some are written for a shell, which there is none of here.
    command += [flag.replace('\\"', '"') for flag in getattr(cpp_extension, "_get_pybind11_abi_build_flags", list)()]
    for name in cpp_extension.include_paths() + _cuda_includes() + [python]:
        command += ["-isystem", name]
    command += [source, "-o", target]
    for name in cpp_extension.library_paths():
        command += ["-L" + name, "-Wl,-rpath," + name]
    return command + ["-l" + name for name in _LIBRARIES]


def _scratch() -> "tempfile.TemporaryDirectory[str]":
    """A new folder beside the shims."""
    try:
        os.makedirs(folder(), exist_ok=True)
        return tempfile.TemporaryDirectory(dir=folder())
    except OSError as error:
        raise WeirError(
            Status.UNREADABLE, f"cannot write to {folder()}: {error.strerror}. Set XDG_CACHE_HOME to a folder that can be written to"
        ) from error


def build(force: bool = False, verbose: bool = False) -> str:
    """The path of the shim, which is compiled if there is none yet, or if force."""
    target = _target()
    if os.path.exists(target) and not force:
        return target
    with _scratch() as scratch:
        made = os.path.join(scratch, NAME + ".so")
        command = _command(made)
        if verbose:
            print(shlex.join(command), flush=True)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        if verbose and done.stdout:
            print(done.stdout, end="", flush=True)
        if done.returncode != 0:
            raise WeirError(
                Status.NOT_SUPPORTED, f"{shlex.join(command)}\nfailed with status {done.returncode}:\n{done.stdout[-4000:]}"
            )
        # Others may be building the same: whoever renames last has made the same file.
        os.replace(made, target)
    return target
