"""GitHub workflow commands: one annotation per finding, on the line it is about."""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.base.diagnostics import Diagnostic, KernelReport, Severity, Verdict
from syncverify.base.source import UNKNOWN_SPAN, InputError, Span
from syncverify.report.base import (
    Report,
    footnotes,
    one_line,
    place,
    rule_name,
    scope_text,
    source_lines,
)
from syncverify.report.edit_diff import difference

_COMMAND = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report) -> str:
    """The run as workflow commands, one a line."""
    lines = [_unusable(e) for e in report.errors]
    lines += [line for k in report.kernels for line in _kernel(k)]
    return "".join(f"{line}\n" for line in lines)


def _unusable(e: InputError) -> str:
    where = [] if e.span == UNKNOWN_SPAN else _where(e.span.file, e.span)
    return f"::error {','.join([*where, 'title=syncverify'])}::{_data(e.message)}"


def _kernel(k: KernelReport) -> Iterator[str]:
    for d in k.diagnostics:
        yield _command(k, d)
    if k.verdict is Verdict.UNKNOWN and not k.diagnostics:
        yield f"::warning file={_property(k.file)},title=unknown::{_data(f'{k.name}: {k.reason}')}"
    if footnotes(k):
        text = "\n".join([f"{k.name}: {k.verdict} ({scope_text(k)})", *footnotes(k)])
        yield f"::notice file={_property(k.file)},title={k.verdict}::{_data(text)}"


def _command(k: KernelReport, d: Diagnostic) -> str:
    where = ",".join(_where(place(k, d)[0], d.span))
    title = _property(f"{d.rule} {rule_name(d.rule)}")
    text = "\n".join([f"{k.name}: {one_line(d)}", *_fix(d)])
    return f"::{_COMMAND[d.severity]} {where},title={title}::{_data(text)}"


def _fix(d: Diagnostic) -> Iterator[str]:
    """The lines of a fix that was checked."""
    if d.repair is not None and d.repair.edit is not None:
        for line in difference(d.repair.edit, source_lines(d.repair.edit.file)):
            yield f"{line.number or ''} {line.sign} {line.text}".strip()


def _where(file: str, span: Span) -> list[str]:
    where = [f"file={_property(file)}"]
    if span.line:
        where.append(f"line={span.line}")
        where += [f"endLine={span.end_line}"] if span.end_line else []
        where += [f"col={span.column}"] if span.column else []
    return where


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
