"""Reports as an editor shows them: marks on lines of one file, and edits that mend them. Knows no protocol.

Lines and columns count from 0 here, as the Language Server Protocol does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from syncverify.base.diagnostics import (
    Diagnostic,
    KernelReport,
    Severity,
    TextEdit,
    Verdict,
)
from syncverify.base.source import InputError, Span


@dataclass(frozen=True, slots=True)
class Place:
    """Part of a file: from a column of a line to a column of another."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A finding at a place. ``related``: other places with their texts; ``edit``: what mends it, checked."""

    place: Place
    severity: Severity
    rule: str
    message: str
    related: tuple[tuple[Place, str], ...] = ()
    edit: TextEdit | None = None
    mends: str = ""


def marks(file: str, lines: Sequence[str], reports: Iterable[KernelReport]) -> list[Mark]:
    """What to show in ``file``; findings of other files stand at its first line, their place beside them."""
    return [mark for report in reports for mark in _of(file, lines, report)]


def of_error(file: str, lines: Sequence[str], error: InputError) -> Mark:
    """Input that cannot be used, at its place."""
    here = same_file(error.span.file, file)
    place = _place(file, lines, error.span if here else Span(file, 1))
    return Mark(place, Severity.ERROR, "", error.message if here else str(error))


def _of(file: str, lines: Sequence[str], report: KernelReport) -> Iterator[Mark]:
    for d in report.diagnostics:
        yield _mark(file, lines, d)
    if report.verdict is Verdict.UNKNOWN and not report.diagnostics:
        place = _place(file, lines, Span(file, 1))
        yield Mark(place, Severity.WARNING, "SV902", f"{report.name}: unknown: {report.reason}")


def _mark(file: str, lines: Sequence[str], d: Diagnostic) -> Mark:
    here = same_file(d.span.file, file) and d.span.line > 0
    found = Mark(_place(file, lines, d.span if here else Span(file, 1)), d.severity, d.rule, d.message)
    related = [(_place(x.span.file, lines, x.span), x.text) for x in d.related if x.span.line]
    if not here and d.span.line:
        related.insert(0, (_place(d.span.file, (), d.span), d.message))
    message = d.message
    if d.repair is not None:
        message += f"\nfix ({d.repair.mistake}), checked: {d.repair.text} (line {d.repair.span.line})"
    elif d.fix is not None:
        message += f"\nhelp{'' if d.cause is None else f' ({d.cause})'}: {d.fix}"
    found = replace(found, message=message, related=tuple(related))
    if d.repair is not None and d.repair.edit is not None and same_file(d.repair.edit.file, file):
        return replace(found, edit=d.repair.edit, mends=f"{d.repair.mistake}: {d.repair.text}")
    return found


def same_file(a: str, b: str) -> bool:
    """Whether two paths are of one file."""
    return Path(a).absolute() == Path(b).absolute()


def _place(file: str, lines: Sequence[str], span: Span) -> Place:
    line = max(span.line - 1, 0)
    text = lines[line] if line < len(lines) else ""
    start = span.column - 1 if span.column else len(text) - len(text.lstrip())
    end = span.end_column - 1 if span.end_column and span.end_line in (0, span.line) else len(text.rstrip())
    return Place(file, line, start, line, max(end, start + 1))


def still_fits(edit: TextEdit, lines: Sequence[str]) -> bool:
    """Whether the lines that an edit replaces are as they were when it was checked."""
    there = tuple(lines[edit.line - 1 : edit.line - 1 + len(edit.old)])
    return there == edit.old and edit.line <= len(lines) + 1
