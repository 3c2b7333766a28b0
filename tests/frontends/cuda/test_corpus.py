"""Every CUDA kernel of the corpus in both policies, for the sizes of its header and for all of them."""

from __future__ import annotations

from functools import cache

import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Severity, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.cuda.options import CudaOptions
from syncverify.frontends.launch_facts import default_path, read_facts
from tests.frontends.cuda.entries import entries

ENTRIES = {e.name: e for e in entries()}
#: Strict checks that take seconds, each of a kernel with a twin here.
SELDOM = {
    "reductions/row_mean.cu", "store_epilogue/fence_by_one_thread.cu", "store_epilogue/fence_per_store.cu",
    "two_async_warps/v6_mended.cu",
}  # fmt: skip
POLICIES = [
    pytest.param(n, p, id=f"{n}-{p}", marks=pytest.mark.slow if n in SELDOM and p is Policy.STRICT else ())
    for n in ENTRIES
    for p in Policy
]
#: Sizes that are open take seconds; ``v1_as_generated.cu`` has the same mistake.
SELDOM_OPEN = {"two_async_warps/v1_as_generated_any_columns.cu"}


@cache
def _report(name: str, policy: Policy, exact: bool) -> KernelReport:
    entry = ENTRIES[name]
    (report,) = check_source(
        read_source(entry.path, CudaOptions(prelude=entry.prelude)),
        facts=read_facts(default_path(entry.path)),
        values=entry.sizes if exact else {},
        policy=policy,
        advice=True,
        scope=ScopeKind.ALL,
        replay=policy is not Policy.STRICT,  # which its verdicts do not wait for
        repairs=False,
    )
    return report


def _found(report: KernelReport, severity: Severity) -> list[tuple[str, int]]:
    return [(d.rule, d.span.line) for d in report.diagnostics if d.severity == severity]


def _holds(name: str, policy: Policy, exact: bool) -> KernelReport:
    expected, report = ENTRIES[name].expected[policy], _report(name, policy, exact)
    assert report.verdict == expected.verdict, report.reason
    errors = _found(report, Severity.ERROR)
    assert errors[:1] == list(expected.errors[:1])
    assert sorted(errors) == sorted(expected.errors)
    assert all(d.span.file == str(ENTRIES[name].path) for d in report.diagnostics)
    return report


@pytest.mark.parametrize(("name", "policy"), POLICIES)
def test_sizes_given(name: str, policy: Policy) -> None:
    report = _holds(name, policy, exact=True)
    assert report.scope.kind is ScopeKind.EXACT


@pytest.mark.parametrize("name", [e.name for e in ENTRIES.values() if e.notes])
def test_advice(name: str) -> None:
    notes = _found(_report(name, Policy.PRACTICAL, exact=True), Severity.NOTE)
    assert sorted(n for n in notes if n[0].startswith("SV6")) == sorted(ENTRIES[name].notes)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(e.name, marks=pytest.mark.slow if e.name in SELDOM_OPEN else ())
        for e in ENTRIES.values()
        if e.expected[Policy.PRACTICAL].errors
    ],
)
def test_smallest_sizes_refute(name: str) -> None:
    """Where the launch file leaves sizes open, the verdict is that of the smallest bad ones."""
    expected, report = ENTRIES[name].expected[Policy.PRACTICAL], _report(name, Policy.PRACTICAL, exact=False)
    assert report.verdict == expected.verdict, report.reason
    errors = [rule for rule, _ in _found(report, Severity.ERROR)]
    assert errors[0] == expected.errors[0][0]
    assert set(errors) <= {rule for rule, _ in expected.errors}


OPEN = {
    "two_async_warps/v6_mended_any_columns.cu": "the number of columns places a row in shared memory",
}
GOOD = [
    pytest.param(
        e.name,
        marks=[pytest.mark.xfail(reason=OPEN[e.name], strict=True), pytest.mark.slow]
        if e.name in OPEN
        else [],
    )
    for e in ENTRIES.values()
    if e.expected[Policy.PRACTICAL].verdict is Verdict.PROVED
]


@pytest.mark.parametrize("name", GOOD)
def test_every_size_is_proved(name: str) -> None:
    """The launch files leave the number of rows open."""
    report = _holds(name, Policy.PRACTICAL, exact=False)
    assert "R" not in report.scope.values


@pytest.mark.parametrize("rows", range(1, 8))
def test_the_mended_kernel_is_proved_for_ragged_sizes_too(rows: int) -> None:
    path = ENTRIES["two_async_warps/v6_mended.cu"].path
    (report,) = check_source(
        read_source(path, CudaOptions(prelude="nvfuser")),
        facts=read_facts(default_path(path)),
        values={"R": rows},
        repairs=False,
    )
    assert report.verdict is Verdict.PROVED, report.reason
