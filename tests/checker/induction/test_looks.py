"""What comes behind a look at a barrier that is answered no."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from syncverify.checker.induction.stepping import Leaf, NotReadError, _waited
from syncverify.model.events import Ev, Event
from syncverify.symbolic.context import SymbolicContext

LOOK: Event = (Ev.POLL, 3, 7, 0, 0)


class Scripted:
    """Goes on with these events; None where it has none."""

    def __init__(self, *events: Event | None) -> None:
        self.events, self.at = events, 0

    def fork(self) -> Scripted:
        return copy(self)

    def move(self, answer: int) -> Event | None:
        self.at += 0 if answer and self.at == 0 else 1
        return None if answer else self.events[min(self.at, len(self.events)) - 1]

    def place(self) -> int:
        return 100

    def point(self) -> int:
        return 1

    def live(self) -> tuple[Any, ...]:
        return ()


def waited(*events: Event | None) -> Event:
    return _waited(Leaf(Scripted(*events), SymbolicContext().path), LOOK, {50})[1]


def test_a_wait_for_the_same_phase_is_that_of_the_look() -> None:
    wait: Event = (Ev.WAIT, 4, 7, 0, 0)
    assert waited(wait, None) == wait


@pytest.mark.parametrize(
    "event", [(Ev.WAIT, 4, 7, 1, 0), (Ev.WAIT, 4, 8, 0, 0), (Ev.EXIT, 4), (Ev.ELECT, 4, 0)]
)
def test_any_other_event_is_refused(event: Event) -> None:
    with pytest.raises(NotReadError, match="a poll"):
        waited(event, None)
