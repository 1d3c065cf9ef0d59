# SPDX-License-Identifier: MIT
"""What users of PyTorch, vLLM, Lightning and others reported of its allocators, as small programs that look at memory."""

import copy
import ctypes
import gc
import io
import os
import random
import sys
import threading
import time
from typing import Any, Dict, List

import allocators
import torch
from cases_processes import last_json, output_of
from harness import BACKENDS, GIB, HERE, MIB, NATIVE, SHIM, Run, case, free_memory, note
from torch import nn
from training import make_model

BOTH = (NATIVE, SHIM)


def clean() -> None:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def take(size: int) -> torch.Tensor:
    return torch.empty(int(size), dtype=torch.uint8, device="cuda")


@case(modes=(SHIM,), alone=True)
def buffers_of_streams_that_are_used_once_serve_others(run: Run) -> None:
    """As vLLM packs tensors. torch's own allocator keeps the buffers of each stream for that stream."""
    main, rounds, size = torch.cuda.current_stream(), 14, GIB
    source = torch.arange(16, device="cuda", dtype=torch.float32)
    before, held = free_memory(), []
    for number in range(rounds):
        sums = []
        for _ in range(2):
            stream = torch.cuda.Stream()
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                packed = torch.empty(16, size // 64, device="cuda")
                packed.copy_(source.view(16, 1).expand_as(packed))
                torch.cuda._sleep(20_000_000)
                packed += number
                sums.append((stream, packed[:, :1000].sum(1)))
                del packed
        others = [torch.full((size // 4,), -7.0, device="cuda") for _ in range(2)]
        assert all(bool((other == -7).all()) for other in others)
        for stream, total in sums:
            stream.synchronize()
            assert torch.equal(total, (source + number) * 1000), number
        del others, sums, total
        held.append(before - free_memory())
    note(f"MiB on the device by round: {[value // MIB for value in held]}")
    assert held[-1] <= held[1] + GIB and held[-1] <= 7 * GIB


@case(modes=BOTH, alone=True)
def half_the_batch_is_tried_after_each_out_of_memory(run: Run) -> None:
    """The text is what accelerate's find_executable_batch_size() looks for."""
    torch.ones(1, device="cuda")
    clean()
    before = free_memory()
    torch.cuda.set_per_process_memory_fraction(0.1)
    batch, failures = 1 << 20, 0
    while True:
        model = nn.Sequential(nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 4096)).to("cuda")
        try:
            model(torch.randn(batch, 4096, device="cuda")).square().mean().backward()
            break
        except torch.OutOfMemoryError as error:
            assert "CUDA out of memory." in str(error), error
            failures += 1
        batch //= 2
    assert failures >= 2 and batch >= 1024, (failures, batch)
    del model
    clean()
    torch.cuda.set_per_process_memory_fraction(1.0)
    assert torch.cuda.memory_allocated() < 200 * MIB  # cuBLAS keeps workspaces
    assert before - free_memory() < 512 * MIB


@case(modes=BOTH, alone=True)
def what_is_reserved_after_a_step_stands_for_its_peak(run: Run) -> None:
    """By it Ultralytics' AutoBatch finds the batch."""
    model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3)).to("cuda")
    for batch in (4, 16, 64):
        clean()
        torch.cuda.reset_peak_memory_stats()
        model(torch.randn(batch, 3, 256, 256, device="cuda")).square().mean().backward()
        assert torch.cuda.max_memory_allocated() <= torch.cuda.memory_reserved() == torch.cuda.max_memory_reserved()
        assert torch.cuda.memory_reserved() <= 1.3 * torch.cuda.max_memory_allocated() + 256 * MIB


@case(modes=(SHIM,))
def allocator_of_a_mempool_is_asked_for_what_torch_asks(run: Run) -> None:
    """As vLLM's sleep mode has one. Its snapshot has the chunks, and no page is asked for beside the tensor's own."""
    path = allocators.compile_beside_torch("plain.c", os.path.join(run.folder, "plain.so"), ["-shared", "-fPIC"])
    allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "plain_malloc", "plain_free")
    pool = torch.cuda.MemPool(allocator.allocator())
    with torch.cuda.use_mem_pool(pool):
        tensors = [take(size) for size in (1000, 32 * MIB, 33 * MIB, 3 * MIB)]
    sizes = sorted(segment["total_size"] for segment in pool.snapshot())
    assert sizes == [2 * MIB, 20 * MIB, 32 * MIB, 34 * MIB], sizes
    for number, tensor in enumerate(tensors):
        tensor.fill_(number)
    assert [int(tensor[-1]) for tensor in tensors] == [0, 1, 2, 3]
    del tensor, tensors
    gc.collect()
    assert all(not segment["allocated_size"] for segment in pool.snapshot())


