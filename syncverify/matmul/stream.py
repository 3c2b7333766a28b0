"""Stream-K: the steps along K of a block group's tiles are shared out evenly, and runs begin anywhere inside
tiles.

A team of ``split_k`` blocks goes through ``share`` tiles, one after the other: ``share * steps`` steps, of
which each block takes an equal run. A run that starts inside a tile leaves a partial sum in memory; the
block whose run holds the tile's first step adds what the others left, and finishes the tile. Later parts of a
tile come first, in blocks of lower numbers: a block waits for lower-numbered ones only, and for what they did
as the first thing of all.

Where runs begin is said by parameters, three for each run but the first (``boundary``): the kernel only
compares them, so that whose step a tile's first one is needs no quotient by a product of sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

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
)
from syncverify.matmul.schedule import WARPGROUP, Schedule
from syncverify.matmul.split import SEMAPHORE, SUMS

#: Where a warpgroup's partial sums are put together in shared memory.
PART = "part_tile"
#: A thread's place in its warpgroup.
_THREAD = Var("warp") % 4 * 32 + Var("lane")
#: Sums of one access: 16 bytes.
_UNIT = 4
#: How many partial sums of a tile come before a block's own.
BEHIND = Var("behind")
#: Whether a tile starts in another run, and whether it may end in one.
_OTHERS, _LAST = Var("i") < Var("whole"), Var("i").eq(Var("final"))


def values(schedule: Schedule, tiles: int, steps: int, multiprocessors: int) -> dict[str, int]:
    """``share``: tiles of a block group, of which the last may lie outside of C; ``teams`` and ``blocks``;
    where the
    runs of a block group begin.

    No more blocks than SMs: all of them run at once. No block is without a step.
    """
    q, c = schedule.split_k, schedule.cluster
    share = max(-(-tiles // max(multiprocessors // (q * c), 1)), -(-q // steps))
    teams = -(-tiles // share)
    found = {"share": share, "teams": teams, "blocks": teams * q * c}
    for run in range(1, q):
        begin = run * share * steps // q
        at = begin // steps, -(-begin // steps), begin % steps
        found |= dict(zip(boundary(run), at, strict=True))
    return found


def boundary(run: int) -> tuple[str, str, str]:
    """Where a run of a block group begins: the tile that holds its first step, the first tile that starts in
    it or
    behind it, and the steps of the former that belong to others."""
    return f"tile_{run}", f"whole_{run}", f"skip_{run}"


def names(schedule: Schedule) -> tuple[str, ...]:
    """The parameters of all boundaries."""
    return tuple(name for run in range(1, schedule.split_k) for name in boundary(run))


def _bounds(schedule: Schedule, run: int) -> tuple[Expr, Expr, Expr]:
    """The boundary in front of a run, of the first and behind the last one too."""
    if run == 0:
        return Int(0), Int(0), Int(0)
    if run == schedule.split_k:
        return Var("share"), Var("share"), Int(0)
    tile, whole, skip = boundary(run)
    return Var(tile), Var(whole), Var(skip)


def facts(schedule: Schedule) -> list[Expr]:
    q = schedule.split_k
    found: list[Expr] = [
        Var("share") >= 1,
        Var("teams") >= 1,
        Var("blocks").eq(Var("teams") * (q * schedule.cluster)),
    ]
    for run in range(1, q + 1):
        tile, whole, skip = _bounds(schedule, run)
        before, whole_before, _ = _bounds(schedule, run - 1)
        found += [before <= tile, whole_before <= whole, before < whole]
        if run < q:
            found += [tile <= whole, whole <= tile + 1, skip >= 0, skip < Var("steps")]
    return found


def buffer(schedule: Schedule) -> Shared:
    """A part of a warpgroup's partial sums: those of 32 columns, of two products 16 each; a thread's own in
    runs of four."""
    shape = (Int(schedule.consumers), Int(_depth(schedule) * WARPGROUP))
    return Shared(PART, "f32", shape, 1024)


def _depth(schedule: Schedule) -> int:
    """Sums of a thread in one part."""
    return schedule.rows * 32 // WARPGROUP


def place(schedule: Schedule) -> list[Stmt]:
    """Which run of which team a block, or all blocks of a cluster, have; whose tiles they share.

    Only the first tile of a run may be another's, and only the last may be shared with runs behind it.
    """
    q = schedule.split_k
    here: Expr = Var("block") if schedule.cluster == 1 else Var("block") // schedule.cluster

    def runs(kind: int, tile: str) -> Expr:
        """How many runs behind the first begin with or in front of a tile."""
        found: Expr = _bounds(schedule, 1)[kind] <= Var(tile)
        for run in range(2, q):
            found = found + (_bounds(schedule, run)[kind] <= Var(tile))
        return found

    def where(cond: Expr, value: Expr) -> Expr:
        return Call("select", (cond, value, Int(0)))

    begins = Var("begin") < Var("whole")
    return [
        Let("team", here // q),
        Let("number", Int(q - 1) - here % q),
        Let("begin", _own(schedule, 0, 0)),
        Let("whole", _own(schedule, 1, 0)),
        Let("final", _own(schedule, 0, 1)),
        Let("end", _own(schedule, 1, 1)),
        Let("ours", here),
        Let("theirs", where(begins, (Var("team") + 1) * q - 1 - runs(1, "begin"))),
        Let("follow", where(begins, runs(0, "begin") - Var("number"))),
        Let("join", where(Var("final") < Var("end"), runs(0, "final") - Var("number"))),
    ]


def _own(schedule: Schedule, kind: int, behind: int) -> Expr:
    """A part of the boundary in front of a block's run (0), or of the one behind it (1)."""
    runs = schedule.split_k - 1
    found = _bounds(schedule, runs + behind)[kind]
    for run in reversed(range(runs)):
        found = Call("select", (Var("number").eq(run), _bounds(schedule, run + behind)[kind], found))
    return found


