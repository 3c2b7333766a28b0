"""One kernel's check, fenced off from the others: a fault or an exhausted guard costs that kernel alone.

A check hands over a report after each of its steps. What ends it early leaves the last one, as undecided:

    time or memory is over   SV907, with the finding of the steps before; a refutation stays one
    a fault of the tool      SV906, 'please report'; a refutation stays one
    the user interrupts it   InterruptedCheck with a refutation, otherwise nothing is left
    input nobody can use     InputError, for the caller to tell
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace

from syncverify.base.deadline import Guard, OutOfBudgetError, guarded
from syncverify.base.diagnostics import Diagnostic, KernelReport, Policy, Scope, ScopeKind, Severity, Verdict
from syncverify.base.reason import Cause, Reason
from syncverify.base.source import InputError, Span

FAULT, BUDGET = "SV906", "SV907"
#: How each guard is widened.
_OPTIONS = {Cause.TIMEOUT: "--timeout", Cause.MEMORY: "--max-memory"}


def blank(name: str, file: str, policy: Policy, span: Span) -> KernelReport:
    """The report on a kernel of which nothing is known yet."""
    reason = Reason("the check has not begun", Cause.UNDECIDED)
    note = Diagnostic("SV902", Severity.WARNING, reason, span)
    scope = Scope(ScopeKind.EXACT)
    return KernelReport(name, file, Verdict.UNKNOWN, policy, scope, reason=reason, diagnostics=(note,))


class InterruptedCheck(KeyboardInterrupt):
    """The user interrupts a check that has refuted its kernel, and looks for a repair."""

    def __init__(self, report: KernelReport) -> None:
        super().__init__()
        self.report = report


def captured(
    nothing: KernelReport, steps: Callable[[], Iterator[KernelReport]], guard: Guard, span: Span
) -> KernelReport:
    """The last report of a check's ``steps``, or what is left of it. Raises InputError, InterruptedCheck.

    ``nothing``: the report before the first step. ``span``: the kernel's place.
    """
    start = time.perf_counter()
    best = nothing
    try:
        with guarded(guard):
            for report in steps():
                best = report
    except OutOfBudgetError as e:
        best = _ended(best, nothing, e.reason, span)
    except MemoryError:
        best = _ended(best, nothing, Reason("this machine has no more memory", Cause.MEMORY), span)
    except InputError:
        raise
    except KeyboardInterrupt as e:
        if best.verdict is not Verdict.REFUTED:
            raise
        best = _ended(best, nothing, Reason("it was interrupted", Cause.UNDECIDED), span)
        raise InterruptedCheck(replace(best, seconds=time.perf_counter() - start)) from e
    except Exception as e:
        best = faulted(best if best is not nothing else replace(nothing, diagnostics=()), of_fault(e), span)
    return replace(best, seconds=time.perf_counter() - start)


def _ended(best: KernelReport, nothing: KernelReport, why: Reason, span: Span) -> KernelReport:
    """The best report when a guard ended the check."""
    option = _OPTIONS.get(why.kind, "")
    message = f"the check was ended: {why}" + (f" ({option} allows more)" if option else "")
    if best.verdict is not Verdict.UNKNOWN:
        note = Diagnostic(BUDGET, Severity.NOTE, f"no more was looked for: {why}", span)
        return replace(best, diagnostics=(*best.diagnostics, note))
    first = best is nothing
    text = message if first else f"{message}; until then: {best.reason}"
    reason = Reason(text, why.kind, parts=(why, *([] if first else [best.reason or ""])))
    warning = Diagnostic(BUDGET, Severity.WARNING, message, span)
    found = () if first else best.diagnostics
    return replace(best, reason=reason, diagnostics=(warning, *found))


def faulted(report: KernelReport, what: str, span: Span) -> KernelReport:
    """A report on a kernel that the tool failed on. A refutation from before stays one, a proof does not."""
    reason = Reason(f"internal fault, a bug in syncverify: please report it ({what})", Cause.INTERNAL_FAULT)
    found = Diagnostic(FAULT, Severity.WARNING, reason, span)
    if report.verdict is Verdict.REFUTED:
        return replace(report, diagnostics=(*report.diagnostics, found))
    return replace(
        report,
        verdict=Verdict.UNKNOWN,
        reason=reason,
        witness=None,
        proof=None,
        diagnostics=(found, *report.diagnostics),
    )


def lost(name: str, file: str, policy: Policy, how: str) -> KernelReport:
    """The report on a kernel whose process died, twice."""
    span = Span(file)
    report = replace(blank(name, file, policy, span), diagnostics=())
    return faulted(report, how, span)


def of_fault(error: Exception) -> str:
    """What went wrong, with the place in the tool if that is asked for."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if os.environ.get("SYNCVERIFY_TRACEBACK"):
        return f"{text}\n{''.join(traceback.format_exception(error)).rstrip()}"
    return f"{text}; SYNCVERIFY_TRACEBACK=1 shows where"


__all__ = ["BUDGET", "FAULT", "InterruptedCheck", "blank", "captured", "faulted", "lost", "of_fault"]
