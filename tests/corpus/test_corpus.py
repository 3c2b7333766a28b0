"""Every kernel of the corpus in both policies: the checker's verdict, rule and line, and the simulator."""

from __future__ import annotations

from functools import cache

import pytest

from syncverify.base.diagnostics import Claim, KernelReport, Policy, Severity, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse_file
from syncverify.simulate import ir
from tests.corpus.entries import CORPUS, Entry, entries

ENTRIES = {e.name: e for e in entries()}
CASES = [pytest.param(name, policy, id=f"{name}-{policy}") for name in ENTRIES for policy in Policy]

#: Kernels whose every schedule is tried; the others get random schedules.
EXHAUSTIVE = [name for name in ENTRIES if name.startswith("theory/")]
RUNS = 3


@cache
def _kernel(name: str) -> Kernel:
    (kernel,) = parse_file(CORPUS / name)
    return kernel


@cache
def _report(name: str, policy: Policy) -> KernelReport:
    return check_kernel(_kernel(name), policy=policy, file=name)


def _errors(report: KernelReport) -> list[tuple[str, int]]:
    return [(d.rule, d.span.line) for d in report.diagnostics if d.severity == Severity.ERROR]


@pytest.mark.parametrize(("name", "policy"), CASES)
def test_verdict_rule_and_line(name: str, policy: Policy) -> None:
    expected = ENTRIES[name].expected[policy]
    report = _report(name, policy)
    errors = _errors(report)
    assert report.verdict == expected.verdict, report.reason
    assert errors[:1] == list(expected.errors[:1])
    assert sorted(errors[1:]) == sorted(expected.errors[1:])


def _replayed() -> list[object]:
    """Refuted kernels; where both policies say the same, the witness of one is for the slow run."""

    def seldom(e: Entry, policy: Policy) -> bool:
        return policy is Policy.STRICT and e.expected[policy] == e.expected[Policy.PRACTICAL]

    return [
        pytest.param(n, p, id=f"{n}-{p}", marks=pytest.mark.slow if seldom(e, p) else ())
        for n, e in ENTRIES.items()
        for p in Policy
        if e.expected[p].verdict is Verdict.REFUTED
    ]


@pytest.mark.parametrize(("name", "policy"), _replayed())
def test_witness_replays(name: str, policy: Policy) -> None:
    witness = _report(name, policy).witness
    assert witness is not None
    result = ir.replay(witness, _kernel(name))
    assert result.reproduced, result.reason


def _harms(result: ir.Exploration, policy: Policy) -> list[ir.Harm]:
    """What counts as harm: that an operation may land in one phase or another does in strict mode only."""
    return [h for h in result.harms if policy == Policy.STRICT or h.kind != Claim.ORDER_VIOLATION]


def _sampled() -> list[object]:
    """Proved kernels; where both policies prove one, its schedules under practical are for the slow run."""

    def seldom(e: Entry, policy: Policy) -> bool:
        strict = e.expected[Policy.STRICT].verdict is Verdict.PROVED
        return policy is Policy.PRACTICAL and strict and e.name not in EXHAUSTIVE

    return [
        pytest.param(n, p, id=f"{n}-{p}", marks=pytest.mark.slow if seldom(e, p) else ())
        for n, e in ENTRIES.items()
        for p in Policy
        if e.expected[p].verdict is Verdict.PROVED
    ]


@pytest.mark.parametrize(("name", "policy"), _sampled())
def test_proved_kernel_never_fails_in_the_simulator(name: str, policy: Policy) -> None:
    kernel = _kernel(name)
    if name in EXHAUSTIVE:
        result = ir.explore(kernel, policy=policy)
        assert result.complete
    else:
        result = ir.sample(kernel, seed=1, runs=RUNS, policy=policy)
    assert result.unsupported is None
    assert not _harms(result, policy)


@pytest.mark.parametrize("name", EXHAUSTIVE)
def test_exhaustive_simulation_agrees(name: str) -> None:
    for policy in Policy:
        result = ir.explore(_kernel(name), policy=policy)
        assert result.unsupported is None
        refuted = ENTRIES[name].expected[policy].verdict == Verdict.REFUTED
        assert bool(_harms(result, policy)) == refuted
