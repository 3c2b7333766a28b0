"""Tokens of phases in the states of an exploration.

Whatever a wait makes of a token depends on how many phases have completed since: none (it blocks), one (it
passes), or more (it fails). So states are compared by that *age*, not by the number.
"""

from __future__ import annotations

from collections.abc import Hashable

from syncverify.checker.engine import Run
from syncverify.model.events import Ev, Event, Flag
from syncverify.model.terms import Symbolic
from syncverify.model.tokens import Token, number

#: Tokens that are so many phases old pass no wait any more.
TOO_OLD = 2


def answered(run: Run, event: Event, answer: int) -> int:
    """What an agent is given after an arrival: the token, if it keeps one."""
    b = event[2]
    return Token(answer, b, run.barriers[b].inits) if event[5] & Flag.TOKEN else 0


def followed(run: Run, event: Event) -> None:
    """Refuses waits for what is no token of that barrier: states do not tell how its phases compare."""
    if event[0] in (Ev.WAIT_TOKEN, Ev.POLL_TOKEN):
        b, token = event[2], event[3]
        if not isinstance(token, Token) or token.barrier != b or token.life != run.barriers[b].inits:
            raise Symbolic("a wait for a phase that is not that of a token of the same barrier")


def relative(run: Run, value: object) -> Hashable:
    """A token by its age, with whether its barrier still lives; tokens of lanes one by one; anything else
    as it is."""
    if isinstance(value, tuple) and any(isinstance(x, Token) for x in value):
        return tuple(relative(run, x) for x in value)
    if not isinstance(value, Token):
        return value
    s = run.barriers[value.barrier]
    if s.inits != value.life:
        return ("token", value.barrier, "of an earlier life")
    return ("token", value.barrier, min(s.auto.phase - number(value), TOO_OLD))


def relative_event(run: Run, event: Event | None) -> Hashable:
    """An event with the tokens in it by their ages."""
    if event is None or event[0] not in (Ev.WAIT_TOKEN, Ev.POLL_TOKEN):
        return event
    return tuple(relative(run, part) for part in event)


__all__ = ["answered", "followed", "relative", "relative_event"]
