"""Case trees for obligations: samples suggest paths and splits, sums of premises confirm them.

The recursion keeps a list of premises and the samples that meet them. A payload whose needs all follow
closes a leaf. A need that fails in some sample becomes a split. Without samples the premises should
contradict each other, perhaps after splits on the order of tiles.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise, product
from math import gcd
from typing import Any

from syncverify.checker.kernel.accept import always
from syncverify.checker.kernel.hops import Drained, Graph, Half, How, Program, Same, Step
from syncverify.checker.kernel.linear import RejectedError, Sum, Term, apply, equal, num, var
from syncverify.checker.kernel.obligations import Constraints, Either, Observed, Owed, Reaches
from syncverify.checker.kernel.proof import Along, Follows, Grows, Payload, SameEvent
from syncverify.checker.kernel.protocol import N2, U2, N, Protocol, Tiles, U, exists
from syncverify.checker.kernel.ranks import Higher
from syncverify.checker.kernel.trees import Absurd, Instance, Leaf, Monotone, Residues, Split, Tile, Tree
from syncverify.checker.prover.protocols.claims import NotFoundError
from syncverify.checker.prover.protocols.masks import Masks
from syncverify.checker.prover.protocols.multipliers import Premises, absurd, entails, shown
from syncverify.checker.prover.protocols.paths import (
    ROUNDS,
    SHORT,
    SHORTEST,
    Hops,
    Introduction,
    Named,
    NewTile,
    PathSearch,
    Rounds,
    Steps,
    both,
)
from syncverify.checker.prover.protocols.pruning import pruned, without
from syncverify.checker.prover.protocols.sizes import (
    Plan,
    Sample,
    column,
    holds,
    samples,
    shape,
    value,
)

#: Nodes of one tree, and how deep it may be.
MOST_NODES, DEEPEST = 300, 10
#: Samples of one obligation.
MOST_SAMPLES = 48
#: Times the samples of one obligation that are found before some are drawn.
ENOUGH = 8
#: Sizes among which a need is refuted that holds in all samples, and samples of one size that are kept.
MORE, FEW = 60, 2
#: The counters of an obligation, in the order in which they get numbers.
COUNTERS = ("j", "u", "n", "u'", "n'")

Wrap = Callable[[Tree], Tree]
_Done = frozenset[object]
#: Among what is done: contradictions were looked for by a tile that nothing names.
_NEXT = "next tile"
#: Among what is done: more sizes say nothing, for the goal is a contradiction.
NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A path in one direction. ``other``: one in the other direction, for the samples that this one does not
    cover.
    """

    goal: Reaches
    hops: Hops
    reverse: bool = False
    other: Candidate | None = None


Hint = Candidate | None
Choice = Candidate | Introduction | Payload


