# SPDX-License-Identifier: MIT
"""
What is measured: training steps, two of a residual network of 50 layers and one of a transformer so small that the host
is the limit; activations that a stream aside copies to the host; and a thousand tensors that nobody uses.
"""

from typing import Callable, Dict, List

import torch
from torch import nn

Step = Callable[[], None]


class Bottleneck(nn.Module):
    """Three convolutions beside a short cut (He and others, Deep Residual Learning, table 1)."""

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        channels_out = 4 * width
        self.branch = nn.Sequential(
            *convolution(channels_in, width, 1, 1),
            nn.ReLU(inplace=True),
            *convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *convolution(width, channels_out, 1, 1),
        )
        same = channels_in == channels_out and stride == 1
        self.short_cut: nn.Module = (
            nn.Identity() if same else nn.Sequential(*convolution(channels_in, channels_out, 1, stride))
        )
        self.activation = nn.ReLU(inplace=True)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """The sum of both ways."""
        result: torch.Tensor = self.activation(self.branch(data) + self.short_cut(data))
        return result


def convolution(channels_in: int, channels_out: int, size: int, stride: int) -> List[nn.Module]:
    """A convolution that keeps the picture's size but for its stride, normalised."""
    return [nn.Conv2d(channels_in, channels_out, size, stride, size // 2, bias=False), nn.BatchNorm2d(channels_out)]


def resnet50(classes: int = 1000) -> nn.Module:
    """Stages of 3, 4, 6 and 3 blocks: with the first convolution and the last layer, 50 layers."""
    layers = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, 2 if stage > 0 and block == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def residual_step(batch: int, side: int) -> Step:
    """A step of ResNet-50 with SGD and momentum, on pictures of noise that are on the device already."""
    model = resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    pictures = torch.randn(batch, 3, side, side, device="cuda")
    labels = torch.randint(0, 1000, (batch,), device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()

    return step


class Transformer(nn.Module):
    """A language model: embeddings, encoder layers, and a layer back to the vocabulary."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of each word at each place."""
        result: torch.Tensor = self.head(self.encoder(self.embedding(tokens)))
        return result


def transformer_step(layers: int, width: int, batch: int, length: int) -> Step:
    """A step of a transformer with AdamW."""
    vocabulary = 1000
    model = Transformer(layers, width, 4, vocabulary).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, vocabulary, (batch, length), device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()

    return step


def compiled_step(width: int, batch: int, length: int) -> Step:
    """A step of one layer, compiled for graphs: a graph forward, one backward, and the gradients beside them."""
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True).cuda()
    run = torch.compile(layer, mode="reduce-overhead")
    data = torch.randn(batch, length, width, device="cuda")

    def step() -> None:
        layer.zero_grad(set_to_none=True)
        run(data).sum().backward()

    return step


def offload_step(layers: int, rows: int, width: int) -> Step:
    """
    Layers whose inputs a stream aside copies to the host, as programs do that have no room for activations. Each input
    is dropped at once, with record_stream(), and comes back in the opposite order. The copies take longer than the
    layers, and the host waits for none of them.
    """
    weight = torch.randn(width, width, device="cuda", dtype=torch.float16) / width**0.5
    first = torch.randn(rows, width, device="cuda", dtype=torch.float16)
    kept = [torch.empty(rows, width, dtype=torch.float16, pin_memory=True) for _ in range(layers)]
    aside = torch.cuda.Stream()

    def step() -> None:
        main = torch.cuda.current_stream()
        data = first.clone()
        for host in kept:
            result = data @ weight
            aside.wait_stream(main)
            with torch.cuda.stream(aside):
                host.copy_(data, non_blocking=True)
            data.record_stream(aside)
            data = result
        for host in reversed(kept):
            with torch.cuda.stream(aside):
                back = host.to("cuda", non_blocking=True)
            main.wait_stream(aside)
            back.record_stream(main)
            data = (data + back) @ weight

    return step


def tensors_step(count: int) -> Step:
    """Tensors that are made and dropped, and nothing else: what the allocator costs the host, through all of torch."""

    def step() -> None:
        for _ in range(count):
            torch.empty(16384, dtype=torch.uint8, device="cuda")

    return step


WORKLOADS: Dict[str, Callable[[], Step]] = {
    "resnet50-b32": lambda: residual_step(32, 224),
    "resnet50-b2": lambda: residual_step(2, 64),
    "transformer": lambda: transformer_step(24, 128, 4, 32),
    "reduce-overhead": lambda: compiled_step(256, 4, 64),
    "offload": lambda: offload_step(64, 8192, 4096),
    "tensors": lambda: tensors_step(1000),
}
