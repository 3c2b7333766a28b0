"""Footprints as regions, places as lines, and the statements of several classes as one body."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Step
from syncverify.base.source import Span
from syncverify.ir import nodes as n
from syncverify.ir.expr import Int
from syncverify.model.events import Footprint, Site, ThreadClass
from syncverify.ptx_replay.places import Places, Unfit
from syncverify.ptx_replay.regions import regions
from syncverify.ptx_replay.weave import Member, woven
from syncverify.simulate.ir.code import flatten, thread_env
from syncverify.simulate.ir.layout import Buffer
from syncverify.simulate.ir.regions import merged, region_foot

SMEM = Buffer("smem", 0, (4096,), 1, "u8")
LANES = (0, 1, 2, 3)


def _bytes(fp: Footprint) -> tuple[set[tuple[int, int]], int]:
    """(lane, byte) pairs of the regions, as the simulator reads them, and how many regions there are."""
    env = thread_env(n.Kernel("k"), {}, LANES, 0, 0, (1, 1, 1))
    found = regions(fp, 0xF, 0)
    out: set[tuple[int, int]] = set()
    for r in found:
        foot = region_foot(r, SMEM, env, LANES)
        pieces = foot.lanes or tuple((lo, hi, lane) for lo, hi in foot.intervals for lane in LANES)
        out |= {(lane, b) for lo, hi, lane in pieces for b in range(lo, hi)}
    return out, len(found)


def _footprint(*pieces: tuple[int, int, int]) -> Footprint:
    return Footprint(0, merged([p[:2] for p in pieces]), tuple(sorted(pieces)))


def test_a_swizzled_operand_is_a_few_regions() -> None:
    """32 bytes of each of 32 rows of 128 bytes, as the 128B swizzle of eight rows lays them out."""
    rows = [(128 * r + 16 * (c ^ r % 8), 128 * r + 16 * (c ^ r % 8) + 16) for r in range(32) for c in (0, 1)]
    intervals = tuple(merged(sorted(rows)))
    found = regions(Footprint(0, intervals), 0xF, 0)
    env = thread_env(n.Kernel("k"), {}, LANES, 0, 0, (1, 1, 1))
    there = {b for r in found for lo, hi in region_foot(r, SMEM, env, LANES).intervals for b in range(lo, hi)}
    assert there == {b for lo, hi in rows for b in range(lo, hi)}
    assert len(found) < len(intervals)


@pytest.mark.parametrize(
    ("pieces", "count"),
    [
        pytest.param([(16 * i, 16 * i + 16, i) for i in range(4)], 1, id="linear"),
        pytest.param([(a, a + 4, i) for i, a in enumerate((64, 0, 900, 8))], 1, id="scattered"),
        pytest.param(
            [(a + 100 * i, a + 8 + 100 * i, i) for i in range(4) for a in (0, 32, 64)], 1, id="rows"
        ),
        pytest.param([(8 * i, 8 * i + (4 if i else 8), i) for i in range(4)], 2, id="unequal"),
    ],
)
def test_bytes_of_lanes(pieces: list[tuple[int, int, int]], count: int) -> None:
    expected = {(lane, b) for lo, hi, lane in pieces for b in range(lo, hi)}
    assert _bytes(_footprint(*pieces)) == (expected, count)


def test_common_bytes_in_rows_and_a_rest() -> None:
    fp = Footprint(0, ((0, 16), (128, 144), (256, 272), (1000, 1004)))
    expected = {(lane, b) for lo, hi in fp.intervals for b in range(lo, hi) for lane in LANES}
    assert _bytes(fp) == (expected, 2)


def test_a_lane_without_bytes_is_refused() -> None:
    with pytest.raises(Unfit, match="touch no bytes"):
        regions(_footprint((0, 4, 0)), 0xF, 0)


def test_two_operations_on_one_line_are_two_places() -> None:
    places = Places(
        [Site(Span("a.cu", 7), "st"), Site(Span("a.cu", 7), "arrive"), Site(Span("a.cu", 7), "st")]
    )
    assert [places.number(i) for i in range(3)] == [1, 2, 1]
    numbered = places.numbered(Step("cta0.warp0.lanes0", Span("a.cu", 7), "completion of arrive"))
    assert numbered.span.line == 2
    assert places.step(numbered).span.line == 7
    assert places.text("blocked at line 2 (x)") == "blocked at line 7 (x)"


def _member(warp: int, lanes: int, *body: tuple[int, n.Stmt]) -> Member:
    return Member(ThreadClass(0, warp, lanes), body)


def test_a_common_barrier_is_one_statement() -> None:
    sync, fence = n.BarrierSync(Int(0)), n.WgmmaFence()
    body = woven([_member(0, 1, (1, sync), (2, fence)), _member(0, 0xFFFFFFFE, (2, fence))])
    assert [type(s).__name__ for s in body] == ["If", "WgmmaFence"]


def test_an_aligned_statement_with_other_numbers_stays_one() -> None:
    body = woven([_member(w, 0xFFFFFFFF, (1, n.BarrierSync(Int(w)))) for w in range(4)])
    assert [type(s) for s in body] == [n.BarrierSync]


def test_lists_that_contradict_each_other_are_kept_apart() -> None:
    a, b = n.BarrierSync(Int(0)), n.BarrierSync(Int(1))
    body = woven([_member(0, 0xFFFFFFFF, (1, a), (2, b)), _member(1, 0xFFFFFFFF, (2, b), (1, a))])
    assert sum(type(i).__name__ == "Do" for i in flatten(body)) == 4
