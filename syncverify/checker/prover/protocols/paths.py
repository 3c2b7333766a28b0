"""Paths for obligations: breadth first over symbolic steps, followed on samples.

A step's coordinates are terms in the counters of the obligation. Where a tile or a residue is needed that
has no name yet, the step gets a *virtual* name, and the path asks for a case tree that introduces it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel.hops import Drained, Graph, Half, How, Program, Same, Step, Turn
from syncverify.checker.kernel.linear import ZERO, RejectedError, Term, apply, num, var
from syncverify.checker.kernel.obligations import Reaches
from syncverify.checker.kernel.protocol import Group, Kind, Level, N, Site, Tiles
from syncverify.checker.prover.protocols.distances import LEADS, Distances, place
from syncverify.checker.prover.protocols.masks import Masks
from syncverify.checker.prover.protocols.multipliers import entails
from syncverify.checker.prover.protocols.sizes import Sample, shape, value

#: Rounds and width of the search for one path.
ROUNDS, WIDTH = 12, 80
_UNDECIDED = Program(-1)
#: By how many hops paths may be longer than the least number that is known: those that are tried in turn.
SHORTEST, SHORT = 0, 2


@dataclass(frozen=True, slots=True)
class NewTile:
    """The tile of ``function`` that holds ``term``."""

    function: str
    term: Term


@dataclass(frozen=True, slots=True)
class NewResidue:
    """``term`` divided by ``modulus``."""

    term: Term
    modulus: int


Introduction = NewTile | NewResidue
#: A counter of tiles that has a name: (term, first, stride).
Named = tuple[Term, int, int]
Hops = tuple[tuple[How, Step], ...]
_Needs = tuple[list[Term], Level] | None


@dataclass(frozen=True, slots=True)
class Found:
    """A path, or something to introduce first; how many samples it covers, and which, as a mask."""

    hops: Hops | None
    introduction: Introduction | None
    covers: float
    mask: int = 0


@dataclass(slots=True)
class Steps:
    """Coordinates of events in terms of what has a name."""

    g: Graph
    samples: list[Sample]
    pool: frozenset[Named]
    premises: Sequence[Term] = ()
    virtual: dict[str, tuple[Introduction, int]] = field(default_factory=dict)
    names: dict[tuple[Introduction, int], Term] = field(default_factory=dict)  # of what is introduced
    masks: Masks = field(init=False)
    memo: dict[Hashable, Any] = field(default_factory=dict)  # terms alone: the same for all obligations
    follows: dict[tuple[Step, int], list[tuple[Step, int]]] = field(default_factory=dict)
    met: dict[tuple[int, Term], list[tuple[Term, Term]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.masks = Masks(self.g, self.samples)

    def distances(self) -> Distances:
        """At least how many hops lead from places to goals."""
        if "distances" not in self.memo:
            self.memo["distances"] = Distances(self.g)
        found: Distances = self.memo["distances"]
        return found

    def leads(self, role: int) -> list[int]:
        """The sites of a role that program order may lead on to."""
        return [k for k in self.of_role(role) if self.g.sites[k].op.kind in LEADS]

    def of_role(self, role: int) -> list[int]:
        """The sites of a role."""
        if "roles" not in self.memo:
            by_role: list[list[int]] = [[] for _ in self.g.p.roles]
            for k, y in enumerate(self.g.sites):
                by_role[y.role].append(k)
            self.memo["roles"] = by_role
        found: list[list[int]] = self.memo["roles"]
        return found[role]

    def twins(self, i: int) -> list[int]:
        """A site, and those of the same warps that are parts of the same wgmma."""
        key = ("twins", i)
        if key not in self.memo:
            g, op = self.g, self.g.sites[i].op
            alike = (
                k
                for r, warps in enumerate(g.warps)
                if warps == g.warps[g.sites[i].role]
                for k in self.of_role(r)
                if k != i and (g.sites[k].op.label, g.sites[k].op.kind) == (op.label, op.kind)
            )
            self.memo[key] = [i, *sorted(alike)] if op.group is Group.WGMMA and op.label else [i]
        found: list[int] = self.memo[key]
        return found

    # ---------------------------------------------------------------- tiles

    def counts(self) -> tuple[Term, ...]:
        """How many tiles there are, of each loop over tiles."""
        if "counts" not in self.memo:
            self.memo["counts"] = shape(self.g.p).counts
        found: tuple[Term, ...] = self.memo["counts"]
        return found

    def tiles_of(self, s: Site) -> Tiles:
        found = self.g.p.roles[s.role].body[s.position.segment // 2]
        assert isinstance(found, Tiles)
        return found

    def counters(self, s: Site) -> list[Term]:
        """Terms for the tile counter of a site."""
        t = self.tiles_of(s)
        out = [x for x, w, r in self.pool if (w, r) == (t.first, t.stride)]
        if (t.first, t.stride) == (0, 1):
            out += [x * r + w for x, w, r in self.pool if (w, r) != (0, 1)]
        return sorted(set(out), key=repr)

    def name(self, what: Introduction, first: int = 0, stride: int = 1) -> Term:
        """A virtual name for a counter of tiles, with its value in each sample; -99 where there is none."""
        known = self.names.get((what, first))
        if known is not None:
            return known
        name = f"%v{len(self.virtual)}"
        self.virtual[name], self.names[what, first] = (what, first), var(name)
        counts = self.counts()
        for e in self.samples:
            x = value(what.term, e)
            if isinstance(what, NewResidue):
                e[name] = (x - first) // what.modulus if (x - first) % what.modulus == 0 else -99
                continue
            f, top = e[what.function], max((value(c, e) for c in counts), default=1)
            t = next((t for t in range(max(top, 0)) if f(t) <= x < f(t + 1)), None)
            e[name] = -99 if t is None or (t - first) % stride else (t - first) // stride
        return self.names[what, first]

    def _in_tile(self, i: int, n: Term) -> Iterator[Term]:
        """Counters u such that n lies in the loop of that tile."""
        s = self.g.sites[i]
        some: list[Term] = []
        for u in self.counters(s):
            hits = self.masks.inside(i, u, n).bit_count()
            if hits == len(self.samples):
                yield u
                return
            if hits:
                some.append(u)
        f = self.function(s)
        if f is not None:
            yield from self._new_counter(s, f, n)
        yield from some

    def _new_counter(self, s: Site, f: str, at: Term) -> Iterator[Term]:
        """A name for the counter of the tile that holds a term: of the tile, then of its round."""
        t = self.tiles_of(s)
        known = sorted((x * r + w for x, w, r in self.pool), key=repr)
        here = [
            k
            for k in known
            if self.samples and all(_within(e[f], value(k, e), value(at, e)) for e in self.samples)
        ]
        if not here:
            yield self.name(NewTile(f, at), t.first, t.stride)
        elif t.stride > 1 and not self._round_robin(t, here[0]):
            yield self.name(NewResidue(here[0], t.stride), t.first)

    def _round_robin(self, t: Tiles, tile: Term) -> bool:
        own = [x * r + w for x, w, r in self.pool if (w, r) == (t.first, t.stride) and x.names()]
        return any(all(value(x, e) == value(tile, e) for e in self.samples) for x in own)

    def function(self, s: Site) -> str | None:
        """The prefix sums that bound a site's loop."""
        named = {f for c in s.body for f in c.functions() if f in self.g.p.prefix}
        return min(named) if named else None

    # ---------------------------------------------------------------- coordinates

    def at_turn(self, i: int, turn: Term, own: Term | None = None) -> Iterator[tuple[Term, Term]]:
        """Coordinates of a site's event of an iteration. ``own``: its turn in u and n."""
        s = self.g.sites[i]
        own = self.turn(i, var("u"), var("n")) if own is None else own
        a, b = own.parts.get("n", 0), own.parts.get("u", 0)
        if any(not isinstance(x, str) and x.argument.names() & {"u", "n"} for x in own.parts):
            yield from self._at_tile_end(i, own, turn)
            return
        rest = Term({z: k for z, k in own.parts.items() if z not in ("n", "u")}, own.const)
        j = turn - rest
        if a and not b:
            n = _divided(j, a)
            if n is not None:
                if s.position.tiles:
                    yield from ((u, n) for u in self._in_tile(i, n))
                else:
                    yield ZERO, n
            elif a > 1 and not s.position.tiles:
                yield ZERO, self._quotient(own, turn, j, a)
        elif b and not a:
            u = _divided(j, b)
            if u is not None:
                yield u, ZERO
            elif b > 1:
                some = [*self.counters(s), *(x for x, _, r in self.pool if r == b)]
                hit = [x for x in some if self.samples and self._all_at(own, x, turn)]
                yield from ((x, ZERO) for x in hit[:1])
                if not hit and not rest.parts:
                    yield self.name(NewResidue(turn, b), rest.const), ZERO
        elif not a and not b:
            if not s.position.tiles and not s.position.loops:
                yield ZERO, ZERO

    def all_at_turn(self, i: int, turn: Term) -> list[tuple[Term, Term]]:
        """The same as a list, made once."""
        if (i, turn) not in self.met:
            self.met[i, turn] = list(self.at_turn(i, turn))
        return self.met[i, turn]

    def _quotient(self, own: Term, turn: Term, j: Term, a: int) -> Term:
        """The counter n with ``a * n = j``: a quotient that has a name, or a new one."""
        for x in sorted((x for x, _, r in self.pool if r == a), key=repr):
            for off in (-1, 0, 1):
                if self.samples and all(
                    value(own, {**e, "n": value(x, e) + off}) == value(turn, e) for e in self.samples
                ):
                    return x + off
        return self.name(NewResidue(turn, a), (turn - j).const if not (turn - j).parts else 0)

    def _all_at(self, own: Term, u: Term, turn: Term) -> bool:
        return all(value(own, {**e, "u": value(u, e)}) == value(turn, e) for e in self.samples)

    def _at_tile_end(self, i: int, own: Term, turn: Term) -> Iterator[tuple[Term, Term]]:
        """For an index such as P(u + 1) - 1, or in a loop n - P(u) - 1 + Q(u)."""
        s = self.g.sites[i]
        if not s.position.tiles:
            return
        if s.position.loops:
            yield from self._counted(i, own, turn)
            return
        hit = False
        for u in self.counters(s):
            m = self.masks.inside(i, u, ZERO)
            here = [{**e, "u": value(u, e)} for q, e in enumerate(self.samples) if m >> q & 1]
            if any(value(own, e) == value(turn, e) for e in here):
                hit = True
                yield u, ZERO
        if not hit and self.g.p.prefix:
            yield from ((u, ZERO) for u in self._new_counter(s, self.g.p.prefix[0], turn))

    def _counted(self, i: int, own: Term, turn: Term) -> Iterator[tuple[Term, Term]]:
        """For an index in a loop that one function counts from tile to tile."""
        s, rest = self.g.sites[i], own - N
        functions = [a.function for a, k in rest.parts.items() if not isinstance(a, str) and k == 1]
        if "n" in rest.names() or len(functions) != 1:
            return
        hit = False
        for u in self.counters(s):
            n = turn - rest.put({"u": u})
            if self.masks.inside(i, u, n):
                hit = True
                yield u, n
        if not hit:
            new = self._new_counter(s, functions[0], turn)
            yield from ((u, turn - rest.put({"u": u})) for u in new)

    def after(self, step: Step, k: int) -> list[tuple[Term, Term]]:
        """Coordinates of site k soon after a step of its role."""
        key = (step.site, step.u, step.n, k)
        known: list[tuple[Term, Term]] | None = self.memo.get(key)
        if known is None:
            known = self.memo[key] = self._after(step, k)
        return known

    def behind(self, here: Step, k: int, into: Half) -> list[tuple[Step, int]]:
        """Steps of site k soon after one in program order, with the samples in which they are."""
        known = self.follows.get((here, k))
        if known is None:
            known = self.follows[here, k] = []
            for u, n in self.after(here, k):
                b = Step(k, into, u, n)
                m = self.masks.earlier(here, b)
                if m and b != here:
                    known.append((b, m))
        return known

    def hop(self, a: Step, b: Step, how: How, kind: tuple[Level, bool]) -> _Needs:
        """What the kernel says of a hop; None where there is none. ``kind``: whom the path reaches before,
        and whether the hop has to make accesses visible.
        """
        key = (a, b, how, kind)
        if key not in self.memo:
            try:
                self.memo[key] = self.g.hop(a, b, how, *kind)
            except RejectedError:
                self.memo[key] = None
        found: _Needs = self.memo[key]
        return found

    def turn(self, site: int, u: Term, n: Term) -> Term:
        key = (site, u, n)
        known: Term | None = self.memo.get(key)
        if known is None:
            known = self.memo[key] = self.g.turn(site, u, n)
        return known

    def _after(self, step: Step, k: int) -> list[tuple[Term, Term]]:
        x, y = self.g.sites[step.site].position, self.g.sites[k].position
        out: list[tuple[Term, Term]] = []
        if not y.loops:
            tiles = y.tiles and x.tiles
            return [(step.u, ZERO), (step.u + 1, ZERO)] if tiles else [(ZERO, ZERO)]
        lows = [-c.put({"n": ZERO}) for c in self.g.sites[k].domain if c.parts.get("n") == 1] or [ZERO]
        same = (x.segment, x.tiles, x.inner) == (y.segment, y.tiles, y.inner)
        if same:
            out += [(step.u, step.n), (step.u, step.n + 1)]
        if y.tiles:
            starts = [step.u, step.u + 1] if x.tiles else [ZERO]
            out += [(u, low.put({"u": u})) for u in starts for low in lows]
        elif not same:
            out += [(ZERO, low) for low in lows]
            # the last iteration of the loop, from which what follows it is reached as well
            out += [(ZERO, c.put({"n": ZERO})) for c in self.g.sites[k].domain if c.parts.get("n") == -1]
        return list(dict.fromkeys(out))


