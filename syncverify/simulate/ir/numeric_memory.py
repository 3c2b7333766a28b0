"""Memory and value registers, on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncverify.base.source import InputError
from syncverify.ir import nodes as n
from syncverify.ir.expr import Expr
from syncverify.simulate.ir.code import compiled, uniform
from syncverify.simulate.ir.device import Place
from syncverify.simulate.ir.numeric_barriers import needed_lanes
from syncverify.simulate.ir.numeric_ops import cta_of, handles, num, warps_of
from syncverify.simulate.ir.values import Array, combine, narrowed, value, widen

if TYPE_CHECKING:
    from syncverify.simulate.ir.numeric import Agent, _Launch


def register(a: Agent, name: str, x: Any) -> None:
    a.values[name] = np.atleast_2d(np.asarray(x))


def evaluated(run: _Launch, a: Agent, e: Expr) -> Any:
    return value(e, a.values, a.env, run.code[a.pc].stmt.span)  # type: ignore[union-attr]


@handles(n.LdShared)
def ld_shared(run: _Launch, a: Agent, s: n.LdShared) -> None:
    place = run.memory.region(s.src, cta_of(run, a, s.src.rank), a.env, s.span)
    register(a, s.name, widen(place.read(a.lanes)).copy())


@handles(n.StShared)
def st_shared(run: _Launch, a: Agent, s: n.StShared) -> None:
    place = run.memory.region(s.dst, cta_of(run, a, s.dst.rank), a.env, s.span)
    store(place, evaluated(run, a, s.value), a, s)


def store(place: Place, x: Any, a: Agent, s: n.Stmt) -> None:
    try:
        place.write(narrowed(x, place.view.dtype), a.lanes)
    except InputError as err:
        raise InputError(err.message, s.span) from err


@handles(n.LdGlobal)
def ld_global(run: _Launch, a: Agent, s: n.LdGlobal) -> None:
    register(a, s.name, widen(run.memory.window(s.src, a.env, s.span).read(a.lanes)).copy())


@handles(n.StGlobal)
def st_global(run: _Launch, a: Agent, s: n.StGlobal) -> None:
    store(run.memory.window(s.dst, a.env, s.span), evaluated(run, a, s.value), a, s)


@handles(n.AtomShared, n.AtomGlobal)
def atom(run: _Launch, a: Agent, s: n.AtomShared | n.AtomGlobal) -> None:
    """Lane by lane, so that lanes on one word follow each other."""
    if isinstance(s, n.AtomShared):
        place = run.memory.region(s.dst, cta_of(run, a, s.dst.rank), a.env, s.span)
    else:
        place = run.memory.window(s.dst, a.env, s.span)
    x = np.asarray(evaluated(run, a, s.value)).astype(place.view.dtype)
    old = reduce_into(place, x, s.op, a.lanes)
    if s.name is not None:
        register(a, s.name, widen(old))


def reduce_into(place: Place, x: Array, op: str, lanes: int) -> Array:
    at = np.arange(place.view.size)[place.where]
    at = np.broadcast_to(
        at.reshape(1 if place.shared else lanes, -1), (lanes, at.size // (1 if place.shared else lanes))
    )
    x = np.broadcast_to(x, at.shape)
    old = np.empty(at.shape, place.view.dtype)
    if np.unique(at).size == at.size:
        old[:] = place.view[at]
        place.view[at] = combine(op, old, x)
        return old
    for i in range(lanes):
        old[i] = place.view[at[i]]
        place.view[at[i]] = combine(op, old[i], x[i])
    return old


@handles(n.Multimem)
def multimem(run: _Launch, a: Agent, s: n.Multimem) -> None:
    """One device: the multicast address has one copy."""
    place = run.memory.window(s.target, a.env, s.span)
    if s.kind == "ld_reduce" and s.name is not None:
        register(a, s.name, widen(place.read(a.lanes)).copy())
    elif s.value is not None:
        x = np.asarray(evaluated(run, a, s.value)).astype(place.view.dtype)
        if s.kind == "st":
            store(place, x, a, s)
        else:
            reduce_into(place, x, s.op, a.lanes)


@handles(n.Compute)
def compute(run: _Launch, a: Agent, s: n.Compute) -> None:
    register(a, s.name, evaluated(run, a, s.value))


@handles(n.Shuffle)
def shuffle(run: _Launch, a: Agent, s: n.Shuffle) -> None:
    if any(int((a.tids // 32 == w).sum()) != needed_lanes(run, int(w), 0xFFFFFFFF) for w in warps_of(a)):
        raise InputError("a shuffle by some lanes of a warp", s.span)
    x = np.atleast_2d(np.asarray(evaluated(run, a, s.value)))
    x = np.broadcast_to(x, (a.lanes, x.shape[1]))
    lane = compiled(s.lane)(a.env)
    source = a.tids ^ lane if s.mode == "bfly" else a.tids // 32 * 32 + lane
    register(a, s.name, x[np.searchsorted(a.tids, source)])


@handles(n.LoadIndex)
def load_index(run: _Launch, a: Agent, s: n.LoadIndex) -> None:
    x = run.memory.window(s.source, a.env, s.span).read(a.lanes).astype(np.int64)
    a.env[s.name] = uniform(np.broadcast_to(x[:, 0], (a.lanes,)))


@handles(n.SpinGlobal)
def spin(run: _Launch, a: Agent, s: n.SpinGlobal) -> None:
    wanted = num(run, a, s.value)
    run.agreed(compiled(s.src.start)(a.env))
    a.waits = ("spin", run.memory.window(s.src, a.env, s.span), s.cmp, wanted)
