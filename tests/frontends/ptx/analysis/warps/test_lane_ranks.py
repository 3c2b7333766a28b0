"""Places by the ranks of lanes in a mask: by hand, beside what the second reader computes, as verdicts."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

import syncverify
from syncverify.frontends.ptx.analysis.registers.uniformity import Uniformity
from syncverify.frontends.ptx.analysis.warps.collectives import Collectives
from syncverify.frontends.ptx.analysis.warps.lane_ranks import ALONE, LaneRanks
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.data_guards import with_data_guards_as_branches
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.simulate.ptx import Launch, buffer, run
from tests.simulate.ptx.support import kernel

LOAD = """.shared .align 8 .b8 s[4096];
mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.u32 %r2, [%rd2]; st.global.u32 [%rd2], 77777;
mov.u32 %r3, s; mov.u32 %r4, %lanemask_lt; and.b32 %r5, %r1, 31; shr.u32 %r6, %r1, 5;
setp.gt.s32 %p1, %r2, 3; setp.lt.s32 %p2, %r2, 4; setp.lt.s32 %p3, %r2, 5;
vote.sync.ballot.b32 %r7, %p1, -1;
"""
RANK = "and.b32 %r8, %r7, %r4; popc.b32 %r10, %r8;\n"
BY_FOUR = RANK + "mad.lo.u32 %r9, %r10, 4, %r3;"
#: What makes the place in ``%r9``, the guard of the access, and how far lanes are apart.
PLACES = [
    (BY_FOUR, "@%p1", 4),
    (BY_FOUR, "@!%p2", 4),
    (BY_FOUR, "@!%p3", 0),  # ranks of other lanes
    (BY_FOUR, "@%p2", 0),
    (BY_FOUR, "", 0),
    (BY_FOUR.replace("4, %r3", "1, %r3"), "@%p1", 1),
    (RANK + "shl.b32 %r11, %r10, 3; add.u32 %r9, %r11, %r6;", "@%p1", 8),
    (RANK + "add.u32 %r11, %r10, %r5; shl.b32 %r9, %r11, 2;", "@%p1", 0),
    (RANK + "mad.lo.u32 %r11, %r6, 32, %r10; shl.b32 %r9, %r11, 2;", "@%p1", 4),
    (RANK + "xor.b32 %r9, %r10, 5;", "@%p1", 0),
    (RANK + "shl.b32 %r11, %r10, 2; sub.u32 %r12, %r11, 8; cvt.sat.u32.s32 %r9, %r12;", "@%p1", 0),
    (RANK + "shl.b32 %r11, %r10, 2; sub.u32 %r12, %r11, 8; cvt.u32.s32 %r9, %r12;", "@%p1", 4),
    (RANK + "shl.b32 %r11, %r10, 2; add.sat.s32 %r9, %r11, 0x7ffffff0;", "@%p1", 0),
    (RANK + "shl.b32 %r11, %r10, 2; sub.sat.s32 %r9, 0x80000010, %r11;", "@%p1", 0),
    (BY_FOUR.replace("lanemask_lt", "lanemask_ge"), "@%p1", 4),
    ("popc.b32 %r10, %r7; shl.b32 %r9, %r10, 2;", "@%p1", 0),
    (BY_FOUR.replace("%r7, %r4", "%r7, 0x7fffffff"), "@%p1", 0),
    ("mov.u32 %r12, -1; shl.b32 %r13, %r12, %r5; not.b32 %r4, %r13;" + BY_FOUR, "@%p1", 4),
    ("mov.u32 %r12, -1; shl.b32 %r13, %r12, %r6; not.b32 %r4, %r13;" + BY_FOUR, "@%p1", 0),
    ("shl.b32 %r13, 2, %r5; sub.u32 %r4, %r13, 1;" + BY_FOUR, "@%p1", 4),
    ("shl.b32 %r13, 4, %r5; sub.u32 %r4, %r13, 1;" + BY_FOUR, "@%p1", 0),
    ("not.b32 %r7, %r7;" + BY_FOUR, "@%p2", 4),
    ("and.b32 %r14, %r2, 3; match.any.sync.b32 %r7, %r14, -1;" + BY_FOUR, "", 0),
    ("activemask.b32 %r7;" + BY_FOUR, "", 0),
    ("setp.lt.u32 %p4, %r5, 16; @%p4 mov.u32 %r7, 5;" + BY_FOUR, "@%p1", 0),
]


def _text(body: str, guard: str) -> str:
    return kernel(LOAD + body + f"\n{guard} st.shared.u8 [%r9], %r1; {guard} st.global.u32 [%rd2], %r9;")


@pytest.mark.parametrize(("body", "guard", "expected"), PLACES)
def test_how_far_lanes_are_apart(body: str, guard: str, expected: int) -> None:
    function = with_data_guards_as_branches(parse(_text(body, guard)).entries[0])
    flow = Flow(function)
    ranks = LaneRanks(Collectives(flow, (), ()).masks, Uniformity(flow, (64, 1, 1)))
    k = next(n for n, i in enumerate(function.body) if i.name == "st.shared.u8")
    assert ranks.apart(k) == expected


@pytest.mark.parametrize(("body", "guard", "expected"), PLACES)
def test_lanes_are_as_far_apart_in_executions(body: str, guard: str, expected: int) -> None:
    """The second reader computes the places, of words that are drawn."""
    draw, nearest = random.Random(3), 1 << 32
    for high in (4, 5, 8, 8):
        out = buffer(np.array([draw.randrange(high) for _ in range(64)], dtype=np.uint32))
        text = _text(body, guard).replace("st.shared.u8 [%r9], %r1;", "mov.u32 %r99, %r9;")
        places = [int(x) for x in run(text, "k", Launch((64, 1, 1), params=(out,)), seed=1).memory(out)]
        for warp in (places[:32], places[32:]):
            found = sorted(x for x in warp if x != 77777)
            nearest = min([nearest, *(b - a for a, b in pairwise(found))])
    assert nearest >= expected


COMPACTION = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
.reqntid 64
{{ .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<9>; .shared .align 4 .b8 s[256];
  ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d2, %d1, %d2;
  ld.global.u32 %r2, [%d2]; setp.gt.s32 %p1, %r2, 0; vote.sync.ballot.b32 %r3, %p1, -1;
  mov.u32 %r4, %{lanemask}; and.b32 %r5, %r3, %r4; popc.b32 %r6, %r5;
  shr.u32 %r7, %r1, 5; mad.lo.u32 %r8, %r7, {row}, %r6; shl.b32 %r8, %r8, {shift}; mov.u32 %r9, s;
  add.u32 %r8, %r8, %r9;
  @%p1 st.shared.u32 [%r8], %r2;
  {barrier}
  ld.shared.u32 %r10, [s+128]; st.global.u32 [%d2], %r10;
  ret;
}}
"""


