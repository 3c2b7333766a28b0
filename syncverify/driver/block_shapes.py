"""Blocks of which the text bounds the number of threads alone, though the kernel reads ``%tid.y``.

``.maxntid 256`` does not say whether a block is 32 x 8 or 16 x 16. The kernel is checked with each block of
two dimensions and so many threads. One that does not fit is not meant: the kernel leaves a shared array, or
its rows overlap. With ``tile[16][16]``, 32 x 8 writes words of two rows twice. What the others agree in is
the verdict, which assumes one of them. Where they do not agree, it is unknown. Where none fits, the block of
one row is asked, too, and all have to agree.

See docs/decisions/block-size-from-a-bound.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from syncverify.base.diagnostics import KernelReport, ScopeKind, Verdict
from syncverify.base.reason import Cause, Reason
from syncverify.driver.block_proposals import Tried, tried, written
from syncverify.driver.ptx_check import Task, reports_of
from syncverify.frontends.ptx.launch.usual_blocks import blocks_of


def reports_of_shapes(task: Task, scope: ScopeKind) -> Iterator[KernelReport]:
    """The reports of a task; where the text bounds the threads alone, what blocks agree in."""
    threads = task.kernel.facts.threads
    if threads is None:
        yield from reports_of(task, scope)
        return
    found: list[Tried] = []
    for t in tried(task, scope, blocks_of(threads)):
        if len(t.block) == 1 and any(map(_fits, found)):
            break
        found.append(t)
        meant = list(filter(_fits, found))
        if meant and (meant[-1].report.verdict is Verdict.UNKNOWN or len(_verdicts(meant)) > 1):
            break  # no other block makes them agree
    yield _agreed(list(filter(_fits, found)) or found, threads)


def _fits(t: Tried) -> bool:
    """Whether a kernel may be meant for a block of two dimensions."""
    return len(t.block) > 1 and not t.outside and not t.overlaps


def _verdicts(found: Sequence[Tried]) -> set[Verdict]:
    return {t.report.verdict for t in found}


def _agreed(meant: Sequence[Tried], threads: int) -> KernelReport:
    """The verdict in which all blocks that may be meant agree."""
    first = meant[0].report
    seconds = sum(t.report.seconds for t in meant)
    differs = next((t for t in meant if t.report.verdict is not first.verdict), None)
    if differs is None and first.verdict is not Verdict.UNKNOWN:
        taken = f"block = {_either(meant)}: of the {threads} threads that .maxntid allows, which is a bound"
        assumed = dict.fromkeys(a for t in meant for a in t.report.assumptions)
        return replace(first, assumptions=(*assumed, taken), seconds=seconds)
    of = meant[0] if differs is None else differs
    why = f"the kernel reads %tid.y, and .maxntid gives {threads} threads in a block of any shape: with "
    if differs is None:
        why += f"block = {written(of.block)} it is unknown, as {first.reason}"
    else:
        why += f"block = {meant[0].text} and {differs.text} it is not the same"
    why += ": give block in a launch file, or .reqntid in the text"
    unknown = next((t.report for t in (of, meant[0]) if t.report.verdict is Verdict.UNKNOWN), first)
    reason = Reason(why, Cause.MISSING_FACT)
    return replace(
        unknown, verdict=Verdict.UNKNOWN, reason=reason, seconds=seconds, proof=None, witness=None,
        refuted_system=None, refuted_facts=None, suspect=None, undecided=None,
    )  # fmt: skip


def _either(meant: Sequence[Tried]) -> str:
    """The blocks in words: ``32 x 8 or 16 x 16``."""
    named = [" x ".join(map(str, t.block)) for t in meant]
    return " or ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


__all__ = ["reports_of_shapes"]
