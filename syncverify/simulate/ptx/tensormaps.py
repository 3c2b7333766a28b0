"""Tensor maps: 128 bytes of a form of this machine's own, and the bytes that a box of one is.

A map is opaque to a kernel; ``tensormap.replace`` edits it by the names of its fields. Only tiled maps.
A map of rank 0 represents one of which only the bytes of a box are known. A box of side ``b`` along a
dimension of element stride ``s`` has ``ceil(b / s)`` elements there, ``s`` apart. The innermost dimension has
no stride, whatever the map says, as no map is interleaved (CUDA driver API, cuTensorMapEncodeTiled).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

import numpy as np

from syncverify.simulate.ptx.launch import ELEMENT_BYTES, AnyMap, TensorMap
from syncverify.simulate.ptx.types import Lanes

SIZE = 128
_MAGIC = b"TMAP"
#: Order of ``elemtype`` in tensormap.replace (PTX ISA, table of tensormap.replace).
_TYPES = (
    "u8",
    "u16",
    "u32",
    "s32",
    "u64",
    "s64",
    "f16",
    "f32",
    "f32.ftz",
    "f64",
    "bf16",
    "tf32",
    "tf32.ftz",
)
_SWIZZLES = (0, 32, 64, 128)
#: The largest element stride.
_LARGEST_STEP = 8


@dataclass(slots=True)
class Fields:
    """A map as numbers; ``rank`` dimensions, the innermost first. ``total``: the box in bytes, for rank 0."""

    address: int
    rank: int
    type: str
    swizzle: int
    nan_fill: bool
    dims: list[int]
    strides: list[int]
    box: list[int]
    steps: list[int]
    total: int = 0

    @property
    def element(self) -> int:
        return ELEMENT_BYTES[self.type]


def encode(x: Fields) -> bytes:
    out = struct.pack(
        "<QBBBB", x.address, x.rank, _TYPES.index(x.type), _SWIZZLES.index(x.swizzle), x.nan_fill
    )
    out += struct.pack("<I", x.total)
    out += struct.pack("<5I", *(x.dims + [1] * 5)[:5])
    out += struct.pack("<4Q", *(x.strides + [0] * 4)[:4])
    out += struct.pack("<5I", *(x.box + [1] * 5)[:5])
    out += struct.pack("<5B", *(x.steps + [1] * 5)[:5])
    return out.ljust(SIZE - 4, b"\0") + _MAGIC


def decode(raw: bytes) -> Fields | None:
    """The fields of 128 bytes, None if they are no map."""
    if len(raw) != SIZE or raw[-4:] != _MAGIC:
        return None
    address, rank, kind, swizzle, fill, total = struct.unpack_from("<QBBBBI", raw)
    if not (1 <= rank <= 5 or total) or kind >= len(_TYPES) or swizzle >= len(_SWIZZLES):
        return None
    dims = list(struct.unpack_from("<5I", raw, 16))
    strides = list(struct.unpack_from("<4Q", raw, 36))
    box = list(struct.unpack_from("<5I", raw, 68))
    steps = list(struct.unpack_from("<5B", raw, 88))
    type_, swizzle = _TYPES[kind], _SWIZZLES[swizzle]
    return Fields(address, rank, type_, swizzle, bool(fill), dims, strides, box, steps, total)


def of_launch(x: TensorMap | AnyMap, address: int) -> Fields:
    """The fields of a launch's map over memory at an address."""
    if isinstance(x, AnyMap):
        return replace(blank(), rank=0, total=x.bytes)
    rank = len(x.dims)
    return Fields(
        address,
        rank,
        x.dtype,
        x.swizzle,
        x.nan_fill,
        list(x.dims) + [1] * (5 - rank),
        list(x.strides) + [0] * (5 - len(x.strides)),
        list(x.box) + [1] * (5 - rank),
        list(x.element_strides or (1,) * rank) + [1] * (5 - rank),
    )


