"""Long lines and names cut to what a terminal shows; formats that machines read have them whole."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from syncverify.base.kernel_names import LONGEST_NAME

#: Columns of a source line that the text shows, and how many of them stand before the first marked one.
COLUMNS = 120
BEFORE = 20
GAP = "..."


def cut(source: str, start: int, end: int) -> tuple[str, int, int]:
    """A line with its marked columns (from 1, ``end`` one past the last): what is shown of both.

    What is left out on either side is three dots; marks end where the line does.
    """
    if len(source) <= COLUMNS:
        return source, start, end
    first = max(min(start - 1 - BEFORE, len(source) - COLUMNS + len(GAP)), 0)
    if first <= len(GAP):
        first = 0
    before = GAP if first else ""
    last = first + COLUMNS - len(before)
    if last < len(source):
        last -= len(GAP)
    text = before + source[first:last] + (GAP if last < len(source) else "")
    moved = len(before) - first
    return text, max(start + moved, 1), min(end + moved, len(text) + 1)


def apart(names: Sequence[str]) -> list[str]:
    """Different names that may be long: longer ones by a part in which they differ, where there is one."""
    if all(len(name) <= LONGEST_NAME for name in names):
        return list(names)
    alike = takewhile(lambda column: len(set(column)) == 1, zip(*names, strict=False))
    same = len(list(alike)) if len(set(names)) > 1 else 0
    first = max(same - BEFORE, 0)
    last = first + LONGEST_NAME - 2 * len(GAP)
    short = [(GAP if first else "") + name[first:last] + (GAP if last < len(name) else "") for name in names]
    return short if len(set(short)) == len(set(names)) else list(names)
