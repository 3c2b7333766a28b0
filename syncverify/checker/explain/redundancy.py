"""What a proved kernel would be proved without: fences that could go, be narrower or elsewhere, long waits.

Nothing is decided by looking at a program: the events of one place are dropped, narrowed or moved in the
agents' streams, and the changed systems are checked. So it serves every front end. A finding is a note, holds
for the launch values of the systems, and adds to those before it: all of them can be followed together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from syncverify.base.diagnostics import Diagnostic, Severity, Verdict
from syncverify.base.source import Span
from syncverify.checker.outcome import Outcome
from syncverify.model.events import Agent, Ev, Event, LaneSplit, System, SystemInfo, ThreadClass
from syncverify.model.proxies import Space

#: Events that the checks of all changed systems together may take; a count, so that two runs agree.
MAX_EVENTS = 100_000

RULES = frozenset({"SV601", "SV602", "SV603", "SV604", "SV605", "SV606"})
FENCES = frozenset({Ev.PROXY_FENCE, Ev.FENCE})
#: Waits for groups, which may wait for more than anybody needs.
DRAINS = frozenset({Ev.BULK_WAIT, Ev.CP_WAIT, Ev.WGMMA_WAIT})
BARRIERS = frozenset({Ev.BARRIER_SYNC, Ev.WARP_SYNC})
_WRITES = frozenset({Ev.WRITE, Ev.ATOMIC, Ev.CP_ASYNC, Ev.ST_ASYNC})
_ISSUES = frozenset({Ev.BULK_LOAD, Ev.BULK_STORE, Ev.BULK_COPY, Ev.WGMMA})
#: At these an agent meets others or learns of what they did: a fence may move up to them, not across.
MEETINGS = frozenset({
    Ev.EXIT, Ev.WAIT, Ev.WAIT_TOKEN, Ev.POLL, Ev.POLL_TOKEN, Ev.ARRIVE, Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE,
    Ev.CLUSTER_ARRIVE, Ev.CLUSTER_WAIT, Ev.BULK_WAIT, Ev.CP_WAIT, Ev.WGMMA_WAIT, Ev.FAULT, Ev.UNKNOWN,
})  # fmt: skip

Place = tuple[Span, str]  # an operation of the source: where it stands, and its text
Warp = tuple[int, int]  # CTA, warp
Passed = tuple[tuple[Event, ...], Any]


# ---------------------------------------------------------------- changed systems


class Change(Protocol):
    """A change to an agent's events."""

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        """What takes the place of ``event``, and what the agent keeps in mind (None at first, hashable)."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The operation at ``place`` is gone, for the given warps only or for all."""

    place: Place
    warps: frozenset[Warp] | None = None

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        gone = place == self.place and (self.warps is None or (cls.cta, cls.warp) in self.warps)
        return () if gone else (event,), None


@dataclass(frozen=True, slots=True)
class Narrow:
    """The proxy fence at ``place`` covers the block's shared memory alone."""

    place: Place

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place == self.place:
            event = (event[0], event[1], int(Space.SHARED_CTA), *event[3:])
        return (event,), None


@dataclass(frozen=True, slots=True)
class Lazier:
    """The wait for groups at ``place`` is for their reads only, or leaves one group more pending."""

    place: Place
    reads: bool

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place != self.place:
            return (event,), None
        if self.reads:
            return ((*event[:3], 1),), None
        return ((*event[:2], event[2] + 1, *event[3:]),), None


@dataclass(frozen=True, slots=True)
class First:
    """Of the events at ``place`` between two meetings only the first."""

    place: Place

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place == self.place:
            return () if held else (event,), True
        return (event,), None if event[0] in MEETINGS else held


@dataclass(frozen=True, slots=True)
class Last:
    """Of the events at ``place`` between two meetings only one, right before the second."""

    place: Place

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place == self.place:
            return (), event
        if held is not None and event[0] in MEETINGS:
            return (held, event), None
        return (event,), held


