"""The report for people: each finding with its source, how a hang comes about, then the verdicts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

from syncverify.base.contested import CONTESTED
from syncverify.base.diagnostics import (
    Blocked,
    Claim,
    Diagnostic,
    KernelReport,
    Severity,
    Step,
    TextEdit,
    Verdict,
    Witness,
)
from syncverify.base.source import Span
from syncverify.report.base import (
    Report,
    acceptance,
    at_text,
    checked_text,
    counted,
    is_around,
    kernel_names,
    replay_text,
    rule_name,
    scope_text,
    source_lines,
)
from syncverify.report.edit_diff import difference
from syncverify.report.excerpt import cut
from syncverify.report.fitted import fitted

#: How many groups of blocked agents and last steps of a witness the text shows; its file has them all.
SHOWN_BLOCKED = 8
SHOWN_STEPS = 6
#: How many launch values a verdict line names.
SHOWN_VALUES = 5
#: How many assumptions follow it.
SHOWN_ASSUMPTIONS = 4

_CODES = {"bold": "1", "red": "1;31", "yellow": "1;33", "green": "1;32", "blue": "1;34", "dim": "2"}
_SEVERITY_COLOR = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "blue"}
_DIFF_COLOR = {"-": "red", "+": "green", " ": "dim"}
_VERDICT_COLOR = {Verdict.PROVED: "green", Verdict.REFUTED: "red", Verdict.UNKNOWN: "yellow"}
_CLAIMS = {
    Claim.HANG: "this schedule hangs",
    Claim.STALE_VALUE: "this schedule reads or leaves a wrong value",
    Claim.UB: "this schedule is undefined behaviour",
    Claim.ORDER_VIOLATION: "in this schedule an operation lands in another phase than in others",
}

#: What would move a terminal's cursor; each is shown as one space, so that the marks stay below their text.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Paint = Callable[[str, str], str]


def plain(text: str, _color: str) -> str:
    """Text without colour."""
    return text


def colored(text: str, color: str) -> str:
    """Text in one of the report's colours (ANSI)."""
    return f"\x1b[{_CODES[color]}m{text}\x1b[0m"


def render(report: Report, paint: Paint = plain, draw_width: int = 0, width: int = 0) -> str:
    """The whole run: kernels in order, each ending in its verdict line, then a summary.

    ``draw_width``: the width of drawings of schedules, in characters; 0: none. ``width``: that of all lines;
    0: as long as they are.
    """
    lines: list[str] = []
    for i, (kernel, name) in enumerate(zip(report.kernels, kernel_names(report.kernels), strict=True)):
        if draw_width and kernel.witness is not None:
            from syncverify.report.drawing import draw

            lines += [*draw(kernel.witness, draw_width), ""]
        lines += _kernel(kernel, name, report.witness_paths.get(i), paint)
    lines.append(_summary(report, paint))
    return "\n".join(fitted(lines, width)) + "\n"


def _kernel(k: KernelReport, name: str, witness_path: str | None, paint: Paint) -> Iterator[str]:
    mistaken = any(d.severity is Severity.ERROR for d in k.diagnostics)
    for n, d in enumerate(k.diagnostics):
        follows = mistaken and d.severity is Severity.NOTE
        yield from _consequence(d, paint) if follows else _diagnostic(d, paint)
        if n == 0 and k.witness is not None:
            yield from _witness(k.witness, witness_path, paint, d)
        yield ""
    if not k.diagnostics and k.witness is not None:
        yield from _witness(k.witness, witness_path, paint)
        yield ""
    yield _verdict(k, name, paint)
    for text in k.assumptions[:SHOWN_ASSUMPTIONS]:
        yield f"  assumed: {text}"
    if len(k.assumptions) > SHOWN_ASSUMPTIONS:
        yield f"  and {len(k.assumptions) - SHOWN_ASSUMPTIONS} more (--format json lists them)"
    yield from (f"  {line}" for line in acceptance(k))
    if (replay := replay_text(k)) is not None:
        yield f"  {replay}"
    yield ""


# ---------------------------------------------------------------- one finding


def _consequence(d: Diagnostic, paint: Paint) -> Iterator[str]:
    """What follows from a mistake that an error names: its place alone. Other formats have the rest."""
    yield _headline(d, paint)
    if d.span.line:
        yield paint("  --> ", "blue") + str(d.span)


def _headline(d: Diagnostic, paint: Paint) -> str:
    rule = paint(f"{d.severity}[{d.rule} {rule_name(d.rule)}]", _SEVERITY_COLOR[d.severity])
    said = d.message.removeprefix(f"{d.span.file}:{d.span.line}: ")  # the next line says where
    return rule + paint(f": {said}", "bold")


