"""Which states are weaker than others: what fails from the stronger one fails from the weaker one too.

``abstract_knowledge`` splits the canonical state into a key without ranks, and for each clock entry the
thresholds that it has reached. Three facts make the order sound:

- checks ask whether an entry has reached a threshold, and fail where it has not;
- joins give an entry all that either side has reached;
- what is recorded later is above all entries of today.

So take two states with equal keys and agents that do the same. If the entries of one reach thresholds only
where those of the other do, it meets every failure of the other. It may hold more that is asked of:
accesses, ends of copies, barriers whose phases or generations are over. ``weaken`` makes a run no stronger
than another one, where nothing that both know is lost by that.

Two things are no such checks. At requests for registers, an order that is known may do harm: both states
must know the same. So no time of a request is put off, and no entry of a class is lowered. Failures that
the end may excuse, or that may be warnings only because less is known, are not monotone either
(``always_a_warning``: those that are warnings in any case).
"""

from __future__ import annotations

from collections.abc import Hashable, Set
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from syncverify.base.diagnostics import Policy
from syncverify.checker.happens_before.effect_log import FlagWrite, Step
from syncverify.checker.happens_before.failure import Failure, Obligation
from syncverify.checker.happens_before.handlers.mbarriers import Phase
from syncverify.checker.happens_before.run import Run
from syncverify.checker.happens_before.shadow import Record
from syncverify.checker.happens_before.vector_clocks import Matrix
from syncverify.checker.prover.reach.ring.orbits import orbit_of_access_weakening, orbit_of_barrier_weakening
from syncverify.checker.prover.reach.state import deferred_failures
from syncverify.checker.prover.reach.state.snapshot import flat
from syncverify.checker.prover.reach.strict_findings import is_same_value_store, is_strict_only_pair
from syncverify.checker.prover.reach.threshold_abstraction import SLICES, Piece, Place, ThresholdAbstraction
from syncverify.checker.prover.reach.thresholds import ALL, ORDER
from syncverify.checker.prover.reach.tile_history import (
    DroppedThreshold,
    Groups,
    OrbitWeakening,
    extend_to_orbit,
    orbit_weakenings_of,
)
from syncverify.model.events import Ev, Event

#: A limit that lowers nothing.
ANYTHING = (1 << 31) - 1
NONE: frozenset[int] = frozenset()
Reached = npt.NDArray[np.bool_]
Pairs = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]


