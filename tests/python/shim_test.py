# SPDX-License-Identifier: MIT
"""The shim in a real torch, with Weir's simulator behind it: started by shim.sh."""
import contextlib
import ctypes
import difflib
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import snapshots
import torch
import weir.torch
from tap import MIB, fact, main, raises
from weir import _library
from weir.torch import _build, _watch

POLICY = (
    "weir: 1\nexact_peaks: true\npools: { tensors: { cache: { largest: 4MiB } }, activations: {}, bounded: { max_size: 64MiB }, "
    "weights: { backing: arena, on_oom: { deadline: 10s } } }\ndefaults: { pool: tensors }\n"
)


def make(size):
    """A tensor of so many bytes."""
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def current(name):
    return torch.cuda.memory_stats()[name]


@fact
def enable_takes_the_shim_that_was_built():
    theirs = torch.cuda.memory_stats, torch.cuda.Stream.__new__
    state = weir.torch.enable(policy_text=POLICY, shim=True, patch=True, gpu="sim")
    assert state.shim and not state.patched, state
    assert theirs == (torch.cuda.memory_stats, torch.cuda.Stream.__new__)


def train(steps):
    """Makes and drops tensors as a training loop does. What is left, in bytes, and the allocator's name."""
    kept = []
    for _ in range(steps):
        kept = [make(64 * MIB) for _ in range(3)]
    kept.clear()
    return torch.cuda.memory_allocated(), torch.cuda.memory.get_allocator_backend()


@fact
def a_package_that_is_imported_anew_finds_weir_enabled():
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "weir"}
    import weir.torch as anew

    assert anew is not kept["weir.torch"]
    assert anew.enable(policy_text=POLICY, shim=True, gpu="sim").shim
    sys.modules.update(kept)


@fact
def children_that_are_forked_before_cuda_is_used_start_anew():
    assert not torch.cuda.is_initialized()
    for _ in range(2):
        child = os.fork()
        if child == 0:
            try:
                right = train(60) == (0, "weir") and torch.cuda.max_memory_allocated() <= 6 * 64 * MIB
                # And their own children have nothing of it.
                inner = os.fork()
                if inner == 0:
                    os._exit(int("child of a fork" not in str(raises(RuntimeError, torch.cuda.memory_snapshot))))
                os._exit(0 if right and os.waitpid(inner, 0)[1] == 0 else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
    torch.cuda.init()
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


@fact
def a_memory_fraction_of_torchs_settings_is_in_force_at_once():
    set_settings = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if set_settings is None:
        return
    set_settings("per_process_memory_fraction:0.125")
    assert torch.cuda.get_per_process_memory_fraction() == 0.125
    raises(torch.OutOfMemoryError, make, 2 << 30)
    set_settings("per_process_memory_fraction:1.0")
    make(3 << 30)


@fact
def torch_takes_no_other_allocator_and_names_weir():
    other = torch.cuda.memory.CUDAPluggableAllocator(_library.find(), "weir_torch_malloc", "weir_torch_free")
    error = raises(RuntimeError, torch.cuda.memory.change_current_allocator, other)
    assert "Weir is the allocator of torch in this process" in str(error), error


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
    blocks = [block for segment in snapshots.checked()["segments"] for block in segment["blocks"]]
    live = {block["address"]: block["requested_size"] for block in blocks if block["state"] == "active_allocated"}
    assert live == {tensor.data_ptr(): tensor.numel() for tensor in tensors}
    assert any(block["state"] == "inactive" for block in blocks), "the caches have nothing"
    assert sum(block["size"] for block in blocks) <= torch.cuda.memory_reserved()


@contextlib.contextmanager
def recording(**options):
    torch.cuda.memory._record_memory_history(**options)
    try:
        yield
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


def made_for_the_history():
    return make(5 * MIB)


def actions(snapshot):
    return [event["action"] for event in snapshot["device_traces"][0]]


@fact
def the_history_has_each_event_with_its_stack():
    torch.cuda.empty_cache()
    with recording():
        tensor = made_for_the_history()
        del tensor
        torch.cuda.empty_cache()
        snapshot = snapshots.checked()
    assert actions(snapshot) == ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free"], snapshot
    for event in snapshot["device_traces"][0][:2]:
        assert "made_for_the_history" in [frame["name"] for frame in event["frames"]], event
    assert snapshot["segments"] == []


@fact
def a_live_tensor_says_where_it_was_made():
    with recording():
        tensor = made_for_the_history()
        blocks = [block for segment in snapshots.checked()["segments"] for block in segment["blocks"]]
    (block,) = [block for block in blocks if block["address"] == tensor.data_ptr()]
    assert "made_for_the_history" in [frame["name"] for frame in block["frames"]], block


@fact
def stacks_are_kept_where_they_are_asked_for():
    for context, kept in [(None, ()), ("state", ("block",)), ("alloc", ("block", "alloc")), ("all", ("block", "alloc", "free_requested"))]:
        with recording(context=context):
            tensor = made_for_the_history()
            drop_me = made_for_the_history()
            del drop_me
            snapshot = snapshots.checked()
            blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
            found = {event["action"] for event in snapshot["device_traces"][0] if event.get("frames")} - {"segment_alloc"}
            found |= {"block" for block in blocks if block["address"] == tensor.data_ptr() and block.get("frames")}
            assert found == set(kept), (context, found)
        del tensor


@fact
def the_history_is_bounded():
    with recording(max_entries=7):
        for _ in range(100):
            make(1000)
        assert len(actions(snapshots.checked())) == 7


@fact
def tensors_from_before_the_history_are_in_it():
    tensor = make(3 * MIB)
    with recording():
        del tensor
        assert actions(snapshots.checked()) == ["free_requested", "free_completed"]


@fact
def an_out_of_memory_is_in_the_history_and_observers_come_before_the_exception():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *what: seen.append((what, actions(snapshots.checked()))))
    with recording():
        raises(torch.OutOfMemoryError, make, 9 << 30)
        (event,) = [event for event in snapshots.checked()["device_traces"][0] if event["action"] == "oom"]
    ((device, size, total, free), before) = seen[-1]
    assert (device, size, total) == (0, 9 << 30, 8 << 30) and 0 < free <= total, seen
    assert event["size"] == 9 << 30 and event["device_free"] == free, event
    assert before[-1] == "oom", before


