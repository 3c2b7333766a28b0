"""Lines of a text report, made to fit a width.

Sentences go on in the next line, under their beginning. A line of source and its marks are cut, so that they
stay under each other. What one copies, the lines of an edit, stays whole. Escapes of colours take no width.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

#: A character with the escapes before it.
_CELL = re.compile(r"(?:\x1b\[[0-9;]*m)*(?:[^\x1b]|$)")
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_SOURCE = re.compile(r"\s*\d+ \|(?: |$)")
_MARKS = re.compile(r"(?P<gutter>\s*\| )(?P<marks>\s*[\^-]+)(?P<text> .*)?$")
_BELOW = re.compile(r"(?P<gutter>\s*\| )\s{2,}(?P<text>\S.*)$")
_EDIT = re.compile(r"\s+[-+] ")
_NOTE = re.compile(r"\s*= (?:[a-z]+(?: \([^)]*\))?(?:, checked)?: )?|\s+(?=\S)")
#: A step of a schedule, or who waits: what is continued stands under what is said of it.
_STEP = re.compile(r"    \S+(?: and \d+ more)?\s{2,}(?:line \d+|\S+:\d+)\s{2,}")
#: Of a width, what a continued line may be indented by, and the least width.
_DEEPEST, LEAST = 0.5, 40


def fitted(lines: Iterable[str], width: int) -> Iterator[str]:
    """The lines, none longer than ``width`` characters but edits and single long words; 0: as they are."""
    for line in lines:
        if not width or len(_ESCAPE.sub("", line)) <= width:
            yield line
        else:
            yield from _fitted(line, max(width, LEAST))


def _fitted(line: str, width: int) -> Iterator[str]:
    cells = [cell for cell in _CELL.findall(line) if cell]
    text = _ESCAPE.sub("", line)
    if _EDIT.match(text):
        yield line
    elif _SOURCE.match(text):
        yield "".join(cells[: width - 1]) + "…" + _reset(line)
    elif (marks := _MARKS.match(text)) is not None:
        yield "".join(cells[: min(marks.end("marks"), width)]) + _reset(line)
        hang = marks["gutter"] + "    "
        yield from _wrapped(cells[marks.end("marks") + 1 :], hang, hang, width)
    elif (below := _BELOW.match(text)) is not None:
        hang = below["gutter"] + "    "
        yield from _wrapped(cells[below.start("text") :], hang, hang, width)
    else:
        start = _STEP.match(text) or _NOTE.match(text)
        deep = start.end() if start is not None else 2
        yield from _wrapped(cells, "", " " * min(deep, int(width * _DEEPEST)), width)


def _wrapped(cells: list[str], first: str, hang: str, width: int) -> Iterator[str]:
    """Words in lines that begin with ``first``, then with ``hang``."""
    indent = first
    while cells:
        room = width - len(indent)
        if len(cells) <= room:
            yield indent + "".join(cells)
            return
        spaces = [i for i, cell in enumerate(cells) if cell.endswith(" ")]
        lead = next((i for i, cell in enumerate(cells) if not cell.endswith(" ")), 0)
        before = [i for i in spaces if lead < i <= room]
        behind = [i for i in spaces if i > room]
        at = before[-1] if before else min(behind, default=len(cells))
        escapes = "".join(cells[at : at + 1])[:-1]  # of the space that the line ends at
        yield indent + "".join(cells[:at]) + escapes
        cells, indent = cells[at + 1 :], hang


def _reset(line: str) -> str:
    return "\x1b[0m" if _ESCAPE.search(line) else ""


__all__ = ["fitted"]
