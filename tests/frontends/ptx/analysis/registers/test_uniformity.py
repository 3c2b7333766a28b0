"""What values vary with, by data flow; and lanes that store to one word."""

from itertools import combinations
from pathlib import Path
from random import Random

import pytest

import syncverify
from syncverify.base.diagnostics import Policy, Severity, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.ptx.analysis.registers.uniformity import (
    BLOCK,
    EVERY,
    LANES,
    THREADS,
    TIME,
    Uniformity,
)
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.ssa import Versions
from syncverify.frontends.ptx.syntax.parser import parse
from tests.simulate.ptx.support import kernel

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
        # the sign of what is never negative; that of bits which are shifted there, or cut off
        (f"{TID} add.u32 %r2, %r1, 9; shr.s32 %r3, %r2, 31;", "%r3", 0),
        (f"{TID} shl.b32 %r2, %r1, 24; shr.s32 %r3, %r2, 31;", "%r3", 0),
        (f"{TID} shl.b32 %r2, %r1, 30; shr.s32 %r3, %r2, 31;", "%r3", 2),
        (f"{TID} and.b32 %r2, %r1, 0x80000000; shl.b32 %r3, %r1, 29; or.b32 %r4, %r2, %r3; "
         "shr.s32 %r5, %r4, 31;", "%r5", 4),
        (f"{TID} mul.lo.u32 %r2, %r1, 0x40000000; shr.s32 %r3, %r2, 31;", "%r3", 2),
        (f"{TID} shl.b32 %r2, %r1, 1; cvt.s32.s8 %r3, %r2; shr.s32 %r4, %r3, 31;", "%r4", 0x40),
        (f"{TID} cvt.s8.u32 %r2, %r1; shr.u32 %r3, %r2, 31;", "%r3", 0),
        (f"{TID} shl.b32 %r2, %r1, 1; cvt.s8.u32 %r3, %r2; shr.u32 %r4, %r3, 31;", "%r4", 0x40),
        (f"{TID} shl.b32 %r2, %r1, 1; cvt.s8.u8 %r3, %r2; and.b32 %r4, %r1, 1; shl.b32 %r5, %r4, 9; "
         "add.u32 %r6, %r3, %r5; shr.u32 %r7, %r6, 10;", "%r7", 0x41),
        # two numbers in one word
        (f"{TID} shl.b32 %r2, %r1, 9; cvt.pack.sat.u16.s32 %r3, %r2, %r1; shr.s32 %r4, %r3, 31;",
         "%r4", 0x7F),
        (f"{TID} shl.b32 %r2, %r1, 24; add.u16x2 %r3, %r2, %r2; shr.s32 %r4, %r3, 31;", "%r4", 0x7F),
        # a loop that makes a number of itself
        (f"{TID} mov.u32 %r2, %r1; L: shr.u32 %r3, %r2, 1; cvt.u64.u32 %rd1, %r3; cvt.u32.u64 %r2, %rd1; "
         "setp.ne.u32 %p1, %r2, 0; @%p1 bra L; shr.s32 %r4, %r2, 31;", "%r4", 0),
        # the bits of a float are not those of its number
        (f"{TID} and.b32 %r2, %r1, 0x70; cvt.rn.f32.u32 %f1, %r2; mov.b32 %r3, %f1; and.b32 %r4, %r1, 1; "
         "shl.b32 %r5, %r4, 23; add.u32 %r6, %r3, %r5; shr.u32 %r7, %r6, 24;", "%r7", 0x71),
        # who has a lane above; every lane is one of the warp
        ("ld.param.u32 %r1, [n]; shfl.sync.down.b32 %r2|%p1, %r1, 1, 31, -1;", "%p1", LANES),
        ("ld.param.u32 %r1, [n]; shfl.sync.idx.b32 %r2|%p1, %r1, 1, 31, -1;", "%p1", 0),
        # local memory is each thread's own
        ("ld.param.u64 %rd1, [p]; ld.u32 %r1, [%rd1];", "%r1", TIME | BLOCK),
        (".local .align 4 .b8 own[4]; mov.u64 %rd1, own; cvta.local.u64 %rd2, %rd1; ld.u32 %r1, [%rd2];",
         "%r1", EVERY),
        ("ld.param.f32 %f1, [x]; mul.f32 %f2, %f1, 0f40000000;", "%f2", 0),
        ("mov.u32 %r1, %ctaid.x; cvt.rn.f32.u32 %f1, %r1;", "%f1", BLOCK),
        (f"{TID} cvt.rn.f32.u32 %f1, %r1;", "%f1", 0x7F),
        (f"{LOAD} ld.global.nc.f32 %f1, [%rd2];", "%f1", 0x7F),
        (f"{LOAD} ld.global.nc.f32 %f1, [%rd1];", "%f1", 0),
        (f"{LOAD} ld.global.f32 %f1, [%rd1];", "%f1", TIME),
        (f"{LOAD} ld.relaxed.gpu.global.f32 %f1, [%rd1];", "%f1", EVERY),
        # a comparison with 64 asks for the bits from there on; with 63 or -1 for all
        (f"{TID} setp.lt.u32 %p1, %r1, 64;", "%p1", 0x40),
        (f"{TID} setp.gt.s32 %p1, %r1, 63;", "%p1", 0x40),
        (f"{TID} setp.ge.u32 %p1, %r1, 63;", "%p1", 0x7F),
        (f"{TID} sub.s32 %r2, %r1, 5; setp.lt.s32 %p1, %r2, 0;", "%p1", 0x7F),
        (f"{TID} setp.eq.u32 %p1, %r1, 64;", "%p1", 0x7F),
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
        # bit by bit: the number of a warpgroup out of that of a warp
        (f"{TID} shr.u32 %r2, %r1, 5; shfl.sync.idx.b32 %r3, %r2, 0, 31, -1; and.b32 %r4, %r3, 2;",
         "%r4", 0x40),
        (f"{TID} shfl.sync.bfly.b32 %r3, %r1, 8, 31, -1; and.b32 %r4, %r3, 3;", "%r4", 3),
        # across segments of 16 lanes the lower one keeps its own
        (f"{TID} shfl.sync.bfly.b32 %r3, %r1, 24, 4127, -1; and.b32 %r4, %r3, 8;", "%r4", 0x7F),
        # a parameter behind a register
        ("mov.b64 %rd1, n; ld.param.u32 %r1, [%rd1];", "%r1", 0),
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
        (f"{LOAD} add.s64 %rd2, %rd2, %rd4; ld.global.v2.f32 {{%f1, %f2}}, [%rd2];"
         " st.shared.v2.f32 [s], {%f1, %f2};", Verdict.REFUTED),
        (f"{LOAD} ld.global.f32 %f1, [%rd1]; st.shared.f32 [s], %f1;", Verdict.PROVED),
        ("ld.param.f32 %f1, [x]; st.shared.f32 [s], %f1;", Verdict.PROVED),
        (butterfly(16, 8, 4, 2, 1) + "st.shared.f32 [s], %f10;", Verdict.REFUTED),  # each warp its own sum
        (butterfly(16, 8, 4, 2, 1) + "shr.u32 %r30, %r1, 5; shl.b32 %r30, %r30, 2; mov.u32 %r31, s; "
         "add.u32 %r30, %r30, %r31; st.shared.f32 [%r30], %f10;", Verdict.PROVED),
        (butterfly(8, 4, 2, 1) + "shr.u32 %r30, %r1, 5; shl.b32 %r30, %r30, 2; mov.u32 %r31, s; "
         "add.u32 %r30, %r30, %r31; st.shared.f32 [%r30], %f8;", Verdict.REFUTED),
        # whole warps that leave change nothing; lanes of a warp that leave take their values with them
        ("mov.u32 %r1, %tid.x; setp.ge.u32 %p2, %r1, 32; @%p2 exit; " + butterfly(16, 8, 4, 2, 1)
         + "st.shared.f32 [s], %f10;", Verdict.PROVED),
        ("mov.u32 %r1, %tid.x; setp.ge.u32 %p2, %r1, 20; @%p2 exit; " + butterfly(16, 8, 4, 2, 1)
         + "st.shared.f32 [s], %f10;", Verdict.REFUTED),
    ],
)  # fmt: skip
def test_lanes_that_store_to_one_word(tmp_path: Path, body: str, verdict: Verdict) -> None:
    (tmp_path / "k.ptx").write_text(STORE.format(body=body))
    (found,) = check_source(read_source(str(tmp_path / "k.ptx")), repairs=False)
    assert found.verdict is verdict, (found.reason, found.diagnostics)
    assert all(d.rule == "SV112" for d in found.diagnostics if d.severity is Severity.ERROR)
    (strict,) = check_source(read_source(str(tmp_path / "k.ptx")), policy=Policy.STRICT, repairs=False)
    assert strict.verdict is Verdict.REFUTED  # no text exempts equal values


