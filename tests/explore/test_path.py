"""What a path finds out from bounds and inequalities."""

from __future__ import annotations

from itertools import product

from syncverify.model.path import Interval, product_bounds
from syncverify.model.terms import Space

ENDS = (None, -3, -1, 0, 1, 2, 4)
FAR = 9  # stands for no bound


def _numbers(x: Interval) -> range:
    low, high = x
    return range(-FAR if low is None else low, (FAR if high is None else high) + 1)


def test_bounds_of_a_product_are_those_of_its_ends() -> None:
    for a, b, c, d in product(ENDS, repeat=4):
        x, y = (a, b), (c, d)
        values = [p * q for p in _numbers(x) for q in _numbers(y)]
        if not values:
            continue
        low, high = product_bounds(x, y)
        assert min(values) <= -FAR if low is None else low == min(values), (x, y)
        assert max(values) >= FAR if high is None else high == max(values), (x, y)


def test_a_quotient_is_known_from_one_inequality_with_its_remainder() -> None:
    space = Space()
    q, r, u = space.atom("q", 0, 100), space.atom("r", 0, 1), space.atom("u", 0, 100)
    path = space.path
    path.assume(*space.of(q * 2 + r - u * 4 - 5))  # q >= 2u + 2
    path.assume(*space.of(u * 2 + 2 - q))  # q <= 2u + 2
    assert space.resolved(q - u * 2) == 2
    assert space.resolved(r) == 1
