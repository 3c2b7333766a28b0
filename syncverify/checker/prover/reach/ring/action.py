"""A run moved on round a ring: see ``ring``.

Everything that names a barrier, its column of clocks, or bytes of shared memory names another; numbers of
phases stay, and a barrier notes that its parities are the other ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from syncverify.checker.happens_before.effect_log import FlagWrite, Step, same_step
from syncverify.checker.happens_before.handlers.execution_barriers import Generation
from syncverify.checker.happens_before.handlers.mbarriers import Barrier, Phase
from syncverify.checker.happens_before.run import AsyncOperation, LaneClass, Run
from syncverify.checker.happens_before.shadow import Record, Segment, Shadow
from syncverify.checker.happens_before.vector_clocks import Matrix
from syncverify.checker.prover.reach.ring.symmetry import PARITIES, TOKENS, Ring
from syncverify.checker.prover.reach.state.deferred_failures import is_deferred
from syncverify.checker.prover.reach.state.snapshot import flat
from syncverify.model.events import GLOBAL_MEMORY, Event

#: Reads that are kept beside a later one are keyed by minus their tag from here on; see ``shadow``.
TAGGED = -(1 << 40)
FURTHER = -(1 << 49)


def supports_rotation(run: Run, ring: Ring) -> bool:
    """Whether a run can be moved: what its failures name, and tokens of phases, cannot."""
    if any(f.barrier in ring.barriers or is_deferred(f) for f in run.failures.values()):
        return False
    if (
        run.flag_chains
        or run.locations
        or run.info.clusters_run_sequentially
        or run.info.clusters > 1
        or run.pending
    ):
        return False
    return not any(t.event is not None and t.event[0] in TOKENS for t in run.threads)


def apply_rotation(run: Run, ring: Ring, by: int) -> None:
    """Moves a run on by so many places."""
    _Rotation(run, ring, by).all()


def local_parity(run: Run, event: Event) -> Event:
    """An event with its parity as its barrier counts it."""
    if event[0] in PARITIES and (s := run.barriers.get(event[2])) is not None and s.flip:
        return (*event[:3], event[3] ^ 1, *event[4:])
    return event


@dataclass(slots=True)
class _Rotation:
    run: Run
    ring: Ring
    by: int
    columns: dict[int, int] = field(default_factory=dict)  # old to new
    order: npt.NDArray[np.intp] = field(init=False)
    records: dict[int, Record] = field(default_factory=dict)
    shared: dict[int, tuple[Matrix, Matrix]] = field(default_factory=dict)  # by identity: old, new

    def __post_init__(self) -> None:
        table = self.run.columns
        for key, column in list(table._index.items()):
            if key[0] == "bar" and key[1] in self.ring.barriers:
                self.columns[column] = table.of("bar", self.ring.barrier(key[1], self.by), *key[2:])
        self.order = np.arange(table.capacity)
        for old, new in self.columns.items():
            self.order[new] = old

    def all(self) -> None:
        run, ring, by = self.run, self.ring, self.by
        for t in run.threads:
            self.thread(t)
        run.memory = {m: self.shadow(s) if m != GLOBAL_MEMORY else s for m, s in run.memory.items()}
        run.barriers = {ring.barrier(b, by): self.barrier(s) for b, s in run.barriers.items()}
        for n in run.named.values():
            n.last = self.once(n.last)
            for g in (n.gen, *n.partial.values()):
                self.generation(g)
        for c in run.clusters.values():
            self.generation(c.gen)
            if c.last is not None:
                self.generation(c.last)
        for r in run.requests:
            r.pasts = {c: self.row(p) for c, p in r.pasts.items()}
        run.exits = {cta: self.row(m) for cta, m in run.exits.items()}
        run.remote_uses = {k: (time, site, self.row(m)) for k, (time, site, m) in run.remote_uses.items()}
        run.suspects = [(*s[:4], ring.barrier(s[4], by)) for s in run.suspects]
        run.contributors = {self.name(k): v for k, v in run.contributors.items()}
        run.asyncs = self.newest(run.asyncs)
        run.landed = {(self.columns.get(c, c), cta): phase for (c, cta), phase in run.landed.items()}
        run.ledger = [self.step(x) for x in run.ledger]
        run.reached = {same_step(key, self.columns): self.record(r) for key, r in run.reached.items()}

    def step(self, x: Step) -> Step:
        """What a cluster of a block group has done with a flag."""
        if not isinstance(x, FlagWrite):
            return x
        released = None if x.write.released is None else self.row(x.write.released)
        return replace(x, write=replace(x.write, past=self.row(x.write.past), released=released))

    # ------------------------------------------------------------ clocks

    def row(self, m: Matrix) -> Matrix:
        """A matrix or a row of one with its columns moved."""
        found: Matrix = m.take(self.order, axis=-1)
        return found

    def once(self, m: Matrix) -> Matrix:
        """The same for one that several may hold."""
        if id(m) not in self.shared:
            self.shared[id(m)] = m, self.row(m)
        return self.shared[id(m)][1]

    def times(self, times: dict[int, int]) -> dict[int, int]:
        return {self.columns.get(c, c): v for c, v in times.items()}

    def name(self, key: tuple[object, ...]) -> tuple[object, ...]:
        if key[0] == "wait" and isinstance(key[1], int):
            return ("wait", self.ring.barrier(key[1], self.by))
        return key

    def thread(self, t: LaneClass) -> None:
        ring, by = self.ring, self.by
        t.clock.m = self.row(t.clock.m)
        t.release_fence = None if t.release_fence is None else self.row(t.release_fence)
        t.acquirable = None if t.acquirable is None else self.row(t.acquirable)
        t.acquirable_far = None if t.acquirable_far is None else self.row(t.acquirable_far)
        t.issues = [self.row(m) for m in t.issues]
        t.operands = [
            (ring.footprint(o[0], by), o[1], ring.footprint(o[2], by), *o[3:]) if o else o for o in t.operands
        ]
        t.polled = {ring.barrier(b, by): (self.row(m), flags) for b, (m, flags) in t.polled.items()}
        t.seen = {ring.barrier(b, by): n for b, n in t.seen.items()}
        if t.suspect is not None:
            t.suspect = (*t.suspect[:3], ring.barrier(t.suspect[3], by))
        t.registers = {k: self.record(r) for k, r in t.registers.items()}
        t.unsure = {ring.footprint(f, by): self.record(r) for f, r in t.unsure.items()}
        t.products = [self.record(r) for r in t.products]
        t.stores = [self.record(r) for r in t.stores]
        if t.event is not None:
            t.event = self.event(t.event)
        if t.waits_on[:1] == ("wait",):
            # its barrier takes its number of phases along: the parity that it counts by stays
            t.waits_on = ("wait", ring.barrier(t.waits_on[1], by), t.waits_on[2])

    def event(self, event: Event) -> Event:
        """An event that waits, with the parity that its barrier counts by."""
        moved = self.ring.event(event, self.by)
        return (*moved[:3], event[3], *moved[4:]) if event[0] in PARITIES else moved

    def generation(self, g: Generation) -> None:
        g.m, g.con, g.previous = self.once(g.m), self.times(g.con), self.times(g.previous)
        g.near = {cta: self.once(m) for cta, m in g.near.items()}

    # ------------------------------------------------------------ barriers

    def barrier(self, s: Barrier) -> Barrier:
        s.phases = [self.phase(p) for p in s.phases]
        s.waits = {c: (time, site, self.row(m)) for c, (time, site, m) in s.waits.items()}
        if s.index in self.ring.barriers:
            s.flip ^= self.ring.flips(s.index, self.by)
            s.index = self.ring.barrier(s.index, self.by)
            s.column = self.columns[s.column]
        return s

    def phase(self, p: Phase) -> Phase:
        new: Phase = flat(
            p,
            m=self.row(p.m),
            tx=self.row(p.tx),
            far=None if p.far is None else self.row(p.far),
            con=self.times(p.con),
            expects=[flat(e, past=self.row(e.past)) for e in p.expects],
            completions=[(n, self.row(past), site, lanes) for n, past, site, lanes in p.completions],
        )
        return new

    def newest(self, asyncs: list[AsyncOperation]) -> list[AsyncOperation]:
        """Of copies from each site to each barrier the newest: what the end of a CTA asks for."""
        found: dict[tuple[int, int, int], AsyncOperation] = {}
        for op in asyncs:
            for b, n, record in op.targets:
                if record is None:
                    continue
                key = (op.site, b, record.tag)
                if key not in found or record.tag_value >= _value(found[key]):
                    moved = (self.ring.barrier(b, self.by) if b >= 0 else b, n, self.record(record))
                    found[key] = flat(op, targets=[moved])
        return [*found.values()]

    # ------------------------------------------------------------ accesses

    def record(self, r: Record) -> Record:
        found = self.records.get(id(r))
        if found is None:
            found = self.records[id(r)] = self._record(r)
        return found

    def _record(self, r: Record) -> Record:
        parts = tuple([self.record(p) for p in r.parts])
        if parts:
            fp = self.ring.joined_there(r.fp, self.by, parts)
        else:
            fp = self.ring.footprint(r.fp, self.by)
        tag, b = self.columns.get(r.tag, r.tag), self.ring.barrier(r.barrier, self.by)
        if (fp, tag, b) == (r.fp, r.tag, r.barrier):
            return r
        return r.elsewhere(fp, tag, b, parts)

    def shadow(self, s: Shadow) -> Shadow:
        ring, by = self.ring, self.by
        moved: list[Segment] = []
        for old in s._segments:
            write = None if old.write is None else self.record(old.write)
            reads = {self.key(key): self.record(r) for key, r in old.reads.items()}
            moved += [Segment(lo, hi, write, reads.copy()) for lo, hi in ring.intervals(old.lo, old.hi, by)]
        moved.sort(key=attrgetter("lo"))
        new = Shadow()
        new._segments = moved
        new._los = [x.lo for x in moved]
        return new

    def key(self, key: tuple[int, int, int]) -> tuple[int, int, int]:
        cls, kind, what = key
        if what >= 0:
            return cls, kind, self.ring.footprint(what, self.by)
        if FURTHER < what <= TAGGED:
            tag = TAGGED - what
            return cls, kind, TAGGED - self.columns.get(tag, tag)
        return key


def _value(op: AsyncOperation) -> int:
    record = op.targets[0][2]
    return -1 if record is None else record.tag_value


__all__ = ["apply_rotation", "local_parity", "supports_rotation"]
