"""Guesses at a file: repairs of one line, and the order of lines that they are tried in."""

from __future__ import annotations

from syncverify.base.diagnostics import Mistake, Repair, TextEdit
from syncverify.base.source import Span
from syncverify.driver.repairs.author_statements import Lines


def guess(mistake: Mistake, at: Span, said: str, text: Lines, new: str) -> Repair:
    """A repair that replaces one line."""
    return Repair(mistake, at, said, edit=TextEdit(at.file, at.line, (text.lines[at.line - 1],), (new,)))


def nearest(text: Lines, places: list[int]) -> list[int]:
    """All lines, those nearest to the places first."""
    every = range(1, len(text.lines) + 1)
    return sorted(every, key=lambda n: (min((abs(n - p) for p in places), default=0), n))


__all__ = ["guess", "nearest"]
