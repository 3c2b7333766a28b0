"""Runs one agent from a point of its code to the next header, on every way that its questions leave open.

TRUSTED. An agent executes stretches of code between jumps and events; a *header* is a place where loops are
cut. Whatever an agent asks is answered both ways, so the leaves of a tree stand for all its executions.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Any

from syncverify.checker.induction.refusal import NotReadError as NotReadError
from syncverify.checker.induction.words import Held
from syncverify.model.events import Ev, Event, Flag
from syncverify.symbolic.context import SymbolicContext, SymbolSplit, UndecidedBranch, mapped
from syncverify.symbolic.inequalities import Parts, negated
from syncverify.symbolic.path_condition import PathCondition

#: Stretches of code between two headers, and ways from one to the next.
MOST_MOVES, MOST_LEAVES = 6_000, 64
#: Places of queued events and of the end, which are no code.
NO_CODE = 1
#: The wait for the same phase as a look, and moves between them and behind.
_WAIT_OF = {Ev.POLL: Ev.WAIT, Ev.POLL_TOKEN: Ev.WAIT_TOKEN}
MOST_BEHIND = 4
#: Flags of a look that say what it receives.
_RECEIVES = Flag.RELAXED | Flag.CLUSTER


class SizeCaseError(NotReadError):
    """What an agent does depends on ``c + parts >= 0``, over sizes alone: each answer is a case."""

    def __init__(self, c: int, parts: Parts) -> None:
        super().__init__("what is done depends on sizes")
        self.c = c
        self.parts = parts


@dataclass(frozen=True, slots=True)
class Decision:
    """``c + parts >= 0`` was asked, and answered so."""

    c: int
    parts: Parts
    yes: bool


@dataclass(slots=True)
class Leaf:
    """One way through the code: events, decisions, and where it leads: a header, or None at the end.

    ``whole``: its events before those of a loop's last turn were cut off; None: none were.
    """

    agent: Any
    path: PathCondition
    events: tuple[Event, ...] = ()
    decisions: tuple[Decision, ...] = ()
    target: int | None = None
    answer: int = 0
    moves: int = 0
    whole: tuple[Event, ...] | None = None
    held: Held | None = None  # what it finds in shared memory
    accesses: int = 0  # to what it holds
    begun: int | None = None  # where its tile began: a range of ``Header.begins``

    @property
    def all(self) -> tuple[Event, ...]:
        return self.events if self.whole is None else self.whole

    def cut(self, rest: tuple[Event, ...]) -> Leaf:
        """The way with these of its events alone, the others being those of a loop's last turn."""
        return replace(self, events=rest, whole=self.all)


def called(agent: Any, slot: Any) -> Any:
    """What a slot is called in claims. Agents of one kernel may keep one register in different slots."""
    return agent.name(slot) if hasattr(agent, "name") else slot


def registers(agent: Any) -> dict[Any, Any]:
    """What an agent may read before it writes it, as claims call it."""
    return {called(agent, slot): x for slot, x in agent.live().items()}


def resolve(space: SymbolicContext, agent: Any) -> None:
    """Rewrites an agent's registers as the path has rewritten their atoms."""
    for slot, value in agent.live().items():
        new = mapped(value, space.resolved)
        if new is not value:
            agent.put(slot, new)


def leaves(space: SymbolicContext, start: Leaf, headers: Set[int]) -> list[Leaf]:
    """All ways from a point to the next headers; NotReadError where they are too many or lead on for ever."""
    done: list[Leaf] = []
    work = [start]
    while work:
        if len(work) + len(done) > MOST_LEAVES:
            raise NotReadError("too many ways through a stretch of code")
        one = work.pop()
        found = _run(space, one, headers)
        if found is None:
            done.append(one)
        else:
            work += found
    return done


def _run(space: SymbolicContext, one: Leaf, headers: Set[int]) -> list[Leaf] | None:
    """Runs to a header or the end; the ways where it forks."""
    space.path = one.path
    while True:
        one.moves += 1
        if one.moves > MOST_MOVES:
            raise NotReadError("a loop without a header")
        if one.held is not None:
            one.held.begin(one.accesses)
        try:
            event = one.agent.move(one.answer)
        except SymbolSplit as r:
            one.path.substitute(r.atom, r.c, r.parts)
            resolve(space, one.agent)
            continue
        except UndecidedBranch as o:
            return list(_forked(one, o))
        one.answer = 0
        if one.held is not None and one.held.seen:
            one.events = one.held.attributed(one.events)
            one.accesses += 1
        if event is not None:
            if event[0] == Ev.EXIT:
                one.target = None
                return None
            if event[0] == Ev.UNKNOWN:
                raise NotReadError(str(event[2]))
            if event[0] not in _WAIT_OF:
                one.events = (*one.events, event)
                continue
            one.agent, wait = _waited(one, event, headers)
            one.events = (*one.events, wait)
        if one.agent.place() > NO_CODE and one.agent.place() in headers:
            one.target = one.agent.place()
            return None


def _waited(one: Leaf, look: Event, headers: Set[int]) -> tuple[Any, Event]:
    """The agent behind the wait that a look only spares it, and that wait.

    Who gets *no* waits at once for the same phase, and is then where the other one is: so both answers are
    those of one wait. NotReadError for any other look.
    """
    no, yes = one.agent.fork(), one.agent.fork()
    passed = [(x.point(), x.live()) for x, event in _moves(yes, 1, headers) if event is None]
    wait = next((event for _, event in _moves(no, 0, headers) if event is not None), look)
    same = (wait[0], *wait[2:4]) == (_WAIT_OF[Ev(look[0])], *look[2:4])
    same = same and (wait[4] ^ look[4]) & _RECEIVES == 0  # else it may be an event of fewer fields
    for x, event in _moves(no, 0, headers) if same and one.held is None else ():
        if event is None and (x.point(), x.live()) in passed:
            return x, wait
    raise NotReadError("a poll")


def _moves(agent: Any, answer: int, headers: Set[int]) -> Iterator[tuple[Any, Event | None]]:
    """The next few moves of an agent, up to an event, a question or a header."""
    for k in range(MOST_BEHIND):
        try:
            event = agent.move(answer if k == 0 else 0)
        except (SymbolSplit, UndecidedBranch):
            return
        yield agent, event
        if event is not None or agent.place() in headers:
            return


def _forked(one: Leaf, o: UndecidedBranch) -> Iterator[Leaf]:
    for yes in (True, False):
        path = one.path.fork()
        path.assume_branch(*((o.c, o.parts) if yes else (-o.c - 1, negated(o.parts))))
        if not path.dead:
            decided = (*one.decisions, Decision(o.c, o.parts, yes))
            yield replace(one, agent=one.agent.fork(), path=path, decisions=decided)
