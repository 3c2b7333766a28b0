"""Boxes of tensor copies that meet: kernels with labels, and drawn ones beside elements counted by hand.

Labels: ``apart``, proved and nothing is said; ``line``, proved under a line that names the map; ``meet``, the
copies certainly store different values to one place, so that nothing is proved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.frontends.ptx.analysis.blocks import tensor_places

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 m[128], .param .align 64 .b8 n[128], .param .u64 in,
 .param .u32 stride)
{{
.reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<8>;
.shared .align 1024 .b8 buf[4096];
mov.u64 %rd1, m; mov.u64 %rd2, n; ld.param.u64 %rd3, [in]; ld.param.u32 %r9, [stride];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; mov.u32 %r4, %nctaid.x;
mad.lo.u32 %r5, %r2, 128, %r1; mul.wide.u32 %rd5, %r5, 4; add.u64 %rd5, %rd3, %rd5;
mov.u32 %r6, buf; mad.lo.u32 %r7, %r1, 4, %r6;
{value}
st.shared.u32 [%r7], %r8;
fence.proxy.async.shared::cta;
bar.sync 0;
{who}
{copy}
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
END:
ret;
}}
"""
ONE = "setp.ne.u32 %p1, %r1, 0; @%p1 bra END;"
ELECTED = "setp.gt.u32 %p1, %r1, 31; @%p1 bra END; elect.sync _|%p2, -1; @!%p2 bra END;"
OWN, SAME, BY_THREAD = "mov.u32 %r8, %r2;", "mov.u32 %r8, 7;", "mov.u32 %r8, %r1;"
LOADED = "ld.global.u32 %r8, [%rd5];"
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r10, %r11}], [%r6];"
OTHER = STORE.replace("%rd1", "%rd2")
ADD = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd1, {%r10, %r11}], [%r6];"
LINE = STORE.replace("2d", "1d").replace("%r10, %r11", "%r10")
BOX = {"tensormap": "out", "dtype": "f32", "box": [32, 4]}


def at(x: str, y: str = "mov.u32 %r11, 0;", copy: str = STORE) -> str:
    return f"{x}\n{y}\n{copy}"


def times(to: str, n: int, of: str = "%r2") -> str:
    return f"mul.lo.u32 {to}, {of}, {n};"


X0, Y0 = "mov.u32 %r10, 0;", "mov.u32 %r11, 0;"
LOOP = """mov.u32 %r12, {start};
TURN: setp.ge.u32 %p3, %r12, 8; @%p3 bra DONE;
mov.u32 %r10, 0; mul.lo.u32 %r11, %r12, 4;
{copy}
add.u32 %r12, %r12, {step}; bra TURN;
DONE:"""


@dataclass(frozen=True)
class Case:
    """A kernel, and what is to be said of it."""

    name: str
    label: str
    copy: str
    value: str = OWN
    who: str = ONE
    grid: tuple[int, ...] = (4,)
    cluster: tuple[int, ...] = ()
    box: Mapping[str, Any] = field(default_factory=lambda: BOX)
    stride: int | None = None

    def text(self) -> str:
        return TEXT.format(value=self.value, who=self.who, copy=self.copy)

    def facts(self) -> dict[str, Any]:
        params: dict[str, Any] = {"0": dict(self.box), "1": {**self.box, "tensormap": "other"}, "2": "ptr"}
        if self.stride is not None:
            params["3"] = {"u32": self.stride}
        found: dict[str, Any] = {"block": [128], "grid": list(self.grid), "params": params}
        return {**found, "cluster": list(self.cluster)} if self.cluster else found


