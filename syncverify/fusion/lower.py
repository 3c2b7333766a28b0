"""Lowering: a fusion and its schedule become a kernel without any synchronization.

The kernel is what one would write if every copy were instantaneous and every thread did everything:
tiles of the flattened tensors go through shared memory, one elementwise body computes them, and the
ragged remainder is done by direct global accesses. The passes (``fusion.pipeline``) do the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd, prod

from syncverify.base.source import InputError
from syncverify.fusion import row_strides
from syncverify.fusion.dataflow import renamed
from syncverify.fusion.elements import (
    LOW,
    arithmetic,
    broadcast_index,
    broadcast_loads,
    element_of,
    partners,
    random_numbers,
    register,
    result_of,
    stored_node,
)
from syncverify.fusion.graph import Fusion
from syncverify.fusion.persistent import facts, fetched, launch_parameters, parameters, rounds, tile_of
from syncverify.fusion.schedule import Schedule, fetches, overlaps, shared_per_block
from syncverify.ir.expr import Call, Expr, ExprLike, Int, Var, as_expr
from syncverify.ir.nodes import (
    DTYPE_BYTES,
    Barrier,
    BarrierRef,
    BulkLoad,
    BulkStore,
    For,
    GlobalRegion,
    If,
    Kernel,
    Launch,
    LdGlobal,
    LdShared,
    Let,
    Region,
    Shared,
    StGlobal,
    Stmt,
    StShared,
    Tensor,
)

#: Bytes of the widest access of one thread.
VECTOR_BYTES = 16


def full_barrier(warp: int) -> str:
    """The mbarrier array on which the copies of one async warp complete."""
    return f"full{warp}"


def rest_tensor(output: str) -> str:
    return f"{output}_rest"


def tile_buffer(tensor: str) -> str:
    return f"{tensor}_tile"


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of an input's tile that one async warp copies: elements ``start`` to ``start + count``."""

    tensor: str
    warp: int
    start: int
    count: int


#: Elements of a chosen tile: with three stages and two blocks per SM, enough in flight for the memory bus.
TILE = 4096
#: Accesses of one thread to each tensor, where threads load their own parts of a tile.
ACCESSES = 4
#: Where each thread loads once from each of several tensors, and its 32 registers hold what it computes:
#: warps, and blocks that fill an SM, by bytes of the widest element, as was fastest on an H200.
OF_SEVERAL = {2: (16, 2), 4: (8, 8)}
#: Of one tensor, by bytes of its widest element: warps, accesses of a thread, and blocks on an SM.
OF_ONE = {2: (4, 1, 16), 4: (8, 2, 8)}


