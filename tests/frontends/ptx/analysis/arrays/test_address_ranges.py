"""Intervals of values that data makes: by hand, and beside what the second reader computes."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.frontends.ptx.analysis.arrays.address_ranges import AddressRanges, Interval
from syncverify.frontends.ptx.analysis.registers.branch_bounds import Bound, Side, bounded
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.simulate.ptx import Launch, buffer, run
from tests.simulate.ptx.support import kernel

SHAPE = (32, 1, 1)
LOAD = ".shared .align 8 .b8 s[64]; mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.u32 %r2, [%rd2];\n"
_WORD = 1 << 32
PROBE = "\nsetp.gt.u32 %p19, %r1, 999; @%p19 ld.shared.u8 %r99, [%r9];\n"


def reached(body: str) -> Interval | None:
    """Of ``%r9`` behind a body, where ``%r2`` holds any word."""
    function = parse(kernel(LOAD + body + PROBE)).entries[0]
    k = next(n for n, i in enumerate(function.body) if i.guard is not None and i.guard.name == "%p19")
    return AddressRanges(Flow(function), {"s": 1024}, SHAPE, range(32)).reached(k).places


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("and.b32 %r3, %r2, 31; mul.lo.u32 %r9, %r3, 4;", Interval(0, 124, 4)),
        ("shr.u32 %r3, %r2, 28; mov.u32 %r4, s; mad.lo.u32 %r9, %r3, 8, %r4;", Interval(1024, 1144, 8)),
        ("ld.global.u8 %rs1, [%rd2]; mul.wide.u16 %r9, %rs1, 4;", Interval(0, 1020, 4)),
        ("bfe.u32 %r3, %r2, 3, 4; shl.b32 %r9, %r3, 2;", Interval(0, 60, 4)),
        ("min.u32 %r9, %r2, 100;", Interval(0, 100)),
        ("rem.u32 %r9, %r2, 10;", Interval(0, 9)),
        ("and.b32 %r3, %r2, 3; shl.b32 %r4, %r1, 2; or.b32 %r9, %r3, %r4;", Interval(0, 127)),
        ("and.b32 %r9, %r2, 7; setp.lt.u32 %p1, %r1, 9; @%p1 mov.u32 %r9, 16;", Interval(0, 16)),
        (
            "and.b32 %r9, %r2, 7; L: add.u32 %r9, %r9, 4; setp.lt.u32 %p1, %r9, 99; @%p1 bra L;",
            Interval(99, 107),
        ),
        ("min.s32 %r9, %r2, 100;", None),
        ("mul.lo.u32 %r9, %r2, 4;", Interval(0, 2**32 - 4, 4)),
        ("mul.lo.u32 %r9, %r2, 3;", None),
        ("mul.hi.u32 %r9, %r2, 4;", Interval(0, 3)),
        ("mul.hi.s32 %r9, %r2, 4;", None),
        ("shl.b32 %r3, %r2, 2; and.b32 %r9, %r3, 127;", Interval(0, 124, 4)),
        ("max.s32 %r3, %r2, 0; min.s32 %r9, %r3, 31;", Interval(0, 31)),
        ("min.s32 %r3, %r2, 31; max.s32 %r9, %r3, 0;", Interval(0, 31)),
        ("min.s32 %r3, %r2, 31; max.s32 %r9, %r3, -1;", None),
        ("min.s32 %r3, %r2, 31; max.s32 %r9, %r3, %r3;", None),
        ("min.u32 %r9, %r2, -1;", Interval(0, 2**32 - 1)),
        ("and.b32 %r3, %r2, 31; min.s32 %r9, %r3, -5;", None),
        ("lop3.b32 %r9, %r2, 31, 32, 0xEA;", Interval(32, 63)),
        ("and.b32 %r3, %r2, 12; xor.b32 %r9, %r3, 5;", Interval(1, 13, 4)),
        ("prmt.b32 %r9, %r2, 0, 0x4440;", Interval(0, 255)),
        ("prmt.b32 %r9, %r2, 0, 0x4448;", Interval(0, 255, 1)),
        ("or.b32 %r3, %r2, 1; clz.b32 %r9, %r3;", Interval(0, 31)),
        ("clz.b32 %r9, %r2;", Interval(0, 32)),
        ("or.b32 %r3, %r2, 4; bfind.u32 %r9, %r3;", Interval(2, 31)),
        ("bfind.u32 %r9, %r2;", None),
        ("match.any.sync.b32 %r3, %r2, -1; brev.b32 %r4, %r3; clz.b32 %r9, %r4;", Interval(0, 31)),
        ("setp.lt.u32 %p1, %r2, 32; selp.b32 %r9, %r2, 7, %p1;", Interval(0, 31)),
        ("setp.lt.u32 %p1, %r2, 32; selp.b32 %r9, 7, %r2, %p1;", None),
        ("setp.lt.s32 %p1, %r2, 32; selp.b32 %r9, %r2, 7, %p1;", None),
        (
            "setp.ge.s32 %p1, %r2, 0; setp.lt.and.s32 %p2, %r2, 9, %p1; selp.b32 %r9, %r2, 7, %p2;",
            Interval(0, 8),
        ),
        ("and.b32 %r3, %r2, 7; sub.u32 %r9, %r3, 4;", None),  # it wraps below 0
        ("and.b32 %r9, %r2, -4;", Interval(0, 2**32 - 4, 4)),
        ("popc.b32 %r9, %r2;", Interval(0, 32)),
        ("mov.u32 %r3, %lanemask_lt; and.b32 %r4, %r3, %r2; popc.b32 %r9, %r4;", Interval(0, 31)),
        ("mov.u32 %r3, -1; shl.b32 %r4, %r3, %r1; not.b32 %r9, %r4;", Interval(0, 2**31 - 1)),
        ("and.b32 %r3, %r2, 31; cvt.rn.f32.u32 %f1, %r3; mov.b32 %r9, %f1;", None),  # bits of a float
        ("and.b32 %r3, %r2, 31; mov.b32 %f1, %r3; mov.b32 %r9, %f1;", Interval(0, 31)),
        ("and.b32 %r3, %r2, 31; cvt.pack.sat.u8.s32.b32 %r9, %r3, %r3, 0;", None),
    ],
)
def test_intervals(body: str, expected: Interval | None) -> None:
    assert reached(body) == expected


#: Instructions from A, B and the number C into D; N and M are numbers below 32 and 9.
STEPS = """and.b32 D, A, C;
and.b32 D, A, C;
and.b32 D, A, C;
shr.u32 D, A, N;
shr.s32 D, A, N;
shl.b32 D, A, M;
add.s32 D, A, B;
add.u32 D, A, C;
sub.u32 D, A, C;
mul.lo.u32 D, A, C;
mul.lo.s32 D, A, C;
mul.hi.u32 D, A, C;
mad.lo.u32 D, A, C, B;
or.b32 D, A, B;
min.u32 D, A, C;
min.s32 D, A, C;
rem.u32 D, A, 1C;
rem.s32 D, A, 1C;
bfe.u32 D, A, M, M;
bfe.s32 D, A, M, M;
cvt.u32.u8 D, A;
cvt.u32.u16 D, A;
cvt.s32.s8 D, A;
setp.lt.u32 %p2, A, C; selp.b32 D, A, B, %p2;
mov.u32 D, B; setp.gt.s32 %p3, A, C; @%p3 mov.u32 D, A;
cvt.u16.u32 %rs3, A; mul.wide.u16 D, %rs3, C;
cvt.u16.u32 %rs3, A; mul.wide.s16 D, %rs3, C;
and.b32 D, A, B;
xor.b32 D, A, B;
xor.b32 D, A, C;
lop3.b32 D, A, B, C, 12;
lop3.b32 D, A, C, B, 234;
lop3.b32 D, A, C, B, 96;
prmt.b32 D, A, B, 204;
prmt.b32 D, A, B, 12608;
prmt.b32 D, A, B, 17480;
bfi.b32 D, A, B, M, N;
shf.l.wrap.b32 D, A, B, N;
shf.r.clamp.b32 D, A, B, N;
max.u32 D, A, C;
max.s32 D, A, C;
max.s32 D, A, -C;
min.s32 %r18, A, C; max.s32 D, %r18, N;
min.s32 %r18, A, C; max.s32 D, %r18, -1;
max.s32 %r18, A, 0; min.s32 D, %r18, C;
min.u32 D, A, -1;
min.s32 D, A, -C;
sub.u32 D, A, B;
div.u32 D, A, 1C;
div.s32 D, A, 1C;
mul.hi.u32 D, A, B;
clz.b32 D, A;
or.b32 %r18, A, C; clz.b32 D, %r18;
or.b32 %r18, A, 1; bfind.u32 D, %r18;
bfind.u32 D, A;
brev.b32 D, A;
match.any.sync.b32 %r18, A, -1; brev.b32 %r17, %r18; clz.b32 D, %r17;
shl.b32 %r18, A, M; and.b32 D, %r18, C;
setp.lt.s32 %p2, A, C; selp.b32 D, A, B, %p2;
setp.ge.s32 %p2, A, 0; setp.lt.and.s32 %p2|%p3, A, C, %p2; selp.b32 D, B, A, %p3;
setp.ge.s32 %p2, A, N; setp.le.and.s32 %p2, A, C, %p2; selp.b32 D, A, N, %p2;
setp.eq.u32 %p2, A, C; selp.b32 D, A, B, %p2;
add.u32 %r18, A, N; setp.hi.u32 %p2, C, A; selp.b32 D, %r18, B, %p2;
popc.b32 D, A;
not.b32 D, A;
mov.u32 %r18, %lanemask_lt; and.b32 D, A, %r18;
mov.u32 %r17, %lanemask_ge; and.b32 %r18, A, %r17; popc.b32 D, %r18;
mov.u32 %r18, -1; shl.b32 %r17, %r18, %r1; not.b32 D, %r17;
and.b32 %r18, A, N; shl.b32 D, C, %r18;""".splitlines()


def chain(draw: random.Random) -> str:
    """Instructions of which each reads what others wrote; the last value is in ``%r9``."""
    lines, some = [], ["%r2", "%r1"]
    for n in range(draw.randint(2, 6)):
        c = draw.choice([0, 1, 2, 3, 4, 7, 8, 12, 31, 63, 255, 32767])
        put = {"D": f"%r{20 + n}", "A": draw.choice(some), "B": draw.choice(some), "C": str(c)}
        put |= {"N": str(c % 32), "M": str(c % 9)}
        lines.append(re.sub(r"[ABCDMN]", lambda m, put=put: put[m[0]], draw.choice(STEPS)))
        some.append(put["D"])
    return "\n".join([*lines, f"mov.u32 %r9, {some[-1]};"])


def test_no_value_lies_outside_of_its_interval() -> None:
    known = 0
    draw = random.Random(7)
    words = [0, 1, 2, 5, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1]
    for _ in range(250):
        body = chain(draw)
        found = reached(body)
        if found is None:
            continue
        known += 1
        data = np.resize(np.concatenate([words, [draw.getrandbits(32) for _ in range(19)]]), 32).astype(
            np.uint32
        )
        out = buffer(data)
        ended = run(
            kernel(LOAD + body + "\nst.global.u32 [%rd2], %r9;"), "k", Launch(SHAPE, params=(out,)), seed=1
        )
        for value in map(int, ended.memory(out)):
            inside = found.low <= value <= found.high
            assert inside and (value - found.low) % (found.step or _WORD) == 0, (body, found, value)
    assert known > 50


#: Branches out, behind comparisons of A with B or C.
BRANCHES = """setp.ge.u32 %p5, A, C; @%p5 bra OUT;
setp.lt.u32 %p5, A, C; @!%p5 bra OUT;
setp.gt.s32 %p5, A, C; @%p5 bra OUT;
setp.lt.s32 %p5, A, 0; @%p5 bra OUT;
setp.lt.s32 %p5, A, 0; setp.ge.or.s32 %p5, A, C, %p5; @%p5 bra OUT;
setp.ge.s32 %p5, A, 0; setp.lt.and.s32 %p6|%p7, A, C, %p5; @!%p6 bra OUT;
setp.ge.s32 %p5, A, 0; setp.lt.and.s32 %p6|%p7, A, C, %p5; @!%p7 bra OUT;
setp.lt.u32 %p5|%p6, C, A; @%p6 bra OUT;
setp.ne.u32 %p5, A, C; @%p5 ret;
setp.lt.u32 %p5, A, C; setp.lt.u32 %p6, B, C; and.pred %p7, %p5, %p6; @!%p7 bra OUT;
setp.lt.u32 %p5, A, C; setp.lt.u32 %p6, B, C; or.pred %p7, %p5, %p6; @!%p7 bra OUT;
setp.ge.u32 %p5, A, C; not.pred %p6, %p5; @%p6 bra L1; bra OUT; L1:
setp.lt.u32 %p5, A, C; @%p5 add.u32 A, A, 1; @!%p5 bra OUT;
setp.le.u32 %p5, A, B; @!%p5 bra OUT;
setp.lt.u32 %p5, A, C; setp.lt.or.u32 %p6, B, C, %p5; @!%p6 bra OUT;
setp.ge.u32 %p5, A, C; setp.lt.and.u32 %p6, B, C, !%p5; @!%p6 bra OUT;
setp.lt.u32 %p5, A, C; setp.lt.and.u32 %p6, B, C, !%p5; @!%p6 bra OUT;
setp.lt.u32 %p5, A, C; setp.lt.xor.u32 %p6, B, C, %p5; @!%p6 bra OUT;
setp.lt.u32 %p5, A, C; setp.lt.xor.u32 %p6, B, C, %p5; @%p6 bra OUT;
mov.u32 %r40, 0; L2: add.u32 %r40, %r40, 1; add.u32 A, A, %r40; setp.lt.u32 %p5, A, C; @%p5 bra L2;
mov.u32 %r40, 0; L3: setp.lt.u32 %p5, A, C; mov.u32 A, B; @%p5 bra L4; bra OUT; L4:""".splitlines()


def test_no_value_lies_outside_of_what_a_branch_leaves_of_its_interval() -> None:
    known, draw = 0, random.Random(11)
    for _ in range(300):
        body = chain(draw)
        names = sorted(set(re.findall(r"%r2\d", body)))
        put = {"A": draw.choice(names), "B": draw.choice(names)}
        put["C"] = str(draw.choice([1, 3, 4, 8, 31, 255, 70000]))
        branch = re.sub(r"\b[ABC]\b", lambda m, put=put: put[m[0]], draw.choice(BRANCHES))
        body += f"\n{branch}\nmov.u32 %r9, {draw.choice(names)};\nst.global.u32 [%rd2], %r9;"
        found = reached(body.replace("OUT", "O") + PROBE + "O: mov.u32 %r98, 0;")
        if found is None:
            continue
        known += 1
        wide = [draw.getrandbits(32), draw.getrandbits(8), _WORD - 1 - draw.getrandbits(3)]
        data = [draw.choice(wide) >> draw.choice([0, 0, 24]) for _ in range(32)]
        out = buffer(np.array([*data, *[0] * 32], np.uint32))
        text = LOAD + body + "\nst.global.u32 [%rd2+128], 1; OUT: mov.u32 %r97, 0;"
        values = run(kernel(text), "k", Launch(SHAPE, params=(out,)), seed=1).memory(out)
        for value in map(int, values[:32][values[32:] == 1]):
            inside = found.low <= value <= found.high
            assert inside and (value - found.low) % (found.step or _WORD) == 0, (body, found, value)
    assert known > 100


BINS = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
.reqntid 64
{{ .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<9>; .shared .align 4 .b8 bins[256];
  ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d2, %d1, %d2;
  ld.global.u32 %r2, [%d2]; mov.u32 %r3, bins; mov.u32 %r4, 1;
  and.b32 %r2, %r2, {mask};
  mad.lo.u32 %r5, %r2, {scale}, %r3;
  red.shared.add.u32 [%r5], %r4;
  ret;
}}
"""


