"""What values vary with, by data flow; and lanes that store to one word."""

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy, Severity, Verdict
from syncverify.driver.files import check_file
from syncverify.frontends.ptx.analysis.uniformity import BLOCK, EVERY, LANES, THREADS, TIME, Uniformity
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n, .param .f32 x)
{{
.reg .pred %p<9>;
.reg .f32 %f<30>;
.reg .b32 %r<40>;
.reg .b64 %rd<20>;
.shared .align 16 .b8 s[1024];
{body}
ret;
}}
"""


def varies(body: str, register: str, block: tuple[int, int, int] = (128, 1, 1)) -> int:
    module = parse(HEAD.format(body=body), "k.ptx")
    return Uniformity(Flow(module.entries[0]), block).of([register])


TID = "mov.u32 %r1, %tid.x;"
LOAD = f"{TID} ld.param.u64 %rd1, [p]; mul.wide.u32 %rd4, %r1, 4; add.s64 %rd2, %rd1, %rd4; "


@pytest.mark.parametrize(
    ("body", "register", "mask"),
    [
        (TID, "%r1", 0x7F),
        (f"{TID} and.b32 %r2, %r1, 12;", "%r2", 12),
        (f"{TID} shr.u32 %r2, %r1, 5;", "%r2", 0x60),
        (f"{TID} shl.b32 %r2, %r1, 4; and.b32 %r3, %r2, 48;", "%r3", 3),
        (f"{TID} shr.u32 %r2, %r1, 7;", "%r2", 0),  # no thread of this block has that bit
        ("mov.u32 %r1, %laneid;", "%r1", LANES),
        ("ld.param.f32 %f1, [x]; mul.f32 %f2, %f1, 0f40000000;", "%f2", 0),
        ("mov.u32 %r1, %ctaid.x; cvt.rn.f32.u32 %f1, %r1;", "%f1", BLOCK),
        (f"{TID} cvt.rn.f32.u32 %f1, %r1;", "%f1", 0x7F),
        (f"{LOAD} ld.global.nc.f32 %f1, [%rd2];", "%f1", 0x7F),
        (f"{LOAD} ld.global.nc.f32 %f1, [%rd1];", "%f1", 0),
        (f"{LOAD} ld.global.f32 %f1, [%rd1];", "%f1", TIME),
        (f"{LOAD} ld.relaxed.gpu.global.f32 %f1, [%rd1];", "%f1", EVERY),
        # the number of a warp, as a quotient of a sum that compilers round towards zero
        ("mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r1, %r2, %r3; "
         "shr.s32 %r5, %r4, 31; shr.u32 %r6, %r5, 27; add.s32 %r7, %r4, %r6; shr.s32 %r8, %r7, 5;",
         "%r8", BLOCK | 0x60),
        # both sides of a branch on the lane
        (f"{TID} and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; mov.u32 %r3, 1; @%p1 mov.u32 %r3, 2;",
         "%r3", 1 | TIME),
        (f"{TID} setp.lt.u32 %p1, %r1, 5; @%p1 bra A; mov.u32 %r3, 1; bra B; A: mov.u32 %r3, 2; B:",
         "%r3", 0x7F | TIME),
        # a loop whose length the lane decides, and one that all go through alike
        (f"{TID} mov.u32 %r3, 0; A: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r1; @%p1 bra A; "
         "mov.u32 %r2, %r3;",
         "%r3", 0x7F | TIME),
        ("ld.param.u32 %r1, [n]; mov.u32 %r3, 0; A: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r1; "
         "@%p1 bra A;", "%r3", TIME),
        # what one lane hands to all, to segments of 8, to its neighbour
        (f"{LOAD} ld.global.nc.u32 %r2, [%rd2]; shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;", "%r3", 0x60),
        (f"{LOAD} ld.global.nc.u32 %r2, [%rd2]; shfl.sync.idx.b32 %r3, %r2, 0, 6175, -1;", "%r3", 0x78),
        (f"{LOAD} ld.global.nc.u32 %r2, [%rd2]; shfl.sync.down.b32 %r3, %r2, 1, 31, -1;", "%r3", 0x7F),
        (f"{LOAD} ld.global.nc.u32 %r2, [%rd2]; redux.sync.add.u32 %r3, %r2, -1;", "%r3", 0x60),
        (f"{LOAD} ld.global.nc.u32 %r2, [%rd2]; redux.sync.add.u32 %r3, %r2, 255;", "%r3", 0x7F),
    ],
)  # fmt: skip
def test_what_values_vary_with(body: str, register: str, mask: int) -> None:
    assert varies(body, register) == mask


def test_rows_of_threads_are_numbered_along_x_first() -> None:
    body = "mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y;"
    assert varies(body, "%r1", (32, 4, 1)) == LANES
    assert varies(body, "%r2", (32, 4, 1)) == 0x60
    assert varies(body, "%r2", (8, 8, 1)) == 0x38
    assert varies(body, "%r2", (48, 4, 1)) == THREADS  # rows begin in the middle of warps


def butterfly(*steps: int) -> str:
    text, at = f"{LOAD} ld.global.nc.f32 %f0, [%rd2];", 0
    for step in steps:
        text += (f"mov.b32 %r10, 31; mov.b32 %r{at + 11}, %f{at}; "
                 f"shfl.sync.bfly.b32 %r{at + 12}|%p1, %r{at + 11}, {step}, 31, -1; "
                 f"mov.b32 %f{at + 1}, %r{at + 12}; add.f32 %f{at + 2}, %f{at}, %f{at + 1};")  # fmt: skip
        at += 2
    return text


@pytest.mark.parametrize(
    ("steps", "mask"), [((16,), 0x6F), ((8, 4, 2, 1), 0x70), ((16, 8, 4, 2, 1), 0x60), ((1, 1), 0x7E)]
)
def test_each_step_of_a_butterfly_takes_a_bit_away(steps: tuple[int, ...], mask: int) -> None:
    assert varies(butterfly(*steps), f"%f{2 * len(steps)}") == mask


STORE = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n, .param .f32 x)
.reqntid 128, 1, 1
{{
.reg .pred %p<9>;
.reg .f32 %f<30>;
.reg .b32 %r<40>;
.reg .b64 %rd<20>;
.shared .align 16 .b8 s[1024];
{body}
bar.sync 0;
ret;
}}
"""


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (f"{TID} cvt.rn.f32.u32 %f1, %r1; st.shared.f32 [s], %f1;", Verdict.REFUTED),
        (f"{TID} cvt.rn.f64.u32 %rd3, %r1; st.shared.f64 [s], %rd3;", Verdict.REFUTED),
        (f"{LOAD} ld.global.f32 %f1, [%rd2]; st.shared.f32 [s], %f1;", Verdict.REFUTED),
        (f"{LOAD} ld.global.u16 %r2, [%rd2]; st.shared.u16 [s], %r2;", Verdict.REFUTED),
        (f"{LOAD} ld.global.v2.f32 {{%f1, %f2}}, [%rd2]; st.shared.v2.f32 [s], {{%f1, %f2}};",
         Verdict.REFUTED),
        (f"{LOAD} ld.global.f32 %f1, [%rd1]; st.shared.f32 [s], %f1;", Verdict.PROVED),
        ("ld.param.f32 %f1, [x]; st.shared.f32 [s], %f1;", Verdict.PROVED),
        (butterfly(16, 8, 4, 2, 1) + "st.shared.f32 [s], %f10;", Verdict.REFUTED),  # each warp its own sum
        (butterfly(16, 8, 4, 2, 1) + "shr.u32 %r30, %r1, 5; shl.b32 %r30, %r30, 2; mov.u32 %r31, s; "
         "add.u32 %r30, %r30, %r31; st.shared.f32 [%r30], %f10;", Verdict.PROVED),
        (butterfly(8, 4, 2, 1) + "shr.u32 %r30, %r1, 5; shl.b32 %r30, %r30, 2; mov.u32 %r31, s; "
         "add.u32 %r30, %r30, %r31; st.shared.f32 [%r30], %f8;", Verdict.REFUTED),
    ],
)  # fmt: skip
def test_lanes_that_store_to_one_word(tmp_path: Path, body: str, verdict: Verdict) -> None:
    (tmp_path / "k.ptx").write_text(STORE.format(body=body))
    (found,) = check_file(str(tmp_path / "k.ptx"))
    assert found.verdict is verdict, (found.reason, found.diagnostics)
    assert all(d.rule == "SV112" for d in found.diagnostics if d.severity is Severity.ERROR)
    (strict,) = check_file(str(tmp_path / "k.ptx"), policy=Policy.STRICT)
    assert strict.verdict is Verdict.REFUTED  # no text exempts equal values


LOOP = (
    "ld.param.u64 %rd1, [p]; mov.u32 %r3, 0; A: mul.wide.u32 %rd2, %r3, 4; add.s64 %rd2, %rd1, %rd2; "
    "ld.global.nc.f32 %f1, [%rd2]; st.shared.f32 [s], %f1; {barrier} ld.shared.f32 %f2, [s]; {again} "
    "st.global.f32 [%rd2], %f2; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 4; @%p1 bra A;"
)


@pytest.mark.parametrize(
    ("barrier", "again", "verdict"),
    [
        ("bar.sync 0;", "bar.sync 0;", Verdict.PROVED),  # each turn all store one value
        ("bar.sync 0;", "", Verdict.REFUTED),  # a warp may store the next turn's beside another's
        ("", "", Verdict.REFUTED),
    ],
)
def test_a_value_that_changes_from_turn_to_turn(
    tmp_path: Path, barrier: str, again: str, verdict: Verdict
) -> None:
    (tmp_path / "k.ptx").write_text(STORE.format(body=LOOP.format(barrier=barrier, again=again)))
    (found,) = check_file(str(tmp_path / "k.ptx"))
    assert found.verdict is verdict, (found.reason, found.diagnostics)