def _within(f: object, tile: int, x: int) -> bool:
    assert callable(f)
    return bool(f(tile) <= x < f(tile + 1))


def _divided(t: Term, k: int) -> Term | None:
    if any(c % k for c in t.parts.values()) or t.const % k:
        return None
    return Term({z: c // k for z, c in t.parts.items()}, t.const // k)


@dataclass(frozen=True, slots=True)
class _Partial:
    """A path that may go on. ``covered``: the samples in which it holds, as a mask. ``bridged``: whether it
    has gone through a proxy fence that counts. ``reach``: whom its last hop reaches.
    """

    here: Step
    hops: Hops
    covered: int
    bridged: bool
    reach: Level


class _Visited:
    """The steps that paths have come to, with the samples in which they have."""

    def __init__(self, masks: Masks) -> None:
        self.masks = masks
        self.best: dict[tuple[int, Half, bool, Level], list[tuple[int, tuple[int, int]]]] = {}

    def is_news(self, path: _Partial) -> bool:
        """Whether no path has come to this step, or to one no later, in some sample; notes it if so."""
        masks, b = self.masks, path.here
        kept = self.best.setdefault((b.site, b.half, path.bridged, path.reach), [])
        at = (masks.number(b.u), masks.number(b.n))
        open_ = path.covered
        for mask, old in kept:
            open_ &= ~(mask & masks.no_later(old, at))
            if not open_:
                return False
        if open_:
            kept.append((path.covered, at))
        return bool(open_)


@dataclass(slots=True)
class PathSearch:
    """Paths of one obligation, best first. ``far``: at least how many hops are left from each place."""

    steps: Steps
    goal: Reaches
    far: bytearray = field(init=False)
    fences: frozenset[Kind] = field(init=False)  # see ``Distances.fences``

    def __post_init__(self) -> None:
        distances = self.steps.distances()
        self.far = distances.to(self.goal)
        self.fences = distances.fences(self.goal)

    @property
    def g(self) -> Graph:
        return self.steps.g

    def rounds(self, slack: int) -> Rounds:
        """The search for candidates, which has not begun yet. ``slack``: by how many hops paths may be longer
        than the least number that is known.
        """
        start, every = self.goal.start, (1 << len(self.steps.samples)) - 1
        there = self.steps.masks.inside(start.site, start.u, start.n) & every
        front = [_Partial(start, (), there, not self.fences, Level.THREAD)]
        least = self.left(front[0])
        return Rounds(
            self,
            min(least + slack, ROUNDS),
            every,
            front if there and least < ROUNDS else [],
            _Visited(self.steps.masks),
        )

    def left(self, x: _Partial) -> int:
        """At least how many hops a path lacks."""
        return self.far[place(x.here.site, x.here.half, ready=x.bridged)]

    def is_near(self, site: int, half: Half, path: _Partial, most: int) -> bool:
        """Whether so many hops may lead on from a place that a path comes to next."""
        fenced = path.bridged or self.g.sites[site].op.kind in self.fences
        return self.far[place(site, half, ready=fenced)] <= most

    def ended(self, path: _Partial) -> Iterator[tuple[Hops, int]]:
        """The path with a last hop to where it has to come, and the samples in which it gets there."""
        here, hops, demand = path.here, path.hops, self.goal.demand
        ready = path.bridged or not demand.bridge
        if ready and path.reach >= demand.level and here.half is not Half.DONE:
            for end, by_program_order in self._ends(here):
                covered = self._covers(here, end, path.covered)
                if covered:
                    yield (*hops, (_UNDECIDED if by_program_order else Same(), end)), covered
        if self.goal.goal is None and self.goal.half is Half.OUT and hops and self._arrived(here):
            yield hops, path.covered

    def longer(self, path: _Partial, most: int) -> Iterator[_Partial]:
        """The path with one hop more, after which it lacks at most so many."""
        hops = path.hops
        fences = Kind.INIT_FENCE if self._inits() else Kind.FENCE
        for how, b, covered, reach in self._onward(path, most):
            fence = self.g.sites[b.site].op.kind is fences
            near = reach is Level.THREAD or self.g.policy is Policy.PRACTICAL
            bridged = path.bridged or (fence and near) or (not hops and self._used(b))
            new = _Partial(b, (*hops, (how, b)), covered, bridged, reach)
            if self.left(new) <= most:
                yield new

    def _onward(self, path: _Partial, most: int) -> Iterator[tuple[How, Step, int, Level]]:
        """Hops from a step, with the samples in which they hold and whom they reach."""
        here, hops, covered, bridged = path.here, path.hops, path.covered, path.bridged
        for how, b in self._next(path, most):
            found = self._follow(here, b, how, path.reach, hops, covered)
            if found is not None:
                yield how, b, *found
        if here.half is Half.DONE:
            return
        causal = self.goal.demand.causal
        for k in self.steps.leads(self.g.sites[here.site].role):
            kind = self.g.sites[k].op.kind
            into = Half.IN if kind in (Kind.SYNC, Kind.JOIN) else Half.OUT
            if self.is_near(k, into, path, most) and self._useful(kind, bridged, causal, hops):
                for b, there in self.steps.behind(here, k, into):
                    if covered & there:
                        yield _UNDECIDED, b, covered & there, path.reach

    def _inits(self) -> bool:
        """Whether the path starts at an init, which a fence of its own may release."""
        return self.g.sites[self.goal.start.site].op.kind is Kind.INIT

    def _causal(self, a: Step, b: Step, how: How, hops: Hops) -> bool:
        own = self._inits() and all(isinstance(h, Program | Same) for h, _ in hops)
        fenced = own and any(self.g.sites[s.site].op.kind is Kind.INIT_FENCE for _, s in hops)
        return self.goal.demand.causal and not (fenced and self.g._meets(a, b, how))

    def _arrived(self, here: Step) -> bool:
        return here.site in self.goal.sites and here.half is self.goal.half

    def _used(self, b: Step) -> bool:
        start = self.goal.start
        x, y = self.g.sites[start.site], self.g.sites[b.site]
        same = x.role == y.role and (b.u, b.n) == (start.u, start.n) and b.half is Half.OUT
        by_use = self.goal.demand.by_use and self.g.policy is Policy.PRACTICAL and start.half is Half.OUT
        return by_use and same and y.op.kind is Kind.USE and bool(x.op.label) and x.op.label == y.op.label

    def _ends(self, here: Step) -> list[tuple[Step, bool]]:
        """Last steps, and whether program order leads there."""
        goal = self.goal
        if goal.goal is not None:
            return [(goal.goal, True)]
        if goal.turn is None:
            return []
        out: list[tuple[Step, bool]] = []
        for k in goal.sites:
            if self.g.sites[k].role == self.g.sites[here.site].role:
                out += [(Step(k, Half.IN, u, n), True) for u, n in self.steps.at_turn(k, goal.turn)]
        return out

    def _covers(self, here: Step, goal: Step, covered: int) -> int:
        masks = self.steps.masks
        m = covered & masks.earlier(here, goal)
        turn = self.goal.turn
        if not m or turn is None:
            return m
        own = self.steps.turn(goal.site, goal.u, goal.n)
        return m & masks.equal(masks.number(own), masks.number(turn))

    def _follow(
        self, a: Step, b: Step, how: How, reach: Level, hops: Hops, covered: int
    ) -> tuple[int, Level] | None:
        """The samples in which a hop that is no program order holds, and whom it reaches."""
        masks, m = self.steps.masks, covered
        if isinstance(how, Drained):
            twin = a.site if how.twin is None else how.twin
            for x, y in pairwise([Step(twin, Half.OUT, a.u, a.n), *how.commits, b]):
                m &= masks.earlier(x, y)
            if self.g.sites[a.site].op.group is Group.WGMMA:
                wide = Level.WARP if self.g.policy is Policy.STRICT else Level.WARPGROUP
                reach = max(reach, wide)
            return (m, reach) if m else None
        if self.goal.demand.causal and not self.g.hands_on(self.goal.start, a, how):
            return None
        found = self.steps.hop(a, b, how, (reach, self._causal(a, b, how, hops)))
        if found is None:
            return None
        needs, reach = found
        m = masks.holds(needs, m)
        return (m, reach) if m else None

    def ranked(self, results: list[Found]) -> Iterator[Found]:
        """The best few partial paths, and what they would need to be introduced."""
        n = len(self.steps.samples)
        out: list[Found] = []
        seen: set[Introduction] = set()
        kept = 0
        most = max((f.covers for f in results if f.hops and self.introduced(f.hops) is None), default=0)
        for f in sorted(results, key=lambda f: -f.covers):
            it = self.introduced(f.hops or ())
            if it is not None:
                if it in seen or len(seen) > 2:
                    continue
                seen.add(it)
                free = isinstance(it, NewResidue) or self.in_range(it)
                first = free and (f.covers >= most or isinstance(it, NewResidue))
                out.append(Found(None, it, f.covers + n + 1 if first else f.covers))
            elif kept < 3:
                kept += 1
                out.append(f)
        yield from out

    def in_range(self, it: NewTile) -> bool:
        """Whether the tile exists under the premises."""
        premises = self.steps.premises
        tops = shape(self.g.p).counts
        return any(
            all(entails(premises, x) for x in (it.term, apply(it.function, top) - it.term - 1, top))
            for top in tops
        )

    def introduced(self, hops: Iterable[tuple[How, Step]]) -> Introduction | None:
        """What a path has to have introduced first."""
        for how, b in ((Same(), self.goal.start), *hops):
            commits = how.commits if isinstance(how, Drained) else ()
            for s in (b, *commits):
                for x in (*sorted(s.u.names()), *sorted(s.n.names())):
                    if x.startswith("%v"):
                        return self.steps.virtual[x][0]
        return None

    def _next(self, path: _Partial, most: int) -> Iterator[tuple[How, Step]]:
        g, step, hops = self.g, path.here, path.hops
        i = step.site
        op, half = g.sites[i].op, step.half
        causal = self.goal.demand.causal
        if half is Half.OUT and op.kind in (Kind.COPY, Kind.ASYNC) and not causal:
            yield Same(), Step(i, Half.DONE, step.u, step.n)
        if half is Half.IN and not hops:
            yield Same(), Step(i, Half.OUT, step.u, step.n)
        arrives = half is Half.OUT and op.kind in (Kind.ARRIVE, Kind.EXPECT)
        if arrives or (half is Half.DONE and op.kind is Kind.COPY):
            yield from self._turns(path, Kind.WAIT, most)
        if half is Half.IN and op.kind in (Kind.SYNC, Kind.JOIN):
            yield from self._turns(path, Kind.SYNC, most)
        if half is Half.DONE and op.kind is Kind.ASYNC:
            yield from self._drains(step)

    def _turns(self, path: _Partial, who: Kind, most: int) -> Iterator[tuple[How, Step]]:
        """Those who wait for the turn of a path's last step."""
        g, step = self.g, path.here
        i = step.site
        turn = self.steps.turn(i, step.u, step.n)
        for k in g.of(g.sites[i].op.ring, (who,)):
            if self.is_near(k, Half.OUT, path, most):
                yield from ((Turn(), Step(k, Half.OUT, u, n)) for u, n in self.steps.all_at_turn(k, turn))

    def _useful(self, kind: Kind, bridged: bool, causal: bool, hops: Hops) -> bool:
        """Whether program order to such an operation can lead anywhere."""
        if kind in (Kind.ARRIVE, Kind.SYNC, Kind.JOIN):
            return True
        if kind in (Kind.EXPECT, Kind.COPY):
            return not causal
        if kind is Kind.INIT_FENCE:
            return self._inits() and not bridged
        if kind is Kind.FENCE:
            return not bridged and not self._inits()
        return kind is Kind.USE and not bridged and not hops

    def _next_commits(self, last: Step, commits: Sequence[int]) -> list[Step]:
        """The commits soon after a step, without those that others come before wherever they are."""
        masks = self.steps.masks
        some = [
            Step(q, Half.OUT, u, n)
            for q in commits
            for u, n in self.steps.after(last, q)
            if Step(q, Half.OUT, u, n) != last
        ]
        there = {b: m for b in some if (m := masks.earlier(last, b))}

        def first(b: Step) -> bool:
            left = there[b]
            for x, m in there.items():
                left &= ~(m & masks.earlier(x, b)) if x != b else left
            return bool(left)

        return [b for b in there if first(b)]

    def _drains(self, step: Step) -> Iterator[tuple[How, Step]]:
        """Drains after a completion, with the commits between."""
        g, i = self.g, step.site
        op = g.sites[i].op
        for twin in self.steps.twins(i):
            own = self.steps.of_role(g.sites[twin].role)
            start = Step(twin, Half.OUT, step.u, step.n)
            commits = [k for k in own if (g.sites[k].op.kind, g.sites[k].op.group) == (Kind.COMMIT, op.group)]
            for k in own:
                y = g.sites[k]
                if y.op.kind is not Kind.DRAIN or y.op.group is not op.group:
                    continue
                chains: list[list[Step]] = [[start]]
                for _ in range(y.op.count + 1):
                    chains = [[*c, b] for c in chains for b in self._next_commits(c[-1], commits)][:12]
                for c in chains:
                    for u, n in self.steps.after(c[-1], k):
                        how = Drained(tuple(c[1:]), (), None if twin == i else twin)
                        yield how, Step(k, Half.OUT, u, n)


@dataclass(slots=True)
class Rounds:
    """The search for the paths of one obligation, round by round: each makes paths longer by a hop.

    ``most``: hops of a path; ``every``: the mask of all samples. ``whole``: a path that covers all of them.
    ``masks``: what paths cover that need no new names, with the first such path.
    """

    search: PathSearch
    most: int
    every: int
    front: list[_Partial]
    visited: _Visited
    made: int = 0
    whole: Found | None = None
    results: list[Found] = field(default_factory=list)
    masks: dict[int, Found] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.whole is not None or self.made > self.most or not self.front

    def step(self) -> None:
        """One round."""
        search, longer = self.search, list[_Partial]()
        self.made += 1
        for path in self.front:
            for hops, covered in search.ended(path):
                it = search.introduced(hops)
                found = Found(hops, None, covered.bit_count(), covered)
                if covered == self.every:
                    self.whole = found if it is None else Found(None, it, found.covers, covered)
                    return
                self.results.append(found)
                if it is None:
                    self.masks.setdefault(covered, found)
            longer += filter(self.visited.is_news, search.longer(path, self.most - self.made))
        self.front = sorted(longer, key=search.left)[:WIDTH]

    def candidates(self) -> Iterator[Found]:
        """What was found when the search is over, best first; a path that covers all samples comes alone."""
        while not self.over:
            self.step()
        if self.whole is not None:
            yield self.whole
        else:
            yield from self.search.ranked(self.results)

    def complement_in(self, other: Rounds) -> tuple[Found, Found] | None:
        """Paths of this search and of another one that together cover all samples."""
        for mask, found in self.masks.items():
            for rest, more in other.masks.items():
                if mask | rest == self.every:
                    return found, more
        return None


def both(one: Rounds, other: Rounds) -> tuple[Found, Found] | None:
    """Paths of two searches that together cover all samples, if the searches come to them before one of them
    covers all samples by itself. They are short ones: neither search has to end for them.
    """
    while not one.over and not one.masks:
        one.step()
    for search in (other, one):
        while one.whole is None and other.whole is None:
            pair = one.complement_in(other)
            if pair is not None:
                return pair
            if search.over:
                break
            search.step()
    return None


__all__ = [
    "Found",
    "Introduction",
    "Named",
    "NewResidue",
    "NewTile",
    "PathSearch",
    "Rounds",
    "Steps",
    "both",
    "num",
]
