"""The lines of a fix: what goes, what comes, and what stays around it."""

from __future__ import annotations

from syncverify.base.diagnostics import TextEdit
from syncverify.report.edit_diff import difference, neighbours

LINES = ["a();", "", "// of b", "b();", "c();"]


def _shown(edit: TextEdit) -> list[str]:
    return [f"{line.number or ''}{line.sign}{line.text}" for line in difference(edit, LINES)]


def test_what_is_added_stands_between_the_lines_around_it() -> None:
    edit = TextEdit("k.cu", 2, (), ("sync();",))
    assert _shown(edit) == ["1 a();", "+sync();", "4 b();"]
    assert neighbours(edit, LINES) == (1, 4)


def test_what_is_added_at_the_end_has_one_neighbour() -> None:
    assert _shown(TextEdit("k.cu", 6, (), ("d();",))) == ["5 c();", "+d();"]


def test_a_changed_line_needs_no_others() -> None:
    edit = TextEdit("k.cu", 4, ("b();",), ("b(1);",))
    assert _shown(edit) == ["4-b();", "+b(1);"]
    assert neighbours(edit, LINES) == ()


def test_a_line_that_moves_down_goes_and_comes() -> None:
    assert _shown(TextEdit("k.cu", 4, ("b();", "c();"), ("c();", "b();"))) == ["4-b();", "5 c();", "+b();"]
