"""Verdicts for every size, held against exact checks of many sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.checker.prover.parametric.strategy import all_sizes
from syncverify.driver.files import read_source
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from tests.checker.prover.reach.kernels import adding, ring, skipping

CORPUS = Path(__file__).parents[4] / "corpus"


def every(kernel: Kernel) -> tuple[Verdict, dict[str, int]]:
    found = all_sizes(kernel, {}, Policy.PRACTICAL, lambda v: check_kernel(kernel, v).verdict)
    return found.verdict, dict(found.values)


def exact(kernel: Kernel, n: int) -> Verdict:
    return check_kernel(kernel, {"N": n}).verdict


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_a_good_ring_is_proved_for_every_size(stages: int) -> None:
    kernel = ring(stages)
    assert every(kernel) == (Verdict.PROVED, {})
    assert {exact(kernel, n) for n in range(4 * stages + 8)} == {Verdict.PROVED}


#: Mistakes, and the smallest size that shows each.
MISTAKES = {
    "one tile too many": (ring(2, consumer_trips="N + 1"), 0),
    "an odd number of tiles": (ring(2, consumer_trips="(N + 1) // 2 * 2"), 1),
    "the parity stays after the first lap": (ring(2, parity="min(i // {S}, 1)"), 5),
    "the third wrap": (ring(2, parity="min(i // {S}, 2) % 2"), 7),
    "a release left out late": (ring(2, release=skipping("i != 4")), 7),
    "a release left out in the tenth tile": (ring(3, release=skipping("i != 9")), 13),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_smallest_size_that_refutes(name: str) -> None:
    kernel, smallest = MISTAKES[name]
    verdict, values = every(kernel)
    assert (verdict, values.get("N")) == (Verdict.REFUTED, smallest)
    assert all(exact(kernel, n) is Verdict.PROVED for n in range(smallest))
    assert exact(kernel, smallest) is Verdict.REFUTED


def test_a_mistake_in_the_fortieth_tile_is_not_saturated_away() -> None:
    kernel = ring(2, release=skipping("i != 40"))
    verdict, values = every(kernel)
    assert (verdict, values.get("N")) == (Verdict.REFUTED, 43)


@pytest.mark.slow  # corpus/sizes/release_missing_at_step_1000.bad, in parametric/test_family.py
def test_a_mistake_far_out_is_never_proved() -> None:
    assert every(ring(2, release=skipping("i != 1000")))[0] is not Verdict.PROVED


def test_a_count_that_grows_is_never_proved() -> None:
    kernel = adding(4096)
    assert exact(kernel, 255) is Verdict.PROVED
    assert exact(kernel, 256) is Verdict.REFUTED
    assert every(kernel)[0] is not Verdict.PROVED


def test_sizes_that_the_kernel_excludes_do_not_refute() -> None:
    even = ring(2, consumer_trips="(N + 1) // 2 * 2", assume="N % 2 == 0 and N >= 0")
    assert every(even)[0] is Verdict.PROVED


def test_a_bounded_size_is_enumerated() -> None:
    kernel = ring(2, release=skipping("i != 9"), assume="N >= 1 and N <= 6")
    assert every(kernel)[0] is Verdict.PROVED


@pytest.mark.parametrize("fact", ["S == 1 or S == 2", "S >= 1 and S <= 2", "S == 2 or S == 3"])
def test_a_grid_that_facts_tell_is_that_of_each_case(fact: str) -> None:
    text = f"""kernel pairs {{
      launch grid [S] block [32]
      param S : i32 = 1
      assume {fact}
      shared tile : f32[64]
      if grid == 2 {{
        if tid == 0 {{
          st.shared tile[][0 : 2], 1.0
        }}
        if tid == 1 {{
          ld.shared x, tile[][0 : 2]
        }}
      }}
    }}"""
    (kernel,) = parse(text)
    report = check_kernel(kernel, scope=ScopeKind.ALL)
    assert (report.verdict, dict(report.scope.values)) == (Verdict.REFUTED, {"S": 2})


@pytest.mark.parametrize(
    "path",
    [
        "depth/odd_trip_count", "depth/third_wrap_consumer", "depth/third_wrap_saturated_phase",
        "idioms/D02_tma_ring", "idioms/D05_producer_tail", "idioms/D06_multicast_cluster_release",
        "idioms/D08_tma_store_epilogue", "idioms/D12_setmaxnreg_split", "idioms/D15_dsmem_push",
        "idioms/cp_async_gemm", "idioms/cp_async_mbarrier_ring", "idioms/prefetch_pipeline",
        "hardware/conflicted_store", "more/relaxed_arrive", "nvfuser/3561_wgmma_not_waited",
        "sizes/pairs_drop_the_odd_tile", "two_async_warps/v6_mended", "two_async_warps/v6_ragged",
    ],
)  # fmt: skip
def test_good_kernels_of_the_corpus_are_proved_for_every_size(path: str) -> None:
    file = next(p for p in (CORPUS / f"{path}.good.syncir", CORPUS / f"{path}.syncir") if p.exists())
    (kernel,) = read_source(file).kernels
    report = check_kernel(kernel, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind, report.scope.values) == (Verdict.PROVED, ScopeKind.ALL, {})


def test_a_fixed_parameter_makes_the_scope_partial() -> None:
    report = check_kernel(ring(), {"B": 3}, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind, dict(report.scope.values)) == (
        Verdict.PROVED, ScopeKind.PARTIAL, {"B": 3},
    )  # fmt: skip


def test_what_is_not_shown_for_every_size_is_said_and_stays_exact() -> None:
    text = (CORPUS / "idioms" / "D10b_stream_k_fixup.syncir").read_text(encoding="utf-8")
    (kernel,) = parse(text.replace(">= block", ">= block + 1").replace(", block + 1", ", block + 2"))
    report = check_kernel(kernel, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.EXACT)


#: Loops in loops, sizes that are read again, blocks of any grid: right for all sizes.
NESTED = [
    "depth/reset_per_tile.good",
    "sizes/block_dependent_trips.good",
    "sizes/phase_reset_by_consumer.good",
    "sizes/persistent_phase_reset.good",
    "sizes/tile_loop_of_any_grid.good",
]


@pytest.mark.parametrize("path", NESTED)
def test_sizes_that_steer_together_are_proved(path: str) -> None:
    (kernel,) = read_source(CORPUS / f"{path}.syncir").kernels
    assert every(kernel)[0] is Verdict.PROVED


#: Mistakes of nested loops, and the smallest sizes that show them.
NESTED_MISTAKES = {
    "depth/reset_per_tile.bad": {"TILES": 2, "K": 2},
    "sizes/phase_reset_by_consumer.bad": {"T": 2, "K": 1},
    "sizes/phase_reset_multiple_of_stages.bad": {"T": 2, "K": 2},
    "sizes/release_missing_at_step_12.bad": {"T": 5, "K": 3},
}


@pytest.mark.parametrize("path", NESTED_MISTAKES)
def test_nested_mistakes_are_shown_at_small_sizes(path: str) -> None:
    (kernel,) = read_source(CORPUS / f"{path}.syncir").kernels
    verdict, values = every(kernel)
    assert verdict is Verdict.REFUTED
    assert sum(values.values()) <= sum(NESTED_MISTAKES[path].values())


def test_an_answer_does_not_cover_its_own_question() -> None:
    # both answers of `i >= 40` stand at the point that asked: neither may be taken for the other's future
    for at in (20, 40, 200):  # one further out: above
        verdict, values = every(ring(1, release=skipping(f"i != {at}")))
        assert (verdict, values.get("N")) == (Verdict.REFUTED, at + 2)
