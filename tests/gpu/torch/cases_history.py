# SPDX-License-Identifier: MIT
"""Torch's memory history, its snapshots and who reads them, and what is told of a request that fails."""

import json
import os
import threading
from typing import Any, Dict, List

import snapshots
import torch
from harness import GIB, MIB, NATIVE, SHIM, Run, case, expect_error
from training import make_data, make_model, target_of, train

BOTH = (NATIVE, SHIM)


def take(size: int) -> torch.Tensor:
    """So many bytes."""
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def begin(**options: Any) -> None:
    """Starts to record, on a device that is in use."""
    take(512)
    torch.cuda.memory._record_memory_history(**options)


def end() -> None:
    """Nothing is recorded any more."""
    torch.cuda.memory._record_memory_history(enabled=None)


def events(snapshot: Dict[str, Any], *actions: str) -> List[Dict[str, Any]]:
    """Those of the first device with one of the actions; without any, all."""
    return [event for event in snapshot["device_traces"][0] if not actions or event["action"] in actions]


def names(entry: Dict[str, Any]) -> List[str]:
    """Of the functions on the stack of an event or a block."""
    return [str(frame["name"]) for frame in entry.get("frames", ())]


def made_here() -> torch.Tensor:
    """A tensor with this function on its stack."""
    return take(30 * MIB)


@case(modes=BOTH)
def history_says_who_made_and_who_dropped_a_tensor(run: Run) -> None:
    begin()
    tensor = made_here()
    address = tensor.data_ptr()
    del tensor
    snapshot = snapshots.checked()
    end()
    told = [event for event in events(snapshot) if event.get("addr") == address and "segment" not in event["action"]]
    assert [event["action"] for event in told] == ["alloc", "free_requested", "free_completed"], told
    assert "made_here" in names(told[0]), told[0]
    assert told[0]["size"] == 30 * MIB, told[0]


@case(modes=(SHIM,))
def a_training_step_keeps_the_rules_at_each_event(run: Run) -> None:
    begin()
    train(3)
    snapshots.checked()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    snapshot = snapshots.checked()
    end()
    assert len(events(snapshot, "alloc")) > 100
    assert events(snapshot, "segment_free"), "empty_cache() is not seen"


@case(modes=(SHIM,))
def segments_come_to_no_more_than_what_is_reserved(run: Run) -> None:
    kept = [take(size) for size in (1000, 3 * MIB, 70 * MIB)]
    take(200 * MIB)
    snapshot = snapshots.checked()
    assert sum(segment["total_size"] for segment in snapshot["segments"]) <= torch.cuda.memory_reserved()
    asked = sum(block["requested_size"] for segment in snapshot["segments"] for block in segment["blocks"])
    assert asked == sum(tensor.numel() for tensor in kept) == torch.cuda.memory_allocated()


@case(modes=(SHIM,), starts_itself=True)
def an_arena_keeps_the_rules(run: Run) -> None:
    run.start("weir: 1\npools: { tensors: { backing: arena, release_threshold: all } }\n")
    begin()
    train(3)
    snapshots.checked()
    torch.cuda.empty_cache()
    snapshots.checked()
    end()


@case(modes=(SHIM,))
def what_other_streams_use_is_told_of(run: Run) -> None:
    begin()
    other = torch.cuda.Stream()
    tensor = take(64 * MIB)
    tensor.record_stream(other)
    with torch.cuda.stream(other):
        torch.cuda._sleep(100_000_000)
        del tensor
    snapshots.checked()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    snapshot = snapshots.checked()
    end()
    assert events(snapshot, "free_completed")