BEHIND = "ld.global.u32 %r13, [%rd3]; setp.ne.u32 %p4, %r13, 0; @%p4 bra END;\n"
FIRST = (
    "setp.ne.u32 %p4, %r2, 0; @%p4 bra REST;\nmov.u32 %r10, 0; mov.u32 %r11, 0;\n"
    "{first}\nbra DONE;\nREST:\n{rest}\nDONE:"
)
ROW_PARITY = "shr.u32 %r8, %r1, 5; and.b32 %r8, %r8, 1;"
HALVES = "and.b32 %r12, %r2, 1; mul.lo.u32 %r10, %r12, 32; shr.u32 %r13, %r2, {by}; mul.lo.u32 %r11, %r13, 4;"
BY_STRIDE = "mul.lo.u32 %r11, %r2, %r9;"
WARP = "shr.u32 %r12, %r1, 5; shfl.sync.idx.b32 %r13, %r12, 0, 31, {mask};"
#: the number of the warp, from its first lane; of the thread that is lane 3 there
FIRST_LANE, THIRD_LANE = WARP.format(mask=-1), WARP.format(mask=-1).replace("%r12, 0", "%r1, 3")
ROWS_OF_WARPS = "mad.lo.u32 %r11, %r2, 16, 0; mad.lo.u32 %r11, %r13, {step}, %r11;"
LEADS = "elect.sync _|%p2, -1; @!%p2 bra END;"
CLUSTER = "mov.u32 %r12, %clusterid.x; mul.lo.u32 %r11, %r12, 4;"
RANK = "mov.u32 %r13, %cluster_ctarank; setp.ne.u32 %p4, %r13, 0; @%p4 bra END;\n"
CUBE = STORE.replace("2d", "3d").replace("%r10, %r11", "%r10, %r11, %r12")
BOX1 = {"tensormap": "out", "dtype": "f32", "box": [64]}
BOX3 = {"tensormap": "out", "dtype": "f32", "box": [32, 2, 2]}
BYTES = {"tensormap": "out", "bytes": 512}
TURNED = {**BOX, "swizzle": "128B"}

