# SPDX-License-Identifier: MIT
"""memory_test.py - the figures of weir.torch, of what a host allocates on the simulator. Speaks TAP."""

import os
import threading
import warnings

import torch
import weir.torch
from weir import _library

import tap
from tap import MIB, fact, has, raises

POLICY = "weir: 1\nexact_peaks: true\npools:\n  work: { small_below: 0, max_size: 1GiB }\n"

# What torch.cuda.memory_stats() of torch 2.11 has.
POOLS = ("all", "large_pool", "small_pool")
METRICS = ("allocated", "current", "freed", "peak")
ARRAYS = (
    "active",
    "active_bytes",
    "allocated_bytes",
    "allocation",
    "inactive_split",
    "inactive_split_bytes",
    "requested_bytes",
    "reserved_bytes",
    "segment",
)
KEYS = (
    ["%s.%s.%s" % (array, pool, metric) for array in ARRAYS for pool in POOLS for metric in METRICS]
    + ["max_split_size", "num_alloc_retries", "num_device_alloc", "num_device_free", "num_ooms", "num_sync_all_streams"]
    + ["%s.%s" % (name, metric) for name in ("oversize_allocations", "oversize_segments") for metric in METRICS]
)

# The weirs are opened by the first allocation of each device.
os.environ["WEIR_SIM"] = "devices=2,memory=4GiB"
LIBRARY = _library.configure(None, POLICY, "sim")
HOST = tap.Host(LIBRARY.path)
held = []


def hold(size):
    ptr = HOST.malloc(size)
    assert ptr
    held.append((ptr, size))
    return ptr


def drop():
    HOST.free(*held.pop())


@fact
def keys_are_those_of_torch_in_its_order():
    assert list(weir.torch.memory_stats(0)) == sorted(KEYS)


@fact
def all_is_0_before_torch_uses_cuda():
    assert set(weir.torch.memory_stats().values()) == {0}
    assert weir.torch.memory_allocated() == weir.torch.memory_reserved("cuda:1") == 0


@fact
def asking_does_not_make_torch_use_cuda():
    weir.torch.reset_peak_memory_stats()
    weir.torch.reset_accumulated_memory_stats()
    weir.torch.empty_cache()
    assert weir.torch.memory_snapshot() == []
    has(weir.torch.memory_summary(), "nothing was allocated yet")
    assert weir.torch.stats() == {}
    assert not torch.cuda.is_initialized()


@fact
def blocks_of_others_are_counted_before_torch_uses_cuda():
    hold(MIB)
    assert weir.torch.memory_allocated() == weir.torch.memory_allocated("cuda") == MIB
    assert len(weir.torch.memory_snapshot()) == 1
    drop()
    assert not torch.cuda.is_initialized()


@fact
def block_is_counted_while_it_lives():
    torch.cuda.init()
    HOST.init(2)
    assert weir.torch.memory_allocated() == 0
    hold(3 * MIB)
    assert weir.torch.memory_allocated() == 3 * MIB
    drop()
    assert weir.torch.memory_allocated() == 0


@fact
def device_is_a_number_a_name_or_the_current_one():
    hold(MIB)
    for device in (None, 0, "cuda", "cuda:0"):
        assert weir.torch.memory_allocated(device) == MIB, device
    for device in (1, "cuda:1"):
        assert weir.torch.memory_allocated(device) == 0, device
    drop()


@fact
def wrong_device_is_refused():
    raises(ValueError, weir.torch.memory_allocated, "cpu")
    assert raises(weir.WeirError, weir.torch.memory_allocated, 7).status == weir.Status.NOT_FOUND


@fact
def bytes_and_calls_stand_under_torchs_names():
    weir.torch.reset_accumulated_memory_stats()
    hold(2 * MIB)
    hold(MIB)
    drop()
    stats = weir.torch.memory_stats()
    for name in ("allocated_bytes", "requested_bytes", "active_bytes"):
        assert stats[name + ".all.current"] >= 2 * MIB, name
    assert stats["allocated_bytes.all.current"] == 2 * MIB
    calls = [stats["allocation.all." + metric] for metric in ("current", "allocated", "freed")]
    assert calls == [1, 2, 1], calls
    assert stats["reserved_bytes.all.current"] >= 2 * MIB
    drop()


@fact
def figures_of_pools_are_those_of_c():
    hold(2 * MIB)
    stats = weir.torch.stats()
    (pool,) = [pool for pool in stats["pools"] if pool["device"] == 0]
    assert pool["live"] >= 2 * MIB, stats
    assert stats["version"] == weir.__version__
    assert weir.torch.stats(1) == {}
    drop()


@fact
def no_peak_is_below_the_current_figure():
    hold(2 * MIB)
    stats = weir.torch.memory_stats()
    for key in KEYS:
        if key.endswith(".peak"):
            assert stats[key] >= stats[key.replace(".peak", ".current")], key
    drop()


@fact
def large_pool_is_all_and_small_pool_0():
    hold(2 * MIB)
    stats = weir.torch.memory_stats()
    for key in KEYS:
        if ".all." in key:
            assert stats[key] == stats[key.replace(".all.", ".large_pool.")], key
            assert stats[key.replace(".all.", ".small_pool.")] == 0, key
    drop()


