"""Edits that may mend a refuted kernel: each changes the events of all agents at one place of the source.

``repairs`` chooses among them and checks what they make of the kernel. An edit is pure: what it keeps in mind
of an agent (``held``) goes in and out of ``apply``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from syncverify.base.source import Span
from syncverify.checker.explain.redundancy import MEETINGS, Passed, Place
from syncverify.model.events import Ev, Event, ThreadClass
from syncverify.model.proxies import Space

WAITS = (Ev.WAIT, Ev.POLL)
GROUP_WAITS = (Ev.CP_WAIT, Ev.BULK_WAIT, Ev.WGMMA_WAIT)
ACCESSES = (Ev.READ, Ev.WRITE, Ev.ATOMIC, Ev.CP_ASYNC)
ISSUES = (Ev.BULK_LOAD, Ev.BULK_STORE, Ev.BULK_COPY, Ev.WGMMA)
#: The id of barriers that are tried out; ids of kernels are seldom so high.
FREE_ID = 15
#: The mask of a whole warp, and its barrier.
ALL_LANES = 0xFFFFFFFF
OF_WARP = "bar.warp.sync 0xffffffff"
#: Warps of a warpgroup.
WARPS_OF_GROUP = 4

#: What a fence or a barrier behind accesses comes before, beside meetings.
_BOUNDS = (*ISSUES, Ev.ST_ASYNC, Ev.WARP_SYNC, Ev.COLLECTIVE)

Pairs = tuple[tuple[int, int], ...]


def footprints(event: Event) -> tuple[int, ...]:
    """What an access or a wgmma touches in shared memory."""
    if event[0] == Ev.WGMMA:
        return tuple(fp for fp in (event[3], event[5]) if fp >= 0)
    return (event[2],)


def _one_more(counts: Pairs, barrier: int) -> Pairs:
    """Counts by barrier, with one more of one."""
    return tuple(sorted({**dict(counts), barrier: dict(counts).get(barrier, 0) + 1}.items()))


def proxy_fence(site: int) -> Event:
    """fence.proxy.async.shared::cta."""
    return (Ev.PROXY_FENCE, site, int(Space.SHARED_CTA), 0)


@dataclass(frozen=True, slots=True)
class OtherParity:
    """Waits at ``place`` ask for the other parity, and those of the places ``also``."""

    place: Span
    also: tuple[Span, ...] = ()

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if event[0] in WAITS and (place[0] == self.place or place[0] in self.also):
            event = (*event[:3], event[3] ^ 1, *event[4:])
        return (event,), None


@dataclass(frozen=True, slots=True)
class CountedParity:
    """The n-th wait of an agent on a barrier, at ``place``, asks for parity ``(n + first) % 2``."""

    place: Span
    first: int

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        counts = dict(held or ())
        if place[0] == self.place and event[0] in WAITS:
            n = counts.get(event[2], 0)
            counts[event[2]] = n + 1
            event = (*event[:3], (n + self.first) & 1, *event[4:])
        return (event,), tuple(sorted(counts.items()))


@dataclass(frozen=True, slots=True)
class InitCounts:
    """Barriers are initialized at ``place`` with the counts given, by barrier; ``anywhere``: wherever."""

    place: Span
    counts: Pairs
    anywhere: bool = False

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if (self.anywhere or place[0] == self.place) and event[0] == Ev.INIT:
            event = (*event[:3], dict(self.counts).get(event[2], event[3]), *event[4:])
        return (event,), None


@dataclass(frozen=True, slots=True)
class ExpectBytes:
    """``place`` announces as many bytes as one lap of copies moves, by barrier."""

    place: Span
    bytes: Pairs

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] == self.place and event[0] in (Ev.ARRIVE, Ev.EXPECT_TX):
            amount = dict(self.bytes).get(event[2])
            if event[0] == Ev.ARRIVE and event[4] >= 0 and amount is not None:
                event = (*event[:4], amount // cls.count, *event[5:])
            elif event[0] == Ev.EXPECT_TX and amount is not None:
                event = (*event[:3], amount // cls.count)
        return (event,), None


@dataclass(frozen=True, slots=True)
class DropAt:
    """Events of kind ``code`` at ``place`` are gone."""

    place: Span
    code: int

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        return () if place[0] == self.place and event[0] == self.code else (event,), None


@dataclass(frozen=True, slots=True)
class ArriveLater:
    """Arrivals at ``place`` come right before their agent's next meeting with others, behind a ``fence``."""

    place: Span
    fence: bool

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] == self.place and event[0] in (Ev.ARRIVE, Ev.BARRIER_ARRIVE):
            return (), (*(held or ()), event)
        if held and event[0] in MEETINGS:
            fence = (proxy_fence(event[1]),) if self.fence else ()
            return (*fence, *held, event), None
        return (event,), held


