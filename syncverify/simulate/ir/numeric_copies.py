"""Copies, on arrays: they land at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from syncverify.base.source import InputError
from syncverify.ir import nodes as n
from syncverify.ir.expr import Expr
from syncverify.simulate.ir.device import Count, Cta
from syncverify.simulate.ir.numeric_memory import evaluated, reduce_into, store
from syncverify.simulate.ir.numeric_ops import bar_of, cta_of, handles, num
from syncverify.simulate.ir.values import combine

if TYPE_CHECKING:
    from syncverify.simulate.ir.numeric import Agent, _Launch


def land(bar: Count, size: int) -> None:
    bar.tx -= size
    bar.settle()


def targets(run: _Launch, a: Agent, multicast: Expr | None, rank: Expr | None) -> list[Cta]:
    if multicast is None:
        return [cta_of(run, a, rank)]
    mask = num(run, a, multicast)
    return [c for c in run.clusters[id(a.cta)] if mask >> c.rank & 1]


@handles(n.BulkLoad)
def bulk_load(run: _Launch, a: Agent, s: n.BulkLoad) -> None:
    num(run, a, s.bar.index)
    ctas = targets(run, a, s.multicast, s.dst.rank)
    data = run.memory.window(s.src, a.env, s.span).read(a.lanes)
    for cta in ctas:
        place = run.memory.region(s.dst, cta, a.env, s.span)
        store(place, data, a, s)
        bar = bar_of(run, a, s.bar, cta if s.multicast is not None else None)[1]
        land(bar, data.shape[1] * data.dtype.itemsize * a.lanes)


@handles(n.BulkStore)
def bulk_store(run: _Launch, a: Agent, s: n.BulkStore) -> None:
    data = run.memory.region(s.src, a.cta, a.env, s.span).read(a.lanes)
    place = run.memory.window(s.dst, a.env, s.span)
    if s.reduce is None:
        store(place, data, a, s)
    else:
        reduce_into(place, data.astype(place.view.dtype), s.reduce, a.lanes)


@handles(n.BulkCopy)
def bulk_copy(run: _Launch, a: Agent, s: n.BulkCopy) -> None:
    _, bar = bar_of(run, a, s.bar)
    data = run.memory.region(s.src, a.cta, a.env, s.span).read(a.lanes)
    store(run.memory.region(s.dst, cta_of(run, a, s.dst.rank), a.env, s.span), data, a, s)
    land(bar, data.shape[1] * data.dtype.itemsize * a.lanes)


def coordinates(run: _Launch, a: Agent, coords: tuple[Expr, ...]) -> list[int]:
    return [num(run, a, c) for c in coords]


@handles(n.TmaLoad)
def tma_load(run: _Launch, a: Agent, s: n.TmaLoad) -> None:
    """The box at the coordinates; what lies outside the tensor arrives as zeros (PTX ISA, tensor copies)."""
    coords = coordinates(run, a, s.coords)
    num(run, a, s.bar.index)
    ctas = targets(run, a, s.multicast, s.dst.rank)
    tensor, outer, inner, shape = run.memory.box(s.map, coords)
    box = np.zeros(shape, tensor.dtype)
    box[inner] = tensor[outer]
    for cta in ctas:
        store(run.memory.region(s.dst, cta, a.env, s.span), box.reshape(1, -1), a, s)
        bar = bar_of(run, a, s.bar, cta if s.multicast is not None else None)[1]
        land(bar, box.nbytes * a.lanes)


@handles(n.TmaStore)
def tma_store(run: _Launch, a: Agent, s: n.TmaStore) -> None:
    """What lies outside the tensor is dropped."""
    tensor, outer, inner, shape = run.memory.box(s.map, coordinates(run, a, s.coords))
    place = run.memory.region(s.src, a.cta, a.env, s.span)
    box = place.read(a.lanes)[-1]
    if box.size != int(np.prod(shape)):
        raise InputError(f"{s.map}'s box has {int(np.prod(shape))} elements, the region {box.size}", s.span)
    part = box.reshape(shape)[inner]
    tensor[outer] = part if s.reduce is None else combine(s.reduce, tensor[outer], part)


@handles(n.CpAsync)
def cp_async(run: _Launch, a: Agent, s: n.CpAsync) -> None:
    data = run.memory.window(s.src, a.env, s.span).read(a.lanes)
    store(run.memory.region(s.dst, a.cta, a.env, s.span), data, a, s)


@handles(n.CpAsyncMbarrierArrive)
def cp_arrive(run: _Launch, a: Agent, s: n.CpAsyncMbarrierArrive) -> None:
    """Without .noinc the pending count goes up by one and down again (PTX ISA, cp.async.mbarrier.arrive)."""
    _, bar = bar_of(run, a, s.bar)
    for _ in range(a.lanes if s.noinc else 0):
        bar.pending -= 1
        bar.settle()


@handles(n.StAsync)
def st_async(run: _Launch, a: Agent, s: n.StAsync) -> None:
    _, bar = bar_of(run, a, s.bar)
    place = run.memory.region(s.dst, cta_of(run, a, s.dst.rank), a.env, s.span)
    x = np.asarray(evaluated(run, a, s.value)).astype(place.view.dtype)
    if s.reduce is None:
        store(place, x, a, s)
    else:
        reduce_into(place, x, s.reduce, a.lanes)
    each = place.view[place.where].size // (1 if place.shared else a.lanes)
    land(bar, each * place.view.dtype.itemsize * a.lanes)
