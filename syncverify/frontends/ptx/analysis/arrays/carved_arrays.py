"""Arrays that a kernel carves out of one dynamic shared memory, as variables of their own.

Example: of ``float* row = smem; float* sums = smem + n;`` the text has one variable, ``smem``. An access
``sums[i]`` has the address ``smem + 4*n + 4*i``. What the whole launch shares says where an array begins,
here ``4*n``; the number and what threads have of their own say where in the array. A sum that goes down from
such a place, as ``4*n - 4 - 4*i`` of ``row[n - 1 - i]`` does, lies in the array before it.

The function that ``apart`` makes holds a variable for each array, and the same accesses in it. That each
stays inside its array is an assumption: ``within`` gives the arrays at numbers, where it is seen.

A constant may belong to the place: of ``float* sums = smem + n + 2`` the first word lies 8 bytes behind that
of ``4*n``, and what is nearer belongs to ``row``. Several readings are given in that case.

A loop may have one pointer for two arrays, or count a number up that begins at a size. What such a register
holds less the variable's place and sizes is kept in a register of its own, which addresses are made of. So
is what a register held before it was written again, as unrolled loops do.

Nothing is carved where an address is anything but such a sum, where it may lie in either of two arrays, where
sizes are hidden in what threads have of their own in another way, or where the code compares addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from syncverify.frontends.ptx.analysis.arrays.carved_sums import (
    Atom,
    Extent,
    Held,
    Made,
    Parameter,
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
from syncverify.frontends.ptx.syntax.operands import registers, results, sources

_ACCESSES = frozenset({"ld", "st", "atom", "red"})
#: Bytes that alignment may take between variables.
_SLACK = 1024
_FIRST = Sum()
#: Readings of constants in places.
MOST_READINGS = 3
#: Paths on which the sums of addresses are followed back.
MOST_PATHS = 20_000
#: Bytes of the last array where nobody gave those of all.
MOST = 1 << 20


class _UnfitError(Exception):
    """The code does more with addresses than add to them."""


@dataclass(frozen=True, slots=True)
class _Array:
    """Where an address lies: from ``begin`` on, or in the array before that."""

    begin: Sum
    before: bool = False


@dataclass(frozen=True, slots=True)
class PlacedAddress:
    """An address in the array from ``begin`` on, and what it is more than that."""

    begin: Sum
    more: Sum


@dataclass(frozen=True, slots=True)
class CarvedArrays:
    """The arrays in the dynamic shared memory ``variable``: where each begins, the first at its place."""

    function: Function
    variable: Variable
    begins: tuple[Sum, ...]
    by: Mapping[int, PlacedAddress]  # the addresses that instructions make, by their numbers
    followed: Mapping[int, Sum]  # what instructions make, less places and sizes, which is kept, too
    kept: frozenset[str]  # the registers of these
    copied: frozenset[int]  # versions that are read after their registers have been written again
    flow: Flow

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each array."""
        return tuple(self.variable.name + _text(b) for b in self.begins)

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
            Variable(name, "shared", self.variable.type, size, first if n == 0 else align, placed=True)
            for n, (name, size) in enumerate(zip(self.names, sizes, strict=True))
        ]
        others = [v for v in self.function.variables if v.name != self.variable.name]
        chosen = [made[n] for n in order or range(len(made))]
        types: dict[str, str] = {}
        by = {k: list(self._replaced(k, types)) for k in range(len(self.function.body)) if self._changes(k)}
        for v in sorted(self.copied):
            self._copy(v, by, types)
        return replace(expanded(self.function, by, types), variables=(*chosen, *others))

    def _copy(self, v: int, by: dict[int, list[Instr]], types: dict[str, str]) -> None:
        """Keeps a version in a register of its own, from where it is written or merged on."""
        versions = self.flow.versions
        writer = versions.writer[v]
        k = writer if writer >= 0 else self.flow.blocks[versions.block[v]].lo
        types[_copy(v)] = "b32"
        kept = Reg(self._holding(versions.name[v]))
        i = self.function.body[k]
        copy = replace(i, op="mov", mods=("u32",), operands=(Reg(_copy(v)), kept), guard=None)
        there = by.setdefault(k, [i])
        there.insert(len(there) if writer >= 0 else 0, copy)

    def _holding(self, name: str) -> str:
        return _less(name) if name in self.kept else name

    def _changes(self, k: int) -> bool:
        return (
            k in self.by or k in self.followed or any(self._named(x) for x in self.function.body[k].operands)
        )

    def _named(self, x: Operand) -> bool:
        return (x.base if isinstance(x, Mem) else x).__class__ is Sym and self._symbol(
            x
        ) == self.variable.name

    def _symbol(self, x: Operand) -> str:
        base = x.base if isinstance(x, Mem) else x
        return base.name if isinstance(base, Sym) else ""

    def _replaced(self, k: int, types: dict[str, str]) -> Iterator[Instr]:
        """The instruction with an address in its own array."""
        i, moved = self.function.body[k], self.by.get(k)
        if k in self.followed:
            kept, less = _less(results(i)[0]), self.followed[k]
            types[kept] = "b32"
            yield from self._made(k, Imm(less.number), less, kept, types)
        if moved is None:
            yield replace(i, operands=tuple(map(self._first, i.operands)))
            return
        array = self.names[self.begins.index(moved.begin)]
        yield from self._made(k, Sym(array, moved.more.number), moved.more, results(i)[0], types)

    def _made(self, k: int, first: Operand, whole: Sum, name: str, types: dict[str, str]) -> Iterator[Instr]:
        """What writes a sum to a register: ``first`` for its place and number, and its other parts."""
        held = Reg(f"%@carved{k}")
        yield from self._summed(k, first, whole, held, types)
        yield self._plain(k, "mov", Reg(name), held)

    def _summed(
        self, k: int, first: Operand, whole: Sum, held: Reg, types: dict[str, str]
    ) -> Iterator[Instr]:
        part = Reg(f"{held.name}.part")
        types |= {held.name: "b32", part.name: "b32"}
        yield self._plain(k, "mov", held, first)
        for atom, n in whole.parts:
            yield from self._read(k, atom, part, types)
            yield self._plain(k, "mul", part, part, Imm(n), mods=("lo", "u32"))
            yield self._plain(k, "add", held, held, part)

    def _plain(self, k: int, op: str, *operands: Operand, mods: tuple[str, ...] = ("u32",)) -> Instr:
        return replace(self.function.body[k], op=op, mods=mods, operands=operands)

    def _read(self, k: int, atom: Atom, part: Reg, types: dict[str, str]) -> Iterator[Instr]:
        """What reads an atom at the place of an address."""
        match atom:
            case Held(_, special) if special:
                yield self._plain(k, "mov", part, Special(special))
            case Held(version):
                yield self._plain(k, "mov", part, Reg(self._version(version, k)))
            case Extent(axis):
                yield self._plain(k, "mov", part, Special(f"%ntid.{axis}"))
            case Parameter(name, offset, type_):
                yield self._plain(k, "ld", part, Mem(Sym(name), offset), mods=("param", type_))
            case Made(op, type_, of):
                operands = [Reg(f"{part.name}{n}") for n in range(len(of))]
                for operand, x in zip(operands, of, strict=True):
                    yield from self._summed(k, Imm(x.number), x, operand, types)
                yield self._plain(k, op, part, *operands, mods=("lo", type_) if op == "mul" else (type_,))
            case _:
                raise ValueError(f"{atom} has no value")

    def _version(self, v: int, k: int) -> str:
        """The register that has a version where an instruction stands."""
        name = self.flow.versions.name[v]
        return self._holding(name) if self.flow.versions.read(name, k) == v else _copy(v)

    def _first(self, x: Operand) -> Operand:
        if not self._named(x):
            return x
        if isinstance(x, Mem) and isinstance(x.base, Sym):
            return replace(x, base=replace(x.base, name=self.names[0]))
        return replace(x, name=self.names[0]) if isinstance(x, Sym) else x


