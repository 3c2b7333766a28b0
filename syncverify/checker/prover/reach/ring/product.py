"""The rotations that a state represents: agents at other places of a ring, in lockstep with those followed.

What is on record (clocks, barriers, shadow memory) is kept once, at place 0: the slot that the next copy will
fill. Agents stand some places further on, at several at once. Each must come to the same branch as the
others, and to the same event, rotated by its place. Then the record is right for all of them. Where one does
not, the exploration restarts without the ring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from syncverify.checker.happens_before.handlers.waits import result_of
from syncverify.checker.happens_before.run import LaneClass, Run
from syncverify.checker.prover.reach.ring.action import apply_rotation, local_parity, supports_rotation
from syncverify.checker.prover.reach.ring.symmetry import TOKENS, Ring
from syncverify.checker.prover.reach.state.snapshot import Split
from syncverify.model.events import Ev, Event, Flag, LaneSplit
from syncverify.symbolic.context import AffineTerm, SymbolicContext, UndecidedBranch
from syncverify.symbolic.phase_tokens import Token
from syncverify.symbolic.protocol import SymbolicAgent

#: Of registers that differ between places: how much more than those of the agents that are followed.
Offsets = dict[tuple[Any, ...], dict[int, int]]
#: Questions in a row at which agents stand at different points, before they are taken to be different.
MOST_APART = 64


class SymmetryBroken(Exception):  # noqa: N818 -- control flow: begin again without
    """Agents at another place of the ring do something else. ``counters``: registers (class and slot) that
    were taken to cycle through the ring, and seem to count."""

    def __init__(self, why: str, counters: frozenset[tuple[int, Any]] = frozenset()) -> None:
        super().__init__(why)
        self.counters = counters


class OrbitSplits(Exception):  # noqa: N818 -- control flow: to be followed in several states
    """Agents end their barriers in an order of their own, wherever in the ring they stand: ``groups`` of
    places go on as one each."""

    def __init__(self, groups: list[frozenset[int]]) -> None:
        super().__init__()
        self.groups = groups


@dataclass(slots=True)
class RotatedAgents:
    """``position``: of the agents that are followed; ``rotated``: agents at other places; ``newest``: the
    place
    on record that a copy was last asked for."""

    ring: Ring
    position: int = 0
    newest: int = -1
    rotated: dict[int, list[Any]] = field(default_factory=dict)
    # by class: events of unfinished steps
    pending_events: dict[int, dict[int, Event]] = field(default_factory=dict)
    out_of_step: frozenset[int] = frozenset()  # classes that do not stand at the same point at all places
    questions_out_of_step: int = 0  # questions since there are such

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(sorted([self.position, *self.rotated]))

    @property
    def plain(self) -> bool:
        """Whether nothing has been moved yet."""
        return self.position == 0 and not self.rotated

    def fork(self, split: Split) -> RotatedAgents:
        others = {p: list(split(agents)) for p, agents in self.rotated.items()}
        stepped = {cls: dict(done) for cls, done in self.pending_events.items()}
        return RotatedAgents(
            self.ring,
            self.position,
            self.newest,
            others,
            stepped,
            self.out_of_step,
            self.questions_out_of_step,
        )

    # ------------------------------------------------------------ steps

    def step(self, run: Run, t: LaneClass) -> Event:
        """The next event of an agent, as it is on record, once it has come to it at all places. Raises
        Unequal, and what agents raise."""
        ring, done = self.ring, self.pending_events.setdefault(t.cls, {})
        steps = self._steps(t)
        if self.position not in done:
            try:
                done[self.position] = _next(t.agent, t, steps)
            except UndecidedBranch as o:
                same = [self._asks_too(run, place, t, o, done, steps) for place in self.rotated]
                self.out_of_step = (
                    self.out_of_step - {t.cls} if all(same) and not done else self.out_of_step | {t.cls}
                )
                raise
        for place, agents in self.rotated.items():
            if place not in done:
                self.out_of_step |= {t.cls}  # should it ask
                done[place] = _stepped(agents[t.cls], t, steps)
        found = ring.event(done[self.position], -self.position)
        for place, event in done.items():
            if ring.event(event, -place) != found:
                if event[0] == found[0] == Ev.INVAL:
                    raise OrbitSplits(self._alike(done))
                why = f"{done[self.position]} at {self.position}, {event} at {place}"
                raise SymmetryBroken(why, self._out_of_turn(run))
        here = t.agent.point()  # type: ignore[attr-defined]
        for place, agents in self.rotated.items():
            if not self._same_point(here, agents[t.cls], place):
                raise SymmetryBroken("agents stand at different points")
        self.out_of_step -= {t.cls}
        self.questions_out_of_step = self.questions_out_of_step if self.out_of_step else 0
        del self.pending_events[t.cls]
        self._follow(run, found)
        t.emitted = done[self.position]
        return local_parity(run, found)

    def _steps(self, t: LaneClass) -> Any:
        """What agents of a class note of a step that they take one after the other, on one path."""
        return cast(SymbolicAgent, t.agent).lockstep_memo() if self.rotated else None

    def _alike(self, done: dict[int, Event]) -> list[frozenset[int]]:
        """The places at which an agent has come to the same event, moved on by its place."""
        groups: dict[Event, set[int]] = {}
        for place, event in done.items():
            groups.setdefault(self.ring.event(event, -place), set()).add(place)
        return [frozenset(g) for g in groups.values()]

    def restrict_to(self, run: Run, places: frozenset[int]) -> None:
        """Stands for some of its places only."""
        self.rotated[self.position] = [t.agent for t in run.threads]
        self.rotated = {p: agents for p, agents in self.rotated.items() if p in places}
        self.pending_events = {
            cls: {p: event for p, event in done.items() if p in places}
            for cls, done in self.pending_events.items()
        }
        self.out_of_step = self.out_of_step if len(places) > 1 else frozenset()
        if self.position not in places:
            self.position = min(places)
            run.rotation = self.ring, self.position
        for t, agent in zip(run.threads, self.rotated.pop(self.position), strict=True):
            t.agent = agent
            if t.event is not None:
                t.emitted = self.ring.event(local_parity(run, t.event), self.position)

    def count_out_of_step(self) -> None:
        """One more question while agents stand apart. Raises SymmetryBroken."""
        self.questions_out_of_step += 1
        if self.questions_out_of_step > MOST_APART:
            raise SymmetryBroken("agents ask other questions")

    def check_polls_agree(self, run: Run, t: LaneClass) -> None:
        """Whether a poll is for the same at all places. Raises SymmetryBroken, and UndecidedBranch."""
        assert t.event is not None and t.emitted is not None
        mine, event = result_of(t.agent, t.emitted), local_parity(run, t.event)
        for place, agents in self.rotated.items():
            if result_of(agents[t.cls], self.ring.event(event, place)) != mine:
                raise SymmetryBroken("a poll is for something else")

    def _asks_too(
        self, run: Run, place: int, t: LaneClass, o: UndecidedBranch, done: dict[int, Event], steps: Any
    ) -> bool:
        """Whether the same is asked at another place."""
        if place in done:
            return False
        try:
            done[place] = _stepped(self.rotated[place][t.cls], t, steps)
        except UndecidedBranch as e:
            if e.parts == o.parts and e.c != o.c:
                self._suspect(run, t, self.rotated[place], e.c - o.c)
            return (e.c, e.parts) == (o.c, o.parts) and self._same_point(
                t.agent.point(),  # type: ignore[attr-defined]
                self.rotated[place][t.cls],
                place,
            )
        return False

    def _suspect(self, run: Run, t: LaneClass, others: list[Any], by: int) -> None:
        """Raises SymmetryBroken for registers that make a question another one, and are beyond the ring's
        slots;
        with those that differ as much in other classes, which will soon ask as well."""
        if self._counting(t, others[t.cls], by):
            found = (self._counting(x, others[x.cls], by) for x in run.threads if not x.done)
            raise SymmetryBroken("registers count", frozenset().union(*found))

    def _counting(self, t: LaneClass, other: Any, by: int) -> set[tuple[int, Any]]:
        mine, theirs = t.agent.live(), other.live()  # type: ignore[attr-defined]
        return {
            (t.cls, slot)
            for slot, a in mine.items()
            if isinstance(a, int) and isinstance(b := theirs.get(slot), int) and abs(a - b) == abs(by)
            and not (0 <= a < self.ring.size and 0 <= b < self.ring.size)
        }  # fmt: skip

    def _out_of_turn(self, run: Run) -> frozenset[tuple[int, Any]]:
        """Registers beyond the ring's slots that differ where agents are at one slot: these seem to count."""
        found: set[tuple[int, Any]] = set()
        for t in (t for t in run.threads if not t.done):
            live = {p: agents[t.cls].live() for p, agents in self.rotated.items()}
            live[self.position] = t.agent.live()  # type: ignore[attr-defined]
            for slot, value in live[self.position].items():
                values = {p: known[slot] for p, known in live.items() if isinstance(known.get(slot), int)}
                near = {p: v for p, v in values.items() if -1 <= v < self.ring.size}
                at_one = {(p % self.ring.size, v) for p, v in values.items()}
                if isinstance(value, int) and near != values and len(at_one) > len({p for p, _ in at_one}):
                    found.add((t.cls, slot))
        return frozenset(found)

    def _same_point(self, here: Any, other: Any, place: int) -> bool:
        """Whether an agent stands at the same point at another place."""
        there, ring = other.point(), self.ring
        return here == there or bool(ring.point(here, -self.position) == ring.point(there, -place))

    def _follow(self, run: Run, event: Event) -> None:
        """Takes note of the place that a copy is asked for."""
        code = event[0]
        if code in TOKENS or (code == Ev.ARRIVE and event[5] & Flag.TOKEN):
            raise SymmetryBroken("tokens of phases")
        if code != Ev.EXPECT_TX and not (code == Ev.ARRIVE and event[4] >= 0):
            return
        slot, s = self.ring.barriers.get(event[2]), run.barriers.get(event[2])
        if slot is not None and s is not None and run.info.barriers[event[2]].cta == 0:
            self.newest = slot + self.ring.size * ((s.auto.phase + s.flip) % 2)

    def normalise_rotation(self, run: Run) -> bool:
        """Moves what is on record so that place 0 is the one that is to be filled next; whether that was
        another. Raises SymmetryBroken."""
        ring = self.ring
        by = -(self.newest + 1) % ring.places
        if not by:
            return False
        if not supports_rotation(run, ring):
            raise SymmetryBroken("what is on record cannot be moved")
        apply_rotation(run, ring, by)
        self.rotated = {(p - by) % ring.places: agents for p, agents in self.rotated.items()}
        self.pending_events = {
            cls: {(p - by) % ring.places: event for p, event in done.items()}
            for cls, done in self.pending_events.items()
        }
        self.position = (self.position - by) % ring.places
        self.newest = -1
        run.rotation = ring, self.position
        return True

    # ------------------------------------------------------------ registers

    def offsets(self, run: Run, space: SymbolicContext) -> Offsets:
        """Where registers of agents at other places differ, and by how much. Raises SymmetryBroken."""
        out: Offsets = {}
        for t in run.threads if self.rotated else ():
            if t.done:
                continue
            mine = t.agent.live()  # type: ignore[attr-defined]
            for place, agents in self.rotated.items():
                theirs = agents[t.cls].live()
                if theirs.keys() != mine.keys():
                    raise SymmetryBroken("other registers are live")
                for slot, value in mine.items():
                    other = theirs[slot]
                    if value is other:
                        continue
                    for where, by in _apart(("register", t.cls, slot), value, other, space):
                        out.setdefault(where, {})[place] = by
        for by_place in out.values():
            for place in (self.position, *self.rotated):
                by_place.setdefault(place, 0)
        return out

    def flush(self, run: Run, of: Callable[[Any], Any]) -> None:
        """Brings registers up to what the path has rewritten."""
        for agents in self.rotated.values():
            for t in run.threads:
                agent = agents[t.cls]
                for slot, value in () if t.done else agent.live().items():
                    new = of(value)
                    if new is not value:
                        agent.put(slot, new)

    def put(
        self,
        run: Run,
        new: dict[tuple[Any, ...], Any],
        offsets: Offsets,
        places: Sequence[int],
        split: Split,
    ) -> None:
        """Agents at all ``places``, with registers as ``new`` says of those that are followed."""
        before = self.rotated
        mine = [t.agent for t in run.threads]
        self.rotated = {p: before.get(p) or list(split(mine)) for p in places if p != self.position}
        for place, agents in self.rotated.items():
            for t in () if not new else run.threads:
                agent = agents[t.cls]
                for slot, old in () if t.done else list(agent.live().items()):
                    value = _at(new, offsets, ("register", t.cls, slot), place, old)
                    if value is not None and not same(value, old):
                        agent.put(slot, value)


