"""One self-contained HTML page: the text report's content, with a table for each witness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from syncverify.diagnostics import Diagnostic, KernelReport, Witness
from syncverify.report.base import (
    Report,
    counted,
    kernel_names,
    place,
    rests_on,
    rule_name,
    scope_text,
    source_lines,
)

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; }
code, pre, td { font-family: ui-monospace, monospace; font-size: 13px; }
pre { background: #f6f6f6; padding: .6em; overflow-x: auto; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .1em 1em .1em 0; }
.proved { color: #0a7d28; } .refuted, .error { color: #c00; } .unknown, .warning { color: #a60; }
.note { color: #36c; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd; } pre { background: #222; } }
"""


def render(report: Report) -> str:
    """The whole run as one page that needs nothing else."""
    counts = ", ".join(f"{n} {verdict}" for verdict, n in report.counts.items() if n)
    body = "".join(f'<p><b class="error">error</b>: {escape(str(e))}</p>\n' for e in report.errors)
    body += "\n".join(
        line
        for i, (k, name) in enumerate(zip(report.kernels, kernel_names(report.kernels), strict=True))
        for line in _kernel(i, k, name)
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>syncverify</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>syncverify</h1>\n"
        f"<p>{counted(len(report.kernels), 'kernel')}: {counts or 'none'}; policy {report.policy}</p>\n"
        f"{body}\n</body>\n</html>\n"
    )


def _kernel(index: int, k: KernelReport, name: str) -> Iterator[str]:
    verdict = f'<span class="{k.verdict}">{k.verdict}</span>'
    yield f'<section id="k{index}"><h2>{escape(name)}: {verdict}</h2>'
    yield f"<p><code>{escape(k.file)}</code> {escape(scope_text(k))}</p>"
    if k.reason:
        yield f"<p>{escape(k.reason)}</p>"
    if rests_on(k):
        yield "<ul class=\"rests\">" + "".join(f"<li>{escape(a)}</li>" for a in rests_on(k)) + "</ul>"
    for d in k.diagnostics:
        yield from _diagnostic(k, d)
    if k.witness is not None:
        yield from _witness(k.witness)
    yield "</section>"


def _diagnostic(k: KernelReport, d: Diagnostic) -> Iterator[str]:
    file, line = place(k, d)
    head = f'<b class="{d.severity}">{d.severity}[{d.rule} {rule_name(d.rule)}]</b>'
    yield f"<p>{head}: {escape(d.message)}<br><code>{escape(file)}:{line}</code></p>"
    yield "<pre>" + escape("\n".join(_lines(d))) + "</pre>"
    if d.fix is not None:
        yield f"<p>help: {escape(d.fix)}</p>"


def _lines(d: Diagnostic) -> Iterator[str]:
    for span, text in [(d.span, ""), *((r.span, r.text) for r in d.related)]:
        lines = source_lines(span.file)
        source = lines[span.line - 1] if 0 < span.line <= len(lines) else ""
        yield f"{span.line:>5}  {source}" + (f"    // {text}" if text else "")


def _witness(w: Witness) -> Iterator[str]:
    yield f"<details><summary>{counted(len(w.steps), 'step')} to the {escape(str(w.claim))}</summary><table>"
    yield _row("th", ("", "agent", "line", "operation", "barrier", "phase"))
    for i, s in enumerate(w.steps):
        yield _row("td", (i + 1, s.agent, s.span.line, s.op, s.barrier, s.phase))
    yield "</table></details>"
    if w.blocked:
        yield "<table>" + _row("th", ("waits for ever", "line", "on", "phase", "why"))
        for b in w.blocked:
            yield _row("td", (b.agent, b.span.line, b.waits_on, b.phase, b.why))
        yield "</table>"


def _row(tag: str, cells: Iterable[object]) -> str:
    shown = ("" if c is None else escape(str(c)) for c in cells)
    return "<tr>" + "".join(f"<{tag}>{c}</{tag}>" for c in shown) + "</tr>"
