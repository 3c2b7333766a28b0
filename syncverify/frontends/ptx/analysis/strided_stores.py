"""How many threads the stores of a text are written for: as many as their strides and arrays leave room for.

    tile[y][x] = ..;  tile[y + 8][x] = ..;  tile[y + 16][x] = ..;  tile[y + 24][x] = ..;

A block of 32 x 8 threads stores each word of ``tile[32][33]`` once, but for the column that pads it. With
twice as many rows two threads would store to one place, and with rows of 64 they would as well.

A heuristic: it chooses the block that a text is meant for, which is checked like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations_with_replacement
from math import prod

import numpy as np

from syncverify.frontends.ptx.analysis.thread_terms import Facts, ThreadTerms
from syncverify.frontends.ptx.decode.memory import decode_place
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.model.events import Ev

#: Stores to one array that are looked at, at most.
_STORES = 40
_AXES = ("1.x", "1.y", "1.z")


@dataclass(frozen=True, slots=True)
class _Store:
    """A store: the bytes, their place where all numbers of the thread are 0, and what each adds to it."""

    bytes: int
    place: int
    strides: tuple[int, ...]


def as_large_as_stores_allow(flow: Flow, block: Sequence[int], sizes: Mapping[str, int]) -> bool:
    """Whether stores of a block fill one of the shared arrays, of these sizes; or twice as many threads along
    each axis would make two that do not meet in the block store to one place.

    Only where an array has too few bytes for twice as many: else the two meet by a wrong stride.
    """
    by_array = _stores(flow, block)
    axes = [n for n in range(3) if block[n] > 1]
    if not axes:
        return False
    if any(_fill(found, block, sizes.get(name, 0)) for name, found in by_array.items()):
        return True
    pairs = [
        (a, b)
        for name, found in by_array.items()
        if 0 < sizes.get(name, 0) < 2 * prod(block) * sum(s.bytes for s in {*found})
        for a, b in combinations_with_replacement(found, 2)
        if a.strides == b.strides and not _meet(a, b, block)
    ]
    larger = ([e * 2 if n == axis else e for n, e in enumerate(block)] for axis in axes)
    return all(any(_meet(a, b, wide) for a, b in pairs) for wide in larger)


def _stores(flow: Flow, block: Sequence[int]) -> dict[str, list[_Store]]:
    """The stores to each array of which the numbers of a thread alone say the place."""
    found: dict[str, list[_Store]] = {}
    for name, store in _each(flow, block):
        found.setdefault(name, []).append(store)
    return {name: stores for name, stores in found.items() if len(stores) <= _STORES}


def _each(flow: Flow, block: Sequence[int]) -> Iterator[tuple[str, _Store]]:
    for k, i in enumerate(flow.body):
        access = decode_place(i) if flow.block_of[k] in flow.reached else None
        if access is None or access.space != "shared" or access.code != Ev.WRITE:
            continue
        place = ThreadTerms(flow, block, "1", lambda v: None, Facts()).of(access.address.base, k)
        arrays = [n for n in place.names if n.startswith("&")]
        known = {(), *((n,) for n in (*arrays, *_AXES))}
        if len(arrays) == 1 and place.terms[(arrays[0],)] == 1 and place.terms.keys() <= known:
            at = place.terms.get((), 0) + access.address.offset
            strides = tuple(place.terms.get((n,), 0) for n in _AXES)
            yield arrays[0][1:], _Store(access.bytes, at, strides)


def _fill(stores: Sequence[_Store], block: Sequence[int], size: int) -> bool:
    """Whether each byte of an array is stored once."""
    return prod(block) * sum(s.bytes for s in stores) == size and not any(
        _meet(a, b, block) for a, b in combinations_with_replacement(stores, 2) if a.strides == b.strides
    )


def _meet(a: _Store, b: _Store, block: Sequence[int]) -> bool:
    """Whether two threads of a block share a byte by two stores that have the same strides."""
    steps = [stride * np.arange(1 - e, e) for stride, e in zip(a.strides, block, strict=True)]
    apart = np.abs(reduce(np.add.outer, steps) + (a.place - b.place))
    apart[tuple(e - 1 for e in block)] = a.bytes + b.bytes  # a thread beside itself
    return bool(np.any(apart < max(a.bytes, b.bytes)))


__all__ = ["as_large_as_stores_allow"]
