"""The state of a judged run as its later obligations see it: equal forms have equal futures.

What the judge asks of knowledge is whether it has reached some *threshold*: the time of an access that is
kept, of a contribution, wait, use, init or arrival, the number of a phase or of a group. A number is kept as
how many thresholds of its mark it has reached; what is noted later lies above all that is known today.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from syncverify.checker.kernel.exact.hazards import UNCOUNTED, Block, Memory, Piece, Touch
from syncverify.checker.kernel.exact.knowledge import Epoch, Knowledge, VectorClock
from syncverify.checker.kernel.exact.run import Follower
from syncverify.checker.kernel.exact.state import Barrier, Meeting, Phase, ReplayedAgent
from syncverify.checker.kernel.exact.tensor_maps import EditedMap
from syncverify.checker.kernel.exact.words import Word
from syncverify.model.events import Ev
from syncverify.model.ordering import ORDERINGS, Need
from syncverify.model.proxies import Access

#: Accesses that no later one needs a fence after.
_UNFENCED = frozenset(
    f
    for f in Access
    if all(o.need not in (Need.BRIDGE, Need.COMPLETION_BRIDGE) for (g, _), o in ORDERINGS.items() if f == g)
)


def form(run: Follower) -> Hashable:
    """The form of a run that stands between two events."""
    forget(run)
    made = _Form(run)
    for a in run.actors:  # how far it is behind the others is not distinguished
        a.executions = {**dict.fromkeys(made.newest, UNCOUNTED), **a.executions}
    made.parts()  # to meet all thresholds
    made.sort()
    return made.parts()


def forget(run: Follower) -> None:
    """Drops what can fail no more, or not without something else that is kept."""
    unsettled = _unsettled(run)
    settled = {
        block: _latest([x for x in kept if unsettled(x[2])]) for block, kept in run.memory.touches.items()
    }
    run.memory.touches = {block: kept for block, kept in settled.items() if kept}
    run.memory.pieces = sum(map(len, run.memory.touches.values()))
    for a in run.actors:
        a.copies = [*_unknown_copies(run, a)]
    left = [a for a in run.actors if not a.gone]
    for m in run.maps.values():
        m.uses = [t for t in m.uses if not all(run.is_over(a, t) for a in left)]


def _unsettled(run: Follower) -> Callable[[Touch], bool]:
    """Whether some class that is left knows of an access not in all ways: only these can fail."""
    left = [a.lanes.joined for a in run.actors if not a.gone]
    decided: dict[int, bool] = {}  # by identity

    def known(t: Touch) -> bool:
        if t.kind.asynchronous and t.done is None:
            return False
        mark, value = t.done if t.done is not None else (("t", t.cls), t.time)
        fenced = t.far or mark
        return all(
            k.visible.get(mark, 0) >= value and (t.kind in _UNFENCED or k.bridged.get(fenced, 0) >= value)
            for k in left
        )

    def unsettled(t: Touch) -> bool:
        if id(t) not in decided:
            decided[id(t)] = not known(t)
        return decided[id(t)]

    return unsettled


def _latest(kept: list[Piece]) -> list[Piece]:
    """Without reads and atomics of which a later one by the same class represents all bytes."""
    newer: dict[Hashable, list[Piece]] = {}
    out = []
    for lo, hi, t in reversed(kept):
        if not t.kind.writes or t.atomic:
            done = t.done[0] if t.done is not None else None
            later = newer.setdefault((t.cls, t.kind, id(t.fp), t.any_lane, t.scope, done), [])
            if any(a <= lo and hi <= b and _stands_for(x, t) for a, b, x in later):
                continue
            later.append((lo, hi, t))
        out.append((lo, hi, t))
    return out[::-1]


def _stands_for(later: Touch, t: Touch) -> bool:
    if t.atomic:
        return later.atomic and not t.kind.asynchronous and later.time >= t.time
    if t.kind is not Access.GENERIC_READ:
        return t.done is not None and later.done is not None and later.done[1] >= t.done[1]
    if t.used <= 0:  # only a fence will show it to be over, or a later use
        return later.time >= t.time and t.used == later.used == -1
    return later.time >= t.time and (later.used <= 0 or later.used >= t.used)


def _unknown_copies(run: Follower, a: ReplayedAgent) -> Iterator[tuple[tuple[Epoch, int], int]]:
    """Copies that nobody is yet sure to know of when the CTA leaves that they write."""
    for (mark, value), cta in a.copies:
        gone = cta in run.exits and run.exits[cta].get(mark, 0) >= value
        if not gone and not any(
            o.info.cta == cta and not o.gone and o.lanes.joined.happened.get(mark, 0) >= value
            for o in run.actors
        ):
            yield (mark, value), cta


class _Form:
    def __init__(self, run: Follower) -> None:
        self.run = run
        self.met: dict[Epoch, set[int]] = {}
        self.sorted: dict[Epoch, list[int]] | None = None
        self.newest: dict[int, int] = {}  # by site, how often the class that executed it most did so
        for site, n in (x for a in run.actors for x in a.executions.items()):
            self.newest[site] = max(n, self.newest.get(site, 0))
        self.touched: dict[int, Hashable] = {}  # forms of accesses by identity, once all thresholds are met

    def sort(self) -> None:
        self.sorted = {mark: sorted(values) for mark, values in self.met.items()}
        self.touched.clear()

    # ------------------------------------------------------------ numbers

    def age(self, site: int, execution: int) -> int | None:
        """How many executions of a store are newer by number; None where they have none."""
        return self.newest.get(site, 0) - execution if execution >= 0 else None

    def name(self, mark: Epoch) -> Hashable:
        """A life of a barrier is named by how many came after it."""
        if mark[0] != "b":
            return mark
        return (mark[0], mark[1], self.run.lives.get(mark[1], 0) - mark[2])

    def at(self, mark: Epoch, value: int) -> Hashable:
        """A threshold."""
        if self.sorted is None:
            self.met.setdefault(mark, set()).add(value)
            return None
        return self.name(mark), self.rank(mark, value)

    def rank(self, mark: Epoch, value: int) -> int:
        """How many thresholds a number has reached."""
        return 0 if self.sorted is None else bisect_right(self.sorted.get(mark, ()), value)

    def row(self, row: VectorClock) -> Hashable:
        if self.sorted is None:
            return None
        known = ((mark, self.rank(mark, value)) for mark, value in row.items())
        return frozenset((self.name(mark), k) for mark, k in known if k)

    def known(self, k: Knowledge | None) -> Hashable:
        return None if k is None else (self.row(k.happened), self.row(k.visible), self.row(k.bridged))

    def times(self, times: Mapping[int, int]) -> Hashable:
        """Times of classes."""
        return frozenset([self.at(("t", cls), time) for cls, time in times.items()])

    # ------------------------------------------------------------ the form

    def parts(self) -> Hashable:
        run = self.run
        pending = {id(t): r for a in run.actors for r, t in a.registers.items() if t.used == 0}
        return (
            tuple(self.memory(run.memory, m, pending) for m in sorted(run.memory.touches)),
            tuple(self.barrier(b) for _, b in sorted(run.barriers.items())),
            tuple(sorted(run.lives)),
            tuple((i, self.at(("t", cls), time)) for i, (cls, time) in sorted(run.ended.items())),
            frozenset((mark, self.meeting(mark, m)) for mark, m in run.meetings.items()),
            tuple((cta, self.row(row)) for cta, row in sorted(run.exits.items())),
            tuple(self.actor(a) for a in run.actors),
            self.collectives(),
            (frozenset(self.at(("t", cls), time) for cls, time in run.grid_waits), run.early is None),
            (frozenset(run.shared_inits), frozenset(run.overlays)),
            tuple((number, self.map(m)) for number, m in sorted(run.maps.items())),
            (tuple((place, self.word(w)) for place, w in sorted(run.words.items())), frozenset(run.data)),
            tuple(self.at(("t", a.lanes.cls), 1) for a in run.actors),  # whether its CTA runs
        )

    def memory(self, memory: Memory, block: Block, pending: Mapping[int, int]) -> Hashable:
        places: dict[int, list[tuple[int, int]]] = {}
        for lo, hi, t in memory.touches[block]:
            if id(t) not in self.touched:
                self.touched[id(t)] = self.touch(t, pending.get(id(t), -1))
            places.setdefault(id(t), []).append((lo, hi))
        return block, frozenset((self.touched[t], _merged(spans)) for t, spans in places.items())

    def touch(self, t: Touch, pending: int) -> Hashable:
        own = ("t", t.cls)
        over: Hashable = None
        if t.kind is Access.GENERIC_READ:
            fence = next((f for f in self.run.fences[t.cls] if f > t.time), None)
            over = (pending, self.at(own, t.used) if t.used > 0 else t.used, fence and self.at(own, fence))
        done: list[Hashable] = []
        if t.done is not None:
            mark, value = t.done
            done.append(self.at(mark, value))
            if t.kind is Access.MMA_READ:
                cta, warp = mark[2]
                first = warp // 4 * 4
                done += [self.at((*mark[:2], (cta, w)), value) for w in range(first, first + 4)]
        when = None if t.kind.asynchronous else self.at(own, t.time)
        if t.far is not None:
            done.append(self.at(t.far, t.time))
        store: Hashable = None
        if not t.atomic and self.run.memory.may_meet(t):
            store = t.site, self.age(t.site, t.execution)
        return t.kind, t.cls, when, id(t.fp), over, tuple(done), t.any_lane, (t.atomic, t.scope, store)

    def map(self, m: EditedMap) -> Hashable:
        """An edited tensor map: who edited, released and acquired it, and its uses that may not be over."""
        return (
            (m.site, m.whole, frozenset(self.at(("t", cls), time) for cls, time in m.edits)),
            frozenset((self.at(("t", cls), time), scope) for cls, time, scope in m.released),
            frozenset((cta, self.at(("t", cls), time)) for cta, cls, time in m.acquired),
            tuple(frozenset(self.map_use(t) for t in some) for some in (m.uses, m.open)),
        )

    def map_use(self, t: Touch) -> Hashable:
        done = None if t.done is None else self.at(*t.done)
        return t.cls, done, self.at(("t", t.cls), t.drained) if t.drained > 0 else t.drained

    def word(self, w: Word) -> Hashable:
        """A word of global memory: its signals, and the waits that these have ended."""
        signals = tuple(
            (
                self.at(("t", s.cls), s.time),
                (s.amount, s.lanes, s.adds),
                self.row(s.past),
                self.known(s.given),
            )
            for s in w.signals
        )
        waits = tuple((self.at(("t", x.cls), x.time), x.compare, x.value, x.seen) for x in w.waits)
        return signals, waits

    def barrier(self, b: Barrier) -> Hashable:
        return (
            (b.index, b.count, b.pending, b.done % 2, min(b.done, 2)),
            tuple((c, self.at(("t", c), t), self.at(("init", c), t)) for c, t in b.inits),
            tuple(self.at(b.mark, k) for k in (b.done - 1, b.done) if k > 0),
            self.at(b.mark, b.copies + 1) if b.copies >= 0 else None,
            self.times(b.waits),
            self.times(b.uses),
            self.open(b.phase),
            (*self.closed(b.last), self.known(b.last.knowledge), self.known(b.last.far)),
            self.closed(b.before),
        )

    def closed(self, p: Phase) -> tuple[Hashable, ...]:
        return self.times(p.threads), p.copies

    def open(self, p: Phase) -> Hashable:
        return (
            *self.closed(p),
            (self.known(p.knowledge), self.known(p.far), self.row(p.by_arrivals), self.row(p.others)),
            tuple((self.at(("t", cls), time), n) for cls, time, n in p.expects),
            tuple((n, self.row(past)) for n, past in p.landed),
            (p.expected, p.completed),
        )

    def meeting(self, mark: Epoch, m: Meeting) -> Hashable:
        awaited = mark[0] == "c" or any(a.event is not None for a in self.run.actors)
        return (
            (m.threads, min(m.number, 1), self.at(mark, m.number) if m.number else None),
            (m.counted, frozenset(m.sites), frozenset(m.again)),
            (self.times(m.arrived), self.times(m.previous), self.known(m.knowledge)),
            self.known(m.released) if awaited else None,
        )

    def actor(self, a: ReplayedAgent) -> Hashable:
        leaving: Hashable = a.leaving
        if a.leaving >= 0:
            leaving = a.meets, a.leaving - self.run.meetings[a.meets].number
        own = ("t", a.lanes.cls)
        mma = ("g", "mma", (a.info.cta, a.info.warp))
        return (
            (
                a.gone,
                a.event,
                a.event and a.meant,
                a.entered,
                leaving,
                a.fenced,
                a.owes_wait,
                a.scope,
            ),
            (self.known(a.lanes.joined), None if a.lanes.alone else self.known(a.lanes.own)),
            (self.known(a.released), self.known(a.received)),
            tuple((i, self.row(past), flags) for i, (past, flags) in sorted(a.polled.items())),
            tuple((f, self.at(mma, s[0]) if s[0] else None, s[1]) for f, s in sorted(a.fragments.items())),
            tuple(
                (n, inc, self.row(past), self.at(own, time), self.at(own, last))
                for n, inc, past, time, last in a.requests
            ),
            tuple((cta, self.at(own, time)) for cta, time in sorted(a.far.items())),
            frozenset((self.at(*done), cta) for done, cta in a.copies),
            tuple((site, self.age(site, n)) for site, n in sorted(a.executions.items()) if not a.gone),
            tuple(self.group(a, kind) for kind in ("bulk.read", "cp")),
            self.written(a),
            self.products(a),
        )

    def written(self, a: ReplayedAgent) -> Hashable:
        """The committed groups of bulk copies by whose end later waits may make known what they wrote."""
        g = self.run.groups.get(("bulk.read", a.lanes.cls))
        mark = ("g", "bulk", a.lanes.cls)
        if g is None or not self.run.data:
            return None
        return tuple(self.rank(mark, v) for v in g.committed), self.at(mark, g.issued)

    def group(self, a: ReplayedAgent, kind: str) -> Hashable:
        """Committed groups that a wait may newly cover, by what their end makes known."""
        g = self.run.groups.get((kind, a.lanes.cls))
        if g is None:
            return None
        mark = ("g", kind, a.lanes.cls)
        own = a.lanes.own
        known = self.rank(mark, min(own.happened.get(mark, 0), own.visible.get(mark, 0)))
        ends = tuple(k for k in (self.rank(mark, v) for v in g.committed) if k > known)
        return ends, self.at(mark, g.issued), g.issued > 0, g.issued > (g.committed or [0])[-1]

    def products(self, a: ReplayedAgent) -> Hashable:
        """The same of wgmmas, which complete for a warpgroup together."""
        g = self.run.groups.get(("mma", a.lanes.cls))
        if g is None:
            return None
        mark = ("g", "mma", (a.info.cta, a.info.warp))
        mates = [
            o
            for o in self.run.actors
            if (o.info.cta, o.info.warp // 4) == (a.info.cta, a.info.warp // 4)
            and ("mma", o.lanes.cls) in self.run.groups
        ]
        base = min(o.lanes.joined.happened.get(("g", "mma", (o.info.cta, o.info.warp)), 0) for o in mates)
        fewest = min(len(self.run.groups["mma", o.lanes.cls].committed) for o in mates)
        return (
            (g.issued - base, base > 0, len(g.committed) - fewest, self.at(mark, g.issued)),
            tuple((v - base, self.rank(mark, v)) for v in g.committed if v > base),
            a.lanes.joined.happened.get(mark, 0) - base,
            tuple(self.row(row) for row in a.issues[base:]),
        )

    def collectives(self) -> Hashable:
        """What some lanes of a warp, or warps of a warpgroup, have executed beyond the others."""
        return tuple(
            _beyond([a.collectives for a in actors]) for actors in self.grouped(lambda a: a.info.warp)
        ), tuple(
            _beyond([[c for c in a.collectives if c[1] >= Ev.WGMMA_FENCE] for a in actors])
            for actors in self.grouped(lambda a: a.info.warp // 4)
        )

    def grouped(self, key: Callable[[ReplayedAgent], int]) -> list[list[ReplayedAgent]]:
        found: dict[tuple[int, int], list[ReplayedAgent]] = {}
        for a in self.run.actors:
            found.setdefault((a.info.cta, key(a)), []).append(a)
        return [*found.values()]


def _merged(spans: Sequence[tuple[int, int]]) -> Hashable:
    """Spans, those that touch as one."""
    out: list[tuple[int, int]] = []
    for lo, hi in sorted(spans):
        if out and out[-1][1] == lo:
            out[-1] = (out[-1][0], hi)
        else:
            out.append((lo, hi))
    return tuple(out)


def _beyond(lists: Sequence[Sequence[Hashable]]) -> Hashable:
    """What follows what all begin with, and whether there is anything at all."""
    common = 0
    for row in zip(*lists, strict=False):
        if len(set(row)) > 1:
            break
        common += 1
    return any(lists), tuple(tuple(x[common:]) for x in lists)


__all__ = ["forget", "form"]
