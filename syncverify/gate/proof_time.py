"""What a proof may take in the gate: past it there is an answer all the same, never a wait without end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from syncverify.base.deadline import PROOF_SECONDS, OutOfTimeError, within
from syncverify.base.diagnostics import Diagnostic, KernelReport, Policy, Scope, ScopeKind, Severity, Verdict
from syncverify.base.source import InputError
from syncverify.codegen.cache import GIVEN_UP
from syncverify.ir.nodes import Kernel


def checked(seconds: float) -> float:
    """The seconds; InputError if no proof can end within them."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise InputError(f"proof_seconds is {seconds!r}: use a number above 0")
    return float(seconds)


def policy_of(policy: Policy | str) -> Policy:
    """A policy, perhaps by its name; InputError if there is none."""
    try:
        return Policy(policy)
    except ValueError:
        raise InputError(f"policy is {policy!r}: use {' or '.join(map(repr, map(str, Policy)))}") from None


def bounded(
    check: Callable[[Mapping[str, int] | None], KernelReport],
    kernel: Kernel,
    policy: Policy,
    values: Mapping[str, int] | None,
    seconds: float,
) -> KernelReport:
    """A stage's report if ``check`` makes it in time. A proof for every launch that takes too long is
    followed by one for the usual sizes, so that the gate asks for each launch; else it is ``unknown``."""
    asked = [values]
    if values is None and kernel.params and all(p.default is not None for p in kernel.params):
        asked.append({p.name: p.default for p in kernel.params if p.default is not None})
    for each in asked:
        try:
            with within(seconds):
                report = check(each)
        except OutOfTimeError:
            continue
        return report if each is values else _for_the_usual(report, kernel, seconds)
    return unknown(kernel, policy, values, seconds)


def unknown(kernel: Kernel, policy: Policy, values: Mapping[str, int] | None, seconds: float) -> KernelReport:
    """The report of a stage that takes longer."""
    scope = Scope(ScopeKind.ALL if values is None else ScopeKind.EXACT, dict(values or {}))
    file, reason = kernel.span.file, out_of_time(seconds)
    return KernelReport(
        kernel.name, file, Verdict.UNKNOWN, policy, scope, kernel.arch, reason, stats={GIVEN_UP: seconds}
    )


def out_of_time(seconds: float) -> str:
    return f"no proof within {seconds:g} seconds of processor time (proof_seconds)"


def _for_the_usual(report: KernelReport, kernel: Kernel, seconds: float) -> KernelReport:
    text = f"this is not shown for every size: {out_of_time(seconds)}"
    note = Diagnostic("SV902", Severity.NOTE, text, kernel.span)
    stats = {**report.stats, GIVEN_UP: seconds}
    return replace(report, diagnostics=(*report.diagnostics, note), stats=stats)


def may_do_better(report: KernelReport, seconds: float) -> bool:
    """Whether a stored report was given up sooner than after so many seconds."""
    return float(report.stats.get(GIVEN_UP, math.inf)) < seconds


__all__ = ["PROOF_SECONDS", "bounded", "checked", "may_do_better", "out_of_time", "policy_of", "unknown"]
