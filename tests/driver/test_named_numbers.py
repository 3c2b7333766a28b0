"""Numbers that stand in constants and in lists: where another one may be meant."""

from __future__ import annotations

import pytest

from syncverify.driver.author_statements import Lines
from syncverify.driver.named_numbers import in_constants, in_lists


@pytest.mark.parametrize(
    ("definition", "with_192"),
    [
        ("constexpr int COUNT = 64 + 32;", "constexpr int COUNT = 192;"),
        ("static constexpr int WIDTH = 4, COUNT = 96;", "static constexpr int WIDTH = 4, COUNT = 192;"),
        ("enum { COUNT = 96, OTHER };", "enum { COUNT = 192, OTHER };"),
        ("#define COUNT (64 + 32)", "#define COUNT 192"),
    ],
)
def test_a_constant_that_the_line_names_may_have_another_value(definition: str, with_192: str) -> None:
    text = Lines([definition, "init(&full, COUNT);"], "cu")
    assert (1, with_192) in list(in_constants(text, 2, "192"))


@pytest.mark.parametrize(
    "line",
    ["constexpr int OTHER = 96;", "int COUNT = 96;", "if (COUNT == 96) return;", "// const COUNT = 9;"],
)
def test_nothing_else_is_a_constant_that_it_names(line: str) -> None:
    assert list(in_constants(Lines([line, "init(&full, COUNT);"], "cu"), 2, "192")) == []


def test_a_list_in_braces_may_hold_it_at_each_place() -> None:
    line = "return NamedBarrier{A + 32, FULL + b};"
    assert list(in_lists(line, "192")) == [
        "return NamedBarrier{192, FULL + b};",
        "return NamedBarrier{A + 32, 192};",
    ]
    assert list(in_lists("if (a) { f(b, c); }", "192")) == []
