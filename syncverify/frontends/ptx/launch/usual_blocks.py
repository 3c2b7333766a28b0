"""Blocks that kernels are often launched with, of as many dimensions as the text reads.

A heuristic: which blocks are named proves nothing, for each is checked.
"""

from __future__ import annotations

from syncverify.frontends.ptx.syntax.nodes import Function, Special

Block = tuple[int, ...]

#: By the dimensions that the text reads, in the order in which they are tried. Thread ranks of
#: cooperative groups read all three, and most of their blocks have one.
_USUAL: dict[int, tuple[Block, ...]] = {
    1: ((256,), (128,), (512,), (1024,), (64,), (32,)),
    2: ((32, 8), (16, 16), (32, 32), (32, 4), (8, 8)),
    3: ((256, 1, 1), (8, 8, 4), (8, 8, 8), (32, 4, 2)),
}


def dimensions(function: Function) -> int:
    """The dimensions of a block that a kernel reads: 1, 2 or 3."""
    named = {o.name for i in function.body for o in i.operands if isinstance(o, Special)}
    return max((n for n, d in ((2, "y"), (3, "z")) if named & {f"%tid.{d}", f"%ntid.{d}"}), default=1)


def usual_blocks(function: Function) -> tuple[Block, ...]:
    """Blocks to try for a kernel whose block nothing gives."""
    return _USUAL[dimensions(function)]


__all__ = ["Block", "dimensions", "usual_blocks"]
