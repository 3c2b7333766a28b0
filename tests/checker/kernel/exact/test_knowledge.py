"""Rows that share what they know alike know what plain numbers say."""

from __future__ import annotations

import random

import pytest

from syncverify.checker.kernel.exact import knowledge
from syncverify.checker.kernel.exact.knowledge import Epoch, VectorClock

ROWS, MARKS, STEPS = 6, 30, 400
Plain = list[dict[Epoch, int]]


def step(rnd: random.Random, rows: list[VectorClock], plain: Plain) -> None:
    """One change of both."""
    i, j = rnd.randrange(ROWS), rnd.randrange(ROWS)
    mark, value = ("t", rnd.randrange(MARKS)), rnd.randint(1, 9)
    match rnd.randrange(4):
        case 0:
            rows[i].advance_to(mark, value)
            plain[i][mark] = max(plain[i].get(mark, 0), value)
        case 1:
            rows[i].join(rows[j])
            plain[i] = {m: max(plain[i].get(m, 0), plain[j].get(m, 0)) for m in plain[i] | plain[j]}
        case 2:
            rows[i].share()
        case 3:
            rows[i], plain[i] = rows[j].copy(), dict(plain[j])


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_share_know_what_plain_numbers_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knowledge, "FEW", 2)
    rnd = random.Random(seed)
    rows, plain = [VectorClock() for _ in range(ROWS)], [dict[Epoch, int]() for _ in range(ROWS)]
    shared = 0
    for _ in range(STEPS):
        step(rnd, rows, plain)
        assert [dict(row.items()) for row in rows] == plain
        assert all(
            row.get(("t", m)) == p.get(("t", m), 0)
            for row, p in zip(rows, plain, strict=True)
            for m in range(MARKS)
        )
        shared += len({id(row.shared) for row in rows if row.shared}) < sum(bool(row.shared) for row in rows)
    assert shared > STEPS // 4
