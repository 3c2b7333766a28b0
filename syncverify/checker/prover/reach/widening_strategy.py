"""Which of the earlier states a state is compared with, and which it is widened with.

States that are compared by what they know differ less in form than others, and many have one key. Of these
the one is taken where the fewest registers move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from math import gcd

from syncverify.checker.prover.reach.graph import Node, NodeStatus, ReachabilityGraph
from syncverify.checker.prover.reach.knowledge_order import KnowledgeAbstraction
from syncverify.checker.prover.reach.state.symbolic_state import Place, StateView
from syncverify.symbolic.context import SymbolicContext, UndecidedBranch
from syncverify.symbolic.inequalities import Sum, combined
from syncverify.symbolic.path_condition import PathCondition

#: By which numbers registers move.
Step = dict[Place, int]
#: Register values, and what is known of them.
Rowed = tuple[list[Sum], PathCondition]
#: How many times more often registers of inner loops change, where roles that distribute iterations
#: round-robin count those of others too.
ROUND_ROBIN_FACTOR = 4
#: Points of a loop that is followed round.
MOST_POINTS = 128
#: States that differ in registers of several loops, before they are widened to one.
STATES_BEFORE_WIDENING = 3


@dataclass(slots=True)
class ReachedState:
    """An earlier state."""

    node: Node
    view: StateView
    path: PathCondition
    widenings: int  # that it comes from, one of the other
    known: KnowledgeAbstraction | None = None
    weakened: bool = False  # it fails more often than others of that form


@dataclass(slots=True)
class RegisterChangeStatistics:
    """How often registers have changed between nodes: those of inner loops more often than of outer ones."""

    space: SymbolicContext
    views: dict[int, StateView] = field(default_factory=dict)  # of nodes
    changes: Counter[Place] = field(default_factory=Counter)
    steps: dict[int, list[Place]] = field(default_factory=dict)  # where a node differs from the one before

    def seen(self, parent: int, number: int, view: StateView) -> None:
        """Takes note of a node and the one before it."""
        before = self.views.get(parent)
        if before is not None:
            moved = self.changed_registers(before, view, before.rows)
            self.changes.update(moved)
            self.steps[number] = moved
        self.views[number] = view

    def mixes_loops(
        self,
        view: StateView,
        seen: ReachedState,
        rows: dict[Place, Sum],
        graph: ReachabilityGraph,
        parent: int,
    ) -> bool:
        """Whether registers of inner and of outer loops move at once from an earlier state, with its rows.
        Its lattice would tie the ones to the others. ``parent``: the node before."""
        since = self.changes_since(seen.node.number, graph, parent) if self.space.has_round_robin else None
        changes, much = (self.changes, 2) if since is None else (since, ROUND_ROBIN_FACTOR)
        counts = [changes[p] for p in self.changed_registers(seen.view, view, rows) if changes[p]]
        return bool(counts) and much * min(counts) < max(counts)

    def changes_since(self, number: int, graph: ReachabilityGraph, parent: int) -> Counter[Place] | None:
        """How often registers have changed since a node that a state comes from; None if it does not."""
        found: Counter[Place] = Counter()
        while parent > number:
            found.update(self.steps.get(parent, ()))
            parent = graph.nodes[parent].parent
        return found if parent == number else None

    def changed_registers(
        self, earlier: StateView, later: StateView, rows: Mapping[Place, Sum]
    ) -> list[Place]:
        """Where rows differ, and do not move already; ``rows``: the earlier ones."""
        kept = {a for _, (_, parts) in earlier.sizes for a, _ in parts}
        return [
            p for p, row in later.rows.items() if not self.in_generated_lattice(rows.get(p, row), row, kept)
        ]

    def in_generated_lattice(self, row: Sum, later: Sum, kept: set[int]) -> bool:
        """Whether a row may come to another, all others aside."""
        if row == later:
            return True
        rest = combined([(1, later), (-1, row)])
        free = gcd(*(k for a, k in row[1] if a not in kept))
        return free > 0 and not any(k % free for k in (rest[0], *(k for _, k in rest[1])))


@dataclass(slots=True)
class RingLoopExtrapolation:
    """Points that a loop comes to one after the other, round and round: where registers move by numbers in
    each step, what is seen at one point tells of the others."""

    steps: dict[Hashable, tuple[Hashable, Step]] = field(default_factory=dict)  # by key, to the next

    def record_step(self, before: ReachedState, key: Hashable, view: StateView) -> None:
        """Takes note of a step."""
        step = constant_stride(before.view.rows, view.rows)
        if step is not None:
            self.steps.setdefault(before.node.key, (key, step))

    def translates(
        self, key: Hashable, view: StateView, seen: Mapping[Hashable, list[ReachedState]]
    ) -> list[Rowed]:
        """What was seen last at the other points of a loop, as it would be at this one."""
        places = list(view.rows)
        found: dict[tuple[Sum, ...], PathCondition] = {}
        moved: Step = {}
        at = key
        for _ in range(MOST_POINTS):
            if at not in self.steps:
                return []
            at, step = self.steps[at]
            if at == key:
                return [(list(rows), path) for rows, path in found.items()]
            for p, k in step.items():
                moved[p] = moved.get(p, 0) + k
            last = seen[at][-1]
            if last.widenings and list(last.view.rows) == places:
                rows = [(c - moved.get(p, 0), parts) for p, (c, parts) in last.view.rows.items()]
                found[tuple(rows)] = last.path
        return []

    def extrapolate_lap(
        self,
        first: ReachedState | None,
        before: ReachedState,
        view: StateView,
        path: PathCondition,
        o: UndecidedBranch,
        lap: int,
    ) -> ReachedState | None:
        """What a loop comes to after another lap of so many steps, as its first two steps tell: registers
        that are numbers say where in the ring it is, and come round."""
        question, step = before.node.branch_condition, constant_stride(before.view.rows, view.rows)
        low = path.bounds(o.c, o.parts)[0]
        if first is None or not lap or not step or question is None or question[1] != o.parts or low is None:
            return None
        last = constant_stride(first.view.rows, before.view.rows) or {}
        moving = {p: step.get(p, 0) for p, (_, parts) in view.rows.items() if parts}
        there = any(abs(k) == abs(lap * by) for p, by in moving.items() for _, k in view.rows[p][1])
        if there or any(by != last.get(p, 0) for p, by in moving.items()):
            return None
        path = path.fork()
        path.assume(o.c + lap * (o.c - question[0]) - low, o.parts)  # it goes on as long as it did
        rows = {p: (c + lap * moving.get(p, 0), parts) for p, (c, parts) in view.rows.items()}
        return None if path.dead else ReachedState(before.node, replace(view, rows=rows), path, 0)


def constant_stride(before: Mapping[Place, Sum], after: Mapping[Place, Sum]) -> Step | None:
    """By which numbers rows move; None if they move by more than that."""
    if list(before) != list(after):
        return None
    step: Step = {}
    for p, (c, parts) in after.items():
        if before[p][1] != parts:
            return None
        if c != before[p][0]:
            step[p] = c - before[p][0]
    return step


@dataclass(slots=True)
class LoopEntries:
    """Whether loops that are entered are left at once first."""

    begun: bool = False  # some loop was, from elsewhere
    over: bool = False  # and some state since was subsumed by an earlier one

    def enters_loop(self, graph: ReachabilityGraph, node: Node) -> bool:
        """Whether a loop was just begun, from a state from which it was not before. Until an earlier such
        state subsumes a later one, the loop is left at once: what moves its beginning is seen before laps.
        """
        before = graph.nodes[node.parent] if node.parent >= 0 else None
        if before is None or before.status is not NodeStatus.WIDENED or before.branch_taken is not False:
            return False
        if not self.begun:
            self.begun, self.over = True, False
        return not self.over


def knowledge_subsumes(seen: ReachedState, weakened: bool, knows: KnowledgeAbstraction | None) -> bool:
    """Whether what fails from a state on fails from an earlier one with its key too, registers aside."""
    if knows is None or seen.known is None:
        return seen.weakened or not weakened
    return seen.known.simulates(knows)


def with_same_accesses(earlier: list[ReachedState], knows: KnowledgeAbstraction | None) -> list[ReachedState]:
    """Those with the same accesses on record, if there are some: no state can be given what another holds."""
    accesses = None if knows is None else knows.accesses
    return [s for s in earlier if s.known is not None and s.known.accesses == accesses] or earlier


__all__ = [
    "LoopEntries",
    "ReachedState",
    "RegisterChangeStatistics",
    "knowledge_subsumes",
    "with_same_accesses",
]