def fitted(fusion: Fusion, schedule: Schedule) -> Schedule:
    """The schedule with all chosen that it leaves open: its tile is ``TILE``, or what fits."""
    schedule.check()
    schedule = schedule.chosen()
    if schedule.tile:
        return _started(fusion, schedule)
    unit = VECTOR_BYTES // max(_element_sizes(fusion)) * schedule.compute_warps * 32
    if schedule.source == "direct":
        return _started(fusion, replace(schedule, tile=unit * ACCESSES))
    streamed = sum(DTYPE_BYTES[t.dtype] for n, t in fusion.inputs if n in fusion.streamed)
    staged = (
        sum(DTYPE_BYTES[o.dtype] for o in fusion.outputs) * schedule.store_stages if schedule.staged else 0
    )
    per_element = streamed * schedule.stages + staged or 1
    most = min(TILE, shared_per_block(schedule.blocks_per_sm) // per_element)
    while unit > most and unit > schedule.compute_warps * 32:
        unit //= 2  # narrower accesses
    tile = unit
    while tile * 2 <= most:
        tile *= 2
    return replace(schedule, tile=tile)


def _started(fusion: Fusion, schedule: Schedule) -> Schedule:
    """With what it leaves open of when blocks start."""
    read = sum(DTYPE_BYTES[t.dtype] for n, t in fusion.inputs if n in fusion.streamed)
    written = sum(DTYPE_BYTES[o.dtype] for o in fusion.outputs)
    dependent = schedule.dependent
    if dependent == "auto":
        waits = schedule.source == "direct" and overlaps(schedule.tile * (read + written))
        dependent = "yes" if waits else "no"
    direct = dependent if schedule.source == "direct" else "no"
    return replace(schedule, dependent=dependent, ahead=fetches(schedule.ahead, direct, read, written))


def loaded(fusion: Fusion, schedule: Schedule) -> Schedule:
    """An open schedule without a ring, which leaves least to wait for."""
    direct = replace(schedule, source="direct")
    widest = max(_element_sizes(fusion))
    vector = VECTOR_BYTES // widest
    if len(fusion.streamed) < 2:
        # 32 registers hold a few tensors' elements
        many = len(fusion.inputs) > 3 or len(fusion.outputs) > 1 or "random" in fusion.ops()
        if widest not in OF_ONE or many:
            return direct
        warps, accesses, blocks = OF_ONE[widest]
        tile = accesses * vector * warps * 32
        return replace(_kept(direct, widest), compute_warps=warps, tile=tile, blocks_per_sm=blocks)
    few = len(fusion.inputs) <= 3 and len(fusion.outputs) == 1 and "random" not in fusion.ops()
    if few and widest in OF_SEVERAL:
        direct = _kept(direct, widest)
    warps, blocks = OF_SEVERAL[widest] if few and widest in OF_SEVERAL else (16, direct.blocks_per_sm)
    return replace(direct, compute_warps=warps, tile=vector * warps * 32, blocks_per_sm=blocks)


def _kept(schedule: Schedule, widest: int) -> Schedule:
    """Of 4 bytes, what is loaded leaves L2 last, and so what is stored in longer runs."""
    return replace(schedule, cache="kept") if schedule.cache == "auto" and widest == 4 else schedule


def _element_sizes(fusion: Fusion) -> list[int]:
    """Bytes per element of everything that moves in whole tiles."""
    streamed = [DTYPE_BYTES[t.dtype] for n, t in fusion.inputs if n in fusion.streamed]
    return streamed + [DTYPE_BYTES[o.dtype] for o in fusion.outputs]


def widest_vector(fusion: Fusion, schedule: Schedule) -> int:
    """Elements per access, as far as the tile allows: the widest type fills 16 bytes.

    More would leave gaps between the 16-byte accesses of neighbouring lanes.
    """
    vector = VECTOR_BYTES // max(_element_sizes(fusion))
    while vector > 1 and schedule.tile % (vector * schedule.compute_warps * 32):
        vector //= 2
    return vector


def vector_for(fusion: Fusion, schedule: Schedule, sizes: Mapping[str, int]) -> int:
    """Elements per access for given sizes: with broadcast inputs an access must stay within one row."""
    vector = widest_vector(fusion, schedule)
    if within_rows(fusion):
        while sizes[fusion.dims[-1]] % vector or not row_strides.fitting(fusion, sizes, vector):
            vector //= 2
    return vector


def within_rows(fusion: Fusion) -> bool:
    """Whether an access has to stay within one row: for operands of another shape, or neighbours' sake."""
    others = any(t.dims for n, t in fusion.inputs if n in fusion.broadcast)
    return others or "rotate.pairs" in fusion.ops() or bool(row_strides.pitches(fusion))


def pieces(fusion: Fusion, schedule: Schedule) -> tuple[Piece, ...]:
    """Who copies what: the schedule's split, or round robin; raises InputError for an impossible split."""
    names = fusion.streamed
    warps = schedule.async_warps
    if schedule.split is None:
        split = {
            n: tuple(w for w in range(warps) if w % len(names) == k) or (k % warps,)
            for k, n in enumerate(names)
        }
    else:
        split = dict(schedule.split)
    if set(split) != set(names):
        raise InputError(f"schedule: split must name the inputs {', '.join(names)}, not {', '.join(split)}")
    used = {w for ws in split.values() for w in ws}
    if names and used != set(range(warps)):
        raise InputError(f"schedule: split uses async warps {sorted(used)}; async_warps is {warps}")
    result = []
    for name in names:
        unit = VECTOR_BYTES // DTYPE_BYTES[dict(fusion.inputs)[name].dtype]
        shares = len(split[name])
        if len(set(split[name])) != shares or schedule.tile % unit or schedule.tile // unit < shares:
            raise InputError(
                f"schedule: cannot split a tile of {schedule.tile} elements of {name} among {split[name]}"
            )
        cuts = [schedule.tile // unit * k // shares * unit for k in range(shares + 1)]
        result += [
            Piece(name, w, lo, hi - lo) for w, lo, hi in zip(split[name], cuts[:-1], cuts[1:], strict=True)
        ]
    return tuple(result)


def lower(fusion: Fusion, schedule: Schedule, vector: int | None = None, width: int = 0) -> Kernel:
    """The kernel without synchronization; ``vector`` is the number of elements per access.

    ``width``: the innermost extent, where tiles hold whole rows, whose elements need each other.
    """
    schedule.check()
    vector = widest_vector(fusion, schedule) if vector is None else vector
    threads = schedule.compute_warps * 32
    if schedule.tile % (threads * vector):
        raise InputError(
            f"schedule: tile ({schedule.tile}) must be a multiple of {threads * vector}: "
            f"{threads} compute threads, {vector} elements each"
        )
    if "rotate.pairs" in fusion.ops() and vector < 2:
        raise InputError(
            f"{fusion.name}: rotate(..., 'pairs') needs an even {fusion.dims[-1]} and wider accesses"
        )
    types = {n: t.dtype for n, t in fusion.inputs} | {o.name: o.dtype for o in fusion.outputs}
    direct = schedule.source == "direct"
    loads = pieces(fusion, schedule) if fusion.streamed and not direct else ()
    staged_out = [o.name for o in fusion.outputs] if schedule.staged else []
    shared = tuple(
        Shared(tile_buffer(n), types[n], (Int(schedule.tile),))
        for n in (() if direct else (*fusion.streamed, *staged_out))
    )
    if not direct:
        _check_shared(fusion, schedule, types, staged_out)
    tile = (
        _own_parts(fusion, schedule, vector) if direct else _tile_body(fusion, schedule, vector, loads, width)
    )
    ahead = schedule.ahead == "yes" and direct
    body: list[Stmt] = [
        rounds(),
        *(fetched(fusion, schedule.tile, schedule.blocks_per_sm) if ahead else ()),
        For("i", Int(0), Var("n"), Int(1), tuple(tile)),
        If(Var("block").eq(Var("grid") - 1), (_remainder(fusion, schedule, vector, width),)),
    ]
    sized = computed_dimensions(fusion)
    assumes: list[Expr] = [Var(d) >= 1 for d in (*fusion.dims, *sized)]
    sizes = default_sizes(fusion, schedule)
    if width:
        assumes.append(Var(fusion.dims[-1]).eq(width))
        sizes = {**sizes, fusion.dims[-1]: width, fusion.dims[0]: -(-prod(sizes.values()) // width)}
    elif vector > 1 and within_rows(fusion):
        assumes.append((Var(fusion.dims[-1]) % vector).eq(0))
    assumes += row_strides.assumed(fusion, vector)
    return Kernel(
        name=fusion.name,
        launch=Launch(
            grid=(Var("blocks"), Int(1), Int(1)),
            block=(threads, 1, 1),
        ),
        params=parameters(
            _values(schedule.tile, sizes, 2) | dict.fromkeys(sized, 1) | row_strides.defaults(fusion, sizes),
            schedule.index,
            sized,
        ),
        tensors=tuple(
            [Tensor(n, t.dtype, row_strides.shape(n, t, Var), "in") for n, t in fusion.inputs]
            + [Tensor(o.name, o.dtype, row_strides.shape(o.name, o, Var), "out") for o in fusion.outputs]
            + [Tensor(rest_tensor(name), types[name], (Var("rest"),), "out") for name in staged_out]
        ),
        shared=shared,
        barriers=tuple(Barrier(full_barrier(w)) for w in sorted({p.warp for p in loads})),
        assumes=(*assumes, *facts(schedule.tile)),
        body=tuple(body),
        span=fusion.span,
    )


def computed_dimensions(fusion: Fusion) -> list[str]:
    """Dimensions that no input has, but whose extent is computed with."""
    named = {fusion.node(i).dim for i in fusion.graph if fusion.node(i).op == "size"}
    return sorted(named - set(fusion.dims))


def default_sizes(fusion: Fusion, schedule: Schedule) -> dict[str, int]:
    """Sizes of an exact check when the caller gives none: every slot is reused, and the end is ragged."""
    inner = 1 if len(fusion.dims) == 1 else 1000
    sizes = dict.fromkeys(fusion.dims, 1)
    sizes[fusion.dims[-1]] = inner
    wanted = (2 * (2 * schedule.stages + 2) + 1) * schedule.tile + schedule.tile // 2
    sizes[fusion.dims[0]] = -(-wanted // inner)
    return sizes


def launch_values(kernel: Kernel, sizes: Mapping[str, int], blocks: int) -> dict[str, int]:
    """The parameters of a lowered kernel for given sizes of the dimensions and so many blocks at most.

    ``each``: whole tiles of every block; the first ``more`` blocks have another one. ``rest``: elements left
    over. ``blocks``: the grid, one for each whole tile, but at least 1.
    """
    return _values(tile_of(kernel), sizes, blocks)


def _values(tile: int, sizes: Mapping[str, int], blocks: int) -> dict[str, int]:
    return launch_parameters(prod(sizes.values()), tile, sizes, blocks)


def rests(kernel: Kernel) -> dict[str, str]:
    """Outputs whose ragged end is a tensor of its own, and that tensor: bulk stores write all that comes
    before it, generic ones the end, and so neither needs to wait for the other."""
    outputs = {t.name for t in kernel.tensors if t.mode != "in"}
    return {name: rest_tensor(name) for name in sorted(outputs) if rest_tensor(name) in outputs}


def _check_shared(fusion: Fusion, schedule: Schedule, types: Mapping[str, str], staged: list[str]) -> None:
    bytes_in = sum(DTYPE_BYTES[types[n]] for n in fusion.streamed) * schedule.stages
    bytes_out = sum(DTYPE_BYTES[types[n]] for n in staged) * schedule.store_stages
    total = (bytes_in + bytes_out) * schedule.tile
    most = shared_per_block(schedule.blocks_per_sm)
    if total > most:
        raise InputError(
            f"schedule: {total} bytes of shared memory exceed {most}, the most that {schedule.blocks_per_sm} "
            "blocks per SM leave to each; lower tile, stages or blocks_per_sm"
        )


def _tile_body(
    fusion: Fusion, schedule: Schedule, vector: int, loads: tuple[Piece, ...], width: int
) -> list[Stmt]:
    threads = schedule.compute_warps * 32
    base = Let("base", (Var("block") + Var("i") * Var("grid")) * schedule.tile)
    copies: list[Stmt] = [
        BulkLoad(
            Region(tile_buffer(p.tensor), (), Int(p.start), Int(p.count)),
            GlobalRegion(p.tensor, _plus(base.value, p.start), Int(p.count)),
            BarrierRef(full_barrier(p.warp), Int(0)),
        )
        for p in sorted(loads, key=lambda p: p.warp)
    ]
    offset = (Var("j") * threads + Var("tid")) * vector
    steps = schedule.tile // (threads * vector)
    count = Int(vector)
    inner: list[Stmt] = [Let("p", offset)]
    inner += [LdShared(register(n), Region(tile_buffer(n), (), Var("p"), count)) for n in fusion.streamed]
    inner += broadcast_loads(fusion, Var("base") + Var("p"), vector)
    if width:
        inner += _across(width)
        inner += [
            LdShared(register(n, True), Region(tile_buffer(n), (), Var("q"), count))
            for n in partners(fusion)
            if n in fusion.streamed
        ]
        inner += broadcast_loads(fusion, Var("base") + Var("q"), vector, True)
    inner += random_numbers(fusion, Var("base") + Var("p"), vector)
    inner += arithmetic(fusion)
    for o in fusion.outputs:
        if schedule.staged:
            inner.append(StShared(Region(tile_buffer(o.name), (), Var("p"), count), result_of(fusion, o)))
        else:
            where = GlobalRegion(o.name, Var("base") + Var("p"), count)
            inner.append(StGlobal(where, result_of(fusion, o)))
    loop = For("j", Int(0), Int(steps), Int(1), tuple(inner), unroll=steps)
    stores: list[Stmt] = []
    if schedule.staged:
        stores = [
            BulkStore(
                GlobalRegion(o.name, base.value, Int(schedule.tile)),
                Region(tile_buffer(o.name), (), Int(0), Int(schedule.tile)),
            )
            for o in fusion.outputs
        ]
    return [*copies, base, loop, *stores]


def _own_parts(fusion: Fusion, schedule: Schedule, vector: int) -> list[Stmt]:
    """A tile of which each thread loads its own part: what is computed together is loaded before."""
    threads = schedule.compute_warps * 32
    steps = schedule.tile // (threads * vector)
    together = gcd(steps, ACCESSES)
    count = Int(vector)
    places: list[Stmt] = []
    loads: list[Stmt] = []
    rest: list[Stmt] = []
    for k in range(together):
        thread = Var("j") * (together * threads) + Var("tid") if steps > together else Var("tid")
        places.append(Let(f"p{k}", _plus(thread, k * threads) * vector))
        at = Var("base") + Var(f"p{k}")
        part: list[Stmt] = [
            LdGlobal(register(n), GlobalRegion(n, element_of(fusion, n, at), count)) for n in fusion.streamed
        ]
        part += broadcast_loads(fusion, at, vector)
        loaded = len(part)
        part += [*random_numbers(fusion, at, vector), *arithmetic(fusion)]
        part += [
            StGlobal(GlobalRegion(o.name, element_of(fusion, o.name, at), count), result_of(fusion, o))
            for o in fusion.outputs
        ]
        own = renamed(tuple(part), str(k))
        loads += own[:loaded]
        rest += own[loaded:]
    base = Let("base", (Var("block") + Var("i") * Var("grid")) * schedule.tile)
    body = (*places, *loads, *rest)
    if steps == together:
        return [base, *body]
    return [base, For("j", Int(0), Int(steps // together), Int(1), body, unroll=steps // together)]


def _across(width: int) -> list[Stmt]:
    """Where the elements half a row apart stand in the tile, which holds whole rows."""
    half = width // 2
    below, above = Var("p") - half, Var("p") + half
    return [
        Let(LOW, Var("p") % width < half),
        Let("q", Call("select", (Var(LOW), above, below))),
    ]


def _remainder(fusion: Fusion, schedule: Schedule, vector: int, width: int) -> Stmt:
    threads = schedule.compute_warps * 32
    unit = vector if width else 2 if "rotate.pairs" in fusion.ops() else 1
    count = Int(unit)
    first = (Var("each") * Var("grid") + Var("more")) * schedule.tile
    index = first + Var("p")
    body: list[Stmt] = [
        LdGlobal(register(n), GlobalRegion(n, element_of(fusion, n, index), count)) for n in fusion.streamed
    ]
    body += broadcast_loads(fusion, index, unit)
    if width:
        other = first + Var("q")
        body += _across(width)
        body += [
            LdGlobal(register(n, True), GlobalRegion(n, other, count))
            for n in partners(fusion)
            if n in fusion.streamed
        ]
        body += broadcast_loads(fusion, other, unit, True)
    body += random_numbers(fusion, index, unit)
    body += arithmetic(fusion)
    for o in fusion.outputs:
        own = schedule.staged
        tensor, at = (rest_tensor(o.name), Var("p")) if own else (o.name, element_of(fusion, o.name, index))
        where = GlobalRegion(tensor, at, count)
        body.append(StGlobal(where, result_of(fusion, o)))
    guarded = If(Var("p") < Var("rest"), tuple(body))
    rounds = Call("cdiv", (Var("rest"), Int(threads * unit)))
    number = Var("k") * threads + Var("tid")
    place = Let("p", number * unit if unit > 1 else number)
    return For("k", Int(0), rounds, Int(1), (place, guarded))


def _plus(a: Expr, b: ExprLike) -> Expr:
    return a if b == 0 else a + as_expr(b)


__all__ = [
    "broadcast_index", "default_sizes", "fitted", "full_barrier", "launch_values", "lower", "pieces",
    "rest_tensor", "rests", "stored_node", "tile_buffer", "vector_for", "widest_vector",
]  # fmt: skip
