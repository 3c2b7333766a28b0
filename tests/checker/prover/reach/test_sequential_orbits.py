"""States cycle through a ring one by one first: then all its places are known, and one state stands
for all.
"""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.checker.prover.reach.graph import Node
from syncverify.checker.prover.reach.ring.positions import RegisterRoles, RingPositions
from syncverify.checker.prover.reach.state.symbolic_state import Place, StateView, SymbolicState
from syncverify.checker.prover.reach.worklist import NodeProcessing
from syncverify.symbolic.inequalities import Sum
from tests.checker.prover.reach.kernels import proof
from tests.checker.prover.reach.test_flat_rings import flat


def _places(stages: int) -> list[tuple[int, int]]:
    """Of the nodes of a proof how many places each stands for, in order."""
    seen: list[tuple[int, int]] = []
    settled = NodeProcessing.add_to_reached

    def noted(self: NodeProcessing, state: SymbolicState, view: StateView, *rest: object) -> Node:
        node = settled(self, state, view, *rest)  # type: ignore[arg-type]
        if self.ring is not None:
            seen.append((node.number, len(view.at.all)))
        return node

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NodeProcessing, "add_to_reached", noted)
        found = proof(flat(stages))
    assert found.verdict is Verdict.PROVED and any(g.rotates for g in found.graphs)
    return seen


@pytest.mark.parametrize("stages", [3, 4, 8])
def test_one_state_stands_for_all_places_after_a_lap(stages: int) -> None:
    places = [n for _, n in _places(stages)]
    first = next(i for i, n in enumerate(places) if n > 1)
    assert first >= 2 * stages and places[first] == 2 * stages


def test_rings_of_two_slots_are_found_all_the_same() -> None:
    assert any(n == 4 for _, n in _places(2))


#: The slot is told from what counts: nothing else cycles through the ring.
FLAT = """kernel flat {
  launch block [96] registers 168
  param N : i32
  assume N >= 1
  tensor a : f32[N * 64 + 64] in
  shared tile : f32[4, 64]
  mbarrier full[4]
  mbarrier empty[4]
  if warp == 0 {
    elect p
    if p {
      for s in 0..4 {
        mbarrier.init full[s], 1
        mbarrier.init empty[s], 64
      }
      fence.mbarrier_init
    }
  }
  bar.sync 0
  role load warps 2..3 {
    elect p
    if p {
      for i in 0..N {
        mbarrier.wait empty[i % 4], FREE
        mbarrier.arrive.expect_tx full[i % 4], 256
        bulk.load tile[i % 4], a[i * 64 : 64], full[i % 4]
      }
    }
  }
  role math warps 0..2 {
    for i in 0..N {
      mbarrier.wait full[i % 4], (i // 4) % 2
      ld.shared x, tile[i % 4][tid : 1]
      fence.proxy.async.shared_cta
      mbarrier.arrive empty[i % 4]
    }
  }
}
"""


@pytest.mark.parametrize(
    ("free", "verdict"), [("1 - (i // 4) % 2", Verdict.PROVED), ("(i // 4) % 2", Verdict.REFUTED)]
)
def test_slots_that_are_told_from_what_counts(free: str, verdict: Verdict) -> None:
    assert proof(FLAT.replace("FREE", free)).verdict is verdict


# ------------------------------------------------------------ what registers do


def _rows(**values: int) -> dict[Place, Sum]:
    return {("register", 0, name): (value, ()) for name, value in values.items()}


def test_what_counts_is_told_from_what_goes_round() -> None:
    kinds = RegisterRoles(size=4)
    before, last = _rows(k=3, slot=3, same=7), _rows(k=10, slot=2, same=7)
    assert kinds.closed_orbit(before, _rows(k=11, slot=3, same=7), last)
    assert kinds.monotone_registers == {(0, "k")}


def test_where_all_that_moves_counts_nothing_goes_round() -> None:
    kinds = RegisterRoles(size=4)
    assert not kinds.closed_orbit(_rows(k=3, same=7), _rows(k=11, same=7), _rows(k=10, same=7))


def test_registers_that_are_other_numbers_at_one_place_count() -> None:
    kinds = RegisterRoles(size=4, ring_index_registers={(0, "slot"): (0, 3), (0, "k"): (3, 9)})
    at = RingPositions(1, (1, 2), {("register", 0, "slot"): {1: 0, 2: 1}, ("register", 0, "k"): {1: 0, 2: 1}})
    there = RingPositions(
        2, (1, 2), {("register", 0, "slot"): {1: -1, 2: 0}, ("register", 0, "k"): {1: -1, 2: 0}}
    )
    assert kinds.refuting_registers(_rows(slot=1, k=5), at, _rows(slot=2, k=9), there) == {(0, "k")}
