"""What a finding names beside what it says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from syncverify.checker.explain.evidence import _since
from syncverify.model.events import BarrierInfo, Ev
from syncverify.model.proxies import Access


@pytest.mark.parametrize(
    ("kind", "tag", "sites"),
    [
        (Access.ASYNC_WRITE, 9, [6, 5]),
        (Access.ASYNC_WRITE, 8, [6]),  # it completes on another barrier
        (Access.GENERIC_WRITE, 9, [6]),  # it completes on none
    ],
)
def test_the_wait_for_the_barrier_of_a_copy_is_named(kind: Access, tag: int, sites: list[int]) -> None:
    full = SimpleNamespace(column=9, index=1)
    info = SimpleNamespace(barriers={1: BarrierInfo(0, 0, "full")}, ctas=1)
    waits = [(0, (Ev.WAIT, 4, 1, 0, 0)), (0, (Ev.WAIT, 5, 1, 1, 0)), (0, (Ev.BARRIER_SYNC, 6, 1, 128, 0))]
    run: Any = SimpleNamespace(trace=[*waits, (0, (Ev.READ, 7, 0))], barriers={1: full}, info=info)
    first: Any = SimpleNamespace(kind=kind, tag=tag)
    second: Any = SimpleNamespace(position=3, cls=0, site=7)
    found = list(_since(run, first, second))
    assert [site for site, _ in found] == sites
    assert all("full, on which the first completes" in text for _, text in found[1:])
