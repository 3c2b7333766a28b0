"""A kernel that goes wrong for a size of 0 or 1 alone gets the assumption that leaves it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from syncverify.api import check
from syncverify.base.diagnostics import KernelReport, Policy, Scope, ScopeKind, Verdict
from syncverify.base.source import UNKNOWN_SPAN
from syncverify.driver.reports.size_proposals import RULE, Bounds, proposed

#: The copy that is issued before the loop is waited for in its first turn: nobody waits if there is none.
EARLY = """
kernel k {
  launch grid [1] block [32]
  param N : i32
  ASSUME
  tensor a : f32[64] in
  shared tile : f32[64]
  mbarrier full
  if tid == 0 {
    mbarrier.init full, 1
    mbarrier.arrive.expect_tx full, 256
    bulk.load tile, a[0 : 64], full
  }
  bar.sync 0
  for i in 0..N {
    mbarrier.wait full, 0
  }
}
"""


def test_the_line_is_proposed_and_what_holds_with_it() -> None:
    (report,) = check(EARLY.replace("ASSUME", "assume N >= 0"))
    assert (report.verdict, dict(report.scope.values)) == (Verdict.REFUTED, {"N": 0})
    last = report.diagnostics[-1]
    assert last.rule == RULE
    assert last.message.startswith("with N >= 1 the kernel is proved")
    assert last.fix is not None and "assume N >= 1" in last.fix
    (proved,) = check(EARLY.replace("ASSUME", "assume N >= 1"))
    assert proved.verdict is Verdict.PROVED


def test_nothing_is_proposed_that_was_not_proved() -> None:
    text = EARLY.replace("ASSUME", "assume N >= 0")
    (report,) = check(text.replace("mbarrier.wait full, 0", "mbarrier.wait full, i % 2"))
    assert report.verdict is Verdict.REFUTED
    assert all(d.rule != RULE for d in report.diagnostics)


REFUTED = KernelReport("k", "k.ptx", Verdict.REFUTED, Policy.PRACTICAL, Scope(ScopeKind.EXACT))


def _asked(answers: Mapping[str, tuple[Verdict, int]]) -> tuple[KernelReport, list[str]]:
    asked = []

    def again(bounds: Bounds) -> tuple[KernelReport, Mapping[str, int]]:
        asked.append(bounds.text)
        verdict, value = answers[bounds.text]
        return replace(REFUTED, verdict=verdict), {"n": value}

    return proposed(REFUTED, {"n": 0}, again, UNKNOWN_SPAN, "write {}"), asked


def test_bounds_grow_while_small_numbers_fail() -> None:
    report, asked = _asked({"n >= 1": (Verdict.REFUTED, 1), "n >= 2": (Verdict.PROVED, 0)})
    assert asked == ["n >= 1", "n >= 2"]
    assert report.diagnostics[0].fix == "if no launch has others: write n >= 2"


def test_numbers_that_may_be_negative_are_left_out() -> None:
    most = "1 <= n <= 2147483647"
    report, asked = _asked({"n >= 1": (Verdict.REFUTED, 2**31), most: (Verdict.PROVED, 0)})
    assert asked == ["n >= 1", most]
    assert report.diagnostics[0].message.startswith(f"with {most} the kernel is proved")


def test_an_undecided_check_proposes_nothing() -> None:
    report, asked = _asked({"n >= 1": (Verdict.UNKNOWN, 0)})
    assert (asked, report.diagnostics) == (["n >= 1"], ())


def test_three_small_numbers_that_fail_are_no_exception() -> None:
    report, asked = _asked({"n >= 1": (Verdict.REFUTED, 1), "n >= 2": (Verdict.REFUTED, 2)})
    assert (asked, report.diagnostics) == (["n >= 1", "n >= 2"], ())
