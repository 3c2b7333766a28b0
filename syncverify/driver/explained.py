"""Reports without what later steps need, and of refuted kernels with a repair of their first finding."""

from __future__ import annotations

import time
from dataclasses import replace

from syncverify.base.diagnostics import KernelReport, Policy, Severity, Verdict
from syncverify.base.reason import Cause, Reason
from syncverify.checker.explain.repairs import repair
from syncverify.checker.outcome import Budget
from syncverify.driver.ptx.assumptions import ZERO_FLAGS
from syncverify.driver.ptx.made_maps import made_otherwise
from syncverify.driver.reports.shown_repairs import with_repair
from syncverify.driver.reports.unconfirmed import unconfirmed
from syncverify.driver.verdicts import run_system


def bare(report: KernelReport, replays: bool = False) -> KernelReport:
    """A report without what only later steps need. ``replays``: its witness is yet to be replayed, so it
    refutes nothing if the check is ended here; and of a proof that executions are yet to be asked about, that
    they would prove nothing then."""
    if replays and report.refuted_facts is not None and report.policy is not Policy.STRICT:
        report = unconfirmed(report, "the replay of a finding was not ended", Cause.UNFINISHED)
    if replays and report.verdict is Verdict.PROVED and report.doubted is not None:
        why = Reason("the search for an execution that contradicts the proof was not ended", Cause.UNFINISHED)
        report = replace(report, verdict=Verdict.UNKNOWN, reason=why, proof=None)
    return replace(
        report, refuted_system=None, refuted_facts=None, suspect=None, undecided=None, doubted=None
    )


def executions_decide(report: KernelReport) -> bool:
    """Whether executions may decide: an input may do harm where no proof was found, or contradict a proof."""
    return report.undecided is not None or report.doubted is not None


def not_executed(report: KernelReport) -> KernelReport:
    """A report where nothing is executed: a proof is none then that executions may contradict, with zeros in
    memory or with the tensor maps that are given."""
    k = report.doubted
    if report.verdict is not Verdict.PROVED or k is None:
        return report
    if ZERO_FLAGS not in report.assumptions and not made_otherwise(k):
        return report
    why = Reason("an execution may contradict the proof, and none was asked for", Cause.UNFINISHED)
    return replace(report, verdict=Verdict.UNKNOWN, reason=why, proof=None)


def explained(report: KernelReport, policy: Policy, *, further: bool = False) -> KernelReport:
    """``report`` with a repair of its first error, where one is found; ``further``: with more of them."""
    system = report.refuted_system
    if report.verdict is not Verdict.REFUTED or system is None:
        return report
    errors = [i for i, d in enumerate(report.diagnostics) if d.severity is Severity.ERROR]
    if not errors:
        return report
    start = time.perf_counter()
    tried = repair(
        system,
        report.diagnostics,
        lambda s, most, on: run_system(s, policy, _budget(most, on)),
        further=further,
    )
    report = replace(report, seconds=report.seconds + time.perf_counter() - start)
    mended = tried.repair
    if mended is None:
        return replace(report, untold_repairs=tried.untold)
    return replace(with_repair(report, errors[0], mended), untold_repairs=tried.untold)


def _budget(most: int, follows: bool) -> Budget:
    """Of one try: whether the system is proved within so many events; ``follows``: past a hang, too."""
    return Budget(max_events=most, schedules=1, steps=most, explains=follows)
