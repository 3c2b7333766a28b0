"""One small program for each mistake, and the same program mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy, Severity, Verdict
from syncverify.checker.exact_check import check
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse_file
from tests.fixtures.events import system

CASES = [
    # rule, bad, good
    ("SV101", "st(x) a(b) | w(b,0) s(x) sc sw.read(0)", "st(x) pf a(b) | w(b,0) s(x) sc sw.read(0)"),
    ("SV102", "pf st(x) a(b) | w(b,0) s(x) sc sw.read(0)", "st(x) pf a(b) | w(b,0) s(x) sc sw.read(0)"),
    ("SV103", "st(x) pf.g a(b) | w(b,0) s(x) sc sw.read(0)", "st(x) pf.all a(b) | w(b,0) s(x) sc sw.read(0)"),
    ("SV104", "st(x) pf s(x) sc st(x) sw.read(0)", "st(x) pf s(x) sc sw.read(0) st(x)"),
    ("SV105", "ax(f,64) c(f,64,x) w(e,0) ax(f,64) c(f,64,x) w(f,1) | w(f,0) ld(x,r) a(e) use(r)",
     "ax(f,64) c(f,64,x) w(e,0) ax(f,64) c(f,64,x) w(f,1) | w(f,0) ld(x,r) use(r) a(e)"),
    ("SV110", "st(x) | ld(x)", "st(x) a(b) | w(b,0) ld(x)"),
    ("SV111", "st(x) a(g) | w(g,0) ld(x) | w(g,0) st(x)", "st(x) a(g) | w(g,0) ld(x) a(b) | w(b,0) st(x)"),
    ("SV112", "st(x) | st(x)", "st(x) a(b) | w(b,0) st(x)"),
    ("SV202", "ax(b,64) c(b,64,x) | a(b) | w(b,0) ld(x)", "b=2 :: ax(b,64) c(b,64,x) | a(b) | w(b,0) ld(x)"),
    ("SV203", "ax(b,64) c(b,32,x) | w(b,0)", "ax(b,32) c(b,32,x) | w(b,0)"),
    ("SV204", "init(b,1) | a(b)", "init(b,1) bar(0,0) w(b,0) | bar(0,0) a(b)"),
    ("SV205", "a(b) | w(b,0) | inval(b)", "a(b) bar(1,96) | w(b,0) bar(1,96) | bar(1,96) inval(b)"),
    ("SV206", "e(b,2) c(b,2) | a(b) | w(b,0) ld", "ax(b,2) c(b,2) | w(b,0) ld"),
    ("SV210", "w(a,0) a(b) | w(b,0) a(a)", "a(b) w(a,0) | w(b,0) a(a)"),
    ("SV211", "s(x) sc", "s(x) sc sw.read(0)"),
    ("SV212", "ax(b,64) | w(b,0)", "ax(b,64) c(b,64,x) | w(b,0)"),
    ("SV301", "bar(1,64) | bar(1,96) | bar(1,64)", "bar(1,96) | bar(1,96) | bar(1,96)"),
    ("SV302", "bar(0,0) | ld(-)", "bar(0,0) | bar(0,0)"),
    ("SV403", "s(x) sc bar(1,64) bar(2,64) sw.read(0) | sw.read(0) bar(1,64) st(x) bar(2,64)",
     "s(x) sc sw.read(0) bar(1,64) | bar(1,64) st(x)"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "bad", "good"), CASES, ids=[c[0] for c in CASES])
def test_rule(rule: str, bad: str, good: str) -> None:
    o = check(system(bad, bare="init(" in bad))
    errors = [d for d in o.diagnostics if d.severity is Severity.ERROR]
    assert o.verdict is Verdict.REFUTED
    assert [d.rule for d in errors] == [rule]
    assert o.witness is not None and o.witness.rule == rule
    mended = check(system(good, bare="init(" in good))
    assert mended.verdict is Verdict.PROVED, mended.diagnostics


def test_a_count_beyond_the_block_is_filled_by_warps_that_count_twice() -> None:
    for text, verdict in (
        ("st(x) bara(1,96) | bara(1,96) bar(1,96) ld(x)", Verdict.PROVED),
        ("bar(1,96) | bar(1,96)", Verdict.REFUTED),  # for ever: 64 of 96 come
        ("bara(1,128) bar(1,128) | bara(1,128)", Verdict.REFUTED),
    ):
        assert check(system(text)).verdict is verdict
        strict = check(system(text), Policy.STRICT)
        assert "exceeds the block's" in strict.diagnostics[0].message
        assert strict.verdict is Verdict.REFUTED


def test_scope_too_narrow_across_ctas() -> None:
    text = "ca cw st(x@1) a{0}(b@1) ca cw || ca cw w.cl(b,0) ld(x) ca cw"
    bad = check(system(text.format("")))
    assert [d.rule for d in bad.diagnostics if d.severity is Severity.ERROR] == ["SV115"]
    assert check(system(text.format(".cl"))).verdict is Verdict.PROVED


def test_relaxed_ends_need_fences() -> None:
    assert check(system("st(x) a.r(b) | w(b,0) ld(x)")).verdict is Verdict.REFUTED
    assert check(system("st(x) fence a.r(b) | w(b,0) ld(x)")).verdict is Verdict.PROVED
    assert check(system("st(x) a(b) | w.r(b,0) ld(x)")).verdict is Verdict.REFUTED
    assert check(system("st(x) a(b) | w.r(b,0) fence ld(x)")).verdict is Verdict.PROVED


@pytest.mark.parametrize("first", ["st(x) a(b)", "ax(b,64) c(b,64,x)"])
def test_a_relaxed_wait_is_named_as_what_is_missing(first: str) -> None:
    seen, not_seen = (check(system(f"{first} | {wait} ld(x)")) for wait in ("w.r(b,0)", ""))
    assert ".relaxed" in (seen.diagnostics[0].fix or "")
    assert ".relaxed" not in (not_seen.diagnostics[0].fix or "")


def test_a_completion_carries_only_its_own_copy() -> None:
    """What the issuer did before is not visible to those who wait for its copy."""
    assert check(system("st(y) ax.r(b,64) c(b,64,x) | w(b,0) ld(y)")).verdict is Verdict.REFUTED
    assert check(system("st(y) ax(b,64) c(b,64,x) | w(b,0) ld(y)")).verdict is Verdict.PROVED


def test_overlapping_copies_of_lanes() -> None:
    """Lanes of one warp start their own copies: nothing orders those."""
    o = check(system("f=32 :: [32] ax(f,64) c(f,64,x) | w(f,0) ld(x)"))
    assert [d.rule for d in o.diagnostics if d.severity is Severity.ERROR] == ["SV112"]


def test_no_complete_must_not_be_last() -> None:
    o = check(system("b=2 :: a.nc(b) | a(b) | w(b,0)"))
    assert o.verdict is Verdict.REFUTED and o.diagnostics[0].rule == "SV202"
    assert check(system("b=2 :: a.nc(b) a(b) | w(b,0)")).verdict is Verdict.PROVED


def test_cp_async_reaches_others_through_its_barrier_or_group() -> None:
    assert check(system("g(x) ga.noinc(b) | w(b,0) ld(x)")).verdict is Verdict.PROVED
    assert check(system("g(x) gc gw(0) a(b) | w(b,0) ld(x)")).verdict is Verdict.PROVED
    assert check(system("g(x) gc a(b) gw(0) | w(b,0) ld(x)")).verdict is Verdict.REFUTED


def test_bytes_landing_before_their_announcement_are_fine() -> None:
    """The expect may follow the issue if it precedes the same thread's arrival (K11)."""
    assert check(system("c(b,64,x) e(b,64) a(b) | w(b,0) ld(x)")).verdict is Verdict.PROVED


