"""Rows of A in shared memory: in practical mode a warp reads its own, in strict mode the others' too."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.exact_check import check
from syncverify.model.events import Ev, Event, Footprint, ThreadClass
from syncverify.model.proxies import Space
from tests.checker.scripts import Scripts

FULL = 0xFFFFFFFF
#: Footprints: 0 to 3 the rows of each warp, 4 to 7 the other rows, 8 B.
ROWS = [Footprint(0, ((1024 * w, 1024 * w + 1024),)) for w in range(4)]
OTHERS = [Footprint(0, tuple((1024 * v, 1024 * v + 1024) for v in range(4) if v != w)) for w in range(4)]
TABLE = [*ROWS, *OTHERS, Footprint(0, ((8192, 9216),))]


def stream(warp: int, written: int) -> list[Event]:
    """Writes some rows, then multiplies: only lanes of the warp meet between."""
    return [
        (Ev.WRITE, 0, written),
        (Ev.PROXY_FENCE, 1, int(Space.SHARED_CTA), 0),
        (Ev.WARP_SYNC, 2, FULL),
        (Ev.WGMMA_FENCE, 3),
        (Ev.WGMMA, 4, 0, warp, -1, 8, 1, 4 + warp),
        (Ev.WGMMA_COMMIT, 5),
        (Ev.WGMMA_WAIT, 6, 0),
        (Ev.EXIT, 7),
    ]


def verdict(shift: int, policy: Policy) -> Verdict:
    classes = [ThreadClass(0, w, FULL) for w in range(4)]
    return check(Scripts(TABLE, [stream(w, (w + shift) % 4) for w in range(4)], classes), policy).verdict


@pytest.mark.parametrize(
    ("shift", "policy", "expected"),
    [
        (0, Policy.PRACTICAL, Verdict.PROVED),
        (0, Policy.STRICT, Verdict.REFUTED),
        (1, Policy.PRACTICAL, Verdict.REFUTED),
        (1, Policy.STRICT, Verdict.REFUTED),
    ],
)
def test_rows_handed_over_within_a_warp(shift: int, policy: Policy, expected: Verdict) -> None:
    assert verdict(shift, policy) == expected
