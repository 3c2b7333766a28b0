"""Tiles and the blocks that they are drawn for: no smaller block may be taken for the one that is meant.

A tile has ``rows`` rows for each thread of a block, and perhaps a column that pads it. Its stores are right
for the block: each word is written by one thread. In a wrong twin some distance is too short, so that threads
of the block write one word. That block's harm is the mistake, and half of the block, which is right by
chance, must not be taken in its place. What is right is counted here thread by thread, and which block is
meant is drawn; no number of bytes is compared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product
from random import Random

import pytest

from syncverify.frontends.ptx.analysis.blocks import strided_stores
from syncverify.frontends.ptx.analysis.blocks.strided_stores import as_large_as_stores_allow
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

TEXT = """.version 8.0
.target sm_90
.address_size 64
.shared .align 16 .b8 s[{bytes}];
.visible .entry k()
{{ .reg .b32 %r<9>; .reg .b64 %rd<2>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, s;
  mad.lo.s32 %r4, %r1, {x}, %r3; mad.lo.s32 %r4, %r2, {y}, %r4;
  {stores}
  ret;
}}
"""


@dataclass(frozen=True)
class Tile:
    """Bytes between threads along x, along y, and between the rows of a thread; what is stored at once."""

    block: tuple[int, int]
    rows: int
    x: int
    y: int
    apart: int
    size: int
    whole: int

    def chosen(self, block: tuple[int, int]) -> bool:
        kind = {4: "u32", 8: "u64"}[self.size]
        what = {4: "%r1", 8: "%rd1"}[self.size]
        stores = " ".join(f"st.shared.{kind} [%r4+{n * self.apart}], {what};" for n in range(self.rows))
        text = TEXT.format(bytes=self.whole, x=self.x, y=self.y, stores=stores)
        flow = Flow(parse(text, "k.ptx").functions[0])
        return as_large_as_stores_allow(flow, (*block, 1), {"s": self.whole})

    def alone(self, block: tuple[int, int]) -> bool:
        """Whether no two threads of a block write one byte."""
        seen: dict[int, tuple[int, int]] = {}
        for i, j, n in product(range(block[0]), range(block[1]), range(self.rows)):
            for k in range(self.size):
                at = self.x * i + self.y * j + self.apart * n + k
                if seen.setdefault(at, (i, j)) != (i, j):
                    return False
        return True


def tile(draw: Random) -> Tile:
    block = draw.choice([(8, 2), (8, 4), (4, 4), (16, 2), (4, 8), (16, 4)])
    rows, pad, size = draw.choice([1, 2, 2, 4]), draw.choice([0, 0, 1]), draw.choice([4, 4, 8])
    row = (block[0] + pad) * size
    return Tile(block, rows, size, row, row * block[1], size, row * block[1] * rows)


def twins(t: Tile) -> list[Tile]:
    """The same with a distance that is too short."""
    found = [Tile(t.block, t.rows, t.x, t.y // 2, t.apart, t.size, t.whole)]
    if t.rows > 1:
        found.append(Tile(t.block, t.rows, t.x, t.y, t.apart - t.y, t.size, t.whole))
        found.append(Tile(t.block, t.rows, t.x, t.y, t.apart // 2, t.size, t.whole))
    return [x for x in found if not x.alone(t.block)]


def smaller(block: tuple[int, int]) -> list[tuple[int, int]]:
    x, y = block
    return [b for b in ((x, y // 2), (x // 2, y), (x // 2, y // 2), (x // 4, y)) if min(b) > 1]


def judged(seed: int) -> Counter[str]:
    """How often a block is meant and chosen, and what is wrong of it."""
    t = tile(Random(seed))
    found = Counter(meant=1, chosen=int(t.chosen(t.block)))
    found["half of a right one"] += sum(t.chosen(b) for b in smaller(t.block))
    for twin in twins(t):
        found["wrong twins"] += 1
        found["part of a wrong one"] += sum(twin.chosen(b) for b in smaller(t.block) if twin.alone(b))
    return found


def test_the_block_that_is_meant_is_chosen_and_no_part_of_it() -> None:
    found = sum((judged(seed) for seed in range(40)), Counter[str]())
    assert found["half of a right one"] == found["part of a wrong one"] == 0, found
    assert found["chosen"] >= 30, found
    assert found["wrong twins"] >= 60, found


def test_half_of_a_tile_with_a_wrong_distance_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The array is always taken to be full."""
    monkeypatch.setattr(strided_stores, "prod", lambda _: 1 << 20)
    assert sum((judged(seed) for seed in range(40)), Counter[str]())["part of a wrong one"] > 0
