# SPDX-License-Identifier: MIT
"""torch.compile(mode="reduce-overhead") and MemPools, which torch's own allocator and Weir's shim serve."""

import copy
import ctypes
import gc
import importlib
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from harness import GIB, MIB, NATIVE, SHIM, WEIR, Run, case, note
from torch import nn
from training import make_deterministic

STEPS = 12


class Block(nn.Module):
    """A block of a transformer, without dropout."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        normal = self.first(value)
        value = value + self.attention(normal, normal, normal, need_weights=False)[0]
        return value + self.wide(self.second(value))


def step(model: nn.Module, data: torch.Tensor) -> torch.Tensor:
    """
    Forward and backward; the loss outlives the graph's memory. Gradients are in that memory too, so none is added to that
    of a step before.
    """
    model.zero_grad(set_to_none=True)
    torch.compiler.cudagraph_mark_step_begin()
    loss = model(data).square().mean()
    loss.backward()
    return loss.detach().clone()


def inputs(count: int = STEPS) -> List[torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(8, 64, 256, generator=generator).cuda() for _ in range(count)]


def trained(model: nn.Module, run: nn.Module, data: List[torch.Tensor]) -> Tuple[List[torch.Tensor], List[Any]]:
    """Losses of the steps, and the sums of the gradients."""
    losses = [step(run, one) for one in data]
    return losses, [parameter.grad.clone() for parameter in model.parameters()]


@case(modes=(NATIVE, SHIM), seconds=300)
def reduce_overhead_gives_the_numbers_of_eager(run: Run) -> None:
    make_deterministic()
    eager = Block().cuda()
    other = copy.deepcopy(eager)
    compiled = torch.compile(other, mode="reduce-overhead")
    data = inputs()
    expected, found = trained(eager, eager, data), trained(other, compiled, data)
    for one, two in zip(expected[0] + expected[1], found[0] + found[1]):
        torch.testing.assert_close(one, two, rtol=2e-3, atol=2e-4)


def launches(function: Callable[[], Any]) -> Dict[str, int]:
    """How often each function of CUDA's that launches was called."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        function()
        torch.cuda.synchronize()
    return {event.key: event.count for event in profiler.key_averages() if "Launch" in event.key and event.key.startswith("cu")}


@case(modes=(NATIVE, SHIM), seconds=300, alone=True)
def reduce_overhead_launches_a_graph_forward_and_one_backward(run: Run) -> None:
    """The figures for native and Weir stand in the notes of the two runs: launches and time of a step."""
    model = Block().cuda()
    compiled = torch.compile(model, mode="reduce-overhead")
    data = inputs(1)[0]
    for _ in range(STEPS):
        step(compiled, data)
    counted = launches(lambda: step(compiled, data))
    note(f"launches of a step: {counted}")
    assert counted.get("cudaGraphLaunch") == 2, counted
    torch.cuda.synchronize()
    times = []
    for _ in range(200):
        start = time.perf_counter()
        step(compiled, data)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    note(f"median step: {sorted(times)[100] * 1e6:.0f} us")


@case(modes=(NATIVE, SHIM), seconds=300)
def graph_trees_go_on_after_other_shapes_and_empty_cache(run: Run) -> None:
    """Each new shape warms up, and is recorded, behind graphs that were replayed: the pool's state is restored."""
    make_deterministic()
    eager = Block().cuda().eval()
    compiled = torch.compile(eager, mode="reduce-overhead", dynamic=False)
    with torch.no_grad():
        for number in range(4):
            for length in (16, 32, 48):
                data = torch.randn(4, length, 256, device="cuda")
                torch.compiler.cudagraph_mark_step_begin()
                middle = compiled(data)
                last = compiled(middle)
                torch.testing.assert_close(last, eager(eager(data)), rtol=2e-3, atol=2e-4)
                del middle, last
            if number % 2:
                gc.collect()
                torch.cuda.empty_cache()


@case(modes=(WEIR,), seconds=180)
def reduce_overhead_without_the_shim_is_refused_and_harms_nothing(run: Run) -> None:
    compiled = torch.compile(Block().cuda(), mode="reduce-overhead")
    data = inputs(1)[0]
    try:
        for _ in range(5):
            step(compiled, data)
    except Exception as error:  # torch may wrap it in one of its own
        note(f"{type(error).__name__}: {error}")
        assert "not yet support" in str(error), "the error does not say what is not supported"
    else:
        raise AssertionError("torch compiles with reduce-overhead: doc/pytorch.md says that it does not without the shim")
    assert torch.zeros(4, device="cuda").sum().item() == 0


def segments_of(pool: "torch.cuda.MemPool") -> int:
    return sum(tuple(one["segment_pool_id"]) == tuple(pool.id) for one in torch.cuda.memory_snapshot())


