"""Arrivals that may land in another phase, in kernels with a mistake that is one in any order."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Claim, KernelReport, Policy, Severity, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse

#: Two lanes arrive twice at a barrier of count 2 for which nobody waits: in which phases is open.
KERNEL = """\
kernel k {
  launch grid [1] block [96]
  tensor out : f32[64] out
  shared tile : f32[64]
  mbarrier done
  if tid == 0 {
    mbarrier.init done, 2
  }
  bar.sync 0
  if warp < 2 {
    let x = lane
    st.shared tile[][tid : 1], x
    FENCE
    MEET
    if tid == 0 {
      bulk.store out[0 : 64], tile
      bulk.commit
      DRAIN
    }
    ARRIVE
  }
  WAIT
}
"""
TWICE = "if tid < 2 {\n mbarrier.arrive done\n mbarrier.arrive done\n }"
FENCE, DRAIN = "fence.proxy.async.shared_cta", "bulk.wait.read 0"
MEET = "bar.sync 1, 64"


def _report(
    fence: str = FENCE,
    drain: str = DRAIN,
    wait: str = "",
    meet: str = MEET,
    policy: Policy = Policy.PRACTICAL,
) -> KernelReport:
    text = KERNEL.replace("FENCE", fence).replace("DRAIN", drain).replace("MEET", meet)
    text = text.replace("ARRIVE", TWICE).replace("WAIT", wait)
    (kernel,) = parse(text, "k.syncir")
    return check_kernel(kernel, policy=policy)


def _rules(report: KernelReport, severity: Severity) -> list[str]:
    return [d.rule for d in report.diagnostics if d.severity is severity]


def test_alone_they_are_a_warning() -> None:
    report = _report()
    assert report.verdict is Verdict.UNKNOWN
    assert "no schedule that was tried does harm" in (report.reason or "")
    assert _rules(report, Severity.WARNING)


@pytest.mark.parametrize(
    ("what", "rule"), [({"drain": ""}, "SV211"), ({"fence": ""}, "SV101"), ({"meet": ""}, "SV110")]
)
def test_the_mistake_that_does_the_harm_is_named(what: dict[str, str], rule: str) -> None:
    report = _report(**what)
    assert report.verdict is Verdict.REFUTED
    assert _rules(report, Severity.ERROR) == [rule]
    assert report.witness is not None and report.witness.rule == rule
    assert set(_rules(_report(), Severity.WARNING)) <= set(_rules(report, Severity.WARNING))


def test_strict_mode_refutes_the_order_too() -> None:
    found = _rules(_report(fence="", policy=Policy.STRICT), Severity.ERROR)
    assert len(found) == 2 and "SV101" in found


def test_harm_of_their_own_stays_theirs() -> None:
    """With a wait for phase 0 that nothing holds the arrivals back for, one may sleep for ever."""
    report = _report(drain="", wait="if warp == 2 {\n mbarrier.wait done, 0\n }")
    assert report.verdict is Verdict.REFUTED
    assert report.witness is not None and report.witness.claim is Claim.HANG
    assert "SV211" not in _rules(report, Severity.ERROR)


#: Scales that came by copies are read beside a product, and the slot is given back by one lane of a warp.
SCALES = """\
kernel k {
  launch grid [1] block [256]
  tensor a : f32[3 * 128] in
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
      mbarrier.init full[s], 1
      mbarrier.init empty[s], 4
    }
    fence.mbarrier_init
  }
  bar.sync 0
  role producer warps 4..5 {
    elect q
    if q {
      for i in 0..3 {
        mbarrier.wait empty[i % 2], (i // 2 + 1) % 2
        mbarrier.arrive.expect_tx full[i % 2], 512
        bulk.load scale[i % 2], a[i * 128 : 128], full[i % 2]
      }
    }
  }
  role consumer warps 0..4 {
    elect q
    for i in 0..3 {
      mbarrier.wait full[i % 2], (i // 2) % 2
      ld.shared s, scale[i % 2][tid : 1]
      BEFORE
      wgmma.fence
      wgmma.mma acc, x, y, scale_d 0
      wgmma.commit
      wgmma.wait 0
      BETWEEN
      if q {
        mbarrier.arrive empty[i % 2]
      }
      st.global out[tid : 1], s
    }
  }
}
"""
FENCED = "fence.proxy.async.shared_cta"
BESIDE = [
    ("", "", ["SV105"]),  # of all lanes: a fence would order their reads too
    (FENCED, "", []),  # K8: who knows that the product is over knows that all had read
    ("", f"{FENCED}\n warp.sync", []),
    ("", "warp.sync", ["SV105"]),
]


@pytest.mark.parametrize(("before", "between", "rules"), BESIDE)
def test_reads_beside_a_product(before: str, between: str, rules: list[str]) -> None:
    (kernel,) = parse(SCALES.replace("BEFORE", before).replace("BETWEEN", between), "k.syncir")
    report = check_kernel(kernel)
    assert _rules(report, Severity.ERROR) == rules
    assert report.verdict is (Verdict.REFUTED if rules else Verdict.PROVED)


#: Tiles of 64 of 80 words are written and stored in turn; nobody but the issuer waits for the store.
PADDED = """\
kernel k {
  launch grid [1] block [64]
  tensor out : f32[2 * 80] out
  shared tile : f32[80]
  for i in 0..2 {
    let x = lane
    st.shared tile[][tid : 1], x
    FENCE
    bar.sync 0
    if tid == 63 {
      bulk.store out[i * 80 : 80], tile
      bulk.commit
      bulk.wait.read 0
    }
    MEET
  }
}
"""


@pytest.mark.parametrize(
    ("fence", "meet", "rules"),
    [(FENCED, "bar.sync 0", []), (FENCED, "", ["SV104"]), ("", "bar.sync 0", ["SV101"])],
)
def test_bytes_that_nobody_writes_hide_no_order(fence: str, meet: str, rules: list[str]) -> None:
    (kernel,) = parse(PADDED.replace("FENCE", fence).replace("MEET", meet), "k.syncir")
    assert _rules(check_kernel(kernel), Severity.ERROR) == rules


def test_a_fence_waits_for_no_store() -> None:
    (kernel,) = parse(PADDED.replace("FENCE", "").replace("MEET", ""), "k.syncir")
    assert _rules(check_kernel(kernel), Severity.ERROR) == ["SV101", "SV104"]


#: Two groups of warps take turns; in each, a warp reads what its neighbour wrote.
TURNS = """\
kernel k {
  launch grid [1] block [128]
  shared tile : f32[2, 64]
  mbarrier turn[2]
  if tid == 0 {
    for g in 0..2 {
      mbarrier.init turn[g], 64
    }
  }
  bar.sync 0
  let g = (warp // 2)
  for i in 0..3 {
    mbarrier.wait turn[g], (i + 1 - g) % 2
    let x = lane
    st.shared tile[g][tid % 64 : 1], x
    MEET
    ld.shared y, tile[g][(tid + 32) % 64 : 1]
    MEET
    mbarrier.arrive turn[1 - g]
  }
}
"""


@pytest.mark.parametrize(
    ("meet", "rules"),
    [("bar.sync 1 + g, 64", set[str]()), ("", {"SV110", "SV111"}), ("warp.sync", {"SV110", "SV111"})],
)
def test_a_turn_that_is_free_at_first_explains_no_race_beside_it(meet: str, rules: set[str]) -> None:
    (kernel,) = parse(TURNS.replace("MEET", meet), "k.syncir")
    report = check_kernel(kernel)
    assert report.verdict is (Verdict.REFUTED if rules else Verdict.PROVED), report.reason
    assert set(_rules(report, Severity.ERROR)) <= rules
