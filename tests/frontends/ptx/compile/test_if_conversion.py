"""Branches whose sides only write registers: lanes meet again as one class, each with what its side wrote."""

from __future__ import annotations

import pytest

from syncverify.model.events import Ev
from tests.frontends.ptx.execute_helpers import events, system, value

LANE = "mov.u32 %r1, %laneid;"


def test_each_lane_keeps_what_its_side_wrote() -> None:
    text = f"""{LANE}
    setp.lt.u32 %p1, %r1, 5;
    @%p1 bra LOW;
    mul.lo.u32 %r2, %r1, 3;
    bra MEET;
    LOW: add.u32 %r2, %r1, 100;
    MEET: mov.u32 %r0, %r2;"""
    assert value(text) == [i + 100 if i < 5 else 3 * i for i in range(32)]


def test_a_negated_guard_and_a_side_that_writes_nothing() -> None:
    text = f"""{LANE}
    mov.u32 %r0, 7;
    setp.lt.u32 %p1, %r1, 5;
    @!%p1 bra MEET;
    mov.u32 %r0, %r1;
    MEET:"""
    assert value(text) == [i if i < 5 else 7 for i in range(32)]


def test_branches_inside_each_other() -> None:
    text = f"""{LANE}
    and.b32 %r3, %r1, 1;
    setp.eq.u32 %p2, %r3, 1;
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra LOW;
    mov.u32 %r0, 1;
    @%p2 bra MEET;
    mov.u32 %r0, 2;
    bra MEET;
    LOW: mov.u32 %r0, 3;
    @%p2 bra MEET;
    mov.u32 %r0, 4;
    MEET:"""
    assert value(text) == [(3 if i % 2 else 4) if i < 16 else (1 if i % 2 else 2) for i in range(32)]


def test_a_loop_that_lanes_leave_one_by_one() -> None:
    text = f"""{LANE}
    mov.u32 %r0, 0;
    mov.u32 %r2, 0;
    LOOP: setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra DONE;
    add.u32 %r0, %r0, %r2;
    add.u32 %r2, %r2, 1;
    bra LOOP;
    DONE:"""
    assert value(text) == [i * (i - 1) // 2 for i in range(32)]


#: Lanes below 4 count what they own; all of them are added up, whatever path they took.
SUMS = f"""{LANE}
    .shared .align 8 .b8 bar[8];
    mov.u32 %r2, 0;
    setp.ge.u32 %p1, %r1, 4;
    @%p1 bra MEET;
    add.u32 %r2, %r1, 1;
    MEET:
    setp.ge.u32 %p2, %r2, 3;
    vote.sync.ballot.b32 %r3, %p2, -1;
    shfl.sync.idx.b32 %r4, %r2, 3, 31, -1;
    SPLIT
    mad.lo.u32 %r5, %r3, 16, %r4;
    mbarrier.init.shared::cta.b64 [bar], %r5;
    ret;
"""


def inits(text: str) -> list[int]:
    """The count that each class gives a barrier."""
    s = system(text)
    return [e[2] for i in range(len(s.info.classes)) for e in events(s, i) if e[0] == "INIT"]


def test_lanes_that_met_again_take_values_from_each_other() -> None:
    assert inits(SUMS.replace("SPLIT", "")) == [0b1100 * 16 + 4]


def test_so_do_lanes_that_part_for_good_elsewhere() -> None:
    again = """setp.eq.u32 %p3, %r1, 9;
    @%p3 bra OTHER;
    mbarrier.inval.shared::cta.b64 [bar];
    OTHER:
    setp.ge.u32 %p1, %r1, 4;
    mov.u32 %r2, 0;
    @%p1 bra MEET2;
    add.u32 %r2, %r1, 1;
    MEET2:
    shfl.sync.idx.b32 %r4, %r2, 3, 31, -1;"""
    assert inits(SUMS.replace("SPLIT", again)) == [0b1100 * 16 + 4] * 2


@pytest.mark.parametrize(
    "loud",
    ["mbarrier.inval.shared::cta.b64 [bar];", "bar.warp.sync 15;", "shfl.sync.idx.b32 %r2, %r1, 0, 31, 15;"],
)
def test_sides_with_events_part_the_class(loud: str) -> None:
    text = SUMS.replace("SPLIT", "").replace("add.u32 %r2, %r1, 1;", f"add.u32 %r2, %r1, 1; {loud}")
    s = system(text)
    found = [events(s, i) for i in range(len(s.info.classes))]
    assert len(found) == 2
    assert any(e[0] == Ev.UNKNOWN.name for es in found for e in es)


def test_data_that_chooses_between_values_is_data() -> None:
    text = """
    .shared .align 8 .b8 bar[8];
    ld.param.u64 %rd1, [in];
    ld.global.u32 %r1, [%rd1];
    mov.u32 %r2, 1;
    setp.eq.u32 %p1, %r1, 5;
    @%p1 bra MEET;
    mov.u32 %r2, 2;
    MEET:
    OPERAND
    ret;
    """
    params = ".param .u64 in"
    ((_, reason),) = events(
        system(text.replace("OPERAND", "mbarrier.init.shared::cta.b64 [bar], %r2;"), params=params)
    )
    assert "ld.global.u32" in reason
    known = text.replace(
        "OPERAND", "and.b32 %r3, %r2, 0; add.u32 %r3, %r3, 6; mbarrier.init.shared::cta.b64 [bar], %r3;"
    )
    assert [e[2] for e in events(system(known, params=params))] == [6]
