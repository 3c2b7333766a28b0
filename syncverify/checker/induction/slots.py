"""Which ring and which slot barriers and bytes are, from what events name at each residue. TRUSTED.

A place that moves with a counter is slot ``(counter + offset) mod depth`` of a ring; one that does not move
is a slot of its own, or one of a ring's.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from syncverify.checker.induction.read import Residue
from syncverify.checker.induction.stepping import NotReadError

#: What a place moves with: nothing, the counter of steps, or that of tiles.
FIXED, STEPS, TILES = "fixed", "steps", "tiles"


@dataclass(frozen=True, slots=True)
class Moves:
    """``by``: the counter. ``cycle``: what is named as the counter goes on from 0."""

    by: str
    cycle: tuple[Hashable, ...]


def moves(named: Mapping[Residue, Hashable], steps: int, tiles: int) -> Moves:
    """With which counter a place moves, and in what order; NotReadError where it is neither or both."""
    if len(set(named.values())) == 1:
        return Moves(FIXED, (next(iter(named.values())),))
    for by, which, m in ((STEPS, 0, steps), (TILES, 1, tiles)):
        found: dict[int, Hashable] = {}
        if all(found.setdefault(r[which] % m, x) == x for r, x in named.items()) and len(found) == m:
            cycle = tuple(found[i] for i in range(m))
            return Moves(by, _shortest(cycle))
    raise NotReadError("a place that moves with several counters")


def _shortest(cycle: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    for d in range(1, len(cycle) + 1):
        if len(cycle) % d == 0 and all(x == cycle[i % d] for i, x in enumerate(cycle)):
            if len(set(cycle[:d])) != d:
                raise NotReadError("a place that comes twice in one lap")
            return cycle[:d]
    raise AssertionError


def offset(order: Sequence[Hashable], cycle: Sequence[Hashable]) -> int:
    """How far a cycle is ahead of an order of the same things; NotReadError where it goes another way."""
    if len(order) != len(cycle) or cycle[0] not in order:
        raise NotReadError("rings that share some of their slots")
    c = list(order).index(cycle[0])
    if any(order[(i + c) % len(order)] != x for i, x in enumerate(cycle)):
        raise NotReadError("a ring that is gone round in two orders")
    return c


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes of one access at one residue: sorted (first, end, thread)."""

    pieces: tuple[tuple[int, int, int], ...]

    @property
    def low(self) -> int:
        return min(p[0] for p in self.pieces)

    def moved(self, by: int) -> tuple[tuple[int, int, int], ...]:
        return tuple((lo + by, hi + by, t) for lo, hi, t in self.pieces)


@dataclass(slots=True)
class Region:
    """Memory that is touched together: a buffer of ``depth`` slots of ``stride`` bytes from ``base``."""

    name: str
    base: int = 0
    depth: int = 1
    stride: int = 0


@dataclass(slots=True)
class Access:
    """One access of a site: where it is by residue, and what becomes of it."""

    memory: int
    by: Mapping[Residue, Bytes]
    moves: Moves | None = None
    region: Region | None = None
    shift: int = 0  # of the slot against the counter, or the slot itself
    pieces: tuple[tuple[int, int, int], ...] = ()

    def coverage(self) -> list[tuple[int, int]]:
        return merged([(lo, hi) for b in self.by.values() for lo, hi, _ in b.pieces])


def merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for lo, hi in sorted(set(ranges)):
        if out and lo <= out[-1][1]:
            if hi > out[-1][1]:
                out[-1] = (out[-1][0], hi)
        else:
            out.append((lo, hi))
    return out


def laid_out(accesses: Sequence[Access], steps: Mapping[int, tuple[int, int]]) -> list[Region]:
    """Gives each access its buffer and slot. ``steps``: by access, the moduli of its agent's counters."""
    parent = list(range(len(accesses)))

    def find(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    marks: dict[int, list[tuple[int, int, int]]] = {}
    for i, a in enumerate(accesses):
        marks.setdefault(a.memory, []).extend((lo, hi, i) for lo, hi in a.coverage())
    for some in marks.values():
        end, last = -1, -1
        for lo, hi, i in sorted(some):
            if lo < end:
                parent[find(i)] = find(last)
            if hi > end:
                end, last = hi, i
    groups: dict[int, list[int]] = {}
    for i in range(len(accesses)):
        groups.setdefault(find(i), []).append(i)
    out: list[Region] = []
    for number, members in enumerate(groups.values()):
        mine = [accesses[i] for i in members]
        region = Region(f"bytes {min(a.coverage()[0][0] for a in mine)} of block {mine[0].memory}")
        if number and any(r.name == region.name for r in out):
            raise NotReadError("buffers with one name")
        out.append(region)
        if not _ring(region, mine, [steps[i] for i in members]):
            region.depth, region.base, region.stride = 1, 0, 0
            for a in mine:
                a.moves, a.region, a.shift = Moves(FIXED, (0,)), region, 0
                a.pieces = tuple(sorted({p for b in a.by.values() for p in b.pieces}))
    return out


def _ring(region: Region, some: Sequence[Access], moduli: Sequence[tuple[int, int]]) -> bool:
    """Whether the accesses are those of a buffer of several slots; then they are given their slots."""
    depth = stride = 0
    base: int | None = None
    for a, (m, mu) in zip(some, moduli, strict=True):
        shapes = {b.moved(-b.low) for b in a.by.values()}
        if len(shapes) != 1:
            return False
        try:
            a.moves = moves({r: b.low for r, b in a.by.items()}, m, mu)
        except NotReadError:
            return False
        if a.moves.by == FIXED:
            continue
        lows = sorted(int(x) for x in a.moves.cycle)  # type: ignore[call-overload]
        gaps = {y - x for x, y in pairwise(lows)}
        if len(gaps) != 1 or (depth, stride) not in ((0, 0), (len(lows), min(gaps))):
            return False
        depth, stride = len(lows), min(gaps)
        base = lows[0] if base is None else min(base, lows[0])
    if base is None:
        return False
    plan: list[tuple[Access, int, int]] = []
    for a in some:
        assert a.moves is not None
        first = next(iter(a.by.values()))
        size = max(hi for _, hi, _ in first.pieces) - first.low
        slots = [(int(x) - base) // stride for x in a.moves.cycle]  # type: ignore[call-overload]
        inner = {(int(x) - base) % stride for x in a.moves.cycle}  # type: ignore[call-overload]
        if len(inner) != 1 or min(inner) + size > stride or not all(0 <= s < depth for s in slots):
            return False
        shift = slots[0]
        if a.moves.by != FIXED and any((i + shift) % depth != s for i, s in enumerate(slots)):
            return False
        plan.append((a, shift, min(inner)))
    region.base, region.depth, region.stride = base, depth, stride
    for a, shift, inside in plan:
        a.region, a.shift = region, shift
        b = next(iter(a.by.values()))
        a.pieces = tuple(sorted(b.moved(inside - b.low)))
    return True


__all__ = [
    "FIXED",
    "STEPS",
    "TILES",
    "Access",
    "Any",
    "Bytes",
    "Moves",
    "Region",
    "laid_out",
    "merged",
    "moves",
    "offset",
]
