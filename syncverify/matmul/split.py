"""Several blocks for one tile: each block of a block group takes a part of its steps along K.

A team is a row of the grid, of ``split_k`` blocks (or clusters). It shares tiles in one of two ways
(``Schedule.shares``). ``one``: a tile for each block group, of which every block has an equal part; the last
block adds what the others left, and finishes it. ``pairs``: ``split_k - 1`` tiles for each block group, each
shared by two neighbours; a block first leaves its part of the tile that the next one finishes, then it
finishes the tile of which the one before it has left a part. Blocks of a persistent schedule first go through
``turns`` tiles alone.

So a block waits for lower-numbered ones only, and whatever they left they left before they waited. Where
blocks begin and end inside tiles is the same in every launch; only how many steps these parts have depends
on K.
"""

from __future__ import annotations

from collections.abc import Sequence

from syncverify.ir.expr import Call, Expr, Int, Var
from syncverify.ir.nodes import (
    Compute,
    For,
    FragRead,
    FragWrite,
    GlobalRegion,
    If,
    LdGlobal,
    Let,
    StGlobal,
    Stmt,
    Tensor,
)
from syncverify.matmul.schedule import WARPGROUP, Schedule

#: Partial sums in global memory, of a tile for each block; how many of them are there, for each warpgroup.
SUMS, SEMAPHORE = "partial_sums", "semaphore"
#: A thread's place in its warpgroup.
_THREAD = Var("warp") % 4 * 32 + Var("lane")
#: Sums of one access: 16 bytes.
_UNIT = 4
#: Which block of its block group a block is; of its turns, those with a tile of its own.
_NUMBER = Var("number")
_ALONE = Var("i") < Var("turns")


