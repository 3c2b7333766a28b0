"""Kernels whose text asks for the first block, or lets a size decide, beside each launch by numbers.

One part stores or loads words, another adds to words of which data says the number within bounds. Each is
done by all blocks, by the first, or by all but the first: the one whose numbers along some axes are 0. A size
may decide besides. Nothing gives the grid. Of axes that the text reads all short grids are gone through, of
others there is one block, and of the size all numbers up to 200 and a large one. If blocks touch one word in
one of these launches, nothing is proved; else all is.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from itertools import combinations, product
from random import Random
from typing import Any

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.driver.ptx import launches_of_blocks
from syncverify.frontends.ptx.launch import meant_launches
from tests.sweeps import part_of

THREADS = 32
TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 words, .param .u32 n)
{{
.reg .pred %p<20>; .reg .b32 %r<40>; .reg .b64 %rd<20>;
ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [words]; ld.param.u32 %r9, [n]; mov.u32 %r1, %tid.x;
mul.wide.u32 %rd4, %r1, 4; add.u64 %rd5, %rd2, %rd4; ld.global.u32 %r5, [%rd5];
{body}
ret;
}}
"""
TESTS = {"lt": operator.lt, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne}
#: Numbers of an open size: all small ones, and a large one.
SIZES = (*range(200), 1 << 20)
Block = tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """Words ``start`` to ``start + words``: of threads that read or write one each, or of data.

    ``first``: done by the first block (True), by all others (False) or by all. ``decides``: by a size."""

    start: int
    words: int
    first: bool | None
    decides: tuple[str, int] | None

    def touched(self, block: Block, axes: str, n: int) -> set[int]:
        at = dict(zip("xyz", block, strict=True))
        is_first = all(at[a] == 0 for a in axes)
        if self.first is not None and self.first != is_first:
            return set()
        if self.decides is not None and not TESTS[self.decides[0]](n, self.decides[1]):
            return set()
        return set(range(self.start, self.start + self.words))

    def text(self, axes: str, how: str, label: str, access: str) -> str:
        lines = [f"mov.u32 %r20, %ctaid.{axes[0]};"] if self.first is not None else []
        if self.first is not None:
            for a in axes[1:]:
                lines += [f"mov.u32 %r21, %ctaid.{a};", f"{how} %r20, %r20, %r21;"]
            lines.append(f"setp.{'ne' if self.first else 'eq'}.s32 %p1, %r20, 0; @%p1 bra {label};")
        if self.decides is not None:
            test, number = self.decides
            lines.append(f"setp.{test}.u32 %p2, %r9, {number}; @!%p2 bra {label};")
        return "\n".join([*lines, access, f"{label}:\n"])


@dataclass(frozen=True)
class Kernel:
    axes: str
    how: str
    plain: Part
    loads: bool
    atomic: Part
    atomic_last: bool

    def text(self) -> str:
        base = f"add.u32 %r7, %r1, {self.plain.start}; mul.wide.u32 %rd7, %r7, 4; add.u64 %rd7, %rd1, %rd7;"
        plain = f"{base} {'ld.global.u32 %r8, [%rd7];' if self.loads else 'st.global.u32 [%rd7], 7;'}"
        bits = f"and.b32 %r6, %r5, {self.atomic.words - 1}; add.u32 %r6, %r6, {self.atomic.start};"
        count = f"{bits} mul.wide.u32 %rd8, %r6, 4; add.u64 %rd8, %rd1, %rd8; red.global.add.u32 [%rd8], 1;"
        parts = [
            self.plain.text(self.axes, self.how, "A", plain),
            "bar.sync 0;\n",
            self.atomic.text(self.axes, self.how, "B", count),
        ]
        return TEXT.format(body="".join(parts if self.atomic_last else parts[::-1]))

    def meets(self) -> bool:
        """Whether two blocks touch a word in some launch."""
        asked = self.plain.first is not None or self.atomic.first is not None
        extents = [range(1, 4) if asked and a in self.axes else range(1, 2) for a in "xyz"]
        for grid, n in product(product(*extents), SIZES):
            blocks = list(product(*map(range, grid)))
            plain, counts = ([p.touched(b, self.axes, n) for b in blocks] for p in (self.plain, self.atomic))
            for i, j in combinations(range(len(blocks)), 2):
                if plain[i] & counts[j] or plain[j] & counts[i]:
                    return True
        return False


def kernel(seed: int) -> Kernel:
    draw = Random(seed)

    def decides() -> tuple[str, int] | None:
        return (draw.choice([*TESTS]), draw.choice([1, 2, 7, 64, 100])) if draw.random() < 0.35 else None

    firsts = [True, True, False, None]
    plain = Part(draw.choice([0, 0, 16, 64]), THREADS, draw.choice(firsts), decides())
    atomic = Part(draw.choice([0, 0, 32, 64]), draw.choice([8, 32, 64]), draw.choice(firsts), decides())
    axes = draw.choice(["x", "x", "y", "xy", "xyz", "xz"])
    return Kernel(
        axes, draw.choice(["or.b32", "add.u32"]), plain, draw.random() < 0.5, atomic, draw.random() < 0.5
    )


def wrong(seed: int) -> str:
    """What is said of a kernel that its launches contradict; nothing if they do not."""
    k = kernel(seed)
    facts: dict[str, Any] = {"block": [THREADS], "params": {"0": "ptr", "1": "ptr"}}
    (report,) = syncverify.check(k.text(), facts={"kernel": {"k": facts}}, replay=False, advice=False)
    proved = report.verdict is Verdict.PROVED
    return "" if proved is not k.meets() else f"{report.verdict}: {report.reason}"


SEEDS = range(160)
#: One of so many in each run.
EVERY = 16


@pytest.mark.parametrize("seed", part_of(SEEDS, EVERY))
def test_nothing_is_proved_that_meets_in_some_launch(seed: int) -> None:
    assert wrong(seed) == ""


@pytest.mark.slow
def test_nothing_of_many_is_proved_that_meets() -> None:
    assert {s: said for s in SEEDS if (said := wrong(s))} == {}


def test_two_blocks_that_are_not_the_first_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong(43) == ""
    monkeypatch.setattr(meant_launches, "_THREE", 2)
    assert wrong(43).startswith("proved")


@pytest.mark.parametrize(
    ("seed", "part", "said"), [(5, "with_others", None), (14, "deciding_sizes", {})], ids=str
)
def test_a_mistake_is_seen(monkeypatch: pytest.MonkeyPatch, seed: int, part: str, said: Any) -> None:
    """No other blocks are meant, or no size decides."""
    assert wrong(seed) == ""
    monkeypatch.setattr(launches_of_blocks, part, lambda *_: said)
    assert wrong(seed).startswith("proved")
