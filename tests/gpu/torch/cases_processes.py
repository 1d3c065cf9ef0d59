# SPDX-License-Identifier: MIT
"""Other processes and other libraries: workers, `weir run`, DistributedDataParallel, CuPy."""

import json
import math
import os
import shutil
import subprocess
import sys
from typing import Any, Dict, List, Optional

import allocators
import torch
from harness import (
    BACKENDS,
    GIB,
    HERE,
    MIB,
    NATIVE,
    OURS,
    ROOT,
    SHIM,
    WEIR,
    Run,
    Skip,
    case,
    expect_error,
    need_weir,
    note,
)

POLICY = """
weir: 1
defaults: { pool: tensors }
pools:
  tensors:
    release_threshold: 2GiB
    max_size: 16GiB
    small_below: 1MiB
"""


class Numbers(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """
    Rows that say who they are. Keeps a tensor on the GPU, as people's datasets do, which a worker gets by its fork.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.inherited: Optional[torch.Tensor] = torch.ones(1 << 20, device="cuda")

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        self.inherited = None  # freed in the child, where nothing may come of it
        return torch.full((1000,), index, dtype=torch.int64)


@case(modes=(NATIVE, WEIR, SHIM))
def workers_of_a_loader_are_unharmed_by_their_fork(run: Run) -> None:
    model = torch.nn.Linear(1000, 10).cuda()
    for _ in range(2):
        loader = torch.utils.data.DataLoader(
            Numbers(400), batch_size=20, num_workers=4, pin_memory=True, multiprocessing_context="fork", timeout=30
        )
        total = 0
        for batch in loader:
            data = batch.cuda(non_blocking=True)
            model(data.float()).sum().backward()
            total += int(data[:, 0].sum())
        assert total == 400 * 399 // 2, total
    assert torch.zeros(4, device="cuda").sum().item() == 0


@case(modes=(NATIVE, WEIR, SHIM))
def child_of_a_fork_fails_cleanly_and_parent_goes_on(run: Run) -> None:
    tensor = torch.ones(1 << 20, device="cuda")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            torch.empty(1 << 20, device="cuda")
        except RuntimeError:
            status = 0
        del tensor
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child got memory, or died"
    assert float(tensor.sum()) == 1 << 20


@case(modes=(NATIVE, SHIM), starts_itself=True, seconds=120, has_entries=True)
def tensors_go_through_a_queue_and_leave_nothing(run: Run) -> None:
    script = os.path.join(HERE, "queues.py")
    result = last_json(output_of([sys.executable, script, "--mode", run.mode, "--count", "1000", "--limit", "100"]))
    assert result["good"], result


@case(modes=(SHIM,), starts_itself=True)
def memory_of_cudas_pools_is_not_sent_and_says_why(run: Run) -> None:
    run.start(POLICY)
    tensor = torch.ones(1 << 20, device="cuda")
    error = expect_error((RuntimeError,), lambda: tensor.untyped_storage()._share_cuda_(), "weir", "backing: arena", "tensors")
    note(str(error))
    assert float(tensor.sum()) == 1 << 20


def output_of(command: List[str], **variables: str) -> str:
    """What a command printed. Fails with it if the command fails."""
    made = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=100,
        env={**os.environ, **variables},
        check=False,
    )
    note(made.stdout)
    assert made.returncode == 0, f"exit status {made.returncode}: {' '.join(command)}"
    return made.stdout


def last_json(output: str) -> Dict[str, Any]:
    """The last line that is a JSON object."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            found: Dict[str, Any] = json.loads(line)
            return found
    raise AssertionError("the program printed no result")


@case(modes=OURS, starts_itself=True, seconds=120, has_entries=True)
def weir_run_serves_a_script_that_knows_nothing_of_it(run: Run) -> None:
    weir = os.environ.get("WEIR") or shutil.which("weir")
    if not weir:
        raise Skip("the program weir is not on PATH: name it in $WEIR")
    policy = run.write("policy.yaml", POLICY)
    script = os.path.join(HERE, "unmodified.py")
    # In a cache of its own there is no shim, and without a compiler none is made.
    variables = {} if run.mode == SHIM else {"XDG_CACHE_HOME": run.folder, "CXX": "/nonexistent/c++"}
    result = last_json(output_of([weir, "run", "--policy", policy, "--", sys.executable, script], **variables))
    assert result["backend"] == BACKENDS[run.mode], result
    assert result["refused"] == ("OutOfMemoryError" if run.mode == SHIM else "RuntimeError"), result
    assert result["allocated"] >= 64 * MIB and result["peak"] >= result["allocated"], result
    native = last_json(output_of([sys.executable, script]))
    assert native["backend"] == BACKENDS[NATIVE], native
    for one, other in zip(result["losses"], native["losses"]):
        assert math.isclose(one, other, rel_tol=1e-4), (native, result)


def example(name: str, *arguments: str) -> str:
    """What an example prints that is run with the policy that goes with it."""
    return output_of([sys.executable, os.path.join(ROOT, "examples", name), "--policy", allocators.POLICY, *arguments])


@case(modes=(SHIM,), starts_itself=True, seconds=120, has_entries=True)
def example_of_a_training_learns(run: Run) -> None:
    losses = [
        float(line.split()[3].rstrip(",")) for line in example("torch_train.py").splitlines() if ": loss " in line
    ]
    assert len(losses) >= 5 and losses[-1] < losses[0], losses


@case(modes=(SHIM,), starts_itself=True, seconds=120, has_entries=True)
def example_of_a_training_goes_on_with_smaller_batches(run: Run) -> None:
    output = example("torch_train.py", "--fraction", "0.05", "--batch", "16384", "--steps", "5")
    assert "goes on with batches of" in output and "step    5: loss" in output


def rank_command(mode: str, run: Run, rank: int, world: int) -> List[str]:
    """The process of one rank of ddp.py."""
    policy = run.write("ddp.yaml", POLICY)
    store = os.path.join(run.folder, f"store-{mode}")
    return [sys.executable, os.path.join(HERE, "ddp.py"), mode, policy, store, str(rank), str(world)]


def outputs_of_ranks(commands: List[List[str]], environment: Dict[str, str], seconds: int) -> List[str]:
    """What each of the processes printed, which run at the same time. Fails if one of them fails."""
    ranks = [
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
        )
        for command in commands
    ]
    outputs = []
    try:
        for rank in ranks:
            outputs.append(rank.communicate(timeout=seconds)[0])
    finally:
        for rank in ranks:
            rank.kill()
    for output in outputs:
        note(output)
    assert [rank.returncode for rank in ranks] == [0] * len(ranks), "a rank failed"
    return outputs


