"""Which of the earlier states a state is compared with, and which it is widened with.

States that are compared by what they know differ less in form than others, and many have one key. Of these
the one is taken where the fewest registers move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from math import gcd

from syncverify.checker.prover.reach.graph import Graph, Node, Settled
from syncverify.checker.prover.reach.knowledge_order import Known
from syncverify.checker.prover.reach.state.symbolic_state import Place, View
from syncverify.symbolic.context import Open, Space
from syncverify.symbolic.inequalities import Sum, combined
from syncverify.symbolic.path_condition import Path

#: Who asks, and where in its code.
Asker = tuple[int, int]
#: By which numbers registers move.
Step = dict[Place, int]
#: Register values, and what is known of them.
Rowed = tuple[list[Sum], Path]
#: Nodes before one that are looked at.
FAR_BACK = 40
#: How many times more often registers of inner loops change, where roles that deal turns out count those of
#: others too.
OF_DEALT = 4
#: Points of a loop that is followed round.
MOST_POINTS = 128
#: States that differ in registers of several loops, before they are widened to one.
MOST_APART = 3


@dataclass(slots=True)
class Seen:
    """An earlier state."""

    node: Node
    view: View
    path: Path
    widenings: int  # that it comes from, one of the other
    known: Known | None = None
    loosely: bool = False  # it fails more often than others of that form


@dataclass(slots=True)
class Loops:
    """How often registers have changed between nodes: those of inner loops more often than of outer ones."""

    space: Space
    views: dict[int, View] = field(default_factory=dict)  # of nodes
    changes: Counter[Place] = field(default_factory=Counter)
    steps: dict[int, list[Place]] = field(default_factory=dict)  # where a node differs from the one before

    def seen(self, parent: int, number: int, view: View) -> None:
        """Takes note of a node and the one before it."""
        before = self.views.get(parent)
        if before is not None:
            moved = self.moved(before, view, before.rows)
            self.changes.update(moved)
            self.steps[number] = moved
        self.views[number] = view

    def nearest(
        self, view: View, same: list[tuple[Seen, dict[Place, Sum]]], graph: Graph, parent: int
    ) -> Seen | None:
        """The state (with its rows) where the fewest registers move; at first none where those of inner and
        of outer loops do at once, for their lattice would tie the ones to the others. ``parent``: the node
        before."""
        moved = [(self.moved(seen.view, view, rows), seen) for seen, rows in reversed(same)]
        places, best = min(moved, key=lambda m: len(m[0]))
        since = self.since(best.node.number, graph, parent) if self.space.dealing else None
        changes, much = (self.changes, 2) if since is None else (since, OF_DEALT)
        counts = [changes[p] for p in places if changes[p]]
        crossing = bool(counts) and much * min(counts) < max(counts)
        return None if crossing and len(same) < MOST_APART and not self.space.summing else best

    def since(self, number: int, graph: Graph, parent: int) -> Counter[Place] | None:
        """How often registers have changed since a node that a state comes from; None if it does not."""
        found: Counter[Place] = Counter()
        while parent > number:
            found.update(self.steps.get(parent, ()))
            parent = graph.nodes[parent].parent
        return found if parent == number else None

    def moved(self, earlier: View, later: View, rows: Mapping[Place, Sum]) -> list[Place]:
        """Where rows differ, and do not move already; ``rows``: the earlier ones."""
        kept = {a for _, (_, parts) in earlier.sizes for a, _ in parts}
        return [p for p, row in later.rows.items() if not self.moves(rows.get(p, row), row, kept)]

    def moves(self, row: Sum, later: Sum, kept: set[int]) -> bool:
        """Whether a row may come to another, all others aside."""
        if row == later:
            return True
        rest = combined([(1, later), (-1, row)])
        free = gcd(*(k for a, k in row[1] if a not in kept))
        return free > 0 and not any(k % free for k in (rest[0], *(k for _, k in rest[1])))


@dataclass(slots=True)
class Laps:
    """Points that a loop comes to one after the other, round and round: where registers move by numbers in
    each step, what is seen at one point tells of the others."""

    steps: dict[Hashable, tuple[Hashable, Step]] = field(default_factory=dict)  # by key, to the next
    rounds: dict[Asker, Step] = field(default_factory=dict)  # of loops, in rounds of whole laps

    def came(self, before: Seen, key: Hashable, view: View) -> None:
        """Takes note of a step."""
        step = stepped(before.view.rows, view.rows)
        if step is not None:
            self.steps.setdefault(before.node.key, (key, step))

    def kin(self, key: Hashable, view: View, seen: Mapping[Hashable, list[Seen]]) -> list[Rowed]:
        """What was seen last at the other points of a loop, as it would be at this one."""
        places = list(view.rows)
        found: dict[tuple[Sum, ...], Path] = {}
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

    def went_round(self, before: Seen, view: View, asker: Asker, slots: int) -> None:
        """Takes note of how registers move in a round of the loop that asks, if that is of whole laps of a
        ring: by other numbers they may say where in it they are."""
        step = stepped(before.view.rows, view.rows)
        if step and slots and not any(k % slots for k in step.values()):
            self.rounds.setdefault(asker, step)

    def next_round(self, before: Seen, view: View, path: Path, o: Open, asker: Asker) -> Seen | None:
        """What a loop comes to next that is begun, and was gone round elsewhere. ``before``: a node."""
        step = self.rounds.get(asker)
        if step is None or not step.keys() <= view.rows.keys():
            return None
        path = path.fork()
        path.assume(o.c, o.parts)
        rows = {p: (c + step.get(p, 0), parts) for p, (c, parts) in view.rows.items()}
        return None if path.dead else Seen(before.node, replace(view, rows=rows), path, 0)

    def ahead(
        self, first: Seen | None, before: Seen, view: View, path: Path, o: Open, lap: int
    ) -> Seen | None:
        """What a loop comes to after another lap of so many steps, as its first two steps tell: registers
        that are numbers say where in the ring it is, and come round."""
        question, step = before.node.question, stepped(before.view.rows, view.rows)
        low = path.bounds(o.c, o.parts)[0]
        if first is None or not lap or not step or question is None or question[1] != o.parts or low is None:
            return None
        last = stepped(first.view.rows, before.view.rows) or {}
        moving = {p: step.get(p, 0) for p, (_, parts) in view.rows.items() if parts}
        there = any(abs(k) == abs(lap * by) for p, by in moving.items() for _, k in view.rows[p][1])
        if there or any(by != last.get(p, 0) for p, by in moving.items()):
            return None
        path = path.fork()
        path.assume(o.c + lap * (o.c - question[0]) - low, o.parts)  # it goes on as long as it did
        rows = {p: (c + lap * moving.get(p, 0), parts) for p, (c, parts) in view.rows.items()}
        return None if path.dead else Seen(before.node, replace(view, rows=rows), path, 0)


def stepped(before: Mapping[Place, Sum], after: Mapping[Place, Sum]) -> Step | None:
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
class Rounds:
    """After which answer an agent asks the same again soonest: that goes on in the innermost loop."""

    nodes: dict[int, Asker] = field(default_factory=dict)
    back: dict[Asker, dict[bool, int]] = field(default_factory=dict)  # fewest nodes between
    begun: bool = False  # some loop was, from elsewhere
    over: bool = False  # and some state since was a case of an earlier one

    def came(self, graph: Graph, number: int, asker: Asker) -> None:
        """Takes note of a node."""
        self.nodes[number] = asker
        child, distance = graph.nodes[number], 1
        while child.parent >= 0 and distance < FAR_BACK:
            if self.nodes.get(child.parent) == asker and child.answer is not None:
                found = self.back.setdefault(asker, {})
                found[child.answer] = min(distance, found.get(child.answer, distance))
                return
            child, distance = graph.nodes[child.parent], distance + 1

    def begins(self, graph: Graph, node: Node) -> bool:
        """Whether a loop was just begun, from where it was not before: until some such is a case of an
        earlier one it is left at once, so that all that moves its beginning is seen before its laps."""
        before = graph.nodes[node.parent] if node.parent >= 0 else None
        if before is None or before.settled is not Settled.WIDENED or before.answer is not False:
            return False
        if not self.begun:
            self.begun, self.over = True, False
        return not self.over

    def goes_on(self, number: int) -> bool:
        """Which answer to follow first."""
        found = self.back.get(self.nodes.get(number, (-1, -1)), {})
        return found.get(True, FAR_BACK) <= found.get(False, FAR_BACK)


def stands_for(seen: Seen, loosely: bool, knows: Known | None) -> bool:
    """Whether what fails from a state on fails from an earlier one with its key too, registers aside."""
    if knows is None or seen.known is None:
        return seen.loosely or not loosely
    return seen.known.covers(knows)


def alike(earlier: list[Seen], knows: Known | None) -> list[Seen]:
    """Those with the same accesses on record, if there are some: no state can be given what another holds."""
    accesses = None if knows is None else knows.accesses
    return [s for s in earlier if s.known is not None and s.known.accesses == accesses] or earlier


__all__ = ["Loops", "Rounds", "Seen", "alike", "stands_for"]
