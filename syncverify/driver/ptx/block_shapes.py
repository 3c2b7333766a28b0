"""Blocks of which the text bounds the number of threads alone, though the kernel reads ``%tid.y``.

``.maxntid 256`` does not say whether a block is 32 x 8 or 16 x 16. The kernel is checked with each block of
two dimensions and so many threads. One that does not fit is not meant: the kernel leaves a shared array, or
its rows overlap. With ``tile[16][16]``, 32 x 8 writes words of two rows twice. What the others agree in is
the verdict, which assumes one of them. Where they do not agree, it is unknown. Where none fits, the block of
one row is asked, too, and all have to agree. So it is before a refutation: ``%tid.y`` may be read for the
rank of a thread alone.

Where nothing bounds a block, usual ones are asked in the same way. There are many more that a kernel may be
launched with, so more is demanded. A block that does not fit is put aside only if it has more threads than
the largest array has elements, or no more than one that is proved, or if fewer rows of its length fit, where
rows overlap. Else an index that is wrong by one would be proved for blocks of half the size. Those that the
budget does not reach are asked by places alone. A refutation rests on a race of the same two lines in all of
them. Where that is one statement, which writes a place twice, blocks of few threads are asked, too: if the
largest in which none does is proved, it may be meant. So may a block of one row that is proved, unless the
text asks how many rows there are.

See docs/decisions/block-size-from-a-bound.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from syncverify.base.diagnostics import Diagnostic, KernelReport, ScopeKind, Verdict
from syncverify.base.reason import Cause, Reason, causes_of
from syncverify.driver.ptx.block_proposals import (
    Tried,
    array_sizes,
    asked_blocks,
    by_places,
    is_a_row,
    of_few_threads,
    of_one_row,
    room,
    tried,
    usual,
    with_note,
    with_one_reason,
    written,
)
from syncverify.driver.ptx.check import Task, reports_of
from syncverify.frontends.ptx.analysis.blocks.strided_stores import as_large_as_stores_allow
from syncverify.frontends.ptx.launch.usual_blocks import (
    asks_extents,
    asks_for_rows,
    blocks_in_words,
    blocks_of,
    blocks_of_one_row,
    most_counted,
    names_fewer_lanes,
    reads_thread_numbers,
)
from syncverify.frontends.ptx.syntax.nodes import Function

#: What blocks that nothing gives are refuted by: races, and part of a warp at what the whole one executes.
_PART_OF_WARP = "SV303"
_ALIKE = frozenset({"SV110", "SV111", "SV112", _PART_OF_WARP})
#: What shows that a block is too large: accesses behind an array, and places that are written twice.
_NO_ROOM = frozenset({"SV112", "SV114"})
#: What shows that a barrier is for fewer threads.
_COUNTED = "SV301"
#: As many blocks, at least, are asked for a refutation, or where one does not fit that is larger.
_SEVERAL = 2


def reports_of_shapes(task: Task, scope: ScopeKind) -> Iterator[KernelReport]:
    """The reports of a task; where the text bounds the threads alone, what blocks agree in."""
    threads = task.kernel.facts.threads
    if threads is None:
        yield from _of_usual_blocks(task, scope)
        return
    found: list[Tried] = []
    for t in tried(task, scope, _shapes(task, threads, found)):
        found.append(t)
        meant = list(filter(_fits, found))
        if meant and (meant[-1].report.verdict is Verdict.UNKNOWN or len(_verdicts(meant)) > 1):
            break  # no other block makes them agree
    of_rows = list(filter(_fits, found))
    row = found[-1] if len(found[-1].block) == 1 and found[-1].report.verdict is Verdict.PROVED else None
    yield _agreed([*of_rows, row] if of_rows and row is not None else of_rows or found, threads)


def _shapes(task: Task, threads: int, found: Sequence[Tried]) -> Iterator[tuple[int, ...]]:
    """The blocks of so many threads that are asked in turn, by what was found of those before. The one of
    a row comes last: where no other fits, or all that do are refuted and the text asks for no rows."""
    for block in blocks_of(threads):
        said = _verdicts(list(filter(_fits, found)))
        alone = len(block) == 1 and bool(said)
        if alone and (said != {Verdict.REFUTED} or asks_for_rows(task.kernel.function)):
            return
        yield block


def _of_usual_blocks(task: Task, scope: ScopeKind) -> Iterator[KernelReport]:
    """The reports of a task; where nothing says anything of its block, what usual ones agree in."""
    yield from (reports := list(reports_of(task, scope)))
    last = reports[-1]
    lacks = last.verdict is Verdict.UNKNOWN and Cause.MISSING_FACT in causes_of(last.reason)
    if task.kernel.facts.block is not None or not lacks:
        return
    found: list[Tried] = []
    for t in usual(task, scope):
        found.append(t)
        if len(t.block) > 1 and _decides(task, t, found):
            break  # others decide nothing, unless they agree
        said = _verdicts([x for x in found if _may_be_meant(x)])
        if Verdict.PROVED in said and len(said) > 1:
            break  # no other block makes them agree, and the note has its block
    if _verdicts([t for t in found if _may_be_meant(t)]) == {Verdict.PROVED}:
        found += by_places(task, scope, asked_blocks(task)[len(found) :])
    meant = [t for t in found if _may_be_meant(t)]
    apart = reads_thread_numbers(task.kernel.function)  # else one thread alone may be meant
    if _all_proved(task, found, meant):
        yield _with_blocks(meant)
        return
    if apart and _one_race(task, meant):
        others = _meant_otherwise(task, scope, meant)
        if others is None:
            yield _with_blocks(meant)
            return
        found += others
    filling = next((t for t in meant if _decides(task, t, found)), None)
    if filling is not None:
        why = "it fills an array, and the kernel asks for no number of threads"
        yield _in_all([filling], f"block = {_either([filling])}: {why}")
        return
    yield _of_one_reason(task, last, found)


def _of_one_reason(task: Task, last: KernelReport, found: Sequence[Tried]) -> KernelReport:
    """The undecided report, with the reason that usual blocks have in common, or with a note on them."""
    said = with_one_reason(last, found) if len(found) >= _SEVERAL else last
    return with_note(task, last, found) if said is last else said


def _meant_otherwise(task: Task, scope: ScopeKind, meant: Sequence[Tried]) -> list[Tried] | None:
    """What makes a race in all of these blocks no refutation: another that is proved, if one is. None of few
    threads or of one row is: None. Where the budget ends before all were asked, nothing was found."""
    fewer = _of_fewer_threads(task, scope, meant)
    if fewer is not None and fewer.report.verdict is Verdict.PROVED:
        return [fewer]
    asked = 0
    for row in of_one_row(task, scope):
        asked += 1
        if row.report.verdict is Verdict.PROVED:
            return [row]
    return None if asked == len(blocks_of_one_row(task.kernel.function)) else []


def _of_fewer_threads(task: Task, scope: ScopeKind, meant: Sequence[Tried]) -> Tried | None:
    """The largest block of few threads that may be meant, where usual ones are too large: they write the same
    places in one statement, or part of their warps executes what a mask of fewer lanes is for.

    Example: ``s[threadIdx.x & 15] = x`` is meant for 16 threads, and so is a shuffle of all with 0xffff.
    """
    if all(t.overlaps for t in meant):
        return next((t for t in of_few_threads(task, scope) if not t.overlaps), None)
    part = all(t.error is not None and t.error.rule == _PART_OF_WARP for t in meant)
    if part and names_fewer_lanes(task.kernel.function):
        return next((t for t in of_few_threads(task, scope) if t.report.verdict is Verdict.PROVED), None)
    return None


def _may_be_meant(t: Tried) -> bool:
    """Whether a kernel may be launched with a usual block: its threads have places of their own."""
    return not t.outside and not (prod(t.block[1:]) > 1 and t.overlaps)


def _all_proved(task: Task, found: Sequence[Tried], meant: Sequence[Tried]) -> bool:
    """Whether each usual block was asked, each that may be meant is proved, and the others are too large for
    the arrays, or for the rows of one, or no larger than these."""
    if _verdicts(meant) != {Verdict.PROVED} or any(_says_less(t, meant[0]) for t in meant):
        return False
    if any(len(t.block) > 1 for t in meant) and all(prod(t.block[1:]) == 1 for t in meant):
        return False  # the text reads rows, and a block with one says nothing of them
    if len(found) < len(asked_blocks(task)):
        return False
    most = max(prod(t.block) for t in meant)
    rows = is_a_row(task, most)
    return all(t in meant or (rows and t.outside) or _aside(t, meant, room(task)) for t in found)


def _decides(task: Task, t: Tried, found: Sequence[Tried]) -> bool:
    """Whether a block is proved that has an element of the largest array for each thread, or as many threads
    as stores leave room for, where the text is written for one number of threads: it asks for none.

    Threads that meet at mbarriers have roles, and an array that copies fill says nothing of their number.
    """
    function = task.kernel.function
    if t.report.verdict is not Verdict.PROVED or asks_extents(function):
        return False
    if any(i.op == "mbarrier" for i in function.body) or any(_fails_otherwise(function, x, t) for x in found):
        return False
    if len(t.block) == 1 and prod(t.block) == room(task):
        return True
    flow = task.kernel.code.program.flow
    return min(t.block) > 1 and as_large_as_stores_allow(flow, t.sides, array_sizes(task))


def _fails_otherwise(function: Function, t: Tried, filling: Tried) -> bool:
    """Whether a block with more threads than one that fills an array fails, and not because its threads leave
    an array or store to one place: a barrier for all warps is lacking there, say. That more come to a barrier
    than the text names is no other reason, where it names as many as fill the array.
    """
    if t.error is None or prod(t.block) <= prod(filling.block) or t.error.rule in _NO_ROOM:
        return False
    return t.error.rule != _COUNTED or prod(filling.block) != most_counted(function)


def _aside(t: Tried, meant: Sequence[Tried], elements: int) -> bool:
    """Whether a block that does not fit is no sign of a mistake, beside those that are proved: it is no
    larger; or larger than any array; or it has too many rows, as rows of its length fit where they are fewer.
    Of the last, one block that is proved says too little: rows that are meant may overlap.
    """
    threads = prod(t.block)
    if threads > elements or any(threads <= prod(m.block) for m in meant):
        return True
    return (
        len(meant) >= _SEVERAL
        and t.overlaps
        and any(m.block[0] >= t.block[0] and prod(m.block[1:]) < prod(t.block[1:]) for m in meant)
    )


def _one_race(task: Task, meant: Sequence[Tried]) -> bool:
    """Whether all blocks that may be meant, several, are refuted by races of the same two lines; or each
    usual block by a race with one of them, whose other access stands at many lines, as loops are unrolled."""
    if len(meant) < _SEVERAL or _verdicts(meant) != {Verdict.REFUTED}:
        return False
    found = [t.error for t in meant if t.error is not None and t.error.rule in _ALIKE]
    if len(found) < len(meant):
        return False
    each = list(map(_lines, found))
    if len(set(each)) == 1:
        return True
    of_one = len({d.rule for d in found}) == 1 and bool(frozenset.intersection(*each))
    return of_one and len(meant) == len(asked_blocks(task))


def _lines(race: Diagnostic) -> frozenset[int]:
    """The lines of the two accesses of a race: it may be met in either order."""
    return frozenset({race.span.line, *(x.span.line for x in race.related if not x.detail)})


def _with_blocks(meant: Sequence[Tried]) -> KernelReport:
    """The verdict in which usual blocks agree. It assumes that the kernel is launched with one of them."""
    return _in_all(meant, f"block = {_either(meant)}: usual ones, as nothing gives it")


def _in_all(meant: Sequence[Tried], taken: str) -> KernelReport:
    """The verdict of all these blocks. It assumes what any of them does, and what is taken of the block."""
    assumed = dict.fromkeys(a for t in meant for a in t.report.assumptions)
    return replace(
        meant[0].report,
        assumptions=(*assumed, taken),
        diagnostics=_said(meant),
        seconds=sum(t.report.seconds for t in meant),
        blocks=tuple(t.sides for t in meant),
    )


def _fits(t: Tried) -> bool:
    """Whether a kernel may be meant for a block of two dimensions."""
    return len(t.block) > 1 and not t.outside and not t.overlaps


def _verdicts(found: Sequence[Tried]) -> set[Verdict]:
    return {t.report.verdict for t in found}


def _said(meant: Sequence[Tried]) -> tuple[Diagnostic, ...]:
    """The findings with the first block; of a proof also what is found with others alone: a warning there is
    one of the verdict."""
    first = meant[0].report
    if first.verdict is not Verdict.PROVED:
        return first.diagnostics
    said = {(d.rule, d.span): d for d in first.diagnostics}
    others = (d for t in meant[1:] for d in t.report.diagnostics)
    more = {(d.rule, d.span): d for d in others if (d.rule, d.span) not in said}
    return (*first.diagnostics, *more.values())


def _says_less(t: Tried, first: Tried) -> bool:
    """Whether a proof with one block is not of the launches that the proof with another is of."""
    return t.report.verdict is Verdict.PROVED and t.report.scope != first.report.scope


def _agreed(meant: Sequence[Tried], threads: int) -> KernelReport:
    """The verdict in which all blocks that may be meant agree."""
    first = meant[0].report
    seconds = sum(t.report.seconds for t in meant)
    differs = next(
        (t for t in meant if t.report.verdict is not first.verdict or _says_less(t, meant[0])), None
    )
    if differs is None and first.verdict is not Verdict.UNKNOWN:
        bound = f"of the {threads} threads that .maxntid allows, which is a bound"
        return _in_all(meant, f"block = {_either(meant)}: {bound}")
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
        refuted_system=None, refuted_facts=None, suspect=None, undecided=None, doubted=None,
    )  # fmt: skip


def _either(meant: Sequence[Tried]) -> str:
    """The blocks in words: ``32 x 8 or 16 x 16``."""
    return blocks_in_words([t.block for t in meant])


__all__ = ["reports_of_shapes"]
