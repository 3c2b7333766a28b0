"""A first wait for a later phase where others wait for the phase before: it lacks an order, not a parity."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from syncverify.checker.explain.root_causes import _refine_turn
from syncverify.model.events import Ev


@pytest.mark.parametrize(
    ("waits", "ordered"),
    [
        ([(0, 7)], True),  # another class has waited for it
        ([(0, 7), (1, 7)], False),  # this one has, too: its parity is what is wrong
        ([(1, 7)], False),
        ([(0, 8)], False),  # for another barrier
        ([], False),
    ],
)
def test_an_order_is_advised_to_who_waits_for_it_first(waits: list[tuple[int, int]], ordered: bool) -> None:
    trace: list[tuple[int, tuple[int, ...]]] = [(who, (Ev.WAIT, 3, b, 0, 0)) for who, b in waits]
    run: Any = SimpleNamespace(trace=[(-1, (Ev.WAIT,)), *trace])  # a completion is known by its number alone
    f: Any = SimpleNamespace(position=len(trace) + 1, cls=1, barrier=7, phase=1, fix=None)
    _refine_turn(run, f)
    assert (f.fix is not None and "wait for phase 0 of it first" in f.fix) is ordered
