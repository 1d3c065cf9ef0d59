# SPDX-License-Identifier: MIT
"""The allocators that a program is run with here: those of torch or of CuPy, a plain pluggable one, RMM's, and Weir.

What a process uses is decided once: by its environment (`environment`), and by `use` before its first CUDA call.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any, Dict, List, Optional

NATIVE = "native"  # torch's caching allocator
ASYNC = "async"  # torch's cudaMallocAsync backend
PLAIN = "plain"  # plain.c: cudaMallocFromPoolAsync behind torch's pluggable allocator
WEIR = "weir"  # weir.torch.enable(), without the shim
SHIM = "shim"  # the same, with it
RUN = "run"  # `weir run`, with the shim
EXPANDABLE = "expandable"  # torch's caching allocator with expandable segments
POOLS = "pools"  # SHIM, with CUDA's pools
BOUNDED = "bounded"  # SHIM, with reuse.pending_max: auto
RECORDED = "recorded"  # SHIM, with every call and its stack recorded
DEFAULT = "default"  # SHIM, with config/default.yaml
# RMM's resources as RMM makes them by default, of the library in $WEIR_BENCH_RMM, which rmm/build.sh makes.
RMM = {"rmm-pool": "pool", "rmm-arena": "arena", "rmm-binning": "binning"}
USUAL = (NATIVE, ASYNC, PLAIN, WEIR, SHIM)
NAMES = (*USUAL, RUN, EXPANDABLE, POOLS, BOUNDED, RECORDED, DEFAULT, *RMM)
# Those that CuPy can have. NATIVE is CuPy's own pool there, and ASYNC its pool over cudaMallocAsync.
CUPY_NAMES = (NATIVE, ASYNC, SHIM, POOLS, DEFAULT, *RMM)

# The policy that people start from; of a source tree or a GPU bundle.
POLICY = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "config", "pytorch.yaml"
)

SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "WEIR_CONF")


class Missing(Exception):
    """An allocator that cannot be had here: what is missing, and where it comes from."""


def environment(name: str, base: Optional[Dict[str, str]] = None) -> Dict[str, str]:
    """
    What the environment of a process must be for it to be able to `use` that allocator, made of `base` or this
    process's own.
    """
    variables = dict(os.environ if base is None else base)
    for setting in SETTINGS:
        variables.pop(setting, None)
    if name == ASYNC:
        variables[SETTINGS[0]] = "backend:cudaMallocAsync"
    elif name == EXPANDABLE:
        variables[SETTINGS[0]] = "expandable_segments:True"
    elif name == POOLS:
        variables["WEIR_CONF"] = "pools.tensors.backing=new"
    elif name == BOUNDED:
        variables["WEIR_CONF"] = "pools.tensors.reuse.pending_max=auto"
    elif name == RECORDED:
        variables["WEIR_CONF"] = "record.level=all,record.stacks=true"
    return variables


def use(name: str, policy: Optional[str] = None, patch: bool = False) -> None:
    """
    Makes it the allocator of this process. `policy` and `patch` are weir.torch.enable()'s, and mean nothing to the
    others.
    """
    if name == PLAIN:
        use_plain()
    elif name in RMM:
        use_rmm(RMM[name])
    elif name in (WEIR, SHIM, POOLS, BOUNDED, RECORDED, DEFAULT):
        use_weir(name != WEIR, policy_of(name, policy), patch)
    elif name == RUN:
        use_run(policy)
    elif name not in NAMES:
        raise Missing(f"there is no allocator '{name}'; write one of: {', '.join(NAMES)}")


def policy_of(name: str, policy: Optional[str]) -> Optional[str]:
    """The policy of that allocator, where the program was given `policy`."""
    return os.path.join(os.path.dirname(POLICY), "default.yaml") if name == DEFAULT else policy


def use_weir(shim: bool, policy: Optional[str], patch: bool) -> None:
    """Weir, found as its users find it: on PYTHONPATH."""
    try:
        from weir.torch import enable
    except ImportError as error:
        raise Missing(
            f"the package weir cannot be imported ({error}): put the folder that holds it on PYTHONPATH"
        ) from error
    enable(policy, patch=patch, shim=shim)


def use_run(policy: Optional[str]) -> None:
    """Starts this process anew under `weir run`, so that nothing may have been done yet; where that was done, looks that Weir is there."""
    if "WEIR_TORCH_PATCH" not in os.environ:
        program = os.environ.get("WEIR") or shutil.which("weir")
        if program is None:
            raise Missing("the program weir is not on PATH: name it in $WEIR")
        os.execv(program, [program, "run", "--require", *(["--policy", policy] if policy else []), "--", sys.executable, *sys.orig_argv[1:]])
    import torch  # noqa: F401  (which has Weir from its import on)
    from weir.torch import state as state_of

    state = state_of()
    assert state is not None and state.shim and not state.patched, state


def build_counter(folder: str) -> str:
    """Compiles counter.cpp, as an extension module in that folder."""
    from torch.utils import cpp_extension
    from weir.torch import _build

    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "counter.cpp")
    target = os.path.join(folder, "weir_bench_counter.so")
    command = _build._command(target, source) + ["-isystem", sysconfig.get_paths()["include"], "-ltorch_python"]
    # Some are written for a shell, which there is none of here.
    command += [flag.replace('\\"', '"') for flag in getattr(cpp_extension, "_get_pybind11_abi_build_flags", list)()]
    command += ["-Wl,-rpath," + name for name in cpp_extension.library_paths()]
    made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if made.returncode != 0:
        raise Missing(f"counter.cpp does not compile against this torch: {made.stdout.strip()[-2000:]}")
    return target


def rmm_library() -> str:
    """The library of RMM's resources."""
    path = os.environ.get("WEIR_BENCH_RMM")
    if not path:
        raise Missing("there is no library of RMM's resources: build it with bench/rmm/build.sh, and name it in WEIR_BENCH_RMM")
    return path


