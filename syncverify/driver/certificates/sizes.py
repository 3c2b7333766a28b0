"""Proofs for every size: the replay of a graph of decisions that ``graphs`` wrote.

The replay follows the nodes in their order. It compares no states but those that a node names, and widens
only as a node says. ``judge`` is handed the events, judges them with its own clocks, and compares states by
its own forms; where it cannot, the obligations of that system rest on the checker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from syncverify.base.certificate_data import RejectedError, listed, number, same, take
from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.checker.happens_before.dispatch import HANDLERS
from syncverify.checker.happens_before.end_of_run import check_end
from syncverify.checker.happens_before.failure import Failure
from syncverify.checker.happens_before.handlers import phases
from syncverify.checker.happens_before.handlers.waits import classify
from syncverify.checker.happens_before.run import YIELD, LaneClass, Run, RunOptions, TooManyEvents, Unmodelled
from syncverify.checker.happens_before.vector_clocks import Columns, ColumnsExhausted
from syncverify.checker.kernel.exact import LockstepChecker, NotJudgedError, Use, forget, form, use_of
from syncverify.checker.open_launches import OpenLaunches, starts, symbols
from syncverify.checker.prover.reach import knowledge_order
from syncverify.checker.prover.reach.state import deferred_failures
from syncverify.checker.prover.reach.state.phase_tokens import check_token_use, record_token
from syncverify.checker.prover.reach.state.symbolic_state import StateView, SymbolicState
from syncverify.driver.certificates import affine_rows
from syncverify.driver.certificates.checker_run import failure_text, failures_under
from syncverify.driver.rechecked import Met
from syncverify.model.events import AssumedUnreachable, Ev, Event, LaneSplit, Trap
from syncverify.symbolic.context import NotConcrete, SymbolicContext, SymbolSplit, UndecidedBranch
from syncverify.symbolic.inequalities import Sum, negated, primitive
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.protocol import SymbolicSystem

MOST_EVENTS = 60_000
MOST_COLUMNS = 1_024


def recheck(proof: Any, pose: Callable[[], OpenLaunches], policy: Policy, where: str) -> MetSizes:
    """Replays a proof for all sizes of a problem; RejectedError where it is none. Returns what it met."""
    _, graphs, any_turn = take(proof, where, "kind", "systems", optional=["any_turn"])
    graphs = listed(graphs, f"{where}.systems")
    if "any_turn" in proof and type(any_turn) is not bool:
        raise RejectedError(f"{where}.any_turn", "not a truth value")
    space = SymbolicContext()
    met = MetSizes()
    try:
        problem = pose()
        launches = starts(problem, space, symbols(problem, space))
        launched = [(path, system) for path, systems in launches for system in systems]
        if len(launched) != len(graphs):
            raise RejectedError(f"{where}.systems", f"{len(graphs)} graphs for {len(launched)} systems")
        for i, ((path, system), graph) in enumerate(zip(launched, graphs, strict=True)):
            space.havocs, space.root = bool(any_turn), path
            _system(system, space, path, policy, graph, f"{where}.systems[{i}]", met)
        _some_end([path for path, _ in launched], graphs, where)
    except (NotConcrete, Unmodelled, TooManyEvents) as e:
        raise RejectedError(where, f"it cannot be followed: {e}") from None
    except InputError as e:
        raise RejectedError(where, e.message) from None
    if bool(space.havocked) != ("any_turn" in proof):
        raise RejectedError(f"{where}.any_turn", "sizes are read again, or are not, against what it says")
    return met


def _some_end(paths: list[PathCondition], graphs: list[Any], where: str) -> None:
    """Some launch must be there at which no assertion of the kernel fails."""
    met = [{n["is"] for n in g["nodes"]} for g in graphs]
    short = [p for p, kinds in zip(paths, met, strict=True) if "stopped" in kinds and "ended" not in kinds]
    if paths and all(any(p is x for x in short) for p in paths):
        raise RejectedError(where, "an assertion of the kernel fails for all sizes")


def _system(
    system: SymbolicSystem,
    space: SymbolicContext,
    path: PathCondition,
    policy: Policy,
    graph: Any,
    where: str,
    met: MetSizes,
) -> None:
    splits, nodes, last = take(graph, where, "splits", "nodes", optional=["asks_last"])
    if last not in (None, True):
        raise RejectedError(f"{where}.asks_last", f"{last!r} is not true")
    for i, split in enumerate(listed(splits, f"{where}.splits")):
        at = f"{where}.splits[{i}]"
        cls, parts = split if isinstance(split, list) and len(split) == 2 else (None, None)
        cls = number(cls, at, 0)
        lanes = tuple(number(p, at, 1) for p in listed(parts, at))
        if cls >= len(system.info.classes) or not lanes or _union(lanes) != system.info.classes[cls].lanes:
            raise RejectedError(at, "these lanes are no parts of the class")
        space.path = path
        system = system.refined(LaneSplit(cls, lanes))
    slack = 64
    while True:
        try:
            at = f"{where}.nodes"
            replay = _Replay(system, space, policy, listed(nodes, at), at, met, asks_last=bool(last))
            replay.all(path, slack)
            met.add("systems")
            if replay.fallback_reason:
                met.reasons.append(replay.fallback_reason)
            return
        except ColumnsExhausted:
            slack *= 4
            if slack > MOST_COLUMNS:
                raise NotConcrete("too many synchronization objects") from None
        except LaneSplit as split:
            raise RejectedError(f"{where}.splits", str(split)) from None


def _union(lanes: Sequence[int]) -> int:
    """The union of disjoint lane masks; -1 if they are not disjoint."""
    total = 0
    for mask in lanes:
        if total & mask:
            return -1
        total |= mask
    return total


@dataclass(slots=True)
class MetSizes(Met):
    """``stopped``: by line, why some sizes stop a kernel there, which is assumed not to be."""

    stopped: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Kept:
    """A point that may subsume later ones."""

    key: Hashable
    rows: list[Sum]
    path: PathCondition
    judged: Hashable = None  # the judge's form of it
    known: knowledge_order.KnowledgeAbstraction | None = None  # where others are compared by what they know
    weakened: bool = False  # it fails more often than others of that form


@dataclass(slots=True)
class _Point:
    """A state that is to be followed, and the judge of what led to it; none where the checker judges.
    ``polled``: by class, the time of the last look at a barrier that the judge was handed.
    """

    state: SymbolicState
    judge: LockstepChecker | None
    polled: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Replay:
    """One system along the nodes of its graph."""

    system: SymbolicSystem
    space: SymbolicContext
    policy: Policy
    nodes: list[Any]
    where: str
    met: MetSizes
    fallback_reason: str = ""  # why the judge cannot judge this system
    asks_last: bool = False  # an agent asks only when no other can go on
    covering: set[int] = field(default_factory=set)  # nodes that subsume others
    knowing: set[int] = field(default_factory=set)  # nodes that others are compared with by what they know

    def all(self, root: PathCondition, slack: int) -> None:
        """Every node in turn; afterwards nothing may be left to follow."""
        waiting: dict[tuple[int, bool | None], _Point] = {(-1, None): self.start(root, slack)}
        claimed = [n.get("by") for n in self.nodes if isinstance(n, dict) and n.get("is") == "covered"]
        self.covering = {by for by in claimed if isinstance(by, int)}
        weakened = (n for n in self.nodes if isinstance(n, dict) and "less" in n)
        less = (n.get("by") if n["less"] is True else n["less"] for n in weakened)
        self.knowing = {of for of in less if isinstance(of, int)}
        kept: dict[int, _Kept] = {}
        for i, node in enumerate(self.nodes):
            at = f"{self.where}[{i}]"
            if not isinstance(node, dict):
                raise RejectedError(at, "not an object")
            after = (number(node.get("after"), at, -1), node.get("answer"))
            if "answer" in node and type(after[1]) is not bool:
                raise RejectedError(at, "an answer is true or false")
            point = waiting.pop(after, None)
            if point is None:
                raise RejectedError(at, "nothing is left to follow there")
            state = point.state
            self.met.add("nodes")
            try:
                asked = self.advance(point, at)
            except AssumedUnreachable:
                same({"events": len(state.run.trace)}, self.fields(node, "stopped", at, "events"), at)
                continue
            if asked is None:
                self.judge(point)
                self.met.add("events", len(state.run.trace))
                same({"events": len(state.run.trace)}, self.fields(node, "ended", at, "events"), at)
                continue
            for answer, next_ in self.process(point, i, node, kept, at, *asked):
                waiting[i, answer] = next_
        for parent, answer in waiting:
            raise RejectedError(self.where, f"what follows node {parent} (answer: {answer}) is left out")

    def judge(self, point: _Point, cls: int = -1, event: Event | None = None, use: Use | None = None) -> None:
        """Hands the judge the next event of a class, or tells it of the end."""
        if self.fallback_reason or point.judge is None:
            return
        try:
            if event is None:
                point.judge.end()
                self.met.assumed |= point.judge.inputs
            else:
                point.judge.take(cls, event, use)
        except NotJudgedError as e:
            self.fallback_reason = str(e) or "an event that the kernel does not judge"

    def form(self, point: _Point) -> Hashable:
        """The judge's form of a point."""
        return None if self.fallback_reason or point.judge is None else form(point.judge)

    def start(self, root: PathCondition, slack: int) -> _Point:
        classes = len(self.system.info.classes)
        columns = Columns(classes, len(self.system.info.barriers) + 9 * classes + slack)
        self.space.path = path = root.fork()
        options = RunOptions(merges_equivalent_accesses=True)
        run = Run(self.system, HANDLERS, phases.complete_async, columns, MOST_EVENTS, options)
        state = SymbolicState(run, path, deferred_since={} if self.asks_last else None)
        state.begin()
        judge: LockstepChecker | None = None
        if self.policy is Policy.PRACTICAL:
            try:
                judge = LockstepChecker(self.system.info)
            except NotJudgedError as e:
                self.fallback_reason = str(e)
        else:
            self.fallback_reason = "strict mode"
        return _Point(state, judge)

    def fields(self, node: dict[str, Any], kind: str, at: str, *names: str) -> dict[str, Any]:
        """The fields of a node of a kind, without those that place it."""
        take(node, at, "is", "after", *names, optional=["answer"])
        if node["is"] != kind:
            raise RejectedError(f"{at}.is", f"{node['is']!r}, but this is {kind}")
        return {name: node[name] for name in names}

    # -------------------------------------------------------------- between two nodes

    def advance(self, point: _Point, at: str) -> tuple[LaneClass, UndecidedBranch] | None:
        """Runs a state to its next undecided branch, or to a clean end."""
        state = point.state
        self.space.path = state.path
        state.cached_canonical_state = None
        run = state.run
        while run.ready:
            t = run.ready.popleft()
            while not t.done and not t.blocked:
                if state.defer_to_others(t):
                    break
                try:
                    back = self.next_event(point, t)
                except SymbolSplit as r:
                    state.path.substitute(r.atom, r.c, r.parts)
                    state.flush()
                    continue
                except UndecidedBranch as o:
                    if run.ready and state.defers_question_once(t):
                        run.ready.append(t)
                        break
                    run.ready.appendleft(t)
                    return t, o
                others = len(run.ready)
                result = self.step(state, t, at)
                if result == YIELD or (back and not t.done and not t.blocked):
                    run.ready.append(t)
                    break
                if len(run.ready) > others:
                    again = [] if t.done or t.blocked else [t]
                    run.ready = deque(sorted([*run.ready, *again], key=lambda x: x.cls))
                    break
        if run.hung:
            raise RejectedError(at, "the run hangs")
        check_end(run)
        self.comparable(run, state.failures_seen, at)
        self.clean(run, deferred_failures.confirmed_at_end(run, failures_under(run, self.policy)), at)
        return None

    def next_event(self, point: _Point, t: LaneClass) -> bool:
        """Fetches a class's next event, if it has none; whether the class has jumped back in its code."""
        back = self.fetch(point, t) if t.event is None else False
        if t.event is not None and t.event[0] in (Ev.POLL, Ev.POLL_TOKEN):
            classify(t, t.event)
            self.look(point, t, t.event)
        return back

    def look(self, point: _Point, t: LaneClass, event: Event) -> None:
        """Hands the judge a look at a barrier, once it is known what its answer is for."""
        judge = point.judge
        if self.fallback_reason or judge is None or point.polled.get(t.cls) == t.time:
            return
        point.polled[t.cls] = t.time
        try:
            use = use_of(t.agent, event)
        except (SymbolSplit, UndecidedBranch):  # it would part where the check did not
            use = None
        self.judge(point, t.cls, event, use)

    def step(self, state: SymbolicState, t: LaneClass, at: str) -> int:
        """Handles an event; RejectedError where it fails, or makes what was deferred certain."""
        run, event = state.run, t.event
        if event is not None and self.knowing and knowledge_order.is_non_monotone_event(run, event):
            raise RejectedError(at, "states are compared without the last uses of barriers")
        result = run.step(t)
        if event is not None and event[0] == Ev.ARRIVE:
            t.answer = record_token(run, event, t.answer)
        if len(run.failures) > state.failures_seen:
            self.comparable(run, state.failures_seen, at)
            state.failures_seen = len(run.failures)
            failures = failures_under(run, self.policy)
            state.deferred_failures = tuple(f for f in failures if deferred_failures.is_deferred(f))
            self.clean(run, [f for f in failures if not deferred_failures.is_deferred(f)], at)
        confirmed = [f for f in state.deferred_failures if deferred_failures.is_confirmed(run, f)]
        self.clean(run, confirmed, at)
        return result

    def comparable(self, run: Run, failures_seen: int, at: str) -> None:
        """Where states are compared by what they know, failures may not be lesser ones for what is not."""
        if self.knowing and knowledge_order.masks_failure(run, failures_seen, self.policy):
            raise RejectedError(at, "states are compared by what they know, which may hide a failure here")

    def clean(self, run: Run, failures: list[Failure], at: str) -> None:
        for f in failures:
            raise RejectedError(at, failure_text(run, f))

    def fetch(self, point: _Point, t: LaneClass) -> bool:
        """The next event of an agent; whether it jumped back in its code."""
        state = point.state
        agent = cast(Any, t.agent)
        place = state.places.setdefault(t.cls, agent.place())
        event = agent.step(t.answer)
        state.advanced(t)
        t.event, t.answer = event, 0
        t.time += 1
        t.clock.advance(t.cls, t.time)
        if len(state.run.trace) >= MOST_EVENTS:
            raise TooManyEvents("a run is too long")
        if isinstance(event[2:] and event[2], Trap):
            self.met.stopped.setdefault(self.system.info.sites[event[1]].span.line, event[2])
            raise AssumedUnreachable
        if event[0] == Ev.UNKNOWN:
            raise NotConcrete(str(event[2]))
        check_token_use(state.run, event)
        if event[0] not in (Ev.POLL, Ev.POLL_TOKEN):
            self.judge(point, t.cls, event)
        return bool(agent.place() < place)

    # -------------------------------------------------------------- nodes

    def process(
        self,
        point: _Point,
        i: int,
        node: dict[str, Any],
        kept: dict[int, _Kept],
        at: str,
        t: LaneClass,
        o: UndecidedBranch,
    ) -> list[tuple[bool | None, _Point]]:
        """What a node says of a state at an open question; the states that are to be followed from there."""
        state = point.state
        asked = affine_rows.question(self.space, (o.c, o.parts))
        progress = state.progress()
        moved = progress != state.progress_at_last_branch or state.widened
        view: StateView | None = None
        if moved:
            state.progress_at_last_branch = progress
            view = self.viewed(state)
        if node.get("is") == "asked":
            known = {"by": t.cls, "question": asked}
            if view is not None:
                rows = list(view.rows.values())
                known["state"] = affine_rows.state(rows, state.path)
                judged = self.form(point) if i in self.covering else None
                if i in self.knowing:
                    knowledge_order.coarsen(state.run, self.policy)
                knows = knowledge_order.abstract_knowledge(state.run) if i in self.knowing else None
                kept[i] = _Kept(
                    view.comparable,
                    rows,
                    state.path.fork(),
                    judged,
                    knows,
                    state.run.options.weak_completion_knowledge,
                )
            same(known, self.fields(node, "asked", at, *known), at)
            return self.both(point, o)
        if view is None:
            raise RejectedError(f"{at}.is", "a question where another was asked just before")
        if node.get("is") == "covered":
            weakened_by = ["less"] if "less" in node else []
            claimed = self.fields(node, "covered", at, "by", "as", *weakened_by)
            target = kept.get(number(claimed["by"], f"{at}.by", 0))
            if target is None or not self.like(target, view, state, claimed, at):
                raise RejectedError(f"{at}.by", "that node has another form")
            if weakened_by or target.judged != self.form(point):
                self.fallback_reason = "the kernel distinguishes states that the checker does not"
            if point.judge is not None:  # that node's other ways here may have read other inputs
                self.met.assumed |= point.judge.inputs
            self.case_of(target.rows, target.path, view, state.path, claimed["as"], at)
            return []
        multiplied = [x for x in ("less", "products") if x in node]
        claimed = self.fields(node, "widened", at, "registers", "facts", "as", *multiplied)
        if state.widened:
            raise RejectedError(f"{at}.is", "widened twice")
        if "less" in claimed:
            less = kept.get(number(claimed["less"], f"{at}.less", 0))
            if less is None or less.known is None:
                raise RejectedError(f"{at}.less", "no node that may be compared by what it knows")
            knowledge_order.coarsen(state.run, self.policy)
            knowledge_order.weaken(state.run, less.known)
            state.cached_canonical_state = None
            self.fallback_reason = "states that know less than the run that led to them"
        self.widen(state, view, claimed, at)
        return [(None, point)]

    def like(
        self, target: _Kept, view: StateView, state: SymbolicState, claimed: dict[str, Any], at: str
    ) -> bool:
        """Whether a kept point may subsume a point: by its canonical state, or since that knows no less."""
        if "less" not in claimed:
            return target.key == view.comparable and (
                target.weakened or not state.run.options.weak_completion_knowledge
            )
        if claimed["less"] is not True:
            raise RejectedError(f"{at}.less", "true where it is said")
        knows = knowledge_order.abstract_knowledge(state.run)
        besides = isinstance(target.key, tuple) and target.key[1:] == view.comparable[1:]
        return bool(besides and knows and target.known and target.known.simulates(knows))

    def viewed(self, state: SymbolicState) -> StateView:
        state.flush()
        state.drop_dead_symbols(self.space.havocked if self.space.havocs else set())
        view = state.view()
        state.path.eliminate({a for _, parts in view.rows.values() for a, _ in parts})
        if state.path.registers_outdated:
            state.flush()
            view = state.view()
        return view

    def both(self, point: _Point, o: UndecidedBranch) -> list[tuple[bool | None, _Point]]:
        """The answers that the path allows."""
        state = point.state
        other = state.fork()
        alive: list[tuple[bool, SymbolicState]] = []
        for one, answer, c, parts in (
            (state, True, o.c, o.parts),
            (other, False, -o.c - 1, negated(o.parts)),
        ):
            one.widened = False
            self.space.path = one.path
            one.path.assume_branch(c, parts)
            if not one.path.dead:
                one.flush()
                alive.append((answer, one))
        out: list[tuple[bool | None, _Point]] = []
        for answer, one in alive:
            last = one is alive[-1][1]
            judge = point.judge
            if self.fallback_reason or judge is None:
                judge = None
            elif not last:
                forget(judge)
                judge = judge.fork()
            out.append((answer, _Point(one, judge, dict(point.polled))))
        return out

    def case_of(
        self,
        rows: list[Sum],
        path: PathCondition,
        view: StateView,
        there: PathCondition,
        claimed: Any,
        at: str,
    ) -> None:
        """The rows must subsume the point of ``view``, as the substitution that is claimed shows."""
        later = list(view.rows.values())
        names, atoms = affine_rows.order(later), affine_rows.order(rows)
        given = listed(claimed, f"{at}.as")
        if len(given) != len(atoms):
            raise RejectedError(f"{at}.as", f"{len(given)} values for {len(atoms)} unknowns")
        found = {
            a: affine_rows.read(s, names, f"{at}.as[{i}]")
            for i, (a, s) in enumerate(zip(atoms, given, strict=True))
        }
        wrong = affine_rows.includes(self.space, rows, path, later, there, found)
        if wrong is not None:
            raise RejectedError(at, wrong)

    def products(self, given: Any, atoms: list[int], at: str) -> dict[int, tuple[int, int]]:
        """Products of unknowns by the numbers of these, as a widened node has them."""
        out: dict[int, tuple[int, int]] = {}
        if given is None:
            return out
        for i, pair in enumerate(listed(given, at) or [None]):
            every, here = [*atoms, *out], f"{at}[{i}]"
            x, y = (
                number(k, here, 0)
                for k in (pair if isinstance(pair, list) and len(pair) == 2 else (None, None))
            )
            if not x <= y < len(every):
                raise RejectedError(here, "not two of the unknowns, in order")
            factors = (every[x], every[y])
            ((a, _),) = self.space.times((0, ((factors[0], 1),)), (0, ((factors[1], 1),)))[1]
            if a in every:
                raise RejectedError(here, "a product that is there already")
            out[a] = factors
        return out

    def widen(self, state: SymbolicState, view: StateView, claimed: dict[str, Any], at: str) -> None:
        """Replaces the registers by others that subsume them."""
        space = self.space
        given = listed(claimed["as"], f"{at}.as")
        names = affine_rows.order(view.rows.values())
        new = [space.of(space.symbol(f"u{len(space.symbols)}", widened=True))[1][0][0] for _ in given]
        pairs = self.products(claimed.get("products"), [*new, *names], f"{at}.products")
        atoms = [*new, *names, *pairs]
        rows = [
            affine_rows.read(r, atoms, f"{at}.registers[{i}]")
            for i, r in enumerate(listed(claimed["registers"], f"{at}.registers"))
        ]
        path, plain = PathCondition(space), PathCondition(space)
        for i, s in enumerate(listed(claimed["facts"], f"{at}.facts")):
            c, parts = affine_rows.read(s, atoms, f"{at}.facts[{i}]")
            if parts in plain.inequalities or primitive(c, parts) != (c, parts):
                raise RejectedError(f"{at}.facts[{i}]", "each fact is about another sum, in lowest terms")
            plain.inequalities[parts] = c
            path.assume(c, parts)
        facts = [(c, parts) for parts, c in plain.inequalities.items()]
        shown = set(affine_rows.order([*rows, *(s for s in facts if any(a in pairs for a, _ in s[1]))]))
        for a in reversed([*pairs]):
            shown |= set(pairs[a]) if a in shown else set()
        if not {*new, *pairs} <= shown:
            raise RejectedError(f"{at}.as", "unknowns that no register has")
        if affine_rows.needed(space, rows, facts) != facts:
            raise RejectedError(f"{at}.facts", "one of them says nothing that the others do not")
        found = {
            a: affine_rows.read(s, names, f"{at}.as[{i}]")
            for i, (a, s) in enumerate(zip(new, given, strict=True))
        }
        found |= {a: (0, ((a, 1),)) for a in shown if a in names}
        for a, factors in pairs.items():
            x, y = (found.get(f, (0, ((f, 1),))) for f in factors)
            found[a] = space.times(x, y)
        wrong = affine_rows.includes(space, rows, plain, list(view.rows.values()), state.path, found)
        if wrong is not None:
            raise RejectedError(at, wrong)
        state.take({p: space.term(*r) for p, r in zip(view.rows, rows, strict=True)}, path)
        state.flush()
        state.widened = True
