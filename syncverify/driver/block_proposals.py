"""Kernels whose block nothing gives: usual blocks are tried, and a note says what holds with them.

The verdict stays ``unknown``, for nothing says how the kernel is launched. The note gives the line to write.

Example: a transposition of tiles of 32 x 32 reads ``%tid.y``, so blocks of two dimensions are tried. The
first, 32 x 8, is proved. The note then gives ``block = [32, 8]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from syncverify.base.deadline import OutOfBudgetError, within, within_steps
from syncverify.base.diagnostics import Diagnostic, KernelReport, ScopeKind, Severity, Verdict
from syncverify.base.kernel_names import base_name
from syncverify.base.source import InputError
from syncverify.driver.ptx_check import Task, reports_of
from syncverify.frontends.launch_facts import default_path
from syncverify.frontends.ptx.launch.tensormap_boxes import InferredBoxes
from syncverify.frontends.ptx.launch.usual_blocks import Block, usual_blocks

RULE = "SV909"
#: Steps for all blocks of a kernel; processor seconds, as a guard.
STEPS, SECONDS = 20_000, 15.0
_OUT_OF_BOUNDS = "SV114"


@dataclass(frozen=True, slots=True)
class _Tried:
    """What a check says of one block."""

    block: Block
    report: KernelReport

    @property
    def error(self) -> Diagnostic | None:
        return next((d for d in self.report.diagnostics if d.severity is Severity.ERROR), None)

    @property
    def text(self) -> str:
        if self.error is not None:
            return f"{written(self.block)} ({self.error.rule})"
        return f"{written(self.block)} ({self.report.verdict})"


def written(block: Sequence[int]) -> str:
    """A block as a launch file gives it: ``[32, 8]``."""
    return f"[{', '.join(map(str, block))}]"


def proposed_block(task: Task, report: KernelReport, scope: ScopeKind) -> KernelReport:
    """An undecided report of a kernel without a block, with a note on usual ones; any other as it is."""
    k = task.kernel
    if report.verdict is not Verdict.UNKNOWN or k.facts.block is not None:
        return report
    tried = list(_until_proved(_tried(task, scope, usual_blocks(k.function))))
    if not tried:
        return report
    return replace(report, diagnostics=(*report.diagnostics, _note(task, tried)))


def _tried(task: Task, scope: ScopeKind, blocks: Iterable[Block]) -> Iterator[_Tried]:
    k = task.kernel
    try:
        with within(SECONDS), within_steps(STEPS):
            for block in blocks:
                x, y, z = (*block, 1, 1)[:3]
                facts = replace(k.facts, block=(x, y, z), _cache={})
                boxes = None if k.boxes is None else InferredBoxes()
                fresh = replace(k.launched(facts), boxes=boxes)
                *_, found = reports_of(Task(fresh, task.granted), scope)
                yield _Tried(block, found)
    except (OutOfBudgetError, InputError):
        return


def _until_proved(tried: Iterable[_Tried]) -> Iterator[_Tried]:
    for t in tried:
        yield t
        if t.report.verdict is Verdict.PROVED:
            return


def _note(task: Task, tried: Sequence[_Tried]) -> Diagnostic:
    k = task.kernel
    last = tried[-1]
    under = f"under [kernel.{base_name(k.function.name)}] in {k.facts.file or default_path(k.module.path)}"
    if last.report.verdict is Verdict.PROVED:
        rests = "; ".join(last.report.assumptions)
        text = f"with block = {written(last.block)} the kernel is proved"
        text += f" (assumed then: {rests})" if rests else ""
        text += _others(tried, last)
        fix = f"if it is launched so, write block = {written(last.block)} {under}"
        return Diagnostic(RULE, Severity.NOTE, text, k.span, fix=fix)
    failed = [(t, t.error) for t in tried if t.error is not None]
    if not failed:
        text = f"usual blocks give no verdict either: {'; '.join(t.text for t in tried)}"
        return Diagnostic(RULE, Severity.NOTE, text, k.span)
    # A block that is too large for the kernel's buffers says the least.
    first, error = min(failed, key=lambda x: x[1].rule == _OUT_OF_BOUNDS)
    text = f"with block = {written(first.block)} the check finds {error.rule}: {error.message}"
    text += _others(tried, first)
    fix = f"write the block of the launch {under}: block = [...]"
    return Diagnostic(RULE, Severity.WARNING, text, error.span, fix=fix)


def _others(tried: Sequence[_Tried], shown: _Tried) -> str:
    others = [t.text for t in tried if t is not shown]
    return f"; tried too: {', '.join(others)}" if others else ""


__all__ = ["RULE", "proposed_block", "written"]
