"""The run as Markdown, for the summary of a GitHub step: kernels, then findings and what proofs rest on."""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.base.diagnostics import KernelReport, Severity, Verdict
from syncverify.report.base import (
    Report,
    counted,
    kernel_names,
    one_line,
    place,
    replay_text,
    rests_on,
    rule_name,
    scope_text,
    source_lines,
)
from syncverify.report.drawing import draw
from syncverify.report.edit_diff import difference

_MARK = {Verdict.PROVED: "✅", Verdict.REFUTED: "❌", Verdict.UNKNOWN: "❔"}


def render(report: Report) -> str:
    """The summary as Markdown."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    counts = ", ".join(f"{n} {verdict}" for verdict, n in report.counts.items() if n)
    yield f"## syncverify: {counted(len(report.kernels), 'kernel')}{f', {counts}' if counts else ''}"
    yield ""
    yield from (f"- input that could not be used: {_cell(str(e))}" for e in report.errors)
    yield "| verdict | kernel | for | seconds |"
    yield "|---|---|---|---|"
    names = kernel_names(report.kernels)
    for k, name in zip(report.kernels, names, strict=True):
        verdict = f"{_MARK[k.verdict]} {k.verdict}"
        yield f"| {verdict} | `{_cell(name)}` {_cell(k.file)} | {_cell(scope_text(k))} | {k.seconds:.2f} |"
    for k, name in zip(report.kernels, names, strict=True):
        if k.verdict is not Verdict.PROVED:
            yield from _findings(k, name)
        elif rests := rests_on(k):
            yield from ("", f"### {name}: what the proof rests on", "", *(f"- {_cell(x)}" for x in rests))


def _findings(k: KernelReport, name: str) -> Iterator[str]:
    yield ""
    yield f"### {name}: {k.verdict}"
    if k.reason:
        yield ""
        yield _cell(k.reason)
    if (replay := replay_text(k)) is not None:
        yield ""
        yield _cell(replay)
    for d in k.diagnostics:
        if d.severity is Severity.ERROR:
            file, line = place(k, d)
            yield ""
            yield f"**{d.rule} {rule_name(d.rule)}** `{file}:{line}`: {_cell(one_line(d))}"
            if d.repair is not None and d.repair.edit is not None:
                rows = difference(d.repair.edit, source_lines(d.repair.edit.file))
                yield from ("", "```diff", *(f"{x.sign} {x.text}" for x in rows), "```")
    if k.witness is not None:
        yield ""
        yield "```text"
        yield from draw(k.witness, 100)
        yield "```"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
