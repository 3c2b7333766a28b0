"""Masks, extended fields and sums of small products, as the second reader computes them too."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.frontends.ptx.values import arith
from syncverify.frontends.ptx.values.register_values import Unknown
from syncverify.simulate.ptx import integers

EDGES = (0, 1, 2, 31, 32, 33, 63, 64, 255, 256, 0x7F, 0x80, 0x7FFFFFFF, 0x80000000, 0x80FF7F01, 0xFFFFFFFF)


def words(count: int) -> Iterator[tuple[int, ...]]:
    """Edge values, and some at random."""
    random_ = random.Random(count)
    yield from random_.sample(list(product(EDGES, repeat=count)), 200)
    yield from (tuple(random_.getrandbits(32) for _ in range(count)) for _ in range(200))


def columns(rows: list[tuple[int, ...]]) -> list[np.ndarray]:
    return [np.array(x, np.uint32) for x in zip(*rows, strict=True)]


@pytest.mark.parametrize("wrap", [0, 1])
def test_bmsk(wrap: int) -> None:
    rows = list(words(2))
    theirs = integers.bmsk(bool(wrap))(*columns(rows))
    assert [arith.bmsk(*row, wrap) for row in rows] == theirs.tolist()


@pytest.mark.parametrize(("kind", "wrap"), list(product(("u32", "s32"), (0, 1))))
def test_szext(kind: str, wrap: int) -> None:
    rows = list(words(2))
    theirs = integers.szext(kind, bool(wrap))(*columns(rows))
    assert [arith.szext(*row, int(kind == "s32"), wrap) for row in rows] == theirs.tolist()


def nth_one(mask: int, base: int, offset: int) -> int:
    """fns, as the PTX ISA has it."""
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    place, left, step = base, abs(offset) - 1, 1 if offset > 0 else -1
    while 0 <= place < 32:
        if mask >> place & 1:
            if left == 0:
                return place
            left -= 1
        place += step
    return 0xFFFFFFFF


def test_fns() -> None:
    random_ = random.Random(1)
    offsets = [*range(-5, 6), -33, 33, -(1 << 31), (1 << 31) - 1]
    rows = [(mask, base, n) for mask in EDGES for base in (0, 1, 30, 31) for n in offsets]
    rows += [(random_.getrandbits(32), random_.randrange(32), random_.choice(offsets)) for _ in range(400)]
    found = [arith.fns(mask, base, n & 0xFFFFFFFF) for mask, base, n in rows]
    assert found == [nth_one(*row) for row in rows]
    inside = [x[2] > -(1 << 31) for x in rows]  # the second reader leaves this one out
    theirs = integers.fns(*columns([(mask, base, n & 0xFFFFFFFF) for mask, base, n in rows])).tolist()
    assert [x for x, y in zip(found, inside, strict=True) if y] == [
        x for x, y in zip(theirs, inside, strict=True) if y
    ]


def test_fns_from_a_bit_that_no_word_has_is_not_known() -> None:
    assert isinstance(arith.fns(1, 32, 1), Unknown)


@pytest.mark.parametrize(("a", "b"), list(product(("u32", "s32"), repeat=2)))
def test_dots(a: str, b: str) -> None:
    rows = list(words(3))
    signs = int(a == "s32") + 2 * int(b == "s32")
    theirs = integers.dot4(a, b)(*columns(rows))
    assert [arith.dot(*row, -1, signs) for row in rows] == theirs.tolist()
    for hi in (0, 1):
        theirs = integers.dot2(a, b, bool(hi))(*columns(rows))
        assert [arith.dot(*row, hi, signs) for row in rows] == theirs.tolist()


KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k()
{{ .reg .b32 %r<9>; .shared .align 4 .b8 row[1024];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, row;
  {0}
  shl.b32 %r3, %r3, 2;
  add.u32 %r3, %r3, %r2;
  st.shared.u32 [%r3], %r1;
  bar.sync 0;
  ret;
}}
"""


#: Each lane takes the place of the lane that comes as many ones into a mask as it has a number.
NTH_LANE = (
    "and.b32 %r4, %r1, 31; sub.u32 %r5, %r1, %r4; add.u32 %r4, %r4, 1; "
    "fns.b32 %r3, {}, 0, %r4; add.u32 %r3, %r3, %r5;"
)


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("dp4a.u32.u32 %r3, %r1, 3, 5;", Verdict.PROVED),  # 3 t + 5
        ("dp4a.u32.u32 %r3, %r1, 256, 5;", Verdict.REFUTED),  # the second byte of t: 5 for all
        ("dp2a.lo.s32.u32 %r3, %r1, 2, 0;", Verdict.PROVED),
        ("dp2a.hi.s32.u32 %r3, %r1, 2, 0;", Verdict.REFUTED),
        ("szext.clamp.u32 %r3, %r1, 6;", Verdict.PROVED),
        ("szext.clamp.u32 %r3, %r1, 5;", Verdict.REFUTED),
        ("bmsk.clamp.b32 %r3, %r1, 1; popc.b32 %r3, %r3;", Verdict.REFUTED),
        (NTH_LANE.format(-1), Verdict.PROVED),
        (NTH_LANE.format(0x7FFFFFFF), Verdict.REFUTED),  # there is no 32nd one
    ],
)
def test_where_they_decide_a_place(line: str, verdict: Verdict) -> None:
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "block": [64, 1, 1]}}}
    (report,) = syncverify.check(KERNEL.format(line), facts=facts, advice=False)
    assert report.verdict is verdict, report.reason
