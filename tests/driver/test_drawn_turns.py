"""Kernels whose barriers come in turns that sizes count: what is said of drawn ones, beside their threads."""

from __future__ import annotations

import pytest

from syncverify.api import check
from syncverify.frontends.ptx.analysis.barriers.places_between_barriers import PlacesBetweenBarriers
from tests.driver.drawn_turns import FACTS, drawn, judged, text, unsaid
from tests.sweeps import part_of


def wrong(seed: int) -> str:
    """What is said of a kernel that its threads contradict; nothing if they do not."""
    statements = drawn(seed)
    label, pairs = judged(statements)
    (found,) = check(text(statements), facts=FACTS, advice=False, timeout=10)
    said = str(found.verdict)
    if said == "proved" and label == "wrong":
        return "proved, and threads meet"
    if said == "proved" and unsaid(pairs, found.assumptions):
        return "proved, and no assumption names what threads exchange in global memory"
    return "refuted, and no threads meet" if (said, label, pairs) == ("refuted", "right", set()) else ""


SEEDS = range(1_000, 1_250)
#: One of so many in each run.
EVERY = 50


@pytest.mark.parametrize("seed", part_of(SEEDS, EVERY))
def test_what_is_said_holds_thread_by_thread(seed: int) -> None:
    assert wrong(seed) == ""


@pytest.mark.slow
def test_what_is_said_of_many_holds() -> None:
    assert {s: said for s in SEEDS if (said := wrong(s))} == {}


def test_a_mistake_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlacesBetweenBarriers, "_never_meet_in", lambda *_: True)
    assert wrong(1_013) == "proved, and threads meet"
