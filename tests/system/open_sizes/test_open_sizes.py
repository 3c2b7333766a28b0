"""Proofs for every size of random kernels, beside checks at numbers."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from tests.system.open_sizes import addresses, conditions, ring_loops
from tests.system.open_sizes.agreement import OpenKernel, contradiction

DRAWN, MORE = 8, 2_000
#: Rings whose search is short.
RINGS = (1, 3, 4, 5, 6, 7, 10, 11)
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
