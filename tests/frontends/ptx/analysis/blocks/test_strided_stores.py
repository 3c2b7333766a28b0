"""The block that stores are written for: held against the places that each thread stores to."""

from __future__ import annotations

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
.shared .align 4 .b8 s[{size}];
.visible .entry k()
{{ .reg .b32 %r<9>; .reg .b64 %rd<2>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %tid.y;
  mov.u32 %r3, s;
  mad.lo.s32 %r4, %r1, {x}, %r3;
  mad.lo.s32 %r4, %r2, {y}, %r4;
  {stores}
  ret;
}}
"""


def _said(block: tuple[int, int], x: int, y: int, places: tuple[int, ...], size: int) -> bool:
    stores = " ".join(f"st.shared.u32 [%r4+{p}], %r1;" for p in places)
    flow = Flow(parse(TEXT.format(size=size, x=x, y=y, stores=stores), "k.ptx").functions[0])
    return as_large_as_stores_allow(flow, (*block, 1), {"s": size})


def _expected(block: tuple[int, int], x: int, y: int, places: tuple[int, ...], size: int) -> bool:
    """The same by going over threads, one by one."""

    def by(wide: tuple[int, int], n: int) -> dict[tuple[int, int], int]:
        return {(i, j): places[n] + x * i + y * j for i, j in product(range(wide[0]), range(wide[1]))}

    def meets(wide: tuple[int, int]) -> set[tuple[int, int]]:
        numbers = range(len(places))
        return {
            (n, m)
            for n, m in product(numbers, numbers)
            for t, p in by(wide, n).items()
            for u, q in by(wide, m).items()
            if t != u and p == q
        }

    here = meets(block)
    stored = sorted(p for n in range(len(places)) for p in by(block, n).values())
    if stored == list(range(0, size, 4)):
        return True
    x_wide, y_wide = (block[0] * 2, block[1]), (block[0], block[1] * 2)
    if size >= 2 * len({*places}) * block[0] * block[1] * 4:
        return False
    larger = [w for w, e in ((x_wide, block[0]), (y_wide, block[1])) if e > 1]
    return bool(larger) and all(meets(w) - here for w in larger)


@pytest.mark.parametrize("block", [(4, 2), (4, 4), (2, 2), (4, 1), (8, 1), (8, 2), (2, 8)])
def test_blocks_beside_the_places_of_each_thread(block: tuple[int, int]) -> None:
    rows = (0, 40, 80), (0, 20, 40, 60), (0, 16), (0,), (0, 4), (8, 0)
    for places, y in product(rows, (0, 8, 16, 20)):
        for size in (64, 128, 160):
            said = _said(block, 4, y, places, size)
            assert said is _expected(block, 4, y, places, size), (places, y, size)


def test_the_tile_of_a_transposition() -> None:
    rows = (0, 1056, 2112, 3168)
    assert _said((32, 8), 4, 132, rows, 4224)
    assert not _said((32, 4), 4, 132, rows, 4224)
    assert not _said((8, 8), 4, 132, rows, 4224)


def test_a_row_too_few_between_two_stores_is_no_want_of_room() -> None:
    rows = (0, 1056, 2112, 3036)
    assert not _said((32, 4), 4, 132, rows, 4224)
    assert _said((32, 4), 4, 132, rows, 2112 + 1056)


def _text(size: int, lines: str) -> Flow:
    text = TEXT.format(size=size, x=4, y=0, stores=lines)
    return Flow(parse(text, "k.ptx").functions[0])


def test_places_by_bits_of_the_number_fill() -> None:
    # s[t % 4][t / 4] in rows of 8 words
    bits = "and.b32 %r5, %r1, 3; shl.b32 %r5, %r5, 5; shr.u32 %r6, %r1, 2; shl.b32 %r6, %r6, 2;"
    lines = f"{bits} add.u32 %r5, %r5, %r6; add.u32 %r5, %r5, %r3; st.shared.u32 [%r5], %r1;"
    assert as_large_as_stores_allow(_text(128, lines), (32, 1, 1), {"s": 128})
    assert not as_large_as_stores_allow(_text(128, lines), (16, 1, 1), {"s": 128})


def test_copies_of_both_stages_fill() -> None:
    copies = (
        "cp.async.ca.shared.global [%r4], [%rd1], 4, 4; cp.async.ca.shared.global [%r4+{}], [%rd1], 4, 4;"
    )
    for size, block, second, said in ((256, 32, 128, True), (256, 16, 64, False), (256, 32, 64, False)):
        flow = _text(size, copies.format(second) * 2)
        assert as_large_as_stores_allow(flow, (block, 1, 1), {"s": size}) is said


def test_one_word_too_far_fills_nothing() -> None:
    assert _said((256, 1), 4, 0, (0,), 1024)
    assert not _said((128, 1), 4, 0, (4,), 1024)
    assert not _said((256, 1), 4, 0, (4,), 1028)


def _differs(seed: int) -> bool:
    """Whether the rule and the places of each thread say different things of drawn stores."""
    draw = Random(seed)
    block = draw.choice([(4, 2), (2, 4), (4, 4), (8, 1), (1, 8), (2, 2), (3, 2), (6, 1)])
    x, y = 4 * draw.choice([1, 1, 1, 0, 2, block[1], 3]), 4 * draw.choice([block[0], block[0] + 1, 1, 0, 5])
    rows = 4 * draw.choice([block[0] * block[1], (block[0] + 1) * block[1], draw.randrange(1, 24)])
    places = tuple(rows * n for n in range(draw.choice([1, 1, 2, 3, 4])))
    full = 4 * block[0] * block[1] * len(places)
    size = draw.choice([full, rows * len(places), full + 4 * draw.randrange(1, 9), 2 * full, 2 * full - 4])
    return _said(block, x, y, places, size) is not _expected(block, x, y, places, size)


@pytest.mark.parametrize(
    ("first", "last"), [(0, 150), pytest.param(150, 3_000, marks=pytest.mark.slow)], ids=("some", "more")
)
def test_drawn_stores_beside_the_places_of_each_thread(first: int, last: int) -> None:
    assert [seed for seed in range(first, last) if _differs(seed)] == []


def test_a_mistake_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores fill an array wherever they go."""
    monkeypatch.setattr(strided_stores, "_fill", lambda *_: True)
    assert any(map(_differs, range(30)))
