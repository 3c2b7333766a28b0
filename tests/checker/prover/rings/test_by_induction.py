"""Sizes that decide whether a barrier outside loops is come to are cases of their own."""

from __future__ import annotations

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.prover.parametric.strategy import problem_of
from syncverify.checker.prover.rings.by_induction import NotFoundError, by_induction
from syncverify.ir.text.parser import parse

#: The last block alone meets, and reads what another thread has stored before.
LAST = """kernel last {
  launch grid [G] block [64]
  param G : i32 = 2
  tensor out : f32[G * 64] inout
  shared tile : f32[64]

  ld.global x, out[block * 64 + tid]
  st.shared tile[tid], x
  if block + 1 >= grid {
    bar.sync 0
    ld.shared y, tile[63 - tid]
    st.global out[block * 64 + tid], y
  }
}
"""


def accepted(text: str) -> bool:
    (kernel,) = parse(text, "last.syncir")
    problem = problem_of(kernel, {}, lambda _: Verdict.UNKNOWN)
    assert problem is not None
    try:
        return bool(by_induction(problem, Policy.PRACTICAL))
    except NotFoundError:
        return False


def test_a_barrier_of_the_last_block_alone_is_accepted() -> None:
    assert accepted(LAST)


def test_without_the_barrier_the_race_is_not_accepted() -> None:
    assert not accepted(LAST.replace("    bar.sync 0\n", ""))


def test_a_barrier_that_one_warp_leaves_out_is_not_accepted() -> None:
    assert not accepted(LAST.replace("if block + 1 >= grid {", "if block + 1 >= grid and warp == 0 {"))