COMPARED = (
    BINS.replace("and.b32 %r2, %r2, {mask};", "{body}").replace("{scale}", "4").replace("ret;", "O: ret;")
)


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("setp.gt.u32 %p1, %r2, 63; @%p1 bra O;", Verdict.PROVED),
        ("setp.gt.u32 %p1, %r2, 63; @%p1 ret;", Verdict.PROVED),
        ("setp.gt.u32 %p1, %r2, 64; @%p1 bra O;", Verdict.UNKNOWN),
        ("setp.gt.u32 %p1, %r2, 63; @!%p1 bra O;", Verdict.PROVED),  # nothing bounds it: an assumption
        (  # compared, and taken a turn later
            "mov.u32 %r8, %r2; mov.u32 %r9, 0; L: setp.gt.u32 %p1, %r2, 63; and.b32 %r8, %r8, 127;"
            "@%p1 bra N; mad.lo.u32 %r5, %r8, 4, %r3; red.shared.add.u32 [%r5], %r4;"
            "N: mov.u32 %r8, %r2; ld.global.u32 %r2, [%d1]; add.u32 %r9, %r9, 1;"
            "setp.lt.u32 %p2, %r9, 3; @%p2 bra L; and.b32 %r2, %r2, 63;",
            Verdict.UNKNOWN,
        ),
    ],
)
def test_bounds_of_comparisons_are_held_against_memory(body: str, verdict: Verdict) -> None:
    (report,) = syncverify.check(COMPARED.format(body=body), replay=False, advice=False)
    assert report.verdict is verdict


