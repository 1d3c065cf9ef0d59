# SPDX-License-Identifier: MIT
"""A training script as people write them, which knows nothing of Weir. Prints what it saw as JSON."""

import json

import torch
from torch import nn


def main() -> None:
    torch.manual_seed(1)
    device = torch.device("cuda")
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(20):
        data = torch.randn(512, 256).to(device)
        optimizer.zero_grad()
        loss = (model(data) - data.mean(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    kept = torch.empty(64 << 20, dtype=torch.uint8, device=device)
    torch.cuda.empty_cache()
    refused = ""
    try:
        torch.empty(1000 << 30, dtype=torch.uint8, device=device)
    except RuntimeError as error:
        refused = type(error).__name__
    print(torch.cuda.memory_summary())
    result = {
        "backend": torch.cuda.get_allocator_backend(),
        "allocated": torch.cuda.memory_allocated(),
        "peak": torch.cuda.max_memory_allocated(),
        "refused": refused,
        "losses": losses,
    }
    assert kept.numel() == 64 << 20
    print(json.dumps(result))


if __name__ == "__main__":
    main()
