"""A sample of the corpus: verdicts for every size against exact checks.

``benchmarks/checker/all_sizes.py`` takes all of it.
"""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import ScopeKind
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse_file
from tests.checker.prover.parametric.brute import bare, brute, disagreement
from tests.corpus.entries import CORPUS

SAMPLE = [
    "depth/reset_per_tile.bad", "depth/reset_per_tile.good", "depth/second_tile_staging.bad",
    "depth/third_wrap_consumer.bad", "idioms/D02_tma_ring", "idioms/D12_setmaxnreg_split",
    "idioms/cp_async_gemm",
    "large/persistent_gemm_staging.bad", "large/attention_v_released_early.good",
    "nvfuser/4524_wait_without_predicate.bad", "nvfuser/5862_slots_shared_across_groups.good",
    "rulebook/E31_tx_count_overflow.bad", "rulebook/E66_as_many_mmas_as_stages.bad",
    "rulebook/E67_k_counts_disagree.bad", "two_async_warps/v1_as_generated",
    "two_async_warps/v7_shared_barrier_count_1",
]  # fmt: skip


@pytest.mark.parametrize("name", SAMPLE)
def test_the_verdict_for_every_size_is_that_of_exact_checks(name: str) -> None:
    (kernel,) = parse_file(CORPUS / f"{name}.syncir")
    report = check_kernel(bare(kernel), scope=ScopeKind.ALL)
    assert disagreement(kernel, report, brute(kernel, laps=2, most=16)) is None