def test_a_cluster_has_so_many_ranks() -> None:
    """Data that names a rank: of two CTAs by one bit, not by two."""
    text = BINS.format(mask=63, scale=4).replace("red.shared", "red.shared::cluster")
    text = text.replace("ld.global.u32", "barrier.cluster.arrive; barrier.cluster.wait; ld.global.u32")
    text = text.replace("ret;", "barrier.cluster.arrive; barrier.cluster.wait; ret;")

    def verdict(rank: str) -> Verdict:
        mapped = f"shr.u32 %r6, %r9, {rank}; mapa.shared::cluster.u32 %r5, %r5, %r6; red.shared::c"
        made = text.replace("and.b32 %r2", "mov.u32 %r9, %r2; and.b32 %r2").replace("red.shared::c", mapped)
        facts = {"kernel": {"k": {"grid": [2], "cluster": [2]}}}
        (report,) = syncverify.check(made, facts=facts, advice=False)
        return report.verdict

    assert verdict("31") is Verdict.PROVED
    assert verdict("30") is Verdict.UNKNOWN


def test_an_address_without_a_variable_is_not_assumed_to_be_inside() -> None:
    text = BINS.format(mask=-1, scale=4)
    (report,) = syncverify.check(text.replace("mov.u32 %r3, bins;", "mov.u32 %r3, 1024;"), advice=False)
    assert report.verdict is Verdict.UNKNOWN
    assert "no shared variable is in the address" in str(report.reason)


