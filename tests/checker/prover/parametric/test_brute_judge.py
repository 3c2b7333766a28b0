"""The judge itself: it must object to wrong verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syncverify.base.diagnostics import KernelReport, Scope, ScopeKind, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse_file
from tests.checker.prover.parametric.brute import (
    Brute,
    brute,
    candidates,
    disagreement,
    launches,
    smaller,
    stages,
    steering,
    unit,
    weight,
)
from tests.corpus.entries import CORPUS


def _kernel(name: str) -> Kernel:
    (kernel,) = parse_file(CORPUS / f"{name}.syncir")
    return kernel


THIRD_WRAP = _kernel("sizes/third_wrap_parity.bad")
TILES = _kernel("sizes/phase_reset_multiple_of_stages.bad")


def _claimed(kernel: Kernel, verdict: Verdict, **sizes: int) -> KernelReport:
    kind = ScopeKind.EXACT if verdict is Verdict.REFUTED else ScopeKind.ALL
    report = check_kernel(kernel, sizes)
    return replace(report, verdict=verdict, scope=Scope(kind, sizes))


def test_a_proof_of_a_kernel_that_some_size_refutes_is_wrong() -> None:
    found = brute(THIRD_WRAP)
    assert found.refuted[0] == {"N": 7}
    assert "proved" in str(disagreement(THIRD_WRAP, _claimed(THIRD_WRAP, Verdict.PROVED, N=1), found))


def test_a_proof_where_an_exact_check_does_not_decide_is_wrong() -> None:
    claim = _claimed(THIRD_WRAP, Verdict.PROVED, N=1)
    assert disagreement(THIRD_WRAP, claim, Brute(checked=1, unknown=[{"N": 3}])) is not None


def test_a_refutation_that_the_exact_check_does_not_confirm_is_wrong() -> None:
    claim = _claimed(THIRD_WRAP, Verdict.REFUTED, N=6)
    assert "does not refute" in str(disagreement(THIRD_WRAP, claim, brute(THIRD_WRAP)))


def test_a_refutation_that_is_not_the_smallest_is_wrong() -> None:
    claim = _claimed(TILES, Verdict.REFUTED, T=3, K=2)
    assert "is smaller" in str(disagreement(TILES, claim, brute(TILES)))
    assert disagreement(TILES, _claimed(TILES, Verdict.REFUTED, T=2, K=2), brute(TILES)) is None


def test_a_refutation_beyond_the_sizes_tried_is_held_against_those_just_below() -> None:
    far = _kernel("sizes/release_missing_at_step_40.bad")
    assert smaller(far, {"N": 43}) is None
    assert disagreement(far, _claimed(far, Verdict.REFUTED, N=43), brute(far)) is None
    assert "smaller" in str(disagreement(far, _claimed(far, Verdict.REFUTED, N=44), brute(far)))


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("idioms/D02_tma_ring", {"C"}),
        ("idioms/D07_pingpong", {"T", "K"}),
        ("large/persistent_gemm_staging.good", {"TILES", "K"}),
        ("sizes/tile_loop_of_any_grid.good", {"G", "T", "K"}),
        ("two_async_warps/v6_ragged", {"R"}),
    ],
)
def test_the_sizes_that_steer_are_found(name: str, names: set[str]) -> None:
    assert set(steering(_kernel(name))) == names


def test_lengths_are_tried_by_the_tile_and_at_its_edges() -> None:
    kernel = _kernel("idioms/D02_tma_ring")
    assert (unit(kernel, "C"), stages(kernel)) == (32, 4)
    assert {31, 32, 33, 16 * 32} <= set(candidates(kernel, "C"))


def test_sizes_come_in_order_and_keep_the_assumptions() -> None:
    found = launches(TILES)
    assert all(v["K"] % 2 == 0 for v in found)
    assert [weight(v) for v in found] == sorted(map(weight, found))
    assert len({(v["T"], v["K"]) for v in found}) == len(found) == 10 * 9
