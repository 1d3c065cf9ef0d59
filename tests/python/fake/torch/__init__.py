# SPDX-License-Identifier: MIT
"""A stand-in for torch: what Weir touches of it, without tensors."""

import os
from types import SimpleNamespace

__version__ = "2.11.0"
version = SimpleNamespace(cuda=os.environ.get("FAKE_TORCH_CUDA", "13.0") or None)  # "": built without


def compiled_with_cxx11_abi():
    return True


from torch import _C, cuda  # noqa: E402,F401
