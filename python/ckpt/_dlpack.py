# SPDX-License-Identifier: Apache-2.0
"""Where the values are of an object with __dlpack__: the struct DLTensor of its capsule."""

from __future__ import annotations

import ctypes

from ._values import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


# DLDataTypeCode and bits
_DTYPES = {
    (0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64", (1, 8): "uint8", (1, 16): "uint16",
    (1, 32): "uint32", (1, 64): "uint64", (2, 16): "float16", (2, 32): "float32", (2, 64): "float64", (4, 16): "bfloat16",
    (5, 32): "complex32", (5, 64): "complex64", (5, 128): "complex128", (6, 8): "bool", (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz", (12, 8): "float8_e5m2", (13, 8): "float8_e5m2fnuz", (14, 8): "float8_e8m0fnu",
}


class Found:
    """Values in memory, which stay there as long as this exists."""

    def __init__(self, owner: Any, start: int, nbytes: int, dtype: str, shape: Tuple[int, ...], strides: Any) -> None:
        self.owner, self.start, self.nbytes = owner, start, nbytes
        self.dtype, self.shape, self.strides = dtype, shape, strides


def open_dlpack(value: Any) -> Found:
    """The values of VALUE, which is in the memory of the host."""
    capsule = value.__dlpack__()  # nobody takes what is in it: it is freed with the capsule
    is_valid = ctypes.pythonapi.PyCapsule_IsValid
    is_valid.restype, is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    if not is_valid(capsule, b"dltensor"):
        raise refuse("its __dlpack__() gave %r, which is no tensor that nobody took yet" % (capsule,))
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(get(capsule, b"dltensor"))
    dtype = _DTYPES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise refuse("no tensor has the dtype of this array: code %d, %d bits" % (tensor.code, tensor.bits))
    shape = tuple(tensor.shape[:tensor.ndim])
    strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides and 0 not in shape else None
    if strides is not None and min(strides, default=0) < 0:
        raise refuse("a tensor has no negative strides; copy it first")
    items = 0 if 0 in shape else 1
    if strides is None:
        for length in shape:
            items *= length
    elif items:
        items += sum((length - 1) * step for length, step in zip(shape, strides))
    return Found((value, capsule), (tensor.data or 0) + tensor.byte_offset, items * (tensor.bits // 8), dtype, shape, strides)
