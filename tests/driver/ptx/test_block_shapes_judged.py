"""Blocks of which `.maxntid` bounds the threads, on random tiles: beside every shape, thread by thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random

import pytest

from syncverify.api import check
from tests.frontends.ptx.execute_helpers import module_text

THREADS = 64
SHAPES = [(32, 2), (16, 4), (8, 8), (4, 16)]
ROW = (64, 1)
WAITS = {"bar.sync 0;": "block", "bar.warp.sync -1;": "warp", "": "none"}
BODY = """
    .shared .align 16 .b8 tile[BYTES];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %tid.y;
    mul.lo.u32 %r3, %r2, ROW;
    mad.lo.u32 %r5, %r1, COLUMN, %r3;
    mov.u32 %r6, tile;
    add.u32 %r7, %r6, %r5;
    mad.lo.u32 %r4, %r2, 100, %r1;
    st.shared.u32 [%r7], %r4;
    WAIT
    OTHER
    add.u32 %r9, %r6, %r8;
    ld.shared.u32 %r10, [%r9];
    mul.wide.u32 %rd2, %r4, 4;
    add.s64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r10;
    ret;
"""


@dataclass(frozen=True)
class Tile:
    """A thread writes the word at ``column * x + row * y``, and reads another: at a step, or transposed."""

    column: int
    row: int
    size: int
    step: int  # 0: the transposed one
    wait: str

    def text(self) -> str:
        other = f"xor.b32 %r8, %r5, {self.step};"
        if not self.step:
            other = f"mul.lo.u32 %r8, %r1, {self.row}; mad.lo.u32 %r8, %r2, {self.column}, %r8;"
        body = BODY.replace("BYTES", str(self.size)).replace("ROW", str(self.row)).replace("OTHER", other)
        body = body.replace("COLUMN", str(self.column)).replace("WAIT", self.wait)
        text = module_text(body, ".param .u64 k_out")
        return text.replace("(.param .u64 k_out)", f"(.param .u64 k_out)\n.maxntid {THREADS}, 1, 1")

    def accesses(self, shape: tuple[int, int]) -> Iterator[tuple[int, int, int, int]]:
        """By thread: its number, its row, the word that it writes, and the one that it reads."""
        for y, x in product(range(shape[1]), range(shape[0])):
            written = self.column * x + self.row * y
            read = written ^ self.step if self.step else self.row * x + self.column * y
            yield y * shape[0] + x, y, written, read

    def inside(self, shape: tuple[int, int]) -> bool:
        return all(max(w, r) + 4 <= self.size for _, _, w, r in self.accesses(shape))

    def fits(self, shape: tuple[int, int]) -> bool:
        rows: dict[int, set[int]] = {}
        for _, y, written, _ in self.accesses(shape):
            rows.setdefault(written, set()).add(y)
        return self.inside(shape) and all(len(ys) == 1 for ys in rows.values())

    def is_right(self, shape: tuple[int, int]) -> bool:
        some = list(self.accesses(shape))

        def races(a: int, b: int) -> bool:
            return WAITS[self.wait] == "none" or (WAITS[self.wait] == "warp" and a // 32 != b // 32)

        return self.inside(shape) and not any(
            a != b and (w == v or (w == r and races(a, b)))
            for (a, _, w, _), (b, _, v, r) in product(some, some)
        )

    def expected(self) -> str:
        """What all shapes that fit agree in, or all if none fits."""
        meant = [s for s in SHAPES if self.fits(s)] or [*SHAPES, ROW]
        found = {self.is_right(s) for s in meant}
        return "unknown" if len(found) > 1 else "proved" if found == {True} else "refuted"


def drawn(seed: int) -> Tile:
    draw = Random(seed)
    column = draw.choice([4, 4, 4, 8])
    row = column * draw.choice([0, 4, 8, 8, 9, 16, 16, 17, 32, 64])
    size = draw.choice([row * h or 256 for h in (2, 4, 8, 8, 16, 16, 32)])
    step = draw.choice([0, 4, column, row, row, 2 * row, 128]) if not row & row - 1 else 0
    return Tile(column, row, size, step, draw.choice(list(WAITS)))


def verdict(tile: Tile) -> str:
    (found,) = check(tile.text(), advice=False)
    return str(found.verdict)


@pytest.mark.parametrize("seed", range(8))
def test_what_the_shapes_agree_in(seed: int) -> None:
    assert verdict(drawn(seed)) == drawn(seed).expected()


@pytest.mark.slow
def test_what_the_shapes_of_many_tiles_agree_in() -> None:
    seeds = [s for s in range(8, 400) if verdict(drawn(s)) != drawn(s).expected()]
    assert seeds == []
