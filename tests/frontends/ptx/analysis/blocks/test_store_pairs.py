"""Pairs of stores that meet, beside a comparison of all bytes that drawn stores write, one by one."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import pytest

from syncverify.frontends.ptx.analysis.blocks import store_pairs
from syncverify.frontends.ptx.analysis.blocks.block_places import StoreRows
from syncverify.frontends.ptx.analysis.blocks.store_pairs import Meeting, meetings
from syncverify.frontends.ptx.analysis.registers.thread_values import Numbers

#: By byte in each draw, what a thread of a block stores there; None of a value without a number.
Bytes = dict[tuple[int, ...], tuple[int, ...] | None]


class InNoOrder:
    """Barriers order nothing here."""

    def ordered(self, a: int, b: int, *, by_cluster: bool) -> bool:
        return False


def _numbers(found: list[int]) -> Numbers:
    return np.array(found, dtype=np.uint64)


def _drawn(draw: Random, numbers: bool) -> StoreRows:
    size, words, rows = draw.choice([1, 2, 4, 8]), draw.choice([1, 1, 2, 4]), draw.randint(0, 5)
    apart, even = [0, 4096 + 4 * draw.randrange(2), 65536], draw.choice([1, size, size * words])
    begin = [even * draw.randrange(40 // even + 1) for _ in range(rows)]
    moved = [draw.choice([0, 0, 0, even]) for _ in range(rows)]
    values: list[list[Numbers] | None] = []
    for _ in range(words):
        base = [draw.choice([7, 7, 7, 9, 7 << 8]) for _ in range(rows)]
        known = numbers and draw.random() < 0.8
        values.append(
            [_numbers([b + n * (n == m) for m, b in enumerate(base)]) for n in range(3)] if known else None
        )
    return StoreRows(
        [_numbers([a + b + m * (n == 2) for b, m in zip(begin, moved, strict=True)])
         for n, a in enumerate(apart)],
        _numbers([draw.randrange(2) for _ in range(rows)]),
        _numbers([0] * rows),
        _numbers([draw.randrange(3) for _ in range(rows)]),
        values,
        size,
        certain=True,
        elected=False,
    )  # fmt: skip


def _bytes(x: StoreRows, row: int) -> Bytes:
    found: Bytes = {}
    for n, word in enumerate(x.words):
        for j in range(x.size):
            at = tuple(int(p[row]) + n * x.size + j for p in x.places)
            found[at] = None if word is None else tuple(int(v[row]) >> 8 * j & 255 for v in word)
    return found


def _expected(some: list[StoreRows]) -> set[tuple[int, int, bool]]:
    found = set()
    for (a, x), (b, y) in combinations(enumerate(some), 2):
        for i in range(len(x.blocks)):
            for j in range(len(y.blocks)):
                who = [(int(z.blocks[k]), int(z.threads[k])) for z, k in ((x, i), (y, j))]
                one, other = _bytes(x, i), _bytes(y, j)
                differ = any(one[at] is None or one[at] != other[at] for at in one.keys() & other.keys())
                if who[0] != who[1] and differ:
                    found.add((a, b, who[0][0] != who[1][0]))
    return found


def _differs(seed: int) -> bool:
    """Whether something else is said of drawn stores."""
    draw = Random(seed)
    some = [_drawn(draw, seed % 2 == 0) for _ in range(draw.randint(2, 4))]
    said: list[Meeting] = list(meetings(list(enumerate(some)), InNoOrder()))  # type: ignore[arg-type]
    return {(m.first, m.second, m.of_blocks) for m in said} != _expected(some)


@pytest.mark.parametrize(
    ("first", "last"), [(0, 200), pytest.param(200, 5_000, marks=pytest.mark.slow)], ids=("some", "more")
)
def test_drawn_stores_beside_their_bytes(first: int, last: int) -> None:
    assert [seed for seed in range(first, last) if _differs(seed)] == []


def test_a_mistake_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores without numbers meet only where one of the same instruction begins."""
    begun = store_pairs._begun
    monkeypatch.setattr(store_pairs, "_begun", lambda n, x, _: begun(n, x, np.unique(x.places[0])))
    assert any(map(_differs, range(1, 60, 2)))
