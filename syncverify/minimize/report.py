"""What a minimization found, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from syncverify.base.diagnostics import SCHEMA_VERSION, Policy, Scope, ScopeKind, Verdict
from syncverify.ir.nodes import Stmt
from syncverify.ir.text.printer import print_stmt
from syncverify.minimize.kernels import Minimized


def text(found: Iterable[Minimized]) -> str:
    """A paragraph for each kernel: the count, what can go, and what stays though it need not."""
    return "".join(f"{line}\n" for m in found for line in _paragraph(m))


def _paragraph(m: Minimized) -> Iterator[str]:
    r = m.report
    if r.verdict is not Verdict.PROVED:
        yield f"{r.name}: {r.verdict}, so nothing was left out: see syncverify check"
        return
    where = f"{_where(r.scope)}, {r.policy}"
    yield f"{r.name}: {m.needed} of {m.total} synchronizing statements are needed ({where})"
    for removal in m.removed:
        together = " (only together)" if len(removal.stmts) > 1 else ""
        yield from (f"  {_place(s)}: can go{together}: {print_stmt(s)}" for s in removal.stmts)
    for kept in m.kept:
        yield from (f"  {_place(s)}: stays: {print_stmt(s)}" for s in kept.stmts)
        yield f"    {kept.reason.text}"


def _where(scope: Scope) -> str:
    if scope.kind is ScopeKind.ALL:
        return "every size"
    values = ", ".join(f"{k} = {v}" for k, v in scope.values.items())
    return f"every size with {values}" if scope.kind is ScopeKind.PARTIAL else values


def _place(s: Stmt) -> str:
    return f"{s.span.file}:{s.span.line}" if s.span.line else "-"


def as_json(found: Iterable[Minimized], policy: Policy) -> str:
    """One object as docs/minimize.md describes it."""
    kernels = [_kernel(m) for m in found]
    data = {"schema_version": SCHEMA_VERSION, "policy": str(policy), "kernels": kernels}
    return json.dumps(data, indent=2) + "\n"


def _kernel(m: Minimized) -> dict[str, Any]:
    r = m.report
    return {
        "name": r.name,
        "file": r.file,
        "verdict": str(r.verdict),
        "reason": r.reason,
        "scope": {
            "kind": str(r.scope.kind),
            "values": dict(r.scope.values),
            "assume": list(r.scope.assume),
        },
        "statements": m.total,
        "needed": m.needed,
        "removable": [[_statement(s) for s in x.stmts] for x in m.removed],
        "kept": [{"statements": [_statement(s) for s in x.stmts], "reason": str(x.reason)} for x in m.kept],
    }


def _statement(s: Stmt) -> dict[str, Any]:
    return {"line": s.span.line, "text": print_stmt(s)}
