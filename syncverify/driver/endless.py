"""Proofs of kernels with a loop that nobody leaves who turns once in it: they are none.

A loop without events is not followed, and one of data is run once: that loops end is assumed. Where nothing
can change that would end one, the assumption is not taken. Findings stay: they come before, or beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from syncverify.base.diagnostics import Diagnostic, KernelReport, Severity, Verdict
from syncverify.base.reason import Cause, Reason
from syncverify.driver.ptx_task import CheckTask
from syncverify.frontends.ptx.analysis.thread_values import ThreadValues
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.progress import endless_loops
from syncverify.ir.launch_grid import Dims


def _of_threads(flow: Flow, block: Dims) -> Callable[[int], list[int] | None]:
    """What the threads of a block have in a version of a register."""
    values = ThreadValues(flow, block)

    def of(v: int) -> list[int] | None:
        numbers = values.of_version(v)
        return None if numbers is None else [int(x) for x in numbers]

    return of


def with_loops_that_end(k: CheckTask, report: KernelReport) -> KernelReport:
    """The report, or no proof where a loop of the kernel never ends."""
    if report.verdict is not Verdict.PROVED:
        return report
    flow = Flow(k.function)
    block = k.facts.block
    found = endless_loops(flow) if block is None else endless_loops(flow, _of_threads(flow, block))
    if not found:
        return report
    span = k.module.span(k.function.body[found[0]])
    reason = Reason(f"{span}: who turns once in this loop turns for ever: it takes no exit", Cause.UNDECIDED)
    note = Diagnostic("SV902", Severity.WARNING, reason, span)
    return replace(
        report, verdict=Verdict.UNKNOWN, reason=reason, proof=None, diagnostics=(note, *report.diagnostics)
    )


__all__ = ["with_loops_that_end"]
