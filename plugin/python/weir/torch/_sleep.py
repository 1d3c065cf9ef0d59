# SPDX-License-Identifier: MIT
"""
Pools of the policy that give their memory away for a time, while their tensors stay where they are: by sleep() now, or
while yielded() only if somebody needs it.
"""

import ctypes
import json
import math
from contextlib import ExitStack, contextmanager
from typing import Iterator, List, Optional

from weir import _library

CONTENTS = {None: 0, "discard": 1, "keep": 4}  # flags of weir_sleep.h
RETAIN = 2


def _flags(contents: Optional[str], retain: bool) -> int:
    if contents not in CONTENTS:
        raise ValueError(f"contents={contents!r}: write 'keep', 'discard', or None for what the policy says")
    return CONTENTS[contents] | (RETAIN if retain else 0)


def _milliseconds(timeout: float) -> int:
    if not 0 <= timeout <= 4294967:
        raise ValueError(f"timeout={timeout!r}: write seconds, from 0 to 4294967")
    return math.ceil(timeout * 1000)  # 0 means something else than the shortest time


def _devices(device: Optional[int]) -> List[int]:
    """That one, or those that are in use, or else the current one."""
    import torch

    if device is not None:
        return [device]
    library = _library.load()
    used = [index for index in range(torch.cuda.device_count()) if library.stats(index).memory]
    return used or [torch.cuda.current_device()]


def _pools(name: str, device: Optional[int]) -> List[ctypes.c_void_p]:
    library = _library.load()
    return [library.pool(name, index) for index in _devices(device)]


def sleep(name: str, *, contents: Optional[str] = None, retain: bool = False, timeout: float = 60.0, device: Optional[int] = None) -> int:
    """
    Gives the memory of that pool of the policy back to the device, on each device in use, and returns the bytes. Its
    tensors stay where they are, but nothing may use them before wake(). The pool has to be an arena (backing: arena).

    contents: "keep" copies them to page-locked memory of the host, "discard" gives them up; None is what the policy says
    (sleep.contents). retain: the host memory stays for the next time, which is faster then. timeout: seconds to wait for
    work of the GPU. device: only there. Raises weir.WeirError, with the pool of that device awake and whole; those of
    devices before it sleep. A pool that sleeps already gives 0.
    """
    flags, milliseconds = _flags(contents, retain), _milliseconds(timeout)
    return sum(_library.load().pool_sleep(pool, flags, milliseconds) for pool in _pools(name, device))


def wake(name: str, *, timeout: float = 0.0, device: Optional[int] = None) -> bool:
    """
    Takes the memory of the pool from each device again, and returns whether all contents are as before. Where the device
    has too little, other pools and processes are asked, for `timeout` seconds (0: on_oom.deadline of the policy). Raises
    weir.WeirError, with the report if memory is short; the pool then sleeps on, and is whole.
    """
    milliseconds = _milliseconds(timeout)
    return all([_library.load().pool_wake(pool, milliseconds) for pool in _pools(name, device)])


@contextmanager
def yielded(
    name: str, *, contents: Optional[str] = None, retain: bool = False, timeout: float = 0.0, device: Optional[int] = None
) -> Iterator[None]:
    """
    Promises that nothing uses the pool's tensors meanwhile, but for work that was launched before:

        with weir.torch.yielded("weights"):
            wait_for_requests()

    This costs nothing unless another pool or process needs the memory: then the pool is put to sleep. At the end it is
    woken. If the contents may be given up (contents="discard"), use yield_pool() and wake(), which says whether they were.
    """
    flags, milliseconds = _flags(contents, retain), _milliseconds(timeout)
    library = _library.load()
    # Whichever call fails, all pools that were yielded are woken: the program goes on to use their tensors.
    with ExitStack() as wakes:
        for pool in _pools(name, device):
            library.pool_yield(pool, flags)
            wakes.callback(library.pool_wake, pool, milliseconds)
        yield


def yield_pool(name: str, *, contents: Optional[str] = None, retain: bool = False, device: Optional[int] = None) -> None:
    """The beginning of yielded(), which wake() ends. Raises weir.WeirError; the pools of devices before that one are yielded then."""
    flags = _flags(contents, retain)
    for pool in _pools(name, device):
        _library.load().pool_yield(pool, flags)


def is_asleep(name: Optional[str] = None, device: Optional[int] = None) -> bool:
    """Whether memory of that pool, or of any, is away at present."""
    documents = (json.loads(_library.load().stats_json(index)) for index in _devices(device))
    return any(pool["asleep"] and name in (None, pool["name"]) for document in documents for pool in document["pools"])
