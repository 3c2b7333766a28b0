"""Proofs of kernels with loops whose end no run comes to: what they take for granted, and which are none.

A loop without events is not followed, and one of data is run once: that such a loop ends is an assumption by
name, unless the text shows it (``analysis/registers/loop_ends.py``). Where nothing can change that would end
it, there is no proof. Findings stay: they come before, or beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from syncverify.base.diagnostics import Diagnostic, KernelReport, Severity, Verdict
from syncverify.base.reason import Cause, Reason
from syncverify.driver.ptx.task import CheckTask
from syncverify.frontends.ptx.analysis.arrays.address_ranges import AddressRanges
from syncverify.frontends.ptx.analysis.registers.interval_rules import Known, one
from syncverify.frontends.ptx.analysis.registers.loop_ends import granted_loops
from syncverify.frontends.ptx.analysis.registers.thread_values import ThreadValues
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.progress import endless_loops
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.syntax.nodes import Mem, Sym
from syncverify.frontends.ptx.syntax.types import width
from syncverify.ir.launch_grid import Dims

#: What a proof assumes of a loop.
ENDS = "this loop ends"


def _of_threads(flow: Flow, block: Dims) -> Callable[[int], list[int] | None]:
    """What the threads of a block have in a version of a register."""
    values = ThreadValues(flow, block)

    def of(v: int) -> list[int] | None:
        numbers = values.of_version(v)
        return None if numbers is None else [int(x) for x in numbers]

    return of


def _given(facts: PtxFacts, flow: Flow, v: int) -> int | None:
    """The number of a parameter that is loaded into a version."""
    at = flow.versions.writer[v]
    i = flow.body[at] if at >= 0 else None
    if i is None or i.op != "ld" or "param" not in i.mods or i.guard is not None:
        return None
    m = i.operands[1]
    names = [p.name for p in flow.function.params]
    if not isinstance(m, Mem) or not isinstance(m.base, Sym) or m.base.name not in names:
        return None
    place = names.index(m.base.name), m.base.offset + m.offset
    value = facts.leaf(*place, width(i.mods[-1]) // 8).value
    return value if isinstance(value, int) and value >= 0 else None


def loops_taken_to_end(k: CheckTask, decided: frozenset[int] | None = None) -> list[str]:
    """That loops end of which nothing shows it, by their lines. ``decided``: the branches that runs decide,
    if not those that count."""
    p = k.code.compiled
    if p is None or k.facts.block is None:
        return []
    ranges = AddressRanges(p.flow, {}, k.facts.block)
    waits = {*p.flow.spins, *p.flags.spins, *p.flags.locks}
    if p.handing is not None:
        waits |= {*p.handing.spins, *p.handing.polls, *p.handing.locks}

    def number(v: int) -> Known:
        """What a version of a register may be: the number of a parameter, or what ranges say."""
        known = _given(k.facts, p.flow, v)
        return ranges.version(v) if known is None else one(known)

    found = granted_loops(p.flow, p.slice.branches if decided is None else decided, waits, number)
    return [f"line {n}: {ENDS}" for n in sorted({k.module.span(p.body[at]).line for at in found})]


def with_loops_that_end(k: CheckTask, report: KernelReport) -> KernelReport:
    """The report with the loops that are taken to end, or no proof where one of the kernel never does."""
    if report.verdict is not Verdict.PROVED:
        return report
    flow = Flow(k.function)
    block = k.facts.block
    found = endless_loops(flow) if block is None else endless_loops(flow, _of_threads(flow, block))
    if not found:
        return replace(
            report, assumptions=tuple(dict.fromkeys((*report.assumptions, *loops_taken_to_end(k))))
        )
    span = k.module.span(k.function.body[found[0]])
    reason = Reason(f"{span}: who turns once in this loop turns for ever: it takes no exit", Cause.UNDECIDED)
    note = Diagnostic("SV902", Severity.WARNING, reason, span)
    return replace(
        report, verdict=Verdict.UNKNOWN, reason=reason, proof=None, diagnostics=(note, *report.diagnostics)
    )


__all__ = ["ENDS", "loops_taken_to_end", "with_loops_that_end"]
