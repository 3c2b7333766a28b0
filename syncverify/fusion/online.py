"""Reductions of elements that come one after the other, none of which is seen twice.

Most keep one number. Two pairs keep what both need, so that elements are gone through once and not twice: the
largest and the sum of the exponentials below it (rescaled whenever a larger one comes), the sum and the sum
of the squares about the mean (means and squares of parts are merged).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Protocol

from syncverify.fusion.functions import REDUCTIONS
from syncverify.fusion.graph import Fusion, Node
from syncverify.ir.expr import Binary, Call, Expr, Float, Int, Var
from syncverify.ir.nodes import Compute, Shuffle, Stmt

_DISTANCES = (16, 8, 4, 2, 1)


class Statistic(Protocol):
    """What a thread keeps of the elements it has seen, in registers of its own."""

    @property
    def argument(self) -> int:
        """The node whose elements are reduced."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """The reductions that it makes."""

    @property
    def registers(self) -> tuple[str, ...]:
        """What is kept, and handed to other threads."""

    def start(self, columns: int = 1) -> Iterator[Stmt]:
        """Of no elements, in each of so many columns."""

    def update(self, x: Expr, count: int, inside: Expr | None) -> Iterator[Stmt]:
        """With ``count`` more elements, if ``inside`` holds for the thread."""

    def rows(self, xs: list[Expr], inside: Expr | None) -> Iterator[Stmt]:
        """With one more element of each of several rows, for every column that the thread has."""

    def lanes(self) -> Iterator[Stmt]:
        """Of all lanes of the warp."""

    def warps(self, kept: Mapping[str, str]) -> Iterator[Stmt]:
        """Of all warps: ``kept`` names the registers that hold what each of them kept."""

    def finish(self) -> Iterator[Stmt]:
        """The registers of ``nodes``."""


@dataclass(frozen=True, slots=True)
class One:
    """A reduction by itself."""

    node: int
    op: str
    argument: int

    @property
    def nodes(self) -> tuple[int, ...]:
        return (self.node,)

    @property
    def registers(self) -> tuple[str, ...]:
        return (f"t{self.node}",)

    def start(self, columns: int = 1) -> Iterator[Stmt]:
        yield Compute(f"t{self.node}", _filled(REDUCTIONS[self.op].identity, columns))

    def rows(self, xs: list[Expr], inside: Expr | None) -> Iterator[Stmt]:
        made = REDUCTIONS[self.op]
        for x in xs:
            x = _inside(inside, x, Float(made.identity))
            yield Compute(f"t{self.node}", made.combine(Var(f"t{self.node}"), x))

    def update(self, x: Expr, count: int, inside: Expr | None) -> Iterator[Stmt]:
        made = REDUCTIONS[self.op]
        part = Call(self.op, (_inside(inside, x, Float(made.identity)),))
        yield Compute(f"t{self.node}", made.combine(Var(f"t{self.node}"), part))

    def lanes(self) -> Iterator[Stmt]:
        yield from reduced_over_lanes(f"t{self.node}", self.op)

    def warps(self, kept: Mapping[str, str]) -> Iterator[Stmt]:
        t = f"t{self.node}"
        yield Compute(t, Call(self.op, (Var(kept[t]),)))

    def finish(self) -> Iterator[Stmt]:
        return iter(())


@dataclass(frozen=True, slots=True)
class Exponentials:
    """``largest``: reduce.max(a). ``total``: reduce.add(exp(a - largest))."""

    largest: int
    total: int
    argument: int

    @property
    def nodes(self) -> tuple[int, ...]:
        return (self.largest, self.total)

    @property
    def registers(self) -> tuple[str, ...]:
        return (f"t{self.largest}", f"t{self.total}")

    def start(self, columns: int = 1) -> Iterator[Stmt]:
        m, s = self.registers
        yield Compute(m, _filled(float("-inf"), columns))
        yield Compute(s, _filled(0.0, columns))

    def rows(self, xs: list[Expr], inside: Expr | None) -> Iterator[Stmt]:
        m, s = self.registers
        new = f"n{self.largest}"
        xs = [_inside(inside, x, Float(float("-inf"))) for x in xs]
        yield Compute(new, reduce(REDUCTIONS["reduce.max"].combine, [Var(m), *xs]))
        yield from self._base(new)
        yield Compute(s, Var(s) * _exp(Var(m), self._less))
        for x in xs:
            yield Compute(s, Var(s) + _exp(x, self._less))
        yield Compute(m, Var(new))

    def update(self, x: Expr, count: int, inside: Expr | None) -> Iterator[Stmt]:
        m, s = self.registers
        new = f"n{self.largest}"
        x = _inside(inside, x, Float(float("-inf")))
        yield Compute(new, Call("max", (Var(m), Call("reduce.max", (x,)))))
        yield from self._base(new)
        rescaled = Var(s) * _exp(Var(m), self._less)
        yield Compute(s, rescaled + Call("reduce.add", (_exp(x, self._less),)))
        yield Compute(m, Var(new))

    def lanes(self) -> Iterator[Stmt]:
        m, s = self.registers
        own = f"o{self.largest}"
        yield Compute(own, Var(m))
        yield from reduced_over_lanes(m, "reduce.max")
        yield from self._base(m)
        yield Compute(s, Var(s) * _exp(Var(own), self._less))
        yield from reduced_over_lanes(s, "reduce.add")

    def warps(self, kept: Mapping[str, str]) -> Iterator[Stmt]:
        m, s = self.registers
        yield Compute(m, Call("reduce.max", (Var(kept[m]),)))
        yield from self._base(m)
        yield Compute(s, Call("reduce.add", (Var(kept[s]) * _exp(Var(kept[m]), self._less),)))

    def finish(self) -> Iterator[Stmt]:
        m, s = self.registers
        # infinite: what the difference of two infinities is, as if all had been seen twice
        yield Compute(s, Var(s) + (Var(m) - Var(m)))

    @property
    def _less(self) -> Expr:
        return Var(f"b{self.largest}")

    def _base(self, m: str) -> Iterator[Stmt]:
        """What exponents are taken below: the largest, or 0 where nothing finite was seen."""
        none = Var(m).eq(Float(float("-inf")))
        yield Compute(f"b{self.largest}", Call("select", (none, Float(0.0), Var(m))))


@dataclass(frozen=True, slots=True)
class Squares:
    """``total``: reduce.add(a). ``squares``: reduce.add of the squares of a - total / size."""

    total: int
    squares: int
    argument: int

    @property
    def nodes(self) -> tuple[int, ...]:
        return (self.total, self.squares)

    @property
    def registers(self) -> tuple[str, ...]:
        return (f"t{self.total}", f"n{self.total}", f"m{self.total}", f"t{self.squares}")

    def start(self, columns: int = 1) -> Iterator[Stmt]:
        total, seen, mean, squares = self.registers
        yield Compute(seen, Float(0.0))
        yield from (Compute(r, _filled(0.0, columns)) for r in (total, mean, squares))

    def rows(self, xs: list[Expr], inside: Expr | None) -> Iterator[Stmt]:
        total, seen, mean, squares = map(Var, self.registers)
        c, d = f"c{self.total}", f"d{self.total}"
        yield Compute(c, reduce(add, xs))
        yield Compute(total.name, _inside(inside, total + Var(c), total))
        yield Compute(c, Var(c) * Float(1.0 / len(xs)))
        yield Compute(d, reduce(add, [(x - Var(c)) * (x - Var(c)) for x in xs]))
        yield from _merged(seen, mean, squares, Float(float(len(xs))), Var(c), Var(d), inside)

    def update(self, x: Expr, count: int, inside: Expr | None) -> Iterator[Stmt]:
        total, seen, mean, squares = map(Var, self.registers)
        c, d = f"c{self.total}", f"d{self.total}"
        yield Compute(c, Call("reduce.add", (x,)))
        yield Compute(total.name, _inside(inside, total + Var(c), total))
        yield Compute(c, Var(c) * Float(1.0 / count))
        yield Compute(d, Call("reduce.add", ((x - Var(c)) * (x - Var(c)),)))
        yield from _merged(seen, mean, squares, Float(float(count)), Var(c), Var(d), inside)

    def lanes(self) -> Iterator[Stmt]:
        total, seen, mean, squares = map(Var, self.registers)
        yield from reduced_over_lanes(total.name, "reduce.add")
        count, other, also = (Var(f"s{r.name}") for r in (seen, mean, squares))
        for distance in _DISTANCES:
            yield Shuffle(count.name, seen, Int(distance))
            yield Shuffle(other.name, mean, Int(distance))
            yield Shuffle(also.name, squares, Int(distance))
            yield from _merged(seen, mean, squares, count, other, also, None)

    def warps(self, kept: Mapping[str, str]) -> Iterator[Stmt]:
        total, seen, mean, squares = self.registers
        yield Compute(total, Call("reduce.add", (Var(kept[total]),)))
        yield Compute(seen, Call("reduce.add", (Var(kept[seen]),)))
        weighted = Call("reduce.add", (Var(kept[seen]) * Var(kept[mean]),))
        yield Compute(mean, weighted / Var(seen))
        away = Var(kept[mean]) - Var(mean)
        part = Var(kept[squares]) + Var(kept[seen]) * away * away
        yield Compute(squares, Call("reduce.add", (part,)))

    def finish(self) -> Iterator[Stmt]:
        return iter(())


def _merged(
    seen: Var, mean: Var, squares: Var, count: Expr, other: Expr, also: Expr, inside: Expr | None
) -> Iterator[Stmt]:
    """Numbers seen, their mean and their squares about it, with those of ``count`` others."""
    both, share, away = (f"{x}{seen.name}" for x in ("a", "f", "e"))
    yield Compute(both, seen + count)
    yield Compute(share, count / Call("max", (Var(both), Float(1.0))))
    yield Compute(away, other - mean)
    # not the square first: where nothing was seen, 0 times a square beyond f32 would be NaN
    more = also + seen * Var(share) * Var(away) * Var(away)
    yield Compute(squares.name, _inside(inside, squares + more, squares))
    yield Compute(mean.name, _inside(inside, mean + Var(away) * Var(share), mean))
    yield Compute(seen.name, _inside(inside, Var(both), seen))


def statistics(fusion: Fusion, along: str, live: tuple[int, ...]) -> tuple[Statistic, ...]:
    """What makes all reductions among ``live`` nodes along a dimension, pairs together."""
    nodes = {i: fusion.node(i) for i in fusion.graph}
    found: list[Statistic] = []
    paired: set[int] = set()
    for i in (i for i in live if nodes[i].op == "reduce.add" and nodes[i].dim == along):
        pair = _exponentials(nodes, i) or _squares(nodes, i, along)
        if pair is not None and paired.isdisjoint(pair.nodes) and set(live) >= set(pair.nodes):
            found.append(pair)
            paired.update(pair.nodes)
    alone = [i for i in live if nodes[i].op in REDUCTIONS and i not in paired and nodes[i].dim == along]
    found += [One(i, nodes[i].op, nodes[i].args[0]) for i in alone]
    return tuple(sorted(found, key=lambda s: s.nodes))


def together(found: tuple[Statistic, ...]) -> dict[int, int]:
    """The reductions that are made in the step of another."""
    return {i: s.nodes[0] for s in found for i in s.nodes[1:]}


def _exponentials(nodes: Mapping[int, Node], i: int) -> Statistic | None:
    (e,) = nodes[i].args
    if nodes[e].op != "exp" or nodes[nodes[e].args[0]].op != "sub":
        return None
    a, m = nodes[nodes[e].args[0]].args
    largest = nodes[m]
    same = largest.op == "reduce.max" and largest.args == (a,) and largest.dim == nodes[i].dim
    return Exponentials(m, i, a) if same else None


def _squares(nodes: Mapping[int, Node], i: int, along: str) -> Statistic | None:
    (square,) = nodes[i].args
    if nodes[square].op != "mul" or nodes[square].args[0] != nodes[square].args[1]:
        return None
    rest = nodes[nodes[square].args[0]]
    if rest.op != "sub":
        return None
    a, mean = rest.args
    total = _mean_of(nodes, mean, along)
    if total is None or nodes[total].op != "reduce.add" or nodes[total].args != (a,):
        return None
    return Squares(total, i, a) if nodes[total].dim == along else None


def _mean_of(nodes: Mapping[int, Node], mean: int, along: str) -> int | None:
    """The sum that a mean divides by the extent."""
    node = nodes[mean]
    if node.op == "div" and nodes[node.args[1]] == Node("size", dim=along):
        return node.args[0]
    if node.op != "mul":
        return None
    for total, factor in (node.args, node.args[::-1]):
        by = nodes[factor]
        if by.op == "div" and nodes[by.args[0]] == Node("const", value=1.0):
            if nodes[by.args[1]] == Node("size", dim=along):
                return total
    return None


def reduced_over_lanes(name: str, op: str, lanes: int = 32) -> Iterator[Stmt]:
    """A register of each lane becomes that of all lanes, or of so many side by side."""
    other = f"s{name}"
    for distance in (d for d in _DISTANCES if d < lanes):
        yield Shuffle(other, Var(name), Int(distance))
        yield Compute(name, REDUCTIONS[op].combine(Var(name), Var(other)))


def _filled(value: float, length: int) -> Expr:
    """A number in each of so many elements."""
    if length == 1:
        return Float(value)
    places = Call("iota", (Int(length), Int(1), Int(length)))
    return Call("select", (places >= 0, Float(value), Float(value)))


def _inside(condition: Expr | None, x: Expr, otherwise: Expr) -> Expr:
    return x if condition is None else Call("select", (condition, x, otherwise))


def _exp(x: Expr, less: Expr) -> Expr:
    return Call("exp", (Binary("-", x, less),))


__all__ = [
    "Exponentials", "One", "Squares", "Statistic", "reduced_over_lanes", "statistics", "together",
]  # fmt: skip