CASES = [
    Case("rows of their own", "apart", at(X0, times("%r11", 4))),
    Case("rows that overlap by half", "meet", at(X0, times("%r11", 2))),
    Case("one box for all", "meet", at(X0, Y0)),
    Case("one box, a constant", "apart", at(X0, Y0), SAME),
    Case("one box, the same by thread", "apart", at(X0, Y0), BY_THREAD),
    Case("one box, what each has loaded", "line", at(X0, Y0), LOADED),
    Case("one box, one block", "apart", at(X0, Y0), grid=(1,)),
    Case("one box, the first block alone", "apart", "setp.ne.u32 %p4, %r2, 0; @%p4 bra END;" + at(X0, Y0)),
    Case("columns of their own", "apart", at(times("%r10", 32))),
    Case("columns that overlap by half", "meet", at(times("%r10", 16))),
    Case("tiles of two columns", "apart", HALVES.format(by=1) + STORE),
    Case("tiles of two columns, rows too slow", "meet", HALVES.format(by=2) + STORE),
    Case("a loop over tiles", "apart", LOOP.format(start="%r2", step="%r4", copy=STORE)),
    Case("a loop over tiles with step 1", "line", LOOP.format(start="%r2", step="1", copy=STORE)),
    Case("a loop over all tiles", "meet", LOOP.format(start="0", step="1", copy=STORE)),
    Case("elected, rows of their own", "apart", at(X0, times("%r11", 4)), who=ELECTED),
    Case("elected, rows that overlap", "meet", at(X0, times("%r11", 2)), who=ELECTED),
    Case("sums in one box", "apart", at(X0, Y0, ADD)),
    Case("a box where data says", "line", "ld.global.u32 %r10, [%rd5]; mov.u32 %r11, 0;" + STORE),
    Case("rows by a stride of the host", "apart", at(X0, BY_STRIDE)),
    Case("rows by a stride of 2", "meet", at(X0, BY_STRIDE), stride=2),
    Case("rows by a stride of 4", "apart", at(X0, BY_STRIDE), stride=4),
    Case("two tensors", "apart", FIRST.format(first=OTHER, rest=at(X0, Y0)), grid=(2,)),
    Case("the first beside the others", "apart", FIRST.format(first=STORE, rest=at(X0, times("%r11", 4)))),
    Case("the first on the second", "meet",
         FIRST.format(first=STORE, rest=at(X0, "sub.u32 %r12, %r2, 1; mul.lo.u32 %r11, %r12, 4;"))),
    Case("one block of each cluster", "apart", RANK + at(X0, CLUSTER), cluster=(2, 1, 1)),
    Case("both blocks of each cluster", "meet", at(X0, CLUSTER), cluster=(2, 1, 1)),
    Case("sums beside a store", "not apart", FIRST.format(first=STORE, rest=at(X0, Y0, ADD))),
    Case("a line of boxes", "apart", at(times("%r10", 64), "", LINE), box=BOX1),
    Case("a line of boxes that overlap", "meet", at(times("%r10", 16), "", LINE), box=BOX1),
    Case("boxes of three dimensions", "apart", at(X0, Y0 + times("%r12", 2), CUBE), box=BOX3),
    Case("two blocks for each of three dimensions", "meet", at(X0, Y0 + "and.b32 %r12, %r2, 2;", CUBE),
         box=BOX3),
    Case("one box where data decides", "line", BEHIND + at(X0, Y0)),
    Case("no sides are given", "line", at(X0, times("%r11", 4)), box=BYTES),
    Case("no sides are given, one box", "meet", at(X0, Y0), box=BYTES),
    Case("blocks of a column", "meet", at(X0, times("%r11", 4)), "mov.u32 %r8, %r3;", grid=(2, 2)),
    Case("blocks of a plane", "apart", at(times("%r10", 32, "%r3"), times("%r11", 4)), "mov.u32 %r8, %r3;",
         grid=(2, 2)),
    Case("rows that overlap and are alike", "apart", at(X0, times("%r11", 2)), ROW_PARITY),
    Case("rows that overlap, swizzled", "not apart", at(X0, times("%r11", 2)), box=TURNED),
    Case("one box, swizzled", "meet", at(X0, Y0), box=TURNED),
    Case("rows by warps", "apart", at(X0, ROWS_OF_WARPS.format(step=4)), who=FIRST_LANE + LEADS),
    Case("rows by warps that overlap the next block's", "meet", at(X0, ROWS_OF_WARPS.format(step=5)),
         who=FIRST_LANE + LEADS),
    Case("rows by the third lane", "meet", at(X0, ROWS_OF_WARPS.format(step=1)), who=THIRD_LANE + LEADS),
    Case("rows by the third lane, far apart", "apart", at(X0, ROWS_OF_WARPS.format(step=4)),
         who=THIRD_LANE + LEADS),
    Case("rows by warps, half a mask", "line", at(X0, ROWS_OF_WARPS.format(step=4)),
         who="shr.u32 %r12, %r1, 5; and.b32 %r14, %r1, 31; setp.gt.u32 %p4, %r14, 15; @%p4 bra END;"
         + WARP.format(mask=0xFFFF) + "setp.ne.u32 %p2, %r14, 0; @%p2 bra END;"),
    Case("rows by who is elected", "line", at(X0, ROWS_OF_WARPS.format(step=4)),
         who="elect.sync _|%p2, -1; selp.u32 %r12, 1, 0, %p2; shfl.sync.idx.b32 %r13, %r12, 0, 31, -1;"
         " @!%p2 bra END; setp.gt.u32 %p3, %r1, 31; @%p3 bra END;"),
    Case("rows of their own, swizzled", "apart", at(X0, times("%r11", 4)), box=TURNED),
]  # fmt: skip


