"""Atomics at places of data beside plain accesses in open launches, beside each launch by numbers.

An atomic at a place that a word of the input says within bounds stands beside a store or load, in a launch
whose grid, or a size, is open. A size moves each block's slice on, or says below which block one takes part.
All grids of a few blocks and all sizes that the facts allow are gone through here: if two blocks touch one
byte in one of them, nothing is proved; else all is. Of a size of which nothing is said large numbers count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from random import Random
from typing import Any

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.driver.ptx import data_places
from tests.driver.ptx.test_stores_judged import BOUNDED, THREADS, WORDS

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 words, .param .u64 sums, .param .u32 n)
{{
.reg .pred %p<20>; .reg .b32 %r<40>; .reg .b64 %rd<20>;
ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [words]; ld.param.u64 %rd3, [sums]; ld.param.u32 %r9, [n];
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
mul.wide.u32 %rd4, %r1, 4; add.u64 %rd5, %rd2, %rd4; ld.global.u32 %r5, [%rd5];
{body}
mad.lo.u32 %r3, %r0, 32, %r1; mul.wide.u32 %rd6, %r3, 4; add.u64 %rd6, %rd3, %rd6; st.global.u32 [%rd6], %r2;
ret;
}}
"""
#: A size of which nothing is said.
LARGE = 1 << 12


@dataclass(frozen=True)
class Part:
    """An access: ``stride`` words for each block (None: the open size), ``each`` for each thread, ``start``.
    ``guard``: of which blocks; ``below``: of those below the open size."""

    stride: int | None
    each: int
    start: int
    guard: tuple[str, int] | None = None
    below: bool = False

    def holds(self, block: int, n: int) -> bool:
        test = self.guard
        held = (
            test is None or {"eq": block == test[1], "ne": block != test[1], "lt": block < test[1]}[test[0]]
        )
        return held and (not self.below or block < n)

    def places(self, block: int, n: int) -> set[int]:
        if not self.holds(block, n):
            return set()
        stride = n if self.stride is None else self.stride
        return {stride * block + self.each * t + self.start for t in range(THREADS)}

    def text(self, label: str, p: int, access: str) -> str:
        out = ""
        if self.guard is not None:
            out += f"setp.{self.guard[0]}.u32 %p{p}, %r0, {self.guard[1]}; @!%p{p} bra {label};\n"
        if self.below:
            out += f"setp.lt.u32 %p{p + 1}, %r0, %r9; @!%p{p + 1} bra {label};\n"
        stride = "%r9" if self.stride is None else str(self.stride)
        return (
            f"{out}mul.lo.u32 %r7, %r0, {stride}; mad.lo.u32 %r7, %r1, {self.each}, %r7;"
            f" add.u32 %r7, %r7, {self.start};\n{access}\n{label}:\n"
        )


@dataclass(frozen=True)
class Kernel:
    bounded: int
    access: Part
    loads: bool
    atomic: Part
    first: bool
    grid: Any
    size: Any
    assume: tuple[str, ...]
    grids: tuple[int, ...]
    sizes: tuple[int, ...]

    def text(self) -> str:
        plain = (
            "ld.global.u32 %r8, [%rd7]; add.u32 %r2, %r2, %r8;" if self.loads else "st.global.u32 [%rd7], 0;"
        )
        at = "mul.wide.u32 %rd7, %r7, 4; add.u64 %rd7, %rd1, %rd7;"
        count = f"{BOUNDED[self.bounded][0].replace('%p50', '%p15')} add.u32 %r7, %r7, %r6; {at}"
        parts = [
            self.access.text("A", 1, f"{at} {plain}"),
            "bar.sync 0;\n",
            self.atomic.text("B", 5, f"{count} red.global.add.u32 [%rd7], 1;"),
        ]
        return TEXT.format(body="".join(parts if self.first else parts[::-1]))

    def facts(self) -> dict[str, Any]:
        given: dict[str, Any] = {"0": "ptr", "1": "ptr", "2": "ptr"}
        if self.size is not None:
            given["3"] = self.size
        found: dict[str, Any] = {"block": [THREADS], "params": given, "assume": list(self.assume)}
        return found if self.grid is None else {**found, "grid": [self.grid]}

    def meets(self) -> bool:
        """Whether two blocks touch a word in some launch."""
        words = {BOUNDED[self.bounded][1](x) for x in WORDS}
        for blocks, n in product(self.grids, self.sizes):
            plain = [self.access.places(b, n) for b in range(blocks)]
            counts = [{p + w for p in self.atomic.places(b, n) for w in words} for b in range(blocks)]
            pairs = product(range(blocks), repeat=2)
            if any(a != b and not plain[a].isdisjoint(counts[b]) for a, b in pairs):
                return True
        return False


