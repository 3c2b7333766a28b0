"""Lowering: a matrix product and its schedule become a kernel without any synchronization.

The kernel is what one would write if every copy and every wgmma were instantaneous and one role did
everything: tiles of A and B go to shared memory, the warpgroups multiply their rows, and an elementwise
epilogue stores them. The passes (``matmul.pipeline``) do the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Literal

from syncverify.base.source import InputError
from syncverify.fusion.graph import Fusion, Output
from syncverify.ir.expr import Call, Expr, Int, Var
from syncverify.ir.nodes import (
    DTYPE_BYTES,
    Barrier,
    BarrierRef,
    For,
    Fragment,
    FragWrite,
    Kernel,
    Launch,
    LdShared,
    Let,
    Param,
    Region,
    Shared,
    Stmt,
    Tensor,
    TensorMap,
    TmaLoad,
    Wgmma,
)
from syncverify.matmul import batch, split, stream
from syncverify.matmul.epilogue import arithmetic, register, results
from syncverify.matmul.problem import BATCH, EXPERTS, FACTOR, LEFT_ROWS, Problem
from syncverify.matmul.schedule import K_SPAN, Schedule
from syncverify.matmul.storing import epilogue, lane_row, output_map, plus

Swizzle = Literal["none", "32B", "64B", "128B"]

FULL = "full"
A_FRAG = "a_frag"
A_TILE, A_MAP = "a_tile", "a_map"
#: Elements of a row of the 128-byte swizzle, where memory runs along M or N.
PANEL = 64
#: Parameters that the host computes from the sizes.
DERIVED = ("steps", "tiles_m", "tiles_n", "turns", "share", "each", "more", "teams", "blocks")


def lower(problem: Problem, schedule: Schedule, vector: int = 2) -> Kernel:
    """The kernel without synchronization; ``vector``: elements per access of the epilogue (1 or 2)."""
    schedule.check(len(problem.rights))
    if problem.prologue is not None and schedule.pending:
        raise InputError(f"{problem.name}: with a prologue no group stays in flight: pending=0")
    if problem.by_columns:
        vector = 1  # neighbours of a thread's share are rows apart
    if problem.by_columns != schedule.by_columns:
        raise InputError(f"{problem.name}: a schedule by columns is for results that are stored by columns")
    if problem.batched and schedule.split_k > 1:
        raise InputError(f"{problem.name}: the tiles of batched products are whole: split_k=1")
    if not batch.allows(problem, schedule):
        raise InputError(
            f"{problem.name}: tiles of grouped products are whole, of 64 or 128 rows, and share no B"
        )
    bk, wide = K_SPAN // DTYPE_BYTES[problem.dtype], schedule.columns(not problem.b_t)
    staged = problem.epilogue.outputs if schedule.store == "tma" else ()
    schedule.staging(problem.output_sizes)
    width = schedule.width(max(problem.output_sizes))
    sizes = default_sizes(problem, schedule)
    values = launch_values(schedule, sizes, 2, bk, whole(problem, schedule))
    tile = tuple(_tile(problem, schedule))
    ends = tuple(epilogue(problem, schedule, vector))
    work: tuple[Stmt, ...] = (*tile, _main_loop(problem, schedule, bk), *ends)
    splits = schedule.split_k > 1
    if schedule.streams:
        begins = (*stream.turn(schedule), *tile, _main_loop(problem, schedule, bk))
        finished = stream.finished(ends, schedule, problem.products)
        body: tuple[Stmt, ...] = (*stream.place(schedule), stream.turns((*begins, *finished)))
    elif splits:
        products = (*tile, _main_loop(problem, schedule, bk))
        body = (*split.place(schedule), *split.work(schedule, products, ends, problem.products))
    elif schedule.persistent:
        body = (For("i", Int(0), Var("turns"), Int(1), work),)
    else:
        body = work
    return Kernel(
        name=problem.name,
        launch=Launch(
            grid=_grid(schedule),
            block=(schedule.threads, 1, 1),
            cluster=(schedule.cluster, 1, 1),
        ),
        params=tuple(Param(name, "i32", v) for name, v in values.items()),
        tensors=(
            *(
                Tensor(
                    name,
                    _dtype(problem, name),
                    tuple(Var(d) for d in dims) or (Int(1),),
                    _mode(problem, name),
                )
                for name, dims in problem.shapes.items()
            ),
            *batch.choices(problem),
            *(split.tensors(schedule, len(problem.products)) if splits else ()),
        ),
        maps=(
            TensorMap(
                A_MAP,
                "a",
                batch.box(problem, *_box(problem.a_t, schedule.tile_m, schedule.sharing_a, bk)),
                _swizzle(problem),
            ),
            *(
                TensorMap(
                    f"{b}_map",
                    b,
                    batch.right_box(problem, *_box(not problem.b_t, wide, schedule.sharing_b, bk)),
                    "128B",
                )
                for b in problem.rights
            ),
            *(_output_map(problem, o, schedule, width) for o in staged),
        ),
        shared=(
            _buffer(A_TILE, problem.types["a"], schedule.tile_m, bk, problem.a_t, _swizzle(problem)),
            *(_buffer(f"{b}_tile", problem.dtype, wide, bk, not problem.b_t) for b in problem.rights),
            *(_staging(o, schedule, width) for o in staged),
            *((stream.buffer(schedule),) if schedule.streams else ()),
        ),
        barriers=(Barrier(FULL),),
        fragments=(
            *(Fragment(x, "f32", (schedule.rows, schedule.tile_n)) for x in problem.products),
            *([Fragment(A_FRAG, problem.dtype, (schedule.rows, bk))] if problem.prologue else []),
        ),
        assumes=_facts(problem, schedule, vector),
        body=body,
    )


def _box(along_mn: bool, extent: int, blocks: int, bk: int) -> tuple[int, int]:
    """What one copy of a factor brings, of whose tile so many blocks load a part each."""
    if not along_mn:
        return extent // blocks, bk
    return bk // blocks if _cut_along_k(along_mn, extent, blocks) else bk, PANEL


def _cut_along_k(along_mn: bool, extent: int, blocks: int) -> bool:
    """Whether the blocks of a cluster load a part of each panel, because they cannot share the panels out."""
    return along_mn and extent % (PANEL * blocks) != 0


def _form(schedule: Schedule) -> ModuleType:
    """How blocks of a block group share tiles."""
    return stream if schedule.streams else split


def _grid(schedule: Schedule) -> tuple[Expr, Expr, Expr]:
    if schedule.split_k > 1 and not schedule.streams:
        return split.grid(schedule)
    return Var("blocks"), Int(1), Int(1)


def computed(schedule: Schedule, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes as the kernel has them: of tiles by columns, M and N have changed places."""
    if not schedule.by_columns:
        return dict(sizes)
    return {**sizes, "M": sizes["N"], "N": sizes["M"]}


