"""The programs that every implementation must get right, with their truth in both policies."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Claim, Policy, Severity, Verdict
from syncverify.checker.exact_check import check
from tests.fixtures.events import system

ONE_LANE_LAPPED = """
empty=1 full=1 ::
  3*(w(empty,1) ax(full,64) c(full,64,x) w(empty,0) ax(full,64) c(full,64,x))
| 3*(w(full,0) ld(x) a(empty) w(full,1) ld(x) a(empty)) & 3*(w(full,0) ld(x) w(full,1) ld(x))
"""

TRUTH = [
    ("e(b,2) c(b,2) | a(b) | w(b,0) ld", "refuted", "SV206", "refuted"),
    ("c(b,2) a(g) | w(b,0) | e(b,2) | w(g,0) a(b)", "refuted", "SV206", "refuted"),
    ("c(b,1) | a(b) | w(b,0) w(b,1)", "refuted", "SV203", "refuted"),
    ("a(b) a(b) | w(b,1)", "unknown", "SV201", "refuted"),
    ("a(b) a(b) | w(b,0)", "refuted", "SV201", "refuted"),
    (ONE_LANE_LAPPED, "refuted", "SV111", "refuted"),
    ("b=2 :: a(b) a(b) & a(b) a(b)", "unknown", "SV206", "refuted"),
    ("b=2 :: a(b) bar(1,64) a(b) | a(b) bar(1,64) a(b)", "proved", None, "refuted"),
    ("ax(b,64) st(x) pf c(b,64,x) | w(b,0) ld(x)", "proved", None, "proved"),
]


@pytest.mark.parametrize(("text", "practical", "rule", "strict"), TRUTH, ids=[t[0][:40] for t in TRUTH])
def test_programs(text: str, practical: str, rule: str | None, strict: str) -> None:
    o = check(system(text), Policy.PRACTICAL)
    assert o.verdict.value == practical
    if rule is not None:
        assert o.diagnostics[0].rule == rule
    assert (o.witness is not None) == (practical == "refuted")
    assert check(system(text), Policy.STRICT).verdict.value == strict


def test_unknown_says_why() -> None:
    o = check(system("a(b) a(b) | w(b,1)"))
    assert o.verdict is Verdict.UNKNOWN
    assert o.reason is not None and "SV" not in o.reason and "b" in o.reason
    assert all(d.severity is not Severity.ERROR for d in o.diagnostics)


def test_strict_claims_an_order_violation_where_nothing_is_harmed() -> None:
    o = check(system("a(b) a(b) | w(b,1)"), Policy.STRICT)
    assert o.witness is not None and o.witness.claim is Claim.ORDER_VIOLATION


def test_mixed_phases_that_nobody_sees_are_no_harm() -> None:
    """Arrivals after the last phase anybody waits for may count in whatever phase they like."""
    ring = "w(f,0) ld a(e) w(f,1) ld a(e)"
    text = f"f=1 e=2 :: ax(f,8) c(f,8) w(e,0) ax(f,8) c(f,8) | {ring} | {ring} a(e)"
    assert check(system(text)).verdict is Verdict.PROVED
    assert check(system(text), Policy.STRICT).verdict is Verdict.REFUTED


def test_mixed_phases_of_a_barrier_that_nobody_ever_waited_on_are_no_harm() -> None:
    text = "b=2 g=2 :: a(b) a(b) a(g) w(g,0) inval(b) | a(b) a(b) a(g)"
    assert check(system(text)).verdict is Verdict.PROVED
    assert check(system(text), Policy.STRICT).verdict is Verdict.REFUTED
    assert check(system(text.replace("inval(b)", "w(b,1) inval(b)"))).verdict is not Verdict.PROVED
    assert (
        check(system(text.replace("a(b) a(b) a(g) w", "ax(b,8) c(b,8) a(b) a(g) w"))).verdict
        is not Verdict.PROVED
    )


def test_one_arrival_never_spans_two_phases() -> None:
    assert check(system("b=1 :: a(b,2)")).verdict is Verdict.REFUTED


def test_lanes_of_a_class_may_run_apart() -> None:
    """Two of three lanes close the phase while the third has yet to store."""
    o = check(system("b=6 :: [3] st(x/) a(b) a(b) a(b) | w(b,0) st(x)"))
    assert o.verdict is Verdict.REFUTED
