# SPDX-License-Identifier: MIT
"""Tags for what training is made of, by hooks of the model and the optimizer: no line of the loop says them."""

import threading
from types import TracebackType
from typing import Any, Dict, List, Optional, Tuple, Type

from weir.torch import _marks

PARAMETERS, GRADIENTS, STATE, ACTIVATIONS, INPUTS = "parameters", "gradients", "optimizer state", "activations", "inputs"


def copy(storage: Any) -> Any:
    """A storage of the same bytes."""
    return storage.clone()


class Watch:
    """
    What watch() began. stop(), or the end of a with, takes all hooks off again, in the thread that called watch(); tensors keep their tags.
    """

    def __init__(self, model: Any, optimizer: Optional[Any], move: bool) -> None:
        import torch

        self._torch: Any = torch
        self._handles: List[Any] = []
        self._tags: List[str] = []  # of the thread that trains, the last one in force
        self._owner = threading.get_ident()
        tensors = [*model.parameters(), *model.buffers()]
        # A device has tags from its first use on.
        for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
            torch.empty(1, device=device)
        if move:
            self._move(tensors)
        self._tags.append(INPUTS)
        _marks.push_tag(INPUTS, followers=GRADIENTS)
        self._handles.append(model.register_forward_pre_hook(self._forward_begins))
        self._handles.append(model.register_forward_hook(self._forward_ends, always_call=True))
        if optimizer is not None:
            self._handles.append(optimizer.register_step_pre_hook(self._step_begins))
            self._handles.append(optimizer.register_step_post_hook(self._step_ends))

    # Tags of the thread -------------------------------------------------------------------------------------------------

    def _begin(self, name: str) -> None:
        _marks.push_tag(name)
        self._tags.append(name)

    def _end(self, name: str) -> None:
        """With all that began within it and did not end, as where an exception left an optimizer's step."""
        while name in self._tags:
            last = self._tags.pop()
            _marks.pop_tag(last)
            if last == name:
                return

    def _is_mine(self) -> bool:
        """Other threads may run the model too, and have tags of their own."""
        return threading.get_ident() == self._owner

    def _move(self, tensors: List[Any]) -> None:
        """Copies each storage once, so that what shares one still does."""
        torch = self._torch
        with torch.no_grad(), _marks.tag(PARAMETERS):
            moved: Dict[Tuple[Any, int], Any] = {}
            for tensor in tensors:
                if not tensor.is_cuda or not tensor.numel():
                    continue
                storage = tensor.untyped_storage()
                key = (tensor.device, storage.data_ptr())
                if key not in moved:
                    moved[key] = copy(storage)
                tensor.data = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
                    moved[key], tensor.storage_offset(), tensor.size(), tensor.stride()
                )

    # Hooks --------------------------------------------------------------------------------------------------------------

    def _forward_begins(self, model: Any, inputs: Any) -> None:
        if self._is_mine():
            self._end(STATE)
            self._begin(ACTIVATIONS)

    def _forward_ends(self, model: Any, inputs: Any, outputs: Any) -> None:
        if self._is_mine():
            self._end(ACTIVATIONS)

    def _step_begins(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        if self._is_mine():
            self._end(STATE)
            self._begin(STATE)

    def _step_ends(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        if self._is_mine():
            self._end(STATE)

    def stop(self) -> None:
        """May be called more than once."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._end(INPUTS)

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.stop()


def watch(model: Any, optimizer: Optional[Any] = None, *, move: bool = True) -> Watch:
    """
    From now on what training takes has the tags "parameters", "gradients", "optimizer state", "activations" and "inputs", by hooks of the
    model and the optimizer, for the thread that calls this:

        watch = weir.torch.watch(model, optimizer)

    "parameters" are the model's parameters and buffers on GPUs, which are copied for that, storage by storage; move=False leaves them where
    and without a tag as they are. "activations" is what the model takes while it runs forward, "gradients" what autograd's threads take
    in a backward pass (which needs the shim), "optimizer state" what a step takes, and "inputs" all else that the thread takes meanwhile:
    batches, and the loss. Call it before graphs are captured and before the first step.
    """
    return Watch(model, optimizer, move)
