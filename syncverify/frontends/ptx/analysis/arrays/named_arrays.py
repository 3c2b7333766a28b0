"""The shared variable that an address names: its place taken once, and what is added to that.

Example: of ``mov b, s; shl d, i, 2; add a, b, d`` the address ``[a+4]`` names ``s``, whatever ``i`` is. An
address that is ``s`` on one path and ``t`` on another names neither. Nor does the difference of two places.
A constant that leads past the variable's end by itself makes the address name nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import touches
from syncverify.frontends.ptx.isa.addresses import GENERIC
from syncverify.frontends.ptx.syntax.nodes import Imm, Mem, Operand, Reg, Sym, Vector
from syncverify.frontends.ptx.syntax.operands import sources

#: What hands a place on as it is; its operands that may hold the place.
_KEEPS = {"mov": (1,), "cvt": (1,), "cvta": (1,), "add": (1, 2), "sub": (1,), "mad": (3,), "selp": (1, 2),
          "mapa": (1,)}  # fmt: skip
#: Memory from which no place of a shared variable is taken to come.
_OUTSIDE = frozenset({"param", "const", "global", "shared", "shared::cta", "shared::cluster"})
#: In place of a name: the address may be something else.
_OTHER = ""


class NamedArrays:
    """The shared variables that the addresses of a function name. ``sizes``: their bytes, by name."""

    def __init__(self, flow: Flow, sizes: Mapping[str, int]) -> None:
        self.flow, self.sizes = flow, sizes
        self.held: dict[int, bool] = {}  # by version, whether it may hold a place; where it was asked

    def of(self, k: int, which: int = 0) -> str | None:
        """The variable that an access names; None where there is none, or which one is open. ``which``: of
        the addresses of an instruction, in the order of the text."""
        place, name = self._place(k, which), self.only(k, which)
        if place is None or name is None:
            return None
        more = self._constant(place.base, k)
        inside = more is None or abs(more + place.offset) < self.sizes[name]
        return name if inside else None

    def only(self, k: int, which: int = 0) -> str | None:
        """The same, also where a constant leads past the variable's end."""
        place = self._place(k, which)
        names = set() if place is None else self._names(place.base, k)
        return None if len(names) != 1 or _OTHER in names else names.pop()

    def left_open(self, k: int) -> frozenset[str]:
        """The variables of which some address of an instruction may be a place, where it is open in which one
        it is: there is a choice, or it may be in shared memory, and the text does not say where."""
        found = set[str]()
        for t in touches(self.flow.body[k]):
            names = self._names(t.at.base, k)
            if _OTHER in names and t.use and _may_be_shared(t.space):
                return frozenset(self.sizes)
            found |= names - {_OTHER} if len(names - {_OTHER}) > 1 else set()
        return frozenset(found)

    def several(self, k: int) -> frozenset[str]:
        """The variables one of which an access is in, if there is a choice among them alone."""
        place = self._place(k, 0)
        names = set() if place is None else self._names(place.base, k)
        return frozenset() if len(names) < 2 or _OTHER in names else frozenset(names)

    def whose(self, x: Operand, k: int) -> frozenset[str]:
        """The variables in one of which a value is a place; none where it may be something else."""
        names = self._names(x, k)
        return frozenset() if _OTHER in names else frozenset(names)

    def behind(self, x: Operand, k: int) -> str | None:
        """The one variable whose place goes into a value before an instruction, whatever is computed of it.

        A matrix descriptor is made so. None where there is none, or several, or where memory may hold one.
        """
        names, work, seen = set[str](), [(x, k)], set[int]()
        while work:
            x, k = work.pop()
            if isinstance(x, Sym):
                names.add(x.name if x.name in self.sizes else _OTHER)
            if not isinstance(x, Reg) or (v := self.flow.versions.read(x.name, k)) in seen:
                continue
            seen.add(v)
            made = self._made_of(v, seen)
            if made is None:
                return None
            work += made
        return None if len(names) != 1 or _OTHER in names else names.pop()

    def _made_of(self, v: int, seen: set[int]) -> list[tuple[Operand, int]] | None:
        """The operands that a version is computed of; None where it may come out of memory."""
        found: list[tuple[Operand, int]] = []
        work = [v]
        while work:
            v = work.pop()
            before = [m for m in self._before(v) if m not in seen]
            seen.update(before)
            work += before
            at = self.flow.versions.writer[v]
            if at >= 0:
                i = self.flow.body[at]
                if i.op in ("ld", "ldu", "atom") and _OUTSIDE.isdisjoint(i.mods):
                    return None
                if i.op not in ("ld", "ldu", "atom"):
                    parts = (y for op in i.operands[1:] for y in _parts(op))
                    found += [(y, at) for y in parts if not self._is_predicate(y)]
        return found

    def _is_predicate(self, x: Operand) -> bool:
        return isinstance(x, Reg) and self.flow.function.registers.get(x.name) == "pred"

    def _place(self, k: int, which: int) -> Mem | None:
        """One of the places where an instruction accesses memory."""
        places = [x for x in self.flow.body[k].operands if isinstance(x, Mem)]
        return places[which] if which < len(places) else None

    def _names(self, x: Operand, k: int) -> set[str]:
        """The variables that a value may be a place in."""
        names, seen, work = set[str](), set[int](), [(x, k)]
        while work:
            x, k = work.pop()
            versions = [self.flow.versions.read(x.name, k)] if isinstance(x, Reg) else []
            if not versions:
                names.add(x.name if isinstance(x, Sym) and x.name in self.sizes else _OTHER)
            while versions:
                v = versions.pop()
                if v in seen:
                    continue
                seen.add(v)
                before, at = self._before(v), self.flow.versions.writer[v]
                versions += before
                if at >= 0:
                    work += [(y, at) for y in self._handed_on(v, at)]
                elif not before:
                    names.add(_OTHER)
        return names

    def _before(self, v: int) -> list[int]:
        """The versions of which one is this one, or stays if the writer's guard does not hold."""
        versions = self.flow.versions
        k = versions.writer[v]
        if k < 0:
            return [] if versions.is_unset(v) else [m for _, m in versions.merged(v)]
        return [] if self.flow.body[k].guard is None else [versions.read(versions.name[v], k)]

    def _handed_on(self, v: int, k: int) -> tuple[Operand, ...]:
        """The operands whose place the instruction hands on; 0 where it may make another value."""
        i, other = self.flow.body[k], (Imm(0),)
        if i.op not in _KEEPS or i.operands[:1] != (Reg(self.flow.versions.name[v]),):
            return other
        chosen = tuple(i.operands[n] for n in _KEEPS[i.op])
        if i.op in ("mov", "cvt", "cvta", "selp"):
            return chosen
        placed = tuple(x for x in i.operands[1:] if self.holds(x, k))
        return placed if len(placed) == 1 and placed[0] in chosen else other

    def holds(self, x: Operand, k: int) -> bool:
        """Whether a value may be computed of the place of a shared variable."""
        if isinstance(x, Sym):
            return x.name in self.sizes
        if not isinstance(x, Reg):
            return False
        v = self.flow.versions.read(x.name, k)
        if v not in self.held:
            seen = set[int]()
            self.held[v] = self._made_of_place(v, seen)
            if not self.held[v]:
                self.held.update(dict.fromkeys(seen, False))
        return self.held[v]

    def _made_of_place(self, v: int, seen: set[int]) -> bool:
        """Whether a version is made of one that may be a place; ``seen``: those that it is made of."""
        versions, work = self.flow.versions, [v]
        while work:
            v = work.pop()
            if v in seen or self.held.get(v) is False:
                continue
            if self.held.get(v):
                return True
            seen.add(v)
            work += self._before(v)
            at = versions.writer[v]
            i = self.flow.body[at] if at >= 0 else None
            if i is None:
                continue
            if i.op not in ("ld", "ldu", "atom"):  # what these bring is not made of their address
                work += [versions.read(name, at) for name in sources(i)]
            elif _OUTSIDE.isdisjoint(i.mods):
                return True  # what was kept in local memory may be such a place
            if any(isinstance(y, Sym) and y.name in self.sizes for y in i.operands[1:]):
                return True
        return False

    def _constant(self, x: Operand, k: int) -> int | None:
        """The bytes that constants add to a variable's place; None where paths meet."""
        more = 0
        while isinstance(x, Reg):
            v = self.flow.versions.read(x.name, k)
            k = self.flow.versions.writer[v]
            if self._before(v) or k < 0 or self.flow.body[k].op == "selp":
                return None
            i = self.flow.body[k]
            added = sum(y.value for y in i.operands[1:] if isinstance(y, Imm))
            more += {"add": added, "sub": -added}.get(i.op, 0)
            x = self._handed_on(v, k)[0]
        return more + x.offset if isinstance(x, Sym) else None


def _may_be_shared(space: str) -> bool:
    return space == GENERIC or space.partition("::")[0] == "shared"


def _parts(x: Operand) -> tuple[Operand, ...]:
    return x.items if isinstance(x, Vector) else (x,)


__all__ = ["NamedArrays"]
