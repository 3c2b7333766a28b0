"""Planted mistakes in what judges flags: a program that is wrongly proved shows each of those listed."""

from __future__ import annotations

import random

import pytest

from syncverify.base.diagnostics import Verdict
from tests.checker.happens_before.flag_events import proved
from tests.checker.happens_before.flag_model import TooManyError, harm
from tests.checker.happens_before.flag_programs import program, wide
from tests.checker.happens_before.test_flag_model import _verdict

#: How many programs each run draws as events, and the slow one, in parts.
DRAWN, MORE, PARTS = 1500, 40000, 4


def _wrongly_proved(first: int, last: int) -> list[str]:
    found = []
    for seed in range(first, last):
        p = wide(random.Random(seed))
        try:
            if proved(p) and harm(p.meant):
                found.append(f"seed {seed}: {p}")
        except TooManyError:
            pass
    return found


def test_none_is_wrongly_proved() -> None:
    assert _wrongly_proved(0, DRAWN) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_none_of_more_is_wrongly_proved(part: int) -> None:
    size = MORE // PARTS
    assert _wrongly_proved(DRAWN + part * size, DRAWN + (part + 1) * size) == []


def test_events_are_those_of_the_front_end() -> None:
    """A program is proved as events exactly if its PTX is."""
    drawn_ = [program(random.Random(seed)) for seed in range(40)]
    drawn_ += [wide(random.Random(seed)) for seed in range(20)]
    differing = [str(p) for p in drawn_ if proved(p) != (_verdict(p, replay=False) is Verdict.PROVED)]
    assert differing == []
