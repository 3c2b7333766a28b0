"""What an exploration may cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from syncverify.base.reason import Cause, Reason
from syncverify.symbolic.context import NotConcrete

#: Earlier nodes that a state is compared with.
MOST_COMPARED = 40
#: Nodes of one form that do not come from each other, before they are widened to represent both.
MOST_SIBLINGS = 1
#: States at one point that differ in what is known, before all are compared by that; and where agents ask
#: only when no other can go on, so that they mostly stand at few points.
MOST_FORMS, FEW_FORMS = 6, 2
#: Decisions after which an exploration gives up that compares states so, three times as many while no state
#: is at a new point.
MOST_WEAKENED_NODES = 1_200
#: How many times more where roles distribute iterations round-robin between them: there is a state for each
#: place and role.
ROUND_ROBIN_NODES_FACTOR = 4
#: And where stages go on by whole turns at once.
PREFIX_SUM_NODES_FACTOR = 8
#: Widenings after which a state that holds another is widened all the same, where iterations are distributed
#: round-robin; where stages go on by whole turns, so many times more.
OFTEN_WIDENED = 6
#: Decisions before an exploration can be told not to end, and how many of them are to come to one state that
#: is left to follow. What ends has a tenth left by then or less, what does not a fifth, for ever.
EARLY, FEW_LEFT = 150, 6

#: Times the events where so few decisions have been made that it is too early: runs between them are long.
LONG_RUNS = 2
#: Times more decisions round a ring where tiles are shared.
BLOCK_GROUP_NODES_FACTOR = 6
#: And where a state for so many of them is left to follow: the newest comes first there, so more are left
#: than elsewhere, but nearly all of them round a ring that leads nowhere.
LONGER, HALF = 8, 2


#: Whether states may represent others at other places of a ring: certificates have no word for that.
symmetry_enabled: ContextVar[bool] = ContextVar("rotates", default=True)
#: Whether clusters of a block group may be explored each alone: nor for that.
modular_enabled: ContextVar[bool] = ContextVar("alone", default=True)


@contextmanager
def without_rotations() -> Iterator[None]:
    """Explorations whose states represent themselves."""
    with _without(symmetry_enabled):
        yield


@contextmanager
def without_members() -> Iterator[None]:
    """Explorations of block groups of clusters as a whole."""
    with _without(modular_enabled):
        yield


@contextmanager
def _without(what: ContextVar[bool]) -> Iterator[None]:
    token = what.set(False)
    try:
        yield
    finally:
        what.reset(token)


class BudgetExceeded(NotConcrete):
    """A limit was reached: with more of it there might be an answer."""

    def __init__(self, text: str) -> None:
        super().__init__(Reason(text, Cause.BUDGET))


@dataclass(frozen=True, slots=True)
class ExplorationBudget:
    """What an exploration may cost; counts, so that two runs agree."""

    events: int = 1_200_000  # of all runs together
    try_small_sizes_after_events: int = 80_000  # events after which small sizes are worth a try
    max_events_per_run: int = 60_000  # of one run
    # events within which some state must be subsumed by another, or be widened
    first_cover_within_events: int = 1 << 60
    max_nodes: int = 6_000
    # that eliminations compare, for all questions together, and as many more as there are events
    max_inequalities: int = 1 << 60
    bytes: int = 1 << 30  # of the states that are left to follow, roughly
    max_unconfirmed_failures: int = 3  # that the exact check does not confirm
    widening_delay: int = 0  # earlier nodes of the same key before a state is widened
    # of sizes at one key, before states with other forms of them are widened
    size_shapes_before_widening: int = 16
    # widenings of a key that may keep what only the later state knows
    widenings_that_keep_new_constraints: int = 2
    branch_when_nobody_else_can_run: bool = False  # an agent asks only when no other can go on
    short_attempt_divisor: int = 1  # times more than this of a look that is meant to be brief
    extension_factor: int = 1  # times the events and nodes, while few states are left to follow

    def allows(self, times: float, left: int, nodes: int, most: int = FEW_LEFT) -> bool:
        """Whether so many times a limit are not too many, with so many states left after the decisions."""
        stretch = max(self.extension_factor, LONG_RUNS) if nodes < EARLY else self.extension_factor
        return times <= stretch and worklist_is_small(left, nodes, most)


def ring_node_limit(size: int, shared: bool = False) -> int:
    """Decisions after which an exploration goes on without a ring of so many slots; ``shared``: of a cluster
    of a block group, which may share its tiles with others in several ways."""
    return (60 + 30 * size) * (BLOCK_GROUP_NODES_FACTOR if shared else 1)


def worklist_is_small(left: int, nodes: int, most: int = FEW_LEFT) -> bool:
    """Whether few states are left to follow after so many decisions, or it is too early to tell: a state for
    so ``most`` decisions."""
    return nodes < EARLY or most * left <= nodes


__all__ = [
    "BudgetExceeded",
    "ExplorationBudget",
    "modular_enabled",
    "ring_node_limit",
    "symmetry_enabled",
    "without_members",
    "without_rotations",
    "worklist_is_small",
]
