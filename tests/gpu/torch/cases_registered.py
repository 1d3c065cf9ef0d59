# SPDX-License-Identifier: MIT
"""MemPools that are registered with NCCL: sums are right, and what can be registered is."""

import json
import os
import sys
from typing import Any, Dict, List

import allocators
from cases_processes import outputs_of_ranks
from harness import HERE, NATIVE, SHIM, Run, Skip, case, note

POLICY = "weir: 1\npools: { tensors: { backing: %s, release_threshold: all } }\n"


def ranks_of(run: Run, world: int, kind: str, backing: str) -> List[Dict[str, Any]]:
    """What each rank of registered.py printed, with the lines of NCCL's log that tell of registrations."""
    policy = run.write(f"{backing}.yaml", POLICY % backing)
    store = os.path.join(run.folder, "store")
    log = os.path.join(run.folder, "nccl")
    environment = allocators.environment(run.mode)
    # As apex and Megatron set the first. Multicast is left out, as not every host with NVLink allows it.
    environment.update(
        TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK="0",
        NCCL_NVLS_ENABLE="0",
        NCCL_DEBUG="INFO",
        NCCL_DEBUG_SUBSYS="REG",
        NCCL_DEBUG_FILE=log + ".%p",
    )
    program = os.path.join(HERE, "registered.py")
    commands = [[sys.executable, program, run.mode, policy, store, str(rank), str(world), kind] for rank in range(world)]
    found = []
    for output in outputs_of_ranks(commands, environment, 120):
        answer = json.loads([line for line in output.splitlines() if line.startswith("{")][-1])
        if "skip" in answer:
            raise Skip(answer["skip"])
        with open(f"{log}.{answer['pid']}", encoding="utf-8", errors="replace") as file:
            words = file.read()
        answer["registered"] = words.count("register comm ")
        answer["mapped"] = words.count("IPC register buffer")
        answer["warned"] = "is not registered with NCCL" in output
        note(str(answer))
        found.append(answer)
    return found


def check(run: Run, world: int, kind: str, backing: str = "arena") -> None:
    """A plain pool is Weir's memory, which is left out with a warning; a pool of NCCL's allocator is registered."""
    for answer in ranks_of(run, world, kind, backing):
        assert answer["count"] > 0 and answer["wrong"] == 0, answer
        assert all(segments > 0 for segments in answer["segments"]), answer
        if run.mode == SHIM:
            assert (answer["registered"] > 0) == (kind == "own"), answer
            assert answer["warned"] == (kind == "plain"), answer


@case(modes=(NATIVE, SHIM), starts_itself=True, seconds=150)
def pool_of_nccls_allocator_is_registered_by_one_rank(run: Run) -> None:
    check(run, 1, "own")


@case(modes=(NATIVE, SHIM), starts_itself=True, seconds=150)
def plain_pool_registers_without_an_error_by_one_rank(run: Run) -> None:
    check(run, 1, "plain")


@case(modes=(NATIVE, SHIM), gpus=2, starts_itself=True, seconds=150)
def sums_of_two_ranks_in_a_pool_of_nccls_allocator_are_right(run: Run) -> None:
    check(run, 2, "own")


@case(modes=(NATIVE, SHIM), gpus=2, starts_itself=True, seconds=150)
def sums_of_two_ranks_in_a_plain_pool_of_an_arena_are_right(run: Run) -> None:
    check(run, 2, "plain")


@case(modes=(NATIVE, SHIM), gpus=2, starts_itself=True, seconds=150)
def sums_of_two_ranks_in_a_plain_pool_of_cudas_pools_are_right(run: Run) -> None:
    check(run, 2, "plain", backing="new")
