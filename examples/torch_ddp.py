#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
torch_ddp.py - data-parallel training over several GPUs, with Weir as torch's allocator or without: the loss curves are the same.

    torchrun --nproc-per-node=2 torch_ddp.py --policy pytorch.yaml        with Weir
    torchrun --nproc-per-node=2 torch_ddp.py --no-weir                    with torch's own allocator
    torchrun --nproc-per-node=2 torch_ddp.py --cpu                        to see that it runs, without a GPU

Each process opens a weir on its own GPU, by its first allocation there, and touches no other. NCCL's own buffers do not come from torch's
allocator; the gradients that it exchanges do. With --curve FILE the first process writes the losses, one a line, to be compared by `cmp`:
which memory a tensor lies in changes nothing of what is computed (cuBLAS is kept from choosing between algorithms below).
"""

import argparse
import os
from typing import List

import torch
import torch.distributed
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def make_network(width: int, depth: int) -> nn.Module:
    """A stack of transformer layers on sequences of numbers, with one number as its answer."""
    layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Linear(8, width), nn.TransformerEncoder(layer, depth, enable_nested_tensor=False), nn.Linear(width, 1))


def train(arguments: argparse.Namespace, device: torch.device, rank: int) -> List[float]:
    """The loss of each step, averaged over all processes."""
    torch.manual_seed(1)
    network = DistributedDataParallel(
        make_network(arguments.width, arguments.depth).to(device), device_ids=None if arguments.cpu else [device.index]
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    # Each process has data of its own, the same in each run. Lengths differ, so that the allocator gets something to do.
    source = torch.Generator().manual_seed(1000 + rank)
    losses = []
    for step in range(arguments.steps):
        length = 16 + int(torch.randint(48, (1,), generator=source))
        numbers = torch.randn(arguments.batch, length, 8, generator=source).to(device)
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(network(numbers).squeeze(-1), numbers.prod(dim=-1).tanh() + numbers.sum(dim=-1))
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        torch.distributed.all_reduce(total)
        losses.append(total.item() / torch.distributed.get_world_size())
        if rank == 0 and (step + 1) % arguments.every == 0:
            print(f"step {step + 1:4d}: loss {losses[-1]:.6f}", flush=True)
    return losses


def main() -> None:
    """One process of torchrun's."""
    parser = argparse.ArgumentParser(description="Data-parallel training, with Weir as torch's allocator or without. For torchrun.")
    parser.add_argument("--policy", help="Weir's policy file")
    parser.add_argument("--no-weir", action="store_true", help="torch's own allocator")
    parser.add_argument("--cpu", action="store_true", help="no GPU: Gloo instead of NCCL")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--every", type=int, default=10, help="steps between two lines")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--curve", help="file for the losses")
    arguments = parser.parse_args()
    if not arguments.no_weir and not arguments.cpu:
        import weir.torch

        weir.torch.enable(arguments.policy, patch=True)
    device = torch.device("cpu")
    if not arguments.cpu:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("gloo" if arguments.cpu else "nccl")
    rank = torch.distributed.get_rank()
    losses = train(arguments, device, rank)
    if rank == 0 and arguments.curve:
        with open(arguments.curve, "w", encoding="ascii") as curve:
            curve.writelines(f"{loss!r}\n" for loss in losses)
    if not arguments.cpu:
        peak = torch.cuda.max_memory_allocated() / 2**20
        print(f"rank {rank}: at most {peak:.1f} MiB in tensors", flush=True)
    # Gloo may abort a process whose partner has ended already.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
