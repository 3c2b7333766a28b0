"""What a launch is: grid, block, cluster, parameters and the memory behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

#: Bytes of one element of a tensor map.
ELEMENT_BYTES = {
    "u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8, "s64": 8, "f16": 2, "f32": 4, "f64": 8, "bf16": 2,
    "f32.ftz": 4, "tf32": 4, "tf32.ftz": 4,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Buffer:
    """Memory in the global space. ``data`` is copied at the launch; ``misalign`` moves it off 256 bytes.

    ``places``: what lies at some of its bytes instead: pointers to memory, and tensor maps. ``settled``: the
    grid before does not write it.
    """

    data: npt.NDArray[Any]
    misalign: int = 0
    places: Mapping[int, Buffer | TensorMap | AnyMap] = field(default_factory=dict)
    settled: bool = False


@dataclass(frozen=True)
class TensorMap:
    """A tiled tensor map: innermost dimension first, as in the driver's API.

    ``dims`` in elements, ``strides`` in bytes of the dimensions from the second on, ``box`` in elements.
    ``swizzle``: 0, 32, 64 or 128 bytes. ``nan_fill``: what lies outside reads as NaN instead of zero.
    """

    buffer: Buffer
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    dtype: str = "f32"
    swizzle: int = 0
    element_strides: tuple[int, ...] = ()
    nan_fill: bool = False


@dataclass(frozen=True)
class AnyMap:
    """A tensor map of which only a box's bytes are known: it takes any rank, and what it loads is drawn."""

    bytes: int


@dataclass(frozen=True)
class Struct:
    """A parameter by value: its bytes, and the memory or tensor maps at some of them."""

    data: bytes
    places: Mapping[int, Buffer | TensorMap | AnyMap] = field(default_factory=dict)


#: A parameter: a number (two's complement or IEEE bits by the parameter's type), raw bytes, memory, a map.
Parameter = int | float | bytes | Buffer | TensorMap | AnyMap | Struct


@dataclass(frozen=True)
class Launch:
    """One launch. ``shared`` is the dynamic shared memory in bytes, ``registers`` those of each thread.

    ``watches``: the spaces in which races are harm (shared ones always are); ``maps``: in global memory stale
    tensor maps alone. ``chosen``: the blocks that run,
    by their coordinates; empty: all of the grid. ``boundless``: global addresses at which no memory was given
    lead to bytes that nobody looks at, instead of being undefined behaviour. ``dependent``: the grid before
    may still run until griddepcontrol.wait: ``all`` accesses to global memory before it are harm, or only
    ``writes`` of asynchronous copies. ``apart``: variables stand apart, and an access to bytes between them
    is harm (``variable_bounds.py``). ``racing``: lines of which one takes part in a race in global memory
    that is harm; None: any.
    """

    block: tuple[int, int, int] = (32, 1, 1)
    grid: tuple[int, int, int] = (1, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared: int = 0
    params: Sequence[Parameter] = ()
    registers: int = 0
    watches: frozenset[str] = frozenset({"shared", "global"})
    variables: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)  # global and const variables
    chosen: Sequence[tuple[int, int, int]] = ()
    boundless: bool = False
    dependent: str = ""
    apart: bool = False
    racing: frozenset[int] | None = None

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def places(self) -> Sequence[tuple[int, int, int]]:
        """The coordinates of the blocks that run."""
        x, y, z = self.grid
        return self.chosen or [(n % x, n // x % y, n // (x * y)) for n in range(x * y * z)]

    @property
    def blocks(self) -> int:
        """How many blocks run."""
        return len(self.chosen) or self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def whole(self) -> bool:
        """Whether all blocks of the grid run."""
        return self.blocks == self.grid[0] * self.grid[1] * self.grid[2]


def buffer(data: Any, dtype: Any = None) -> Buffer:
    """Memory with these contents."""
    return Buffer(np.ascontiguousarray(data, dtype))
