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
