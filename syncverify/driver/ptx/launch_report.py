"""The report of one PTX entry for one launch: its systems judged, with the witness and what it rests on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from syncverify.base.diagnostics import Diagnostic, KernelReport, Scope, Verdict
from syncverify.checker.outcome import Outcome
from syncverify.driver.ptx.assumptions import of_warnings
from syncverify.driver.ptx.systems import outcome_of_launch
from syncverify.driver.ptx.task import CheckTask
from syncverify.frontends.ptx.launch.concretize import covered, numbers_of
from syncverify.frontends.ptx.launch.facts import PtxFacts, text
from syncverify.frontends.ptx.syntax.parameter_names import place_names


def check_launch(k: CheckTask) -> KernelReport:
    """The report for the launch of the task's facts."""
    start = time.perf_counter()
    if k.code.compiled is not None:
        k.code.compiled.begin_launch()
    outcome = outcome_of_launch(k)
    report = _with_witness(k, outcome, time.perf_counter() - start)
    if outcome.suspect is None:
        return report
    return replace(report, suspect=_with_witness(k, outcome.suspect, report.seconds))


def check_at(k: CheckTask, values: Mapping[str, int]) -> KernelReport:
    """The report for numbers."""
    return check_launch(k.at(bound(k, values)))


def bound(k: CheckTask, values: Mapping[str, int]) -> PtxFacts:
    """The facts for numbers; extents of the grid that nothing depends on are as small as can be."""
    least = dict(zip(("grid.x", "grid.y", "grid.z"), k.facts.cluster or (1, 1, 1), strict=True))
    known = k.facts.symbols()
    return k.facts.bind({n: v for n, v in least.items() if n in known} | dict(values))


def report_of(k: CheckTask, outcome: Outcome, seconds: float) -> KernelReport:
    """What is said of a kernel whose systems have that outcome."""
    return KernelReport(
        name=k.function.name,
        file=k.module.path,
        verdict=outcome.verdict,
        policy=k.policy,
        scope=_scope(k),
        arch=k.module.target,
        reason=outcome.reason,
        seconds=seconds,
        witness=outcome.witness,
        assumptions=assumptions_of(k, outcome.assumptions, outcome.diagnostics),
        diagnostics=placed(k, outcome.diagnostics),
        stats=outcome.stats,
        refuted_system=outcome.system,
        refuted_facts=k.facts if outcome.verdict is Verdict.REFUTED else None,
        undecided=k if outcome.verdict is Verdict.UNKNOWN else None,
    )


def assumptions_of(
    k: CheckTask, rests_on: Iterable[str], diagnostics: Iterable[Diagnostic]
) -> tuple[str, ...]:
    """What a verdict rests on, with the boxes that were inferred and the conditions that warnings name."""
    boxes = [] if k.boxes is None else k.boxes.latest.assumptions(k.module.path)
    return tuple(dict.fromkeys((*rests_on, *boxes, *of_warnings(diagnostics))))


def placed(k: CheckTask, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Findings, those without a line of their own at the kernel's head."""
    return tuple(d if d.span.line else replace(d, span=k.span) for d in diagnostics)


def _with_witness(k: CheckTask, outcome: Outcome, seconds: float) -> KernelReport:
    witness = outcome.witness
    if witness is not None:
        witness = replace(
            witness,
            kernel=k.function.name,
            file=k.module.path,
            source_hash=k.hash,
            policy=k.policy,
            values=numbers_of(k.facts),
        )
    return report_of(k, replace(outcome, witness=witness), seconds)


def _scope(k: CheckTask) -> Scope:
    values = numbers_of(k.facts)
    names = place_names(k.function.params, list(values))
    return Scope(covered(k.facts), values, tuple(map(text, k.facts.assume)), names)


__all__ = ["assumptions_of", "bound", "check_at", "check_launch", "placed", "report_of"]