@dataclass(frozen=True, slots=True, eq=False)
class KnowledgeAbstraction:
    """``key``: equal where states may be compared; ``flags``: numbers of which more is worse.
    ``bits``: for
    each kind of question which entry (rows) has reached which threshold. ``held``: thresholds that
    the key names, ``more``: those that others may lack. ``waits``: whose rows are last.
    ``records``: of accesses what distinguishes them, and their thresholds."""

    key: Hashable
    flags: tuple[int, ...]
    sizes: tuple[int, ...]
    bits: tuple[npt.NDArray[np.uint8], ...]
    held: tuple[Place, ...]
    more: dict[Hashable, Place]
    waits: tuple[Hashable, ...]
    pieces: tuple[Piece, ...]
    records: tuple[tuple[Hashable, tuple[Place, ...]], ...]
    times: tuple[int, ...]  # of these
    accesses: int  # distinguishes what is on record, and where
    effect_log: tuple[npt.NDArray[np.uint8], ...] = ()  # what is asked for a cluster's account
    warned: frozenset[Hashable] = frozenset()  # what strict mode alone asks and was met

    def simulates(self, other: KnowledgeAbstraction) -> bool:
        """Whether whatever fails from the other state on fails from this one on."""
        if self.key != other.key or len(self.held) != len(other.held):
            return False
        if not all(a >= b for a, b in zip(self.flags, other.flags, strict=True)):
            return False
        if not (other.more.keys() <= self.more.keys() and set(other.waits) <= set(self.waits)):
            return False
        if not other.warned <= self.warned:
            return False  # reports would not say so
        if any((a & ~b).any() for a, b in zip(self.effect_log, other.effect_log, strict=True)):
            return False
        if self.same_thresholds(other):
            return not any((a & ~b).any() for a, b in zip(self.bits, other.bits, strict=True))
        pairs = access_embedding(self, other)
        if pairs is None:
            return False
        for kind, (here, there) in enumerate(self.pairs(other, pairs)):
            mine, theirs = self.rows(kind, other, here), other.rows(kind, self, there)
            if (mine & ~theirs).any():
                return False
        return True

    def newest_reads(self, reads: tuple[int, ...]) -> dict[Hashable, int]:
        """Reads by what distinguishes them; those that nothing else does by how many are newer."""
        found: dict[Hashable, int] = {}
        for r in sorted(reads, key=lambda r: -self.times[r]):
            name: Hashable = self.records[r][0]
            while name in found:
                name = (name, "older")
            found[name] = r
        return found

    def same_thresholds(self, other: KnowledgeAbstraction) -> bool:
        """Whether thresholds are the same by number."""
        return (
            self.sizes == other.sizes
            and self.held == other.held
            and self.waits == other.waits
            and self.pieces == other.pieces
            and self.more == other.more
            and self.records == other.records
        )

    def pairs(
        self, other: KnowledgeAbstraction, records: set[tuple[int, int]], held: bool = True
    ) -> list[Pairs]:
        """For each kind the numbers of thresholds here, and of those of the other that they represent."""
        found: tuple[set[tuple[int, int]], ...] = (set(), set(), set())
        for (kind, i), (_, j) in zip(self.held, other.held, strict=True) if held else ():
            found[kind].add((i, j))
        for name, (kind, j) in other.more.items():
            if name in self.more:
                found[kind].add((self.more[name][1], j))
        for a, b in records:
            for (kind, i), (_, j) in zip(self.records[a][1], other.records[b][1], strict=True):
                found[kind].add((i, j))
        arrays = [np.array(sorted(some), dtype=np.intp).reshape(-1, 2) for some in found]
        return [(a[:, 0], a[:, 1]) for a in arrays]

    def rows(self, kind: int, other: KnowledgeAbstraction, thresholds: npt.NDArray[np.intp]) -> Reached:
        """Which rows that both have reach thresholds."""
        bits = np.unpackbits(self.bits[kind], axis=1, count=self.sizes[kind]).view(np.bool_)
        if self.waits != other.waits:
            width = SLICES[kind].stop - SLICES[kind].start
            first = len(bits) - width * len(self.waits)
            both = set(self.waits) & set(other.waits)
            some = [
                first + width * i + k for i, w in enumerate(self.waits) if w in both for k in range(width)
            ]
            bits = bits[[*range(first), *some]]
        return bits[:, thresholds]


def access_embedding(
    mine: KnowledgeAbstraction, other: KnowledgeAbstraction, partly: bool = False
) -> set[tuple[int, int]] | None:
    """For each access of the other state the one of mine that represents it, byte by byte; None if one has
    none. ``partly``: as far as there are such."""
    if mine.pieces == other.pieces and [n for n, _ in mine.records] == [n for n, _ in other.records]:
        return {(i, i) for i in range(len(mine.records))}
    pairs: set[tuple[int, int]] = set()
    i = 0
    for memory, lo, hi, write, reads in other.pieces:
        while i < len(mine.pieces) and (mine.pieces[i][0], mine.pieces[i][2]) <= (memory, lo):
            i += 1
        at, j = lo, i
        while at < hi:
            held = mine.pieces[j] if j < len(mine.pieces) else None
            if held is None or held[0] != memory or held[1] >= hi or (held[1] > at and not partly):
                if partly:
                    break
                return None
            if write >= 0 and held[3] >= 0 and mine.records[held[3]][0] == other.records[write][0]:
                pairs.add((held[3], write))
            elif write >= 0 and not partly:
                return None
            there = mine.newest_reads(held[4]) if reads else {}
            for name, r in other.newest_reads(reads).items():
                found = there.get(name)
                if found is not None:
                    pairs.add((found, r))
                elif not partly:
                    return None
            at = held[2]
            j += 1
    return pairs


def supports_knowledge_order(run: Run) -> bool:
    """Whether a run is compared by what it knows."""
    if run.grid_waits or run.early or run.spun or any(True for _ in deferred_failures.deferred_state(run)):
        return False
    # flags are no part of the key
    return not (run.info.edits_maps or run.info.clusters_run_sequentially or run.locations)


