"""Reports with the repairs of their findings, and without."""

from __future__ import annotations

from dataclasses import replace

from syncverify.base.diagnostics import Diagnostic, EditKind, KernelReport, Label, Repair

#: Edits that leave what stands at their place, and add to it.
_ADDS = frozenset({
    EditKind.FENCE, EditKind.INSTRUCTION, EditKind.BARRIER, EditKind.WAIT, EditKind.ARRIVE, EditKind.ANNOUNCE,
    EditKind.INIT, EditKind.HAND_ON, EditKind.ARRIVE_TOO,
})  # fmt: skip


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
    adds = mended.hint is not None and mended.hint.kind in _ADDS
    said = f"{'add' if adds else 'change this'}: {mended.text}"
    here = () if mended.span == first.span else (Label(mended.span, said),)
    other = mended.neighbour
    return here if other is None or other.span == first.span else (*here, other)
