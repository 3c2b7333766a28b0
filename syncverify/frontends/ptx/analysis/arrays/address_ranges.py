"""Bytes that an address of shared memory may reach, where data makes it and the kernel bounds the data.

Of shared memory of a cluster the bytes are those of some CTA: ``mapa`` keeps them.

An interval of a value follows from masks, narrow loads, shifts, remainders, minima, and arithmetic on these
(``interval_rules.py``), and from the comparisons behind which an access stands (``branch_bounds.py``).
Nothing is known of a value that may leave its 32 bits on the way, or that a loop makes of itself. An
example: of ``and r, x, 31; shl r, r, 2; mov b, bins; add r, r, b`` the interval is that of 32 words from
``bins`` on, whatever ``x`` is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from syncverify.frontends.ptx.analysis.registers.branch_bounds import (
    NOTHING,
    Bounds,
    BranchBounds,
    Side,
    bounded,
)
from syncverify.frontends.ptx.analysis.registers.induction import Induction
from syncverify.frontends.ptx.analysis.registers.interval_rules import (
    WORD,
    Interval,
    Known,
    one,
    result,
    union,
)
from syncverify.frontends.ptx.analysis.registers.remainders import remainder_by
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import from_outside
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Reg, Special, Sym
from syncverify.frontends.ptx.syntax.operands import sources
from syncverify.frontends.ptx.syntax.types import kind, width

#: The place of a shared variable, among versions.
_PLACE = -1
_WARP = 32
#: Of data with a sign, so few bits are an index by themselves.
_FEW_BITS = 12


@dataclass(frozen=True, slots=True)
class Reached:
    """The ``places`` that an address may be, as far as the kernel bounds them. ``based``: it is made of the
    place of a shared variable, among other things. ``apart``: by how many bytes the places of lanes of one
    access differ at least; 0: not known. ``ranks``: of the CTA, by each ``mapa`` on the way. ``one_sided``:
    the places are not known, though the kernel bounds what makes them from one side."""

    places: Known
    based: bool
    apart: int = 0
    ranks: tuple[Known, ...] = ()
    one_sided: bool = False


#: What brings a value of some lane.
_EXCHANGES = frozenset({"shfl", "redux"})

#: Of an access of which nothing is known.
ANYWHERE = Reached(None, based=True)

#: Places for warps on an SM, of which ``%warpid`` is one.
_WARP_PLACES = 64
#: The lanes on one side of the own one.
_LANEMASKS = {
    "%lanemask_lt": Interval(0, WORD // 2 - 1),
    "%lanemask_le": Interval(1, WORD - 1),
    "%lanemask_gt": Interval(0, WORD - 2),
    "%lanemask_ge": Interval(WORD // 2, WORD - 1),
    "%lanemask_eq": Interval(1, WORD // 2),
}


def warp_of(warp: int, block: Sequence[int]) -> range:
    """The threads of a warp of a block."""
    wide, high, deep = block
    return range(_WARP * warp, min(_WARP * (warp + 1), wide * high * deep))


class AddressRanges:
    """Intervals of a function's registers in threads of a block. ``shared``: the places of its
    variables. ``block``: its shape. ``threads``: those of which intervals are asked, if not
    of all."""

    def __init__(
        self, flow: Flow, shared: Mapping[str, int], block: Sequence[int], threads: range | None = None
    ) -> None:
        self.flow, self.shared, self.block = flow, shared, block
        wide, high, deep = block
        threads = range(wide * high * deep) if threads is None else threads
        #: the threads that these exchange values with
        self.others = self
        places = [(t % wide, t // wide % high, t // (wide * high)) for t in threads]
        self.specials = {
            f"%tid.{axis}": Interval(min(at), max(at))
            for axis, at in zip("xyz", zip(*places, strict=True), strict=True)
        }
        lanes = [t % _WARP for t in threads] if len(threads) < _WARP else [0, _WARP - 1]
        self.specials["%laneid"] = Interval(min(lanes), max(lanes))
        self.specials |= {f"%ntid.{axis}": one(n) for axis, n in zip("xyz", block, strict=True)}
        self.specials |= {**_LANEMASKS, "%warpid": Interval(0, _WARP_PLACES - 1)}
        self._versions: dict[tuple[int, Bounds], Known] = {}
        self._busy: set[tuple[int, Bounds]] = set()
        self.branches = BranchBounds(flow, self._of)
        self.induction = Induction(flow, self.branches, self._version)

    def of_thread(self, t: int) -> AddressRanges:
        """The same of one thread among these."""
        found = AddressRanges(self.flow, self.shared, self.block, range(t, t + 1))
        found.others = self
        return found

    def reached(self, k: int) -> Reached:
        """Where an access to shared memory may begin."""
        place = next((x for x in self.flow.body[k].operands if isinstance(x, Mem)), None)
        if place is None:
            return ANYWHERE
        based, ranks = self._holds_place(place.base, k), self._ranks(place.base, k)
        return Reached(self.places(k, place), based, ranks=ranks)

    def places(self, k: int, place: Mem) -> Known:
        """Where an access begins that instruction ``k`` makes."""
        base = self._of(place.base, k, self.branches.at(k))
        return None if base is None else base.plus(one(place.offset))

    def excluded(self, k: int) -> bool:
        """Whether what is known of the threads keeps them from an instruction."""
        return any(self.branches.truth(p, at) is not holds for p, at, holds in self.branches.decisions(k)
                   if self.branches.truth(p, at) is not None)  # fmt: skip

    def one_sided(self, k: int, *, parameters: bool = True) -> bool:
        """Whether the kernel bounds signed data of which an address is made from below or above alone, or
        counts down below 0: the places are not known, then, though the kernel bounds what makes them.
        ``parameters``: whether these are data, too."""
        place = next((x for x in self.flow.body[k].operands if isinstance(x, Mem)), None)
        if place is None or not isinstance(place.base, Reg):
            return False
        versions, sides = self.flow.versions, set[Side]()
        bounds, made = self.branches.at(k), self._makers(versions.read(place.base.name, k))
        for v in made:
            moved = self.induction.interval(v, bounds) if versions.writer[v] < 0 else None
            if moved is not None and moved.low < 0:
                return True
        for v in self._data(made, parameters=parameters):
            at = versions.writer[v]
            i = self.flow.body[at] if at >= 0 else None
            if self._version(v) is None:
                sides |= {b.side if b.signed else Side.BOTH for b in bounds if b.version == v}
            if i is not None and self._version(v) is None and self._small_with_sign(i, at):
                sides.add(Side.ABOVE)
            if i is not None and i.op in ("min", "max") and None in (self._of(y, at) for y in i.operands[1:]):
                signed = kind(i.mods[-1]) == "s"
                sides.add(Side.BOTH if not signed else Side.ABOVE if i.op == "min" else Side.BELOW)
        return len(sides) == 1 and Side.BOTH not in sides

    def _data(self, made: Mapping[int, tuple[list[int], bool]], *, parameters: bool) -> set[int]:
        """The versions, of some and what they are made of, that are made of what was loaded."""
        writers = {v: self.flow.versions.writer[v] for v in made}
        found = {v for v, k in writers.items() if k >= 0 and _loads(self.flow.body[k], parameters=parameters)}
        grown = bool(found)
        while grown:
            more = {v for v, (of, _) in made.items() if v not in found and not found.isdisjoint(of)}
            found |= more
            grown = bool(more)
        return found

    def _small_with_sign(self, i: Instr, k: int) -> bool:
        """Whether an instruction brings a few bits of data with a sign: they may be less than 0."""
        types = [m for m in i.mods if kind(m) == "s" and m[1:].isdigit()]
        if i.op in ("ld", "ldu", "cvt"):
            return any(width(m) < 32 for m in types)
        if not types or i.op not in ("shr", "bfe"):
            return False
        n = self._of(i.operands[-1], k)
        left = None if n is None or n.low != n.high else n.low if i.op == "bfe" else width(types[-1]) - n.low
        return left is not None and 1 < left <= _FEW_BITS

    def version(self, v: int) -> Known:
        """What a version of a register may be, wherever it is read."""
        return self._version(v)

    def operand(self, x: Operand, k: int, bounds: Bounds = NOTHING) -> Known:
        """What an operand may be where an instruction reads it; ``bounds``: what is known of others."""
        return self._of(x, k, bounds)

    def _ranks(self, x: Operand, k: int) -> tuple[Known, ...]:
        """The ranks that the ``mapa`` of an address may name."""
        if not isinstance(x, Reg):
            return ()
        made = self._makers(self.flow.versions.read(x.name, k))
        at = sorted({w for v in made if (w := self.flow.versions.writer[v]) >= 0})
        maps = [j for j in at if self.flow.body[j].op == "mapa"]
        return tuple(self._of(self.flow.body[j].operands[2], j) for j in maps)

    def _holds_place(self, x: Operand, k: int) -> bool:
        """Whether a value is made of a variable's place on each path (the greatest solution)."""
        if isinstance(x, Sym):
            return x.name in self.shared
        if not isinstance(x, Reg):
            return False
        first = self.flow.versions.read(x.name, k)
        made = self._makers(first)
        holds = dict.fromkeys(made, True)
        changed = True
        while changed:
            before = dict(holds)
            for v, (of, each) in made.items():
                holds[v] = (all if each else any)(holds.get(m, m == _PLACE) for m in of)
            changed = holds != before
        return holds[first]

    def _makers(self, first: int) -> dict[int, tuple[list[int], bool]]:
        """By version what it is made of, ``_PLACE`` for a variable's place; and whether it is one of them."""
        versions, found, work = self.flow.versions, {}, [first]
        while work:
            v = work.pop()
            if v in found:
                continue
            k = versions.writer[v]
            if k < 0:
                merged = [m for _, m in versions.merged(v)]
                found[v] = merged, bool(merged)  # what nobody wrote is no place
            elif self.flow.body[k].op == "ld":  # what was kept in local memory may be such a place
                outside = {"global", "shared", "shared::cta", "shared::cluster"} & set(self.flow.body[k].mods)
                found[v] = [] if outside else [_PLACE], False
            elif from_outside(self.flow.body[k]):
                found[v] = [], False
            else:
                i = self.flow.body[k]
                named = any(isinstance(y, Sym) and y.name in self.shared for y in i.operands[1:])
                found[v] = [_PLACE] if named else [versions.read(name, k) for name in sources(i)], False
            work += [m for m in found[v][0] if m != _PLACE]
        return found

    def _of(self, x: Operand, k: int, bounds: Bounds = NOTHING) -> Known:
        match x:
            case Imm(value):
                return one(value)
            case Sym(name, offset) if name in self.shared:
                return one(self.shared[name] + offset)
            case Special(name):
                return self.specials.get(name)
            case Reg(name):
                return self._version(self.flow.versions.read(name, k), bounds)
        return None

    def _version(self, v: int, bounds: Bounds = NOTHING) -> Known:
        key = v, bounds
        if key not in self._versions and key not in self._busy:
            self._busy.add(key)
            found = bounded(self._made(v, bounds), v, bounds)
            self._busy.discard(key)
            inside = found is not None and 0 <= found.low and found.high < WORD
            self._versions[key] = found if inside else None
        return self._versions.get(key)  # of what makes itself, nothing is known

    def _made(self, v: int, bounds: Bounds) -> Known:
        """What the writer of a version makes. A merge may hold what was made before the last comparison."""
        versions = self.flow.versions
        k = versions.writer[v]
        if k < 0:
            return None if versions.is_unset(v) else self._merged(v, bounds)
        i = self.flow.body[k]
        found = self._result(i, k, bounds) if i.operands[:1] == (Reg(versions.name[v]),) else None
        if i.guard is not None:
            found = union([found, self._version(versions.read(versions.name[v], k), bounds)])
        return found

    def _merged(self, v: int, bounds: Bounds) -> Known:
        found = self.induction.interval(v, bounds)
        if found is None:
            return union([self._version(x) for _, x in self.flow.versions.merged(v)])
        # what was made of it meanwhile took it for unknown
        self._versions = {key: x for key, x in self._versions.items() if x is not None}
        return found

    def _result(self, i: Instr, k: int, bounds: Bounds) -> Known:
        type_ = i.mods[-1] if i.mods else ""
        if i.op in ("ld", "ldu"):
            narrow = kind(type_) in "ub" and width(type_) < 32
            return Interval(0, (1 << width(type_)) - 1) if narrow else None
        if i.op == "selp":
            p = i.operands[3]
            sides = (self.branches.of(p, k, holds=True), self.branches.of(p, k, holds=False))
            return result(i, [self._of(x, k, b) for x, b in zip(i.operands[1:3], sides, strict=True)])
        if i.op in _EXCHANGES:
            return self._of_others(i, k)
        if (rest := remainder_by(self.flow, i, k)) is not None:
            return Interval(0, rest.divisor - 1)
        xs = [self._of(x, k, bounds) for x in i.operands[1:]]
        if i.op == "max" and type_ == "s32":
            xs = [self._capped(x, k) if a is None and _positive(b) else a
                  for x, a, b in zip(i.operands[1:], xs, reversed(xs), strict=True)]  # fmt: skip
        return result(i, xs)

    def _of_others(self, i: Instr, k: int) -> Known:
        """What some lane of a warp of the threads brings to an exchange that keeps it."""
        if i.op == "redux" and not {"min", "max"} & {*i.mods}:
            return None
        found = self.others.operand(i.operands[1], k)
        signed = kind(i.mods[-1]) == "s"
        return None if found is None or (signed and found.high >= WORD // 2) else found

    def _capped(self, x: Operand, k: int) -> Known:
        """What is greater than 0 of the lesser of two signed numbers: the rest is less than what it meets."""
        at = self.flow.versions.writer[self.flow.versions.read(x.name, k)] if isinstance(x, Reg) else -1
        i = self.flow.body[at] if at >= 0 else None
        if i is None or i.guard is not None or i.op != "min" or i.mods != ("s32",):
            return None
        sides = [self._of(y, at) for y in i.operands[1:]]
        ends = [f.high for f in sides if _positive(f) and f.high < WORD // 2]
        return Interval(0, min(ends)) if ends else None


def _loads(i: Instr, *, parameters: bool) -> bool:
    """Whether an instruction brings data; ``parameters``: of these, too."""
    return from_outside(i) and (parameters or "param" not in i.mods)


def _positive(x: Known) -> TypeGuard[Interval]:
    return x is not None and x.low >= 0


__all__ = ["ANYWHERE", "AddressRanges", "Interval", "Reached", "warp_of"]
