"""Abstract execution: what instructions compute, lanes that part, spins, memory that steers."""

from __future__ import annotations

from typing import Any

import pytest

from syncverify.model.events import Ev
from tests.frontends.ptx.execute_helpers import events, system, value

BAR = ".shared .align 8 .b8 bar[64];"


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        ("mov.u32 %r0, 5; sub.s32 %r0, %r0, 9; neg.s32 %r0, %r0;", 4),
        ("mov.u32 %r1, 7; mad.lo.s32 %r0, %r1, 3, -1;", 20),
        ("mov.u32 %r1, -7; max.relu.s32 %r2, %r1, -9; add.s32 %r0, %r2, 3;", 3),
        ("mov.u32 %r1, 100; mul.hi.u32 %r1, %r1, 0xcccccccd; shr.u32 %r0, %r1, 2;", 20),
        ("mov.u32 %r1, -7; div.s32 %r2, %r1, 2; add.s32 %r0, %r2, 10;", 7),
        ("mov.u32 %r1, -7; rem.s32 %r2, %r1, 4; add.s32 %r0, %r2, 10;", 7),
        ("mov.u32 %r1, -8; shr.s32 %r2, %r1, 1; add.s32 %r0, %r2, 10;", 6),
        ("mov.u32 %r1, 0x12345678; bfe.u32 %r0, %r1, 8, 8;", 0x56),
        ("mov.u32 %r1, 0xf0; bfe.s32 %r2, %r1, 4, 4; add.s32 %r0, %r2, 2;", 1),
        ("mov.u32 %r1, 3; mov.u32 %r2, 0; bfi.b32 %r0, %r1, %r2, 4, 8;", 48),
        ("mov.u32 %r1, 0x44332211; prmt.b32 %r2, %r1, 0, 0x4442; and.b32 %r0, %r2, 255;", 0x33),
        ("mov.u32 %r1, 12; mov.u32 %r2, 10; lop3.b32 %r0, %r1, %r2, 6, 0x96;", 12 ^ 10 ^ 6),
        ("mov.u32 %r1, 5; mov.u32 %r2, 9; setp.lt.s32 %p1, %r1, %r2; selp.b32 %r0, 1, 2, %p1;", 1),
        ("mov.u32 %r1, -1; setp.lt.s32 %p1, %r1, 0; selp.b32 %r0, 1, 2, %p1;", 1),
        ("mov.u32 %r1, -1; setp.lt.u32 %p1, %r1, 0; selp.b32 %r0, 1, 2, %p1;", 2),
        ("selp.b32 %r0, 1, 2, 1;", 1),
        ("mov.u32 %r1, 3; setp.eq.u32 %p2, %r1, 3; setp.gt.and.u32 %p1, %r1, 5, %p2; "
         "selp.b32 %r0, 1, 2, %p1;", 2),
        ("mov.b64 %rd1, 0x500000007; mov.b64 {%r1, %r2}, %rd1; add.u32 %r0, %r1, %r2;", 12),
        ("mov.u32 %r1, 4; mov.b64 %rd1, {%r1, %r1}; shr.u64 %rd2, %rd1, 32; cvt.u32.u64 %r0, %rd2;", 4),
        ("mov.u32 %r1, 0x180; cvt.s32.s8 %r2, %r1; add.s32 %r0, %r2, 200;", 72),
        ("mov.u32 %r1, -1; add.cc.u32 %r2, %r1, 1; addc.u32 %r0, 0, 0;", 1),
        ("mov.u32 %r1, 5; mov.u32 %r2, 9; min.s32 %r3, %r1, %r2; max.u32 %r4, %r1, %r2; "
         "sub.u32 %r0, %r4, %r3;", 4),
        ("mov.u32 %r1, 0x70; popc.b32 %r2, %r1; clz.b32 %r3, %r1; add.u32 %r0, %r2, %r3;", 28),
        ("mov.u32 %r1, 1; shf.l.wrap.b32 %r0, 0x80000000, %r1, 1;", 3),
        ("mov.u32 %r0, 1; setp.eq.u32 %p1, %r0, 2; @%p1 mov.u32 %r0, 7; @!%p1 add.u32 %r0, %r0, 3;", 4),
        ("mov.f32 %f1, 0f3F800000; setp.gt.f32 %p1, %f1, 0f00000000; selp.b32 %r0, 1, 2, %p1;", 1),
        ("mov.u32 %r0, %ntid.x;", 32),
    ],
)  # fmt: skip
def test_arithmetic(instructions: str, expected: int) -> None:
    assert value(instructions) == [expected] * 32


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        ("mov.u32 %r0, %tid.x;", list(range(32))),
        ("mov.u32 %r1, %laneid; and.b32 %r2, %r1, 1; shl.b32 %r0, %r2, 2;", [0, 4] * 16),
        ("mov.u32 %r1, %tid.x; shfl.sync.idx.b32 %r0, %r1, 3, 31, -1;", [3] * 32),
        ("mov.u32 %r1, %tid.x; shfl.sync.bfly.b32 %r0, %r1, 1, 31, -1;", [i ^ 1 for i in range(32)]),
        ("mov.u32 %r1, %tid.x; shfl.sync.up.b32 %r0, %r1, 1, 0, -1;", [max(i - 1, 0) for i in range(32)]),
        ("mov.u32 %r1, %tid.x; shfl.sync.down.b32 %r0, %r1, 2, 31, -1;",
         [min(i + 2, 31) if i < 30 else i for i in range(32)]),
        ("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 4; vote.sync.ballot.b32 %r0, %p1, -1;", [15] * 32),
        ("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 4; vote.sync.any.pred %p2, %p1, -1; "
         "selp.b32 %r0, 1, 2, %p2;", [1] * 32),
        ("mov.u32 %r1, %tid.x; redux.sync.max.u32 %r0, %r1, -1;", [31] * 32),
        ("mov.u32 %r1, %tid.x; and.b32 %r1, %r1, 1; match.any.sync.b32 %r0, %r1, -1; "
         "and.b32 %r0, %r0, 65535;", [0x5555, 0xAAAA] * 16),
        ("mov.u64 %rd1, 7; match.any.sync.b64 %r0, %rd1, -1; shr.u32 %r0, %r0, 16;", [0xFFFF] * 32),
        ("mov.u32 %r1, %tid.x; shr.u32 %r1, %r1, 4; match.all.sync.b32 %r0|%p1, %r1, -1;", [0] * 32),
        ("mov.u32 %r1, 5; match.all.sync.b32 %r2|%p1, %r1, 65535; selp.u32 %r0, %r2, 0, %p1;", [65535] * 32),
        ("elect.sync %r1|%p1, -1; selp.b32 %r0, 9, 2, %p1;", [9] + [2] * 31),
    ],
)  # fmt: skip
def test_lanes(instructions: str, expected: list[int]) -> None:
    assert value(instructions) == expected