def turns(work: tuple[Stmt, ...]) -> For:
    """The tiles that a run touches."""
    return For("i", Var("begin"), Var("end"), Int(1), work)


def turn(schedule: Schedule) -> list[Stmt]:
    """The run's part of a tile: ``count`` steps from ``skip`` on."""
    skip = Call("select", (_OTHERS, _own(schedule, 2, 0), Int(0)))
    end = Call("select", (_LAST, _own(schedule, 2, 1), Var("steps")))
    return [Let("skip", skip), Let("count", end - Var("skip"))]


def sharing() -> list[Stmt]:
    """Who finishes the tile, and how many runs behind the block's own have parts of it."""
    behind = Call("select", (_LAST, Var("join"), Int(0)))
    return [
        Let("slot", Call("select", (_OTHERS, Var("theirs"), Var("ours")))),
        Let("behind", Call("select", (_OTHERS, Var("follow"), behind))),
    ]


def cell(schedule: Schedule) -> GlobalRegion:
    """The semaphore of a tile and a warpgroup."""
    return GlobalRegion(SEMAPHORE, _place(schedule) * schedule.consumers + Var("wg"))


def _base(schedule: Schedule, product: int, products: int) -> Expr:
    """The first partial sum of the warpgroup, of one of its products."""
    each = schedule.rows * schedule.tile_n
    first = (_place(schedule) * schedule.consumers + Var("wg")) * (each * products)
    return first + product * each if product else first


def _place(schedule: Schedule) -> Expr:
    """Where the sums of the block's own tile lie: a cluster has one for each of its blocks."""
    c = schedule.cluster
    return Var("slot") if c == 1 else Var("slot") * c + Var("rank")


def left(schedule: Schedule, accumulators: Sequence[str]) -> Stmt:
    """The partial sums of a run that does not start a tile, part by part."""
    depth = _depth(schedule) // len(accumulators)
    size = depth * WARPGROUP
    reads: list[Stmt] = []
    leaves: list[Stmt] = []
    for k, name in enumerate(accumulators):
        value = f"part{k + 1 if k else ''}_v"
        to = GlobalRegion(SUMS, _base(schedule, k, len(accumulators)) + Var("p") * size, Int(size))
        whole = Region(PART, (Var("wg"),))
        if len(accumulators) > 1:
            whole = Region(PART, (Var("wg"),), Int(k * size), Int(size))
        first = _THREAD * _UNIT + k * size if k else _THREAD * _UNIT
        own = Region(PART, (Var("wg"),), first, Int(_UNIT), Int(depth // _UNIT), Int(WARPGROUP * _UNIT))
        reads += [FragRead(value, name, Var("p") * depth, Int(depth)), StShared(own, Var(value))]
        leaves.append(_leave(schedule, to, whole))
    parts = schedule.tile_n * len(accumulators) // 32
    return For("p", Int(0), Int(parts), Int(1), (*reads, *leaves), unroll=parts)


def _leave(schedule: Schedule, to: GlobalRegion, whole: Region) -> Stmt:
    add, store = BulkStore(to, whole, "add"), BulkStore(to, whole)
    if schedule.sums == "any":
        return add
    return store if schedule.split_k == 2 else If(BEHIND.eq(0), (store,), (add,))


def added(schedule: Schedule, names: Sequence[str], start: Expr, count: int) -> list[Stmt]:
    """Adds what others left to ``count`` elements of a thread's share of each product, ``start`` a
    multiple of ``count``.

    Where anyone may come first, what was read is zero again for the next launch.
    """
    if not schedule.streams:
        return []
    unit = min(count, _UNIT)
    # a run of four of each thread, then the next four
    if count >= _UNIT:
        at = start * WARPGROUP + _THREAD * _UNIT
    else:
        at = start // _UNIT * (_UNIT * WARPGROUP) + _THREAD * _UNIT + start % _UNIT
    rows = count // unit
    more = (Int(rows), Int(WARPGROUP * _UNIT)) if rows > 1 else ()
    inner: list[Stmt] = []
    for k, name in enumerate(names):
        where = GlobalRegion(SUMS, _base(schedule, k, len(names)) + at, Int(unit), *more)
        value = f"sum{k + 1 if k else ''}_v"
        inner += [LdGlobal(value, where), Compute(name, Var(name) + Var(value))]
        if schedule.sums == "any":
            inner.append(StGlobal(where, Float(0.0)))
    return [If(BEHIND > 0, tuple(inner))]


def finished(work: tuple[Stmt, ...], schedule: Schedule, accumulators: Sequence[str]) -> tuple[Stmt, ...]:
    """After the products: a tile that starts in this run is finished, the others' sums are left."""
    return (*sharing(), If(_OTHERS, (left(schedule, accumulators),), work))


__all__ = ["BEHIND", "PART", "added", "boundary", "buffer", "cell", "facts", "finished", "left", "names",
           "place", "turn", "turns", "values"]  # fmt: skip
