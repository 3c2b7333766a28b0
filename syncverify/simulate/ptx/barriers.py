"""Barriers of warps, blocks and clusters (PTX ISA, 9.7.13 bar, barrier, bar.warp.sync, barrier.cluster)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from syncverify.simulate.ptx.clocks import HAPPENS_BEFORE, OF_ANY_SCOPE, Clock, merged
from syncverify.simulate.ptx.collectives import bits_to_lanes, member_mask
from syncverify.simulate.ptx.ordering import SCOPES, fenced
from syncverify.simulate.ptx.program import Context, builder
from syncverify.simulate.ptx.syntax import Instr
from syncverify.simulate.ptx.types import LANES, Lanes

if TYPE_CHECKING:
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Fragment, Next, Step, Warp

_SECTION = "bar, barrier"


@dataclass(slots=True)
class NamedBarrier:
    """A barrier of a block. ``count`` is None where no instruction names one: all warps that live."""

    count: int | None = None
    arrived: list[int] = field(default_factory=list)  # warps
    waits: set[int] = field(default_factory=set)  # those of them that wait
    clock: Clock | None = None
    complete: Clock | None = None
    reduction: str = ""
    votes: list[Lanes] = field(default_factory=list)
    result: int = 0
    generation: int = 0


def _rows(f: Fragment, on: Lanes) -> Any:
    warp = f.warp
    return slice(warp.first_thread, warp.first_thread + warp.count) if on.all() else warp.threads[on]


@builder("bar", "barrier", together=True)
def _bar(c: Context, i: Instr) -> Step:
    words = i.mods
    if "warp" in words:
        return _warp_sync(c, i)
    if "cluster" in words:
        return _cluster(c, i)
    action = next((w for w in words if w in ("sync", "arrive", "red")), None)
    for w in words:
        if w not in ("sync", "arrive", "red", "aligned", "cta", "and", "or", "popc", "u32", "pred"):
            raise c.fail(f"the modifier .{w}")
    if action is None:
        raise c.fail()
    operands = list(i.operands)
    write = vote = None
    how = next((w for w in words if w in ("and", "or", "popc")), "")
    if action == "red":
        write = c.writer(operands.pop(0), 32 if how == "popc" else 1)
        vote = c.predicate(operands.pop())
    count = c.source(operands[1], 32) if len(operands) > 1 else None
    if action == "arrive" and count is None:
        raise c.fail("bar.arrive needs a count of threads")
    use = _NamedBarrierUse(c.source(operands[0], 32), count, action != "arrive", how, vote, write)
    # PTX ISA, barrier.sync: a thread waits for all threads of its warp that have not exited.
    around = i.op == "barrier" and "aligned" not in i.mods
    if around and action == "sync":
        return use.by_parts
    return lambda f: f.warp.machine.whole_warp(
        f, use.arrive, f"{i.name} by a part of the warp", around=around
    )


@dataclass(frozen=True, slots=True)
class _NamedBarrierUse:
    """An instruction that arrives at a barrier of the block, and may wait there."""

    number: Any
    count: Any  # None: all threads of the block
    waits: bool
    how: str  # the reduction, if any
    vote: Callable[..., Any] | None
    write: Callable[..., None] | None

    def by_parts(self, f: Fragment) -> Next:
        """Lanes come to a barrier that is not ``.aligned``, and wait for the others of their warp, which
        may come to another instruction for the same one."""
        m, warp = f.warp.machine, f.warp
        count = None if self.count is None else _uniform(m, f, f.R[self.count], "count")
        f.meets = meets = ("barrier.sync by a part of the warp", self._name(m, f), count)

        def here() -> list[Fragment]:
            return [x for x in warp.fragments if x is f or x.meets == meets]

        def ready() -> bool:
            wanted = warp.live
            for x in here():
                wanted = wanted & ~x.mask
            return not wanted.any()

        def resume() -> Next:
            apart: list[Fragment] = []
            for x in here():
                x.meets = None
                if x is not f and x.alike(f):
                    f.absorb(x)
                elif x is not f:
                    apart.append(x)
            return self.arrive(f, apart)

        return resume() if ready() else f.block(ready, resume)

    def arrive(self, f: Fragment, apart: Sequence[Fragment] = ()) -> Next:
        """A warp arrives, and waits if it has to; ``apart``: lanes of it that stand elsewhere."""
        m = f.warp.machine
        barrier = self._joined(m, f)
        number = f.warp.number
        if number in barrier.arrived and (not self.waits or number in barrier.waits):
            raise m.undefined(f, f"warp {number} arrives twice at barrier {self._name(m, f)}", _SECTION)
        # A warp that has arrived before and now waits counts twice: ordered pipelines that ship begin so.
        barrier.arrived.append(number)
        if self.waits:
            barrier.waits.add(number)
        for x in (f, *apart):
            barrier.clock = merged(barrier.clock, m.release(_rows(x, x.mask)))
        if self.vote is not None:
            barrier.votes.append(self.vote(f.R)[f.mask])
        generation = barrier.generation
        complete(m, f.warp.block, barrier)
        if not self.waits:
            return None

        def resume() -> Next:
            m.acquire(_rows(f, f.mask), barrier.complete)
            if self.write is not None:
                kind = np.uint32 if self.how == "popc" else bool
                self.write(f, np.full(LANES, barrier.result, kind), f.mask)
            return f.pc + 1

        def come() -> bool:
            return barrier.generation != generation

        for x in apart:

            def go_on(x: Fragment = x) -> Next:
                m.acquire(_rows(x, x.mask), barrier.complete)
                return x.pc + 1

            x.ready, x.resume = come, go_on
        return resume() if come() else f.block(come, resume)

    def _name(self, m: Machine, f: Fragment) -> int:
        return _uniform(m, f, f.R[self.number], "barrier")

    def _joined(self, m: Machine, f: Fragment) -> NamedBarrier:
        """The barrier, if the count and the reduction are those of the warps that have come before."""
        name = self._name(m, f)
        n = None if self.count is None else _uniform(m, f, f.R[self.count], "count")
        if name > 15:
            raise m.undefined(f, f"there is no barrier {name}", _SECTION)
        if n is not None and (n == 0 or n % LANES):
            raise m.undefined(f, f"a count of {n} threads is no multiple of {LANES}", _SECTION)
        block = f.warp.block
        barrier = block.named.setdefault(name, NamedBarrier())
        if not barrier.arrived:
            barrier.count, barrier.reduction, barrier.votes = n, self.how, []
            return barrier
        own = -(-block.threads // LANES) * LANES
        if (barrier.count or own) != (n or own):
            raise m.undefined(
                f, f"barrier {name} has a count of {barrier.count or own}, here {n or own}", _SECTION
            )
        if barrier.reduction != self.how:
            raise m.undefined(f, f"bar.red meets another operation at barrier {name}", _SECTION)
        if n is not None:
            barrier.count = n
        return barrier


def complete(m: Machine, block: Any, barrier: NamedBarrier) -> None:
    """Opens the barrier if all have come."""
    if not barrier.arrived:
        return
    if barrier.count is None:
        full = all(w.number in barrier.arrived or not w.live.any() for w in block.warps)
    else:
        full = len(barrier.arrived) * LANES >= barrier.count
    if not full:
        return
    barrier.generation += 1
    barrier.complete, barrier.clock = barrier.clock, None
    barrier.arrived, barrier.waits = [], set()
    votes = np.concatenate(barrier.votes) if barrier.votes else np.zeros(0, bool)
    barrier.result = {"and": int(votes.all()), "or": int(votes.any()), "popc": int(votes.sum())}.get(
        barrier.reduction, 0
    )
    m.version += 1


def warp_left(m: Machine, warp: Warp) -> None:
    """Barriers without a count do not wait for warps that have exited."""
    for barrier in warp.block.named.values():
        if barrier.count is None:
            complete(m, warp.block, barrier)


def _uniform(m: Machine, f: Fragment, values: Lanes, what: str) -> int:
    own = values[f.mask]
    if (own != own[0]).any():
        raise m.undefined(f, f"lanes of one warp name different values of the {what}", _SECTION)
    return int(own[0])


def _warp_sync(c: Context, i: Instr) -> Step:
    slot = c.source(i.operands[0], 32)

    def run(f: Fragment) -> Next:
        m = f.warp.machine
        mask = member_mask(f, slot, "bar.warp.sync")
        named = bits_to_lanes(mask)
        key = ("bar.warp.sync", mask)
        warp = f.warp
        needed = named & warp.live

        def here() -> list[Fragment]:
            return [x for x in warp.fragments if x is f or x.meets == key]

        def ready() -> bool:
            wanted = named & warp.live
            for x in here():
                wanted = wanted & ~x.mask
            return not wanted.any()

        def resume() -> Next:
            mask = np.zeros(LANES, bool)
            for x in here():
                mask = mask | x.mask
            if (needed & ~mask & warp.passed).any():
                raise m.undefined(f, "bar.warp.sync: lanes that it needs go round it", "bar.warp.sync")
            rows = _rows(f, mask)
            m.acquire(rows, m.release(rows))
            for x in here():
                x.meets = None
                if x is f:
                    continue
                if x.alike(f):
                    f.absorb(x)
                else:
                    place = x.pc + 1
                    x.ready, x.resume = (lambda: True), (lambda place=place: place)
            return f.pc + 1

        if ready():
            return resume()
        f.meets = key
        return f.block(ready, resume)

    return run


def _cluster(c: Context, i: Instr) -> Step:
    words = i.mods
    for w in words:
        if w not in ("cluster", "arrive", "wait", "release", "relaxed", "acquire", "aligned"):
            raise c.fail(f"the modifier .{w}")
    aligned = "aligned" in words
    of = _cluster_arrive("relaxed" in words) if "arrive" in words else _cluster_wait
    if aligned:
        return lambda f: f.warp.machine.whole_warp(f, of, f"{i.name} by a part of the warp")
    return of


def _cluster_arrive(relaxed: bool) -> Any:
    def run(f: Fragment) -> Next:
        m = f.warp.machine
        cluster = f.warp.block.cluster
        for t in f.warp.threads[f.mask]:
            if int(t) in cluster.waiting:
                raise m.undefined(f, "a thread arrives twice without a wait between", "barrier.cluster")
            cluster.waiting[int(t)] = cluster.round
            cluster.arrived[int(t)] = True
        threads = f.warp.threads[f.mask]
        if not relaxed:
            cluster.pending = merged(cluster.pending, m.release(_rows(f, f.mask)))
        else:
            block = f.warp.block
            for t in threads:
                own, wide = fenced(m, int(t)), fenced(m, int(t), SCOPES["cluster"])
                block.pending = block.pending if own is None else merged(block.pending, own)
                cluster.pending = cluster.pending if wide is None else merged(cluster.pending, wide)
                for agent in m.fenced_inits.get(int(t), ()):
                    clock = m.clocks.empty()
                    clock[[HAPPENS_BEFORE, OF_ANY_SCOPE], agent] = m.clocks.epoch[agent]
                    cluster.pending = merged(cluster.pending, clock)
        cluster_complete(m, cluster)
        m.version += 1
        return None

    return run


def cluster_complete(m: Machine, cluster: Any) -> None:
    """Opens the cluster's barrier if all threads that live have arrived."""
    if not cluster.arrived:
        return
    for block in cluster.blocks:
        for warp in block.warps:
            for lane in np.flatnonzero(warp.live):
                if int(warp.threads[lane]) not in cluster.arrived:
                    return
    cluster.arrived = {}
    cluster.complete, cluster.pending = cluster.pending, None
    for block in cluster.blocks:
        block.complete, block.pending = block.pending, None
    cluster.round += 1
    m.version += 1


def _cluster_wait(f: Fragment) -> Next:
    m = f.warp.machine
    cluster = f.warp.block.cluster
    threads = f.warp.threads[f.mask]
    rounds = set()
    for t in threads:
        if int(t) not in cluster.waiting:
            raise m.undefined(f, "barrier.cluster.wait without an arrive before", "barrier.cluster")
        rounds.add(cluster.waiting[int(t)])

    def resume() -> Next:
        for t in threads:
            cluster.waiting.pop(int(t), None)
        m.acquire(_rows(f, f.mask), cluster.complete)
        m.acquire(_rows(f, f.mask), f.warp.block.complete)
        f.warp.met_cluster = True
        return f.pc + 1

    last = max(rounds)
    if cluster.round > last:
        return resume()
    return f.block(lambda: cluster.round > last, resume)


@builder("griddepcontrol")
def _griddepcontrol(c: Context, i: Instr) -> Step:
    """Waits return at once: the grid before has ended by then, and the thread knows of all that it did."""
    waits = "wait" in i.mods

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        if waits and m.before >= 0:
            m.clocks.learn(f.warp.threads[on], m.before, 1)
        return None

    return c.masked(run)