@case(modes=(SHIM,))
def graphs_have_segments_with_their_pool(run: Run) -> None:
    source = torch.ones(1 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    begin()
    with torch.cuda.graph(graph):
        total = (source * 2).sum()
    graph.replay()
    torch.cuda.synchronize()
    snapshot = snapshots.checked()
    of_pool = torch.cuda.memory_snapshot(graph.pool())
    end()
    own = [segment for segment in snapshot["segments"] if tuple(segment["segment_pool_id"]) == tuple(graph.pool())]
    assert own, [segment["segment_pool_id"] for segment in snapshot["segments"]]
    assert any(segment["address"] <= total.data_ptr() < segment["address"] + segment["total_size"] for segment in own)
    assert [segment["address"] for segment in of_pool] == [segment["address"] for segment in own]
    assert float(total) == 2 * source.numel()


@case(modes=BOTH)
def torchs_viewer_reads_the_pickle_in_four_reports(run: Run) -> None:
    path = os.path.join(run.folder, "snapshot.pickle")
    begin()
    kept = [made_here() for _ in range(3)]
    train(2)
    torch.cuda.memory._dump_snapshot(path)
    end()
    reports = snapshots.reports(path, rules=run.mode != NATIVE)
    assert "made_here" in reports["memory"] and "made_here" in reports["segments"]
    assert "30.0MiB" in reports["trace"], reports["trace"][:2000]
    assert reports["segsum"]
    del kept


@case(modes=BOTH)
def latest_events_are_kept(run: Run) -> None:
    begin(max_entries=10)
    for _ in range(100):
        take(MIB)
    assert len(events(torch.cuda.memory._snapshot())) == 10
    end()


@case(modes=BOTH)
def observer_is_called_before_the_error_and_may_take_a_snapshot(run: Run) -> None:
    seen: List[Any] = []

    def observe(device: int, size: int, total: int, free: int) -> None:
        seen.append((device, size, total, free, torch.cuda.memory._snapshot()))

    begin()
    torch._C._cuda_attach_out_of_memory_observer(observe)
    expect_error((torch.OutOfMemoryError,), lambda: take(1000 * GIB))
    end()
    ((device, size, total, free, snapshot),) = seen
    # The policy may allow less than is free.
    most = torch.cuda.mem_get_info()[1]
    assert (device, size) == (0, 1000 * GIB) and 0 < free <= most and 0 < total <= most, seen[0][:4]
    (event,) = events(snapshot, "oom")
    assert event["size"] == 1000 * GIB and event["device_free"] > 0, event


@case(modes=(SHIM,))
def snapshots_are_sound_while_threads_allocate(run: Run) -> None:
    stop = threading.Event()

    def work(number: int) -> None:
        kept: List[torch.Tensor] = []
        with torch.cuda.stream(torch.cuda.Stream()):
            while not stop.is_set():
                kept.append(take(512 * (1 + 37 * len(kept) * number % 9973)))
                if len(kept) > 50:
                    del kept[:: 1 + number % 3]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    begin(max_entries=5000)
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            snapshots.checked()
            torch.cuda.empty_cache()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    snapshots.checked()
    end()


@case(modes=BOTH)
def profiler_has_memory_of_the_gpu(run: Run) -> None:
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, profile_memory=True, record_shapes=True, with_stack=True) as profiler:
        model = torch.nn.Linear(1024, 1024, device="cuda")
        model(torch.ones(512, 1024, device="cuda")).sum().backward()
        torch.cuda.synchronize()
    usage = [event.device_memory_usage for event in profiler.key_averages()]
    assert max(usage) >= 1024 * 1024 * 4, usage
    path = os.path.join(run.folder, "timeline.json")
    profiler.export_memory_timeline(path, device="cuda:0")
    assert os.path.getsize(path) > 100


@case(modes=(SHIM,))
def what_a_watched_training_takes_is_told_apart(run: Run) -> None:
    import weir.torch
    from weir import _library

    def tagged(name: str) -> int:
        return sum(tag["live"] for tag in json.loads(_library.load().stats_json(0))["tags"] if tag["name"] == name)

    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    weights = sum(weight.nbytes for weight in model.parameters())
    # Each tensor is a block of its own, of a multiple of 512 bytes.
    rounding = 512 * len(list(model.parameters()))
    losses = []
    # The workspaces that cuBLAS keeps for each thread are there before.
    torch.nn.functional.mse_loss(model(make_data(1)[0].cuda()), target_of(make_data(1)[0].cuda())).backward()
    optimizer.zero_grad(set_to_none=True)
    with weir.torch.watch(model, optimizer):
        assert weights <= tagged("parameters") <= weights + rounding
        for host in make_data(5):
            data = host.cuda()
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.mse_loss(model(data), target_of(data))
            assert tagged("activations") > 128 * 1024 * 4
            loss.backward()
            assert weights <= tagged("gradients") <= weights + rounding + 512, tagged("gradients")
            optimizer.step()
            assert 2 * weights <= tagged("optimizer state") <= 2 * (weights + rounding) + rounding, tagged("optimizer state")
            losses.append(float(loss))
    assert losses[-1] < losses[0]