@fact
def words_of_the_user_go_with_what_is_allocated():
    if not hasattr(torch._C, "_cuda_setMemoryMetadata"):
        return
    with recording():
        torch._C._cuda_setMemoryMetadata("layer 7")
        tensor = make(1000)
        torch._C._cuda_setMemoryMetadata("")
        other = make(1000)
        events = [event for event in snapshots.checked()["device_traces"][0] if event["action"] == "alloc"]
    assert [event["user_metadata"] for event in events] == ["layer 7", ""], events
    del tensor, other


@fact
def annotations_of_the_profiler_are_in_the_snapshot():
    with recording(global_record_annotations=True):
        with torch.profiler.record_function("a step"):
            tensor = make(1000)
        found = snapshots.checked()["external_annotations"]
    assert [(one["name"], one["stage"]) for one in found if one["name"] == "a step"] == [("a step", "START"), ("a step", "END")], found
    del tensor


@fact
def torchs_own_viewer_reads_a_snapshot():
    path = os.path.join(os.environ["XDG_CACHE_HOME"], "snapshot.pickle")
    kept = []
    with recording():
        kept = [made_for_the_history() for _ in range(3)]
        make(100)
        torch.cuda.memory._dump_snapshot(path)
    reports = snapshots.reports(path)
    for name, words in [("segsum", "15.0MiB"), ("trace", "5.0MiB"), ("memory", "made_for_the_history"), ("segments", "made_for_the_history")]:
        assert words in reports[name], (name, reports[name])
    kept.clear()


@fact
def snapshots_are_sound_while_threads_allocate():
    stop = threading.Event()

    def work(number):
        kept = []
        with torch.cuda.stream(torch.cuda.Stream()):
            while not stop.is_set():
                kept.append(make(512 * (1 + len(kept) * number % 97)))
                if len(kept) > 50:
                    del kept[:: 1 + number % 3]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(10):
            with recording(max_entries=2000, context=[None, "all"][number % 2]):
                for _ in range(3):
                    snapshots.checked()
                torch.cuda.empty_cache()
                snapshots.checked()
            snapshots.checked()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert torch.cuda.memory_allocated() == 0