@dataclass(slots=True)
class Changed:
    """A system whose agents' events pass through changes, in order."""

    inner: System
    changes: tuple[Change, ...]

    @property
    def info(self) -> SystemInfo:
        return self.inner.info

    @info.setter
    def info(self, value: SystemInfo) -> None:
        self.inner.info = value

    def agents(self) -> Sequence[Agent]:
        held = (None,) * len(self.changes)
        return [_Agent(agent, self, held) for agent in self.inner.agents()]

    def refined(self, split: LaneSplit) -> Changed:
        return Changed(self.inner.refined(split), self.changes)


class _Agent:
    """An agent of a changed system. ``queue``: events to come before the inner agent goes on."""

    __slots__ = ("cls", "held", "inner", "queue", "system")

    def __init__(
        self, inner: Agent, system: Changed, held: tuple[Any, ...], queue: tuple[Event, ...] = ()
    ) -> None:
        self.cls = inner.cls
        self.inner = inner
        self.system = system
        self.held = held
        self.queue = queue

    def step(self, answer: int = 0) -> Event:
        """The next event that the changes let pass; see ``model.events.Agent``.

        An inner event, where it passes, is the last of its queue: the answer that follows it is its own.
        """
        while not self.queue:
            self.queue = self._changed(self.inner.step(answer))
            answer = 0
        event, *rest = self.queue
        self.queue = tuple(rest)
        return event

    def _changed(self, event: Event) -> tuple[Event, ...]:
        info = self.system.info
        events: tuple[Event, ...] = (event,)
        held = list(self.held)
        for i, change in enumerate(self.system.changes):
            passed: tuple[Event, ...] = ()
            for e in events:
                site = info.sites[e[1]]
                new, held[i] = change.apply(e, (site.span, site.text), held[i], info.classes[self.cls])
                passed += new
            events = passed
        self.held = tuple(held)
        return events

    def fork(self) -> _Agent:
        return _Agent(self.inner.fork(), self.system, self.held, self.queue)

    def snapshot(self) -> Hashable:
        return (self.inner.snapshot(), self.held, self.queue)

    def normalize(self) -> Hashable:
        return (self.inner.normalize(), self.held, self.queue)


# ---------------------------------------------------------------- what the agents did


@dataclass(slots=True)
class _Use:
    """An operation that a kernel may do without."""

    place: Place
    code: int
    spaces: int = 0  # of a proxy fence
    pending: int = 0  # groups that a wait leaves, and
    complete: bool = False  # whether it is for their writes, too
    lanes: dict[Warp, int] = field(default_factory=dict)  # of the system that runs
    warps: set[Warp] = field(default_factory=set)
    repeated: bool = False  # some agent executes it twice between two meetings
    unseen: bool = False  # part of a warp executes it that the warp did not elect


@dataclass(slots=True)
class _Survey:
    """Notes what agents do, and changes nothing."""

    uses: dict[Place, _Use] = field(default_factory=dict)
    issuers: set[Warp] = field(default_factory=set)
    writers: set[Warp] = field(default_factory=set)
    electing: set[Warp] = field(default_factory=set)  # of the system that runs
    events: int = 0

    def run(self, system: System, judge: Callable[[System], Outcome]) -> None:
        """Notes what one system does."""
        self.electing.clear()
        for use in self.uses.values():
            use.lanes.clear()
        judge(Changed(system, (self,)))
        whole: dict[Warp, int] = {}
        for c in system.info.classes:
            whole[c.cta, c.warp] = whole.get((c.cta, c.warp), 0) | c.lanes
        for use in self.uses.values():
            use.warps |= set(use.lanes)
            for warp, mask in use.lanes.items():
                elected = warp in self.electing and mask == 1 << system.info.elected_lane
                use.unseen |= mask != whole[warp] and not elected

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        code, warp = event[0], (cls.cta, cls.warp)
        self.events += 1
        if code in FENCES or code in BARRIERS or code in DRAINS:
            use = self.uses.setdefault(place, _Use(place, code))
            use.lanes[warp] = use.lanes.get(warp, 0) | cls.lanes
            use.spaces |= event[2] if code == Ev.PROXY_FENCE else 0
            use.pending = event[2] if code in DRAINS else 0
            use.complete = code == Ev.BULK_WAIT and not event[3]
            use.repeated |= held is not None and place in held
            held = (held or frozenset()) | {place}
        elif code in _ISSUES:
            self.issuers.add(warp)
        elif code in _WRITES:
            self.writers.add(warp)
        elif code == Ev.ELECT:
            self.electing.add(warp)
        return (event,), None if code in MEETINGS else held


