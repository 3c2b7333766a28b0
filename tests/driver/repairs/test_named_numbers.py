"""Numbers that stand in constants and in lists: where another one may be meant."""

from __future__ import annotations

import pytest

from syncverify.driver.repairs.author_statements import Lines
from syncverify.driver.repairs.named_numbers import body_of_loop, in_calls, in_constants, in_lists


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


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        (
            "for (int i = 0; i < 4; ++i) init(&full[i], 1);",
            ["for (int i = 0; i < 4; ++i) init(&full[i], 192);"],
        ),
        (
            "for (int i = f(2); i < 4; ++i) { a[i].setup(1); b[i].setup(N); }",
            [
                "for (int i = f(2); i < 4; ++i) { a[i].setup(192); b[i].setup(N); }",
                "for (int i = f(2); i < 4; ++i) { a[i].setup(1); b[i].setup(192); }",
            ],
        ),
    ],
)
def test_a_call_in_the_body_of_a_loop_may_have_it_last(line: str, changed: list[str]) -> None:
    start = body_of_loop(line)
    assert [line[:start] + new for new in in_calls(line[start:], "192")] == changed


@pytest.mark.parametrize("line", ["for (int i = 0; i < 4; ++i) {", "for (int i = 0; i < n;", "init(&a, 1);"])
def test_other_lines_hold_no_body_of_a_loop(line: str) -> None:
    assert body_of_loop(line) == 0
