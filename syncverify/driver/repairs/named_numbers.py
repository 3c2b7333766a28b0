"""Numbers that a line of CUDA does not say itself: those of constants, and of lists in braces.

A count or a size often stands elsewhere: in a ``constexpr`` that the line names, or in what a function of the
author returns. Each such place is a candidate for another number; it counts if the kernel is proved with it.

Worked example. ``return NamedBarrier{CONSUMERS + 32, FULL + slot};`` has the list of ``CONSUMERS + 32`` and
``FULL + slot``: either may be the number that is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from syncverify.driver.repairs.author_statements import Lines

_CONSTANTS = re.compile(r"\b(?:constexpr|const|enum)\b[^=]*(?=\b\w+\s*=)")
_VALUE = re.compile(r"\b(?P<name>[A-Za-z_]\w*)\s*=(?!=)\s*(?P<value>[^;,{}=]+?)\s*(?=[;,}])")
_DEFINE = re.compile(r"^\s*#\s*define\s+(?P<name>\w+)\s+(?P<value>\S.*?)\s*$")
_LAST = re.compile(r"\w\((?:[^()]*,)?\s*(?P<last>[^(),\s][^(),]*)\)\s*;")
_LOOP = re.compile(r"\s*(?:for|while)\s*\(")
_LIST = re.compile(r"\w\s*\{(?P<list>[^{}]+)\}")


def in_constants(text: Lines, line: int, number: str) -> Iterator[tuple[int, str]]:
    """Definitions of constants that a line names, with the number: which line, and what it becomes."""
    named = {*re.findall(r"[A-Za-z_]\w*", text.code(line))} if text.kind == "cu" else set()
    for n in range(1, len(text.lines) + 1) if named else ():
        code = text.code(n)
        found = list(_DEFINE.finditer(code))
        if _CONSTANTS.search(code) and "(" not in code.split("=")[0]:
            found += _VALUE.finditer(code)
        for m in found:
            if m["name"] in named and n != line and m["value"] != number:
                start, end = m.span("value")
                yield n, text.lines[n - 1][:start] + number + text.lines[n - 1][end:]


def in_lists(code: str, number: str) -> Iterator[str]:
    """A line with the number in the place of one member of a list in braces."""
    for m in _LIST.finditer(code):
        start = m.start("list")
        for member in m["list"].split(","):
            bare = member.strip()
            at = start + member.index(bare)
            if bare and bare != number:
                yield code[:at] + number + code[at + len(bare) :]
            start += len(member) + 1


def in_calls(code: str, number: str) -> Iterator[str]:
    """A line with the number as the last argument of one of its calls, the first call first."""
    for m in _LAST.finditer(code):
        if m["last"].strip() != number:
            yield code[: m.start("last")] + number + code[m.end("last") :]


def body_of_loop(code: str) -> int:
    """Where the body of a loop begins that stands on the line of its head; 0: there is none."""
    head = _LOOP.match(code)
    depth = 0
    for i in range(head.end() - 1 if head is not None else len(code), len(code)):
        depth += (code[i] == "(") - (code[i] == ")")
        if depth == 0:
            return i + 1 if code[i + 1 :].strip(" {") else 0
    return 0


__all__ = ["body_of_loop", "in_calls", "in_constants", "in_lists"]
