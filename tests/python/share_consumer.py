# SPDX-License-Identifier: MIT
"""share_consumer.py - a consumer of DLPack of our own, written from the specification: what any library may do with a capsule."""

import ctypes


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}


class Consumed:
    """What was in a capsule, ours from now on."""

    def __init__(self, producer, capsule=None, **arguments):
        self.address = None
        if capsule is None:
            capsule = producer.__dlpack__(**arguments)
        name = next((name for name in USED if _valid(capsule, name)), None)
        if name is None:
            raise ValueError("the capsule was consumed already")
        self.address = _pointer(capsule, name)
        _rename(capsule, USED[name])
        self.managed = (Versioned if name == b"dltensor_versioned" else Managed).from_address(self.address)
        self.flags = getattr(self.managed, "flags", None)
        tensor = self.managed.tensor
        self.data, self.device = tensor.data, tuple(tensor.device)
        self.shape = tuple(tensor.shape[: tensor.dimensions])
        self.strides = tuple(tensor.strides[: tensor.dimensions])
        self.kind = (tensor.code, tensor.bits, tensor.lanes)

    def bytes(self, count):
        return ctypes.string_at(self.data, count)

    def delete(self):
        address, self.address = self.address, None
        if address is not None:
            self.managed.deleter(address)

    __del__ = delete
