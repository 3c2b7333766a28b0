"""A proof for every size of one family ``period * m + remainder``, from finitely many exact runs.

1. The *spine*: the canonical run with the size large. Each comparison with the size notes the largest m for
   which its answer would differ, so a run with m above the threshold T of a point goes through that point.
2. Two points with thresholds T0 < T1, equal normal forms of the checker, and agents that differ by a shift:
   the stretch between them is a *cycle*. The agents go through it once more with every register as the line
   through its two values, ``x + d*Q`` (the size being ``... + period*(T1 - T0)*Q``); each answer must be
   the same for all Q, each event free of Q, and each register must arrive on its line again.
3. *Tails*: the runs for T0 < m <= T1, exact, and from the first point on with registers on their lines.

Any larger m is such a tail after Q cycles: it meets the same events, and equal normal forms have equal
verdicts. What is left, m <= T0, is checked one by one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from syncverify.checker.clocks import Columns, ColumnsExhausted
from syncverify.checker.engine import YIELD, Run, Thread, TooManyEvents
from syncverify.checker.explore.normal import normal
from syncverify.checker.failure import Failure
from syncverify.checker.final import finish
from syncverify.checker.outcome import Budget
from syncverify.checker.search import fresh
from syncverify.checker.waits import classify
from syncverify.diagnostics import Policy, Severity
from syncverify.model.events import Ev, Event, Flag
from syncverify.model.symbols import (
    Asked,
    Family,
    Linear,
    Multiple,
    NotUniform,
    SizedAgent,
    SizedSystem,
    Symbolic,
    linear,
    symbolic,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one family may cost; counts, so that two runs agree."""

    events: int = 60_000  # of a spine
    points: int = 300
    attempts: int = 400  # cycles that turn out not to repeat


@dataclass(slots=True)
class Point:
    """A place of the spine just before a step that compares the size more closely than ever before."""

    threshold: int  # runs with a larger m come here
    steps: int  # of all agents so far
    seen: list[int]  # steps of each agent so far
    agents: list[SizedAgent]


@dataclass(frozen=True, slots=True)
class Cycle:
    """What proves a family beyond its tails: the two points of the spine."""

    first: Point
    second: Point

    @property
    def length(self) -> int:
        return self.second.threshold - self.first.threshold


@dataclass(frozen=True, slots=True)
class Spine:
    """What the run of large sizes came to. ``cycle`` is None if it ended, or failed, by itself: then all
    sizes above ``threshold`` run alike."""

    threshold: int
    cycle: Cycle | None
    failed: bool
    events: int
    points: int


class _Walk:
    """A run whose agents' steps are watched."""

    def __init__(self, system: SizedSystem, events: int) -> None:
        classes = len(system.info.classes)
        columns = Columns(classes, len(system.info.barriers) + 9 * classes + 64)
        like = SimpleNamespace(system=system, columns=columns, ignores_pool=False, parks=False)
        self.run = fresh(cast(Run, like), Budget(max_events=events))
        self.run.eager = True
        self.steps = 0
        self.log: list[list[tuple[int, Event]]] = [[] for _ in self.run.threads]

    def walk(self) -> None:
        """As ``Run.run``, one agent's step at a time; whoever jumps back lets the others go on first, so that
        agents that never wait for each other keep together."""
        run = self.run
        while run.ready:
            t = run.ready.popleft()
            while not t.done and not t.blocked:
                back = self.fetch(t) if t.event is None else False
                result = run.step(t)
                if self.log[t.cls][-1][1][0] == Ev.ARRIVE:
                    t.answer = 0  # the phase that it counted in, which nobody keeps
                if result == YIELD or (back and not t.done and not t.blocked):
                    run.ready.append(t)
                    break

    def fetch(self, t: Thread) -> bool:
        """The next event of an agent; whether it jumped back in its code."""
        if len(self.run.trace) >= self.run.max_events:
            raise TooManyEvents
        place = cast(SizedAgent, t.agent).point()[0]
        self.enter(t, self.step(t))
        return bool(cast(SizedAgent, t.agent).point()[0] < place)

    def step(self, t: Thread) -> Event:
        return t.agent.step(t.answer)

    def enter(self, t: Thread, event: Event) -> None:
        self.steps += 1
        self.log[t.cls].append((t.answer, event))
        t.event, t.answer = event, 0
        t.time += 1
        t.clock.advance(t.cls, t.time)
        if event[0] in (Ev.WAIT_TOKEN, Ev.POLL_TOKEN) or (event[0] == Ev.ARRIVE and event[5] & Flag.TOKEN):
            raise Symbolic("waits on phase tokens are not followed through all sizes")
        if event[0] == Ev.UNKNOWN:
            raise Symbolic(str(event[2]))


