"""Advice on proved PTX kernels (SV601 to SV606): fences and waits that could be less or stand elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.checker.explain.redundancy import DRAINS, FENCES, advise
from syncverify.checker.outcome import Outcome
from syncverify.frontends.ptx.decode.wmma import stores_matrix
from syncverify.frontends.ptx.syntax.nodes import Function, Instr
from syncverify.model.events import System

#: Events that the tries for one kernel may take together: advice must not be what a check waits for.
MAX_EVENTS = 8_000
_OTHER_SPACES = ("shared", "shared::cta", "shared::cluster", "local", "param", "const")


def advised(
    report: KernelReport, function: Function, systems: Sequence[System], judge: Callable[[System], Outcome]
) -> KernelReport:
    """The report with notes on fences and waits of a proved kernel, found for exactly these ``systems``."""
    if report.verdict is not Verdict.PROVED or not systems:
        return report
    if not any(_worth_a_try(i) for i in function.body):
        return report
    if int(report.stats.get("events", 0)) > MAX_EVENTS // 2:
        return report
    if any(_writes_global(i) for i in function.body):
        return report  # the fence may be for that data, which a proof does not cover
    notes = advise(systems, judge, report.diagnostics, FENCES | DRAINS, budget=MAX_EVENTS)
    return replace(report, diagnostics=(*report.diagnostics, *notes))


def _worth_a_try(i: Instr) -> bool:
    """Proxy fences, and waits for bulk stores."""
    return (i.op == "fence" and i.mods[:2] == ("proxy", "async")) or (i.op == "cp" and "wait_group" in i.mods)


def _writes_global(i: Instr) -> bool:
    """Whether an ordinary access may write global memory."""
    writes = i.op in ("st", "atom", "red", "stmatrix") or stores_matrix(i)
    return writes and not any(m in _OTHER_SPACES for m in i.mods)
