# SPDX-License-Identifier: MIT
"""
Programs whose memory is hard on an allocator, beside those of models.py: a diffusion sampler, a speech encoder, minibatches of
graphs, a recommender, a data-parallel step, two models in one process, and tables that are sorted and joined by CuPy. Weights
and data are random, and the same for every allocator. Needs torch alone, but for the tables.
"""

import atexit
import contextlib
import ctypes
import os
import random
import signal
import subprocess
import sys
import tempfile
from functools import partial
from typing import Any, Callable, ContextManager, Dict, List, Optional, Sequence, Tuple

import torch
from models import DEVICE, endlessly
from torch import nn
from torch.nn import functional
from workloads import Step, Transformer, resnet50

RANK = "WEIR_BENCH_RANK"  # of a further process of the data-parallel program: its number and the file where they meet


def trained(model: nn.Module, rate: float = 1e-4) -> Callable[[torch.Tensor], None]:
    """What a step does with its loss: gradients, and AdamW on the model's parameters."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)

    def apply(loss: torch.Tensor) -> None:
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return apply


class Residual(nn.Module):
    """Two convolutions beside a short cut, told the time of the diffusion, and attention over all places if asked."""

    def __init__(self, channels_in: int, channels_out: int, time: int, attends: bool) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(8, channels_in), nn.SiLU(), nn.Conv2d(channels_in, channels_out, 3, padding=1))
        self.second = nn.Sequential(nn.GroupNorm(8, channels_out), nn.SiLU(), nn.Conv2d(channels_out, channels_out, 3, padding=1))
        self.time = nn.Linear(time, channels_out)
        self.short_cut = nn.Conv2d(channels_in, channels_out, 1)
        self.attention = nn.Conv2d(channels_out, 3 * channels_out, 1) if attends else None

    def forward(self, data: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """The sum of both ways."""
        result: torch.Tensor = self.short_cut(data) + self.second(self.first(data) + self.time(time)[:, :, None, None])
        if self.attention is not None:
            query, key, value = self.attention(result).flatten(2).transpose(1, 2).chunk(3, dim=2)
            result = result + functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(result.shape)
        return result


class Denoiser(nn.Module):
    """A U of residual blocks (Ronneberger and others): each level halves the picture, and meets it again on the way up."""

    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        widths, time = [width << min(level, 2) for level in range(levels)], 4 * width
        self.time = nn.Sequential(nn.Linear(1, time), nn.SiLU(), nn.Linear(time, time))
        self.first, self.last = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        before = [width, *widths]
        self.down = nn.ModuleList(Residual(before[level], widths[level], time, level >= 2) for level in range(levels))
        self.up = nn.ModuleList(Residual(2 * widths[level], before[level], time, level >= 2) for level in reversed(range(levels)))

    def forward(self, data: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """The noise in the picture at that time."""
        told, data, kept = self.time(time), self.first(data), []
        for block in self.down:
            data = block(data, told)
            kept.append(data)
            data = functional.avg_pool2d(data, 2, ceil_mode=True)
        for block in self.up:
            beside = kept.pop()
            data = block(torch.cat([functional.interpolate(data, size=beside.shape[2:]), beside], dim=1), told)
        result: torch.Tensor = self.last(data)
        return result


def diffusion_step(
    width: int = 192,
    rounds: int = 20,
    sizes: Sequence[Tuple[int, int]] = ((64, 64), (64, 96), (96, 64), (96, 96), (80, 112), (128, 128)),
) -> Step:
    """A step samples a picture of another size, with and without its condition at once, and enlarges it eightfold."""
    dtype = torch.bfloat16 if DEVICE == "cuda" else torch.float32
    denoiser = Denoiser(width, 4).to(DEVICE, dtype).eval()
    enlarge: List[nn.Module] = [nn.Conv2d(4, width, 3, padding=1)]
    for level in range(3):
        enlarge += [nn.Upsample(scale_factor=2), nn.Conv2d(width >> level, width >> (level + 1), 3, padding=1), nn.SiLU()]
    decoder = nn.Sequential(*enlarge, nn.Conv2d(width >> 3, 3, 3, padding=1)).to(DEVICE, dtype).eval()
    chosen = random.Random(1)

    def step() -> None:
        height, wide = chosen.choice(sizes)
        with torch.no_grad():
            latent = torch.randn(1, 4, height, wide, device=DEVICE, dtype=dtype)
            for number in range(rounds):
                time = torch.full((2, 1), 1 - number / rounds, device=DEVICE, dtype=dtype)
                free, told = denoiser(latent.expand(2, -1, -1, -1), time).chunk(2)
                latent = latent - (free + 5 * (told - free)) / rounds
            decoder(latent)

    return step


def speech_step(layers: int = 12, width: int = 512, batch: int = 16, longest: int = 3000) -> Step:
    """A step trains an encoder on a batch of utterances, each of another length, filled up to the longest of the batch."""
    front = nn.Sequential(nn.Conv1d(80, width, 3, 2, 1), nn.GELU(), nn.Conv1d(width, width, 3, 2, 1), nn.GELU())
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    model = nn.ModuleDict({"front": front, "encoder": encoder, "head": nn.Linear(width, 64)}).to(DEVICE)
    apply = trained(model)
    chosen = endlessly(range(longest // 10, longest + 1))

    def step() -> None:
        lengths = [next(chosen) for _ in range(batch)]
        sound = torch.randn(batch, 80, max(lengths), device=DEVICE)
        heard = front(sound).transpose(1, 2)
        places = torch.arange(heard.shape[1], device=DEVICE)
        filling = places >= torch.tensor(lengths, device=DEVICE).add(3).div(4, rounding_mode="floor").unsqueeze(1)
        scores = model["head"](encoder(heard, src_key_padding_mask=filling))
        apply(functional.cross_entropy(scores.flatten(0, 1), torch.randint(0, 64, (scores.shape[0] * scores.shape[1],), device=DEVICE)))

    return step


def graphs_step(layers: int = 3, width: int = 256, fewest: int = 10_000, most: int = 120_000, edges_each: int = 12) -> Step:
    """A step trains on another subgraph: each node adds up what its neighbours know."""
    linears = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers)).to(DEVICE)
    apply = trained(linears)
    chosen = endlessly(range(fewest, most + 1))

    def step() -> None:
        nodes = next(chosen)
        count = nodes * edges_each + next(chosen)
        source, target = torch.randint(nodes, (2, count), device=DEVICE)
        known = torch.randn(nodes, width, device=DEVICE)
        degree = torch.ones(nodes, device=DEVICE).index_add_(0, target, torch.ones(count, device=DEVICE)).unsqueeze(1)
        for linear in linears:
            heard = torch.zeros(nodes, width, device=DEVICE).index_add_(0, target, known[source])
            known = functional.relu(linear(torch.cat([known, heard / degree], dim=1)))
        apply(known.square().mean())

    return step


def recommender_step(tables: int = 16, rows: int = 1_000_000, width: int = 128, batch: int = 8192, longest: int = 40) -> Step:
    """A step trains large tables of embeddings, whose gradients are sparse, on lists of which each batch has others."""
    bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum", sparse=True, device=DEVICE) for _ in range(tables))
    top = nn.Sequential(nn.Linear(tables * width, 512), nn.ReLU(), nn.Linear(512, 1)).to(DEVICE)
    optimizer = torch.optim.SGD([*bags.parameters(), *top.parameters()], lr=0.01)
    chosen = endlessly(range(1, longest + 1))

    def step() -> None:
        found = []
        for bag in bags:
            found.append(bag(torch.randint(rows, (batch, next(chosen)), device=DEVICE)))
        optimizer.zero_grad(set_to_none=True)
        top(torch.cat(found, dim=1)).square().mean().backward()
        optimizer.step()

    return step


def together(rank: int, world: int, path: str) -> None:
    """Makes this process one of the group that meets in that file."""
    store = torch.distributed.FileStore(path, world)
    torch.distributed.init_process_group("nccl" if DEVICE == "cuda" else "gloo", store=store, rank=rank, world_size=world)


class Follower:
    """A further process of the data-parallel program, on a GPU of its own: it does each step that this one does, and ends with it."""

    def __init__(self, rank: int, world: int, path: str) -> None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(str(number) for number in range(world))
        # The worker again, with the same allocator: worker.py ALLOCATOR WORKLOAD POLICY.
        self.process = subprocess.Popen(
            [sys.executable, *sys.argv],
            env={**os.environ, RANK: f"{rank} {world} {path}", "CUDA_VISIBLE_DEVICES": visible.split(",")[rank]},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        self.tell("begin 0")

    def tell(self, command: str) -> None:
        """A command of worker.py's."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n".encode())
        self.process.stdin.flush()