def judged(c: Case) -> str:
    """What is said of a kernel, in the words of the labels; else its verdict and reason."""
    (found,) = syncverify.check(c.text(), facts={"kernel": {"k": c.facts()}}, timeout=60, replay=False,
                                advice=False)  # fmt: skip
    if found.verdict is Verdict.PROVED:
        return "line" if any("values" in a and "tensor map" in a for a in found.assumptions) else "apart"
    if found.verdict is Verdict.UNKNOWN and "different values to one place" in str(found.reason):
        return "meet"
    return f"{found.verdict}: {found.reason} {found.diagnostics[:1]}"


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_labelled(c: Case) -> None:
    found = judged(c)
    assert found in ("line", "meet") if c.label == "not apart" else found == c.label


@dataclass(frozen=True)
class Part:
    """``factor`` times some bits of a block's number."""

    axis: int
    low: int
    mask: int
    factor: int

    def of(self, block: tuple[int, int]) -> int:
        return (block[self.axis] >> self.low & self.mask) * self.factor

    def text(self, to: str) -> str:
        return (f"shr.u32 {to}, %r{2 + self.axis}, {self.low}; and.b32 {to}, {to}, {self.mask};"
                f" mul.lo.u32 {to}, {to}, {self.factor};")  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """Copies of one box of 32 by 4 words, each at a place of its own, by all blocks or by one."""

    grid: tuple[int, int]
    places: tuple[tuple[Part, Part], ...]
    by: tuple[tuple[int, int] | None, ...]
    value: Part
    of_thread: int

    def case(self) -> Case:
        value = f"{self.value.text('%r8')} shr.u32 %r14, %r1, {self.of_thread}; add.u32 %r8, %r8, %r14;"
        copies = ""
        for n, ((x, y), who) in enumerate(zip(self.places, self.by, strict=True)):
            if who is not None:
                for register, number in zip(("%r2", "%r3"), who, strict=True):
                    copies += f"setp.ne.u32 %p4, {register}, {number}; @%p4 bra N{n};\n"
            copies += f"{x.text('%r10')} {y.text('%r11')}\n{STORE}\nN{n}:\n"
        return Case("drawn", "", copies, value, grid=self.grid)

    def label(self) -> str:
        """By hand: each element that each block stores, and what."""
        held: dict[tuple[int, int], dict[tuple[int, int], set[int]]] = {}
        for block in product(range(self.grid[0]), range(self.grid[1])):
            for (x, y), who in zip(self.places, self.by, strict=True):
                for row, column in product(range(4), range(32)) if who in (None, block) else ():
                    word = self.value.of(block) + (row * 32 + column >> self.of_thread)
                    element = x.of(block) + column, y.of(block) + row
                    held.setdefault(element, {}).setdefault(block, set()).add(word)
        pairs = ((a, b) for x in held.values() for m, a in x.items() for n, b in x.items() if m < n)
        return "meet" if any(len(a | b) > 1 for a, b in pairs) else "apart"


def drawn(seed: int) -> Iterator[Drawn]:
    draw = Random(seed)

    def part(factors: list[int]) -> Part:
        return Part(draw.randint(0, 1), draw.choice([0, 0, 1]), draw.choice([1, 3, 3]), draw.choice(factors))

    while True:
        count = draw.choice([1, 1, 2])
        places = tuple((part([0, 16, 32, 32, 40]), part([0, 2, 4, 4, 8])) for _ in range(count))
        by = tuple(draw.choice([None, None, (0, 0), (1, 0)]) for _ in range(count))
        yield Drawn(
            draw.choice([(4, 1), (2, 2), (3, 2)]), places, by, part([0, 1, 1]), draw.choice([7, 7, 5, 0])
        )


def wrongly_judged(seed: int, count: int) -> list[Drawn]:
    cases = drawn(seed)
    some = (next(cases) for _ in range(count))
    return [d for d in some if judged(d.case()) != d.label()]


def test_drawn() -> None:
    assert wrongly_judged(27, 12) == []


@pytest.mark.parametrize("seed", range(20))
def test_many_drawn(seed: int) -> None:
    assert wrongly_judged(seed, 25) == []


def test_the_judge_sees_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_places, "_in_tiles", lambda one, other, reach: True)
    assert wrongly_judged(27, 12)
