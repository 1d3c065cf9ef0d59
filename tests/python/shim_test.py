# SPDX-License-Identifier: MIT
"""The shim in a real torch, with Weir's simulator behind it: started by shim.sh."""
import ctypes
import gc
import os
import shutil
import threading

import torch
import weir.torch
from tap import MIB, fact, main, raises
from weir import _library
from weir.torch import _build

POLICY = "weir: 1\nexact_peaks: true\npools: { tensors: { cache: { largest: 4MiB } } }\n"


def make(size):
    """A tensor of so many bytes."""
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def current(name):
    return torch.cuda.memory_stats()[name]


@fact
def enable_takes_the_shim_that_was_built():
    state = weir.torch.enable(policy_text=POLICY, shim=True)
    torch.cuda.init()
    assert state.shim, state
    assert torch.cuda.memory.get_allocator_backend() == "weir"


@fact
def tensors_are_counted_under_torchs_names():
    before = current("allocation.all.allocated")
    tensors = [make(1000), make(3 * MIB)]
    assert torch.cuda.memory_allocated() == 3 * MIB + 1000
    assert current("allocation.all.current") == 2
    assert current("allocation.all.allocated") == before + 2
    assert torch.cuda.memory_reserved() >= 3 * MIB + 1000
    del tensors
    assert torch.cuda.memory_allocated() == 0
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.allocated"] == stats["allocated_bytes.all.freed"] >= 3 * MIB + 1000
    assert "Allocated memory" in torch.cuda.memory_summary()


@fact
def torch_accelerator_has_the_same_figures():
    tensor = make(5 * MIB)
    if hasattr(torch.accelerator, "memory_allocated"):
        assert torch.accelerator.memory_allocated() == 5 * MIB
    del tensor


@fact
def peaks_and_totals_start_anew():
    make(64 * MIB)
    assert torch.cuda.max_memory_allocated() >= 64 * MIB
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == 0
    torch.cuda.reset_accumulated_memory_stats()
    assert current("allocation.all.allocated") == 0
    assert current("allocated_bytes.all.allocated") == 0


@fact
def an_empty_tensor_takes_nothing():
    before = current("allocation.all.allocated")
    make(0)
    assert current("allocation.all.allocated") == before


@fact
def out_of_memory_is_torchs_exception_with_the_report():
    error = raises(torch.OutOfMemoryError, make, 9 << 30)
    assert str(error).startswith("CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 8.00 GiB"), error
    assert "pool 'tensors'" in str(error), error
    raises(torch.OutOfMemoryError, make, 1 << 62)


@fact
def after_an_out_of_memory_torch_goes_on():
    tensors = []
    try:
        while True:
            tensors.append(make(1 << 30))
    except torch.OutOfMemoryError:
        assert len(tensors) >= 6, len(tensors)
    tensors.clear()
    assert make(6 << 30).numel() == 6 << 30


@fact
def observers_see_an_out_of_memory():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *what: seen.append(what))
    raises(torch.OutOfMemoryError, make, 9 << 30)
    assert [what[:2] for what in seen] == [(0, 9 << 30)], seen


@fact
def empty_cache_gives_everything_back():
    make(256 * MIB)
    assert torch.cuda.memory_reserved() >= 256 * MIB
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0


@fact
def the_memory_fraction_is_a_limit_and_is_remembered():
    assert torch.cuda.get_per_process_memory_fraction() == 1.0
    torch.cuda.set_per_process_memory_fraction(0.25)
    assert torch.cuda.get_per_process_memory_fraction() == 0.25
    raises(torch.OutOfMemoryError, make, 3 << 30)
    torch.cuda.set_per_process_memory_fraction(1.0)
    make(3 << 30)


def hits_of_two_tensors(stream):
    """How many of two tensors, one after the other, came from a cache."""
    before = _library.load().stats(0).cache_hits
    with torch.cuda.stream(stream):
        make(100000)
        make(100000)
    return _library.load().stats(0).cache_hits - before


@fact
def torchs_own_streams_have_caches_and_external_ones_none():
    own = torch.cuda.Stream()
    # Another stream of the simulator's, not of torch's pool.
    handle = raw_stream()
    assert hits_of_two_tensors(own) >= 1
    assert hits_of_two_tensors(torch.cuda.ExternalStream(handle)) == 0


def raw_stream():
    """A stream as other code would make one."""
    stream = ctypes.c_void_p()
    assert ctypes.CDLL(None).cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
    return stream.value


