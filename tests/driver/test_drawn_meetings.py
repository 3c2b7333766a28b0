"""What is said of lanes that meet at collectives, beside a model of each lane (K27).

The checker and the second reader came to let lanes meet at two lines at one time, so neither judges the other
there. The model knows neither: harm by it means no proof, and none means no refutation. The reader shows harm
where the model has some, and only there. What lanes get that read from one which does not take part is open:
an execution may do no harm by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

import syncverify
from syncverify.frontends.ptx.analysis.warps.collectives import Collectives, Row
from syncverify.simulate.ptx import Launch, buffer, sample
from syncverify.simulate.ptx import collectives as reader
from syncverify.simulate.ptx.state import Fragment
from syncverify.simulate.ptx.syntax import parse
from tests.driver.drawn_meetings import LANES, OPEN, OUTSIDE, harm, inputs, program
from tests.sweeps import part_of

SEEDS = range(1_000)
#: One of so many in each run.
EVERY = 60


def said_wrongly(seed: int) -> str:
    """What is said of a program that the model contradicts; nothing if it does not."""
    p = program(seed)
    given = {"block": [LANES], "grid": [1], "params": {"0": "ptr", "1": "ptr"}}
    (report,) = syncverify.check(p.text(), facts={"kernel": {"k": given}}, advice=False)
    # places that data says are inside by an assumption of the report
    named = any("where data says" in a for a in report.assumptions)
    does = [x for bits in inputs(seed) if (x := harm(p, bits)) and not (named and x == OUTSIDE)]
    if str(report.verdict) == "proved" and does:
        return f"proved, and {does[0]}"
    right = str(report.verdict) == "refuted" and not any(harm(p, bits) for bits in inputs(seed))
    return "refuted, and no harm comes" if right else ""


def seen_wrongly(seed: int) -> str:
    """What an execution shows that the model contradicts."""
    p = program(seed)
    module = parse(p.text())
    for bits in inputs(seed)[:4]:
        params = [buffer(np.array(bits, np.uint32)), buffer(np.zeros(4 * LANES, np.uint32))]
        (one,) = sample(module, "k", Launch(block=(LANES, 1, 1), grid=(1, 1, 1), params=params), range(1))
        does = harm(p, bits)
        if does != OPEN and bool(does) != (one.harm is not None):
            return f"{one.harm}, and the model says {does or 'no harm'}"
    return ""


@pytest.mark.parametrize("seed", part_of(SEEDS, EVERY))
def test_lanes_meet_as_the_model_says(seed: int) -> None:
    assert said_wrongly(seed) == seen_wrongly(seed) == ""


@pytest.mark.slow
def test_many_meet_as_the_model_says() -> None:
    assert {s: found for s in SEEDS if (found := said_wrongly(s) or seen_wrongly(s))} == {}


def test_a_mistake_of_the_checker_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lanes bring each other is taken for stored alone."""
    rows = Collectives._rows

    def stored(self: Collectives, block: int, decoded: frozenset[int]) -> Iterable[Row]:
        return (replace(row, kind=row.kind & ~1) for row in rows(self, block, decoded))

    monkeypatch.setattr(Collectives, "_rows", stored)
    assert said_wrongly(8).startswith("proved, and")


def test_a_mistake_of_the_reader_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes meet at one line alone."""
    named = reader.named_together

    def by_line(f: Fragment, slot: int, what: str) -> int:
        return named(f, slot, what) | f.pc << LANES

    monkeypatch.setattr(reader, "named_together", by_line)
    assert any(map(seen_wrongly, range(6)))
