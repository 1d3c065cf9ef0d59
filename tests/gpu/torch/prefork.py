# SPDX-License-Identifier: MIT
"""
prefork.py MODE POLICY - a server that forks its workers before anybody has used CUDA. Prints what each worker had allocated after 5 and
after 60 steps, and its allocator, as JSON.
"""

import json
import multiprocessing
import os
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
import harness  # noqa: E402
from training import make_model  # noqa: E402


def work(answers: "multiprocessing.queues.Queue[Any]") -> None:
    model = make_model(width=1024)
    optimizer = torch.optim.AdamW(model.parameters())
    allocated = []
    for _ in range(60):
        data = torch.randn(4096, 64, device="cuda")
        loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        allocated.append(torch.cuda.memory_allocated())
    answers.put({"early": allocated[4], "late": allocated[-1], "backend": torch.cuda.get_allocator_backend()})


def main() -> None:
    harness.use_allocator(sys.argv[1], sys.argv[2])
    assert not torch.cuda.is_initialized()
    context = multiprocessing.get_context("fork")
    found = []
    for _ in range(2):
        answers = context.Queue()
        worker = context.Process(target=work, args=(answers,))
        worker.start()
        found.append(answers.get(timeout=60))
        worker.join(30)
        assert worker.exitcode == 0, worker.exitcode
    print(json.dumps({"workers": found}))


if __name__ == "__main__":
    main()