def abstract_knowledge(run: Run) -> KnowledgeAbstraction | None:
    """What a run knows; None where states are not compared so."""
    thresholds = ThresholdAbstraction(run) if supports_knowledge_order(run) else None
    return known(thresholds) if thresholds is not None and thresholds.compute() else None


def known(thresholds: ThresholdAbstraction) -> KnowledgeAbstraction:
    bits = []
    for kind in ALL:
        entries = thresholds.entries(kind, [c for c, _ in thresholds.asked[kind]], waits=True)
        values = np.array([v for _, v in thresholds.asked[kind]], dtype=np.int64)
        bits.append(np.packbits(entries >= values, axis=1))
    return KnowledgeAbstraction(
        thresholds.key,
        tuple(thresholds.monotone_counters),
        tuple(map(len, thresholds.asked)),
        tuple(bits),
        tuple(thresholds.key_thresholds),
        thresholds.optional_thresholds,
        tuple(thresholds.waits),
        thresholds.pieces,
        tuple(thresholds.records),
        tuple(r.time for r in thresholds.seen),
        thresholds.accesses,
        thresholds.effect_log,
        thresholds.warned,
    )


def weaken(
    run: Run, less: KnowledgeAbstraction, groups: Groups = (), ring: Groups = ()
) -> set[OrbitWeakening]:
    """Makes a run know no more than another with the same key did, of all that both have on record.
    ``groups``: barriers that cycle through a ring, of all slots of which the same is forgotten; returns what.
    ``ring``: barriers of one that is traversed: what the other knew of one slot and this run does not is
    forgotten of its orbit in the other slots, where that would else take a lap.

    Times that fewer are to know of are put off; of other columns the entries are lowered. What a class did is
    known in order: where less of one thing would be less of others too, that both know, it stays known (who
    represents the run may know what the other did not, for that one is followed as well).
    """
    thresholds = ThresholdAbstraction(run, everything=True)
    if not thresholds.compute() or thresholds.key != less.key:
        return set()
    mine = known(thresholds)
    holders: dict[Place, list[int]] = {}
    records = access_embedding(less, mine, partly=True) or set()
    for _, j in records:
        for place in thresholds.records[j][1]:
            holders.setdefault(place, []).append(j)
    change = _Weakening(thresholds)
    todo: list[DroppedThreshold] = []
    lost: list[DroppedThreshold] = []
    reached: list[Reached] = []
    for kind, (there, here) in enumerate(less.pairs(mine, records)):
        now, then = mine.rows(kind, less, here), less.rows(kind, mine, there)
        bad = now & ~then
        width = change.width(kind)
        kept = np.unpackbits(mine.bits[kind][:width], axis=1, count=mine.sizes[kind]).view(np.bool_)
        reached.append(kept)
        for k in np.flatnonzero(bad[:width].any(axis=0)).tolist():
            todo.append(((kind, int(here[k])), np.flatnonzero(bad[:width, k]).tolist()))
        for k in np.flatnonzero((then & ~now)[:width].any(axis=0)).tolist() if ring else ():
            lost.append(((kind, int(here[k])), np.flatnonzero((then & ~now)[:width, k]).tolist()))
    lacks = orbit_weakenings_of(thresholds, groups, todo) if groups else set()
    todo += extend_to_orbit(thresholds, groups, todo) if groups else []
    todo += (
        [
            *orbit_of_access_weakening(thresholds, lost, holders),
            *orbit_of_barrier_weakening(thresholds, ring, lost),
        ]
        if lost
        else []
    )
    todo = [((kind, k), [r for r in rows if reached[kind][r, k]]) for (kind, k), rows in todo]
    todo = [(place, rows) for place, rows in todo if rows]
    for (kind, number), rows in todo:
        reached[kind][rows, number] = False
    for kind, kept in enumerate(reached):
        for number in np.flatnonzero(kept.any(axis=0)).tolist():
            change.kept[kind, number] = set(np.flatnonzero(kept[:, number]).tolist())
    for place, rows in todo:
        change.forget(place, rows, holders.get(place, []))
    change.all(run)
    return lacks


