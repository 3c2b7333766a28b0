"""Whole kernels: warp-wide operations, register pools, wgmma, witnesses, and what reports say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from syncverify.base.diagnostics import Claim, Policy, Severity, Verdict
from syncverify.checker.exact_check import Outcome, check
from syncverify.frontends.ir.systems import systems
from syncverify.ir.text.parser import parse
from syncverify.model.events import Unanalysable

FAMILY = Path(__file__).parents[2] / "corpus" / "two_async_warps"


def outcomes(text: str, policy: Policy = Policy.PRACTICAL, **values: int) -> list[Outcome]:
    """What the checker says of every system of a kernel."""
    (kernel,) = parse(text, "test.syncir")
    known = {p.name: p.default for p in kernel.params if p.default is not None} | values
    found = []
    for s in systems(kernel, known):
        assert not isinstance(s, Unanalysable)
        found.append(check(s, policy))
    return found


def errors(text: str, policy: Policy = Policy.PRACTICAL, **values: int) -> set[str]:
    found = outcomes(text, policy, **values)
    return {d.rule for o in found for d in o.diagnostics if d.severity is Severity.ERROR}


def kernel(body: str, launch: str = "block [384] registers 168", declarations: str = "") -> str:
    return f"kernel k {{\n  launch {launch}\n{declarations}\n{body}\n}}\n"


REGISTERS = [
    ("if wg == 2 {\n setmaxnreg.dec 24\n } else {\n setmaxnreg.inc 240\n }", set()),
    ("if wg == 2 {\n setmaxnreg.dec 40\n } else {\n setmaxnreg.inc 240\n }", {"SV304"}),
    ("if wg == 2 {\n setmaxnreg.inc 24\n } else {\n setmaxnreg.inc 240\n }", {"SV304"}),
    ("if warp == 8 {\n setmaxnreg.dec 24\n }", {"SV304"}),
    ("if wg == 2 {\n setmaxnreg.dec 100\n }", {"SV304"}),
    ("if wg == 2 {\n setmaxnreg.dec 40\n setmaxnreg.dec 24\n }", {"SV304"}),
    ("if wg == 2 {\n setmaxnreg.dec 40\n barrier.sync 1, 128\n setmaxnreg.dec 24\n }", set()),
]


@pytest.mark.parametrize(("body", "rules"), REGISTERS)
def test_setmaxnreg(body: str, rules: set[str]) -> None:
    assert errors(kernel(body)) == rules


def test_setmaxnreg_by_one_lane_names_it() -> None:
    (found,) = outcomes(kernel("if warp == 8 {\n elect p\n if p {\n setmaxnreg.dec 24\n }\n }"))
    (error,) = (d for d in found.diagnostics if d.severity is Severity.ERROR)
    assert re.match(
        r"setmaxnreg is executed by cta0.warp8.lanes\d+ only \(missing: 8, 9, 10, 11", error.message
    )


SPLIT = """
if warp == 8 { setmaxnreg.dec 24 }
if warp > 8 { setmaxnreg.dec N }
if wg < 2 { setmaxnreg.inc 240 }
"""


@pytest.mark.parametrize(
    ("body", "practical", "strict"),
    [
        (SPLIT.replace("N", "24"), Verdict.PROVED, Verdict.REFUTED),
        (SPLIT.replace("N", "32"), Verdict.REFUTED, Verdict.REFUTED),
        (SPLIT.replace("warp > 8", "warp == 9").replace("N", "24"), Verdict.REFUTED, Verdict.REFUTED),
    ],
)
def test_setmaxnreg_at_two_instructions(body: str, practical: Verdict, strict: Verdict) -> None:
    """Hardware counts the four warps wherever they ask for one number; the text wants one instruction."""
    for policy, verdict in ((Policy.PRACTICAL, practical), (Policy.STRICT, strict)):
        (o,) = outcomes(kernel(body), policy)
        assert o.verdict is verdict, policy
        assert {d.rule for d in o.diagnostics} == {"SV304"}


def test_a_share_of_a_split_release_that_waits_for_the_registers() -> None:
    late, meet = "barrier.sync 2, 288\n setmaxnreg.dec 24", "240\n barrier.sync 2, 288"
    body = SPLIT.replace("setmaxnreg.dec 24", late).replace("N", "24").replace("240", meet)
    (o,) = outcomes(kernel(body))
    assert o.verdict is not Verdict.PROVED


def test_pool_taken_in_halves() -> None:
    """pool 2: two agents ``take1 take1 return2``: with one unit each, both wait for ever."""
    takes = "setmaxnreg.inc 72\n barrier.sync 1 + wg, 128\n setmaxnreg.inc {}\n barrier.sync 1 + wg, 128"
    body = "if wg == 2 {\n setmaxnreg.dec 48\n } else {\n TAKES\n setmaxnreg.dec 64\n }".replace(
        "TAKES", takes
    )
    (o,) = outcomes(kernel(body.replace("{}", "80"), "block [384] registers 64"))
    assert o.verdict is Verdict.REFUTED and o.diagnostics[0].rule == "SV304"
    assert o.witness is not None and o.witness.claim is Claim.HANG and o.witness.blocked
    assert errors(kernel(body.replace("{}", "72"), "block [384] registers 64")) == set()


MMA = """
  shared sa : bf16[64, 64] align 1024
  shared sb : bf16[64, 64] align 1024
  fragment acc : f32[64, 64]
