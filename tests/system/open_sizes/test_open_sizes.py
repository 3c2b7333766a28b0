"""Proofs for every size of random kernels, beside checks at numbers."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from tests.system.open_sizes import addresses, conditions, ring_loops, strided_rows
from tests.system.open_sizes.agreement import OpenKernel, contradiction

DRAWN, MORE = 8, 2_000
#: Rings whose search is short.
RINGS = (1, 3, 4, 5, 6, 7, 10, 11)
#: Rows that are shared out: three are proved, and one has a mistake.
ROWS = (15, 20, 26, 0)
#: The same of two arrays: one is proved with accesses inside their arrays, and one has a mistake.
TWO_ARRAYS = (32, 23)
#: Seeds of rings: without a mistake, and with one that some number shows.
RIGHT, WRONG = 3, 10


@pytest.mark.parametrize("seed", range(DRAWN))
def test_addresses_that_are_proved_for_every_size_differ_at_numbers(seed: int) -> None:
    assert contradiction(*addresses.kernel(seed)) is None


@pytest.mark.parametrize("seed", range(DRAWN))
def test_conditions_that_are_proved_for_every_size_hold_at_numbers(seed: int) -> None:
    assert contradiction(*conditions.kernel(seed)) is None


@pytest.mark.parametrize("seed", RINGS)
def test_rings_that_are_proved_for_every_size_are_right_at_numbers(seed: int) -> None:
    assert contradiction(*ring_loops.kernel(seed)[:2]) is None


@pytest.mark.parametrize("seed", ROWS)
def test_rows_that_are_proved_with_their_words_as_data_are_right_at_numbers(seed: int) -> None:
    kernel, numbers, _ = strided_rows.kernel(seed)
    assert contradiction(kernel, numbers, kernel.with_sizes_as_data()) is None


def test_some_rows_are_proved_with_their_words_as_data() -> None:
    assert [strided_rows.kernel(seed)[0].with_sizes_as_data() is Verdict.PROVED for seed in ROWS] == [
        *(True,) * 3,
        False,
    ]


def test_rows_of_two_arrays_are_right_at_numbers() -> None:
    found = []
    for seed in TWO_ARRAYS:
        kernel, numbers, _ = strided_rows.kernel(seed, two=True)
        found.append(kernel.with_sizes_as_data())
        assert contradiction(kernel, numbers, found[-1]) is None
    assert found == [Verdict.PROVED, Verdict.UNKNOWN]


def test_a_wrong_proof_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = ring_loops.kernel(RIGHT), ring_loops.kernel(WRONG)
    assert not right[2] and right[0].for_every_size() is Verdict.PROVED
    monkeypatch.setattr(OpenKernel, "for_every_size", lambda _: Verdict.PROVED)
    assert contradiction(*right[:2]) is None
    assert wrong[2] and contradiction(*wrong[:2]) is not None


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_more_addresses(part: int) -> None:
    for seed in range(DRAWN + part, MORE, 10):
        assert contradiction(*addresses.kernel(seed)) is None


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_more_rings(part: int) -> None:
    for seed in range(DRAWN + part, MORE, 10):
        assert contradiction(*ring_loops.kernel(seed)[:2]) is None


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("two", [False, True])
def test_more_rows(part: int, two: bool) -> None:
    for seed in range(part, MORE, 10):
        kernel, numbers, _ = strided_rows.kernel(seed, two=two)
        assert contradiction(kernel, numbers, kernel.with_sizes_as_data()) is None
