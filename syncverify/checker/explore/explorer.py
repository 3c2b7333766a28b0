"""All runs of a system whose sizes have no number, as a graph of decisions. See ``docs/symbolic.md``.

The canonical run is followed until an agent asks something that the path leaves open. There the state is
compared with earlier ones: if its values are among theirs, it is settled; else, if only register values
differ, it is widened to a state that stands for both; else both answers are followed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

from syncverify.checker.clocks import Columns
from syncverify.checker.diagnose import diagnostic, distinct, warnings
from syncverify.checker.engine import YIELD, Endless, Run, Thread, TooManyEvents
from syncverify.checker.explore import limits as at_most
from syncverify.checker.explore import tails
from syncverify.checker.explore.flags import restored
from syncverify.checker.explore.graph import Graph, Node, Settled
from syncverify.checker.explore.kin import Loops, Seen, alike, stands_for
from syncverify.checker.explore.knowledge import (
    Known,
    always_lesser,
    asks_more,
    knowledge,
    loosen,
    lower,
    strict_alone,
)
from syncverify.checker.explore.lattice import included
from syncverify.checker.explore.limits import Exceeded, Limits
from syncverify.checker.explore.states import State, View
from syncverify.checker.explore.tokens import answered, followed
from syncverify.checker.explore.widening import Widening
from syncverify.checker.failure import Failure
from syncverify.checker.final import finish
from syncverify.checker.outcome import Budget
from syncverify.checker.search import fresh
from syncverify.checker.waits import classify
from syncverify.diagnostics import Diagnostic, Policy, Severity
from syncverify.model.events import Ev
from syncverify.model.inequalities import negated
from syncverify.model.path import Path
from syncverify.model.symbols import SizedSystem
from syncverify.model.terms import Interrupted, Open, Rewrite, Space, Symbolic


class KnowsTooLittle(Exception):  # noqa: N818 -- control flow: begin again without
    """A state that was made to know less meets a failure that it might not have met."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A failing run: what is known of the sizes there, and why."""

    path: Path
    reason: str


