"""Accesses to elements of one size: by brute force over the elements of drawn ranges."""

from __future__ import annotations

import random

from syncverify.model.events import GLOBAL_MEMORY, Footprint, of_one_element


def _words(fp: Footprint) -> set[tuple[int, int]]:
    return {(x, x + fp.element) for a, b in fp.intervals for x in range(a, b, fp.element)}


def test_elements_that_meet_are_the_same() -> None:
    draw = random.Random(20261130)
    found = 0
    for _ in range(2000):
        fps = []
        for _ in range(2):
            element = draw.choice((2, 4, 8))
            at = draw.choice((1, 2, element)) * draw.randrange(8)
            fps.append(
                Footprint(GLOBAL_MEMORY, ((at, at + element * draw.randrange(1, 6)),), element=element)
            )
        if of_one_element(*fps):
            found += 1
            pairs = ((v, w) for v in _words(fps[0]) for w in _words(fps[1]))
            assert all(v == w for v, w in pairs if v[0] < w[1] and w[0] < v[1])
    assert found > 200


def test_without_elements_nothing_is_said() -> None:
    fp = Footprint(GLOBAL_MEMORY, ((0, 16),))
    assert not of_one_element(fp, fp)
