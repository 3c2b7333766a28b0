"""All runs of a system whose sizes have no number, as an abstract reachability graph: ``docs/symbolic.md``.

The canonical run is followed until an agent comes to a branch that the path condition does not decide. There
the state is compared with earlier ones. If it is an instance of one, it is covered. If only register values
differ, it is widened to a state that subsumes both. Otherwise both branches are followed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from heapq import heappop
from typing import Any, cast

from syncverify.base.deadline import check as check_time
from syncverify.base.diagnostics import Diagnostic, Policy, Severity
from syncverify.base.reason import reason_of
from syncverify.checker.explain.root_causes import diagnostic, distinct, warnings
from syncverify.checker.happens_before.dispatch import HANDLERS
from syncverify.checker.happens_before.end_of_run import check_end
from syncverify.checker.happens_before.failure import Failure
from syncverify.checker.happens_before.flag_state import flags_are_restored
from syncverify.checker.happens_before.handlers.phases import complete_async
from syncverify.checker.happens_before.handlers.waits import classify
from syncverify.checker.happens_before.run import YIELD, LaneClass, Livelock, Run, RunOptions, TooManyEvents
from syncverify.checker.happens_before.vector_clocks import Columns
from syncverify.checker.prover.budget import PREFIX_SUM_NODES_FACTOR, BudgetExceeded, ExplorationBudget
from syncverify.checker.prover.modular.compose import ClusterSummary
from syncverify.checker.prover.reach.graph import NodeStatus
from syncverify.checker.prover.reach.knowledge_order import (
    always_a_warning,
    independent_of_knowledge,
    is_non_monotone_event,
    is_strict_only_pair,
)
from syncverify.checker.prover.reach.refinement import (
    OrderRegisterRequests,
    RegistersNotPeriodic,
    Unweaken,
    UseRing,
)
from syncverify.checker.prover.reach.ring.positions import monotone_registers_of
from syncverify.checker.prover.reach.ring.product import OrbitSplits, RotatedAgents, SymmetryBroken
from syncverify.checker.prover.reach.state import deferred_failures
from syncverify.checker.prover.reach.state.cluster_effects import summarise
from syncverify.checker.prover.reach.state.phase_tokens import check_token_use, record_token
from syncverify.checker.prover.reach.state.symbolic_state import SymbolicState
from syncverify.checker.prover.reach.widening_strategy import RegisterChangeStatistics
from syncverify.checker.prover.reach.worklist import NodeProcessing
from syncverify.model.events import AssumedUnreachable, Ev, Event, Trap
from syncverify.symbolic.context import (
    NeedsDecision,
    NotConcrete,
    SymbolSplit,
    UndecidedBranch,
)
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.protocol import SymbolicSystem

POLLS = frozenset({Ev.POLL, Ev.POLL_TOKEN})
#: Decisions after which a warning that no state which knows all has met yet is left to explorations without
#: others.
EXACT_NODES_BEFORE_WEAKENING = 40

#: Ends of runs of which what is known of the sizes is kept.
KEPT_TERMINAL_PATHS = 3
#: Decisions after which what may fail is tried, where all was restarted: most proofs end sooner.
REPORT_CANDIDATE_AFTER_NODES = 150


class SymmetryAbandoned(NotConcrete):
    """Round its ring a system is not explored: it is to be explored without."""


@dataclass(frozen=True, slots=True)
class AbstractCounterexample:
    """A failing run: what is known of the sizes there, and why. Not ``certain``: a state that represents it
    fails, which knows less or is at other places of a ring."""

    path: PathCondition
    reason: str
    concrete: bool = True


class Fetched(Enum):
    """What came of asking a class for its next event."""

    EVENT = auto()
    EVENT_BEHIND = auto()  # the class has jumped back in its code
    AGAIN = auto()  # the state has changed: the class is asked again
    OTHERS_FIRST = auto()  # its branch is undecided, and others go on before it is decided
    NODE_COMPLETE = auto()  # the state is covered, or both branches are followed


@dataclass(slots=True, kw_only=True)
class ReachabilityAnalysis(NodeProcessing):
    """One system, for all sizes that ``roots`` allow."""

    system: SymbolicSystem
    roots: list[PathCondition]
    extra_clock_columns: int = 64  # columns of clocks beyond the usual
    warnings: dict[tuple[object, ...], Diagnostic] = field(default_factory=dict)
    events: int = 0
    took_long: bool = False
    terminal_paths: list[PathCondition] = field(
        default_factory=list
    )  # what is known of the sizes where the first runs end
    # by line, the assertions taken not to fail
    assumed_assertions: dict[int, str] = field(default_factory=dict)
    leaves_flags_zero: bool = True  # flags in global memory are left as they were found
    # the first run that may fail: all was restarted there
    first_candidate: AbstractCounterexample | None = None
    candidate_reported: bool = False  # it was told
    cluster_summaries: list[tuple[ClusterSummary, PathCondition]] = field(
        default_factory=list
    )  # of a cluster of a block group
    # failures of states that know all
    failures_of_exact_states: set[tuple[object, ...]] = field(default_factory=set)
    _columns: Columns | None = None

    def run(self) -> Iterator[AbstractCounterexample | None]:
        """Explores all; yields what fails, once what may fail if it takes many decisions after all was begun
        again, and None once if it takes long.

        Raises NotConcrete, LaneSplit, ColumnsExhausted, Unmodelled.
        """
        before = set(self.space.havocked)
        while True:
            try:
                yield from self._fixpoint()
                return
            except NotConcrete as e:
                if self.uses_symmetry:
                    raise SymmetryAbandoned(reason_of(e)) from None
                raise
            except (Unweaken, OrderRegisterRequests, SymmetryBroken, UseRing, RegistersNotPeriodic) as e:
                self.space.havocked = set(before)  # sizes are forgotten from where they are read again
                self.used_knowledge_order = self.knowledge_order_enabled = False
                match e:
                    case UseRing():
                        self.kinds.monotone_registers |= monotone_registers_of(
                            self._seen.values(), e.ring.places
                        )
                        self.ring, self.seeks_ring, self.kinds.size = e.ring, False, e.ring.size
                    case Unweaken() if self.groups and not e.warns:
                        self.forgets_tile_history = False
                    case Unweaken():
                        # states that know all may meet it first
                        self.may_weaken = (
                            e.warns
                            and self.uses_symmetry
                            and len(self.graph.nodes) < EXACT_NODES_BEFORE_WEAKENING
                        )
                        self.exact_prefix = 2 * len(self.graph.nodes) + 2
                    case RegistersNotPeriodic():
                        self.round = True
                    case OrderRegisterRequests():
                        self.register_requests_seen = e.number
                    case SymmetryBroken():
                        if not self.kinds.refine(e):
                            raise SymmetryAbandoned(reason_of(e)) from None
                self.cluster_summaries.clear()
                self.assumed_assertions.clear()
                self.events = self.worklist_bytes = self.last_node_with_new_key = 0
                self.graph = replace(self.graph, nodes=[])
                self.loop_entries.begun = False
                self.ring_loops.steps.clear()
                for kept in (
                    self.warnings,
                    self._seen,
                    self.split_nodes,
                    self.worklist,
                    self.forms_by_location,
                ):
                    kept.clear()

    def _fixpoint(self) -> Iterator[AbstractCounterexample | None]:
        if not self.graph.nodes and not self.worklist:
            self.loop_statistics = RegisterChangeStatistics(self.space)
            for path in self.roots:
                self.enqueue(self.initial_state(path))
        while self.worklist:
            *_, state = heappop(self.worklist)
            self.worklist_bytes -= state.weight
            if self.covered_by_later(state):
                continue
            state.traced = len(state.run.trace)
            found = self.successors_of(state)
            self.events += len(state.run.trace) - state.traced
            self.charge_budget(0)
            if (
                self.first_candidate is not None
                and not self.candidate_reported
                and len(self.graph.nodes) >= REPORT_CANDIDATE_AFTER_NODES
            ):
                self.candidate_reported = True
                yield self.first_candidate
            if self.events > self.limits.try_small_sizes_after_events and not self.took_long:
                self.took_long = True
                yield None
            if found is not None:
                self.graph.add(state.parent, NodeStatus.ERROR)
                yield found

    def charge_budget(self, more: int) -> None:
        """Raises BudgetExceeded where the events, with ``more`` of the run that is followed, are too many."""
        round_robin = self.space.round_robin
        times = PREFIX_SUM_NODES_FACTOR if round_robin is not None and round_robin.by_prefix_sum else 1
        check_time()
        if not self.repeats and self.events + more > times * self.limits.first_cover_within_events:
            raise BudgetExceeded(
                f"no state repeats within {times * self.limits.first_cover_within_events} events"
            )
        allowed = times * (self.limits.max_inequalities + self.events + more)
        if self.space.inequalities_compared > allowed:
            raise BudgetExceeded(f"questions about sizes compare more than {allowed} inequalities")
        most = times * self.limits.events
        if self.over_limit(self.events + more, most):
            raise BudgetExceeded(f"the runs exceed {most} events before their states repeat")

    @property
    def pending(self) -> bool:
        """Whether states are left to follow."""
        return bool(self.worklist)

    def initial_state(self, path: PathCondition) -> SymbolicState:
        if self._columns is None:
            classes = len(self.system.info.classes)
            self._columns = Columns(
                classes, len(self.system.info.barriers) + 9 * classes + self.extra_clock_columns
            )
        self.space.path = path = path.fork()
        options = RunOptions(merges_equivalent_accesses=True, refined_comparison=self.uses_symmetry)
        budget = self.limits.max_events_per_run
        run = Run(self.system, HANDLERS, complete_async, self._columns, budget, options)
        state = SymbolicState(
            run, path, deferred_since={} if self.limits.branch_when_nobody_else_can_run else None
        )
        state.rotations = None if self.ring is None else RotatedAgents(self.ring)
        self.graph.rotates = self.uses_symmetry
        for t in run.threads:
            self.kinds.rotation_invariant |= {
                (t.cls, slot) for slot in state.agent(t).rotation_invariant_registers
            }
        state.begin()
        return state

    # ------------------------------------------------------------ one run

    def successors_of(self, state: SymbolicState) -> AbstractCounterexample | None:
        """Runs a state until it fails, ends, is covered or branches."""
        self.space.path = state.path
        try:
            return self.transfer(state)
        except AssumedUnreachable:
            self.graph.add(
                state.parent,
                NodeStatus.ASSUMED_UNREACHABLE,
                branch_taken=state.answer,
                events=len(state.run.trace),
            )
            return None
        except Livelock as e:
            raise NotConcrete(reason_of(e)) from None
        except TooManyEvents:
            text = f"a run exceeds {self.limits.max_events_per_run} events before its states repeat"
            raise BudgetExceeded(text) from None

    def transfer(self, state: SymbolicState) -> AbstractCounterexample | None:
        """The abstract post: steps of the canonical run up to the next branch that is not decided."""
        run = state.run
        while run.ready:
            t = run.ready.popleft()
            while not t.done and not t.blocked and not self.lets_others_go_first(state, t):
                fetched = self.fetch_or_decide(state, t)
                if fetched is Fetched.NODE_COMPLETE:
                    return None
                if fetched is Fetched.OTHERS_FIRST:
                    break
                if fetched is Fetched.AGAIN:
                    continue
                others = len(run.ready)
                result = self.execute(state, t)
                failure = self.counterexample_of(state)
                if failure is not None:
                    return failure
                jumps_back = fetched is Fetched.EVENT_BEHIND and not t.done and not t.blocked
                if result == YIELD or jumps_back:
                    run.ready.append(t)
                    break
                if len(run.ready) > others:
                    # whoever came first: states at one point then differ less
                    again = [] if t.done or t.blocked else [t]
                    run.ready = deque(sorted([*run.ready, *again], key=lambda x: x.cls))
                    break
        return self.check_terminal_state(state)

    def lets_others_go_first(self, state: SymbolicState, t: LaneClass) -> bool:
        """Whether a class waits with its undecided branch until others have gone on."""
        if state.deferred_since and state.defer_to_others(t):
            return True
        if t.cls in state.deferred_classes and state.yields_next_iteration_question(t):
            state.run.ready.append(t)  # nothing is known that was not when it asked
            return True
        return False

    def fetch_or_decide(self, state: SymbolicState, t: LaneClass) -> Fetched:
        """The next event of a class; where that depends on what is not decided, what becomes of the state."""
        run = state.run
        try:
            behind = self.fetch(state, t) if t.event is None else False
            if t.event is not None and t.event[0] in POLLS:
                self.resolve_poll_use(state, t)
        except SymbolSplit as r:
            state.path.substitute(r.atom, r.c, r.parts)
            state.flush()
            state.deferred_classes.clear()
            return Fetched.AGAIN
        except UndecidedBranch as o:
            return self.decide(state, t, o)
        except OrbitSplits as p:
            run.ready.appendleft(t)
            for other in state.part(p.groups):
                self.enqueue(other)
            self.space.path = state.path
            run.ready.popleft()
            return Fetched.AGAIN
        return Fetched.EVENT_BEHIND if behind else Fetched.EVENT

    def decide(self, state: SymbolicState, t: LaneClass, o: UndecidedBranch) -> Fetched:
        """At an undecided branch of a class: others may go first; else the state is processed."""
        run = state.run
        self.space.record_branch(o.c, o.parts)
        hesitates = state.yields_next_iteration_question(t)
        if hesitates and t.event is None:
            state.deferred_classes.add(t.cls)
        if hesitates or (run.ready and state.defers_question_once(t)):
            run.ready.append(t)
            return Fetched.OTHERS_FIRST
        run.ready.appendleft(t)
        state.deferred_classes.clear()
        if not self.process(state, t, o):
            return Fetched.NODE_COMPLETE
        run.ready.popleft()
        return Fetched.AGAIN

    def execute(self, state: SymbolicState, t: LaneClass) -> int:
        """One step of the checker on the event of a class."""
        run, event = state.run, t.event
        if event is not None and is_non_monotone_event(run, event):
            self.asks_more(run, event)
        state.cached_canonical_state = None
        result = run.step(t)
        if event is not None and event[0] == Ev.ARRIVE:
            t.answer = record_token(run, event, t.answer)
        return result

    def counterexample_of(self, state: SymbolicState) -> AbstractCounterexample | None:
        """The failure of a step that counts, now or as one that was deferred."""
        run = state.run
        if len(run.failures) > state.failures_seen:
            self.classify_failures(state)
            state.failures_seen = len(run.failures)
            failures = [f for f in run.failures.values() if counts(f, self.policy)]
            failure = next((f for f in failures if not deferred_failures.is_deferred(f)), None)
            if failure is not None:
                return AbstractCounterexample(state.path, failure.message)
            state.deferred_failures = tuple(failures)
        for failure in state.deferred_failures:
            if deferred_failures.is_confirmed(run, failure):
                return AbstractCounterexample(state.path, failure.message)
        return None

    def classify_failures(self, state: SymbolicState) -> None:
        """Begins again where failures, warnings too, may be due to what a state was made to forget."""
        run, failures = state.run, state.run.failures
        self.non_monotone_failure_seen |= any(map(deferred_failures.is_deferred, failures.values()))
        practical = self.policy == Policy.PRACTICAL
        moved = state.rotations is not None and not state.rotations.plain
        if not (run.options.weak_completion_knowledge or moved):
            self.failures_of_exact_states |= failures.keys()
        new = (
            list(failures.items())[state.failures_seen :]
            if run.options.weak_completion_knowledge or moved
            else []
        )
        strict_only = (
            (k in self.failures_of_exact_states and is_strict_only_pair(run, f)) or always_a_warning(run, f)
            for k, f in new
        )
        warns = practical and all(is_strict_only_pair(run, f) or always_a_warning(run, f) for _, f in new)
        harmless = not new or (practical and all(strict_only))
        if not harmless and not warns:
            self.first_candidate = self.first_candidate or AbstractCounterexample(
                state.path.fork(), new[0][1].message, concrete=False
            )
        if moved and not (harmless and not any(map(deferred_failures.is_deferred, failures.values()))):
            raise SymmetryBroken("a failure")
        if not harmless or (self.used_knowledge_order and self.non_monotone_failure_seen):
            raise Unweaken(warns and not self.non_monotone_failure_seen)

    def non_spurious_failures(self, run: Run) -> list[Failure]:
        """Failures that are not met only because a state was made to forget."""
        weakened = run.options.weak_completion_knowledge
        return [
            f
            for key, f in run.failures.items()
            if not weakened or key in self.failures_of_exact_states or independent_of_knowledge(f)
        ]

    def refine_for_inval(self) -> None:
        """Begins again where the last uses of a barrier matter: states were compared without them."""
        self.non_monotone_failure_seen = True
        if self.used_knowledge_order:
            raise Unweaken

    def asks_more(self, run: Run, event: Event) -> None:
        """Begins again where an event asks what states were compared without."""
        if event[0] == Ev.SETMAXNREG:
            raise (
                SymmetryBroken("a request for registers")
                if self.ring is not None
                else OrderRegisterRequests(run)
            )
        self.refine_for_inval()

    def fetch(self, state: SymbolicState, t: LaneClass) -> bool:
        """The next event of an agent; whether it jumped back in its code."""
        agent = cast(Any, t.agent)
        place = state.places.setdefault(t.cls, agent.place())
        event = state.step(t)
        state.advanced(t)
        state.cached_canonical_state = None
        t.event, t.answer = event, 0
        t.time += 1
        t.clock.advance(t.cls, t.time)
        if isinstance(event[2:] and event[2], Trap):
            self.assumed_assertions.setdefault(self.system.info.sites[event[1]].span.line, event[2])
            raise AssumedUnreachable
        if event[0] == Ev.UNKNOWN:
            raise NotConcrete(event[2])
        state.run.watch(t, event)
        self.charge_budget(len(state.run.trace) - state.traced)
        check_token_use(state.run, event)
        return bool(agent.place() < place)

    def resolve_poll_use(self, state: SymbolicState, t: LaneClass) -> None:
        """Whatever a poll's meaning depends on is asked before the poll is judged."""
        assert t.event is not None
        t.meant = classify(t, t.event)
        if state.rotations is not None:
            state.rotations.check_polls_agree(state.run, t)

    def check_terminal_state(self, state: SymbolicState) -> AbstractCounterexample | None:
        """What only the end shows."""
        run = state.run
        if run.hung:
            if state.rotations is not None and not state.rotations.plain:
                self.first_candidate = self.first_candidate or AbstractCounterexample(
                    state.path.fork(), "the run hangs", concrete=False
                )
                raise SymmetryBroken("a hang")
            return AbstractCounterexample(state.path, "the run hangs")
        check_end(run)
        if len(run.failures) > state.failures_seen:
            self.classify_failures(state)
        self.leaves_flags_zero &= flags_are_restored(run)
        judged = deferred_failures.confirmed_at_end(run, run.failures.values())
        failure = next((f for f in judged if counts(f, self.policy)), None)
        if failure is not None:
            return AbstractCounterexample(state.path, failure.message)
        for f in distinct(
            warnings(deferred_failures.confirmed_at_end(run, self.non_spurious_failures(run)), False)
        ):
            d = diagnostic(run, f)
            self.warnings.setdefault((d.rule, d.span, d.contested), d)
        self.ended = True
        self.terminal_paths = [*self.terminal_paths, state.path][:KEPT_TERMINAL_PATHS]
        self.graph.add(state.parent, NodeStatus.TERMINAL, branch_taken=state.answer, events=len(run.trace))
        if run.info.modular_cluster:
            self.cluster_summaries.append((summarise(run), state.path.fork()))
        return None


def counts(f: Failure, policy: Policy) -> bool:
    """Whether a failure counts against the kernel."""
    return f.severity == Severity.ERROR or (policy == Policy.STRICT and f.strict_only)


__all__ = [
    "AbstractCounterexample",
    "BudgetExceeded",
    "ExplorationBudget",
    "NeedsDecision",
    "ReachabilityAnalysis",
    "SymmetryAbandoned",
    "counts",
]
