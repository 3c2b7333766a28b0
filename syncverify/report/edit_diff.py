"""The lines of a fix as a diff: what goes, what comes, and what stays around it.

Worked example. A barrier is added between lines 8 and 9: the diff shows line 8, the barrier with ``+``, and
line 9, so that its reader sees where it stands. A line that moves down is one ``-`` and one ``+``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from syncverify.base.diagnostics import TextEdit


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line: ``-``, ``+`` or blank as its sign; its number in the file as it is, 0 for one that comes."""

    sign: str
    number: int
    text: str


def difference(edit: TextEdit, lines: Sequence[str]) -> tuple[DiffLine, ...]:
    """The diff of an edit. ``lines``: those of its file; what is added alone is shown between two of them."""
    return (*_around(edit, lines, -1), *_changes(edit), *_around(edit, lines, 1))


def neighbours(edit: TextEdit, lines: Sequence[str]) -> tuple[int, ...]:
    """The numbers of the lines between which an edit only adds some; none for another edit."""
    return tuple(line.number for step in (-1, 1) for line in _around(edit, lines, step))


def _around(edit: TextEdit, lines: Sequence[str], step: int) -> Iterator[DiffLine]:
    """The nearest line with text above (-1) or below (1) what an edit adds."""
    if edit.old:
        return
    at = edit.line - 1 if step < 0 else edit.line
    while 0 < at <= len(lines) and _says_nothing(lines[at - 1]):
        at += step
    if 0 < at <= len(lines):
        yield DiffLine(" ", at, lines[at - 1])


def _says_nothing(line: str) -> bool:
    """Whether a line is blank, or a comment alone."""
    return not line.strip() or line.lstrip().startswith("//")


def _changes(edit: TextEdit) -> Iterator[DiffLine]:
    # From the end: of two that change places the first one is said to move, as a release that comes later.
    rows: list[DiffLine] = []
    old, new = edit.old[::-1], edit.new[::-1]
    for kind, first, last, begin, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        same = kind == "equal"
        rows += [DiffLine("+", 0, text) for text in (() if same else new[begin:end])]
        at = edit.line + len(old) - 1
        rows += [DiffLine(" " if same else "-", at - i, old[i]) for i in range(first, last)]
    yield from reversed(rows)


__all__ = ["DiffLine", "difference", "neighbours"]
