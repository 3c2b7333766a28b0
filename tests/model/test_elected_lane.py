"""Which lanes a tried one represents."""

from __future__ import annotations

import pytest

from syncverify.base.reason import Cause, has
from syncverify.model.elected_lane import EVERY, LOWEST, NOBODY, ElectedLane, each_of, of_all


@pytest.mark.parametrize(
    ("lanes", "represented"),
    [
        (0b1111, True),  # another tried lane is among them
        (0b0010, True),  # the elected one alone
        (0b1100, True),
        (0b1000, False),  # they have parted from those that were tried
        (0b1010, False),  # the elected one has not gone the way of the others
    ],
)
def test_a_tried_lane_represents_those_that_do_the_same(lanes: int, represented: bool) -> None:
    why = ElectedLane(1, 0b0110).unrepresented(lanes)
    assert (why is None) is represented
    assert why is None or has(why, Cause.UNTRIED_LANE)


def test_where_none_has_to_be_represented_none_is_missing() -> None:
    assert all(x.unrepresented(1 << 7) is None for x in (LOWEST, NOBODY, *each_of([3], all_needed=False)))


def test_choices_of_several_blocks_are_joined() -> None:
    sure, unsure = each_of([3], all_needed=False), each_of([3, 5], all_needed=True)
    assert [x.lane for x in of_all([sure, unsure])] == [3, 5]
    assert {x.tried for x in of_all([sure, unsure])} == {0b101000}
    assert {x.tried for x in of_all([sure, sure])} == {EVERY}
