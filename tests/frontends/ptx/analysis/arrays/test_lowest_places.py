"""The least place of an access that a loop counts up: each turn has to come to it."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.analysis.arrays.lowest_places import LowestPlaces
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n) {
.reg .b32 %r<9>; .reg .pred %p<9>;
.shared .align 16 .b8 s[4096];
ld.param.u32 %r5, [n]; mov.u32 %r1, s; mov.u32 %r2, %tid.x; shl.b32 %r2, %r2, 2; add.u32 %r1, %r1, %r2;
mov.u32 %r3, 0;
L: TURN
add.u32 %r1, %r1, 4; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r5; @%p1 bra L;
END
ret; }
"""
STORE = "st.shared.u32 [%r1+32], %r3;"


@pytest.mark.parametrize(
    ("turn", "end", "low"),
    [
        (STORE, "", 1032),
        # a number that some turns leave alone may wrap before it is a place
        (f"setp.eq.u32 %p2, %r3, %r5; @%p2 {STORE}", "", None),
        (f"setp.eq.u32 %p2, %r3, %r5; @%p2 bra N; {STORE} N:", "", None),
        ("", STORE, None),
        (f"mov.u32 %r6, 0; M: {STORE} add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 3; @%p3 bra M;", "", 1032),
    ],
)
def test_the_least_place(turn: str, end: str, low: int | None) -> None:
    flow = Flow(parse(KERNEL.replace("TURN", turn).replace("END", end)).entries[0])
    store = next(k for k, i in enumerate(flow.body) if i.op == "st")
    assert LowestPlaces(flow, {"s": 1000}).of(store) == low
