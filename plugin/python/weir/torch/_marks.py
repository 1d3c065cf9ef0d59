# SPDX-License-Identifier: MIT
"""
What a script says of its regions: where it is, and what its tensors are for, which `weir trace` shows; and from which
pool of the policy they come.
"""

import ctypes
from contextlib import contextmanager
from typing import Callable, Iterator, Optional

from weir import _library


def mark(name: str) -> None:
    """Writes into the recorder of each device in use that the script is here: mark("step 12")."""
    _library.load().mark(name)


def _follow_none(begins: int) -> None:
    """Without the shim nobody follows."""


_follow: Callable[[int], None] = _follow_none


def follow_by(path: str) -> None:
    """From now on the shim at that path has autograd's threads follow."""
    global _follow
    function = ctypes.PyDLL(path).weir_torch_shim_region
    function.restype, function.argtypes = None, [ctypes.c_int]
    _follow = function


def push_tag(name: str, followers: Optional[str] = None) -> None:
    """tag() begins. followers: the tag of threads that work for this one, if they have another."""
    library = _library.load()
    library.tag_push(followers or name)
    _follow(1)
    if followers is not None:
        library.tag_pop(followers)
        library.tag_push(name)


def pop_tag(name: str) -> None:
    """tag() ends."""
    _library.load().tag_pop(name)
    _follow(0)


@contextmanager
def tag(name: str) -> Iterator[None]:
    """
    Names what this thread allocates meanwhile, on each device in use: with tag("kv-cache"): ...

    A tensor keeps its tag until it is freed. With the shim, autograd's threads have the tag in what they do for this one, as in
    with tag("backward"): loss.backward(). Other threads have tags of their own.
    """
    push_tag(name)
    try:
        yield
    finally:
        pop_tag(name)


@contextmanager
def pool(name: str, device: Optional[int] = None) -> Iterator[None]:
    """
    Takes what this thread allocates meanwhile from that pool of the policy: with weir.torch.pool("activations"): ...

    The pool's limits, backing and reserves hold for it, and no cache of streams. It goes back to that pool, whenever
    it is freed. Pools lie in each other, at most 16 deep, and each thread has its own, but with the shim autograd's
    threads have this one's in what they do for it. During a capture, and where a torch.cuda.MemPool is in use, these
    come first. device: where the pool is looked for; None: the current one. Raises weir.WeirError if the policy has
    no such pool; the error names the pools that the policy has.
    """
    import torch

    library = _library.load()
    library.region_begin(name, torch.cuda.current_device() if device is None else device)
    _follow(1)
    try:
        yield
    finally:
        library.region_end()
        _follow(0)
