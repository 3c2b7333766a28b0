"""Who comes to a barrier that not all threads come to: the condition that the author wrote around it.

The checker finds the instruction that lanes or warps miss. What the author has to change is the branch that
keeps them away, so the innermost ``if`` or loop around the line is a further place of the finding.
"""

from __future__ import annotations

import re
from dataclasses import replace

from syncverify.base.diagnostics import Diagnostic, KernelReport, Label, Mistake, Severity
from syncverify.base.source import Span
from syncverify.driver.repairs.author_statements import Lines

_HEAD = re.compile(r"^\s*(?:\}\s*)?(?P<word>else\s+if|else|if|for|while)\b")
_SAID = {
    "if": "only threads for which this holds come to it",
    "for": "threads come to it once for each turn that they make here",
    "else": "only threads for which the condition above does not hold come to it",
}


def with_condition(report: KernelReport, file: str, text: Lines) -> KernelReport:
    """The report, its first error with the condition around what only some threads execute."""
    at = next((i for i, d in enumerate(report.diagnostics) if d.severity is Severity.ERROR), None)
    if at is None or text.kind != "cu":
        return report
    found = list(report.diagnostics)
    first = found[at]
    label = _condition(first, file, text) if first.cause is Mistake.DIVERGENCE else None
    if label is None:
        return report
    found[at] = replace(first, related=(label, *first.related))
    return replace(report, diagnostics=tuple(found))


def _condition(d: Diagnostic, file: str, text: Lines) -> Label | None:
    """The innermost condition around the finding, or around the call that led to it, in this file."""
    for span in (d.span, *(x.span for x in d.related)):
        if span.file != file or not 0 < span.line <= len(text.lines):
            continue
        for n, _ in text.blocks(span.line):
            head = _HEAD.match(text.code(n))
            if head is not None:
                word = head["word"].split()[-1]
                return Label(Span(file, n), _SAID["for" if word == "while" else word])
    return None


__all__ = ["with_condition"]
