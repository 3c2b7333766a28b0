"""Persistent grids: how the host deals out tiles to blocks, and what a kernel may rely on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from syncverify.base.source import InputError
from syncverify.fusion import row_strides
from syncverify.fusion.graph import Fusion
from syncverify.ir.expr import Binary, Expr, Int, Var
from syncverify.ir.nodes import DTYPE_BYTES, BulkPrefetch, GlobalRegion, If, Kernel, Let, Param, Stmt

#: Multiprocessors of the largest machine, and bytes that are brought to L2 at most.
SMS, MOST_FETCHED = 132, 16 << 20

_I32 = ("more", "rest", "blocks")


def facts(tile: int) -> tuple[Expr, ...]:
    """What every launch keeps to; ``tile``: more than what is left over after whole tiles."""
    return (
        Var("each") >= 0,
        Var("more") >= 0,
        Var("more") < Var("blocks"),
        Var("rest") >= 0,
        Var("rest") < tile,
        Var("blocks") >= 1,
    )


def launch_parameters(elements: int, tile: int, sizes: Mapping[str, int], blocks: int) -> dict[str, int]:
    """The parameters of a kernel for so many blocks at most.

    ``each``: whole tiles of every block; the first ``more`` blocks have another one. ``rest``: elements left
    over. ``blocks``: the grid, one for each whole tile, but at least 1.
    """
    tiles, rest = divmod(elements, tile)
    grid = max(1, min(tiles, blocks))
    return {**sizes, "each": tiles // grid, "more": tiles % grid, "rest": rest, "blocks": grid}


def parameters(values: Mapping[str, int], index: str, small: Iterable[str] = ()) -> tuple[Param, ...]:
    """The parameters of a kernel with their defaults; ``small``: those beside the usual that fit 32 bits."""
    narrow = {*_I32, *small}
    return tuple(Param(n, "i32" if n in narrow else index, v) for n, v in values.items())  # type: ignore[arg-type]


def rounds(ragged: bool = False, number: Expr = Var("block")) -> Let:  # noqa: B008
    """``n``, the number of whole tiles of a block; ``ragged``: with what is left over, as the next tile.

    ``number``: the block's, or that of its cluster where one shares a tile.
    """
    more = Var("more") + (Var("rest") > 0) if ragged else Var("more")
    return Let("n", Var("each") + (number < more))


def fetched(fusion: Fusion, tile: int, blocks_per_sm: int) -> list[Stmt]:
    """The first tiles come to L2 while their blocks wait for the grid before: those of the blocks that run
    together, whole ones of 16-byte units alone. Prefetches are hints: no value depends on them."""
    sizes = [DTYPE_BYTES[t.dtype] for n, t in fusion.inputs if n in fusion.streamed]
    if row_strides.pitches(fusion) or any(tile * size % 16 for size in sizes):
        return []
    first = min(SMS * blocks_per_sm, max(1, MOST_FETCHED // (tile * sum(sizes) or 1)))
    whole = Var("each") + (Var("block") < Var("more")) > 0
    who = Binary("and", Var("tid").eq(0), Binary("and", Var("block") < first, whole))
    return [
        If(who, tuple(BulkPrefetch(GlobalRegion(n, Var("block") * tile, Int(tile))) for n in fusion.streamed))
    ]


def tile_of(kernel: Kernel) -> int:
    """The tile of a kernel: it assumes that less than one is left over."""
    for fact in kernel.assumes:
        match fact:
            case Binary("<", Var("rest"), Int(tile)):
                return tile
    raise InputError(f"kernel {kernel.name} is no lowered fusion", kernel.span)


__all__ = ["facts", "fetched", "launch_parameters", "parameters", "rounds", "tile_of"]