@dataclass(frozen=True, slots=True)
class ArriveToo:
    """The first arrival of threads at a barrier of threads at ``place`` is at another one, too."""

    place: Span
    number: int
    threads: int

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] != self.place or event[0] != Ev.BARRIER_ARRIVE or held:
            return (event,), held
        return (event, (*event[:2], self.number, self.threads, *event[4:])), True


@dataclass(frozen=True, slots=True)
class FewerPending:
    """The wait for groups at ``place`` leaves ``pending`` of them."""

    place: Span
    pending: int

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] == self.place and event[0] in GROUP_WAITS:
            event = (*event[:2], self.pending, *event[3:])
        return (event,), None


@dataclass(frozen=True, slots=True)
class WaitBefore:
    """Before an access at ``place`` the copy into its bytes is waited for, in uses counted from 0.

    ``barriers``: by footprint of the access, the barrier on which the copies into these bytes complete.
    ``with_others``: uses that are waited for elsewhere count, too.
    """

    place: Span
    barriers: Pairs
    with_others: bool = False

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        counts, last = held or ((), None)
        if event[0] in (Ev.ARRIVE, Ev.BARRIER_SYNC):
            last = None
        if self.with_others and event[0] == Ev.WAIT:
            counts = _one_more(counts, event[2])
        if place[0] != self.place or event[0] not in (*ACCESSES, Ev.WGMMA):
            return (event,), (counts, last)
        known = dict(self.barriers)
        barrier = next((known[fp] for fp in footprints(event) if fp in known), None)
        if barrier is None or barrier == last:
            return (event,), (counts, last)
        wait = (Ev.WAIT, event[1], barrier, dict(counts).get(barrier, 0) & 1, 0)
        return (wait, event), (_one_more(counts, barrier), barrier)


@dataclass(frozen=True, slots=True)
class Insert:
    """Behind the accesses at ``place``, before their agent meets others: a fence, a barrier, or both.

    ``warps``: those that the barrier holds together; none for a fence alone. ``ahead``: the barrier comes
    before the first access instead. ``lanes``: the barrier is one of each warp's own lanes; ``cluster``: of
    all threads of the cluster.
    """

    place: Span
    fence: bool
    warps: frozenset[tuple[int, int]] = frozenset()
    ahead: bool = False
    lanes: bool = False
    cluster: bool = False

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        new: list[Event] = []
        here = place[0] == self.place and event[0] in (*ACCESSES, *ISSUES)
        if self.ahead:
            if here and not held:
                new = self._inserted(event[1], cls)
            return (*new, event), here or (held and event[0] not in MEETINGS) or None
        if held and not here and (event[0] in MEETINGS or event[0] in _BOUNDS):
            return (*self._inserted(event[1], cls), event), None
        return (event,), True if here else held

    def _inserted(self, site: int, cls: ThreadClass) -> list[Event]:
        events: list[Event] = []
        if self.fence:
            events.append(proxy_fence(site))
        if self.lanes:
            events.append((Ev.WARP_SYNC, site, ALL_LANES))
        if self.cluster:
            events += [(Ev.CLUSTER_ARRIVE, site, 0), (Ev.CLUSTER_WAIT, site, 0)]
        if (cls.cta, cls.warp) in self.warps:
            mine = sum(1 for cta, _ in self.warps if cta == cls.cta)
            events.append((Ev.BARRIER_SYNC, site, FREE_ID, 32 * mine, 0))
        return events


@dataclass(frozen=True, slots=True)
class InsertOperation:
    """An operation that concerns its own thread's groups, before or behind the events at ``place``.

    ``code`` and ``operands``: the event; ``text``: the instruction. Of events at the place that follow each
    other, it comes before the first, or behind the last.
    """

    place: Span
    code: int
    operands: tuple[int, ...]
    text: str
    ahead: bool = False

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        here = place[0] == self.place and event[0] not in (self.code, Ev.EXIT)
        if here is bool(held):
            return (event,), held
        new = (self.code, event[1], *self.operands)
        return ((new, event) if here is self.ahead else (event,)), here or None


@dataclass(frozen=True, slots=True)
class DrainAtEnd:
    """Threads that issued bulk stores wait for their reads before they leave."""

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if event[0] == Ev.EXIT and held:
            site = event[1]
            return ((Ev.BULK_COMMIT, site), (Ev.BULK_WAIT, site, 0, 1), event), None
        return (event,), True if event[0] == Ev.BULK_STORE else held


