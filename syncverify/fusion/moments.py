"""A sum and the sum of the squares about the mean, in one step: where all threads hold as many elements.

Each keeps the sum of what it holds and the squares about the mean of that; two equal parts become one by the
difference of their means, warps by each one's distance from the mean of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from syncverify.ir.expr import Call, Expr, Float, Int, Var
from syncverify.ir.nodes import Compute, Shuffle, Stmt


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

    def over_lanes(self, lanes: int, count: int) -> Iterator[Stmt]:
        """Of so many lanes side by side, each of which has ``count`` elements."""
        total, squares = Var(f"t{self.total}"), Var(f"t{self.squares}")
        other, also, apart = (Var(f"{x}{self.total}") for x in ("st", "sq", "e"))
        distance = lanes // 2
        while distance:
            yield Shuffle(other.name, total, Int(distance))
            yield Shuffle(also.name, squares, Int(distance))
            yield Compute(apart.name, (total - other) * Float(1.0 / count))
            yield Compute(squares.name, squares + also + apart * apart * Float(0.5 * count))
            yield Compute(total.name, total + other)
            count *= 2
            distance //= 2

    def over_warps(self, count: int, width: int) -> Iterator[Stmt]:
        """Of all warps, each of which has ``count`` elements of the row's ``width``."""
        totals, squares = Var(f"q{self.total}"), Var(f"q{self.squares}")
        yield Compute(f"t{self.total}", Call("reduce.add", (totals,)))
        away = totals * Float(1.0 / count) - Var(f"t{self.total}") * Float(1.0 / width)
        spread = squares + away * away * Float(float(count))
        yield Compute(f"t{self.squares}", Call("reduce.add", (spread,)))


__all__ = ["Moments"]
