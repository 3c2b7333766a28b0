"""Which lanes are elected: PTX leaves the choice open, and what may depend on it is an assumption."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Policy
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.syntax.parser import parse

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k()
{
.reg .pred %p<8>;
.reg .b32 %r<16>;
.reg .b64 %rd<4>;
.local .align 8 .b8 l[16];
.shared .align 16 .b8 s[256];
mov.u32 %r0, %tid.x;
and.b32 %r1, %r0, 31;
shl.b32 %r2, %r0, 2;
mov.u32 %r3, s;
add.u32 %r4, %r3, %r2;
elect.sync %r5|%p1, -1;
BODY
ret;
}
"""
LOWEST = "elect.sync elects the lowest lane, as sm_90 does"
#: The elected lane stores at the word of that number, and all lanes read word 24.
OF_R6 = (
    "shl.b32 %r6, %r6, 2; add.u32 %r6, %r6, %r3; @%p1 st.shared.u32 [%r6], 7; ld.shared.u32 %r7, [%r3+96];"
)
RIGHT = {
    "one place": "@%p1 st.shared.u32 [%r3], %r0;",
    "its own place, then all meet": "@%p1 st.shared.u32 [%r4], %r0; bar.warp.sync -1;"
    "ld.shared.u32 %r6, [%r3];",
    "a guard of its own leaves nobody out": "@!%p1 bra E; setp.eq.u32 %p2, %r1, 32;"
    "@%p2 st.shared.u32 [%r3], %r0; E: setp.eq.u32 %p3, %r1, 31; @%p3 ld.shared.u32 %r7, [%r3];",
    "whether shfl has a lane to take from, then all meet": "mov.u32 %r6, 7;"
    "@%p1 st.shared.u32 [%r3], %r6; shfl.sync.up.b32 %r7|%p2, %r6, 1, 0, -1; bar.warp.sync -1;"
    "@!%p2 ld.shared.u32 %r8, [%r3];",
    "a branch by its number decides between two other places": "mov.u32 %r6, %r3; setp.ne.u32 %p2, %r1, 5;"
    "@%p2 bra E; add.u32 %r6, %r3, 64; E: @%p1 st.shared.u32 [%r6], %r0; setp.eq.u32 %p3, %r1, 31;"
    "@%p3 ld.shared.u32 %r7, [%r3+32];",
    "its own place": "@%p1 st.shared.u32 [%r4], %r0; ld.shared.u32 %r6, [%r4];",
    "a place that lane 0 gives all": "mov.u32 %r6, %laneid; shfl.sync.idx.b32 %r6, %r6, 0, 31, -1;" + OF_R6,
    "a place through its own memory": "mov.u32 %r6, 20; st.local.u32 [l], %r6; ld.local.u8 %r6, [l];" + OF_R6,
}
WRONG = {
    "a place by its number": "sub.u32 %r6, 31, %r1; shl.b32 %r6, %r6, 2; add.u32 %r6, %r6, %r3;"
    "@%p1 st.shared.u32 [%r6], %r0; ld.shared.u32 %r7, [%r3];",
    "the first place of lanes": "@%p1 st.shared.u32 [%r3], %r0; ld.shared.u32 %r7, [%r4];",
    "a place that is chosen by who it is": "mov.u32 %r6, %r3; @%p1 add.u32 %r6, %r4, 4;"
    "@%p1 st.shared.u32 [%r6], %r0; ld.shared.u32 %r7, [%r3+124];",
    "its number decides": "setp.eq.u32 %p2, %r5, 7; @%p2 st.shared.u32 [%r3], %r0;",
    "what lane 0 says of it decides": "selp.u32 %r6, 1, 0, %p1; shfl.sync.idx.b32 %r6, %r6, 0, 31, -1;"
    "setp.eq.u32 %p2, %r6, 0; @%p2 st.shared.u32 [%r3], %r0;",
    "its number places": "shl.b32 %r6, %r5, 2; add.u32 %r6, %r6, %r3; setp.eq.u32 %p2, %r0, 31;"
    "@%p2 st.shared.u32 [%r6], %r0; ld.shared.u32 %r7, [%r3+64];",
    "a guard of its own leaves one lane out": "@!%p1 bra E; setp.eq.u32 %p2, %r1, 5;"
    "@%p2 st.shared.u32 [%r3], %r0; E: setp.eq.u32 %p3, %r1, 31; @%p3 ld.shared.u32 %r7, [%r3];",
    "whether shfl has a lane to take from says who reads": "mov.u32 %r6, 7;"
    "@%p1 st.shared.u32 [%r3], %r6; shfl.sync.up.b32 %r7|%p2, %r6, 1, 0, -1; @!%p2 ld.shared.u32 %r8, [%r3];",
    "a branch by its number decides where": "mov.u32 %r6, %r3; setp.ne.u32 %p2, %r1, 5; @%p2 bra E;"
    "add.u32 %r6, %r3, 64; E: @%p1 st.shared.u32 [%r6], %r0; setp.eq.u32 %p3, %r1, 31;"
    "@%p3 ld.shared.u32 %r7, [%r3+64];",
    "a place that the first of eight lanes gives": "mov.u32 %r6, %laneid;"
    "shfl.sync.idx.b32 %r6, %r6, 0, 0x181f, -1;" + OF_R6,
    "bytes of its lane, by its own memory": "mov.u32 %r6, %laneid; st.local.u32 [l], %r6;"
    "ld.local.u8 %r6, [l];" + OF_R6,
    "its lane by a generic address": "mov.u32 %r6, %laneid; mov.u64 %rd2, l; cvta.local.u64 %rd2, %rd2;"
    "st.u32 [%rd2], %r6; ld.u32 %r6, [%rd2];" + OF_R6,
    "its number by its own memory": "st.local.u32 [l], %r5; ld.local.u8 %r6, [l]; setp.eq.u32 %p2, %r6, 7;"
    "@%p2 st.shared.u32 [%r3], %r0;",
    "a carry by its lane": "mov.u32 %r6, %laneid; mov.u32 %r7, -1; add.cc.u32 %r7, %r7, %r6;"
    "addc.u32 %r6, 0, 0; mul.lo.u32 %r6, %r6, 24;" + OF_R6,
    "half of a warp elects": "setp.lt.u32 %p3, %r0, 16; @%p3 bra E; elect.sync _|%p2, 0xffff0000;"
    "@%p2 st.shared.u32 [%r3], %r0; setp.eq.u32 %p4, %r0, 16; @%p4 ld.shared.u32 %r7, [%r3]; E:",
}


