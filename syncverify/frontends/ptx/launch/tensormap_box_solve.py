"""The boxes that a run's equations and layout leave: each with how it was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from syncverify.frontends.ptx.launch.tensormap_box_run import BoxFindings, Equation

#: PTX ISA, tensor copies: the innermost dimension of a box is a multiple of 16 bytes.
UNIT = 16
#: A box has at most 256 elements per dimension, and shared memory bounds it far below this.
MOST = 227 * 1024


@dataclass(frozen=True, slots=True)
class Solved:
    """Bytes of a box. ``site``: the announcement, or the store, that it comes from.

    ``forced``: any other box makes the kernel wrong. ``most``: the box has at most these bytes.
    """

    bytes: int
    site: int
    forced: bool = True
    most: bool = False


@dataclass(frozen=True, slots=True)
class Doubt:
    """A phase whose bytes are not those for which its copies have room, of some maps whose boxes stay open.

    ``site``: of the announcement; ``maps``: all of the phase, by number.
    """

    site: int
    bytes: int
    room: int
    maps: tuple[int, ...]


@dataclass(slots=True)
class Solution:
    """By map number. ``conflicts``: pairs of sites whose announcements no boxes fit together."""

    boxes: dict[int, Solved] = field(default_factory=dict)
    conflicts: list[tuple[int, int]] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)


def solve(found: BoxFindings, variables: Iterable[int] = ()) -> Solution:
    """The boxes that a run shows; ``variables``: byte offsets at which shared variables begin."""
    out = Solution()
    _eliminate(found.equations, out, forced=not found.unsure)
    if found.unsure and not found.stuck:
        certain = Solution()
        _eliminate(found.certain, certain, forced=True)
        out.boxes |= certain.boxes
    _fill(found, out, found.room, forced=not found.unsure)
    near = _neighbours(found, variables)
    _fill(found, out, near, forced=False)
    _stores(found, out)
    out.doubts = _doubts(found, out, near)
    return out


def _eliminate(equations: Iterable[Equation], out: Solution, *, forced: bool) -> None:
    """Gauss-Jordan over the equations, in the order in which their phases came."""
    rows: dict[int, tuple[dict[int, Fraction], Fraction, Equation]] = {}  # by pivot
    for e in equations:
        row = {m: Fraction(n) for m, n in e.boxes}
        rest = Fraction(e.bytes)
        last = e
        for pivot, (other, right, source) in rows.items():
            k = row.get(pivot)
            if k:
                row, rest = _minus(row, other, k), rest - k * right
                last = source
        if not row:
            if rest:
                out.conflicts.append((last.site, e.site))
            continue
        pivot = min(row)
        scale = row[pivot]
        row, rest = {m: k / scale for m, k in row.items()}, rest / scale
        for p, (other, right, source) in list(rows.items()):
            k = other.get(pivot)
            if k:
                rows[p] = (_minus(other, row, k), right - k * rest, source)
        rows[pivot] = (row, rest, e)
    for pivot, (row, rest, e) in rows.items():
        if len(row) == 1 and _possible(rest):
            out.boxes[pivot] = Solved(int(rest), e.site, forced=forced)
        elif len(row) == 1:
            out.conflicts.append((e.site, e.site))


def _minus(row: Mapping[int, Fraction], other: Mapping[int, Fraction], k: Fraction) -> dict[int, Fraction]:
    out = dict(row)
    for m, v in other.items():
        out[m] = out.get(m, Fraction(0)) - k * v
    return {m: v for m, v in out.items() if v}


def _possible(size: Fraction) -> bool:
    return size.denominator == 1 and 0 < size <= MOST and size % UNIT == 0


def _fill(found: BoxFindings, out: Solution, room: Mapping[int, int], *, forced: bool) -> None:
    """Where the room of a phase's copies is just what it expects, each fills its own."""
    again = True
    while again:
        again = False
        for e in found.equations:
            left = {m: n for m, n in e.boxes if m not in out.boxes}
            rest = e.bytes - sum(n * out.boxes[m].bytes for m, n in e.boxes if m in out.boxes)
            if not left or any(m not in room for m in left):
                continue
            if sum(n * room[m] for m, n in left.items()) == rest or (len(left) == 1 and rest > 0):
                sure = forced and all(out.boxes[m].forced for m, _ in e.boxes if m in out.boxes)
                sizes = {m: room[m] for m in left} if len(left) > 1 else _single(left, rest)
                if all(_possible(Fraction(s)) for s in sizes.values()):
                    out.boxes |= {m: Solved(s, e.site, sure) for m, s in sizes.items()}
                    again = True


def _doubts(found: BoxFindings, out: Solution, room: Mapping[int, int]) -> list[Doubt]:
    """Phases of open boxes that would fill their places with other bytes than are expected."""
    sizes = {**room, **{m: box.bytes for m, box in out.boxes.items()}}
    doubts = []
    for e in found.equations:
        maps = tuple(m for m, _ in e.boxes)
        if all(m in out.boxes for m in maps) or not all(sizes.get(m, MOST) < MOST for m in maps):
            continue
        most = sum(n * sizes[m] for m, n in e.boxes)
        doubts += [Doubt(e.site, e.bytes, most, maps)] if most != e.bytes else []
    return doubts


def _single(left: Mapping[int, int], rest: int) -> dict[int, int]:
    ((m, n),) = left.items()
    return {m: rest // n if rest % n == 0 else 0}


def _neighbours(found: BoxFindings, variables: Iterable[int]) -> dict[int, int]:
    """The room up to anything that is known to lie in shared memory, at the same time or not."""
    known = {lo for places in found.places.values() for _, lo in places}
    known |= {lo for _, lo in found.others} | {lo for _, _, lo in found.sources} | set(variables)
    room = dict(found.room)
    for m, places in found.places.items():
        for _, lo in places:
            after = min((x for x in known if x > lo), default=lo + MOST)
            room[m] = min(room.get(m, MOST), after - lo)
    return room


def _stores(found: BoxFindings, out: Solution) -> None:
    """A store that nothing else tells of takes at most what threads have written, or a load brought, at its
    source, and stops where another store begins."""
    starts = {(cta, lo) for _, cta, lo in found.sources}
    loaded = dict(found.others)
    loaded |= {p: out.boxes[m].bytes for m, places in found.places.items() if m in out.boxes for p in places}
    most: dict[int, int] = {}
    for (m, cta, lo), written in found.sources.items():
        extent = max(written, loaded.get((cta, lo), 0))
        after = min((x for c, x in starts if c == cta and x > lo), default=lo + MOST)
        most[m] = max(most.get(m, 0), min(extent, after - lo) // UNIT * UNIT)
    for m, size in most.items():
        if m not in out.boxes and size > 0:
            out.boxes[m] = Solved(size, found.sites[m], forced=False, most=True)
