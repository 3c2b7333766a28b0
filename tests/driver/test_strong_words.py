"""Strong accesses of one word in no order: no data race, but what is read is not determined."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Severity, Verdict

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
.reqntid {threads}
{{
.reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %d<6>;
.shared .align 16 .b8 s[512];
ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;
ld.global.u32 %r2, [%d1];
mov.u32 %r3, s; shl.b32 %r4, %r1, 2; add.u32 %r4, %r3, %r4;
xor.b32 %r5, %r1, {other}; shl.b32 %r5, %r5, 2; add.u32 %r5, %r3, %r5;
setp.eq.u32 %p1, %r1, 0; shr.u32 %r10, %r1, 5; shl.b32 %r10, %r10, 2; add.u32 %r10, %r3, %r10;
{body}
st.global.u32 [%d2], %r8;
ret;
}}
"""
EXCHANGE = "st.{how}.shared.u32 [%r4], %r2; {between} ld.{how}.shared.u32 %r8, [%r5];"
LOOK = "@%p1 st.{how}.shared.u32 [s], %r2; ld.{how}.shared.u32 %r8, [s];"
AGAIN = """st.{how}.shared.u32 [%r4], {first}; bar.warp.sync -1; ld.{how}.shared.u32 %r8, [%r5];
st.{how}.shared.u32 [%r4], {then};"""
PROVED, REFUTED, UNKNOWN = Verdict.PROVED, Verdict.REFUTED, Verdict.UNKNOWN


def report(body: str, threads: int = 32, other: int = 1, **more: str) -> KernelReport:
    text = KERNEL.format(body=body.format(**more), threads=threads, other=other)
    facts = {"grid": 1, "params": {0: {"ptr": "A"}, 1: {"ptr": "B"}}}
    (found,) = syncverify.check(text, facts={"kernel": {"k": facts}}, timeout=60, advice=False)
    return found


def spoken(found: KernelReport) -> bool:
    """Whether a finding says that something is not determined."""
    return any("not determined" in d.message for d in found.diagnostics)


@pytest.mark.parametrize("how", ["volatile", "relaxed.cta"])
@pytest.mark.parametrize(
    ("between", "threads", "other"), [("bar.warp.sync -1;", 32, 1), ("bar.sync 0;", 64, 32)]
)
def test_an_exchange_behind_a_barrier_is_right(how: str, between: str, threads: int, other: int) -> None:
    found = report(EXCHANGE, threads, other, how=how, between=between)
    assert (found.verdict, found.diagnostics) == (PROVED, ())


@pytest.mark.parametrize(("threads", "other"), [(32, 1), (64, 32)])
def test_an_exchange_by_volatile_words_in_no_order(threads: int, other: int) -> None:
    """In a warp, whose lanes run in no common step, and between warps."""
    found = report(EXCHANGE, threads, other, how="volatile", between="")
    assert found.verdict is UNKNOWN and spoken(found)
    assert found.reason is not None and "ends as" in found.reason


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (EXCHANGE, {"how": "relaxed.cta", "between": ""}),  # both values may be meant
        (LOOK, {"how": "volatile"}),
        (LOOK.replace("[s]", "[%r10]"), {"how": "volatile"}),
        (AGAIN, {"how": "volatile", "first": "3", "then": "3"}),  # all executions end alike
    ],
    ids=["relaxed", "one word", "a word of each warp", "one value"],
)
def test_what_no_execution_shows_is_unknown(body: str, more: dict[str, str]) -> None:
    found = report(body.format(**more))
    assert found.verdict is UNKNOWN and spoken(found)


def test_words_that_are_overwritten_before_they_are_read() -> None:
    found = report(AGAIN, how="volatile", first="%r2", then="%r8")
    assert found.verdict is UNKNOWN and found.diagnostics[0].rule == "SV111"
    assert found.reason is not None and "ends as" in found.reason


@pytest.mark.parametrize(
    "body",
    [
        LOOK.format(how="relaxed.cta"),
        "st.relaxed.cta.shared.u32 [s], %r2; bar.warp.sync -1; ld.shared.u32 %r8, [s];",
        "atom.shared.add.u32 %r9, [s], 1; ld.relaxed.cta.shared.u32 %r8, [s];",
    ],
    ids=["look", "last store", "counter"],
)
def test_a_word_that_is_looked_at_is_a_warning(body: str) -> None:
    found = report(body)
    assert found.verdict is PROVED and spoken(found)
    assert {d.severity for d in found.diagnostics} == {Severity.WARNING}


@pytest.mark.parametrize(
    "body",
    [
        "st.volatile.shared.u32 [%r4], %r2; ld.volatile.shared.u32 %r8, [%r4];",
        "st.volatile.shared.u32 [%r4], %r2; ld.volatile.shared.u32 %r9, [%r5]; mov.u32 %r8, 0;",
        "st.volatile.shared.u32 [s], 5; bar.warp.sync -1; ld.volatile.shared.u32 %r8, [s];",
        "st.volatile.shared.u32 [%r4], 0; bar.sync 0; atom.shared.add.u32 %r9, [%r5], 1; bar.sync 0; "
        "ld.volatile.shared.u32 %r8, [%r4];",
    ],
    ids=["own word", "nobody uses it", "one value", "atomics behind barriers"],
)
def test_what_is_determined_is_proved_without_a_word(body: str) -> None:
    found = report(body)
    assert (found.verdict, found.diagnostics) == (PROVED, ())


@pytest.mark.parametrize(("store", "load"), [("st.volatile", "ld"), ("st", "ld.relaxed.cta")])
def test_a_weak_access_beside_a_strong_one_is_a_race(store: str, load: str) -> None:
    found = report(f"{store}.shared.u32 [%r4], %r2; {load}.shared.u32 %r8, [%r5];")
    assert found.verdict is REFUTED and not spoken(found)


def test_a_race_behind_an_exchange_is_found() -> None:
    behind = " bar.sync 0; st.shared.u32 [%r4], %r2; ld.shared.u32 %r8, [%r5];"
    found = report(EXCHANGE + behind, how="relaxed.cta", between="")
    assert found.verdict is REFUTED
