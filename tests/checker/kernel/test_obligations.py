"""Which threads share bytes, against every pair of pieces."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from syncverify.checker.kernel.hops import Graph, near
from syncverify.checker.kernel.linear import ZERO
from syncverify.checker.kernel.obligations import overlap
from syncverify.checker.kernel.protocol import Level, Touch
from syncverify.model.proxies import Access
from tests.checker.kernel.families import plain

Pieces = tuple[tuple[int, int, int], ...]


class Wide(Graph):
    """Threads of two sites may be any of a block's."""

    def between(self, a: int, b: int) -> Level:
        return Level.ALL


def pieces(rnd: random.Random) -> Pieces:
    """Few intervals, so that many are equal, of threads that are near each other or far apart."""
    base = rnd.choice((0, 30, 100, 300))
    lows = [rnd.randrange(12) for _ in range(4)]
    some = [(rnd.choice(lows), base + rnd.choice((0, 1, 5, 40, 130))) for _ in range(rnd.randrange(1, 6))]
    return tuple((low, low + rnd.choice((1, 2, 4)), thread) for low, thread in some)


def farthest(g: Graph, xs: Pieces, ys: Pieces) -> Level | None:
    """The level of the farthest two threads that share a byte."""
    shared = [near(t, w, g.p.warp) for a, b, t in xs for c, d, w in ys if a < d and c < b]
    return max(shared) if shared else None


@pytest.mark.parametrize("seed", range(4))
def test_threads_that_share_bytes_are_as_far_apart_as_some_pair_is(seed: int) -> None:
    rnd, g = random.Random(seed), Wide(replace(plain(), warp=32), {})
    seen = set()
    for _ in range(400):
        xs, ys = pieces(rnd), pieces(rnd)
        x, y = (Touch(Access.GENERIC_WRITE, "tile", ZERO, some) for some in (xs, ys))
        found = overlap(g, 0, x, 1, y)
        assert found == farthest(g, xs, ys)
        seen.add(found)
    assert seen == {None, Level.THREAD, Level.WARP, Level.WARPGROUP, Level.ALL}
