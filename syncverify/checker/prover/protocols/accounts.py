"""Trees of accounting: who contributes to an iteration, found on samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from syncverify.checker.kernel.hops import Half, Step
from syncverify.checker.kernel.linear import Sum, Term, equal
from syncverify.checker.kernel.obligations import Constraints
from syncverify.checker.kernel.proof import Events
from syncverify.checker.kernel.protocol import N2, U2, J, Kind, Level, N, U
from syncverify.checker.kernel.trees import Absurd, Leaf, Split, Tree
from syncverify.checker.prover.protocols.claims import NotFoundError, landing, weight
from syncverify.checker.prover.protocols.multipliers import Premises, absurd, entails, shown
from syncverify.checker.prover.protocols.paths import Introduction, Named, NewResidue, NewTile, Steps
from syncverify.checker.prover.protocols.pruning import pruned
from syncverify.checker.prover.protocols.search import NOBODY, Search, _wrapped
from syncverify.checker.prover.protocols.sizes import Sample, holds, value

MOST_NODES = 160
_Event = tuple[int, Term, Term]


@dataclass(slots=True)
class Account:
    """The search for one tree of a ring's turns."""

    search: Search
    ring: str
    sites: list[int]
    turn: Callable[[int, Term, Term], Term]
    wanted: int  # arrivals in every iteration; -1 where the turn stays open

    def build(
        self,
        premises: list[Term],
        some: list[Sample],
        depth: int,
        done: frozenset[object],
        pool: frozenset[Named],
    ) -> Tree:
        s = self.search
        s.spend()
        wraps, premises, done = s.close(premises, done, (), some)
        if not some and self.wanted >= 0:
            return _wrapped(wraps, self.nowhere(premises, depth, done, pool))
        if depth < 0:
            raise NotFoundError("iterations are distinguished too often")

        def split(on: Term) -> Tree:
            up = [e for e in some if value(on, e) >= 0]
            down = [e for e in some if value(on, e) < 0]
            yes = self.build([*premises, on], up, depth - 1, done, pool)
            return _wrapped(
                wraps, Split(on, yes, self.build([*premises, -on - 1], down, depth - 1, done, pool))
            )

        events, partly, new = self.candidates(premises, some, pool)
        if partly is not None:
            i, u, n = partly
            for need in self.needs(i, u, n):
                if any(value(need, e) < 0 for e in some):
                    return split(need)
        total = sum(
            weight(s.g, i) if self.wanted != 1 or s.g.sites[i].op.kind is not Kind.INIT else 1
            for i, _, _ in events
        )
        if self.wanted >= 0 and total != self.wanted:
            if new is None:
                raise NotFoundError(f"{total} of {self.wanted} arrivals in a turn of {self.ring}")

            def below(more: list[Term], there: list[Sample], named: Named) -> Tree:
                return self.build([*premises, *more], there, depth - 1, done, pool | {named})

            return _wrapped(wraps, s.named(new, premises, some, below))
        sums: list[Sum] = []
        given = Premises(premises)
        for need in [c for e in events for c in self.needs(*e)] if self.wanted >= 0 else []:
            by = shown(given, need)
            if by is not None and by[1]:
                return _wrapped(wraps, Absurd(by[0]))
            if by is None:
                for on in [*s.orders(premises), need]:
                    try:
                        return split(on)
                    except NotFoundError:
                        continue
                raise NotFoundError(f"{need} >= 0 does not follow in a turn of {self.ring}")
            sums.append(by[0])
        only = self.each_alone(events, premises, some, done, pool)
        return _wrapped(wraps, Leaf(Events(tuple(events), only), tuple(sums)))

    def begin(self, given: list[Term], depth: int, new: Introduction | None) -> Tree:
        """The tree under what is given. ``new``: what is introduced before all else."""
        s, premises = self.search, [*self.search.base, *given]

        def below(more: list[Term], there: list[Sample], named: Named) -> Tree:
            return self.build([*premises, *more], there, depth, frozenset(), frozenset({named}))

        if new is not None:
            return s.named(new, premises, s.meeting(given), below)
        return self.build(premises, s.meeting(given), depth, frozenset(), frozenset())

    def nowhere(
        self, premises: list[Term], depth: int, done: frozenset[object], pool: frozenset[Named]
    ) -> Tree:
        """A case without samples should be absurd, perhaps after splits."""
        by = absurd(premises)
        if by is not None:
            return Absurd(by)
        if depth >= 0:
            for c in self.search.orders(premises):
                try:
                    yes = self.build([*premises, c], [], depth - 1, done, pool)
                    return Split(c, yes, self.build([*premises, -c - 1], [], depth - 1, done, pool))
                except NotFoundError:
                    continue
        raise NotFoundError(f"turns of {self.ring} that no small size has are not absurd")

    def needs(self, i: int, u: Term, n: Term) -> list[Term]:
        return [*self.search.g.exists(Step(i, Half.IN, u, n)), *equal(self.turn(i, u, n), J)]

    def candidates(
        self, premises: list[Term], some: list[Sample], pool: frozenset[Named]
    ) -> tuple[list[_Event], _Event | None, Introduction | None]:
        """Who is in the turn: in all samples; in some only, the first; and what has to be introduced."""
        s = self.search
        steps = Steps(s.g, [dict(e) for e in some], pool, premises, memo=s.memo)
        events: list[_Event] = []
        partly: _Event | None = None
        new: Introduction | None = None
        for i in self.sites:
            for u, n in steps.at_turn(i, J, self.turn(i, U, N)):
                virtual = [x for t in (u, n) for x in sorted(t.names()) if x.startswith("%v")]
                if virtual:
                    what = steps.virtual[virtual[0]][0]
                    there = any(e[virtual[0]] >= 0 for e in steps.samples)
                    if there and (isinstance(what, NewResidue) or self.in_range(what, premises)):
                        new = new or what
                    continue
                needs = self.needs(i, u, n)
                hits = [holds(needs, e) for e in steps.samples]
                if hits and all(hits):
                    events.append((i, u, n))
                    break
                if any(hits) and partly is None:
                    partly = (i, u, n)
        return events, partly, new

    def in_range(self, what: Introduction, premises: Sequence[Term]) -> bool:
        s = self.search
        return isinstance(what, NewTile) and any(
            all(entails(premises, x) for x in s._range(what, top)) for top in s.tops
        )

    def given(self, i: int) -> tuple[Term, ...]:
        """That some event of a site is in this iteration."""
        return *self.search.g.exists(Step(i, Half.IN, U2, N2)), *equal(self.turn(i, U2, N2), J)

    def each_alone(
        self, events: Sequence[_Event], premises: list[Term], some: list[Sample], done: frozenset[object],
        pool: frozenset[Named],
    ) -> dict[int, Tree]:  # fmt: skip
        """For each site, that the listed events are all of it; sites that execute alike share a tree."""
        known: dict[tuple[Sequence[Term], ...], Tree] = {}
        out: dict[int, Tree] = {}
        for i in self.sites:
            asked = self.given(i), tuple(t for k, *at in events if k == i for t in at)
            if asked not in known:
                known[asked] = self.alone(i, events, premises, some, done, pool)
            out[i] = known[asked]
        return out

    def alone(
        self, i: int, events: Sequence[_Event], premises: list[Term], some: list[Sample],
        done: frozenset[object], pool: frozenset[Named],
    ) -> Tree:  # fmt: skip
        """That each event of a site in this iteration is the one that is listed."""
        s = self.search
        mine = [(u, n) for k, u, n in events if k == i]
        given = self.given(i)
        if not mine:
            nobody = s.solve([*premises, *given], [], Constraints(()), 5, done | {NOBODY}, pool)
            return pruned(nobody, len(premises) + len(given))
        u, n = mine[0]
        there = [{**e, "u'": value(u, e), "n'": value(n, e)} for e in some]
        goal = Constraints((*equal(U2, u), *equal(N2, n)))
        return pruned(s.solve([*premises, *given], there, goal, 5, done, pool), len(premises) + len(given))


