"""Kernels whose block nothing gives, or a bound alone: beside executions with each block.

A drawn kernel writes one word of a shared array for each thread, waits, and reads another word. What is said
of it without a launch file is held against executions by the second reader. A proof says which blocks it
assumes: none of them does harm, and any other does harm because it does not fit. A refutation needs harm in
each block that fits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

from syncverify.api import check
from syncverify.base.diagnostics import KernelReport
from syncverify.simulate.ptx import Harm, Launch, buffer, sample
from syncverify.simulate.ptx.harm import Kind
from tests.frontends.ptx.execute_helpers import module_text
from tests.sweeps import part_of

Block = tuple[int, ...]
#: Blocks that are asked where nothing gives one (docs/decisions/block-size-from-a-bound.md, point 5).
USUAL: dict[int, list[Block]] = {
    1: [(256,), (128,), (512,), (1024,), (64,), (32,)],
    2: [(32, 8), (16, 16), (32, 32), (32, 4), (8, 8)],
}
#: Blocks of few threads, which a kernel may be meant for that writes places twice in all others.
FEW: dict[int, list[Block]] = {1: [(16,), (8,), (4,), (2,)], 2: [(16, 2), (8, 4), (4, 4), (2, 2)]}
BODY = """
    .shared .align 16 .b8 s[BYTES];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r1, %tid.x;
    ROWS
    mov.u32 %r6, s;
    WRITTEN
    add.u32 %r7, %r6, %r5;
    GUARD
    st.shared.u32 [%r7], %r4;
    WAIT
    READ
    add.u32 %r9, %r6, %r8;
    ld.shared.u32 %r10, [%r9];
    mul.wide.u32 %rd2, %r4, 4;
    add.s64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r10;
END:
    ret;
