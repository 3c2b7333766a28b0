"""What lanes do together, and who must be there."""

from __future__ import annotations

import numpy as np
import pytest

from syncverify.simulate.ptx import Kind, buffer
from tests.simulate.ptx.support import execute

STORE = "mad.wide.u32 %rd2, %r1, 4, %rd1;\nst.global.u32 [%rd2], %r9;"
LANE = np.arange(32)


def result(text: str, block: int = 32, seed: int = 0) -> np.ndarray:
    b = buffer(np.zeros(block, np.uint32))
    r = execute(text + STORE, b, block=block, seed=seed)
    assert r.harm is None, r.harm
    return r.memory(b)


@pytest.mark.parametrize(
    ("mode", "by", "limit", "source"),
    [
        ("up", 1, 0, np.maximum(LANE - 1, 0)),
        ("down", 4, 31, np.where(LANE + 4 < 32, LANE + 4, LANE)),
        ("bfly", 16, 31, LANE ^ 16),
        ("idx", 5, 31, LANE * 0 + 5),
        ("idx", 3, 0x181F, LANE // 8 * 8 + 3),
        ("down", 1, 0x1C1F, np.where(LANE % 4 < 3, LANE + 1, LANE)),
    ],
)
def test_shuffles(mode: str, by: int, limit: int, source: np.ndarray) -> None:
    text = f"mul.lo.u32 %r3, %r1, 7; shfl.sync.{mode}.b32 %r9, %r3, {by}, {limit}, -1;"
    assert (result(text) == 7 * source).all()


def test_the_predicate_of_a_shuffle_says_whether_the_source_was_in_range() -> None:
    text = "shfl.sync.down.b32 %r3|%p1, %r1, 1, 31, -1; selp.u32 %r9, 1, 0, %p1;"
    assert result(text).tolist() == [1] * 31 + [0]


def test_votes_matches_and_reductions() -> None:
    even = "and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 0;"
    assert set(result(even + "vote.sync.ballot.b32 %r9, %p1, -1;").tolist()) == {0x55555555}
    assert set(result(even + "vote.sync.any.pred %p2, !%p1, -1; selp.u32 %r9, 1, 0, %p2;").tolist()) == {1}
    match = result("shr.u32 %r3, %r1, 4; match.any.sync.b32 %r9, %r3, -1;")
    assert match[0] == 0xFFFF and match[31] == 0xFFFF0000
    assert set(result("redux.sync.add.s32 %r9, %r1, -1;").tolist()) == {496}
    assert set(result("sub.u32 %r3, %r1, 5; redux.sync.min.s32 %r9, %r3, -1;").tolist()) == {0xFFFFFFFB}


def test_one_lane_is_elected() -> None:
    assert result("elect.sync %r3|%p1, -1; selp.u32 %r9, 1, 0, %p1;").sum() == 1


@pytest.mark.parametrize("seed", range(8))
def test_lanes_that_part_meet_at_a_collective(seed: int) -> None:
    text = """setp.lt.u32 %p1, %r1, 16; @%p1 bra A; mov.u32 %r3, 1; bra B; A: mov.u32 %r3, 2;
    B: redux.sync.add.u32 %r9, %r3, -1;"""
    assert set(result(text, seed=seed).tolist()) == {48}


@pytest.mark.parametrize(
    "text",
    [
        # half of the warp waits at a barrier that the other half must still reach
        "setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.sync 0; bra B; A: shfl.sync.idx.b32 %r9, %r1, 0, 31, -1; B: bar.sync 0;",
        # a lane that its own mask does not name
        "mov.u32 %r3, 0xFFFF; bar.warp.sync %r3;",
        "vote.sync.ballot.b32 %r9, %p1, 0x7fffffff;",
        "setp.lt.u32 %p1, %r1, 16; @%p1 bar.sync 0;",
    ],
)
def test_lanes_that_are_not_there(text: str) -> None:
    harms = [execute(text, buffer(np.zeros(32, np.uint32)), seed=s).harm for s in range(4)]
    assert all(h is not None and h.kind is Kind.UNDEFINED for h in harms), harms


APART = "setp.lt.u32 %p1, %r1, 16; setp.ge.u32 %p2, %r1, 24; @%p1 bra A;\n{}\nbra B;\nA:\n{}\nB:\n"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("shfl.sync.bfly.b32 %r9, %r1, 16, 31, -1;", "add.u32 %r3, %r1, 64;\nshfl.sync.bfly.b32 %r9, %r3, 16, 31, -1;",
         [*range(16, 32), *range(64, 80)]),
        ("vote.sync.ballot.b32 %r9, %p2, -1;", "vote.sync.ballot.b32 %r9, %p1, -1;", [0xFF00FFFF] * 32),
        ("redux.sync.max.u32 %r9, %r1, -1;", "mov.u32 %r3, 77;\nredux.sync.max.u32 %r9, %r3, -1;", [77] * 32),
        ("mov.u32 %r3, 5;\nmatch.any.sync.b32 %r9, %r3, -1;", "match.any.sync.b32 %r9, %r1, -1;",
         [1 << n if n != 5 else 0xFFFF0020 for n in range(16)] + [0xFFFF0020] * 16),
    ],
)  # fmt: skip
def test_lanes_meet_at_two_instructions(one: str, other: str, wanted: list[int], seed: int) -> None:
    """PTX ISA, shfl.sync: those of the mask come to one with the same qualifiers and the same mask."""
    assert result(APART.format(one, other), seed=seed).tolist() == wanted


@pytest.mark.parametrize(
    "other",
    [
        "shfl.sync.idx.b32 %r9, %r1, 16, 31, -1;",  # other qualifiers
        "shfl.sync.bfly.b32 %r9, %r1, 16, 31, 0xfffeffff;",  # another mask
        "bar.warp.sync -1;",
    ],
)
def test_they_do_not_meet_at_others(other: str) -> None:
    text = APART.format("shfl.sync.bfly.b32 %r9, %r1, 16, 31, -1;", other)
    r = execute(text + STORE, buffer(np.zeros(32, np.uint32)), block=32)
    assert r.harm is not None and r.harm.kind is Kind.UNDEFINED


def test_bar_warp_sync_orders_lanes() -> None:
    shared = ".shared .align 4 .b8 s[128]; mov.u32 %r4, s; mad.lo.u32 %r5, %r1, 4, %r4; xor.b32 %r6, %r5, 4;"
    good = shared + "st.shared.u32 [%r5], %r1; bar.warp.sync -1; ld.shared.u32 %r9, [%r6];"
    assert (result(good) == LANE ^ 1).all()
    r = execute(good.replace("bar.warp.sync -1;", ""), buffer(np.zeros(32, np.uint32)))
    assert r.harm is not None and r.harm.kind is Kind.RACE


@pytest.mark.parametrize(("mask", "warns"), [(-1, True), (0xFFFF, False)])
def test_a_mask_of_lanes_that_have_left_is_a_warning(mask: int, warns: bool) -> None:
    text = f"setp.gt.u32 %p1, %r1, 15;\n@%p1 exit;\nshfl.sync.idx.b32 %r9, %r1, 3, 31, {mask};\n"
    r = execute(text + STORE, buffer(np.zeros(32, np.uint32)))
    assert r.harm is None and any("have left" in said for _, said in r.warnings) == warns
