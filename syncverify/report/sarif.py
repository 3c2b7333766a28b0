"""SARIF 2.1.0, for code scanning. A witness becomes code flows: the schedule, then one flow per agent."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from syncverify import __version__
from syncverify.base.diagnostics import (
    Blocked,
    Diagnostic,
    KernelReport,
    Severity,
    Step,
    TextEdit,
    Verdict,
    Witness,
)
from syncverify.base.explanations import explanation
from syncverify.base.rules import RULES
from syncverify.base.source import UNKNOWN_SPAN, Span
from syncverify.report.base import (
    Report,
    footnotes,
    one_line,
    replay_text,
    rests_on,
    scope_text,
    source_lines,
)

#: Code scanning shows this many steps of a flow at most; the last ones hold the harm.
MAX_STEPS = 1000
_NUMBER = re.compile(r"\d+")
_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render(report: Report) -> str:
    """The run as one SARIF log."""
    used = sorted({d.rule for _, d in report.findings()} | ({"SV902"} if _silent(report) else set()))
    index = {rule: i for i, rule in enumerate(used)}
    results = [r for k in report.kernels for r in _kernel(k, index)]
    run = {
        "tool": {
            "driver": {
                "name": "syncverify",
                "version": __version__,
                "rules": [_rule(r) for r in used],
            }
        },
        "automationDetails": {"id": f"syncverify/{report.policy}/"},
        "invocations": [
            {
                "executionSuccessful": not report.errors,
                "toolExecutionNotifications": _unusable(report) + _undecided(report) + _resting(report),
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _silent(report: Report) -> list[KernelReport]:
    """Unknown kernels without a finding of their own."""
    return [k for k in report.kernels if k.verdict is Verdict.UNKNOWN and not k.diagnostics]


def _unusable(report: Report) -> list[dict[str, Any]]:
    """Input that could not be used, at its place."""
    found = []
    for e in report.errors:
        notification: dict[str, Any] = {"level": "error", "message": {"text": e.message}}
        if e.span != UNKNOWN_SPAN:
            notification["locations"] = [_location(e.span if e.span.line else Span(e.span.file, 1))]
        found.append(notification)
    return found


def _undecided(report: Report) -> list[dict[str, Any]]:
    return [
        {"level": "warning", "message": {"text": f"{k.name}: unknown: {k.reason}"}}
        for k in report.kernels
        if k.verdict is Verdict.UNKNOWN
    ]


def _resting(report: Report) -> list[dict[str, Any]]:
    """What verdicts take for granted: a note for each kernel."""
    return [
        {
            "level": "note",
            "message": {"text": "\n".join([f"{k.name}: {k.verdict} ({scope_text(k)})", *footnotes(k)])},
            "locations": [_location(Span(k.file, 1))],
        }
        for k in report.kernels
        if footnotes(k)
    ]


def _rule(rule: str) -> dict[str, Any]:
    r, e = RULES[rule], explanation(rule)
    return {
        "id": r.id,
        "name": r.name,
        "shortDescription": {"text": r.summary},
        "fullDescription": {"text": e.why},
        "help": {"text": f"{e.why}\n\n{e.fix}", "markdown": f"{e.why}\n\n**Fix:** {e.fix}"},
        "properties": {"precision": "very-high"},
    }


def _kernel(k: KernelReport, index: dict[str, int]) -> list[dict[str, Any]]:
    results = [_result(k, d, index) for d in k.diagnostics]
    if results and k.witness is not None and k.witness.steps:
        results[0]["codeFlows"] = _flows(k.witness)
    if not results and k.verdict is Verdict.UNKNOWN:
        message = k.reason or "undecided"
        results.append(_result(k, Diagnostic("SV902", Severity.WARNING, message), index))
    return results


def _result(k: KernelReport, d: Diagnostic, index: dict[str, int]) -> dict[str, Any]:
    span = d.span if d.span.line else Span(k.file, 1)
    result: dict[str, Any] = {
        "ruleId": d.rule,
        "ruleIndex": index[d.rule],
        "level": _LEVEL[d.severity],
        "message": {"text": f"{k.name}: {one_line(d)}"},
        "locations": [_location(span)],
        "partialFingerprints": {"syncverify/v1": fingerprint(k, d)},
        "properties": {
            "kernel": k.name,
            "cause": None if d.cause is None else str(d.cause),
            "repair": None if d.repair is None else f"{d.repair.mistake}: {d.repair.text}",
            "contested": d.contested,
            "scope": scope_text(k),
            "restsOn": rests_on(k),
            "replay": replay_text(k),
        },
    }
    if d.repair is not None and d.repair.edit is not None:
        result["fixes"] = [_fix(d.repair.text, d.repair.edit)]
    if d.related:
        result["relatedLocations"] = [_location(r.span, r.text) for r in d.related if r.span.line]
    return result


def _fix(text: str, edit: TextEdit) -> dict[str, Any]:
    """An edit that was checked: whole lines are replaced, up to the start of the next."""
    region = {"startLine": edit.line, "startColumn": 1, "endLine": edit.line + len(edit.old), "endColumn": 1}
    replacement: dict[str, Any] = {"deletedRegion": region}
    if edit.new:
        replacement["insertedContent"] = {"text": "".join(f"{line}\n" for line in edit.new)}
    change = {"artifactLocation": {"uri": uri(edit.file)}, "replacements": [replacement]}
    return {"description": {"text": text}, "artifactChanges": [change]}


def fingerprint(k: KernelReport, d: Diagnostic) -> str:
    """The same for a finding whose line has moved: rule, kernel and message without its numbers."""
    text = _NUMBER.sub("#", d.message)
    return hashlib.sha256(repr((d.rule, k.name, text)).encode()).hexdigest()[:32]


def _whole(span: Span) -> tuple[int, int]:
    """First column, and the one behind the last, of a line's text: line tables of CUDA name no columns."""
    lines = source_lines(span.file)
    text = lines[span.line - 1] if 0 < span.line <= len(lines) else ""
    first = len(text) - len(text.lstrip()) + 1
    return (first, len(text.rstrip()) + 1) if text.strip() else (1, 2)


