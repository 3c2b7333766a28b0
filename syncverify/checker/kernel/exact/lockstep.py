"""The judge beside a run that something else follows: it is handed the events, and forks with the run."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

from syncverify.checker.kernel.exact.canonical_state import forget
from syncverify.checker.kernel.exact.hazards import Memory, NotJudgedError, Touch
from syncverify.checker.kernel.exact.knowledge import Knowledge, LaneClass
from syncverify.checker.kernel.exact.polls import Use
from syncverify.checker.kernel.exact.run import Follower
from syncverify.checker.kernel.exact.state import Barrier, Meeting, Phase, ReplayedAgent
from syncverify.checker.kernel.exact.tensor_maps import EditedMap
from syncverify.model.events import Ev, Event, SystemInfo

#: Pieces of memory that are kept for each CTA.
MOST_KEPT = 60_000
#: What depends on the number of a phase, which a run for every size does not have.
_NUMBERED = frozenset({Ev.WAIT_TOKEN, Ev.POLL_TOKEN})
#: What no other class waits for, and what only classes of the same warpgroup do.
_ALONE = frozenset(
    {
        Ev.READ, Ev.WRITE, Ev.USE, Ev.FRAG_READ, Ev.FRAG_WRITE, Ev.GLOBAL_READ, Ev.FENCE,
        Ev.PROXY_FENCE, Ev.CP_ASYNC, Ev.CP_COMMIT, Ev.CP_WAIT, Ev.BULK_STORE, Ev.BULK_COMMIT, Ev.BULK_WAIT,
    }
)  # fmt: skip
_NEAR = frozenset(
    {Ev.ELECT, Ev.COLLECTIVE, Ev.WARP_SYNC, Ev.WGMMA_FENCE, Ev.WGMMA, Ev.WGMMA_COMMIT, Ev.WGMMA_WAIT}
)


class LockstepChecker(Follower):
    """Judges events in the order in which they are handed over; keeps nothing of them for a certificate."""

    numbers = False

    def __init__(self, info: SystemInfo) -> None:
        super().__init__(info, [None] * len(info.classes))

    def use_of(self, a: ReplayedAgent, event: Event) -> Use | None:
        """What a look is for: it was handed over with it."""
        return a.meant

    def note(self, b: Barrier, phase: int, what: str, a: ReplayedAgent, *more: int) -> None:
        pass

    def keep(self, a: ReplayedAgent, event: Event) -> None:
        pass

    def take(self, cls: int, event: Event, use: Use | None = None) -> None:
        """The next event of a class; ``use``: what it is for, if it is a look at a barrier. Raises
        RejectedError, NotJudgedError.
        """
        a = self.actors[cls]
        if event[0] in _NUMBERED:
            raise NotJudgedError(Ev(event[0]).name.lower())
        if a.event is not None:
            raise NotJudgedError(f"{self.at(a)}: a class goes on where the judge sees it wait")
        a.event, a.meant = event, use
        a.lanes.advance()
        if self.memory.pieces > MOST_KEPT * self.info.ctas:
            forget(self)
            if self.memory.pieces > MOST_KEPT * self.info.ctas // 2:
                raise NotJudgedError("accesses to more pieces of memory than are kept")
        self.execute(a)
        moved = self.waiting(a, event)
        while moved:
            gone = [(o, e) for o in moved if (e := o.event) and self.execute(o)]
            moved = list({x.lanes.cls: x for o, e in gone for x in self.waiting(o, e)}.values())

    def waiting(self, a: ReplayedAgent, event: Event) -> list[ReplayedAgent]:
        """The classes that wait, and may go on once a class has come to an event."""
        if event[0] in _ALONE:
            return []
        some = [self.actors[c] for c in self.warpgroups[a.lanes.cls]] if event[0] in _NEAR else self.actors
        return [o for o in some if o.event is not None]

    def fork(self) -> LockstepChecker:
        """The same state once more."""
        new = LockstepChecker.__new__(LockstepChecker)
        touches: dict[int, Touch] = {}

        def touch(t: Touch) -> Touch:
            found = touches.get(id(t))
            if found is None:
                found = touches[id(t)] = copy(t)
            return found

        new.info = self.info
        new.grid_waits, new.early, new.inputs = list(self.grid_waits), self.early, dict(self.inputs)
        new.fences = [list(times) for times in self.fences]
        new.memory = Memory(self.info, new.fences)
        new.memory.products = set(self.memory.products)
        new.memory.pieces, new.memory.blocks = self.memory.pieces, self.memory.blocks
        new.memory.touches = {
            memory: [(lo, hi, touch(t)) for lo, hi, t in kept] for memory, kept in self.memory.touches.items()
        }
        new.words, new.data = {place: w.copy() for place, w in self.words.items()}, set(self.data)
        new.barriers = {index: _barrier(b) for index, b in self.barriers.items()}
        new.lives, new.ended = dict(self.lives), dict(self.ended)
        new.shared_inits, new.overlays = set(self.shared_inits), set(self.overlays)
        new.maps = {number: _edited(m, touch) for number, m in self.maps.items()}
        new.under, new.warps, new.warpgroups = self.under, self.warps, self.warpgroups
        new.meetings = {mark: _meeting(m) for mark, m in self.meetings.items()}
        new.groups = {key: replace(g, committed=list(g.committed)) for key, g in self.groups.items()}
        new.exits = {cta: row.copy() for cta, row in self.exits.items()}
        new.events, new.trace, new.asked, new.phases = self.events, [], [], {}
        new.equal_stores = self.equal_stores
        new.actors = [_actor(a, touch) for a in self.actors]
        return new


def _barrier(b: Barrier) -> Barrier:
    """Complete phases change no more, and are shared."""
    return replace(b, phase=_phase(b.phase), waits=dict(b.waits), uses=dict(b.uses))


def _phase(p: Phase) -> Phase:
    return replace(
        p,
        knowledge=p.knowledge.copy(),
        far=p.far.copy(),
        by_arrivals=p.by_arrivals.copy(),
        others=p.others.copy(),
        threads=dict(p.threads),
        expects=list(p.expects),
        landed=list(p.landed),
    )


def _meeting(m: Meeting) -> Meeting:
    """What is known when a generation is over changes no more."""
    return replace(
        m, arrived=dict(m.arrived), knowledge=m.knowledge.copy(), sites=set(m.sites), again=set(m.again)
    )


def _edited(m: EditedMap, touch: Any) -> EditedMap:
    return EditedMap(
        list(m.edits), m.site, m.whole, list(m.released), list(m.acquired),
        [touch(t) for t in m.uses], [touch(t) for t in m.open],
    )  # fmt: skip


def _lanes(old: LaneClass) -> LaneClass:
    new = LaneClass.__new__(LaneClass)
    new.cls, new.alone, new.time = old.cls, old.alone, old.time
    new.joined = old.joined.copy()
    new.own = new.joined if old.alone else old.own.copy()
    return new


def _actor(a: ReplayedAgent, touch: Any) -> ReplayedAgent:
    received: Knowledge | None = None if a.received is None else a.received.copy()
    return replace(
        a,
        lanes=_lanes(a.lanes),
        registers={r: touch(t) for r, t in a.registers.items()},
        unsure={n: touch(t) for n, t in a.unsure.items()},
        fragments={f: list(s) for f, s in a.fragments.items()},
        requests=list(a.requests),
        received=received,
        collectives=list(a.collectives),
        far=dict(a.far),
        issues=list(a.issues),
        copies=list(a.copies),
        polled=dict(a.polled),
        executions=dict(a.executions),
    )