def _diagnostic(d: Diagnostic, paint: Paint) -> Iterator[str]:
    color = _SEVERITY_COLOR[d.severity]
    yield _headline(d, paint)
    width = len(str(max([d.span.line, *(label.span.line for label in d.related)])))
    bar = " " * width + paint(" |", "blue")
    if d.span.line:
        yield " " * width + paint("--> ", "blue") + str(d.span)
        here = [label.text for label in d.related if label.span == d.span]
        yield from _snippet(d.span, here or [""], "^", color, width, paint)
    elsewhere = [x for x in d.related if (x.span != d.span or not d.span.line) and not x.detail]
    texts: dict[Span, list[str]] = {}  # what is said of a line stands under it once
    for label in elsewhere:
        texts.setdefault(label.span, []).append(label.text)
    for span, said in texts.items():
        yield from _related(span, said, d.span.file, width, paint)
    if (d.fix, d.contested, d.repair, d.cause) != (None,) * 4:
        yield bar
    if d.repair is not None:
        yield from _noted(width, f"fix ({d.repair.mistake}), checked", _repair(d), paint)
        if d.repair.edit is not None:
            yield from _changed(d.repair.edit, width, paint)
    elif d.fix is not None or d.cause is not None:
        about = "help" if d.cause is None else f"help ({d.cause})"
        yield from _noted(width, about, d.fix or "see `syncverify explain " + d.rule + "`", paint)
    if d.contested is not None:
        yield from _noted(width, "contested", _contested(d.contested), paint)
    for label in d.related:
        if label.detail and not is_around(label, d):
            yield from _noted(width, "note", f"{label.text} ({at_text(label.span, d.span.file)})", paint)


def _repair(d: Diagnostic) -> str:
    """Where the author changes what, and what was checked of it."""
    assert d.repair is not None
    where = "" if d.repair.span == d.span else f"{at_text(d.repair.span, d.span.file)}: "
    return f"{where}{d.repair.text}\n{checked_text(d.repair)}"


def _changed(edit: TextEdit, width: int, paint: Paint) -> Iterator[str]:
    """The lines that an edit takes away, those that it puts there, and those around what it adds."""
    pairs = zip("".join(edit.old[:1]), "".join(edit.new[:1]), strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), 0)
    for line in difference(edit, source_lines(edit.file)):
        at = same + 1 if line.sign != " " else 1
        shown, _, _ = cut(line.text, at, at)
        number = str(line.number or "").rjust(width)
        yield paint(number, "blue") + " " + paint(f"{line.sign} {shown}".rstrip(), _DIFF_COLOR[line.sign])


def _contested(point: str) -> str:
    """The question behind a contested finding, and how the policies answer it."""
    c = CONTESTED.get(point)
    if c is None:
        return point
    return f"{c.id}: {c.question}\npractical: {c.practical}\nstrict: {c.strict}"


def _related(span: Span, texts: Sequence[str], file: str, width: int, paint: Paint) -> Iterator[str]:
    if not span.line:
        for text in texts:
            yield from _noted(width, "note", text, paint)
        return
    if span.file != file:
        yield " " * width + paint("::: ", "blue") + str(span)
    yield from _snippet(span, texts, "-", "blue", width, paint)


def _noted(width: int, what: str, text: str, paint: Paint) -> Iterator[str]:
    first, *rest = text.splitlines() or [""]
    yield " " * width + paint(" = ", "blue") + paint(f"{what}: ", "bold") + first
    for line in rest:
        yield " " * (width + 3 + len(what) + 2) + line


def _snippet(
    span: Span, texts: Sequence[str], mark: str, color: str, width: int, paint: Paint
) -> Iterator[str]:
    """The source line, marked, with one text or several beside and below the mark."""
    lines = source_lines(span.file)
    bar = " " * width + paint(" |", "blue")
    yield bar
    if not 0 < span.line <= len(lines):
        yield paint(f"{span.line:>{width}} |", "blue") + "".join(f" {text}" for text in _once(texts) if text)
        return
    source = _CONTROL.sub(" ", lines[span.line - 1])
    start = max(span.column, 1) if span.column else len(source) - len(source.lstrip()) + 1
    source, start, end = cut(source, start, _end_column(span, source))
    yield paint(f"{span.line:>{width}} |", "blue") + f" {source}".rstrip()
    marks = mark * max(end - start, 1)
    for i, text in enumerate(_once(texts)):
        margin = marks if i == 0 else " " * len(marks)
        yield bar + " " * start + paint(f"{margin} {text}" if text else marks, color)


def _once(texts: Sequence[str]) -> list[str]:
    """Equal texts once, with their number."""
    counts = Counter(texts)
    return [text if n == 1 or not text else f"{text} ({n} times)" for text, n in counts.items()]


def _end_column(span: Span, source: str) -> int:
    """One past the last marked column: the span's end if it is on its first line, else the line's end."""
    whole = len(source.split("//")[0].rstrip()) + 1
    if span.end_column and span.end_line in (0, span.line):
        return min(span.end_column, len(source) + 1)
    return whole


# ---------------------------------------------------------------- the witness


