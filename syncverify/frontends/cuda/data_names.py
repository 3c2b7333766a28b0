"""What a CUDA source calls the data that a statement accesses, where that is a member of an object.

Kernels keep all that they share in one struct, and PTX knows its variable alone. The statement says more:
``float a = sm.data[r.slot][i];`` reads ``sm.data``. A name only helps to read a finding, and where a
statement names several members on the side that counts, it has none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_INDEX = r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]"
_ELEMENT = re.compile(
    rf"(?<![\w.>\])])(?:this->)?(?P<path>[A-Za-z_]\w*(?:\s*{_INDEX}|(?:\.|->)\w+)*\s*{_INDEX})(?!\s*\()"
)
_ASSIGNMENT = re.compile(r"(?<![=!<>])(?P<also>[-+*/|&^%]?|<<|>>)=(?!=)")
#: Lines that a statement may go on for, and the longest name.
_LINES, _LONGEST = 6, 40


def accessed(
    lines: Sequence[str], line: int, barriers: Collection[str] = (), *, stores: bool | None = None
) -> list[str]:
    """The members that the statement at a line (from 1) indexes, without their indices.

    ``barriers``: names of mbarriers, which are no data. ``stores``: whether what is assigned to counts, or
    what is read; None: both.

    >>> accessed(["  s.sum[i] = s.row[j] + bias[j];"], 1, stores=True)
    ['s.sum']
    """
    code = _statement(lines, line)
    at = _assignment(code)
    elements = list(_ELEMENT.finditer(code))
    if at is not None and stores is not None:
        left = (m for m in elements if m.end() <= at.start())
        target = next((m for m in left if not code[m.end() : at.start()].strip()), None)
        others = elements if at["also"] else [m for m in elements if m is not target]
        elements = others if not stores else [target] if target is not None else []
    inner = {re.split(r"\W+", _bare(name))[-1] for name in barriers}
    indices = (x for m in elements for x in re.findall(_INDEX, m["path"]))
    within = [x for index in indices for x in accessed([index[1:-1]], 1, barriers)]
    found = [*(_bare(m["path"]) for m in elements), *within]
    named = dict.fromkeys(x for x in found if re.search(r"\.|->", x))
    return [x for x in named if re.split(r"\W+", x)[-1] not in inner and len(x) <= _LONGEST]


def _statement(lines: Sequence[str], line: int) -> str:
    """The text from a line to the end of its statement, without strings and comments."""
    parts: list[str] = []
    for text in lines[line - 1 : line - 1 + _LINES] if line > 0 else ():
        parts.append(_QUOTED.sub("", text).split("//")[0])
        if parts[-1].rstrip().endswith((";", "{", "}")):
            break
    return " ".join(parts)


def _assignment(code: str) -> re.Match[str] | None:
    """The first assignment that stands in no parentheses or brackets."""
    for m in _ASSIGNMENT.finditer(code):
        before = code[: m.start()]
        if all(before.count(a) == before.count(b) for a, b in ("()", "[]")):
            return m
    return None


def _bare(path: str) -> str:
    """A path without its indices."""
    while (shorter := re.sub(r"\s*\[[^\[\]]*\]", "", path)) != path:
        path = shorter
    return path


__all__ = ["accessed"]
