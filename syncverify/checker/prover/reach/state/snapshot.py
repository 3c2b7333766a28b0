"""A copy of a run, to go on from the same point in two ways.

What a run changes in place is copied; what it only replaces is shared: accesses whose values were used,
phases that are over, pasts, failures. Between two steps nothing is in flight: operations are shared too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, cast

from syncverify.checker.happens_before import access_merging, flag_state
from syncverify.checker.happens_before.handlers.execution_barriers import Cluster, Generation, Named
from syncverify.checker.happens_before.handlers.mbarriers import Barrier, Phase
from syncverify.checker.happens_before.run import LaneClass, Run
from syncverify.checker.happens_before.shadow import Record, Segment, Shadow
from syncverify.checker.happens_before.vector_clocks import Clock, Matrix
from syncverify.model.automata.async_groups import Groups
from syncverify.model.automata.cluster_barrier import ClusterBarrier
from syncverify.model.automata.mbarrier import Mbarrier
from syncverify.model.automata.named_barrier import NamedBarrier
from syncverify.model.automata.register_pool import RegisterPool
from syncverify.model.events import Agent
from syncverify.symbolic.context import NotConcrete

#: Fields of a run that its copies share: facts, and tables that number things.
SHARED = (
    "system info handlers on_completion options after_hang "
    "max_events columns ctas warpgroups lanes object_footprints barrier_bytes "
    "forks saw running_cluster rotation all_waited"
).split()
#: Containers of things that do not change.
FLAT = (
    "suspects narrow signals grid_waits early skipped_polls met_alone asyncs judged failures trace live "
    "exits remote_uses spun flag_chains ledger reached landed executions"
).split()
#: What is treated below, or must be empty between two steps.
TREATED = (
    "threads memory barriers named clusters contributors pools requests ready met pending locations maps "
    "walker in_a_row standing late"
).split()


#: How to copy all agents of a run at once: see ``SymbolicSystem.fork_agents``.
Split = Callable[[Sequence[Any]], Sequence[Any]]


def fork_each(agents: Sequence[Any]) -> list[Any]:
    """Independent agents at the same points, where they share nothing."""
    return [a.fork() for a in agents]


def copy_run(run: Run, fork_agents: Split = fork_each) -> Run:
    """A run at the same point that shares nothing that may change."""
    if run.pending or run.met:
        raise NotConcrete("operations in flight between two steps")
    access_merging.commit_pending_reads(run)
    new, copy = Run.__new__(Run), _Copy()
    for name in SHARED:
        setattr(new, name, getattr(run, name))
    for name in FLAT:
        setattr(new, name, getattr(run, name).copy())
    new.pending, new.met, new.late = {}, [], {}
    new.walker, new.in_a_row, new.standing = None, 0, ()
    new.maps = {k: copy.map(m) for k, m in run.maps.items()}
    agents = fork_agents([t.agent for t in run.threads])
    new.threads = [copy.thread(t, a) for t, a in zip(run.threads, agents, strict=True)]
    new.locations = flag_state.copied(run.locations, copy.threads)
    new.ready = deque(copy.threads[id(t)] for t in run.ready)
    new.memory = {m: copy.shadow(s) for m, s in run.memory.items()}
    new.barriers = {b: copy.barrier(s) for b, s in run.barriers.items()}
    new.named = {k: copy.named(n) for k, n in run.named.items()}
    new.clusters = {k: copy.cluster(c) for k, c in run.clusters.items()}
    new.contributors = {k: set(v) for k, v in run.contributors.items()}
    new.pools = {k: RegisterPool(p.free, dict(p.held), dict(p.served)) for k, p in run.pools.items()}
    new.requests = [
        copy.flat(r, sites=dict(r.sites), pasts=dict(r.pasts), times=dict(r.times)) for r in run.requests
    ]
    return new


class _Copy:
    """Copies of the parts of one run, each made once."""

    def __init__(self) -> None:
        self.threads: dict[int, LaneClass] = {}
        self.records: dict[int, Record] = {}
        self.matrices: dict[int, Matrix] = {}

    def flat(self, x: Any, **changed: Any) -> Any:
        """An object with slots, its fields shared but for ``changed``."""
        return flat(x, **changed)

    def matrix(self, m: Matrix) -> Matrix:
        found = self.matrices.get(id(m))
        if found is None:
            found = self.matrices[id(m)] = m.copy()
        return found

    def record(self, r: Record) -> Record:
        found = self.records.get(id(r))
        if found is None:
            found = self.records[id(r)] = cast(Record, self.flat(r))
        return found

    def thread(self, t: LaneClass, agent: Agent) -> LaneClass:
        new: LaneClass = self.flat(
            t,
            agent=agent,
            clock=self.clock(t.clock),
            bulk=_groups(t.bulk),
            cp=_groups(t.cp),
            mma=_groups(t.mma),
            columns=dict(t.columns),
            registers={k: self.record(r) for k, r in t.registers.items()},
            unsure={k: self.record(r) for k, r in t.unsure.items()},
            fences=list(t.fences),
            proxy_fences=list(t.proxy_fences),
            syncs=list(t.syncs),
            group_waits={k: set(v) for k, v in t.group_waits.items()},
            idle_waits=dict(t.idle_waits),
            collectives=list(t.collectives),
            fragments={k: list(v) for k, v in t.fragments.items()},
            acquirable=None if t.acquirable is None else t.acquirable.copy(),
            acquirable_far=None if t.acquirable_far is None else t.acquirable_far.copy(),
            polled=dict(t.polled),
            seen=dict(t.seen),
            issues=list(t.issues),
            operands=list(t.operands),
            products=list(t.products),
            stores=list(t.stores),
        )
        self.threads[id(t)] = new
        return new

    def clock(self, c: Clock) -> Clock:
        new = Clock.__new__(Clock)
        new.cls, new.multi, new.m = c.cls, c.multi, c.m.copy()
        new.columns, new.own = c.columns.copy(), {column: v.copy() for column, v in c.own.items()}
        return new

    def map(self, m: Any) -> Any:
        return self.flat(m, **{x: list(getattr(m, x)) for x in "edits released acquired uses open".split()})

    def shadow(self, s: Shadow) -> Shadow:
        new = Shadow()
        new._los = list(s._los)
        pending = self.records
        for old in s._segments:
            reads = dict(old.reads)
            if pending and not pending.keys().isdisjoint(map(id, reads.values())):
                reads = {key: pending.get(id(r), r) for key, r in reads.items()}
            new._segments.append(Segment(old.lo, old.hi, old.write, reads))
        return new

    def barrier(self, s: Barrier) -> Barrier:
        new: Barrier = self.flat(
            s,
            auto=Mbarrier(s.auto.live, s.auto.count, s.auto.pending, s.auto.tx, s.auto.phase),
            phases=[self.phase(p, i == 0) for i, p in enumerate(s.phases)],
            ready=set(s.ready),
            waits=dict(s.waits),
            blocked=[self.threads[id(t)] for t in s.blocked],
            last_use=dict(s.last_use),
            touched=list(s.touched),
            arrivals=dict(s.arrivals),
            expect_sites=dict(s.expect_sites),
            waiters=set(s.waiters),
            final_waits=dict(s.final_waits),
            lanes=dict(s.lanes),
        )
        return new

    def phase(self, p: Phase, newest: bool) -> Phase:
        if not newest:
            return cast(Phase, self.flat(p))  # it is over: its parts do not change any more
        new: Phase = self.flat(
            p,
            m=p.m.copy(),
            tx=p.tx.copy(),
            far=None if p.far is None else p.far.copy(),
            con=dict(p.con),
            expects=list(p.expects),
            completions=list(p.completions),
            arrived=dict(p.arrived),
            sites=dict(p.sites),
            quiet=[list(q) for q in p.quiet],
        )
        return new

    def generation(self, g: Generation) -> Generation:
        return Generation(
            self.matrix(g.m),
            dict(g.con),
            dict(g.previous),
            [self.threads[id(t)] for t in g.waiting],
            dict(g.sites),
            dict(g.pasts),
            {cta: self.matrix(m) for cta, m in g.near.items()},
        )

    def named(self, n: Named) -> Named:
        auto = NamedBarrier(
            n.auto.threads, n.auto.generation, dict(n.auto.arrived), set(n.auto.marked), n.auto.again,
            n.auto.whole, n.auto.gone,
        )  # fmt: skip
        partial = {w: self.generation(g) for w, g in n.partial.items()}
        ahead = [self.threads[id(t)] for t in n.ahead]
        gen, last = self.generation(n.gen), self.matrix(n.last)
        return Named(auto, n.column, gen, last, n.red, partial, ahead, n.mask, n.collective)

    def cluster(self, c: Cluster) -> Cluster:
        auto = ClusterBarrier(set(c.auto.expected), c.auto.generation, set(c.auto.arrived))
        last = None if c.last is None else self.generation(c.last)
        return Cluster(auto, c.column, self.generation(c.gen), last)


def flat(x: Any, **changed: Any) -> Any:
    """An object with slots, its fields shared but for ``changed``."""
    names, values = _slots(type(x))
    new = object.__new__(type(x))
    for name, value in zip(names, values(x), strict=True):
        setattr(new, name, value)
    for name, value in changed.items():
        setattr(new, name, value)
    return new


def _groups(g: Groups) -> Groups:
    return Groups(g.issued, list(g.committed))


#: Names of slots, and what takes their values from an object.
_Slots = tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]
_SLOTS: dict[type, _Slots] = {}


def _slots(kind: type) -> _Slots:
    found = _SLOTS.get(kind)
    if found is None:
        names = tuple(kind.__slots__)  # type: ignore[attr-defined]
        found = _SLOTS[kind] = names, attrgetter(*names)
    return found


__all__ = ["FLAT", "SHARED", "TREATED", "Split", "copy_run", "flat", "fork_each"]
