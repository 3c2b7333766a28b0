"""Barriers that several lanes initialize: harmless by one instruction of one warp, before any use."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.driver.certificates import certify, dumps, recheck
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from tests.system.random.compare import judge

RING = (Path(__file__).parents[4] / "corpus/idioms/D02_tma_ring.syncir").read_text()
HEAD = """kernel k {
  launch block [64]
  mbarrier full
  elect p
"""
#: The lanes that initialize part ways at the branch behind the meeting: two classes of the warp.
TAIL = """
  if warp == 0 and p {
    mbarrier.arrive full
  }
  mbarrier.wait full, 0
}
"""
INIT = "if warp == 0 {\n mbarrier.init full, 1\n }\n"
MEET = "bar.sync 0\n"

GOOD = {
    "a warp": INIT + MEET,
    "some of its lanes": "if warp == 0 and lane < 7 {\n mbarrier.init full, 1\n }\n" + MEET,
    "a fence for clusters": "if warp == 0 {\n mbarrier.init full, 1\n fence.mbarrier_init\n }\n"
    "cluster.arrive.relaxed\ncluster.wait\n",
}
BAD = {
    "two warps": ("mbarrier.init full, 1\n" + MEET, "SV205"),
    "two instructions": (
        "if warp == 0 and lane < 7 {\n mbarrier.init full, 1\n }\n"
        "if warp == 0 and lane >= 7 {\n mbarrier.init full, 1\n }\n" + MEET,
        "SV205",
    ),
    "counts of their own": ("if warp == 0 {\n mbarrier.init full, 1 + (lane // 31)\n }\n" + MEET, "SV205"),
    "twice": ("if warp == 0 {\n for i in 0..2 {\n mbarrier.init full, 1\n }\n }\n" + MEET, "SV205"),
    "again after its use": (INIT + MEET + TAIL[:-2] + INIT + MEET, "SV205"),
    "used at once": (INIT, "SV204"),
    "no barrier for the other warp": (INIT + "warp.sync\n", "SV204"),
    "by one lane of the warp first": (
        "if warp == 0 {\n mbarrier.init full, 1\n if p {\n mbarrier.arrive full\n }\n }\n" + MEET,
        "SV205",
    ),
    "a fence by one lane": (
        "if warp == 0 {\n mbarrier.init full, 1\n if p {\n fence.mbarrier_init\n }\n }\n"
        "cluster.arrive.relaxed\ncluster.wait\n",
        "SV204",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_lanes_of_a_warp_that_do_the_same(name: str) -> None:
    text = HEAD + GOOD[name] + TAIL
    found = judge(text)
    assert (found.verdict, found.problem, found.harms) == (Verdict.PROVED, "", ())
    assert "SV205" in found.rules
    strict = judge(text, Policy.STRICT)
    assert (strict.verdict, strict.problem, strict.rules[0]) == (Verdict.REFUTED, "", "SV205")


@pytest.mark.parametrize("name", BAD)
def test_bad_twins(name: str) -> None:
    body, rule = BAD[name]
    found = judge(HEAD + body + TAIL)
    assert (found.verdict, found.problem) == (Verdict.REFUTED, "")
    assert rule in found.rules


@pytest.mark.parametrize("scope", [ScopeKind.EXACT, ScopeKind.ALL])
def test_a_ring_is_certified(scope: ScopeKind) -> None:
    (kernel,) = parse(by_all_lanes("warp == 4"), "ring.syncir")
    found = check_kernel(kernel, scope=scope)
    assert (found.verdict, found.scope.kind) == (Verdict.PROVED, scope)
    (met,) = recheck(dumps([certify(kernel, found)]), "ring.json", {kernel.name: kernel})
    assert met.scope == scope


@pytest.mark.parametrize("who", ["warp >= 3", "warp == 4 and tid % 32 < 8 or warp == 3"])
def test_a_ring_that_two_warps_initialize(who: str) -> None:
    (kernel,) = parse(by_all_lanes(who), "ring.syncir")
    found = check_kernel(kernel, scope=ScopeKind.ALL)
    assert (found.verdict, found.diagnostics[0].rule) == (Verdict.REFUTED, "SV205")


def by_all_lanes(who: str) -> str:
    """The ring of D2, whose barriers are initialized by all lanes that ``who`` names."""
    text = RING.replace("  if warp == 4 {\n    elect p\n    if p {", f"  if {who} {{\n    if tid >= 0 {{", 1)
    assert text != RING
    return text