def judged(body: str, policy: Policy, threads: int = 32) -> tuple[str, tuple[str, ...]]:
    facts = {"kernel": {"k": {"block": [threads], "grid": [1]}}}
    (report,) = syncverify.check(TEXT.replace("BODY", body), facts=facts, policy=policy, advice=False)
    return str(report.verdict), report.assumptions


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_right_ones_are_proved_whoever_is_elected(body: str) -> None:
    assert judged(body, Policy.STRICT) == ("proved", ())


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_wrong_ones_are_refuted_or_say_who_is_elected(body: str) -> None:
    assert judged(body, Policy.STRICT)[0] == "refuted"
    verdict, assumed = judged(body, Policy.PRACTICAL)
    assert verdict == "refuted" or LOWEST in assumed


#: Lanes part twice, the second time behind a branch that one size of many takes.
LATE = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
{
.reg .pred %p<8>;
.reg .b32 %r<16>;
.reg .b64 %rd<4>;
.shared .align 8 .b8 bar[16];
mov.u32 %r0, %tid.x;
mov.u32 %r1, bar;
ld.param.u32 %r2, [n];
elect.sync _|%p1, -1;
@%p1 mbarrier.init.shared.b64 [%r1], 1;
@%p1 mbarrier.init.shared.b64 [%r1+8], 4;
bar.sync 0;
setp.lt.u32 %p2, %r0, 4;
@%p2 mbarrier.arrive.shared.b64 %rd1, [%r1+8];
mad.lo.u32 %r3, %r2, 3, 7;
setp.ne.u32 %p3, %r3, 777772;
@%p3 bra A;
sub.u32 %r4, %r0, 4;
setp.lt.u32 %p4, %r4, FROM;
@%p4 bra W;
A:
@!%p1 bra W;
mbarrier.arrive.shared.b64 %rd2, [%r1];
W:
mbarrier.try_wait.parity.shared.b64 %p5, [%r1], 0;
@!%p5 bra W;
ret;
}
"""


@pytest.mark.parametrize(("leaves_out", "verdict"), [("12", "refuted"), ("0", "proved")])
def test_lanes_that_part_late_are_elected_too(leaves_out: str, verdict: str) -> None:
    facts = {"kernel": {"k": {"block": [32], "grid": [1]}}}
    text = LATE.replace("FROM", leaves_out)
    (report,) = syncverify.check(text, facts=facts, policy=Policy.STRICT, advice=False)
    assert str(report.verdict) == verdict


HALVES = """setp.lt.u32 %p2, %r1, 16; @!%p2 bra H;
elect.sync %r5|%p1, 0xffff; setp.eq.u32 %p3, %r5, 5; selp.u32 %r6, 0, 4, %p3; add.u32 %r6, %r6, %r3;
@%p1 st.shared.u32 [%r6], %r0; bra E;
H: elect.sync %r7|%p4, 0xffff0000; setp.eq.u32 %p5, %r7, 20; selp.u32 %r8, 0, 8, %p5; add.u32 %r8, %r8, %r3;
@%p4 st.shared.u32 [%r8], %r0; E:"""


def test_halves_of_a_warp_that_go_wrong_for_one_pair_of_lanes_are_not_proved() -> None:
    assert judged(HALVES, Policy.STRICT)[0] == "unknown"


#: Of two warps the first stores to one word by lane 5, the other by the lane SECOND.
WARPS = """setp.lt.u32 %p2, %r0, 32; selp.u32 %r6, 5, SECOND, %p2;
setp.eq.u32 %p3, %r5, %r6; and.pred %p3, %p3, %p1; @%p3 st.shared.u32 [%r3], %r0;"""


@pytest.mark.parametrize(("second", "verdict"), [("20", "unknown"), ("5", "refuted")])
def test_warps_that_go_wrong_for_one_pair_of_lanes_are_not_proved(second: str, verdict: str) -> None:
    assert judged(WARPS.replace("SECOND", second), Policy.STRICT, 64)[0] == verdict


def test_what_one_warp_does_by_the_number_of_its_elected_lane_needs_no_pairs() -> None:
    assert judged(WARPS.replace("SECOND", "20"), Policy.STRICT)[0] == "proved"


def test_numbers_of_lanes_in_the_farthest_blocks() -> None:
    """From 65,536 blocks of 32,768 on the number is below 0, and its 32nd part is not one for a warp."""
    body = (
        "mov.u32 %r6, %ctaid.x; shl.b32 %r8, %r6, 15; add.s32 %r9, %r8, %r0; shr.s32 %r10, %r9, 31;"
        "shr.u32 %r11, %r10, 27; add.s32 %r12, %r9, %r11; shr.s32 %r7, %r12, 5;"
        "setp.lt.s32 %p2, %r7, -5; @!%p1 bra E; @%p2 st.shared.u32 [%r3], %r0; E:"
    )
    module = parse(TEXT.replace("BODY", body), "k.ptx")
    assert Program(module, module.entries[0]).elections.nested
