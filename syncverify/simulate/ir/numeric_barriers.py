"""Barriers, votes and mbarriers, on counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from syncverify.base.source import InputError
from syncverify.ir import nodes as n
from syncverify.simulate.ir.code import uniform
from syncverify.simulate.ir.device import Cta
from syncverify.simulate.ir.numeric_ops import bar_of, handles, num, warps_of

if TYPE_CHECKING:
    from syncverify.simulate.ir.numeric import Agent, _Launch


@handles(n.BarrierSync, n.BarrierArrive)
def named(run: _Launch, a: Agent, s: n.BarrierSync | n.BarrierArrive) -> None:
    ident = num(run, a, s.id)
    threads = num(run, a, s.count) or run.kernel.launch.threads
    meet(a, ident, a.lanes, threads, isinstance(s, n.BarrierSync))


def meet(a: Agent, ident: int, lanes: int, needed: int, blocks: bool, kind: int = 0) -> None:
    """Adds arrivals to a barrier of the block; its round ends with the last one."""
    counter = a.cta.named.setdefault((kind, ident), [0, 0])
    goal = counter[1] + 1
    counter[0] += lanes
    if counter[0] >= needed:
        counter[0] -= needed
        counter[1] += 1
    if blocks:
        a.waits = ("rounds", counter, goal)


@handles(n.WarpSync)
def warp_sync(run: _Launch, a: Agent, s: n.WarpSync) -> None:
    mask = num(run, a, s.mask) & 0xFFFFFFFF if s.mask is not None else 0xFFFFFFFF
    warps = warps_of(a)
    if len(warps) > 1:
        counts = [int((a.tids // 32 == w).sum()) for w in warps]
        if all(c == needed_lanes(run, int(w), mask) for c, w in zip(counts, warps, strict=True)):
            return  # whole warps, at one place already
        run.agreed(a.tids // 32)
    w = int(warps[0])
    meet(a, w << 32 | mask, a.lanes, needed_lanes(run, w, mask), True, 1)


def needed_lanes(run: _Launch, warp: int, mask: int) -> int:
    live = min(32, run.kernel.launch.threads - warp * 32)
    return (mask & ((1 << live) - 1)).bit_count()


@handles(n.ClusterArrive)
def cluster_arrive(run: _Launch, a: Agent, s: n.ClusterArrive) -> None:
    ctas = run.clusters[id(a.cta)]
    counter = run.cluster_round[id(ctas)]
    a.env["%round"] = counter[1] + 1
    counter[0] += a.lanes
    settle_cluster(ctas, counter)


def settle_cluster(ctas: list[Cta], counter: list[int]) -> None:
    """All live threads of the cluster have arrived (PTX ISA, barrier.cluster)."""
    if counter[0] >= sum(c.live for c in ctas):
        counter[0] = 0
        counter[1] += 1


@handles(n.ClusterWait)
def cluster_wait(run: _Launch, a: Agent, s: n.ClusterWait) -> None:
    ctas = run.clusters[id(a.cta)]
    a.waits = ("rounds", run.cluster_round[id(ctas)], int(run.agreed(a.env.get("%round", 1))))


@handles(n.Elect)
def elect(run: _Launch, a: Agent, s: n.Elect) -> None:
    """The first lane of each warp."""
    a.env[s.name] = uniform((a.tids % 32 == 0).astype(np.int64))


@handles(
    n.SetMaxNReg,
    n.GridDepWait,
    n.GridDepLaunch,
    n.Fence,
    n.FenceMbarrierInit,
    n.FenceProxyAsync,
    n.FenceProxyTensormap,
    n.TensormapCpFence,
    n.BulkPrefetch,
    n.TmaPrefetch,
    n.BulkCommit,
    n.BulkWait,
    n.CpAsyncCommit,
    n.CpAsyncWait,
    n.WgmmaFence,
    n.WgmmaCommit,
)
def nothing(run: _Launch, a: Agent, s: n.Stmt) -> None:
    """No effect on values here: copies land at once, and every agent sees every write."""


@handles(n.TensormapReplace)
def replace(run: _Launch, a: Agent, s: n.TensormapReplace) -> None:
    raise InputError("editing a tensor map is not run on arrays", s.span)


@handles(n.MbarrierInit)
def init(run: _Launch, a: Agent, s: n.MbarrierInit) -> None:
    _, bar = bar_of(run, a, s.bar)
    count = num(run, a, s.count)
    bar.phase, bar.pending, bar.expected, bar.tx, bar.alive = 0, count, count, 0, True


@handles(n.MbarrierInval)
def inval(run: _Launch, a: Agent, s: n.MbarrierInval) -> None:
    bar_of(run, a, s.bar)[1].alive = False


@handles(n.MbarrierArrive)
def arrive(run: _Launch, a: Agent, s: n.MbarrierArrive) -> None:
    _, bar = bar_of(run, a, s.bar)
    expect, count = num(run, a, s.expect), num(run, a, s.count, 1)
    if s.token is not None:
        a.env[s.token] = bar.phase
    if bar.pending > count * a.lanes and not s.drop:
        bar.tx += expect * a.lanes
        bar.pending -= count * a.lanes
        return
    for _ in range(a.lanes):
        bar.tx += expect
        bar.pending -= count
        if s.drop:
            bar.expected -= count
        bar.settle()


@handles(n.MbarrierExpectTx)
def expect_tx(run: _Launch, a: Agent, s: n.MbarrierExpectTx) -> None:
    _, bar = bar_of(run, a, s.bar)
    bar.tx += num(run, a, s.bytes) * a.lanes


@handles(n.MbarrierCompleteTx)
def complete_tx(run: _Launch, a: Agent, s: n.MbarrierCompleteTx) -> None:
    _, bar = bar_of(run, a, s.bar)
    bar.tx -= num(run, a, s.bytes) * a.lanes
    bar.settle()


@handles(n.MbarrierWait)
def wait(run: _Launch, a: Agent, s: n.MbarrierWait) -> None:
    index, bar = bar_of(run, a, s.bar)
    phase = num(run, a, s.phase)
    a.waits = ("token" if s.token else "mbarrier", s.bar.name, index, bar, phase)


@handles(n.MbarrierTest)
def test(run: _Launch, a: Agent, s: n.MbarrierTest) -> None:
    _, bar = bar_of(run, a, s.bar)
    phase = num(run, a, s.phase)
    a.env[s.name] = int(bar.phase > phase if s.token else bar.phase % 2 != phase)