def test_a_warp_number_is_shared_though_lanes_have_parted_before() -> None:
    text = """
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra JOIN;
    fence.acq_rel.cta;
    JOIN:
    shr.u32 %r2, %r1, 5;
    shfl.sync.idx.b32 %r0, %r2, 0, 31, -1;
    """
    assert value(text) == [0] * 32


def test_values_of_lanes_on_another_path_are_not_known() -> None:
    text = f"""{BAR}
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra JOIN;
    fence.acq_rel.cta;
    mov.u32 %r2, 2;
    JOIN:
    shfl.sync.idx.b32 %r3, %r2, 5, 31, -1;
    mbarrier.init.shared::cta.b64 [bar], %r3;
    ret;"""
    s = system(text)
    assert [c.lanes for c in s.info.classes] == [1, 0xFFFFFFFE]
    assert events(s, 0)[-1][0] == "UNKNOWN"
    assert "another path" in events(s, 0)[-1][1]
    assert events(s, 1)[-1] == ("INIT", 0, 1)


def test_a_branch_splits_the_class_and_each_part_goes_its_way() -> None:
    text = f"""{BAR}
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 8;
    @!%p1 bra DONE;
    mbarrier.init.shared::cta.b64 [bar], 8;
    DONE:
    bar.sync 0;
    ret;"""
    s = system(text)
    assert [c.lanes for c in s.info.classes] == [0xFF, 0xFFFFFF00]
    assert [[e[0] for e in events(s, i)] for i in (0, 1)] == [["INIT", "BARRIER_SYNC"], ["BARRIER_SYNC"]]


