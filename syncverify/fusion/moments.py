"""A sum and the sum of the squares about the mean, in one step: where all threads hold as many elements.

Elements that stay in registers: a warp's sum, then its squares about the mean of that. Else each thread keeps
the sum of what it read and the squares about the mean of that; two equal parts become one by the difference
of their sums. Warps by each one's distance from the mean of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from syncverify.fusion.online import reduced_over_lanes
from syncverify.ir.expr import Call, Expr, Float, Int, Var
from syncverify.ir.nodes import Compute, Shuffle, Stmt

#: Lanes that put the parts of as many warps together, or more: few registers, few operations.
BY_LANES = 8
#: Of many warps so few lanes do, each of several parts.
FEW_LANES = 4
#: Of a register of two, which is the first.
FIRST = Call("iota", (Int(2), Int(1), Int(2))) < 1


@dataclass(frozen=True, slots=True)
class Moments:
    """``total``, ``squares``: the reductions, whose registers hold what is kept. ``argument``: of what."""

    total: int
    squares: int
    argument: int

    def local(self, x: Expr, before: int, count: int) -> Iterator[Stmt]:
        """With ``count`` more elements of a thread that has seen some ``before``."""
        total, squares = Var(f"t{self.total}"), Var(f"t{self.squares}")
        c, d = (Var(f"{name}{self.total}") for name in "cd")
        away = x - c * Float(1.0 / count)
        yield Compute(c.name, Call("reduce.add", (x,)))
        yield Compute(d.name, Call("reduce.add", (away * away,)))
        if not before:
            yield Compute(total.name, c)
            yield Compute(squares.name, d)
            return
        apart = Var(f"e{self.total}")
        yield Compute(apart.name, total * Float(1.0 / before) - c * Float(1.0 / count))
        share = Float(before * count / (before + count))
        yield Compute(squares.name, squares + d + apart * apart * share)
        yield Compute(total.name, total + c)

    def summed(self, x: Expr, first: bool) -> Stmt:
        """The sum alone, of one more group of elements that stay."""
        total, part = Var(f"t{self.total}"), Call("reduce.add", (x,))
        return Compute(total.name, part if first else total + part)

    def of_warp(self, groups: Sequence[Expr], lanes: int, count: int) -> Iterator[Stmt]:
        """Of lanes side by side, each of which still has its ``count`` elements and their sum."""
        total, squares, mean = (Var(n) for n in (f"t{self.total}", f"t{self.squares}", f"c{self.total}"))
        yield from reduced_over_lanes(total.name, "reduce.add", lanes)
        yield Compute(mean.name, total * Float(1.0 / (lanes * count)))
        for k, x in enumerate(groups):
            part = Call("reduce.add", ((x - mean) * (x - mean),))
            yield Compute(squares.name, squares + part if k else part)
        yield from reduced_over_lanes(squares.name, "reduce.add", lanes)

    def over_lanes(self, lanes: int, count: int, together: bool = False) -> Iterator[Stmt]:
        """Of so many lanes side by side, each of which has ``count`` elements.

        ``together``: both numbers go in one shuffle, since for a proof each is a meeting of the warp.
        """
        total, squares = Var(f"t{self.total}"), Var(f"t{self.squares}")
        other, also, apart, both = (Var(f"{x}{self.total}") for x in ("st", "sq", "e", "sb"))
        distance = lanes // 2
        while distance:
            if together:
                yield Shuffle(both.name, Call("select", (FIRST, total, squares)), Int(distance))
                yield Compute(other.name, Call("reduce.add", (Call("select", (FIRST, both, Float(0.0))),)))
                yield Compute(also.name, Call("reduce.add", (Call("select", (FIRST, Float(0.0), both)),)))
            else:
                yield Shuffle(other.name, total, Int(distance))
                yield Shuffle(also.name, squares, Int(distance))
            yield Compute(apart.name, total - other)
            yield Compute(squares.name, squares + also + apart * apart * Float(0.5 / count))
            yield Compute(total.name, total + other)
            count *= 2
            distance //= 2

    def over_warps(self, warps: int, width: int) -> Iterator[Stmt]:
        """Of all warps, whose parts of the row's ``width`` elements are read: some of each lane, or all."""
        total, squares = Var(f"t{self.total}"), Var(f"t{self.squares}")
        totals, parts = Var(f"q{self.total}"), Var(f"q{self.squares}")
        count, each = width // warps, of_lane(warps)
        if each == 1:
            yield Compute(total.name, totals)
            yield Compute(squares.name, parts)
        else:
            away = totals - total * Float(1.0 / each)
            yield Compute(total.name, Call("reduce.add", (totals,)))
            yield Compute(squares.name, Call("reduce.add", (parts + away * away * Float(1.0 / count),)))
        yield from self.over_lanes(warps // each, count * each, crowded(warps))


def of_lane(warps: int) -> int:
    """How many warps' parts each lane reads: all, or one; of many warps so many that few lanes have all."""
    if warps < BY_LANES or warps & (warps - 1):
        return warps
    return warps // FEW_LANES if crowded(warps) else 1


def crowded(warps: int) -> bool:
    """Whether warps are so many that a proof takes seconds, if they meet too often."""
    return warps > 2 * BY_LANES


__all__ = ["Moments", "crowded", "of_lane"]
