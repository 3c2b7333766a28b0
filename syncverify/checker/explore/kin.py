"""Which of the earlier states a state is compared with, and which it is widened with.

States that are compared by what they know differ less in form than others, and many have one key. Of these
the one is taken where the fewest registers move.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import gcd

from syncverify.checker.explore.graph import Graph, Node
from syncverify.checker.explore.knowledge import Known
from syncverify.checker.explore.states import Place, View
from syncverify.model.inequalities import Sum, combined
from syncverify.model.path import Path
from syncverify.model.terms import Space

#: Who asks, and where in its code.
Asker = tuple[int, int]
#: Nodes before one that are looked at.
FAR_BACK = 40
#: How many times more often registers of inner loops change, where roles that deal turns out count those of
#: others too.
OF_DEALT = 4
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
            moved = self.moved(before, view)
            self.changes.update(moved)
            self.steps[number] = moved
        self.views[number] = view

    def nearest(self, view: View, same: list[Seen], graph: Graph, parent: int) -> Seen | None:
        """The state where the fewest registers move; at first none where those of inner and of outer loops
        do at once, for their lattice would tie the ones to the others. ``parent``: the node before."""
        moved = [(self.moved(seen.view, view), seen) for seen in reversed(same)]
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

    def moved(self, earlier: View, later: View) -> list[Place]:
        """Where rows differ, and do not move already."""
        kept = {a for _, (_, parts) in earlier.sizes for a, _ in parts}
        return [p for p, row in later.rows.items() if not self.moves(earlier.rows.get(p, row), row, kept)]

    def moves(self, row: Sum, later: Sum, kept: set[int]) -> bool:
        """Whether a row may come to another, all others aside."""
        if row == later:
            return True
        rest = combined([(1, later), (-1, row)])
        free = gcd(*(k for a, k in row[1] if a not in kept))
        return free > 0 and not any(k % free for k in (rest[0], *(k for _, k in rest[1])))


@dataclass(slots=True)
class Rounds:
    """After which answer an agent asks the same again soonest: that goes on in the innermost loop."""

    nodes: dict[int, Asker] = field(default_factory=dict)
    back: dict[Asker, dict[bool, int]] = field(default_factory=dict)  # fewest nodes between

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
