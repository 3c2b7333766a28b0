"""Which harm of an execution shows what a witness claims."""

from __future__ import annotations

import pytest

from syncverify.simulate.ptx.confirm import _shows
from syncverify.simulate.ptx.harm import Harm, Kind, Place

AT, ELSEWHERE = Place(7, 0, 0, -1), Place(8, 0, 0, -1)
LINES = frozenset({7})


@pytest.mark.parametrize("claim", ["ub", "order-violation", "stale-value"])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_an_address_that_was_drawn_shows_no_race(claim: str, space: str) -> None:
    found = Harm(Kind.UNDEFINED, AT, "an access is not aligned", space=space)
    assert _shows(claim, found, LINES) == (space == "shared" or claim == "ub")
    beside = Harm(Kind.UNDEFINED, ELSEWHERE, "an access is not aligned", space=space)
    assert _shows(claim, beside, LINES) == (space == "shared")


@pytest.mark.parametrize("kind", [Kind.RACE, Kind.STALE])
def test_a_race_in_global_memory_counts_at_the_lines_of_the_finding(kind: Kind) -> None:
    assert _shows("order-violation", Harm(kind, AT, "", space="global"), LINES)
    assert not _shows("order-violation", Harm(kind, ELSEWHERE, "", space="global"), LINES)


def test_a_trap_shows_nothing_and_a_hang_no_stale_value() -> None:
    assert not _shows("ub", Harm(Kind.TRAP, AT, ""), LINES)
    assert not _shows("stale-value", Harm(Kind.HANG, AT, ""), LINES)
    assert _shows("hang", Harm(Kind.RACE, AT, ""), LINES)
