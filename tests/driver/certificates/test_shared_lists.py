"""Equal values of a certificate are in a table once, and come back as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest

from syncverify.base.certificate_data import RejectedError
from syncverify.driver.shared_lists import expanded, shared

HOP = ["along", [["program", 12], [3, "in", 4, 5]]]
TREES: dict[str, Any] = {
    "O1 7": [
        ["7 8"],
        [["split", 3, ["leaf", HOP, [[1, [2, 1]]]], ["absurd", [1, [4, 1], [5, 1]]]]] * 2,
    ],
    "O2 7": ["proof", {"": [["leaf", HOP, [[1, [4, 1], [5, 1]]]]]}, {"@": None}],
    "truth": [[True, "a name", 123456], [1, "a name", 123456], [True, "a name", 123456]],
    "O2": ["absurd", [1, [4, 1]]],
    "alone": "absurd",
    "empty": [[], {}, [[]]],
    "many": [*([[7, x]] * x for x in range(70))],
}


def test_values_come_back_as_they_were() -> None:
    table, rest = shared(TREES)
    again = expanded(table, rest, "here")
    assert json.dumps(again) == json.dumps(TREES)
    assert len(json.dumps([table, rest])) < len(json.dumps(TREES))
    assert rest["alone"] == "absurd" and rest["O2 7"][0] == "proof"


def test_what_is_there_once_has_no_place_in_the_table() -> None:
    assert shared({"x": [["a long name", 1], ["another one", 2]]}) == (
        [],
        {"x": [["a long name", 1], ["another one", 2]]},
    )


def test_references_that_follow_each_other_are_one_text() -> None:
    table = [["a"], "word", ["@0"]]
    assert expanded(table, ["@0 1 2*3", 5, "@1*2"], "here") == [
        ["a"], "word", [["a"]], [["a"]], [["a"]], 5, "word", "word",
    ]  # fmt: skip
    assert expanded([[i] for i in range(64)], {"x": "@10", "y": "@Z"}, "here") == {"x": [62], "y": [61]}


@pytest.mark.parametrize("several", ["@0 0", "@0*2", "@0*0"])
def test_where_one_value_belongs_there_are_no_several(several: str) -> None:
    with pytest.raises(RejectedError, match="does not refer to one value"):
        expanded([["a"]], {"x": several}, "here")


@pytest.mark.parametrize(
    "wrong", ["@1", "@-1", "@_", "@", "@0 ", "@ 0", "@１", "@0*", "@0*-1", "@0*1*1", "@00000", "@*1"]
)
def test_a_reference_to_nothing_is_rejected(wrong: str) -> None:
    with pytest.raises(RejectedError, match="refers to no value"):
        expanded([["a"]], {"x": ["absurd", wrong]}, "here")


def test_a_value_refers_to_earlier_ones_alone() -> None:
    with pytest.raises(RejectedError, match="refers to no value"):
        expanded([["@0"]], {}, "here")


def test_lists_without_end_are_rejected() -> None:
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(RejectedError, match="too deeply"):
        expanded([], {"x": deep}, "here")