@dataclass(frozen=True, slots=True)
class CommitStores:
    """Behind the bulk stores at ``place`` their issuer commits them."""

    place: Span

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if event[0] == Ev.BULK_STORE and place[0] == self.place:
            return (event, (Ev.BULK_COMMIT, event[1])), None
        return (event,), None


@dataclass(frozen=True, slots=True)
class ClusterBarrierAtEnd:
    """All threads of the cluster meet before they leave."""

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if event[0] == Ev.EXIT:
            return ((Ev.CLUSTER_ARRIVE, event[1], 0), (Ev.CLUSTER_WAIT, event[1], 0), event), None
        return (event,), None


@dataclass(frozen=True, slots=True)
class OwnBarriers:
    """Each warpgroup meets at a named barrier of its own instead of at ``number``."""

    number: int

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if event[0] in (Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE) and event[2] == self.number:
            event = (*event[:2], FREE_ID - cls.warp // WARPS_OF_GROUP, *event[3:])
        return (event,), None


@dataclass(frozen=True, slots=True)
class WaitReads:
    """Threads that issued bulk stores wait for their reads before they hand over next behind ``place``."""

    place: Span

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if event[0] in (Ev.BARRIER_SYNC, Ev.ARRIVE) and held:
            return ((Ev.BULK_WAIT, event[1], 0, 1), event), None
        return (event,), True if event[0] == Ev.BULK_STORE and place[0] == self.place else held


@dataclass(frozen=True, slots=True)
class BarrierCount:
    """Barriers are for so many threads, by their number."""

    threads: Pairs

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if event[0] in (Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE):
            event = (*event[:3], dict(self.threads).get(event[2], event[3]), *event[4:])
        return (event,), None


@dataclass(frozen=True, slots=True)
class InitToo:
    """Who initializes barriers at ``place`` initializes further ones, with the counts given."""

    place: Span
    counts: Pairs

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] != self.place or event[0] != Ev.INIT or held:
            return (event,), held
        return (event, *((Ev.INIT, event[1], b, count) for b, count in self.counts)), True


@dataclass(frozen=True, slots=True)
class BarrierBehindInit:
    """All threads of the block meet before the first event of any that is not an init."""

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if held or event[0] in (Ev.INIT, Ev.INIT_FENCE):
            return (event,), held
        return ((Ev.BARRIER_SYNC, event[1], FREE_ID, 0, 0), event), True


@dataclass(frozen=True, slots=True)
class Announce:
    """Before a bulk copy at ``place`` its bytes are announced, with an arrival."""

    place: Span

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] != self.place or event[0] != Ev.BULK_LOAD:
            return (event,), None
        arrivals = ((Ev.ARRIVE, event[1], barrier, 1, amount, 0) for _, barrier, amount in event[2])
        return (*arrivals, event), None


@dataclass(frozen=True, slots=True)
class WaitForFree:
    """Before the announcement at ``place`` its issuer waits until the slot is free: the first time at once.

    ``barriers``: by the barrier announced on, that on which the readers of the slot arrive.
    ``with_others``: waits elsewhere count, too. ``scope``: of the wait, as a flag.
    """

    place: Span
    barriers: Pairs
    with_others: bool = False
    scope: int = 0

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        seen: Pairs = held or ()
        if self.with_others and event[0] == Ev.WAIT:
            seen = _one_more(seen, event[2])
        free = dict(self.barriers).get(event[2]) if event[0] == Ev.ARRIVE else None
        if place[0] != self.place or free is None:
            return (event,), seen
        parity = (dict(seen).get(free, 0) + 1) & 1
        return ((Ev.WAIT, event[1], free, parity, self.scope), event), _one_more(seen, free)


@dataclass(frozen=True, slots=True)
class Release:
    """Behind the accesses at ``place``, before their agent's next wait or end, it frees the slot.

    ``barriers``: by footprint of the access, the barrier that the next copy into the slot waits for.
    ``of_warps``: one lane of each warp does; here all do, and the barriers count them.
    """

    place: Span
    barriers: Pairs
    fence: bool
    of_warps: bool = False

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if self.of_warps and event[0] == Ev.INIT and event[2] in {b for _, b in self.barriers}:
            event = (*event[:3], event[3] * ALL_LANES.bit_count(), *event[4:])
        if place[0] == self.place and event[0] in (*ACCESSES, Ev.WGMMA):
            known = dict(self.barriers)
            free = next((known[fp] for fp in footprints(event) if fp in known), None)
            return (event,), held if free is None else (free, 0 if event[0] == Ev.WGMMA else None)
        if held is None:
            return (event,), None
        free, commits = held  # ``commits``: of groups since a wgmma, which reads until its own is complete
        fence = (proxy_fence(event[1]),) if self.fence else ()
        release = (*fence, (Ev.ARRIVE, event[1], free, 1, -1, 0))
        if commits is not None and event[0] != Ev.EXIT:
            if event[0] == Ev.WGMMA_WAIT and event[2] < commits:
                return (event, *release), None
            return (event,), (free, commits + (event[0] == Ev.WGMMA_COMMIT))
        return ((*release, event), None) if event[0] in MEETINGS else ((event,), held)