@fact
def a_child_of_a_fork_takes_no_snapshot():
    with recording():
        child = os.fork()
        if child == 0:
            try:
                torch.cuda.memory_snapshot()
            except RuntimeError as error:
                os._exit(0 if "child of a fork" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0


@fact
def a_child_of_a_fork_may_be_profiled_whatever_the_history_did_at_the_fork():
    stop = threading.Event()

    def work():
        while not stop.is_set():
            with torch.profiler.record_function("parent"):
                make(1000)

    with recording(global_record_annotations=True, context=None, max_entries=1000):
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(100):
                child = os.fork()
                if child == 0:
                    signal.alarm(60)
                    with torch.profiler.record_function("child"):
                        os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
        finally:
            stop.set()
            for thread in threads:
                thread.join()


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


def own_allocator():
    """The allocator of shim_cuda.c, and how many blocks of it there are."""
    path = os.path.join(os.environ["XDG_CACHE_HOME"], "libcuda.so.1")
    library = ctypes.CDLL(path)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "shim_own_malloc", "shim_own_free")
    return allocator, lambda: ctypes.c_int.in_dll(library, "shim_own_blocks").value


def segments_of(pool_id):
    return [segment for segment in torch.cuda.memory_snapshot() if tuple(segment["segment_pool_id"]) == tuple(pool_id)]


@fact
def a_mem_pool_with_an_allocator_of_its_own_takes_its_memory_there():
    allocator, blocks = own_allocator()
    pool = torch.cuda.MemPool(allocator.allocator())
    with torch.cuda.use_mem_pool(pool):
        tensors = [make(MIB), make(MIB), make(MIB)]
    plain = make(MIB)
    assert blocks() == 2, blocks()
    assert len(segments_of(pool.id)) == 2
    assert torch.cuda.memory_allocated() == 4 * MIB
    del tensors
    assert blocks() == 2
    del pool
    gc.collect()
    assert blocks() == 0, blocks()
    del plain
    assert torch.cuda.memory_allocated() == 0


@fact
def an_allocator_of_a_pools_own_that_has_no_more_is_an_out_of_memory():
    allocator, blocks = own_allocator()
    pool = torch.cuda.MemPool(allocator.allocator())
    with torch.cuda.use_mem_pool(pool):
        error = raises(torch.OutOfMemoryError, make, 2 << 30)
        assert "own allocator" in str(error), error
        assert make(1000).numel() == 1000
    del pool
    gc.collect()
    assert blocks() == 0


class Tracker:
    """That of shim_tracker.cpp."""

    def __init__(self):
        self.path = os.path.join(os.environ["XDG_CACHE_HOME"], "libtracker.so")
        source = os.path.join(os.environ["top_srcdir"], "tests", "python", "shim_tracker.cpp")
        subprocess.run(_build._command(self.path, source), check=True)
        self.library = ctypes.CDLL(self.path)

    def ask(self, name, *arguments):
        text = ctypes.create_string_buffer(1 << 20)
        assert getattr(self.library, name)(*arguments, text, ctypes.c_size_t(len(text))) < len(text)
        return text.value.decode()

    def said(self):
        """What it was told: words and numbers of each."""
        lines = [line.split() for line in self.ask("tracker_said").splitlines()]
        return [(line[0], *map(int, line[1:])) for line in lines]

    def segments(self, pool):
        return sorted(int(line.split()[0]) for line in self.ask("tracker_segments", *map(ctypes.c_uint64, pool.id)).splitlines())


@contextlib.contextmanager
def own_pool():
    """A MemPool with shim_cuda.c's allocator, in use and then no more."""
    allocator, blocks = own_allocator()
    pool = torch.cuda.MemPool(allocator.allocator())
    with torch.cuda.use_mem_pool(pool):
        yield pool
    del pool
    gc.collect()


