"""Local memory whose addresses are all known, as registers (scalar replacement).

A compiler that does not optimize keeps every variable in a *depot*, a variable in local memory. A *cell* is a
piece of a depot at a fixed offset that is always loaded and stored with one width. An example:

    mov.u64 %SPL, depot;  cvta.local.u64 %SP, %SPL;
    st.u32 [%SP+4], %r1;  ...  ld.u32 %r2, [%SP+4];

becomes ``mov.b32 %depot+4, %r1`` and ``mov.b32 %r2, %depot+4``.

**Why that changes nothing.** Each register is *clean* (made of no address of local memory), a *place* (one
offset in one depot wherever it is written), or *derived* (made of an address, at an unknown offset). What is
stored to a cell and loaded from it is followed like a register. Where an access to local memory is not at a
place, or an address of a depot goes where it is not followed, all of that depot stays memory, and everything
is followed again. What is left was followed under its own assumption that cells are registers. That holds by
induction over the steps of a thread: no access before was at another place.

Threads cannot reach the local memory of others, so it takes no part in races.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from syncverify.frontends.ptx.flow.control_flow import Flow, read_early
from syncverify.frontends.ptx.flow.expand import expanded
from syncverify.frontends.ptx.syntax.nodes import (
    FloatImm,
    Function,
    Imm,
    Instr,
    Mem,
    Operand,
    Reg,
    Sym,
    Variable,
    Vector,
)
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.pure_operations import KEEPS_ADDRESSES
from syncverify.frontends.ptx.syntax.types import kind, width


@dataclass(frozen=True, slots=True)
class Place:
    """An offset in bytes into a depot; ``generic``: the address is one of generic space."""

    depot: str
    offset: int
    generic: bool


@dataclass(frozen=True, slots=True)
class Derived:
    """Made of addresses of these depots."""

    depots: frozenset[str]


#: What a register is: nothing yet (no write of it was seen), clean, a place, or derived.
Value = None | bool | Place | Derived
CLEAN = True

_ADDRESS = frozenset({"s64", "u64", "b64"})
#: Modifiers of loads and stores that are replaced.
_PLAIN = frozenset({"local", "volatile", "weak", "v2", "v4"})


@dataclass(frozen=True, slots=True)
class Cell:
    """``size`` bytes at an offset of a depot."""

    depot: str
    offset: int
    size: int

    def overlaps(self, other: Cell) -> bool:
        return (
            self.depot == other.depot
            and self.offset < other.offset + other.size
            and other.offset < self.offset + self.size
        )

    @property
    def register(self) -> str:
        return f"%{self.depot}+{self.offset}"


@dataclass
class _Tracking:
    """What every register and cell of a function is. ``depots``: by name; ``early``: registers that may be
    read before they are written, and so are no place; ``memory``: depots and cells that stay memory."""

    function: Function
    depots: Mapping[str, Variable]
    early: frozenset[str]
    memory: set[str | Cell] = field(default_factory=set)
    known: dict[str | Cell, Value] = field(default_factory=dict)

    def run(self) -> None:
        """A least fixed point: each register rises from nothing over clean or a place to derived."""
        self.known = dict.fromkeys(self.early, CLEAN)
        changed = True
        while changed:
            changed = False
            for i in self.function.body:
                for to, value in self._written(i):
                    new = _join(self.known.get(to), value)
                    if new != self.known.get(to):
                        self.known[to] = new
                        changed = True

    def depots_of(self, value: Value) -> frozenset[str]:
        if isinstance(value, Place):
            return frozenset({value.depot})
        return value.depots if isinstance(value, Derived) else frozenset()

    def of(self, op: Operand) -> Value:
        """What an operand is."""
        if isinstance(op, Reg):
            return self.known.get(op.name)
        if isinstance(op, Sym):
            return Place(op.name, op.offset, generic=False) if op.name in self.depots else CLEAN
        return CLEAN

    def place(self, i: Instr) -> Place | None:
        """Where a plain load or store accesses a depot, inside of it and aligned."""
        at = self._anywhere(i)
        fits = at is not None and self._is_inside(i, at) and width(i.mods[-1]) <= 64
        return at if fits else None

    def by_name(self, i: Instr) -> Instr | None:
        """An access that is not inside of its depot, or not aligned, by the name of the depot."""
        at = self._anywhere(i)
        if at is None or self._is_inside(i, at):
            return None
        named = Mem(Sym(at.depot), at.offset)
        mods = i.mods if "local" in i.mods else ("local", *i.mods)
        return replace(i, mods=mods, operands=tuple(named if isinstance(x, Mem) else x for x in i.operands))

    def _anywhere(self, i: Instr) -> Place | None:
        """The first byte of a plain access to a depot, wherever it lies."""
        m = address(i)
        if m is None or not isinstance(at := self.of(m.base), Place):
            return None
        fits = at.generic != ("local" in i.mods) and set(i.mods[:-1]) <= _PLAIN
        return replace(at, offset=at.offset + m.offset) if fits else None

    def _is_inside(self, i: Instr, at: Place) -> bool:
        size = width(i.mods[-1]) // 8 * max(len(x.items) if isinstance(x, Vector) else 1 for x in i.operands)
        v = self.depots[at.depot]
        return 0 <= at.offset <= v.size - size and not at.offset % size and not v.align % size

    def parts(self, i: Instr) -> list[tuple[Cell, Operand]]:
        """What a plain access touches, each part with its register; none where the depot is memory."""
        at = self.place(i)
        if at is None or at.depot in self.memory:
            return []
        value = i.operands[0 if i.op == "ld" else 1]
        items = value.items if isinstance(value, Vector) else (value,)
        size = width(i.mods[-1]) // 8
        return [(Cell(at.depot, at.offset + size * n, size), x) for n, x in enumerate(items)]

    def cells(self, i: Instr) -> list[tuple[Cell, Operand]]:
        """The same of an access whose parts are all registers; else none: it stays as it is."""
        found = self.parts(i)
        return [] if any(c in self.memory for c, _ in found) else found

    def _written(self, i: Instr) -> Iterator[tuple[str | Cell, Value]]:
        cells = self.cells(i)
        if i.op == "st":
            for cell, op in cells:
                yield cell, self.of(op)
            return
        if cells:
            for cell, op in cells:
                if isinstance(op, Reg):
                    yield op.name, self.known.get(cell)
            return
        names = results(i)
        if names:
            value = self._made(i)
            for name in names:
                yield name, CLEAN if self.function.registers.get(name) == "pred" else value

    def _made(self, i: Instr) -> Value:
        """What an instruction makes."""
        if i.op == "ld":
            m = address(i)
            return None if m is not None and isinstance(m.base, Reg) and self.of(m.base) is None else CLEAN
        found = [self.of(op) for op in i.operands[1:]]
        if i.op in ("mov", "cvta", "add", "sub") and i.mods[-1:] and i.mods[-1] in _ADDRESS:
            if isinstance(found[0], Place) and isinstance(i.operands[0], Reg):
                return self._moved(i, found[0])
        parts = [self.of(Reg(name)) for name in sources(i)] + found
        derived = frozenset().union(*map(self.depots_of, parts))
        return Derived(derived) if derived else None if any(x is None for x in parts) else CLEAN

    def _moved(self, i: Instr, at: Place) -> Value:
        if i.op == "mov":
            return at
        if i.op == "cvta" and "local" in i.mods:
            back = "to" in i.mods
            return replace(at, generic=not back) if at.generic == back else Derived(frozenset({at.depot}))
        step = i.operands[2] if i.op in ("add", "sub") and len(i.operands) == 3 else None
        if isinstance(step, Imm):
            return replace(at, offset=at.offset + (step.value if i.op == "add" else -step.value))
        return Derived(frozenset({at.depot}) | self.depots_of(self.of(step) if step is not None else CLEAN))

    def not_followed(self) -> Iterator[str | Cell]:
        """Depots of which an address goes where it is not followed, and cells that cannot be registers: they
        overlap others, or an access that stays touches them."""
        groups: dict[str, set[Cell]] = {}
        for i in self.function.body:
            touched = [c for c, _ in self.parts(i)]
            for c in touched:
                groups.setdefault(c.depot, set()).add(c)
            if not self.cells(i):
                yield from touched
                yield from self._escapes(i)
        for group in groups.values():
            by_place = sorted(group, key=lambda c: (c.offset, c.size))
            for n, c in enumerate(by_place):
                later = takewhile(lambda d, c=c: d.overlaps(c), by_place[n + 1 :])  # type: ignore[misc]
                for d in later:
                    yield from (c, d)

    def _escapes(self, i: Instr) -> Iterator[str]:
        """The depots that an instruction reaches, or hands on, in a way that is not followed."""
        m = address(i)
        memory = m is not None or i.op not in KEEPS_ADDRESSES
        if not memory:
            return
        at = self.place(i)
        named = (
            registers(m)
            if m is not None and i.op == "ld"
            else {n for op in i.operands for n in registers(op)}
        )
        found = frozenset().union(
            *(self.depots_of(self.of(Reg(n))) for n in named),
            *(self.depots_of(self.of(o)) for o in symbols(i)),
        )
        if at is not None and i.op == "ld":
            return  # of memory of a depot: a place, and what is there is clean
        if at is not None:
            value = i.operands[1]
            items = value.items if isinstance(value, Vector) else (value,)
            found = frozenset().union(*(self.depots_of(self.of(x)) for x in items))
        yield from found
        if m is not None and at is None and "local" in i.mods:
            yield from self.depots  # somewhere in local memory


def address(i: Instr) -> Mem | None:
    """The operand of a load or store that is an address."""
    if i.op not in ("ld", "st") or len(i.operands) != 2:
        return None
    m = i.operands[1 if i.op == "ld" else 0]
    return m if isinstance(m, Mem) else None


def symbols(i: Instr) -> list[Operand]:
    """The names of variables among the operands of an instruction."""
    parts = [op.base if isinstance(op, Mem) else op for op in i.operands]
    return [x for op in parts for x in (op.items if isinstance(op, Vector) else (op,)) if isinstance(x, Sym)]


def _join(a: Value, b: Value) -> Value:
    if a is None or b is None or a == b:
        return b if a is None else a
    parts = [x for x in (a, b) if isinstance(x, Place | Derived)]
    return Derived(frozenset().union(*(x.depots if isinstance(x, Derived) else {x.depot} for x in parts)))


def promoted(function: Function) -> Function:
    """The function with the cells of local memory as registers, as far as all addresses are known."""
    depots = {v.name: v for v in function.variables if v.space == "local"}
    if not depots:
        return function
    tracking = _Tracking(function, depots, read_early(Flow(function)))
    while True:
        tracking.run()
        lost = set(tracking.not_followed()) - tracking.memory
        if not lost:
            break
        tracking.memory |= lost
    by: dict[int, list[Instr]] = {}
    types: dict[str, str] = {}
    for k, i in enumerate(function.body):
        cells = tracking.cells(i)
        named = tracking.by_name(i)
        if named is not None:
            by[k] = [named]
        elif cells:
            by[k] = [_move(i, cell, op, function.registers) for cell, op in cells]
            types |= {c.register: f"b{max(c.size, 2) * 8}" for c, _ in cells}
    return expanded(function, by, types) if by else function


def _move(i: Instr, cell: Cell, op: Operand, types: Mapping[str, str]) -> Instr:
    """The move or conversion that a load or store of a cell becomes."""
    type_, bits, own = i.mods[-1], cell.size * 8, Reg(cell.register)
    held = width(types[op.name]) if isinstance(op, Reg) else bits
    to, of = (op, own) if i.op == "ld" else (own, op)
    cell_bits = max(bits, 16)
    if isinstance(op, Reg) and (bits == 8 or held != bits):
        sign = "s" if kind(type_) == "s" and i.op == "ld" else "u"
        mods = (f"{sign}{held}", f"{sign}{bits}") if i.op == "ld" else (f"u{cell_bits}", f"u{bits}")
        return replace(i, op="cvt", mods=mods, operands=(to, of))
    if isinstance(of, Imm) and bits == 8:
        of = Imm(of.value & 0xFF)
    letter = "f" if isinstance(of, FloatImm) else "b"
    return replace(i, op="mov", mods=(f"{letter}{cell_bits}",), operands=(to, of))


__all__ = ["promoted"]