def test_branches_without_events_are_not_taken() -> None:
    text = """
    ld.param.u64 %rd1, [k_p];
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 8;
    @!%p1 bra DONE;
    st.global.u32 [%rd1], %r1;
    DONE:
    bar.sync 0;
    ret;"""
    s = system(text, params=".param .u64 k_p")
    assert len(s.info.classes) == 1
    assert [e[0] for e in events(s)] == ["BARRIER_SYNC"]


SPINS = {
    "cutlass": "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], %r1; @%p1 bra D; bra W; D:",
    "triton": "W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], %r1; @!%p1 bra W;",
    "selp": "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], %r1; selp.u32 %r2, 1, 0, %p1;"
            " setp.eq.s32 %p2, %r2, 0; @%p2 bra W;",
    "sleep": "W: mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], %r1; @%p1 bra D;"
             " nanosleep.u32 20; bra W; D:",
    "timeout": "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], %r1; @%p1 bra D;"
               " mov.u64 %rd1, %clock64; setp.lt.u64 %p2, %rd1, 1000; @%p2 bra W; trap; D:",
}  # fmt: skip


@pytest.mark.parametrize("spin", SPINS)
def test_a_spin_is_one_wait(spin: str) -> None:
    s = system(f"{BAR} mov.u32 %r1, 1; {SPINS[spin]} bar.sync 0; ret;")
    assert [e[:3] for e in events(s)] == [("WAIT", 0, 1), ("BARRIER_SYNC", 0, 0)]


@pytest.mark.parametrize(
    "loop",
    [
        # gives up after ten looks, and goes on
        "mov.u32 %r2, 0; W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], %r1; @%p1 bra D;"
        " add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 10; @%p2 bra W; D:",
        # looks at one barrier after the other, whatever the answers
        "mov.u32 %r2, bar; mov.u32 %r3, 0; W: mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], %r1;"
        " add.u32 %r2, %r2, 8; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 3; @%p2 bra W;",
    ],
)
def test_a_loop_that_goes_on_without_the_answer_is_no_wait(loop: str) -> None:
    s = system(f"{BAR} mov.u32 %r1, 1; {loop} bar.sync 0; ret;")
    assert events(s)[0][0] == "POLL"


def test_a_token_is_waited_for() -> None:
    text = f"""{BAR}
    mbarrier.arrive.shared::cta.b64 %rd1, [bar];
    W: mbarrier.try_wait.shared::cta.b64 %p1, [bar], %rd1;
    @!%p1 bra W;
    ret;"""
    arrive, wait = events(system(text), answer=5)
    assert arrive[0] == "ARRIVE"
    assert wait[:3] == ("WAIT_TOKEN", 0, 5)


def test_a_token_that_no_arrival_gave_is_a_fault() -> None:
    text = f"""{BAR}
    W: mbarrier.try_wait.shared::cta.b64 %p1, [bar], %rd1;
    @!%p1 bra W;
    ret;"""
    assert events(system(text))[0][:2] == ("FAULT", "SV201")


def test_a_token_read_from_memory_is_no_fault() -> None:
    text = f"""{BAR}
    mov.u64 %rd2, 1099511627776;
    ld.global.b64 %rd1, [%rd2];
    W: mbarrier.try_wait.shared::cta.b64 %p1, [bar], %rd1;
    @!%p1 bra W;
    ret;"""
    assert events(system(text))[0][0] == "UNKNOWN"