@pytest.mark.parametrize(
    ("change", "verdicts"),
    [
        ({}, {"proved"}),
        ({"lanemask": "lanemask_gt"}, {"proved"}),
        ({"row": 31}, {"unknown", "refuted"}),  # the last lane of one warp and the first of the other
        ({"shift": 1}, {"unknown", "refuted"}),  # words overlap
        ({"lanemask": "clock"}, {"unknown", "refuted"}),
        ({"barrier": ""}, {"unknown", "refuted"}),
    ],
)
def test_compaction(change: dict[str, object], verdicts: set[str]) -> None:
    parts = {"lanemask": "lanemask_lt", "row": 32, "shift": 2, "barrier": "bar.sync 0;"} | change
    (report,) = syncverify.check(
        COMPACTION.format(**parts), facts={"kernel": {"k": {"grid": [1]}}}, advice=False
    )
    assert str(report.verdict) in verdicts


LEADER = "bfind.u32 %r20, %r7; setp.eq.u32 %p5, %r5, %r20;"
#: What makes the guard of an access to one place, and whether one lane alone comes.
GUARDS = [
    (LEADER, "@%p5", True),
    (LEADER, "@!%p5", False),
    (LEADER.replace("eq", "ne"), "@!%p5", True),
    (LEADER.replace("eq", "ge"), "@%p5", False),
    (LEADER.replace("%r5", "%r6"), "@%p5", False),
    (LEADER.replace("%r5", "%r1"), "@%p5", True),
    (LEADER.replace("%r5, %r20", "%r20, %r5"), "@%p5", True),
    (LEADER.replace("%r20, %r7", "%r20, %r2"), "@%p5", False),  # each lane's own word
    (LEADER + "and.pred %p5, %p5, %p1;", "@%p5", True),
    (LEADER + "or.pred %p5, %p5, %p1;", "@%p5", False),
    ("and.b32 %r21, %r2, 3; match.any.sync.b32 %r7, %r21, -1;" + LEADER, "@%p5", False),
]