def train_distributed(mode: str, run: Run, world: int) -> List[Dict[str, Any]]:
    """What each rank printed."""
    commands = [rank_command(mode, run, rank, world) for rank in range(world)]
    return [last_json(output) for output in outputs_of_ranks(commands, allocators.environment(mode), 90)]


def check_distributed(run: Run, world: int) -> None:
    """The losses of torch's own allocator, within what rounding makes of them."""
    native = train_distributed(NATIVE, run, world)
    ours = train_distributed(run.mode, run, world)
    for rank in range(world):
        assert ours[rank]["backend"] == BACKENDS[run.mode] and native[rank]["backend"] == BACKENDS[NATIVE]
        for step, (one, other) in enumerate(zip(ours[rank]["losses"], native[rank]["losses"])):
            assert math.isclose(one, other, rel_tol=1e-4), f"rank {rank}, step {step}: {one} is not {other}"
        assert ours[rank]["losses"][-1] < ours[rank]["losses"][0]
        assert ours[rank]["reserved"] <= 16 * GIB


@case(modes=OURS, starts_itself=True, seconds=200)
def distributed_training_of_one_rank_has_the_losses_of_native(run: Run) -> None:
    check_distributed(run, 1)


@case(modes=OURS, gpus=2, starts_itself=True, seconds=200)
def distributed_training_of_two_ranks_has_the_losses_of_native(run: Run) -> None:
    """NCCL on two GPUs, with a policy that has a threshold, a cap and a small twin."""
    check_distributed(run, 2)


def memory_used(device: int) -> int:
    """MiB of the device in use by anybody, asked of a program that needs no context there."""
    if not shutil.which("nvidia-smi"):
        raise Skip("nvidia-smi is not there to say what a process did not touch")
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", str(device)]
    return int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[0])


@case(modes=OURS, gpus=2, alone=True)
def only_the_devices_that_are_used_are_touched(run: Run) -> None:
    """A context alone would take hundreds of MiB."""
    before = [memory_used(device) for device in (0, 1)]
    torch.cuda.set_device(1)
    tensor = torch.ones(GIB // 4, device="cuda")
    torch.cuda.memory_stats()
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    grown = [memory_used(device) - was for device, was in zip((0, 1), before)]
    assert float(tensor[-1]) == 1
    assert grown[1] >= 1024, grown
    assert grown[0] <= 32, f"device 0, which is not used, has {grown[0]} MiB more in use"


@case(modes=OURS)
def cupy_and_torch_live_from_the_same_pool(run: Run) -> None:
    try:
        import cupy  # type: ignore[import-not-found,unused-ignore]
        import weir.cupy
    except ImportError as error:
        raise Skip(str(error)) from error
    weir_torch = need_weir()
    cupy.cuda.set_allocator(weir.cupy.allocator())
    before = weir_torch.memory_allocated()
    array = cupy.arange(1 << 22, dtype=cupy.int32)
    assert weir_torch.memory_allocated() - before >= 16 * MIB, "Weir knows nothing of CuPy's array"
    tensor = torch.as_tensor(array, device="cuda")
    assert int(tensor[-1]) == (1 << 22) - 1 and int((array * 2).sum()) == ((1 << 22) - 1) << 22
    for _ in range(200):
        other = cupy.ones(1 << 20, dtype=cupy.float32) + 1
        assert float(other[-1]) == 2
        del other
    with cupy.cuda.Stream(non_blocking=True) as stream:
        later = cupy.full(1 << 20, 3, dtype=cupy.int32)
        stream.synchronize()
        assert int(later.sum()) == 3 << 20
    del later, tensor, array
    stream.synchronize()
    cupy.cuda.Device().synchronize()
    torch.cuda.empty_cache()
    assert weir_torch.memory_allocated() <= before + MIB


@case(modes=OURS)
def cupy_raises_its_own_out_of_memory_error(run: Run) -> None:
    try:
        import cupy  # type: ignore[import-not-found,unused-ignore]
        import weir.cupy
    except ImportError as error:
        raise Skip(str(error)) from error
    cupy.cuda.set_allocator(weir.cupy.allocator())
    expect_error((cupy.cuda.memory.OutOfMemoryError,), lambda: cupy.empty(1000 * GIB, dtype=cupy.uint8))
    assert int(cupy.ones(1000, dtype=cupy.int32).sum()) == 1000
