"""A run together with what is known of the sizes, and the register values that it represents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from syncverify.checker.happens_before.failure import Failure
from syncverify.checker.happens_before.run import LATER, LaneClass, Run
from syncverify.checker.prover.reach.ring.positions import RingPositions
from syncverify.checker.prover.reach.ring.product import RotatedAgents, same
from syncverify.checker.prover.reach.ring.symmetry import Ring
from syncverify.checker.prover.reach.state.canonical_state import canonicalize
from syncverify.checker.prover.reach.state.phase_tokens import age_of, point
from syncverify.checker.prover.reach.state.snapshot import copy_run
from syncverify.model.events import Event
from syncverify.symbolic.context import AffineTerm, NotConcrete, SymbolicContext, mapped
from syncverify.symbolic.inequalities import Sum
from syncverify.symbolic.loop_havoc import ITERATION
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.phase_tokens import Token
from syncverify.symbolic.protocol import BLOCK_GROUP, SymbolicAgent, SymbolicSystem
from syncverify.symbolic.quotients import RATIO, outlives_iteration

#: Where a row comes from: ("register", class, slot, lane), ("size", name), and of each entry ("value", which)
#: and ("key", which, i) for what its key is made of.
Place = tuple[Any, ...]
#: Bounds of sizes beyond this are not distinguished.
FAR = 1 << 16


@dataclass(slots=True, eq=False)
class SymbolicState:
    """A point between two steps. ``parent``: the node it comes from; ``failures_seen``: failures looked at;
    ``widened``: since its last step, after so many widenings of the states there."""

    run: Run
    path: PathCondition
    parent: int = -1
    failures_seen: int = 0
    widened: int = 0
    steps_taken: int = 0  # steps of agents
    progress_at_last_branch: int = -1  # how far all agents had moved when something was last asked

    places: dict[int, int] = field(default_factory=dict)  # where unfinished steps began, by class
    answer: bool | None = None  # to the parent's question
    # the normal form, and where the agents stood
    cached_canonical_state: tuple[Hashable, Hashable] | None = None
    weight: int = 0  # bytes that it takes, roughly
    deferred_failures: tuple[Failure, ...] = ()  # failures that only the end may show to be harmless
    traced: int = 0  # events of its run when it was taken up
    deferred_since: dict[int, int] | None = None  # who let others go first, after which step; None: nobody
    was_weakened: bool = False  # it comes from a weakened state
    cluster: int = 0  # which of those that run one after the other was last seen
    rotations: RotatedAgents | None = None  # agents at other places of a ring, for which it stands too
    # who has asked what is open, and lets others ask first
    deferred_classes: set[int] = field(default_factory=set)

    def defer_to_others(self, t: LaneClass) -> bool:
        """Whether an agent that has let others go first lets them go on, since they have moved: it is last
        of those that are ready then."""
        if not self.run.ready or self.deferred_since is None:
            return False
        if self.deferred_since.get(t.cls, self.steps_taken) == self.steps_taken:
            return False
        self.deferred_since[t.cls] = self.steps_taken
        self.run.ready.append(t)
        return True

    def yields_next_iteration_question(self, t: LaneClass) -> bool:
        """Whether an agent lets others ask first, as long as these go on in iterations that they have."""
        if self.deferred_since is None or not self.path.space.has_round_robin:
            return False
        if not self.agent(t).may_take_another_iteration:
            return False
        return any(not self.agent(x).may_take_another_iteration for x in self.run.ready)

    def defers_question_once(self, t: LaneClass) -> bool:
        """Whether others go first before an agent asks: where it has jumped back in a step that is not over,
        as after a step; or always, as long as one of them goes on."""
        if t.cls not in self.places:
            return False  # its event is there, and what it means is asked
        if self.deferred_since is not None:
            waited = self.deferred_since.get(t.cls) == self.steps_taken
            self.deferred_since[t.cls] = self.steps_taken
            return not waited
        place = self.agent(t).place()
        back = bool(place < self.places[t.cls])
        self.places[t.cls] = place
        return back

    def progress(self) -> int:
        """Grows with every step of an agent, and with parts of steps."""
        return self.steps_taken + sum(self.agent(t).progress for t in self.run.threads)

    def advanced(self, t: LaneClass) -> None:
        """An agent has come to its next event."""
        del self.places[t.cls]
        self.steps_taken += 1
        if self.deferred_since is not None:
            self.deferred_since.pop(t.cls, None)

    def fork(self) -> SymbolicState:
        """A copy, to follow another answer; both may be answers to what others ask as well."""
        split = self.system.fork_agents
        run, path = copy_run(self.run, split), self.path.fork()
        places = dict(self.places)
        new = SymbolicState(
            run,
            path,
            self.parent,
            self.failures_seen,
            self.widened,
            self.steps_taken,
            self.progress_at_last_branch,
            places,
        )
        new.answer, new.deferred_failures = self.answer, self.deferred_failures
        if self.deferred_since is not None:
            self.deferred_since, new.deferred_since = {}, {}
        new.was_weakened, new.cluster = self.was_weakened, self.cluster
        if self.rotations is not None:
            new.rotations = self.rotations.fork(split)
        return new

    def step(self, t: LaneClass) -> Event:
        """The next event of an agent, as it is on record."""
        return t.agent.step(t.answer) if self.rotations is None else self.rotations.step(self.run, t)

    def part(self, groups: list[frozenset[int]]) -> list[SymbolicState]:
        """Represents the first group of its places only; the states that represent the others."""
        assert self.rotations is not None
        others = [(self.fork(), g) for g in groups[1:]]
        for one, places in [(self, groups[0]), *others]:
            assert one.rotations is not None
            one.rotations.restrict_to(one.run, places)
            one.cached_canonical_state = None
        return [one for one, _ in others]

    def begin_at_next(self) -> None:
        """Moves what is on record to where the next slot of the ring is the first."""
        if self.rotations is not None and self.rotations.normalise_rotation(self.run):
            self.cached_canonical_state = None

    def estimate_bytes(self) -> None:
        """Estimates its bytes: matrices, segments of shadow memory, the trace."""
        run = self.run
        matrices = sum(t.clock.m.nbytes for t in run.threads)
        phases = sum(s.phases[0].m.nbytes + s.phases[0].tx.nbytes for s in run.barriers.values())
        segments = sum(len(s._segments) for s in run.memory.values())
        self.weight = matrices + phases + 600 * segments + 8 * len(run.trace)

    @property
    def system(self) -> SymbolicSystem:
        return cast(SymbolicSystem, self.run.system)

    def agent(self, t: LaneClass) -> SymbolicAgent:
        return cast(SymbolicAgent, t.agent)

    def begin(self) -> None:
        """Brings registers up to the path. Clusters that run one after the other get unknowns of their own
        for the sizes that loops havocked, where these are forgotten: more than the kernel does."""
        self.path.registers_outdated = True
        self.flush()
        space, info = self.path.space, self.run.info
        if info.flag_chain or not (info.clusters_run_sequentially and space.havocs):
            return
        own: dict[tuple[int, str], Any] = {}
        for t in self.run.threads:
            cluster = t.info.cta // info.ctas
            for name, slot in self.agent(t).per_cluster_symbols.items() if cluster else ():
                if (cluster, name) not in own:
                    own[cluster, name] = space.fresh_copy(name)
                    space.havocked.add(name)
                self.agent(t).put(slot, own[cluster, name])

    def flush(self) -> None:
        """Brings registers up to what the path has rewritten."""
        if not self.path.registers_outdated:
            return
        space = self.path.space
        for t in self.run.threads:
            agent = self.agent(t)
            for slot, value in () if t.done else agent.live().items():
                new = mapped(value, space.resolved)
                if new is not value:
                    agent.put(slot, new)
        if self.rotations is not None:
            self.rotations.flush(self.run, lambda value: mapped(value, space.resolved))
        self.path.registers_outdated = False

    def drop_dead_symbols(self, names: set[str]) -> None:
        """Forgets turns that nobody will ask for again, and sizes that iteration again."""
        path = self.path
        iterations, begins = self.current_iterations(), self.next_cluster_starts()
        if begins and path.space.havocs and not self.run.info.flag_chain:
            path.space.havocked.add(ITERATION)
            names = names | path.sizes.keys()
        for name in names:
            path.sizes.pop(name, None)
        for key in list(path.memo):
            if begins and key[0] in names:
                del path.memo[key]
            elif key[0] in ("//", "%") or (key[0] in iterations and _passed(key[-1], iterations[key[0]])):
                del path.memo[key]
            elif key[0] == ITERATION and ITERATION not in iterations:
                del path.memo[key]
            elif key[0] == RATIO and not outlives_iteration(path, key):
                del path.memo[key]
        if path.space.has_prefix_sums:  # who asked first is no matter
            order = sorted(zip(self._keys(), path.memo.items(), strict=True), key=lambda x: repr(x[0][0]))
            path.memo = dict(item for _, item in order)

    def next_cluster_starts(self) -> bool:
        """Whether another cluster runs than before: it takes all its sizes again."""
        info, before = self.run.info, self.cluster
        running = (t.info.cta // info.ctas for t in self.run.threads if not t.done)
        self.cluster = min(running, default=before) if info.clusters_run_sequentially else before
        return self.cluster != before

    def current_iterations(self) -> dict[str, list[Any]]:
        """The next turns of agents that take a size turn by turn; of those that wait only if they have begun:
        that an iteration is forgotten too early allows more than the kernel does, no less."""
        out: dict[str, list[Any]] = {}
        for t in self.run.threads:
            if not t.done and t.waits_on != LATER:
                for name, iteration in self.agent(t).iterations().items():
                    if name != ITERATION or not t.blocked or not isinstance(iteration, int) or iteration:
                        out.setdefault(name, []).append(iteration)
        return out

    # ------------------------------------------------------------ rows

    def view(self, form: Hashable | None = None) -> StateView:
        """Everything that the future depends on: a key, and rows of numbers and terms.
        ``form``: in place of the normal form."""
        shape: list[Hashable] = []
        apart: list[Hashable] = []
        again = self.path.space.havocked
        agents = {t.cls: self.agent(t) for t in self.run.threads if not t.done}
        pending = {cls: a.input_registers for cls, a in agents.items()}
        bits = {cls: a.boolean_registers for cls, a in agents.items()}
        steady = {cls: a.loop_invariant_registers for cls, a in agents.items()}
        rows: dict[Place, Sum] = {}
        for place, value in self._values():
            kind, of = place[0], place[1]
            if kind == "register":
                slot = place[2]
                if slot in bits[of]:
                    shape.append((place, value))
                    continue
                if slot in steady[of] and (isinstance(value, int) or self.of_block_group(value)):
                    apart.append((place, self.path.space.of(value)))
                coarse = slot in pending[of]
            else:  # an iteration that is yet to be taken, or a size that is read again
                coarse = (kind == "value" and of[0] != RATIO) or (kind == "size" and of in again)
            if coarse:
                apart.append((place, self.interval_of(value)))
            if isinstance(value, int) and not isinstance(value, Token):
                rows[place] = (value, ())
            elif isinstance(value, AffineTerm):
                rows[place] = (value.c, value.parts)
            elif isinstance(value, tuple) and any(isinstance(x, AffineTerm) for x in value):
                if any(isinstance(x, Token) for x in value):
                    raise NotConcrete("lanes of one register hold tokens and sizes")
                if not all(isinstance(x, int | AffineTerm) for x in value):
                    raise NotConcrete("of some lanes of a register that holds sizes nothing is known")
                for lane, x in enumerate(value):
                    rows[(*place, lane)] = self.path.space.of(x)
            else:
                shape.append((place, age_of(self.run, value)))
        at = RingPositions()
        if self.rotations is not None:
            r = self.rotations
            at = RingPositions(r.position, r.places, r.offsets(self.run, self.path.space))
        return StateView(self.form() if form is None else form, tuple(shape), rows, tuple(apart), at)

    def of_block_group(self, value: Any) -> bool:
        """Whether a value is determined by the number of a block group alone."""
        number = self.path.sizes.get(BLOCK_GROUP)
        return (
            isinstance(value, AffineTerm)
            and isinstance(number, AffineTerm)
            and _atoms(value) == _atoms(number)
        )

    def location(self) -> tuple[Hashable, Hashable]:
        """Where all agents and barriers stand."""
        return (
            tuple(point(self.run, t) for t in self.run.threads),
            tuple(
                (b, (s.auto.phase + s.flip) % 2, s.auto.pending) for b, s in sorted(self.run.barriers.items())
            ),
        )

    def phases_outside_ring(self, ring: Ring) -> Hashable:
        """The parities of barriers that do not cycle."""
        barriers = self.run.barriers.items()
        return tuple((b, (s.auto.phase + s.flip) % 2) for b, s in sorted(barriers) if b not in ring.barriers)

    def form(self) -> Hashable:
        """The normal form of the run, made once for each point."""
        where = (tuple(t.cls for t in self.run.ready), tuple(self.agent(t).point() for t in self.run.threads))
        if self.cached_canonical_state is None or self.cached_canonical_state[0] != where:
            self.cached_canonical_state = (where, canonicalize(self.run))
        return self.cached_canonical_state[1]

    def interval_of(self, value: Any) -> Hashable:
        """What is known of a size that an agent has yet to use: states that differ in it are not mixed."""
        low, high = self.path.space.bounds(value)
        if self.path.space.has_prefix_sums:  # more than a lap each
            return low if low == high else None
        return (
            low if low == high else low is not None and low > 0,
            max(high, -1) if high is not None and high < FAR else None,
        )

    def _values(self) -> Iterator[tuple[Place, Any]]:
        for t in self.run.threads:
            if not t.done:
                for slot, value in self.agent(t).live().items():
                    yield ("register", t.cls, slot), value
        for name, value in self.path.sizes.items():
            yield ("size", name), value
        for (which, parts), value in zip(self._keys(), self.path.memo.values(), strict=True):
            for i, part in parts.items():
                yield ("key", which, i), part
            yield ("value", which), value

    def _keys(self) -> Iterator[tuple[Hashable, dict[int, Any]]]:
        """Of each entry what tells it from others, and the parts of its key that are compared as rows are:
        terms, and the iterations of sizes, which are distinguished by how far they are ahead."""
        first = {name: iterations[0] for name, iterations in self.current_iterations().items()}
        alike: Counter[Hashable] = Counter()
        for key in self.path.memo:
            parts = {i: part for i, part in enumerate(key) if isinstance(part, AffineTerm)}
            shape = [None if i in parts else part for i, part in enumerate(key)]
            if key[0] in first:
                ahead = key[-1] - first[key[0]]
                parts = parts | {len(key) - 1: key[-1]}
                shape = [*shape[:-1], ahead if isinstance(ahead, int) else "?"]
            alike[tuple(shape)] += 1
            yield (*shape, alike[tuple(shape)]), parts

    def put(self, rows: Mapping[Place, Sum], path: PathCondition, earlier: StateView) -> None:
        """Puts widened rows into the registers, and the widened path in place of this one; ``earlier``: seen
        from the main place of this one, with the places of both."""
        new: dict[Place, Any] = {p: self.path.space.term(*row) for p, row in rows.items()}
        self.take(new, path)
        if self.rotations is not None:
            self.rotations.put(self.run, new, earlier.at.offsets, earlier.at.all, self.system.fork_agents)

    def take(self, new: dict[Place, Any], path: PathCondition) -> None:
        """Puts other values in place of all rows, and another path in place of this one."""
        space = self.path.space
        values, keys = dict(self._values()), list(self._keys())
        for t in self.run.threads:
            for slot in () if t.done else list(self.agent(t).live()):
                place = ("register", t.cls, slot)
                old = values[place]
                value = new.get(place, old)
                if (*place, 0) in new:
                    value = tuple(new[(*place, lane)] for lane in range(len(old)))
                if not same(value, old):
                    self.agent(t).put(slot, value)
        path.sizes = {name: new["size", name] for name in self.path.sizes}
        path.memo = {}
        for (which, _), key in zip(keys, self.path.memo, strict=True):
            moved = tuple(new.get(("key", which, i), part) for i, part in enumerate(key))
            path.memo[moved] = new["value", which]
        path.registers_outdated |= self.path.registers_outdated
        self.path = space.path = path


@dataclass(frozen=True, slots=True)
class StateView:
    """``form`` and ``shape`` are equal for points that may be compared; ``rows`` by place.
    ``apart``: what the search tells further apart, so as not to mix too much; no proof rests on it."""

    form: Hashable
    shape: Hashable
    rows: dict[Place, Sum]
    apart: Hashable = ()
    at: RingPositions = field(default_factory=RingPositions)  # of a ring

    @property
    def sizes(self) -> tuple[tuple[str, Sum], ...]:
        """The sizes that are known, as sums."""
        return tuple((p[1], row) for p, row in self.rows.items() if p[0] == "size")

    @property
    def key(self) -> Hashable:
        return (*self.comparable, self.apart)

    @property
    def comparable(self) -> tuple[Hashable, ...]:
        """Equal where one point may represent the other."""
        return (self.form, self.shape, tuple(self.rows))


def _atoms(value: AffineTerm) -> set[int]:
    return {a for a, _ in value.parts}


def _passed(iteration: Any, nexts: list[Any]) -> bool:
    """Whether all agents are beyond an iteration."""
    ahead = [n - iteration for n in nexts]
    return all(isinstance(d, int) and d > 0 for d in ahead)


def known(space: SymbolicContext, path: PathCondition) -> str:
    """What a path knows, as text."""
    atoms = sorted({*path.low, *path.high})
    facts = [f"{space.symbols[a].name} in {path.interval(a)}" for a in atoms]
    return ", ".join([*facts, *(f"{space.text(c, p)} >= 0" for p, c in path.inequalities.items())])
