"""Several blocks for one tile: the steps along K of a team's tiles are shared out evenly among its blocks.

A team of ``split_k`` blocks goes through ``share`` tiles, one after the other: ``share * steps`` steps, of
which each block takes an equal run. A run that starts inside a tile leaves a partial sum in memory; the
block whose run holds the tile's first step adds what the others left, and finishes the tile. Later parts of a
tile come first, in blocks of lower numbers: a block waits for lower-numbered ones only, and for what they did
as the first thing of all.
"""

from __future__ import annotations

from syncverify.ir.expr import Call, Expr, Float, Int, Var
from syncverify.ir.nodes import (
    BulkStore,
    Compute,
    For,
    FragRead,
    GlobalRegion,
    If,
    LdGlobal,
    Let,
    Region,
    Shared,
    StGlobal,
    Stmt,
    StShared,
    Tensor,
)
from syncverify.matmul.schedule import WARPGROUP, Schedule

#: Partial sums in global memory, of a tile for each block; how many of them are there, for each warpgroup.
SUMS, SEMAPHORE = "partial_sums", "semaphore"
#: Where a warpgroup's partial sums are put together in shared memory.
PART = "part_tile"
#: A thread's place in its warpgroup.
_THREAD = Var("warp") % 4 * 32 + Var("lane")
#: Sums of one access: 16 bytes.
_UNIT = 4
#: How many partial sums of a tile come before a block's own.
BEHIND = Var("behind")


