"""Batched products: factors and results are many matrices of one shape, one behind the other in memory.

The tiles of all matrices are counted through, those of one matrix first: what blocks read at one time belongs
to few matrices. The number of a tile over the tiles of a matrix is its matrix, the outermost coordinate of
every tensor copy. So copies bring zeros for what is outside of *their* matrix, and never rows of the next
one; behind the last matrix they bring zeros and store nothing. For example 8 products of 100 x 200 x 64 have
16 tiles of 128 x 128; tile 5 is the second of matrix 2.
"""

from __future__ import annotations

from syncverify.ir.expr import Expr, Var
from syncverify.ir.nodes import Let, Stmt
from syncverify.matmul.problem import BATCH, Problem

#: The parameter that says how many tiles (of clusters) a matrix has.
TILES = "tiles"
_MATRIX = Var("matrix")


def tile(problem: Problem, number: Expr) -> list[Stmt]:
    """The tile of a number, in its matrix."""
    if not problem.batched:
        return [Let("tile", number)]
    return [
        Let("number", number),
        Let("matrix", Var("number") // Var(TILES)),
        Let("tile", Var("number") % Var(TILES)),
    ]


def at(problem: Problem, *place: Expr) -> tuple[Expr, ...]:
    """A place of a matrix as a tensor map counts it."""
    return (_MATRIX, *place) if problem.batched else place


def box(problem: Problem, *extents: int) -> tuple[int, ...]:
    """A part of one matrix as the box of a tensor map."""
    return (1, *extents) if problem.batched else extents


def element(problem: Problem, place: Expr) -> Expr:
    """An element of C, by its place in its matrix."""
    return _MATRIX * (Var("M") * Var("N")) + place if problem.batched else place


def inside(problem: Problem) -> list[Expr]:
    """Whether there is such a matrix."""
    return [_MATRIX < Var(BATCH)] if problem.batched else []


def facts(problem: Problem) -> list[Expr]:
    """What launches are tested for beside the sizes of one matrix."""
    return [Var(BATCH) >= 1, Var(TILES) >= 1] if problem.batched else []


__all__ = ["TILES", "at", "box", "element", "facts", "inside", "tile"]
