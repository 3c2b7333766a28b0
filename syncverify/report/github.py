"""GitHub workflow commands: one annotation per finding, on the line it is about."""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.diagnostics import Diagnostic, KernelReport, Severity, Verdict
from syncverify.report.base import Report, one_line, place, rule_name

_COMMAND = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report) -> str:
    """The run as workflow commands, one a line."""
    return "".join(f"{line}\n" for k in report.kernels for line in _kernel(k))


def _kernel(k: KernelReport) -> Iterator[str]:
    for d in k.diagnostics:
        yield _command(k, d)
    if k.verdict is Verdict.UNKNOWN and not k.diagnostics:
        yield f"::warning file={_property(k.file)},title=unknown::{_data(f'{k.name}: {k.reason}')}"


def _command(k: KernelReport, d: Diagnostic) -> str:
    file, line = place(k, d)
    where = [f"file={_property(file)}"]
    if line:
        where.append(f"line={line}")
        where += [f"endLine={d.span.end_line}"] if d.span.end_line else []
        where += [f"col={d.span.column}"] if d.span.column else []
    title = _property(f"{d.rule} {rule_name(d.rule)}")
    return f"::{_COMMAND[d.severity]} {','.join(where)},title={title}::{_data(f'{k.name}: {one_line(d)}')}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
