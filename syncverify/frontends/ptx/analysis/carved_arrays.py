"""Arrays that a kernel carves out of one dynamic shared memory, as variables of their own.

Example: of ``float* row = smem; float* sums = smem + n;`` the text has one variable, ``smem``. An access
``sums[i]`` has the address ``smem + 4*n + 4*i``. What the whole launch shares says where an array begins,
here ``4*n``; the number and what threads have of their own say where in the array. A sum that goes down from
such a place, as ``4*n - 4 - 4*i`` of ``row[n - 1 - i]`` does, lies in the array before it.

The function that ``apart`` makes holds a variable for each array, and the same accesses in it. That each
stays inside its array is an assumption: ``within`` gives the arrays at numbers, where it is seen.

Nothing is carved where an address is anything but such a sum, where it may lie in either of two arrays, where
sizes are hidden in what threads have of their own, or where the code compares addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from syncverify.frontends.ptx.analysis.carved_sums import (
    Atom,
    Extent,
    Held,
    Made,
    Parameter,
    Place,
    Sum,
    Sums,
    number_of,
)
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.expand import expanded
from syncverify.frontends.ptx.isa.targets import shared_bytes
from syncverify.frontends.ptx.syntax.nodes import (
    Function,
    Imm,
    Instr,
    Mem,
    Module,
    Operand,
    Reg,
    Special,
    Sym,
    Variable,
)
from syncverify.frontends.ptx.syntax.operands import registers, results

_ACCESSES = frozenset({"ld", "st", "atom", "red"})
#: Bytes that alignment may take between variables.
_SLACK = 1024
_FIRST = Sum()
#: Bytes of the last array where nobody gave those of all.
MOST = 1 << 20


class _UnfitError(Exception):
    """The code does more with addresses than add to them."""


@dataclass(frozen=True, slots=True)
class _Array:
    """Where an address lies: from ``sizes`` on, or in the array before that."""

    sizes: Sum
    before: bool = False


@dataclass(frozen=True, slots=True)
class CarvedArrays:
    """The arrays in the dynamic shared memory ``variable``: where each begins, the first at its place."""

    function: Function
    variable: Variable
    begins: tuple[Sum, ...]
    by: Mapping[int, Sum]  # the array that an instruction makes an address in, by its number
    flow: Flow
    sums: Sums

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each array."""
        return tuple(self.variable.name + ("".join(map(_text, b.parts)) or "+0") for b in self.begins)

    def apart(self, module: Module) -> Function:
        """The function with variables for the arrays, each as large as all can be."""
        room = (self._room(module) // len(self.begins)) // _SLACK * _SLACK
        return self._with([room] * len(self.begins), _SLACK)

    def within(
        self, module: Module, dynamic: int | None, of: Callable[[Parameter | Extent], int]
    ) -> Function | None:
        """The function with variables for the arrays where these lie at numbers; None where one is empty."""
        begins = [number_of(b, of) for b in self.begins]
        room = MOST if dynamic is None else dynamic
        order = sorted(range(len(begins)), key=begins.__getitem__)
        ends = [*(begins[n] for n in order[1:]), room]
        sizes = {n: end - begins[n] for n, end in zip(order, ends, strict=True)}
        if begins[order[0]] or min(sizes.values()) <= 0:
            return None
        return self._with([sizes[n] for n in range(len(begins))], 1, order)

    def fits(self, module: Module, of: Callable[[Parameter | Extent], int]) -> bool:
        """Whether all arrays begin in the first half of the memory that is left."""
        return max(number_of(b, of) for b in self.begins) <= self._room(module) // 2

    def _room(self, module: Module) -> int:
        """The bytes that other shared variables leave."""
        taken = {v.name: v for v in (*self.function.variables, *module.variables) if v.space == "shared"}
        return shared_bytes(module.target) - sum(v.size + v.align for v in taken.values()) - _SLACK

    def _with(self, sizes: Sequence[int], align: int, order: Sequence[int] | None = None) -> Function:
        first = max(16, self.variable.align, align)
        made = [
            Variable(name, "shared", self.variable.type, size, first if n == 0 else align)
            for n, (name, size) in enumerate(zip(self.names, sizes, strict=True))
        ]
        others = [v for v in self.function.variables if v.name != self.variable.name]
        chosen = [made[n] for n in order or range(len(made))]
        types: dict[str, str] = {}
        by = {k: list(self._replaced(k, types)) for k in range(len(self.function.body)) if self._changes(k)}
        return replace(expanded(self.function, by, types), variables=(*chosen, *others))

    def _changes(self, k: int) -> bool:
        return k in self.by or any(self._named(x) for x in self.function.body[k].operands)

    def _named(self, x: Operand) -> bool:
        return (x.base if isinstance(x, Mem) else x).__class__ is Sym and self._symbol(
            x
        ) == self.variable.name

    def _symbol(self, x: Operand) -> str:
        base = x.base if isinstance(x, Mem) else x
        return base.name if isinstance(base, Sym) else ""

    def _replaced(self, k: int, types: dict[str, str]) -> Iterator[Instr]:
        """The instruction with an address in its own array."""
        i, begins = self.function.body[k], self.by.get(k, _FIRST)
        if begins == _FIRST:
            yield replace(i, operands=tuple(map(self._first, i.operands)))
            return
        name = self.flow.versions.name[self.flow.versions.written(results(i)[0], k)]
        whole = self.sums.version(self.flow.versions.written(name, k)) + begins.times(-1)
        array = self.names[self.begins.index(begins)]
        held = Reg(f"%@carved{k}")
        part = Reg(f"%@carved{k}.part")
        types |= {held.name: "b32", part.name: "b32"}

        def plain(op: str, *operands: Operand, mods: tuple[str, ...] = ("u32",)) -> Instr:
            return replace(i, op=op, mods=mods, operands=operands)

        yield plain("mov", held, Sym(array, whole.number))
        for atom, n in whole.parts:
            if isinstance(atom, Place):
                continue
            op, operand, mods = self._read(atom)
            yield plain(op, part, operand, mods=mods)
            yield plain("mul", part, part, Imm(n), mods=("lo", "u32"))
            yield plain("add", held, held, part)
        yield plain("mov", Reg(name), held)

    def _read(self, atom: Atom) -> tuple[str, Operand, tuple[str, ...]]:
        """What reads an atom at the place of an address."""
        match atom:
            case Held(version, ""):
                return "mov", Reg(self.flow.versions.name[version]), ("u32",)
            case Held(_, special):
                return "mov", Special(special), ("u32",)
            case Extent(axis):
                return "mov", Special(f"%ntid.{axis}"), ("u32",)
            case Parameter(name, offset, type_):
                return "ld", Mem(Sym(name), offset), ("param", type_)
        raise ValueError(f"{atom} is made of others")

    def _first(self, x: Operand) -> Operand:
        if not self._named(x):
            return x
        if isinstance(x, Mem) and isinstance(x.base, Sym):
            return replace(x, base=replace(x.base, name=self.names[0]))
        return replace(x, name=self.names[0]) if isinstance(x, Sym) else x


def carved_arrays(module: Module, function: Function) -> CarvedArrays | None:
    """The arrays at places that sizes say; None where there are none, or where the code is not followed."""
    dynamic = [v for v in (*function.variables, *module.variables) if v.space == "shared" and not v.size]
    used = [v for v in dynamic if any(_names(x, v.name) for i in function.body for x in i.operands)]
    if len(used) != 1:
        return None
    try:
        return _Carving(function, used[0]).found()
    except _UnfitError:
        return None


def _names(x: Operand, name: str) -> bool:
    base = x.base if isinstance(x, Mem) else x
    return isinstance(base, Sym) and base.name == name


class _Carving:
    """Looks for the arrays of one variable."""

    def __init__(self, function: Function, variable: Variable) -> None:
        self.function, self.variable, self.flow = function, variable, Flow(function)
        self.sums = Sums(self.flow, frozenset({variable.name}))
        self.addresses = self._addresses()
        self._arrays: dict[int, _Array | None] = {}

    def found(self) -> CarvedArrays | None:
        """The arrays."""
        at = [k for k in self._reached() if self.addresses & set(results(self.function.body[k]))]
        lies = {k: self._array(self._written(k)) for k in at}
        if None in lies.values():
            raise _UnfitError
        begins = {_FIRST, *(a.sizes for a in lies.values() if a is not None and not a.before)}
        if len(begins) < 2:
            return None
        by = {k: _begin(a, begins) for k, a in lies.items() if a is not None}
        for k in by:
            self._fits(k, by[k])
        for k in self._reached():
            self._reads_inside(k)
        order = (_FIRST, *sorted(begins - {_FIRST}, key=repr))
        moved = {k: b for k, b in by.items() if b != _FIRST and self._direct(k)}
        return CarvedArrays(self.function, self.variable, order, moved, self.flow, self.sums)

    def _reached(self) -> Iterator[int]:
        for n in sorted(self.flow.reached):
            yield from range(self.flow.blocks[n].lo, self.flow.blocks[n].hi)

    def _written(self, k: int) -> int:
        names = results(self.function.body[k])
        if len(names) != 1 or self.function.registers.get(names[0]) not in ("b32", "u32", "s32"):
            raise _UnfitError
        return self.flow.versions.written(names[0], k)

    def _addresses(self) -> frozenset[str]:
        """Registers that may hold an address. Raises _UnfitError where one is used for anything else."""
        found: set[str] = set()
        grown = True
        while grown:
            before = len(found)
            for k in self._reached():
                i = self.function.body[k]
                if self._used(i, found):
                    found.update(results(i))
            grown = len(found) > before
        return frozenset(found)

    def _used(self, i: Instr, found: set[str]) -> bool:
        """Whether an instruction makes an address of addresses. An access only follows one."""
        read = i.operands[1:] if results(i) else i.operands
        if i.op in _ACCESSES and not any(isinstance(x, Mem) and x.coords for x in read):
            read = tuple(x for x in read if not isinstance(x, Mem))
        of = any(_names(x, self.variable.name) or not found.isdisjoint(registers(x)) for x in read)
        if of and i.op not in ("mov", "add", "sub", "mad"):
            raise _UnfitError
        return of

    def _array(self, v: int) -> _Array | None:
        """Where the address in a version lies; None while that is looked for."""
        if v not in self._arrays:
            self._arrays[v] = None
            merged = self._merged(v)
            self._arrays[v] = self._common(v, merged) if merged else self._of_sum(self.sums.version(v))
        return self._arrays[v]

    def _merged(self, v: int) -> list[int]:
        """The versions of which this is one."""
        versions = self.flow.versions
        k = versions.writer[v]
        if k < 0:
            return [m for _, m in versions.merged(v) if not versions.is_unset(m)]
        if self.flow.body[k].guard is not None:
            raise _UnfitError
        return []

    def _common(self, v: int, merged: Sequence[int]) -> _Array:
        """Where all of these lie: what is found of one is taken, and held against all."""
        for m in merged:
            found = self._array(m)
            if found is not None:
                break
        else:
            raise _UnfitError
        self._arrays[v] = found
        for m in merged:
            if self._again(m) != found:
                raise _UnfitError
        return found

    def _again(self, v: int) -> _Array | None:
        if self._arrays.get(v) is None:
            self._arrays.pop(v, None)
        return self._array(v)

    def _of_sum(self, x: Sum) -> _Array | None:
        """Where a sum of one place lies."""
        if any(
            not a.special and not self._is_address(a) and self.sums.of_sizes(a.version) for a, _ in x.rest
        ):
            raise _UnfitError
        places = [n for _, n in x.places]
        bases = [(a, n) for a, n in x.rest if self._is_address(a)]
        if len(places) + len(bases) != 1 or (places or [n for _, n in bases]) != [1]:
            raise _UnfitError
        if places:
            return _Array(x.sizes, before=_down(x) and x.sizes != _FIRST)
        if x.sizes != _FIRST:
            raise _UnfitError  # a pointer that goes on by a size
        ((base, _),) = bases
        return self._array(base.version)

    def _is_address(self, a: Atom) -> bool:
        return isinstance(a, Held) and a.version >= 0 and self.flow.versions.name[a.version] in self.addresses

    def _direct(self, k: int) -> bool:
        """Whether an instruction makes its address of the variable's place."""
        return bool(self.sums.version(self._written(k)).places)

    def _fits(self, k: int, begins: Sum) -> None:
        """Raises _UnfitError where an address in a later array cannot be made again at its place."""
        x = self.sums.version(self._written(k))
        if begins == _FIRST or not x.places:
            return
        versions = self.flow.versions
        stale = any(
            not a.special and versions.read(versions.name[a.version], k) != a.version for a, _ in x.rest
        )
        nested = any(isinstance(a, Made) for a, _ in (x + begins.times(-1)).parts)
        if nested or stale:
            raise _UnfitError

    def _reads_inside(self, k: int) -> None:
        """Raises _UnfitError where a constant leads from an address ahead of a later array."""
        place = next((x for x in self.function.body[k].operands if isinstance(x, Mem)), None)
        if place is None or not isinstance(place.base, Reg) or place.base.name not in self.addresses:
            return
        x = self.sums.of(place.base, k)
        if x is None or not x.places or x.sizes == _FIRST or _down(x):
            return
        if x.number + place.offset < 0:
            raise _UnfitError


def _down(x: Sum) -> bool:
    """Whether a sum goes down from what the launch shares of it."""
    return x.number < 0 or any(n < 0 for _, n in x.rest)


def _begin(a: _Array, begins: set[Sum]) -> Sum:
    """Where the array of an address begins."""
    if not a.before:
        return a.sizes
    before = [b for b in begins if b != a.sizes and _at_most(b, a.sizes)]
    last = [b for b in before if all(_at_most(c, b) for c in before)]
    if len(last) != 1:
        raise _UnfitError
    return last[0]


def _at_most(a: Sum, b: Sum) -> bool:
    return all(n >= 0 for _, n in (b + a.times(-1)).parts)


def _text(part: tuple[Atom, int]) -> str:
    atom, n = part
    match atom:
        case Parameter(name, offset, _):
            of = f"{name}[{offset}]" if offset else name
        case Extent(axis):
            of = f"ntid.{axis}"
        case Made(op, _, xs):
            of = f"{op}({', '.join(f'{x.number}' + ''.join(map(_text, x.parts)) for x in xs)})"
        case _:
            of = "?"
    return f"{n:+}*{of}"


__all__ = ["CarvedArrays", "carved_arrays"]
