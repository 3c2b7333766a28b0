"""Tensor maps: which tensors a kernel's parameters are, and how the driver encodes a map for given sizes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from typing import Any

from syncverify.base.source import InputError
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import statements
from syncverify.ir.expr import evaluate

#: CUtensorMapDataType and CUtensorMapSwizzle (cuda.h).
_DATA_TYPES = {
    "u8": 0, "i8": 0, "e4m3": 0, "e5m2": 0, "b8": 0, "bool": 0, "u16": 1, "b16": 1, "u32": 2,
    "b32": 2, "i32": 3, "u64": 4, "b64": 4, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9, "tf32": 11,
}  # fmt: skip
_SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
_NO_INTERLEAVE, _PROMOTE_128B, _PROMOTE_256B, _FILL_ZEROS = 0, 2, 3, 0
#: Bytes that rows are multiples of where reads of L2 are made wider than they are: else they bring too much.
_LINE = 128
MAP_BYTES, MAP_ALIGN = 128, 64


def pointers(kernel: n.Kernel) -> tuple[n.Tensor, ...]:
    """The tensors that are parameters by address: those accessed by address, and those without a map."""
    mapped = {m.tensor for m in kernel.maps}
    direct = {r.tensor for s in statements(kernel.body) for r in _regions(s)}
    return tuple(t for t in kernel.tensors if t.name in direct or t.name not in mapped)


def _regions(s: n.Stmt) -> Iterator[n.GlobalRegion]:
    for f in fields(s):
        x: Any = getattr(s, f.name)
        if isinstance(x, n.GlobalRegion) and is_dataclass(x):
            yield x


class EncodedMap:
    """A tensor map in memory that is aligned as the driver demands; kernel parameters are copied from it."""

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGN)
        start = ctypes.addressof(self._memory)
        self.address = -(-start // MAP_ALIGN) * MAP_ALIGN

    def getPtr(self) -> int:
        return self.address

    @property
    def bytes(self) -> bytes:
        return ctypes.string_at(self.address, MAP_BYTES)


def encoder(
    kernel: n.Kernel, tensor_map: n.TensorMap, values: Mapping[str, int]
) -> Callable[[int], EncodedMap]:
    """What makes the map of a contiguous tensor at an address; InputError for what TMA cannot address."""
    tensor = next(t for t in kernel.tensors if t.name == tensor_map.tensor)
    shape = tuple(evaluate(e, values) for e in tensor.shape)
    return partial(_encoded, tensor_map.name, tensor.dtype, shape, tensor_map.box, tensor_map.swizzle)


@lru_cache(maxsize=1024)
def _encoded(
    name: str, dtype: str, shape: tuple[int, ...], box: tuple[int, ...], swizzle: str, address: int
) -> EncodedMap:
    size = n.DTYPE_BYTES[dtype]
    strides = [size]
    for extent in reversed(shape):
        strides.append(strides[-1] * extent)
    if address % 16 or any(s % 16 for s in strides[1:-1]):
        raise InputError(f"tensor map {name}: addresses and row strides are multiples of 16 bytes")
    rank = len(shape)
    promotion = _PROMOTE_128B if any(s % _LINE for s in strides[1:-1]) else _PROMOTE_256B
    u32, u64 = ctypes.c_uint32 * rank, ctypes.c_uint64 * rank
    encoded = EncodedMap()
    status = _function()(
        encoded.address, _DATA_TYPES[dtype], rank, address, u64(*reversed(shape)),
        (ctypes.c_uint64 * max(rank - 1, 1))(*strides[1:-1]), u32(*reversed(box)), u32(*([1] * rank)),
        _NO_INTERLEAVE, _SWIZZLES[swizzle], promotion, _FILL_ZEROS,
    )  # fmt: skip
    if status != 0:
        raise InputError(f"CUDA: encoding tensor map {name} of shape {list(shape)} failed: error {status}")
    return encoded


@lru_cache(maxsize=1)
def _function() -> Any:
    """``cuTensorMapEncodeTiled`` itself: the binding's own object is not aligned to 64 bytes."""
    try:
        function = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
    except (OSError, AttributeError) as e:
        raise InputError(f"no CUDA driver with tensor maps: {e}") from None
    number, place = ctypes.c_int, ctypes.c_void_p
    function.argtypes = [
        place, number, ctypes.c_uint32, place, place, place, place, place, number, number, number, number
    ]  # fmt: skip
    function.restype = number
    return function


__all__ = ["EncodedMap", "encoder", "pointers"]
