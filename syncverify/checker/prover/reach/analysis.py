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
from syncverify.checker.happens_before.end_of_run import finish
from syncverify.checker.happens_before.failure import Failure
from syncverify.checker.happens_before.flag_state import restored
from syncverify.checker.happens_before.handlers.waits import classify
from syncverify.checker.happens_before.run import YIELD, Endless, Run, Thread, TooManyEvents
from syncverify.checker.happens_before.vector_clocks import Columns
from syncverify.checker.outcome import Budget
from syncverify.checker.prover.budget import OF_SUMS, Exceeded, Limits
from syncverify.checker.prover.modular.compose import Account
from syncverify.checker.prover.reach.graph import Settled
from syncverify.checker.prover.reach.knowledge_order import (
    always_lesser,
    asks_more,
    same_for_all,
    strict_alone,
)
from syncverify.checker.prover.reach.refinement import Counted, Found, KnowsTooLittle, Requested
from syncverify.checker.prover.reach.ring.positions import counting
from syncverify.checker.prover.reach.ring.product import Parted, Rotations, Unequal
from syncverify.checker.prover.reach.state import deferred_failures
from syncverify.checker.prover.reach.state.cluster_effects import account
from syncverify.checker.prover.reach.state.phase_tokens import answered, followed
from syncverify.checker.prover.reach.state.symbolic_state import State
from syncverify.checker.prover.reach.widening_strategy import Loops
from syncverify.checker.prover.reach.worklist import Settling
from syncverify.model.events import Ev, Event, Stopped, Stops
from syncverify.symbolic.context import Interrupted, Open, Rewrite, Space, Symbolic
from syncverify.symbolic.inequalities import negated
from syncverify.symbolic.path_condition import Path
from syncverify.symbolic.protocol import SizedSystem

POLLS = frozenset({Ev.POLL, Ev.POLL_TOKEN})
#: Decisions after which a warning that no state which knows all has met yet is left to explorations without
#: others.
MOST_PLAIN = 40

#: Ends of runs of which what is known of the sizes is kept.
MOST_ENDS = 3
#: Decisions after which what may fail is tried, where all was begun anew: most proofs end sooner.
TRIED_LATE = 150


class Unturned(Symbolic):
    """Round its ring a system is not explored: it is to be explored without."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A failing run: what is known of the sizes there, and why. Not ``certain``: a state that stands for it
    fails, which knows less or is at other places of a ring."""

    path: Path
    reason: str
    certain: bool = True


