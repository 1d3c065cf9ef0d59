# SPDX-License-Identifier: MIT
"""
Work whose sizes change from step to step: text generation whose cache of keys and values grows, fine-tuning with adapters
on texts of many lengths, and pictures of many sizes. Weights are random. Needs transformers and peft, but for the pictures.
"""

import random
from typing import Any, Callable, Dict, Iterator, Sequence

import torch
from workloads import Step, resnet50

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def endlessly(sizes: Sequence[int]) -> Iterator[int]:
    """Random ones of these; the same for every allocator."""
    chosen = random.Random(1)
    while True:
        yield chosen.choice(sizes)


def language_model(layers: int, width: int, heads: int, kv_heads: int) -> Any:
    """A Llama of that shape."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=width,
        intermediate_size=int(2.75 * width),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        vocab_size=32000,
        max_position_embeddings=4096,
    )
    # Made where it is used: a billion numbers take the host a quarter of a minute.
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(DEVICE):
            return LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(torch.float32)


def generation_step(batch: int, words: int = 128, layers: int = 12, width: int = 768, heads: int = 12) -> Step:
    """A step answers one prompt, word by word, each word on the cache of all before it."""
    model = language_model(layers, width, heads, heads).eval()
    lengths = endlessly((16, 48, 100, 180, 260))

    def step() -> None:
        tokens = torch.randint(0, 32000, (batch, next(lengths)), device=DEVICE)
        cache = None
        with torch.no_grad():
            for _ in range(words):
                answer = model(tokens, past_key_values=cache, use_cache=True)
                cache = answer.past_key_values
                tokens = answer.logits[:, -1:].argmax(-1)

    return step


def adapter_step(layers: int = 22, width: int = 2048, heads: int = 32, longest: int = 2048) -> Step:
    """A step of LoRA on a model of 1.1 G parameters, with activations computed again, on a text of another length."""
    from peft import LoraConfig, get_peft_model

    model = language_model(layers, width, heads, max(1, heads // 8))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")).train()
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-4)
    lengths = endlessly(range(longest // 16, longest + 1))

    def step() -> None:
        tokens = torch.randint(0, 32000, (1, next(lengths)), device=DEVICE)
        optimizer.zero_grad(set_to_none=True)
        model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
        optimizer.step()

    return step


def pictures_step(batch: int = 16, sides: Sequence[int] = (128, 160, 192, 224, 256, 288, 320)) -> Step:
    """A step of ResNet-50 on pictures of another size."""
    model = resnet50().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    chosen = endlessly(sides)

    def step() -> None:
        side = next(chosen)
        pictures = torch.randn(batch, 3, side, side, device=DEVICE)
        labels = torch.randint(0, 1000, (batch,), device=DEVICE)
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()

    return step


WORKLOADS: Dict[str, Callable[[], Step]] = {
    "generate-b1": lambda: generation_step(1),
    "generate-b16": lambda: generation_step(16),
    "lora": adapter_step,
    "resnet50-sizes": pictures_step,
}
