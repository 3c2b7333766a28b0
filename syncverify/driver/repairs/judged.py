"""What the check of an edited text came to."""

from __future__ import annotations

from dataclasses import dataclass, replace

from syncverify.base.diagnostics import Diagnostic, KernelReport, TextEdit, Verdict
from syncverify.base.source import Span


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on the kernel of an edited text, and the findings on it, with their places in that text."""

    verdict: Verdict
    findings: tuple[Diagnostic, ...] = ()

    @classmethod
    def of(cls, report: KernelReport, edited: str, file: str) -> Judged:
        """What a report on the file ``edited`` says of ``file``, whose text it was made of."""
        found = (
            replace(d, span=replace(d.span, file=file)) if d.span.file == edited else d
            for d in report.diagnostics
        )
        return cls(report.verdict, tuple(found))

    def before(self, edit: TextEdit) -> list[Diagnostic]:
        """The findings, with their places in the text before the edit."""
        return [replace(d, span=_before(d.span, edit)) for d in self.findings]


def _before(span: Span, edit: TextEdit) -> Span:
    """The place in the text before an edit that became ``span``."""
    if span.file != edit.file or span.line < edit.line + len(edit.new):
        return span
    moved = len(edit.new) - len(edit.old)
    return replace(span, line=span.line - moved, end_line=span.end_line and span.end_line - moved)


__all__ = ["Judged"]