@dataclass(slots=True, kw_only=True)
class Explorer(Settling):
    """One system, for all sizes that ``roots`` allow."""

    system: SizedSystem
    roots: list[Path]
    slack: int = 64  # columns of clocks beyond the usual
    notes: dict[tuple[object, ...], Diagnostic] = field(default_factory=dict)
    events: int = 0
    took_long: bool = False
    ends: list[Path] = field(default_factory=list)  # what is known of the sizes where the first runs end
    stopped: dict[int, str] = field(default_factory=dict)  # by line, the assertions taken not to fail
    restores: bool = True  # flags in global memory are left as they were found
    suspect: Failed | None = None  # the first run that may fail: all was begun anew there
    tried: bool = False  # it was told
    accounts: list[tuple[Account, Path]] = field(default_factory=list)  # of a cluster of a team
    _sure: set[tuple[object, ...]] = field(default_factory=set)  # failures of states that know all
    _columns: Columns | None = None

    def failures(self) -> Iterator[Failed | None]:
        """Explores all; yields what fails, once what may fail if it takes many decisions after all was begun
        anew, and None once if it takes long.

        Raises Symbolic, LaneSplit, ColumnsExhausted, Unmodelled.
        """
        before = set(self.space.forgotten)
        while True:
            try:
                yield from self._explored()
                return
            except Symbolic as e:
                if self.goes_round:
                    raise Unturned(reason_of(e)) from None
                raise
            except (KnowsTooLittle, Requested, Unequal, Found, Counted) as e:
                self.space.forgotten = set(before)  # sizes are forgotten from where they are read again
                self.compared = self._crowd = False
                match e:
                    case Found():
                        self.kinds.counters |= counting(self._seen.values(), e.ring.places)
                        self.ring, self.turns, self.kinds.size = e.ring, False, e.ring.size
                    case KnowsTooLittle() if self.groups and not e.warns:
                        self.traceless = False
                    case KnowsTooLittle():
                        # states that know all may meet it first
                        self.lowers = e.warns and self.goes_round and len(self.graph.nodes) < MOST_PLAIN
                        self.plain = 2 * len(self.graph.nodes) + 2
                    case Counted():
                        self.round = True
                    case Requested():
                        self.requests = e.number
                    case Unequal():
                        if not self.kinds.learns(e):
                            raise Unturned(reason_of(e)) from None
                self.accounts.clear()
                self.stopped.clear()
                self.events = self.held = self.newest = 0
                self.graph = replace(self.graph, nodes=[])
                self.rounds.nodes.clear()
                self.rounds.begun = False
                self.laps.steps.clear()
                for kept in (self.notes, self._seen, self._asked, self._heap, self._crowds):
                    kept.clear()

    def _explored(self) -> Iterator[Failed | None]:
        if not self.graph.nodes and not self._heap:
            self._loops = Loops(self.space)
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
            if self.suspect is not None and not self.tried and len(self.graph.nodes) >= TRIED_LATE:
                self.tried = True
                yield self.suspect
            if self.events > self.limits.long and not self.took_long:
                self.took_long = True
                yield None
            if found is not None:
                self.graph.add(state.parent, Settled.FAILED)
                yield found

    def _spend(self, more: int) -> None:
        """Raises Exceeded where the events, with ``more`` of the run that is followed, are too many."""
        deals = self.space.deals
        times = OF_SUMS if deals is not None and deals.sums else 1
        check_time()
        if not self.repeats and self.events + more > times * self.limits.soon:
            raise Exceeded(f"no state repeats within {times * self.limits.soon} events")
        most = times * self.limits.events
        if self.beyond(self.events + more, most):
            raise Exceeded(f"the runs exceed {most} events before their states repeat")

    @property
    def pending(self) -> bool:
        """Whether states are left to follow."""
        return bool(self._heap)

    def start(self, path: Path) -> State:
        if self._columns is None:
            classes = len(self.system.info.classes)
            self._columns = Columns(classes, len(self.system.info.barriers) + 9 * classes + self.slack)
        self.space.path = path = path.fork()
        like = SimpleNamespace(system=self.system, columns=self._columns, ignores_pool=False, parks=False)
        run = fresh(cast(Run, like), Budget(max_events=self.limits.path))
        run.eager = run.joins = True
        run.further = self.goes_round
        state = State(run, path, asked_after={} if self.limits.asks_last else None)
        state.rotations = None if self.ring is None else Rotations(self.ring)
        self.graph.rotates = self.goes_round
        for t in run.threads:
            self.kinds.straight |= {(t.cls, slot) for slot in getattr(t.agent, "straight_slots", ())}
        state.begin()
        return state

    # ------------------------------------------------------------ one run

    def follow(self, state: State) -> Failed | None:
        """Runs a state until it fails, ends, is covered or branches."""
        self.space.path = state.path
        try:
            return self._walk(state)
        except Stops:
            self.graph.add(state.parent, Settled.STOPPED, answer=state.answer, events=len(state.run.trace))
            return None
        except Endless as e:
            raise Symbolic(reason_of(e)) from None
        except TooManyEvents:
            text = f"a run exceeds {self.limits.path} events before its states repeat"
            raise Exceeded(text) from None

    def _walk(self, state: State) -> Failed | None:
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
                except Rewrite as r:
                    state.path.rewrite(r.atom, r.c, r.parts)
                    state.flush()
                    state.open.clear()
                    continue
                except Open as o:
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
                except Parted as p:
                    run.ready.appendleft(t)
                    for other in state.part(p.groups):
                        self.push(other)
                    self.space.path = state.path
                    run.ready.popleft()
                    continue
                event = t.event
                if event is not None and asks_more(run, event):
                    self.asks_more(run, event)
                state.formed = None
                others = len(run.ready)
                result = run.step(t)
                if event is not None and event[0] == Ev.ARRIVE:
                    t.answer = answered(run, event, t.answer)
                if len(run.failures) > state.looked:
                    self.judge(state)
                    state.looked = len(run.failures)
                    failures = [f for f in run.failures.values() if counts(f, self.policy)]
                    failure = next((f for f in failures if not deferred_failures.open_end(f)), None)
                    if failure is not None:
                        return Failed(state.path, failure.message)
                    state.tails = tuple(failures)
                for failure in state.tails:
                    if deferred_failures.lost(run, failure):
                        return Failed(state.path, failure.message)
                if result == YIELD or (back and not t.done and not t.blocked):
                    run.ready.append(t)
                    break
                if len(run.ready) > others:
                    # whoever came first: states at one point then differ less
                    again = [] if t.done or t.blocked else [t]
                    run.ready = deque(sorted([*run.ready, *again], key=lambda x: x.cls))
                    break
        return self.end(state)

    def judge(self, state: State) -> None:
        """Begins anew where failures, warnings too, may be due to what a state was made to forget."""
        run, failures = state.run, state.run.failures
        self.delicate |= any(map(deferred_failures.open_end, failures.values()))
        practical = self.policy == Policy.PRACTICAL
        moved = state.rotations is not None and not state.rotations.plain
        if not (run.loosely or moved):
            self._sure |= failures.keys()
        new = list(failures.items())[state.looked :] if run.loosely or moved else []
        lesser = ((k in self._sure and strict_alone(run, f)) or always_lesser(run, f) for k, f in new)
        warns = practical and all(strict_alone(run, f) or always_lesser(run, f) for _, f in new)
        harmless = not new or (practical and all(lesser))
        if not harmless and not warns:
            self.suspect = self.suspect or Failed(state.path.fork(), new[0][1].message, certain=False)
        if moved and not (harmless and not any(map(deferred_failures.open_end, failures.values()))):
            raise Unequal("a failure")
        if not harmless or (self.compared and self.delicate):
            raise KnowsTooLittle(warns and not self.delicate)

    def certain(self, run: Run) -> list[Failure]:
        """Failures that are not met only because a state was made to forget."""
        loosely = run.loosely
        return [f for key, f in run.failures.items() if not loosely or key in self._sure or same_for_all(f)]

    def ends_barrier(self) -> None:
        """Begins anew where the last uses of a barrier matter: states were compared without them."""
        self.delicate = True
        if self.compared:
            raise KnowsTooLittle

    def asks_more(self, run: Run, event: Event) -> None:
        """Begins anew where an event asks what states were compared without."""
        if event[0] == Ev.SETMAXNREG:
            raise Unequal("a request for registers") if self.ring is not None else Requested(run)
        self.ends_barrier()

    def fetch(self, state: State, t: Thread) -> bool:
        """The next event of an agent; whether it jumped back in its code."""
        agent = cast(Any, t.agent)
        place = state.places.setdefault(t.cls, agent.place())
        event = state.step(t)
        state.fetched(t)
        state.formed = None
        t.event, t.answer = event, 0
        t.time += 1
        t.clock.advance(t.cls, t.time)
        if isinstance(event[2:] and event[2], Stopped):
            self.stopped.setdefault(self.system.info.sites[event[1]].span.line, event[2])
            raise Stops
        if event[0] == Ev.UNKNOWN:
            raise Symbolic(event[2])
        state.run.watch(t, event)
        self._spend(len(state.run.trace) - state.traced)
        followed(state.run, event)
        return bool(agent.place() < place)

    def look_ahead(self, state: State, t: Thread) -> None:
        """Whatever a poll's meaning depends on is asked before the poll is judged."""
        assert t.event is not None
        t.meant = classify(t, t.event)
        if state.rotations is not None:
            state.rotations.polls_alike(state.run, t)

    def end(self, state: State) -> Failed | None:
        """What only the end shows."""
        run = state.run
        if run.hung:
            if state.rotations is not None and not state.rotations.plain:
                self.suspect = self.suspect or Failed(state.path.fork(), "the run hangs", certain=False)
                raise Unequal("a hang")
            return Failed(state.path, "the run hangs")
        finish(run)
        if len(run.failures) > state.looked:
            self.judge(state)
        self.restores &= restored(run)
        judged = deferred_failures.counted(run, run.failures.values())
        failure = next((f for f in judged if counts(f, self.policy)), None)
        if failure is not None:
            return Failed(state.path, failure.message)
        for f in distinct(warnings(deferred_failures.counted(run, self.certain(run)), False)):
            d = diagnostic(run, f)
            self.notes.setdefault((d.rule, d.span, d.contested), d)
        self.ended = True
        self.ends = [*self.ends, state.path][:MOST_ENDS]
        self.graph.add(state.parent, Settled.ENDED, answer=state.answer, events=len(run.trace))
        if run.info.member:
            self.accounts.append((account(run), state.path.fork()))
        return None


def counts(f: Failure, policy: Policy) -> bool:
    """Whether a failure counts against the kernel."""
    return f.severity == Severity.ERROR or (policy == Policy.STRICT and f.strict_only)


def allowed(space: Space, path: Path, facts: list[Callable[[], Any]]) -> list[Path]:
    """The paths on which all facts hold; a fact that is open is decided both ways."""
    done: list[Path] = []
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
        except Rewrite as r:
            path.rewrite(r.atom, r.c, r.parts)
            work.append((path, i))
        except Open as o:
            other = path.fork()
            path.assume(o.c, o.parts)
            other.assume(-o.c - 1, negated(o.parts))
            work += [(p, i) for p in (other, path) if not p.dead]
    return done


__all__ = ["Exceeded", "Explorer", "Failed", "Interrupted", "Limits", "Unturned", "allowed", "counts"]
