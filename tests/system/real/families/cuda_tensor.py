"""Tensors that claim to lie on a GPU: DLPack capsules with addresses that no machine has."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from bytes_facts import FIRST_POINTER, POINTER_STEP

CUDA = 2
INT, UINT, FLOAT, BFLOAT, FP8_E4M3, FP8_E5M2 = 0, 1, 2, 4, 10, 12
CODES = {
    "int32": (INT, 32),
    "int64": (INT, 64),
    "uint8": (UINT, 8),
    "float16": (FLOAT, 16),
    "float32": (FLOAT, 32),
    "bfloat16": (BFLOAT, 16),
    "float8_e4m3fn": (FP8_E4M3, 8),
    "float8_e5m2": (FP8_E5M2, 8),
}


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int),
        ("dtype", _DType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class CudaTensor:
    """The `index`-th tensor of a launch, row-major unless `strides` (in elements) are given."""

    def __init__(self, index: int, shape: Sequence[int], dtype: str, strides: Sequence[int] | None = None):
        self.shape, self.dtype = tuple(shape), dtype
        if strides is None:
            strides = [1]
            for extent in reversed(self.shape[1:]):
                strides = [strides[0] * extent, *strides]
        self.strides = tuple(strides)
        rank = len(self.shape)
        self._shape, self._strides = (
            (ctypes.c_int64 * rank)(*self.shape),
            (ctypes.c_int64 * rank)(*self.strides),
        )
        code, bits = CODES[dtype]
        at = FIRST_POINTER + index * POINTER_STEP
        tensor = _Tensor(at, _Device(CUDA, 0), rank, _DType(code, bits, 1), self._shape, self._strides, 0)
        self._managed = _Managed(tensor, None, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0

    def __dlpack__(self, **_: Any) -> Any:
        return _new(ctypes.addressof(self._managed), b"dltensor", None)
