"""Failures that are no errors in every mode: what strict mode alone asks, and stores of one value."""

from __future__ import annotations

from collections.abc import Hashable

from syncverify.base.diagnostics import Severity
from syncverify.checker.happens_before.failure import Failure
from syncverify.checker.happens_before.run import Run


def strict_findings(run: Run) -> frozenset[Hashable]:
    """What strict mode alone asks of pairs of accesses and was met: that hides only the same, met again."""
    failures = [key for key, f in run.failures.items() if is_strict_only_pair(run, f)]
    return frozenset([*failures, *(pair for pair in run.judged if pair[2])])


def is_strict_only_pair(run: Run, f: Failure) -> bool:
    """Whether a pair of accesses is judged in strict mode only: a failure that hides no other."""
    if not f.strict_only or f.first is None or f.second is None or is_same_value_store(f):
        return False
    first, second = f.first.site, f.second.site
    plain = {(first, second, False), (-1 - first, second, False)}
    return (first, second, True) in run.judged and run.judged.isdisjoint(plain)


def is_same_value_store(f: Failure) -> bool:
    """Whether a failure is a lesser one for what is stored: two stores of one value."""
    return f.rule == "SV112" and f.severity != Severity.ERROR and f.contested is None


__all__ = ["is_same_value_store", "is_strict_only_pair", "strict_findings"]
