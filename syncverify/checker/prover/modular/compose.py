"""Clusters of a block group that were run alone, put together: see docs/block_groups.md, "Members of a block
group".

They run one after the other. Each spin is passed with the writes of flags so far, and what it hands on is
determined by these; then any two accesses of different clusters are compared.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from syncverify.checker.happens_before.effect_log import Bytes
from syncverify.checker.happens_before.flag_state import restored_at
from syncverify.checker.happens_before.handlers.flag_order import COMPARE, decided, first_true
from syncverify.checker.happens_before.handlers.global_memory import Location, Spin, Write
from syncverify.model.ordering import Need, ordering
from syncverify.model.proxies import Access as Kind
from syncverify.model.proxies import Scope

#: Some accesses or steps of clusters: bits, by their numbers among those of all.
BitSet = int
Numbers = frozenset[int]


@dataclass(frozen=True, slots=True)
class FlagTest:
    """A spin on a flag."""

    flag: Bytes
    compare: str
    value: int
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class ReleasedKnowledge:
    """What a release hands on: accesses of its own cluster that are over, and bridged to the async proxy; of
    which spins the accesses that these showed to be over, the same bridged, and those that were bridged."""

    over: Numbers
    bridged: Numbers
    seen: Numbers
    fenced: Numbers
    carried: Numbers


@dataclass(frozen=True, slots=True)
class FlagSignal:
    """A write of a flag. ``before``: steps of its cluster that come before it in every execution;
    ``tests``: spins whose signals do."""

    flag: Bytes
    value: int | None
    added: int | None
    lanes: int
    before: Numbers
    tests: Numbers
    handed: ReleasedKnowledge | None


@dataclass(frozen=True, slots=True)
class Access:
    """An access to tracked memory. ``seen``, ``fenced``, ``carried``: as of what is handed on; ``near``: as
    ``fenced``, by a fence of the own block."""

    places: tuple[Bytes, ...]
    kind: Kind
    atomic: bool
    scope: int
    seen: Numbers
    fenced: Numbers
    carried: Numbers
    near: Numbers = frozenset()


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """What one cluster does with flags, in the order of its run, and its accesses."""

    steps: tuple[FlagTest | FlagSignal, ...]
    accesses: tuple[Access, ...]


#: Accesses of two clusters that must be in order: of each pair the numbers, and whether the first must be
#: bridged as well; None: nothing orders them. Last whether strict mode asks for a fence in the second's
#: block.
Pairs = tuple[tuple[int, int, bool | None, bool], ...]


@dataclass(frozen=True, slots=True)
class _Acquired:
    """What a spin makes known: steps in every execution, accesses that are over, and bridged."""

    order: BitSet = 0
    over: BitSet = 0
    bridged: BitSet = 0

    def __or__(self, other: _Acquired) -> _Acquired:
        return _Acquired(self.order | other.order, self.over | other.over, self.bridged | other.bridged)

    def within(self, other: _Acquired) -> bool:
        """Whether all accesses that these steps show to be over, or bridged, others show too."""
        return not (self.over & ~other.over or self.bridged & ~other.bridged)


@dataclass(slots=True)
class Composition:
    """Some clusters of a block group, the first ones."""

    summaries: Sequence[ClusterSummary]
    locations: dict[Bytes, Location] = field(default_factory=dict)
    acquired: list[list[_Acquired]] = field(default_factory=list)
    released: dict[int, _Acquired] = field(default_factory=dict)  # by the number of the write
    steps: list[int] = field(default_factory=list)  # of each cluster the number of its first step
    accesses: list[int] = field(default_factory=list)  # and access
    total: int = 0
    pairs: dict[tuple[int, int], Pairs] = field(default_factory=dict)  # by the identities of two accounts
    strict: bool = False

    def wrong(self) -> str | None:
        """Why the clusters may not run so; None if they may, whatever the schedule."""
        self.total = sum(len(a.steps) for a in self.summaries)
        for account in self.summaries:
            stuck = self.follow(account)
            if stuck is not None:
                return stuck
        for at in self.locations.values():
            if not all(decided(at, s) for s in at.spins):
                return "several writes may end a spin: which one comes first is not decided"
        return self.overlaid() or self.raced()

    @property
    def restores(self) -> bool:
        """Whether all flags are 0 again at the end."""
        return all(restored_at(x) for x in self.locations.values() if x.writes)

    # ------------------------------------------------------------ flags

    def follow(self, account: ClusterSummary) -> str | None:
        """The next cluster, with all its spins and signals."""
        first = self.steps[-1] + len(self.summaries[len(self.steps) - 1].steps) if self.steps else 0
        reach = self.accesses[-1] + len(self.summaries[len(self.steps) - 1].accesses) if self.steps else 0
        self.steps.append(first)
        self.accesses.append(reach)
        self.acquired.append([])
        for i, step in enumerate(account.steps):
            at = self.locations.setdefault(step.flag, Location())
            if isinstance(step, FlagSignal):
                self.write(at, step, first + i)
            elif at.value is None or not COMPARE[step.compare](at.value, step.value):
                return "a cluster waits for what those before it do not bring"
            else:
                self.look(at, step, first + i)
        return None

    def look(self, at: Location, step: FlagTest, number: int) -> None:
        seen = first_true(at, step.compare, step.value)
        at.spins.append(Spin(number, 1, -1, step.compare, step.value, seen, unsigned=step.unsigned))
        found = _Acquired()
        for w in at.writes[:seen]:
            if w.added is not None or w is at.writes[seen - 1]:
                found |= self.released[w.cls]
        self.acquired[-1].append(found)

    def write(self, at: Location, step: FlagSignal, number: int) -> None:
        spins = self.acquired[-1]
        order = _bits(step.before, self.steps[-1]) | 1 << number
        for i in step.tests:
            order |= spins[i].order
        over = bridged = 0
        if step.handed is not None:
            over = _bits(step.handed.over, self.accesses[-1]) | self.over(step.handed.seen)
            bridged = _bits(step.handed.bridged, self.accesses[-1]) | self.bridged(step.handed)
        self.released[number] = _Acquired(order, over, bridged)
        if step.added is not None:
            at.value = None if at.value is None else at.value + step.added
        else:
            at.value = step.value
        past = np.array([order >> i & 1 for i in range(self.total)], dtype=np.int32)
        mine = self.released[number]
        after = next((n for n, w in enumerate(at.writes) if not order >> w.cls & 1), len(at.writes))
        covers = frozenset(n for n, w in enumerate(at.writes) if self.released[w.cls].within(mine))
        at.writes.append(
            Write(number, 1, at.value, step.added, past, -1, step.lanes, after=after, covers=covers)
        )

    def over(self, spins: Numbers, cluster: int = -1) -> BitSet:
        """The accesses that some spins of a cluster show to be over."""
        found = 0
        for i in spins:
            found |= self.acquired[cluster][i].over
        return found

    def bridged(self, known: ReleasedKnowledge | Access, cluster: int = -1) -> BitSet:
        """And those that are bridged: by a fence after the spin, or before the signal."""
        found = self.over(known.fenced, cluster)
        for i in known.carried:
            found |= self.acquired[cluster][i].bridged
        return found

    # ------------------------------------------------------------ memory

    def overlaid(self) -> str | None:
        """Flags are whole, and nothing but signals writes them."""
        flags = sorted(self.locations)
        if any(a[1] > b[0] for a, b in pairwise(flags)):
            return "flags that overlap"
        for account in self.summaries:
            for x in account.accesses:
                signal = x.atomic and x.kind is Kind.GENERIC_WRITE
                if x.kind.writes and not signal and any(_meet(x.places, (f,)) for f in flags):
                    return "a flag that is written as data"
        return None

    def raced(self) -> str | None:
        """Whether two accesses of different clusters are not in order."""
        for m, account in enumerate(self.summaries):
            known: dict[int, tuple[BitSet, BitSet]] = {}
            for start, before in zip(self.accesses[:m], self.summaries, strict=False):
                for i, j, bridge, near in self.between(before, account):
                    if j not in known:
                        second = account.accesses[j]
                        known[j] = self.over(second.seen, m), self.bridged(second, m)
                    over, bridged = known[j]
                    both = over & bridged if bridge else over
                    if near and self.strict:
                        both &= self.over(account.accesses[j].near, m)
                    if bridge is None or not both >> start + i & 1:
                        return "accesses of two clusters to global memory are not ordered"
        return None

    def between(self, one: ClusterSummary, other: ClusterSummary) -> Pairs:
        """The accesses of two clusters that must be in order."""
        key = id(one), id(other)
        if key not in self.pairs:
            self.pairs[key] = tuple(_between(one, other))
        return self.pairs[key]


def _bits(numbers: Numbers, start: int) -> BitSet:
    found = 0
    for i in numbers:
        found |= 1 << start + i
    return found


def _meet(some: tuple[Bytes, ...], others: tuple[Bytes, ...]) -> bool:
    """Whether intervals have a byte in common."""
    if not some or not others or some[-1][1] <= others[0][0] or others[-1][1] <= some[0][0]:
        return False
    starts = [c for c, _ in others]
    for a, b in some:
        i = bisect_left(starts, b)
        if i and others[i - 1][1] > a:
            return True
    return False


def _meeting(some: Sequence[Access], others: Sequence[Access]) -> Iterator[tuple[int, int]]:
    """The numbers of accesses, one of each side, that have a byte in common, in order."""
    starts = [
        (c, d, side, i)
        for side, accesses in enumerate((some, others))
        for i, x in enumerate(accesses)
        for c, d in x.places
    ]
    found: set[tuple[int, int]] = set()
    open_: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])  # ends, and whose
    for c, d, side, i in sorted(starts):
        opposite = open_[1 - side]
        opposite[:] = [x for x in opposite if x[0] > c]
        found.update((j, i) if side else (i, j) for _, j in opposite)
        open_[side].append((d, i))
    yield from sorted(found, key=lambda pair: pair[::-1])


def _between(one: ClusterSummary, other: ClusterSummary) -> Iterator[tuple[int, int, bool | None, bool]]:
    """The pairs of accesses that meet, and must be in order. That the value of a read was used (K1) is not
    looked at."""
    for i, j in _meeting(one.accesses, other.accesses):
        first, second = one.accesses[i], other.accesses[j]
        need = ordering(first.kind, second.kind).need
        if need is Need.NOTHING:
            continue
        if not (first.atomic and second.atomic):
            bridge = need not in (Need.ORDER, Need.COMPLETION)
            completed = first.kind is Kind.ASYNC_WRITE and second.kind.asynchronous  # K16
            yield i, j, bridge, bridge or completed
        elif first.kind.proxy != second.kind.proxy or min(first.scope, second.scope) < Scope.GPU:
            yield i, j, None, False


__all__ = ["Access", "ClusterSummary", "Composition", "FlagSignal", "FlagTest", "Pairs", "ReleasedKnowledge"]
