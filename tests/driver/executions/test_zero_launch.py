"""Blocks that count themselves: executions with zeros in memory refute what no fence orders, in each mode."""

from __future__ import annotations

from pathlib import Path

import pytest

import syncverify
from tests.system.small_ptx import Small, read

KERNELS = Path(__file__).parents[2] / "system" / "small_ptx" / "last_blocks.kernels"
CASES = {k.name: k for k in read(KERNELS) if k.group == "all threads of the last block read"}
FENCED, FIRST_ALONE, NONE = "fences on both sides", "a fence before the count alone", "no fence at all"


def _report(k: Small, policy: str) -> syncverify.KernelReport:
    facts = {"kernel": {"k": {n: x for n, x in k.facts.items() if n != "grid"}}}
    (report,) = syncverify.check(k.text, facts=facts, policy=policy, timeout=60)
    return report


@pytest.mark.parametrize("policy", ["practical", "strict"])
def test_a_count_without_an_acquire_is_refuted_in_each_mode(policy: str) -> None:
    report = _report(CASES[FIRST_ALONE], policy)
    assert str(report.verdict) == "refuted"
    assert report.replay is not None and "holds back who counts" in report.replay.detail
    first = report.diagnostics[0]
    assert first.fix is not None and "between the count and the reads" in first.fix
    assert first.repair is not None and first.repair.edit is not None
    assert str(_report(CASES[FENCED], policy).verdict) == "proved"


def test_a_count_without_any_fence_is_refuted() -> None:
    report = _report(CASES[NONE], "practical")
    first = report.diagnostics[0]
    assert str(report.verdict) == "refuted" and first.repair is not None and first.repair.edit is not None
    assert [line.strip() for line in first.repair.edit.new][::2] == ["fence.acq_rel.gpu;"] * 2
