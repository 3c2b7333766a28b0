"""The state machines, against the words of the PTX ISA."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncverify.model.automata.async_groups import Groups
from syncverify.model.automata.cluster_barrier import ClusterBarrier
from syncverify.model.automata.mbarrier import Mbarrier
from syncverify.model.automata.named_barrier import NamedBarrier
from syncverify.model.automata.register_pool import RegisterPool, legal, most_registers


def test_a_fresh_barrier_passes_parity_one_only() -> None:
    b = Mbarrier()
    b.init(2)
    assert b.passes(1) and not b.passes(0)


def test_a_phase_needs_arrivals_and_bytes() -> None:
    b = Mbarrier()
    b.init(1)
    b.expect(64)
    assert not b.arrive(1)
    assert not b.complete_tx(32)
    assert b.complete_tx(32)
    b.advance()
    assert (b.phase, b.pending, b.tx) == (1, 1, 0) and b.passes(0)


def test_bytes_may_come_first() -> None:
    b = Mbarrier()
    b.init(1)
    assert not b.complete_tx(64) and b.tx == -64
    b.expect(64)
    assert b.arrive(1)


def test_expect_never_completes() -> None:
    b = Mbarrier()
    b.init(1)
    b.complete_tx(2)
    assert not b.arrive(1)
    b.expect(2)
    assert b.pending == 0 and b.tx == 0 and b.phase == 0


def test_drop_lowers_later_phases() -> None:
    b = Mbarrier()
    b.init(2)
    b.arrive(1, drop=True)
    assert b.arrive(1)
    b.advance()
    assert b.pending == 1


@given(st.lists(st.sampled_from(["issue", "commit"]), max_size=30), st.integers(0, 8))
def test_groups_cover_all_but_the_newest(operations: list[str], pending: int) -> None:
    g = Groups()
    group_of: list[int | None] = []
    groups = 0
    for o in operations:
        if o == "issue":
            g.issue()
            group_of.append(None)
        else:
            g.commit()
            group_of = [groups if x is None else x for x in group_of]
            groups += 1
    covered = g.covered(pending)
    for i, x in enumerate(group_of):
        assert (i < covered) == (x is not None and x < groups - pending)
    assert g.covered(-1) == len(group_of)


def test_a_warp_counts_when_all_its_lanes_have_come() -> None:
    n = NamedBarrier()
    assert not n.arrive(0, 0x0000FFFF, 0xFFFFFFFF, 64)
    assert not n.arrive(1, 0xFFFFFFFF, 0xFFFFFFFF, 64)
    assert n.arrive(0, 0xFFFF0000, 0xFFFFFFFF, 64)


def test_half_a_warp_stays_for_the_next_generation() -> None:
    n = NamedBarrier()
    n.arrive(0, 1, 3, 32)
    assert n.arrive(1, 1, 1, 32)
    n.reset()
    assert n.arrived == {0: 1} and n.twice(0, 1) and not n.twice(1, 1)


def test_exited_lanes_are_not_waited_for() -> None:
    n = NamedBarrier()
    assert not n.arrive(0, 1, 3, 32)
    assert n.leave(0, 1, 0)
    c = ClusterBarrier({0, 1})
    assert not c.arrive(0)
    assert c.leave(1)


@pytest.mark.parametrize("warp_first", [True, False])
def test_a_warp_and_lanes_of_another_may_leave_in_any_order(warp_first: bool) -> None:
    n = NamedBarrier()
    assert not n.arrive(1, 2, 3, 64, 0)
    if warp_first:
        assert not n.leave_whole(1)
        assert n.leave(1, 2, 1)
    else:
        assert not n.leave(1, 2, 0)
        assert n.leave_whole(1)


def test_registers_move_by_warpgroup() -> None:
    p = RegisterPool(0, {0: 168, 1: 168}, {0: 0, 1: 0})
    assert not p.grant(0, 1, 240)
    assert p.grant(1, 1, 24) and p.free == 144 * 128
    assert p.grant(1, 1, 24) and p.free == 144 * 128  # the other warps follow
    assert p.grant(0, 1, 240)
    assert legal(24) and legal(256) and not legal(257) and not legal(20) and not legal(28)
    assert most_registers(384) == 168
    assert most_registers(256) == most_registers(32) == 256