@pytest.mark.parametrize(
    ("mask", "scale", "verdict"),
    [(63, 4, Verdict.PROVED), (127, 4, Verdict.REFUTED), (63, 2, Verdict.UNKNOWN), (-1, 4, Verdict.PROVED)],
)
def test_bounds_that_the_kernel_has_are_held_against_its_memory(
    mask: int, scale: int, verdict: Verdict
) -> None:
    """Without bounds of its own, that the access stays inside is an assumption."""
    (report,) = syncverify.check(BINS.format(mask=mask, scale=scale), advice=False)
    assert report.verdict is verdict
    assert any("stays inside" in a for a in report.assumptions) == (mask == -1)


#: A table of 8 words, and an index that is -1 where the data is a multiple of 8.
DIFFERENCE = """.shared .align 4 .b8 t[32];
mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.u32 %r2, [%rd2]; mov.u32 %r3, t; shl.b32 %r4, %r1, 2;
add.u32 %r4, %r3, %r4; setp.lt.u32 %p1, %r1, 8; @%p1 st.shared.u32 [%r4], %r2; bar.sync 0;
and.b32 %r5, %r2, 7; sub.s32 %r5, %r5, 1; mov.u32 %r7, 0; COMPARED
@!%p2 bra E; shl.b32 %r6, %r5, 2; add.u32 %r6, %r3, %r6; ld.shared.u32 %r7, [%r6];
E: st.global.u32 [%rd2], %r7;
"""


