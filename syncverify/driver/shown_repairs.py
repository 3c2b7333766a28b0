"""Reports with the repairs of their findings, and without."""

from __future__ import annotations

from dataclasses import replace

from syncverify.base.diagnostics import Diagnostic, KernelReport, Label, Repair


def with_repair(report: KernelReport, at: int, mended: Repair) -> KernelReport:
    """The report with a repair of its finding of that number."""
    found = list(report.diagnostics)
    first = found[at]
    kept = (label for label in first.related if not label.unmended)
    related = (*_change(first, mended), *kept)
    found[at] = replace(first, repair=mended, related=related, cause=mended.mistake)
    return replace(report, diagnostics=tuple(found), untold_repairs=())


def without_repair(report: KernelReport) -> KernelReport:
    """The report without repairs of its findings."""
    found = (
        replace(d, repair=None, related=tuple(x for x in d.related if x not in _change(d, d.repair)))
        if d.repair is not None
        else d
        for d in report.diagnostics
    )
    return replace(report, diagnostics=tuple(found))


def _change(first: Diagnostic, mended: Repair) -> tuple[Label, ...]:
    """The places of a repair beside that of its finding."""
    here = () if mended.span == first.span else (Label(mended.span, f"change this: {mended.text}"),)
    other = mended.neighbour
    return here if other is None or other.span == first.span else (*here, other)
