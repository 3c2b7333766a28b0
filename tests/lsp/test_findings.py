"""Reports as marks in a file."""

from __future__ import annotations

from pathlib import Path

from syncverify.api import check
from syncverify.base.diagnostics import Severity
from syncverify.base.source import InputError, Span
from syncverify.lsp.findings import marks, of_error, still_fits
from tests.driver.repairs.test_text_edits import IR as KERNEL


def test_an_error_is_marked_with_its_checked_edit(tmp_path: Path) -> None:
    (path := tmp_path / "k.syncir").write_text(KERNEL, "utf-8")
    lines = KERNEL.split("\n")
    first = marks(str(path), lines, check(path))[0]
    assert first.severity is Severity.ERROR
    assert lines[first.place.line][first.place.column : first.place.end_column].startswith("mbarrier.")
    assert first.edit is not None and first.edit.new == ("    mbarrier.init done, 32",)
    assert "fix (count against arrivers), checked: " in first.message
    assert still_fits(first.edit, lines)
    assert not still_fits(first.edit, ["", *lines])


def test_findings_of_another_file_stand_at_the_first_line(tmp_path: Path) -> None:
    (path := tmp_path / "k.syncir").write_text(KERNEL, "utf-8")
    first = marks("other.cu", ["#include"], check(path))[0]
    assert (first.place.line, first.place.file) == (0, "other.cu")
    assert first.related[0][0].file == str(path) and first.edit is None


def test_input_that_cannot_be_read_is_a_mark() -> None:
    mark = of_error("k.ptx", ["a", "  b c"], InputError("no such thing", Span("k.ptx", 2)))
    assert (mark.place.line, mark.place.column, mark.place.end_column) == (1, 2, 5)
    assert of_error("k.cu", ["a"], InputError("no such thing", Span("k.h", 2))).place.line == 0
