"""Which ring and which slot barriers and bytes are, from what events name at each residue. TRUSTED.

A place that moves with a counter is slot ``(counter + offset) mod depth`` of a ring; one that does not move
is a slot of its own, or one of a ring's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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


@dataclass(frozen=True)
class Bytes:
    """Bytes of one access at one residue: sorted (first, end, thread)."""

    pieces: tuple[tuple[int, int, int], ...]

    @property
    def low(self) -> int:
        return self.pieces[0][0]

    @cached_property
    def ranges(self) -> frozenset[tuple[int, int]]:
        return frozenset((lo, hi) for lo, hi, _ in self.pieces)

    @cached_property
    def shape(self) -> tuple[tuple[int, int, int], ...]:
        """The bytes from the first one on."""
        return self.moved(-self.low)

    def moved(self, by: int) -> tuple[tuple[int, int, int], ...]:
        return tuple((lo + by, hi + by, t) for lo, hi, t in self.pieces)


@dataclass(slots=True)
class Region:
    """Memory that is touched together: a buffer of ``depth`` slots of ``stride`` bytes from ``base``."""

    name: str
    base: int = 0
    depth: int = 1
    stride: int = 0


@dataclass(frozen=True, slots=True)
class SlotBytes:
    """Bytes of an access in one buffer. ``shift``: of the slot against the counter, or the slot itself."""

    region: Region
    shift: int
    pieces: tuple[tuple[int, int, int], ...]


@dataclass(slots=True)
class Access:
    """One access of a site: where it is by residue, and what becomes of it: with what its slot moves, and its
    bytes in each slot and buffer. One that moves with a counter has one part.
    """

    memory: int
    by: Mapping[Residue, Bytes]
    site: Hashable = None  # the place of the code, the same for all agents
    moves: Moves = Moves(FIXED, (0,))
    parts: tuple[SlotBytes, ...] = ()
    covered: list[tuple[int, int]] | None = None

    def distinct(self) -> list[Bytes]:
        """Its bytes at all residues, those that are one object once."""
        return list({id(b): b for b in self.by.values()}.values())

    def coverage(self) -> list[tuple[int, int]]:
        """The bytes that it touches at any residue."""
        if self.covered is None:
            self.covered = merged(frozenset[tuple[int, int]]().union(*(b.ranges for b in self.distinct())))
        return self.covered

    def touches(self, low: int, high: int) -> bool:
        """Whether it touches any of these bytes."""
        some = self.coverage()
        last = bisect_left(some, (high,)) - 1  # of those that begin below
        return last >= 0 and some[last][1] > low


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for lo, hi in sorted(ranges):
        if out and lo <= out[-1][1]:
            if hi > out[-1][1]:
                out[-1] = (out[-1][0], hi)
        else:
            out.append((lo, hi))
    return out


def laid_out(accesses: Sequence[Access], steps: Mapping[int, tuple[int, int]]) -> list[Region]:
    """Gives each access its buffers and slots. ``steps``: by access, the moduli of its agent's counters.

    Bytes that move by equal strides are slots of a buffer. What does not move, or not so, touches the slots
    that its bytes are in, and all bytes beside them as one buffer of one slot. Buffers that one place of the
    code accesses are one, where they have as many slots: what warps do to bytes of their own is then alike.
    """
    out: list[tuple[Region, frozenset[Hashable]]] = []
    for members in overlapping(accesses):
        mine = [accesses[i] for i in members]
        region = Region(f"bytes {min(a.coverage()[0][0] for a in mine)} of block {mine[0].memory}")
        for r in _shared(region, mine, [steps[i] for i in members]):
            sites = frozenset(a.site for a in mine if any(p.region is r for p in a.parts))
            out.append((r, frozenset((r.depth, mine[0].memory, x) for x in sites)))
    if len({r.name for r, _ in out}) < len(out):
        raise NotReadError("buffers with one name")
    for (r, _), together in zip(out, _meeting([keys for _, keys in out]), strict=True):
        r.name = out[together][0].name
    return [r for i, (r, _) in enumerate(out) if r.name not in {q.name for q, _ in out[:i]}]


def _meeting(some: Sequence[frozenset[Hashable]]) -> list[int]:
    """For each set the first one that it meets, directly or through others."""
    first = list(range(len(some)))

    def find(i: int) -> int:
        while first[i] != i:
            i = first[i]
        return i

    seen: dict[Hashable, int] = {}
    for i, keys in enumerate(some):
        for x in keys:
            a, b = sorted((find(i), find(seen.setdefault(x, i))))
            first[b] = a
    return [find(i) for i in range(len(some))]


def overlapping(accesses: Sequence[Access]) -> list[list[int]]:
    """Accesses whose bytes overlap, directly or through others, by number."""
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
    return list(groups.values())


def _shared(region: Region, some: Sequence[Access], moduli: Sequence[tuple[int, int]]) -> list[Region]:
    """The buffers of accesses that overlap."""
    moving = [i for i, (a, m) in enumerate(zip(some, moduli, strict=True)) if _moving(a, *m)]
    rings = _rings([[some[moving[i]] for i in sub] for sub in overlapping([some[i] for i in moving])])
    windows = sorted(w for ring in rings for w in _windows(*ring))
    if any(a[1] > b[0] for a, b in pairwise(windows)):
        rings, windows = [], []
        for a in some:
            a.parts = ()
    for a in some:
        if not a.parts:
            a.moves = Moves(FIXED, (0,))
            a.parts = _split(region, windows, {p for b in a.distinct() for p in b.pieces})
    used = {p.region.name: p.region for a in some for p in a.parts}
    if len(rings) == 1 and region.name not in used:
        rings[0][0].name = region.name
    return list({p.region.name: p.region for a in some for p in a.parts}.values())


def _rings(sets: Sequence[Sequence[Access]]) -> list[tuple[Region, int]]:
    """The buffers of sets of accesses that move. Those that go round alike, in one slot, are one buffer."""
    found = [(ring, some) for some in sets if (ring := _ring(some)) is not None]
    out: list[tuple[tuple[Region, int], list[Access]]] = []
    for ring, some in sorted(found, key=lambda x: x[0][0].base):
        if out:
            (before, _), together = out[-1]
            alike = (before.depth, before.stride) == (ring[0].depth, ring[0].stride)
            if alike and ring[0].base + ring[1] - before.base <= before.stride:
                both = _ring([*together, *some])
                if both is not None:
                    out[-1] = (both, [*together, *some])
                    continue
        out.append((ring, list(some)))
    return [ring for ring, _ in out]


def _moving(a: Access, m: int, mu: int) -> bool:
    """Whether the same bytes are accessed at each residue, at places that move with a counter."""
    first, *others = (b.shape for b in a.distinct())
    if any(x != first for x in others):
        return False
    try:
        a.moves = moves({r: b.low for r, b in a.by.items()}, m, mu)
    except NotReadError:
        return False
    return a.moves.by != FIXED


_Window = tuple[int, int, Region, int]  # first and end of bytes of a slot, its buffer, its number


def _windows(region: Region, size: int) -> list[_Window]:
    """The bytes of each slot that are accessed."""
    starts = [region.base + s * region.stride for s in range(region.depth)]
    return [(at, at + size, region, s) for s, at in enumerate(starts)]


def _split(
    rest: Region, windows: Sequence[_Window], pieces: set[tuple[int, int, int]]
) -> tuple[SlotBytes, ...]:
    """Bytes by the slots that they are in; those in none are of a buffer of one slot."""
    found: dict[tuple[str, int], tuple[Region, set[tuple[int, int, int]]]] = {}
    starts = [w[0] for w in windows]
    for lo, hi, thread in pieces:
        at = lo
        while at < hi:
            k = bisect_right(starts, at) - 1
            if k >= 0 and at < windows[k][1]:
                _, stop, region, slot = windows[k]
                end = min(hi, stop)
                base = slot * region.stride
            else:
                end = min(hi, starts[k + 1]) if k + 1 < len(starts) else hi
                region, slot, base = rest, 0, 0
            key = (region.name, slot)
            found.setdefault(key, (region, set()))[1].add((at - base, end - base, thread))
            at = end
    return tuple(SlotBytes(r, s, tuple(sorted(some))) for (_, s), (r, some) in sorted(found.items(), key=str))


def _ring(some: Sequence[Access]) -> tuple[Region, int] | None:
    """The buffer of several slots that accesses which move are to, and how many bytes of a slot they touch;
    they are given their slots. None where there is no such buffer.
    """
    depth = stride = 0
    for a in some:
        lows = sorted(int(x) for x in a.moves.cycle)  # type: ignore[call-overload]
        gaps = {y - x for x, y in pairwise(lows)}
        if len(gaps) != 1 or (depth, stride) not in ((0, 0), (len(lows), min(gaps))):
            return None
        depth, stride = len(lows), min(gaps)
    base = min(int(x) for a in some for x in a.moves.cycle)  # type: ignore[call-overload]
    region = Region(f"slots {base} of block {some[0].memory}", base, depth, stride)
    plan: list[SlotBytes] = []
    size = 0
    for a in some:
        b = next(iter(a.by.values()))
        slots = [(int(x) - base) // stride for x in a.moves.cycle]  # type: ignore[call-overload]
        inner = {(int(x) - base) % stride for x in a.moves.cycle}  # type: ignore[call-overload]
        end = min(inner) + max(hi for _, hi, _ in b.pieces) - b.low
        if len(inner) != 1 or end > stride or not all(0 <= s < depth for s in slots):
            return None
        shift = slots[0]
        if any((i + shift) % depth != s for i, s in enumerate(slots)):
            return None
        size = max(size, end)
        plan.append(SlotBytes(region, shift, tuple(sorted(b.moved(base + min(inner) - b.low)))))
    for a, part in zip(some, plan, strict=True):
        a.parts = (part,)
    return region, size


__all__ = [
    "FIXED",
    "STEPS",
    "TILES",
    "Access",
    "Any",
    "Bytes",
    "Moves",
    "SlotBytes",
    "Region",
    "laid_out",
    "merged",
    "moves",
    "offset",
    "overlapping",
]
