"""Footprints of regular and other regions against one set of lanes per byte."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from syncverify.ir.footprints import Range, footprint

_RANGES = st.lists(
    st.builds(Range, st.integers(0, 30), st.integers(0, 6), st.integers(0, 5), st.integers(1, 9)),
    min_size=1,
    max_size=5,
)


def _bytes(r: Range) -> set[int]:
    return {r.lo + row * r.pitch + i for row in range(r.rows) for i in range(r.size)}


@given(_RANGES, st.booleans(), st.booleans())
def test_bytes_of_each_lane(ranges: list[Range], varying: bool, twice: bool) -> None:
    """``twice``: the last range is the first lane's, too."""
    lanes = [*range(len(ranges) - 1), 0 if twice else len(ranges) - 1]
    fp = footprint(3, ranges, lanes, varying=varying)
    expected: dict[int, set[int]] = {}
    for r, lane in zip(ranges, lanes, strict=True):
        for byte in _bytes(r):
            expected.setdefault(byte, set()).add(lane)
    found: dict[int, set[int]] = {}
    for lo, hi, lane in fp.lanes:
        for byte in range(lo, hi):
            found.setdefault(byte, set()).add(lane)
    assert found == expected
    assert {byte for lo, hi in fp.intervals for byte in range(lo, hi)} == expected.keys()
    assert fp.overlap == (varying and any(len(some) > 1 for some in expected.values()))
    assert list(fp.lanes) == sorted(fp.lanes)
    by_lane = [[(lo, hi) for lo, hi, of in fp.lanes if of == lane] for lane in set(lanes)]
    assert all(b[0] > a[1] for parts in by_lane for a, b in pairwise(parts))
