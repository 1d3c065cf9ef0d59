# SPDX-License-Identifier: MIT
"""worker.py ALLOCATOR WORKLOAD[,WORKLOAD...] POLICY - work with one allocator, told by lines on standard input what to do.

    begin N    builds the workload, and runs N steps to warm up
    round N    runs N steps
    count N    the same behind counter.cpp, which stays; its folder is on PYTHONPATH
    next N     begins the next workload, after the allocator has given back what it can
    end 0      ends as a program does, with all that its exit does; without it, at the end of the input, at once

Answers each with a line of JSON on standard output: the milliseconds of each step, by events of the device, and by how
many bytes the memory in use on the device grew meanwhile, CUDA's bare context left out. The workload `large` takes 100
GiB, frees them, and takes 125 GiB at `begin`; `full` fills its memory there, with the requests of round N. An error is
answered with {"error": text}, and ends the process. It starts with a line of {}, when all is imported.
"""

import contextlib
import ctypes
import importlib
import json
import os
import sys
import time
from typing import Any, Dict, List

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import allocators  # noqa: E402
import micro  # noqa: E402
import models  # noqa: E402
import programs  # noqa: E402
import torch  # noqa: E402
import workloads  # noqa: E402

GIB = 1 << 30
WORKLOADS = {**workloads.WORKLOADS, **models.WORKLOADS, **programs.WORKLOADS, **programs.CUPY_WORKLOADS, **micro.WORKLOADS}
# What a workload imports beside torch: before the first command, as all workers do that at once.
MODULES = {
    "generate-b1": ("transformers.models.llama.modeling_llama",),
    "generate-b16": ("transformers.models.llama.modeling_llama",),
    "lora": ("transformers.models.llama.modeling_llama", "peft"),
    "cupy-join": ("cupy",),
}


def in_use() -> int:
    """Bytes of the device that somebody has."""
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


def peaks() -> Dict[str, int]:
    """The most bytes that the allocator ever had from the device, and that tensors had; 0: it does not say."""
    try:
        found = {"reserved": int(torch.cuda.max_memory_reserved()), "allocated": int(torch.cuda.max_memory_allocated())}
    except RuntimeError:
        found = {"reserved": 0, "allocated": 0}
    found["reserved"] = found["reserved"] or reserved_by_default_pool()
    return found


def reserved_by_default_pool() -> int:
    """The most that CUDA's own pool of the device ever had, which CuPy's pool over cudaMallocAsync takes all memory from."""
    pool, most = ctypes.c_void_p(), ctypes.c_uint64()
    try:
        runtime = ctypes.CDLL(allocators.loaded_library("libcudart.so"))
    except allocators.Missing:
        return 0
    reserved_high = 6  # cudaMemPoolAttrReservedMemHigh
    if runtime.cudaDeviceGetDefaultMemPool(ctypes.byref(pool), 0) or runtime.cudaMemPoolGetAttribute(pool, reserved_high, ctypes.byref(most)):
        return 0
    return most.value


def measure(step: workloads.Step, count: int) -> List[float]:
    """Milliseconds from the end of each step to that of the next. The host runs ahead as it does in a training."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    torch.cuda.synchronize()
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    return [one.elapsed_time(other) for one, other in zip(events, events[1:])]


def take(size: int) -> torch.Tensor:
    """So many bytes, which are there: a null pointer would fail now."""
    block = torch.empty(size, dtype=torch.uint8, device="cuda")
    block[-1:].fill_(1)
    torch.cuda.synchronize()
    return block


def large() -> Dict[str, Any]:
    """Most of the device, freed, and more of it. In proportion to a device of 140 GiB where it is another."""
    total = torch.cuda.mem_get_info()[1]
    unit = GIB if total >= 138 * GIB else total // 140
    block = take(100 * unit)
    del block
    start = time.perf_counter()
    take(125 * unit)
    return {"second_ms": (time.perf_counter() - start) * 1e3}


class Worker:
    """One workload, once begun."""

    def __init__(self, allocator: str, workload: str, policy: str) -> None:
        self.allocator = allocator
        self.workload, *self.later = workload.split(",")
        self.policy = policy
        self.step: workloads.Step = lambda: None

    def begin(self, count: int) -> Dict[str, Any]:
        """The first command."""
        if self.workload in programs.CUPY_WORKLOADS:
            allocators.use_in_cupy(self.allocator, self.policy)
        else:
            allocators.use(self.allocator, self.policy)
        torch.manual_seed(1)
        before = in_use()
        if self.workload == "large":
            return large()
        if self.workload == micro.FULL:
            return {"value": micro.capped_fill(count)}
        self.step = WORKLOADS[self.workload]()
        return {
            "times_ms": measure(self.step, count),
            "grown": in_use() - before,
            "backend": torch.cuda.get_allocator_backend(),
        }

    def next(self, count: int) -> Dict[str, Any]:
        """The first one of another workload."""
        self.workload = self.later.pop(0)
        torch.cuda.empty_cache()
        before = in_use()
        self.step = WORKLOADS[self.workload]()
        return {"times_ms": measure(self.step, count), "grown": in_use() - before}

    def round(self, count: int) -> Dict[str, Any]:
        """Every later one."""
        before = in_use()
        return {"times_ms": measure(self.step, count), "grown": in_use() - before, **peaks()}

    def count(self, count: int) -> Dict[str, Any]:
        """The same, with the time in the allocator."""
        import weir_bench_counter

        weir_bench_counter.install()
        weir_bench_counter.take()
        answer = self.round(count)
        return {**answer, "counted": {**weir_bench_counter.take(), "steps": count, "ms": sum(answer["times_ms"])}}


def answer(message: Dict[str, Any]) -> None:
    """A line that is read at once."""
    print(json.dumps(message), flush=True)


def main() -> int:
    """Obeys until there is nothing more to read."""
    worker = Worker(*sys.argv[1:4])
    for name in MODULES.get(worker.workload, ()):
        with contextlib.suppress(ImportError):  # which the workload will say
            importlib.import_module(name)
    answer({})
    for line in sys.stdin:
        command, count = line.split()
        if command == "end":
            answer({})
            return 0
        try:
            commands = {"begin": worker.begin, "next": worker.next, "round": worker.round, "count": worker.count}
            answer(commands[command](int(count)))
        except Exception as error:  # which the table shows
            text = " ".join(str(error).split())
            answer({"error": f"{type(error).__name__}: {text[:300]}"})
            return 1
    # Nothing is measured any more: the tensors need no freeing one by one.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
