"""The table of steps and what they may cost."""

from __future__ import annotations

import re
from pathlib import Path

from syncverify.base.reason import Cause
from syncverify.checker.prover.strategy import CAUSES, EFFORTS, Entry, Step

ROOT = Path(__file__).resolve().parents[3] / "syncverify"


def test_every_entry_has_an_effort() -> None:
    assert set(EFFORTS) == set(Entry)


def test_every_effort_ends() -> None:
    """Each look that is allowed has a budget of events and decisions, and there is at least one look."""
    for effort in EFFORTS.values():
        looks = [effort.first, effort.rest, effort.two, effort.three, effort.more, effort.each]
        bounded = [x for x in looks if x is not None]
        assert bounded and all(0 < x.events < 1 << 32 and 0 < x.max_nodes < 1 << 32 for x in bounded)
        assert 0 < effort.launch.max_events < 1 << 32


def test_steps_answer_causes_in_the_order_of_the_ladder() -> None:
    order = list(Step)
    assert CAUSES.keys() <= set(order)
    assert order.index(Step.EXACT) == 0
    assert all(CAUSES.values())
    # what is not supported stays so, but for masks that may not name the lanes that come
    assert {step for step, causes in CAUSES.items() if Cause.UNSUPPORTED in causes} == {Step.LANES_MEET}


def test_budgets_stand_in_the_table_alone() -> None:
    """No other module makes an effort of its own."""
    made = [
        path.name
        for path in sorted(ROOT.rglob("*.py"))
        if re.search(r"\b(Limits|Budget)\(\w+=\d", path.read_text())
    ]
    assert made == ["strategy.py"]