@pytest.mark.parametrize(("body", "guard", "expected"), GUARDS)
def test_lanes_that_come_alone(body: str, guard: str, expected: bool) -> None:
    place = f"{body}\nmov.u32 %r9, %r3;"
    function = with_data_guards_as_branches(parse(_text(place, guard)).entries[0])
    flow = Flow(function)
    ranks = LaneRanks(Collectives(flow, (), ()).masks, Uniformity(flow, (64, 1, 1)))
    k = next(n for n, i in enumerate(function.body) if i.name == "st.shared.u8")
    assert ranks.apart(k) == (ALONE if expected else 0)
    draw, most = random.Random(4), 0
    for high in (4, 5, 8, 9):
        out = buffer(np.array([draw.randrange(high) for _ in range(64)], dtype=np.uint32))
        text = _text(place, guard).replace("st.shared.u8 [%r9], %r1;", "mov.u32 %r99, %r9;")
        stored = [
            int(x) != 77777 for x in run(text, "k", Launch((64, 1, 1), params=(out,)), seed=1).memory(out)
        ]
        most = max(most, sum(stored[:32]), sum(stored[32:]))
    assert most <= 1 or not expected


BY_LEADER = (
    COMPACTION[: COMPACTION.index("  mov.u32 %r4")]
    + """  {body}
  bar.sync 0;
  ld.shared.u32 %r10, [s+128]; st.global.u32 [%d2], %r10;
  ret;
}}
"""
)
ROW = """shr.u32 %r7, %r1, 5; mov.u32 %r9, s; mad.lo.u32 %r8, %r7, 4, %r9; and.b32 %r11, %r1, 31;
bfind.u32 %r12, %r3; setp.ne.u32 %p2, %r11, %r12; setp.gt.u32 %p4, %r11, %r12;"""
#: Each turn has a lane of its own, and nothing orders turns.
TURNS = """mov.u32 %r13, 0;
L: setp.ge.u32 %p3, %r13, %r2; @%p3 bra Z; setp.ne.u32 %p2, %r11, %r13;
@%p2 bra X; st.shared.u32 [%r8], %r2; X: add.u32 %r13, %r13, 1; bra L; Z:"""


@pytest.mark.parametrize(
    ("body", "proved"),
    [
        ("@%p2 bra X; st.shared.u32 [%r8], %r2; X:", True),
        ("@!%p2 bra X; st.shared.u32 [%r8], %r2; X:", False),
        ("@%p2 bra X; st.shared.u32 [%r9], %r2; X:", False),  # of both warps
        ("@%p4 bra X; st.shared.u32 [%r8], %r2; X:", False),
        (TURNS, False),
    ],
)  # fmt: skip
def test_a_leader_stores(body: str, proved: bool) -> None:
    text = BY_LEADER.format(body=ROW + body)
    (report,) = syncverify.check(text, facts={"kernel": {"k": {"grid": [1]}}}, advice=False)
    assert (str(report.verdict) == "proved") is proved
