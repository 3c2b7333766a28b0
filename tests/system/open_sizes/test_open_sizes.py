"""Proofs for every size of random kernels, beside checks at numbers."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from tests.system.open_sizes import addresses, conditions, ring_loops, strided_rows
from tests.system.open_sizes.agreement import OpenKernel, contradiction
from tests.system.open_sizes.assumed import breaks_assumption
from tests.system.open_sizes.steps import REGISTERS

DRAWN, MORE = 8, 2_000
#: A kernel that reads the highest bit of a product.
ASSUMED_SEED = 900_955
#: Rings whose search is short.
RINGS = (1, 3, 4, 5, 6, 7, 10, 11)
#: Rows that are shared out: three are proved, and one has a mistake.
ROWS = (15, 20, 29, 26)
#: The same of two arrays: one is proved with accesses inside their arrays, and one has a mistake.
TWO_ARRAYS = (32, 23)
#: The same of arrays that sizes carve out of one dynamic shared memory.
CARVED = (7, 3)
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


def test_rows_of_carved_arrays_are_right_at_numbers() -> None:
    found = []
    for seed in CARVED:
        kernel, numbers, _ = strided_rows.kernel(seed, carved=True)
        found.append(kernel.with_sizes_as_data())
        assert contradiction(kernel, numbers, found[-1]) is None
    assert found == [Verdict.PROVED, Verdict.UNKNOWN]


#: Arithmetic on ``n`` as the conditions have it, a number, and whether it breaks what proofs assume.
ASSUMED = (
    ("shl.b32 %x1, %n, 1; shr.u32 %x2, %x1, 31;", 1_453_333_400, True),
    ("shl.b32 %x1, %n, 1; shr.u32 %x2, %x1, 31;", 100, False),
    ("shl.b32 %x1, %n, 1; setp.lt.s32 %p1, %x1, 0;", 1 << 30, True),
    ("shl.b32 %x1, %n, 1; setp.lt.u32 %p1, %x1, 9;", 1 << 30, False),
    ("shl.b32 %x1, %n, 31; setp.lt.s32 %p1, %x1, 0;", 1 << 30, False),
    ("shl.b32 %x1, %n, 31; shr.u32 %x2, %x1, 31;", 3, False),
    ("mul.lo.u32 %x1, %n, %n;", 70_000, True),
    ("mul.lo.u32 %x1, %n, %n;", 60_000, False),
    ("sub.s32 %x1, %n, 5; add.s32 %x1, %x1, 10;", 0, False),
    ("setp.lt.s32 %p1, %n, 0;", (1 << 31) + 5, False),
    ("shr.u32 %x1, %n, 31;", (1 << 31) + 5, False),
    ("add.s32 %x1, %n, 1; shr.s32 %x1, %x1, 4;", (1 << 31) - 1, True),
    ("xor.b32 %x1, %n, 64; shr.u32 %x1, %x1, 31;", (1 << 31) + 5, False),
    ("popc.b32 %x1, %n;", 7, None),
)


@pytest.mark.parametrize(("lines", "number", "expected"), ASSUMED)
def test_which_numbers_break_what_proofs_assume(lines: str, number: int, expected: bool | None) -> None:
    text = conditions.TEXT.format(
        registers=REGISTERS,
        word="u32",
        wide="u64",
        lines=lines,
        conditions="setp.eq.u32 %p7, %t, 64; setp.eq.u32 %p8, %t, 64;",
        other=4,
    )
    assert breaks_assumption(text, {"n": number, "big": 1}) is expected


def test_a_contradiction_that_the_proof_assumes_away_is_none() -> None:
    kernel, _ = conditions.kernel(ASSUMED_SEED)
    numbers = {"n": 1_453_333_400, "big": 16}
    assert kernel.for_every_size() is Verdict.PROVED
    assert kernel.check(scope="exact", values=numbers) is Verdict.REFUTED
    assert kernel.assumed_away(numbers) and contradiction(kernel, [numbers]) is None
    assert not kernel.assumed_away({"n": 100, "big": 16})


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
@pytest.mark.parametrize("arrays", [{}, {"two": True}, {"carved": True}])
def test_more_rows(part: int, arrays: dict[str, bool]) -> None:
    for seed in range(part, MORE, 10):
        kernel, numbers, _ = strided_rows.kernel(seed, **arrays)
        assert contradiction(kernel, numbers, kernel.with_sizes_as_data()) is None
