"""What is seen at one point of a loop that cycles through a ring tells of its other points."""

from __future__ import annotations

from itertools import pairwise

from syncverify.checker.prover.reach.domain.affine_sets import is_subset
from syncverify.checker.prover.reach.domain.affine_widening import AffineWidening
from syncverify.checker.prover.reach.graph import Node, NodeStatus, ReachabilityGraph
from syncverify.checker.prover.reach.state.symbolic_state import StateView
from syncverify.checker.prover.reach.widening_strategy import LoopEntries, ReachedState, RingLoopExtrapolation
from syncverify.symbolic.context import SymbolicContext, UndecidedBranch
from syncverify.symbolic.inequalities import Sum
from syncverify.symbolic.path_condition import PathCondition

#: What is left of a tile's steps, and the slot that is next.
LEFT, SLOT = ("register", 0, 1), ("register", 0, 2)


def seen(
    space: SymbolicContext, key: str, left: Sum, slot: Sum, widenings: int = 0, question: Sum | None = None
) -> ReachedState:
    node = Node(0, -1, NodeStatus.SPLIT, key, branch_condition=question, branch_taken=True)
    return ReachedState(node, StateView(key, (), {LEFT: left, SLOT: slot}), PathCondition(space), widenings)


def lap(
    space: SymbolicContext, start: Sum, slots: int = 4
) -> tuple[RingLoopExtrapolation, dict[str, list[ReachedState]]]:
    """A loop of as many points as slots, gone round once."""
    laps, found = RingLoopExtrapolation(), {}
    c, parts = start
    states = [seen(space, f"p{i % slots}", (c - i, parts), (i % slots, ())) for i in range(slots + 1)]
    for a, b in pairwise(states):
        laps.record_step(a, b.node.key, b.view)
        found[str(a.node.key)] = [a]
    return laps, found


def test_a_state_at_another_point_is_told_as_it_would_be_here() -> None:
    space = SymbolicContext()
    n, u = (space.of(space.symbol(name))[1] for name in ("n", "u"))
    laps, found = lap(space, (0, n))
    wider = seen(space, "p2", (-2, (*n, *u)), (2, ()), widenings=1)
    found["p2"].append(wider)
    here = found["p1"][0]
    assert laps.translates("p1", here.view, found) == [([(-1, (*n, *u)), (1, ())], wider.path)]


def test_states_that_were_not_widened_tell_nothing_new() -> None:
    space = SymbolicContext()
    laps, found = lap(space, (0, space.of(space.symbol("n"))[1]))
    assert laps.translates("p1", found["p1"][0].view, found) == []


def test_a_loop_that_has_not_come_round_tells_nothing() -> None:
    space = SymbolicContext()
    n = space.of(space.symbol("n"))[1]
    laps = RingLoopExtrapolation()
    a, b = seen(space, "a", (0, n), (0, ()), 1), seen(space, "b", (-1, n), (1, ()), 1)
    laps.record_step(a, "b", b.view)
    assert laps.translates("a", a.view, {"a": [a], "b": [b]}) == []


def test_a_widening_has_all_that_other_points_tell() -> None:
    """Starts one slot further on, and two: every start is a case of what becomes of them."""
    space = SymbolicContext()
    left, slot = space.symbol("n", 10), 0
    rows = [space.of(left), space.of(slot)]
    later = [space.of(left + 4), space.of(slot)]
    further = [space.of(left + 1), space.of(slot + 1)]
    w = AffineWidening(
        space, rows, PathCondition(space), later, PathCondition(space), also=[(further, PathCondition(space))]
    )
    assert is_subset(space, w.result, w.path, rows, PathCondition(space))
    assert is_subset(space, w.result, w.path, later, PathCondition(space))
    assert is_subset(space, w.result, w.path, further, PathCondition(space))
    alone = AffineWidening(space, rows, PathCondition(space), later, PathCondition(space))
    assert not is_subset(space, alone.result, alone.path, further, PathCondition(space))


def test_bounds_that_another_point_does_not_keep_are_dropped() -> None:
    space = SymbolicContext()
    u = space.symbol("u", widened=True)
    here, below = PathCondition(space), PathCondition(space)
    here.assume(*space.of(u))
    below.assume(*space.of(u + 5))
    rows, later = [space.of(u)], [space.of(u + 1)]
    w = AffineWidening(space, rows, here, later, here, also=[(rows, below)])
    assert is_subset(space, w.result, w.path, rows, below)
    alone = AffineWidening(space, rows, here, later, here)
    assert not is_subset(space, alone.result, alone.path, rows, below)


def first_steps(space: SymbolicContext, *left: int) -> list[ReachedState]:
    n = space.of(space.symbol("n", 10))[1]
    return [seen(space, f"p{i}", (c, n), (i, ()), question=(c - 3, n)) for i, c in enumerate(left)]


def ahead(space: SymbolicContext, states: list[ReachedState]) -> ReachedState | None:
    first, before, here = states
    question = here.node.branch_condition
    assert question is not None
    return RingLoopExtrapolation().extrapolate_lap(
        first, before, here.view, here.path, UndecidedBranch(*question), 8
    )


def test_two_steps_alike_tell_of_the_next_lap() -> None:
    """What counts steps is eight less, what names a slot comes round, and the loop goes on as long."""
    space = SymbolicContext()
    states = first_steps(space, 0, -1, -2)
    found = ahead(space, states)
    n = states[0].view.rows[LEFT][1]
    assert found is not None and found.view.rows == {LEFT: (-10, n), SLOT: (2, ())}
    before = states[2].path.bounds(-5, n)[0]
    assert found.path.bounds(-13, n)[0] == before


def test_steps_that_differ_tell_nothing() -> None:
    space = SymbolicContext()
    assert ahead(space, first_steps(space, 0, -9, -10)) is None


def test_a_lap_that_a_register_counts_already_is_not_told_again() -> None:
    space = SymbolicContext()
    u = space.of(space.symbol("u", widened=True))[1]
    states = first_steps(space, 0, -1, -2)
    for s in states:
        c, parts = s.view.rows[LEFT]
        s.view.rows[LEFT] = (c, (*parts, (u[0][0], 8)))
    assert ahead(space, states) is None


def test_loops_are_left_at_once_until_one_is_a_case_of_another() -> None:
    graph, rounds = ReachabilityGraph(), LoopEntries()
    entered = graph.add(-1, NodeStatus.WIDENED, branch_taken=False)
    asked = graph.add(entered.number, NodeStatus.SPLIT)
    inside = graph.add(asked.number, NodeStatus.SPLIT, branch_taken=True)
    assert rounds.enters_loop(graph, asked)
    assert not rounds.enters_loop(graph, inside)
    rounds.over = True
    assert not rounds.enters_loop(graph, asked)
