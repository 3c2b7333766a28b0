"""Blocks of which the text gives a bound alone: ``.maxntid`` (docs/decisions/block-size-from-a-bound.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from syncverify.base.diagnostics import KernelReport, Severity, Verdict
from syncverify.base.reason import Cause, Reason
from syncverify.driver.ptx.task import CheckTask
from syncverify.driver.reports.unconfirmed import unconfirmed
from syncverify.frontends.ptx.analysis.warps.tile_barriers import largest_tile
from syncverify.frontends.ptx.analysis.warps.warp_roles import counts_threads, has_roles
from syncverify.frontends.ptx.exec.tables import layout
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.small_sizes import small_sizes
from syncverify.frontends.ptx.launch.usual_blocks import narrowest_shared, reads_thread_numbers
from syncverify.frontends.ptx.syntax.nodes import Imm

_WARP = 32
_BARRIERS = frozenset({"bar", "barrier"})
#: Blocks of threads for which barriers are that are tried.
_MOST_NAMED = 3
#: An access leaves its array.
_OUTSIDE = "SV114"


def of_bound(facts: PtxFacts) -> list[str]:
    """That the block is as large as the text allows, where nothing else says its size."""
    if not facts.bounded or facts.block is None:
        return []
    x, y, z = facts.block
    size = f"{x}" if y == z == 1 else f"{x} x {y} x {z}"
    return [f"block = {size}: from .maxntid, which is a bound"]


def with_fewer_threads(
    k: CheckTask, report: KernelReport, check: Callable[[CheckTask], KernelReport]
) -> KernelReport:
    """A verdict for the largest block. A proof is undecided where a smaller one goes wrong that the text may
    as well mean, and a refutation where such a one is proved.

    ``check`` gives the report for numbers. A kernel whose warps have roles is meant for all of them. One
    with tiles of several warps is meant for whole tiles.
    """
    if not k.facts.bounded or k.facts.block is None:
        return report
    if report.verdict is Verdict.REFUTED:
        return _right_for_fewer(k, report, check)
    if report.verdict is not Verdict.PROVED:
        return report
    x, *more = k.facts.block
    flow = Flow(k.function)
    if prod(more) > 1 or x <= _WARP or not counts_threads(flow) or has_roles(flow):
        return report
    facts = k.facts
    if facts.symbols():
        facts = facts.bind(next(small_sizes(facts), {}))
    least = max(_WARP, largest_tile(k.function))
    for fewer in sorted({least, -(-x // 2 // least) * least} - {x}, reverse=True):
        found = check(k.launched(replace(facts, block=(fewer, 1, 1), _cache={})))
        if found.verdict is not Verdict.REFUTED:
            continue
        first = next(d for d in found.diagnostics if d.severity is Severity.ERROR)
        text = (
            f"the kernel is right for a block of {x} threads, which .maxntid bounds, and wrong for {fewer}: "
            f"{first.message}: give block in a launch file, or .reqntid in the text"
        )
        softer = tuple(
            replace(d, severity=Severity.WARNING) if d.severity is Severity.ERROR else d
            for d in found.diagnostics
        )
        reason = Reason(text, Cause.MISSING_FACT)
        return replace(
            report, verdict=Verdict.UNKNOWN, reason=reason, diagnostics=(*softer, *report.diagnostics)
        )
    return report


def _right_for_fewer(
    k: CheckTask, report: KernelReport, check: Callable[[CheckTask], KernelReport]
) -> KernelReport:
    """A refutation for the largest block; undecided where the kernel is proved for a smaller one that the
    text names, as the threads that come to a barrier, or for one thread.

    Example: ``.maxntid 128`` and ``bar.sync 1, 96`` are of a kernel that is launched with 96 threads.
    """
    assert k.facts.block is not None
    x, *more = k.facts.block
    if prod(more) > 1 or has_roles(Flow(k.function)):
        return report
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    for fewer, why in _meant(k, x, first.rule):
        found = check(k.launched(replace(k.facts, block=(fewer, 1, 1), _cache={})))
        if found.verdict is not Verdict.PROVED:
            continue
        threads = "one thread" if fewer == 1 else f"{fewer} threads"
        text = (
            f"the kernel is right for a block of {threads}, {why}, and wrong for "
            f"{x}, which .maxntid bounds: {first.message}: give block in a launch file, or .reqntid in the "
            "text"
        )
        found = unconfirmed(report, "", Cause.MISSING_FACT)
        return replace(found, reason=Reason(text, Cause.MISSING_FACT), suspect=None)
    return report


def _meant(k: CheckTask, most: int, rule: str) -> list[tuple[int, str]]:
    """Blocks of fewer threads that a text names, the largest first, and how. ``rule``: what is refuted.

    The elements of an array name one where the largest block leaves an array. A text that asks for no number
    of a thread may be meant for one.
    """
    named: dict[int, str] = {}
    if rule == _OUTSIDE:
        each = narrowest_shared(k.function)
        arrays = layout(k.module, k.function, None).names
        named |= {(end - start) // each: "which fills an array" for start, end, _ in arrays}
    for i in k.function.body:
        if i.op == "mbarrier" and i.mods[:1] == ("init",):
            named |= {o.value: "for which it has an mbarrier" for o in i.operands[1:2] if isinstance(o, Imm)}
        elif i.op in _BARRIERS and "arrive" not in i.mods:
            named |= {o.value: "for which it has a barrier" for o in i.operands[1:2] if isinstance(o, Imm)}
    found = sorted((n for n in named if 0 < n < most and n % _WARP == 0), reverse=True)[:_MOST_NAMED]
    alone = [] if reads_thread_numbers(k.function) else [(1, "as it asks for no number of a thread")]
    return [*((n, named[n]) for n in found), *alone]


__all__ = ["of_bound", "with_fewer_threads"]
