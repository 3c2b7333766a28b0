"""What a schedule of rows leaves open, chosen by the fusion and the row length.

The tables are what was fastest on an H200 for rows of 1024 to 32768 elements; docs/fusion.md has the figures.
"""

from __future__ import annotations

from syncverify.fusion.functions import REDUCTIONS
from syncverify.fusion.graph import Fusion
from syncverify.ir.nodes import DTYPE_BYTES

#: Warps of a row, by the length from which on a row has that many.
Warps = tuple[tuple[int, int], ...]

#: Fusions that reduce, by the bytes of their widest element: a thread holds 16 to 64 elements.
_REDUCING: dict[int, Warps] = {
    2: ((0, 1), (513, 2), (1025, 4), (4097, 8), (8193, 16), (32769, 32)),
    4: ((0, 1), (513, 4), (2049, 8), (4097, 16), (32769, 32)),
}
#: Of 16 bits, where registers hold little beside one row: 64 elements.
_PLAIN: Warps = ((0, 1), (513, 2), (1025, 4), (8193, 8), (16385, 16), (32769, 32))
#: Elementwise fusions: nothing is held from one group of elements to the next.
_ELEMENTWISE: dict[int, Warps] = {
    2: ((0, 1), (513, 2), (1025, 4), (4097, 16), (16385, 32)),
    4: ((0, 1), (513, 4), (2049, 16), (8193, 32)),
}
#: Operations that need no registers beside their result.
_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "neg", "sqrt", "rsqrt", "size", "const", "input"})
#: The ring of bulk copies hides the second pass over rows that are longer and of 16 bits.
RING_FROM = 16385
#: Registers of an SM, and those of a thread by the elements of a row that it holds.
REGISTERS = 65536
_REGISTERS = ((0, 64), (9, 96), (17, 128))
#: The most blocks on an SM that a schedule asks for.
MOST_BLOCKS = 16


def warps(fusion: Fusion, width: int) -> int:
    """Warps that share a row."""
    return _at(_table(fusion), width)


def ring(fusion: Fusion, width: int) -> bool:
    """Whether long rows are reduced twice: those come by bulk copies into a ring of buffers."""
    return width >= RING_FROM and _widest(fusion) <= 2 and _reductions(fusion) > 1


def several(fusion: Fusion) -> bool:
    """Whether proofs of a ring take long: more than two reductions."""
    return _reductions(fusion) > 2


def resident(threads: int, per_thread: int) -> int:
    """Blocks on an SM, for threads that hold so many elements of a row."""
    return max(1, min(MOST_BLOCKS, REGISTERS // (threads * _at(_REGISTERS, per_thread))))


def _table(fusion: Fusion) -> Warps:
    size = 2 if _widest(fusion) <= 2 else 4
    if not _reductions(fusion):
        return _ELEMENTWISE[size]
    if size == 2 and _plain(fusion):
        return _PLAIN
    return _REDUCING[size]


def _plain(fusion: Fusion) -> bool:
    """A normalization: one row in, one row out, and nothing but arithmetic."""
    along = [o for o in fusion.outputs if o.dims == fusion.dims]
    other = {op for op in fusion.ops() if not op.startswith("cast.")} - _ARITHMETIC - set(REDUCTIONS)
    return len(fusion.streamed) == len(along) == 1 and not other


def _reductions(fusion: Fusion) -> int:
    return sum(fusion.node(i).op in REDUCTIONS for i in fusion.graph)


def _widest(fusion: Fusion) -> int:
    """Bytes of the widest element of the rows that are read or written."""
    sizes = [DTYPE_BYTES[t.dtype] for n, t in fusion.inputs if n in fusion.streamed]
    sizes += [DTYPE_BYTES[o.dtype] for o in fusion.outputs if o.dims == fusion.dims]
    return max(sizes, default=4)


def _at(table: Warps, number: int) -> int:
    return next(found for least, found in reversed(table) if number >= least)


__all__ = ["resident", "ring", "several", "warps"]
