"""Contested points: what strict refuses and practical accepts with a warning."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Policy, Severity
from syncverify.checker.exact_check import check
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse_file
from tests.corpus.entries import CORPUS
from tests.fixtures.events import system

FENCED = "ax(f,64) c(f,64,x) w(e,0) pf ax(f,64) c(f,64,x) w(f,1)"
REFILL = "ax(f,64) c(f,64,x) w(e,0) ax(f,64) c(f,64,x) w(f,1)"

POINTS = [
    # point, program, practical, strict
    ("K1 fence", f"{REFILL} | w(f,0) ld(x,r) pf a(e) use(r)", "proved", "proved"),
    ("K1 used before", f"{REFILL} | w(f,0) ld(x,r) use(r) a(e)", "proved", "refuted"),
    ("K1 acq_rel fence", f"{REFILL} | w(f,0) ld(x,r) fence a(e) use(r)", "proved", "refuted"),
    ("K1 nothing", f"{REFILL} | w(f,0) ld(x,r) a(e) use(r)", "refuted", "refuted"),
    ("K1 producer fences", f"{FENCED} | w(f,0) ld(x,r) a(e) use(r)", "proved", "refuted"),
    ("K2 writer", "st(x) pf a(b) | w(b,0) s(x) sc sw.read(0)", "proved", "proved"),
    ("K2 issuer", "st(x) a(b) | w(b,0) pf s(x) sc sw.read(0)", "proved", "refuted"),
    ("K2 one writer of two", "b=2 :: st(x[0:16]) pf a(b) | st(x[16:32]) a(b) | w(b,0) s(x) sc sw.read(0)",
     "refuted", "refuted"),
    ("K6", "g(x) gc gw(0) a(b) | w(b,0) s(x) sc sw.read(0)", "proved", "refuted"),
    ("K9 .read", "s(x) sc sw.read(0) st(x)", "proved", "proved"),
    ("K10 no fence after init", "ax(b,64) c(b,64,x) | w(b,0) ld(x)", "proved", "proved"),
    ("K14", "b=2 :: a(b) bar(1,64) a(b) | a(b) bar(1,64) a(b)", "proved", "refuted"),
]  # fmt: skip


@pytest.mark.parametrize(("point", "text", "practical", "strict"), POINTS, ids=[p[0] for p in POINTS])
def test_point(point: str, text: str, practical: str, strict: str) -> None:
    assert check(system(text), Policy.PRACTICAL).verdict.value == practical
    assert check(system(text), Policy.STRICT).verdict.value == strict


@pytest.mark.parametrize(("point", "text", "practical", "strict"), POINTS, ids=[p[0] for p in POINTS])
def test_what_only_strict_refuses_is_a_warning(point: str, text: str, practical: str, strict: str) -> None:
    o = check(system(text), Policy.PRACTICAL)
    contested = {d.contested for d in o.diagnostics if d.severity is Severity.WARNING}
    if (practical, strict) == ("proved", "refuted"):
        assert point.split()[0] in contested
    elif practical == "proved":
        assert not contested


def test_a_remote_arrive_at_cta_scope_names_the_contested_point() -> None:
    path = CORPUS / "rulebook" / "E50_remote_arrive_at_cta_scope.bad.syncir"
    (kernel,) = parse_file(path)
    error = check_kernel(kernel, file=str(path)).diagnostics[0]
    assert (error.rule, error.contested) == ("SV115", "K4")
