"""Warp-wide and warpgroup-wide operations that some have executed and others not yet: all that later verdicts
ask of them. What all have executed alike is forgotten."""

from __future__ import annotations

from collections.abc import Hashable

from syncverify.checker.happens_before.run import LaneClass, Run
from syncverify.model.events import Ev
from syncverify.symbolic.context import NotConcrete

#: Site, code and position of such an operation.
Executed = tuple[int, int, int]
#: Warps of a warpgroup.
WARPS = 4


def executed_by_part(run: Run) -> Hashable:
    """What some have executed beyond what all that run have. Raises NotConcrete where they differ."""
    warps = _warps(run)
    out = [_ahead(ts, [t.collectives for t in ts]) for ts in warps.values()]
    return (*out, *(_ahead(ts, [_products(t) for t in ts]) for ts in _warpgroups(warps).values()))


def drop_converged(run: Run) -> None:
    """Drops what all lanes of a warp have executed alike, and of products what all warps of a group have."""
    warps = _warps(run)
    for (cta, group), firsts in _warpgroups(warps).items():
        members = [warps[cta, t.info.warp] for t in firsts]
        alike = [_alike([t.collectives for t in ts]) for ts in members]
        short = any((cta, w) not in run.lanes for w in range(group * WARPS, (group + 1) * WARPS))
        # the end reports the products of a warpgroup that is not full
        most = 0 if short else len(_alike([list(filter(_is_product, a)) for a in alike]))
        for ts, mine in zip(members, alike, strict=True):
            dropped = _until(mine, most)
            for t in ts:
                del t.collectives[:dropped]


def _warps(run: Run) -> dict[tuple[int, int], list[LaneClass]]:
    warps: dict[tuple[int, int], list[LaneClass]] = {}
    for t in run.threads:
        warps.setdefault((t.info.cta, t.info.warp), []).append(t)
    return warps


def _warpgroups(warps: dict[tuple[int, int], list[LaneClass]]) -> dict[tuple[int, int], list[LaneClass]]:
    """The first class of each warp."""
    groups: dict[tuple[int, int], list[LaneClass]] = {}
    for (cta, warp), ts in warps.items():
        groups.setdefault((cta, warp // WARPS), []).append(ts[0])
    return groups


def _is_product(x: Executed) -> bool:
    return x[1] >= Ev.WGMMA_FENCE


def _products(t: LaneClass) -> list[Executed]:
    return list(filter(_is_product, t.collectives))


def _ahead(threads: list[LaneClass], lists: list[list[Executed]]) -> Hashable:
    """The same of one warp or warpgroup."""
    if len(lists) == 1:
        return ((),)
    common = min((len(x) for t, x in zip(threads, lists, strict=True) if not t.done), default=1 << 30)
    longest = max(lists, key=len)
    for t, mine in zip(threads, lists, strict=True):
        if mine is not longest and any(a[:2] != b[:2] for a, b in zip(mine, longest, strict=False)):
            raise NotConcrete("warps that execute different collective instructions")
        if t.done and len(longest) > len(mine):
            raise NotConcrete("lanes that leave before others of their warp execute a barrier")
    return tuple(tuple(x[:2] for x in mine[common:]) for mine in lists)


def _alike(lists: list[list[Executed]]) -> list[Executed]:
    """What all begin with."""
    n = 0
    for first, *others in zip(*lists, strict=False):
        if any(x[:2] != first[:2] for x in others):
            break
        n += 1
    return lists[0][:n]


def _until(executed: list[Executed], products: int) -> int:
    """How many come before the next product after so many."""
    for i, x in enumerate(executed):
        products -= _is_product(x)
        if products < 0:
            return i
    return len(executed)


__all__ = ["drop_converged", "executed_by_part"]