"""
#: Words of the global array: of 1,024 threads, also in rows of 128.
OUT = 1 << 13
WAITS = ["bar.sync 0;", "bar.sync 0;", "bar.warp.sync -1;", ""]
READS = ["xor.b32 %r8, %r5, {step};", "mov.u32 %r8, %r5;", "sub.u32 %r8, {last}, %r5;"]


@dataclass(frozen=True)
class Drawn:
    """A kernel by its text. ``wide``: the words of a row, 0: it reads no row; ``words``: of its array;
    ``most``: the threads that ``.maxntid`` bounds, 0: nothing does."""

    text: str
    wide: int
    words: int
    most: int

    def report(self) -> KernelReport:
        (found,) = check(self.text, advice=False)
        return found

    def harm(self, block: Block) -> Harm | None:
        """Harm of executions with a block."""
        x, y = (*block, 1)[:2]
        out = buffer(np.zeros(OUT, np.uint32))
        launch = Launch((x, y, 1), params=(out,), apart=True)
        return next((r.harm for r in sample(self.text, "k", launch, range(2)) if r.harm is not None), None)

    def fits(self, block: Block) -> bool:
        """Whether a kernel may be meant for a block: it leaves no array, and no rows have the same places."""
        if self.wide and (block[0] > self.wide or self.wide * (block[1] - 1) + block[0] > self.words):
            return False
        harm = self.harm(block)
        return harm is None or harm.kind is not Kind.OUTSIDE

    def aside(self, block: Block, proved: Sequence[Block]) -> bool:
        """Whether a block that goes wrong is no sign of a mistake: it does not fit; of one row, it also has
        more threads than the array has words, or no more than one that is proved."""
        if self.fits(block):
            return self.harm(block) is None
        return len(block) > 1 or block[0] > self.words or any(block[0] <= b[0] for b in proved)


def twice(harm: Harm) -> bool:
    """Whether one statement writes a place twice."""
    return harm.kind is Kind.RACE and harm.other is not None and harm.other.line == harm.where.line


def drawn(seed: int) -> Drawn:
    draw = Random(seed)
    rows, most = draw.random() < 0.4, draw.choice([0, 0, 0, 64, 96, 128])
    words = draw.choice([16, 32, 64, 96, 128, 256, 256, 1024, 1024])
    wide = 0
    if rows:
        wide = draw.choice([8, 16, 32, 32, 33])
        words = wide * draw.choice([4, 8, 16, 32])
        written = f"mad.lo.u32 %r5, %r2, {4 * wide}, %r3;"
        number = (
            f"mov.u32 %r2, %tid.y; shl.b32 %r3, %r1, 2; mad.lo.u32 %r4, %r2, {draw.choice([64, 128])}, %r1;"
        )
    else:
        number = "shl.b32 %r3, %r1, 2; mov.u32 %r4, %r1;"
        written = draw.choice([
            "mov.u32 %r5, %r3;", "mov.u32 %r5, %r3;", "mov.u32 %r5, %r3;", "add.u32 %r5, %r3, 4;",
            "and.b32 %r5, %r3, 60;", "and.b32 %r5, %r3, 124;", "shl.b32 %r5, %r1, 3;", "mov.u32 %r5, 8;",
        ])  # fmt: skip
    guard = draw.choice(["", "", f"setp.ge.u32 %p1, %r1, {draw.choice([16, 32, 64, 96])}; @%p1 bra END;"])
    read = draw.choice(READS).format(step=draw.choice([4, 64, 128, 512]), last=4 * words - 4)
    body = BODY.replace("BYTES", str(4 * words)).replace("ROWS", number).replace("WRITTEN", written)
    body = body.replace("GUARD", guard).replace("WAIT", draw.choice(WAITS)).replace("READ", read)
    bounds = f".maxntid {most}" if most else ""
    return Drawn(module_text(body, ".param .u64 k_out", bounds=bounds), wide, words, most)


def assumed(found: KernelReport) -> list[Block]:
    """The blocks that a verdict assumes."""
    said = [a for a in found.assumptions if a.startswith("block = ")]
    shapes = re.findall(r"\d+(?: x \d+)*", said[0].split(":")[0]) if said else []
    return [tuple(map(int, s.split(" x "))) for s in shapes]


def wrong(k: Drawn) -> str:
    """What is said of a kernel that executions contradict; nothing if they do not."""
    found = k.report()
    verdict, named = str(found.verdict), assumed(found)
    if verdict == "unknown":
        return ""
    if verdict == "proved":
        if not named:
            return "no block is named"
        said = (f"proved for {b}: {harm}" for b in named if (harm := k.harm(b)))
        left = (f"proved, and {b} goes wrong" for b in _asked(k) if b not in named and not k.aside(b, named))
        return next(said, "") or next(left, "")
    others = _usual(k, named)
    right = [b for b in others if k.fits(b) and k.harm(b) is None]
    return f"refuted, and {right[0]} is right" if right else ""


def _asked(k: Drawn) -> list[Block]:
    """The blocks that are asked: usual ones, or those of so many threads."""
    if not k.most:
        return USUAL[2 if k.wide else 1]
    if not k.wide:
        return [(k.most,)]
    return [(k.most // y, y) for y in range(2, k.most // 4 + 1) if k.most % y == 0]


def _usual(k: Drawn, named: Sequence[Block]) -> list[Block]:
    """The blocks that a refuted kernel may have been meant for: also those of few threads, where all of the
    others write places twice, and the one that fills the array, where the bound leaves it."""
    found = [*_asked(k), *(b for b in named if b not in _asked(k))]
    if k.most:
        return [*found, (k.words,)] if not k.wide and k.words < k.most and k.words % 32 == 0 else found
    harms = [k.harm(b) for b in found]
    few = all(h is not None and twice(h) for h in harms)
    return [*found, *FEW[2 if k.wide else 1]] if few else found


SEEDS = range(7_000, 7_120)
#: One of so many in each run; together they take minutes.
EVERY = 40


@pytest.mark.parametrize("seed", part_of(SEEDS, EVERY))
def test_what_is_said_of_blocks_holds_where_they_are_executed(seed: int) -> None:
    assert wrong(drawn(seed)) == ""


@pytest.mark.slow
def test_what_is_said_of_many_holds() -> None:
    assert {s: said for s in SEEDS if (said := wrong(drawn(s)))} == {}
