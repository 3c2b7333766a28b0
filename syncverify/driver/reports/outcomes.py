"""Outcomes of systems made one, and hashes of texts: what needs no check."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from syncverify.base.diagnostics import Diagnostic, Severity, Verdict
from syncverify.base.source import Span
from syncverify.checker.outcome import Outcome

_RANK = {Verdict.REFUTED: 0, Verdict.UNKNOWN: 1, Verdict.PROVED: 2}
_SEVERITY = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def undecided(reason: str, span: Span, rule: str = "SV902") -> Outcome:
    """An outcome that says why there is no verdict."""
    note = Diagnostic(rule, Severity.WARNING, reason, span)
    return Outcome(Verdict.UNKNOWN, (note,), None, reason, {})


def text_hash(text: str | bytes) -> str:
    """The hash that ties a witness to the text it was found in."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def merge(outcomes: Iterable[Outcome]) -> Outcome:
    """One outcome for several systems: refuted if any is, else unknown if any is, else proved.

    Findings of a refuted system come first and keep their order (root cause first); the same rule at
    the same place is one finding, with the highest severity that any system gave it.
    """
    ranked = sorted(outcomes, key=lambda o: _RANK[o.verdict])
    if not ranked:
        return undecided("the launch has no block: its grid is empty", Span())
    seen: dict[tuple[object, ...], Diagnostic] = {}
    for d in (d for o in ranked for d in o.diagnostics):
        key = (d.rule, d.span, d.contested)
        if key not in seen or _SEVERITY[d.severity] < _SEVERITY[seen[key].severity]:
            seen[key] = d
    first = ranked[0]
    return Outcome(
        first.verdict,
        tuple(seen.values()),
        first.witness,
        first.reason if first.verdict is Verdict.UNKNOWN else None,
        _summed(ranked),
        first.system,
        next((o.suspect for o in ranked if o.suspect is not None), None),
    )


def _summed(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Numbers added up; anything else as the first system that has it says."""
    total: dict[str, Any] = {"systems": 0}
    for o in outcomes:
        total["systems"] += 1
        for key, value in o.stats.items():
            if isinstance(value, int | float):
                total[key] = total.get(key, 0) + value
            else:
                total.setdefault(key, value)
    return total
