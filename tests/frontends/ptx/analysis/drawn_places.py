"""Drawn loops that copy to places made of their turns, and the places, computed turn by turn.

The numbers are computed here, of the steps that are drawn, and of nothing that reads PTX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random

Step = Callable[[int], int]
WORD = 1 << 32
#: Turns that a loop goes through here, and one inside.
TURNS = 40
BYTES = 256


@dataclass(frozen=True)
class Drawn:
    """``text``: a loop, ``r10`` counts its turns; ``places``: where each copy writes, in order."""

    text: str
    places: tuple[int, ...]

    @property
    def come_back(self) -> bool:
        """Whether two copies share bytes."""
        ordered = sorted(self.places)
        return any(b - a < BYTES for a, b in pairwise(ordered))


def _step(r: Random) -> tuple[str, Step]:
    """A step from ``r20`` to ``r20``."""
    n = r.choice((0, 1, 2, 3, 7, 8, 31, 256, 512))
    shift = r.choice((0, 1, 4, 8, 24, 31, 32))
    options: list[tuple[str, Step]] = [
        (f"add.u32 %r20, %r20, {n};", lambda x: (x + n) % WORD),
        (f"sub.u32 %r20, %r20, {n};", lambda x: (x - n) % WORD),
        (f"mul.lo.u32 %r20, %r20, {n};", lambda x: x * n % WORD),
        (f"mad.lo.u32 %r20, %r20, {n}, %r20;", lambda x: (x * n + x) % WORD),
        (f"shl.b32 %r20, %r20, {shift};", lambda x: (x << shift) % WORD if shift < 32 else 0),
        (f"shr.u32 %r20, %r20, {shift};", lambda x: x >> shift),
        (f"and.b32 %r20, %r20, {n};", lambda x: x & n),
        (f"xor.b32 %r20, %r20, {n};", lambda x: x ^ n),
        (f"or.b32 %r20, %r20, {n};", lambda x: x | n),
        (f"rem.u32 %r20, %r20, {n + 1};", lambda x: x % (n + 1)),
        (f"min.u32 %r20, %r20, {n};", lambda x: min(x, n)),
        ("sub.u32 %r20, %r20, %r20;", lambda x: 0),
        ("mov.u32 %r20, %r20;", lambda x: x),
    ]
    return r.choice(options)


def _carried(r: Random) -> tuple[str, Step]:
    """What a turn does to ``r12``, which the next one has."""
    n = r.choice((0, 1, 128, 256, 512))
    options: list[tuple[str, Step]] = [
        (f"add.u32 %r12, %r12, {n};", lambda x: (x + n) % WORD),
        (f"add.u32 %r12, %r12, {n}; sub.u32 %r12, %r12, 256;", lambda x: (x + n - 256) % WORD),
        (f"xor.b32 %r12, %r12, {n};", lambda x: x ^ n),
        (f"add.u32 %r12, %r12, {n}; and.b32 %r12, %r12, 1023;", lambda x: (x + n) & 1023),
        (f"mov.u32 %r12, {n};", lambda x: n),
    ]
    return r.choice(options)


def drawn(seed: int) -> Drawn:
    r = Random(seed)
    steps = [_step(r) for _ in range(r.randint(0, 2))]
    carried, move = _carried(r)
    factor = r.choice((1, 256, 256, 512, 2048))
    inside, pitch = r.choice(((1, 0), (1, 0), (2, 256), (4, 256), (4, 128), (4, 512)))
    by_turn = r.random() < 0.6
    whole = " ".join(text for text, _ in steps)
    text = "\n".join(
        (
            "mov.u32 %r12, 4096;\nmov.u32 %r10, 0;\nL:",
            f"mov.u32 %r20, {'%r10' if by_turn else '%r12'};",
            whole,
            f"mul.wide.u32 %rd8, %r20, {factor};",
            "add.u64 %rd1, %rd2, %rd8;\nmov.u32 %r11, 0;\nM:",
            f"cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], {BYTES};",
            "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;",
            f"add.u64 %rd1, %rd1, {pitch};\nadd.u32 %r11, %r11, 1;",
            f"setp.lt.u32 %p3, %r11, {inside};\n@%p3 bra M;",
            carried,
            f"add.u32 %r10, %r10, 1;\nsetp.lt.u32 %p1, %r10, {TURNS};\n@%p1 bra L;",
        )
    )
    return Drawn(text, tuple(_places(steps, move, factor, inside, pitch, by_turn=by_turn)))


def _places(
    steps: list[tuple[str, Step]], move: Step, factor: int, inside: int, pitch: int, *, by_turn: bool
) -> Iterator[int]:
    held = 4096
    for turn in range(TURNS):
        x = turn if by_turn else held
        for _, step in steps:
            x = step(x)
        yield from (x * factor + n * pitch for n in range(inside))
        held = move(held)


__all__ = ["Drawn", "drawn"]