def carved_arrays(module: Module, function: Function) -> Iterator[CarvedArrays]:
    """The arrays at places that sizes say, by each reading of the constants in these; none where there are no
    such arrays, or where the code is not followed."""
    dynamic = [v for v in (*function.variables, *module.variables) if v.space == "shared" and not v.size]
    used = [v for v in dynamic if any(_names(x, v.name) for i in function.body for x in i.operands)]
    if len(used) != 1:
        return
    with suppress(_UnfitError):
        carving = _Carving(function, used[0])
        for constants in carving.readings():
            with suppress(_UnfitError):
                found = carving.found(constants)
                if found is not None:
                    yield found


def _names(x: Operand, name: str) -> bool:
    base = x.base if isinstance(x, Mem) else x
    return isinstance(base, Sym) and base.name == name


class _Carving:
    """Looks for the arrays of one variable."""

    def __init__(self, function: Function, variable: Variable) -> None:
        self.function, self.variable, self.flow = function, variable, Flow(function)
        self.sums = Sums(self.flow, frozenset({variable.name}))
        self.addresses = self._addresses()
        self._constants: Mapping[Sum, int] = {}
        self._copied = set[int]()
        self._known: dict[tuple[int, frozenset[int]], frozenset[Sum]] = {}

    def readings(self) -> Iterator[Mapping[Sum, int]]:
        """Constants that belong to the places of arrays: of each the least that an access adds, or one of
        the next."""
        added: dict[Sum, set[int]] = {}
        for v, least in self._least.items():
            for x in self._roots(v):
                if x.sizes != _FIRST and not _down(x) and x.number + least >= 0:
                    added.setdefault(x.sizes, set()).add(x.number + least)
        for n in range(min(MOST_READINGS, max(map(len, added.values()), default=1))):
            yield {sizes: sorted(constants)[min(n, len(constants) - 1)] for sizes, constants in added.items()}

    @cached_property
    def _least(self) -> dict[int, int]:
        """By version of an address the least that accesses add to it, or to what it is merged into."""
        found: dict[int, int] = {}
        work = [
            (self.flow.versions.read(x.base.name, k), x.offset)
            for k in self._reached()
            for x in self.function.body[k].operands
            if isinstance(x, Mem) and isinstance(x.base, Reg) and x.base.name in self.addresses
        ]
        while work:
            v, least = work.pop()
            if least < found.get(v, least + 1):
                found[v] = least
                work += [(m, least) for _, m in self.flow.versions.merged(v)]
        return found

    def found(self, constants: Mapping[Sum, int]) -> CarvedArrays | None:
        """The arrays, with constants that belong to their places."""
        self._constants, self._copied = constants, set()
        at = [k for k in self._reached() if self.addresses & set(results(self.function.body[k]))]
        lies = {k: self._array(self._written(k)) for k in at}
        begins = {_FIRST, *(a.begin for a in lies.values() if not a.before)}
        if len(begins) < 2:
            return None
        for k in at:
            for base, _ in self._bases(self._written(k)):
                self._sizes(base.version)
        by = {k: b for k, a in lies.items() if self._moves(k, b := _begin(a, begins))}
        moved = {k: PlacedAddress(b, self._more(k, b)) for k, b in by.items()}
        seen, versions = self._followed(moved), self.flow.versions
        followed = {versions.writer[v]: self._less(v) for v in seen if not self._merged(v)}
        kept = frozenset(versions.name[v] for v in seen)
        for k, x in (*followed.items(), *((k, m.more) for k, m in moved.items())):
            self._fits(k, x)
            if any(
                versions.name[a.version] in kept and a.version not in seen for a, _ in x.rest if not a.special
            ):
                raise _UnfitError  # what its register is less sizes is kept of other versions alone
        order = (_FIRST, *sorted(begins - {_FIRST}, key=repr))
        return CarvedArrays(
            self.function, self.variable, order, moved, followed, kept, frozenset(self._copied), self.flow
        )

    def _less(self, v: int) -> Sum:
        """What a version holds, less the variable's place and what sizes make."""
        x = self.sums.version(v)
        return Sum(x.number, x.rest)

    def _more(self, k: int, begin: Sum) -> Sum:
        """What an address is more than the begin of an array."""
        v = self._written(k)
        return self._less(v) + self._sizes(v) + begin.times(-1)

    def _reached(self) -> Iterator[int]:
        for n in sorted(self.flow.reached):
            yield from range(self.flow.blocks[n].lo, self.flow.blocks[n].hi)

    def _written(self, k: int) -> int:
        names = results(self.function.body[k])
        if len(names) != 1 or not self._is_word(names[0]):
            raise _UnfitError
        return self.flow.versions.written(names[0], k)

    def _is_word(self, name: str) -> bool:
        return self.function.registers.get(name) in ("b32", "u32", "s32")

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

    def _array(self, v: int) -> _Array:
        """Where the address in a version lies, and what it is one of."""
        found = {self._lies(x, m) for m in (v, *self._merged(v)) for x in self._roots(m)}
        if len(found) != 1 or any([n for _, n in x.places] != [1] for x in self._roots(v)):
            raise _UnfitError
        return found.pop()

    def _lies(self, x: Sum, v: int) -> _Array:
        """Where a sum lies that a version holds."""
        constant = self._constants.get(x.sizes, 0)
        nearer = x.number + self._least.get(v, constant) < constant
        return _Array(x.sizes + Sum(constant), before=x.sizes != _FIRST and (_down(x) or nearer))

    def _roots(self, v: int, ahead: frozenset[int] = frozenset()) -> frozenset[Sum]:
        """The sums of the variable's place that a version is, with nothing of the turns that loops make."""
        if v in ahead:
            return frozenset()
        key = v, ahead
        if key not in self._known:
            if len(self._known) >= MOST_PATHS:
                raise _UnfitError
            ahead |= {v}
            merged = self._merged(v)
            if merged:
                found = {x for m in merged for x in self._roots(m, ahead)}
            else:
                found = {self.sums.version(v)}
                for base, n in self._bases(v):
                    roots = self._roots(base.version, ahead)
                    found = {x + Sum(0, ((base, -n),)) + root.times(n) for x in found for root in roots}
            self._known[key] = frozenset(found)
        return self._known[key]

    def _merged(self, v: int) -> list[int]:
        """The versions of which this is one."""
        versions = self.flow.versions
        k = versions.writer[v]
        if k < 0:
            return [m for _, m in versions.merged(v) if not versions.is_unset(m)]
        if self.flow.body[k].guard is not None:
            raise _UnfitError
        return []

    def _bases(self, v: int) -> list[tuple[Held, int]]:
        """Addresses that a version goes on from, and what sizes go into, with the multiples of these."""
        x = self.sums.version(v)
        bases = [(a, n) for a, n in x.rest if not a.special and self._has_root(a)]
        if any(a.version == v for a, _ in bases):
            raise _UnfitError  # what makes it is no sum
        return bases

    def _has_root(self, a: Held) -> bool:
        return self._is_address(a) or self.sums.of_sizes(a.version)

    def _sizes(self, v: int) -> Sum:
        """The part of an address, or of a number, that sizes make, the same in each turn of loops."""
        found = {x.sizes for m in (v, *self._merged(v)) for x in self._roots(m)}
        if len(found) != 1:
            raise _UnfitError
        return found.pop()

    def _is_address(self, a: Atom) -> bool:
        return isinstance(a, Held) and a.version >= 0 and self.flow.versions.name[a.version] in self.addresses

    def _moves(self, k: int, begin: Sum) -> bool:
        """Whether an instruction makes its address in another array than the first, or than it reads one."""
        v = self._written(k)
        read = (name for name in sources(self.function.body[k]) if name in self.addresses)
        bases = [self.flow.versions.read(name, k) for name in read]
        return any(self._array(m) != self._array(v) for m in bases) if bases else begin != _FIRST

    def _followed(self, moved: Iterable[int]) -> frozenset[int]:
        """The versions that the addresses in some are made of, with a place or sizes in it."""
        seen = set[int]()
        work = [a.version for k in moved for a, _ in self._bases(self._written(k))]
        while work:
            v = work.pop()
            if v not in seen:
                seen.add(v)
                work += self._merged(v) or [a.version for a, _ in self._bases(v)]
        return frozenset(seen)

    def _fits(self, k: int, x: Sum) -> None:
        """Notes the versions of a sum that its place needs copies of. Raises _UnfitError where it cannot be
        made again there."""
        versions = self.flow.versions
        for v in (a.version for a, _ in x.rest if not a.special):
            if not self._is_word(versions.name[v]):
                raise _UnfitError
            if versions.read(versions.name[v], k) != v:
                if versions.is_unset(v):
                    raise _UnfitError
                self._copied.add(v)


