"""What becomes of a state at an undecided branch: stop (covered), merge (widened) or split.

``NodeProcessing.process`` is the step of the analysis of ``docs/symbolic.md``. ``stop``, ``widen`` and
``split`` must be sound; what chooses a partner or an order may choose anything.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappush
from itertools import count
from typing import Any

from syncverify.base.diagnostics import Policy
from syncverify.checker.happens_before import access_merging as groups
from syncverify.checker.happens_before.handlers.global_memory import forget_waits
from syncverify.checker.happens_before.run import LaneClass
from syncverify.checker.prover import budget as at_most
from syncverify.checker.prover.budget import BudgetExceeded
from syncverify.checker.prover.reach.domain.affine_sets import is_subset
from syncverify.checker.prover.reach.domain.affine_widening import AffineWidening
from syncverify.checker.prover.reach.graph import Node, NodeStatus
from syncverify.checker.prover.reach.knowledge_order import (
    KnowledgeAbstraction,
    abstract_knowledge,
    coarsen,
    supports_knowledge_order,
    weaken,
)
from syncverify.checker.prover.reach.refinement import Unweaken
from syncverify.checker.prover.reach.ring.detection import RingDetection
from syncverify.checker.prover.reach.ring.positions import Alignment, together
from syncverify.checker.prover.reach.ring.product import SymmetryBroken
from syncverify.checker.prover.reach.state.collectives import drop_converged
from syncverify.checker.prover.reach.state.symbolic_state import FAR, Place, StateView, SymbolicState
from syncverify.checker.prover.reach.tile_history import Groups, OrbitWeakening, forget_tile_history
from syncverify.checker.prover.reach.widening_strategy import (
    STATES_BEFORE_WIDENING,
    LoopEntries,
    ReachedState,
    RegisterChangeStatistics,
    RingLoopExtrapolation,
    knowledge_subsumes,
    with_same_accesses,
)
from syncverify.symbolic.context import UndecidedBranch
from syncverify.symbolic.inequalities import Sum, negated
from syncverify.symbolic.loop_havoc import ITERATION
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.protocol import MEMBER


@dataclass(frozen=True, slots=True)
class Point:
    """A state at an undecided branch as it is compared. ``knows``: None where knowledge is part of the key;
    ``earlier``: states with the key, in the order in which they were reached."""

    view: StateView
    key: Hashable
    knows: KnowledgeAbstraction | None
    earlier: list[ReachedState]


@dataclass(slots=True, kw_only=True)
class NodeProcessing(RingDetection):
    """States at open questions, the graph of what became of them, and those that are left to follow."""

    policy: Policy
    last_node_with_new_key: int = 0  # the last node whose key was a new one
    may_weaken: bool = True  # states may be weakened
    exact_prefix: int = 0  # but not the first ones
    forgets_tile_history: bool = (
        True  # where iterations are distributed round-robin, traces of where tiles began are forgotten
    )
    # what slots of the ring were made to miss of it
    orbit_weakenings: set[OrbitWeakening] = field(default_factory=set)
    used_knowledge_order: bool = False  # some were compared by what they know
    non_monotone_failure_seen: bool = False  # failures that less knowledge may make strict-only
    loop_entries: LoopEntries = field(default_factory=LoopEntries)
    ring_loops: RingLoopExtrapolation = field(default_factory=RingLoopExtrapolation)
    worklist_bytes: int = 0  # bytes of the states that are left to follow, roughly
    register_requests_seen: int = 0  # for registers, before states are compared by what they know
    # decisions after which a ring is not followed any more, if one failure was found
    node_limit_after_refutation: int = 0
    split_nodes: dict[int, ReachedState] = field(default_factory=dict)  # the same by number
    loop_statistics: RegisterChangeStatistics = field(init=False)
    knowledge_order_enabled: bool = False
    forms_by_location: dict[Hashable, set[Hashable]] = field(default_factory=dict)  # forms at one point
    worklist: list[tuple[bool, int, int, SymbolicState]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def is_converging(self) -> bool:
        """Whether nothing in the last third was at a new point."""
        return 3 * self.last_node_with_new_key < 2 * len(self.graph.nodes)

    @property
    def groups(self) -> Groups:
        """Barriers of the ring that tiles begin anywhere in, where iterations are distributed round-robin."""
        round_robin = self.space.round_robin
        return (
            round_robin.groups
            if self.forgets_tile_history and self.space.has_round_robin and round_robin is not None
            else ()
        )

    @property
    def slots(self) -> Groups:
        """Barriers of the ring that states are followed round."""
        return () if self.ring is None else self.ring.offsets

    @property
    def limit_factor(self) -> int:
        """How many times as much as otherwise may be spent where iterations are distributed round-robin."""
        if self.space.has_prefix_sums:
            return at_most.PREFIX_SUM_NODES_FACTOR
        return at_most.ROUND_ROBIN_NODES_FACTOR if self.space.has_round_robin else 1

    def over_limit(self, spent: int, most: int) -> bool:
        """Whether a limit is reached; it is stretched while few states are left."""
        if spent <= most:
            return False
        return not self.limits.allows(
            spent / most, len(self.worklist), len(self.graph.nodes), self.worklist_ratio
        )

    @property
    def worklist_ratio(self) -> int:
        """For how many decisions a state may be left to follow."""
        return at_most.FEW_LEFT if self.ring is None else at_most.HALF

    def diverges(self, most: int) -> bool:
        """Whether states do not repeat round a ring within so many decisions, or several times as many while
        few are left to follow."""
        nodes = len(self.graph.nodes)
        longer = at_most.worklist_is_small(len(self.worklist), nodes, self.worklist_ratio)
        return nodes > most * (min(at_most.LONGER, self.limits.extension_factor) if longer else 1)

    def enqueue(self, state: SymbolicState) -> None:
        """Keeps a state for later; weakened ones come first, for they represent others,
        and then those of the smallest sizes."""
        self.space.path = state.path
        total: Any = 0
        for value in state.path.sizes.values():
            total = total + value
        least = self.space.bounds(total)[0]
        state.estimate_bytes()
        self.worklist_bytes += state.weight
        if self.worklist_bytes > self.limits.bytes:
            raise BudgetExceeded(f"the states that are left to follow exceed {self.limits.bytes >> 20} MiB")
        if least is None:
            least = -(1 << 62)
        number = next(self._numbers)
        # round a ring the newest comes first: the state that all laps come to represents those before it
        order = -number if self.uses_symmetry or self.seeks else least
        heappush(self.worklist, (not state.was_weakened, order, number, state))

    def process(self, state: SymbolicState, t: LaneClass, o: UndecidedBranch) -> bool:
        """At an undecided branch: extrapolate, stop, merge or split.

        True if the state was widened and is to ask again; False if its node is complete: covered, or split
        into both branches.
        """
        groups.commit_pending_reads(state.run)
        self.check_limits(state)
        if self.stands_still(state):
            # a further question at the same point: nothing is repeated yet that could be covered
            self.split(state, self.branching_node(state, t, o), o)
            return False
        point = self.point_of(state)
        partner = self.extrapolate(state, point, t, o)
        if partner is not None and not point.earlier:
            self.widen(state, point.view, partner, None, ahead=True)
            return True
        if self.seeks and self.space.havocs and not self.space.has_round_robin:
            self.seek(state.run)  # of given sizes few states may be left
        there = None if state.widened else self.sequential_orbit_visit(point.view, point.earlier)
        if there is None or there.view.at.main == point.view.at.main:
            candidates = self.aligned_states(point.earlier, point.view)
            self.count_refuting_states(point.earlier, candidates, point.view)
            if self.stop(state, point, candidates):
                return False
            if self.weaken_to_earlier(state, point.view, candidates, point.knows):
                return True
            if self.merge(state, point, candidates, there):
                return True
        self.split(state, self.add_to_reached(state, point.view, point.key, t, o, point.knows), o)
        return False

    def check_limits(self, state: SymbolicState) -> None:
        """Raises what ends, or restarts, an exploration that has become too large."""
        nodes = len(self.graph.nodes)
        members = state.run.info.modular_cluster is not None
        if self.ring is None:
            most = self.limits.max_nodes * self.limit_factor
            if self.over_limit(nodes, most):
                raise BudgetExceeded(f"states do not repeat within {most} decisions")
            longer = 3 if self.is_converging or self.space.has_prefix_sums else 1
            if self.used_knowledge_order and nodes > at_most.MOST_WEAKENED_NODES * longer:
                raise Unweaken
            if self.soon:
                self.look_soon(state.run)
            return
        if 0 < self.node_limit_after_refutation < nodes:
            text = f"states do not repeat within {self.node_limit_after_refutation} decisions"
            raise BudgetExceeded(text)
        if self.diverges(at_most.ring_node_limit(self.ring.size, members)):
            raise SymmetryBroken("states do not repeat round the ring either")

    def stands_still(self, state: SymbolicState) -> bool:
        """Whether agents have not moved since the last branch, or those of a ring are out of step."""
        progress = state.progress()
        if state.rotations is not None and state.rotations.out_of_step:
            state.rotations.count_out_of_step()
            return True
        if progress == state.progress_at_last_branch and not state.widened:
            return True
        state.progress_at_last_branch = progress
        return False

    def branching_node(self, state: SymbolicState, t: LaneClass, o: UndecidedBranch) -> Node:
        """A node at which nothing is compared."""
        return self.graph.add(
            state.parent,
            NodeStatus.SPLIT,
            branch_taken=state.answer,
            branching_class=t.cls,
            branch_condition=(o.c, o.parts),
        )

    def point_of(self, state: SymbolicState) -> Point:
        """The canonical state, what it knows, and the states with its key that were reached before."""
        state.flush()
        state.drop_dead_symbols(self.space.havocked if self.space.havocs else set())
        state.begin_at_next()
        forget_waits(state.run)
        drop_converged(state.run)
        knows = self.knowledge_of(state)
        form = None if knows is None else knows.key
        view = state.view(form)
        state.path.eliminate({a for _, parts in view.rows.values() for a, _ in parts})
        if state.path.registers_outdated:
            state.flush()
            view = state.view(form)
        key = view.key
        if self.ring is not None:
            self.kinds.observe(view.rows, view.at)
            phases = state.phases_outside_ring(self.ring)
            self.kinds.visit(state.location()[0], phases, key, view.at.main, view.rows)
        earlier = self._seen.setdefault(key, [])
        if earlier:  # equal keys are kept once
            view, key = replace(view, form=earlier[0].view.form), earlier[0].node.key
        if knows is None:
            self.forms_by_location.setdefault(state.location(), set()).add(key)
        else:
            self.used_knowledge_order = True
        return Point(view, key, knows, earlier)

    def knowledge_of(self, state: SymbolicState) -> KnowledgeAbstraction | None:
        """What agents know, where states are compared by that; None where it is part of the key."""
        crowded = self.enable_knowledge_order(state)
        if crowded and self.groups and supports_knowledge_order(state.run):
            coarsen(state.run, self.policy)
            forget_tile_history(state.run, self.groups, self.orbit_weakenings)
        knows = abstract_knowledge(state.run) if crowded else None
        if knows is not None:
            coarsen(state.run, self.policy)
        return knows

    def extrapolate(
        self, state: SymbolicState, point: Point, t: LaneClass, o: UndecidedBranch
    ) -> ReachedState | None:
        """What the loop that is gone through comes to next, where the steps before foretell it."""
        if self.space.has_prefix_sums:
            return self.extrapolate_ring_loop(state, point.view, point.key, t, o)
        return None

    def stop(
        self, state: SymbolicState, point: Point, candidates: list[tuple[ReachedState, Alignment]]
    ) -> bool:
        """Whether an earlier state covers this one: it subsumes the registers, and what fails from here on
        fails from there too."""
        rows = list(point.view.rows.values())
        for seen, both in reversed(candidates[-at_most.MOST_COMPARED :]):
            if (
                both.covers
                and knowledge_subsumes(seen, state.run.options.weak_completion_knowledge, point.knows)
                and is_subset(self.space, list(both.rows.values()), seen.path, rows, state.path)
            ):
                self.repeats = self.loop_entries.over = True
                number = seen.node.number
                self.graph.add(
                    state.parent,
                    NodeStatus.COVERED,
                    branch_taken=state.answer,
                    target=number,
                    valuation=tuple(rows),
                    less=-1 if point.knows is None else number,
                )
                return True
        return False

    def merge(
        self,
        state: SymbolicState,
        point: Point,
        candidates: list[tuple[ReachedState, Alignment]],
        there: ReachedState | None,
    ) -> bool:
        """Widens the state with an earlier one, if there is one to widen it with.

        ``there``: the state that was met at this place of the ring before, if places are visited one by one.
        """
        view, knows = point.view, point.knows
        same = [seen for seen, _ in candidates]
        partner: ReachedState | None
        if there is not None and same:
            partner = self.close_orbit(there, view, point.earlier, same)
        else:
            partner = None if state.widened else self.widening_partner(state, view, candidates, knows)
        since = 0 if partner is None else partner.widenings + 1
        if partner is not None and not self.already_subsumes(state, list(view.rows.values()), partner):
            self.widen(state, view, partner, None if knows is None else with_same_accesses(same, knows)[-1])
            return True
        if knows is not None and same and not state.widened:
            last = with_same_accesses(same, knows)[-1]
            if last.known is not None and not knows.simulates(last.known):
                # what is known is made less at once, registers stay what they are
                own = replace(last, view=view, path=state.path, widenings=max(since - 1, 0))
                self.widen(state, view, own, last)
                return True
        state.widened = state.widened or since
        return False

    def extrapolate_ring_loop(
        self, state: SymbolicState, view: StateView, key: Hashable, t: LaneClass, o: UndecidedBranch
    ) -> ReachedState | None:
        """Takes note of a step round a loop; where it is seen to be one of the first lap, what the next one
        comes to."""
        before, round_robin = (
            self.split_nodes.get(state.parent) if state.answer else None,
            self.space.round_robin,
        )
        if before is None or before.node.branching_class != t.cls or round_robin is None:
            return None
        self.ring_loops.record_step(before, key, view)
        if state.widened or before.widenings or not before.node.branch_taken:
            return None
        first = self.split_nodes.get(before.node.parent)
        return self.ring_loops.extrapolate_lap(first, before, view, state.path, o, 2 * round_robin.slots)

    def already_subsumes(self, state: SymbolicState, rows: list[Sum], like: ReachedState) -> bool:
        """Whether a state represents all registers of an earlier one already, which was not widened often."""
        if not self.space.has_round_robin:
            return False
        often = at_most.OFTEN_WIDENED * (at_most.PREFIX_SUM_NODES_FACTOR if self.space.has_prefix_sums else 1)
        if like.widenings > often or like.known is None or state.rotations is not None:
            return False
        return is_subset(self.space, rows, state.path, list(like.view.rows.values()), like.path)

    def weaken_to_earlier(
        self,
        state: SymbolicState,
        view: StateView,
        candidates: list[tuple[ReachedState, Alignment]],
        knows: KnowledgeAbstraction | None,
    ) -> bool:
        """Weakens a state whose registers an earlier one subsumes, so that it knows no more than those
        before; whether it was such a state."""
        if not candidates or knows is None or state.widened or not self.space.has_round_robin:
            return False
        seen, both = candidates[-1]
        rows = list(view.rows.values())
        if not (both.covers and is_subset(self.space, list(both.rows.values()), seen.path, rows, state.path)):
            return False
        less = with_same_accesses([seen for seen, _ in candidates], knows)[-1]
        if less.known is None or knows.simulates(less.known):
            return False
        node = self.graph.add(
            state.parent,
            NodeStatus.WIDENED,
            branch_taken=state.answer,
            target=seen.node.number,
            valuation=tuple(both.rows.values()),
            less=less.node.number,
        )
        self.orbit_weakenings |= weaken(state.run, less.known, self.groups, self.slots)
        state.cached_canonical_state, state.was_weakened = None, True
        state.put(both.rows, seen.path.fork(), replace(seen.view, rows=both.rows, at=both.places))
        state.flush()
        state.parent, state.answer = node.number, None
        state.widened = max(seen.widenings, 1)
        return True

    def covered_by_later(self, state: SymbolicState) -> bool:
        """Whether an answer needs not be followed, for a later node represents all of the one that asked."""
        asked = (
            self.split_nodes.get(state.parent) if self.uses_symmetry and state.answer is not None else None
        )
        for seen in reversed(self._seen[asked.node.key]) if asked is not None else ():
            if asked is None or seen is asked:
                return False
            if self.subsumes(seen, asked):
                number = seen.node.number
                self.graph.add(
                    state.parent, NodeStatus.COVERED, branch_taken=state.answer, target=number, less=number
                )
                return True
        return False

    def subsumes(self, seen: ReachedState, for_: ReachedState) -> bool:
        """Whether a node represents all of another one with its key."""
        view, known = for_.view, for_.known
        both = together(seen.view.rows, seen.view.at, view.rows, view.at, self.kinds)
        if both is None or not both.covers or not knowledge_subsumes(seen, for_.weakened, known):
            return False
        rows = list(view.rows.values())
        return is_subset(self.space, list(both.rows.values()), seen.path, rows, for_.path)

    def note_unbounded_registers(
        self, earlier: StateView, view: StateView, became: dict[Place, Sum], path: PathCondition
    ) -> None:
        """Takes note of registers that grow for ever."""
        before, self.space.path = self.space.path, path
        for where, row in view.rows.items():
            if where[0] == "register" and row != earlier.rows[where]:
                low, high = self.space.bounds(self.space.term(*became[where]))
                if low is None or high is None or high - low >= FAR:
                    self.kinds.monotone_registers.add((where[1], where[2]))
        self.space.path = before

    def enable_knowledge_order(self, state: SymbolicState) -> bool:
        """Whether many states at some point differ, perhaps only in what is known."""
        most = at_most.FEW_FORMS if self.limits.branch_when_nobody_else_can_run else at_most.MOST_FORMS
        most = -1 if self.space.has_round_robin else most
        if len(state.run.requests) < self.register_requests_seen:
            return False
        self.knowledge_order_enabled = (
            self.knowledge_order_enabled or len(self.forms_by_location.get(state.location(), ())) > most
        )
        return (
            self.knowledge_order_enabled
            and self.may_weaken
            and not self.non_monotone_failure_seen
            and len(self.graph.nodes) >= self.exact_prefix
        )

    def widening_partner(
        self,
        state: SymbolicState,
        view: StateView,
        candidates: list[tuple[ReachedState, Alignment]],
        knows: KnowledgeAbstraction | None,
    ) -> ReachedState | None:
        """The earlier node that a state is widened with: the last one where the sizes are the same sums and
        that it comes from; what answers to other questions distinguish is mixed only where it is much."""
        earlier = [seen for seen, _ in candidates]
        if not earlier or len(earlier) <= self.limits.widening_delay:
            return None
        same = [seen for seen in earlier if seen.view.sizes == view.sizes]
        if same and same[0].known is not None:
            rows = {id(seen): both.rows for seen, both in candidates}  # at the place of this one
            there = with_same_accesses(same, knows)
            last = there[-1]
            if len(there) >= STATES_BEFORE_WIDENING or self.space.has_prefix_sums:
                return last
            mixes = self.loop_statistics.mixes_loops(view, last, rows[id(last)], self.graph, state.parent)
            return None if mixes else last
        before = self.ancestors(state, same) or same[at_most.MOST_SIBLINGS :]
        if (
            not before
            and len({seen.view.sizes for seen in earlier}) >= self.limits.size_shapes_before_widening
        ):
            before = self.ancestors(state, earlier) or earlier
        return before[-1] if before else None

    def ancestors(self, state: SymbolicState, earlier: list[ReachedState]) -> list[ReachedState]:
        """The nodes among some that the state comes from, oldest first."""
        above = self.graph.ancestors_of(state.parent)
        return [seen for seen in earlier if seen.node.number in above]

    def split(self, state: SymbolicState, node: Node, o: UndecidedBranch) -> None:
        """Follows both answers."""
        other = state.fork()
        both = [(state, True, o.c, o.parts), (other, False, -o.c - 1, negated(o.parts))]
        if (self.uses_symmetry or self.seeks) and self.preferred_branch(node, o):
            both.reverse()  # the last one is followed first
        for one, answer, c, parts in both:
            one.parent, one.answer, one.widened = node.number, answer, 0
            self.space.path = one.path
            one.path.assume_branch(c, parts)
            if not one.path.dead:
                one.flush()
                self.enqueue(one)

    def preferred_branch(self, node: Node, o: UndecidedBranch) -> bool:
        """Which answer to follow first: that of larger sizes, or that goes on in the loop."""
        of_sizes = sum(k for a, k in o.parts if not self.space.symbols[a].widened)
        if of_sizes:
            return of_sizes > 0
        return not (self.space.has_prefix_sums and self.loop_entries.enters_loop(self.graph, node))

    def add_to_reached(
        self,
        state: SymbolicState,
        view: StateView,
        key: Hashable,
        t: LaneClass,
        o: UndecidedBranch,
        knows: KnowledgeAbstraction | None = None,
    ) -> Node:
        rows = tuple(view.rows.values())
        path = state.path.fork()
        node = self.graph.add(
            state.parent,
            NodeStatus.SPLIT,
            key,
            branch_taken=state.answer,
            branching_class=t.cls,
            branch_condition=(o.c, o.parts),
            valuation=rows,
            path=path,
        )
        if not self._seen[key]:
            self.last_node_with_new_key = node.number
        self.loop_statistics.seen(state.parent, node.number, view)
        seen = ReachedState(
            node, view, path, state.widened, knows, state.run.options.weak_completion_knowledge
        )
        self._seen[key].append(seen)
        self.split_nodes[node.number] = seen
        return node

    def widen(
        self,
        state: SymbolicState,
        view: StateView,
        seen: ReachedState,
        less: ReachedState | None,
        ahead: bool = False,
    ) -> None:
        """Replaces the state by one that subsumes it and an earlier one, and which knows no more than
        ``less`` but for what is known with other things only. ``ahead``: it is a later one."""
        self.repeats = True
        both = together(seen.view.rows, seen.view.at, view.rows, view.at, self.kinds)
        assert both is not None
        if not both.overlap:
            both = self.kinds.generalise(both, view.rows, state.location()[0])
        seen = replace(seen, view=replace(seen.view, rows=both.rows, at=both.places))
        places = list(view.rows)
        also = [] if ahead else self.ring_loops.translates(seen.node.key, view, self._seen)
        sides = [(seen.view, seen.path), (view, state.path)]
        (first, path), (second, there) = reversed(sides) if ahead else sides
        w = AffineWidening(
            self.space,
            [first.rows[p] for p in places],
            path,
            [second.rows[p] for p in places],
            there,
            ends=seen.widenings >= self.limits.widenings_that_keep_new_constraints,
            fixed={a for _, (_, parts) in set(view.sizes) & set(seen.view.sizes) for a, _ in parts},
            numbers=self.widening_thresholds(view),
            shifted=len(both.places.all) > 1,
            counts=self.iteration_counter_rows(state, places),
            totals={i for i, p in enumerate(places) if p[0] == "value" and p[1][0] != ITERATION},
            least=max((-c for _, k, c in self.space.presplit if k == 1), default=0)
            if self.space.has_prefix_sums
            else 0,
            also=also,
            ring=self.space.round_robin.slots
            if self.space.has_prefix_sums and self.space.round_robin is not None
            else 0,
        )
        became = dict(zip(places, w.result, strict=True))
        self.note_unbounded_registers(seen.view, view, became, w.path)
        found = tuple((a, w.values[0 if ahead else 1][a]) for a in w.atoms)
        node = self.graph.add(
            state.parent,
            NodeStatus.WIDENED,
            branch_taken=state.answer,
            target=seen.node.number,
            valuation=tuple(w.result),
            substitution=found,
            constraints=tuple(w.facts),
            less=-1 if less is None else less.node.number,
        )
        if less is not None and less.known is not None:
            self.orbit_weakenings |= weaken(state.run, less.known, self.groups, self.slots)
            state.cached_canonical_state, state.was_weakened = None, True
        state.put(became, w.path, seen.view)
        self.look_for_ring(state.run)
        state.flush()
        state.parent, state.answer = node.number, None
        state.widened = seen.widenings + 1

    def widening_thresholds(self, view: StateView) -> list[int]:
        """Sizes that are numbers, which counters may stay below; none where each tile goes to its end
        without a question, so that all that counts on counts tiles."""
        if self.space.presplit:
            return []
        sizes = (row for name, row in view.sizes if name != MEMBER)
        return sorted({c for c, parts in sizes if not parts and c > 1})

    def iteration_counter_rows(self, state: SymbolicState, places: list[Place]) -> set[int]:
        """Which rows count turns."""
        counts = {
            ("register", t.cls, slot)
            for t in state.run.threads
            if not t.done
            for slot in state.agent(t).iteration_counters
        }
        return {i for i, place in enumerate(places) if place in counts}


__all__ = ["NodeProcessing"]
