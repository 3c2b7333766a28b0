"""Arrays that a kernel carves out of one dynamic shared memory, as variables of their own.

Example: of ``float* row = smem; float* sums = smem + n;`` the text has one variable, ``smem``. An access
``sums[i]`` has the address ``smem + 4*n + 4*i``. What the whole launch shares says where an array begins,
here ``4*n``; the number and what threads have of their own say where in the array. A sum that goes down from
such a place, as ``4*n - 4 - 4*i`` of ``row[n - 1 - i]`` does, lies in the array before it.

The function that ``apart`` makes holds a variable for each array, and the same accesses in it. That each
stays inside its array is an assumption: ``within`` gives the arrays at numbers, where it is seen.

A constant may belong to the place: of ``float* sums = smem + n + 2`` the first word lies 8 bytes behind that
of ``4*n``, and what is nearer belongs to ``row``. Several readings are given in that case.

Nothing is carved where an address is anything but such a sum, where it may lie in either of two arrays, where
sizes are hidden in what threads have of their own, or where the code compares addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

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
#: Readings of constants in places.
MOST_READINGS = 3
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
class CarvedArrays:
    """The arrays in the dynamic shared memory ``variable``: where each begins, the first at its place."""

    function: Function
    variable: Variable
    begins: tuple[Sum, ...]
    by: Mapping[int, Sum]  # the array that an instruction makes an address in, by its number
    followed: frozenset[int]  # instructions whose addresses are kept without the variable's place, too
    addresses: frozenset[str]
    flow: Flow
    sums: Sums

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
            Variable(name, "shared", self.variable.type, size, first if n == 0 else align)
            for n, (name, size) in enumerate(zip(self.names, sizes, strict=True))
        ]
        others = [v for v in self.function.variables if v.name != self.variable.name]
        chosen = [made[n] for n in order or range(len(made))]
        types: dict[str, str] = {}
        by = {k: list(self._replaced(k, types)) for k in range(len(self.function.body)) if self._changes(k)}
        return replace(expanded(self.function, by, types), variables=(*chosen, *others))

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
        i, begins = self.function.body[k], self.by.get(k)
        name = results(i)[0] if k in self.by or k in self.followed else ""
        whole = self.sums.version(self.flow.versions.written(name, k)) if name else _FIRST
        if k in self.followed:
            types[_offset(name)] = "b32"
            yield from self._made(k, Imm(whole.number), whole, _offset(name), types)
        if begins is None:
            yield replace(i, operands=tuple(map(self._first, i.operands)))
            return
        whole += begins.times(-1)
        array = self.names[self.begins.index(begins)]
        yield from self._made(k, Sym(array, whole.number), whole, name, types)

    def _made(self, k: int, first: Operand, whole: Sum, name: str, types: dict[str, str]) -> Iterator[Instr]:
        """What writes a sum to a register: ``first`` for its place and number, and its other parts."""
        held = Reg(f"%@carved{k}")
        part = Reg(f"%@carved{k}.part")
        types |= {held.name: "b32", part.name: "b32"}

        def plain(op: str, *operands: Operand, mods: tuple[str, ...] = ("u32",)) -> Instr:
            return replace(self.function.body[k], op=op, mods=mods, operands=operands)

        yield plain("mov", held, first)
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
                name = self.flow.versions.name[version]
                return "mov", Reg(_offset(name) if name in self.addresses else name), ("u32",)
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
        self._constants = constants
        at = [k for k in self._reached() if self.addresses & set(results(self.function.body[k]))]
        lies = {k: self._array(self._written(k)) for k in at}
        begins = {_FIRST, *(a.begin for a in lies.values() if not a.before)}
        if len(begins) < 2:
            return None
        by = {k: _begin(a, begins) for k, a in lies.items()}
        moved = {k: b for k, b in by.items() if self._moves(k, b)}
        followed = self._followed(moved)
        for k in {*moved, *followed}:
            self._fits(k, moved.get(k, _FIRST))
        order = (_FIRST, *sorted(begins - {_FIRST}, key=repr))
        return CarvedArrays(
            self.function, self.variable, order, moved, followed, self.addresses, self.flow, self.sums
        )

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
        if len(found) != 1:
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
            ahead |= {v}
            merged = self._merged(v)
            if merged:
                found = {x for m in merged for x in self._roots(m, ahead)}
            else:
                base, whole = self._based(v), self.sums.version(v)
                more = whole if base is None else whole + Sum(0, ((base, -1),))
                found = {whole} if base is None else {x + more for x in self._roots(base.version, ahead)}
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

    def _based(self, v: int) -> Held | None:
        """The address that a version goes on from; None where it is made of the variable's place."""
        x = self.sums.version(v)
        if any(
            not a.special and not self._is_address(a) and self.sums.of_sizes(a.version) for a, _ in x.rest
        ):
            raise _UnfitError
        bases = [(a, n) for a, n in x.rest if self._is_address(a)]
        if [n for _, n in (*x.places, *bases)] != [1]:
            raise _UnfitError
        return bases[0][0] if bases else None

    def _is_address(self, a: Atom) -> bool:
        return isinstance(a, Held) and a.version >= 0 and self.flow.versions.name[a.version] in self.addresses

    def _moves(self, k: int, begin: Sum) -> bool:
        """Whether an instruction makes its address in another array than the first, or than it reads one."""
        base = self._based(self._written(k))
        if base is None:
            return begin != _FIRST
        return self._array(base.version) != self._array(self._written(k))

    def _followed(self, moved: Iterable[int]) -> frozenset[int]:
        """The instructions that make the addresses which some go on from into other arrays."""
        versions, found, seen = self.flow.versions, set[int](), set[int]()
        work = [b.version for k in moved if (b := self._based(self._written(k))) is not None]
        while work:
            v = work.pop()
            if v in seen:
                continue
            seen.add(v)
            merged = self._merged(v)
            work += merged
            if not merged:
                found.add(versions.writer[v])
                base = self._based(v)
                work += [] if base is None else [base.version]
        return frozenset(found)

    def _fits(self, k: int, begin: Sum) -> None:
        """Raises _UnfitError where an address cannot be made again at its place."""
        x, versions = self.sums.version(self._written(k)), self.flow.versions
        held = {a.version: versions.name[a.version] for a, _ in x.rest if not a.special}
        stale = any(versions.read(name, k) != v or not self._is_word(name) for v, name in held.items())
        nested = any(isinstance(a, Made) for a, _ in (x + begin.times(-1)).parts)
        if nested or stale:
            raise _UnfitError


def _offset(name: str) -> str:
    """The register of an address without the variable's place."""
    return f"%@offset.{name}"


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
