# SPDX-License-Identifier: MIT
"""
registered.py MODE POLICY STORE RANK WORLD KIND - one rank that registers a MemPool with NCCL, on a GPU of its own.
KIND: own (NCCL's allocator) or plain. Prints as JSON how many sums were wrong, and what there was in the pool.
"""

import datetime
import gc
import json
import os
import sys
from typing import Any, List

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
import torch.distributed  # noqa: E402
import harness  # noqa: E402
from harness import MIB  # noqa: E402

# Of float: a page of an arena has 64 MiB at most.
SIZES = [MIB // 4, 3 * MIB // 4, 8 * MIB, 32 * MIB, 48 * MIB]


class Sums:
    """Collectives on tensors of the pool, and how many of them were wrong."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world, self.wrong = rank, world, 0
        self.count = 0

    def check(self, tensor: torch.Tensor, other: torch.Tensor) -> None:
        """In place, into the other one, and gathered: each piece of 1 MiB of a tensor has a value of its own."""
        pieces = torch.arange(tensor.numel(), device=tensor.device) // (MIB // 4) % 101
        base = pieces.to(torch.float32)
        everything = base * self.world + sum(range(1, self.world + 1))
        tensor.copy_(base + self.rank + 1)
        torch.distributed.all_reduce(tensor)
        self.note(torch.equal(tensor, everything))
        part = tensor.numel() // self.world
        tensor.copy_(base + self.rank + 1)
        other.fill_(-1)
        torch.distributed.all_gather_into_tensor(other[: part * self.world], tensor[:part])
        for rank in range(self.world):
            self.note(torch.equal(other[rank * part : (rank + 1) * part], base[:part] + rank + 1))
        # NCCL takes a registered buffer where source and destination differ.
        torch.distributed.reduce_scatter_tensor(other[:part], tensor[: part * self.world])
        self.note(torch.equal(other[:part], everything[self.rank * part : (self.rank + 1) * part]))

    def note(self, is_right: bool) -> None:
        self.count += 1
        self.wrong += not is_right


def make(size: int) -> List[torch.Tensor]:
    return [torch.zeros(size, device="cuda") for _ in range(2)]


def work(backend: Any, sums: Sums, kind: str) -> Any:
    """Tensors from before and after the registration, of sizes on both sides of a page, and some that go meanwhile."""
    pool = torch.cuda.MemPool(backend.mem_allocator) if kind == "own" else torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        tensors = [make(size) for size in SIZES]
    backend.register_mem_pool(pool)
    for pair in tensors * 2:
        sums.check(*pair)
    with torch.cuda.use_mem_pool(pool):
        later = [make(size) for size in SIZES]
    for pair in later:
        sums.check(*pair)
    del pair, tensors
    gc.collect()
    torch.cuda.empty_cache()
    # The freed chunks' addresses may come again, with other memory.
    with torch.cuda.use_mem_pool(pool):
        again = [make(size) for size in reversed(SIZES)]
    for pair in again + later:
        sums.check(*pair)
    segments = len(pool.snapshot())
    backend.deregister_mem_pool(pool)
    for pair in again:
        sums.check(*pair)
    return segments


def main() -> None:
    mode, policy, path, rank, world, kind = sys.argv[1:4] + [int(word) for word in sys.argv[4:6]] + sys.argv[6:]
    harness.use_allocator(mode, policy)
    torch.cuda.set_device(rank)
    store = torch.distributed.FileStore(path, world)  # type: ignore[attr-defined]
    torch.distributed.init_process_group(
        "nccl",
        store=store,
        rank=rank,
        world_size=world,
        timeout=datetime.timedelta(seconds=60),
        device_id=torch.device(f"cuda:{rank}"),
    )
    backend = torch.distributed.distributed_c10d._get_default_group()._get_backend(torch.device("cuda"))
    if not hasattr(backend, "register_mem_pool"):
        print(json.dumps({"skip": f"torch {torch.__version__} registers no MemPools"}))
        return
    sums = Sums(rank, world)
    segments = [work(backend, sums, kind) for _ in range(2)]
    # A pool that ends while it is registered.
    pool = torch.cuda.MemPool(backend.mem_allocator) if kind == "own" else torch.cuda.MemPool()
    backend.register_mem_pool(pool)
    with torch.cuda.use_mem_pool(pool):
        pair = make(MIB)
    sums.check(*pair)
    del pool, pair
    gc.collect()
    torch.cuda.empty_cache()
    torch.distributed.barrier(device_ids=[rank])
    torch.cuda.synchronize()
    print(json.dumps({"wrong": sums.wrong, "count": sums.count, "segments": segments, "pid": os.getpid()}))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