def trees(search: Search, ring: str, end: Term, only: str) -> dict[str, Tree]:
    """One of the trees that a ring's accounting owes."""
    g = search.g
    r = g.p.rings[ring]
    lands = landing(g, ring)
    wanted = r.count if lands else 0
    if r.named and r.level is not Level.ALL:
        wanted *= len({t // g.p.warp for i in lands for t in g.threads(i)})
    out: dict[str, Tree] = {}
    for what, some, given, total in (
        ("full", lands, [J, end - J - 1], wanted),
        ("open", lands, [J, J - end, end + r.depth - J - 1], -1),
        ("init", g.of(ring, (Kind.INIT,)), [J, r.depth - J - 1], 1),
    ):
        if what != only:
            continue
        turn = _index(search) if what == "init" else g.turn
        search.left = MOST_NODES + 12 * len(some) ** 2
        account = Account(search, ring, some, turn, total)
        key = f"{what} {ring}"
        each = {g.sites[i].op.index.parts.get("u", 0) for i in some}
        several = what == "full" and len(each) == 1 and min(each) > 2  # meetings of each tile
        new = NewResidue(J, min(each)) if several else None
        try:
            out[key] = account.begin(given, max(8, 2 * len(some) + 4), new)
        except NotFoundError as e:
            raise NotFoundError(f"{key}: {e}") from None
    return out


def _index(search: Search) -> Callable[[int, Term, Term], Term]:
    def index(i: int, u: Term, n: Term) -> Term:
        return search.g.sites[i].op.index.put({"u": u, "n": n})

    return index