def masks_failure(run: Run, failures_seen: int, policy: Policy) -> bool:
    """Whether failures, of which the first few were looked at, may hide that a run which knows more would
    meet another."""
    new = list(run.failures.values())[failures_seen:] if run.options.weak_completion_knowledge else []
    delicate = any(map(deferred_failures.is_deferred, run.failures.values()))
    practical = policy is Policy.PRACTICAL
    return delicate or not all(
        practical and (is_strict_only_pair(run, f) or always_a_warning(run, f)) for f in new
    )


def coarsen(run: Run, policy: Policy) -> None:
    """Makes a run fail more often, so that less is asked of what it knows: see
    ``RunOptions.weak_completion_knowledge``. Who has looked at which phase is asked in strict mode only."""
    observers = policy == Policy.STRICT
    run.options = replace(run.options, weak_completion_knowledge=True, records_observers=observers)


def is_non_monotone_event(run: Run, event: Event) -> bool:
    """Whether an event asks what is not compared: the end of a barrier, who has used it last; a request for
    registers, of what came before it."""
    if event[0] == Ev.SETMAXNREG:
        return run.options.weak_completion_knowledge and run.options.refined_comparison
    return bool(event[0] == Ev.INVAL) and not run.info.ends_barriers


def always_a_warning(run: Run, f: Failure) -> bool:
    """Whether a failure is as little for who knows more: two stores of one value (in one CTA's memory no
    scope is too narrow), or what both know the same of."""
    alone = run.info.ctas * run.info.clusters == 1 and not run.info.tracks_global
    return (alone and is_same_value_store(f)) or independent_of_knowledge(f)


def independent_of_knowledge(f: Failure) -> bool:
    """What strict mode alone asks of setmaxnreg and of warps that are counted twice: nothing that is made to
    be forgotten."""
    return (f.obligation is Obligation.O8 or f.rule == "SV301") and f.strict_only


