"""What each class of lanes does, as one list of events: a run in which every wait passes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress

from syncverify.base.diagnostics import Step, Witness
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.model.events import Agent, Ev, Event, Flag, LaneSplit
from syncverify.ptx_replay.executed import executed
from syncverify.ptx_replay.places import Unfit

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


#: Answers of the polls of one place that steer a class, by the class's name, its line and its text.
Answers = dict[tuple[str, int, str], deque[bool]]


def answers_of(witness: Witness) -> Answers:
    """How a witness answers its polls: one that passed names the phase that it saw complete."""
    found: Answers = {}
    for s in filter(is_poll, witness.steps):
        found.setdefault((s.agent, s.span.line, s.op), deque()).append(s.phase is not None)
    return found


def is_poll(step: Step) -> bool:
    return ".try_wait" in step.op or ".test_wait" in step.op


def with_final_classes(system: PtxSystem, answers: Answers) -> tuple[PtxSystem, list[list[Event]]]:
    """The system with classes whose lanes agree throughout, and the events of each.

    The token of an arrival is its number among the class's tokens. A poll that steers has the result in
    ``answers``: if it fails it is left out, else it waits. A poll that stays does not change what follows.
    Raises Unfit for classes that do not end.
    """
    for _ in range(MOST_SPLITS):
        try:
            if system.program.steers:
                with suppress(Unfit):
                    return system, executed(system)
            return system, _sequences(system, {place: deque(a) for place, a in answers.items()})
        except LaneSplit as split:
            system = system.refined(split)
    raise Unfit("the lanes of its warps disagree too often")


def _sequences(system: PtxSystem, given: Answers) -> list[list[Event]]:
    agents, info = system.agents(), system.info

    def answer(i: int, poll: Event) -> bool:
        site = info.sites[poll[1]]
        left = given.get((info.classes[i].name, site.span.line, site.text))
        return left.popleft() if left else True

    found: list[list[Event]] = [[] for _ in agents]
    answers = [0] * len(agents)
    tokens = [0] * len(agents)
    ready = list(range(len(agents)))
    while ready:
        ready = [i for i in ready if _turn(agents[i], i, found[i], answers, tokens, answer)]
    return found


def _turn(
    agent: Agent,
    i: int,
    events: list[Event],
    answers: list[int],
    tokens: list[int],
    answer: Callable[[int, Event], bool],
) -> bool:
    """Goes on to where the class may have to wait; whether there is more to come."""
    while len(events) < MOST_EVENTS:
        event = agent.step(answers[i])
        answers[i] = 0
        code = event[0]
        if code in _POLLS:
            if _guards(agent, event):
                continue
            if _ignored(agent):
                answers[i] = 1
            elif answer(i, event):
                answers[i] = 1
                event = (_AS_WAIT[code], *event[1:])
            else:
                continue
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
