# SPDX-License-Identifier: MIT
"""Running out, giving back, and what is said about memory."""

import gc
from typing import List

import allocators
import torch
from harness import (
    ASYNC,
    GIB,
    MIB,
    NATIVE,
    SHIM,
    WEIR,
    Run,
    case,
    expect_error,
    free_memory,
    need_weir,
    note,
    out_of_memory_types,
    use_allocator,
)
from training import train

# What a device may lack after everything was given back that the process could: modules of kernels that were loaded
# meanwhile, the workspaces of libraries, and the last 32 MiB of a pool that something small lives in.
SLACK = 256 * MIB


def take(size: int) -> torch.Tensor:
    """So many bytes."""
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def give_back() -> None:
    """All that nobody uses."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def fill_device(block: int) -> List[torch.Tensor]:
    """Takes blocks until there is no memory, and lets the error out with all of them freed."""
    blocks = []
    while True:
        blocks.append(take(block))


@case(modes=(NATIVE, WEIR, SHIM), alone=True)
def out_of_memory_is_caught_and_training_goes_on(run: Run) -> None:
    undisturbed = train(12)
    kinds = out_of_memory_types(run.mode)

    def disturb(step: int) -> None:
        if step == 4:
            expect_error(kinds, lambda: fill_device(8 * GIB))
        elif step == 8:
            expect_error(kinds, lambda: take(1000 * GIB))

    losses = train(12, disturb)
    assert losses == undisturbed, f"{losses} are not {undisturbed}"
    assert losses[-1] < losses[0], losses


@case(modes=(SHIM,), alone=True)
def out_of_memory_error_is_the_report_of_weir(run: Run) -> None:
    error = expect_error((torch.OutOfMemoryError,), lambda: fill_device(8 * GIB), "GiB")
    note(str(error))
    assert isinstance(error, RuntimeError)
    assert "weir" in str(error).lower(), "the error does not name Weir"


@case(modes=(WEIR,), alone=True)
def without_the_shim_out_of_memory_is_bad_alloc(run: Run) -> None:
    expect_error((RuntimeError,), lambda: fill_device(8 * GIB), "bad_alloc")


@case(alone=True)
def memory_that_is_out_can_be_had_again_at_once(run: Run) -> None:
    """Most of the device, again and again, each time after an error."""
    kinds = out_of_memory_types(run.mode)
    for _ in range(3):
        blocks: List[torch.Tensor] = []
        try:
            while True:
                blocks.append(take(16 * GIB))
        except kinds:
            pass
        assert len(blocks) >= 1
        blocks[-1][-1] = 1
        torch.cuda.synchronize()
        del blocks
    count = free_memory() // (16 * GIB)
    note(f"at the end {count} blocks of 16 GiB are free for other processes")


@case(modes=(NATIVE, WEIR, SHIM), alone=True)
def empty_cache_gives_memory_back(run: Run) -> None:
    take(MIB).fill_(1)
    give_back()
    before = free_memory()
    block = take(8 * GIB)
    block.fill_(1)
    torch.cuda.synchronize()
    taken = before - free_memory()
    assert taken >= 8 * GIB, taken
    del block
    give_back()
    kept = before - free_memory()
    assert kept <= SLACK, f"{kept / MIB:.0f} MiB were kept"


@case(alone=True)
def small_tensors_pin_no_large_memory(run: Run) -> None:
    """Small blocks that live on between large ones keep none of their memory from going back."""
    take(MIB).fill_(1)
    give_back()
    before = free_memory()
    large, small = [], []
    for _ in range(1024):
        large.append(take(24 * MIB))
        small.append(take(64 << 10))
    assert before - free_memory() >= 24 * GIB
    del large
    give_back()
    kept = before - free_memory()
    assert len(small) == 1024
    assert kept <= SLACK + GIB, f"{kept / MIB:.0f} MiB were kept by {len(small) * 64} KiB"


@case(modes=(NATIVE, ASYNC, WEIR, SHIM), alone=True)
def hundred_gib_then_a_hundred_and_twenty_five(run: Run) -> None:
    """On a device of 140 GiB; in proportion on another."""
    total = torch.cuda.mem_get_info()[1]
    unit = GIB if total >= 138 * GIB else total // 140
    first = take(100 * unit)
    first[-1] = 1
    del first
    second = take(125 * unit)
    second[-1] = 1
    torch.cuda.synchronize()
    assert int(second[-1]) == 1


def users_script(fraction_first: float, fraction_second: float) -> None:
    """What people try first, in one function: small, less small, and most of the device twice."""
    small = [take(size) for size in (60 << 10, 70 << 10, 60 * MIB, 70 * MIB)]
    for block in small:
        block.fill_(1)
    del small, block
    total = free_memory()
    first = take(int(total * fraction_first))
    first.fill_(1)
    del first
    torch.cuda.empty_cache()
    second = take(int(total * fraction_second))
    second.fill_(2)
    torch.cuda.synchronize()
    assert int(second[-1]) == 2
    stats = torch.cuda.memory_stats()
    for name in sorted(stats):
        if "all" in name.split(".") or name.startswith("num_"):
            note(f"{name} {stats[name]}")
    assert stats["allocated_bytes.all.current"] >= int(total * fraction_second)
    assert stats["allocated_bytes.all.peak"] >= stats["allocated_bytes.all.current"]


@case(modes=(NATIVE, WEIR, SHIM), alone=True)
def script_of_users_runs(run: Run) -> None:
    users_script(0.85, 0.90)


@case(modes=(WEIR,), alone=True, starts_itself=True)
def script_of_users_runs_in_a_mempool(run: Run) -> None:
    """
    torch's own allocator is in charge, and asks Weir for the segments of the pool. It keeps the first; what comes of
    that is noted.
    """
    weir = need_weir()
    pool = torch.cuda.MemPool(weir.mem_pool_allocator())
    with torch.cuda.use_mem_pool(pool):
        small = [take(size) for size in (60 << 10, 70 << 10, 60 * MIB, 70 * MIB)]
        for value, block in enumerate(small):
            block.fill_(value)
        assert [int(block[-1]) for block in small] == [0, 1, 2, 3]
        del small, block
        total = free_memory()
        first = take(int(total * 0.5))
        first.fill_(1)
        torch.cuda.synchronize()
        del first
        torch.cuda.empty_cache()
        again = take(int(total * 0.5))
        again.fill_(2)
        assert int(again[-1]) == 2
        del again
        torch.cuda.empty_cache()
        try:
            larger = take(int(total * 0.9))
            note("a larger block after the first: works")
            del larger
        except torch.OutOfMemoryError as error:
            note(f"a larger block after the first: torch.OutOfMemoryError: {error}")
        note(str(torch.cuda.memory_stats()["reserved_bytes.all.current"]))
    note(f"weir: {weir.memory_stats()}")
    expect_error((torch.OutOfMemoryError,), lambda: in_pool(pool, 1000 * GIB))


def in_pool(pool: "torch.cuda.MemPool", size: int) -> torch.Tensor:
    """Takes so many bytes in that pool."""
    with torch.cuda.use_mem_pool(pool):
        return take(size)


@case(alone=True)
def memory_fraction_is_a_limit(run: Run) -> None:
    kinds = out_of_memory_types(run.mode)
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(0.25)
    block = take(int(total * 0.2))
    expect_error(kinds, lambda: take(int(total * 0.1)))
    del block
    expect_error(kinds, lambda: take(int(total * 0.3)))
    torch.cuda.set_per_process_memory_fraction(1.0)
    take(int(total * 0.3)).fill_(1)
    torch.cuda.synchronize()


@case(modes=(NATIVE, WEIR, SHIM), starts_itself=True)
def statistics_follow_what_is_allocated(run: Run) -> None:
    """The functions of torch.cuda, answered by the shim or through enable(patch=True)."""
    with open(allocators.POLICY, encoding="utf-8") as file:
        run.start(file.read() + "\nexact_peaks: true\n")
    take(512)
    give_back()
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    for size in (100 * MIB, 3 * MIB, 64 << 10):
        block = take(size)
        assert torch.cuda.memory_allocated() == base + size
        assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
        del block
        assert torch.cuda.memory_allocated() == base
        assert torch.cuda.max_memory_allocated() == base + size
        torch.cuda.reset_peak_memory_stats()
        assert torch.cuda.max_memory_allocated() == base
    kept = take(MIB)
    stats = torch.cuda.memory_stats()
    current, names = "allocated_bytes.all.current", ("reserved_bytes.all.current", "num_ooms", "num_alloc_retries")
    for name in (current, *names):
        assert isinstance(stats[name], int), name
    assert stats[current] == torch.cuda.memory_allocated() == base + kept.numel()
    summary = torch.cuda.memory_summary()
    note(summary)
    assert isinstance(summary, str) and len(summary.splitlines()) >= 5


@case(modes=(NATIVE, SHIM))
def failures_are_counted(run: Run) -> None:
    take(512)  # before the first allocation torch has no statistics
    before = torch.cuda.memory_stats()["num_ooms"]
    expect_error((torch.OutOfMemoryError,), lambda: take(1000 * GIB))
    assert torch.cuda.memory_stats()["num_ooms"] > before


@case(modes=(NATIVE, WEIR, SHIM))
def snapshot_has_each_live_tensor(run: Run) -> None:
    tensors = [take(size) for size in (1000, 3 * MIB, 70 * MIB)]
    live = {}
    for segment in torch.cuda.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                live[address] = block["requested_size"]
            address += block["size"]
    for tensor in tensors:
        assert live.get(tensor.data_ptr()) == tensor.numel(), (tensor.data_ptr(), tensor.numel(), live)


@case(modes=(NATIVE, SHIM))
def memory_fraction_can_be_asked_for(run: Run) -> None:
    torch.cuda.set_per_process_memory_fraction(0.5)
    assert torch.cuda.get_per_process_memory_fraction() == 0.5


@case(modes=(NATIVE, SHIM))
def cudnn_benchmark_works(run: Run) -> None:
    """It asks the allocator how large a workspace may be, which only the shim can answer."""
    torch.backends.cudnn.benchmark = True
    for size in (32, 33):
        convolution = torch.nn.Conv2d(16, 32, 3, padding=1).cuda()
        data = torch.randn(8, 16, size, size, device="cuda", requires_grad=True)
        result = convolution(data)
        result.sum().backward()
        torch.cuda.synchronize()
        assert data.grad is not None and bool(torch.isfinite(data.grad).all())


@case(alone=True)
def mem_get_info_is_the_devices(run: Run) -> None:
    take(512)
    free, total = torch.cuda.mem_get_info()
    block = take(4 * GIB)
    block[-1] = 1
    torch.cuda.synchronize()
    now = torch.cuda.mem_get_info()
    assert now[1] == total and 0 < now[0] <= free - 4 * GIB + 64 * MIB, (free, now)


@case()
def sizes_of_nothing_and_odd_ones_work(run: Run) -> None:
    assert take(0).numel() == 0
    for size in [1, 2, 511, 512, 513, (1 << 20) - 1, (1 << 20) + 1, 3 * MIB + 7, 33 * MIB + 1]:
        block = take(size)
        assert block.data_ptr() % 512 == 0
        block.fill_(size % 251)
        assert int(block[0]) == int(block[-1]) == size % 251
    pointer = torch.cuda.caching_allocator_alloc(12345)
    assert pointer
    torch.cuda.caching_allocator_delete(pointer)


@case()
def storages_grow_shrink_and_are_pinned(run: Run) -> None:
    block = take(1000)
    block.fill_(3)
    block.untyped_storage().resize_(5 * MIB)
    assert int(block[999]) == 3
    block.untyped_storage().resize_(0)
    pinned = torch.arange(1 << 20).pin_memory()
    assert bool((pinned.cuda(non_blocking=True).cpu() == torch.arange(1 << 20)).all())


POLICY = """
weir: 1
defaults: { pool: tensors }
pools:
  tensors:
    max_size: 4GiB
    release_threshold: 1GiB
    small_below: 1MiB
    cache: { per_stream: 64MiB }