@case(modes=BOTH, alone=True, seconds=240)
def reduce_overhead_over_changing_shapes_comes_to_rest(run: Run) -> None:
    """Graphs keep memory for each shape; torch's own allocator needs as much. What is left is cuBLAS's workspace, and outside of it."""
    import torch._dynamo
    import torch._inductor.cudagraph_trees

    torch._dynamo.config.cache_size_limit = 32
    with torch.no_grad():
        model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024), nn.LayerNorm(1024)).to("cuda").bfloat16()
        torch.ones(1, device="cuda")
        clean()
        before, held = torch.cuda.memory_reserved(), []
        compiled: Any = torch.compile(model, mode="reduce-overhead", dynamic=False)
        for _ in range(6):
            for length in (4096, 8192, 2048):
                torch.compiler.cudagraph_mark_step_begin()
                data = torch.randn(4, length, 1024, device="cuda", dtype=torch.bfloat16)
                assert torch.allclose(compiled(data).clone().float(), model(data).float(), atol=0.25, rtol=0.1)
                del data
            held.append(torch.cuda.memory_reserved())
        note(f"MiB reserved by round: {[value // MIB for value in held]}")
        assert held[-1] <= held[3]
        del compiled
        torch._dynamo.reset()
        torch._inductor.cudagraph_trees.reset_cudagraph_trees()
        clean()
        assert torch.cuda.memory_reserved() - before <= 64 * MIB


