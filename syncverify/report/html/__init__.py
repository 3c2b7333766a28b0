"""One self-contained HTML page: an index, each finding with its source, its schedule as a picture.

The page needs no network and no other file. ``page.html`` is its frame, ``page.css`` its looks; ``page.js``
draws what stands as JSON in the page (``data_of``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from html import escape
from importlib import resources
from typing import Any

from syncverify.base.contested import CONTESTED
from syncverify.base.diagnostics import Diagnostic, KernelReport, TextEdit, Witness
from syncverify.base.source import Span
from syncverify.report import text
from syncverify.report.base import (
    Report,
    acceptance,
    at_text,
    checked_text,
    counted,
    is_around,
    kernel_names,
    place,
    replay_text,
    rule_name,
    source_lines,
    values_text,
)
from syncverify.report.edit_diff import difference
from syncverify.report.schedule_view import view_of

#: Lines of a source that the page carries around each line that something points at.
CONTEXT = 6
#: Sources of at most so many lines are carried whole.
WHOLE = 600


def render(report: Report) -> str:
    """The whole run as one page."""
    data = data_of(report)
    parts = {
        "title": f"syncverify: {_summary(report)}",
        "style": _resource("page.css"),
        "script": _resource("page.js"),
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "plain": escape(text.render(report)),
    }
    page = _resource("page.html")
    for name, content in parts.items():
        page = page.replace(f"<!--{name}-->", content if name != "title" else escape(content), 1)
    return page


def _resource(name: str) -> str:
    return resources.files("syncverify.report.html").joinpath(name).read_text("utf-8")


def _summary(report: Report) -> str:
    counts = ", ".join(f"{n} {verdict}" for verdict, n in report.counts.items() if n)
    return f"{counted(len(report.kernels), 'kernel')}: {counts or 'none'}"


def data_of(report: Report) -> dict[str, Any]:
    """All that the page shows, as plain data."""
    names = kernel_names(report.kernels)
    return {
        "summary": _summary(report),
        "policy": str(report.policy),
        "errors": [str(e) for e in report.errors],
        "kernels": [_kernel(report, i, k, names[i]) for i, k in enumerate(report.kernels)],
        "sources": _sources(report.kernels),
    }


def _kernel(report: Report, index: int, k: KernelReport, name: str) -> dict[str, Any]:
    path = report.witness_paths.get(index)
    alone = Report(report.policy, (k,), {} if path is None else {0: path})
    return {
        "name": name,
        "file": k.file,
        "arch": k.arch,
        "verdict": str(k.verdict),
        "reason": k.reason,
        "seconds": round(k.seconds, 2),
        "scope": str(k.scope.kind),
        "values": values_text(k.scope.named_values),
        "assume": list(k.scope.assume),
        "assumptions": list(k.assumptions),
        "acceptance": acceptance(k),
        "replay": replay_text(k),
        "findings": [_finding(k, d) for d in k.diagnostics],
        "witness": None if k.witness is None else _witness(k.witness),
        "text": text.render(alone),
    }


def _finding(k: KernelReport, d: Diagnostic) -> dict[str, Any]:
    file, line = place(k, d)
    point = CONTESTED.get(d.contested) if d.contested else None
    return {
        "rule": d.rule,
        "name": rule_name(d.rule),
        "severity": str(d.severity),
        "message": d.message,
        "file": file,
        "line": line,
        "labels": [
            {"file": r.span.file, "line": r.span.line, "text": r.text, "detail": r.detail}
            for r in d.related
            if not is_around(r, d)
        ],
        "fix": d.fix,
        "cause": None if d.cause is None else str(d.cause),
        "repair": None
        if d.repair is None
        else {
            "mistake": str(d.repair.mistake),
            "text": d.repair.text,
            "at": "" if d.repair.span == d.span else at_text(d.repair.span, file),
            "checked": checked_text(d.repair),
            "diff": _diff(d.repair.edit),
        },
        "contested": None if point is None else f"{point.id}: {point.question}",
    }


def _diff(edit: TextEdit | None) -> list[list[str]]:
    """The lines of a fix: each with its sign and its number."""
    if edit is None:
        return []
    rows = difference(edit, source_lines(edit.file))
    return [[line.sign, str(line.number or ""), line.text] for line in rows]


def _witness(w: Witness) -> dict[str, Any]:
    view = view_of(w)
    return {
        "claim": str(w.claim),
        "message": w.message,
        "steps": [
            {
                "agent": s.agent,
                "file": s.span.file,
                "line": s.span.line,
                "op": s.op,
                "barrier": s.barrier,
                "phase": s.phase,
                "kind": str(s.kind),
                "state": None if s.state is None else asdict(s.state),
                "lane": lane,
            }
            for s, lane in zip(w.steps, view.lane_of, strict=True)
        ],
        "lanes": [asdict(lane) for lane in view.lanes],
        "copies": [asdict(c) for c in view.copies],
        "arrows": [asdict(a) for a in view.arrows],
        "barriers": [
            {"name": name, "spans": [{"start": s.start, **asdict(s.state)} for s in spans]}
            for name, spans in view.barriers.items()
        ],
        "blocked": [
            {
                "agent": b.agent,
                "lane": lane,
                "file": b.span.file,
                "line": b.span.line,
                "waits_on": b.waits_on,
                "phase": b.phase,
                "why": b.why,
            }
            for b, lane in zip(w.blocked, view.waiting, strict=True)
        ],
        "cycle": list(view.cycle),
    }


def _sources(kernels: Sequence[KernelReport]) -> dict[str, dict[str, str]]:
    """By file: line numbers and texts of what the page shows of it."""
    wanted: dict[str, set[int]] = {}
    for k in kernels:
        for span in _spans(k):
            if span.line:
                wanted.setdefault(span.file, set()).add(span.line)
    out: dict[str, dict[str, str]] = {}
    for file, places in wanted.items():
        lines = source_lines(file)
        shown = range(1, len(lines) + 1)
        if len(lines) > WHOLE:
            near = {n for p in places for n in range(p - CONTEXT, p + CONTEXT + 1)}
            out[file] = {str(n): lines[n - 1] for n in shown if n in near}
        else:
            out[file] = {str(n): lines[n - 1] for n in shown}
    return out


def _spans(k: KernelReport) -> Iterable[Span]:
    for d in k.diagnostics:
        yield d.span
        yield from (r.span for r in d.related)
    if k.witness is not None:
        yield from (s.span for s in k.witness.steps)
        yield from (b.span for b in k.witness.blocked)
