# SPDX-License-Identifier: MIT
"""What a case of these tests is: a function whose name states a fact, with the allocators that it holds for.

A case runs in a process of its own (run.py --case), in which `Run` says what it was started with. It fails by raising,
and is skipped by raising `Skip`. Cases are registered by `case` when their module is imported; importing one touches no
GPU.
"""

import importlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(ROOT, "bench", "torch"))

import allocators as allocators  # noqa: E402  (for those who import this module)

NATIVE, ASYNC, PLAIN, WEIR, SHIM = allocators.USUAL
RUN = allocators.RUN
OURS = (WEIR, SHIM)
MIB = 1 << 20
GIB = 1 << 30

# Cycles of torch.cuda._sleep() that last a few tenths of a second on a device of today. Nothing depends on how long it
# is, only that the host has done a few calls meanwhile, which the cases check.
LONG_SLEEP = 400_000_000


# The variable that names a case's folder to the process that `weir run` starts for it.
FOLDER = "WEIR_TEST_CASE_FOLDER"


class Skip(Exception):
    """Why a case means nothing here."""


# What torch says is its allocator.
BACKENDS = {NATIVE: "native", ASYNC: "cudaMallocAsync", PLAIN: "pluggable", WEIR: "pluggable", SHIM: "weir", RUN: "weir"}


def use_allocator(mode: str, policy: Optional[str] = None) -> None:
    """
    Makes it that of this process. torch.cuda.memory_stats() and its like are answered by the shim where there is one,
    and by Weir's package in their place where there is none.
    """
    allocators.use(mode, policy, patch=mode == WEIR)


@dataclass(frozen=True)
class Run:
    """One run of one case. `mode` is the allocator of allocators.NAMES."""

    mode: str
    folder: str  # empty, and removed afterwards

    def start(self, policy: Optional[str] = None) -> None:
        """Makes the allocator of this run that of the process. `policy`: a text instead of the recommended policy."""
        path = allocators.POLICY
        if policy is not None and self.mode in (*OURS, RUN):
            path = self.write("policy.yaml", policy)
        try:
            use_allocator(self.mode, path)
        except allocators.Missing as error:
            raise Skip(str(error)) from error

    def write(self, name: str, text: str) -> str:
        """Writes a file into the folder of the run, and returns its path."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


@dataclass(frozen=True)
class Case:
    """A fact, and what looking at it takes."""

    name: str
    function: Callable[[Run], None]
    modes: Tuple[str, ...]
    seconds: int  # after which a run is stopped, and has failed
    gpus: int
    alone: bool  # it looks at the memory of the whole device, or wants most of it
    starts_itself: bool  # it calls Run.start() with a policy of its own, or only in processes that it starts

    def run(self, mode: str) -> None:
        """Runs it in this process, which has not used CUDA yet. Under `weir run` it begins twice, in one folder."""
        need_gpus(self.gpus)
        folder = os.environ.setdefault(FOLDER, "") or tempfile.mkdtemp(prefix="weir-torch-")
        os.environ[FOLDER] = folder
        try:
            run = Run(mode, folder)
            if not self.starts_itself:
                run.start()
            os.environ.pop(FOLDER)
            self.function(run)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


CASES: Dict[str, Case] = {}


def case(
    modes: Tuple[str, ...] = OURS,
    seconds: int = 90,
    gpus: int = 1,
    alone: bool = False,
    starts_itself: bool = False,
    has_entries: bool = False,
) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """
    Registers a function as a case. See Case. What holds with the shim holds under `weir run`, too, unless the case is
    about one of these ways to start (has_entries).
    """
    if SHIM in modes and not has_entries:
        modes = (*modes, RUN)

    def register(function: Callable[[Run], None]) -> Callable[[Run], None]:
        name = function.__name__
        assert name not in CASES, f"two cases are called {name}"
        CASES[name] = Case(name, function, modes, seconds, gpus, alone, starts_itself)
        return function

    return register


def gpu_count() -> int:
    """GPUs that torch sees. Does not initialise CUDA in torch: that is for after the allocator was chosen."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def need_gpus(count: int) -> None:
    """Skips where there are fewer."""
    there = gpu_count()
    if there < count:
        raise Skip(f"{count} GPU{'s' * (count > 1)} needed, {there} there")


def need_weir() -> Any:
    """The module weir.torch; skips where there is none."""
    try:
        return importlib.import_module("weir.torch")
    except ImportError as error:
        raise Skip(f"weir.torch cannot be imported ({error})") from error


def expect_error(kinds: Tuple[Type[Exception], ...], function: Callable[[], object], *words: str) -> BaseException:
    """
    The error that the call raises, which must be of one of these very types, not of a subclass, and say all the words.
    """
    try:
        function()
    except Exception as error:  # its type is what is looked at
        assert (
            type(error) in kinds
        ), f"{type(error).__module__}.{type(error).__name__} was raised, not one of {kinds}: {error}"
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"the error does not say {missing}: {error}"
        return error.with_traceback(None)  # whose frames would keep their tensors
    raise AssertionError(f"nothing was raised; one of {kinds} was expected")


def out_of_memory_types(mode: str) -> Tuple[Type[Exception], ...]:
    """What torch raises with that allocator when there is no memory."""
    import torch

    return (RuntimeError,) if mode == WEIR else (torch.OutOfMemoryError,)


def free_memory(device: int = 0) -> int:
    """Bytes of the device that no process has."""
    import torch

    return int(torch.cuda.mem_get_info(device)[0])


def note(text: str) -> None:
    """Says something that a reader of the log wants to know."""
    print(text, flush=True)


def selected(patterns: List[str], modes: List[str], gpus: int = 1) -> List[Tuple[Case, str]]:
    """
    Each case that takes so many GPUs or more with each of its modes, in the order of registration; of these, what one
    of the patterns (fnmatch) matches, as "name" or "name[mode]".
    """
    from fnmatch import fnmatchcase

    found = []
    for one in CASES.values():
        for mode in one.modes:
            names = (one.name, f"{one.name}[{mode}]")
            if (modes and mode not in modes) or one.gpus < gpus:
                continue
            if not patterns or any(fnmatchcase(name, pattern) for name in names for pattern in patterns):
                found.append((one, mode))
    return found