@case(modes=BOTH, alone=True, seconds=180)
def checkpoints_of_a_sharded_model_leave_nothing(run: Run) -> None:
    """FSDP2 on one rank, with activation checkpoints, lengths that change, and full states that go to the host."""
    import torch.distributed as dist
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.utils.checkpoint import checkpoint

    store = dist.FileStore(os.path.join(run.folder, "store"), 1)
    dist.init_process_group("nccl", store=store, rank=0, world_size=1, device_id=torch.device("cuda:0"))
    width = 1024
    blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(8))
    blocks.to("cuda")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in blocks:
        fully_shard(block, mp_policy=policy)
    optimizer = torch.optim.AdamW(blocks.parameters(), lr=1e-4)
    held = []
    for number, length in enumerate([1024, 700, 1500, 311, 1024, 900, 1337, 640, 1024, 1501, 1200, 800]):
        data = torch.randn(8, length, width, device="cuda", dtype=torch.bfloat16)
        for block in blocks:
            data = data + checkpoint(block, data, use_reentrant=False)
        loss = (data.float() - 1).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if number % 4 == 3:
            state = get_state_dict(blocks, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
            del state, data, block
            gc.collect()
            held.append((torch.cuda.memory_allocated(), torch.cuda.memory_reserved()))
    assert bool(torch.isfinite(loss))
    dist.destroy_process_group()
    note(f"MiB allocated and reserved: {[(one // MIB, other // MIB) for one, other in held]}")
    assert held[-1][0] <= held[0][0] + 64 * MIB and held[-1][1] <= held[0][1] * 1.1 + 64 * MIB


@case(modes=BOTH, alone=True)
def a_run_that_is_resumed_needs_no_more_than_the_first(run: Run) -> None:
    """The state is loaded onto the GPU beside the model."""

    def fresh() -> Any:
        torch.manual_seed(1)
        model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(16))).to("cuda")
        return model, torch.optim.AdamW(model.parameters(), lr=1e-4)

    def train(model: nn.Module, optimizer: Any, seeds: range) -> List[float]:
        losses = []
        for seed in seeds:
            torch.manual_seed(seed)
            loss = model(torch.randn(512 + 100 * (seed % 4), 2048, device="cuda")).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
        return losses

    model, optimizer = fresh()
    train(model, optimizer, range(3))
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    first = train(model, optimizer, range(3, 7))
    most = torch.cuda.max_memory_reserved()
    del model, optimizer
    clean()
    model, optimizer = fresh()
    file.seek(0)
    state = torch.load(file, map_location="cuda", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    del state
    clean()
    torch.cuda.reset_peak_memory_stats()
    again = train(model, optimizer, range(3, 7))
    assert all(abs(one - other) <= 1e-3 * abs(one) for one, other in zip(first, again)), (first, again)
    assert torch.cuda.max_memory_reserved() <= 1.1 * most, (torch.cuda.max_memory_reserved(), most)
    average = copy.deepcopy(model)
    assert all(torch.equal(one, other) for one, other in zip(average.parameters(), model.parameters()))


@case(modes=BOTH, alone=True)
def models_are_exchanged_without_growth(run: Run) -> None:
    """As transformers loads one: a request of all its bytes warms the cache, and threads fill it."""
    source = [torch.full((8 << 20,), float(number)) for number in range(32)]
    size = sum(tensor.numel() * 4 for tensor in source)
    torch.ones(1, device="cuda")
    clean()
    before, held = free_memory(), []
    for _ in range(4):
        del_me = take(size)
        del del_me
        model: Dict[int, torch.Tensor] = {}

        def load(part: int) -> None:
            for number in range(part, len(source), 4):
                model[number] = source[number].to("cuda")

        threads = [threading.Thread(target=load, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(float(model[number][-1]) == number for number in range(len(source)))
        held.append(before - free_memory())
        model.clear()
    assert held[-1] <= held[0] + 128 * MIB and held[-1] <= 2.2 * size, held
    clean()
    assert before - free_memory() < 200 * MIB


@case(modes=BOTH)
def keys_that_monitors_read_are_there_and_counted(run: Run) -> None:
    """Those of Lightning's DeviceStatsMonitor and of its batch finder."""
    for _ in range(3):
        model = make_model(width=1024)
        model(torch.randn(512, 64, device="cuda")).sum().backward()
    try:
        take(1000 * GIB)
    except torch.OutOfMemoryError:
        pass
    stats = torch.cuda.memory_stats()
    for key in ("allocated_bytes.all.peak", "reserved_bytes.all.current", "allocation.all.allocated", "allocated_bytes.all.allocated", "num_ooms"):
        assert stats[key] > 0, key
    assert stats["allocated_bytes.all.allocated"] >= stats["allocated_bytes.all.freed"] > 0
    assert {"num_alloc_retries", "segment.all.current", "inactive_split_bytes.all.current"} <= set(stats)


@case(modes=(SHIM,))
def other_libraries_reach_tensors_by_rdma_and_dma_buf_and_not_by_legacy_ipc(run: Run) -> None:
    """What doc/pytorch.md says of the policy that people start from."""
    driver: Any = ctypes.CDLL("libcuda.so.1")
    runtime: Any = ctypes.CDLL(allocators.loaded_library("libcudart.so"))
    tensor = take(256 * MIB)
    assert runtime.cudaIpcGetMemHandle((ctypes.c_byte * 64)(), ctypes.c_void_p(tensor.data_ptr())) != 0
    runtime.cudaGetLastError()
    capable = ctypes.c_ulonglong(0)
    assert driver.cuPointerGetAttribute(ctypes.byref(capable), 15, ctypes.c_ulonglong(tensor.data_ptr())) == 0 and capable.value & 1
    file = ctypes.c_int(-1)
    base, size = ctypes.c_ulonglong(), ctypes.c_size_t()
    assert driver.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), ctypes.c_ulonglong(tensor.data_ptr())) == 0
    assert driver.cuMemGetHandleForAddressRange(ctypes.byref(file), base, size, 1, ctypes.c_ulonglong(0)) == 0
    os.close(file.value)


@case(modes=(SHIM,), alone=True)
def the_device_shows_the_share_that_was_set(run: Run) -> None:
    random.seed(0)
    total = torch.cuda.get_device_properties(0).total_memory
    model = make_model(width=1024)
    model(torch.randn(64, 64, device="cuda")).sum().backward()
    clean()
    before = free_memory() + torch.cuda.memory_reserved()
    cap = int(total * 0.15)
    torch.cuda.set_per_process_memory_fraction(0.15)
    live: List[torch.Tensor] = []
    refused = 0
    for number in range(150):
        try:
            if number % 15 == 7:
                model(torch.randn(random.randrange(1, 64) * 1024, 64, device="cuda")).sum().backward()
            else:
                live.append(take(random.randrange(1, 3000) * MIB))
        except torch.OutOfMemoryError:
            refused += 1
            del live[: len(live) // 2 + 1]
        while sum(tensor.numel() for tensor in live) > cap * 0.8:
            live.pop(random.randrange(len(live)))
        assert before - free_memory() <= cap + 300 * MIB, number
    assert refused
    live.clear()
    del model
    clean()
    take(cap * 0.95)
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch._C._accelerator_setAllocatorSettings("per_process_memory_fraction:0.05")  # type: ignore[attr-defined]
    assert torch.cuda.get_per_process_memory_fraction() == 0.05
    try:
        take(total * 0.08)
    except torch.OutOfMemoryError:
        return
    raise AssertionError("a share that is set at run time is not in force")


@case(modes=(SHIM,), alone=True)
def libraries_beside_torch_have_room_after_drifting_sizes(run: Run) -> None:
    """NCCL takes the buffers of a communicator by cudaMalloc."""
    random.seed(1)
    runtime: Any = ctypes.CDLL(allocators.loaded_library("libcudart.so"))
    total = torch.cuda.get_device_properties(0).total_memory
    live: List[torch.Tensor] = []
    longest = 0.0
    for _ in range(400):
        size = int(random.choice([0.01, 0.02, 0.05, 0.09]) * total * random.uniform(0.6, 1.4))
        while live and sum(tensor.numel() for tensor in live) + size > total * 0.62:
            live.pop(random.randrange(len(live)))
        begun = time.monotonic()
        live += [take(size), take(random.randrange(1, 40) * MIB)]
        longest = max(longest, time.monotonic() - begun)
    note(f"the longest request took {longest * 1000:.0f} ms")
    torch.cuda.synchronize()
    for size in (256, 512):
        pointer = ctypes.c_void_p()
        assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size * MIB)) == 0, size
        runtime.cudaFree(pointer)


@case(modes=BOTH, seconds=180, starts_itself=True)
def workers_that_are_forked_before_cuda_is_used_free_their_tensors(run: Run) -> None:
    found = last_json(output_of([sys.executable, os.path.join(HERE, "prefork.py"), run.mode, allocators.POLICY]))
    for worker in found["workers"]:
        assert worker["backend"] == BACKENDS[run.mode], worker
        assert worker["late"] <= worker["early"] + 64 * MIB, worker