"""


@case(alone=True, starts_itself=True)
def cap_and_threshold_of_a_policy_hold(run: Run) -> None:
    run.start(POLICY)
    kinds = out_of_memory_types(run.mode)
    take(MIB)
    before = free_memory()
    expect_error(kinds, lambda: take(5 * GIB))
    blocks = [take(512 * MIB) for _ in range(7)]
    expect_error(kinds, lambda: take(GIB))
    assert before - free_memory() <= 4 * GIB + 64 * MIB
    del blocks
    torch.cuda.synchronize()
    kept = before - free_memory()
    assert kept <= GIB + 64 * MIB, f"{kept / MIB:.0f} MiB are kept above a threshold of 1 GiB"


@case(starts_itself=True, has_entries=True)
def policies_that_are_wrong_are_refused_by_place(run: Run) -> None:
    policy = run.write("wrong.yaml", "weir: 1\npools:\n  tensors:\n    max_sise: 4GiB\n")
    need_weir()
    import weir

    try:
        use_allocator(run.mode, policy)
    except weir.WeirError as error:
        assert "wrong.yaml:4:" in str(error) and "max_size" in str(error), error
    else:
        raise AssertionError("a wrong policy was accepted")
    assert torch.zeros(4, device="cuda").sum().item() == 0


@case(starts_itself=True, has_entries=True)
def enabling_too_late_is_refused(run: Run) -> None:
    torch.zeros(4, device="cuda")
    try:
        run.start()
    except RuntimeError as error:
        note(str(error))
        assert torch.zeros(4, device="cuda").sum().item() == 0
        return
    raise AssertionError("enable() after the first allocation was accepted")