def same(value: Any, old: Any) -> bool:
    """Whether a register holds a number, a term or one for each lane already."""
    if value.__class__ is tuple and old.__class__ is tuple:
        return len(value) == len(old) and all(map(same, value, old))
    return value is old or (value.__class__ is int and old.__class__ is int and value == old)


def _next(agent: Any, t: LaneClass, steps: Any) -> Event:
    """An agent's next event."""
    event: Event = agent.step(t.answer) if steps is None else agent.step_in_lockstep(t.answer, steps)
    return event


def _stepped(agent: Any, t: LaneClass, steps: Any) -> Event:
    try:
        event = _next(agent, t, steps)
    except LaneSplit as e:
        raise SymmetryBroken(repr(e)) from None
    return event


def _at(new: dict[Any, Any], offsets: Offsets, where: tuple[Any, ...], place: int, old: Any) -> Any:
    """What a register is to hold at a place; None: what it does."""
    if where in new:
        return new[where] + offsets.get(where, {}).get(place, 0)
    if (*where, 0) not in new:
        return None
    lanes = [(*where, i) for i in range(len(old))]
    return tuple([new[x] + offsets.get(x, {}).get(place, 0) for x in lanes])


def _apart(where: tuple[Any, ...], value: Any, other: Any, space: SymbolicContext) -> list[tuple[Any, int]]:
    """By how much a register differs, or the lanes of one."""
    if isinstance(value, tuple) and any(isinstance(x, AffineTerm) for x in value):
        if not isinstance(other, tuple) or len(other) != len(value):
            raise SymmetryBroken(f"{value} and {other}")
        found = [_apart((*where, i), a, b, space) for i, (a, b) in enumerate(zip(value, other, strict=True))]
        return [x for some in found for x in some]
    if isinstance(value, Token) or isinstance(other, Token):
        raise SymmetryBroken("tokens of phases")
    if not (isinstance(value, int | AffineTerm) and isinstance(other, int | AffineTerm)):
        if value != other:
            raise SymmetryBroken(f"{where}: {value} and {other}")
        return []
    (c, parts), (d, there) = space.of(space.resolved(value)), space.of(space.resolved(other))
    if parts != there:
        raise SymmetryBroken(f"{where}: {value!r} and {other!r}")
    return [(where, d - c)] if c != d else []


__all__ = ["RotatedAgents", "SymmetryBroken", "same"]
