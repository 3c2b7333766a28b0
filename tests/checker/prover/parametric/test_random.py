"""Random programs of tiles and steps: the verdict for every pair of sizes against exact checks of many."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import ScopeKind
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from tests.checker.prover.parametric import generate
from tests.checker.prover.parametric.brute import bare, brute, disagreement, steering

#: ``benchmarks/checker/all_sizes.py --random 300`` judges more of them, at larger sizes.
SEEDS = range(1000, 1012)


def _program(seed: int) -> Kernel:
    (kernel,) = parse(generate.program(seed), f"seed{seed}.syncir")
    return kernel


@pytest.mark.parametrize("seed", [*SEEDS[:3], *(pytest.param(s, marks=pytest.mark.slow) for s in SEEDS[3:])])
def test_the_verdict_is_that_of_all_pairs(seed: int) -> None:
    kernel = _program(seed)
    report = check_kernel(bare(kernel), scope=ScopeKind.ALL)
    assert disagreement(kernel, report, brute(kernel, laps=2, most=30)) is None


def test_programs_are_of_both_kinds_and_steered_by_both_sizes() -> None:
    found = [brute(_program(seed), laps=2, most=25, refutations=1) for seed in SEEDS]
    refuted = sum(bool(b.refuted) for b in found)
    assert 0 < refuted < len(SEEDS)
    assert all(set(steering(_program(seed))) == {"T", "K"} for seed in SEEDS)
