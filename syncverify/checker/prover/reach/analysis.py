"""All runs of a system whose sizes have no number, as a graph of decisions. See ``docs/symbolic.md``.

The canonical run is followed until an agent asks something that the path leaves open. There the state is
compared with earlier ones: if its values are among theirs, it is settled; else, if only register values
differ, it is widened to a state that stands for both; else both answers are followed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop
from types import SimpleNamespace
from typing import Any, cast

from syncverify.base.deadline import check as check_time
from syncverify.base.diagnostics import Diagnostic, Policy, Severity
from syncverify.base.reason import reason_of
from syncverify.checker.explain.counterexample import fresh
from syncverify.checker.explain.root_causes import diagnostic, distinct, warnings
from syncverify.checker.happens_before.end_of_run import check_end
from syncverify.checker.happens_before.failure import Failure
from syncverify.checker.happens_before.flag_state import flags_are_restored
from syncverify.checker.happens_before.handlers.waits import classify
from syncverify.checker.happens_before.run import YIELD, LaneClass, Livelock, Run, TooManyEvents
from syncverify.checker.happens_before.vector_clocks import Columns
from syncverify.checker.outcome import Budget
from syncverify.checker.prover.budget import OF_SUMS, BudgetExceeded, ExplorationBudget
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
    SymbolicContext,
    SymbolSplit,
    UndecidedBranch,
)
from syncverify.symbolic.inequalities import negated
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
    """A failing run: what is known of the sizes there, and why. Not ``certain``: a state that stands for it
    fails, which knows less or is at other places of a ring."""

    path: PathCondition
    reason: str
    certain: bool = True


@dataclass(slots=True, kw_only=True)
class ReachabilityAnalysis(NodeProcessing):
    """One system, for all sizes that ``roots`` allow."""

    system: SymbolicSystem
    roots: list[PathCondition]
    slack: int = 64  # columns of clocks beyond the usual
    notes: dict[tuple[object, ...], Diagnostic] = field(default_factory=dict)
    events: int = 0
    took_long: bool = False
    ends: list[PathCondition] = field(
        default_factory=list
    )  # what is known of the sizes where the first runs end
    stopped: dict[int, str] = field(default_factory=dict)  # by line, the assertions taken not to fail
    restores: bool = True  # flags in global memory are left as they were found
    suspect: AbstractCounterexample | None = None  # the first run that may fail: all was restarted there
    tried: bool = False  # it was told
    accounts: list[tuple[ClusterSummary, PathCondition]] = field(
        default_factory=list
    )  # of a cluster of a block group
    _sure: set[tuple[object, ...]] = field(default_factory=set)  # failures of states that know all
    _columns: Columns | None = None

    def failures(self) -> Iterator[AbstractCounterexample | None]:
        """Explores all; yields what fails, once what may fail if it takes many decisions after all was begun
        again, and None once if it takes long.

        Raises NotConcrete, LaneSplit, ColumnsExhausted, Unmodelled.
        """
        before = set(self.space.forgotten)
        while True:
            try:
                yield from self._explored()
                return
            except NotConcrete as e:
                if self.goes_round:
                    raise SymmetryAbandoned(reason_of(e)) from None
                raise
            except (Unweaken, OrderRegisterRequests, SymmetryBroken, UseRing, RegistersNotPeriodic) as e:
                self.space.forgotten = set(before)  # sizes are forgotten from where they are read again
                self.compared = self._crowd = False
                match e:
                    case UseRing():
                        self.kinds.counters |= monotone_registers_of(self._seen.values(), e.ring.places)
                        self.ring, self.turns, self.kinds.size = e.ring, False, e.ring.size
                    case Unweaken() if self.groups and not e.warns:
                        self.traceless = False
                    case Unweaken():
                        # states that know all may meet it first
                        self.lowers = (
                            e.warns
                            and self.goes_round
                            and len(self.graph.nodes) < EXACT_NODES_BEFORE_WEAKENING
                        )
                        self.plain = 2 * len(self.graph.nodes) + 2
                    case RegistersNotPeriodic():
                        self.round = True
                    case OrderRegisterRequests():
                        self.requests = e.number
                    case SymmetryBroken():
                        if not self.kinds.learns(e):
                            raise SymmetryAbandoned(reason_of(e)) from None
                self.accounts.clear()
                self.stopped.clear()
                self.events = self.held = self.newest = 0
                self.graph = replace(self.graph, nodes=[])
                self.rounds.nodes.clear()
                self.rounds.begun = False
                self.laps.steps.clear()
                for kept in (self.notes, self._seen, self._asked, self._heap, self._crowds):
                    kept.clear()

    def _explored(self) -> Iterator[AbstractCounterexample | None]:
        if not self.graph.nodes and not self._heap:
            self._loops = RegisterChangeStatistics(self.space)
            for path in self.roots:
                self.push(self.start(path))
        while self._heap:
            *_, state = heappop(self._heap)
            self.held -= state.weight
            if self.given_way(state):
                continue
            state.traced = len(state.run.trace)
            found = self.follow(state)
            self.events += len(state.run.trace) - state.traced
            self._spend(0)
            if (
                self.suspect is not None
                and not self.tried
                and len(self.graph.nodes) >= REPORT_CANDIDATE_AFTER_NODES
            ):
                self.tried = True
                yield self.suspect
            if self.events > self.limits.long and not self.took_long:
                self.took_long = True
                yield None
            if found is not None:
                self.graph.add(state.parent, NodeStatus.FAILED)
                yield found

    def _spend(self, more: int) -> None:
        """Raises BudgetExceeded where the events, with ``more`` of the run that is followed, are too many."""
        deals = self.space.deals
        times = OF_SUMS if deals is not None and deals.sums else 1
        check_time()
        if not self.repeats and self.events + more > times * self.limits.soon:
            raise BudgetExceeded(f"no state repeats within {times * self.limits.soon} events")
        most = times * self.limits.events
        if self.beyond(self.events + more, most):
            raise BudgetExceeded(f"the runs exceed {most} events before their states repeat")

    @property
    def pending(self) -> bool:
        """Whether states are left to follow."""
        return bool(self._heap)

    def start(self, path: PathCondition) -> SymbolicState:
        if self._columns is None:
            classes = len(self.system.info.classes)
            self._columns = Columns(classes, len(self.system.info.barriers) + 9 * classes + self.slack)
        self.space.path = path = path.fork()
        like = SimpleNamespace(system=self.system, columns=self._columns, ignores_pool=False, parks=False)
        run = fresh(cast(Run, like), Budget(max_events=self.limits.path))
        run.eager = run.joins = True
        run.further = self.goes_round
        state = SymbolicState(run, path, asked_after={} if self.limits.asks_last else None)
        state.rotations = None if self.ring is None else RotatedAgents(self.ring)
        self.graph.rotates = self.goes_round
        for t in run.threads:
            self.kinds.straight |= {(t.cls, slot) for slot in getattr(t.agent, "straight_slots", ())}
        state.begin()
        return state

    # ------------------------------------------------------------ one run

    def follow(self, state: SymbolicState) -> AbstractCounterexample | None:
        """Runs a state until it fails, ends, is covered or branches."""
        self.space.path = state.path
        try:
            return self._walk(state)
        except AssumedUnreachable:
            self.graph.add(state.parent, NodeStatus.STOPPED, answer=state.answer, events=len(state.run.trace))
            return None
        except Livelock as e:
            raise NotConcrete(reason_of(e)) from None
        except TooManyEvents:
            text = f"a run exceeds {self.limits.path} events before its states repeat"
            raise BudgetExceeded(text) from None

    def _walk(self, state: SymbolicState) -> AbstractCounterexample | None:
        run = state.run
        while run.ready:
            t = run.ready.popleft()
            while not t.done and not t.blocked:
                if state.asked_after and state.asks_later(t):
                    break
                if t.cls in state.open and state.hesitates(t):
                    run.ready.append(t)  # nothing is known that was not when it asked
                    break
                try:
                    back = self.fetch(state, t) if t.event is None else False
                    if t.event is not None and t.event[0] in POLLS:
                        self.look_ahead(state, t)
                except SymbolSplit as r:
                    state.path.rewrite(r.atom, r.c, r.parts)
                    state.flush()
                    state.open.clear()
                    continue
                except UndecidedBranch as o:
                    self.space.noted(o.c, o.parts)
                    hesitates = state.hesitates(t)
                    if hesitates and t.event is None:
                        state.open.add(t.cls)
                    if hesitates or (run.ready and state.turned(t)):
                        run.ready.append(t)
                        break
                    run.ready.appendleft(t)
                    state.open.clear()
                    if not self.settle(state, t, o):
                        return None
                    run.ready.popleft()
                    continue
                except OrbitSplits as p:
                    run.ready.appendleft(t)
                    for other in state.part(p.groups):
                        self.push(other)
                    self.space.path = state.path
                    run.ready.popleft()
                    continue
                event = t.event
                if event is not None and is_non_monotone_event(run, event):
                    self.asks_more(run, event)
                state.formed = None
                others = len(run.ready)
                result = run.step(t)
                if event is not None and event[0] == Ev.ARRIVE:
                    t.answer = record_token(run, event, t.answer)
                if len(run.failures) > state.looked:
                    self.judge(state)
                    state.looked = len(run.failures)
                    failures = [f for f in run.failures.values() if counts(f, self.policy)]
                    failure = next((f for f in failures if not deferred_failures.is_deferred(f)), None)
                    if failure is not None:
                        return AbstractCounterexample(state.path, failure.message)
                    state.tails = tuple(failures)
                for failure in state.tails:
                    if deferred_failures.is_confirmed(run, failure):
                        return AbstractCounterexample(state.path, failure.message)
                if result == YIELD or (back and not t.done and not t.blocked):
                    run.ready.append(t)
                    break
                if len(run.ready) > others:
                    # whoever came first: states at one point then differ less
                    again = [] if t.done or t.blocked else [t]
                    run.ready = deque(sorted([*run.ready, *again], key=lambda x: x.cls))
                    break
        return self.end(state)

    def judge(self, state: SymbolicState) -> None:
        """Begins again where failures, warnings too, may be due to what a state was made to forget."""
        run, failures = state.run, state.run.failures
        self.delicate |= any(map(deferred_failures.is_deferred, failures.values()))
        practical = self.policy == Policy.PRACTICAL
        moved = state.rotations is not None and not state.rotations.plain
        if not (run.loosely or moved):
            self._sure |= failures.keys()
        new = list(failures.items())[state.looked :] if run.loosely or moved else []
        lesser = (
            (k in self._sure and is_strict_only_pair(run, f)) or always_a_warning(run, f) for k, f in new
        )
        warns = practical and all(is_strict_only_pair(run, f) or always_a_warning(run, f) for _, f in new)
        harmless = not new or (practical and all(lesser))
        if not harmless and not warns:
            self.suspect = self.suspect or AbstractCounterexample(
                state.path.fork(), new[0][1].message, certain=False
            )
        if moved and not (harmless and not any(map(deferred_failures.is_deferred, failures.values()))):
            raise SymmetryBroken("a failure")
        if not harmless or (self.compared and self.delicate):
            raise Unweaken(warns and not self.delicate)

    def certain(self, run: Run) -> list[Failure]:
        """Failures that are not met only because a state was made to forget."""
        loosely = run.loosely
        return [
            f
            for key, f in run.failures.items()
            if not loosely or key in self._sure or independent_of_knowledge(f)
        ]

    def ends_barrier(self) -> None:
        """Begins again where the last uses of a barrier matter: states were compared without them."""
        self.delicate = True
        if self.compared:
            raise Unweaken

    def asks_more(self, run: Run, event: Event) -> None:
        """Begins again where an event asks what states were compared without."""
        if event[0] == Ev.SETMAXNREG:
            raise (
                SymmetryBroken("a request for registers")
                if self.ring is not None
                else OrderRegisterRequests(run)
            )
        self.ends_barrier()

    def fetch(self, state: SymbolicState, t: LaneClass) -> bool:
        """The next event of an agent; whether it jumped back in its code."""
        agent = cast(Any, t.agent)
        place = state.places.setdefault(t.cls, agent.place())
        event = state.step(t)
        state.fetched(t)
        state.formed = None
        t.event, t.answer = event, 0
        t.time += 1
        t.clock.advance(t.cls, t.time)
        if isinstance(event[2:] and event[2], Trap):
            self.stopped.setdefault(self.system.info.sites[event[1]].span.line, event[2])
            raise AssumedUnreachable
        if event[0] == Ev.UNKNOWN:
            raise NotConcrete(event[2])
        state.run.watch(t, event)
        self._spend(len(state.run.trace) - state.traced)
        check_token_use(state.run, event)
        return bool(agent.place() < place)

    def look_ahead(self, state: SymbolicState, t: LaneClass) -> None:
        """Whatever a poll's meaning depends on is asked before the poll is judged."""
        assert t.event is not None
        t.meant = classify(t, t.event)
        if state.rotations is not None:
            state.rotations.polls_alike(state.run, t)

    def end(self, state: SymbolicState) -> AbstractCounterexample | None:
        """What only the end shows."""
        run = state.run
        if run.hung:
            if state.rotations is not None and not state.rotations.plain:
                self.suspect = self.suspect or AbstractCounterexample(
                    state.path.fork(), "the run hangs", certain=False
                )
                raise SymmetryBroken("a hang")
            return AbstractCounterexample(state.path, "the run hangs")
        check_end(run)
        if len(run.failures) > state.looked:
            self.judge(state)
        self.restores &= flags_are_restored(run)
        judged = deferred_failures.confirmed_at_end(run, run.failures.values())
        failure = next((f for f in judged if counts(f, self.policy)), None)
        if failure is not None:
            return AbstractCounterexample(state.path, failure.message)
        for f in distinct(warnings(deferred_failures.confirmed_at_end(run, self.certain(run)), False)):
            d = diagnostic(run, f)
            self.notes.setdefault((d.rule, d.span, d.contested), d)
        self.ended = True
        self.ends = [*self.ends, state.path][:KEPT_TERMINAL_PATHS]
        self.graph.add(state.parent, NodeStatus.ENDED, answer=state.answer, events=len(run.trace))
        if run.info.member:
            self.accounts.append((summarise(run), state.path.fork()))
        return None


