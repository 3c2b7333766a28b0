"""Lowering: a fusion and its schedule become a kernel without any synchronization.

The kernel is what one would write if every copy were instantaneous and every thread did everything:
tiles of the flattened tensors go through shared memory, one elementwise body computes them, and the
ragged remainder is done by direct global accesses. The passes (``fusion.pipeline``) do the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

import networkx as nx

from syncverify.fusion.functions import FUNCTIONS
from syncverify.fusion.graph import Fusion, Output
from syncverify.fusion.schedule import Schedule, shared_per_block
from syncverify.ir.expr import Binary, Call, Expr, ExprLike, Float, Int, Var, as_expr
from syncverify.ir.nodes import (
    DTYPE_BYTES,
    Barrier,
    BarrierRef,
    BulkLoad,
    BulkStore,
    Compute,
    For,
    GlobalRegion,
    If,
    Kernel,
    Launch,
    LdGlobal,
    LdShared,
    Let,
    Param,
    Region,
    Shared,
    StGlobal,
    Stmt,
    StShared,
    Tensor,
)
from syncverify.source import InputError

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


def fitted(fusion: Fusion, schedule: Schedule) -> Schedule:
    """The schedule with its tile chosen, where it leaves that open: ``TILE``, or what fits."""
    schedule.check()
    if schedule.tile:
        return schedule
    unit = VECTOR_BYTES // max(_element_sizes(fusion)) * schedule.compute_warps * 32
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
    if any(t.dims for n, t in fusion.inputs if n in fusion.broadcast):
        while sizes[fusion.dims[-1]] % vector:
            vector //= 2
    return vector


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


def lower(fusion: Fusion, schedule: Schedule, vector: int | None = None) -> Kernel:
    """The kernel without synchronization; ``vector`` is the number of elements per access."""
    schedule.check()
    vector = widest_vector(fusion, schedule) if vector is None else vector
    threads = schedule.compute_warps * 32
    if schedule.tile % (threads * vector):
        raise InputError(
            f"schedule: tile ({schedule.tile}) must be a multiple of {threads * vector}: "
            f"{threads} compute threads, {vector} elements each"
        )
    types = {n: t.dtype for n, t in fusion.inputs} | {o.name: o.dtype for o in fusion.outputs}
    loads = pieces(fusion, schedule) if fusion.streamed else ()
    staged_out = [o.name for o in fusion.outputs] if schedule.staged else []
    shared = tuple(
        Shared(tile_buffer(n), types[n], (Int(schedule.tile),)) for n in (*fusion.streamed, *staged_out)
    )
    _check_shared(fusion, schedule, types, staged_out)
    body: list[Stmt] = [
        Let("n", Var("each") + (Var("block") < Var("more"))),
        For("i", Int(0), Var("n"), Int(1), tuple(_tile_body(fusion, schedule, vector, loads))),
        If(Var("block").eq(Var("grid") - 1), (_remainder(fusion, schedule),)),
    ]
    assumes: list[Expr] = [Var(d) >= 1 for d in fusion.dims]
    if vector > 1 and any(t.dims for n, t in fusion.inputs if n in fusion.broadcast):
        assumes.append((Var(fusion.dims[-1]) % vector).eq(0))
    return Kernel(
        name=fusion.name,
        launch=Launch(
            grid=(Var("blocks"), Int(1), Int(1)),
            block=(threads, 1, 1),
        ),
        params=tuple(
            Param(name, "i32" if name in ("more", "rest", "blocks") else schedule.index, v)
            for name, v in _values(schedule.tile, default_sizes(fusion, schedule), 2).items()
        ),
        tensors=tuple(
            [Tensor(n, t.dtype, tuple(Var(d) for d in t.dims) or (Int(1),), "in") for n, t in fusion.inputs]
            + [Tensor(o.name, o.dtype, tuple(Var(d) for d in fusion.dims), "out") for o in fusion.outputs]
            + [Tensor(rest_tensor(name), types[name], (Var("rest"),), "out") for name in staged_out]
        ),
        shared=shared,
        barriers=tuple(Barrier(full_barrier(w)) for w in sorted({p.warp for p in loads})),
        assumes=(
            *assumes,
            Var("each") >= 0,
            Var("more") >= 0,
            Var("more") < Var("blocks"),
            Var("rest") >= 0,
            Var("rest") < schedule.tile,
            Var("blocks") >= 1,
        ),
        body=tuple(body),
        span=fusion.span,
    )


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
    return _values(_tile(kernel), sizes, blocks)


def _tile(kernel: Kernel) -> int:
    """The tile of a lowered kernel: it assumes that less than one is left over."""
    for fact in kernel.assumes:
        match fact:
            case Binary("<", Var("rest"), Int(tile)):
                return tile
    raise InputError(f"kernel {kernel.name} is no lowered fusion", kernel.span)


def _values(tile: int, sizes: Mapping[str, int], blocks: int) -> dict[str, int]:
    tiles, rest = divmod(prod(sizes.values()), tile)
    grid = max(1, min(tiles, blocks))
    return {**sizes, "each": tiles // grid, "more": tiles % grid, "rest": rest, "blocks": grid}


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


def _tile_body(fusion: Fusion, schedule: Schedule, vector: int, loads: tuple[Piece, ...]) -> list[Stmt]:
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
    inner: list[Stmt] = [Let("p", offset)]
    inner += [
        LdShared(_register(n), Region(tile_buffer(n), (), Var("p"), Int(vector))) for n in fusion.streamed
    ]
    inner += _broadcast_loads(fusion, Var("base") + Var("p"), vector)
    inner += _arithmetic(fusion)
    for o in fusion.outputs:
        if schedule.staged:
            inner.append(StShared(Region(tile_buffer(o.name), (), Var("p"), Int(vector)), _result(fusion, o)))
        else:
            where = GlobalRegion(o.name, Var("base") + Var("p"), Int(vector))
            inner.append(StGlobal(where, _result(fusion, o)))
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


def _remainder(fusion: Fusion, schedule: Schedule) -> Stmt:
    threads = schedule.compute_warps * 32
    index = (Var("each") * Var("grid") + Var("more")) * schedule.tile + Var("p")
    body: list[Stmt] = [LdGlobal(_register(n), GlobalRegion(n, index)) for n in fusion.streamed]
    body += _broadcast_loads(fusion, index, 1)
    body += _arithmetic(fusion)
    for o in fusion.outputs:
        own = schedule.staged
        where = GlobalRegion(rest_tensor(o.name), Var("p")) if own else GlobalRegion(o.name, index)
        body.append(StGlobal(where, _result(fusion, o)))
    guarded = If(Var("p") < Var("rest"), tuple(body))
    rounds = Call("cdiv", (Var("rest"), Int(threads)))
    return For("k", Int(0), rounds, Int(1), (Let("p", Var("k") * threads + Var("tid")), guarded))


def _register(tensor: str) -> str:
    return f"{tensor}_v"


def _broadcast_loads(fusion: Fusion, index: Expr, vector: int) -> list[Stmt]:
    """Loads of the operands that lack a dimension; ``index`` is the flat element of the full shape."""
    result: list[Stmt] = []
    for name, tensor in fusion.inputs:
        if name not in fusion.broadcast:
            continue
        along_rows = bool(tensor.dims) and tensor.dims[-1] == fusion.dims[-1]
        count = Int(vector) if along_rows else Int(1)
        result.append(
            LdGlobal(
                _register(name), GlobalRegion(name, broadcast_index(fusion.dims, tensor.dims, index), count)
            )
        )
    return result


def broadcast_index(dims: tuple[str, ...], own: tuple[str, ...], index: Expr) -> Expr:
    """The flat element of an operand with dimensions ``own`` for the flat element ``index`` of ``dims``."""
    result: Expr = Int(0)
    run_end = len(dims)
    stride: list[Expr] = []
    terms: list[Expr] = []
    while run_end > 0:
        if dims[run_end - 1] not in own:
            run_end -= 1
            continue
        start = run_end
        while start > 0 and dims[start - 1] in own:
            start -= 1
        coordinate = index
        if run_end < len(dims):
            coordinate = coordinate // _product([Var(d) for d in dims[run_end:]])
        run = [Var(d) for d in dims[start:run_end]]
        if start > 0:
            coordinate = coordinate % _product(run)
        terms.append(coordinate * _product(stride) if stride else coordinate)
        stride = [*run, *stride]
        run_end = start
    for term in terms:
        result = term if result == Int(0) else result + term
    return result


def _arithmetic(fusion: Fusion) -> list[Stmt]:
    """Computes every shared or final node that is not an input."""
    return [Compute(f"t{i}", _expression(fusion, i, top=True)) for i in _live(fusion) if _is_named(fusion, i)]


def stored_node(fusion: Fusion, output: Output) -> int:
    """The node whose value is stored: a final cast to the output's own type is what the store does anyway."""
    node = fusion.node(output.node)
    return node.args[0] if node.op == f"cast.{output.dtype}" else output.node


def _live(fusion: Fusion) -> list[int]:
    targets = {stored_node(fusion, o) for o in fusion.outputs}
    needed = targets.union(*(nx.ancestors(fusion.graph, t) for t in targets))
    return [i for i in fusion.order() if i in needed]


def _is_named(fusion: Fusion, i: int) -> bool:
    if fusion.node(i).op in ("input", "const"):
        return False
    live = set(_live(fusion))
    users = [u for u in fusion.graph.successors(i) if u in live]
    return len(users) > 1 or any(stored_node(fusion, o) == i for o in fusion.outputs)


def _expression(fusion: Fusion, i: int, top: bool = False) -> Expr:
    node = fusion.node(i)
    if node.op == "input":
        return Var(_register(node.name))
    if node.op == "const":
        return Float(node.value)
    if _is_named(fusion, i) and not top:
        return Var(f"t{i}")
    return FUNCTIONS[node.op].express(*(_expression(fusion, a) for a in node.args))


def _result(fusion: Fusion, output: Output) -> Expr:
    return _expression(fusion, stored_node(fusion, output))


def _product(factors: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: a * b, factors) if factors else Int(1)


def _plus(a: Expr, b: ExprLike) -> Expr:
    return a if b == 0 else a + as_expr(b)