def parallel_step(layers: int = 12, width: int = 1024, batch: int = 8, longest: int = 512) -> Step:
    """A step of a transformer whose gradients go round in buckets: on two GPUs where there are two, else in a group of one."""
    told = os.environ.get(RANK)
    followers: List[Follower] = []
    if told is not None:
        # Without its leader it would wait in a collective operation, with its GPU.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        number, count, path = told.split(" ", 2)
        rank, world = int(number), int(count)
    else:
        rank, world = 0, max(1, min(2, torch.cuda.device_count())) if DEVICE == "cuda" else 1
        folder = tempfile.TemporaryDirectory(prefix="weir-ranks-")
        atexit.register(folder.cleanup)
        path = os.path.join(folder.name, "store")
        followers = [Follower(other, world, path) for other in range(1, world)]
    together(rank, world, path)
    model = nn.parallel.DistributedDataParallel(Transformer(layers, width, 8, 8000).to(DEVICE))
    apply = trained(model)
    lengths = endlessly(range(longest // 8, longest + 1))

    def step() -> None:
        for follower in followers:
            follower.tell("round 1")
        tokens = torch.randint(0, 8000, (batch, next(lengths)), device=DEVICE)
        apply(functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()))

    return step


def two_models_step(layers: int = 8, width: int = 768, longest: int = 1024, most: int = 48) -> Step:
    """A step trains a language model on one stream and asks a model of pictures on another: lengths and batches change."""
    language, vision = Transformer(layers, width, 8, 8000).to(DEVICE), resnet50().to(DEVICE).eval()
    apply = trained(language)
    lengths, batches = endlessly(range(longest // 8, longest + 1)), endlessly(range(1, most + 1))
    streams: List[Any] = [torch.cuda.Stream() for _ in range(2)] if DEVICE == "cuda" else [None, None]

    def beside(stream: Optional[Any]) -> ContextManager[Any]:
        """All that is done within is done on that stream, behind the present one."""
        if stream is None:
            return contextlib.nullcontext()
        stream.wait_stream(torch.cuda.current_stream())
        context: ContextManager[Any] = torch.cuda.stream(stream)
        return context

    def step() -> None:
        with beside(streams[0]):
            tokens = torch.randint(0, 8000, (4, next(lengths)), device=DEVICE)
            apply(functional.cross_entropy(language(tokens).flatten(0, 1), tokens.flatten()))
        with beside(streams[1]), torch.no_grad():
            vision(torch.randn(next(batches), 3, 224, 224, device=DEVICE))
        for stream in streams:
            if stream is not None:
                torch.cuda.current_stream().wait_stream(stream)

    return step


def joined(library: Any, left: Any, right: Any) -> Tuple[Any, Any]:
    """For each pair of equal keys the row of the left table and that of the right one."""
    order = library.argsort(right)
    right = right[order]
    first = library.searchsorted(right, left, side="left")
    matches = library.searchsorted(right, left, side="right") - first
    ends = library.cumsum(matches)
    pairs = library.arange(int(ends[-1]))
    left_row = library.searchsorted(ends, pairs, side="right")
    # Of a row of the left table's matches this is the how-manieth.
    nth = pairs - (ends - matches)[left_row]
    return left_row, order[first[left_row] + nth]


def tables_step(library: Any, fewest: int = 1_000_000, most: int = 16_000_000) -> Step:
    """A step sorts one table, and joins another one with it by a key: both of other lengths than before. `library`: CuPy's."""
    chosen = endlessly(range(fewest, most + 1))
    library.random.seed(1)

    def step() -> None:
        left_count, right_count = next(chosen), next(chosen)
        left = library.random.randint(0, right_count, left_count)
        right = library.random.randint(0, right_count, right_count)
        left_values, right_values = library.random.rand(left_count), library.random.rand(right_count)
        left_row, right_row = joined(library, left, right)
        (left_values[left_row] * right_values[right_row]).sum()

    return step


def cupy_tables_step() -> Step:
    """The tables on a GPU."""
    import cupy

    return tables_step(cupy)


WORKLOADS: Dict[str, Callable[[], Step]] = {
    "diffusion": diffusion_step,
    "speech": speech_step,
    "graphs": graphs_step,
    "recommender": recommender_step,
    "data-parallel": parallel_step,
    "two-models": two_models_step,
}
CUPY_WORKLOADS: Dict[str, Callable[[], Step]] = {"cupy-join": cupy_tables_step}


# Each of them so small that a processor does a step in a moment, for tests.
SMALL: Dict[str, Callable[[], Step]] = {
    "diffusion": partial(diffusion_step, 16, 2, ((8, 8), (9, 12))),
    "speech": partial(speech_step, 1, 16, 2, 60),
    "graphs": partial(graphs_step, 2, 8, 20, 60, 3),
    "recommender": partial(recommender_step, 2, 50, 8, 4, 5),
    "data-parallel": partial(parallel_step, 1, 16, 2, 16),
    "two-models": partial(two_models_step, 1, 16, 16, 2),
}