def values(schedule: Schedule, tiles: int, steps: int, multiprocessors: int) -> dict[str, int]:
    """``share``: tiles of a team, of which the last may lie outside of C; ``teams`` and ``blocks``.

    No more blocks than SMs: all of them run at once. No block is without a step.
    """
    q, c = schedule.split_k, schedule.cluster
    share = max(-(-tiles // max(multiprocessors // (q * c), 1)), -(-q // steps))
    teams = -(-tiles // share)
    return {"share": share, "teams": teams, "blocks": teams * q * c}


def facts(schedule: Schedule) -> list[Expr]:
    q = schedule.split_k
    return [
        Var("share") >= 1,
        Var("teams") >= 1,
        Var("share") * Var("steps") >= q,
        Var("blocks").eq(Var("teams") * (q * schedule.cluster)),
    ]


def tensors(schedule: Schedule) -> tuple[Tensor, ...]:
    size = schedule.tile_m * schedule.tile_n
    return (
        Tensor(SUMS, "f32", (Var("blocks") * size,), "inout"),
        Tensor(SEMAPHORE, "u32", (Var("blocks") * schedule.consumers,), "inout"),
    )


def workspaces(schedule: Schedule, blocks: int) -> dict[str, int]:
    """Bytes of each of those for so many blocks; all zero at launch, and the semaphores again at the end."""
    if schedule.split_k == 1:
        return {}
    size = 4 * blocks
    return {SUMS: size * schedule.tile_m * schedule.tile_n, SEMAPHORE: size * schedule.consumers}


def buffer(schedule: Schedule) -> Shared:
    """A part of a warpgroup's partial sums: those of 32 columns, each thread's own in runs of four."""
    shape = (Int(schedule.consumers), Int(_depth(schedule) * WARPGROUP))
    return Shared(PART, "f32", shape, 1024)


def _depth(schedule: Schedule) -> int:
    """Sums of a thread in one part."""
    return schedule.rows * 32 // WARPGROUP


def place(schedule: Schedule) -> list[Stmt]:
    """Which run of which team a block, or all blocks of a cluster, have."""
    q = schedule.split_k
    total = Var("share") * Var("steps")
    here: Expr = Var("block") if schedule.cluster == 1 else Var("block") // schedule.cluster
    return [
        Let("team", here // q),
        Let("number", Int(q - 1) - here % q),
        Let("total", total),
        Let("begin", Var("number") * Var("total") // q),
        Let("end", (Var("number") + 1) * Var("total") // q),
    ]


def turns(work: tuple[Stmt, ...]) -> For:
    """The tiles that a run touches."""
    last = Call("cdiv", (Var("end"), Var("steps")))
    return For("i", Var("begin") // Var("steps"), last, Int(1), work)


def turn(schedule: Schedule) -> list[Stmt]:
    """The run's part of a tile: ``count`` steps from ``skip`` on, and who has the others."""
    q = schedule.split_k
    start = Var("i") * Var("steps")
    owner = ((Var("start") + 1) * q - 1) // Var("total")
    return [
        Let("start", start),
        Let("skip", Call("max", (Var("begin") - Var("start"), Int(0)))),
        Let("count", Call("min", (Var("end") - Var("start"), Var("steps"))) - Var("skip")),
        Let("behind", ((Var("start") + Var("steps")) * q - 1) // Var("total") - Var("number")),
        Let("slot", (Var("team") + 1) * q - 1 - owner),
    ]


def cell(schedule: Schedule) -> GlobalRegion:
    """The semaphore of a tile and a warpgroup."""
    return GlobalRegion(SEMAPHORE, _place(schedule) * schedule.consumers + Var("wg"))


def _base(schedule: Schedule) -> Expr:
    """The first partial sum of the warpgroup."""
    return (_place(schedule) * schedule.consumers + Var("wg")) * (schedule.rows * schedule.tile_n)


def _place(schedule: Schedule) -> Expr:
    """Where the sums of the block's own tile lie: a cluster has one for each of its blocks."""
    c = schedule.cluster
    return Var("slot") if c == 1 else Var("slot") * c + Var("rank")


def left(schedule: Schedule, accumulators: str) -> Stmt:
    """The partial sum of a run that does not start a tile, part by part."""
    depth = _depth(schedule)
    size = depth * WARPGROUP
    to = GlobalRegion(SUMS, _base(schedule) + Var("p") * size, Int(size))
    whole = Region(PART, (Var("wg"),))
    own = Region(PART, (Var("wg"),), _THREAD * _UNIT, Int(_UNIT), Int(depth // _UNIT), Int(WARPGROUP * _UNIT))
    add, store = BulkStore(to, whole, "add"), BulkStore(to, whole)
    if schedule.sums == "any":
        leave: Stmt = add
    else:
        leave = store if schedule.split_k == 2 else If(BEHIND.eq(0), (store,), (add,))
    body: tuple[Stmt, ...] = (
        FragRead("part_v", accumulators, Var("p") * depth, Int(depth)),
        StShared(own, Var("part_v")),
        leave,
    )
    parts = schedule.tile_n // 32
    return For("p", Int(0), Int(parts), Int(1), body, unroll=parts)


def added(schedule: Schedule, name: str, start: Expr, count: int) -> list[Stmt]:
    """Adds what others left to ``count`` elements of a thread's share, ``start`` a multiple of ``count``.

    Where anyone may come first, what was read is zero again for the next launch.
    """
    if schedule.split_k == 1:
        return []
    unit = min(count, _UNIT)
    # a run of four of each thread, then the next four
    if count >= _UNIT:
        at = start * WARPGROUP + _THREAD * _UNIT
    else:
        at = start // _UNIT * (_UNIT * WARPGROUP) + _THREAD * _UNIT + start % _UNIT
    rows = count // unit
    more = (Int(rows), Int(WARPGROUP * _UNIT)) if rows > 1 else ()
    where = GlobalRegion(SUMS, _base(schedule) + at, Int(unit), *more)
    inner: list[Stmt] = [LdGlobal("sum_v", where), Compute(name, Var(name) + Var("sum_v"))]
    if schedule.sums == "any":
        inner.append(StGlobal(where, Float(0.0)))
    return [If(BEHIND > 0, tuple(inner))]


def finished(work: tuple[Stmt, ...], schedule: Schedule, accumulators: str) -> Stmt:
    """After the products: a tile that starts in this run is finished, the others' sums are left."""
    return If(Var("skip") > 0, (left(schedule, accumulators),), work)


__all__ = ["BEHIND", "PART", "SEMAPHORE", "SUMS", "added", "buffer", "cell", "facts", "finished", "left",
           "place", "tensors", "turn", "turns", "values",
           "workspaces"]  # fmt: skip
