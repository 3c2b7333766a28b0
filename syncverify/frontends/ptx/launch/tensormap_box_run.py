"""One fair run of a system in which tensor copies of unknown size stay open as long as others can go on.

A phase that lacks only such copies completes then, and what it expects is an equation on their boxes.
Barriers count as the automata of ``model.automata`` say; nothing is checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.model.automata.cluster_barrier import ClusterBarrier
from syncverify.model.automata.mbarrier import Mbarrier
from syncverify.model.automata.named_barrier import NamedBarrier
from syncverify.model.events import Agent, Ev, Event, Flag, ThreadClass

#: Events after which a run ends with what it has found; phases like earlier ones after which it ends once it
#: has seen every copy of the text.
MOST_EVENTS, MOST_ALIKE = 60_000, 64


#: Events at which a class may have to wait; and copies, and what completes or writes bytes as they do.
_MEETINGS = frozenset(
    {
        Ev.WAIT,
        Ev.WAIT_TOKEN,
        Ev.POLL,
        Ev.POLL_TOKEN,
        Ev.BARRIER_SYNC,
        Ev.BARRIER_ARRIVE,
        Ev.CLUSTER_ARRIVE,
        Ev.CLUSTER_WAIT,
        Ev.WARP_SYNC,
        Ev.ELECT,
        Ev.COLLECTIVE,
    }
)
_COPIES = frozenset({Ev.COMPLETE_TX, Ev.ST_ASYNC, Ev.BULK_COPY, Ev.BULK_LOAD, Ev.BULK_STORE, Ev.WRITE})


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of an open box under way, one by each of ``lanes``."""

    map: int
    cta: int
    lo: int
    lanes: int
    site: int


@dataclass(frozen=True, slots=True)
class Equation:
    """``sum(lanes * box) = bytes`` over a phase's copies; ``site``: where the bytes are expected."""

    boxes: tuple[tuple[int, int], ...]  # map, lanes
    bytes: int
    site: int


@dataclass(slots=True)
class BoxFindings:
    """What a run has met, maps by their numbers.

    ``room``: the most bytes that a copy can bring without reaching a destination, a barrier or the end of
    shared memory that is in use at the same time. ``sources``: stores of open boxes, (map, CTA, byte offset)
    to the bytes written there before. ``unsure``: phases could not be distinguished for certain.
    ``certain``: equations without which nothing could have gone on, whatever else is unsure.
    """

    equations: dict[Equation, None] = field(default_factory=dict)
    certain: dict[Equation, None] = field(default_factory=dict)
    room: dict[int, int] = field(default_factory=dict)
    places: dict[int, set[tuple[int, int]]] = field(default_factory=dict)  # of loads: (CTA, offset) by map
    others: dict[tuple[int, int], int] = field(default_factory=dict)  # where copies of known size go
    sources: dict[tuple[int, int, int], int] = field(default_factory=dict)
    sites: dict[int, int] = field(default_factory=dict)  # map -> its first copy
    stuck: list[str] = field(default_factory=list)  # why classes could not go on
    unsure: bool = False


@dataclass(slots=True, eq=False)
class _Thread:
    cls: int
    info: ThreadClass
    agent: Agent
    answer: int = 0
    event: Event | None = None  # fetched and not done
    failed: Event | None = None  # the poll that failed last, with nothing done since
    waits: tuple[Any, ...] | None = None  # what it is blocked on
    generation: int = -1  # of the cluster barrier, at the last arrival
    met: bool = False  # has arrived at the barrier that it waits on


@dataclass(slots=True)
class _Barrier:
    state: Mbarrier = field(default_factory=Mbarrier)
    open: list[Copy] = field(default_factory=list)
    expects: int = -1  # site


