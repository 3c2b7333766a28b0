"""What a path finds out from bounds and inequalities."""

from __future__ import annotations

from itertools import product
from random import Random

from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.inequalities import Interval, product_bounds

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
    space = SymbolicContext()
    q, r, u = space.symbol("q", 0, 100), space.symbol("r", 0, 1), space.symbol("u", 0, 100)
    path = space.path
    path.assume(*space.of(q * 2 + r - u * 4 - 5))  # q >= 2u + 2
    path.assume(*space.of(u * 2 + 2 - q))  # q <= 2u + 2
    assert space.resolved(q - u * 2) == 2
    assert space.resolved(r) == 1


def test_inequalities_are_multiplied_where_sizes_are() -> None:
    space = SymbolicContext()
    tiles, steps, u = space.symbol("T", 1), space.symbol("K"), space.symbol("u", 0)
    space.path.assume(*space.of(steps - 4 * u - 7))
    assert tiles * steps >= 4 * u + 7
    assert tiles * steps >= steps


def test_a_product_tells_of_its_factors() -> None:
    # (R - 1) * (4u + 5) = 4 has no solution: R is 1 by its bounds, and then 0 = 4
    space = SymbolicContext()
    rows, u = space.symbol("R", 1, 99), space.symbol("u", 0)
    left = (rows - 1) * (4 * u + 5) - 4
    space.path.assume(*space.of(left))
    space.path.assume(*space.of(-left))
    assert space.path.dead


def test_products_follow_what_their_factors_become() -> None:
    space = SymbolicContext()
    x, y, z = (space.symbol(name, 0) for name in "xyz")
    both = x * y
    space.path.substitute(x.parts[0][0], *space.of(2 * z + 1))
    assert space.resolved(both) is 2 * (z * y) + y
    assert space.resolved(x * y) is space.resolved(both)


def test_an_answer_is_kept_only_as_long_as_nothing_more_is_known() -> None:
    space = SymbolicContext()
    x, y = space.symbol("x", 0, 9), space.symbol("y", 0, 9)
    apart = space.of(x - y)
    assert space.path.decide(*apart) is None
    other = space.path.fork()
    space.path.assume(*space.of(x - y - 1))
    assert space.path.decide(*apart) is True
    assert other.decide(*apart) is None
    other.assume(*space.of(y - x - 1))
    assert other.decide(*apart) is False
    space.path.eliminate(set())  # what was known of both is forgotten
    assert space.path.decide(*apart) is None


def test_an_answer_may_rest_on_atoms_that_came_later() -> None:
    space = SymbolicContext()
    x, y = space.symbol("x", 2), space.symbol("y", 2)
    both = x * y
    assert space.path.decide(*space.of(both - 4)) is True
    assert space.path.decide(*space.of(both - 5)) is None
    space.path.assume(*space.of(x + y - 5))
    assert space.path.decide(*space.of(both - 5)) is True  # (x - 2) (y - 2) >= 0


def test_an_answer_that_rewrites_an_atom_may_leave_no_integers() -> None:
    # 24 u + 25 <= K <= 24 u + 28 and 24 v + 21 <= K; 6 u + 7 <= w: with w = 6 v + 7 it is u + 1 <= v
    space = SymbolicContext()
    size, u, v, w = (space.symbol(name, 0) for name in "Kuvw")
    path = space.path
    for known in (size - 24 * u - 25, 24 * u + 28 - size, size - 24 * v - 21, w - 6 * u - 9, w - 6 * v - 7):
        path.assume(*space.of(known))
    path.registers_outdated = False
    assert not path.dead and path.is_feasible()
    path.assume_branch(*space.of(6 * v + 7 - w))
    assert path.dead


def test_what_has_a_solution_is_possible() -> None:
    random = Random(7)
    for _ in range(300):
        space = SymbolicContext()
        names = [space.symbol(name, -3, 3) for name in "xyz"]
        sums = [([random.randint(-3, 3) for _ in names], random.randint(-4, 4)) for _ in range(5)]
        for ks, c in sums:
            space.path.assume_branch(*space.of(sum((k * x for k, x in zip(ks, names, strict=True)), c)))
        solved = any(
            all(sum(k * x for k, x in zip(ks, at, strict=True)) + c >= 0 for ks, c in sums)
            for at in product(range(-3, 4), repeat=3)
        )
        assert not (solved and (space.path.dead or not space.path.is_feasible()))
