"""Footprints entered by covers: whoever touches only the gaps does not meet them."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.checker.exact_check import check
from syncverify.model.events import Ev, Footprint
from tests.checker.scripts import Scripts

SCATTERED = Footprint(0, ((0, 32), (128, 160), (256, 288)), cover=((0, 288),))
EXIT = (Ev.EXIT, 7)


def verdict(write: Footprint, read_first: bool) -> Verdict:
    reader = [(Ev.READ, 0, 0, -1), EXIT]
    writer = [(Ev.WRITE, 1, 1), EXIT]
    return check(Scripts([SCATTERED, write], [reader, writer] if read_first else [writer, reader])).verdict


@pytest.mark.parametrize("read_first", [True, False])
@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        (((32, 128),), Verdict.PROVED),
        (((32, 64), (160, 256)), Verdict.PROVED),
        (((288, 320),), Verdict.PROVED),
        (((31, 64),), Verdict.REFUTED),
        (((100, 200),), Verdict.REFUTED),
        (((40, 50), (287, 300)), Verdict.REFUTED),
        (((0, 512),), Verdict.REFUTED),
    ],
)
def test_gaps(intervals: tuple[tuple[int, int], ...], expected: Verdict, read_first: bool) -> None:
    assert verdict(Footprint(0, intervals), read_first) == expected


def test_two_covers_that_only_overlap_outside_their_bytes() -> None:
    other = Footprint(0, ((32, 64), (160, 192)), cover=((32, 192),))
    assert verdict(other, read_first=True) == Verdict.PROVED