def _copy(v: int) -> str:
    """The register of a version that is read after its register has been written again."""
    return f"%@version{v}"


def _less(name: str) -> str:
    """The register of what another one holds, less the variable's place and sizes."""
    return f"%@less.{name}"


def _down(x: Sum) -> bool:
    """Whether a sum goes down from what the launch shares of it."""
    return x.number < 0 or any(n < 0 for _, n in x.rest)


def _begin(a: _Array, begins: set[Sum]) -> Sum:
    """Where the array of an address begins."""
    if not a.before:
        return a.begin
    before = [b for b in begins if b != a.begin and _at_most(b, a.begin)]
    last = [b for b in before if all(_at_most(c, b) for c in before)]
    if len(last) != 1:
        raise _UnfitError
    return last[0]


def _at_most(a: Sum, b: Sum) -> bool:
    more = b + a.times(-1)
    return all(n >= 0 for _, n in more.parts) if more.parts else more.number >= 0


def _text(x: Sum) -> str:
    constant = f"{x.number:+}" if x.number or not x.parts else ""
    return "".join(map(_part, x.parts)) + constant


def _part(part: tuple[Atom, int]) -> str:
    atom, n = part
    match atom:
        case Parameter(name, offset, _):
            of = f"{name}[{offset}]" if offset else name
        case Extent(axis):
            of = f"ntid.{axis}"
        case Made(op, _, xs):
            of = f"{op}({', '.join(f'{x.number}' + ''.join(map(_part, x.parts)) for x in xs)})"
        case _:
            of = "?"
    return f"{n:+}*{of}"


__all__ = ["CarvedArrays", "carved_arrays"]