def values(schedule: Schedule, tiles: int, steps: int, multiprocessors: int) -> dict[str, int]:
    """``turns``: whole tiles of a block; ``each``: steps of a part of a tile, or of pairs by how many a block
    leaves more than the next one; ``more``: those that each finishes at least. The last tiles may lie outside
    of C.

    No more blocks than SMs where these go through whole tiles: all of them run at once.
    """
    q, shared = schedule.split_k, shared_tiles(schedule)
    of_team = shared
    found = {}
    if schedule.persistent:
        most = max(multiprocessors // (q * schedule.cluster), 1)
        found["turns"] = turns = max(-(-(-(-tiles // most) - shared) // q), 1)
        of_team += turns * q
    teams = -(-tiles // of_team)
    if schedule.shares == "one":
        found["each"] = -(-steps // q)
    else:
        found["each"] = each = (steps - 2) // q
        found["more"] = steps - 1 - q * each
    return {**found, "teams": teams, "blocks": teams * q * schedule.cluster}


def least_steps(schedule: Schedule) -> int:
    """Steps that a tile has to have, if need be beyond K: a first one goes round the ring."""
    if schedule.split_k == 1 or schedule.streams:
        return 1
    return max(schedule.stages, 8) if schedule.persistent else 2


def shared_tiles(schedule: Schedule) -> int:
    """Tiles that a block group shares."""
    return 1 if schedule.shares == "one" else schedule.split_k - 1


def facts(schedule: Schedule) -> list[Expr]:
    q, each = schedule.split_k, Var("each")
    found = [Var("teams") >= 1, Var("blocks").eq(Var("teams") * (q * schedule.cluster))]
    found.append(Var("steps") >= least_steps(schedule))
    found += [Var("turns") >= 1] if schedule.persistent else []
    if schedule.shares == "one":
        return [*found, each >= 1]
    return [*found, each >= 0, Var("more") >= 1, Var("steps").eq(each * q + Var("more") + 1)]


def tensors(schedule: Schedule, products: int = 1) -> tuple[Tensor, ...]:
    size = schedule.tile_m * schedule.tile_n * products
    return (
        Tensor(SUMS, "f32", (Var("blocks") * size,), "inout"),
        Tensor(SEMAPHORE, "u32", (Var("blocks") * schedule.consumers,), "inout"),
    )


def workspaces(schedule: Schedule, blocks: int, products: int = 1) -> dict[str, int]:
    """Bytes of each of those for so many blocks; all zero at launch, and the semaphores again at the end."""
    if schedule.split_k == 1:
        return {}
    size = 4 * blocks
    sums = size * schedule.tile_m * schedule.tile_n * products
    return {SUMS: sums, SEMAPHORE: size * schedule.consumers}


def grid(schedule: Schedule) -> tuple[Expr, Expr, Expr]:
    """A row for each block group."""
    return Int(schedule.split_k * schedule.cluster), Var("teams"), Int(1)


def place(schedule: Schedule) -> list[Stmt]:
    """Which block of its block group a block is, or all blocks of a cluster are; and which of all."""
    c = schedule.cluster
    here: Expr = Var("block.x") if c == 1 else Var("block.x") // c
    return [
        Let("number", here),
        Let("team", Var("block.y")),
        Let("ours", Var("team") * schedule.split_k + Var("number")),
    ]


def work(
    schedule: Schedule, products: Sequence[Stmt], ends: Sequence[Stmt], names: Sequence[str]
) -> list[Stmt]:
    """The tiles of a block. ``products``: those of ``count`` steps from ``skip`` on, of the ``tile`` of that
    number; ``ends``: what is done with whole sums; ``names``: where these are.

    What comes behind the products of a turn is asked behind them: parts of tiles are gone through as whole
    ones are, only for another number of steps. Of pairs the last block of a block group leaves nothing: it
    has the turn as well, of one step and outside of C.
    """
    leave, finish = (left(schedule, names),), (added(schedule, names), *ends)
    followed = _NUMBER < schedule.split_k - 1  # another one finishes the tile
    found: list[Stmt] = []
    if schedule.shares == "one":
        first: tuple[Stmt, ...] = (If(followed, leave, finish),)
    else:
        first = (If(followed, leave),)
    if schedule.persistent:
        body = (*_turn(schedule), *products, If(_ALONE, tuple(ends), first))
        found.append(For("i", Int(0), Var("turns") + 1, Int(1), body))
    elif schedule.shares == "one":
        found += [*_begun(_part(schedule)), *products, *first]
    else:
        found.append(If(followed, (*_begun(_part(schedule)), *products, *leave)))
    if schedule.shares == "pairs":
        found.append(If(_NUMBER > 0, (*_begun(_rest(schedule)), *products, *finish)))
    return found


#: Of a part of a tile the number of the tile, the first step and how many there are.
Part = tuple[Expr, Expr, Expr]


def _begun(part: Part) -> list[Stmt]:
    return [Let(name, e) for name, e in zip(("tile", "skip", "count"), part, strict=True)]


def _turn(schedule: Schedule) -> list[Stmt]:
    """The tile of a turn, and which of its steps."""
    own = Var("i") * (Var("teams") * schedule.split_k) + Var("ours"), Int(0), Var("steps")
    tile, skip, count = _part(schedule)
    if schedule.shares == "pairs":
        outside = Var("tiles_m") * Var("tiles_n")
        tile = _where(_NUMBER < schedule.split_k - 1, tile, outside)
    parts = zip(own, (tile, skip, count), strict=True)
    tile, skip, count = (_where(_ALONE, whole, part) for whole, part in parts)
    return _begun((tile, skip, count))


def _shared(schedule: Schedule) -> Expr:
    """The first tile that a block group shares."""
    first = Var("team") * shared_tiles(schedule) if schedule.shares == "pairs" else Var("team")
    return Var("turns") * (Var("teams") * schedule.split_k) + first if schedule.persistent else first


def _part(schedule: Schedule) -> Part:
    """The part that is left, or is the block's of the only tile."""
    q, each = schedule.split_k, Var("each")
    if schedule.shares == "one":
        return _shared(schedule), _NUMBER * each, each
    count = (Int(q - 1) - _NUMBER) * each + 1
    return _shared(schedule) + _NUMBER, Var("steps") - count, count


def _rest(schedule: Schedule) -> Part:
    """The part of a tile that is finished, where the block before has left the others."""
    return _shared(schedule) + (_NUMBER - 1), Int(0), _NUMBER * Var("each") + Var("more")


def _where(cond: Expr, value: Expr, other: Expr) -> Expr:
    return Call("select", (cond, value, other))


def cells(schedule: Schedule) -> tuple[GlobalRegion, GlobalRegion, int]:
    """The semaphore of what a warpgroup leaves, that of what it adds, and how many leave it."""
    if schedule.shares == "one":
        one = _cell(schedule, Var("team"))
        return one, one, schedule.split_k - 1
    return _cell(schedule, Var("ours")), _cell(schedule, Var("ours") - 1), 1


def _cell(schedule: Schedule, at: Expr) -> GlobalRegion:
    return GlobalRegion(SEMAPHORE, _ranked(schedule, at) * schedule.consumers + Var("wg"))


def _ranked(schedule: Schedule, at: Expr) -> Expr:
    """A cluster has a place for each of its blocks."""
    c = schedule.cluster
    return at if c == 1 else at * c + Var("rank")


def _sums(schedule: Schedule, whose: Expr, product: int, products: int) -> GlobalRegion:
    """A thread's partial sums of part ``p`` of its warpgroup's share of one product."""
    depth, each = schedule.depth, schedule.rows * schedule.tile_n
    first = (_ranked(schedule, whose) * schedule.consumers + Var("wg")) * (each * products)
    at = (first + product * each if product else first) + Var("p") * (depth * WARPGROUP) + _THREAD * _UNIT
    return GlobalRegion(SUMS, at, Int(_UNIT), Int(depth // _UNIT), Int(WARPGROUP * _UNIT))


def _parts(schedule: Schedule, body: Sequence[Stmt]) -> For:
    parts = schedule.accumulators // schedule.depth
    return For("p", Int(0), Int(parts), Int(1), tuple(body), unroll=parts)


def left(schedule: Schedule, accumulators: Sequence[str]) -> Stmt:
    """The partial sums of a block that does not finish the tile."""
    depth, body = schedule.depth, list[Stmt]()
    for k, name in enumerate(accumulators):
        value = _numbered("part", k)
        to = _sums(schedule, Var("ours"), k, len(accumulators))
        body += [FragRead(value, name, Var("p") * depth, Int(depth)), StGlobal(to, Var(value))]
    return _parts(schedule, body)


def added(schedule: Schedule, accumulators: Sequence[str]) -> Stmt:
    """What others left is added to the accumulators, the nearest block's first."""
    depth, body = schedule.depth, list[Stmt]()
    for k, name in enumerate(accumulators):
        own, others, both = (_numbered(name, k) for name in ("own", "sum", "both"))
        at = Var("p") * depth
        body += [
            LdGlobal(others, _sums(schedule, Var("ours") - Var("j"), k, len(accumulators))),
            FragRead(own, name, at, Int(depth)),
            Compute(both, Var(own) + Var(others)),
            FragWrite(name, Var(both), at),
        ]
    others_left = cells(schedule)[2]
    return For("j", Int(1), Int(others_left + 1), Int(1), (_parts(schedule, body),))


def _numbered(name: str, k: int) -> str:
    return f"{name}{k + 1 if k else ''}_v"


__all__ = ["SEMAPHORE", "SUMS", "cells", "facts", "grid", "least_steps", "place", "shared_tiles", "tensors",
           "values", "work", "workspaces"]  # fmt: skip
