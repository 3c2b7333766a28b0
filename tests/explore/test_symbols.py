"""Sizes as values: what they answer, and what they refuse to answer."""

from __future__ import annotations

import pytest

from syncverify.model.symbols import Asked, Linear, Matters, Multiple, NeedsPeriod, NotUniform, Symbolic


def test_a_large_size_notes_the_last_exception() -> None:
    asked = Asked(large=True)
    n = Linear(asked, 3, 0, 2)  # 3 + 2 S
    assert (10 < n) and asked.threshold == 3  # false for S <= 3
    assert n > 4 and asked.threshold == 3
    assert not n == 101 and asked.threshold == 49


@pytest.mark.parametrize("value", range(-5, 30))
def test_thresholds_are_exact_enough(value: int) -> None:
    for compare in (int.__lt__, int.__le__, int.__gt__, int.__ge__, int.__eq__):
        asked = Asked(large=True)
        large = getattr(Linear(asked, 1, 0, 3), compare.__name__)(value)
        for s in range(asked.threshold + 1, asked.threshold + 30):
            assert compare(1 + 3 * s, value) == large


def test_repetitions_must_not_change_an_answer() -> None:
    i = Linear(Asked(large=False), 4, 8, 0)
    assert i > 3 and i % 4 == 0 and (i // 4) % 2 == 1
    with pytest.raises(NotUniform):
        bool(i < 1000)
    with pytest.raises(NotUniform):
        i % 16
    with pytest.raises(NotUniform):
        bool(i == 4)


def test_remainders_of_a_size_ask_for_a_period() -> None:
    with pytest.raises(NeedsPeriod) as e:
        Linear(Asked(large=True), 0, 0, 2) % 6
    assert e.value.factor == 3


def test_a_multiple_knows_remainders_only() -> None:
    n = Multiple(0, 1, "N")
    assert (n * 1024 + 16) % 16 == 0 and (8 * n + 3) % 4 == 3
    for decide in (lambda: n < 3, lambda: n % 2, lambda: n == 0, lambda: bool(n)):
        with pytest.raises(Matters):
            decide()


def test_answers_of_one_run_do_not_serve_another() -> None:
    a, b = (Linear(Asked(large=True), 0, 0, 1) for _ in range(2))
    assert a != b and len({a: 1, b: 2}) == 2


def test_bits_of_a_size_are_refused() -> None:
    with pytest.raises(Symbolic):
        Linear(Asked(large=True), 0, 0, 1) | 1