def _witness(w: Witness, path: str | None, paint: Paint, d: Diagnostic | None = None) -> Iterator[str]:
    """The schedule of a finding; its message only where it adds to what the finding said."""
    said = "" if d is None else d.message
    yield ""
    news = w.message.removeprefix(said).removeprefix("; ").removeprefix("then ")
    news = "" if w.message in said else f" {news}"
    yield f"  {paint(f'{_CLAIMS[w.claim]}:', 'bold')}{news}"
    if not w.steps:
        yield "    nothing comes before it"
    runs = _runs(w.steps, _shown(w.steps, d))
    rows = [_step_row(w.steps[i], w.file, n) for i, n in runs]
    ends = [-1, *(i + n - 1 for i, n in runs)]
    for (i, _), last, line in zip(runs, ends, _table(rows), strict=False):
        if i - last > 1:
            yield f"    ... {counted(i - last - 1, 'step')}"
        yield line
    if w.blocked:
        yield f"  {paint('who waits for ever:', 'bold')}"
        rows = _blocked_rows(w.blocked, w.file)
        yield from _table(rows[:SHOWN_BLOCKED])
        if len(rows) > SHOWN_BLOCKED:
            yield f"    ... and at {counted(len(rows) - SHOWN_BLOCKED, 'place')} more"
    if path is not None:
        yield f"  step through it: syncverify replay {path}"


def _shown(steps: Sequence[Step], d: Diagnostic | None) -> list[int]:
    """The last steps, and the last at each place of the finding, by those it names where they come there."""
    shown = set(range(max(len(steps) - SHOWN_STEPS, 0), len(steps)))
    if d is not None:
        text = " ".join([d.message, *(x.text for x in d.related), ""])
        for line in {(s.file, s.line) for s in (d.span, *(x.span for x in d.related)) if s.line}:
            there = [i for i, s in enumerate(steps) if (s.span.file, s.span.line) == line]
            shown |= set(([i for i in there if f"{steps[i].agent} " in text] or there)[-1:])
    shown |= {i + 1 for i in (-1, *shown) if i + 2 in shown}  # a gap is no shorter than what it leaves out
    return sorted(shown)


def _runs(steps: Sequence[Step], shown: Sequence[int]) -> list[tuple[int, int]]:
    """Steps that are shown, equal ones that follow each other as one: where it begins, and how many."""
    runs: list[tuple[int, int]] = []
    for i in shown:
        if runs and sum(runs[-1]) == i and _step_row(steps[i], "") == _step_row(steps[i - 1], ""):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((i, 1))
    return runs


def steps_table(steps: Sequence[Step]) -> Iterator[str]:
    """Steps of a schedule, one a line."""
    return _table([_step_row(s, s.span.file) for s in steps])


def _line_of(span: Span, file: str) -> str:
    """A line of ``file``, or of another file with its name."""
    return f"line {span.line}" if span.file == file else f"{PurePath(span.file).name}:{span.line}"


def _step_row(s: Step, file: str, times: int = 1) -> tuple[str, str, str]:
    phase = ""
    if s.barrier is not None and s.phase is not None and s.phase >= 0:
        phase = f" (phase {s.phase} of {s.barrier})"
    named, _, operands = s.op.partition(" ")
    op = named if s.code_line and "%" in operands else s.op  # registers that its reader has not written
    repeated = f" ({times} times)" if times > 1 else ""
    return s.agent, _line_of(s.span, file), op + phase + repeated


def _blocked_rows(blocked: Sequence[Blocked], file: str) -> list[tuple[str, str, str]]:
    """A row for each thing that agents wait on, with the first of them and how many more wait there."""
    agents: dict[tuple[str, str], list[str]] = {}
    for b in blocked:
        phase = "" if b.phase is None else f" phase {b.phase}"
        what = _line_of(b.span, file), f"waits on {b.waits_on}{phase}: {b.why}"
        agents.setdefault(what, []).append(b.agent)
    return [(_and_more(names), line, what) for (line, what), names in agents.items()]


def _and_more(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Rows in aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    for row in rows:
        yield "    " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()


# ---------------------------------------------------------------- verdicts


def _verdict(k: KernelReport, name: str, paint: Paint) -> str:
    said = any(d.message == k.reason for d in k.diagnostics)  # a finding with the reason stands above
    reason = f": {k.reason}" if k.reason and not said else ""
    facts = [scope_text(k, SHOWN_VALUES), str(k.policy), f"{k.seconds:.2f} s"]
    verdict = paint(str(k.verdict), _VERDICT_COLOR[k.verdict])
    return f"{k.file}: {paint(name, 'bold')}: {verdict}{reason} ({'; '.join(facts)})"


def _summary(report: Report, paint: Paint) -> str:
    counts = ", ".join(
        paint(f"{n} {verdict}", _VERDICT_COLOR[verdict]) for verdict, n in report.counts.items() if n
    )
    said = f"{counted(len(report.kernels), 'kernel')}: {counts}" if counts else "no kernel checked"
    return f"{said}; {paint(counted(len(report.errors), 'error'), 'red')}" if report.errors else said
