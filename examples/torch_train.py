#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
torch_train.py - trains a small network, with Weir as torch's allocator or without, and goes on when memory runs out.

    python -m weir.torch build                              once, for each torch, or the first run does it: the shim
    python torch_train.py --policy pytorch.yaml             with Weir; without --policy the one that weir-policy(5) says is found
    python torch_train.py --no-weir                         the same with torch's own allocator
    python torch_train.py --policy pytorch.yaml --fraction 0.05 --batch 16384
                                                            too little memory for that batch: smaller ones follow until one fits
    python torch_train.py --cpu --no-weir --steps 5         to see that it runs, without a GPU

All that Weir needs is the one line with enable(), before the first CUDA call. The network learns to tell in which quarter of an image
the bright spot is, so the loss has to go down. The last lines are figures of the allocator.
"""

import argparse
import time
from typing import Tuple

import torch
from torch import nn


def make_network(width: int) -> nn.Module:
    """A convolutional network with the layers of a large one: convolution, normalisation, a skip, a head."""

    class Block(nn.Module):
        def __init__(self, channels: int, out: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(channels, out, 3, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(out),
                nn.ReLU(),
                nn.Conv2d(out, out, 3, padding=1, bias=False),
                nn.BatchNorm2d(out),
            )
            self.skip = nn.Conv2d(channels, out, 1, stride=2, bias=False)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.body(images) + self.skip(images))

    return nn.Sequential(
        Block(1, width), Block(width, 2 * width), Block(2 * width, 4 * width), nn.Flatten(), nn.LazyLinear(4)
    )


def make_batch(count: int, side: int, device: torch.device) -> Tuple[torch.Tensor, torch.Tensor]:
    """Noise with a bright spot in one of four quarters, and which one."""
    images = torch.randn(count, 1, side, side, device=device)
    labels = torch.randint(4, (count,), device=device)
    spots = torch.randint(side // 2 - 4, (count, 2), device=device)
    rows = spots[:, 0] + (labels // 2) * (side // 2)
    columns = spots[:, 1] + (labels % 2) * (side // 2)
    each = torch.arange(count, device=device)
    for row in range(4):
        for column in range(4):
            images[each, 0, rows + row, columns + column] += 2.0
    return images, labels


def train(arguments: argparse.Namespace, device: torch.device) -> None:
    """Some steps; a batch that does not fit is tried again at half its size."""
    network = make_network(arguments.width).to(device)
    network(torch.zeros(2, 1, arguments.side, arguments.side, device=device))
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    batch, step, begin = arguments.batch, 0, time.perf_counter()
    while step < arguments.steps:
        try:
            images, labels = make_batch(batch, arguments.side, device)
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(network(images), labels)
            loss.backward()
            optimizer.step()
        except torch.OutOfMemoryError as error:
            print(error)
            if batch == 1:
                raise
            batch //= 2
            print(f"step {step}: goes on with batches of {batch}")
            # The traceback keeps the tensors of the step that failed until here.
            images = labels = loss = None
            continue
        step += 1
        if step % arguments.every == 0 or step == arguments.steps:
            value = loss.item()
            seconds = (time.perf_counter() - begin) / step
            print(f"step {step:4d}: loss {value:.4f}, batch {batch}, {1000 * seconds:.1f} ms a step")


def print_figures() -> None:
    """Under torch's own names: with the shim, or with enable(patch=True), these answer for Weir as they do for torch's own allocator."""
    stats = torch.cuda.memory_stats()
    for name in ["allocated_bytes.all.current", "allocated_bytes.all.peak", "reserved_bytes.all.current", "reserved_bytes.all.peak"]:
        print(f"{name:30s} {stats[name] / 2**20:12.1f} MiB")
    for name in ["allocation.all.allocated", "num_alloc_retries", "num_ooms"]:
        print(f"{name:30s} {stats[name]:12d}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Trains a small network, with Weir as torch's allocator or without.")
    parser.add_argument("--policy", help="Weir's policy file")
    parser.add_argument("--no-weir", action="store_true", help="torch's own allocator")
    parser.add_argument("--cpu", action="store_true", help="no GPU")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--every", type=int, default=10, help="steps between two lines")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--side", type=int, default=64, help="of the images, in pixels")
    parser.add_argument("--width", type=int, default=32, help="channels of the first layer")
    parser.add_argument("--fraction", type=float, help="of the GPU's memory that torch may have")
    arguments = parser.parse_args()
    if not arguments.no_weir and not arguments.cpu:
        import weir.torch

        print(weir.torch.enable(arguments.policy, patch=True))
    torch.manual_seed(1)
    device = torch.device("cpu" if arguments.cpu else "cuda")
    if arguments.fraction is not None and not arguments.cpu:
        torch.cuda.set_per_process_memory_fraction(arguments.fraction)
    train(arguments, device)
    if not arguments.cpu:
        print_figures()


if __name__ == "__main__":
    main()
