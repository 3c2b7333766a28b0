"""Repairs as edits of the text: a line is changed, and the changed text is checked.

A repair says what has to change in the events. How a line of CUDA, PTX or ``.syncir`` brings that about is
tried out: a few candidates, of which the first counts with which the kernel is proved at the launch that
refuted it. Nothing is shown that was not checked; where no candidate does, the repair's words stay alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from syncverify.base.deadline import OutOfBudgetError, within
from syncverify.base.diagnostics import (
    Diagnostic,
    EditHint,
    EditKind,
    KernelReport,
    Repair,
    Severity,
    TextEdit,
    Verdict,
)
from syncverify.base.source import InputError
from syncverify.driver.author_statements import (
    Lines,
    flipped,
    indent_of,
    is_one_statement,
    last_operand,
    parities,
    statements,
    unguarded,
)
from syncverify.driver.guessed_edits import guesses
from syncverify.driver.shown_repairs import with_repair

#: Candidates that are tried, and the processor time for all of them, in seconds.
MOST, SECONDS = 12, 10.0
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
#: Instructions as the IR spells them, where it spells them otherwise.
_IN_IR = {
    "cp.async.bulk.commit_group": "bulk.commit",
    "cp.async.bulk.wait_group.read 0": "bulk.wait.read 0",
    "cp.async.commit_group": "cp.async.commit",
    "cp.async.wait_group 0": "cp.async.wait 0",
    "wgmma.fence.sync.aligned": "wgmma.fence",
    "wgmma.commit_group.sync.aligned": "wgmma.commit",
    "wgmma.wait_group.sync.aligned 0": "wgmma.wait 0",
}

_LOOP = re.compile(r"\b(for|while|do)\b")
_QUOTED = re.compile(r'"[^"]*"')

#: Lines from one on, and what takes their place.
_Change = tuple[int, tuple[str, ...], tuple[str, ...]]


def with_text(report: KernelReport, text: str, kind: str, proved: Callable[[str], bool]) -> KernelReport:
    """The report, its repair with the edit of ``text`` that was found for it.

    ``kind``: cu, ptx or syncir; ``proved``: whether the kernel of a changed text is proved at this launch.
    """
    at = next((i for i, d in enumerate(report.diagnostics) if d.severity is Severity.ERROR), None)
    if report.verdict is not Verdict.REFUTED or at is None:
        return report
    first = report.diagnostics[at]
    shown = _Text(report.file, text.split("\n"), kind)
    proposed = report.untold_repairs if first.repair is None else (first.repair,)
    most = MOST if first.repair is not None else MOST // 4
    try:
        with within(SECONDS):
            for mended in proposed:
                edit = _edit(mended, shown, proved, most)
                if edit is not None:
                    return _with_edit(report, at, replace(mended, edit=edit))
            if not proposed:
                guess = _guess(first, shown, proved)
                return report if guess is None else _with_edit(report, at, guess)
    except OutOfBudgetError:
        pass
    return report


def _with_edit(report: KernelReport, at: int, mended: Repair) -> KernelReport:
    """The report, its finding of that number with a repair whose text was checked."""
    first = report.diagnostics[at]
    if first.repair is None:
        return with_repair(report, at, mended)
    found = (*report.diagnostics[:at], replace(first, repair=mended), *report.diagnostics[at + 1 :])
    return replace(report, diagnostics=found)


def _guess(found: Diagnostic, text: _Text, proved: Callable[[str], bool]) -> Repair | None:
    """The first edit without a repair of the events with which the kernel is proved."""
    for mended, old, new in islice(guesses(found, text.file, Lines(text.lines, text.kind)), MOST // 2):
        line = mended.span.line
        if _is_proved("\n".join((*text.lines[: line - 1], *new, *text.lines[line - 1 + len(old) :])), proved):
            return replace(mended, edit=TextEdit(text.file, line, old, new))
    return None


@dataclass(frozen=True, slots=True)
class _Text:
    """A file: its path, its lines, and its kind (cu, ptx or syncir)."""

    file: str
    lines: list[str]
    kind: str


def _edit(mended: Repair, text: _Text, proved: Callable[[str], bool], most: int) -> TextEdit | None:
    """The first of so many changes of the text for a repair with which the kernel is proved."""
    here, lines = mended.span, text.lines
    if mended.hint is None or here.file != text.file or not 0 < here.line <= len(lines):
        return None
    for line, old, new in islice(candidates(mended.hint, lines, here.line, text.kind), most):
        if _is_proved("\n".join((*lines[: line - 1], *new, *lines[line - 1 + len(old) :])), proved):
            return TextEdit(text.file, line, old, new)
    return None


def _is_proved(text: str, proved: Callable[[str], bool]) -> bool:
    try:
        return proved(text)
    except InputError:  # the edit makes no kernel
        return False


def candidates(hint: EditHint, lines: Sequence[str], line: int, kind: str) -> Iterator[_Change]:
    """Changes of the lines that may do what a repair asks for at ``line`` (from 1), the likeliest first."""
    here = lines[line - 1]
    if not _is_only(hint.kind, here, kind):
        return
    text = Lines(lines, kind)
    match hint.kind:
        case EditKind.OTHER_PARITY:
            yield from ((line, (here,), (new,)) for new in _other_parity(here, kind))
        case EditKind.PARITY_OF_USE:
            yield from ((line, (here,), (new,)) for new in _with_operand(text, line, parities(hint, text)))
        case EditKind.NUMBER:
            yield from _numbers(text, line, str(hint.number))
        case EditKind.REMOVE:
            yield line, (here,), ()
        case EditKind.LATER:
            indent = indent_of(here)
            fence = (indent + _FENCES[kind],) if hint.fenced else ()
            for end in islice(_below(lines, line, indent, kind), FURTHEST):
                old = tuple(lines[line - 1 : end])
                yield line, old, (*old[1:], *fence, old[0])
        case _:
            yield from _insertions(hint, text, line)


def _insertions(hint: EditHint, text: Lines, line: int) -> Iterator[_Change]:
    """Changes that add a statement, at each place in turn where it may be meant."""
    if hint.kind is EditKind.WAIT:
        yield from _without_guard(hint, text, line)
    added = list(_added(hint, text, line))
    for at in _places(hint, text, line):
        indent = indent_of(text.lines[min(at, len(text.lines)) - 1 if at >= line else at])
        for new in added:
            fence = (indent + _FENCES[text.kind],) if hint.fenced else ()
            yield at + 1, (), (*fence, indent + new)


def _added(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """The statements that may be added, without indent."""
    if hint.kind is EditKind.FENCE:
        yield _FENCES[text.kind]
    elif hint.kind is EditKind.INSTRUCTION:
        yield _instruction(hint.name, text.kind)
    else:
        yield from statements(hint, text, line)


def _instruction(name: str, kind: str) -> str:
    """An instruction as a statement."""
    match kind:
        case "cu":
            return f'asm volatile("{name};" ::: "memory");'
        case "ptx":
            return f"{name};"
    return "; ".join(_IN_IR.get(part, part) for part in name.split("; "))


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
    elif hint.ahead:
        yield begin - 1
        yield from (first - 1 for first, _ in blocks[:1] if _LOOP.search(text.code(first)))
    else:
        yield end
        if hint.kind is EditKind.ARRIVE:
            below = _below(text.lines, end, indent_of(text.lines[line - 1]), text.kind)
            yield from islice(below, _STATEMENTS)
        yield from (last for first, last in blocks[:1] if _LOOP.search(text.code(first)))


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
    return edit is not EditKind.NUMBER or not _LOOP.search(code)


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


def _other_parity(line: str, kind: str) -> Iterator[str]:
    """The line with the other parity in its last operand."""
    code = _code(line, kind)
    spot = last_operand(code, kind)
    if spot is not None:
        start, end = spot
        for new in flipped(code[start:end], kind):
            yield code[:start] + new + code[end:] + line[len(code) :]


def _with_number(line: str, number: str, kind: str) -> Iterator[str]:
    """The line with a number in the place of another one, the last ones first, or of the last argument."""
    code = _code(line, kind)
    spots = [m.span() for m in _NUMBER.finditer(code)]
    last = last_operand(code, kind)
    if last is not None and '"' not in code[slice(*last)]:
        spots = [s for s in spots if s[0] < last[0]] + [last]
    for start, end in sorted(spots, reverse=True):
        if code[start:end] != number:
            yield code[:start] + number + code[end:] + line[len(code) :]


__all__ = ["candidates", "with_text"]