class _Found(Exception):  # noqa: N818 -- control flow: the spine need not go on
    def __init__(self, cycle: Cycle | None) -> None:
        self.cycle = cycle


class _SpineWalk(_Walk):
    def __init__(self, system: SizedSystem, asked: Asked, policy: Policy, limits: Limits) -> None:
        super().__init__(system, limits.events)
        self.asked = asked
        self.policy = policy
        self.limits = limits
        self.points: dict[Hashable, list[Point]] = {}
        self.count = 0
        self.attempts = 0
        self.looked = 0  # failures looked at

    def step(self, t: Thread) -> Event:
        if len(self.run.failures) > self.looked:
            self.looked = len(self.run.failures)
            if broken(self.run, self.policy):
                raise _Found(None)
        before = cast(SizedAgent, t.agent).fork()
        threshold = self.asked.threshold
        event = t.agent.step(t.answer)
        if self.asked.threshold > threshold:
            after, t.agent = t.agent, before
            self.point(t, threshold)
            t.agent = after
        return event

    def point(self, t: Thread, threshold: int) -> None:
        form = (t.cls, normal(self.run))
        agents = [cast(SizedAgent, o.agent).fork() for o in self.run.threads]
        here = Point(threshold, self.steps, [len(x) for x in self.log], agents)
        self.count += 1
        if self.count > self.limits.points:
            raise Symbolic(f"no state repeats within {self.limits.points} points")
        earlier = self.points.setdefault(form, [])
        # a period may be longer than the state shows: also look 2, 4 and 8 occurrences back
        for first in [earlier[-n] for n in (1, 2, 4, 8) if n <= len(earlier)]:
            try:
                self.repeat(Cycle(first, here))
            except NotUniform as e:
                self.attempts += 1
                if self.attempts > self.limits.attempts:
                    raise Symbolic(f"{e}, {self.attempts} times") from None
                continue
            raise _Found(Cycle(first, here))
        earlier.append(here)

    def repeat(self, cycle: Cycle) -> None:
        """Goes through the cycle with every register on its line; raises NotUniform."""
        asked = Asked(large=False)
        first, second = cycle.first, cycle.second
        for cls, log in enumerate(self.log):
            agent = first.agents[cls].fork()
            end = second.agents[cls]
            if agent.point() != end.point():
                raise NotUniform("agents at different places")
            for slot, line in _lines(cycle, cls, asked, second.threshold + 1, True).items():
                agent.put(slot, line)
            for answer, event in log[first.seen[cls] : second.seen[cls]]:
                if agent.step(answer) != event:
                    raise NotUniform("an event that repetitions change")
                if event[0] == Ev.POLL:
                    classify(cast(Thread, SimpleNamespace(agent=agent)), event)
            if agent.point() != end.point():
                raise NotUniform("a place that repetitions change")
            there = agent.live()
            for slot, line in _lines(cycle, cls, asked, second.threshold + 1, True, at_end=True).items():
                if not _same(there[slot], line):
                    raise NotUniform("a register that leaves its line")


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Linear) and isinstance(b, Linear):
        return (a.c, a.q, a.s) == (b.c, b.q, b.s)
    if isinstance(a, Multiple) and isinstance(b, Multiple):
        return (a.c, a.g, a.name) == (b.c, b.g, b.name)
    return a is b or (not symbolic(a) and not symbolic(b) and bool(a == b))