def stderr_of(function):
    """What the call writes there, from C too."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            function()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return file.read().decode()


@fact
def a_tracker_is_refused_where_all_tensors_are_to_be_registered_and_the_variable_is_named():
    globals()["tracker"] = Tracker()
    name = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"
    os.environ[name] = "1"
    error = tracker.ask("tracker_attach")
    assert name in error and "MemPool(backend.mem_allocator)" in error, error
    os.environ[name] = "0"
    assert tracker.ask("tracker_attach") == ""
    del os.environ[name]


@fact
def a_tracker_hears_of_chunks_of_a_pools_own_allocator_before_they_are_used_and_before_they_go():
    with own_pool() as pool:
        tensor = make(MIB)
        (came,) = tracker.said()
        action, base, size, pool_id, blocks = came
        assert (action, pool_id, blocks) == ("alloc", pool.id[1], 1), came
        assert base <= tensor.data_ptr() < base + size, (came, tensor.data_ptr())
        assert tracker.segments(pool) == [segment["address"] for segment in segments_of(pool.id)] == [base]
        make(MIB)
        assert tracker.said() == []
        del tensor, pool
    assert tracker.said() == [("free", base, size, pool_id, 1)]


@fact
def who_attaches_a_tracker_sees_no_memory_of_weirs_that_it_would_register_and_python_sees_it():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        tensor = make(64 * MIB)
    assert tracker.said() == []
    assert len(segments_of(pool.id)) == 1
    words = stderr_of(lambda: tracker.segments(pool))
    assert f"MemPool ({pool.id[0]}, {pool.id[1]})" in words and "MemPool(backend.mem_allocator)" in words, words
    assert tracker.segments(pool) == []
    assert len(segments_of(pool.id)) == 1
    del tensor, pool


@fact
def a_chunk_in_several_pieces_is_not_registered():
    piece = ctypes.c_size_t.in_dll(ctypes.CDLL(os.path.join(os.environ["XDG_CACHE_HOME"], "libcuda.so.1")), "shim_piece")
    for bytes_of_piece, told in [(2 * MIB, 0), (1 << 40, 1)]:
        piece.value = bytes_of_piece
        with own_pool() as pool:
            tensor = make(16 * MIB)
            assert len(tracker.said()) == told
            assert len(tracker.segments(pool)) == told
            assert len(segments_of(pool.id)) == 1
            del tensor, pool
        assert len(tracker.said()) == told
    piece.value = 0


@fact
def what_a_tracker_throws_fails_the_request_and_the_chunk_goes_back():
    with own_pool() as pool:
        tracker.library.tracker_refuse(1)
        error = raises(RuntimeError, make, MIB)
        tracker.library.tracker_refuse(0)
        assert "the tracker refuses" in str(error), error
        assert own_allocator()[1]() == 0
        assert {line[0] for line in tracker.said()} == {"alloc", "free"}
        assert make(MIB).numel() == MIB
        del pool
    tracker.said()


@fact
def what_an_own_allocator_threw_is_over_once_other_memory_served_the_request():
    spare = torch.cuda.MemPool(use_on_oom=True)
    with torch.cuda.use_mem_pool(spare):
        make(8 * MIB)
    with own_pool() as pool:
        tracker.library.tracker_refuse(1)
        kept = make(MIB)
        tracker.library.tracker_refuse(0)
        raises(torch.OutOfMemoryError, make, 9 << 30)
        del kept, pool
    del spare
    tracker.said()


@fact
def threads_that_make_and_drop_pools_tell_of_each_chunk_once():
    def work():
        for _ in range(30):
            with own_pool() as pool:
                kept = [make(MIB << number) for number in range(4)]
                assert len(tracker.segments(pool)) >= 1
                del kept, pool

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    torch.cuda.empty_cache()
    assert own_allocator()[1]() == 0
    said = tracker.said()
    assert len(said) >= 2 * 4 * 30
    assert sum(1 if line[0] == "alloc" else -1 for line in said) == 0
    assert tracker.library.tracker_strange() == 0


@fact
def mem_pools_are_nested_and_each_has_what_was_made_in_it():
    outer, inner = torch.cuda.MemPool(), torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(outer):
        first = make(1000)
        with torch.cuda.use_mem_pool(inner):
            second = make(1000)
        third = make(1000)
    plain = make(1000)
    found = {}
    for segment in torch.cuda.memory_snapshot():
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                found[block["address"]] = tuple(segment["segment_pool_id"])
    assert found[first.data_ptr()] == found[third.data_ptr()] == tuple(outer.id), found
    assert found[second.data_ptr()] == tuple(inner.id), found
    assert found[plain.data_ptr()] == (0, 0), found
    del first, second, third, plain, outer, inner


@fact
def without_the_caching_allocator_tensors_are_cudas_own():
    kept = make(MIB)
    torch.cuda.caching_allocator_enable(False)
    try:
        tensor = make(3 * MIB)
        assert torch.cuda.memory_allocated() == MIB
        pointer = torch.cuda.caching_allocator_alloc(MIB)
        assert torch.cuda.memory_allocated() == MIB
        torch.cuda.caching_allocator_delete(pointer)
        del kept
        assert torch.cuda.memory_allocated() == 0
    finally:
        torch.cuda.caching_allocator_enable(True)
    other = make(MIB)
    del tensor
    assert torch.cuda.memory_allocated() == MIB
    del other


@fact
def the_variable_of_torch_for_that_is_heard():
    code = (
        'import torch, weir.torch; weir.torch.enable(policy_text="weir: 1\\npools: { t: {} }", shim=True, gpu="sim"); '
        'tensor = torch.empty(1 << 20, dtype=torch.uint8, device="cuda"); print(torch.cuda.memory_allocated())'
    )
    for variables, allocated in [({}, "1048576"), ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "0")]:
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, timeout=120)
        assert done.stdout.split() == [allocated], (variables, done.stdout, done.stderr)


@fact
def a_pool_of_the_policy_serves_a_region():
    plain = make(MIB)
    with weir.torch.pool("activations"):
        tensor = make(3 * MIB)
        with weir.torch.pool("tensors"):
            other = make(MIB)
        again = make(5 * MIB)
    later = make(MIB)
    assert torch.cuda.memory_allocated() == 11 * MIB
    with weir.torch.pool("bounded"):
        assert "pool 'bounded'" in str(raises(torch.OutOfMemoryError, make, 65 * MIB))
    make(65 * MIB)
    del plain, tensor, other, again, later
    assert torch.cuda.memory_allocated() == 0


def free_bytes():
    return json.loads(_library.load().stats_json(0))["devices"][0]["memory_free"]


# The tests of C compare contents: here nothing runs on the GPU.
@fact
def a_pool_sleeps_and_wakes_with_its_tensors():
    with weir.torch.pool("weights"):
        tensor = make(40 * MIB)
    free, place = free_bytes(), tensor.data_ptr()
    assert not weir.torch.is_asleep("weights")
    for contents in "keep", None, "discard":
        given = weir.torch.sleep("weights", contents=contents, retain=contents is None)
        assert given >= 40 * MIB and free_bytes() >= free + 40 * MIB
        assert weir.torch.is_asleep("weights") and weir.torch.is_asleep() and not weir.torch.is_asleep("tensors")
        assert weir.torch.sleep("weights") == 0
        with weir.torch.pool("weights"):
            assert "asleep or yielded" in str(raises(Exception, make, MIB))
        assert weir.torch.wake("weights") is (contents != "discard") and weir.torch.wake("weights")
        assert not weir.torch.is_asleep() and tensor.data_ptr() == place
    del tensor


@fact
def a_yielded_pool_goes_only_if_somebody_needs_it():
    with weir.torch.pool("weights"):
        tensor = make(3 << 30)
    for mib, goes in (100, False), (5500, True):
        with weir.torch.yielded("weights", retain=True):
            other = make(mib * MIB)
            assert weir.torch.is_asleep("weights") is goes
            del other
        assert not weir.torch.is_asleep("weights")
    weir.torch.yield_pool("weights", contents="discard")
    weir.torch.sleep("weights", contents="keep")
    assert weir.torch.wake("weights")
    del tensor


@fact
def what_cannot_sleep_is_refused_in_words():
    assert "backing: arena" in str(raises(weir.WeirError, weir.torch.sleep, "activations"))
    assert "no pool 'weight'" in str(raises(weir.WeirError, weir.torch.wake, "weight"))
    assert "write 'keep', 'discard'" in str(raises(ValueError, lambda: weir.torch.sleep("weights", contents="zero")))
    assert "write seconds" in str(raises(ValueError, lambda: weir.torch.wake("weights", timeout=-1)))


@fact
def a_pool_that_the_policy_lacks_is_an_error_that_names_those_it_has():
    with_pool = weir.torch.pool("activation")
    error = raises(weir.WeirError, with_pool.__enter__)
    for word in "activation", "tensors", "activations":
        assert word in str(error), error
    make(1000)


def tagged(name):
    """Bytes that live blocks of the tag have."""
    return sum(tag["live"] for tag in json.loads(_library.load().stats_json(0))["tags"] if tag["name"] == name)


class Product(torch.autograd.Function):
    """An operator that takes 1 MiB forward and 2 MiB for its gradient, and runs no kernel."""

    @staticmethod
    def forward(ctx, inputs, weight):
        return make(MIB).view(torch.float32)

    @staticmethod
    def backward(ctx, gradient):
        passes.append(threading.get_ident())
        return None, torch.empty(MIB // 2, device="cuda")


passes = []
# No kernel runs on the simulator, nor does a copy.
_watch.copy = lambda storage: torch.UntypedStorage(storage.nbytes(), device=storage.device)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(MIB // 2, device="cuda"))

    def forward(self, inputs):
        return Product.apply(inputs, self.weight)


def backward(output):
    output.backward(gradient=torch.empty_like(output))


@fact
def tags_and_pools_of_a_region_reach_autograds_threads():
    model = Model()
    output = model(None)
    with weir.torch.tag("in backward"):
        backward(output)
        assert model.weight.grad is not None and passes[-1] != threading.get_ident(), "it ran in the thread that called it"
        held = tagged("in backward")
    assert held == 2 * MIB, held
    model.weight.grad = None
    # The next pass is in no region.
    backward(model(None))
    assert tagged("in backward") == 0
    model.weight.grad = None
    with weir.torch.pool("activations"):
        output = model(None)
        before = pool_live("activations")
        backward(output)
        assert pool_live("activations") >= before + 2 * MIB
    with weir.torch.tag("outer"), weir.torch.tag("inner"):
        model.weight.grad = None
        backward(model(None))
        assert tagged("inner") == 2 * MIB, tagged("inner")
    model.weight.grad = None
    assert tagged("inner") == tagged("outer") == 0


def pool_live(name):
    return sum(pool["live"] for pool in json.loads(_library.load().stats_json(0))["pools"] if pool["name"] == name)


class Sgd(torch.optim.Optimizer):
    """One that keeps 4 MiB of state, and runs no kernel."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    def step(self, closure=None):
        self.state["momentum"] = make(4 * MIB)


