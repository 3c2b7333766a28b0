"""Numbers that an atomic in global memory hands out one after the other: tiles of a dynamic scheduler.

What a take brings is not known, but it is one number that all who hear of it see alike, larger than what the
same agent took before. Questions about it are tried with both answers, as far as both can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from syncverify.base.reason import Reason
from syncverify.frontends.ptx.values.register_values import (
    INTS,
    PLACES,
    PerLane,
    Unknown,
    choice,
    lift_operator,
)

#: The largest number that is looked at of counters that go on to the end of their type.
MOST = 1 << 30
_HALF = 1 << 31
_WORD = (1 << 32) - 1
#: A place that takes: the counter's address; CTA in the cluster, warp and lane.
Agent = tuple[int, int, int]
#: Whether the number of a take lies below a limit: address, agent, which of the agent's takes, limit.
Question = tuple[str, int, Agent, int, int]


class TicketDemand(Unknown):
    """A value that a launch file could tell: it says so also to those who read it in shared memory."""

    __slots__ = ()


class Ticket(Unknown):
    """The number of one take, plus ``offset``; ``flipped``: with the sign bit turned, as comparisons do.

    ``least`` and ``most``: what the number itself can be, whatever is asked.
    """

    __slots__ = ("flipped", "least", "most", "offset", "tickets", "which")

    def __init__(self, tickets: Tickets, which: tuple[int, Agent, int], least: int, most: int, why: str,
                 offset: int = 0, flipped: bool = False) -> None:  # fmt: skip
        super().__init__(why, "data", ("ticket", *which, offset, flipped))
        self.tickets = tickets
        self.which = which
        self.least = least
        self.most = most
        self.offset = offset
        self.flipped = flipped

    def _moved(self, offset: int) -> Unknown:
        return self.tickets.moved(self, offset, self.flipped)

    def __add__(self, o: Any) -> Any:
        plain = o.__class__ in INTS and not self.flipped
        return self._moved(self.offset + o) if plain else self.derived()

    __radd__ = __add__

    def __sub__(self, o: Any) -> Any:
        plain = o.__class__ in INTS and not self.flipped
        return self._moved(self.offset - o) if plain else self.derived()

    def __and__(self, o: Any) -> Any:
        if o.__class__ in INTS and o == _WORD and not self.flipped:
            offset = (self.offset + _HALF & _WORD) - _HALF
            if self.least + offset >= 0 and self.most + offset <= _WORD:
                return self._moved(offset)
        return self._unless_zero(o)

    __rand__ = __and__  # type: ignore[assignment]

    def __xor__(self, o: Any) -> Any:
        inside = 0 <= self.least + self.offset and self.most + self.offset < _HALF
        if o.__class__ in INTS and o == _HALF and inside:
            return self.tickets.moved(self, self.offset, not self.flipped)
        return self.derived()

    __rxor__ = __xor__  # type: ignore[assignment]

    def _below(self, limit: Any, negated: bool) -> Any:
        """Whether the register holds less than a number; lane by lane where lanes ask for different ones."""
        if limit.__class__ is PerLane:
            return lift_operator(_not_below if negated else _below, self, limit)
        if limit.__class__ not in INTS or self.least + self.offset < 0:
            return self.derived()
        number = limit - self.offset - (_HALF if self.flipped else 0)
        return choice(self.why, self.source, ("ticket", *self.which, number, negated))

    def __lt__(self, o: Any) -> Any:
        return self._below(o, False)

    def __le__(self, o: Any) -> Any:
        return self._below(o + 1, False)

    def __gt__(self, o: Any) -> Any:
        return self._below(o + 1, True)

    def __ge__(self, o: Any) -> Any:
        return self._below(o, True)


def _below(ticket: Ticket, limit: Any) -> Any:
    return ticket._below(limit, False)


def _not_below(ticket: Ticket, limit: Any) -> Any:
    return ticket._below(limit, True)


def is_forwarded(value: Unknown) -> bool:
    """Whether a value is known by what it is for those who read it in shared memory."""
    if value.__class__ is Unknown:
        return value.source in PLACES or (value.key is not None and value.key[:2] == ("choice", "ticket"))
    return True


@dataclass(slots=True)
class Counter:
    """A counter as the agents of one run saw it: its first number, its last, and what was asked."""

    first: int
    most: int
    why: str
    takes: dict[Agent, int] = field(default_factory=dict)  # how many
    below: dict[tuple[Agent, int], int] = field(default_factory=dict)  # the least limit a take lies below
    above: dict[tuple[Agent, int], int] = field(default_factory=dict)  # the largest that it reaches

    def least(self, agent: Agent, n: int) -> int:
        """The least that an agent's take ``n`` can bring: its takes bring more and more."""
        low = self.first - 1
        for k in range(n + 1):
            low = max(low + 1, self.above.get((agent, k), low + 1))
        return low