class _Weakening:
    """What makes a run know less: limits of its matrices, and times that are put off."""

    def __init__(self, thresholds: ThresholdAbstraction) -> None:
        self.run = thresholds.run
        self.abstraction = thresholds
        self.kept: dict[Place, Set[int]] = {}  # which rows reach a threshold, and may
        self.times: dict[tuple[int, int], int] = {}  # by class and by identity of the access
        self.requests = thresholds.requests
        self.whole = thresholds.matrices
        self.single = thresholds.rows
        self.limits: dict[int, Matrix] = {}  # by identity of the matrix

    def width(self, kind: int) -> int:
        """How many rows are asked for thresholds of a kind, without those of waits."""
        return len(self.whole) * (SLICES[kind].stop - SLICES[kind].start) + len(self.single) * (kind == ORDER)

    def limit(self, kind: int, row: int) -> Matrix:
        """The limits of one of these rows."""
        i, k = divmod(row, SLICES[kind].stop - SLICES[kind].start)
        m = self.whole[i] if i < len(self.whole) else self.single[i - len(self.whole)]
        if id(m) not in self.limits:
            self.limits[id(m)] = np.full(m.shape, ANYTHING, dtype=np.int32)
        limits = self.limits[id(m)]
        row_limits: Matrix = limits[SLICES[kind].start + k] if i < len(self.whole) else limits
        return row_limits

    def entry(self, kind: int, row: int, column: int) -> int:
        width = SLICES[kind].stop - SLICES[kind].start
        i, k = divmod(row, width)
        if i >= len(self.whole):
            return int(self.single[i - len(self.whole)][column])
        return int(self.whole[i][SLICES[kind].start + k, column])

    def forget(self, place: Place, rows: list[int], holders: list[int]) -> None:
        """Makes rows that have reached a threshold miss it, unless they would miss more."""
        kind, _ = place
        column, value = self.abstraction.value(place)
        limit = value - 1
        if kind == ORDER:
            if self.lost_below(column, value, rows):
                return
            # what is known of requests stays
            limit = max(limit, *(v for c, v in self.requests if c == column), limit)
        elif column < self.run.columns.classes:
            most = max(self.entry(kind, row, column) for row in rows)
            if self.lost_before(column, most, holders):
                return
            later = [self.postpone_times(column, self.abstraction.seen[j], most + 1) for j in holders]
            limit = min(later, default=value) - 1
        for row in rows:
            limits = self.limit(kind, row)
            limits[column] = min(int(limits[column]), limit)

    def lost_below(self, column: int, value: int, rows: list[int]) -> bool:
        """Whether rows that are lowered to miss a threshold miss a higher one of its column."""
        return any(
            c == column and v > value and not self.kept.get((ORDER, i), NONE).isdisjoint(rows)
            for (c, v), i in self.abstraction.asked[ORDER].items()
        )

    def lost_before(self, column: int, most: int, holders: list[int]) -> bool:
        """Whether rows that come to no more than the most miss accesses that are put off beyond it."""
        for place in (p for j in holders for p in self.abstraction.records[j][1]):
            kept = self.kept.get(place, NONE)
            if self.abstraction.value(place)[0] == column and any(
                self.entry(place[0], row, column) <= most for row in kept
            ):
                return True
        return False

    def postpone_times(self, cls: int, r: Record, new: int) -> int:
        """A time of a class, never beyond what it has come to; returns that."""
        key = cls, id(r)
        self.times[key] = max(min(new, self.run.threads[cls].time), self.times.get(key, 0))
        return self.times[key]

    def less(self, m: Matrix) -> Matrix:
        """A copy of a matrix or a row with its entries lowered."""
        limit = self.limits.get(id(m))
        new: Matrix = m.copy() if limit is None else np.minimum(m, limit)
        return new

    def all(self, run: Run) -> None:
        for t in run.threads:
            t.clock.m = self.less(t.clock.m)
            t.release_fence = None if t.release_fence is None else self.less(t.release_fence)
            t.acquirable = None if t.acquirable is None else self.less(t.acquirable)
            t.acquirable_far = None if t.acquirable_far is None else self.less(t.acquirable_far)
            t.issues = [self.less(m) if id(m) in self.limits else m for m in t.issues]
        for s in run.barriers.values():
            s.phases = [*(self.phase(p) for p in s.phases[:2]), *s.phases[2:]]
        named = run.named.values()
        open_ones = [n.gen for n in (*named, *run.clusters.values())]
        for g in (*open_ones, *(part for n in named for part in n.partial.values())):
            g.m = self.less(g.m)
            g.near = {cta: self.less(m) for cta, m in g.near.items()}
        run.ledger = [self.step(x) for x in run.ledger]
        self.accesses(run)

    def step(self, x: Step) -> Step:
        """What a cluster of a block group has done with a flag."""
        if not isinstance(x, FlagWrite):
            return x
        released = None if x.write.released is None else self.less(x.write.released)
        return replace(x, write=replace(x.write, past=self.less(x.write.past), released=released))

    def phase(self, p: Phase) -> Phase:
        far = None if p.far is None else self.less(p.far)
        new: Phase = flat(p, m=self.less(p.m), tx=self.less(p.tx), far=far)
        return new

    def accesses(self, run: Run) -> None:
        """Puts copies in place of accesses whose times are put off."""
        copies: dict[int, Record] = {}

        def new(r: Record) -> Record:
            time = self.times.get((r.cls, id(r)), 0)
            if time <= r.time:
                return r
            if id(r) not in copies:
                parts = tuple([flat(part, time=time) for part in r.parts])
                used = max(r.used, time) if r.used > 0 else r.used
                copies[id(r)] = flat(r, time=time, used=used, parts=parts)
            return copies[id(r)]

        for shadow in run.memory.values():
            for s in shadow._segments:
                s.write = None if s.write is None else new(s.write)
                s.reads = {key: new(r) for key, r in s.reads.items()}
        for t in run.threads:
            t.registers = {key: new(r) for key, r in t.registers.items()}
            t.unsure = {key: new(r) for key, r in t.unsure.items()}
            t.stores = [new(r) for r in t.stores]


__all__ = [
    "KnowledgeAbstraction",
    "abstract_knowledge",
    "always_a_warning",
    "coarsen",
    "independent_of_knowledge",
    "is_non_monotone_event",
    "is_strict_only_pair",
    "masks_failure",
    "supports_knowledge_order",
    "weaken",
]
