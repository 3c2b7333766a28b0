"""Counters in shared memory whose atomics hand out slot numbers: no two of them bring one number.

A counter is a word that atomics add to, all of them counts of one sign. Plain stores *reset* it. What the
atomics between two resets bring differs by their counts: each reads what the one before left (PTX ISA,
Atomicity). ``distance`` is by how much two numbers differ at least. Counts are numbers, or those of a mask
that lanes then have their ranks in.

What the numbers are follows where each reset stores a number and comes in the same turn for all threads.
Example: ``if (t == 0) n = 0; __syncthreads(); if (x > 0) buf[atomicAdd(&n, 1)] = x;`` in a block of 64
threads. All pass the reset before the atomic, which each executes once at most, so it brings 0 to 63.

*Why the numbers lie between the bounds.* Branches that decide about a reset and about barriers of the block
are decided alike by all threads, but for one that numbers of threads decide. So all pass resets and barriers
in one order, and what a thread adds between passing two resets is added between these (that no atomic races
with a reset, the run shows). A thread adds there at most what the heaviest path between two resets does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from syncverify.frontends.ptx.analysis.arrays.address_ranges import AddressRanges, Interval
from syncverify.frontends.ptx.analysis.registers.thread_values import ThreadValues
from syncverify.frontends.ptx.analysis.registers.uniformity import Uniformity
from syncverify.frontends.ptx.analysis.slots.slot_forms import Paths
from syncverify.frontends.ptx.analysis.slots.slot_sums import MOST_NUMBER
from syncverify.frontends.ptx.analysis.warps.lane_ranks import ALONE, LaneRanks
from syncverify.frontends.ptx.decode.memory import Access, decode_access
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.forward_stores import orders_nothing
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Label, Mem, Reg
from syncverify.frontends.ptx.syntax.types import width
from syncverify.model.events import Ev

Flags = NDArray[np.bool_]
#: What accesses no shared memory, or only reads it.
_SILENT = frozenset("bra ret exit bar barrier fence membar trap brkpt nanosleep ldmatrix mma elect".split())
_NO_RELEASE = frozenset("bra ld ldu ldmatrix mma nanosleep ret exit elect cp".split())
_RELEASES = frozenset({"release", "acq_rel"})
_STRONG = frozenset({"volatile", "relaxed", "release", "mmio"})
_WARP = 32
#: Atomics that a kernel may have; more are not looked at.
MOST_ATOMICS = 64


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter by its place in shared memory, its atomics and resets. ``numbers``: what an atomic brings;
    ``units``: all that is handed out. ``bounded``: these follow from how often atomics are executed."""

    place: int
    atomics: frozenset[int]
    resets: frozenset[int]
    distance: int
    numbers: Interval
    units: Interval
    bounded: bool


