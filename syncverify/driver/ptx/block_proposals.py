"""Kernels whose block nothing gives: usual blocks are tried, and a note says what holds with them.

Where these do not agree (``driver.ptx.block_shapes``), the verdict is ``unknown``, for nothing says how the
kernel is launched. The note gives the line to write.

Example: a transposition of tiles of 32 x 32 reads ``%tid.y``, so blocks of two dimensions are tried. The
first, 32 x 8, is proved, and 32 x 4 is not. The note then gives ``block = [32, 8]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from syncverify.base.deadline import OutOfBudgetError, check, within, within_steps
from syncverify.base.diagnostics import Diagnostic, KernelReport, ScopeKind, Severity, Verdict
from syncverify.base.kernel_names import base_name
from syncverify.base.reason import Reason, bare
from syncverify.base.source import InputError
from syncverify.driver.ptx.check import Task, reports_of
from syncverify.frontends.launch_facts import default_path
from syncverify.frontends.ptx.exec.tables import layout
from syncverify.frontends.ptx.launch.tensormap_boxes import InferredBoxes
from syncverify.frontends.ptx.launch.usual_blocks import (
    Block,
    blocks_in_words,
    blocks_of_one_row,
    few_threads,
    multiplies_by,
    narrowest_shared,
    usual_blocks,
)

RULE = "SV909"
#: Steps for all blocks of a kernel; processor seconds, as a guard.
STEPS, SECONDS = 400_000, 15.0
_OUT_OF_BOUNDS, _WRITTEN_TWICE, _UNDECIDED = "SV114", "SV112", "SV902"


@dataclass(frozen=True, slots=True)
class Tried:
    """What a check says of one block."""

    block: Block
    report: KernelReport

    @property
    def error(self) -> Diagnostic | None:
        return next((d for d in self.report.diagnostics if d.severity is Severity.ERROR), None)

    @property
    def sides(self) -> tuple[int, int, int]:
        x, y, z = (*self.block, 1, 1)[:3]
        return x, y, z

    @property
    def outside(self) -> bool:
        """Whether the block is too large for the kernel's arrays, in some dimension."""
        return self.error is not None and self.error.rule == _OUT_OF_BOUNDS

    @property
    def overlaps(self) -> bool:
        """Whether threads write the same places, also in one statement, as rows do that are too long."""
        if self.error is None or self.error.rule != _WRITTEN_TWICE:
            return False
        twice = [d for d in self.report.diagnostics if d.rule == _WRITTEN_TWICE]
        return any(all(x.detail or x.span.line == d.span.line for x in d.related) for d in twice)

    @property
    def text(self) -> str:
        if self.error is not None:
            return f"{written(self.block)} ({self.error.rule})"
        return f"{written(self.block)} ({self.report.verdict})"


def written(block: Sequence[int]) -> str:
    """A block as a launch file gives it: ``[32, 8]``."""
    return f"[{', '.join(map(str, block))}]"


def with_note(task: Task, report: KernelReport, found: Sequence[Tried]) -> KernelReport:
    """An undecided report of a kernel without a block, with a note on the usual ones that were tried."""
    if not found:
        return report
    return replace(report, diagnostics=(*report.diagnostics, _note(task, found)))


def with_one_reason(report: KernelReport, found: Sequence[Tried]) -> KernelReport:
    """An undecided report of a kernel without a block; where it is undecided for one reason with each usual
    block, that is its reason."""
    first = found[0].report.reason if found else None
    if first is None or any(t.report.verdict is not Verdict.UNKNOWN for t in found):
        return report
    if any(t.report.reason is None or bare(t.report.reason) != bare(first) for t in found):
        return report
    blocks = blocks_in_words([t.block for t in found])
    why = Reason(f"{first}; so it is with block = {blocks}, and nothing gives the block", parts=(first,))
    said = (replace(d, message=why) if d.rule == _UNDECIDED else d for d in found[0].report.diagnostics)
    return replace(report, reason=why, diagnostics=tuple(said))


def tried(task: Task, scope: ScopeKind, blocks: Iterable[Block]) -> Iterator[Tried]:
    """What a check says of each block in turn. Behind one that is proved, a proof by places comes first.

    It takes accesses to stay inside shared memory. Where the facts give its bytes, the search comes ahead, as
    it does for a block that they give: it refutes an access behind them.
    """
    soon = task.kernel.facts.dynamic_smem is None
    proved = False
    for block in blocks:
        found = _report(task, scope, block, usual=soon, places_first=soon and proved)
        proved = proved or found.verdict is Verdict.PROVED
        yield Tried(block, found)


