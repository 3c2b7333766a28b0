"""Repairs as edits of the text: a line is changed, and the changed text is checked.

A repair says what has to change in the events. How a line of CUDA, PTX or ``.syncir`` brings that about is
tried out: a few candidates, of which the first counts with which the kernel is proved at the launch that
refuted it. Nothing is shown that was not checked; where no candidate does, the repair's words stay alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import Protocol

from syncverify.base.deadline import OutOfBudgetError, check, within, within_steps
from syncverify.base.diagnostics import (
    Diagnostic,
    EditHint,
    EditKind,
    KernelReport,
    Mistake,
    Repair,
    Severity,
    TextEdit,
    Verdict,
)
from syncverify.base.source import InputError, Span
from syncverify.checker.explain.another_mistake import remaining
from syncverify.driver.repairs.author_functions import plain_calls
from syncverify.driver.repairs.author_statements import (
    Lines,
    cluster_barriers,
    exchanged,
    flipped,
    handing_on,
    indent_of,
    is_one_statement,
    last_member,
    last_operand,
    named_in,
    other_ids,
    other_slots,
    parities,
    statements,
    unguarded,
    waiting_where_others_arrive,
    without_head,
)
from syncverify.driver.repairs.conditions import with_condition
from syncverify.driver.repairs.guessed_edits import guesses
from syncverify.driver.repairs.guessed_ptx import ptx_guesses, words_of_order
from syncverify.driver.repairs.guessed_states import state_guesses
from syncverify.driver.repairs.helper_calls import with_calls
from syncverify.driver.repairs.judged import Judged
from syncverify.driver.repairs.named_numbers import body_of_loop, in_calls, in_constants, in_lists
from syncverify.driver.repairs.passed_numbers import passed
from syncverify.driver.repairs.ptx_statements import loop_around, other_start
from syncverify.driver.reports.shown_repairs import with_repair, without_repair

#: Candidates that are tried, and the steps that all of them may take; processor seconds, as a guard.
MOST, STEPS, SECONDS = 12, 100_000, 60.0
#: Those that are tried at every launch, in all and for one repair; steps of each, and the guard.
MOST_WIDE, WIDE_OF_ONE, WIDE_STEPS, WIDE_SECONDS = 10, 2, 20_000, 15.0
#: Processor seconds for a guess that is undecided at the launch that refuted the kernel.
BRIEF_SECONDS = 5.0
#: What is said of other launches, the best first.
_RANKS = (Verdict.PROVED, Verdict.UNKNOWN, None, Verdict.REFUTED)
#: Edits that may leave other launches undecided before the first of them counts.
MOST_OPEN = 3
#: Edits for another slot that are tried before guesses, and guesses before further ones.
_OF_CHANCE = 3
#: Other lines with the same call that an instruction may be missing at.
_TWINS = 2
#: Lines that a release may move down, and that a statement may go on for.
FURTHEST, LONGEST = 8, 6
#: Lines that say the same are changed together if they are no further apart.
_NEAR = 12
#: Statements behind the place that an arrival may come after.
_STATEMENTS = 2
_NUMBER = re.compile(r"(?<![\w.%$])\d+(?![\w.])")
_FENCES = {
    "cu": 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");',
    "ptx": "fence.proxy.async.shared::cta;",
    "syncir": "fence.proxy.async.shared_cta",
}
#: A call that can be nothing but such a fence.
_ALIAS = re.compile(r"\s*(?:template\s*<[^<>]*>\s*)?using\s+(?P<name>\w+)\s*=")
_FENCE_CALL = re.compile(r"(?:\w+::)*(?=\w*fence)(?=\w*proxy)(?=\w*async)\w+\((?:[\w:]*shared\w*)?\);", re.I)
#: How many ways to write a fence are tried.
_MOST_FENCES = 2
_OF_CLUSTER = re.compile(r"barrier\.cluster\.arrive.*barrier\.cluster\.wait")
#: Instructions that CUDA has functions for.
_IN_CUDA = {"bar.warp.sync 0xffffffff": "__syncwarp();"}
#: Instructions as the IR spells them, where it spells them otherwise.
_IN_IR = {
    "cp.async.bulk.commit_group": "bulk.commit",
    "cp.async.bulk.wait_group.read 0": "bulk.wait.read 0",
    "cp.async.commit_group": "cp.async.commit",
    "cp.async.wait_group 0": "cp.async.wait 0",
    "wgmma.fence.sync.aligned": "wgmma.fence",
    "wgmma.commit_group.sync.aligned": "wgmma.commit",
    "wgmma.wait_group.sync.aligned 0": "wgmma.wait 0",
    "bar.warp.sync 0xffffffff": "warp.sync",
}

#: The last argument of a template, of a call without others; what it adds or takes off.
_ARGUMENT = re.compile(r"\b\w+<(?:[^<>]*,\s*)?(?P<last>[^<>,]+)>\s*\(\s*\)")
_CONSTANT = re.compile(r'"n"\s*\((?P<last>[^()]+)\)')
_MORE_OR_LESS = re.compile(r"\s*(?P<sign>[-+])\s*(?P<n>\d+)$")
_CALL = re.compile(r"(?<![\w.>])(?!(?:if|for|while|switch|asm)\b)\w+\s*\(")
_LOOP = re.compile(r"\b(for|while|do)\b")
#: A wait whose parity stands in the assembly itself.
_PARITY = re.compile(r"_wait[\w.:]*parity[^;\"]*\],\s*[01](?=;)")
_CALLED = re.compile(r"\b(?P<name>\w+)\s*(?:<[^<>]*>)?\s*\(")
_WAITS = re.compile(r"wait", re.IGNORECASE)
_GROUP_OF = "threadIdx.x / 128"
_QUOTED = re.compile(r'"[^"]*"')

#: Lines from one on, and what takes their place.
_Change = tuple[int, tuple[str, ...], tuple[str, ...]]


#: Edits that may be meant at another line with the same call.
_OF_TWINS = (EditKind.INSTRUCTION, EditKind.FENCE, EditKind.OUT_OF_BLOCK)
#: Edits that may be meant where the function is called that the line is in.
_OF_CALLERS = (EditKind.NUMBER, EditKind.WAIT)


class Judge(Protocol):
    """The verdict on the kernel of a changed text."""

    def __call__(self, text: str, *, everywhere: bool) -> Judged:
        """At the launch that refuted it, or ``everywhere``: at every launch. Raises InputError."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A file that is to be edited: its path, text and kind (cu, ptx or syncir); its author's headers."""

    file: str
    text: str
    kind: str
    headers: tuple[str, ...] = ()