@dataclass(frozen=True)
class SlotCounters:
    """The counters of a function in a block of one shape. ``ranges``: of registers, for its threads."""

    flow: Flow
    ranks: LaneRanks
    ranges: AddressRanges
    paths: Paths

    @property
    def uniformity(self) -> Uniformity:
        """What values vary with."""
        return self.ranks.uniformity

    @cached_property
    def writes(self) -> Mapping[int, Access] | None:
        """The accesses that may write shared memory; None where something else may."""
        found: dict[int, Access] = {}
        for k, i in enumerate(self.flow.body):
            if self.flow.block_of[k] not in self.flow.reached:
                continue
            if i.op == "mapa" or "shared::cluster" in i.mods:
                return None
            if orders_nothing(i) or i.op in _SILENT:
                continue
            access = _copied(i) or decode_access(i)
            if access is None and not _elsewhere(i):
                return None
            if access is not None and access.code != Ev.READ:
                found[k] = access
        return found

    @cached_property
    def atomics(self) -> frozenset[int]:
        """Those that may hand out numbers: they add to a word at one place."""
        writes = self.writes or {}
        found = [k for k in writes if self._adds(k) and self._place(k) is not None]
        return frozenset(found if len(found) <= MOST_ATOMICS else ())

    def _adds(self, k: int) -> bool:
        i = self.flow.body[k]
        plain = "add" in i.mods and i.mods[-1] in ("u32", "s32") and i.guard is None
        return plain and i.op in ("atom", "red") and self.count(k) is not None

    def count(self, k: int) -> int | None:
        """What an atomic adds; 0: how many lanes a mask has."""
        op = self.flow.body[k].operands[-1]
        n = self.uniformity.constant(op, k)
        if n is not None:
            n = (n + (1 << 31) & (1 << 32) - 1) - (1 << 31)
            return n if n and abs(n) < MOST_NUMBER else None
        return 0 if self.counted(k) is not None else None

    def counted(self, k: int) -> int | None:
        """The ``popc`` that makes what an atomic adds."""
        op, versions = self.flow.body[k].operands[-1], self.flow.versions
        at = versions.writer[versions.read(op.name, k)] if isinstance(op, Reg) else -1
        counts = at >= 0 and self.flow.body[at].name == "popc.b32" and self.flow.body[at].guard is None
        return at if counts else None

    def _origin(self, k: int) -> int | None:
        """What makes the mask whose lanes an atomic adds."""
        popc = self.counted(k)
        mask = None if popc is None else self.flow.body[popc].operands[1]
        return (
            self.ranks.masks.values.origin(mask, popc) if popc is not None and isinstance(mask, Reg) else None
        )

    def _place(self, k: int) -> int | None:
        places = self.ranges.reached(k).places
        return places.low if places is not None and places.low == places.high else None

    def of(self, atomic: int, apart: Mapping[int, Interval | None]) -> Counter | None:
        """The counter of an atomic. ``apart``: the places of stores at slots, with what they reach; None
        where that is not known yet, which the caller asks for afterwards."""
        place = self._place(atomic)
        if place is None or self.writes is None:
            return None
        same = frozenset(k for k in self.atomics if self._place(k) == place)
        resets = self._resets(place, same, apart)
        counts = [n for k in same if (n := self.count(k)) is not None]
        if (
            not resets
            or None in [self._stored(k, place) for k in resets]
            or min(counts) < 0 < max(counts) + (0 in counts)
        ):
            return None
        distance = min(abs(n) or 1 for n in counts)
        known = self._numbers(same, resets, place)
        if known is not None:
            return Counter(place, same, resets, distance, *known, bounded=True)
        if min(counts) < 0 or not self._begins(same, resets):
            return None
        any_ = Interval(min(self._stored(k, place) or 0 for k in resets), MOST_NUMBER)
        return Counter(place, same, resets, distance, any_, any_, bounded=False)

    # ------------------------------------------------------------ resets

    def _resets(
        self, place: int, atomics: frozenset[int], apart: Mapping[int, Interval | None]
    ) -> frozenset[int] | None:
        """The plain stores that may write a counter; None where it is written in another way."""
        found = []
        for k, access in (self.writes or {}).items():
            reached = self.ranges.reached(k).places
            if k in apart:
                reached = apart[k]
                if reached is None:
                    continue
            if reached is not None and (reached.low >= place + 4 or reached.high + access.bytes <= place):
                continue
            if k in atomics:
                continue
            if self.flow.body[k].op != "st" or not _STRONG.isdisjoint(self.flow.body[k].mods):
                return None
            found.append(k)
        return frozenset(found)

    def _stored(self, k: int, place: int) -> int | None:
        """The number that a reset stores; None: another one, or elsewhere too."""
        i = self.flow.body[k]
        whole = self._place(k) == place and i.op == "st" and width(i.mods[-1]) == 32 and len(i.operands) == 2
        n = self.uniformity.constant(i.operands[1], k) if whole else None
        return n if n is not None and 0 <= n < MOST_NUMBER else None

    def _passes(self, k: int) -> int | None:
        """Where all threads pass a reset that some of them make each time; None: not known."""
        flow = self.flow
        above = self._above(flow.block_of[k])
        own = [b for b in above if not self._alike(b)]
        here = flow.block_of[k]
        making = self._coming(k, own, surely=True)
        if making is None or not making.any():
            return None
        if not own:
            return k
        first = next((b for b in own if all(flow.dominates(b, x) for x in (*own, here))), None)
        if first is None:
            return None
        at = flow.blocks[first].hi - 1
        return (
            at
            if all(releases_nothing(flow.body[j]) for j in self.paths.between(at, k, frozenset({at})))
            else None
        )

    def _begins(self, atomics: frozenset[int], resets: Iterable[int]) -> bool:
        """Whether some reset comes before each atomic."""
        passed = frozenset(p for k in resets if (p := self._passes(k)) is not None)
        return not self.paths.after(-1, passed) & atomics

    # ------------------------------------------------------------ numbers

    def _numbers(
        self, atomics: frozenset[int], resets: frozenset[int], place: int
    ) -> tuple[Interval, Interval] | None:
        """What atomics of a counter bring, and all that they hand out."""
        stored = [self._stored(k, place) for k in resets]
        passed = [self._passes(k) for k in resets]
        numbers, ways = [n for n in stored if n is not None], frozenset(p for p in passed if p is not None)
        if None in passed or not self.barriers_only or not self._barriers_alike:
            return None
        if self.paths.after(-1, ways) & atomics:
            return None  # no reset comes before
        total = self._added(atomics, ways)
        if total is None or total > MOST_NUMBER:
            return None
        counts = [self.count(k) or 1 for k in atomics]
        low, high, less = min(numbers), max(numbers), min(map(abs, counts))
        if max(counts) < 0:
            return Interval(low - total + less, high), Interval(low - total, high)
        return Interval(low, high + max(total - less, 0)), Interval(low, high + max(total - 1, 0))

    def _added(self, atomics: frozenset[int], resets: frozenset[int]) -> int | None:
        """The most that all threads together add between two resets; None where that has no bound."""
        behind = {k: self.paths.after(k, resets) & atomics for k in atomics}
        if any(k in found for k, found in behind.items()):
            return None
        weights = {k: self._weight(k) for k in atomics}
        heaviest: dict[int, NDArray[np.int64]] = {}
        for k in sorted(atomics, key=lambda k: len(behind[k])):
            rest = [heaviest[j] for j in behind[k]]
            heaviest[k] = weights[k] + (np.max(rest, axis=0) if rest else 0)
        return int(np.max(list(heaviest.values()), axis=0).sum())

    def _weight(self, k: int) -> NDArray[np.int64]:
        """What each thread adds by an atomic. Lanes of a mask are counted once for a warp; where one lane
        adds for its group, each lane of the group for itself."""
        leader = None if self.count(k) else self.ranks.led(k)
        if leader is not None and self._origin(k) == leader.made:
            above = self._above(self.flow.block_of[leader.made])
            grouped = self._coming(leader.made, above, surely=False)
            assert grouped is not None
            return grouped.astype(np.int64)
        coming = self._coming(k, self._above(self.flow.block_of[k]), surely=False)
        assert coming is not None
        count = self.count(k) or 0
        if count or self.ranks.apart(k) != ALONE:
            return coming.astype(np.int64) * (abs(count) or _WARP)
        found = np.zeros(len(coming), dtype=np.int64)
        for first in range(0, len(coming), _WARP):
            of_warp = coming[first : first + _WARP]
            if of_warp.any():
                found[first] = len(of_warp)
        return found

    @cached_property
    def barriers_only(self) -> bool:
        """Whether threads tell each other of what they did by barriers alone, of the block or of a warp."""
        reached = [i for k, i in enumerate(self.flow.body) if self.flow.block_of[k] in self.flow.reached]
        return all(releases_nothing(i) or i.op == "trap" or self.is_barrier(i) for i in reached)

    @cached_property
    def _barriers_alike(self) -> bool:
        """Whether all threads come to barriers in one order."""
        flow = self.flow
        return all(
            all(map(self._alike, self._above(flow.block_of[k])))
            for k, i in enumerate(flow.body)
            if self.is_barrier(i) and flow.block_of[k] in flow.reached
        )

    def is_barrier(self, i: Instr) -> bool:
        """Whether all threads of the block, or all lanes of the warp, meet at an instruction."""
        if i.op not in ("bar", "barrier") or i.guard is not None or len(i.operands) != 1:
            return False
        if "warp" in i.mods:
            return "sync" in i.mods and self.ranks.masks.values.all_lanes(i.operands[0])
        return "sync" in i.mods and "cluster" not in i.mods

    @cached_property
    def barriers(self) -> frozenset[int]:
        """The barriers of all threads of the block, or of all lanes of the warp."""
        return frozenset(k for k, i in enumerate(self.flow.body) if self.is_barrier(i))

    # ------------------------------------------------------------ branches

    @cached_property
    def _controllers(self) -> Sequence[set[int]]:
        return self.flow.controllers()

    def _above(self, block: int) -> set[int]:
        found: set[int] = set()
        work = [block]
        while work:
            more = self._controllers[work.pop()] - found
            found |= more
            work += more
        return found

    def _alike(self, block: int) -> bool:
        """Whether all threads decide alike at the end of a block, each time."""
        return self.uniformity.decided_alike(self.flow.blocks[block].hi - 1, ())

    @cached_property
    def _values(self) -> ThreadValues:
        x, y, z = self.uniformity.block
        return ThreadValues(self.flow, (x, y, z))

    def all_come(self, counter: Counter, k: int) -> bool:
        """Whether numbers of threads alone decide who takes a number, and whoever does comes to ``k``."""
        here = self._coming(k, self._above(self.flow.block_of[k]), surely=True)
        for at in counter.atomics:
            takes = self._coming(at, self._above(self.flow.block_of[at]), surely=True)
            if here is None or takes is None or (takes & ~here).any():
                return False
        return True

    def _coming(self, k: int, above: Iterable[int], *, surely: bool) -> Flags | None:
        """The threads that may come to an instruction, as far as their numbers decide at some branches;
        ``surely``: those that do, None where something else decides."""
        coming = np.ones(self._values.threads, dtype=np.bool_)
        here, own = self.flow.block_of[k], self.flow.body[k].guard
        if own is not None:
            holds = self._values.read(own, k)
            if holds is None and surely:
                return None
            coming &= True if holds is None else (holds != 0) != self.flow.body[k].negated
        for b in above:
            ways = self._ways(b, here)
            if ways is None and surely:
                return None
            coming &= True if ways is None else ways
        return coming

    def _ways(self, b: int, here: int) -> Flags | None:
        """The threads that go from a branch the only way to a block; None where their numbers do not decide,
        or both ways lead there."""
        flow, at = self.flow, self.flow.blocks[b].hi - 1
        last = flow.body[at]
        target = next((op.target for op in last.operands if isinstance(op, Label)), None)
        if last.op != "bra" or last.guard is None or target is None or at + 1 >= len(flow.body):
            return None
        holds = self._values.read(last.guard, at)
        if holds is None or target >= len(flow.body):
            return None
        jumps: Flags = (holds != 0) != last.negated
        for way, taken in ((flow.block_of[target], jumps), (flow.block_of[at + 1], ~jumps)):
            alone = all(p == b for p in flow.blocks[way].pred)
            if way != b and alone and flow.dominates(way, here):
                return taken
        return None


