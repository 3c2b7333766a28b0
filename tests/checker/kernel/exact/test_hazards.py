"""Which lanes touch a byte, by intervals and byte by byte."""

from __future__ import annotations

import random

from syncverify.checker.kernel.exact.hazards import _same_lanes
from syncverify.model.events import Footprint

Lanes = tuple[tuple[int, int, int], ...]


def by_bytes(first: Lanes, second: Lanes, lo: int, hi: int) -> bool:
    """Whether each byte of ``lo..hi`` has at most one lane, byte by byte."""
    owners = [{n for a, b, n in (*first, *second) if a <= byte < b} for byte in range(lo, hi)]
    return bool(first and second) and all(len(found) <= 1 for found in owners)


def drawn(rnd: random.Random) -> Lanes:
    pieces = [
        (a := rnd.randrange(12), a + rnd.randint(1, 4), rnd.randrange(3)) for _ in range(rnd.randrange(4))
    ]
    return tuple(sorted(pieces))


def test_one_lane_of_each_byte() -> None:
    rnd, held = random.Random(5), 0
    for _ in range(3000):
        first, second, lo = drawn(rnd), drawn(rnd), rnd.randrange(12)
        hi = lo + rnd.randint(1, 5)
        found = _same_lanes(Footprint(0, (), first), Footprint(0, (), second), lo, hi)
        assert found == by_bytes(first, second, lo, hi), (first, second, lo, hi)
        held += found
    assert 300 < held < 2700
