"""Several searches of one protocol: with fewer slots, as it is, and with some slots as they are."""

from __future__ import annotations

import pytest

from benchmarks.checker.kernel_accepts import of_menu
from syncverify.base.diagnostics import Verdict
from syncverify.checker.prover.parametric.strategy import problem_of
from syncverify.checker.prover.protocols import prove
from syncverify.checker.prover.rings.by_induction import protocols
from syncverify.matmul import Schedule, product
from syncverify.matmul.pipeline import build


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(192, 96, consumers=3, registers=(32, 160)),  # a ring keeps its slots, its bytes do not
        pytest.param(Schedule(192, 96, 3, registers=(32, 160), persistent=True), marks=pytest.mark.slow),
    ],
    ids=["one tile", "persistent"],
)
def test_products_are_accepted(schedule: Schedule) -> None:
    problem = problem_of(build(product(), schedule), {}, lambda _: Verdict.UNKNOWN)
    for p in protocols(problem):
        assert prove(p, seeds=(1,)).accepted.obligations > 400


@pytest.mark.slow
def test_runs_are_long_enough_for_products_that_are_persistent_and_split() -> None:
    problem = of_menu("192x64p/4", "ir")
    assert problem is not None
    assert protocols(problem)
