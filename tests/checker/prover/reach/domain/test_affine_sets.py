"""When the values of one state are among those of another."""

from __future__ import annotations

from typing import Any

from syncverify.checker.prover.reach.domain.affine_sets import is_subset
from syncverify.checker.prover.reach.domain.affine_widening import AffineWidening
from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.inequalities import Sum
from syncverify.symbolic.path_condition import PathCondition


def covers(
    space: SymbolicContext, earlier: list[Any], later: list[Any], path: PathCondition, there: PathCondition
) -> bool:
    def rows(values: list[Any]) -> list[Sum]:
        return [space.of(v) for v in values]

    return is_subset(space, rows(earlier), path, rows(later), there)


def test_a_product_covers_no_number_that_is_no_multiple_of_its_factor() -> None:
    # once x is learnt to be 2, the product is written as 2 * y: an odd number was never followed
    space = SymbolicContext()
    x, y = (space.symbol(name, 0) for name in "xy")
    p, q = (space.symbol(name, 0) for name in "pq")
    assert not covers(space, [x, x * y], [p, q], PathCondition(space), PathCondition(space))
    assert not covers(space, [x, x * y], [2, q], PathCondition(space), PathCondition(space))
    assert covers(space, [x, x * y], [2, 2 * q], PathCondition(space), PathCondition(space))


def test_the_factor_that_no_row_shows_keeps_its_bounds() -> None:
    space = SymbolicContext()
    x, y = space.symbol("x", 0), space.symbol("y", 0, 9)
    few, many = space.symbol("few", 0, 9), space.symbol("many", 0)
    assert covers(space, [x, x * y], [x, x * few], PathCondition(space), PathCondition(space))
    assert not covers(space, [x, x * y], [x, x * many], PathCondition(space), PathCondition(space))


def test_the_factor_that_no_row_shows_is_the_same_in_all_products() -> None:
    space = SymbolicContext()
    x, y, z = (space.symbol(name, 0) for name in "xyz")
    a, b = (space.symbol(name, 0) for name in "ab")
    earlier = [x, x * y, z, z * y]
    assert covers(space, earlier, [x, x * a, z, z * a], PathCondition(space), PathCondition(space))
    assert not covers(space, earlier, [x, x * a, z, z * b], PathCondition(space), PathCondition(space))


def test_what_is_known_of_the_factor_must_hold() -> None:
    space = SymbolicContext()
    x, y, a = (space.symbol(name, 0) for name in "xya")
    path, there = PathCondition(space), PathCondition(space)
    path.assume(*space.of(x - y))
    assert not covers(space, [x, x * y], [x, x * a], path, there)
    there.assume(*space.of(x - a - 1))
    assert covers(space, [x, x * y], [x, x * a], path, there)


def test_a_product_of_which_no_row_shows_a_factor_is_any_number_within_its_bounds() -> None:
    space = SymbolicContext()
    x, y = space.symbol("x", 1), space.symbol("y", 1)
    positive, any_ = space.symbol("positive", 1), space.symbol("any")
    assert covers(space, [x * y], [positive], PathCondition(space), PathCondition(space))
    assert not covers(space, [x * y], [any_], PathCondition(space), PathCondition(space))


def widened(
    space: SymbolicContext, earlier: list[Any], later: list[Any], path: PathCondition, there: PathCondition
) -> tuple[Any, Any]:
    """The widened rows, as values, and what is known of them."""
    first, second = ([space.of(v) for v in rows] for rows in (earlier, later))
    w = AffineWidening(space, first, path, second, there)
    space.path = w.path
    return [space.term(*row) for row in w.result], w


def test_what_a_tile_adds_to_a_flat_counter_is_kept_as_a_product() -> None:
    space = SymbolicContext()
    size = space.symbol("K", 1)
    (size_, tile, flat), w = widened(
        space, [size, 1, size + 3], [size, 2, 2 * size + 3], PathCondition(space), PathCondition(space)
    )
    assert size_ is size
    assert flat - tile * size == 3
    for side, t in ((0, 1), (1, 2)):
        (counter,) = w.moving
        assert w.values[side][counter] == (t - 1, ())


def test_a_size_that_is_a_number_in_one_state_is_no_unit() -> None:
    space = SymbolicContext()
    size = space.symbol("K", 1)
    (size_, limit), _ = widened(space, [size, size], [size, 5], PathCondition(space), PathCondition(space))
    assert size_ is not size
    assert len(limit.parts) == 1


def test_what_products_imply_of_counters_is_kept() -> None:
    # (R - t) * C >= 1 says t < R, though only the first was assumed on one side
    space = SymbolicContext()
    rows, columns = space.symbol("R", 0), space.symbol("C", 1)
    t, s = (space.symbol(x, 0, widened=True) for x in "ts")
    path, there = PathCondition(space), PathCondition(space)
    path.assume(*space.of(rows - t - 1))
    there.assume(*space.of((rows - s) * columns - 1))
    (r, _, tile), w = widened(space, [rows, columns, t], [rows, columns, s], path, there)
    assert w.path.implies(*w.path.resolve(*space.of(r - tile - 1)))


def test_a_bound_that_follows_from_relations_is_still_said_as_a_bound() -> None:
    # what is known of sizes at a glance, by bounds, must not get lost from one widening to the next
    space = SymbolicContext()
    step, size, later_step, later_size = (space.symbol(x) for x in ("k", "K", "k", "K"))
    sides = PathCondition(space), PathCondition(space)
    for path, k, end in zip(sides, (step, later_step), (size, later_size), strict=True):
        for fact in (k, end - 2, end - k - 4):
            path.assume(*space.of(fact))
    (_, end), w = widened(space, [step, size], [later_step + 1, later_size], *sides)
    assert (w.path.bounds(*space.of(end))[0] or 0) > 0


def test_a_counter_is_not_told_to_stay_below_a_size_that_it_has_not_met() -> None:
    # 3 T - t >= 1 holds in both states, for T is 1 or more: by chance, and in the third no more
    space = SymbolicContext()
    size, other = space.symbol("T", 1), space.symbol("U", 1)
    (t, n, _), w = widened(
        space, [0, size, size * other], [1, size, size * other], PathCondition(space), PathCondition(space)
    )
    low, _ = w.path.bounds(*w.path.resolve(*space.of(3 * n - t)))
    assert low is None or low < 0


def test_counters_of_two_loops_are_not_told_to_keep_apart() -> None:
    # 1 + 2 k - t >= 0 holds in both states, where k counts rounds of one tile and t tiles
    space = SymbolicContext()
    k = space.symbol("k", widened=True)
    here, there = PathCondition(space), PathCondition(space)
    here.assume(*space.of(k))
    (rounds, tiles), w = widened(space, [7 + 8 * k, 2], [7, 6], here, there)
    low, _ = w.path.bounds(*w.path.resolve(*space.of(rounds - tiles)))
    assert low is None or low < 1
    assert w.path.bounds(*w.path.resolve(*space.of(tiles)))[0] == 2