class ByteCountRun:
    """Runs a system once. ``is_open``: whether the box of the tensor map of a number is not known;
    ``copies``: tensor copies in the text."""

    def __init__(self, system: PtxSystem, is_open: Callable[[int], bool], copies: int) -> None:
        self.system = system
        self.is_open = is_open
        self.found = BoxFindings()
        self.threads = [
            _Thread(i, c, a)
            for i, (c, a) in enumerate(zip(system.info.classes, system.agents(), strict=True))
        ]
        self.live: dict[tuple[int, int], int] = {}
        for t in self.threads:
            key = (t.info.cta, t.info.warp)
            self.live[key] = self.live.get(key, 0) | t.info.lanes
        self.barriers: dict[int, _Barrier] = {}
        self.named: dict[tuple[int, int], NamedBarrier] = {}
        self.cluster = ClusterBarrier({t.cls for t in self.threads})
        self.ready = deque(self.threads)
        self.blocked: dict[tuple[Any, ...], list[_Thread]] = {}
        self.copies = copies
        self.met: set[int] = set()  # sites of tensor copies
        self.alike = 0  # phases in a row that told nothing new
        self.written: set[int] = set()  # footprints
        self._measured: dict[tuple[int, int, int], int] = {}  # store -> how many of them it has seen

    def run(self) -> BoxFindings:
        """Runs until nothing can go on. Raises LaneSplit."""
        left = MOST_EVENTS
        while True:
            while self.ready:
                t = self.ready.popleft()
                while t.waits is None and left > 0 and self._step(t):
                    left -= 1
            over = self.alike >= MOST_ALIKE and len(self.met) >= self.copies
            if left <= 0 or over or not self._complete_one():
                break
        # a copy that came to a phase without an announcement may belong to the phase before
        if any(b.open and b.state.tx == 0 and b.state.phase for b in self.barriers.values()):
            self.found.unsure = True
        return self.found

    # ------------------------------------------------------------ phases

    def _complete_one(self) -> bool:
        """Completes a phase that lacks only open copies: if possible one like an earlier one."""
        lacking = [b for b in self.barriers.values() if b.state.live and b.state.pending == 0 and b.open]
        if not lacking:
            return False
        known = {e.boxes: e.bytes for e in self.found.equations}
        self._measure()
        b = next((b for b in lacking if known.get(_boxes(b.open)) == b.state.tx), lacking[0])
        equation = Equation(_boxes(b.open), b.state.tx, b.expects)
        self.alike = self.alike + 1 if equation in self.found.equations else 0
        self.found.equations[equation] = None
        # everybody is blocked: one of the phases that lack copies has to end with those that it has
        if all(_boxes(x.open) == equation.boxes and x.state.tx == equation.bytes for x in lacking):
            self.found.certain[equation] = None
        for c in b.open:
            self.found.places.setdefault(c.map, set()).add((c.cta, c.lo))
        b.open = []
        b.state.tx = 0
        self._advance(b)
        return True

    def _measure(self) -> None:
        """The room of every copy that is open now."""
        barriers = self.system.info.barriers
        taken: dict[int, list[int]] = {}
        for number, b in self.barriers.items():
            if b.state.live:
                taken.setdefault(barriers[number].cta, []).append(barriers[number].offset)
            for c in b.open:
                taken.setdefault(c.cta, []).append(c.lo)
        end = self.system.tables.shared_end
        for b in self.barriers.values():
            for c in b.open:
                after = min((x for x in taken[c.cta] if x > c.lo), default=end)
                old = self.found.room.get(c.map, after - c.lo)
                self.found.room[c.map] = min(old, after - c.lo)

    def _advance(self, b: _Barrier) -> None:
        b.state.advance()
        number = next(n for n, other in self.barriers.items() if other is b)
        self._wake(("mbarrier", number))

    def _counted(self, b: _Barrier) -> None:
        """Arrivals or bytes have come."""
        if not b.state.live or not b.state.complete:
            return
        if b.open:
            # the phase ends before these copies: their bytes are expected nowhere
            self.found.unsure = True
            b.open = []
        self._advance(b)

    def _wake(self, key: tuple[Any, ...]) -> None:
        for t in self.blocked.pop(key, ()):
            t.waits = None
            self.ready.append(t)

    def _block(self, t: _Thread, key: tuple[Any, ...]) -> bool:
        t.waits = key
        self.blocked.setdefault(key, []).append(t)
        return False

    # ------------------------------------------------------------ events

    def _step(self, t: _Thread) -> bool:
        """Does one event of a class; False if it cannot go on now."""
        event = t.event
        if event is None:
            event = t.event = t.agent.step(t.answer)
            t.answer = 0
        code = event[0]
        if code in (Ev.EXIT, Ev.UNKNOWN):
            if code == Ev.EXIT:
                self._leave(t)
            else:
                self.found.stuck.append(event[2])
            t.waits = ("never",)
            return False
        if code in _MEETINGS:
            if not self._meet(t, event):
                return False
        elif code in _COPIES:
            self._copy(t, event)
        else:
            self._count(t, event)
        t.event = None
        if code not in (Ev.POLL, Ev.POLL_TOKEN):
            t.failed = None
        return True

    def _count(self, t: _Thread, event: Event) -> None:
        """What mbarriers count of an event that is no copy."""
        code, n = event[0], t.info.count
        match code:
            case Ev.INIT:
                b = self._barrier(event[2])
                b.state.init(event[3])
                b.open = []
            case Ev.INVAL:
                self._barrier(event[2]).state.inval()
            case Ev.ARRIVE:
                b = self._barrier(event[2])
                t.answer = b.state.phase
                if event[4] >= 0:
                    b.state.expect(n * event[4])
                    b.expects = event[1]
                b.state.arrive(n * event[3], bool(event[5] & Flag.DROP))
                self._counted(b)
            case Ev.EXPECT_TX:
                b = self._barrier(event[2])
                b.state.expect(n * event[3])
                b.expects = event[1]
            case Ev.CP_ARRIVE:
                if event[3]:
                    b = self._barrier(event[2])
                    b.state.arrive(n)
                    self._counted(b)

    def _copy(self, t: _Thread, event: Event) -> None:
        """A copy, or what completes bytes as one does."""
        code = event[0]
        match code:
            case Ev.COMPLETE_TX | Ev.ST_ASYNC | Ev.BULK_COPY:
                first = {Ev.COMPLETE_TX: 2, Ev.ST_ASYNC: 3, Ev.BULK_COPY: 4}[code]
                bar, size = event[first : first + 2]
                self._land(self._barrier(bar), t.info.count * size)
            case Ev.BULK_LOAD:
                self._load(t, event)
            case Ev.BULK_STORE:
                self._store(event)
            case Ev.WRITE:
                self.written.add(event[2])

    def _meet(self, t: _Thread, event: Event) -> bool:
        """A wait, or a barrier of lanes, warps or blocks; False if the class cannot go on now."""
        match event[0]:
            case Ev.WAIT | Ev.WAIT_TOKEN | Ev.POLL | Ev.POLL_TOKEN:
                return self._wait(t, event)
            case Ev.BARRIER_SYNC | Ev.BARRIER_ARRIVE:
                return self._named(t, event)
            case Ev.CLUSTER_ARRIVE:
                t.generation = self.cluster.generation
                if self.cluster.arrive(t.cls):
                    self._turn_cluster()
            case Ev.CLUSTER_WAIT:
                if t.generation == self.cluster.generation:
                    return self._block(t, ("cluster",))
            case Ev.WARP_SYNC | Ev.ELECT | Ev.COLLECTIVE:
                # what other lanes of the warp have written before is there afterwards
                t.event = None
                if self.ready:
                    self.ready.append(t)
                    return False
        return True

    def _barrier(self, number: int) -> _Barrier:
        b = self.barriers.get(number)
        if b is None:
            b = self.barriers[number] = _Barrier()
        return b

    def _land(self, b: _Barrier, size: int) -> None:
        b.state.complete_tx(size)
        self._counted(b)

    def _wait(self, t: _Thread, event: Event) -> bool:
        """A wait, which blocks, or a poll: one that fails twice in a row is taken for a wait."""
        code, _, number, key, _ = event
        b = self._barrier(number)
        token = code in (Ev.WAIT_TOKEN, Ev.POLL_TOKEN)
        passed = b.state.live and (b.state.phase > key if token else b.state.passes(key))
        if passed:
            t.answer = int(code in (Ev.POLL, Ev.POLL_TOKEN))
            t.failed = None
            return True
        if code in (Ev.POLL, Ev.POLL_TOKEN) and t.failed != event:
            t.failed = event
            return True
        return self._block(t, ("mbarrier", number))

    def _named(self, t: _Thread, event: Event) -> bool:
        key = (t.info.cta, event[2])
        b = self.named.setdefault(key, NamedBarrier())
        waits = event[0] == Ev.BARRIER_SYNC
        if waits and t.met:
            t.met = False  # released
            return True
        threads = event[3] or -(-self.system.info.threads // 32) * 32
        warp = t.info.warp
        if waits and b.ahead(warp, t.info.lanes):  # the warp's other lanes have still to come a first time
            return self._block(t, ("lanes", *key, warp))
        inside = any(o.info.warp == warp for o in self.blocked.get(("named", *key), ()))
        if waits and warp in b.marked and not inside:  # it arrived before, and counts twice
            b.count_again(warp)
        full = b.arrive(warp, t.info.lanes, self.live[t.info.cta, warp], threads)
        if warp in b.marked:
            self._wake(("lanes", *key, warp))
        if full:
            b.reset()
            self._wake(("named", *key))
            return True
        if not waits:
            return True
        t.met = True
        return self._block(t, ("named", *key))

    def _turn_cluster(self) -> None:
        self.cluster.reset()
        self._wake(("cluster",))

    def _leave(self, t: _Thread) -> None:
        place = (t.info.cta, t.info.warp)
        self.live[place] &= ~t.info.lanes
        if self.cluster.leave(t.cls):
            self._turn_cluster()
        for key, b in self.named.items():
            if key[0] == t.info.cta and b.leave(t.info.warp, self.live[place]):
                b.reset()
                self._wake(("named", *key))

    # ------------------------------------------------------------ copies

    def _place(self, footprint: int) -> Iterable[tuple[int, int]]:
        fp = self.system.info.footprints[footprint]
        return [(fp.memory, lo) for lo, _ in fp.intervals]

    def _load(self, t: _Thread, event: Event) -> None:
        number = event[4]
        self.met.add(event[1])
        opened = number >= 0 and self.is_open(number)
        for footprint, bar, size in event[2]:
            b = self._barrier(bar)
            if not opened:
                self.found.others |= dict.fromkeys(self._place(footprint), size)
                self._land(b, t.info.count * size)
                continue
            self.found.sites.setdefault(number, event[1])
            places = list(self._place(footprint))
            for cta, lo in places:
                b.open.append(Copy(number, cta, lo, t.info.count // len(places) or 1, event[1]))

    def _store(self, event: Event) -> None:
        number = event[4]
        self.met.add(event[1])
        if number < 0 or not self.is_open(number):
            return
        self.found.sites.setdefault(number, event[1])
        for cta, lo in self._place(event[2]):
            key = (number, cta, lo)
            if self._measured.get(key) == len(self.written):
                continue
            self._measured[key] = len(self.written)
            self.found.sources[key] = max(self.found.sources.get(key, 0), self._extent(cta, lo))

    def _extent(self, cta: int, lo: int) -> int:
        """Bytes from a place on that threads have written without a gap."""
        footprints = self.system.info.footprints
        spans = sorted(
            s for f in self.written if footprints[f].memory == cta for s in footprints[f].intervals
        )
        end = lo
        for a, b in spans:
            if a > end:
                break
            end = max(end, b)
        return end - lo


def _boxes(copies: Iterable[Copy]) -> tuple[tuple[int, int], ...]:
    out: dict[int, int] = {}
    for c in copies:
        out[c.map] = out.get(c.map, 0) + c.lanes
    return tuple(sorted(out.items()))