def kernel(seed: int) -> Kernel:
    draw = Random(seed)
    guards = [("eq", 0), ("ne", 0), ("lt", 2), None, None]
    strides = draw.choice([(32, 0, 16), (None,), (None, 0)])
    access = Part(
        draw.choice(strides), draw.choice([1, 1, 0]), draw.choice([0, 0, 16, 40]), draw.choice(guards)
    )
    atomic = Part(draw.choice(strides), 0, draw.choice([0, 0, 8, 64]), draw.choice(guards))
    if draw.random() < 0.4:
        access = replace(access, below=draw.random() < 0.7)
        atomic = replace(atomic, below=draw.random() < 0.5)
    grid, grids = draw.choice(
        [(None, tuple(range(1, 7))), (4, (4,)), ("g", tuple(range(1, 7))), ("g", (1, 2, 3))]
    )
    assume = ["g <= 3"] if grids == (1, 2, 3) else []
    bound = draw.choice([1, 2, 12, 32, 48])
    size, sizes, more = draw.choice(
        [
            (None, (LARGE,), []),
            (bound, (bound,), []),
            ("m", tuple(range(bound + 1)), [f"m <= {bound}"]),
            ("m", (*range(bound, bound + 40), LARGE), [f"m >= {bound}"]),
        ]
    )
    return Kernel(
        draw.randrange(len(BOUNDED)), access, draw.random() < 0.5, atomic, draw.random() < 0.5,
        grid, size, (*assume, *more), grids, sizes,
    )  # fmt: skip


def verdict(k: Kernel) -> tuple[Verdict, str]:
    (report,) = syncverify.check(k.text(), facts={"kernel": {"k": k.facts()}}, replay=False, advice=False)
    return report.verdict, str(report.reason)


def named(k: Kernel) -> bool:
    """Whether a report says what its proof takes for granted of the two accesses."""
    (report,) = syncverify.check(k.text(), facts={"kernel": {"k": k.facts()}}, replay=False, advice=False)
    return any("no other thread reads" in x and "through out" in x for x in report.assumptions)


def wrong(seed: int) -> str:
    """What is said of a kernel that its launches contradict; nothing if they do not."""
    k = kernel(seed)
    said, why = verdict(k)
    return "" if (said is Verdict.PROVED) is not k.meets() else f"{said}: {why}"


@pytest.mark.parametrize(
    ("first", "last"), [(0, 12), (40, 50), pytest.param(50, 1_000, marks=pytest.mark.slow)], ids=str
)
def test_nothing_is_proved_that_meets_in_some_launch(first: int, last: int) -> None:
    assert {s: said for s in range(first, last) if (said := wrong(s))} == {}


def test_a_mistake_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of which the facts say something are tried with one number alone."""
    monkeypatch.setattr(data_places, "small_launches", lambda *_: iter(()))
    assert wrong(46).startswith("proved")


@pytest.mark.parametrize("seed", [13, 24, 46, 81])
def test_where_they_meet_at_sizes_that_are_not_asked_the_report_says_so(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Not all sizes are asked: a proof names both lines among its assumptions."""
    monkeypatch.setattr(data_places, "small_launches", lambda *_: iter(()))
    assert wrong(seed).startswith("proved")
    assert named(kernel(seed))
