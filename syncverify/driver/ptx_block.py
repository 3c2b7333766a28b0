"""Blocks of which the text gives a bound alone: ``.maxntid`` (docs/decisions/block-size-from-a-bound.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from syncverify.base.diagnostics import KernelReport, Severity, Verdict
from syncverify.base.reason import Cause, Reason
from syncverify.driver.ptx_task import CheckTask
from syncverify.frontends.ptx.analysis.tile_barriers import largest_tile
from syncverify.frontends.ptx.analysis.warp_roles import counts_threads, has_roles
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.small_sizes import small_sizes

_WARP = 32


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
    """A proof for the largest block; undecided where a smaller one goes wrong that the text may as well mean.

    ``check`` gives the report for numbers. A kernel whose warps have roles is meant for all of them. One
    with tiles of several warps is meant for whole tiles.
    """
    if report.verdict is not Verdict.PROVED or not k.facts.bounded or k.facts.block is None:
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


__all__ = ["of_bound", "with_fewer_threads"]