def wrong(x: Fields) -> str | None:
    """What the ISA and the driver forbid, or None."""
    if not x.rank:
        return "the bytes of the box are not a multiple of 16" if x.total % 16 else None
    inner = x.box[0] * x.element
    if x.address % 16:
        return "the global address of the map is not a multiple of 16"
    if any(s % 16 for s in x.strides[: x.rank - 1]):
        return "a stride of the map is not a multiple of 16 bytes"
    if any(not 1 <= b <= 256 for b in x.box[: x.rank]):
        return "a side of the box is not between 1 and 256"
    if inner % 16:
        return "the inner side of the box is not a multiple of 16 bytes"
    if x.swizzle and inner > x.swizzle:
        return "the inner side of the box is wider than the swizzle"
    if any(not 1 <= s <= _LARGEST_STEP for s in x.steps[: x.rank]):
        return f"an element stride of the map is not between 1 and {_LARGEST_STEP}"
    return None


def _steps(x: Fields) -> list[int]:
    """How far apart elements of a box are along each dimension."""
    return [1, *x.steps[1 : x.rank]]


def _counts(x: Fields) -> list[int]:
    """How many elements of a box there are along each dimension."""
    return [-(-side // step) for side, step in zip(x.box, _steps(x), strict=False)]


def box_bytes(x: Fields) -> int:
    if not x.rank:
        return x.total
    total = x.element
    for n in _counts(x):
        total *= n
    return total


def box_of(x: Fields, start: list[int]) -> tuple[Lanes, Lanes, Lanes]:
    """Elements of a box: bytes from the box's begin in shared memory, addresses, and which lie in the tensor.

    The first are before swizzling; they follow each other as the box is laid out, innermost dimension first.
    """
    if not x.rank:
        return np.arange(x.total), np.zeros(x.total, np.int64), np.zeros(x.total, bool)
    steps = _steps(x)
    grids = np.meshgrid(*[np.arange(n) for n in reversed(_counts(x))], indexing="ij")
    indices = [g.ravel() for g in reversed(grids)]
    inside = np.ones(indices[0].shape, bool)
    address = np.full(indices[0].shape, x.address, np.int64)
    for d in range(x.rank):
        place = start[d] + indices[d] * steps[d]
        inside &= (place >= 0) & (place < x.dims[d])
        address += place * (x.element if d == 0 else x.strides[d - 1])
    return np.arange(inside.size) * x.element, address, inside


def swizzled(at: Lanes, swizzle: int) -> Lanes:
    """Bytes in shared memory after swizzling: 16-byte chunks are exchanged by bits 7 and up."""
    if not swizzle:
        return at
    bits = {32: 1, 64: 3, 128: 7}[swizzle]
    return at ^ (((at >> 7) & bits) << 4)


def blank() -> Fields:
    """A map whose bytes are zeros, before its fields are set."""
    return Fields(0, 1, "u8", 0, False, [1] * 5, [0] * 4, [1] * 5, [1] * 5)


def edit(x: Fields, name: str, number: int, value: int) -> bool:
    """Sets a field by its name in tensormap.replace; False if there is no such field or value."""
    match name:
        case "global_address":
            x.address = value
        case "rank":
            x.rank = value + 1
        case "elemtype" if value < len(_TYPES):
            x.type = _TYPES[value]
        case "swizzle_mode" if value < len(_SWIZZLES):
            x.swizzle = _SWIZZLES[value]
        case "fill_mode" if value < 2:
            x.nan_fill = bool(value)
        case "interleave_layout" if value == 0:
            pass
        case "box_dim" if number < 5:
            x.box[number] = value
        case "global_dim" if number < 5:
            x.dims[number] = value
        case "global_stride" if number < 4:
            x.strides[number] = value
        case "element_stride" if number < 5:
            x.steps[number] = value
        case _:
            return False
    return 1 <= x.rank <= 5 or x.total > 0
