# SPDX-License-Identifier: MIT
"""A stand-in for torch.cuda, with two devices."""

import torch
from torch.cuda import memory
from torch.cuda.memory import *  # noqa: F401,F403
from torch.cuda.memory import mem_get_info  # noqa: F401

_initialized = False


def init():
    global _initialized
    _initialized = True
    torch._C.is_used = True


def is_initialized():
    return _initialized


def current_device():
    return 0


def device_count():
    return 2


class _Base:
    """As torch's: the id of a stream that somebody else made is its handle; those of torch's own are odd; 0 is the default stream."""

    made = 0

    def __new__(cls, priority=0, stream_ptr=0, stream_id=None, device_index=0, device_type=1):
        stream = super().__new__(cls)
        stream.device_index = device_index
        if stream_ptr:
            stream.stream_id = stream.cuda_stream = stream_ptr
        elif stream_id is not None:
            stream.stream_id = stream_id
            stream.cuda_stream = 4096 * stream_id
        else:
            _Base.made += 1
            stream.stream_id = 2 * _Base.made + 1
            stream.cuda_stream = 4096 * stream.stream_id
        return stream


class Stream(_Base):
    def __new__(cls, device=None, priority=0, **kwargs):
        return super().__new__(cls, priority=priority, **kwargs)


class ExternalStream(Stream):
    def __new__(cls, stream_ptr, device=None, **kwargs):
        return super().__new__(cls, stream_ptr=stream_ptr, **kwargs)
