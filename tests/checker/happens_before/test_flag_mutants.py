"""Planted mistakes in what judges flags: a program that is wrongly proved shows each of those listed."""

from __future__ import annotations

import random
from types import FunctionType

import pytest

from syncverify.base.diagnostics import Verdict
from tests.checker.happens_before.flag_events import proved
from tests.checker.happens_before.flag_model import TooManyError, harm
from tests.checker.happens_before.flag_mutants import FUNCTIONS, accepts, caught, drawn, mutants, wrong
from tests.checker.happens_before.flag_programs import counted, program, wide
from tests.checker.happens_before.test_flag_model import _verdict

#: How many programs each run draws as events, and the slow one, in parts.
DRAWN, MORE, PARTS = 1000, 40000, 4
#: Programs that show mistakes of a function, by their seeds.
SHOWN = {
    30138: "_stays_true",
    30189: "_sum_decided",
    30397: "newest_known",
    30455: "_sum_decided",
    30463: "_stays_true",
    30702: "newest_known",
    30943: "_stays_true",
    31144: "decided",
    32681: "release",
}
#: Functions about which brute force said little before, and how many of their mistakes it shows at least.
COUNTED, CAUGHT = ("newest_known", "_stays_true", "_sum_decided"), 40


def _wrongly_proved(first: int, last: int) -> list[str]:
    found = []
    for seed in range(first, last):
        p = (counted if seed % 2 else wide)(random.Random(seed))
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


@pytest.mark.parametrize("seed", SHOWN)
def test_a_mistake_shows(seed: int) -> None:
    p = counted(random.Random(seed))
    assert wrong(p) and not proved(p)
    assert any(accepts(m, p) for m in mutants(_named(SHOWN[seed])))


@pytest.mark.slow
def test_mistakes_show() -> None:
    pool = drawn(range(20001, 23001, 2))
    found = [m for m in mutants(_named(*COUNTED)) if caught(m, pool) is not None]
    assert len(found) >= CAUGHT


def _named(*names: str) -> list[FunctionType]:
    return [f for f in FUNCTIONS if f.__name__ in names]