@fact
def what_training_takes_has_tags_by_itself():
    model = Model()
    optimizer = Sgd(model.parameters())
    place = model.weight.data_ptr()
    with weir.torch.watch(model, optimizer):
        assert tagged("parameters") == 2 * MIB and model.weight.data_ptr() != place
        batch = make(3 * MIB)
        output = model(batch)
        assert (tagged("inputs"), tagged("activations")) == (3 * MIB, MIB)
        backward(output)
        assert tagged("gradients") == 2 * MIB, tagged("gradients")
        optimizer.step()
        assert tagged("optimizer state") == 4 * MIB
        optimizer.zero_grad()
        assert tagged("gradients") == 0
        later = make(5 * MIB)
        assert tagged("inputs") == 8 * MIB
    after = make(7 * MIB)
    assert tagged("inputs") == 8 * MIB
    backward(model(batch))
    assert tagged("gradients") == 0
    del batch, output, later, after


@fact
def what_shares_a_storage_still_does_when_it_is_watched():
    model = torch.nn.Module()
    flat = torch.empty(1024, device="cuda")
    model.one = torch.nn.Parameter(flat[:512].view(16, 32).t())
    model.other = torch.nn.Parameter(flat[512:])
    model.tied = model.other
    shapes = model.one.stride(), model.other.storage_offset()
    watch = weir.torch.watch(model)
    assert model.one.untyped_storage().data_ptr() == model.other.untyped_storage().data_ptr() != flat.untyped_storage().data_ptr()
    assert model.tied is model.other and (model.one.stride(), model.other.storage_offset()) == shapes
    watch.stop()
    watch.stop()


