"""One exploration of a problem: all its systems on all paths that the facts leave, and what is done with runs
that fail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.base.reason import Cause, Reason, reason_of
from syncverify.base.source import InputError
from syncverify.checker.happens_before.run import Unmodelled
from syncverify.checker.happens_before.vector_clocks import ColumnsExhausted
from syncverify.checker.open_launches import starts, symbols
from syncverify.checker.prover.budget import without_rotations
from syncverify.checker.prover.parametric.assertions import always_stopped
from syncverify.checker.prover.parametric.compose_sizes import ComposedClusters
from syncverify.checker.prover.parametric.concrete_checks import MOST_EARLY, ConcreteChecks, Problem, total_of
from syncverify.checker.prover.parametric.lane_splits import finer, refined
from syncverify.checker.prover.parametric.presplit import answered, open_ended
from syncverify.checker.prover.parametric.result import ParametricResult
from syncverify.checker.prover.parametric.system_proof import SystemProof, in_child_process
from syncverify.checker.prover.reach.analysis import (
    AbstractCounterexample,
    BudgetExceeded,
    ExplorationBudget,
    ReachabilityAnalysis,
    SymmetryAbandoned,
)
from syncverify.checker.prover.reach.graph import NodeStatus
from syncverify.checker.prover.reach.refinement import UseRoundRobinRing
from syncverify.checker.prover.reach.tile_history import Groups
from syncverify.model.events import LaneSplit
from syncverify.symbolic.context import NotConcrete, SymbolicContext
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.protocol import SymbolicSystem
from syncverify.symbolic.round_robin import split_on_lap_length

#: Columns of clocks beyond the usual, after which an exploration gives up.
MOST_COLUMNS = 1_024
#: Class splits after which an exploration gives up.
MAX_RESTARTS = 256
#: Decisions that are explored beyond a refutation, for a smaller one.
MORE_NODES = 150
#: And after so many failing runs in a row of which no smaller sizes are found, no more are looked at.
MOST_LARGER = 10

#: A path with the systems that start on it; and whether some size has no number there.
Item = tuple[tuple[PathCondition, Sequence[SymbolicSystem]], bool]


@dataclass(slots=True)
class Attempt:
    problem: Problem
    policy: Policy
    limits: ExplorationBudget
    forgets: bool
    numbers: ConcreteChecks
    space: SymbolicContext = field(default_factory=SymbolicContext)
    small: bool = True
    explorers: list[ReachabilityAnalysis] = field(default_factory=list)  # of the systems of one path
    proofs: list[SystemProof] = field(default_factory=list)
    unconfirmed_failures: int = 0
    reason: str | None = None
    exceeded: bool = False  # a limit was in the way
    is_open: bool = True  # on the path that is explored some size has no number
    restores: bool = True  # flags in global memory are left as they were found
    symmetry_failed: bool = False  # it has a ring, round which it could not be explored
    slots: int = 0  # of a ring that was found where iterations are distributed round-robin
    groups: Groups = ()  # and its barriers
    detects_rings: bool = True  # where no size is havocked, a ring is looked for

    def run(self) -> ParametricResult:
        try:
            starts = self.starts()
            open_ = [open_ended(self.space, path) for path, _ in starts]
            items = [*zip(starts, open_, strict=True)]
            numbers = [x for x in items if not x[1]]
            several = len(numbers) if self.space.presplit and any(open_) else 0
            with in_child_process(lambda: self.each_alone(numbers), several) as answer:
                refuted = self.all_of(items if answer is None else [x for x in items if x[1]])
                proofs = answer() if answer is not None and refuted is None else ()
            if proofs is None:
                refuted = self.all_of(numbers)
            if refuted is not None:
                return ParametricResult(Verdict.REFUTED, values=refuted, stats=self.stats())
            self.proofs += proofs or ()
            self.reason = self.reason or always_stopped(self.proofs, self.numbers)
        except (NotConcrete, Unmodelled) as e:
            self.reason = reason_of(e)
            self.exceeded = isinstance(e, BudgetExceeded)
            self.symmetry_failed = isinstance(e, SymmetryAbandoned)
        except InputError as e:
            self.reason = e.message
        except UseRoundRobinRing as e:
            self.reason, self.slots, self.groups = "iterations are distributed round-robin", e.size, e.groups
        if self.reason is not None:
            return ParametricResult(Verdict.UNKNOWN, reason=self.reason, stats=self.stats())
        notes = {k: d for e in self.proofs for k, d in e.notes.items()}
        graphs = tuple(e.graph for e in self.proofs)
        found = ParametricResult(
            Verdict.PROVED, diagnostics=tuple(notes.values()), stats=self.stats(), graphs=graphs
        )
        found.stopped = {line: why for e in self.proofs for line, why in e.stopped.items()}
        return replace(found, restores=self.restores and all(e.restores for e in self.proofs))

    def all_of(self, items: Iterable[Item]) -> dict[str, int] | None:
        """Explores all systems; the smallest sizes that refute one, if one is refuted."""
        for (path, systems), self.is_open in items:
            self.explorers = []
            for system in systems:
                refuted = self.explored(path, system)
                if refuted is not None:
                    return refuted
            self.join(path, self.explorers)
        return None

    def each_alone(self, items: Iterable[Item]) -> list[SystemProof] | None:
        """What some starts come to; None if anything but clean ends was met."""
        late = set(self.space.split_too_late)
        refuted = self.all_of(items)
        met = (
            refuted is not None
            or self.reason is not None
            or self.unconfirmed_failures
            or self.space.split_too_late != late
        )
        return None if met or not self.restores else self.proofs

    def join(self, path: PathCondition, explorers: list[ReachabilityAnalysis]) -> None:
        """Puts clusters of a block group that were explored alone together."""
        members = [x for x in explorers if x.system.info.modular_cluster is not None]
        if not members or self.reason is not None:
            return
        joined = ComposedClusters(self.space, strict=self.policy is Policy.STRICT)
        for x in members:
            joined.take(x.system.info.modular_cluster, x.cluster_summaries)
        neighbours = members[0].system.info.group_footprint
        if neighbours is not None:
            joined.spread(path, neighbours)
        self.reason = joined.wrong(path)
        self.restores &= joined.restores

    def starts(self) -> list[tuple[PathCondition, Sequence[SymbolicSystem]]]:
        """The paths that the facts leave, with the systems that start on them."""
        space = self.space
        sizes = symbols(self.problem, space)
        names = set() if space.round_robin is None else space.round_robin.havocked_sizes & sizes.keys()
        laps = [
            lambda name=name: split_on_lap_length(space, space.path.sizes[name]) for name in sorted(names)
        ]
        asked = [lambda x=x: answered(space, x) for x in sorted(space.presplit)]
        out = starts(self.problem, space, sizes, [*laps, *asked])
        space.branched_sizes.clear()
        return out

    def explored(self, path: PathCondition, system: SymbolicSystem) -> dict[str, int] | None:
        """As ``explore``; round a ring where no size is havocked, if that does."""
        if self.is_open or not self.space.presplit:
            return self.explore(path, system)
        if self.detects_rings and not (
            self.space.round_robin is not None and self.space.round_robin.roles_skip
        ):
            try:
                return self.explore(path.fork(), system)
            except SymmetryAbandoned:
                self.detects_rings = False  # others of these sizes go round no better
        with without_rotations():
            return self.explore(path, system)

    def explore(self, path: PathCondition, system: SymbolicSystem) -> dict[str, int] | None:
        """The smallest sizes that refute a system, if it is refuted."""
        slack = 64
        splits: list[tuple[int, tuple[int, ...]]] = []
        for _ in range(MAX_RESTARTS):
            space = self.space
            space.havocs, space.root, space.path = self.forgets and self.is_open, path, path
            explorer = ReachabilityAnalysis(
                system=system,
                space=space,
                roots=[path],
                policy=self.policy,
                limits=self.limits,
                extra_clock_columns=slack,
            )
            explorer.graph.splits, explorer.graph.asks_last = (
                tuple(splits),
                self.limits.branch_when_nobody_else_can_run,
            )
            explorer.soon = space.havocs
            try:
                for failed in explorer.run():
                    if failed is None:
                        self.numbers.asked |= space.branched_sizes
                        early = self.numbers.smallest_refutation(None, MOST_EARLY) if self.small else None
                        if early is not None:
                            return early
                        continue
                    if not failed.concrete:
                        values = next(self.numbers.models_of_path(failed.path, self.space), None)
                        if values is not None and self.numbers.check(values) is Verdict.REFUTED:
                            return self.numbers.smallest_refutation(values)
                        continue
                    refuted = self.confirm(failed)
                    if refuted is not None:
                        return self.numbers.smallest_refutation(self.smaller(explorer, refuted))
                    if self.unconfirmed_failures > (
                        0 if self.forgets else self.limits.max_unconfirmed_failures
                    ):
                        break
                self.explorers.append(explorer)
                self.proofs.append(SystemProof.of(explorer))
                return None
            except ColumnsExhausted:
                slack *= 4
                if slack > MOST_COLUMNS:
                    raise NotConcrete("too many synchronization objects") from None
            except LaneSplit as split:
                space.path = path
                split = finer(system, split)
                splits.append((split.cls, split.parts))
                system = refined(system, split)
        raise NotConcrete("lane classes kept splitting")

    def smaller(self, explorer: ReachabilityAnalysis, found: dict[str, int]) -> dict[str, int]:
        """The smallest sizes among what a little more exploration finds."""
        explorer.node_limit_after_refutation = len(explorer.graph.nodes) + MORE_NODES
        explorer.limits = replace(explorer.limits, max_nodes=explorer.node_limit_after_refutation)
        best, larger = found, 0
        try:
            while explorer.pending and larger < MOST_LARGER and not self.numbers.is_least(total_of(best)):
                failed = next(explorer.run(), None)
                less = failed and self.confirm(failed, total_of(best))
                best, larger = less or best, 0 if less else larger + (failed is not None)
        except (NotConcrete, Unmodelled, LaneSplit, ColumnsExhausted):
            pass
        return best

    def confirm(self, failed: AbstractCounterexample, below: int | None = None) -> dict[str, int] | None:
        """Sizes, of a total ``below`` that if it is given, for which the exact check fails as the run did."""
        for values in self.numbers.models_of_path(failed.path, self.space, below):
            if below is not None and total_of(values) >= below:
                continue
            verdict = self.numbers.check(values)
            if verdict is Verdict.REFUTED:
                return values
            if verdict is Verdict.UNKNOWN:
                shown = ", ".join(f"{k} = {v}" for k, v in values.items())
                self.reason = Reason(f"with {shown}: {failed.reason}", parts=(failed.reason,))
        self.unconfirmed_failures += 1
        text = f"no sizes were found for a run that fails: {failed.reason}"
        self.reason = self.reason or Reason(text, Cause.NO_PROOF, parts=(failed.reason,))
        return None

    def stats(self) -> dict[str, int]:
        graphs = [e.graph for e in self.proofs]
        return {
            "nodes": sum(len(g.nodes) for g in graphs),
            "covered": sum(g.count(NodeStatus.COVERED) for g in graphs),
            "widened": sum(g.count(NodeStatus.WIDENED) for g in graphs),
            "events": sum(e.events for e in self.proofs),
            "exact_checks": len(self.numbers.known),
        }


__all__ = ["Attempt"]
