"""Slots of random accesses: the bytes of each turn are those of its slot, and shared bytes are seen."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from syncverify.checker.induction.slots import FIXED, STEPS, Access, Bytes, laid_out

PERIOD = 12


def ring(rng: random.Random, base: int, depth: int, stride: int) -> Access:
    """Bytes inside a slot of a ring, from some slot on."""
    size = rng.choice((4, 8, stride))
    inside, shift = rng.randrange(stride - size + 1), rng.randrange(depth)
    lows = [base + (r + shift) % depth * stride + inside for r in range(PERIOD)]
    return Access(0, {(r, 0): Bytes(((lo, lo + size, 0),)) for r, lo in enumerate(lows)})


def fixed(rng: random.Random) -> Access:
    low = rng.randrange(40)
    return Access(
        0, dict.fromkeys(((r, 0) for r in range(PERIOD)), Bytes(((low, low + rng.randrange(1, 90), 0),)))
    )


def bytes_of(a: Access, turn: int) -> set[int]:
    """What an access was given for a turn."""
    found: set[int] = set()
    for part in a.parts:
        at = part.shift if a.moves.by == FIXED else (turn + part.shift) % part.region.depth
        for lo, hi, _ in part.pieces:
            found |= {x + at * part.region.stride for x in range(lo, hi)}
    return found


def touched(a: Access, turn: int) -> set[tuple[str, int, int]]:
    """Buffer, slot and byte inside it."""
    out = set()
    for part in a.parts:
        at = part.shift if a.moves.by == FIXED else (turn + part.shift) % part.region.depth
        out |= {(part.region.name, at, x) for lo, hi, _ in part.pieces for x in range(lo, hi)}
    return out


def real(by: Mapping[tuple[int, int], Bytes], turn: int) -> set[int]:
    return {x for lo, hi, _ in by[turn % PERIOD, 0].pieces for x in range(lo, hi)}


@pytest.mark.parametrize("seed", range(150))
def test_bytes_are_those_of_a_slot(seed: int) -> None:
    rng = random.Random(seed)
    depth = rng.choice((2, 3, 4))
    some = [ring(rng, 0, depth, 16) for _ in range(rng.randrange(1, 4))]
    some += [ring(rng, rng.choice((64, 72, 8)), rng.choice((2, 3)), 16) for _ in range(rng.randrange(3))]
    some += [fixed(rng) for _ in range(rng.randrange(3))]
    for a in some:
        a.site = rng.randrange(2)
    laid_out(some, dict.fromkeys(range(len(some)), (PERIOD, 1)))
    depths = {(part.region.name, part.region.depth) for a in some for part in a.parts}
    assert len(depths) == len({name for name, _ in depths})
    for turn in range(PERIOD):
        for a in some:
            # what does not move with its turns touches the bytes of all of them
            assert bytes_of(a, turn) >= real(a.by, turn)
            assert a.moves.by == FIXED or bytes_of(a, turn) == real(a.by, turn)
        for a in some:
            for b in some:
                for other in range(PERIOD):
                    if real(a.by, turn) & real(b.by, other):
                        assert touched(a, turn) & touched(b, other)


def test_what_is_written_over_a_ring_leaves_it_a_ring() -> None:
    rng = random.Random(1)
    over = Access(0, dict.fromkeys(((r, 0) for r in range(PERIOD)), Bytes(((10, 60, 0),))))
    some = [ring(rng, 0, 4, 16), over]
    (region, *more) = laid_out(some, {0: (PERIOD, 1), 1: (PERIOD, 1)})
    assert {region.depth, *(r.depth for r in more)} >= {4}
    assert some[0].moves.by == STEPS and over.moves.by == FIXED and len(over.parts) >= 4


@pytest.mark.parametrize(("depth", "site", "buffers"), [(3, 7, 1), (4, 7, 2), (3, 8, 2)])
def test_bytes_of_one_place_of_the_code_share_a_buffer(depth: int, site: int, buffers: int) -> None:
    """Two warps go round rings of their own, and touch no byte together."""
    rng = random.Random(2)
    some = [ring(rng, 0, 3, 16), ring(rng, 4096, depth, 16)]
    some[0].site, some[1].site = 7, site
    regions = laid_out(some, {0: (PERIOD, 1), 1: (PERIOD, 1)})
    assert len({r.name for r in regions}) == buffers
    every = [touched(some[0], x) & touched(some[1], y) for x in range(PERIOD) for y in range(PERIOD)]
    assert not any(every)


def test_buffers_that_one_place_accesses_are_one_through_others() -> None:
    """A place of the code that one warp's bytes have for themselves does not part them from other warps'."""
    some = [Access(0, {(0, 0): Bytes(((low, low + 8, 0),))}, site) for low, site in ((0, 7), (0, 8), (64, 7))]
    regions = laid_out(some, dict.fromkeys(range(3), (1, 1)))
    assert [r.name for r in regions] == ["bytes 0 of block 0"]
    assert touched(some[0], 0) & touched(some[1], 0) and not touched(some[0], 0) & touched(some[2], 0)