def use_rmm(kind: str) -> None:
    """One of RMM's resources behind torch's pluggable allocator, as RMM itself offers them to torch."""
    import torch

    library = rmm_library()
    allocator = torch.cuda.memory.CUDAPluggableAllocator(library, f"weir_bench_{kind}_malloc", "weir_bench_rmm_free")
    torch.cuda.memory.change_current_allocator(allocator)


def use_in_cupy(name: str, policy: Optional[str] = None) -> None:
    """Makes it the allocator of CuPy in this process."""
    import cupy

    if name == ASYNC:
        cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    elif name in RMM:
        cupy.cuda.set_allocator(cupy_rmm(RMM[name]))
    elif name in (SHIM, POOLS, DEFAULT):
        from weir.cupy import allocator

        cupy.cuda.set_allocator(allocator(policy_of(name, policy)))
    elif name != NATIVE:
        raise Missing(f"CuPy has no allocator '{name}'; write one of: {', '.join(CUPY_NAMES)}")


def cupy_rmm(kind: str) -> Any:
    """A function for cupy.cuda.set_allocator(). Each array owns its block and frees it on the stream that allocated it."""
    import cupy

    library = ctypes.CDLL(rmm_library())
    take, free = getattr(library, f"weir_bench_{kind}_malloc"), library.weir_bench_rmm_free
    take.restype, take.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    free.restype, free.argtypes = None, [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]

    class Block:
        def __init__(self, size: int) -> None:
            self.size, self.device, self.stream = size, cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr
            self.ptr = take(size, self.device, self.stream)

        def __del__(self) -> None:
            free(self.ptr, self.size, self.device, self.stream)

    def allocate(size: int) -> Any:
        block = Block(size)
        return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(block.ptr or 0, size, block, block.device), 0)

    return allocate


def use_plain() -> None:
    """plain.c, compiled now."""
    import torch

    with tempfile.TemporaryDirectory(prefix="weir-plain-") as folder:
        library = compile_beside_torch("plain.c", os.path.join(folder, "plain.so"), ["-shared", "-fPIC"])
        allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "plain_malloc", "plain_free")
    torch.cuda.memory.change_current_allocator(allocator)


def compile_beside_torch(source: str, output: str, flags: List[str]) -> str:
    """
    Compiles a C file of this folder against the CUDA runtime that torch has loaded into this process. Returns `output`.
    """
    compiler = next((c for c in (os.environ.get("CC", "cc"), "gcc", "g++", "clang") if shutil.which(c)), None)
    if compiler is None:
        raise Missing("there is no C compiler: install gcc, or name one in CC")
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), source)
    made = subprocess.run(
        [compiler, "-O2", *flags, "-o", output, path, loaded_library("libcudart.so")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise Missing(f"{compiler} does not compile {source}: {made.stdout.strip()}")
    return output


def loaded_library(name: str) -> str:
    """
    The path of a shared library that is loaded into this process. A program that is linked to it gets this very one.
    """
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if os.path.basename(path).startswith(name):
                return path
    raise Missing(f"this process has not loaded {name}: this torch was built without CUDA, or links it statically")