@dataclass(slots=True)
class Explorer:
    """One system, for all sizes that ``roots`` allow."""

    system: SizedSystem
    space: Space
    roots: list[Path]
    policy: Policy
    limits: Limits
    slack: int = 64  # columns of clocks beyond the usual
    graph: Graph = field(default_factory=Graph)
    notes: dict[tuple[object, ...], Diagnostic] = field(default_factory=dict)
    events: int = 0
    took_long: bool = False
    repeats: bool = False  # some state was a case of another, or was widened
    newest: int = 0  # the last node whose key was a new one
    lowers: bool = True  # states may be made to know less
    compared: bool = False  # some were compared by what they know
    delicate: bool = False  # failures were met that knowing less may turn into lesser ones
    restores: bool = True  # flags in global memory are left as they were found
    held: int = 0  # bytes of the states that are left to follow, roughly
    _seen: dict[Hashable, list[Seen]] = field(default_factory=dict)
    _loops: Loops = field(init=False)
    _sure: set[tuple[object, ...]] = field(default_factory=set)  # failures of states that know all
    _crowd: bool = False
    _crowds: dict[Hashable, set[Hashable]] = field(default_factory=dict)  # forms at one point
    _heap: list[tuple[bool, int, int, State]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)
    _columns: Columns | None = None

    def failures(self) -> Iterator[Failed | None]:
        """Explores all; yields what fails, and None once if that takes long.

        Raises Symbolic, LaneSplit, ColumnsExhausted, Unmodelled.
        """
        before = set(self.space.forgotten)
        while True:
            try:
                yield from self._explored()
                return
            except KnowsTooLittle:
                self.space.forgotten = set(before)  # sizes are forgotten from where they are read again
                self.lowers = self.compared = False
                self.events = self.held = self.newest = 0
                self.graph = Graph(splits=self.graph.splits, asks_last=self.graph.asks_last)
                for kept in (self.notes, self._seen, self._heap, self._crowds):
                    kept.clear()

    def _explored(self) -> Iterator[Failed | None]:
        if not self.graph.nodes and not self._heap:
            self._loops = Loops(self.space)
            for path in self.roots:
                self.push(self.start(path))
        while self._heap:
            *_, state = heappop(self._heap)
            self.held -= state.weight
            state.traced = len(state.run.trace)
            found = self.follow(state)
            self.events += len(state.run.trace) - state.traced
            self._spend(0)
            if self.events > self.limits.long and not self.took_long:
                self.took_long = True
                yield None
            if found is not None:
                self.graph.add(state.parent, Settled.FAILED)
                yield found

    def _spend(self, more: int) -> None:
        """Raises Exceeded where the events, with ``more`` of the run that is followed, are too many."""
        if not self.repeats and self.events + more > self.limits.soon:
            raise Exceeded(f"no state repeats within {self.limits.soon} events")
        if self._beyond(self.events + more, self.limits.events):
            raise Exceeded(f"the runs exceed {self.limits.events} events before their states repeat")

    def _beyond(self, spent: int, most: int) -> bool:
        """Whether a limit is reached; it is stretched while few states are left."""
        return spent > most and not self.limits.goes_on(spent / most, len(self._heap), len(self.graph.nodes))

    @property
    def settling(self) -> bool:
        """Whether nothing in the last third was at a new point."""
        return 3 * self.newest < 2 * len(self.graph.nodes)

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
        state = State(run, path, asked_after={} if self.limits.asks_last else None)
        state.begin()
        return state

    def push(self, state: State) -> None:
        """Keeps a state for later; those that were made to know less come first, for they stand for others,
        and then those of the smallest sizes."""
        self.space.path = state.path
        total: Any = 0
        for value in state.path.sizes.values():
            total = total + value
        least = self.space.bounds(total)[0]
        state.weigh()
        self.held += state.weight
        if self.held > self.limits.bytes:
            raise Exceeded(f"the states that are left to follow exceed {self.limits.bytes >> 20} MiB")
        if least is None:
            least = -(1 << 62)
        heappush(self._heap, (not state.general, least, next(self._numbers), state))

    # ------------------------------------------------------------ one run

    def follow(self, state: State) -> Failed | None:
        """Runs a state until it fails, ends, is covered or branches."""
        self.space.path = state.path
        try:
            return self._walk(state)
        except Endless as e:
            raise Symbolic(str(e)) from None
        except TooManyEvents:
            raise Exceeded(f"a run exceeds {self.limits.path} events before its states repeat") from None

    def _walk(self, state: State) -> Failed | None:
        run = state.run
        while run.ready:
            t = run.ready.popleft()
            while not t.done and not t.blocked:
                if state.asks_later(t):
                    break
                try:
                    back = self.fetch(state, t) if t.event is None else False
                    self.look_ahead(t)
                except Rewrite as r:
                    state.path.rewrite(r.atom, r.c, r.parts)
                    state.flush()
                    continue
                except Open as o:
                    if run.ready and state.turned(t):
                        run.ready.append(t)
                        break
                    run.ready.appendleft(t)
                    if not self.settle(state, t, o):
                        return None
                    run.ready.popleft()
                    continue
                event = t.event
                if event is not None and asks_more(run, event):
                    self.ends_barrier()
                state.formed = None
                others = len(run.ready)
                result = run.step(t)
                if event is not None and event[0] == Ev.ARRIVE:
                    t.answer = answered(run, event, t.answer)
                if len(run.failures) > state.looked:
                    self.judge(state)
                    state.looked = len(run.failures)
                    failures = [f for f in run.failures.values() if counts(f, self.policy)]
                    failure = next((f for f in failures if not tails.open_end(f)), None)
                    if failure is not None:
                        return Failed(state.path, failure.message)
                    state.tails = tuple(failures)
                failure = next((f for f in state.tails if tails.lost(run, f)), None)
                if failure is not None:
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
        self.delicate |= any(map(tails.open_end, failures.values()))
        practical = self.policy == Policy.PRACTICAL
        if not run.loosely:
            self._sure |= failures.keys()
        new = list(failures.items())[state.looked :] if run.loosely else []
        harmless = ((k in self._sure and strict_alone(run, f)) or always_lesser(run, f) for k, f in new)
        if (new and not (practical and all(harmless))) or (self.compared and self.delicate):
            raise KnowsTooLittle

    def certain(self, run: Run) -> list[Failure]:
        """Failures that are not met only because a state was made to forget."""
        return [f for key, f in run.failures.items() if not run.loosely or key in self._sure]

    def ends_barrier(self) -> None:
        """Begins anew where the last uses of a barrier matter: states were compared without them."""
        self.delicate = True
        if self.compared:
            raise KnowsTooLittle

    def fetch(self, state: State, t: Thread) -> bool:
        """The next event of an agent; whether it jumped back in its code."""
        agent = cast(Any, t.agent)
        place = state.places.setdefault(t.cls, agent.point()[0])
        event = agent.step(t.answer)
        state.fetched(t)
        state.formed = None
        t.event, t.answer = event, 0
        t.time += 1
        t.clock.advance(t.cls, t.time)
        if event[0] == Ev.UNKNOWN:
            raise Symbolic(str(event[2]))
        state.run.watch(t, event)
        self._spend(len(state.run.trace) - state.traced)
        followed(state.run, event)
        return bool(agent.point()[0] < place)

    def look_ahead(self, t: Thread) -> None:
        """Whatever a poll's meaning depends on is asked before the poll is judged."""
        if t.event is not None and t.event[0] in (Ev.POLL, Ev.POLL_TOKEN):
            classify(t, t.event)

    def end(self, state: State) -> Failed | None:
        """What only the end shows."""
        run = state.run
        if run.hung:
            return Failed(state.path, "the run hangs")
        finish(run)
        if len(run.failures) > state.looked:
            self.judge(state)
        self.restores &= restored(run)
        judged = tails.counted(run, run.failures.values())
        failure = next((f for f in judged if counts(f, self.policy)), None)
        if failure is not None:
            return Failed(state.path, failure.message)
        for f in distinct(warnings(tails.counted(run, self.certain(run)), False)):
            d = diagnostic(run, f)
            self.notes.setdefault((d.rule, d.span, d.contested), d)
        self.graph.add(state.parent, Settled.ENDED, answer=state.answer, events=len(run.trace))
        return None

    # ------------------------------------------------------------ open questions

    def settle(self, state: State, t: Thread, o: Open) -> bool:
        """At an open question: true if the state was widened, and is to ask again; false if it is settled."""
        if self._beyond(len(self.graph.nodes), self.limits.nodes):
            raise Exceeded(f"states do not repeat within {self.limits.nodes} decisions")
        if self.compared and len(self.graph.nodes) > at_most.MOST_LOOSE * (3 if self.settling else 1):
            raise KnowsTooLittle
        progress = state.progress()
        if progress == state.asked_at and not state.widened:
            # a further question at the same point: nothing is repeated yet that could be covered
            node = self.graph.add(
                state.parent, Settled.ASKED, answer=state.answer, asker=t.cls, question=(o.c, o.parts)
            )
            self.branch(state, node, o)
            return False
        state.asked_at = progress
        state.flush()
        state.forget(self.space.forgotten if self.space.forgets else set())
        knows = knowledge(state.run) if self.crowded(state) else None
        if knows is not None:
            loosen(state.run, self.policy)
        form = None if knows is None else knows.key
        view = state.view(form)
        state.path.project({a for _, parts in view.rows.values() for a, _ in parts})
        if state.path.stale:
            state.flush()
            view = state.view(form)
        key = view.key
        earlier = self._seen.setdefault(key, [])
        if earlier:  # equal keys are kept once
            view, key = replace(view, form=earlier[0].view.form), earlier[0].node.key
        if knows is None:
            self._crowds.setdefault(state.where(), set()).add(key)
        else:
            self.compared = True
        rows = list(view.rows.values())
        for seen in reversed(earlier[-at_most.MOST_COMPARED :]):
            if stands_for(seen, state.run.loosely, knows) and included(
                self.space, list(seen.view.rows.values()), seen.path, rows, state.path
            ):
                self.repeats = True
                number = seen.node.number
                less = -1 if knows is None else number
                self.graph.add(
                    state.parent,
                    Settled.COVERED,
                    answer=state.answer,
                    target=number,
                    rows=tuple(rows),
                    less=less,
                )
                return False
        like = None if state.widened else self.like(state, view, earlier, knows)
        if like is not None:
            self.widen(state, view, like, None if knows is None else alike(earlier, knows)[-1])
            return True
        if knows is not None and earlier and not state.widened:
            last = alike(earlier, knows)[-1]
            if last.known is not None and not knows.covers(last.known):
                # what is known is made less at once, registers stay what they are
                self.widen(state, view, replace(last, view=view, path=state.path, widenings=0), last)
                return True
        self.branch(state, self.remember(state, view, key, t, o, knows), o)
        return False

    def crowded(self, state: State) -> bool:
        """Whether many states at some point differ, perhaps only in what is known."""
        most = at_most.FEW_FORMS if self.limits.asks_last else at_most.MOST_FORMS
        self._crowd = self._crowd or len(self._crowds.get(state.where(), ())) > most
        return self._crowd and self.lowers and not self.delicate

    def like(self, state: State, view: View, earlier: list[Seen], knows: Known | None) -> Seen | None:
        """The earlier node that a state is widened with: the last one where the sizes are the same sums and
        that it comes from; what answers to other questions tell apart is mixed only where it is much."""
        if not earlier or len(earlier) <= self.limits.patience:
            return None
        same = [seen for seen in earlier if seen.view.sizes == view.sizes]
        if same and same[0].known is not None:
            return self._loops.nearest(view, alike(same, knows))
        before = self.ancestors(state, same) or same[at_most.MOST_SIBLINGS :]
        if not before and len({seen.view.sizes for seen in earlier}) >= self.limits.forms:
            before = self.ancestors(state, earlier) or earlier
        return before[-1] if before else None

    def ancestors(self, state: State, earlier: list[Seen]) -> list[Seen]:
        """The nodes among some that the state comes from, oldest first."""
        above = self.graph.above(state.parent)
        return [seen for seen in earlier if seen.node.number in above]

    def branch(self, state: State, node: Node, o: Open) -> None:
        """Follows both answers."""
        other = state.fork()
        for one, answer, c, parts in (
            (state, True, o.c, o.parts),
            (other, False, -o.c - 1, negated(o.parts)),
        ):
            one.parent, one.answer, one.widened = node.number, answer, 0
            self.space.path = one.path
            one.path.assume(c, parts)
            if not one.path.dead:
                one.flush()
                self.push(one)

    def remember(
        self, state: State, view: View, key: Hashable, t: Thread, o: Open, knows: Known | None = None
    ) -> Node:
        rows = tuple(view.rows.values())
        path = state.path.fork()
        node = self.graph.add(
            state.parent,
            Settled.ASKED,
            key,
            answer=state.answer,
            asker=t.cls,
            question=(o.c, o.parts),
            rows=rows,
            path=path,
        )
        if not self._seen[key]:
            self.newest = node.number
        self._loops.seen(state.parent, node.number, view)
        self._seen[key].append(Seen(node, view, path, state.widened, knows, state.run.loosely))
        return node

    def widen(self, state: State, view: View, seen: Seen, less: Seen | None) -> None:
        """Replaces the state by one that it and an earlier one are cases of, and which knows no more than
        ``less``."""
        self.repeats = True
        places = list(view.rows)
        w = Widening(
            self.space,
            [seen.view.rows[p] for p in places],
            seen.path,
            [view.rows[p] for p in places],
            state.path,
            ends=seen.widenings >= self.limits.new_facts,
            fixed={a for _, (_, parts) in set(view.sizes) & set(seen.view.sizes) for a, _ in parts},
            numbers=sorted({c for _, (c, parts) in view.sizes if not parts and c > 1}),
        )
        found = tuple((a, w.values[1][a]) for a in w.atoms)
        rows = tuple(w.of(seen.view.rows[p], view.rows[p]) for p in places)
        node = self.graph.add(
            state.parent,
            Settled.WIDENED,
            answer=state.answer,
            target=seen.node.number,
            rows=rows,
            found=found,
            facts=tuple(w.facts),
            less=-1 if less is None else less.node.number,
        )
        if less is not None and less.known is not None:
            lower(state.run, less.known)
            state.formed, state.general = None, True
        state.put(view, w, seen.view)
        state.flush()
        state.parent, state.answer = node.number, None
        state.widened = seen.widenings + 1


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


__all__ = ["Exceeded", "Explorer", "Failed", "Interrupted", "Limits", "allowed", "counts"]
