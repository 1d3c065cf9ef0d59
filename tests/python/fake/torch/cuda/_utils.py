# SPDX-License-Identifier: MIT
"""A stand-in for torch.cuda._utils."""

import torch


def _get_device_index(device, optional=False, allow_cpu=False):
    if isinstance(device, int):
        return device
    if device is None:
        return torch.cuda.current_device()
    name, _, number = device.partition(":")
    if name != "cuda":
        raise ValueError("Expected a cuda device, but got: %s" % device)
    return int(number) if number else torch.cuda.current_device()