def with_text(report: KernelReport, origin: Origin, judge: Judge, *, wide: bool = False) -> KernelReport:
    """The report, its repair with the edit of the text that was found for it.

    ``wide``: every launch was asked for. Then the first edit counts with which the kernel is proved at every
    launch; where there is none, the first with which none is refuted, and else the first with which it is
    proved at the launch that refuted it.
    """
    at = next((i for i, d in enumerate(report.diagnostics) if d.severity is Severity.ERROR), None)
    if report.verdict is not Verdict.REFUTED or at is None:
        return report
    text = Lines(origin.text.split("\n"), origin.kind, origin.headers)
    report = with_calls(with_condition(report, origin.file, text), origin.file, text)
    first = report.diagnostics[at]
    found: list[Repair] = []
    of_first: list[Repair] = []
    try:
        with within(SECONDS), within_steps(STEPS):
            for mended in _proposed(report, first, origin.file, text, wide=wide):
                check()
                held = _holding(mended, text, _noting(judge, report, mended, of_first), found, wide=wide)
                if held is not None:
                    return _with_edit(report, at, held)
                if of_first and first.repair is not None and first.repair.left is not None:
                    break  # of the events no edit mends all
    except OutOfBudgetError:
        pass
    best = min(found, key=lambda r: _RANKS.index(r.elsewhere), default=None)
    if best is None and of_first and (first.repair is None or first.repair.left is not None):
        return _with_edit(report, at, of_first[0])
    return report if best is None or _is_worse(best, first.repair, found) else _with_edit(report, at, best)


def _noting(judge: Judge, report: KernelReport, mended: Repair, of_first: list[Repair]) -> Judge:
    """The judge, which adds a repair to ``of_first`` if its edit mends the first mistake alone."""

    def noting(text: str, *, everywhere: bool) -> Judged:
        judged = judge(text, everywhere=everywhere)
        assert mended.edit is not None
        if not everywhere and judged.verdict is Verdict.REFUTED:
            left = remaining(report.diagnostics, judged.before(mended.edit))
            of_first.extend([] if left is None else [replace(mended, left=left)])
        return judged

    return noting