"""
WGMMA = [
    ("wgmma.fence\n wgmma.mma acc, sa, sb\n wgmma.commit\n wgmma.wait 0\n frag.read x, acc", set()),
    ("wgmma.fence\n wgmma.mma acc, sa, sb\n wgmma.commit\n frag.read x, acc\n wgmma.wait 0", {"SV401"}),
    ("wgmma.fence\n wgmma.mma acc, sa, sb\n frag.read x, acc\n wgmma.commit\n wgmma.wait 0", {"SV401"}),
    ("wgmma.mma acc, sa, sb\n wgmma.commit\n wgmma.wait 0", {"SV402"}),
    ("wgmma.fence\n frag.write acc, 0.0\n wgmma.mma acc, sa, sb\n wgmma.commit\n wgmma.wait 0", {"SV402"}),
    ("frag.write acc, 0.0\n wgmma.fence\n wgmma.mma acc, sa, sb\n wgmma.commit\n wgmma.wait 0", set()),
    ("if warp < 3 {\n wgmma.fence\n wgmma.mma acc, sa, sb\n wgmma.commit\n wgmma.wait 0\n }", {"SV303"}),
    ("if lane < 16 {\n elect p\n }", {"SV303"}),
    ("if lane < 16 {\n warp.sync 65535\n }", set()),
    ("if lane < 16 {\n warp.sync\n }", {"SV302"}),
]


@pytest.mark.parametrize(("body", "rules"), WGMMA)
def test_warp_wide(body: str, rules: set[str]) -> None:
    assert errors(kernel(body, "block [128]", MMA)) == rules


RING = """
kernel ring {
  launch block [160]
  param N : i32 = 6
  tensor a : f32[N * 256] in
  tensor out : f32[N * 256] out
  shared tile : f32[2, 256]
  mbarrier full[2]
  mbarrier empty[2]
  if tid == 128 {
    for s in 0..2 {
      mbarrier.init full[s], 1
      mbarrier.init empty[s], 128
    }
    fence.mbarrier_init
  }
  bar.sync 0
  role producer warps 4..5 {
    elect p
    if p {
      for i in 0..N {
        mbarrier.wait empty[i % 2], (i // 2 + 1) % 2
        mbarrier.arrive.expect_tx full[i % 2], 1024
        bulk.load tile[i % 2], a[i * 256 : 256], full[i % 2]
      }
    }
  }
  role consumer warps 0..4 {
    for i in 0..N {
      mbarrier.wait full[i % 2], (i // 2) % 2
      ld.shared x, tile[i % 2][tid * 2 : 2]
      compute y = x * 2.0
      fence.proxy.async.shared_cta
      mbarrier.arrive empty[i % 2]
      st.global out[i * 256 + tid * 2 : 2], y
    }
  }
}
"""

#: Each line of the ring that synchronizes, and the rules that may name its absence.
NEEDED = {
    "mbarrier.wait empty": {"SV206", "SV203", "SV201", "SV111", "SV112"},
    "mbarrier.wait full": {"SV110", "SV202", "SV201", "SV206"},
    "mbarrier.arrive empty": {"SV202", "SV210"},
    "mbarrier.arrive.expect_tx": {"SV203", "SV210", "SV202"},
    "bulk.load": {"SV203", "SV212"},
    "bar.sync 0": {"SV204"},
}


@pytest.mark.parametrize("policy", list(Policy))
def test_a_ring_is_proved(policy: Policy) -> None:
    assert all(o.verdict is Verdict.PROVED for o in outcomes(RING, policy))


@pytest.mark.parametrize("line", NEEDED)
def test_every_line_of_the_ring_is_needed(line: str) -> None:
    mutant = re.sub(rf"\n *{re.escape(line)}[^\n]*", "", RING, count=1)
    assert mutant != RING
    found = outcomes(mutant)
    assert any(o.verdict is Verdict.REFUTED for o in found)
    rules = {d.rule for o in found for d in o.diagnostics if d.severity is Severity.ERROR}
    assert rules and rules <= NEEDED[line]


def test_witness_names_classes_and_completions() -> None:
    (o, *_) = outcomes(RING.replace("mbarrier.init empty[s], 128", "mbarrier.init empty[s], 129"))
    assert o.witness is not None and o.witness.claim is Claim.HANG
    agents = {s.agent for s in o.witness.steps}
    assert any(re.fullmatch(r"cta0\.warp4\.lanes\d+\.async0", a) for a in agents)
    assert "cta0.warp3.lanes0-31" in agents
    assert {b.waits_on for b in o.witness.blocked} >= {"empty[0]"}
    assert all(s.span.line for s in o.witness.steps)


def test_near_linear() -> None:
    """As many events for each turn, whatever the trip count."""
    small, large = (outcomes(RING, N=n)[0].stats for n in (64, 256))
    assert 3.5 < large["events"] / small["events"] < 4.5


def test_the_report_of_the_generated_kernel() -> None:
    """It names the idle warps' arrivals, the doubled prefill and the dead load, not the full barrier."""
    text = (FAMILY / "v1_as_generated.syncir").read_text()
    for o in outcomes(text):
        found = [d for d in o.diagnostics if d.severity is Severity.ERROR]
        assert [d.rule for d in found] == ["SV202", "SV205", "SV304"]
        root = found[0]
        assert "320 arrivals" in root.message and "count of 256" in root.message
        assert "warp10" in root.message and "warp11" in root.message
        labels = " ".join(x.text for x in root.related)
        assert "a second time" in labels and "nobody ever executes this copy" in labels
        assert "bar[0]" not in root.message and "bar[1]" not in root.message


def test_the_shared_full_barrier_is_blamed_when_its_count_is_one() -> None:
    text = (FAMILY / "v7_shared_barrier_count_1.syncir").read_text()
    for o in outcomes(text):
        root = o.diagnostics[0]
        assert root.rule == "SV202" and re.search(r"bar\[[01]\]", root.message)


def test_the_phase_before_the_first_has_no_number() -> None:
    body = """elect p
    if warp == 0 and p {
      mbarrier.init full, 1
    }
    bar.sync 0
    if warp == 0 and p {
      mbarrier.arrive full
    }
    if warp == 1 {
      mbarrier.wait full, 1
    }"""
    (o,) = outcomes(kernel(body, "block [64]", "mbarrier full"))
    root = o.diagnostics[0]
    assert root.rule == "SV201" and "the phase before phase 0 of full" in root.message
    assert "-1" not in root.message