def test_roles_are_read_from_a_table_in_shared_memory() -> None:
    text = """
    .shared .align 8 .b8 table[16];
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra WORKER;
    st.shared.b8 [table+1], 3;
    bar.sync 0;
    ret;
    WORKER:
    bar.sync 0;
    ld.shared.b8 %rs1, [table+1];
    setp.ne.u16 %p2, %rs1, 3;
    @%p2 bra OUT;
    fence.acq_rel.cta;
    OUT: ret;"""
    s = system(text, threads=64)
    agents = s.agents()
    assert [agents[0].step()[0] for _ in range(2)] == [Ev.WRITE, Ev.BARRIER_SYNC]
    assert [agents[1].step()[0] for _ in range(3)] == [Ev.BARRIER_SYNC, Ev.READ, Ev.FENCE]


def test_an_indexed_branch_takes_its_target() -> None:
    text = f"""{BAR}
    mov.u32 %r1, 1;
    TS: .branchtargets A, B;
    brx.idx %r1, TS;
    A: mbarrier.init.shared::cta.b64 [bar], 1; ret;
    B: mbarrier.init.shared::cta.b64 [bar], 2; ret;"""
    assert events(system(text)) == [("INIT", 0, 2)]


def test_local_memory_keeps_what_each_lane_stored() -> None:
    text = """
    .local .align 4 .b8 depot[16];
    mov.u32 %r1, %tid.x;
    st.local.u32 [depot+4], %r1;
    ld.local.u32 %r0, [depot+4];
    """
    assert value(text) == list(range(32))


def test_peers_are_addressed_by_rank() -> None:
    text = f"""{BAR}
    mov.u32 %r1, bar;
    mapa.shared::cluster.u32 %r2, %r1, 1;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
    ret;"""
    s = system(text, cluster=2, grid=(2, 1, 1))
    (arrive,) = events(s)
    assert s.info.barriers[arrive[1]].cta == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ld.param.u32 %r1, [k_n]; setp.eq.u32 %p1, %r1, 4; @%p1 bar.sync 0; ret;", "k_n"),
        ("ld.param.u64 %rd1, [k_n]; ld.global.u32 %r1, [%rd1+8]; bar.sync %r1; ret;", "data"),
        ("mov.u32 %r1, %ctaid.x; bar.sync %r1; ret;", "%ctaid.x"),
        ("tcgen05.wait::ld.sync.aligned; ret;", "tensor memory"),
        ("trap;", "traps"),
    ],
)
def test_what_is_not_known_is_unknown_with_the_reason(text: str, reason: str) -> None:
    kind = ".param .u64 k_n" if "u64 %rd1, [k_n]" in text else ".param .u32 k_n"
    last = events(system(text, grid=(4, 1, 1), params=kind))[-1]
    assert last[0] == "UNKNOWN"
    assert reason in last[1]
    assert "line" in last[1]


def test_a_guarded_store_is_that_of_its_lanes() -> None:
    text = """
    .shared .align 4 .b8 data[128];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, data;
    add.u32 %r3, %r3, %r2;
    setp.lt.u32 %p1, %r1, 2;
    @%p1 st.shared.u32 [%r3], %r1;
    ret;"""
    s = system(text)
    ((_, fp),) = events(s)
    assert len(s.info.classes) == 1
    assert [lane for _, _, lane in s.info.footprints[fp].lanes] == [0, 1]


def test_forks_go_on_alone() -> None:
    text = f"""{BAR}
    mov.u32 %r1, 0;
    L: mbarrier.arrive.shared::cta.b64 _, [bar];
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 3;
    @%p1 bra L;
    ret;"""
    agent: Any = system(text).agents()[0]
    agent.step()
    other = agent.fork()
    assert [agent.step()[0] for _ in range(3)] == [Ev.ARRIVE, Ev.ARRIVE, Ev.EXIT]
    assert [other.step()[0] for _ in range(3)] == [Ev.ARRIVE, Ev.ARRIVE, Ev.EXIT]
