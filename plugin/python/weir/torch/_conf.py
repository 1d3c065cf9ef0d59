# SPDX-License-Identifier: MIT
"""torch's settings of its own allocator, PYTORCH_ALLOC_CONF: which of them Weir takes over, and what is said of the rest."""

import functools
import os
import warnings
from typing import Any, Dict, List, NamedTuple, Optional

from weir._library import DEVICES_MAX, Library

# torch reads the first that is set.
VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")

# With it torch's own allocator, and the shim, take each tensor from CUDA and keep nothing.
UNCACHED = "PYTORCH_NO_CUDA_MEMORY_CACHING"

# What of a policy is for the same, where it is not the same.
_INSTEAD = {
    "expandable_segments": "the policy's `backing: auto` maps memory where it is needed. Leave it set for programs that look for it, such as "
    "vLLM, which then shares no memory by CUDA's legacy IPC",
    "max_split_size_mb": "the policy's `small_below` keeps small tensors apart",
    "garbage_collection_threshold": "the policy's `release_threshold` and `cache` say what is kept",
    "backend": "Weir is the backend",
}


class Setting(NamedTuple):
    """One key, and what becomes of it."""

    key: str
    value: str
    is_used: bool
    text: str


def _pairs(text: str) -> Dict[str, str]:
    """The keys of such a variable; commas within brackets separate no keys."""
    pairs: Dict[str, str] = {}
    part, depth = "", 0
    for letter in text + ",":
        depth += (letter == "[") - (letter == "]")
        if letter != "," or depth > 0:
            part += letter
            continue
        key, _, value = part.partition(":")
        if key.strip():
            pairs[key.strip()] = value.strip()
        part = ""
    return pairs


def _setting(key: str, value: str) -> Setting:
    if key.startswith("pinned_"):
        return Setting(key, value, True, "pinned memory of the host is torch's own: in force as ever")
    if key == "per_process_memory_fraction":
        try:
            is_fraction = 0 <= float(value) <= 1
        except ValueError:
            is_fraction = False
        if is_fraction:
            return Setting(key, value, True, "taken over: torch gets no more than this part of each device from Weir")
        return Setting(key, value, False, "not a number from 0 to 1: ignored")
    return Setting(key, value, False, _INSTEAD.get(key, "Weir has nothing of the kind"))


def settings() -> List[Setting]:
    """What the environment says, with what becomes of it."""
    for name in VARIABLES:
        if name in os.environ:
            return [_setting(key, value) for key, value in _pairs(os.environ[name]).items()]
    return []


def take_over(library: Library, given: List[Setting]) -> Optional[str]:
    """Has Weir do what it can of these. The warning of what it cannot; None: it does all."""
    for setting in given:
        if setting.is_used and setting.key == "per_process_memory_fraction":
            for device in range(DEVICES_MAX):
                library.memory_fraction(float(setting.value), device)
    ignored = [f"{setting.key}: {setting.text}" for setting in given if not setting.is_used]
    return "settings of torch's own allocator that Weir does not have: " + "; ".join(ignored) if ignored else None


# What sets them while a program runs; each version of torch has some of these.
_SETTERS = ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings")


def follow(torch: Any, library: Library) -> None:
    """From now on Weir takes over what a program sets while it runs, too."""
    for name in _SETTERS:
        if original := getattr(torch._C, name, None):
            setattr(torch._C, name, _following(original, library))


def _following(original: Any, library: Library) -> Any:
    @functools.wraps(original)
    def set_allocator_settings(text: str) -> None:
        original(text)
        if ignored := take_over(library, [_setting(key, value) for key, value in _pairs(text).items()]):
            warnings.warn(ignored, RuntimeWarning, stacklevel=2)

    return set_allocator_settings
