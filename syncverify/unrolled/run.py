"""What each class of lanes does, as one list of events: a run in which every wait passes."""

from __future__ import annotations

from collections.abc import Sequence

from syncverify.frontends.ptx.system import PtxSystem
from syncverify.model.events import Agent, Ev, Event, Flag, LaneSplit
from syncverify.unrolled.places import Unfit

#: Events of one class, and how often lanes may turn out to disagree.
MOST_EVENTS = 20_000
MOST_SPLITS = 4096
#: Events at which the other classes get their turn, so that what they store can be loaded.
_TURNS = frozenset({Ev.WAIT, Ev.WAIT_TOKEN, Ev.BARRIER_SYNC, Ev.CLUSTER_WAIT, Ev.SPIN, Ev.WARP_SYNC})
_POLLS = frozenset({Ev.POLL, Ev.POLL_TOKEN})
_WAITS = frozenset({Ev.WAIT, Ev.WAIT_TOKEN})
_AS_WAIT = {Ev.POLL: Ev.WAIT, Ev.POLL_TOKEN: Ev.WAIT_TOKEN}
#: Events after a poll that are compared for both answers.
_COMPARED = 64


def settled(system: PtxSystem) -> tuple[PtxSystem, list[list[Event]]]:
    """The system with classes whose lanes agree throughout, and the events of each.

    The token of an arrival is its number among the class's tokens. A poll that steers is a wait; one that
    stays a poll does not change what follows. Raises Unfit for classes that do not end.
    """
    for _ in range(MOST_SPLITS):
        try:
            return system, _sequences(system.agents())
        except LaneSplit as split:
            system = system.refined(split)
    raise Unfit("the lanes of its warps disagree too often")


def _sequences(agents: Sequence[Agent]) -> list[list[Event]]:
    found: list[list[Event]] = [[] for _ in agents]
    answers = [0] * len(agents)
    tokens = [0] * len(agents)
    ready = list(range(len(agents)))
    while ready:
        ready = [i for i in ready if _turn(agents[i], i, found[i], answers, tokens)]
    return found


def _turn(agent: Agent, i: int, events: list[Event], answers: list[int], tokens: list[int]) -> bool:
    """Goes on to where the class may have to wait; whether there is more to come."""
    while len(events) < MOST_EVENTS:
        event = agent.step(answers[i])
        answers[i] = 0
        code = event[0]
        if code in _POLLS:
            if _guards(agent, event):
                continue
            answers[i] = 1
            if not _ignored(agent):
                event = (_AS_WAIT[code], *event[1:])
        elif code == Ev.ARRIVE and event[5] & Flag.TOKEN:
            answers[i] = tokens[i]
            tokens[i] += 1
        events.append(event)
        if code in (Ev.EXIT, Ev.UNKNOWN, Ev.FAULT):
            return False
        if code in _TURNS:
            return True
    raise Unfit(f"a class of lanes does more than {MOST_EVENTS} things")


def _guards(agent: Agent, poll: Event) -> bool:
    """Whether a poll that fails leads to a wait for the same: both are then that wait."""
    event = agent.fork().step(0)
    return event[0] in _WAITS and event[2:4] == poll[2:4]


def _ignored(agent: Agent) -> bool:
    """Whether what follows a poll is the same for both answers."""
    no, yes = agent.fork(), agent.fork()
    answers = (0, 1)
    for _ in range(_COMPARED):
        a, b = no.step(answers[0]), yes.step(answers[1])
        if a != b:
            return False
        if a[0] in (Ev.EXIT, Ev.UNKNOWN, Ev.FAULT):
            return True
        answers = (1, 1)
    return True
