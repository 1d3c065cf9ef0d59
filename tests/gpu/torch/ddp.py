# SPDX-License-Identifier: MIT
"""
ddp.py MODE POLICY STORE RANK WORLD - one rank of a distributed training, on a GPU of its own. Prints its losses as
JSON.
"""

import datetime
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
import torch.distributed  # noqa: E402
import harness  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from training import make_data, make_deterministic, make_model, target_of  # noqa: E402


def main() -> None:
    mode, policy, path, rank, world = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    harness.use_allocator(mode, policy)
    torch.cuda.set_device(rank)
    store = torch.distributed.FileStore(path, world)  # type: ignore[attr-defined]
    torch.distributed.init_process_group(
        "nccl", store=store, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=60)
    )
    make_deterministic()
    model = DistributedDataParallel(make_model(f"cuda:{rank}", width=1024), device_ids=[rank], bucket_cap_mb=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for host in make_data(60, batch=256, seed=100 + rank):
        data = host.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(data), target_of(data))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.item()))
    torch.distributed.barrier(device_ids=[rank])
    print(
        json.dumps(
            {
                "losses": losses,
                "backend": torch.cuda.get_allocator_backend(),
                "reserved": torch.cuda.memory_reserved(rank),
            }
        )
    )
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
