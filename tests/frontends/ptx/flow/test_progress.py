"""A loop is no part of a proof where who turns once in it never takes an exit."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.analysis.registers.thread_values import ThreadValues
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.progress import endless_loops
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

LOOP = "mov.u32 %r1, %tid.x; mov.u16 %rs1, 0;\nAGAIN: {turn}\n@{guard} bra AGAIN;\nEND: ret;"


def endless(turn: str, guard: str = "%p1") -> bool:
    module = parse(module_text(LOOP.format(turn=turn, guard=guard)), "k.ptx")
    return bool(endless_loops(Flow(module.functions[0])))


@pytest.mark.parametrize(
    ("turn", "guard"),
    [
        ("sub.u32 %r1, %r1, 1; setp.ge.u32 %p1, %r1, 0;", "%p1"),
        ("sub.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 0;", "!%p1"),
        ("sub.u32 %r1, %r1, 1; setp.hs.u32 %p1, %r1, 0;", "%p1"),
        ("sub.u32 %r1, %r1, 1; setp.le.u32 %p1, %r1, 0xffffffff;", "%p1"),
        ("add.s32 %r1, %r1, 1; setp.le.s32 %p1, %r1, 0x7fffffff;", "%p1"),
        ("add.s32 %r1, %r1, 1; setp.ge.s32 %p1, %r1, -2147483648;", "%p1"),
        ("add.s32 %r1, %r1, 1; and.b32 %r2, %r1, 255; setp.lt.u32 %p1, %r2, 256;", "%p1"),
        ("add.u16 %rs1, %rs1, 1; cvt.u32.u16 %r2, %rs1; setp.lt.s32 %p1, %r2, 65536;", "%p1"),
        ("add.s32 %r1, %r1, 1; and.b32 %r2, %r1, 3; setp.eq.s32 %p1, %r2, 4;", "!%p1"),
        ("add.s32 %r1, %r1, 1; and.b32 %r2, %r1, 3; setp.ge.s32 %p1, %r2, 0;", "%p1"),
        # even numbers, beside an odd one, also where they wrap
        ("add.u16 %rs1, %rs1, 2; setp.ne.s16 %p1, %rs1, 7;", "%p1"),
        ("add.u16 %rs1, %rs1, 4; setp.eq.s16 %p1, %rs1, -3; add.u16 %rs1, %rs1, 2;", "!%p1"),
        ("setp.lt.u32 %p1, %r9, 7;", "%p1"),
        ("setp.eq.b32 %p1, 0, 0;", "%p1"),
        ("setp.ne.b32 %p1, 1, 0;", "%p1"),
    ],
)
def test_an_exit_that_nobody_takes(turn: str, guard: str) -> None:
    assert endless(turn, guard)


@pytest.mark.parametrize(
    ("turn", "guard"),
    [
        ("sub.s32 %r1, %r1, 1; setp.ge.s32 %p1, %r1, 0;", "%p1"),
        ("sub.u32 %r1, %r1, 1; setp.gt.u32 %p1, %r1, 0;", "%p1"),
        ("sub.u32 %r1, %r1, 1; setp.hi.s32 %p1, %r1, 0;", "%p1"),
        ("add.s32 %r1, %r1, 1; and.b32 %r2, %r1, 255; setp.lt.u32 %p1, %r2, 255;", "%p1"),
        ("add.s32 %r1, %r1, 1; and.b32 %r2, %r1, -4; setp.lt.u32 %p1, %r2, 256;", "%p1"),
        ("add.u16 %rs1, %rs1, 1; cvt.u32.u16 %r2, %rs1; setp.lt.s32 %p1, %r2, 65535;", "%p1"),
        ("add.s16 %rs1, %rs1, 1; cvt.s32.s16 %r2, %rs1; setp.ge.s32 %p1, %r2, 0;", "%p1"),
        ("add.u16 %rs1, %rs1, 2; setp.ne.s16 %p1, %rs1, 8;", "%p1"),
        ("add.u16 %rs1, %rs1, 3; setp.ne.s16 %p1, %rs1, 7;", "%p1"),  # after it has wrapped
        ("add.u16 %rs1, %rs1, 4; setp.eq.s16 %p1, %rs1, -2; add.u16 %rs1, %rs1, 3;", "!%p1"),
        ("add.u32 %r1, %r1, 2; setp.ne.s32 %p1, %r1, 7;", "%p1"),  # from any thread's number
        ("setp.eq.b32 %p1, 0, 0;", "!%p1"),
        ("setp.ne.b32 %p1, 0, 0;", "%p1"),
        ("setp.eq.b32 %p1, 0, 0; @%p1 bra END;", "%p2"),
        ("setp.eq.b32 %p1, 0, 0; @%p1 bra END; setp.lt.u32 %p2, %r9, 7;", "%p2"),
    ],
)
def test_an_exit_that_somebody_takes(turn: str, guard: str) -> None:
    assert not endless(turn, guard)


THREADS = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .pred %p<9>; .reg .b32 %r<9>;
mov.u32 %r0, %tid.x;
START
L: add.u32 %r1, %r1, STEP; setp.ne.u32 %p1, %r1, 64; @%p1 bra L;
END: ret; }
"""


@pytest.mark.parametrize(
    ("start", "step", "found"),
    [
        ("mov.u32 %r1, %r0;", 1, False),
        ("mov.u32 %r1, %r0;", 2, True),  # odd threads turn for ever
        ("shl.b32 %r1, %r0, 1;", 2, False),
        ("and.b32 %r1, %r0, 6;", 4, True),
        ("setp.ge.u32 %p2, %r0, 1; @%p2 bra END; mov.u32 %r1, %r0;", 2, False),  # thread 0 alone comes
    ],
)
def test_loops_that_some_threads_do_not_leave(start: str, step: int, found: bool) -> None:
    flow = Flow(parse(THREADS.replace("START", start).replace("STEP", str(step))).functions[0])
    values = ThreadValues(flow, (32, 1, 1))

    def starts(v: int) -> list[int] | None:
        numbers = values.of_version(v)
        return None if numbers is None else [int(x) for x in numbers]

    assert bool(endless_loops(flow, starts)) == found
