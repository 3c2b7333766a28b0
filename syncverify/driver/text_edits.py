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
    EditHint,
    EditKind,
    KernelReport,
    Repair,
    Severity,
    TextEdit,
    Verdict,
)
from syncverify.base.source import InputError
from syncverify.driver.shown_repairs import with_repair

#: Candidates that are tried, and the processor time for all of them, in seconds.
MOST, SECONDS = 8, 10.0
#: Lines that a release may move down, and that a statement may go on for.
FURTHEST, LONGEST = 8, 6
_NUMBER = re.compile(r"(?<![\w.%$])\d+(?![\w.])")
_MODULO = re.compile(r"^(?P<inner>.+?)\s*(?P<by>&\s*1|%\s*2)$")
_FENCES = {
    "cu": 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");',
    "ptx": "fence.proxy.async.shared::cta;",
    "syncir": "fence.proxy.async.shared_cta",
}
_BARRIERS = {"cu": "__syncthreads();", "ptx": "bar.sync 0;", "syncir": "bar.sync 0"}

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
                    changed = replace(mended, edit=edit)
                    if first.repair is None:
                        return with_repair(report, at, changed)
                    found = replace(first, repair=changed)
                    return replace(
                        report, diagnostics=(*report.diagnostics[:at], found, *report.diagnostics[at + 1 :])
                    )
    except OutOfBudgetError:
        pass
    return report


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
    indent = here[: len(here) - len(here.lstrip())]
    match hint.kind:
        case EditKind.OTHER_PARITY:
            yield from ((line, (here,), (new,)) for new in _other_parity(here, kind))
        case EditKind.NUMBER:
            yield from ((line, (here,), (new,)) for new in _with_number(here, str(hint.number), kind))
        case EditKind.REMOVE:
            yield line, (here,), ()
        case EditKind.FENCE | EditKind.BLOCK_BARRIER:
            added = indent + (_FENCES if hint.kind is EditKind.FENCE else _BARRIERS)[kind]
            end = line - 1 if hint.ahead else _end(lines, line, kind)
            yield end + 1, (), (added,)
        case EditKind.LATER:
            fence = (indent + _FENCES[kind],) if hint.number else ()
            for end in islice(_below(lines, line, indent, kind), FURTHEST):
                old = tuple(lines[line - 1 : end])
                yield line, old, (*old[1:], *fence, old[0])


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
    spot = _last_operand(code, kind)
    if spot is not None:
        start, end = spot
        for new in _flipped(code[start:end], kind):
            yield code[:start] + new + code[end:] + line[len(code) :]


def _last_operand(code: str, kind: str) -> tuple[int, int] | None:
    """Where the last operand stands: of the last call in CUDA, else of the statement."""
    end = len(code.rstrip("; \t"))
    if kind == "cu":
        end = code.rfind(")", 0, end)
        if end < 0:
            return None
    depth = 0
    for i in range(end - 1, -1, -1):
        depth += (code[i] in ")]}") - (code[i] in "([{")
        if depth < 0 or (depth == 0 and code[i] == ","):
            start = i + 1 + len(code[i + 1 :]) - len(code[i + 1 :].lstrip())
            return (start, end) if start < end else None
    return None


def _flipped(operand: str, kind: str) -> Iterator[str]:
    """Expressions of the other parity."""
    if operand in ("0", "1"):
        yield "10"[int(operand)]
        return
    if kind == "ptx":  # a register: what it holds is made elsewhere
        return
    modulo = _MODULO.match(operand)
    if modulo is not None:
        inner, by = modulo["inner"], modulo["by"]
        bare = inner[1:-1] if _wrapped(inner) else inner
        if bare.endswith("+ 1"):
            yield f"({bare.removesuffix('+ 1').rstrip()}) {by}"
        yield f"({bare} + 1) {by}"
    yield f"({operand} + 1) % 2" if kind == "syncir" else f"({operand}) ^ 1"


def _wrapped(text: str) -> bool:
    """Whether one pair of parentheses holds the whole text."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return text[0] == "(" and i == len(text) - 1
    return False


def _with_number(line: str, number: str, kind: str) -> Iterator[str]:
    """The line with a number in the place of another one, the last ones first, or of the last argument."""
    code = _code(line, kind)
    spots = [m.span() for m in _NUMBER.finditer(code)]
    last = _last_operand(code, kind)
    if last is not None and '"' not in code[slice(*last)]:
        spots = [s for s in spots if s[0] < last[0]] + [last]
    for start, end in sorted(spots, reverse=True):
        if code[start:end] != number:
            yield code[:start] + number + code[end:] + line[len(code) :]


__all__ = ["candidates", "with_text"]
