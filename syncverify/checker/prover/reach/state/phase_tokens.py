"""Tokens of phases in the states of an exploration.

Whatever a wait makes of a token depends on how many phases have completed since: none (it blocks), one (it
passes), or more (it fails). So states are compared by that *age*, not by the number.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from syncverify.checker.happens_before.run import LaneClass, Run
from syncverify.checker.prover.reach.ring.action import local_parity
from syncverify.model.events import Ev, Event, Flag
from syncverify.symbolic.context import NotConcrete
from syncverify.symbolic.phase_tokens import Token, number

#: Tokens that are so many phases old pass no wait any more.
TOO_OLD = 2


def record_token(run: Run, event: Event, answer: int) -> int:
    """What an agent is given after an arrival: the token, if it keeps one."""
    b = event[2]
    return Token(number(answer), b, run.barriers[b].inits) if event[5] & Flag.TOKEN else 0


def check_token_use(run: Run, event: Event) -> None:
    """Refuses waits for what is no token of that barrier: states do not tell how its phases compare; and
    inits over a part of another barrier, whose own init states do not tell of."""
    if event[0] == Ev.INIT and run.options.refined_comparison:
        here = run.info.barriers[event[2]]
        for b, s in run.barriers.items():
            there = run.info.barriers[b]
            if s.auto.live and there.cta == here.cta and 0 < abs(there.offset - here.offset) < 8:
                raise NotConcrete("barriers that overlap")
    if event[0] in (Ev.WAIT_TOKEN, Ev.POLL_TOKEN):
        b, token = event[2], event[3]
        if not isinstance(token, Token) or token.barrier != b or token.life != run.barriers[b].inits:
            raise NotConcrete("a wait for a phase that is not that of a token of the same barrier")


def age_of(run: Run, value: object) -> Hashable:
    """A token by its age, with whether its barrier still lives; tokens of lanes one by one; anything else
    as it is."""
    if isinstance(value, tuple) and any(isinstance(x, Token) for x in value):
        return tuple(age_of(run, x) for x in value)
    if not isinstance(value, Token):
        return value
    s = run.barriers[value.barrier]
    if s.inits != value.life:
        return ("token", value.barrier, "of an earlier life")
    return ("token", value.barrier, min(s.auto.phase - number(value), TOO_OLD))


def relative_event(run: Run, event: Event | None) -> Hashable:
    """An event with the tokens in it by their ages, and the parity as agents name it."""
    if event is None or event[0] not in (Ev.WAIT_TOKEN, Ev.POLL_TOKEN):
        return event if event is None else local_parity(run, event)
    return tuple(age_of(run, part) for part in event)


def waits_on(run: Run, t: LaneClass) -> tuple[object, ...]:
    """What an agent waits for; wgmmas and tokens are tried again from scratch: what for is in the event."""
    if t.waits_on[:1] in (("mma",), ("token",)):
        return t.waits_on[:1]
    if t.waits_on[:1] == ("wait",):
        return ("wait", t.waits_on[1], t.waits_on[2] ^ run.barriers[t.waits_on[1]].flip)
    return t.waits_on


def point(run: Run, t: LaneClass) -> Hashable:
    """Where an agent stands, the events that it has queued as those of what is on record."""
    if not hasattr(t.agent, "point"):
        return None
    found: tuple[Any, ...] = t.agent.point()
    if run.rotation is None:
        return found
    ring, place = run.rotation
    moved: Hashable = ring.point(found, -place)
    return moved


__all__ = ["age_of", "check_token_use", "point", "record_token", "relative_event", "waits_on"]
