"""What all lanes have executed alike is forgotten; nothing that later verdicts ask of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from syncverify.checker.happens_before.run import Run
from syncverify.checker.prover.reach.state.collectives import drop_converged, executed_by_part
from syncverify.model.events import Ev
from syncverify.symbolic.context import NotConcrete

SYNC, FENCE, PRODUCT = int(Ev.BARRIER_SYNC), int(Ev.WGMMA_FENCE), int(Ev.WGMMA)


def run(*warps: list[tuple[int, int]], lanes: int = 4, left: tuple[int, ...] = ()) -> Run:
    """One class for each warp, with the sites and codes that it has executed; ``left``: who has ended."""
    threads = [
        SimpleNamespace(
            info=SimpleNamespace(cta=0, warp=w),
            done=w in left,
            collectives=[(site, code, at) for at, (site, code) in enumerate(mine)],
        )
        for w, mine in enumerate(warps)
    ]
    return cast(Run, SimpleNamespace(threads=threads, lanes={(0, w): 1 for w in range(lanes)}))


def kept(r: Run) -> list[list[int]]:
    return [[site for site, _, _ in t.collectives] for t in r.threads]


def test_all_that_a_warpgroup_has_done_alike_goes() -> None:
    whole = [(1, SYNC), (2, FENCE), (3, PRODUCT)]
    r = run(whole, whole, whole, [*whole, (4, SYNC), (2, FENCE)])
    before = executed_by_part(r)
    drop_converged(r)
    assert kept(r) == [[], [], [], [2]]
    assert executed_by_part(r) == before


def test_products_go_only_where_all_warps_have_made_them() -> None:
    r = run([(2, FENCE), (1, SYNC), (3, PRODUCT)], *[[(2, FENCE)]] * 3)
    before = executed_by_part(r)
    drop_converged(r)
    assert kept(r) == [[3], [], [], []]
    assert executed_by_part(r) == before


def test_products_of_a_warpgroup_that_is_not_full_stay() -> None:
    r = run(*[[(1, SYNC), (3, PRODUCT)]] * 3, lanes=3)
    drop_converged(r)
    assert kept(r) == [[3]] * 3


@pytest.mark.parametrize("left", [(), (1,)])
def test_what_differs_is_still_seen(left: tuple[int, ...]) -> None:
    r = run([(2, FENCE), (3, PRODUCT)], [(2, FENCE), (5, PRODUCT)], *[[(2, FENCE)]] * 2, left=left)
    drop_converged(r)
    assert kept(r) == [[3], [5], [], []]
    with pytest.raises(NotConcrete):
        executed_by_part(r)