@pytest.mark.parametrize(
    ("compared", "right"),
    [
        ("setp.lt.s32 %p2, %r5, 4;", False),
        ("setp.lt.s32 %p2, %r5, 4; setp.ge.and.s32 %p2, %r5, 0, %p2;", True),
        ("setp.lt.u32 %p2, %r5, 4;", True),
        ("setp.gt.s32 %p2, %r5, 2;", True),
    ],
)
def test_a_difference_below_0_meets_bounds_by_its_sign(compared: str, right: bool) -> None:
    """With signs it is less than any end."""
    facts = {"kernel": {"k": {"block": [64], "grid": [1], "params": {"0": "ptr"}}}}
    (report,) = syncverify.check(kernel(DIFFERENCE.replace("COMPARED", compared)), facts=facts)
    assert (report.verdict is Verdict.PROVED) == right


@pytest.mark.parametrize(
    ("low", "high", "signed", "expected"),
    [
        (3, _WORD - 1, False, Interval(-1, 6)),
        (0, 4, False, Interval(0, 4)),
        (3, _WORD // 2 - 1, True, Interval(3, 6)),
        (-_WORD // 2, 3, True, Interval(-1, 3)),
    ],
)
def test_numbers_below_0_are_great_without_signs(
    low: int, high: int, signed: bool, expected: Interval
) -> None:
    bound = Bound(7, low, high, signed, 32, Side.BOTH)
    assert bounded(Interval(-1, 6), 7, frozenset({bound})) == expected


#: Two arrays, of which a thread reads the first by the number of its turn, until data ends the loop.
TURNED = """.shared .align 4 .b8 t[32]; .shared .align 4 .b8 u[128];
mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.u32 %r2, [%rd2]; mov.u32 %r3, t; mov.u32 %r4, u;
mov.u32 %r7, 0; setp.lt.u32 %p1, %r1, 8; shl.b32 %r8, %r1, 2; add.u32 %r9, %r3, %r8;
@%p1 st.shared.u32 [%r9], %r2; bar.sync 0;
setp.lt.u32 %p2, %r1, 32; @%p2 bra W;
mov.u32 %r5, 0;
L: shl.b32 %r6, %r5, 2; add.u32 %r6, %r3, %r6; ld.shared.u32 %r7, [%r6];
setp.eq.u32 %p3, %r5, %r2; @%p3 bra E; add.s32 %r5, %r5, 1;
BACK
bra E;
W: add.u32 %r9, %r4, %r8; st.shared.u32 [%r9], %r2;
E: st.global.u32 [%rd2], %r7;
"""


@pytest.mark.parametrize(
    ("back", "shown"),
    [
        ("setp.ne.s32 %p4, %r5, 8; @%p4 bra L;", True),
        ("and.b32 %r10, %r5, 1; setp.eq.u32 %p4, %r10, 0; @%p4 bra M; setp.ne.s32 %p5, %r5, 8; @%p5 bra L;"
         " bra E; M: setp.ne.s32 %p5, %r5, 7; @%p5 bra L;", False),
        ("and.b32 %r10, %r5, 1; setp.eq.u32 %p4, %r10, 0; @%p4 bra M; setp.lt.s32 %p5, %r5, 8; @%p5 bra L;"
         " bra E; M: setp.lt.s32 %p5, %r5, 7; @%p5 bra L;", True),
    ],
)  # fmt: skip
def test_a_number_that_one_way_back_ends_at_is_passed_on_another(back: str, shown: bool) -> None:
    """Then data decides how far the turns go, and it is taken to keep the access in its array."""
    facts = {"kernel": {"k": {"block": [64], "grid": [1], "params": {"0": "ptr"}}}}
    (report,) = syncverify.check(kernel(TURNED.replace("BACK", back)), facts=facts)
    assert report.verdict is Verdict.PROVED
    assert any("where data says" in x for x in report.assumptions) != shown


BEHIND_DATA = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in) {
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<9>; .local .align 4 .b8 a[256];
mov.u32 %r1, %tid.x; ld.param.u64 %d1, [in]; ld.global.u32 %r2, [%d1];
setp.eq.u32 %p1, %r2, 0; @%p1 bra OVER;
mov.u64 %d3, a; mul.wide.u32 %d2, %r1, 8; add.u64 %d3, %d3, %d2;
mad.wide.TYPE %d4, %r1, -4, %d3; st.local.u32 [%d4], %r1;
OVER: ret; }
"""


@pytest.mark.parametrize(("type_", "proved"), [("s32", True), ("u32", False)])
def test_a_negative_factor_is_a_great_one_without_signs(type_: str, proved: bool) -> None:
    """A wide product of it leaves the array of a thread by gigabytes."""
    facts = {"kernel": {"k": {"block": [32], "grid": [1], "params": {"0": "ptr"}}}}
    text = BEHIND_DATA.replace("TYPE", type_)
    (report,) = syncverify.check(text, facts=facts, replay=False, advice=False)
    assert (str(report.verdict) == "proved") is proved
