"""Edits of a CUDA text for which the events show no repair: turns of loops, and who issues.

The events of one turn too many are those of a right turn, so no edit of events mends them. What authors get
wrong there is small: a bound of a loop that is off by one, or a block that a whole warp executes where one
of its threads is meant. Each such edit is tried; it counts if the kernel is proved with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from syncverify.base.diagnostics import Diagnostic, Mistake, Repair
from syncverify.base.source import Span
from syncverify.driver.author_statements import Lines, indent_of

_BOUND = re.compile(r"\bfor\s*\([^;]*;(?P<bound>[^;]*);")
#: Bounds that may be off by one, and what they may mean.
_OFF_BY_ONE = (
    (re.compile(r"<="), "<", "one turn fewer here"),
    (re.compile(r"\s*-\s*1\b"), "", "one turn more here"),
    (re.compile(r"\s*\+\s*1\b"), "", "one turn fewer here"),
)
#: What too few or too many turns of one side break, and what many issuers break.
_OF_TURNS, _OF_ISSUERS = frozenset({"SV207", "SV210", "SV211", "SV212"}), frozenset({"SV202"})
_ONE_LANE = "if (threadIdx.x % 32 == 0) "

#: A repair, and the lines from its own on that change: old and new.
Guess = tuple[Repair, tuple[str, ...], tuple[str, ...]]


def guesses(found: Diagnostic, file: str, text: Lines) -> Iterator[Guess]:
    """Edits that may mend a finding in a file of CUDA."""
    if text.kind != "cu" or found.span.file != file:
        return
    if found.rule in _OF_TURNS:
        yield from _turns(file, text)
    if found.rule in _OF_ISSUERS:
        yield from _one_issuer(found.span, text)


def _turns(file: str, text: Lines) -> Iterator[Guess]:
    """Loops whose bound is off by one."""
    for n, line in enumerate(text.lines, 1):
        header = _BOUND.search(text.code(n))
        for wrong, right, said in _OFF_BY_ONE if header is not None else ():
            assert header is not None
            start, end = header.span("bound")
            bound = wrong.sub(right, line[start:end], count=1)
            if bound != line[start:end]:
                repair = Repair(Mistake.TURNS, Span(file, n), said)
                yield repair, (line,), (line[:start] + bound + line[end:],)


def _one_issuer(at: Span, text: Lines) -> Iterator[Guess]:
    """The blocks around a statement, for one lane of each warp, the innermost first."""
    for first, _ in text.blocks(at.line):
        code = text.code(first).strip()
        if code == "{" or code.startswith("for "):
            line = text.lines[first - 1]
            new = indent_of(line) + _ONE_LANE + line.lstrip()
            said = "let one thread of the warp do this"
            yield Repair(Mistake.SECOND_PRODUCER, Span(at.file, first), said), (line,), (new,)


__all__ = ["guesses"]
