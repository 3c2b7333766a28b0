"""Locks in shared memory: right kernels are proved, wrong ones are refuted with a witness that replays."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.frontends.ptx.analysis.exclusion.shared_locks import SharedLocks
from tests.checker.happens_before.flag_model import TooManyError, harm
from tests.checker.happens_before.flag_programs import locked
from tests.checker.happens_before.test_flag_model import _verdict
from tests.system.small_ptx import Small, read

KERNELS = list(read(Path(__file__).with_name("shared_locks.kernels")))
#: Random programs with locks: how many each run draws, and the slow one, in parts.
DRAWN, MORE, PARTS = 24, 3000, 4


@pytest.mark.parametrize("k", KERNELS, ids=lambda k: f"{k.group}: {k.name}")
def test_verdicts(k: Small) -> None:
    (found,) = syncverify.check(k.text, facts={"kernel": {"k": k.facts}}, timeout=60, advice=False)
    assert found.verdict is (Verdict.PROVED if k.right else Verdict.REFUTED), found.reason


def _differing(first: int, last: int) -> tuple[list[str], int, int]:
    """Programs with a wrong verdict; how many are right, and how many of these are proved."""
    wrong, right, proved = [], 0, 0
    for seed in range(first, last):
        p = locked(random.Random(seed))
        try:
            harms = harm(p.meant) is not None
        except TooManyError:
            continue
        said = _verdict(p, replay=False)
        if said is Verdict.REFUTED and not harms:
            said = _verdict(p, replay=True)
        right += not harms
        proved += not harms and said is Verdict.PROVED
        if said is (Verdict.PROVED if harms else Verdict.REFUTED):
            wrong.append(f"seed {seed}: {p}")
    return wrong, right, proved


def test_random_programs() -> None:
    wrong, right, proved = _differing(0, DRAWN)
    assert wrong == []
    assert proved > right * 3 / 4 > DRAWN / 8


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_more_random_programs(part: int) -> None:
    size = MORE // PARTS
    assert _differing(DRAWN + part * size, DRAWN + (part + 1) * size)[0] == []


def _turns(*counts: int) -> SharedLocks:
    """The turns of so many threads at one lock, each with so many."""
    locks = SharedLocks()
    for thread, count in enumerate(counts):
        for place in range(count):
            locks.take((0, 0), 4, ((0, thread, 0), place))
    return locks


@pytest.mark.parametrize("counts", [(1, 1, 1, 1), (2, 1), (2, 2), (3, 2, 1)])
def test_each_turn_comes_right_after_each_other_one(counts: tuple[int, ...]) -> None:
    locks = _turns(*counts)
    orders = [sorted(rows[0, 0], key=rows[0, 0].__getitem__) for rows in locks.some([]) or ()]
    followed = {pair for order in orders for pair in pairwise(order)}
    turns = list(locks.taken[0, 0])
    assert followed >= {(a, b) for a in turns for b in turns if a[0] != b[0]}
    for order in orders:
        assert sorted(order) == sorted(turns)
        for a in turns:
            for b in turns:
                assert a[0] != b[0] or a[1] <= b[1] or order.index(a) > order.index(b)


def test_every_order() -> None:
    assert len(_turns(2, 2).every(100)) == 6
    assert len(_turns(1, 1, 1, 1).every(10)) == 10


def test_what_several_locks_hold_together_is_tried_in_every_order() -> None:
    locks = _turns(1, 1)
    locks.take((0, 4), 4, ((0, 0, 0), 7))
    assert locks.some([]) is None
    locks.take((0, 4), 4, ((0, 1, 0), 7))
    assert len(locks.every(100)) == 4


#: Each warp counts once, under a lock that fences make one: its word is accessed by relaxed operations.
FENCED = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k()
.reqntid 64, 1, 1
{
  .reg .pred %p<4>; .reg .b32 %r<9>;
  .shared .align 4 .b8 lock[4]; .shared .align 4 .b8 count[4];
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra MEET;
  st.shared.u32 [lock], 0;
  st.shared.u32 [count], 0;
MEET:
  bar.sync 0;
  and.b32 %r2, %r1, 31;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra END;
TAKE:
  atom.relaxed.cta.shared.cas.b32 %r3, [lock], 0, 1;
  setp.ne.u32 %p3, %r3, 0;
  @%p3 bra TAKE;
  fence.acq_rel.cta;
  ld.shared.u32 %r4, [count];
  add.u32 %r4, %r4, 1;
  st.shared.u32 [count], %r4;
  FENCE
  st.relaxed.cta.shared.u32 [lock], 0;
END:
  ret;
}
"""


def test_who_takes_a_lock_next_is_no_warning() -> None:
    (right,) = syncverify.check(FENCED.replace("FENCE", "fence.acq_rel.cta;"), advice=False)
    assert right.verdict is Verdict.PROVED and not right.diagnostics
    (wrong,) = syncverify.check(FENCED.replace("FENCE", ""), advice=False)
    assert wrong.verdict is Verdict.REFUTED
