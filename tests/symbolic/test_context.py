"""Sizes as values: what they answer, what they ask, and what a path lets follow."""

from __future__ import annotations

from itertools import product

import pytest

from syncverify.symbolic.context import NotConcrete, SymbolicContext, SymbolSplit, UndecidedBranch


def test_sums_need_no_answer() -> None:
    space = SymbolicContext()
    n, k = space.symbol("N"), space.symbol("K")
    assert (n + k * 3 - n) is 3 * k and (n - n) == 0
    assert (8 * n + 5) % 4 == 1 and (64 * n + 7) // 64 is n


def test_an_open_question_is_raised_and_its_answer_kept() -> None:
    space = SymbolicContext()
    n = space.symbol("N", 0)
    with pytest.raises(UndecidedBranch) as asked:
        bool(n > 3)
    space.path.assume(asked.value.c, asked.value.parts)
    assert n > 3 and n >= 4 and n + 1 > 4


def test_answers_about_two_sizes_combine() -> None:
    space = SymbolicContext()
    a, b, c = (space.symbol(x, 0) for x in "abc")
    for low, high in ((a, b), (b, c)):
        space.path.assume(*space.of(high - low - 1))
    assert a < c and not c <= a and c >= 2


def test_a_sum_speaks_of_its_atoms_and_of_all_their_factors() -> None:
    space = SymbolicContext()
    a, b, c, d = (space.symbol(x, 0) for x in "abcd")
    ((three, _),) = space.of(a * b * c)[1]
    _, parts = space.of(a * b * c + 2 * d)
    for _ in range(2):  # it is kept
        assert space.spoken(parts) == {three, *space.factors(three), *(x for x, _ in space.of(d)[1])}
    assert len(space.spoken(parts)) == 6 and space.spoken(()) == frozenset()


def test_equal_bounds_make_a_number() -> None:
    space = SymbolicContext()
    n = space.symbol("N", 4)
    space.path.assume(*space.of(4 - n))
    assert space.resolved(n * 2) == 8


@pytest.mark.parametrize("m", [2, 6, 64])
def test_division_writes_a_size_as_quotient_and_remainder(m: int) -> None:
    space = SymbolicContext()
    n = space.symbol("N", 1)
    with pytest.raises(SymbolSplit) as e:
        n // m
    space.path.substitute(e.value.atom, e.value.c, e.value.parts)
    n = space.resolved(n)
    assert (n // m) * m + n % m is n
    assert space.bounds(n % m) == (0, m - 1) and n >= 1


def test_bits_cut_out_of_a_size_are_remainders() -> None:
    space = SymbolicContext()
    n = space.symbol("N", 0)
    x = n * 16 + 5
    assert x & 7 == 5 and x & 12 == 4 and (x >> 4) is n and (x & ~15) is n * 16


def test_a_size_without_bounds_is_no_number() -> None:
    with pytest.raises(NotConcrete):
        SymbolicContext().symbol("N").__index__()


def test_a_remainder_becomes_a_number_by_questions() -> None:
    space = SymbolicContext()
    r = space.symbol("r", 0, 3)
    for _ in range(4):
        try:
            assert space.number(r) == 3
            return
        except UndecidedBranch as asked:
            space.path.assume(asked.c, asked.parts)
    raise AssertionError


@pytest.mark.parametrize("first", [-6656, -3, 0, 5])
@pytest.mark.parametrize("slot", range(4))
def test_a_place_in_a_ring_is_one_of_few_numbers(first: int, slot: int) -> None:
    """However far apart the places are: only they are asked for."""
    space = SymbolicContext()
    r = space.symbol("r", 0, 3)
    place = r * 8192 + first
    for _ in range(4):
        try:
            assert space.number(place) == 8192 * slot + first
            return
        except UndecidedBranch as asked:
            holds = asked.c + sum(k for _, k in asked.parts) * slot >= 0
            answer = (asked.c, asked.parts)
            space.path.assume(*(answer if holds else (-asked.c - 1, tuple((a, -k) for a, k in asked.parts))))
    raise AssertionError


def test_too_many_places_are_no_number() -> None:
    space = SymbolicContext()
    with pytest.raises(NotConcrete):
        space.number(space.symbol("r", 0, 5000) * 8192)


def test_a_number_is_found_by_answers_that_bounds_do_not_give() -> None:
    """What is known of a sum by others' bounds is no question; the next one is asked."""
    space = SymbolicContext()
    a, b, c = (space.symbol(x, 0, 1) for x in "abc")
    space.path.assume(*space.of(a + b - 1))
    space.path.assume(*space.of(c - a))
    assert space.bounds(b + c) == (0, 2)
    with pytest.raises(UndecidedBranch) as asked:
        space.number(b + c)
    assert (asked.value.c, asked.value.parts) == space.of(b + c - 2)
    space.path.assume(*space.of(1 - b - c))
    assert space.number(b + c) == 1


def test_what_a_path_answers_holds_for_all_numbers_that_it_allows() -> None:
    space = SymbolicContext()
    a, b = space.symbol("a", -2, 3), space.symbol("b", -1, 4)
    facts = [2 * a - 3 * b + 1, a + b]
    for f in facts:
        space.path.assume(*space.of(f))

    def at(t: object, x: int, y: int) -> int:
        c, parts = space.of(t)
        (i,), (j,) = (space.of(v)[1] for v in (a, b))
        return c + sum(k * {i[0]: x, j[0]: y}[n] for n, k in parts)

    allowed = [p for p in product(range(-2, 4), range(-1, 5)) if all(at(f, *p) >= 0 for f in facts)]
    for i, j, c in product(range(-2, 3), range(-2, 3), range(-6, 7)):
        t = a * i + b * j + c
        found = space.path.decide(*space.of(t))
        values = {at(t, *p) >= 0 for p in allowed}
        assert found is None or values == {found}


def test_one_value_for_one_key() -> None:
    space = SymbolicContext()
    n = space.symbol("N", 0)
    assert space.memory_symbol(("a", n + 1), 0, None, "x") is space.memory_symbol(("a", 1 + n), 0, None, "x")
    assert space.memory_symbol(("a", n), 0, None, "x") is not space.memory_symbol(("a", n + 1), 0, None, "x")


def test_a_symbol_that_was_divided_is_known_again() -> None:
    space = SymbolicContext()
    n, k = space.symbol("N", 0, 99), space.symbol("K", 0, 99)
    with pytest.raises(SymbolSplit) as split:
        n % 3
    space.path.substitute(split.value.atom, split.value.c, split.value.parts)
    whole = space.resolved(n)
    assert len(whole.parts) == 2 and space.symbol_of(whole) == space.symbol_of(n) == n.parts[0][0]
    for other in (whole + 1, whole * 2, whole + k, whole - whole % 3, whole % 3):
        assert space.symbol_of(other) != n.parts[0][0]
    space.path.assume(*space.of(whole % 3 - 2))
    assert space.symbol_of(space.resolved(whole)) == n.parts[0][0]
