"""Clusters read as protocols: the ring of each block, arrivals at the other block, and who leaves when."""

from __future__ import annotations

import pytest

from tests.checker.induction.test_read import accepted, accepted_with, posed

PAIR = """kernel pair {
  launch grid [2] block [64] cluster [2]
  param N : i32 = 3
  assume N >= 1
  tensor a : f32[N * 64] in
  tensor out : f32[128] out
  shared tile : f32[2, 64] align 128
  mbarrier full[2]
  mbarrier empty[2]

  elect p
  role init warps 0..1 {
    if p {
      for s in 0..2 {
        mbarrier.init full[s], 1
        mbarrier.init empty[s], 64
      }
      fence.mbarrier_init
    }
  }
  cluster.arrive.relaxed
  cluster.wait
  role load warps 0..1 {
    if p {
      for i in 0..N {
        mbarrier.wait.cluster empty[i % 2], (i // 2 + 1) % 2
        mbarrier.arrive.expect_tx full[i % 2], 256
        bulk.load tile[i % 2][rank * 32 : 32], a[i * 64 + rank * 32 : 32], full[i % 2], multicast 3
      }
    }
  }
  role math warps 1..2 {
    for i in 0..N {
      mbarrier.wait full[i % 2], (i // 2) % 2
      ld.shared x, tile[i % 2][lane * 2 : 2]
      st.global out[rank * 64 + lane * 2 : 2], x
      fence.proxy.async.shared_cta
      mbarrier.arrive.cluster empty[i % 2] @ 0
      mbarrier.arrive.cluster empty[i % 2] @ 1
    }
  }
  cluster.arrive
  cluster.wait
}
"""
MISTAKES = {
    "inits are not released": ("      fence.mbarrier_init\n", ""),
    "a block leaves early": ("  cluster.arrive\n  cluster.wait\n}", "}"),
    "only one block is told": ("      mbarrier.arrive.cluster empty[i % 2] @ 1\n", ""),
    "generic reads are released at block scope": (
        "arrive.cluster empty[i % 2] @ 1",
        "arrive empty[i % 2] @ 1",
    ),
    "a copy reaches one block alone": ("multicast 3", "multicast 1"),
}


def test_a_multicast_ring_of_two_blocks_is_accepted() -> None:
    assert accepted(posed(PAIR))


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_not_accepted(what: str) -> None:
    old, new = MISTAKES[what]
    assert not accepted_with(PAIR, old, new)