@fact
def nested_stats_are_the_same():
    def walk(nested, *path):
        for key, value in nested.items():
            yield from walk(value, *path, key) if isinstance(value, dict) else [(".".join(path + (key,)), value)]

    assert dict(walk(weir.torch.memory_stats_as_nested_dict())) == dict(weir.torch.memory_stats())


@fact
def peaks_stay_until_they_are_reset():
    weir.torch.reset_peak_memory_stats()
    hold(5 * MIB)
    drop()
    assert weir.torch.max_memory_allocated() == 5 * MIB
    assert weir.torch.max_memory_reserved() >= 5 * MIB
    weir.torch.reset_peak_memory_stats()
    assert weir.torch.max_memory_allocated() == 0


@fact
def counts_start_anew_when_reset():
    hold(MIB)
    drop()
    weir.torch.reset_accumulated_memory_stats()
    stats = weir.torch.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 0


@fact
def out_of_memory_is_counted():
    weir.torch.reset_accumulated_memory_stats()
    assert HOST.malloc(2 << 30) is None
    assert weir.torch.memory_stats()["num_ooms"] == 1


@fact
def failure_has_its_report():
    assert HOST.malloc(2 << 30) is None
    has(weir.torch.report(), "'work'", "2 GiB")


@fact
def report_is_of_this_thread_alone():
    reports = []
    thread = threading.Thread(target=lambda: reports.append(weir.torch.report()))
    thread.start()
    thread.join()
    assert reports == [None]


@fact
def empty_cache_gives_memory_back():
    hold(64 * MIB)
    drop()
    before = weir.torch.memory_reserved()
    weir.torch.empty_cache()
    assert weir.torch.memory_reserved() < before


@fact
def former_names_answer_and_warn():
    weir.torch.reset_peak_memory_stats()
    formers = ("memory_cached", "max_memory_cached", "reset_max_memory_allocated", "reset_max_memory_cached")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answers = [getattr(weir.torch, name)() for name in formers]
    assert answers == [weir.torch.memory_reserved(), weir.torch.max_memory_reserved(), None, None]
    assert [warning.category for warning in caught] == [FutureWarning] * 4
    assert all(name in str(warning.message) for name, warning in zip(formers, caught))
    assert {warning.filename for warning in caught} == {__file__}


@fact
def snapshot_has_each_live_block():
    sizes = {hold(size): size for size in (MIB // 2, 3 * MIB)}
    segments = weir.torch.memory_snapshot()
    assert {segment["address"]: segment["total_size"] for segment in segments} == sizes
    assert [segment["segment_type"] for segment in segments if segment["total_size"] > MIB] == ["large"]
    for segment in segments:
        (block,) = segment["blocks"]
        assert (
            segment["device"] == 0 and block["state"] == "active_allocated" and block["address"] == segment["address"]
        )
    drop()
    drop()


@fact
def snapshot_has_thousands_of_blocks():
    for _ in range(3000):
        hold(512)
    assert len(weir.torch.memory_snapshot()) == 3000
    for _ in range(3000):
        drop()
    assert weir.torch.memory_snapshot() == []


@fact
def snapshot_of_a_mem_pool_is_left_to_torch():
    raises(NotImplementedError, weir.torch.memory_snapshot, (0, 1))


@fact
def summary_says_what_memory_is_used_for():
    weir.torch.reset_accumulated_memory_stats()
    assert HOST.malloc(2 << 30) is None
    hold(3 * MIB)
    summary = weir.torch.memory_summary()
    summary = " ".join(summary.split())
    has(
        summary,
        "Weir, device 0: 4.00 GiB, of which ",
        "in tensors 3.00 MiB",
        "reserved",
        "waiting",
        "cached",
        "idle",
        "graphs",
    )
    has(summary, "at most", "1.00 GiB", "blocks: 1 live", "1 were refused")
    drop()


@fact
def abbreviated_summary_leaves_counts_out():
    summary = weir.torch.memory_summary(abbreviated=True)
    assert "in tensors" in summary and "blocks:" not in summary


@fact
def child_of_a_fork_sees_0():
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            torch.cuda._initialized = False  # as torch says there
            weir.torch.reset_peak_memory_stats()
            weir.torch.empty_cache()
            if set(weir.torch.memory_stats().values()) == {0} and weir.torch.memory_snapshot() == []:
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


@fact
def tags_and_marks_reach_the_devices_in_use():
    hold(4096)
    weir.torch.mark("begin")
    for refused in (weir.torch.tag("a\0b").__enter__, lambda: weir.torch.mark("a\0b")):
        try:
            refused()
        except ValueError as error:
            assert "has a zero byte" in str(error), error
        else:
            raise AssertionError("a name with a zero byte was taken")
    with weir.torch.tag("weights"):
        hold(8192)
        error = raises(weir.WeirError, LIBRARY.tag_push, "x" * 64)
        has(str(error), "1 to 63 bytes")
    error = raises(ValueError, fail_within, "kv-cache")
    has(str(error), "within")
    drop()
    drop()


def fail_within(name):
    with weir.torch.tag(name):
        raise ValueError("within")


tap.main()
