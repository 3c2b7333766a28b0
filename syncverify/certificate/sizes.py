"""Proofs for every size: the graph of decisions as plain data, and its replay.

The replay follows the nodes in their order. It compares no states but those that a node names, and widens
only as a node says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from syncverify.certificate import sums
from syncverify.certificate.data import RejectedError, listed, number, same, take
from syncverify.certificate.exact import failed
from syncverify.checker import phases
from syncverify.checker.clocks import Columns, ColumnsExhausted
from syncverify.checker.engine import YIELD, Run, Thread, TooManyEvents, Unmodelled
from syncverify.checker.events import HANDLERS
from syncverify.checker.explore.graph import Graph, Node, Settled
from syncverify.checker.explore.lattice import substitution
from syncverify.checker.explore.states import State, View
from syncverify.checker.explore.tokens import answered, followed
from syncverify.checker.final import finish
from syncverify.checker.waits import classify
from syncverify.diagnostics import Policy
from syncverify.ir.expr import evaluate
from syncverify.model.events import Ev, LaneSplit
from syncverify.model.path import Path, Sum, negated, primitive
from syncverify.model.symbols import SizedSystem
from syncverify.model.terms import Open, Rewrite, Space, Symbolic
from syncverify.sizes import Problem, Sized
from syncverify.source import InputError

MOST_EVENTS = 60_000
MOST_COLUMNS = 256

# ------------------------------------------------------------------ writing


def written(found: Sized) -> dict[str, Any]:
    """A proof of ``sizes.prove`` as plain data."""
    spaces = [n.path.space for g in found.graphs for n in g.nodes if n.path is not None]
    out: dict[str, Any] = {"kind": "sizes"}
    if spaces and spaces[0].forgotten:
        out["any_turn"] = spaces[0].forgets
    return {**out, "systems": [_graph(g, spaces[0] if spaces else Space()) for g in found.graphs]}


def _graph(g: Graph, space: Space) -> dict[str, Any]:
    return {
        "splits": [[cls, list(parts)] for cls, parts in g.splits],
        "nodes": [_node(g, n, space) for n in g.nodes],
    }


def _node(g: Graph, n: Node, space: Space) -> dict[str, Any]:
    out: dict[str, Any] = {"is": n.settled.name.lower(), "after": n.parent}
    if n.answer is not None:
        out["answer"] = n.answer
    match n.settled:
        case Settled.ASKED:
            assert n.question is not None
            asked = {**out, "by": n.asker, "question": sums.question(space, n.question)}
            return asked if n.path is None else {**asked, "state": sums.state(n.rows, n.path)}
        case Settled.COVERED:
            target = g.nodes[n.target]
            found = substitution(target.rows, n.rows)
            assert found is not None
            names = sums.order(n.rows)
            return {
                **out,
                "by": n.target,
                "as": [sums.plain(found[a], names) for a in sums.order(target.rows)],
            }
        case Settled.WIDENED:
            names = sums.order(sums.replaced(dict(n.found), r) for r in n.rows)
            new = [a for a, s in n.found if s != (0, ((a, 1),))]
            facts = sums.needed(space, n.rows, n.facts)
            return {
                **out,
                "registers": [sums.plain(r, [*new, *names]) for r in n.rows],
                "facts": [sums.plain(s, [*new, *names]) for s in facts],
                "as": [sums.plain(s, names) for a, s in n.found if a in new],
            }
        case _:
            return {**out, "events": n.events}


# ------------------------------------------------------------------ replaying


def recheck(proof: Any, pose: Callable[[], Problem], policy: Policy, where: str) -> dict[str, int]:
    """Replays a proof for all sizes of a problem; RejectedError where it is none. Returns what it met."""
    _, graphs, any_turn = take(proof, where, "kind", "systems", optional=["any_turn"])
    graphs = listed(graphs, f"{where}.systems")
    if "any_turn" in proof and type(any_turn) is not bool:
        raise RejectedError(f"{where}.any_turn", "not a truth value")
    space = Space()
    met = {"nodes": 0, "events": 0}
    try:
        starts = [(path, system) for path, systems in _starts(pose(), space) for system in systems]
        if len(starts) != len(graphs):
            raise RejectedError(f"{where}.systems", f"{len(graphs)} graphs for {len(starts)} systems")
        for i, ((path, system), graph) in enumerate(zip(starts, graphs, strict=True)):
            space.forgets, space.root = bool(any_turn), path
            _system(system, space, path, policy, graph, f"{where}.systems[{i}]", met)
    except (Symbolic, Unmodelled, TooManyEvents) as e:
        raise RejectedError(where, f"it cannot be followed: {e}") from None
    except InputError as e:
        raise RejectedError(where, e.message) from None
    if bool(space.forgotten) != ("any_turn" in proof):
        raise RejectedError(f"{where}.any_turn", "sizes are read again, or are not, against what it says")
    return met


def _starts(problem: Problem, space: Space) -> list[tuple[Path, list[SizedSystem]]]:
    """All launches: the paths that the facts leave, each with its systems."""
    for name, (low, high) in problem.sizes.items():
        space.path.sizes[name] = space.atom(name, low, high, frozenset({name}))
    out: list[tuple[Path, list[SizedSystem]]] = []
    work = [(space.path, 0)]
    while work:
        path, i = work.pop()
        space.path = path
        try:
            if i == len(problem.facts):
                out.append((path, list(problem.systems(dict(path.sizes), space))))
            elif evaluate(problem.facts[i], {**problem.fixed, **path.sizes}):
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
    return out


def _system(
    system: SizedSystem, space: Space, path: Path, policy: Policy, graph: Any, where: str, met: dict[str, int]
) -> None:
    splits, nodes = take(graph, where, "splits", "nodes")
    for i, split in enumerate(listed(splits, f"{where}.splits")):
        at = f"{where}.splits[{i}]"
        cls, parts = split if isinstance(split, list) and len(split) == 2 else (None, None)
        cls = number(cls, at, 0)
        lanes = tuple(number(p, at, 1) for p in listed(parts, at))
        if (
            cls >= len(system.info.classes)
            or len(lanes) < 2
            or _union(lanes) != system.info.classes[cls].lanes
        ):
            raise RejectedError(at, "these lanes are no parts of the class")
        space.path = path
        system = system.refined(LaneSplit(cls, lanes))
    slack = 64
    while True:
        try:
            _Replay(system, space, policy, listed(nodes, f"{where}.nodes"), f"{where}.nodes", met).all(
                path, slack
            )
            return
        except ColumnsExhausted:
            slack *= 4
            if slack > MOST_COLUMNS:
                raise Symbolic("too many synchronization objects") from None
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
class _Kept:
    """A point that later ones may be cases of."""

    key: Hashable
    rows: list[Sum]
    path: Path


@dataclass(slots=True)
class _Replay:
    """One system along the nodes of its graph."""

    system: SizedSystem
    space: Space
    policy: Policy
    nodes: list[Any]
    where: str
    met: dict[str, int]

    def all(self, root: Path, slack: int) -> None:
        """Every node in turn; afterwards nothing may be left to follow."""
        waiting: dict[tuple[int, bool | None], State] = {(-1, None): self.start(root, slack)}
        kept: dict[int, _Kept] = {}
        for i, node in enumerate(self.nodes):
            at = f"{self.where}[{i}]"
            if not isinstance(node, dict):
                raise RejectedError(at, "not an object")
            after = (number(node.get("after"), at, -1), node.get("answer"))
            if "answer" in node and type(after[1]) is not bool:
                raise RejectedError(at, "an answer is true or false")
            state = waiting.pop(after, None)
            if state is None:
                raise RejectedError(at, "nothing is left to follow there")
            asked = self.advance(state, at)
            self.met["nodes"] += 1
            if asked is None:
                self.met["events"] += len(state.run.trace)
                same({"events": len(state.run.trace)}, self.fields(node, "ended", at, "events"), at)
                continue
            for answer, next_ in self.settle(state, i, node, kept, at, *asked):
                waiting[i, answer] = next_
        for parent, answer in waiting:
            raise RejectedError(self.where, f"what follows node {parent} (answer: {answer}) is left out")

    def start(self, root: Path, slack: int) -> State:
        classes = len(self.system.info.classes)
        columns = Columns(classes, len(self.system.info.barriers) + 9 * classes + slack)
        self.space.path = path = root.fork()
        run = Run(self.system, HANDLERS, phases.land, columns, MOST_EVENTS)
        path.stale = True
        state = State(run, path)
        state.flush()
        return state

    def fields(self, node: dict[str, Any], kind: str, at: str, *names: str) -> dict[str, Any]:
        """The fields of a node of a kind, without those that place it."""
        take(node, at, "is", "after", *names, optional=["answer"])
        if node["is"] != kind:
            raise RejectedError(f"{at}.is", f"{node['is']!r}, but this is {kind}")
        return {name: node[name] for name in names}

    # -------------------------------------------------------------- between two nodes

    def advance(self, state: State, at: str) -> tuple[Thread, Open] | None:
        """Runs a state to its next open question, or to a clean end."""
        self.space.path = state.path
        state.formed = None
        run = state.run
        while run.ready:
            t = run.ready.popleft()
            while not t.done and not t.blocked:
                try:
                    back = self.fetch(state, t) if t.event is None else False
                    if t.event is not None and t.event[0] in (Ev.POLL, Ev.POLL_TOKEN):
                        classify(t, t.event)
                except Rewrite as r:
                    state.path.rewrite(r.atom, r.c, r.parts)
                    state.flush()
                    continue
                except Open as o:
                    if run.ready and state.turned(t):
                        run.ready.append(t)
                        break
                    run.ready.appendleft(t)
                    return t, o
                event = t.event
                others = len(run.ready)
                result = run.step(t)
                if event is not None and event[0] == Ev.ARRIVE:
                    t.answer = answered(run, event, t.answer)
                if len(run.failures) > state.looked:
                    state.looked = len(run.failures)
                    self.clean(run, at)
                if result == YIELD or (back and not t.done and not t.blocked):
                    run.ready.append(t)
                    break
                if len(run.ready) > others:
                    again = [] if t.done or t.blocked else [t]
                    run.ready = deque(sorted([*run.ready, *again], key=lambda x: x.cls))
                    break
        if run.hung:
            raise RejectedError(at, "the run hangs")
        finish(run)
        self.clean(run, at)
        return None

    def clean(self, run: Run, at: str) -> None:
        wrong = failed(run, self.policy)
        if wrong is not None:
            raise RejectedError(at, wrong)

    def fetch(self, state: State, t: Thread) -> bool:
        """The next event of an agent; whether it jumped back in its code."""
        agent = cast(Any, t.agent)
        place = state.places.setdefault(t.cls, agent.point()[0])
        event = agent.step(t.answer)
        del state.places[t.cls]
        state.moved += 1
        t.event, t.answer = event, 0
        t.time += 1
        t.clock.advance(t.cls, t.time)
        if len(state.run.trace) >= MOST_EVENTS:
            raise TooManyEvents("a run is too long")
        if event[0] == Ev.UNKNOWN:
            raise Symbolic(str(event[2]))
        followed(state.run, event)
        return bool(agent.point()[0] < place)

    # -------------------------------------------------------------- nodes

    def settle(
        self, state: State, i: int, node: dict[str, Any], kept: dict[int, _Kept], at: str, t: Thread, o: Open
    ) -> list[tuple[bool | None, State]]:
        """What a node says of a state at an open question; the states that are to be followed from there."""
        asked = sums.question(self.space, (o.c, o.parts))
        progress = state.progress()
        moved = progress != state.asked_at or state.widened
        view: View | None = None
        if moved:
            state.asked_at = progress
            view = self.viewed(state)
        if node.get("is") == "asked":
            known = {"by": t.cls, "question": asked}
            if view is not None:
                rows = list(view.rows.values())
                known["state"] = sums.state(rows, state.path)
                kept[i] = _Kept(view.key, rows, state.path.fork())
            same(known, self.fields(node, "asked", at, *known), at)
            return self.both(state, o)
        if view is None:
            raise RejectedError(f"{at}.is", "a question where another was asked just before")
        if node.get("is") == "covered":
            claimed = self.fields(node, "covered", at, "by", "as")
            target = kept.get(number(claimed["by"], f"{at}.by", 0))
            if target is None or target.key != view.key:
                raise RejectedError(f"{at}.by", "that node has another form")
            self.case_of(target.rows, target.path, view, state.path, claimed["as"], at)
            return []
        claimed = self.fields(node, "widened", at, "registers", "facts", "as")
        if state.widened:
            raise RejectedError(f"{at}.is", "widened twice")
        self.widen(state, view, claimed, at)
        return [(None, state)]

    def viewed(self, state: State) -> View:
        state.flush()
        state.forget(self.space.forgotten if self.space.forgets else set())
        view = state.view()
        state.path.project({a for _, parts in view.rows.values() for a, _ in parts})
        if state.path.stale:
            state.flush()
            view = state.view()
        return view

    def both(self, state: State, o: Open) -> list[tuple[bool | None, State]]:
        """The answers that the path allows."""
        other = state.fork()
        out: list[tuple[bool | None, State]] = []
        for one, answer, c, parts in (
            (state, True, o.c, o.parts),
            (other, False, -o.c - 1, negated(o.parts)),
        ):
            one.widened = False
            self.space.path = one.path
            one.path.assume(c, parts)
            if not one.path.dead:
                one.flush()
                out.append((answer, one))
        return out

    def case_of(self, rows: list[Sum], path: Path, view: View, there: Path, claimed: Any, at: str) -> None:
        """The point of ``view`` must be a case of the rows, as the substitution that is claimed shows."""
        later = list(view.rows.values())
        names, atoms = sums.order(later), sums.order(rows)
        given = listed(claimed, f"{at}.as")
        if len(given) != len(atoms):
            raise RejectedError(f"{at}.as", f"{len(given)} values for {len(atoms)} unknowns")
        found = {
            a: sums.read(s, names, f"{at}.as[{i}]") for i, (a, s) in enumerate(zip(atoms, given, strict=True))
        }
        wrong = sums.includes(self.space, rows, path, later, there, found)
        if wrong is not None:
            raise RejectedError(at, wrong)

    def widen(self, state: State, view: View, claimed: dict[str, Any], at: str) -> None:
        """Replaces the registers by others that they are a case of."""
        space = self.space
        given = listed(claimed["as"], f"{at}.as")
        names = sums.order(view.rows.values())
        new = [space.of(space.atom(f"u{len(space.atoms)}", widened=True))[1][0][0] for _ in given]
        atoms = [*new, *names]
        rows = [
            sums.read(r, atoms, f"{at}.registers[{i}]")
            for i, r in enumerate(listed(claimed["registers"], f"{at}.registers"))
        ]
        if not set(new) <= set(sums.order(rows)):
            raise RejectedError(f"{at}.as", "unknowns that no register has")
        path, plain = Path(space), Path(space)
        for i, s in enumerate(listed(claimed["facts"], f"{at}.facts")):
            c, parts = sums.read(s, atoms, f"{at}.facts[{i}]")
            if parts in plain.cons or primitive(c, parts) != (c, parts):
                raise RejectedError(f"{at}.facts[{i}]", "each fact is about another sum, in lowest terms")
            plain.cons[parts] = c
            path.assume(c, parts)
        told = [(c, parts) for parts, c in plain.cons.items()]
        if sums.needed(space, rows, told) != told:
            raise RejectedError(f"{at}.facts", "one of them says nothing that the others do not")
        found = {
            a: sums.read(s, names, f"{at}.as[{i}]") for i, (a, s) in enumerate(zip(new, given, strict=True))
        }
        found |= {a: (0, ((a, 1),)) for a in sums.order(rows) if a in names}
        wrong = sums.includes(space, rows, plain, list(view.rows.values()), state.path, found)
        if wrong is not None:
            raise RejectedError(at, wrong)
        state.take({p: space.term(*r) for p, r in zip(view.rows, rows, strict=True)}, path)
        state.flush()
        state.widened = True