def counts(f: Failure, policy: Policy) -> bool:
    """Whether a failure counts against the kernel."""
    return f.severity == Severity.ERROR or (policy == Policy.STRICT and f.strict_only)


def split_on_preconditions(
    space: SymbolicContext, path: PathCondition, facts: list[Callable[[], Any]]
) -> list[PathCondition]:
    """The paths on which all facts hold; a fact that is open is decided both ways."""
    done: list[PathCondition] = []
    work = [(path, 0)]
    while work:
        path, i = work.pop()
        if i == len(facts):
            done.append(path)
            continue
        space.path = path
        try:
            if facts[i]():
                work.append((path, i + 1))
        except ZeroDivisionError:
            continue
        except SymbolSplit as r:
            path.rewrite(r.atom, r.c, r.parts)
            work.append((path, i))
        except UndecidedBranch as o:
            other = path.fork()
            path.assume(o.c, o.parts)
            other.assume(-o.c - 1, negated(o.parts))
            work += [(p, i) for p in (other, path) if not p.dead]
    return done


__all__ = [
    "AbstractCounterexample",
    "BudgetExceeded",
    "ExplorationBudget",
    "NeedsDecision",
    "ReachabilityAnalysis",
    "SymmetryAbandoned",
    "counts",
    "split_on_preconditions",
]
