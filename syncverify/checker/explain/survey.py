"""What the agents of a refuted system did, by place of the source: repairs are chosen by it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from syncverify.base.source import Span
from syncverify.checker.explain.commits import ClusterArrivals, Commits, WgmmaEnds
from syncverify.checker.explain.edits import ACCESSES, ALL_LANES, GROUP_WAITS, ISSUES, WAITS, footprints
from syncverify.checker.explain.neighbours import Neighbours
from syncverify.checker.explain.redundancy import Passed, Place
from syncverify.model.events import Ev, Event, SystemInfo, ThreadClass

_INDEX = re.compile(r"(\[[^][]*\]|\+\d+)+$")


def array_name(name: str) -> str:
    """The name of the array that an mbarrier belongs to."""
    return _INDEX.sub("", name)


@dataclass(slots=True)
class Survey:
    """Notes what agents do, and changes nothing."""

    places: dict[Span, dict[int, None]] = field(default_factory=dict)  # codes of the events there, in order
    barriers: dict[Span, set[int]] = field(default_factory=dict)
    warps: dict[Span, set[tuple[int, int]]] = field(default_factory=dict)
    arriving: dict[int, dict[tuple[int, int, int], int]] = field(default_factory=dict)
    bytes: dict[int, dict[tuple[Span, ThreadClass], int]] = field(default_factory=dict)  # by copies
    sent: dict[int, dict[tuple[Span, ThreadClass], int]] = field(default_factory=dict)  # by st.async
    copied: list[tuple[int, int]] = field(default_factory=list)  # footprint written, barrier
    accessed: dict[Span, set[int]] = field(default_factory=dict)
    pending: dict[Span, int] = field(default_factory=dict)
    waited: set[int] = field(default_factory=set)  # mbarriers that somebody waits for
    of_copies: set[int] = field(default_factory=set)  # mbarriers that cp.async copies arrive on
    counts: dict[int, int] = field(default_factory=dict)  # of mbarriers, by their init
    meeting: dict[int, set[tuple[int, int]]] = field(default_factory=dict)  # warps, by id of the barrier
    coming: dict[int, set[tuple[int, int]]] = field(default_factory=dict)  # with those that only arrive
    ids: dict[Span, set[int]] = field(default_factory=dict)
    sizes: dict[int, set[int]] = field(default_factory=dict)  # threads that named barriers ask for
    given: dict[int, int] = field(default_factory=dict)  # threads of barriers that somebody arrives at only
    open_stores: dict[ThreadClass, set[Span]] = field(default_factory=dict)  # without a commit behind them
    first: dict[tuple[ThreadClass, int], Span] = field(default_factory=dict)  # of waits on an mbarrier
    announcing: set[Span] = field(default_factory=set)  # arrivals that announce bytes
    blocks: set[int] = field(default_factory=set)
    parted: set[Span] = field(default_factory=set)  # where some lanes of a warp come apart from others
    commits: Commits = field(default_factory=Commits)
    ends: WgmmaEnds = field(default_factory=WgmmaEnds)
    cluster: ClusterArrivals = field(default_factory=ClusterArrivals)
    around: Neighbours = field(default_factory=Neighbours)
    turns: dict[Span, int] = field(default_factory=dict)  # how often threads came to a place
    ahead: dict[int, set[int]] = field(default_factory=dict)  # by mbarrier of copies, what they waited for
    _heard: dict[ThreadClass, int] = field(default_factory=dict)  # the mbarrier of a thread's last wait
    events: int = 0

    @property
    def free_barriers(self) -> dict[int, int]:
        """By the mbarrier of the copies into a slot, the one that tells that the slot is free.

        A guess: the only one that who copies waits for right before; or mbarriers without copies on which
        somebody waits or arrives, but not both, in the same order; or else those on which both is done.
        """
        full = sorted({barrier for _, barrier in self.copied})
        ahead = {f: others for f in full if len(others := self.ahead.get(f, set()) - set(full)) == 1}
        known = {f: min(others) for f, others in ahead.items() if list(ahead.values()).count(others) == 1}
        for some in (self.waited ^ set(self.arriving), self.waited & set(self.arriving)):
            others = some - set(full)
            if len(full) == len(others):
                return dict(zip(full, sorted(others), strict=True)) | known
        return known

    @property
    def never_arrived(self) -> set[int]:
        """Mbarriers that somebody waits for, and at which no thread arrives, nor would after a hang."""
        return self.waited - self.arriving.keys()

    def threads(self, number: int) -> int:
        """How many threads come to a barrier of threads, in the first block that has one."""
        coming = self.coming[number]
        return 32 * len({warp for cta, warp in coming if cta == min(coming)[0]})

    def asked(self, number: int) -> set[int]:
        """How many threads who comes to a barrier of threads says that it is for."""
        return self.sizes.get(number, set()) | ({self.given[number]} if number in self.given else set())

    def copies_on(self, barrier: int) -> tuple[Span, ...]:
        """Where copies on an mbarrier are issued, in order."""
        return tuple(dict.fromkeys(place for place, _ in self.bytes.get(barrier, ())))

    def moved(self, barrier: int) -> tuple[int, ...]:
        """The bytes that the copies of a phase may move, and those that threads send; the likeliest first.

        Blocks of a cluster copy together; threads of a block together or in turn, blocks sometimes in turn.
        """
        sent = sum(self.sent.get(barrier, {}).values())
        copies = self.bytes.get(barrier, {})
        of_blocks = {(place, cls.cta): n for (place, cls), n in copies.items()}
        of_places = {place: n for (place, _), n in copies.items()}
        sums = (sum(of.values()) + sent for of in (of_blocks, of_places, copies))
        return tuple(dict.fromkeys(sums))

    @staticmethod
    def arrays(info: SystemInfo) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Barriers by the name of their array, in order: a tuple for each block of the cluster."""
        found: dict[str, dict[int, list[int]]] = {}
        for b, barrier in sorted(enumerate(info.barriers), key=lambda x: x[1].offset):
            found.setdefault(array_name(barrier.name), {}).setdefault(barrier.cta, []).append(b)
        return {name: tuple(tuple(copies[cta]) for cta in sorted(copies)) for name, copies in found.items()}

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        code, span = event[0], place[0]
        self.events += 1
        self.blocks.add(cls.cta)
        self.commits.note(code, span, cls)
        self.cluster.note(code, span, cls)
        self.ends.note(event, span, cls)
        self.around.note(code, span, cls)
        self.turns[span] = self.turns.get(span, 0) + cls.count
        self._of_asynchronous(event, span, cls)
        if code in _INTERESTING:
            self.places.setdefault(span, {})[code] = None
            self.warps.setdefault(span, set()).add((cls.cta, cls.warp))
            if cls.lanes != ALL_LANES:
                self.parted.add(span)
        if code in _ON_BARRIER:
            self.barriers.setdefault(span, set()).add(event[2])
        if code in WAITS:
            self.waited.add(event[2])
            self.first.setdefault((cls, event[2]), span)
            self._heard[cls] = event[2]
        elif code == Ev.INIT:
            self.counts[event[2]] = event[3]
        elif code == Ev.BULK_STORE:
            self.open_stores.setdefault(cls, set()).add(span)
        elif code == Ev.BULK_COMMIT:
            self.open_stores.pop(cls, None)
        if code in (Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE):
            self._of_threads(event, span, (cls.cta, cls.warp))
        if code == Ev.ARRIVE:
            if event[4] >= 0:
                self.announcing.add(span)
            self.arriving.setdefault(event[2], {})[cls.cta, cls.warp, cls.lanes] = event[3] * cls.count
        elif code == Ev.BULK_LOAD:
            for fp, barrier, amount in event[2]:
                self.copied.append((fp, barrier))
                self.bytes.setdefault(barrier, {})[span, cls] = amount * cls.count
                self.ahead.setdefault(barrier, set()).update({self._heard.get(cls, barrier)} - {barrier})
        elif code in GROUP_WAITS:
            self.pending[span] = event[2]
        if code in ACCESSES or code == Ev.WGMMA:
            self.accessed.setdefault(span, set()).update(footprints(event))
        return (event,), None

    def _of_asynchronous(self, event: Event, span: Span, cls: ThreadClass) -> None:
        """Arrivals of cp.async copies, and what threads send."""
        if event[0] == Ev.CP_ARRIVE and event[3]:
            self.of_copies.add(event[2])
            self.arriving.setdefault(event[2], {})[cls.cta, cls.warp, cls.lanes] = cls.count
        elif event[0] == Ev.ST_ASYNC:
            self.copied.append((event[2], event[3]))
            self.sent.setdefault(event[3], {})[span, cls] = event[4] * cls.count

    def _of_threads(self, event: Event, span: Span, warp: tuple[int, int]) -> None:
        """Who comes to a barrier of threads, and whether to wait."""
        number, threads = event[2], event[3]
        self.ids.setdefault(span, set()).add(number)
        self.coming.setdefault(number, set()).add(warp)
        if event[0] == Ev.BARRIER_ARRIVE:
            self.given[number] = threads
        else:
            self.meeting.setdefault(number, set()).add(warp)
            self.sizes.setdefault(number, set()).add(threads)


_ON_BARRIER = frozenset({Ev.INIT, Ev.ARRIVE, Ev.EXPECT_TX, *WAITS})
_INTERESTING = _ON_BARRIER | {
    *GROUP_WAITS,
    *ACCESSES,
    *ISSUES,
    Ev.FRAG_READ,
    Ev.ST_ASYNC,
    Ev.BARRIER_SYNC,
    Ev.BARRIER_ARRIVE,
    Ev.PROXY_FENCE,
}
