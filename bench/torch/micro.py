# SPDX-License-Identifier: MIT
"""
Requests alone, through torch: hot pairs, RMM's RANDOM_ALLOCATIONS, and mixed sizes until memory is out. The requests are those of
weir-bench's sections rmm-pairs, rmm-random and full, so that torch's allocators can stand beside the others.

What torch and Python do around a request takes longer than the request. counter.cpp says how long the allocator takes.
"""

from functools import partial
from typing import Any, Callable, Dict, List, Tuple

MIB = 1 << 20
PAIRS = 20000
SEED = 73  # of bench/rmm.c
SIZES = {"1MiB": MIB, "4MiB": 4 * MIB, "64MiB": 64 * MIB, "256MiB": 256 * MIB, "1GiB": 1024 * MIB}
PAIR_SIZES = {"64KiB": 65536, "16MiB": 16 * MIB, "1GiB": 1024 * MIB}
COUNTS = (1000, 10000)
LIVE_MAX = 16000 * MIB  # of sequence.h
CHANCE = 73  # likewise
FULL_BYTES, FULL_SEED, FULL_BLOCKS = 32 << 30, 41, 65536  # of bench/full.c

Step = Callable[[], None]


class Generator:
    """The numbers of bench/sequence.c: splitmix64."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, bound: int) -> int:
        """The next one, in [0, bound)."""
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        return (mixed ^ (mixed >> 31)) % bound


def sequence(count: int, largest: int, seed: int = SEED) -> List[Tuple[int, int]]:
    """The steps of sequence_record(): (size, slot) for an allocation, (0, slot) for a free."""
    numbers = Generator(seed)
    steps: List[Tuple[int, int]] = []
    live: List[Tuple[int, int]] = []
    free_slots: List[int] = []
    live_bytes = slots = 0
    for _ in range(2 * count):
        size = 1 + numbers.below(largest)
        chance = numbers.below(100)
        if not live or (chance < CHANCE and len(live) < count and live_bytes + size <= LIVE_MAX):
            slot = free_slots.pop() if free_slots else slots
            slots = max(slots, slot + 1)
            live.append((slot, size))
            live_bytes += size
            steps.append((size, slot))
        else:
            index = numbers.below(len(live))
            slot, size = live[index]
            live[index] = live[-1]
            live.pop()
            live_bytes -= size
            free_slots.append(slot)
            steps.append((0, slot))
    return steps


def tensor(size: int) -> Any:
    """A block of torch's allocator."""
    import torch

    return torch.empty(size, dtype=torch.uint8, device="cuda")


def pairs_step(size: int, count: int = PAIRS, take: Callable[[int], Any] = tensor) -> Step:
    """Blocks of one size that are dropped at once."""

    def step() -> None:
        for _ in range(count):
            take(size)

    return step


def random_step(count: int, largest: int, take: Callable[[int], Any] = tensor) -> Step:
    """One pass of the sequence. A failed allocation becomes the next free of the sequence, ahead of its time."""
    steps = sequence(count, largest)

    def step() -> None:
        blocks: Dict[int, Any] = {}
        for number, (size, slot) in enumerate(steps):
            if not size:
                blocks.pop(slot, None)
                continue
            try:
                blocks[slot] = take(size)
            except (MemoryError, RuntimeError):  # torch.OutOfMemoryError is one of the latter
                early = next((freed for none, freed in steps[number + 1 :] if not none and freed in blocks), slot)
                blocks.pop(early, None)

    return step


def fill(number: int, bytes_most: int = FULL_BYTES, take: Callable[[int], Any] = tensor) -> float:
    """The per cent of `bytes_most` that are live when the first request fails. `number`: the round, each with other requests."""
    numbers, live = Generator(FULL_SEED + number), 0
    blocks: List[Tuple[Any, int]] = []
    while len(blocks) < FULL_BLOCKS:
        half = 65536 << numbers.below(12)
        size = half + numbers.below(half)
        if blocks and numbers.below(100) >= CHANCE:
            index = numbers.below(len(blocks))
            live -= blocks[index][1]
            blocks[index] = blocks[-1]
            blocks.pop()
            continue
        try:
            blocks.append((take(size), size))
        except (MemoryError, RuntimeError):
            break
        live += size
    return 100 * live / bytes_most


def capped_fill(number: int) -> float:
    """The same, where torch's allocator may have so much and no more."""
    import torch

    total = torch.cuda.get_device_properties(0).total_memory
    most = min(FULL_BYTES, total // 4)  # as weir-bench: a quarter of a smaller device
    torch.cuda.set_per_process_memory_fraction(most / total)
    return fill(number, most)


WORKLOADS: Dict[str, Callable[[], Step]] = {f"pair-{name}": partial(pairs_step, size) for name, size in PAIR_SIZES.items()}
WORKLOADS.update((f"random-{count}-{name}", partial(random_step, count, largest)) for count in COUNTS for name, largest in SIZES.items())
FULL = "full"
