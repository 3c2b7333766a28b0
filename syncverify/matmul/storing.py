"""The end of a tile: accumulators go through the elementwise epilogue, and to global memory."""

from __future__ import annotations

from functools import reduce

from syncverify.ir.expr import Binary, Call, Expr, Int, Var
from syncverify.ir.nodes import (
    Assign,
    For,
    FragRead,
    If,
    Let,
    Region,
    StMatrix,
    Stmt,
    StShared,
    TmaStore,
)
from syncverify.matmul import batch, stream
from syncverify.matmul.epilogue import arithmetic, loads, places, register, results, stores
from syncverify.matmul.problem import Problem
from syncverify.matmul.schedule import Schedule

#: Columns of C in a row of 128 bytes, where memory holds C's transpose.
PANEL = 64


def epilogue(problem: Problem, schedule: Schedule, vector: int) -> list[Stmt]:
    """Every thread stores its share of the accumulators, two neighbours of a row at a time.

    Inputs are read at the nearest place inside, whatever is stored: no branch parts one read from the next.
    """
    if schedule.store == "tma":
        return [_by_columns(problem, schedule) if problem.by_columns else _parts(problem, schedule)]
    result: list[Stmt] = []
    nearest = bool(problem.others)
    along = any("N" in t.dims for _, t in problem.others)
    for block in range(schedule.rows // 64):
        inner: list[Stmt] = []
        first: Expr = Var("col") + Var("j") * 8 + Var("lane") % 4 * 2
        for e in range(2 // vector):
            part = plus(share(schedule, block, Var("j")), e)
            inner += [
                *_products(problem, schedule, part, vector),
                _set("c", plus(first, e), e),
                *([_set("inner_c", Call("min", (Var("c"), Var("N") - vector)), e)] if along else []),
                *loads(problem.epilogue, Var("inner_r"), Var("inner_c"), vector),
                *arithmetic(problem.epilogue, places(Var("r"), Var("c"), vector)),
                If(
                    reduce(_both, [*batch.inside(problem), Var("r") < Var("M"), Var("c") < Var("N")]),
                    tuple(stores(problem.epilogue, Var("r"), Var("c"), vector, _element(problem))),
                ),
            ]
        row: list[Stmt] = [Let("r", own_row(schedule) + plus(lane_row(), block * 64))]
        if nearest:
            row.append(Let("inner_r", Call("min", (Var("r"), Var("M") - 1))))
        pairs = schedule.tile_n // 8
        columns = For("j", Int(0), Int(pairs), Int(1), tuple(inner), unroll=pairs)
        result.append(For("h", Int(0), Int(2), Int(1), (*row, columns), unroll=2))
    return result


def _element(problem: Problem) -> Expr:
    """Where memory has the element of C in row ``r`` and column ``c``."""
    r, c = Var("r"), Var("c")
    return batch.element(problem, c * Var("M") + r if problem.by_columns else r * Var("N") + c)


def _both(a: Expr, b: Expr) -> Expr:
    return Binary("and", a, b)


def _set(name: str, value: Expr, again: int) -> Stmt:
    return Assign(name, value) if again else Let(name, value)


def _products(problem: Problem, schedule: Schedule, start: Expr, count: int) -> list[Stmt]:
    """A thread's elements of the products, with what other blocks left of them."""
    found: list[Stmt] = [FragRead(register(x), x, start, Int(count)) for x in problem.products]
    return [*found, *stream.added(schedule, [*map(register, problem.products)], start, count)]


def _parts(problem: Problem, schedule: Schedule) -> Stmt:
    """The columns of a warpgroup's share part by part: to shared memory, then by a tensor copy.

    Inputs of the epilogue are read at the nearest place inside, for what is outside is not stored.
    """
    size = max(problem.output_sizes)
    width, parts = schedule.width(size), schedule.parts(size)
    needs = bool(problem.others) or problem.placed
    if not needs and set(problem.output_sizes) == {2}:
        return _matrices(problem, schedule)
    body: list[Stmt] = []
    for block in range(schedule.rows // 64):
        column = Var("j") * 8 + Var("lane") % 4 * 2
        part = share(schedule, block, Var("p") * (width // 8) + Var("j"))
        inner: list[Stmt] = [*_products(problem, schedule, part, 2)]
        if needs:
            last = Call("min", (Var("col") + Var("p") * width + column, Var("N") - 2))
            inner += [Let("c", last), *loads(problem.epilogue, Var("r"), Var("c"), 2)]
        at = places(Var("r"), Var("c"), 2) if needs else {}
        inner += arithmetic(problem.epilogue, at)
        inner += [
            StShared(Region(f"{o.name}_tile", (Var("wg"),), Var("line") * width + column, Int(2)), value)
            for o, value in results(problem.epilogue, at)
        ]
        row: list[Stmt] = [Let("line", plus(lane_row(), block * 64))]
        if needs:
            bottom = own_row(schedule) + Var("line")
            row.append(Let("r", Call("min", (bottom, Var("M") - 1))))
        columns = For("j", Int(0), Int(width // 8), Int(1), tuple(inner), unroll=width // 8)
        body.append(For("h", Int(0), Int(2), Int(1), (*row, columns), unroll=2))
    body += _copies(problem, schedule, width)
    return For("p", Int(0), Int(parts), Int(1), tuple(body), unroll=parts)


def _matrices(problem: Problem, schedule: Schedule) -> Stmt:
    """The same for epilogues of the product alone: each warp stores its 16 rows of a part at once."""
    width = schedule.width(problem.output_sizes[0])
    parts = schedule.parts(problem.output_sizes[0])
    count = width // 2
    body: list[Stmt] = []
    for block in range(schedule.rows // 64):
        start = plus(Var("p") * count, block * schedule.tile_n // 2)
        body += [
            *_products(problem, schedule, start, count),
            *arithmetic(problem.epilogue),
        ]
        first = plus(Var("warp") % 4 * (16 * width), block * 64 * width)
        body += [
            StMatrix(Region(f"{o.name}_tile", (Var("wg"),), first, Int(16 * width)), value)
            for o, value in results(problem.epilogue)
        ]
    return For("p", Int(0), Int(parts), Int(1), (*body, *_copies(problem, schedule, width)), unroll=parts)


def _by_columns(problem: Problem, schedule: Schedule) -> Stmt:
    """Parts of a tile of C's transpose, each some rows of C: panels of 64 columns, written one by one."""
    width = schedule.width(2)
    parts = schedule.tile_n // width
    body: list[Stmt] = []
    for block in range(schedule.rows // PANEL):
        inner: list[Stmt] = []
        for e in range(2):
            number = Var("p") * (width // 8) + Var("j")
            inner += _products(problem, schedule, plus(share(schedule, block, number), e), 1)
            inner += arithmetic(problem.epilogue)
            place = (Var("j") * 8 + Var("lane") % 4 * 2 + e) * PANEL + lane_row()
            inner += [
                StShared(Region(f"{o.name}_tile", (Var("wg"), Int(block)), place, Int(1)), value)
                for o, value in results(problem.epilogue)
            ]
        columns = For("j", Int(0), Int(width // 8), Int(1), tuple(inner), unroll=width // 8)
        body.append(For("h", Int(0), Int(2), Int(1), (columns,), unroll=2))
    for o in problem.epilogue.outputs:
        for block in range(schedule.rows // PANEL):
            column = Var("col") + Var("p") * width
            at = batch.at(problem, column, plus(own_row(schedule), block * PANEL))
            body.append(TmaStore(output_map(o.name), at, Region(f"{o.name}_tile", (Var("wg"), Int(block)))))
    return For("p", Int(0), Int(parts), Int(1), tuple(body), unroll=parts)


def _copies(problem: Problem, schedule: Schedule, width: int) -> list[Stmt]:
    """The tensor copies of a part."""
    at = batch.at(problem, own_row(schedule), Var("col") + Var("p") * width)
    return [
        TmaStore(output_map(o.name), at, Region(f"{o.name}_tile", (Var("wg"),)))
        for o in problem.epilogue.outputs
    ]


def output_map(output: str) -> str:
    return f"{output}_map"


def own_row(schedule: Schedule) -> Expr:
    """The first row of C that is the warpgroup's."""
    return Var("row") if schedule.pingpong else Var("row") + Var("wg") * schedule.rows


def lane_row() -> Expr:
    """A thread's row among 64 (PTX ISA, wgmma: Register Fragments), in the upper or lower half ``h``."""
    return Var("h") * 8 + (Var("warp") % 4 * 16 + Var("lane") // 4)


def share(schedule: Schedule, block: int, column: Expr) -> Expr:
    """The first of two neighbours in a thread's share: 64 rows after 64 rows, 8 columns after 8 columns."""
    return plus(column * 4 + Var("h") * 2, block * schedule.tile_n // 2)


def plus(e: Expr, n: int) -> Expr:
    return e + n if n else e


__all__ = ["epilogue", "lane_row", "output_map", "plus"]
