"""Products of which the registers show one factor: the other is found by division, and has to fit."""

from __future__ import annotations

import pytest

from syncverify.driver.certificates.affine_rows import includes
from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.inequalities import Sum
from syncverify.symbolic.path_condition import PathCondition

WRONG = "a product is not that of its factors"
UNKNOWN = "what the other state knows does not follow"


def number(n: int) -> Sum:
    return n, ()


class Points:
    """An earlier point with rows ``x`` and ``x * y``, which knows ``y >= 1``, and a later one with ``z``."""

    def __init__(self) -> None:
        self.space = SymbolicContext(may_havoc=False)
        self.x, self.y, self.z = ((0, (part,)) for part in map(self._new, "xyz"))
        self.product = self.space.times(self.x, self.y)
        self.known, self.there = PathCondition(self.space), PathCondition(self.space)
        self.known.assume(-1, self.y[1])

    def _new(self, name: str) -> tuple[int, int]:
        ((atom, factor),) = self.space.of(self.space.symbol(name))[1]
        return atom, factor

    def why_not(self, x: Sum, product: Sum) -> str | None:
        """Why rows with these values are no case of the earlier point."""
        ((a, _),), ((p, _),) = self.x[1], self.product[1]
        found = {a: x, p: product}
        return includes(self.space, [self.x, self.product], self.known, [x, product], self.there, found)


@pytest.mark.parametrize(
    ("x", "product", "said"),
    [(4, 8, None), (-4, -8, None), (4, 9, WRONG), (0, 8, WRONG), (4, 0, UNKNOWN), (4, -8, UNKNOWN)],
)
def test_numbers(x: int, product: int, said: str | None) -> None:
    assert Points().why_not(number(x), number(product)) == said


def test_the_other_factor_has_to_be_known_as_well() -> None:
    points = Points()
    product = points.space.times(points.x, points.z)
    assert points.why_not(points.x, product) == UNKNOWN
    points.there.assume(-1, points.z[1])
    assert points.why_not(points.x, product) is None
    assert points.why_not(points.x, points.z) == WRONG
    assert points.why_not(points.z, product) == UNKNOWN  # the other factor is x
    assert points.why_not(points.x, points.x) is None  # it is 1
    assert points.why_not(points.x, (1, product[1])) == WRONG
    total = (0, tuple(sorted((*points.x[1], *product[1]))))
    assert points.why_not(points.x, total) is None  # it is 1 + z