def stages_of(problem: Problem, schedule: Schedule) -> int:
    """Slots of the ring of loads."""
    staging = schedule.staging(problem.output_sizes)
    return schedule.fitted_stages(staging, len(problem.rights), not problem.b_t)


def whole(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """What the steps of a tile are divided by, and what is left then."""
    return schedule.whole(stages_of(problem, schedule))


def launch_values(
    schedule: Schedule,
    sizes: Mapping[str, int],
    multiprocessors: int,
    bk: int,
    whole: tuple[int, int] = (1, 0),
) -> dict[str, int]:
    """The parameters for given M, N, K.

    ``steps``: tiles along K, or more for what they leave if they are divided (``whole``). ``tiles_m``: rows
    of tiles, of whole clusters. ``turns``: tiles of C of every block; the last ones may lie outside of C,
    where copies bring zeros and store nothing: no block waits for longer, and all do the same.
    ``tiles``: of a matrix of batched products.
    """
    c = schedule.cluster
    m = -(-sizes["M"] // (schedule.tile_m * schedule.sharing_b))
    n = -(-sizes["N"] // (schedule.tile_n * schedule.sharing_a))
    values = {d: sizes[d] for d in ("M", "N", "K", BATCH, EXPERTS, LEFT_ROWS) if d in sizes}
    lap, rest = whole
    steps = -(-sizes["K"] // bk)
    steps = max(steps, split.least_steps(schedule))
    values |= {"steps": max(-(-(steps - rest) // lap), 0) * lap + rest, "tiles_m": m, "tiles_n": n}
    if schedule.split_k > 1:
        form = _form(schedule)
        return {**values, **form.values(schedule, m * n, values["steps"], multiprocessors)}
    tiles = m * n
    if BATCH in sizes:
        values[batch.TILES] = tiles
        tiles *= sizes[BATCH]
    if not schedule.persistent:
        return {**values, "blocks": tiles * c}
    clusters = min(tiles, max(multiprocessors * schedule.resident // c, 1))
    return {**values, "turns": -(-tiles // clusters), "blocks": clusters * c}


def default_sizes(problem: Problem, schedule: Schedule) -> dict[str, int]:
    """Sizes of an exact check when the caller gives none: every slot is reused, all ends are ragged."""
    bk = K_SPAN // DTYPE_BYTES[problem.dtype]
    stages = stages_of(problem, schedule)
    down, across, steps = 3, 2, stages + 3
    if schedule.split_k > 1 and not schedule.streams:
        # of one block group: each block has a whole tile, if it has any, and its part of those that are
        # shared
        alone = schedule.split_k if schedule.persistent else 0
        down = (alone + split.shared_tiles(schedule)) * schedule.sharing_b
        across = schedule.sharing_a
    elif schedule.split_k == 2:
        # of one block group: a block, or a cluster, with parts of two tiles
        down, across = 3 * schedule.sharing_b, schedule.sharing_a
    elif schedule.split_k > 2:
        down, across, steps = 1, 1, steps * schedule.split_k  # a tile with parts of all blocks
    if schedule.pingpong:
        # several turns of each warpgroup; in between the ring goes round an odd number of times, if it may
        down, steps = 5, max(stages + 1, *schedule.whole(stages))
    many = {BATCH: 2} if problem.batched else {EXPERTS: 3} if problem.grouped else {}
    many |= {LEFT_ROWS: schedule.tile_m * 2 + 8} if problem.anywhere else {}
    rest = max(8, 16 // min(problem.output_sizes))
    return {
        **many,
        "M": schedule.tile_m * down - 8,
        "N": max(schedule.tile_n * across - rest, rest),
        "K": bk * steps - max(8, *(_unit(t) for t in problem.types.values())),
    }


def _facts(problem: Problem, schedule: Schedule, vector: int) -> tuple[Expr, ...]:
    """What every launch is tested for: positive sizes, rows of 16 bytes, and the host's arithmetic."""
    inner: dict[str, int] = {}
    for name, dtype in problem.types.items():
        d = problem.shapes[name][-1]
        inner[d] = max(inner.get(d, 1), _unit(dtype))
    facts: list[Expr] = [*(Var(d) >= 1 for d in ("M", "N", "K")), *batch.facts(problem)]
    facts += [(Var(d) % inner[d]).eq(0) for d in sorted(inner)]
    if schedule.store == "tma":
        contiguous = "M" if problem.by_columns else "N"
        facts.append((Var(contiguous) % (16 // min(problem.output_sizes))).eq(0))
    elif vector > 1 and "N" not in inner:
        facts.append((Var("N") % vector).eq(0))
    facts += [Var(x) >= 1 for x in ("steps", "tiles_m", "tiles_n", "blocks")]
    if schedule.persistent and schedule.split_k == 1:
        facts.append(Var("turns") >= 1)
    lap, rest = whole(problem, schedule)
    if lap > 1:
        facts.append((Var("steps") % lap).eq(rest))
    if schedule.split_k > 1:
        facts += _form(schedule).facts(schedule)
    if schedule.cluster > 1:
        facts.append((Var("blocks") % schedule.cluster).eq(0))
    return tuple(facts)


def _unit(dtype: str) -> int:
    """Elements of 16 bytes."""
    return 16 // DTYPE_BYTES[dtype]


def _swizzle(problem: Problem) -> Swizzle:
    """Of A's tile: a row is as long as the pattern."""
    return "128B" if DTYPE_BYTES[problem.types["a"]] == problem.size else "64B"


def _dtype(problem: Problem, name: str) -> str:
    if name in problem.types:
        return problem.types[name]
    types = {n: t.dtype for n, t in problem.epilogue.inputs}
    return {**types, **{o.name: o.dtype for o in problem.epilogue.outputs}}[name]


def _mode(problem: Problem, name: str) -> Literal["in", "out"]:
    return "out" if name in {o.name for o in problem.epilogue.outputs} else "in"


def _buffer(name: str, dtype: str, rows: int, bk: int, along_mn: bool, swizzle: Swizzle = "128B") -> Shared:
    """One tile of an operand; where its memory runs along M or N, in panels of 64."""
    shape = (rows // PANEL, bk, PANEL) if along_mn else (rows, bk)
    return Shared(name, dtype, tuple(Int(x) for x in shape), 1024, None, swizzle)


def _staging(output: Output, schedule: Schedule, width: int) -> Shared:
    """A part of a warpgroup's share of an output, for each warpgroup."""
    if schedule.by_columns:
        panels = (Int(schedule.consumers), Int(schedule.rows // PANEL), Int(width), Int(PANEL))
        return Shared(f"{output.name}_tile", output.dtype, panels, 1024, None, "128B")
    shape = (Int(schedule.consumers), Int(schedule.rows), Int(width))
    return Shared(f"{output.name}_tile", output.dtype, shape, 1024, None, _rows(output, width))


def _output_map(problem: Problem, output: Output, schedule: Schedule, width: int) -> TensorMap:
    """What one copy stores: rows of a warpgroup, or of tiles by columns a panel of 64 columns."""
    name = output_map(output.name)
    if schedule.by_columns:
        return TensorMap(name, output.name, batch.box(problem, width, PANEL), "128B")
    return TensorMap(name, output.name, batch.box(problem, schedule.rows, width), _rows(output, width))


def _rows(output: Output, width: int) -> Swizzle:
    """The swizzle of rows of so many elements: beside a wider output those of a part are shorter."""
    found: dict[int, Swizzle] = {32: "32B", 64: "64B", 128: "128B"}
    return found.get(width * DTYPE_BYTES[output.dtype], "none")


def _tile(problem: Problem, schedule: Schedule) -> list[Stmt]:
    """Which tile of C: row groups of ``schedule.grouped`` tiles are gone through column by column."""
    c = schedule.cluster
    here, step = (Var("block"), Var("grid")) if c == 1 else (Var("block") // c, Var("grid") // c)
    number: Expr = here + Var("i") * step if schedule.persistent else here
    if schedule.split_k > 1:
        number = Var("team") + Var("i") * Var("teams")
    own = [] if schedule.split_k > 1 and not schedule.streams else batch.tile(problem, number)
    rows = schedule.grouped
    wide = Var("tiles_n") * rows
    first = (Var("tile") // wide) * rows
    return [
        *own,
        Let("first", first),
        Let("high", Call("max", (Call("min", (Var("tiles_m") - Var("first"), Int(rows))), Int(1)))),
        Let("inside", Var("tile") % wide),
        Let("row", _ranked(Var("first") + Var("inside") % Var("high"), schedule.sharing_b) * schedule.tile_m),
        *batch.chosen(problem),
        Let("col", _ranked(Var("inside") // Var("high"), schedule.sharing_a) * schedule.tile_n),
    ]


def _ranked(e: Expr, cluster: int) -> Expr:
    """The block's own of ``cluster`` neighbours."""
    return e * cluster + Var("rank") if cluster > 1 else e


def _main_loop(problem: Problem, schedule: Schedule, bk: int) -> Stmt:
    splits = schedule.split_k > 1
    k = (Var("skip") + Var("k")) * bk if splits else Var("k") * bk
    bar, wide = BarrierRef(FULL, Int(0)), schedule.columns(not problem.b_t)
    body: list[Stmt] = []
    for map_name, tile, at, extent, along_mn, c in (
        (A_MAP, A_TILE, batch.left_row(problem), schedule.tile_m, problem.a_t, schedule.sharing_a),
        *(
            (f"{b}_map", f"{b}_tile", Var("col"), wide, not problem.b_t, schedule.sharing_b)
            for b in problem.rights
        ),
    ):
        mask = Int((1 << c) - 1) if c > 1 else None
        of = batch.at if map_name == A_MAP else batch.right
        part = extent // c  # of each block
        place: Expr = at + Var("rank") * part if c > 1 else at
        if not along_mn:
            region = Region(tile, (), Var("rank") * (part * bk), Int(part * bk)) if c > 1 else Region(tile)
            body.append(TmaLoad(region, map_name, of(problem, place, k), bar, mask))
            continue
        if c > 1 and _cut_along_k(along_mn, extent, c):
            rows = bk // c
            for panel in range(extent // PANEL):
                half = Region(tile, (Int(panel),), Var("rank") * (rows * PANEL), Int(rows * PANEL))
                start = of(problem, k + Var("rank") * rows, plus(at, PANEL * panel))
                body.append(TmaLoad(half, map_name, start, bar, mask))
            continue
        for panel in range(part // PANEL):
            number: Expr = Var("rank") * (part // PANEL) + panel if c > 1 else Int(panel)
            to = Region(tile, (number,))
            start = of(problem, k, plus(place, PANEL * panel))
            body.append(TmaLoad(to, map_name, start, bar, mask))
    share = schedule.rows * bk
    mine = Region(A_TILE, (), Var("wg") * share, Int(share)) if schedule.sharing > 1 else Region(A_TILE)
    if problem.prologue is not None:
        body += _registers(problem.prologue, schedule, bk)
    left = mine if problem.prologue is None else A_FRAG
    body += [
        Wgmma(acc, left, Region(f"{b}_tile"), Var("k") > 0, a_t=problem.a_t, b_t=problem.b_t)
        for acc, b in zip(problem.products, problem.rights, strict=True)
    ]
    return For("k", Int(0), Var("count") if splits else Var("steps"), Int(1), tuple(body))


def _registers(prologue: Fusion, schedule: Schedule, bk: int) -> list[Stmt]:
    """A's rows from shared memory, two neighbours at a time, through the prologue into registers."""
    result: list[Stmt] = []
    ((_, value),) = results(prologue)
    for block in range(schedule.rows // 64):
        row = plus(lane_row(), block * 64)
        own: Expr = Var("wg") * schedule.rows + row if schedule.sharing > 1 else row
        place = Region(A_TILE, (), own * bk + (Var("j") * 8 + Var("lane") % 4 * 2), Int(2))
        inner: tuple[Stmt, ...] = (
            LdShared(register(FACTOR), place),
            *arithmetic(prologue),
            FragWrite(A_FRAG, value, plus(Var("j") * 4 + Var("h") * 2, block * bk // 2)),
        )
        halves = For("h", Int(0), Int(2), Int(1), inner, unroll=2)
        result.append(For("j", Int(0), Int(bk // 8), Int(1), (halves,), unroll=bk // 8))
    return result
