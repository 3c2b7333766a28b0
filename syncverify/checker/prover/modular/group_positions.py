"""Where the blocks of a block group of one size stand in a grid, whichever group it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from syncverify.symbolic.context import AffineTerm, NotConcrete, SymbolicContext
from syncverify.symbolic.inequalities import Parts
from syncverify.symbolic.protocol import BLOCK_GROUP, MEMBER

#: Blocks that are run together.
MOST = 16


def one_group(
    across: list[Any], block_group: int, space: SymbolicContext, rows: bool = False
) -> tuple[dict[int, dict[str, Any]], bool]:
    """The places of the blocks of any block group of a grid, which may be one of its ``rows``, and whether it
    is the
    only one."""
    if not _is(across[2], 1) or not _is(*((across[0], block_group) if rows else (across[1], 1))):
        raise NotConcrete("blocks synchronize through global memory, in a grid of several dimensions")
    size = across[1] * block_group if rows else across[0]
    if size % block_group != 0:
        raise NotConcrete(
            "blocks synchronize through global memory, in a grid that is not a multiple of the block group"
        )
    number = space.path.sizes[BLOCK_GROUP] = space.symbol("block_group", 0, None)
    space.path.assume(*space.of(size - block_group - number * block_group))
    number = space.resolved(number)
    places = {}
    for cta in range(block_group):
        b = number * block_group + cta
        x, y = (cta, number) if rows else (b, 0)
        places[cta] = {
            "block": b,
            "block.x": x,
            "block.y": y,
            "block.z": 0,
            BLOCK_GROUP: number,
            MEMBER: number,
        }
    return places, not isinstance(number, AffineTerm)


def any_member(block_group: int, ctas: int, space: SymbolicContext) -> dict[int, dict[str, Any]]:
    """The places of the blocks of any cluster of any block group, where block groups are rows of the grid.

    Nothing is known of the number of the block group, so that places always move with it.
    """
    number = space.path.sizes[BLOCK_GROUP] = space.symbol("block_group", 0, None)
    clusters = block_group // ctas
    place = space.path.sizes[MEMBER] = space.symbol("member", 0, clusters - 1)
    of_all = number * clusters + place
    return {
        rank: {
            "block": of_all * ctas + rank, "block.x": place * ctas + rank, "block.y": number, "block.z": 0,
            BLOCK_GROUP: number, MEMBER: of_all,
        }
        for rank in range(ctas)
    }  # fmt: skip


def members(places: Mapping[int, Any], ctas: int) -> list[dict[int, Any]]:
    """The places of the blocks of each cluster of a block group."""
    firsts = range(0, len(places), ctas)
    return [{cta: places[first + cta] for cta in range(ctas)} for first in firsts]


def multiples(some: Iterable[AffineTerm], unit: AffineTerm) -> bool:
    """Whether sums are multiples of another one, but for numbers."""
    return all(_multiple(parts, unit.parts) for parts in {x.parts for x in some})


def _multiple(parts: Parts, unit: Parts) -> bool:
    (atom, first), times = unit[0], dict(parts)
    return times.keys() == dict(unit).keys() and all(times[a] * first == times[atom] * k for a, k in unit)


def _is(size: Any, number: int) -> bool:
    return isinstance(size, int) and size == number


__all__ = ["MOST", "any_member", "members", "multiples", "one_group"]
