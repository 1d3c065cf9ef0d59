# SPDX-License-Identifier: MIT
"""Several streams, threads and devices: nobody's memory is given to another while it is in use."""

import ctypes
import queue
import random
import threading
from typing import Callable, List, Tuple

import torch
from harness import GIB, LONG_SLEEP, MIB, NATIVE, OURS, PLAIN, SHIM, WEIR, Run, case, note
from training import make_data, make_model, target_of


def ints(size: int, value: int) -> torch.Tensor:
    """`size` bytes of 32-bit integers of that value."""
    return torch.full((size // 4,), value, dtype=torch.int32, device="cuda")


def overwritten(size: int, rounds: int, consumers: int, record: bool = True) -> Tuple[int, int]:
    """
    In each round a block is read by slow consumers on streams of their own, recorded for them, freed, and its like
    asked for and written at once. Returns in how many rounds a consumer read what was written after the free, and in
    how many the address came again while a consumer had not read yet.
    """
    streams = [torch.cuda.Stream() for _ in range(consumers)]
    results = [torch.empty(size // 4, dtype=torch.int32, device="cuda") for _ in streams]
    wrong = reused = 0
    for number in range(1, rounds + 1):
        block = ints(size, number)
        for stream, result in zip(streams, results):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                torch.cuda._sleep(LONG_SLEEP)
                result.copy_(block)
            if record:
                block.record_stream(stream)
        address = block.data_ptr()
        del block
        others = [ints(size, -number) for _ in range(4)]
        torch.cuda.current_stream().synchronize()
        assert not any(
            stream.query() for stream in streams
        ), "the consumers were done before the block was freed: nothing was tried"
        reused += any(other.data_ptr() == address for other in others)
        torch.cuda.synchronize()
        wrong += any(bool((result != number).any()) for result in results)
        del others
    return wrong, reused


def check_record_stream(mode: str, size: int, consumers: int = 1) -> None:
    """What is overwritten with the plain allocator is not with the others."""
    wrong, reused = overwritten(size, 5, consumers)
    note(f"{size} bytes: overwritten in {wrong} of 5 rounds, address given out again in {reused}")
    if mode == PLAIN:
        assert wrong > 0, "no fault is seen without record_stream: the program proves nothing of others"
    else:
        assert wrong == 0 and reused == 0


@case(modes=(NATIVE, WEIR, SHIM, PLAIN))
def record_stream_keeps_small_blocks_for_a_slow_consumer(run: Run) -> None:
    check_record_stream(run.mode, 64 << 10)


@case(modes=(NATIVE, WEIR, SHIM, PLAIN))
def record_stream_keeps_large_blocks_for_a_slow_consumer(run: Run) -> None:
    check_record_stream(run.mode, 64 * MIB)


@case(modes=(NATIVE, WEIR, SHIM))
def record_stream_waits_for_every_consumer(run: Run) -> None:
    check_record_stream(run.mode, 2 * MIB, consumers=3)


@case(modes=OURS, alone=True)
def recorded_memory_comes_back(run: Run) -> None:
    """Hundreds of times more than the device has, each block recorded."""
    stream = torch.cuda.Stream()
    base = torch.cuda.memory_allocated()
    for _ in range(400):
        block = torch.empty(GIB, dtype=torch.uint8, device="cuda")
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            block[:512].fill_(1)
        block.record_stream(stream)
        del block
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == base


@case(modes=OURS)
def recording_the_own_stream_costs_nothing(run: Run) -> None:
    """A block that is recorded for the stream it is from is an ordinary block."""
    for number in range(100):
        block = ints(1 << 20, number)
        block.record_stream(torch.cuda.current_stream())
        total = block.sum(dtype=torch.int64)
        del block
        other = ints(1 << 20, -1)
        assert int(total) == number * (1 << 18)
        del other


@case(modes=(NATIVE, WEIR, SHIM))
def blocks_of_one_stream_are_not_given_to_another_too_early(run: Run) -> None:
    """
    Freed on one stream behind slow work, the memory is not written by another stream before that work has read it.
    """
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    for number in range(1, 6):
        with torch.cuda.stream(first):
            block = ints(4 * MIB, number)
            result = torch.empty_like(block)
            torch.cuda._sleep(LONG_SLEEP)
            result.copy_(block)
            del block
        with torch.cuda.stream(second):
            others = [ints(4 * MIB, -number) for _ in range(4)]
        second.synchronize()
        torch.cuda.synchronize()
        assert bool((result == number).all())
        del others


def make_stream() -> ctypes.c_void_p:
    """A stream that torch knows nothing of."""
    handle = ctypes.c_void_p(0)
    assert int(torch.cuda.cudart().cudaStreamCreate(ctypes.addressof(handle))) == 0
    return handle


def destroy_stream(handle: ctypes.c_void_p) -> None:
    """After it nothing may touch the handle."""
    assert int(torch.cuda.cudart().cudaStreamDestroy(handle.value)) == 0


@case(modes=OURS)
def external_streams_that_are_destroyed_harm_nothing(run: Run) -> None:
    """Tensors are freed before and after their stream was destroyed, and new streams get the handles of old ones."""
    survivors: List[torch.Tensor] = []
    handles = set()
    for number in range(50):
        handle = make_stream()
        handles.add(handle.value)
        with torch.cuda.stream(torch.cuda.ExternalStream(handle.value or 0)):
            kept = ints(1 << 20, number)
            freed = ints(3 * MIB, -1)
            del freed
            late = ints(64 << 10, number)
        torch.cuda.ExternalStream(handle.value or 0).synchronize()
        destroy_stream(handle)
        del late
        survivors.append(kept)
        del kept
        if number % 10 == 9:
            for offset, tensor in enumerate(survivors):
                assert bool((tensor == number - 9 + offset).all())
            survivors.clear()
            del tensor
            torch.cuda.empty_cache()
    note(f"{len(handles)} handles for 50 streams")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() < MIB, torch.cuda.memory_allocated()


@case(modes=OURS, alone=True)
def memory_of_destroyed_streams_is_not_lost(run: Run) -> None:
    """More than the device has, in blocks whose streams are gone."""
    total = torch.cuda.mem_get_info()[1]
    block = 4 * GIB
    for _ in range(2 * total // block):
        handle = make_stream()
        with torch.cuda.stream(torch.cuda.ExternalStream(handle.value or 0)):
            tensor = torch.empty(block, dtype=torch.uint8, device="cuda")
            tensor[:512].fill_(1)
        torch.cuda.synchronize()
        destroy_stream(handle)
        del tensor
    torch.cuda.synchronize()


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Runs it in so many threads, and raises what the first of them raised."""
    errors: List[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # it is raised where the case can see it
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@case(modes=OURS)
def threads_never_share_a_block(run: Run) -> None:
    """Each on a stream of its own: what was written is there until it is freed."""

    def work(number: int) -> None:
        chance = random.Random(number)
        live: List[Tuple[torch.Tensor, int]] = []
        with torch.cuda.stream(torch.cuda.Stream()):
            wrong = torch.zeros((), dtype=torch.int64, device="cuda")
            for step in range(600):
                size = chance.choice((512, 4096, 60 << 10, 1 << 20, 3 * MIB))
                live.append((ints(size, number * 1000 + step), number * 1000 + step))
                if len(live) > 16:
                    tensor, value = live.pop(chance.randrange(len(live)))
                    wrong += (tensor != value).sum()
            assert int(wrong) == 0, f"{int(wrong)} values were overwritten"

    in_threads(8, work)


@case(modes=OURS)
def tensors_are_freed_by_other_threads(run: Run) -> None:
    """One makes them, another lets go of the last reference."""
    hand_over: "queue.Queue[Tuple[torch.Tensor, int]]" = queue.Queue(maxsize=32)
    total = 1000

    def work(number: int) -> None:
        for value in range(total):
            if number == 0:
                hand_over.put((ints(256 << 10, value), value))
            else:
                tensor, expected = hand_over.get(timeout=30)
                if value % 50 == 0:
                    assert bool((tensor == expected).all())
                del tensor

    in_threads(2, work)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() < 2 * MIB


@case(modes=OURS)
def autograd_in_several_threads_gives_the_same_gradients(run: Run) -> None:
    """backward() allocates and frees in threads of torch's own."""
    data = make_data(1)[0].cuda()

    def gradients() -> List[torch.Tensor]:
        model = make_model()
        with torch.no_grad():
            for number, parameter in enumerate(model.parameters()):
                parameter.copy_(
                    torch.linspace(-0.05, 0.05, parameter.numel(), device="cuda").view_as(parameter) * (number + 1)
                )
        torch.nn.functional.mse_loss(model(data), target_of(data)).backward()
        return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]

    expected = gradients()
    torch.cuda.synchronize()

    def work(_number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                for one, other in zip(gradients(), expected):
                    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)

    in_threads(6, work)


@case(modes=(NATIVE, WEIR, SHIM), gpus=2, starts_itself=True)
def tensors_of_another_device_than_the_current_one_work(run: Run) -> None:
    """Copies between devices included, for which a policy without the shim has to name the peers."""
    run.start("weir: 1\npools: { tensors: { peer_access: all } }\n" if run.mode == WEIR else None)
    torch.cuda.set_device(0)
    base = [torch.cuda.memory_allocated(device) for device in (0, 1)]
    tensors = [torch.full((1 << 18,), device, dtype=torch.int32, device=f"cuda:{device}") for device in (1, 0, 1)]
    for tensor, device in zip(tensors, (1, 0, 1)):
        assert tensor.get_device() == device and bool((tensor == device).all())
    assert torch.cuda.memory_allocated(1) - base[1] >= 2 << 20
    with torch.cuda.device(1):
        other = tensors[1] + 1
        assert other.get_device() == 0
    assert torch.cuda.current_device() == 0
    copied = tensors[1].to("cuda:1")
    del tensors, tensor, other
    assert bool((copied == 0).all())
    del copied
    assert torch.cuda.current_device() == 0
    assert [torch.cuda.memory_allocated(device) for device in (0, 1)] == base


@case(modes=OURS, gpus=2)
def record_stream_works_on_the_second_device(run: Run) -> None:
    with torch.cuda.device(1):
        check_record_stream(run.mode, MIB)
