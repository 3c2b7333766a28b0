"""A ring that states are followed round: when it is looked for, and what is compared round it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from syncverify.checker.happens_before.run import Run
from syncverify.checker.prover import budget as at_most
from syncverify.checker.prover.budget import ExplorationBudget
from syncverify.checker.prover.reach.graph import ReachabilityGraph
from syncverify.checker.prover.reach.refinement import RegistersNotPeriodic, UseRing, UseRoundRobinRing
from syncverify.checker.prover.reach.ring.positions import (
    Alignment,
    RegisterRoles,
    monotone_registers_of,
    together,
)
from syncverify.checker.prover.reach.ring.product import SymmetryBroken
from syncverify.checker.prover.reach.ring.symmetry import Ring, detect_ring
from syncverify.checker.prover.reach.state.symbolic_state import StateView
from syncverify.checker.prover.reach.widening_strategy import ReachedState
from syncverify.symbolic.context import SymbolicContext

#: Decisions for each place of a ring that was seen, in which registers are to show that they count.
MOST_LAPS = 4
#: Places of a ring from which on states are followed round it one by one first; half as many are a lap.
FEW_PLACES = 6


@dataclass(slots=True, kw_only=True)
class RingDetection:
    """States at places of a ring, and what tells that there is one."""

    space: SymbolicContext
    limits: ExplorationBudget
    graph: ReachabilityGraph = field(default_factory=ReachabilityGraph)
    repeats: bool = False  # some state was subsumed by another, or was widened
    seeks_ring: bool = field(default_factory=at_most.symmetry_enabled.get)  # a ring is looked for
    ring: Ring | None = None  # states are compared from the slot on that is to be filled next
    kinds: RegisterRoles = field(default_factory=RegisterRoles)
    ended: bool = False  # some run has
    soon: bool = False  # a ring is looked for from the start
    searched: int = 0  # events of the longest run that a ring was looked for in
    early: int = 0  # the same from the start
    sought: int = 0  # the same before states repeat
    around: int = 0  # places of a ring that was seen then
    growing: set[tuple[int, Any]] = field(default_factory=set)  # registers with more values than these
    strays: int = 0  # states in a row whose registers contradict all those of their key
    round: bool = False  # some states have traversed it
    _seen: dict[Hashable, list[ReachedState]] = field(default_factory=dict)

    @property
    def uses_symmetry(self) -> bool:
        """Whether states are looked at that all iterations come to, wherever they begin in a ring."""
        return self.ring is not None or self.space.has_round_robin

    @property
    def seeks(self) -> bool:
        """Whether a ring is looked for: once a run has ended, and no state repeats yet, the longest run shows
        it soonest."""
        return (
            self.seeks_ring
            and self.limits.branch_when_nobody_else_can_run
            and self.ended
            and not self.repeats
        )

    def sequential_orbit_visit(self, view: StateView, same: list[ReachedState]) -> ReachedState | None:
        """Where states of one key have been at one place of the ring each, the one at this place, or if there
        is none the last one: once they come round, it is known what registers are at all places."""
        if (
            self.ring is None
            or self.ring.places < FEW_PLACES
            or self.round
            or not same
            or len(view.at.all) > 1
        ):
            return None
        places = {seen.view.at.main: seen for seen in same if len(seen.view.at.all) == 1}
        if len(places) < len(same):
            return None
        if view.at.main in places:
            return places[view.at.main] if 2 * len(places) >= FEW_PLACES else None
        return same[-1]

    def close_orbit(
        self, there: ReachedState, view: StateView, earlier: list[ReachedState], same: list[ReachedState]
    ) -> ReachedState:
        """Takes note of what registers are at all places, once a state is at the place of another one again:
        what it is widened with, and represents all of ``same`` then. Raises RegistersNotPeriodic."""
        last = same[-1]
        if not self.kinds.closed_orbit(there.view.rows, view.rows, last.view.rows):
            raise RegistersNotPeriodic
        self.round = True
        earlier[:] = [seen for seen in earlier if not any(seen is x for x in same)]
        return last

    def count_refuting_states(
        self, earlier: list[ReachedState], candidates: list[tuple[ReachedState, Alignment]], view: StateView
    ) -> None:
        """Counts states whose registers contradict all those of their key: if some go on and on, they do not
        cycle through the ring. Raises SymmetryBroken."""
        self.strays = 0 if candidates or not earlier else self.strays + 1
        if self.ring is not None and self.strays > self.ring.places:
            old = earlier[-1].view
            raise SymmetryBroken(
                "registers count", self.kinds.refuting_registers(old.rows, old.at, view.rows, view.at)
            )

    def aligned_states(
        self, earlier: list[ReachedState], view: StateView
    ) -> list[tuple[ReachedState, Alignment]]:
        """Earlier states that stand at places of the ring that go together with those of a later one."""
        found = [(s, together(s.view.rows, s.view.at, view.rows, view.at, self.kinds)) for s in earlier]
        return [(s, both) for s, both in found if both is not None]

    def seek(self, run: Run) -> None:
        """Looks for a ring before states repeat: once registers are seen to count on beyond its places, and
        no others any more. Raises UseRing."""
        if not self.around and len(run.trace) >= 2 * self.sought:
            self.sought = len(run.trace)
            ring = detect_ring(run)
            self.around = 0 if ring is None else ring.places
        if not self.around or len(self.graph.nodes) > MOST_LAPS * self.around:
            return
        before, self.growing = self.growing, monotone_registers_of(self._seen.values(), self.around)
        if self.growing and self.growing == before:
            ring = detect_ring(run)
            if ring is not None:
                raise UseRing(ring)

    def look_for_ring(self, run: Run) -> None:
        """Looks for a ring in what a run has done, now and then. Raises UseRing."""
        if self.is_detecting and len(run.trace) >= 2 * self.searched:
            self.searched = len(run.trace)
            self.restart_with(detect_ring(run))

    def look_soon(self, run: Run) -> None:
        """Looks for a ring that all sites have traversed, from the start: one of more than a few places.
        Raises UseRing."""
        if self.is_detecting and len(run.trace) > self.early:
            self.early = len(run.trace)
            ring = detect_ring(run, whole=True)
            self.restart_with(ring if ring is not None and ring.places >= FEW_PLACES else None)

    @property
    def is_detecting(self) -> bool:
        """Whether a ring is looked for."""
        round_robin = self.space.round_robin
        known = self.space.has_round_robin and round_robin is not None and bool(round_robin.slots)
        return self.seeks_ring and self.limits.branch_when_nobody_else_can_run and not known

    def restart_with(self, ring: Ring | None) -> None:
        """Begins again with a ring. Raises UseRing, or UseRoundRobinRing where iterations are distributed
        round-robin.
        """
        if ring is not None:
            raise UseRoundRobinRing(ring.size, ring.offsets) if self.space.has_round_robin else UseRing(ring)


__all__ = ["RingDetection"]
