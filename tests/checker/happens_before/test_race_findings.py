"""What is said of two accesses in no order."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import KernelReport, Severity, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse

#: Each block reads a tile, then its peer has it filled by a bulk copy.
KERNEL = """\
kernel k {
  launch grid [2] block [32] cluster [2]
  tensor out : f32[64] out
  shared mine : f32[32] align 128
  shared tile : f32[32] align 128
  mbarrier full
  if tid == 0 {
    mbarrier.init full, 1
    fence.mbarrier_init
  }
  st.shared mine[][tid : 1], 2.0
  st.shared tile[][tid : 1], 1.0
  fence.proxy.async.shared_cta
  cluster.arrive
  cluster.wait
  ld.shared x, tile[][tid : 1]
  RELEASED
  cluster.wait
  ACQUIRED
  if tid == 0 {
    mbarrier.arrive.expect_tx full, 128
    bulk.copy tile @ (1 - rank), mine, full @ (1 - rank)
  }
  mbarrier.wait full, 0
  ld.shared y, tile[][tid : 1]
  st.global out[rank * 32 + tid : 1], x + y
  cluster.arrive
  cluster.wait
}
"""
HALF = "fence.proxy.async.release\n  "
OTHER_HALF = "fence.proxy.async.acquire"


def _report(released: str, acquired: str) -> KernelReport:
    (kernel,) = parse(KERNEL.replace("RELEASED", released).replace("ACQUIRED", acquired), "k.syncir")
    return check_kernel(kernel)


def test_halves_of_a_proxy_fence_may_order_what_a_relaxed_arrival_does_not() -> None:
    """PTX ISA, fence.proxy: a release half forms a release sequence with a later strong write."""
    report = _report(HALF + "cluster.arrive.relaxed", OTHER_HALF)
    assert report.verdict is Verdict.UNKNOWN
    assert "the release half of a proxy fence may synchronize" in str(report.reason)


@pytest.mark.parametrize(
    ("released", "acquired"),
    [("cluster.arrive.relaxed", OTHER_HALF), (HALF + "cluster.arrive.relaxed", "warp.sync")],
    ids=["no release half", "no acquire half"],
)
def test_one_half_orders_nothing(released: str, acquired: str) -> None:
    report = _report(released, acquired)
    assert report.verdict is Verdict.REFUTED
    assert "SV111" in {d.rule for d in report.diagnostics if d.severity is Severity.ERROR}


def test_halves_around_a_release_are_proved() -> None:
    assert _report(HALF + "cluster.arrive", OTHER_HALF).verdict is Verdict.PROVED