@fact
def an_exception_in_forward_or_step_leaves_no_tag_behind():
    class Failing(torch.nn.Module):
        def forward(self):
            raise ValueError("forward")

    class Broken(Sgd):
        def step(self, closure=None):
            raise ValueError("step")

    model = Failing()
    model.weight = torch.nn.Parameter(torch.empty(16, device="cuda"))
    optimizer = Broken(model.parameters())
    with weir.torch.watch(model, optimizer, move=False):
        raises(ValueError, model)
        raises(ValueError, optimizer.step)
        raises(ValueError, model)
        tensor = make(6 * MIB)
        assert tagged("inputs") == 6 * MIB
    tensor = make(9 * MIB)
    assert tagged("inputs") == tagged("optimizer state") == tagged("activations") == 0
    del tensor


@fact
def the_allocator_for_mem_pools_is_accepted():
    pool = torch.cuda.MemPool(weir.torch.mem_pool_allocator(gpu="sim"))
    with torch.cuda.use_mem_pool(pool):
        tensor = make(1000)
    del tensor, pool


@fact
def tensors_go_to_another_process_through_a_queue_and_leave_nothing():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim_queue.py")
    with tempfile.TemporaryDirectory() as folder:
        variables = {"WEIR_SIM": f"memory=8GiB,name=shim-{os.getpid()}", "WEIR_CONTROL_DIR": folder}
        done = subprocess.run([sys.executable, program, "60"], env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.endswith("good\n"), done.stdout


@fact
def tensors_of_cudas_pools_are_not_sent_and_the_error_names_the_key():
    error = raises(RuntimeError, lambda: make(1000).untyped_storage()._share_cuda_())
    assert "of pool 'tensors' cannot be sent to other processes, as its memory is no arena of Weir's: write backing: arena" in str(error), error


@contextlib.contextmanager
def allocating_to(pool_id):
    """As torch.compile's graph trees run a function for the first time: without a capture."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch._C._cuda_beginAllocateCurrentStreamToPool(0, pool_id)
        try:
            yield
        finally:
            # Renamed in torch 2.7.
            (getattr(torch._C, "_cuda_endAllocateToPool", None) or torch._C._cuda_endAllocateCurrentStreamToPool)(0, pool_id)


def holds(pool_id, *tensors):
    return torch._C._cuda_checkPoolLiveAllocations(0, pool_id, {tensor.data_ptr() for tensor in tensors})


@fact
def the_state_of_a_pool_is_saved_and_restored():
    pool_id = torch.cuda.graph_pool_handle()
    with allocating_to(pool_id):
        kept, dying = make(1000), make(3 * MIB)
    assert holds(pool_id, kept, dying)
    state = torch._C._cuda_getCheckpointState(0, pool_id)
    address = dying.data_ptr()
    del dying
    with allocating_to(pool_id):
        stale = make(5 * MIB)
    assert holds(pool_id, kept, stale)
    torch._C._cuda_setCheckpointPoolState(0, state, [one.untyped_storage()._cdata for one in (kept, stale)], [])
    assert torch._C._cuda_checkPoolLiveAllocations(0, pool_id, {kept.data_ptr(), address})
    assert torch.cuda.memory_allocated() == 3 * MIB + 1000
    torch._C._cuda_cudaCachingAllocator_raw_delete(address)
    assert holds(pool_id, kept)
    # Tensors that the state was restored over free nothing any more.
    address = kept.data_ptr()
    del kept, stale
    assert torch._C._cuda_checkPoolLiveAllocations(0, pool_id, {address})
    torch._C._cuda_cudaCachingAllocator_raw_delete(address)
    assert holds(pool_id)
    for _ in range(2):
        torch._C._cuda_releasePool(0, pool_id)
    error = raises(RuntimeError, torch._C._cuda_setCheckpointPoolState, 0, state, [], [])
    assert "there is no pool" in str(error), error
    assert not segments_of(pool_id)


@fact
def a_restored_pool_is_in_the_history():
    pool_id = torch.cuda.graph_pool_handle()
    with allocating_to(pool_id):
        tensor = make(1000)
    state = torch._C._cuda_getCheckpointState(0, pool_id)
    address = tensor.data_ptr()
    del tensor
    with recording():
        torch._C._cuda_setCheckpointPoolState(0, state, [], [])
        assert actions(snapshots.checked()) == ["alloc"], actions(snapshots.checked())
    torch._C._cuda_cudaCachingAllocator_raw_delete(address)
    torch._C._cuda_releasePool(0, pool_id)


@fact
def empty_cache_of_a_mem_pool_leaves_its_live_tensors():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        tensor, large = make(1000), make(64 * MIB)
    del large
    assert torch.cuda.memory_reserved() >= 64 * MIB
    torch.cuda.empty_cache()
    assert len(segments_of(pool.id)) == 2
    del tensor, pool
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0


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


def stories(policy="", command=""):
    """What history_stories.py prints."""
    program = os.path.join(os.environ["top_srcdir"], "tests", "python", "history_stories.py")
    environment = {**os.environ, "SHIM_DEVICES": "2", "WEIR_SIM": os.environ["WEIR_SIM"] + ",devices=2"}
    done = subprocess.run([sys.executable, program, policy, command], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def by_story(text):
    """The lines of each story, by its name."""
    found = {}
    for line in text.splitlines():
        if not line.startswith(" "):
            found[line] = lines = []
        lines.append(line)
    return found


def expect_answers(text):
    """Those that stand beside the stories."""
    with open(os.path.join(os.environ["top_srcdir"], "tests", "python", "history_stories.txt"), encoding="utf-8") as file:
        expected, found = by_story(file.read()), by_story(text)
    assert list(expected) == list(found), list(found)
    for name, lines in found.items():
        if lines[1:] != [" this torch lacks it"]:
            assert lines == expected[name], "\n".join(difflib.unified_diff(expected[name], lines, "expected", "found", lineterm=""))


@fact
def the_history_answers_what_is_written_down():
    expect_answers(stories())


@fact
def the_history_answers_the_same_beside_a_trace_of_all():
    trace = os.path.join(os.environ["XDG_CACHE_HOME"], "stories-%p.weir")
    expect_answers(stories("record: { level: all, stacks: true, file: '%s' }" % trace))


@fact
def the_history_answers_the_same_while_recordings_of_the_process_begin_and_end():
    folder = os.environ["XDG_CACHE_HOME"]
    control = os.path.join(folder, "control")
    os.mkdir(control, 0o700)
    os.environ["WEIR_CONTROL_DIR"] = control
    tool = os.path.join(os.environ["top_builddir"], "tools", "weir")
    record = "'%s' record --timeout=60 --stacks --pid=PID.1 -s 0.3 -o '%s/beside%%d.weir'" % (tool, folder)
    try:
        expect_answers(stories("control: true", " && ".join(record % number for number in range(5))))
    finally:
        del os.environ["WEIR_CONTROL_DIR"]
    for number in range(5):
        subprocess.run([tool, "trace", "summary", "%s/beside%d.weir" % (folder, number)], check=True, capture_output=True, timeout=60)


RECORDED = """
import sys, torch, weir.torch
policy = "weir: 1\\npools: { t: {} }\\nrecord: { level: all, stacks: true, file: %s }\\n" % sys.argv[1]
weir.torch.enable(policy_text=policy, shim=sys.argv[2] == "with", gpu="sim")
torch.cuda.init()

class Double(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return torch.empty_like(x)

    @staticmethod
    def backward(context, gradient):
        return made_in_backward(gradient)

def made_in_backward(gradient):
    return torch.empty_like(gradient)

x = torch.empty(1000, device="cuda", requires_grad=True)
y = Double.apply(x)
y.backward(torch.empty_like(y))
"""


@fact
def stacks_of_a_trace_have_frames_of_torch_and_then_of_python():
    folder = os.environ["XDG_CACHE_HOME"]
    program = os.path.join(folder, "recorded.py")
    with open(program, "w", encoding="utf-8") as file:
        file.write(RECORDED)
    for shim in ["with", "without"]:
        trace = os.path.join(folder, shim + ".weir")
        subprocess.run([sys.executable, "-W", "ignore", program, trace, shim], check=True, timeout=120)
        tool = os.path.join(os.environ["top_builddir"], "tools", "weir")
        done = subprocess.run([tool, "trace", "stacks", "--json", trace], check=True, capture_output=True, text=True, timeout=120)
        stacks = [one["stack"] for one in json.loads(done.stdout)["files"][0]["stacks"]]
        for python in ["forward", "apply", "<module>"], ["made_in_backward", "backward", "apply"]:
            # Before 3.11 functions have no class in their names.
            (found,) = [stack for stack in stacks if [frame.split(" (")[0].split(".")[-1] for frame in stack[-3:]] == python]
            assert any("THPVariable_empty_like" in frame for frame in found[:-3]), found


CLAIMED = """
import torch
total = 3 << 30
assert torch.accelerator.get_memory_info(0) == torch.cuda.mem_get_info() == (total, total)
kept = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
left = total - torch.cuda.memory_reserved()
assert torch.accelerator.get_memory_info(0) == torch.cuda.mem_get_info() == (left, total) and left <= total - (64 << 20)
"""


@fact
def memory_of_the_device_is_the_claim_of_weir_run():
    if not hasattr(torch.accelerator, "get_memory_info"):
        return
    tool = os.path.join(os.environ["top_builddir"], "tools", "weir")
    place = tempfile.mkdtemp(dir=os.environ["XDG_CACHE_HOME"])
    command = [tool, "run", "--gpu=sim", "--reserve=3GiB", "--", sys.executable, "-c", CLAIMED]
    subprocess.run(command, check=True, timeout=120, env={**os.environ, "WEIR_CONTROL_DIR": place, "WEIR_GPU": ""})


@fact
def tensors_may_outlive_everything():
    globals()["left"] = [make(1000), make(2 * MIB)]


main()
