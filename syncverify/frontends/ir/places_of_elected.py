"""Whether an elected lane may be the only one of its warp at a place that it accesses itself.

Its own accesses are ordered: a race with the lane at that place shows only if another lane is elected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace

from syncverify.ir import nodes as n
from syncverify.ir.evaluate import bodies, closure, fold, mentions
from syncverify.ir.expr import LANE_BUILTINS, Expr, Int, names
from syncverify.ir.launch_grid import Grid

#: What the lanes of a warp do together: no place is one lane's.
_TOGETHER = (n.LdMatrix, n.StMatrix, n.Wgmma)


@dataclass(frozen=True, slots=True)
class _Access:
    """A part of an array or tensor that a statement accesses, and by which warps."""

    memory: str
    place: n.Region | n.GlobalRegion | None  # None: what the box of a tensor map covers
    writes: bool
    warps: frozenset[int]

    def conflicts(self, other: _Access) -> bool:
        """Whether accesses by lanes of one warp may race."""
        both = self.memory == other.memory and (self.writes or other.writes)
        return both and not self.warps.isdisjoint(other.warps)


@dataclass(frozen=True, slots=True)
class Places:
    """Those of a kernel's statements. ``varying``: names whose values differ from lane to lane; ``known``:
    those that have a value at launch, or that the thread alone decides."""

    kernel: n.Kernel
    grid: Grid
    varying: frozenset[str]
    known: Mapping[str, Expr]

    def meet_alone(self, inside: Collection[int]) -> bool:
        """Whether some statement of elected lanes, ``inside`` by identity, and one of all lanes may access
        memory such that in a warp exactly one lane meets the first."""
        every = [(s, a) for s, warps in self._with_warps() for a in self._accesses(s, warps)]
        elected = {a for s, a in every if id(s) in inside}
        lanes = {a for s, a in every if id(s) not in inside and not isinstance(s, _TOGETHER)}
        return any(a.conflicts(b) and self._alone(a, b) for b in lanes if self._varies(b) for a in elected)

    def _with_warps(self) -> Iterator[tuple[n.Stmt, frozenset[int]]]:
        """Statements that are no others' body, with the warps that may execute them."""
        work: list[tuple[Iterable[n.Stmt], frozenset[int]]] = [
            (self.kernel.body, frozenset(range(self.grid.warps)))
        ]
        while work:
            body, warps = work.pop()
            for s in body:
                here = warps & self._of_role(s) if isinstance(s, n.Role) else warps
                yield s, here
                work += [(inner, here) for inner in bodies(s)]

    def _of_role(self, role: n.Role) -> frozenset[int]:
        lo, hi = fold(role.lo, self.known), fold(role.hi, self.known)
        every = frozenset(range(self.grid.warps))
        if not (isinstance(lo, Int) and isinstance(hi, Int)):
            return every
        size = {"threads": 1, "warps": 32, "warpgroups": 128}[role.unit]
        return every & frozenset(range(lo.value * size // 32, -(-hi.value * size // 32)))

    def _accesses(self, s: n.Stmt, warps: frozenset[int]) -> Iterator[_Access]:
        maps = {m.name: m.tensor for m in self.kernel.maps}
        overlaps = any(x.offset is not None for x in self.kernel.shared)
        for f in fields(s):
            writes = f.name not in ("src", "source")
            match getattr(s, f.name):
                case n.Region(buffer=buffer) as region:
                    yield _Access("" if overlaps else buffer, region, writes, warps)
                case n.GlobalRegion(tensor=tensor) as region:
                    yield _Access(tensor, region, writes, warps)
                case str(name) if f.name == "map" and name in maps:
                    yield _Access(maps[name], None, isinstance(s, n.TmaStore), warps)

    def _varies(self, a: _Access) -> bool:
        """Whether lanes access memory at places of their own."""
        return a.place is not None and any(mentions(e, self.varying) for e in _expressions(a.place))

    def _alone(self, elected: _Access, lanes: _Access) -> bool:
        """Whether of a warp's lanes exactly one may be where the elected one is."""
        whole, part = elected.place, lanes.place
        if not isinstance(whole, n.Region) or not isinstance(part, n.Region) or whole.buffer != part.buffer:
            return True
        depth = len(whole.index)
        leading = [*part.index[:depth], *([] if part.rank is None else [part.rank])]
        if any(mentions(e, self.varying) for e in leading) or len(part.index) < depth:
            return True
        if whole.start is None and whole.count is None:
            return False  # all lanes are there, or none
        numbers = self._numbers(replace(whole, index=())), self._numbers(replace(part, index=()))
        if len(part.index) != depth or None in numbers:
            return True
        (at, size), own = numbers[0][0][0], numbers[1]  # type: ignore[index]
        return any(sum(x < at + size and at < x + many for x, many in warp) == 1 for warp in own)  # type: ignore[union-attr]

    def _numbers(self, region: n.Region) -> list[list[tuple[int, int]]] | None:
        """Where each lane of each warp begins, and how many elements it accesses, as numbers."""
        if region.start is None or region.count is None or region.rows is not None:
            return None
        start, count = (fold(e, self.known) for e in (region.start, region.count))
        order = sorted({*LANE_BUILTINS, "warp", "wg"})
        if not names(start) | names(count) <= {*order}:
            return None
        slots = {name: i for i, name in enumerate(order)}
        read = closure(start, slots), closure(count, slots)
        try:
            return [[(read[0](x), read[1](x)) for x in self._lanes(w, order)] for w in range(self.grid.warps)]
        except ArithmeticError:
            return None

    def _lanes(self, warp: int, order: list[str]) -> Iterator[list[int]]:
        """What each lane of a warp finds in its builtins."""
        lanes = tuple(range(self.grid.warp_mask(warp).bit_length()))
        found = self.grid.builtins(0, 0, warp, lanes)
        for lane in lanes:
            yield [found[name][lane if len(found[name]) > 1 else 0] for name in order]


def _expressions(place: n.Region | n.GlobalRegion) -> Iterator[Expr]:
    for f in fields(place):
        value = getattr(place, f.name)
        yield from value if isinstance(value, tuple) else [value] if isinstance(value, Expr) else ()


__all__ = ["Places"]
