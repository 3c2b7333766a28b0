"""What the answer of a look at an mbarrier is for, by giving both answers to copies of its agent.

An example is the look of a consumer ahead of its wait: ``done = test_wait(full[i]); ...; if not done:
wait(full[i])``. Whoever gets *no* waits, and does the same as the other one from there on.
"""

from __future__ import annotations

from enum import Enum

from syncverify.model.events import Agent, Ev, Event

#: Events between a look and its wait, and behind the wait until both do the same.
MOST_BETWEEN = 64
_WAITS = {Ev.POLL: Ev.WAIT, Ev.POLL_TOKEN: Ev.WAIT_TOKEN}
_ENDS = (Ev.EXIT, Ev.POLL, Ev.POLL_TOKEN, Ev.UNKNOWN)


class Use(Enum):
    """``LOOP``: it is repeated until it is true; ``GUARD``: *no* leads to a wait for the same phase."""

    LOOP = "loop"
    GUARD = "guard"


def use_of(agent: Agent, event: Event) -> Use | None:
    """The use of the look that an agent has come to; None for any other one."""
    no, yes = agent.fork(), agent.fork()
    refused, passed = no.step(0), yes.step(1)
    if refused == event and passed != event and no.normalize() == agent.normalize():
        return Use.LOOP
    wait = (_WAITS[Ev(event[0])], *event[2:4])
    for _ in range(MOST_BETWEEN):
        if (refused[0], *refused[2:4]) == wait and refused != passed:
            return Use.GUARD if _alike(no, yes, passed) else None
        if refused != passed or refused[0] in _ENDS or no.normalize() == yes.normalize():
            return None
        if refused[0] in _WAITS.values() and refused[2] == event[2]:
            return None  # of another phase of the barrier, of which the look knows nothing
        refused, passed = no.step(0), yes.step(0)
    return None


def _alike(waited: Agent, passed: Agent, event: Event) -> bool:
    """Whether one that has waited does what the other one does, whose next event is given."""
    for _ in range(MOST_BETWEEN):
        if waited.step(0) != event:
            return False
        if event[0] == Ev.EXIT or waited.normalize() == passed.normalize():
            return True
        if event[0] in _ENDS:
            return False
        event = passed.step(0)
    return False