def _report(task: Task, scope: ScopeKind, block: Block, **how: bool) -> KernelReport:
    """What a check says of one block; ``how``: what comes first (``Task``)."""
    k = task.kernel
    x, y, z = (*block, 1, 1)[:3]
    facts = replace(k.facts, block=(x, y, z), threads=None, _cache={})
    boxes = None if k.boxes is None else InferredBoxes()
    *_, found = reports_of(Task(replace(k.launched(facts), boxes=boxes), task.granted, **how), scope)
    return found


def asked_blocks(task: Task) -> tuple[Block, ...]:
    """The usual blocks that are tried: of several rows, those with an element for each thread."""
    blocks = usual_blocks(task.kernel.function)
    small = tuple(b for b in blocks if len(b) == 1 or prod(b) <= room(task))
    return small or blocks


def room(task: Task) -> int:
    """Threads that have an element each in the largest shared array, at most."""
    return max(array_sizes(task).values(), default=0) // narrowest_shared(task.kernel.function)


def is_a_row(task: Task, threads: int) -> bool:
    """Whether a shared array has several rows, in each of which so many threads have an element, and the text
    multiplies by the bytes of one."""
    row = threads * narrowest_shared(task.kernel.function)
    several = any(size > row and size % row == 0 for size in array_sizes(task).values())
    return several and multiplies_by(task.kernel.function, row)


def array_sizes(task: Task) -> dict[str, int]:
    """The bytes of each shared array, by its name in the text."""
    k = task.kernel
    laid = layout(k.module, k.function, None)
    bytes_at = {start: end - start for start, end, _ in laid.names}
    return {name: bytes_at[at] for name, at in laid.shared.items() if at in bytes_at}


def usual(task: Task, scope: ScopeKind) -> Iterator[Tried]:
    """What a check says of each usual block in turn, as far as the budget goes."""
    return _within_budget(tried(task, scope, asked_blocks(task)))


def by_places(task: Task, scope: ScopeKind, blocks: Iterable[Block]) -> Iterator[Tried]:
    """What proofs by places alone say of blocks for which the budget does not reach: each takes a moment.

    Where the facts give the bytes of dynamic shared memory, such a proof says too little, and none is tried.
    """
    if task.kernel.facts.dynamic_smem is None:
        yield from _within_budget(Tried(b, _report(task, scope, b, places_alone=True)) for b in blocks)


def of_few_threads(task: Task, scope: ScopeKind) -> Iterator[Tried]:
    """The same of blocks of few threads."""
    return _within_budget(tried(task, scope, few_threads(task.kernel.function)))


def of_one_row(task: Task, scope: ScopeKind) -> Iterator[Tried]:
    """The same of blocks of one row, where the text reads several."""
    return _within_budget(tried(task, scope, blocks_of_one_row(task.kernel.function)))


def _within_budget(found: Iterable[Tried]) -> Iterator[Tried]:
    """What is found within the budget of all blocks. The time of the whole check may end here, too."""
    try:
        with within(SECONDS), within_steps(STEPS):
            yield from found
    except InputError:
        return
    except OutOfBudgetError:
        check(0)


def _note(task: Task, found: Sequence[Tried]) -> Diagnostic:
    k = task.kernel
    first = next((t for t in found if t.report.verdict is Verdict.PROVED), None)
    under = f"under [kernel.{base_name(k.function.name)}] in {k.facts.file or default_path(k.module.path)}"
    if first is not None:
        rests = "; ".join(first.report.assumptions)
        text = f"with block = {written(first.block)} the kernel is proved"
        text += f" (assumed then: {rests})" if rests else ""
        text += _others(found, first)
        fix = f"if it is launched so, write block = {written(first.block)} {under}"
        return Diagnostic(RULE, Severity.NOTE, text, k.span, fix=fix)
    failed = [(t, t.error) for t in found if t.error is not None]
    if not failed:
        text = f"usual blocks give no verdict either: {'; '.join(t.text for t in found)}"
        text += f"; the reason with block = {written(found[0].block)}: {found[0].report.reason}"
        return Diagnostic(RULE, Severity.NOTE, text, k.span)
    # A block that is too large for the kernel's buffers says the least.
    least, error = min(failed, key=lambda x: x[0].outside)
    text = f"with block = {written(least.block)} the check finds {error.rule}: {error.message}"
    text += _others(found, least)
    fix = f"write the block of the launch {under}: block = [...]"
    return Diagnostic(RULE, Severity.WARNING, text, error.span, fix=fix)


def _others(found: Sequence[Tried], shown: Tried) -> str:
    others = [t.text for t in found if t is not shown]
    return f"; tried too: {', '.join(others)}" if others else ""


__all__ = [
    "RULE",
    "Tried",
    "array_sizes",
    "asked_blocks",
    "by_places",
    "is_a_row",
    "of_few_threads",
    "of_one_row",
    "room",
    "tried",
    "usual",
    "with_note",
    "with_one_reason",
    "written",
]
