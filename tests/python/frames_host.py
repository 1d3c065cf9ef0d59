# SPDX-License-Identifier: MIT
"""What the programs of frames_test.py begin with: Weir that records to the file in $TRACE, and threads that Python never saw."""

import ctypes
import os

from weir import _library

POLICY = "weir: 1\npools: { main: {} }\nrecord: { level: all, stacks: true, ring: 64MiB, file: %s }\n"
library = _library.configure(None, POLICY % os.environ["TRACE"], "sim")
with_gil = ctypes.PyDLL(library.path).weir_torch_pool_malloc
with_gil.restype = ctypes.c_void_p
with_gil.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]


class Work(ctypes.Structure):
    """host_work of host.c"""

    _fields_ = [("take", ctypes.c_void_p), ("give", ctypes.c_void_p), ("size", ctypes.c_ssize_t), ("count", ctypes.c_uint)]


def take(size):
    """As torch does: without the GIL."""
    return library.malloc(size, 0, 0)


def give(ptr, size):
    library.free(ptr, size, 0, 0, True)


def work(size, count):
    return Work(library.address("weir_torch_pool_malloc"), library.address("weir_torch_free"), size, count)


host = ctypes.CDLL(os.environ["HOST"])