# ---------------------------------------------------------------- advice


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A change, and what to say if the kernel is proved with it."""

    rule: str
    change: Change
    message: str
    fix: str


def advise(
    systems: Sequence[System],
    judge: Callable[[System], Outcome],
    known: Collection[Diagnostic],
    removable: Collection[int] = FENCES,
    rules: Collection[str] = RULES,
    budget: int | None = None,
) -> tuple[Diagnostic, ...]:
    """Notes (of ``rules``) on what a kernel could do without, all of whose ``systems`` are proved.

    ``judge`` checks one system; ``known`` are the findings that the kernel has already, and a change may add
    none. ``removable``: which events are looked at (fences; barriers only where no data goes through global
    memory, which a proof does not cover). ``budget``: events that the checks may take, else ``MAX_EVENTS``.
    """
    survey = _Survey()
    for system in systems:
        survey.run(system, judge)
    accepted = {(d.rule, d.span) for d in known}
    affordable = (MAX_EVENTS if budget is None else budget) // max(survey.events, 1)
    kept: tuple[Change, ...] = ()
    found: list[Diagnostic] = []

    def proved(changes: tuple[Change, ...]) -> bool:
        for system in systems:
            outcome = judge(Changed(system, changes))
            if outcome.verdict is not Verdict.PROVED:
                return False
            if not {(d.rule, d.span) for d in outcome.diagnostics} <= accepted:
                return False
        return True

    for use in [u for u in survey.uses.values() if u.code in removable]:
        answered: set[str] = set()
        for attempt in _attempts(use, survey):
            if attempt.rule not in rules or attempt.rule in answered or "SV602" in answered:
                continue
            affordable -= 1
            if affordable < 0:
                return tuple(found)
            if proved((*kept, attempt.change)):
                kept = (*kept, attempt.change)
                answered.add(attempt.rule)
                found.append(
                    Diagnostic(attempt.rule, Severity.NOTE, attempt.message, use.place[0], attempt.fix)
                )
        if "SV605" in rules and use.code == Ev.PROXY_FENCE and use.unseen and "SV602" not in answered:
            found.append(_single_threads(use))
    return tuple(found)


def _attempts(use: _Use, survey: _Survey) -> Iterator[_Attempt]:
    """Changes worth trying, the most rewarding first."""
    text = f"`{use.place[1]}`"
    if use.code in DRAINS:
        message = f"{text} waits for more than its consumers need"
        if use.complete:
            yield _Attempt("SV606", Lazier(use.place, True), message, "wait with .read")
        elif use.pending >= 0:
            fix = f"leave {use.pending + 1} pending"
            yield _Attempt("SV606", Lazier(use.place, False), message, fix)
        return
    nothing = f"{text} changes nothing: the kernel is proved without it"
    yield _Attempt("SV602", Drop(use.place), nothing, "remove it")
    if use.code not in FENCES:
        return
    for busy, what in ((survey.issuers, "copies"), (survey.issuers | survey.writers, "accesses")):
        idle = frozenset(use.warps) - busy
        if idle and len(idle) < len(use.warps):
            count = len(use.warps)
            message = f"{text} is executed by {count} warps; {len(idle)} of them need not"
            yield _Attempt(
                "SV604", Drop(use.place, idle), message, f"put it under the predicate of the {what}"
            )
    if use.code == Ev.PROXY_FENCE and use.spaces == Space.ALL:
        wide = f"{text} covers every state space, but only the block's shared memory needs it"
        yield _Attempt("SV601", Narrow(use.place), wide, "use fence.proxy.async.shared::cta")
    if use.repeated:
        for where, change in (("in front of", First(use.place)), ("behind", Last(use.place))):
            message = f"{text} stands in a loop, but once {where} it is enough"
            yield _Attempt("SV603", change, message, f"move it {where} the loop")


def _single_threads(use: _Use) -> Diagnostic:
    message = (
        f"`{use.place[1]}` stands under a predicate on single threads: no compiler can see that lanes agree"
    )
    fix = "write the guard over the warp's index or an elected lane"
    return Diagnostic("SV605", Severity.NOTE, message, use.place[0], fix)
