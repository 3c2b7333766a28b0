"""Batched products: factors and results are many matrices of one shape, one behind the other in memory.

The tiles of all matrices are counted through, those of one matrix first: what blocks read at one time belongs
to few matrices. The number of a tile over the tiles of a matrix is its matrix, the outermost coordinate of
every tensor copy. So copies bring zeros for what is outside of *their* matrix, and never rows of the next
one; behind the last matrix they bring zeros and store nothing. For example 8 products of 100 x 200 x 64 have
16 tiles of 128 x 128; tile 5 is the second of matrix 2.

Grouped products: A and C are one matrix each, and each group of 128 rows has a right factor of its own, as
tokens have experts. Which one is loaded for each tile. It is a coordinate of copies into shared memory and
nothing else, so no order between threads depends on it, and one proof holds for all numbers. A number that no
factor has brings zeros. For example 5 groups with the experts 0, 0, 2, -1, 1 have a third group by factor 2,
and a fourth one of zeros.

Groups from anywhere on: memory also holds the first row of A of each group, which is loaded as the number of
the factor is, and is a coordinate of copies as well. So experts of 200 and 30 rows are groups from the rows
0, 128 and 200 on, of which C has rows 0 to 383. What follows an expert's last row in its last group is of no
use, and nobody reads it. Each group's rows of C are its own, whatever memory holds.
"""

from __future__ import annotations

from syncverify.ir.expr import Call, Expr, Int, Var
from syncverify.ir.nodes import GlobalRegion, Let, LoadIndex, Stmt, Tensor
from syncverify.matmul.problem import BATCH, CHOICE, EXPERTS, GROUP_ROWS, LEFT_ROWS, STARTS, Problem
from syncverify.matmul.schedule import Schedule

#: The parameter that says how many tiles (of clusters) a matrix has.
TILES = "tiles"
_MATRIX = Var("matrix")
_START = "start"


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


def right(problem: Problem, *place: Expr) -> tuple[Expr, ...]:
    """A place of a right factor as its tensor map counts it."""
    return (_MATRIX, *place) if problem.batched or problem.grouped else place


def right_box(problem: Problem, *extents: int) -> tuple[int, ...]:
    """A part of one right factor as the box of a tensor map."""
    return (1, *extents) if problem.batched or problem.grouped else extents


def chosen(problem: Problem) -> list[Stmt]:
    """Which right factor a tile of a grouped product has: loaded, for rows that may lie behind the last."""
    if not problem.grouped:
        return []
    row = Call("min", (Var("row"), Var("M") - 1))
    loaded: list[Stmt] = [LoadIndex("matrix", GlobalRegion(CHOICE, row // GROUP_ROWS, Int(1)))]
    if problem.anywhere:
        loaded.append(LoadIndex(_START, GlobalRegion(STARTS, row // GROUP_ROWS, Int(1))))
    return loaded


def left_row(problem: Problem) -> Expr:
    """Where a tile's rows of A begin."""
    return Var(_START) + Var("row") % GROUP_ROWS if problem.anywhere else Var("row")


def choices(problem: Problem) -> list[Tensor]:
    """The tensors that name right factors, and first rows of groups."""
    groups = Call("cdiv", (Var("M"), Int(GROUP_ROWS)))
    return [Tensor(name, "i32", (groups,), "in") for name in problem.tables]


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
    if problem.grouped:
        return [Var(EXPERTS) >= 1, *([Var(LEFT_ROWS) >= 1] if problem.anywhere else [])]
    return [Var(BATCH) >= 1, Var(TILES) >= 1] if problem.batched else []


def allows(problem: Problem, schedule: Schedule) -> bool:
    """Whether the schedule is one for the problem: a tile of grouped products has one right factor, which
    blocks that lie one above the other do not share."""
    whole = schedule.split_k == 1 and schedule.sharing_b == 1 and not schedule.pingpong
    return not problem.grouped or (whole and GROUP_ROWS % schedule.tile_m == 0)


__all__ = ["TILES", "allows", "at", "box", "choices", "chosen", "element", "facts", "inside", "left_row",
           "right", "right_box", "tile"]  # fmt: skip
