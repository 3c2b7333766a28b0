"""A race of the canonical run is the harm of the mistake that led to it."""

from __future__ import annotations

from syncverify.base.diagnostics import Claim, Severity, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse

#: The bytes of the second copy are announced after the arrival: the first copy may complete the phase alone.
KERNEL = """\
kernel k {
  launch grid [1] block [64]
  tensor a : f32[128] in
  shared tile : f32[128]
  mbarrier full
  if tid == 0 {
    mbarrier.init full, 1
  }
  bar.sync 0
  if tid == 0 {
    mbarrier.arrive.expect_tx full, 256
    bulk.load tile[][0 : 64], a[0 : 64], full
    mbarrier.expect_tx full, 256
    bulk.load tile[][64 : 64], a[64 : 64], full
  }
  mbarrier.wait full, 0
  ld.shared x, tile[][tid + 64 : 1]
}
"""


def test_what_waiters_read_too_early_is_shown() -> None:
    (kernel,) = parse(KERNEL, "k.syncir")
    report = check_kernel(kernel)
    assert report.verdict is Verdict.REFUTED
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    assert first.rule == "SV206"
    assert report.witness is not None
    assert report.witness.claim is Claim.STALE_VALUE
    assert "is not ordered after the bulk copy's write" in report.witness.message