def _is_worse(best: Repair, of_events: Repair | None, found: Sequence[Repair]) -> bool:
    """Whether the words of the repair of the events tell more than an edit that another launch refutes: the
    edit is of another repair, and none of this one was refuted."""
    if best.elsewhere is not Verdict.REFUTED or of_events is None:
        return False
    return all(other.text != of_events.text for other in found)


def _proposed(
    report: KernelReport, first: Diagnostic, file: str, text: Lines, *, wide: bool
) -> Iterator[Repair]:
    """Repairs with an edit of the text to try: of events first, then guesses.

    Of a repair that guesses at another slot few are tried before the first guesses: the like of it mends many
    a launch by chance.
    """
    guessed = islice(guesses(first, file, text), MOST)
    yield from words_of_order(first, file, text)
    if first.repair is not None:
        by_chance = wide and first.repair.mistake is Mistake.OTHER_BARRIER
        if _is_of_use(first.repair):  # a variable of the author that flips says more than a number of turns
            yield from islice(state_guesses(file, text, [first.span.line]), _OF_CHANCE)
        edits = islice(_edits(first.repair, file, text), MOST)
        yield from islice(edits, _OF_CHANCE if by_chance else MOST)
        yield from islice(guessed, _OF_CHANCE if by_chance else 0)
        yield from edits
    for other in report.untold_repairs:
        yield from islice(_edits(other, file, text), MOST // 4 if first.repair is None else MOST // 2)
    yield from islice(ptx_guesses(first, file, text), MOST)
    none = first.repair is None or first.repair.left is not None
    if wide or (none and not report.untold_repairs):
        yield from guessed


def _is_of_use(mended: Repair) -> bool:
    """Whether a repair asks for the parity of a use of a ring, by its number."""
    return mended.hint is not None and mended.hint.kind is EditKind.PARITY_OF_USE


def _holding(mended: Repair, text: Lines, judge: Judge, found: list[Repair], *, wide: bool) -> Repair | None:
    """The repair, if the kernel is proved with its edit, at every launch if every one was asked for.

    One for whose other launches there is no time counts as well. ``found``: repairs that hold at the launch
    that refuted the kernel and not at all others, to which this one may be added.
    """
    assert mended.edit is not None
    n, old, new = mended.edit.line, mended.edit.old, mended.edit.new
    mended = replace(mended, left=None)
    changed = "\n".join((*text.lines[: n - 1], *new, *text.lines[n - 1 + len(old) :]))
    if sum(other.text == mended.text and other.span == mended.span for other in found) >= WIDE_OF_ONE:
        return None
    try:
        here = judge(changed, everywhere=False).verdict
        if here is Verdict.UNKNOWN and wide and mended.hint is None:  # decided for all launches together
            with within(BRIEF_SECONDS), within_steps(WIDE_STEPS):
                here = judge(changed, everywhere=True).verdict
            return replace(mended, elsewhere=here) if here is Verdict.PROVED else None
        if here is not Verdict.PROVED:
            return None
    except (InputError, OutOfBudgetError):  # the edit makes no kernel, or a hard one
        return None
    if not wide:
        return mended
    if len(found) < MOST_WIDE:
        try:
            with within(WIDE_SECONDS), within_steps(WIDE_STEPS):
                mended = replace(mended, elsewhere=judge(changed, everywhere=True).verdict)
        except OutOfBudgetError:
            return mended
    found.append(mended)
    undecided = [r for r in found if r.elsewhere is Verdict.UNKNOWN]
    return (
        mended
        if mended.elsewhere is Verdict.PROVED
        else undecided[0]
        if len(undecided) >= MOST_OPEN
        else None
    )


def _with_edit(report: KernelReport, at: int, mended: Repair) -> KernelReport:
    """The report, its finding of that number with a repair whose text was checked."""
    first = report.diagnostics[at]
    if first.repair is None or replace(mended, edit=None, elsewhere=None) != replace(
        first.repair, left=mended.left
    ):
        return with_repair(without_repair(report), at, mended)
    found = (*report.diagnostics[:at], replace(first, repair=mended), *report.diagnostics[at + 1 :])
    return replace(report, diagnostics=found)


def _edits(mended: Repair, file: str, text: Lines) -> Iterator[Repair]:
    """A repair with each change of the text in turn that may bring it about."""
    here = mended.span
    if mended.hint is not None and here.file != file:
        yield from _of_header(mended, file, text)
    if mended.hint is None or here.file != file or not 0 < here.line <= len(text.lines):
        return
    around = (_inside, _twins, _callers)
    lines = (here.line, *(n for other in around for n in other(mended.hint, text, here.line)))
    of_lines = [_distinct(_candidates(mended.hint, text, at)) for at in lines]
    for changes in zip_longest(*of_lines):  # what is likeliest at each line comes first
        for at, change in zip(lines, changes, strict=True):
            if change is not None:
                place = replace(here, line=_of(at, *change))
                neighbour = mended.neighbour if at == here.line else None
                yield replace(mended, span=place, edit=TextEdit(file, *change), neighbour=neighbour)


def _of_header(mended: Repair, file: str, text: Lines) -> Iterator[Repair]:
    """A repair of a number in a header, with each call of the file in turn that may give it."""
    hint, line = mended.hint, mended.span.line
    if hint is None or hint.kind is not EditKind.NUMBER:
        return
    for header in text.headers:
        lines = header.split("\n")
        code = lines[line - 1] if 0 < line <= len(lines) else ""
        for n, new in passed(text, code, str(hint.number)):
            edit = TextEdit(file, n, (text.lines[n - 1],), (new,))
            yield replace(mended, span=Span(file, n), edit=edit, neighbour=None)


def _of(place: int, line: int, old: Sequence[str], new: Sequence[str]) -> int:
    """The place of a repair: where its edit changes one line, and no other, that line; of what is added far
    from it, the line that comes next."""
    if not old and abs(line - place) > FURTHEST:
        return line
    other = [line + i for i, (x, y) in enumerate(zip(old, new, strict=False)) if x != y]
    return other[0] if len(old) == len(new) and len(other) == 1 else place


def _inside(hint: EditHint, text: Lines, line: int) -> list[int]:
    """Lines of the author's functions that a line calls: the number or the slot may stand there."""
    if text.kind != "cu" or hint.kind not in (EditKind.NUMBER, EditKind.SLOT):
        return []
    word = re.escape(last_member(hint.name)) if hint.kind is EditKind.SLOT else "asm|return"
    called = {m["name"] for m in _CALLED.finditer(text.code(line))}
    inside = (n for name in sorted(called) for n in text.lines_of(name))
    return [n for n in inside if re.search(rf"\b(?:{word})\b", text.code(n))][:_TWINS]


def _twins(hint: EditHint, text: Lines, line: int) -> list[int]:
    """Other lines that call what a line calls: one of them may be what lacks an instruction."""
    called = _CALL.search(text.code(line)) if text.kind == "cu" else None
    if called is None or hint.kind not in _OF_TWINS:
        return []
    same = re.compile(rf"(?<![\w.>]){re.escape(called[0])}")
    alike = [n for n in range(1, len(text.lines) + 1) if n != line and same.search(text.code(n))]
    calls = [n for n in alike if "__device__" not in text.code(n)]
    return sorted(calls, key=lambda n: abs(n - line))[:_TWINS]


def _callers(hint: EditHint, text: Lines, line: int) -> list[int]:
    """Calls of the author's function that a line is in: what it is given, what follows, or what has to be
    waited for before, may be meant."""
    if text.kind != "cu" or not (hint.kind in _OF_CALLERS or hint.at_end):
        return []
    name = text.function_of(line)
    called = re.compile(rf"(?<!\w){name}\s*\(") if name else None
    return [n for n in range(line + 1, len(text.lines) + 1) if called and called.search(text.code(n))][
        :_TWINS
    ]


def _distinct(changes: Iterator[_Change]) -> Iterator[_Change]:
    seen: set[_Change] = set()
    for change in changes:
        if change not in seen and change[1] != change[2]:
            seen.add(change)
            yield change


def candidates(hint: EditHint, lines: Sequence[str], line: int, kind: str) -> Iterator[_Change]:
    """Changes of the lines that may do what a repair asks for at ``line`` (from 1), the likeliest first."""
    return _candidates(hint, Lines(lines, kind), line)


def _candidates(hint: EditHint, text: Lines, line: int) -> Iterator[_Change]:
    lines, kind, here = text.lines, text.kind, text.lines[line - 1]
    if not _is_only(hint.kind, here, kind):
        return
    match hint.kind:
        case EditKind.OTHER_PARITY:
            yield from ((line, (here,), (new,)) for new in _other_parity(here, kind, hint.number))
            starts = other_start(lines, line) if kind == "ptx" and hint.number is None else ()
            yield from ((n, (lines[n - 1],), (new,)) for n, new in starts)
        case EditKind.PARITY_OF_USE:
            yield from (
                (line, (here,), (new,)) for new in _with_operand(text, line, parities(hint, text, line))
            )
        case EditKind.NUMBER:
            number = str(hint.number)
            yield from _in_alias(text, line, number)
            yield from _numbers(text, line, number)
            yield from _in_all(text, {line, *hint.models}, lambda n: _with_number(lines[n - 1], number, kind))
            elsewhere = (*in_constants(text, line, number), *passed(text, text.code(line), number))
            yield from ((n, (lines[n - 1],), (new,)) for n, new in elsewhere)
        case EditKind.REMOVE:
            yield line, (here,), ()
        case EditKind.LATER:
            indent = indent_of(here)
            fence = (indent + next(_fences(text)),) if hint.fenced else ()
            for end in islice(_below(lines, line, indent, kind), FURTHEST):
                old = tuple(lines[line - 1 : end])
                yield line, old, (*old[1:], *fence, old[0])
        case EditKind.SLOT:
            yield from ((line, (here,), (new,)) for new in other_slots(hint, text, line))
        case EditKind.BARRIER_ID:
            if hint.name:
                yield from _in_all(text, {line, *hint.models}, lambda n: other_ids(hint, text, n))
            yield from ((line, (here,), (new,)) for new in other_ids(hint, text, line))
        case _:
            yield from _OF_KIND.get(hint.kind, _insertions)(hint, text, line)


def _exchanged(hint: EditHint, text: Lines, line: int) -> Iterator[_Change]:
    """The line with another operation."""
    yield from ((line, (text.lines[line - 1],), (new,)) for new in exchanged(hint, text, line))


def _out_of_block(hint: EditHint, text: Lines, line: int) -> Iterator[_Change]:
    """The line behind the block around it, or without the condition before it on its line; in PTX, a commit
    at the end of a loop that waits and has none."""
    for wait in hint.models if text.kind == "ptx" else ():
        loop = loop_around(text.lines, wait)
        if loop is not None:
            yield loop[1], (), (indent_of(text.lines[wait - 1]) + _instruction(hint.name, "ptx"),)
    here, bare = text.lines[line - 1], unguarded(text.code(line))
    if bare != text.code(line).strip():
        yield line, (here,), (indent_of(here) + bare,)
    for block in text.blocks(line)[:1]:
        last = block[1]
        old = tuple(text.lines[line - 1 : last])
        yield line, old, (*old[1:], indent_of(old[-1]) + here.strip())


def _arrived_too(hint: EditHint, text: Lines, line: int) -> Iterator[_Change]:
    """The line a second time, for another barrier of threads."""
    if is_one_statement(text.code(line)):
        yield from ((line + 1, (), (new,)) for new in other_ids(hint, text, line))


def _handed_on(hint: EditHint, text: Lines, line: int) -> Iterator[_Change]:
    """An arrival at the next barrier, at the end of the loop around a wait or before its last statement."""
    loop = next((block for block in text.blocks(line) if _LOOP.search(text.code(block[0]))), None)
    if loop is None or text.kind != "cu":
        return
    inside = [n for n in range(line + 1, loop[1]) if text.code(n).strip()]
    for at in dict.fromkeys((loop[1], *inside[-1:])):
        indent = indent_of(text.lines[line - 1])
        for new in handing_on(hint, text, line):
            yield at, (), (indent + new,)


def _into_loop(hint: EditHint, text: Lines, line: int) -> Iterator[_Change]:
    """The announcement of another line at the copy that it is for, on the copy's barrier."""
    once = next(iter(hint.models), 0)
    if not (0 < once < line <= len(text.lines)) or line - once > FURTHEST or text.kind == "syncir":
        return
    statement = without_head(text.code(once))
    old = tuple(text.lines[once - 1 : line])
    alone = replace(text, lines=(*text.lines[: once - 1], statement, *text.lines[once:]))
    slots = replace(hint, name=named_in(hint, statement), models=(line,))
    for new in (*other_slots(slots, alone, once), statement):
        yield once, old, (*old[1:-1], indent_of(old[-1]) + new.strip(), old[-1])


def _insertions(hint: EditHint, text: Lines, line: int) -> Iterator[_Change]:
    """Changes that add a statement, at each place in turn where it may be meant."""
    if hint.kind is EditKind.WAIT:
        yield from _without_guard(hint, text, line)
    added = list(_added(hint, text, line))
    for at in _places(hint, text, line):
        indent = indent_of(text.lines[min(at, len(text.lines)) - 1 if at >= line else at])
        for new in added:
            fence = (indent + next(_fences(text)),) if hint.fenced else ()
            yield at + 1, (), (*fence, *(indent + part for part in new.split("\n")))


def _added(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """The statements that may be added, without indent."""
    if hint.kind is EditKind.FENCE:
        yield from dict.fromkeys(islice(_fences(text), _MOST_FENCES))
    elif hint.kind is EditKind.INSTRUCTION and hint.number is None:
        yield from islice(cluster_barriers(text), 1) if _OF_CLUSTER.match(hint.name) else ()
        yield from islice(plain_calls(text.functions(), hint.name), 1)
        yield from islice(waiting_where_others_arrive(hint, text), 1)
        yield _instruction(hint.name, text.kind)
    elif hint.kind is EditKind.INSTRUCTION:
        yield from _by_one_group(hint.name, hint.number, text.kind)
    else:
        yield from statements(hint, text, line)


def _fences(text: Lines) -> Iterator[str]:
    """Proxy fences of shared memory: in the author's words, as a line of the file has it, as assembly."""
    bare = _FENCES[text.kind]
    if text.kind == "cu":
        yield from islice(plain_calls(text.functions(), "fence.proxy.async.shared::cta"), 1)
        lines = (unguarded(text.code(n)) for n in range(1, len(text.lines) + 1))
        yield from islice((x for x in lines if _FENCE_CALL.fullmatch(x)), 1)
    yield bare


def _instruction(name: str, kind: str) -> str:
    """An instruction as a statement."""
    match kind:
        case "cu" if name in _IN_CUDA:
            return _IN_CUDA[name]
        case "cu":
            return f'asm volatile("{name};" ::: "memory");'
        case "ptx":
            return f"{name};"
    return "; ".join(_IN_IR.get(part, part) for part in name.split("; "))


def _by_one_group(name: str, group: int | None, kind: str) -> Iterator[str]:
    """An instruction of the threads of one warpgroup."""
    if kind == "cu":
        yield f"if ({_GROUP_OF} == {group}) {_instruction(name, kind)}"
    elif kind == "ptx":
        parts = ["{", ".reg .pred mine;", ".reg .b32 group;", "mov.u32 group, %tid.x;"]
        parts += ["shr.u32 group, group, 7;", f"setp.eq.u32 mine, group, {group};", f"@mine {name};", "}"]
        yield "\n".join(parts)


def _without_guard(hint: EditHint, text: Lines, line: int) -> Iterator[_Change]:
    """A wait right above the place, done by all who come there."""
    for model in hint.models:
        code = text.code(model)
        bare = unguarded(code)
        if 0 <= line - model <= FURTHEST and is_one_statement(code) and bare != code.strip():
            old = text.lines[model - 1]
            yield model, (old,), (indent_of(old) + bare,)


def _places(hint: EditHint, text: Lines, line: int) -> Iterator[int]:
    """Behind which lines a statement may be meant to come: at the place, or around the loops that hold it."""
    begin, end = _begin(text, line), _end(text.lines, line, text.kind)
    blocks = text.blocks(begin)
    if hint.at_end:
        yield from (last for _, last in reversed(blocks))
        yield end
        if _WAITS.search(hint.name):  # a wait for groups comes behind what commits them
            yield from _commits(text, end)
    elif hint.ahead:
        if hint.kind is EditKind.WAIT and hint.size == 1 and not hint.number:
            yield from (first - 1 for first, _ in blocks[:1] if _LOOP.search(text.code(first)))
            loop = loop_around(text.lines, line) if text.kind == "ptx" else None
            yield from () if loop is None else (loop[0] - 1,)
        yield begin - 1
        yield from _behind_wait(hint, text, begin)
        yield from (first - 1 for first, _ in blocks[:1] if _LOOP.search(text.code(first)))
    else:
        yield end
        if hint.kind in (EditKind.ARRIVE, EditKind.INSTRUCTION, EditKind.BARRIER, EditKind.FENCE):
            below = _below(text.lines, end, indent_of(text.lines[line - 1]), text.kind)
            yield from islice(below, _STATEMENTS)
        yield from (last for first, last in blocks[:1] if _LOOP.search(text.code(first)))


def _commits(text: Lines, line: int) -> Iterator[int]:
    """Lines right below one that commit what it issued."""
    below = range(line + 1, min(line + FURTHEST, len(text.lines)) + 1)
    yield from islice((n for n in below if "commit_group" in text.code(n)), 1)


def _behind_wait(hint: EditHint, text: Lines, line: int) -> Iterator[int]:
    """Behind the last wait above a line in its block: what comes between may need the barrier, too."""
    indent = indent_of(text.lines[line - 1])
    for n in range(line - 1, max(line - FURTHEST, 0), -1) if hint.kind is EditKind.BARRIER else ():
        code = text.code(n)
        if code.strip() and len(indent_of(code)) < len(indent):
            return
        if indent_of(code) == indent and is_one_statement(code) and _WAITS.search(code):
            yield n
            return


def _begin(text: Lines, line: int) -> int:
    """The first line of the statement that a line belongs to."""
    if text.kind == "syncir":
        return line
    for n in range(line - 1, max(line - LONGEST, 0), -1):
        if not text.code(n) or text.code(n).endswith((";", "{", "}", ":")):
            return n + 1
    return line


def _numbers(text: Lines, line: int, number: str) -> Iterator[_Change]:
    """Another number in the line, or in all lines near it that say the same."""
    here = text.lines[line - 1]
    alike = [n for n in range(1, len(text.lines) + 1) if text.lines[n - 1].strip() == here.strip()]
    near = [n for n in alike if abs(n - line) <= _NEAR]
    first, last = min(near), max(near)
    for new in _with_number(here, number, text.kind):
        yield line, (here,), (new,)
        if len(near) > 1:
            old = tuple(text.lines[first - 1 : last])
            changed = (indent_of(x) + new.strip() if x.strip() == here.strip() else x for x in old)
            yield first, old, tuple(changed)


def _in_alias(text: Lines, line: int, number: str) -> Iterator[_Change]:
    """Another number in the alias of a type that the line names."""
    words = {*re.findall(r"\w+", text.code(line))}
    for n in range(1, len(text.lines) + 1) if text.kind == "cu" else ():
        alias = _ALIAS.match(text.code(n))
        if alias is not None and alias["name"] in words:
            yield from (
                (n, (text.lines[n - 1],), (new,)) for new in _with_number(text.lines[n - 1], number, "cu")
            )


def _in_all(text: Lines, lines: set[int], changed: Callable[[int], Iterator[str]]) -> Iterator[_Change]:
    """The same change of several lines, near each other."""
    first, last = min(lines), max(lines)
    if len(lines) < 2 or last - first > _NEAR:
        return
    old = tuple(text.lines[first - 1 : last])
    yield (
        first,
        old,
        tuple(next(changed(first + i), x) if first + i in lines else x for i, x in enumerate(old)),
    )


def _with_operand(text: Lines, line: int, operands: Iterator[str]) -> Iterator[str]:
    """The line with other last operands."""
    code, here = text.code(line), text.lines[line - 1]
    spot = last_operand(code, text.kind)
    if spot is not None:
        start, end = spot
        for new in operands:
            if new != code[start:end]:
                yield code[:start] + new + code[end:] + here[len(code) :]


def _is_only(edit: EditKind, line: str, kind: str) -> bool:
    """Whether an edit of a line changes the statement that is meant alone: what else stands there would be
    moved or removed too, and a number may be one of a loop's."""
    code = _QUOTED.sub('""', _code(line, kind))
    if kind == "syncir":
        return True
    if edit in (EditKind.LATER, EditKind.REMOVE):
        return code.count(";") == 1 and not {*"{}"} & {*code} and not _LOOP.search(code)
    return edit is not EditKind.NUMBER or not _LOOP.search(code) or body_of_loop(code) > 0


def _end(lines: Sequence[str], line: int, kind: str) -> int:
    """The last line of the statement that begins at a line."""
    if kind == "syncir":
        return line
    further = range(line, min(line + LONGEST, len(lines)) + 1)
    return next((n for n in further if _code(lines[n - 1], kind).endswith((";", "}"))), line)


def _below(lines: Sequence[str], line: int, indent: str, kind: str) -> Iterator[int]:
    """Ends of the statements that follow a line in its block."""
    for n in range(line + 1, len(lines) + 1):
        text = lines[n - 1]
        if text.strip() and (not text.startswith(indent) or text.lstrip().startswith("}")):
            return
        deeper = text.startswith((indent + " ", indent + "\t"))
        if text.strip() and not deeper and (kind == "syncir" or _code(text, kind).endswith((";", "}"))):
            yield n


def _code(line: str, kind: str) -> str:
    """The line without its comment; ``//`` divides in the IR."""
    return (line if kind == "syncir" else line.split("//")[0]).rstrip()


def _other_parity(line: str, kind: str, group: int | None = None) -> Iterator[str]:
    """The line with the other parity in its last operand, for all threads or those of one warpgroup."""
    code = _code(line, kind)
    if group is not None:
        spot = last_operand(code, kind) if kind == "cu" else None
        if spot is not None:
            parity = f"({code[slice(*spot)]}) ^ ({_GROUP_OF} == {group})"
            yield code[: spot[0]] + parity + code[spot[1] :] + line[len(code) :]
        return
    literal = _PARITY.search(code) if kind == "cu" else None
    if literal is not None:
        yield line[: literal.end() - 1] + "10"[int(literal[0][-1])] + line[literal.end() :]
        return
    spot = last_operand(code, kind)
    if spot is not None:
        start, end = spot
        for new in flipped(code[start:end], kind):
            yield code[:start] + new + code[end:] + line[len(code) :]


def _with_number(line: str, number: str, kind: str) -> Iterator[str]:
    """The line with a number in the place of another one, the last ones first, or of the last argument."""
    code = _code(line, kind)
    if kind == "cu" and (start := body_of_loop(code)):
        yield from (code[:start] + new + line[len(code) :] for new in in_calls(code[start:], number))
        return
    argument = _CONSTANT.search(code) or _ARGUMENT.search(code) if kind == "cu" else None
    if argument is not None:
        yield from _with_argument(code, argument.span("last"), number)
        return
    spots = [m.span() for m in _NUMBER.finditer(code)]
    last = last_operand(code, kind)
    if last is not None and '"' not in code[slice(*last)]:
        spots = [s for s in spots if s[0] < last[0]] + [last]
        if kind == "cu" and _MORE_OR_LESS.search(code[slice(*last)]):
            yield from (new + line[len(code) :] for new in _with_argument(code, last, number))
    yield from (new + line[len(code) :] for new in (in_lists(code, number) if kind == "cu" else ()))
    for start, end in sorted(spots, reverse=True):
        if code[start:end] != number:
            yield code[:start] + number + code[end:] + line[len(code) :]


def _with_argument(code: str, argument: tuple[int, int], number: str) -> Iterator[str]:
    """The line with another argument: one more or less where it says so; the number."""
    start, end = argument
    said = _MORE_OR_LESS.search(code[start:end])
    for by in (1, -1) if said is not None else ():
        assert said is not None
        n = int(said["n"]) + by
        new = code[start : start + said.start()] + (f" {said['sign']} {n}" if n else "")
        yield code[:start] + new + code[end:]
    yield code[:start] + number + code[end:]


_OF_KIND: dict[EditKind, Callable[[EditHint, Lines, int], Iterator[_Change]]] = {
    EditKind.WITH_COPIES: _exchanged,
    EditKind.UNTIL_TRUE: _exchanged,
    EditKind.OUT_OF_BLOCK: _out_of_block,
    EditKind.ARRIVE_TOO: _arrived_too,
    EditKind.HAND_ON: _handed_on,
    EditKind.INTO_LOOP: _into_loop,
}


__all__ = ["Origin", "candidates", "with_text"]