def _elsewhere(i: Instr) -> bool:
    """Whether an instruction writes nothing in shared memory: its state space is another one."""
    spaces = {m.split("::")[0] for m in i.mods}
    if i.op == "cp":
        return i.name in ("cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all")
    if i.op in ("st", "red", "atom", "ld", "ldu", "prefetch"):
        return bool(spaces & {"global", "local", "const", "param"}) and "shared" not in spaces
    return False


def _copied(i: Instr) -> Access | None:
    """What ``cp.async`` writes."""
    place, size = (*i.operands, None, None)[:2], (*i.operands, None, None, None)[2]
    if i.op != "cp" or i.mods[:1] != ("async",) or "bulk" in i.mods or not isinstance(place[0], Mem):
        return None
    return Access(Ev.WRITE, place[0], (place[0],), size.value, "shared") if isinstance(size, Imm) else None


def releases_nothing(i: Instr) -> bool:
    """Whether no other thread can learn by an instruction of what comes before it."""
    if i.op in ("st", "red", "atom") and i.mods[:1] not in (("async",), ("bulk",)):
        return _RELEASES.isdisjoint(i.mods)
    return orders_nothing(i) or i.op in _NO_RELEASE


__all__ = ["MOST_ATOMICS", "Counter", "SlotCounters", "releases_nothing"]
