"""Equal lists of a certificate stand in a table once, and come back as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest

from syncverify.base.certificate_data import RejectedError
from syncverify.driver.shared_lists import expanded, shared

HOP = ["along", [["program", 12], [3, "in", 4, 5]]]
TREES: dict[str, Any] = {
    "O1 7 7": ["split", 3, ["leaf", HOP, [[1, [2, 1]]]], ["absurd", [1, [4, 1], [5, 1]]]],
    "O1 7 8": ["split", 3, ["leaf", HOP, [[1, [2, 1]]]], ["absurd", [1, [4, 1], [5, 1]]]],
    "O2 7 8": ["leaf", HOP, [[1, [4, 1], [5, 1]]]],
    "truth": [[True, "a name", 123456], [1, "a name", 123456], [True, "a name", 123456]],
    "O2": ["absurd", [1, [4, 1]]],
}


def test_lists_come_back_as_they_were() -> None:
    table, rest = shared(TREES)
    again = expanded(table, rest, "here")
    assert json.dumps(again, sort_keys=True) == json.dumps(TREES, sort_keys=True)
    assert rest["O1 7"]["7"] == rest["O1 7"]["8"] and isinstance(rest["O1 7"]["7"], str)
    assert rest["O2 7"].keys() == {"8"} and rest[""].keys() == {"truth", "O2"}
    assert len(json.dumps([table, rest])) < len(json.dumps(TREES))


def test_what_stands_once_has_no_place_in_the_table() -> None:
    assert shared({"x": [["a long name", 1], ["another one", 2]]}) == (
        [],
        {"": {"x": [["a long name", 1], ["another one", 2]]}},
    )


def test_names_may_be_written_whole() -> None:
    assert expanded([], {"O1 7 7": [1], "O1 7": {"8": [2]}}, "here") == {"O1 7 7": [1], "O1 7 8": [2]}


@pytest.mark.parametrize("other", [{"O1": {"7 8": [2]}}, {"O1 7 8": [2]}, {"": {"O1 7 8": [2]}}])
def test_a_name_that_stands_twice_is_rejected(other: dict[str, Any]) -> None:
    with pytest.raises(RejectedError, match="O1 7 8 is there twice"):
        expanded([], {"O1 7": {"8": [1]}, **other}, "here")


@pytest.mark.parametrize("told", ["@1", "@-1", "@x", "@", "@0 ", "@１"])
def test_a_reference_to_nothing_is_rejected(told: str) -> None:
    with pytest.raises(RejectedError, match="refers to no list"):
        expanded([["a"]], {"x": ["absurd", told]}, "here")


def test_a_list_refers_to_earlier_ones_alone() -> None:
    with pytest.raises(RejectedError, match="refers to no list"):
        expanded([["@0"]], {}, "here")


def test_lists_without_end_are_rejected() -> None:
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(RejectedError, match="too deeply"):
        expanded([], {"x": deep}, "here")
