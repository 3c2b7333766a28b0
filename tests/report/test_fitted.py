"""A text report in a width: sentences go on below, source is cut, edits stay whole."""

from __future__ import annotations

import pytest

from syncverify.report.fitted import fitted
from syncverify.report.text import colored


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "error[SV1]: one two three four five six seven eight",
            ["error[SV1]: one two three four five six", "  seven eight"],
        ),
        (
            "   = note: one two three four five six seven",
            ["   = note: one two three four five six", "           seven"],
        ),
        ("12 |   x = " + "a" * 37 + ";", ["12 |   x = " + "a" * 28 + "…"]),
        (
            "   |   ^^^^^^^^^^ it waits for ever for phase one",
            ["   |   ^^^^^^^^^^", "   |     it waits for ever for phase one"],
        ),
        (
            "     + wait(&full[s], (r / STAGES + 1) & 1, 0, 0);",
            ["     + wait(&full[s], (r / STAGES + 1) & 1, 0, 0);"],
        ),
        (
            "    cta0.w  line 7  arrive on the mbarrier full of it",
            ["    cta0.w  line 7  arrive on the", "                    mbarrier full of it"],
        ),
        ("a word of " + "w" * 50, ["a word of", "  " + "w" * 50]),
    ],
)
def test_a_line_in_forty_characters(line: str, shown: list[str]) -> None:
    assert list(fitted([line], 40)) == shown


def test_no_width_breaks_nothing() -> None:
    assert list(fitted(["x " * 200], 0)) == ["x " * 200]


def test_colours_take_no_width() -> None:
    line = colored("x" * 20, "red") + " " + colored("y" * 19, "bold")
    assert list(fitted([line], 40)) == [line]
    assert list(fitted([line + " z"], 40)) == [line, "  z"]
