# SPDX-License-Identifier: MIT
"""What a script tells the recorder: where it is, and what its tensors are for. `weir trace` shows both."""

from contextlib import contextmanager
from typing import Iterator

from weir import _library


def mark(name: str) -> None:
    """Writes into the recorder of each device in use that the script is here: mark("step 12")."""
    _library.load().mark(name)


@contextmanager
def tag(name: str) -> Iterator[None]:
    """
    Names what this thread allocates meanwhile, on each device in use: with tag("kv-cache"): ...

    A tensor keeps its tag until it is freed. Other threads, such as those of autograd, have tags of their own.
    """
    library = _library.load()
    library.tag_push(name)
    try:
        yield
    finally:
        library.tag_pop(name)
