# SPDX-License-Identifier: MIT
"""
What a script says of its regions: where it is, and what its tensors are for, which `weir trace` shows; and from which
pool of the policy they come.
"""

from contextlib import contextmanager
from typing import Iterator, Optional

from weir import _library


def mark(name: str) -> None:
    """Writes into the recorder of each device in use that the script is here: mark("step 12")."""
    _library.load().mark(name)


@contextmanager
def tag(name: str) -> Iterator[None]:
    """
    Names what this thread allocates meanwhile, on each device in use: with tag("kv-cache"): ...

    A tensor keeps its tag until it is freed. Other threads, such as those of autograd, have tags of their own.
    """
    library = _library.load()
    library.tag_push(name)
    try:
        yield
    finally:
        library.tag_pop(name)


@contextmanager
def pool(name: str, device: Optional[int] = None) -> Iterator[None]:
    """
    Takes what this thread allocates meanwhile from that pool of the policy: with weir.torch.pool("activations"): ...

    The pool's limits, backing and reserves hold for it, and no cache of streams. It goes back to that pool, whenever
    it is freed. Pools lie in each other, at most 16 deep, and each thread has its own, those of autograd too. During a
    capture, and where a torch.cuda.MemPool is in use, these come first. device: where the pool is looked for; None: the
    current one. Raises weir.WeirError: the policy has no such pool, which names those that it has.
    """
    import torch

    library = _library.load()
    library.region_begin(name, torch.cuda.current_device() if device is None else device)
    try:
        yield
    finally:
        library.region_end()
