"""What proofs of PTX take for granted of global memory, asked again where a certificate is followed.

A launch in which blocks race, or an execution that does harm, contradicts a proof. Neither proves anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from syncverify.base.diagnostics import KernelReport, Policy, Severity, Verdict
from syncverify.checker.outcome import Outcome
from syncverify.model.events import System


@dataclass(frozen=True, slots=True)
class Doubts:
    """Who looks whether a text contradicts what its proof takes for granted, as ``check`` does: ``judge`` at
    the systems of blocks that may race, ``executed`` at the report of blocks that count themselves, given the
    module."""

    judge: Callable[[System, Policy], Outcome]
    executed: Callable[[KernelReport, Any], KernelReport]

    def asked(self, report: KernelReport, module: Any) -> KernelReport:
        """The report of a proof, if executions do not contradict it."""
        asks = report.verdict is Verdict.PROVED and report.doubted is not None
        return self.executed(report, module) if asks else report


def why_not(report: KernelReport) -> str:
    """Why a report is no proof."""
    errors = (f"{d.span}: {d.message}" for d in report.diagnostics if d.severity is Severity.ERROR)
    return report.reason or next(errors, str(report.verdict))


__all__ = ["Doubts", "why_not"]
