"""One thread gives back, for its warpgroup, what all four warps have read beside a product (K8)."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Severity, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse

KERNEL = """\
kernel k {
  param N : i32 = 4
  assume N >= 1
  launch grid [1] block [256]
  tensor a : f32[N * 128] in
  tensor out : f32[128] out
  shared scale : f32[2, 128] align 1024
  shared x : bf16[64, 64] align 1024 swizzle 128B
  shared y : bf16[64, 64] align 1024 swizzle 128B
  mbarrier full[2]
  mbarrier empty[2]
  fragment acc : f32[64, 64]
  elect p
  if warp == 4 and p {
    for s in 0..2 {
      mbarrier.init full[s], FULL
      mbarrier.init empty[s], 1
    }
    fence.mbarrier_init
  }
  bar.sync 0
  role producer warps 4..5 {
    FILL
  }
  role consumer warps 0..4 {
    for i in 0..N {
      mbarrier.wait full[i % 2], (i // 2) % 2
      ld.shared s, scale[i % 2][tid : 1]
      BEFORE
      wgmma.fence
      wgmma.mma acc, x, y, scale_d 0
      wgmma.commit
      BETWEEN
      if tid == 0 {
        mbarrier.arrive empty[i % 2]
      }
      wgmma.wait 0
      st.global out[tid : 1], s
    }
  }
}
"""
BULK = """elect q
    if q {
      for i in 0..N {
        mbarrier.wait empty[i % 2], (i // 2 + 1) % 2
        mbarrier.arrive.expect_tx full[i % 2], 512
        bulk.load scale[i % 2], a[i * 128 : 128], full[i % 2]
      }
    }"""
STORES = """for i in 0..N {
      mbarrier.wait empty[i % 2], (i // 2 + 1) % 2
      let z = lane
      st.shared scale[i % 2][lane * 4 : 4], z
      mbarrier.arrive full[i % 2]
    }"""
USE, OVER = "st.global out[tid : 1], s", "wgmma.wait 0"


def _check(
    fill: str, before: str, between: str, policy: Policy = Policy.PRACTICAL, **options: object
) -> KernelReport:
    text = KERNEL.replace("FILL", fill).replace("FULL", "1" if fill is BULK else "32")
    (kernel,) = parse(text.replace("BEFORE", before).replace("BETWEEN", between), "k.syncir")
    return check_kernel(kernel, policy=policy, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", [{"values": {"N": 5}}, {"scope": ScopeKind.ALL}])
@pytest.mark.parametrize(
    ("fill", "before", "between", "verdict"),
    [
        (BULK, USE, OVER, Verdict.PROVED),
        (BULK, "", OVER, Verdict.REFUTED),  # the value may be on its way still, K1
        (BULK, USE, "", Verdict.REFUTED),  # nobody knows that the product is over
        (STORES, "", OVER, Verdict.PROVED),
        (STORES, "", "", Verdict.REFUTED),
    ],
)
def test_reads_before_a_product(
    sizes: dict[str, object], fill: str, before: str, between: str, verdict: Verdict
) -> None:
    report = _check(fill, before, between, **sizes)
    assert report.verdict is verdict, report.reason
    if verdict is Verdict.PROVED:
        warned = [d for d in report.diagnostics if d.severity is Severity.WARNING]
        assert warned and {d.contested for d in warned} <= {"K1", "K8"}
        assert _check(fill, before, between, Policy.STRICT, **sizes).verdict is Verdict.REFUTED


def test_reads_after_it_are_not_handed_on() -> None:
    read = "ld.shared s, scale[i % 2][tid : 1]\n"
    text = KERNEL.replace(f"      {read}", "").replace(
        "      if tid == 0 {", f"      {read}      if tid == 0 {{"
    )
    text = text.replace("FILL", STORES).replace("FULL", "32").replace("BEFORE", "").replace("BETWEEN", OVER)
    (kernel,) = parse(text, "k.syncir")
    assert check_kernel(kernel, values={"N": 5}).verdict is Verdict.REFUTED


def test_nor_by_another_warpgroup() -> None:
    other = (
        KERNEL.replace("block [256]", "block [384]")
        .replace("warps 4..5", "warps 8..9")
        .replace("warp == 4", "warp == 8")
    )
    other = other.replace("warps 0..4", "warps 0..8").replace("[tid : 1]", "[tid % 128 : 1]")
    text = other.replace("FILL", STORES).replace("FULL", "32").replace("BEFORE", "").replace("BETWEEN", OVER)
    (kernel,) = parse(text, "k.syncir")
    assert check_kernel(kernel, values={"N": 5}).verdict is Verdict.REFUTED
