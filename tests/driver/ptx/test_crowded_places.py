"""Stores at places of data of which there are fewer than values: kernels with labels, and drawn ones beside
counts by hand.

Labels: ``meet``, two threads certainly store different values to one place; ``apart``, this is not certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.frontends.ptx.analysis.blocks.data_places import Reach

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 in)
{{
.reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .b64 %rd<12>;
.shared .align 16 .b8 buf[4096];
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [in];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
mul.wide.u32 %rd3, %r4, 4; add.u64 %rd4, %rd2, %rd3;
{load}
{place}
{value}
{store}
END:
ret;
}}
"""
WORD = "ld.global.u32 %r5, [%rd4];"
HERE = "mul.wide.u32 %rd5, %r6, 4; add.u64 %rd6, %rd1, %rd5;"
STORE = "st.global.u32 [%rd6], %r7;"


@dataclass(frozen=True)
class Case:
    """A kernel, and whether threads certainly meet."""

    name: str
    label: str
    place: str = "and.b32 %r6, %r5, 63;" + HERE
    value: str = "mov.u32 %r7, %r1;"
    store: str = STORE
    load: str = WORD
    threads: int = 128
    grid: int = 1

    def judged(self) -> str:
        """What is said of the kernel in the words of the labels; else its verdict and reason."""
        text = TEXT.format(load=self.load, place=self.place, value=self.value, store=self.store)
        facts = {"block": [self.threads], "grid": [self.grid], "params": {"0": "ptr", "1": "ptr"}}
        (found,) = syncverify.check(text, facts={"kernel": {"k": facts}}, timeout=60, replay=False,
                                    advice=False)  # fmt: skip
        if found.verdict is Verdict.UNKNOWN and "different values to one place" in str(found.reason):
            return "meet"
        return "apart" if found.verdict is Verdict.PROVED else f"{found.verdict}: {found.reason}"


def masked(n: int) -> str:
    return f"and.b32 %r6, %r5, {n};" + HERE


def some(n: int) -> str:
    return f"setp.ge.u32 %p1, %r1, {n}; @%p1 bra END;\n{STORE}"


OF_A_BLOCK = "and.b32 %r6, %r5, 63; mad.lo.u32 %r6, %r2, 64, %r6;" + HERE
SHARED = ("mov.u32 %r8, buf; mad.lo.u32 %r8, %r1, 4, %r8; st.shared.u32 [%r8], %r1; bar.sync 0;"
          "ld.shared.u32 %r5, [%r8];")  # fmt: skip
PAIRS = "and.b32 %r6, %r5, 63; mul.wide.u32 %rd5, %r6, 8; add.u64 %rd6, %rd1, %rd5;"
IN_A_LOOP = """mov.u32 %r9, 0;
TURN: st.global.u32 [%rd6], %r7; add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 3;
@%p2 bra TURN;"""

