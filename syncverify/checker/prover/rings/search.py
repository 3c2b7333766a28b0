"""Finds certificates: turns, ranks, and for each obligation paths that cover all its sample cases.

Samples are sizes and counters that meet what is given; a path is kept for the samples on which all its
hops hold. What covers every sample is put to the arithmetic; a counterexample is one sample more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from syncverify.checker.prover.rings import accounting, rank_search
from syncverify.checker.prover.rings.agents import Program
from syncverify.checker.prover.rings.certificate import Certificate, Path
from syncverify.checker.prover.rings.linear import Facts, Lin, num, var
from syncverify.checker.prover.rings.program import FIRST, SECOND, Ring, highs, lows
from syncverify.checker.prover.rings.rules import (
    Obligation,
    Step,
    Turns,
    before,
    contributions,
    depth,
    enabling,
    hop,
    obligations,
    op_of,
    rings,
    turn,
)
from syncverify.checker.prover.rings.validate import alternative, constraints, describe, used

#: Values tried for each parameter, from its least; counters reach up to the bound below.
STEPS = (0, 1, 2, 3, 5, 8)
MOST_SAMPLES, MOST_SIZES, COUNTER = 240, 80, 14
#: Steps of one path, and paths and rounds for one obligation.
LONGEST, ROUNDS = 14, 6

Vector = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


#: Operations by which an agent's past reaches others, and the half at which it does.
_WAYS_OUT = {"arrive": "out", "expect": "out", "meet": "in", "warp_meet": "in", "copy": "out", "store": "out",
             "mma": "in", "mma_commit": "in", "mma_drain": "in"}  # fmt: skip


class NotFoundError(Exception):
    """No certificate was found. ``sizes``: where the search suspects a mistake."""

    def __init__(self, reason: str, sizes: list[dict[str, int]]) -> None:
        super().__init__(reason)
        self.sizes = sizes


def find(p: Program, facts: Facts) -> Certificate:
    """A certificate that ``validate`` should accept; NotFoundError with the first thing that fails."""
    sizes = list(_sizes(p))
    shift: dict[tuple[int, ...], int] = {}
    lag: dict[tuple[int, ...], int] = {}
    end: dict[Ring, Lin] = {}
    for ring in rings(p):
        _assign(p, ring, facts, sizes, Turns(shift, lag, end))
    turns = Turns(shift, lag, end)
    found = _Search(p, turns, facts, sizes)
    paths = found.all()
    order = rank_search.search(p, turns, facts)
    if order is None:
        raise NotFoundError("waits may wait for each other in a cycle", sizes[:4])
    return Certificate(turns, order, tuple(paths))


def _sizes(p: Program) -> Iterator[dict[str, int]]:
    """Sample values of all parameters that keep the facts, small ones first."""
    names = {n for a in p.agents for o in a.ops for c in (*o.domain, o.index) for n in c.names()}
    names |= {n for f in p.facts for n in f.names()} | {n for d in p.depths.values() for n in d.names()}
    params = sorted(names - {FIRST, SECOND})
    choices = sorted(product(range(len(STEPS)), repeat=len(params)), key=sum) if len(params) < 6 else []
    below = {n for n in params if num(-1) - var(n) in p.facts}
    least = {f.terms[0][0]: -f.const for f in p.facts if len(f.terms) == 1 and f.terms[0][1] == 1}
    made = 0
    for some in choices:
        sizes = {
            n: (-1 - STEPS[i] if n in below else least.get(n, 0) + STEPS[i])
            for n, i in zip(params, some, strict=True)
        }
        if all(f.at(sizes) >= 0 for f in p.facts):
            yield sizes
            made += 1
            if made == MOST_SIZES:
                return


# ---------------------------------------------------------------- turns


def _assign(p: Program, ring: Ring, facts: Facts, sizes: list[dict[str, int]], t: Turns) -> None:
    """Which turn each operation of a ring belongs to: the first choice whose sums come out."""
    some = list(
        dict.fromkeys(op.statement for _, op in accounting.every(p, ring, ("arrive", "expect", "copy")))
    )
    waits = {op.statement: op for _, op in accounting.every(p, ring, ("wait",))}
    reason = f"no turns of {ring[0]} that come out even were found"
    for shifts in sorted(product((0, 1, 2), repeat=len(some)), key=sum) if len(some) < 6 else []:
        t.shift.update(zip(some, shifts, strict=True))
        for end in accounting.ends(p, t, ring):
            t.end[ring] = end
            lags = {s: _lag(p, ring, op, t, sizes) for s, op in waits.items()}
            t.lag.update({s: 0 if d is None else d for s, d in lags.items()})
            wrong = accounting.balanced(p, t, ring, facts)
            if wrong is None:
                return
            if sum(shifts) == 0 and end == accounting.ends(p, t, ring)[0]:
                reason = wrong
    raise NotFoundError(reason, sizes[:6])


def _lag(p: Program, ring: Ring, op: Any, t: Turns, sizes: list[dict[str, int]]) -> int | None:
    """How many iterations back a wait means: the first number that fits all samples."""
    for lag in sorted(range(-4, 5), key=abs):
        if (lag - op.lag) % 2 == 0 and all(
            -depth(p, ring).at(s) <= means < t.end[ring].at(s)
            for s in sizes
            for at in range(COUNTER)
            if all(c.at({**s, FIRST: at}) >= 0 for c in op.domain)
            for means in ((op.index - depth(p, ring).scaled(lag)).at({**s, FIRST: at}),)
        ):
            return lag
    return None


# ---------------------------------------------------------------- paths


@dataclass(slots=True)
class _Samples:
    """Sample cases as one vector of values for each name."""

    columns: dict[str, Vector]
    count: int

    def value(self, f: Lin) -> Vector:
        out = np.full(self.count, f.const, dtype=np.int64)
        if not self.count:
            return out
        for name, k in f.terms:
            out = out + k * self.columns[name]
        return out

    def meets(self, needs: tuple[Lin, ...]) -> Flags:
        out = np.ones(self.count, dtype=np.bool_)
        for c in needs:
            if c.terms:
                out &= self.value(c) >= 0
            elif c.const < 0:
                out[:] = False
        return out


@dataclass(frozen=True, slots=True)
class _State:
    """A path so far: on which samples all its hops hold; what it has passed."""

    path: Path
    holds: Flags
    crossed: bool
    fenced: bool


@dataclass(slots=True)
class _Search:
    p: Program
    t: Turns
    facts: Facts
    sizes: list[dict[str, int]]
    known: dict[object, tuple[Path, ...] | None] = field(default_factory=dict)

    def all(self) -> list[tuple[Path, ...] | None]:
        owed = list(obligations(self.p, self.t))
        paths: list[tuple[Path, ...] | None] = [None] * len(owed)
        groups: dict[str, dict[str, list[int]]] = {}
        for i, o in enumerate(owed):
            pair, which = alternative(o)
            if pair is None:
                paths[i] = self.owed(o)
            else:
                groups.setdefault(pair, {}).setdefault(which, []).append(i)
        for by_choice in groups.values():
            last: NotFoundError | None = None
            for numbers in by_choice.values():
                try:
                    for i in numbers:
                        paths[i] = self.owed(owed[i])
                    break
                except NotFoundError as e:
                    last = last or e
                    for i in numbers:
                        paths[i] = None
            else:
                raise last or NotFoundError("an order", [])
        return paths

    def owed(self, o: Obligation) -> tuple[Path, ...]:
        """Paths that cover an obligation; NotFoundError if none do."""
        if self.facts.impossible(o.given):
            return ()
        rows = self.rows(o)
        if not rows and (more := self.facts.counterexample(o.given, [])) is not None:
            rows.append({n: more.get(n, 0) for n in self.names(o)})
        for _ in range(ROUNDS):
            samples = _Samples(
                {n: np.array([r[n] for r in rows], dtype=np.int64) for n in rows[0]} if rows else {},
                len(rows),
            )
            chosen, left = self.covering(o, samples)
            if left is not None:
                sizes = {k: v for k, v in rows[left].items() if k not in (FIRST, SECOND)}
                raise NotFoundError(f"not ordered: {describe(self.p, o)}", [sizes])
            cases = [c for path in chosen if (c := constraints(self.p, self.t, o, path)) is not None]
            if cases and self.facts.entails(o.given, cases):
                return tuple(chosen)
            more = self.facts.counterexample(o.given, cases or [(num(-1),)])
            if more is None:
                break
            names = set(rows[0]) if rows else self.names(o)
            rows.append({n: more.get(n, 0) for n in names})
        raise NotFoundError(f"not shown for every number of stages: {describe(self.p, o)}", [])

    def names(self, o: Obligation) -> set[str]:
        found = {FIRST, SECOND} | set(self.sizes[0] if self.sizes else ())
        return found | {n for c in o.given for n in c.names()}

    def rows(self, o: Obligation) -> list[dict[str, int]]:
        """Sample cases, spread over those that there are."""
        both = any(c.coefficient(SECOND) for c in o.given)
        n = np.arange(-1, COUNTER + 6)
        first, second = (x.ravel() for x in np.meshgrid(n, n if both else np.zeros(1, dtype=np.int64)))
        out: list[dict[str, int]] = []
        per = max(3, MOST_SAMPLES // max(len(self.sizes), 1))
        for sizes in self.sizes:
            grid = _Samples(
                {FIRST: first, SECOND: second, **{k: np.full(first.size, v) for k, v in sizes.items()}},
                first.size,
            )
            at = np.flatnonzero(grid.meets(o.given))
            if at.size > per:
                at = at[np.unique(np.linspace(0, at.size - 1, per).astype(int))]
            out += [{**sizes, FIRST: int(first[i]), SECOND: int(second[i])} for i in at]
        return out

    def covering(self, o: Obligation, samples: _Samples) -> tuple[list[Path], int | None]:
        """Paths that together hold on all samples, or the first sample that none covers."""
        start = _State((o.start,), np.ones(samples.count, dtype=np.bool_), False, False)
        left = np.ones(samples.count, dtype=np.bool_)
        chosen: list[Path] = []
        best: dict[object, Vector] = {}
        frontier = [start]
        for _ in range(LONGEST):
            later: list[_State] = []
            for state in frontier:
                for path in self.arrivals(o, state):
                    needs = constraints(self.p, self.t, o, path)
                    if needs is None:
                        continue
                    covers = samples.meets(needs) & left
                    if covers.any() or not samples.count:
                        chosen.append(path)
                        left &= ~covers
                        if not left.any():
                            return chosen, None
                for step in self.next(o, state):
                    made = self.extended(o, state, step, samples, best)
                    if made is not None:
                        later.append(made)
            frontier = later
        return chosen, int(np.flatnonzero(left)[0]) if left.any() else None

    def extended(
        self, o: Obligation, state: _State, step: Step, samples: _Samples, best: dict[object, Vector]
    ) -> _State | None:
        """The longer path, where it is better than all found so far on some sample."""
        last = state.path[-1]
        if o.causal:
            found = hop(self.p, self.t, last, step, len(state.path) == 1)
        else:
            found = enabling(self.p, self.t, last, step)
        if found is None:
            return None
        holds = state.holds & samples.meets(found[1])
        if not holds.any() and samples.count:
            return None
        op = op_of(self.p, step)
        fenced = state.fenced or op.kind == "fence"
        if op.kind == "use":
            fenced |= o.bridge and used(self.p, o, (*state.path, step))
        crossed = state.crossed or found[0]
        key = (step.agent, step.op, step.half, crossed, fenced)
        value = np.where(holds, samples.value(step.at), np.iinfo(np.int64).max)
        if key in best:
            if not (value < best[key]).any():
                return None
            best[key] = np.minimum(best[key], value)
        else:
            best[key] = value
        return _State((*state.path, step), holds, crossed, fenced)

    # ------------------------------------------------------------ candidates

    def arrivals(self, o: Obligation, state: _State) -> Iterator[Path]:
        """The path, ended."""
        if o.goal is not None:
            if len(state.path) > 1 or o.start.agent == o.goal.agent:
                yield (*state.path, o.goal)
            return
        if o.ring is None:
            if len(state.path) > 1:
                yield state.path
            return
        last = state.path[-1]
        for i, j in contributions(self.p, o.ring):
            if i != last.agent:
                continue
            op = self.p.agents[i].ops[j]
            own = turn(self.p, self.t, op, num(0))
            at = o.turn - own if turn(self.p, self.t, op, var(FIRST)).coefficient(FIRST) else num(0)
            yield (*state.path, Step(i, j, "in", at))

    def next(self, o: Obligation, state: _State) -> Iterator[Step]:
        """Steps that may follow: the ways out of an agent, fences, and what they lead to."""
        last = state.path[-1]
        x = op_of(self.p, last)
        if (
            last.half == "done"
            or (last.half == "out" and x.kind in ("arrive", "expect"))
            or last.half == "in"
        ):
            yield from self.across(o, last)
        if last.half != "done" and not (last.half == "in" and x.kind in ("meet", "warp_meet")):
            yield from self.onward(o, state, last)

    def onward(self, o: Obligation, state: _State, last: Step) -> Iterator[Step]:
        x = op_of(self.p, last)
        if last.half == "out" and x.kind in ("copy", "store", "mma") and not o.causal:
            yield Step(last.agent, last.op, "done", last.at)
        for j, y in enumerate(self.p.agents[last.agent].ops):
            half = _WAYS_OUT.get(y.kind)
            if o.causal and y.kind in ("copy", "store", "mma", "mma_commit", "mma_drain", "expect"):
                continue
            if y.kind == "fence":
                half = "out" if o.bridge and not state.fenced else None
            if y.kind == "use":
                half = "out" if o.bridge and len(state.path) == 1 and y.of == x.place else None
            if half is None or y.segment < x.segment:
                continue
            for at in self.counters(last, x, j):
                yield Step(last.agent, j, "in" if half == "in" else "out", at)

    def counters(self, last: Step, x: Any, j: int) -> list[Lin]:
        """Counters of a later operation of the same agent that are worth trying."""
        y = self.p.agents[last.agent].ops[j]
        if y.segment != x.segment:
            return list(dict.fromkeys([*lows(y.domain), *highs(y.domain)]))
        soon = last.at + (before(x, y, last.half, "out") or 0)
        found = [soon]
        if len(y.domain) > 2:
            found += [last.at + 1, *lows(y.domain)]
        return list(dict.fromkeys(found))

    def across(self, o: Obligation, last: Step) -> Iterator[Step]:
        """What a step leads to in other agents, or in other lanes."""
        x = op_of(self.p, last)
        for i, agent in enumerate(self.p.agents):
            for j, y in enumerate(agent.ops):
                if y.kind == "wait" and y.ring == x.ring and last.half in ("out", "done"):
                    ours = turn(self.p, self.t, x, last.at)
                    moving = turn(self.p, self.t, y, var(FIRST)).coefficient(FIRST)
                    yield Step(i, j, "out", ours - turn(self.p, self.t, y, num(0)) if moving else num(0))
                elif last.half == "in" and y.statement == x.statement and y.kind == x.kind:
                    yield Step(i, j, "out", last.at)
                elif last.half == "done" and (x.kind, y.kind) in (("store", "drain"), ("mma", "mma_drain")):
                    if y.segment == x.segment:
                        yield Step(i, j, "out", last.at)
                        yield Step(i, j, "out", last.at + 1)
                        yield Step(i, j, "out", last.at + y.index)
                        yield Step(i, j, "out", last.at + y.index + 1)
                    elif y.segment > x.segment:
                        yield from (Step(i, j, "out", low) for low in lows(y.domain))


__all__ = ["NotFoundError", "find"]