@case(modes=(NATIVE, SHIM))
def mem_pools_hold_what_was_made_in_them(run: Run) -> None:
    pool, inner = torch.cuda.MemPool(), torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        first = torch.full((MIB,), 1.0, device="cuda")
        with torch.cuda.use_mem_pool(inner):
            second = torch.full((MIB,), 2.0, device="cuda")
        third = torch.full((MIB,), 3.0, device="cuda")
    other = torch.full((MIB,), 4.0, device="cuda")
    assert segments_of(pool) >= 1 and segments_of(inner) == 1
    assert [float(one.mean()) for one in (first, second, third, other)] == [1.0, 2.0, 3.0, 4.0]
    del first, second, third, pool, inner
    gc.collect()
    torch.cuda.empty_cache()
    assert all(tuple(one["segment_pool_id"]) == (0, 0) for one in torch.cuda.memory_snapshot())


class Own:
    """An allocator for MemPools, which never gives a part of its one tensor twice, nor one above a bound."""

    MALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
    FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
    kept: List["Own"] = []  # C calls them until the process ends

    def __init__(self, most: int) -> None:
        self.memory = torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")
        self.next, self.most = self.memory.data_ptr() + 2 * MIB, most  # no chunk is where that tensor is
        self.asked: List[int] = []
        self.freed = 0
        self.calls = (self.MALLOC(self.malloc), self.FREE(self.free))
        self.kept.append(self)

    def malloc(self, size: int, device: int, stream: Optional[int]) -> Optional[int]:
        self.asked.append(size)
        if size > self.most:
            return None
        self.next += size
        return self.next - size

    def free(self, ptr: int, size: int, device: int, stream: Optional[int]) -> None:
        self.freed += 1

    def pool(self) -> "torch.cuda.MemPool":
        malloc, free = (ctypes.cast(call, ctypes.c_void_p).value for call in self.calls)
        return torch.cuda.MemPool(torch._C._cuda_customAllocator(malloc, free))


@case(modes=(NATIVE, SHIM))
def a_mem_pool_asks_its_own_allocator_for_torchs_sizes(run: Run) -> None:
    own = Own(most=64 * MIB)
    pool = own.pool()
    with torch.cuda.use_mem_pool(pool):
        made = [torch.full((size,), 3, dtype=torch.uint8, device="cuda") for size in (1000, 3 * MIB, 32 * MIB, 33 * MIB)]
    assert own.asked == [2 * MIB, 20 * MIB, 32 * MIB, 34 * MIB], own.asked
    assert all(int(one.min()) == 3 for one in made)
    del made, pool
    gc.collect()
    torch.cuda.empty_cache()
    assert own.freed == 4, own.freed


@case(modes=(SHIM,))
def an_allocator_of_its_own_that_refuses_is_asked_for_less(run: Run) -> None:
    own = Own(most=8 * MIB)
    pool = own.pool()
    with torch.cuda.use_mem_pool(pool):
        made = torch.full((3 * MIB,), 3, dtype=torch.uint8, device="cuda")
        assert own.asked == [20 * MIB, 4 * MIB], own.asked
        try:
            torch.empty(9 * MIB, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            assert "own allocator" in str(error), error
        else:
            raise AssertionError("9 MiB of an allocator that has 8 at most")
    assert own.asked[2:4] == [20 * MIB, 10 * MIB], own.asked
    assert int(made.min()) == 3


@case(modes=(NATIVE, SHIM), alone=True)
def a_mem_pool_for_the_worst_case_serves_when_memory_is_out(run: Run) -> None:
    pool = torch.cuda.MemPool(use_on_oom=True)
    with torch.cuda.use_mem_pool(pool):
        kept = torch.empty(2 * GIB, dtype=torch.uint8, device="cuda")
    address = kept.data_ptr()
    del kept
    taken: List[torch.Tensor] = []
    found = False
    try:
        while not found:
            taken.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
            found = address <= taken[-1].data_ptr() < address + 2 * GIB
    except torch.OutOfMemoryError:
        pass
    assert found, "the pool's memory was not used"
    taken.clear()


@case(modes=(SHIM,), starts_itself=True)
def regions_take_their_tensors_from_a_pool_of_the_policy(run: Run) -> None:
    weir = importlib.import_module("weir.torch")
    run.start("weir: 1\npools: { main: {}, activations: { max_size: 256MiB } }\ndefaults: { pool: main }\n")
    with weir.pool("activations"):
        inside = torch.full((MIB,), 5.0, device="cuda")
        try:
            torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            assert "activations" in str(error), error
        else:
            raise AssertionError("the pool's max_size did not hold")
    outside = torch.full((512 * MIB,), 6, dtype=torch.uint8, device="cuda")
    assert float(inside.mean()) == 5.0 and int(outside[-1]) == 6
