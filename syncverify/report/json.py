"""The JSON report: the contract that scripts read (docs/cli.md)."""

from __future__ import annotations

import json
from typing import Any

from syncverify.base.diagnostics import SCHEMA_VERSION, Diagnostic, KernelReport, Repair
from syncverify.base.reason import kind_of
from syncverify.report.base import Report, place, rule_name


def render(report: Report) -> str:
    """The whole run as one JSON object."""
    return json.dumps(to_dict(report), indent=2) + "\n"


def to_dict(report: Report) -> dict[str, Any]:
    """The run as JSON data."""
    return {
        "schema_version": SCHEMA_VERSION,
        "policy": str(report.policy),
        "kernels": [_kernel(k, report.witness_paths.get(i)) for i, k in enumerate(report.kernels)],
    }


def _kernel(k: KernelReport, witness: str | None) -> dict[str, Any]:
    return {
        "name": k.name,
        "file": k.file,
        "arch": k.arch,
        "verdict": str(k.verdict),
        "reason": k.reason,
        "reason_kind": kind_of(k.reason),
        "seconds": round(k.seconds, 6),
        "scope": {
            "kind": str(k.scope.kind),
            "values": dict(k.scope.values),
            **({"names": dict(k.scope.names)} if k.scope.names else {}),
            "assume": list(k.scope.assume),
        },
        "assumptions": list(k.assumptions),
        "accepted_by": k.accepted_by,
        "not_accepted": None if k.accepted_by in (None, "kernel") else k.acceptance.reason,
        "invariants": list(k.acceptance.invariants),
        "besides": list(k.acceptance.besides),
        "witness": witness,
        "replay": None if k.replay is None else {"outcome": str(k.replay.outcome), "detail": k.replay.detail},
        "diagnostics": [_diagnostic(k, d) for d in k.diagnostics],
    }


def _diagnostic(k: KernelReport, d: Diagnostic) -> dict[str, Any]:
    file, line = place(k, d)
    return {
        "rule": d.rule,
        "name": rule_name(d.rule),
        "severity": str(d.severity),
        "contested": d.contested,
        "message": d.message,
        "file": file,
        "line": line,
        "column": d.span.column or None,
        "related": [{"file": r.span.file, "line": r.span.line, "text": r.text} for r in d.related],
        "fix": d.fix,
        "cause": None if d.cause is None else str(d.cause),
        "repair": None if d.repair is None else _repair(d.repair),
    }


def _repair(r: Repair) -> dict[str, Any]:
    """An edit that was applied and checked: what kind of mistake it mends, where, and how."""
    edit = None
    if r.edit is not None:
        edit = {"file": r.edit.file, "line": r.edit.line, "old": list(r.edit.old), "new": list(r.edit.new)}
    return {
        "mistake": str(r.mistake),
        "file": r.span.file,
        "line": r.span.line,
        "text": r.text,
        "edit": edit,
        "elsewhere": None if r.elsewhere is None else str(r.elsewhere),
        "left": None
        if r.left is None
        else {"rule": r.left.rule, "file": r.left.span.file, "line": r.left.span.line},
    }
