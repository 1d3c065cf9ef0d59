# SPDX-License-Identifier: MIT
"""
GPU memory pools from a policy file.

    import weir.torch
    weir.torch.enable("policy.yaml")    # before the first CUDA call

weir.torch makes Weir the allocator of PyTorch, weir.cupy that of CuPy. Importing this package loads and changes
nothing.
"""

from weir._errors import Status, WeirError
from weir._version import VERSION as __version__

__all__ = ["Status", "WeirError", "__version__", "version"]


def version() -> str:
    """The version of the library, which is loaded for that."""
    from weir import _library

    return _library.load().version