@dataclass(frozen=True, slots=True)
class SlotOfUse:
    """The n-th wait or arrival of an agent at ``place`` is on the barrier number ``(n + first) % len`` of
    ``array``, counted from 0."""

    place: Span
    array: tuple[tuple[int, ...], ...]
    first: int = 0

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] != self.place or event[0] not in (*WAITS, Ev.ARRIVE):
            return (event,), held
        own = next((array for array in self.array if event[2] in array), None)
        if own is None:
            return (event,), held
        n = held or 0
        return ((*event[:2], own[(n + self.first) % len(own)], *event[3:]),), n + 1


@dataclass(frozen=True, slots=True)
class OtherArray:
    """Waits, arrivals and copies at ``place`` are on the barrier of the same number in another array."""

    place: Span
    barriers: Pairs

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        other = dict(self.barriers)
        if place[0] == self.place and event[0] in (*WAITS, Ev.ARRIVE):
            event = (*event[:2], other.get(event[2], event[2]), *event[3:])
        elif place[0] == self.place and event[0] == Ev.BULK_LOAD:
            copies = tuple((fp, other.get(barrier, barrier), amount) for fp, barrier, amount in event[2])
            event = (*event[:2], copies, *event[3:])
        return (event,), None


@dataclass(frozen=True, slots=True)
class SlotOfLastWait:
    """Arrivals at ``place`` are on the barrier of the number that their agent waited for last, in another
    array. ``barriers``: by the one that is waited for, the one of that number."""

    place: Span
    barriers: Pairs

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] == self.place and event[0] == Ev.ARRIVE and held is not None:
            event = (*event[:2], held, *event[3:])
        elif event[0] in WAITS:
            held = dict(self.barriers).get(event[2], held)
        return (event,), held


@dataclass(frozen=True, slots=True)
class DropCopy:
    """The copy at ``place`` is not made, and its bytes are not announced there."""

    place: Span

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        gone = place[0] == self.place and event[0] in (Ev.ARRIVE, Ev.EXPECT_TX, Ev.BULK_LOAD)
        return () if gone else (event,), None


@dataclass(frozen=True, slots=True)
class OtherId:
    """Threads meet at another barrier of the block at ``place``."""

    place: Span
    number: int

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] == self.place and event[0] in (Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE):
            event = (*event[:2], self.number, *event[3:])
        return (event,), None


@dataclass(frozen=True, slots=True)
class ArriveBehind:
    """Arrivals at ``place`` come behind their agent's next so many barriers of threads."""

    place: Span
    barriers: int

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] == self.place and event[0] == Ev.ARRIVE:
            return (), (self.barriers, (*(held[1] if held else ()), event))
        if held and event[0] in (Ev.BARRIER_SYNC, Ev.EXIT):
            left, waiting = held
            if event[0] == Ev.EXIT:
                return (*waiting, event), None
            return ((event, *waiting), None) if left == 1 else ((event,), (left - 1, waiting))
        return (event,), held


@dataclass(frozen=True, slots=True)
class AnnounceWithCopy:
    """Announcements at ``place`` are made right before the copies of each phase instead.

    ``copy``: where the first copy of a phase is issued; ``bytes``: those of a phase, by barrier.
    """

    place: Span
    copy: Span
    bytes: Pairs

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] == self.place and event[0] == Ev.ARRIVE and event[4] >= 0:
            return (), held
        if place[0] != self.copy or event[0] != Ev.BULK_LOAD:
            return (event,), held
        amounts = dict(self.bytes)
        targets = dict.fromkeys(barrier for _, barrier, _ in event[2])
        return (*((Ev.ARRIVE, event[1], b, 1, amounts.get(b, 0), 0) for b in targets), event), held


@dataclass(frozen=True, slots=True)
class ClusterBarrierBehindInit:
    """All threads of the cluster meet before the first event of any that is not an init."""

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if held or event[0] in (Ev.INIT, Ev.INIT_FENCE):
            return (event,), held
        return ((Ev.CLUSTER_ARRIVE, event[1], 0), (Ev.CLUSTER_WAIT, event[1], 0), event), True