CASES = [
    Case("64 places", "meet"),
    Case("128 places", "apart", masked(127)),
    Case("a constant", "apart", value="mov.u32 %r7, 7;"),
    Case("as many values as places", "apart", value="shr.u32 %r7, %r1, 1;"),
    Case("one value more than places", "meet", store=some(65)),
    Case("as many threads as places", "apart", store=some(64)),
    Case("an unsigned remainder", "meet", "rem.u32 %r6, %r5, 100;" + HERE),
    Case("an unsigned remainder for all", "apart", "rem.u32 %r6, %r5, 128;" + HERE),
    Case("a signed remainder", "apart", "rem.s32 %r6, %r5, 100;" + HERE),
    Case("the least of two", "meet", "min.u32 %r6, %r5, 63;" + HERE),
    Case("the least of two with signs", "apart", "min.s32 %r6, %r5, 63;" + HERE),
    Case("threads of two blocks", "meet", value="mov.u32 %r7, %r4;", threads=64, grid=2),
    Case("two blocks, places of their own", "apart", OF_A_BLOCK, threads=64, grid=2),
    Case("two blocks, places of their own, too few", "meet", OF_A_BLOCK, threads=96, grid=2),
    Case("what was loaded", "apart", value="ld.global.u32 %r7, [%rd4+4096];"),
    Case("even places", "meet", masked(126)),
    Case("a byte, 128 threads", "apart", "mov.u32 %r6, %r5;" + HERE, load="ld.global.u8 %r5, [%rd4];"),
    Case("a byte, 512 threads", "meet", "mov.u32 %r6, %r5;" + HERE, load="ld.global.u8 %r5, [%rd4];",
         threads=512),
    Case("where data decides", "apart", store="setp.eq.u32 %p1, %r5, 9; @%p1 bra END;\n" + STORE),
    Case("a strong store", "apart", store="st.relaxed.gpu.global.u32 [%rd6], %r7;"),
    Case("a sum", "apart", store="red.global.add.u32 [%rd6], %r7;"),
    Case("pairs", "meet", PAIRS, store="st.global.v2.u32 [%rd6], {%r7, %r7};"),
    Case("in a loop", "meet", store=IN_A_LOOP),
    Case("a word of shared memory", "meet", load=SHARED),
    Case("behind an exclusive or", "apart", "and.b32 %r6, %r5, 63; xor.b32 %r6, %r6, %r1;" + HERE),
    Case("one thread of each block", "apart",
         store="setp.ne.u32 %p1, %r1, 0; @%p1 bra END;\n" + STORE, grid=4),
    Case("a shifted word", "meet", "shr.u32 %r6, %r5, 27;" + HERE),
    Case("a shifted word with a sign", "apart", "shr.s32 %r6, %r5, 27; add.s32 %r6, %r6, 16;" + HERE),
    Case("behind a comparison", "apart", "mov.u32 %r6, %r5;" + HERE,
         store="setp.gt.u32 %p1, %r5, 63; @%p1 bra END;\n" + STORE),
    Case("bytes of the values alike", "apart",
         "and.b32 %r6, %r5, 3;\ncvt.u64.u32 %rd5, %r6; add.u64 %rd6, %rd1, %rd5;",
         "shl.b32 %r7, %r1, 8;", "st.global.u8 [%rd6], %r7;"),
]  # fmt: skip


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_labelled(c: Case) -> None:
    assert c.judged() == c.label


@dataclass(frozen=True)
class Drawn:
    """Some threads of some blocks store a number at one of ``places`` words, in each block ``apart`` words
    further; its number by bits of that of the thread."""

    places: int
    apart: int
    threads: int
    stores: int
    grid: int
    low: int
    of_grid: bool
    remainder: bool

    def case(self) -> Case:
        by = (
            f"rem.u32 %r6, %r5, {self.places};" if self.remainder else f"and.b32 %r6, %r5, {self.places - 1};"
        )
        value = f"shr.u32 %r7, %r{4 if self.of_grid else 1}, {self.low};"
        place = f"{by} mad.lo.u32 %r6, %r2, {self.apart}, %r6;{HERE}"
        return Case("drawn", "", place, value, some(self.stores), threads=self.threads, grid=self.grid)

    def label(self) -> str:
        """By hand: the values that are stored among the words of each first word."""
        found: dict[int, set[int]] = {}
        for block in range(self.grid):
            for t in range(min(self.threads, self.stores)):
                number = block * self.threads + t if self.of_grid else t
                found.setdefault(block * self.apart, set()).add(number >> self.low)
        return "meet" if any(len(x) > self.places for x in found.values()) else "apart"


def drawn(seed: int) -> Iterator[Drawn]:
    draw = Random(seed)
    while True:
        remainder = draw.random() < 0.4
        places = draw.choice([3, 48, 100]) if remainder else draw.choice([2, 32, 64])
        threads = draw.choice([64, 96])
        yield Drawn(places, draw.choice([0, 0, 128]), threads, draw.choice([2, 32, 33, 64, 96]),
                    draw.choice([1, 2, 3]), draw.choice([0, 0, 1, 2]), draw.random() < 0.5,
                    remainder)  # fmt: skip


def wrongly_judged(seed: int, count: int) -> list[Drawn]:
    cases = drawn(seed)
    taken = (next(cases) for _ in range(count))
    return [d for d in taken if d.case().judged() != d.label()]


def test_drawn() -> None:
    assert wrongly_judged(27, 15) == []


@pytest.mark.parametrize("seed", range(20))
def test_many_drawn(seed: int) -> None:
    assert wrongly_judged(seed, 25) == []


def test_the_judge_sees_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places of which all but one are left out: two values are too many for any."""
    plain = Reach.__init__

    def wrong(self: Reach, *args: object, **named: object) -> None:
        plain(self, *args, **named)  # type: ignore[arg-type]
        object.__setattr__(self, "high", min(self.high, self.low + self.step))

    monkeypatch.setattr(Reach, "__init__", wrong)
    assert wrongly_judged(27, 15)
