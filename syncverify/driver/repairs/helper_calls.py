"""Where an author's function is called, if a finding stands in it and no call of it is known.

A compiler may merge the code of several calls of a function; then the line table names none of them. Worked
example. ``ring.await(w)`` stands in two loops and calls ``block(...)``, which polls. A wait that goes wrong
there is shown in ``block``, with the calls of ``await`` as further places.
"""

from __future__ import annotations

import re
from dataclasses import replace

from syncverify.base.diagnostics import KernelReport, Label, Severity
from syncverify.base.source import Span
from syncverify.driver.repairs.author_statements import Lines

#: Calls that are shown, and functions that call each other.
_MOST, _DEPTH = 3, 3
_CALLED = "called from here"


def with_calls(report: KernelReport, file: str, text: Lines) -> KernelReport:
    """The report, its first error with the calls of the function that it stands in, where none is known."""
    at = next((i for i, d in enumerate(report.diagnostics) if d.severity is Severity.ERROR), None)
    if at is None or text.kind != "cu":
        return report
    found = list(report.diagnostics)
    first = found[at]
    known = (first.span, *(x.span for x in first.related if x.text == _CALLED))
    here = [span.line for span in known if span.file == file and 0 < span.line <= len(text.lines)]
    calls = calls_of(text, here[-1]) if here else []
    labels = tuple(Label(Span(file, n), f"{name} is called here") for n, name in calls)
    shown = {x.span for x in first.related}
    if not labels or len(labels) > _MOST or any(x.span in shown for x in labels):
        return report
    found[at] = replace(first, related=(*first.related, *labels))
    return replace(report, diagnostics=tuple(found))


def calls_of(text: Lines, line: int) -> list[tuple[int, str]]:
    """Where kernels call the device function that a line is in, through others too, and by which name."""
    work, seen, found = [line], set[str](), list[tuple[int, str]]()
    for _ in range(_DEPTH):
        names = {text.function_of(n) for n in work} - {"", *seen}
        seen |= names
        every = [(n, name) for name in sorted(names) for n in _lines(text, name)]
        found += [(n, name) for n, name in every if not text.function_of(n)]
        work = [n for n, _ in every if text.function_of(n)]
    return sorted(found)


def _lines(text: Lines, name: str) -> list[int]:
    """The lines that call a function."""
    called = re.compile(rf"(?<![\w~]){name}\s*(?:<[^<>;()]*>\s*)?\(")
    every = range(1, len(text.lines) + 1)
    return [n for n in every if called.search(text.code(n)) and text.function_of(n) != name]


__all__ = ["calls_of", "with_calls"]
