# SPDX-License-Identifier: MIT
"""A small training that gives the same numbers each time, for cases that compare."""

from typing import Callable, List, Optional

import torch
from torch import nn


def make_deterministic(seed: int = 7) -> None:
    """The same numbers from now on, each time. Wants CUBLAS_WORKSPACE_CONFIG in the environment, which run.py sets."""
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


def make_model(device: str = "cuda", width: int = 256) -> nn.Module:
    """Layers of several kinds, with intermediates of small and large sizes."""
    return nn.Sequential(
        nn.Linear(64, width),
        nn.LayerNorm(width),
        nn.GELU(),
        nn.Linear(width, 4 * width),
        nn.GELU(),
        nn.Linear(4 * width, 8),
    ).to(device)


def make_data(steps: int, batch: int = 128, seed: int = 11) -> List[torch.Tensor]:
    """Inputs of so many steps, on the host, without touching the global generator."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, 64, generator=generator) for _ in range(steps)]


def target_of(data: torch.Tensor) -> torch.Tensor:
    """What the model is to learn."""
    return torch.sin(data[:, :8] * 2)


def train(steps: int, between: Optional[Callable[[int], None]] = None, device: str = "cuda") -> List[float]:
    """The losses of a training from its start. `between` is called before each step."""
    make_deterministic()
    model = make_model(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for step, host in enumerate(make_data(steps)):
        if between:
            between(step)
        data = host.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(data), target_of(data))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.item()))
    return losses