def region(span: Span) -> dict[str, int]:
    """Where a span begins and ends, the last column excluded; all of a line's text where it has no column."""
    column, end_line = max(span.column, 1), max(span.end_line, span.line)
    end = span.end_column if span.end_column > (column if end_line == span.line else 0) else column + 1
    if not span.column and end_line == span.line:
        column, end = _whole(span)
    return {"startLine": span.line, "startColumn": column, "endLine": end_line, "endColumn": end}


def _location(span: Span, text: str = "") -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": uri(span.file)}, "region": region(span)}
    }
    if text:
        location["message"] = {"text": text}
    return location


def uri(file: str) -> str:
    """A path as SARIF wants it: relative to the working directory where it lies below it."""
    path = Path(file)
    if path.is_absolute():
        try:
            path = path.relative_to(Path.cwd())
        except (ValueError, OSError):
            return path.as_uri()
    return quote(os.fsencode(path.as_posix()))


def _flows(w: Witness) -> list[dict[str, Any]]:
    """The whole schedule as one flow, which is what viewers show, then a flow for each agent."""
    steps = list(enumerate(w.steps))[-MAX_STEPS:]
    agents = dict.fromkeys([*(s.agent for _, s in steps), *(b.agent for b in w.blocked)])
    end = len(w.steps) + 1
    whole = _positions(steps, named=True) + [_blocked(b, end, named=True) for b in w.blocked]
    single = []
    for agent in agents:
        own = _positions([(i, s) for i, s in steps if s.agent == agent], named=False)
        own += [_blocked(b, end, named=False) for b in w.blocked if b.agent == agent]
        single.append({"id": agent, "locations": own})
    return [{"threadFlows": [{"locations": whole}]}, {"threadFlows": single}]


def _positions(steps: Sequence[tuple[int, Step]], *, named: bool) -> list[dict[str, Any]]:
    return [_position(i + 1, s, f"[{s.agent}] {s.op}" if named else s.op) for i, s in steps]


def _position(order: int, s: Step, text: str) -> dict[str, Any]:
    place = _location(s.span, text) if s.span.line else {"message": {"text": text}}
    found: dict[str, Any] = {"executionOrder": order, "location": place}
    if s.barrier is not None and s.state is not None:
        now = s.state
        state = f"phase {now.phase}, {now.pending} of {now.count} arrivals pending, {now.tx} bytes"
        found["state"] = {s.barrier: {"text": state}}
    return found


def _blocked(b: Blocked, order: int, *, named: bool) -> dict[str, Any]:
    """Where an agent represents ever: the step that matters."""
    text = f"{f'[{b.agent}] ' if named else ''}waits for ever on {b.waits_on}: {b.why}"
    place = _location(b.span, text) if b.span.line else {"message": {"text": text}}
    return {"executionOrder": order, "importance": "essential", "location": place}
