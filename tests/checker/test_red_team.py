"""Kernels that were written against the checker: each was once judged wrongly, by it or by the simulator."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from syncverify.base.diagnostics import Claim, KernelReport, Policy, Severity, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.simulate import ir
from tests.corpus.entries import Entry, read

ENTRIES = {p.name.removesuffix(".syncir"): read(p) for p in sorted((Path(__file__).parent / "red").glob("*"))}
CASES = [pytest.param(e, policy, id=f"{n}-{policy}") for n, e in ENTRIES.items() for policy in Policy]


@cache
def kernel(path: Path) -> Kernel:
    (found,) = parse(path.read_text(encoding="utf-8"), str(path))
    return found


def report(entry: Entry, policy: Policy) -> KernelReport:
    return check_kernel(kernel(entry.path), {}, policy, str(entry.path))


@pytest.mark.parametrize(("entry", "policy"), CASES)
def test_verdict_rule_and_line(entry: Entry, policy: Policy) -> None:
    found = report(entry, policy)
    errors = [(d.rule, d.span.line) for d in found.diagnostics if d.severity == Severity.ERROR]
    assert found.verdict == entry.expected[policy].verdict, found.reason
    assert errors == list(entry.expected[policy].errors)


@pytest.mark.parametrize(("entry", "policy"), CASES)
def test_simulator_agrees(entry: Entry, policy: Policy) -> None:
    result = ir.explore(kernel(entry.path), policy=policy)
    harms = [h for h in result.harms if policy == Policy.STRICT or h.kind != Claim.ORDER_VIOLATION]
    refuted = entry.expected[policy].verdict == Verdict.REFUTED
    assert result.unsupported is None
    assert bool(harms) == refuted
    assert refuted or result.complete


def test_each_mistake_has_a_mended_twin() -> None:
    bad = {n.removesuffix(".bad") for n in ENTRIES if n.endswith(".bad")}
    assert len(bad) >= 20
    assert all(ENTRIES[f"{n}.good"].expected[Policy.PRACTICAL].verdict == Verdict.PROVED for n in bad)


POLLS = {
    "a retry loop that gives up": """
    let done = 0
    for i in 0..10 {
      if done == 0 {
        let p = mbarrier.try b, 0
        done = p
      }
    }""",
    "a result that is used again much later": """
    let p = mbarrier.test b, 0
    if p == 0 {
      mbarrier.wait b, 0
    }
    for i in 0..100 {
      ld.shared y, t[][i % 32 : 1]
    }
    if p == 1 {
      mbarrier.arrive b
    }""",
}
HEAD = """kernel poll {
  launch grid [1] block [64]
  tensor a : f32[32] in
  tensor out : f32[1] out
  shared t : f32[32]
  mbarrier b
  if tid == 0 {
    mbarrier.init b, 1
  }
  bar.sync 0
  if tid == 0 {
    mbarrier.arrive.expect_tx b, 128
    bulk.load t, a[0 : 32], b
    mbarrier.wait b, 0
  }
  if tid == 32 {"""
TAIL = """
    ld.shared x, t[][0 : 1]
    st.global out[0 : 1], x
  }
}
"""


def test_giving_up_on_a_barrier_reads_too_early() -> None:
    (found,) = parse(HEAD + POLLS["a retry loop that gives up"] + TAIL, "poll.syncir")
    report = check_kernel(found)
    assert report.verdict == Verdict.REFUTED
    assert report.diagnostics[0].rule == "SV110"


def test_an_arrival_that_a_poll_steers_laps_a_waiter() -> None:
    """Thread 0 waits for phase 0 too; once the poll has seen it, the arrival completes phase 1."""
    (found,) = parse(HEAD + POLLS["a result that is used again much later"] + TAIL, "poll.syncir")
    report = check_kernel(found)
    assert report.verdict == Verdict.REFUTED
    assert report.diagnostics[0].rule == "SV201"


PEEKS = {
    "peek means the phase before": ("1", "0", "SV110"),
    "wait means the phase before": ("0", "1", "SV201"),
    "both are right": ("0", "0", None),
}


@pytest.mark.parametrize(("peek", "wait", "rule"), PEEKS.values(), ids=PEEKS)
def test_a_peek_and_its_wait(peek: str, wait: str, rule: str | None) -> None:
    text = f"""
    let p = mbarrier.try b, {peek}
    if p == 0 {{
      mbarrier.wait b, {wait}
    }}"""
    (found,) = parse(HEAD + text + TAIL, "peek.syncir")
    report = check_kernel(found)
    assert report.verdict == (Verdict.REFUTED if rule else Verdict.PROVED)
    assert rule in (None, *(d.rule for d in report.diagnostics))


def test_a_loop_that_waits_is_a_wait() -> None:
    (found,) = parse(HEAD + "\n    mbarrier.wait b, 0" + TAIL, "poll.syncir")
    assert check_kernel(found).verdict == Verdict.PROVED


def test_mixed_atomicity_in_a_large_grid_is_not_proved() -> None:
    text = """kernel mixed {
  launch grid [40] block [32]
  tensor total : f32[32] inout
  shared part : f32[32]
  st.shared part[][tid : 1], 1.0
  fence.proxy.async.shared_cta
  warp.sync
  if block == 0 {
    atom.global.add total[tid], 1.0
  } else if tid == 0 {
    bulk.reduce.add total[0 : 32], part
    bulk.commit
    bulk.wait 0
  }
}
"""
    (few,) = parse(text.replace("[40]", "[2]"), "mixed.syncir")
    assert [d.rule for d in check_kernel(few).diagnostics][:1] == ["SV504"]
    (many,) = parse(text, "mixed.syncir")
    assert check_kernel(many).verdict == Verdict.UNKNOWN


@pytest.mark.parametrize(("idle", "rule"), [("mbarrier.wait free, 1", "SV201"), ("", None)])
def test_a_waiter_that_is_lapped_beside_a_poll_that_steers(idle: str, rule: str | None) -> None:
    """The hang is told as the wait that comes too late, not as those that sleep for it."""
    text = f"""kernel k {{
  launch block [128]
  shared tile : f32[4]
  mbarrier free
  mbarrier full
  elect one
  if tid == 0 {{
    mbarrier.init free, 1
    mbarrier.init full, 1
  }}
  bar.sync 0
  if warp == 0 and one {{
    mbarrier.wait free, 1
    mbarrier.arrive full
  }}
  if warp == 1 {{
    {idle}
  }}
  if warp == 2 and one {{
    mbarrier.wait full, 0
    mbarrier.arrive free
  }}
  if warp == 3 and one {{
    let p = mbarrier.try full, 0
    if p == 0 {{
      st.shared tile[][0 : 1], 1.0
    }} else {{
      st.shared tile[][1 : 1], 1.0
    }}
  }}
}}
"""
    (found,) = parse(text, "lapped.syncir")
    report = check_kernel(found)
    assert report.verdict is (Verdict.REFUTED if rule else Verdict.UNKNOWN)
    if rule:
        assert report.diagnostics[0].rule == rule
