"""Masks made of the lanes that come: by activemask, match and ballot; and masks that others come with."""

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver.files import check_source, read_source

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
.reqntid 64, 1, 1
{{
.reg .pred %p<9>;
.reg .b16 %h<9>;
.reg .b32 %r<40>;
.reg .b64 %rd<20>;
ld.param.u64 %rd1, [p];
ld.param.u32 %r9, [n];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd2, %rd1, %rd3;
ld.global.u32 %r3, [%rd2];
setp.lt.u32 %p1, %r3, 16;
{body}
st.global.u32 [%rd2], %r4;
A: ret;
}}
"""
VOTE = "vote.sync.ballot.b32 %r5, %p1, -1;"
TRADE = "shfl.sync.bfly.b32 %r4|%p2, %r3, 1, 31, %r5;"
#: A loop that lanes leave in turns of their own, after a vote among those who are left.
LEAVE = "setp.lt.u32 %p3, %r8, %r3; vote.sync.ballot.b32 %r5, %p3, %r5; @!%p3 bra A;"
NEXT = "add.u32 %r8, %r8, 1; bra L;"
BEGIN = "mov.u32 %r8, 0; mov.u32 %r5, -1;"
#: A part of those who voted votes again.
AGAIN = f"{VOTE} @!%p1 bra A; setp.lt.u32 %p4, %r3, 7; vote.sync.ballot.b32 %r6, %p4, %r5;"
FIRST = "brev.b32 %r10, %r5; clz.b32 %r11, %r10;"
OF_PART = f"@!%p4 bra A; {TRADE.replace('%r5', '%r7')}"
#: In each turn of a loop some lanes vote, and go through a loop in the other one.
TURNS = "mov.u32 %r7, 0; M: setp.lt.u32 %p6, %r3, %r7; vote.sync.ballot.b32 %r5, %p6, -1; @!%p6 bra N;"
NEXT_TURN = "N: add.u32 %r7, %r7, 1; setp.lt.u32 %p5, %r7, %r9; @%p5 bra M;"
#: Those who voted go through a loop that each leaves in a turn of its own.
OWN_TURNS = f"{VOTE} @!%p1 bra A; mov.u32 %r6, %r5; mov.u32 %r8, 0; L: setp.lt.u32 %p3, %r8, %r3; " \
    "vote.sync.ballot.b32 %r6, %p3, %r6; @!%p3 bra N; add.u32 %r8, %r8, 1; bra L; N:"  # fmt: skip
#: A bit of what was loaded.
BIT = "and.b32 %r12, %r3, {};"
#: Both halves of what was loaded.
HALVES = "mov.b32 {%h1, %h2}, %r3;"
#: What comes between a vote about %p1 and an exchange among those who voted for it.
FIT = {
    "the vote decides": f"{VOTE} @!%p1 bra A; {TRADE}",
    "the word sync after the mode": f"vote.ballot.sync.b32 %r5, %p1, -1; @!%p1 bra A; {TRADE}",
    "the opposite comparison leaves": f"{VOTE} setp.ge.u32 %p3, %r3, 16; @%p3 bra A; {TRADE}",
    "the same comparison with the next number": f"{VOTE} setp.gt.u32 %p3, %r3, 15; @%p3 bra A; {TRADE}",
    "the comparison of bf16 that holds of NaN": f"{HALVES} setp.eq.bf16 %p1, %h1, %h2; {VOTE} "
        f"setp.neu.bf16 %p3, %h1, %h2; @%p3 bra A; {TRADE}",
    "the second result of a comparison": f"setp.lt.f32 %p1|%p4, %r3, %r9; {VOTE} @%p4 bra A; {TRADE}",
    "one bit, compared with itself and with 0": f"{BIT.format(4)} setp.eq.b32 %p1, %r12, 4; {VOTE} "
        f"setp.eq.s32 %p3, %r12, 0; @%p3 bra A; {TRADE}",
    "the sign, as a bit": "shr.u32 %r12, %r3, 31; setp.ne.s32 %p1, %r12, 1; "
        f"{VOTE} setp.gt.u32 %p3, %r12, 0; @%p3 bra A; {TRADE}",
    "a number without a sign, compared with 1 and 0": f"setp.ne.s32 %p1, %r3, 0; {VOTE} "
        f"setp.lt.u32 %p3, %r3, 1; @%p3 bra A; {TRADE}",
    "a guard": f"{VOTE} @%p1 {TRADE}",
    "all lanes decide alike beside it":
        f"{VOTE} setp.lt.u32 %p4, %r9, 16; and.pred %p3, %p1, %p4; @!%p3 bra A; {TRADE}",
    "either leaves":
        f"{VOTE} setp.ge.u32 %p3, %r3, 16; setp.lt.u32 %p4, %r9, 16; "
        f"or.pred %p5, %p3, %p4; @%p5 bra A; {TRADE}",
    "a loop of as many turns in all lanes":
        f"{VOTE} @!%p1 bra A; mov.u32 %r8, 0; L: {TRADE} add.u32 %r8, %r8, 1; "
        "setp.lt.u32 %p4, %r8, %r9; @%p4 bra L;",
    "lanes that are active": f"@!%p1 bra A; activemask.b32 %r5; {TRADE}",
    "turns of each lane": f"{BEGIN} L: {LEAVE} {TRADE} {NEXT}",
    "turns of each lane, some of which all leave out":
        f"{BEGIN} L: {LEAVE} setp.lt.u32 %p4, %r9, 7; @%p4 bra N; {TRADE} N: {NEXT}",
    "turns of those who voted before":
        f"{VOTE} @!%p1 bra A; mov.u32 %r8, 0; L: {LEAVE} {TRADE} {NEXT}",
    "turns of those who are active":
        f"@!%p1 bra A; activemask.b32 %r7; mov.u32 %r5, %r7; mov.u32 %r8, 0; L: {LEAVE} {TRADE} {NEXT}",
    "turns in which some lanes vote later":
        f"{BEGIN} L: setp.lt.u32 %p4, %r8, %r1; @%p4 bra N; {LEAVE} {TRADE} N: {NEXT}",
    "turns that begin again where all have met":
        f"mov.u32 %r7, 0; M: {BEGIN} L: {LEAVE.replace('bra A', 'bra N')} {TRADE} {NEXT} "
        "N: redux.sync.add.u32 %r6, %r3, -1; add.u32 %r7, %r7, 1; setp.lt.u32 %p4, %r7, %r9; @%p4 bra M;",
    "turns within turns":
        f"{BEGIN} L: {LEAVE} mov.u32 %r6, %r5; mov.u32 %r7, 0; M: setp.lt.u32 %p5, %r7, %r8; "
        "vote.sync.ballot.b32 %r6, %p5, %r6; @!%p5 bra N; redux.sync.add.u32 %r4, %r3, %r6; "
        f"add.u32 %r7, %r7, 1; bra M; N: {TRADE} {NEXT}",
    "those who voted against": f"{VOTE} not.b32 %r5, %r5; @%p1 bra A; {TRADE}",
    "those of a mask who voted against":
        f"{VOTE} @!%p1 bra A; setp.lt.u32 %p4, %r3, 7; vote.sync.ballot.b32 %r6, %p4, %r5; "
        f"not.b32 %r7, %r6; and.b32 %r7, %r5, %r7; @%p4 bra A; {TRADE.replace('%r5', '%r7')}",
    "the same by xor, with the opposite predicate":
        f"{VOTE} @!%p1 bra A; setp.lt.u32 %p4, %r3, 7; vote.sync.ballot.b32 %r6, %p4, %r5; "
        f"not.pred %p5, %p4; xor.b32 %r7, %r5, %r6; @!%p5 bra A; {TRADE.replace('%r5', '%r7')}",
    "a barrier of those who voted": f"{VOTE} @!%p1 bra A; bar.warp.sync %r5; {TRADE}",
    "the complement of a complement": f"{AGAIN} not.b32 %r8, %r6; xor.b32 %r7, %r8, -1; {OF_PART}",
    "a mask that the first of the lanes hands on":
        f"{AGAIN} {FIRST} shfl.sync.idx.b32 %r7, %r6, %r11, 31, %r5; {OF_PART}",
    "a mask that the last of the lanes hands on":
        f"{AGAIN} bfind.u32 %r11, %r5; shfl.sync.idx.b32 %r7, %r6, %r11, 31, %r5; {OF_PART}",
    "a mask that lane 0 of the whole warp hands on":
        f"{VOTE} mov.u32 %r8, -1; brev.b32 %r10, %r8; clz.b32 %r11, %r10; "
        f"shfl.sync.idx.b32 %r7, %r5, %r11, 31, %r8; @!%p1 bra A; {TRADE.replace('%r5', '%r7')}",
    "a choice that numbers decide":
        f"{AGAIN} mov.u32 %r8, 3; setp.lt.u32 %p5, %r8, 4; selp.b32 %r7, %r6, %r5, %p5; {OF_PART}",
    "the second result leaves": f"setp.lt.u32 %p1|%p3, %r3, 16; {VOTE} @%p3 bra A; {TRADE}",
    "a copy of the second result leaves":
        f"setp.lt.u32 %p1|%p3, %r3, 16; {VOTE} mov.pred %p5, %p3; @%p5 bra A; {TRADE}",
    "in each turn of a loop a loop of those who voted":
        f"{TURNS} mov.u32 %r8, 0; L: {TRADE} add.u32 %r8, %r8, 1; setp.lt.u32 %p4, %r8, %r9; @%p4 bra L; "
        f"{NEXT_TURN}",
    "turns that begin again with lanes of a vote of all":
        f"{TURNS} mov.u32 %r6, %r5; mov.u32 %r8, 0; L: setp.lt.u32 %p3, %r8, %r3; "
        "vote.sync.ballot.b32 %r6, %p3, %r6; @!%p3 bra N; redux.sync.add.u32 %r4, %r3, %r6; "
        f"add.u32 %r8, %r8, 1; bra L; {NEXT_TURN}",
    "after a loop that lanes leave in turns of their own":
        f"{OWN_TURNS} setp.lt.u32 %p4, %r9, 5; @%p4 bra A; {TRADE}",
    "turns that are counted once more":
        f"mov.u32 %r10, 0; {BEGIN} L: {LEAVE} add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, 2; @%p5 bra N; "
        f"{TRADE} N: {NEXT}",
    "lanes with one value": f"match.any.sync.b32 %r5, %r3, -1; {TRADE}",
}  # fmt: skip
OTHERS = {
    "a comparison of bf16, where NaN is neither": f"{HALVES} setp.eq.bf16 %p1, %h1, %h2; {VOTE} "
        f"setp.ne.bf16 %p3, %h1, %h2; @%p3 bra A; {TRADE}",
    "the other half of a packed comparison":
        f"setp.lt.f16x2 %p1|%p4, %r3, %r9; {VOTE} @%p4 bra A; {TRADE}",
    "one of two bits": f"{BIT.format(6)} setp.eq.b32 %p1, %r12, 4; {VOTE} "
        f"setp.eq.s32 %p3, %r12, 0; @%p3 bra A; {TRADE}",
    "a bit, compared with another one": f"{BIT.format(4)} setp.ne.b32 %p1, %r12, 2; {VOTE} "
        f"setp.eq.s32 %p3, %r12, 0; @%p3 bra A; {TRADE}",
    "those without a bit go on": f"{BIT.format(4)} setp.eq.b32 %p1, %r12, 4; {VOTE} "
        f"setp.ne.s32 %p3, %r12, 0; @%p3 bra A; {TRADE}",
    "a bit that is written between": f"{BIT.format(4)} setp.eq.b32 %p1, %r12, 4; {VOTE} "
        f"{BIT.format(1)} setp.eq.s32 %p3, %r12, 0; @%p3 bra A; {TRADE}",
    "a number with a sign, compared with 1 and 0": f"setp.ne.s32 %p1, %r3, 0; {VOTE} "
        f"setp.lt.s32 %p3, %r3, 1; @%p3 bra A; {TRADE}",
    "the vote's other way": f"{VOTE} @%p1 bra A; {TRADE}",
    "a comparison with another number": f"{VOTE} setp.gt.u32 %p3, %r3, 16; @%p3 bra A; {TRADE}",
    "the number after the last one":
        f"setp.ge.u32 %p1, %r3, 0; {VOTE} setp.gt.u32 %p3, %r3, 4294967295; @!%p3 bra A; {TRADE}",
    "a guard on active lanes": f"activemask.b32 %r5; @%p1 {TRADE}",
    "another guard": f"{VOTE} setp.lt.u32 %p3, %r3, 12; @%p3 {TRADE}",
    "the predicate written again": f"{VOTE} setp.lt.u32 %p1, %r3, 13; @!%p1 bra A; {TRADE}",
    "the value written again": f"{VOTE} add.u32 %r3, %r3, 1; setp.ge.u32 %p3, %r3, 16; @%p3 bra A; {TRADE}",
    "the value loaded again with another one":
        f"{VOTE} ld.global.v2.u32 {{%r3, %r6}}, [%rd1+8]; setp.ge.u32 %p3, %r3, 16; @%p3 bra A; {TRADE}",
    "the opposite result of one comparison":
        "setp.lt.u32 %p1|%p3, %r3, 16; " f"{VOTE} @!%p3 bra A; {TRADE}",
    "with another sign":
        f"setp.lt.s32 %p1, %r3, 16; {VOTE} setp.ge.u32 %p3, %r3, 16; @%p3 bra A; {TRADE}",
    "or holds without the vote":
        f"{VOTE} setp.lt.u32 %p4, %r1, 16; or.pred %p3, %p1, %p4; @!%p3 bra A; {TRADE}",
    "lanes differ beside it":
        f"{VOTE} setp.lt.u32 %p4, %r1, 16; and.pred %p3, %p1, %p4; @!%p3 bra A; {TRADE}",
    "a loop with turns of each lane":
        f"{VOTE} @!%p1 bra A; mov.u32 %r8, 0; L: {TRADE} add.u32 %r8, %r8, 1; "
        "setp.lt.u32 %p4, %r8, %r1; @%p4 bra L;",
    "those who voted against, by those who voted for": f"{VOTE} not.b32 %r5, %r5; @!%p1 bra A; {TRADE}",
    "all but those of an inner vote":
        f"{VOTE} @!%p1 bra A; setp.lt.u32 %p4, %r3, 7; vote.sync.ballot.b32 %r6, %p4, %r5; "
        f"not.b32 %r7, %r6; @%p4 bra A; {TRADE.replace('%r5', '%r7')}",
    "those of another mask who voted against":
        f"{VOTE} @!%p1 bra A; setp.lt.u32 %p4, %r3, 7; vote.sync.ballot.b32 %r6, %p4, %r5; "
        f"not.b32 %r7, %r6; and.b32 %r7, %r9, %r7; @%p4 bra A; {TRADE.replace('%r5', '%r7')}",
    "a complement": f"{AGAIN} not.b32 %r7, %r6; {OF_PART}",
    "a value that the first of the lanes hands on":
        f"{AGAIN} {FIRST} shfl.sync.idx.b32 %r7, %r3, %r11, 31, %r5; {OF_PART}",
    "a mask of another vote that the first of the lanes hands on":
        f"{AGAIN} vote.sync.ballot.b32 %r8, %p1, %r5; {FIRST} "
        f"shfl.sync.idx.b32 %r7, %r8, %r11, 31, %r5; {OF_PART}",
    "a mask that lane 0 hands on, which may have left":
        f"setp.gt.u32 %p5, %r3, 20; @%p5 bra A; {VOTE} mov.u32 %r8, -1; brev.b32 %r10, %r8; "
        f"clz.b32 %r11, %r10; shfl.sync.idx.b32 %r7, %r5, %r11, 31, %r8; @!%p1 bra A; "
        f"{TRADE.replace('%r5', '%r7')}",
    "a mask that lane 0 hands on to half a warp, which may have left":
        "setp.gt.u32 %p5, %r3, 20; @%p5 bra A; and.b32 %r6, %r1, 31; setp.lt.u32 %p4, %r6, 16; @!%p4 bra A; "
        "mov.u32 %r8, 65535; vote.sync.ballot.b32 %r5, %p1, %r8; brev.b32 %r10, %r8; clz.b32 %r11, %r10; "
        f"shfl.sync.idx.b32 %r7, %r5, %r11, 31, %r8; @!%p1 bra A; {TRADE.replace('%r5', '%r7')}",
    "a mask that the next lane hands on":
        f"{AGAIN} {FIRST} shfl.sync.down.b32 %r7, %r6, 1, 31, %r5; {OF_PART}",
    "a mask that the lowest lane of others hands on":
        f"{AGAIN} brev.b32 %r10, %r9; clz.b32 %r11, %r10; shfl.sync.idx.b32 %r7, %r6, %r11, 31, %r5; "
        f"{OF_PART}",
    "a choice of the other mask":
        f"{AGAIN} mov.u32 %r8, 3; setp.ge.u32 %p5, %r8, 4; selp.b32 %r7, %r6, %r5, %p5; {OF_PART}",
    "a choice that data decides":
        f"{AGAIN} setp.lt.u32 %p5, %r3, 4; selp.b32 %r7, %r6, %r5, %p5; {OF_PART}",
    "a copy of the second result stays":
        f"setp.lt.u32 %p1|%p3, %r3, 16; {VOTE} mov.pred %p5, %p3; @!%p5 bra A; {TRADE}",
    "a copy of the first result leaves":
        f"setp.lt.u32 %p1|%p3, %r3, 16; {VOTE} mov.pred %p5, %p1; @%p5 bra A; {TRADE}",
    "in each turn of a loop those who came often enough":
        f"mov.u32 %r8, 0; {TURNS} add.u32 %r8, %r8, 1; setp.lt.u32 %p4, %r8, 3; @%p4 bra N; {TRADE} "
        f"{NEXT_TURN}",
    "in each turn of a loop as many turns as the lane came before":
        f"mov.u32 %r6, 0; {TURNS} add.u32 %r6, %r6, 1; mov.u32 %r8, 0; L: {TRADE} add.u32 %r8, %r8, 1; "
        f"setp.lt.u32 %p4, %r8, %r6; @%p4 bra L; {NEXT_TURN}",
    "after a loop, by the number of turns of each lane":
        f"{OWN_TURNS} setp.lt.u32 %p4, %r8, 5; @%p4 bra A; {TRADE}",
    "turns that each lane counts by its data":
        f"mov.u32 %r10, 0; {BEGIN} L: {LEAVE} setp.lt.u32 %p4, %r3, 9; @%p4 add.u32 %r10, %r10, 1; "
        f"setp.lt.u32 %p5, %r10, 2; @%p5 bra N; {TRADE} N: {NEXT}",
    "as many turns as when the lane came last":
        f"mov.u32 %r10, 7; {TURNS} mov.u32 %r8, 0; L: {TRADE} add.u32 %r8, %r8, 1; "
        f"setp.lt.u32 %p4, %r8, %r10; @%p4 bra L; mov.u32 %r10, %r7; {NEXT_TURN}",
    "a mask moved before the vote of the turn":
        f"mov.u32 %r8, 0; L: mov.u32 %r6, %r5; {VOTE} add.u32 %r8, %r8, 1; "
        f"setp.lt.u32 %p4, %r8, %r9; @%p4 bra L; @!%p1 bra A; {TRADE.replace('%r5', '%r6')}",
    "a barrier by another mask": f"{VOTE} mov.u32 %r6, %r9; @!%p1 bra A; bar.warp.sync %r6; {TRADE}",
    "turns with no new vote": f"{BEGIN} L: setp.ge.u32 %p3, %r8, %r3; @%p3 bra A; {TRADE} {NEXT}",
    "turns by another predicate than the vote's":
        f"{BEGIN} L: {LEAVE.replace('@!%p3', 'setp.ge.u32 %p4, %r8, %r1; @%p4')} {TRADE} {NEXT}",
    "before those leave who voted against it":
        f"{BEGIN} L: {LEAVE.replace('@!', TRADE + ' @!')} {NEXT}",
    "turns that begin again while others still turn":
        f"mov.u32 %r7, 0; M: {BEGIN} L: {LEAVE.replace('bra A', 'bra N')} {TRADE} {NEXT} "
        "N: add.u32 %r7, %r7, 1; setp.lt.u32 %p4, %r7, %r9; @%p4 bra M;",
    "turns that some lanes leave elsewhere":
        f"{BEGIN} L: {LEAVE} {TRADE} setp.lt.u32 %p4, %r8, %r1; @%p4 bra A; {NEXT}",
    "the mask of the last turn behind the loop":
        f"{BEGIN} L: {LEAVE.replace('bra A', 'bra N')} {NEXT} N: {TRADE}",
    "turns that begin again with the mask of the last":
        f"mov.u32 %r7, 0; mov.u32 %r5, -1; M: mov.u32 %r8, 0; "
        f"L: {LEAVE.replace('bra A', 'bra N')} {TRADE} {NEXT} "
        "N: add.u32 %r7, %r7, 1; setp.lt.u32 %p4, %r7, %r9; @%p4 bra M;",
    "turns that begin with the lanes of another vote":
        f"{VOTE} mov.u32 %r8, 0; L: {LEAVE} {TRADE} {NEXT}",
    "turns that some lanes begin with the mask of all": f"@!%p1 bra A; {BEGIN} L: {LEAVE} {TRADE} {NEXT}",
    "an exchange that part of the turn's lanes come to":
        f"{BEGIN} L: {LEAVE} setp.lt.u32 %p4, %r1, 7; @%p4 bra N; {TRADE} N: {NEXT}",
    "a mask written between two exchanges in a row":
        f"{VOTE} @!%p1 bra A; {TRADE} mov.u32 %r5, -1; {TRADE}",
    "a guard written between two exchanges in a row":
        f"{VOTE} mov.pred %p5, %p1; @%p5 {TRADE} setp.lt.u32 %p5, %r3, 99; @%p5 {TRADE}",
    "a mask of the last turn of each lane":
        "mov.u32 %r8, 0; L: activemask.b32 %r6; vote.sync.ballot.b32 %r5, %p1, %r6; add.u32 %r8, %r8, 1; "
        f"setp.lt.u32 %p4, %r8, %r3; @%p4 bra L; @!%p1 bra A; {TRADE}",
}  # fmt: skip


def verdict(folder: Path, body: str) -> Verdict:
    (folder / "k.ptx").write_text(KERNEL.format(body=body))
    (found,) = check_source(read_source(folder / "k.ptx"), replay=False, repairs=False)
    return found.verdict


@pytest.mark.parametrize("name", FIT)
def test_a_mask_of_those_that_come(tmp_path: Path, name: str) -> None:
    assert verdict(tmp_path, FIT[name]) is Verdict.PROVED


@pytest.mark.parametrize("name", OTHERS)
def test_a_mask_of_others_is_not_proved(tmp_path: Path, name: str) -> None:
    assert verdict(tmp_path, OTHERS[name]) is not Verdict.PROVED


#: Half of a warp exchanges twice, by masks that have a number; then all threads meet.
TWICE = {
    "a mask written between": "mov.u32 %r5, 65535; @!%p1 bra B; {one} mov.u32 %r5, -1; {two} B:",
    "a guard written between": "mov.u32 %r5, 65535; @%p1 {one} setp.lt.u32 %p1, %r6, 8; @%p1 {two}",
}


@pytest.mark.parametrize("name", TWICE)
def test_a_row_of_exchanges_ends_where_its_mask_or_guard_is_written(tmp_path: Path, name: str) -> None:
    lanes = "and.b32 %r6, %r1, 31; setp.lt.u32 %p1, %r6, 16;"
    found = verdict(tmp_path, f"{lanes} {TWICE[name].format(one=TRADE, two=TRADE)} bar.sync 0;")
    assert found is not Verdict.PROVED
