"""Named barriers: who counts, and lanes that go round what others of their warp wait for."""

from __future__ import annotations

import numpy as np
import pytest

from syncverify.simulate.ptx import Kind, buffer
from tests.simulate.ptx.support import execute

OUT = buffer(np.zeros(64, np.uint32))
SPLIT = "setp.lt.u32 %p1, %r1, 16; @!%p1 bra A; {} A: "
STORE = "mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r1;"


def kinds(body: str, block: int = 32) -> set[Kind | None]:
    results = [execute(body, OUT, block=block, seed=seed) for seed in range(8)]
    return {None if r.harm is None else r.harm.kind for r in results}


def test_a_warp_that_arrives_and_then_waits_counts_twice() -> None:
    assert kinds("bar.arrive 1, 64; bar.sync 1, 64;") == {None}


def test_a_warp_does_not_arrive_twice_without_waiting() -> None:
    assert kinds("bar.arrive 1, 96; bar.arrive 1, 96;") == {Kind.UNDEFINED}


@pytest.mark.parametrize(
    "what", ["bar.sync 0;", "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;", "bar.warp.sync -1;"]
)
def test_lanes_that_go_round_and_do_more_are_undefined(what: str) -> None:
    assert Kind.UNDEFINED in kinds(SPLIT.format(what) + STORE)


@pytest.mark.parametrize(
    "what", ["bar.sync 0;", "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;", "bar.warp.sync -1;"]
)
@pytest.mark.parametrize("tail", ["", "mov.u32 %r2, %r1; add.u32 %r2, %r2, 1;"])
def test_lanes_that_leave_are_not(what: str, tail: str) -> None:
    """Nor if they still change registers that nobody reads."""
    assert kinds("setp.lt.u32 %p1, %r1, 16; @!%p1 bra END;" + what + "END:" + tail) == {None}


@pytest.mark.parametrize(
    ("here", "there", "found"),
    [
        ("barrier.sync 1, 64;", "barrier.sync 1, 64;", {None}),
        ("barrier.sync 0;", "mov.u32 %r9, 1; barrier.sync 0;", {None}),
        ("barrier.sync 1, 64;", "barrier.sync 2, 64;", {Kind.UNDEFINED}),
        ("bar.sync 1, 64;", "bar.sync 1, 64;", {Kind.UNDEFINED}),
        ("barrier.sync 1, 64;", "", {Kind.UNDEFINED, Kind.RACE}),
    ],
)
def test_lanes_that_have_parted_meet_at_one_barrier(here: str, there: str, found: set[Kind | None]) -> None:
    """A warp has come when its last lanes have: to any instruction for this barrier that is not aligned."""
    body = f"""
    .shared .align 4 .b8 s[256];
    mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1;
    and.b32 %r5, %r1, 31; setp.lt.u32 %p1, %r5, 16; @%p1 bra A; {here} bra J;
A:  {there}
J:  sub.u32 %r6, 63, %r1; mad.lo.u32 %r4, %r6, 4, %r2; ld.shared.u32 %r7, [%r4];"""
    assert kinds(body, block=64) <= found


@pytest.mark.parametrize(("order", "found"), [("acq_rel", {None}), ("relaxed", {Kind.RACE})])
def test_lanes_of_one_atomic_follow_each_other(order: str, found: set[Kind | None]) -> None:
    """The last thread of a block to count has seen what all others did before: also those of its own warp."""
    body = f"""
    .shared .align 4 .b8 s[256]; .shared .align 4 .b8 n[4];
    setp.ne.u32 %p1, %r1, 0; mov.u32 %r2, 0; @!%p1 st.shared.u32 [n], %r2; bar.sync 0;
    mov.u32 %r3, s; mad.lo.u32 %r3, %r1, 4, %r3; st.shared.u32 [%r3], %r1;
    atom.{order}.cta.shared.add.u32 %r4, [n], 1;
    setp.ne.u32 %p2, %r4, 63; @%p2 bra END; ld.shared.u32 %r5, [s]; ld.shared.u32 %r6, [s+252];
END:"""
    assert kinds(body, block=64) == found


def test_lanes_that_name_each_other_give_one_mask() -> None:
    mask = "and.b32 %r5, %r1, 28; shl.b32 %r6, 255, %r5;"
    assert kinds(mask + "shfl.sync.bfly.b32 %r2, %r1, 1, 31, %r6;") == {Kind.UNDEFINED}


@pytest.mark.parametrize(("scope", "found"), [("cta", {Kind.RACE}), ("gpu", {None})])
def test_a_fence_orders_threads_of_its_scope(scope: str, found: set[Kind | None]) -> None:
    """Block 0 raises a flag for block 1, which reads a word behind it."""
    body = f"""
    mov.u32 %r2, %ctaid.x; setp.ne.u32 %p1, %r2, 0; @%p1 bra READ;
    st.global.u32 [%rd1+4], %r1;
    fence.acq_rel.{scope};
    st.relaxed.gpu.global.u32 [%rd1], 1;
    bra END;
READ:
    ld.acquire.gpu.global.u32 %r3, [%rd1];
    setp.eq.u32 %p2, %r3, 0; @%p2 bra READ;
    ld.global.u32 %r4, [%rd1+4];
END:"""
    results = [
        execute(body, buffer(np.zeros(4, np.uint32)), block=1, grid=(2, 1, 1), seed=s) for s in range(6)
    ]
    assert {r.harm and r.harm.kind for r in results} == found


@pytest.mark.parametrize(
    ("dependent", "body", "found"),
    [
        ("all", "ld.global.u32 %r2, [%rd1]; griddepcontrol.wait;", {Kind.RACE}),
        ("all", "griddepcontrol.wait; ld.global.u32 %r2, [%rd1];", {None}),
        ("writes", "ld.global.u32 %r2, [%rd1]; griddepcontrol.wait;", {None}),
        ("", "ld.global.u32 %r2, [%rd1]; griddepcontrol.wait;", {None}),
    ],
)
def test_the_grid_before_may_write_until_the_wait(dependent: str, body: str, found: set[Kind | None]) -> None:
    result = execute(body, OUT, dependent=dependent)
    assert {result.harm and result.harm.kind} == found