def test_a_hang_of_two_barriers_names_the_cycle_once() -> None:
    o = check(system("w(a,0) a(b) | w(b,0) a(a)"))
    errors = [d for d in o.diagnostics if d.severity is Severity.ERROR]
    assert len(errors) == 1 and errors[0].related
    assert o.witness is not None
    assert {b.waits_on for b in o.witness.blocked} == {"a", "b"}


@pytest.mark.parametrize("policy", list(Policy))
def test_independent_mistakes_are_separate_errors(policy: Policy) -> None:
    """A missing fence, and a source overwritten in flight, in different buffers."""
    text = "st(x) a(b) | w(b,0) s(x) sc sw.read(0) | st(y) pf s(y) sc st(y) sw.read(0)"
    rules = [d.rule for d in check(system(text), policy).diagnostics if d.severity is Severity.ERROR]
    assert sorted(rules) == ["SV101", "SV104"]


def test_too_many_register_requests_are_unknown_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(__file__).parents[2] / "corpus/rulebook/E62_register_pool_exceeded.good.syncir"
    (kernel,) = parse_file(path)
    assert check_kernel(kernel).verdict == Verdict.PROVED
    monkeypatch.setattr("syncverify.checker.happens_before.end_of_run.MOST_SETS", 0)
    report = check_kernel(kernel)
    assert report.verdict == Verdict.UNKNOWN
    assert "setmaxnreg requests" in str(report.reason)