def _lines(
    cycle: Cycle, cls: int, asked: Asked, m: int, beyond: bool, at_end: bool = False
) -> dict[int, Any]:
    """The live registers at a point of the cycle, as lines over its repetitions.

    The size is ``m`` (and ``S`` more, if ``beyond``) plus the cycle's length times Q.
    """
    x, y = cycle.first.agents[cls].live(), cycle.second.agents[cls].live()
    return {slot: _line(x[slot], y[slot], cycle.length, asked, m, beyond, at_end) for slot in y}


def _line(a: Any, b: Any, length: int, asked: Asked, m: int, beyond: bool, at_end: bool) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return linear(asked, b if at_end else a, b - a, 0)
    if isinstance(a, Linear) and isinstance(b, Linear) and a.s == b.s:
        shift = b.c - a.c + a.s * length
        return linear(asked, (b if at_end else a).c + a.s * m, shift, a.s if beyond else 0)
    if _same(a, b):
        return a
    raise NotUniform("a register without a line")


def broken(run: Run, policy: Policy) -> bool:
    """Whether the run met a failure that counts."""
    return any(_counts(f, policy) for f in run.failures.values())


def _counts(f: Failure, policy: Policy) -> bool:
    return f.severity == Severity.ERROR or (policy == Policy.STRICT and f.strict_only)


def spine(system: SizedSystem, family: Family, policy: Policy, limits: Limits) -> Spine:
    """Runs the family with its size large until a cycle is found. Raises Symbolic, LaneSplit, Unmodelled."""
    asked = Asked(large=True)
    size = Linear(asked, family.remainder, 0, family.period)
    w = _SpineWalk(system.sized(size), asked, policy, limits)
    cycle, failed = None, False
    try:
        w.walk()
        failed = w.run.hung
    except _Found as found:
        cycle, failed = found.cycle, found.cycle is None
    except TooManyEvents:
        raise Symbolic(f"no state repeats within {limits.events} events") from None
    except ColumnsExhausted:
        raise Symbolic("too many synchronization objects") from None
    return Spine(asked.threshold, cycle, failed, len(w.run.trace), w.count)


class _TailWalk(_Walk):
    """An exact run whose registers are put on their lines at the cycle's first point."""

    def __init__(self, system: SizedSystem, cycle: Cycle, m: int, limits: Limits) -> None:
        super().__init__(system, limits.events)
        self.cycle = cycle
        self.m = m
        self.asked = Asked(large=False)

    def step(self, t: Thread) -> Event:
        if self.steps == self.cycle.first.steps:
            for o in self.run.threads:
                agent = cast(SizedAgent, o.agent)
                if agent.point() != self.cycle.first.agents[o.cls].point():
                    raise NotUniform("a tail that leaves the spine too early")
                for slot, line in _lines(self.cycle, o.cls, self.asked, self.m, False).items():
                    agent.put(slot, line)
        return t.agent.step(t.answer)


def tail(system: SizedSystem, family: Family, cycle: Cycle, m: int, policy: Policy, limits: Limits) -> bool:
    """Whether the run for ``m`` is the same, and clean, after any number of cycles. Raises as ``spine``."""
    w = _TailWalk(system.sized(family.size(m)), cycle, m, limits)
    try:
        w.walk()
    except (TooManyEvents, ColumnsExhausted):
        raise Symbolic(f"a run for size {family.size(m)} exceeds {limits.events} events") from None
    finish(w.run)
    return not w.run.hung and not broken(w.run, policy)


def tails(cycle: Cycle) -> Iterator[int]:
    """The m of the tails."""
    yield from range(cycle.first.threshold + 1, cycle.second.threshold + 1)


__all__ = ["Cycle", "Limits", "Spine", "field", "spine", "tail", "tails"]
