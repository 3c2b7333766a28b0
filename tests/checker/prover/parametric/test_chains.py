"""Random kernels whose blocks hand on flags: what is proved for every grid against exact checks."""

from __future__ import annotations

from functools import cache

import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.checker.prover.parametric.strategy import all_sizes
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from tests.checker.prover.parametric.chains import Chain

SEEDS = range(60)


@cache
def _kernel(seed: int) -> Kernel:
    (kernel,) = parse(Chain(seed).text(), f"chain{seed}")
    return kernel


@cache
def _proved(seed: int) -> bool:
    """Whether it is proved for every grid; no exact check is made for it."""
    return all_sizes(_kernel(seed), {}, Policy.PRACTICAL, lambda _: Verdict.UNKNOWN).verdict is Verdict.PROVED


@pytest.mark.parametrize(
    "seed", [*SEEDS[:30], *(pytest.param(s, marks=pytest.mark.slow) for s in SEEDS[30:])]
)
def test_what_is_proved_is_right_in_small_grids(seed: int) -> None:
    if _proved(seed):
        for blocks in range(Chain(seed).least, 7):
            assert check_kernel(_kernel(seed), {"S": blocks}).verdict is Verdict.PROVED


def test_chains_are_of_both_kinds() -> None:
    proved = [seed for seed in SEEDS if _proved(seed)]
    assert len(SEEDS) // 8 < len(proved) < len(SEEDS) * 7 // 8
    report = check_kernel(_kernel(proved[0]), scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
