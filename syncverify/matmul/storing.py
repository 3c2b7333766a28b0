"""The end of a tile: accumulators go through the elementwise epilogue, and to global memory."""

from __future__ import annotations

from syncverify.ir.expr import Binary, Call, Expr, Int, Var
from syncverify.ir.nodes import (
    DTYPE_BYTES,
    For,
    Fragment,
    FragRead,
    FragWrite,
    If,
    LdGlobal,
    Let,
    Region,
    StMatrix,
    Stmt,
    StShared,
    TmaStore,
)
from syncverify.matmul import split
from syncverify.matmul.epilogue import arithmetic, loads, register, results, stores
from syncverify.matmul.problem import DIMS, Problem
from syncverify.matmul.schedule import K_SPAN, Schedule


def epilogue(problem: Problem, schedule: Schedule, vector: int) -> list[Stmt]:
    """Every thread stores its share of the accumulators, two neighbours of a row at a time.

    Inputs are read at the nearest place inside, whatever is stored: no branch parts one read from the next.
    """
    if schedule.store == "tma":
        return [_parts(problem, schedule)]
    result: list[Stmt] = []
    nearest = bool(problem.others)
    for block in range(schedule.rows // 64):
        inner: list[Stmt] = []
        for e in range(2 // vector):
            part = plus(share(schedule, block, Var("j")), e)
            inner += [
                *_products(problem, schedule, part, vector),
                Let("c", plus(Var("col") + Var("j") * 8 + Var("lane") % 4 * 2, e)),
                *([Let("inner_c", Call("min", (Var("c"), Var("N") - vector)))] if nearest else []),
                *loads(problem.epilogue, Var("inner_r"), Var("inner_c"), vector),
                *arithmetic(problem.epilogue),
                If(
                    Binary("and", Var("r") < Var("M"), Var("c") < Var("N")),
                    tuple(stores(problem.epilogue, Var("r"), Var("c"), vector)),
                ),
            ]
        row: list[Stmt] = [Let("r", own_row(schedule) + plus(lane_row(), block * 64))]
        if nearest:
            row.append(Let("inner_r", Call("min", (Var("r"), Var("M") - 1))))
        pairs = schedule.tile_n // 8
        columns = For("j", Int(0), Int(pairs), Int(1), tuple(inner), unroll=pairs)
        result.append(For("h", Int(0), Int(2), Int(1), (*row, columns), unroll=2))
    return result


def _products(problem: Problem, schedule: Schedule, start: Expr, count: int) -> list[Stmt]:
    """A thread's elements of the products, with what other blocks left of them."""
    found: list[Stmt] = [FragRead(register(x), x, start, Int(count)) for x in problem.products]
    return [*found, *split.added(schedule, register(problem.products[0]), start, count)]


def ahead(problem: Problem, schedule: Schedule) -> list[Fragment]:
    """Registers for what the epilogue reads of a part at each of its places: of 16-bit elements, two to one.

    They are filled for the first part in front of the products, and for the next part place by place.
    """
    wide = [(name, t) for name, t in problem.others if t.dims == DIMS and DTYPE_BYTES[t.dtype] == 2]
    width = K_SPAN // problem.output_sizes[0]
    if schedule.store != "tma":
        return []
    return [Fragment(_ahead(name), t.dtype, (schedule.rows, width)) for name, t in wide]


def _ahead(name: str) -> str:
    return f"{name}_part"


def first_reads(problem: Problem, schedule: Schedule) -> list[Stmt]:
    """Fills those registers for the first part."""
    reads = [r for r in loads(problem.epilogue, Var("r"), Var("c"), 2) if _is_ahead(problem, schedule, r)]
    width = K_SPAN // problem.output_sizes[0]
    result: list[Stmt] = []
    for block in range(schedule.rows // 64) if reads else ():
        inner: list[Stmt] = [_column(Int(0), width)]
        for r in reads:
            inner += [r, _kept(r, block, width)]
        result.append(_over(_rows(problem, schedule, block), tuple(inner), width))
    return result


def _is_ahead(problem: Problem, schedule: Schedule, read: LdGlobal) -> bool:
    return _ahead(read.src.tensor) in {f.name for f in ahead(problem, schedule)}


def _place(block: int, width: int) -> Expr:
    """Of a pair in a thread's share of a part."""
    return plus(Var("j") * 4 + Var("h") * 2, block * width // 2)


def _kept(read: LdGlobal, block: int, width: int) -> Stmt:
    return FragWrite(_ahead(read.src.tensor), Var(read.name), _place(block, width))


def _column(part: Expr, width: int) -> Stmt:
    """The nearest column inside."""
    at = Var("col") + _lane_column() if part == Int(0) else Var("col") + part * width + _lane_column()
    return Let("c", Call("min", (at, Var("N") - 2)))


def _rows(problem: Problem, schedule: Schedule, block: int) -> list[Stmt]:
    """A thread's row of a block, and the nearest one inside of C."""
    row: list[Stmt] = [Let("s", plus(lane_row(), block * 64))]
    if problem.others:
        row.append(Let("r", Call("min", (own_row(schedule) + Var("s"), Var("M") - 1))))
    return row


def _parts(problem: Problem, schedule: Schedule) -> Stmt:
    """The columns of a warpgroup's share part by part: to shared memory, then by a tensor copy.

    Inputs of the epilogue are read at the nearest place inside, for what is outside is not stored.
    """
    size = problem.output_sizes[0]
    width, parts = K_SPAN // size, schedule.parts(size)
    if not problem.others and size == 2:
        return _matrices(problem, schedule)
    reads = loads(problem.epilogue, Var("r"), Var("c"), 2)
    body: list[Stmt] = []
    for block in range(schedule.rows // 64):
        part = share(schedule, block, Var("p") * (width // 8) + Var("j"))
        inner: list[Stmt] = [*_products(problem, schedule, part, 2)]
        soon = [r for r in reads if _is_ahead(problem, schedule, r)]
        inner += [FragRead(r.name, _ahead(r.src.tensor), _place(block, width), Int(2)) for r in soon]
        now = [r for r in reads if r not in soon]
        inner += [*([_column(Var("p"), width)] if now else []), *now]
        inner += arithmetic(problem.epilogue)
        inner += [
            StShared(Region(f"{o.name}_tile", (Var("wg"),), Var("s") * width + _lane_column(), Int(2)), value)
            for o, value in results(problem.epilogue)
        ]
        if soon and parts > 1:
            later: list[Stmt] = [_column(Var("p") + 1, width)]
            for r in soon:
                later += [r, _kept(r, block, width)]
            inner.append(If(Var("p") + 1 < parts, tuple(later)))
        body.append(_over(_rows(problem, schedule, block), tuple(inner), width))
    body += _copies(problem, schedule, width)
    return For("p", Int(0), Int(parts), Int(1), tuple(body), unroll=parts)


def _lane_column() -> Expr:
    return Var("j") * 8 + Var("lane") % 4 * 2


def _over(row: list[Stmt], inner: tuple[Stmt, ...], width: int) -> Stmt:
    """For each of a thread's two rows and its places in them."""
    columns = For("j", Int(0), Int(width // 8), Int(1), inner, unroll=width // 8)
    return For("h", Int(0), Int(2), Int(1), (*row, columns), unroll=2)


def _matrices(problem: Problem, schedule: Schedule) -> Stmt:
    """The same for epilogues of the product alone: each warp stores its 16 rows of a part at once."""
    width = K_SPAN // problem.output_sizes[0]
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


def _copies(problem: Problem, schedule: Schedule, width: int) -> list[Stmt]:
    """The tensor copies of a part."""
    at = (own_row(schedule), Var("col") + Var("p") * width)
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


__all__ = ["ahead", "epilogue", "first_reads", "lane_row", "output_map", "plus"]