@dataclass(slots=True)
class Search:
    """The search for the trees of one protocol under fixed turns and ends."""

    p: Protocol
    rnd: random.Random
    sizes: list[Sample]
    g: Graph
    tops: tuple[Term, ...] = ()
    base: list[Term] = field(default_factory=list)
    fresh: int = 0
    left: int = 0
    hopeless: set[frozenset[Term]] = field(default_factory=set)
    memo: dict[Hashable, Any] = field(default_factory=dict)  # of steps of its graph

    @classmethod
    def of(cls, p: Protocol, rnd: random.Random, many: int, g: Graph) -> Search:
        sizes = samples(p, rnd, many)
        if not sizes:
            raise NotFoundError("no small size meets the facts")
        return cls(p, rnd, sizes, g, shape(p).counts, always(p))

    # ---------------------------------------------------------------- samples

    def meeting(self, given: Sequence[Term], limit: int = MOST_SAMPLES) -> list[Sample]:
        """Small sizes with counters that meet the premises; the same ones for equal premises."""
        key = ("meeting", frozenset(given), limit)
        if key not in self.memo:
            self.memo[key] = self._meeting(given, limit)
        found: list[Sample] = self.memo[key]
        return found

    def _meeting(self, given: Sequence[Term], limit: int) -> list[Sample]:
        named = {a for h in given for a in h.names()}
        plan = Plan.of(given, [v for v in COUNTERS if v in named])
        out: list[Sample] = []
        for e in self.sizes:
            found = self._counters(plan, e)
            if len(found) > 10:
                found = self.rnd.sample(found, 10)
            out += found
            if len(out) > ENOUGH * limit:
                break
        if len(out) <= limit:
            return out
        out = self.rnd.sample(out, len(out))
        first = {e["j"]: i for i, e in reversed(list(enumerate(out)))}  # each iteration at least once
        kept = set(list(first.values())[: limit // 2])
        return [e for i, e in enumerate(out) if i in kept] + [e for i, e in enumerate(out) if i not in kept][
            : limit - len(kept)
        ]

    def _counters(self, plan: Plan, e: Sample) -> list[Sample]:
        return plan.solutions(e, *self._most(e)) if all(c(e) >= 0 for c in plan.still) else []

    def _most(self, e: Sample) -> tuple[int, int]:
        """How many tiles and steps are looked at where sizes have these values."""
        if "meetings" not in self.memo:  # of two tiles, say
            self.memo["meetings"] = max((s.op.index.parts.get("u", 1) for s in self.g.sites), default=1)
        key = ("most", id(e))  # of sizes, which are all kept
        if key not in self.memo:
            tiles = max([1, *(value(c, e) for c in self.tops)])
            numbers = [x for x in e.values() if isinstance(x, int)]
            steps = [e[f](tiles) for f in self.p.prefix]
            self.memo[key] = tiles, max([*steps, tiles * self.memo["meetings"], *numbers]) + 5
        found: tuple[int, int] = self.memo[key]
        return found

    def among_more(self, given: Sequence[Term]) -> list[Sample]:
        """Values among many more sizes that meet all premises."""
        key = ("more", frozenset(given))
        if key in self.memo:
            return list(self.memo[key])
        if "more" not in self.memo:
            self.memo["more"] = samples(self.p, random.Random(MORE), MORE)
        named = {a for h in given for a in h.names()}
        introduced = sorted(a for a in named if a.startswith("%"))
        plan = Plan.of(given, [v for v in (*COUNTERS, *introduced) if v in named])
        found: list[Sample] = []
        for e in self.memo["more"]:
            found += self._counters(plan, e)[:FEW]
            if len(found) >= ENOUGH * FEW:
                break
        self.memo[key] = found
        return list(found)

    # ---------------------------------------------------------------- axioms

    def close(
        self, premises: list[Term], done: _Done, extra: Sequence[Term] = (), some: Sequence[Sample] = ()
    ) -> tuple[list[Wrap], list[Term], _Done]:
        """The axioms of functions that apply to the terms in sight. ``some``: samples of the premises."""
        wraps: list[Wrap] = []
        have = set(done)
        now = list(premises)
        if not self.p.prefix and not self.p.schemas:
            return wraps, now, done
        for _ in range(2):
            before = len(wraps)
            for f, args in self._arguments([*now, *extra]).items():
                ordered = sorted(args, key=repr)
                if f in self.p.prefix:
                    self._grows(f, _rising(ordered, some), now, have, wraps)
                self._schemas(f, args, now, have, wraps)
            if len(wraps) == before:
                break
        return wraps, now, frozenset(have)

    def _arguments(self, terms: Sequence[Term]) -> dict[str, set[Term]]:
        out: dict[str, set[Term]] = {}
        for t in terms:
            for a in t.parts:
                if not isinstance(a, str):
                    out.setdefault(a.function, set()).add(a.argument)
        for f in out:
            out[f] |= set(self.tops)
        return out

    def _grows(
        self, f: str, pairs: list[tuple[Term, Term]], now: list[Term], have: set[object], wraps: list[Wrap]
    ) -> None:
        signs = {(x, k > 0) for h in now for x, k in h.parts.items()}
        number = {x: i for i, x in enumerate({x: None for pair in pairs for x in pair})}
        premises = Premises(now)
        above, below = [0] * len(number), [0] * len(number)  # which arguments are known to be so, as bits

        def known(i: int, k: int) -> None:
            above[i] |= 1 << k
            below[k] |= 1 << i

        for _, a, b in (x for x in have if isinstance(x, tuple) and x[0] == f):
            if a in number and b in number:
                known(number[a], number[b])
        for a, b in pairs:
            up = b - a
            if not up.parts and up.const < 0:
                continue
            i, k = number[a], number[b]
            if above[i] & below[k]:
                continue  # a sum of the two says so
            # a sum has each name from some premise, and with its sign
            if above[i] >> k & 1 or not signs.issuperset((x, m > 0) for x, m in up.parts.items()):
                continue
            by = shown(premises, up)
            if by is None or by[1]:
                continue
            have.add((f, a, b))
            known(i, k)
            wraps.append(_monotone(f, a, b, by[0]))
            now.append(apply(f, b) - apply(f, a))
            premises = Premises(now)
            signs |= {(x, k > 0) for x, k in now[-1].parts.items()}

    def _schemas(
        self, f: str, args: set[Term], now: list[Term], have: set[object], wraps: list[Wrap]
    ) -> None:
        for k, schema in enumerate(self.p.schemas):
            if f not in schema.functions():
                continue
            at = {a for a in args if a + 1 in args}
            at |= {Term(a.parts) for a in args if a.parts and a not in self.tops}
            for a in sorted(at, key=repr):
                if ("schema", k, a) in have:
                    continue
                have.add(("schema", k, a))
                wraps.append(_instance(k, a))
                now.append(schema.put({"x": a}))

    def orders(self, some: Sequence[Term]) -> list[Term]:
        """Splits on the order of tiles, and of arguments of functions."""
        premises = Premises(some)
        named = {a for h in premises for a in h.names()}
        us = sorted(a for a in named if a in ("u", "u'") or a.startswith("%"))
        first: list[Term] = []
        if any(abs(k) > 1 for h in premises for k in h.parts.values()):
            counters = sorted({*us, *(named & {"n", "n'"})})
            for i, a in enumerate(counters):
                for b in counters[i + 1 :]:
                    for k in range(-3, 4):
                        c = var(a) - var(b) + k
                        if entails(premises, c) and entails(premises, -c - 1):
                            return [c]
        for i, a in enumerate(us):
            for b in us[i + 1 :]:
                first += [c for c in (var(a) - var(b), var(b) - var(a)) if self._open(premises, c)]
        rest: list[Term] = []
        arguments = self._arguments(premises)
        for args in arguments.values():
            bare = sorted({Term(a.parts) for a in args if a.parts and a not in self.tops}, key=repr)
            rest += [b - a - 1 for a in bare for b in bare if a != b and self._open(premises, b - a - 1)]
        has_strides = any(k > 1 for args in arguments.values() for a in args for k in a.parts.values())
        return list(dict.fromkeys([*first, *rest] if has_strides else [*rest, *first]))[:6]

    @staticmethod
    def _open(premises: Premises, c: Term) -> bool:
        return entails(premises, c) == entails(premises, -c - 1)

    # ---------------------------------------------------------------- the recursion

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise NotFoundError("the tree becomes too large")

    def solve(
        self, premises: list[Term], some: list[Sample], goal: object, depth: int, done: _Done,
        pool: frozenset[Named], hint: Hint = None,
    ) -> Tree:  # fmt: skip
        """A tree for the goal under the premises; NotFoundError where none was found."""
        self.spend()
        by = None if some else absurd(premises)
        if by is not None:
            return Absurd(by)
        found = None if some else remainders(premises)
        if found is not None:
            return found
        wraps, premises, done = self.close(premises, done, (), some)
        if not some:
            by = absurd(premises)
            if by is not None:
                return _wrapped(wraps, Absurd(by))
            some = [] if NOBODY in done else self.among_more(premises)
        if not some:
            return _wrapped(wraps, self.contradiction(premises, goal, depth, done, pool, hint))
        reason = "no path"
        for known in (hint, hint.other) if hint is not None else ():
            if known is None or not self.covers(known, some):
                continue
            try:
                return _wrapped(wraps, self.finish(premises, some, goal, known, depth, done, pool))
            except NotFoundError as e:
                reason = str(e)
                if depth <= 0:
                    raise
        for choice in self.choices(goal, premises, some, pool):
            if isinstance(choice, NewTile) or not isinstance(choice, Candidate | Payload):
                found = self.introduce(choice, premises, some, goal, depth, done, pool)
                if found is not None:
                    return _wrapped(wraps, found)
                continue
            try:
                return _wrapped(wraps, self.finish(premises, some, goal, choice, depth, done, pool))
            except NotFoundError as e:
                reason = str(e)
                if depth <= 0:
                    raise
        raise NotFoundError(reason)

    def contradiction(
        self, premises: list[Term], goal: object, depth: int, done: _Done, pool: frozenset[Named], hint: Hint
    ) -> Tree:
        by = absurd(premises)
        if by is not None:
            return Absurd(by)
        if depth <= 0:
            raise NotFoundError("a case that no small size meets is not absurd")
        if hint is not None:
            try:
                return self.finish(premises, [], goal, hint, min(depth, 3), done, pool)
            except NotFoundError:
                pass
        key = frozenset(premises)
        if key not in self.hopeless:
            for c in self.orders(premises):
                try:
                    return _cases(
                        c,
                        len(premises),
                        self.solve([*premises, c], [], goal, depth - 1, done, pool),
                        partial(self.solve, [*premises, -c - 1], [], goal, depth - 1, done, pool),
                    )
                except NotFoundError:
                    continue
            found = self.next_tile(premises, goal, depth, done, pool)
            if found is not None:
                return found
            self.hopeless.add(key)
        raise NotFoundError("a case that no small size meets is not absurd")

    def next_tile(
        self, premises: list[Term], goal: object, depth: int, done: _Done, pool: frozenset[Named]
    ) -> Tree | None:
        """A contradiction by the steps of a tile that nothing names, if there is such a tile."""
        if _NEXT in done:
            return None
        done |= {_NEXT}
        for f, args in self._arguments(premises).items():
            behind = [a for a in args if a.parts and a.const and a not in self.tops and a + 1 not in args]
            schemas = [k for k, schema in enumerate(self.p.schemas) if f in schema.functions()]
            for a, top in product(sorted(behind, key=repr), self.tops if schemas else ()):
                c = top - a - 1
                more = [self.p.schemas[k].put({"x": a}) for k in schemas]
                had = done | {("schema", k, a) for k in schemas}
                try:
                    yes = self.solve([*premises, c, *more], [], goal, depth - 1, had, pool)
                    no = self.solve([*premises, -c - 1], [], goal, depth - 1, done, pool)
                except NotFoundError:
                    continue
                return Split(c, _wrapped([_instance(k, a) for k in schemas], yes), no)
        return None

    def finish(
        self, premises: list[Term], some: list[Sample], goal: object, what: Candidate | Payload, depth: int,
        done: _Done, pool: frozenset[Named],
    ) -> Tree:  # fmt: skip
        """Closes a leaf, or splits on the first need that does not follow."""
        extra: list[Term] = []
        if isinstance(what, Candidate):
            for s in (what.goal.start, *_steps(what.hops)):
                extra += exists(self.g.sites[s.site], s.u, s.n)
        elif isinstance(goal, Higher):
            extra += [b - a for a, b in zip(goal.low, goal.high, strict=True)]
        wraps, premises, done = self.close(premises, done, extra, some)
        return _wrapped(wraps, self._finish(premises, some, goal, what, depth, done, pool))

    def _finish(
        self, premises: list[Term], some: list[Sample], goal: object, what: Candidate | Payload, depth: int,
        done: _Done, pool: frozenset[Named],
    ) -> Tree:  # fmt: skip
        def branch(on: Term, keep: Hint) -> Tree:
            if depth <= 0:
                raise NotFoundError(f"{on} >= 0 does not follow")
            yes = [e for e in some if value(on, e) >= 0]
            no = [e for e in some if value(on, e) < 0]
            return _cases(
                on,
                len(premises),
                self.solve([*premises, on], yes, goal, depth - 1, done, pool, keep),
                partial(self.solve, [*premises, -on - 1], no, goal, depth - 1, done, pool, keep),
            )

        keep = what if isinstance(what, Candidate) else None
        known = Premises(premises)
        owed = self._owed(known, some, goal, what)
        if isinstance(owed, Term):
            return branch(owed, keep)
        payload, needs = owed
        sums: list[Sum] = []
        for need in needs:
            by = shown(known, need)
            if by is not None and by[1]:
                return Absurd(by[0])
            if by is None:
                return self._split(premises, some, goal, need, depth, done, pool, keep)
            sums.append(by[0])
        return Leaf(payload, tuple(sums))

    def _owed(
        self, premises: Premises, some: list[Sample], goal: object, what: Candidate | Payload
    ) -> tuple[Payload, Sequence[Term]] | Term:
        """What a leaf says and needs for it, or what to split on first."""
        match what, goal:
            case Grows(), Higher(low, high):
                found = self._level(premises, low, high)
                if isinstance(found, Term):
                    return found
                return Grows(found), goal.needs(Grows(found), frozenset())
            case Candidate(), Observed():
                path_owed = self._path_owed(premises, some, what)
                if isinstance(path_owed, Term):
                    return path_owed
                path = ((Same(), what.goal.start), *path_owed[0].path)
                return Along(path), goal.needs(Along(path), frozenset(self._names(path)))
            case Candidate(), _:
                return self._path_owed(premises, some, what)
            case Follows(), Constraints(terms):
                return what, terms
            case SameEvent(), _:
                return what, [*equal(U, U2), *equal(N, N2)]
        raise NotFoundError("nothing that meets the obligation")

    def _path_owed(
        self, premises: Premises, some: list[Sample], what: Candidate
    ) -> tuple[Along, Sequence[Term]] | Term:
        """A path with its levels of program order and its needs, or what to split on first."""
        start = what.goal.start
        for s in (start, *_steps(what.hops)):  # first whether the steps are there at all
            for c in exists(self.g.sites[s.site], s.u, s.n):
                if any(value(c, e) < 0 for e in some):
                    return c
        decided = self._decided(premises, start, what.hops)
        if isinstance(decided, Term):
            return decided
        try:
            needs = what.goal.along(Along(decided), frozenset(self._names(decided)))
        except RejectedError as e:
            raise NotFoundError(f"no path: {e}") from None
        return Along(decided, what.reverse), needs

    @staticmethod
    def _names(hops: Hops) -> set[str]:
        return {x for s in _steps(hops) for t in (s.u, s.n) for x in t.names()}

    def _split(
        self, premises: list[Term], some: list[Sample], goal: object, need: Term, depth: int, done: _Done,
        pool: frozenset[Named], keep: Hint,
    ) -> Tree:  # fmt: skip
        if depth <= 0:
            raise NotFoundError(f"{need} >= 0 does not follow")
        bad = [e for e in some if value(need, e) < 0]
        if some and not bad:
            bad = self.among_more([*premises, -need - 1])
        if bad:
            good = [e for e in some if value(need, e) >= 0]
            yes = self.solve([*premises, need], good, goal, depth - 1, done, pool, keep)
            other = keep.other if keep is not None else None
            return _cases(
                need,
                len(premises),
                yes,
                partial(self.solve, [*premises, -need - 1], bad, goal, depth - 1, done, pool, other),
            )
        # no sample shows it: orders of tiles may make axioms apply
        for c in (need, *self.orders(premises)):
            try:
                up = [e for e in some if value(c, e) >= 0]
                down = [e for e in some if value(c, e) < 0]
                yes = self.solve([*premises, c], up, goal, depth - 1, done, pool)
                return _cases(
                    c,
                    len(premises),
                    yes,
                    partial(self.solve, [*premises, -c - 1], down, goal, depth - 1, done, pool),
                )
            except NotFoundError:
                continue
        raise NotFoundError(f"{need} >= 0 does not follow")

    def _level(self, premises: Premises, low: Sequence[Term], high: Sequence[Term]) -> int | Term:
        """The level at which a rank grows, or what to split on."""
        for level, (a, b) in enumerate(zip(low, high, strict=True)):
            d = b - a
            if entails(premises, d - 1):
                return level
            if not entails(premises, d):
                return d
        return high[0] - low[0] - 1

    def _decided(self, premises: Premises, start: Step, hops: Hops) -> Hops | Term:
        """The path with the levels of program order filled in, or what to split on."""
        out: list[tuple[How, Step]] = []
        here = start
        for how, b in hops:
            if isinstance(how, Program):
                level = self._before(premises, here, b)
                if isinstance(level, Term):
                    return level
                how = Program(level)
            if isinstance(how, Drained):
                first = here.site if how.twin is None else how.twin
                chain = [Step(first, Half.OUT, here.u, here.n), *how.commits, b]
                levels: list[int] = []
                for x, y in pairwise(chain):
                    level = self._before(premises, x, y)
                    if isinstance(level, Term):
                        return level
                    levels.append(level)
                how = Drained(how.commits, tuple(levels), how.twin)
            out.append((how, b))
            here = b
        return tuple(out)

    def _before(self, premises: Premises, a: Step, b: Step) -> int | Term:
        """The level that puts a before b in program order, or what to split on."""
        for level, (x, y) in enumerate(zip(self.g.position(a), self.g.position(b), strict=True)):
            d = y - x
            if not d.parts:
                if d.const > 0:
                    return level
                if d.const < 0:
                    raise NotFoundError("against program order")
                continue
            if entails(premises, d - 1):
                return level
            if not entails(premises, d):
                return d
            if not entails(premises, -d):
                return d - 1
        raise NotFoundError("a step twice")

    def covers(self, what: Candidate, some: list[Sample]) -> bool:
        """Whether the steps of a path are there, and in order, in all samples."""
        masks = Masks(self.g, some)
        full = (1 << len(some)) - 1
        here = what.goal.start
        if masks.inside(here.site, here.u, here.n) & full != full:
            return False
        for how, b in what.hops:
            chain = [here, b]
            if isinstance(how, Drained):
                first = here.site if how.twin is None else how.twin
                chain = [Step(first, Half.OUT, here.u, here.n), *how.commits, b]
            ordered = isinstance(how, Program | Drained)
            for x, y in pairwise(chain):
                met = masks.earlier(x, y) if ordered else masks.inside(y.site, y.u, y.n)
                if met & full != full:
                    return False
            here = b
        return True

    # ---------------------------------------------------------------- choices

    def choices(
        self, goal: object, premises: list[Term], some: list[Sample], pool: frozenset[Named]
    ) -> Iterator[Choice]:
        """What a leaf may be, best first."""
        match goal:
            case Higher():
                yield Grows(0)
            case Constraints():
                yield Follows()
            case Reaches():
                yield from self._paths([(goal, False)], self._steps_in(premises, some, pool))
            case Observed(_, waits, turn):
                steps = self._steps_in(premises, some, pool)
                starts = [Step(k, Half.OUT, u, n) for k in waits for u, n in steps.all_at_turn(k, turn)]
                yield from self._paths([(goal.after(start), False) for start in starts], steps)
            case Either(forth, back, same):
                if same:
                    even = [*equal(U, U2), *equal(N, N2)]
                    alike = sum(holds(even, e) for e in some)
                    if alike:
                        yield SameEvent()
                    if alike == len(some):
                        return
                ways = [(forth, False), (back, True)]
                ordered = ways if self._forth(forth, some) else ways[::-1]
                yield from self._paths(ordered, self._steps_in(premises, some, pool))

    def _steps_in(self, premises: list[Term], some: list[Sample], pool: frozenset[Named]) -> Steps:
        return Steps(self.g, [dict(e) for e in some], pool, premises, memo=self.memo)

    def _paths(self, ways: list[tuple[Reaches, bool]], steps: Steps) -> Iterator[Candidate | Introduction]:
        """The best few paths: the shortest first, if one covers all samples, or two in both directions do.
        Then short ones, if one covers half of the samples; then any.
        """
        many = len(steps.samples)
        for slack in (SHORTEST, SHORT, ROUNDS):
            searches = [(PathSearch(steps, goal).rounds(slack), goal, way) for goal, way in ways]
            yield from self._opposite(searches)
            found = self._candidates(searches)
            most = found[0][0] if found else 0
            whole = any(covers == many and not new for covers, new, _ in found)
            if whole or slack == ROUNDS or (slack == SHORT and 2 * most >= many):
                yield from (f[2] for f in found[:4])
            if whole:
                return

    @staticmethod
    def _opposite(searches: Sequence[tuple[Rounds, Reaches, bool]]) -> Iterator[Candidate]:
        """A path for some samples, and one in the other direction for all others; the better one first."""
        pair = both(searches[0][0], searches[1][0]) if len(searches) == 2 else None
        if pair is None:
            return
        one, other = (
            Candidate(goal, f.hops or (), way) for f, (_, goal, way) in zip(pair, searches, strict=True)
        )
        if pair[1].covers > pair[0].covers:
            one, other = other, one
        yield replace(one, other=other)

    @staticmethod
    def _candidates(
        searches: Sequence[tuple[Rounds, Reaches, bool]],
    ) -> list[tuple[float, bool, Candidate | Introduction]]:
        """Paths in some direction, or what has to be introduced for one: how many samples it covers, whether
        it is an introduction, and what it is, best first.
        """
        found: list[tuple[float, bool, Candidate | Introduction]] = []
        some = sorted(searches, key=lambda s: s[0].whole is None)  # one that covers all samples is enough
        for rounds, goal, reverse in some:
            for f in rounds.candidates():
                if f.introduction is not None:
                    found.append((f.covers, True, f.introduction))
                elif f.hops is not None:
                    found.append((f.covers, False, Candidate(goal, f.hops, reverse)))
            if rounds.whole is not None and rounds.whole.introduction is None:
                break  # the other direction can do no better
        return sorted(found, key=lambda f: (-f[0], f[1]))

    def _forth(self, forth: Reaches, some: list[Sample]) -> bool:
        """Whether the first of a pair is likelier to come before the second: in most samples its counters are
        no larger.
        """
        x, y = forth.start, forth.goal
        if y is None or not some:
            return True
        ahead = [(value(x.u, e), value(x.n, e)) <= (value(y.u, e), value(y.n, e)) for e in some]
        return 2 * sum(ahead) >= len(ahead)

    def introduce(
        self, what: Introduction, premises: list[Term], some: list[Sample], goal: object, depth: int,
        done: _Done, pool: frozenset[Named],
    ) -> Tree | None:  # fmt: skip
        """A node that names a tile or a quotient, with the tree below."""

        def below(more: list[Term], there: list[Sample], named: Named) -> Tree:
            return self.solve([*premises, *more], there, goal, depth - 1, done, pool | {named})

        if depth <= 0:
            return None
        try:
            return self.named(what, premises, some, below)
        except NotFoundError:
            pass
        if not isinstance(what, NewTile):
            return None
        top = self.tops[0] if self.tops else num(1)
        missing = [x for x in self._range(what, top) if not entails(premises, x)]
        for c in (*self.orders(premises), *missing[:1]) if missing else ():
            try:
                up = [e for e in some if value(c, e) >= 0]
                down = [e for e in some if value(c, e) < 0]
                yes = self.solve([*premises, c], up, goal, depth - 1, done, pool)
                return _cases(
                    c,
                    len(premises),
                    yes,
                    partial(self.solve, [*premises, -c - 1], down, goal, depth - 1, done, pool),
                )
            except NotFoundError:
                continue
        return None

    @staticmethod
    def _range(what: NewTile, top: Term) -> tuple[Term, Term, Term]:
        return what.term, apply(what.function, top) - what.term - 1, top

    def named(
        self, what: Introduction, premises: list[Term], some: list[Sample],
        below: Callable[[list[Term], list[Sample], Named], Tree],
    ) -> Tree:  # fmt: skip
        """The node of an introduction; NotFoundError where it may not stand here."""
        self.fresh += 1
        name = f"%{self.fresh}"
        v = var(name)
        if isinstance(what, NewTile):
            top = self.tops[0] if self.tops else num(1)
            sums: list[Sum] = []
            for goal in self._range(what, top):
                by = shown(premises, goal)
                if by is None or by[1]:
                    raise NotFoundError("a tile that may not exist")
                sums.append(by[0])
            f, there = what.function, []
            for e in some:
                x, t = value(what.term, e), 0
                while e[f](t + 1) <= x:
                    t += 1
                there.append({**e, name: t})
            more = [what.term - apply(f, v), apply(f, v + 1) - what.term - 1, v, top - v - 1]
            kid = below(more, there, (v, 0, 1))
            return Tile(f, what.term, top, name, (sums[0], sums[1], sums[2]), kid)
        kids: list[Tree] = []
        r = what.modulus
        for w in range(r):
            there = [
                {**e, name: (value(what.term, e) - w) // r}
                for e in some
                if (value(what.term, e) - w) % r == 0
            ]
            kids.append(below(equal(what.term, v * r + w), there, (v, w, r)))
        return Residues(what.term, name, tuple(kids))

    # ---------------------------------------------------------------- one obligation

    def tree(self, o: Owed) -> Tree:
        """The tree of an obligation."""
        self.left = MOST_NODES
        premises = [*self.base, *o.premises]
        some = self.meeting(o.premises)
        named = {a for h in o.premises for a in h.names()}
        pool: set[Named] = set()
        for v, i in zip(("u", "u'"), o.sites, strict=False):
            s = self.g.sites[i]
            if s.position.tiles and v in named:
                tiles = self.p.roles[s.role].body[s.position.segment // 2]
                assert isinstance(tiles, Tiles)
                pool.add((var(v), tiles.first, tiles.stride))
        try:
            found = self.solve(premises, some, o.goal, DEEPEST, frozenset(), frozenset(pool))
        except NotFoundError as e:
            raise NotFoundError(f"{o.key}: {e}") from None
        return pruned(found, len(premises))


def remainders(premises: Sequence[Term]) -> Tree | None:
    """A contradiction of two equations that leave different remainders; None where there is none.

    Example: no ``j`` is ``16 q + 3`` and ``16 u + 5``, for ``q - u`` would lie between 0 and 1.
    """
    at = {h: i for i, h in reversed(list(enumerate(premises))) if h.parts}
    equations = [h for h in at if -h in at and max(h.parts.values()) > 1]
    for i, a in enumerate(equations):
        for b in equations[:i]:
            apart = a - b
            g = gcd(*apart.parts.values())
            if g < 2 or apart.const % g == 0:
                continue
            c = Term({x: k // g for x, k in apart.parts.items()}, apart.const // g)
            some = [at[h] for h in (a, -a, b, -b)]
            sides = [absurd([*(premises[k] for k in some), side]) for side in (c, -c - 1)]
            kids = [Absurd(_placed(by, [*some, len(premises)])) for by in sides if by is not None]
            if len(kids) == 2:
                return Split(c, *kids)
    return None


def _placed(by: Sum, places: Sequence[int]) -> Sum:
    """A sum of some premises, as one of all."""
    return Sum(by.divisor, tuple(sorted((places[i], k) for i, k in by.multipliers)))


def _rising(arguments: Sequence[Term], some: Sequence[Sample]) -> list[tuple[Term, Term]]:
    """Pairs of which the first may be at most the second, as it is in all samples; the nearest first."""
    columns = {a: column(a, some) for a in arguments}
    far = {a: sum(values) for a, values in columns.items()}
    found = [
        (a, b)
        for a in arguments
        for b in arguments
        if a != b and all(x <= y for x, y in zip(columns[a], columns[b], strict=True))
    ]
    return sorted(found, key=lambda pair: far[pair[1]] - far[pair[0]])


def _steps(hops: Hops) -> Iterator[Step]:
    for how, b in hops:
        if isinstance(how, Drained):
            yield from how.commits
        yield b


def _cases(on: Term, many: int, yes: Tree, no: Callable[[], Tree]) -> Tree:
    """A split under so many premises; only its first case, if that does without what the split adds."""
    alone = without(yes, many)
    return Split(on, yes, no()) if alone is None else alone


def _wrapped(wraps: Sequence[Wrap], tree: Tree) -> Tree:
    for w in reversed(wraps):
        tree = w(tree)
    return tree


def _monotone(f: str, a: Term, b: Term, by: Sum) -> Wrap:
    return lambda kid: Monotone(f, a, b, by, kid)


def _instance(schema: int, at: Term) -> Wrap:
    return lambda kid: Instance(schema, at, kid)
