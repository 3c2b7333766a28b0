"""The types of registers and constants that instructions take, as ptxas takes them."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.isa.match import Form, match
from tests.frontends.ptx.isa.samples import function

F, R, U, HX = ("{" + ", ".join(f"%{name}{n}" for n in range(1, 5)) + "}" for name in ("f", "r", "u", "hx"))
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
TYPED = ".reg .u32 %u<9>; .reg .f16 %hf<9>; .reg .f16x2 %hx<9>; .reg .u64 %ul<9>;"


def fits(line: str) -> bool:
    f = function(f"{TYPED}\n{line}")
    return isinstance(match(f.body[0], f.registers), Form)


@pytest.mark.parametrize(
    "line",
    [
        "vote.sync.ballot.b32 %f1, %p1, %r1;",
        "shfl.sync.idx.b32 %f1, %f2, %r3, %r4, -1;",
        "elect.sync _|%p1, -1;",
        "add.u32 %hx1, %r1, %r2;",
        "dp4a.s32.u32 %r1, %u1, %hx1, 7;",
        "vadd.u32.u32.s32 %r1.b2, %r2.h1, %r3.b0, %r4;",
        "ld.global.b16 %f1, [%rd1];",
        "ld.global.v2.b32 {_, %r1}, [%rd1];",
        "atom.global.add.u32 _, [%rd1], %r1;",
        "atom.global.add.v2.f32 _, [%rd1], {%f1, %f2};",
        "setp.eq.u32 _|%p1, %r1, %r2;",
        "cvt.rn.f16.f32 %h1, %rd1;",
        "cvt.rn.relu.f16x2.f32 %r1, %rd1, %f1;",
        "mbarrier.arrive.b64 %ul1, [%rd1];",
        f"{MMA} {F}, {R}, {{%hx1, %hx2}}, {R};",
        f"{WGMMA} {R}, {HX}, %rd1, 1, 1, 1, 0;",
    ],
)
def test_operands_that_are_taken(line: str) -> None:
    assert fits(line)


@pytest.mark.parametrize(
    "line",
    [
        "add.u32 %r1.b0, %r2, %r3;",
        "add.u32 %r1, %r2, %r3.h1;",
        "vote.sync.ballot.b32 %r1, %p1, %f1;",
        "shfl.sync.idx.b32 %r1, %r2, %r3, %r4, 0f3f800000;",
        "bar.warp.sync %f1;",
        "elect.sync %r1, -1;",
        "elect.sync %r1|_, -1;",
        "redux.sync.and.b32 %r1, %f1, -1;",
        "match.any.sync.b32 %f1, %r1, -1;",
        "dp4a.s32.u32 %r1, %f1, %r2, %r3;",
        "dp4a.s32.u32 %hx1, %r1, %r2, %r3;",
        "bfe.u32 %r1, %r2, %hx1, 3;",
        "bmsk.clamp.b32 %f1, %r1, %r2;",
        "lop3.and.b32 %r1, %r3, %r4, %r5, 1, %p1;",
        "ld.global.b32 _, [%rd1];",
        "ld.global.L2::cache_hint.b32 %r1, [%rd1], %d1;",
        "and.pred _, %p1, %p2;",
        "mbarrier.test_wait.b64 _, [%rd1], %rd2;",
        "mbarrier.arrive.b64 %d1, [%rd1];",
        "set.eq.or.bf16.u16 %h2, %h3, %h4, 1;",
        "cvt.rn.bf16.f32 %h1, %rd1;",
        "cvt.rmi.u8.bf16 %r1, %h3;",
        "multimem.st.f32 [%rd1], %rd2;",
        "red.global.add.noftz.v2.f16 [%rd1], {%r1, %r2};",
        "st.async.mbarrier::complete_tx::bytes.b32 [%rd1], %rd2, [%rd3];",
        f"{MMA} {F}, {F}, {{%r1, %r2}}, {F};",
        f"{MMA} {U}, {R}, {{%r1, %r2}}, {F};",
        f"{WGMMA} {F}, {F}, %rd1, 1, 1, 1, 0;",
        f"{WGMMA} {F}, %d1, %rd1, 1, 1, 1, 0, 0;",
    ],
)
def test_operands_of_another_type(line: str) -> None:
    assert not fits(line)