@dataclass(slots=True)
class Tickets:
    """What one run's atomics hand out. ``given``: answers to questions; others are answered with no.

    ``decided``: what was asked, in order, and answered; ``wrong``: why the counters are none after all.
    """

    given: Mapping[Question, int] = field(default_factory=dict)
    decided: dict[Question, int] = field(default_factory=dict)
    counters: dict[int, Counter] = field(default_factory=dict)
    wrong: str = ""
    #: how many takes came, by counter, agent, and -1 or the first of the lanes of its warp who hear of them
    came: dict[tuple[int, Agent, int], int] = field(default_factory=dict)
    _known: dict[Any, Ticket] = field(default_factory=dict)

    def lose(self, why: str) -> None:
        """Something was counted that is not followed."""
        self.wrong = self.wrong or why

    def take(self, address: int, agent: Agent, n: int, first: int, last: int, why: str) -> Unknown:
        """What an agent's take number ``n`` brings."""
        counter = self.counters.setdefault(address, Counter(first, min(last, MOST), why))
        if counter.most != min(last, MOST) or first > last:
            self.lose(Reason(f"{why}: the last number of the counter is not the same for all", parts=(why,)))
        counter.takes[agent] = max(counter.takes.get(agent, 0), n + 1)
        which = (address, agent, n)
        found = self._known.get((which, 0, False))
        if found is None:
            found = Ticket(self, which, first + n, counter.most, why)
            self._known[which, 0, False] = found
        return found

    def trouble(self) -> str:
        """Why what is said of the counters may not be so, once a run is over."""
        for (address, agent, _), n in self.came.items():
            if self.came.get((address, agent, -1)) != n and not self.wrong:
                return "lanes hear of some numbers that a lane of their warp takes, not of all"
        return self.wrong

    def moved(self, ticket: Ticket, offset: int, flipped: bool) -> Unknown:
        """The same take with another offset: one object for each."""
        key = (ticket.which, offset, flipped)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Ticket(
                self, ticket.which, ticket.least, ticket.most, ticket.why, offset, flipped
            )
        return found

    def answer(self, question: Question) -> int:
        """Whether a take's number lies below a limit, in this run."""
        _, address, agent, n, limit = question
        counter = self.counters[address]
        at = (agent, n)
        least = counter.least(agent, n)
        if least >= limit:
            return 0
        if counter.below.get(at, counter.most + 1) <= limit:
            return 1
        found = self.decided[question] = self.given.get(question, 0)
        if found:
            counter.below[at] = limit
        else:
            counter.above[at] = limit
        return found

    def others(self) -> list[dict[Question, int]]:
        """Answers with which runs see what this one did not."""
        new = [(q, a) for q, a in self.decided.items() if q not in self.given]
        return [{**self.given, **dict(new[:i]), q: 1 - a} for i, (q, a) in enumerate(new)]


@dataclass(slots=True)
class Taken:
    """What all runs together say of the counters: that none starts again before the grid is through.

    Numbers below the largest limit are handed out once each; what else a cluster takes is counted.
    """

    limits: dict[int, int] = field(default_factory=dict)
    runs: list[Mapping[int, Counter]] = field(default_factory=list)

    def add(self, tickets: Tickets) -> None:
        self.runs.append(tickets.counters)
        for address, c in tickets.counters.items():
            limit = max([c.first, *c.below.values()])
            self.limits[address] = max(self.limits.get(address, c.first), limit)

    def may_wrap(self, clusters: int | None) -> str | None:
        """Why a counter may start again, and hand a number out twice."""
        for counters in self.runs:
            for address, c in counters.items():
                limit = self.limits[address]
                rest = sum(c.takes.values()) - len(c.below)
                if clusters is None or rest * clusters > c.most + 1 - limit:
                    grid = "a grid that is not known" if clusters is None else f"{clusters} clusters"
                    text = f"{c.why}: {grid} may take more numbers than the counter has"
                    return Reason(text, parts=(c.why,))
        return None
