# SPDX-License-Identifier: MIT
"""Which of torch's streams may have caches: those of torch's own pools, which torch never destroys."""

from typing import Any, Set, Tuple

from weir._library import Library


def watch(torch: Any, library: Library) -> None:
    """Tells Weir of each stream of torch's own that Python meets from now on."""
    original = torch.cuda.Stream.__new__
    told: Set[Tuple[int, int]] = set()

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        stream = original(cls, *args, **kwargs)
        # torch's ids are odd for its own streams, 0 for the default stream, and the handle for one that somebody else
        # made. The handle of the last may be odd as well: cudaStreamLegacy is 1.
        if stream.stream_id & 1 and "stream_ptr" not in kwargs:
            key = (stream.device_index, stream.stream_id)
            if key not in told:
                library.stream_lives(stream.device_index, stream.cuda_stream)
                told.add(key)
        return stream

    torch.cuda.Stream.__new__ = staticmethod(__new__)
