"""A refutation that no execution has borne out: the finding is shown, and the verdict is unknown."""

from __future__ import annotations

from dataclasses import replace

from syncverify.base.diagnostics import KernelReport, Severity, Verdict
from syncverify.base.reason import Cause, Reason


def unconfirmed(report: KernelReport, why: str, cause: Cause) -> KernelReport:
    """A refutation that no execution has borne out: unknown, with its finding as a warning."""
    if report.verdict is not Verdict.REFUTED:
        return report
    first = next((d for d in report.diagnostics if d.severity is Severity.ERROR), None)
    finding = "" if first is None else f": {first.message}"
    softer = tuple(
        replace(d, severity=Severity.WARNING) if d.severity is Severity.ERROR else d
        for d in report.diagnostics
    )
    return replace(
        report,
        verdict=Verdict.UNKNOWN,
        reason=Reason(f"{why}{finding}", cause),
        diagnostics=softer,
        witness=None,
        refuted_system=None,
        refuted_facts=None,
    )


__all__ = ["unconfirmed"]
