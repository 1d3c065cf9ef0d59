# SPDX-License-Identifier: MIT
"""CUDA graphs: they are captured, replayed with the numbers of eager mode, and give their memory back."""

import functools
import gc
import threading
from typing import Any, Callable, List, Tuple

import torch
from harness import GIB, MIB, NATIVE, PLAIN, SHIM, WEIR, Run, case, expect_error, free_memory, note
from torch import nn
from training import make_data, make_deterministic, make_model, target_of

REPLAYS = 1000
SLACK = 256 * MIB


def scribble(sizes: Tuple[int, ...] = (512, 70 << 10, 1 << 20, 5 * MIB)) -> None:
    """
    Takes memory as other work would, and writes into it what would spoil the numbers of a graph that it belongs to.
    """
    for size in sizes:
        torch.full((size // 4,), float("nan"), device="cuda")


def chain(value: torch.Tensor) -> torch.Tensor:
    """
    Intermediates of several sizes, which are freed and whose memory is used again, in whole numbers: exact on any
    device.
    """
    for factor in (2, 3, 5):
        wide = value.repeat(factor) * factor
        part = wide[: value.numel()] + wide[-value.numel() :]
        del wide
        small = part[:100].clone() + 1
        value = (part + value) % 65521
        value[:100] += small
    return value


def capture(function: Callable[[], Any], **options: Any) -> Tuple["torch.cuda.CUDAGraph", Any]:
    """Warms up on a side stream, as torch asks for, and captures."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):
        result = function()
    return graph, result


def numbers(count: int = 50_000, start: int = 1) -> torch.Tensor:
    """Whole numbers to begin with."""
    return torch.arange(start, start + count, dtype=torch.int64, device="cuda") % 65521


def mismatches(graph: "torch.cuda.CUDAGraph", data: torch.Tensor, result: torch.Tensor, replays: int) -> int:
    """
    In how many values a graph of chain() differs from eager mode, with other input in each replay and other work
    between.
    """
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for number in range(replays):
        source = numbers(data.numel(), number * 31)
        data.copy_(source)
        graph.replay()
        if number % 2:
            scribble()
        wrong += (result != chain(source)).sum()
    return int(wrong)


@case(modes=(NATIVE, WEIR, SHIM))
def replays_equal_eager_while_others_allocate(run: Run) -> None:
    data = numbers()
    graph, result = capture(lambda: chain(data))
    assert mismatches(graph, data, result, REPLAYS) == 0


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> torch.Tensor:
    """A step, and its loss."""
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.mse_loss(model(batch), target_of(batch))
    loss.backward()
    optimizer.step()
    return loss


@case(modes=(PLAIN,))
def a_plain_allocator_cannot_capture_a_training_step(run: Run) -> None:
    """
    What the case below would look like without the reserves. A mere chain of operations it can capture: its memory
    becomes nodes of the graph.
    """
    model, data = make_model(), make_data(1)[0].cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    try:
        capture(lambda: train_step(model, optimizer, data))
    except RuntimeError as error:
        note(f"{type(error).__name__}: {error}")
        return
    raise AssertionError("a plain allocator can capture a training step: the case beside this one proves nothing")


@case(modes=(NATIVE, WEIR, SHIM), seconds=90)
def training_step_in_a_graph_equals_eager(run: Run) -> None:
    """A whole training step, the optimizer included, a thousand times."""
    make_deterministic()
    host = make_data(50)
    eager, graphed = make_model(), make_model()
    graphed.load_state_dict(eager.state_dict())
    data = host[0].cuda()

    optimizer = torch.optim.SGD(graphed.parameters(), lr=0.01)
    start = {name: value.clone() for name, value in graphed.state_dict().items()}
    graph, loss = capture(lambda: train_step(graphed, optimizer, data))
    graphed.load_state_dict(start)

    eager_optimizer = torch.optim.SGD(eager.parameters(), lr=0.01)
    for number in range(REPLAYS):
        batch = host[number % len(host)].cuda()
        data.copy_(batch)
        graph.replay()
        if number % 10 == 0:
            scribble()
        expected = train_step(eager, eager_optimizer, batch)
        if number % 100 == 99:
            torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-6)
    for one, other in zip(graphed.parameters(), eager.parameters()):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


@case(modes=(NATIVE, WEIR, SHIM))
def graphed_callables_equal_eager(run: Run) -> None:
    make_deterministic()
    eager, graphed = make_model(), make_model()
    graphed.load_state_dict(eager.state_dict())
    sample = torch.randn(128, 64, device="cuda", requires_grad=True)
    torch.cuda.make_graphed_callables(graphed, (sample,))  # which replaces its forward()
    for number, host in enumerate(make_data(100)):
        losses = []
        for model in (eager, graphed):
            data = host.cuda().requires_grad_()
            model.zero_grad(set_to_none=True)
            loss = nn.functional.mse_loss(model(data), target_of(data).detach())
            loss.backward()
            losses.append((loss.detach().clone(), data.grad))
        if number % 3 == 0:
            scribble()
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=1e-6)
    for one, other in zip(graphed.parameters(), eager.parameters()):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-6)


@case(modes=(NATIVE, WEIR, SHIM))
def several_graphs_leave_each_other_alone(run: Run) -> None:
    """Each with memory of its own, replayed in any order."""
    inputs = [numbers(40_000 + 1000 * number) for number in range(4)]
    graphs = [capture(functools.partial(chain, data)) for data in inputs]
    for number in range(REPLAYS // 4):
        order = [(number * step + 1) % 4 for step in (1, 3, 2, 1)]
        for which in order:
            inputs[which].copy_(numbers(inputs[which].numel(), number + which))
            graphs[which][0].replay()
        scribble()
    expected = [chain(data) for data in inputs]
    # What each graph gave last stays, whichever was replayed since.
    for which, (graph, result) in enumerate(graphs):
        graph.replay()
        assert bool((result == expected[which]).all())
    for (_, result), value in zip(graphs, expected):
        assert bool((result == value).all())


@case(modes=(NATIVE, WEIR, SHIM))
def graphs_that_share_a_pool_work_in_their_order(run: Run) -> None:
    """The second takes what the first gives, and the memory of both is one pool."""
    data = numbers()
    first, middle = capture(lambda: chain(data))
    second, result = capture(lambda: chain(middle), pool=first.pool())
    third, last = capture(lambda: chain(result), pool=first.pool())
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for number in range(REPLAYS // 2):
        source = numbers(data.numel(), number * 7)
        data.copy_(source)
        for graph in (first, second, third):
            graph.replay()
        if number % 2:
            scribble()
        wrong += (last != chain(chain(chain(source)))).sum()
    assert int(wrong) == 0
    handle = torch.cuda.graph_pool_handle()
    graph, other = capture(lambda: chain(data), pool=handle)
    assert mismatches(graph, data, other, 20) == 0


@case(modes=(NATIVE, WEIR, SHIM))
def shared_pool_outlives_its_first_graph(run: Run) -> None:
    data = numbers()
    first, kept = capture(lambda: chain(data))
    second, result = capture(lambda: chain(data), pool=first.pool())
    first.replay()
    expected = chain(data)
    del first
    gc.collect()
    torch.cuda.empty_cache()
    scribble()
    assert bool((kept == expected).all())
    assert mismatches(second, data, result, 50) == 0


@case(modes=(NATIVE, WEIR, SHIM))
def other_threads_allocate_during_captures(run: Run) -> None:
    """In the strictest mode of capture, which a careless call of another thread ends."""
    over = threading.Event()
    errors: List[BaseException] = []
    count = [0, 0, 0]

    def allocate(number: int) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                while not over.is_set():
                    scribble()
                    count[number] += 1
                    if count[number] % 64 == 0:
                        torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
        except BaseException as error:  # raised by the case
            errors.append(error)

    scribble()  # what kernels load when they first run may not be loaded during a capture
    threads = [threading.Thread(target=allocate, args=(number,)) for number in range(3)]
    data = numbers()
    captured = []
    try:
        for thread in threads:
            thread.start()
        for _ in range(5):
            captured.append(capture(lambda: chain(data), capture_error_mode="global"))
    finally:
        over.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    note(f"rounds of the other threads: {count}")
    for graph, result in captured:
        assert mismatches(graph, data, result, 50) == 0


@case(modes=(NATIVE, WEIR, SHIM))
def older_tensors_may_be_freed_during_a_capture(run: Run) -> None:
    data = numbers()
    chain(data)
    scribble()
    old = [torch.full((size,), 1, dtype=torch.int64, device="cuda") for size in (100, 50_000, 3_000_000)]
    torch.cuda.synchronize()
    base = torch.cuda.memory_allocated() - sum(tensor.numel() * 8 for tensor in old)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        old.clear()
        result = chain(data)
        old_like = torch.zeros(50_000, dtype=torch.int64, device="cuda")
        result[:100] += old_like[:100]
    expected = chain(data)
    for _ in range(20):
        graph.replay()
        scribble()
        assert bool((result == expected).all())
    del graph, result, old_like, expected
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() <= base + 64 * MIB


@case(modes=(NATIVE, WEIR, SHIM), alone=True)
def memory_of_a_graph_comes_back(run: Run) -> None:
    def large() -> torch.Tensor:
        parts = [torch.full((GIB // 4,), float(number), device="cuda") for number in range(4)]
        return torch.stack([part[:1000] for part in parts]).sum(0)

    small = capture(lambda: chain(numbers(1000)))
    del small
    expected = large()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = free_memory()
    graph, result = capture(large)
    graph.replay()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    held = before - free_memory()
    assert held >= 4 * GIB, f"a graph of four live GiB holds {held / MIB:.0f} MiB"
    assert bool((result == expected).all())
    del graph, result
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    kept = before - free_memory()
    assert kept <= SLACK, f"{kept / MIB:.0f} MiB were kept"


@case(modes=(NATIVE, WEIR, SHIM), alone=True)
def graphs_come_and_go_without_growth(run: Run) -> None:
    data = numbers(1_000_000)
    held = []
    for _ in range(30):
        graph, result = capture(lambda: chain(data))
        graph.replay()
        torch.cuda.synchronize()
        del graph, result
        gc.collect()
        torch.cuda.empty_cache()
        held.append(free_memory())
    lost = held[4] - held[-1]
    assert lost <= 64 * MIB, f"{lost / MIB:.0f} MiB were lost over 25 graphs"


@case(modes=(NATIVE, WEIR, SHIM))
def outputs_live_on_after_their_graph(run: Run) -> None:
    data = numbers()
    graph, result = capture(lambda: chain(data))
    graph.replay()
    expected = chain(data)
    del graph
    gc.collect()
    torch.cuda.empty_cache()
    for _ in range(20):
        scribble()
    assert bool((result == expected).all())


@case(modes=(NATIVE, WEIR, SHIM))
def a_capture_that_fails_spoils_nothing(run: Run) -> None:
    data = numbers()
    chain(data)
    scribble()

    def fail() -> None:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            chain(data)
            raise ValueError("on purpose")

    expect_error((ValueError,), fail, "on purpose")
    torch.cuda.synchronize()
    graph, result = capture(lambda: chain(data))
    assert mismatches(graph, data, result, 20) == 0


@case(modes=(NATIVE, WEIR, SHIM))
def random_numbers_of_graphs_work(run: Run) -> None:
    """Dropout in a graph: torch registers its generator's state, which it allocates itself."""
    layer = nn.Dropout(0.5).cuda()
    data = torch.ones(100_000, device="cuda")
    graph, result = capture(lambda: layer(data))
    graph.replay()
    first = result.clone()
    graph.replay()
    assert not bool((first == result).all())
    assert 0.45 < float((result == 0).float().mean()) < 0.55


@case(modes=(NATIVE, WEIR, SHIM), seconds=180)
def compiled_models_train(run: Run) -> None:
    make_deterministic()
    eager = make_model()
    compiled = torch.compile(eager)
    for host in make_data(5):
        data = host.cuda()
        gradients = []
        for model in (eager, compiled):
            eager.zero_grad(set_to_none=True)
            nn.functional.mse_loss(model(data), target_of(data)).backward()
            gradients.append([parameter.grad.clone() for parameter in eager.parameters() if parameter.grad is not None])
        scribble()
        for one, other in zip(*gradients):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