@fact
def recorded_tensors_are_freed_all_the_same():
    stream = torch.cuda.Stream()
    tensor = make(10 * MIB)
    tensor.record_stream(stream)
    del tensor
    assert torch.cuda.memory_allocated() == 0
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0


@fact
def a_stream_of_torchs_that_python_never_saw_is_known_to_live_when_it_is_recorded():
    # As those of NCCL's process groups: without that the tensor would wait for an out-of-memory.
    tensor = make(10 * MIB)
    tensor.record_stream(torch._C._CudaStreamBase())
    before = _library.load().stats(0).cached
    del tensor
    assert _library.load().stats(0).cached == before


@fact
def the_snapshot_has_each_live_tensor():
    tensors = [make(1000 + number) for number in range(3000)]
    del tensors[::2]
    segments = torch.cuda.memory_snapshot()
    assert {segment["address"]: segment["total_size"] for segment in segments} == {
        tensor.data_ptr(): tensor.numel() for tensor in tensors
    }
    assert all(segment["blocks"][0]["state"] == "active_allocated" for segment in segments)


@fact
def a_free_of_what_is_not_live_is_refused():
    address = torch.cuda.caching_allocator_alloc(4096)
    torch.cuda.caching_allocator_delete(address)
    assert "is not a block of torch's" in str(raises(RuntimeError, torch.cuda.caching_allocator_delete, address))


@fact
def many_threads_allocate_at_a_time():
    def work():
        kept = []
        for number in range(3000):
            kept.append(make(512 * (1 + number % 97)))
            if len(kept) > 50:
                del kept[:: 1 + number % 3]

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.cuda.memory_allocated() == 0
    assert current("allocation.all.allocated") - current("allocation.all.freed") == 0


@fact
def mem_pools_of_torch_count_their_uses():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        tensor = make(1000)
    if hasattr(pool, "use_count"):
        assert pool.use_count() == 1
    del tensor, pool


@fact
def a_mem_pool_with_an_allocator_of_its_own_is_refused():
    other = torch.cuda.memory.CUDAPluggableAllocator(_library.load().path, "weir_torch_malloc", "weir_torch_free")
    error = raises(RuntimeError, torch.cuda.MemPool, other.allocator())
    assert "MemPool with an allocator" in str(error), error


@fact
def the_allocator_for_mem_pools_is_accepted():
    pool = torch.cuda.MemPool(weir.torch.mem_pool_allocator())
    with torch.cuda.use_mem_pool(pool):
        tensor = make(1000)
    del tensor, pool


@fact
def what_is_not_supported_says_so_and_what_to_do_instead():
    refused = {
        "recording of the memory history": lambda: torch.cuda.memory._record_memory_history(),
        "weir-share(7)": lambda: make(1000).untyped_storage()._share_cuda_(),
        'torch.compile(mode="reduce-overhead")': lambda: torch._C._cuda_getCheckpointState(0, (0, 1)),
    }
    for text, function in refused.items():
        assert text in str(raises(RuntimeError, function)), text
    torch.cuda.memory._record_memory_history(enabled=None)


@fact
def graph_trees_are_told_of_what_the_reserve_lacks():
    assert torch._C._cuda_checkPoolLiveAllocations(0, (0, 1), set())
    error = raises(RuntimeError, torch._C._cuda_checkPoolLiveAllocations, 0, (0, 1), {4096})
    assert "reduce-overhead" in str(error), error


@fact
def a_forked_child_drops_what_it_inherited():
    tensors = [make(10000) for _ in range(10)]
    child = os.fork()
    if child == 0:
        tensors.clear()
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.cuda.memory_allocated() == 10 * 10000


@fact
def the_profiler_sees_memory():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        tensor = make(12345)
    used = [getattr(event, "self_device_memory_usage", None) for event in profiler.key_averages()]
    assert 12345 in used or used[0] is None, used
    del tensor


@fact
def a_shim_of_other_sources_is_not_taken():
    path = _build.path()
    assert path is not None and not _build.is_stale()
    other = os.path.join(_build.folder(), _build.NAME + ".0123456789abcdef.so")
    shutil.move(path, other)
    assert _build.path() is None
    assert _build.is_stale()
    shutil.move(other, path)


@fact
def tensors_may_outlive_everything():
    globals()["left"] = [make(1000), make(2 * MIB)]


main()
