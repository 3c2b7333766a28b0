"""The family ``corpus/sizes``: its headers against exact checks, and verdicts for every size against both."""

from __future__ import annotations

from functools import cache

import pytest

from syncverify.base.diagnostics import KernelReport, ScopeKind, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse_file
from syncverify.simulate import ir
from tests.checker.prover.parametric.brute import (
    bare,
    brute,
    disagreement,
    exact,
    fallback,
    possible,
    smaller,
    steering,
    weight,
)
from tests.checker.prover.parametric.gaps import GAPS, SELDOM, SLOW
from tests.corpus.entries import Entry, entries

FAMILY = {e.path.name.removesuffix(".syncir"): e for e in entries() if e.family == "sizes"}
BAD = [name for name, e in FAMILY.items() if e.kind == "bad"]


@cache
def _kernel(name: str) -> Kernel:
    (kernel,) = parse_file(FAMILY[name].path)
    return kernel


@cache
def _report(name: str) -> KernelReport:
    return check_kernel(bare(_kernel(name)), scope=ScopeKind.ALL)


def _known(names: list[str], gaps: dict[str, str]) -> list[object]:
    """Cases; those that are not settled for every size yet must fail, so that the list shrinks."""
    marks = {name: [pytest.mark.xfail(strict=True, reason=why)] for name, why in gaps.items()}
    for name in SELDOM:
        marks.setdefault(name, []).append(pytest.mark.slow)
    return [pytest.param(name, marks=marks.get(name, ())) for name in names]


def _entry(name: str) -> Entry:
    return FAMILY[name]


def test_there_are_enough() -> None:
    assert len(BAD) >= 30


@pytest.mark.parametrize("name", BAD)
def test_the_stated_sizes_are_refuted_and_none_below(name: str) -> None:
    stated, kernel = dict(_entry(name).smallest), _kernel(name)
    assert set(stated) == set(steering(kernel))
    values = {p.name: p.default or 0 for p in kernel.params} | stated
    assert possible(kernel, values)
    assert exact(kernel, values) is Verdict.REFUTED
    assert smaller(kernel, values, most=4) is None


@pytest.mark.parametrize("name", _known([name for name in FAMILY if name not in SLOW], {}))
def test_no_verdict_is_wrong(name: str) -> None:
    report, kernel = _report(name), _kernel(name)
    assert disagreement(kernel, report, brute(kernel, laps=1, most=5), _entry(name).smallest) is None
    if _entry(name).kind == "good":
        assert report.verdict is not Verdict.REFUTED


@pytest.mark.parametrize("name", _known([name for name in FAMILY if name not in SLOW], GAPS))
def test_every_size_is_settled(name: str) -> None:
    report, entry = _report(name), _entry(name)
    assert fallback(report) is None
    if entry.kind == "good":
        assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    else:
        at = {x: report.scope.values[x] for x in entry.smallest}
        assert (report.verdict, weight(at)) == (Verdict.REFUTED, weight(entry.smallest))


@pytest.mark.parametrize(
    "name",
    [
        "third_wrap_parity", "phase_reset_per_tile", "one_more_wait_from_five", "prologue_of_all_stages",
        "quotient_of_a_product", "second_fill_without_release", "consumer_stops_at_six",
        "store_without_a_step",
    ],
)  # fmt: skip
def test_the_simulator_agrees(name: str) -> None:
    bad, good = _kernel(f"{name}.bad"), _kernel(f"{name}.good")
    assert ir.sample(bad, seed=1, runs=20).harms
    assert not ir.sample(good, seed=1, runs=20).harms
    assert not ir.sample(good, dict.fromkeys(steering(good), 4), seed=1, runs=20).harms