LOOP = (
    "ld.param.u64 %rd1, [p]; mov.u32 %r3, 0; A: mul.wide.u32 %rd2, %r3, 4; add.s64 %rd2, %rd1, %rd2; "
    "ld.global.f32 %f1, [%rd2]; st.shared.f32 [s], %f1; {barrier} ld.shared.f32 %f2, [s]; {again} "
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
    (found,) = check_source(read_source(str(tmp_path / "k.ptx")), repairs=False)
    assert found.verdict is verdict, (found.reason, found.diagnostics)


SKIPS = (
    f"{TID} shr.u32 %r2, %r1, 5; ld.param.u64 %rd1, [p]; mov.u32 %r3, 0; A: mul.wide.u32 %rd2, %r3, 4; "
    "add.s64 %rd2, %rd1, %rd2; ld.global.nc.f32 %f1, [%rd2]; setp.ne.u32 %p1, {who}; @%p1 bra B; "
    "st.shared.f32 [s], %f1; B: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 4; @%p2 bra A;"
)


@pytest.mark.parametrize(
    ("who", "verdict"),
    [
        ("%r3, %r2", Verdict.REFUTED),  # each warp stores once, in another iteration
        ("%r3, 2", Verdict.PROVED),  # all in the same
        ("%r2, 2", Verdict.REFUTED),  # one warp alone, whose lanes may be in different iterations
    ],
)
def test_who_skips_iterations_stores_other_values(tmp_path: Path, who: str, verdict: Verdict) -> None:
    (tmp_path / "k.ptx").write_text(STORE.format(body=SKIPS.format(who=who)))
    (found,) = check_source(read_source(str(tmp_path / "k.ptx")), repairs=False)
    assert found.verdict is verdict, (found.reason, found.diagnostics)


GUARDED = (
    f"{TID} shr.u32 %r2, %r1, 5; and.b32 %r4, %r1, 31; mov.u32 %r3, 0; A: setp.eq.u32 %p1, {{on}}; "
    "@%p1 st.shared.u32 [s], %r3; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 4; @%p2 bra A;"
)


@pytest.mark.parametrize(
    ("on", "mask"),
    [
        ("%r3, 2", TIME),
        ("%r2, 2", TIME),  # who stores at all does so in every iteration
        ("%r4, 2", TIME),
        ("%r3, %r2", TIME | 0x60),
        ("%r3, %r4", EVERY),  # how often a warp has stored is not how often a lane has
    ],
)
def test_a_guard_decides_how_often_a_store_was_executed(on: str, mask: int) -> None:
    module = parse(HEAD.format(body=GUARDED.format(on=on)), "k.ptx")
    flow = Flow(module.entries[0])
    k = next(k for k, i in enumerate(flow.body) if i.op == "st")
    assert Uniformity(flow, (128, 1, 1)).stored(k) == mask


#: Two roles that use one register for loops of their own, and what warps of one of them read in its loop.
ROLES = (
    f"{TID} shr.u32 %r2, %r1, 5; ld.param.u32 %r4, [n]; mov.u32 %r3, 0; setp.lt.u32 %p1, %r2, 2; @%p1 bra B; "
    "A: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r4; @%p2 bra A; bra C; "
    "B: {inner} add.u32 %r5, %r3, 7; st.shared.u32 [s], %r5; add.u32 %r3, %r3, 2; setp.lt.u32 %p3, %r3, %r4; "
    "@%p3 bra B; C:"
)


@pytest.mark.parametrize(
    ("inner", "mask"),
    [
        ("", TIME),  # who comes here has taken one side of the branch on the role
        # an inner loop that all warps of the role leave in the same iteration, and one that they do not
        ("mov.u32 %r6, 0; D: add.u32 %r6, %r6, 1; setp.lt.u32 %p4, %r6, %r4; @%p4 bra D; "
         "add.u32 %r3, %r3, %r6;", TIME),
        ("mov.u32 %r6, 0; D: add.u32 %r6, %r6, 1; setp.lt.u32 %p4, %r6, %r2; @%p4 bra D; "
         "add.u32 %r3, %r3, %r6;", TIME | 0x60),
    ],
)  # fmt: skip
def test_roles_that_share_a_register(inner: str, mask: int) -> None:
    module = parse(HEAD.format(body=ROLES.format(inner=inner)), "k.ptx")
    flow = Flow(module.entries[0])
    k = next(k for k, i in enumerate(flow.body) if i.op == "st")
    assert Uniformity(flow, (128, 1, 1)).stored(k) == mask


def test_a_register_that_is_written_again_before_the_sum_is_no_butterfly() -> None:
    step = "shfl.sync.bfly.b32 %r3|%p1, %r2, 1, 31, -1; {between} add.u32 %r4, %r2, %r3;"
    load = f"{LOAD} ld.global.nc.u32 %r2, [%rd2]; "
    assert varies(load + step.format(between=""), "%r4") == 0x7E
    assert varies(load + step.format(between="ld.global.nc.u32 %r2, [%rd2+4];"), "%r4") == 0x7F


# ------------------------------------------------------------ against running it


def drawn(rng: Random) -> list[tuple[str, ...]]:
    """A function of a few blocks: ``(label, a)``, ``(mov, a, x)``, ``(add, a, b, x)``, ``(and, a, b, x)``,
    ``(set, p, a, x)``, ``(bra, p, label)``; registers are letters."""
    n = rng.randint(3, 6)
    code: list[tuple[str, ...]] = [("tid", "a")]
    for b in range(n):
        code.append(("label", f"L{b}"))
        for _ in range(rng.randint(1, 3)):
            x, y = rng.choice("bcd"), rng.choice("abcd")
            kind = rng.choice(["mov", "add", "and", "guarded"])
            if kind == "mov":
                code.append(("mov", x, str(rng.randrange(4))))
            elif kind == "guarded":
                code.append(("guarded", rng.choice("pq"), x, str(rng.randrange(4))))
            else:
                code.append((kind, x, y, str(rng.choice([1, 2, 4]))))
        code.append(("set", rng.choice("pq"), rng.choice("abcd"), str(rng.randrange(5))))
        if rng.random() < 0.8:
            code.append(("bra", rng.choice("pq"), f"L{rng.randrange(n)}"))
    return code


def text(code: list[tuple[str, ...]]) -> str:
    forms = {
        "tid": "mov.u32 %{0}, %tid.x;", "label": "{0}:", "mov": "mov.u32 %{0}, {1};",
        "add": "add.u32 %{0}, %{1}, {2};", "and": "and.b32 %{0}, %{1}, {2};",
        "guarded": "@%{0} mov.u32 %{1}, {2};", "set": "setp.lt.u32 %{0}, %{1}, {2};", "bra": "@%{0} bra {1};",
    }  # fmt: skip
    head = ".reg .pred %p, %q;\n.reg .b32 %a, %b, %c, %d;\n"
    first = "mov.u32 %b, 0; mov.u32 %c, 1; mov.u32 %d, 2; setp.lt.u32 %p, %b, 0; setp.lt.u32 %q, %b, 1;\n"
    body = "\n".join(forms[op].format(*args) for op, *args in code)
    start = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n"
    return f"{start}{{\n{head}{first}{body}\nret;\n}}\n"


def ran(code: list[tuple[str, ...]], tid: int) -> list[list[dict[str, int]]]:
    """By instruction, what the registers held each time that a thread came to it."""
    held = {"a": 0, "b": 0, "c": 1, "d": 2, "p": 0, "q": 1}
    seen: list[list[dict[str, int]]] = [[] for _ in code]
    at, steps = 0, 0
    while at < len(code) and steps < 150:
        steps += 1
        op, *args = code[at]
        seen[at].append(dict(held))
        at += 1
        match op:
            case "tid":
                held["a"] = tid
            case "mov":
                held[args[0]] = int(args[1])
            case "add":
                held[args[0]] = held[args[1]] + int(args[2]) & 0xFFFFFFFF
            case "and":
                held[args[0]] = held[args[1]] & int(args[2])
            case "guarded" if held[args[0]]:
                held[args[1]] = int(args[2])
            case "set":
                held[args[0]] = int(held[args[1]] < int(args[2]))
            case "bra" if held[args[0]]:
                at = code.index(("label", args[1]))
    return seen


@pytest.mark.parametrize("seed", range(150))
def test_threads_that_agree_in_a_mask_read_the_same(seed: int) -> None:
    code = drawn(Random(seed))
    flow = Flow(parse(text(code), "k.ptx").entries[0])
    found = Uniformity(flow, (8, 1, 1))
    runs = [ran(code, tid) for tid in range(8)]
    k = 4
    for at, (op, *args) in enumerate(code):
        if op == "label":
            continue
        k += 1
        if flow.block_of[k] not in flow.reached:
            continue
        names = {"add": args[1:2], "and": args[1:2], "set": args[1:2], "bra": args[:1], "guarded": args[:1]}
        for name in names.get(op, ()):
            mask = found.read_at(k, [f"%{name}"])
            for a, b in combinations(range(8), 2):
                if not (a ^ b) & mask & THREADS:
                    for x, y in zip(runs[a][at], runs[b][at], strict=False):
                        assert x[name] == y[name], (k, name, a, b, mask)
            if not mask & TIME:
                assert all(len({x[name] for x in run[at]}) < 2 for run in runs), (k, name)


def test_what_an_instruction_reads_is_looked_up_once_for_all_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores of the results of a long chain: each goes back to the loads, and looks nothing up again."""
    length, stores = 200, 30
    chain = " ".join(f"add.f32 %f{2 + n % 8}, %f{1 + n % 8}, %f1;" for n in range(length))
    body = f"{LOAD} ld.global.f32 %f1, [%rd2]; {chain} " + "st.global.f32 [%rd2], %f5; " * stores
    flow = Flow(parse(HEAD.format(body=body), "k.ptx").entries[0])
    u, looked_up = Uniformity(flow, (128, 1, 1)), list[int]()
    plain = Versions.read

    def read(self: Versions, name: str, k: int) -> int:
        looked_up.append(k)
        return plain(self, name, k)

    monkeypatch.setattr(Versions, "read", read)
    (load,) = (k for k, i in enumerate(flow.body) if i.op == "ld" and "global" in i.mods)
    for k, i in enumerate(flow.body):
        if i.op == "st":
            assert u.loads_behind(k, ["%f5"]) == {load}
    assert len(looked_up) < 4 * length


def test_a_signed_number_that_a_loop_halves_has_an_answer() -> None:
    """``while (i != 0) i /= 2;``: whether it is negative is asked of the bits of what it is made of."""
    turn = (
        "L: add.s32 %r3, %r2, 1; shr.u32 %r4, %r2, 31; add.s32 %r5, %r2, %r4; shr.s32 %r6, %r5, 1; "
        "setp.gt.u32 %p1, %r3, 2; mov.u32 %r2, %r6; @%p1 bra L;"
    )
    assert varies(f"mov.u32 %r1, %ntid.x; shr.u32 %r2, %r1, 1; {turn}", "%r2") == TIME
    own = varies(f"mov.u32 %r1, %tid.x; mov.u32 %r2, %r1; {turn}", "%r2")
    assert own & LANES == LANES


def test_what_is_said_never_to_change_decides_alike_only_where_the_kernel_writes_nothing() -> None:
    body = "ld.param.u64 %rd1, [p]; ld.global.nc.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 5; @%p1 bra E; E:"
    flow = Flow(parse(HEAD.format(body=body), "k.ptx").entries[0])
    (branch,) = (k for k, i in enumerate(flow.body) if i.op == "bra")
    loads = [k for k, i in enumerate(flow.body) if i.op == "ld" and "nc" in i.mods]
    uniformity = Uniformity(flow, (128, 1, 1))
    assert uniformity.decided_alike(branch, loads)
    assert not uniformity.decided_alike(branch, ())


@pytest.mark.parametrize(("blocks", "mask"), [(None, 0), (4096, 0), (1 << 25, 0x7F), ((1 << 31) - 1, 0x7F)])
def test_signs_of_products_with_the_grid(blocks: int | None, mask: int) -> None:
    """Of an open grid a product is assumed not to wrap; of one in numbers it is known."""
    body = f"{TID} mov.u32 %r2, %ctaid.x; mul.lo.u32 %r3, %r1, %r2; shr.s32 %r4, %r3, 31;"
    module = parse(HEAD.format(body=body), "k.ptx")
    assert Uniformity(Flow(module.entries[0]), (128, 1, 1), blocks).of(["%r4"]) & THREADS == mask


LANE_DECIDES = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in) {
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<8>;
mov.u32 %r1, %tid.x; ld.param.u64 %d1, [in]; mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2;
ld.global.u32 %r2, [%d3]; mov.u64 %d4, 31;
BODY
setp.ne.u32 %p1, %r5, 0;
@%p1 bra OVER;
bar.warp.sync -1;
OVER: ret; }
"""


@pytest.mark.parametrize(
    ("body", "proved"),
    [
        ("mov.b64 {%r3, %r4}, %d4; shfl.sync.idx.b32 %r5, %r2, 0, %r3, -1;", True),
        # the upper word is 0, not 31: each lane gets its own word
        ("mov.b64 {%r3, %r4}, %d4; shfl.sync.idx.b32 %r5, %r2, 0, %r4, -1;", False),
        ("shr.u32 %r3, %r2, -1; and.b32 %r5, %r3, 2;", True),
        # the sign fills the word
        ("shr.s32 %r3, %r2, -1; and.b32 %r5, %r3, 2;", False),
    ],
)
def test_lanes_decide_alike(body: str, proved: bool) -> None:
    facts = {"kernel": {"k": {"block": [32], "grid": [1], "params": {"0": "ptr"}}}}
    (report,) = syncverify.check(LANE_DECIDES.replace("BODY", body), facts=facts, replay=False, advice=False)
    assert (str(report.verdict) == "proved") is proved


LEAVES = "setp.eq.u32 %p1, %r1, 0; @%p1 bra EXIT;"
READS = "shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;"


@pytest.mark.parametrize("before", [True, False])
def test_a_lane_that_has_left_by_the_only_exit_gives_nothing(before: bool) -> None:
    """What its register would have brought differs between the lanes that store it to one place."""
    steps = f"{LEAVES} {READS}" if before else f"{READS} {LEAVES}"
    text = kernel(f"""mad.wide.u32 %rd2, %r1, 4, %rd1; .shared .align 4 .b32 s; ld.global.u32 %r2, [%rd2];
    {steps} st.shared.u32 [s], %r3; EXIT:""")
    facts = {"kernel": {"k": {"grid": [1], "block": [32], "params": {"0": "ptr"}}}}
    (report,) = syncverify.check(text, facts=facts, replay=False, advice=False)
    assert str(report.verdict) == ("refuted" if before else "proved")


#: Who leaves, which lane is read, and whether it is there.
READ_OF_A_LANE = [
    ("setp.eq.u32 %p1, %r1, 0; @%p1 bra EXIT;", "3", True),
    ("setp.ge.u32 %p1, %r1, 20; @%p1 bra EXIT;", "0", True),
    ("setp.ge.u32 %p1, %r1, 20; @%p1 bra EXIT;", "20", False),
    ("setp.lt.u32 %p1, %r1, 20; @!%p1 exit;", "19", True),
    ("and.b32 %r4, %r1, 3; setp.eq.u32 %p1, %r4, 1; @%p1 ret;", "8", True),
    ("and.b32 %r4, %r1, 3; setp.eq.u32 %p1, %r4, 1; @%p1 ret;", "9", False),
    ("setp.ge.u32 %p1, %r1, 8; @%p1 bra EXIT; setp.lt.u32 %p2, %r1, 2; @%p2 bra EXIT;", "5", True),
    ("setp.ge.u32 %p1, %r1, 8; @%p1 bra EXIT; setp.lt.u32 %p2, %r1, 2; @%p2 bra EXIT;", "1", False),
    ("setp.ge.u32 %p1, %r2, 8; @%p1 bra EXIT;", "0", False),  # data decides
    ("setp.ge.u32 %p1, %r2, 8; @%p1 bra EXIT; setp.ge.u32 %p2, %r1, 8; @%p2 bra EXIT;", "0", False),
]


@pytest.mark.parametrize(("leaves", "lane", "is_there"), READ_OF_A_LANE)
def test_a_lane_that_stays_gives_all_the_same(leaves: str, lane: str, is_there: bool) -> None:
    text = kernel(f"""mad.wide.u32 %rd2, %r1, 4, %rd1; .shared .align 4 .b32 s; ld.global.u32 %r2, [%rd2];
    {leaves} shfl.sync.idx.b32 %r3, %r2, {lane}, 31, -1; st.shared.u32 [s], %r3; EXIT:""")
    facts = {"kernel": {"k": {"grid": [1], "block": [32], "params": {"0": "ptr"}}}}
    (report,) = syncverify.check(text, facts=facts, replay=False, advice=False)
    assert (str(report.verdict) == "proved") is is_there


@pytest.mark.parametrize(
    ("first", "turn", "alike"),
    [
        ("mov.u32 %r5, 0;", "add.u32 %r5, %r5, 1;", True),
        ("", "add.u32 %r5, %r5, 1;", False),
        ("", "add.u32 %r8, %r5, 1; mov.u32 %r5, %r8;", False),
        ("", "setp.gt.u32 %p2, %r4, 1; @%p2 add.u32 %r5, %r5, 1;", False),
        ("", "@%p2 bra N; add.u32 %r5, %r5, 1; N:", False),
        ("", "mov.u32 %r5, %r4;", True),  # which each turn writes
    ],
)
def test_a_loop_that_counts_on_from_nothing_goes_another_way_in_each_lane(
    first: str, turn: str, alike: bool
) -> None:
    ahead = f"mov.u32 %r4, 2; setp.eq.u32 %p2, %r4, 7; {first}"
    assert varies(f"{ahead} L: {turn} setp.lt.u32 %p1, %r5, %r4; @%p1 bra L;", "%p1") & LANES == (
        0 if alike else LANES
    )
