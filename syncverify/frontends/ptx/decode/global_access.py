"""Accesses to global memory as events, in kernels whose blocks hand data over through it (SV501, SV504)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syncverify.frontends.ptx.decode.effects import Context, Effect, Opaque, Value
from syncverify.frontends.ptx.decode.memory import Access, access_events, decode_access
from syncverify.frontends.ptx.decode.parts import SCOPES
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Vector
from syncverify.frontends.ptx.syntax.types import WINDOW, width
from syncverify.frontends.ptx.values.register_values import INTS, PerLane
from syncverify.ir.footprints import Range, footprint
from syncverify.model.events import GLOBAL_MEMORY, Ev, Event, Flag, Footprint
from syncverify.model.intervals import merge
from syncverify.model.proxies import Scope

_ACCESSES = frozenset({"ld", "ldu", "st", "atom", "red"})
_ELSEWHERE = ("const", "param", "local")
_FLOATS = ("f16", "bf16", "f32", "f64", "tf32", "e4m3", "e5m2")
_SEMANTICS = {
    "acquire": Flag.STRONG | Flag.ACQUIRE,
    "release": Flag.STRONG | Flag.RELEASE,
    "acq_rel": Flag.STRONG | Flag.ACQUIRE | Flag.RELEASE,
    "relaxed": Flag.STRONG,
    "volatile": Flag.STRONG,
    "mmio": Flag.STRONG,
}
#: Bytes that ``discard`` destroys.
LINE = 128
#: Comparisons by the predicate of ``setp``; those that hold where another fails; those with swapped sides.
COMPARISONS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip
NEGATED = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Stored(Access):
    """An access whose value others may wait for: how it orders, by which operation, and of how many bits."""

    flags: int = 0
    op: str = ""
    bits: int = 32

    @property
    def signals(self) -> bool:
        """Whether the value written may be one that others wait for; it is taken to be, if no kind of access
        says otherwise."""
        return True

    def stored(self, values: Sequence[Value], lanes: Sequence[int]) -> int | None:
        """The number that is stored, where all lanes of a class store one."""
        value = self.elements[0].value if isinstance(self.elements[0], Imm) else values[0] if values else None
        if value.__class__ is PerLane:
            first, *others = (value.lanes[i] for i in lanes)
            value = first if all(v.__class__ in INTS and v == first for v in others) else None
        return signed(value, self.bits) if isinstance(value, int) else None


@dataclass(frozen=True, slots=True)
class GlobalAccess(Stored):
    """A load, store or atomic that may reach global memory; ``code`` is GLOBAL_READ, _WRITE or _ATOMIC.

    ``total``: bytes of each lane, so many ``rows`` of them, ``pitch`` apart. ``inside``: what it is where the
    address lies in shared memory.
    """

    total: int = 0
    inside: Access | None = None
    rows: int = 1
    pitch: int = 0

    @property
    def signals(self) -> bool:
        """Whether the value written may be one that others wait for."""
        return self.code != Ev.GLOBAL_READ and bool(self.flags & (Flag.STRONG | Flag.RELEASE))

    def events(self, ctx: Context, site: int, address: Value, values: Sequence[Value], handle: int,
               part: bool) -> list[Event]:  # fmt: skip
        """As ``memory.access_events``; raises Opaque where the address is not known."""
        lanes = ctx.addresses(address)
        windows = {0} if lanes is None else {x >> WINDOW for x in lanes}
        if self.inside is not None and windows == {1}:
            return access_events(self.inside, ctx, site, address, values, handle, part)
        if len(windows) > 1:
            raise Opaque("lanes of one access reach different state spaces")
        if windows != {0}:
            return []
        if self.signals and self.flags & Flag.RELEASE and lanes is not None and len(set(lanes)) > 1:
            ctx.number(address, "the address of a flag")  # one of its own for each: classes apart
        if self.code != Ev.GLOBAL_READ and lanes is not None:
            ctx.wrote(lanes, self.total)
        number = ctx.global_bytes(address, self.total, self.rows, self.pitch)
        head = (self.code, site, number, self.flags, int(self.scope))
        if self.code == Ev.GLOBAL_READ:
            return [head]
        stored = self._stored(values, ctx.lanes)
        return [(*head, stored) if self.code == Ev.GLOBAL_WRITE else (*head, self.op, stored)]

    def _stored(self, values: Sequence[Value], lanes: Sequence[int]) -> int | None:
        return self.stored(values, lanes) if self.signals and len(self.elements) == 1 else None


def signed(value: int, bits: int) -> int:
    """The number that some bits are as a signed integer: what flags hold, and what they are compared with."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def space_of(i: Instr) -> str:
    """``global``, ``generic``, or ``""`` for an instruction that cannot access global memory."""
    if i.op == "discard":
        return "global"  # generic addresses have to lead there, too
    if i.op not in _ACCESSES or "async" in i.mods or i.mods[:1] == ("bulk",):
        return ""
    for m in i.mods:
        base = m.split("::")[0]
        if base == "global":
            return "global"
        if base in _ELSEWHERE or m.startswith("shared"):
            return ""
    return "generic"


def semantics(i: Instr) -> int:
    """Flags of an access: strength, acquire, release (PTX ISA, ld, st, atom, red)."""
    found = next((_SEMANTICS[m] for m in i.mods if m in _SEMANTICS), None)
    if found is not None:
        return int(found)
    return int(Flag.STRONG) if i.op in ("atom", "red") else 0


def scope_of(i: Instr) -> Scope:
    """PTX ISA: volatile is relaxed at system scope; an atomic's default is the device."""
    if "volatile" in i.mods or "mmio" in i.mods:
        return Scope.SYS
    return next((SCOPES[m] for m in i.mods if m in SCOPES), Scope.GPU)


def decode_global(i: Instr, may_be_shared: bool) -> GlobalAccess | None:
    """The access of an instruction that may reach global memory; None for others."""
    space = space_of(i)
    if not space:
        return None
    at = next((o for o in i.operands[:2] if isinstance(o, Mem)), None)
    if at is None:
        return None
    if i.op == "discard":  # PTX ISA: like a weak write of a value that nobody knows
        return GlobalAccess(Ev.GLOBAL_WRITE, at, (), LINE, space, Scope.GPU, 0, "", 32, LINE)
    type_ = i.mods[-1]
    bits = width(type_)
    n = next((int(m[1:]) for m in i.mods if m in ("v2", "v4", "v8")), 1)
    flags, scope = semantics(i), scope_of(i)
    inside = decode_access(i) if may_be_shared else None
    rest = i.operands[i.operands.index(at) + 1 :]
    if i.op in ("ld", "ldu"):
        flags &= ~int(Flag.RELEASE)
        return GlobalAccess(
            Ev.GLOBAL_READ, at, (), bits // 8, space, scope, flags, "", bits, n * bits // 8, inside
        )
    elements = _items(rest[0]) if rest else ()
    op = "" if i.op == "st" else _operation(i)
    code = Ev.GLOBAL_ATOMIC if op and op != "exch" else Ev.GLOBAL_WRITE
    if op and (n > 1 or type_.startswith(_FLOATS)) and not flags & Flag.RELEASE:
        flags = 0  # sums of data: nobody waits for their value
    return GlobalAccess(code, at, elements, bits // 8, space, scope, flags, op, bits, n * bits // 8, inside)


def _operation(i: Instr) -> str:
    known = ("add", "exch", "cas", "inc", "dec", "min", "max", "and", "or", "xor")
    return next((m for m in i.mods if m in known), "other")


def _items(op: Operand) -> tuple[Operand, ...]:
    return op.items if isinstance(op, Vector) else (op,)


@dataclass(frozen=True, slots=True)
class GlobalSpin:
    """A load in a loop that nothing but its value ends; passing it means ``value COMPARE bound``.

    ``decides``: the ``setp`` that looks at it, its predicate, and what that holds once the spin is passed.
    """

    load: int
    compare: str
    bound: Operand
    unsigned: bool
    decides: int
    predicate: str
    passed: int

    def flags(self, i: Instr) -> int:
        """Those of the wait that the loop around an access is."""
        sign = Flag.UNSIGNED if self.unsigned else Flag.NONE
        return semantics(i) & ~int(Flag.RELEASE) | int(sign)


def spin_effect(i: Instr, spin: GlobalSpin) -> Effect:
    """A whole spin as one blocking event."""
    at = i.operands[1]
    assert isinstance(at, Mem)
    bits, flags, scope = width(i.mods[-1]), spin.flags(i), int(scope_of(i))

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        fp = ctx.flag(v[0], bits // 8)
        bound = signed(ctx.number(v[1], "the value that a block waits for"), bits)
        if spin.unsigned and bound < 0:
            raise Opaque("the value that a block waits for is no small number")
        return ((Ev.SPIN, site, fp, flags, scope, spin.compare, bound),)

    return Effect(emit, (at, spin.bound), None, i.operands[:1])


def poll_effect(i: Instr) -> Effect:
    """The turn of a block's loop in which an atomic finds the value that it asks for."""
    at, bound = i.operands[1:3]
    bits, flags, scope = width(i.mods[-1]), semantics(i) & ~int(Flag.RELEASE), int(scope_of(i))

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        address = ctx.number(v[0], "the address of a flag")
        if address >> WINDOW:
            raise Opaque("a spin on memory that is not global")
        asked = signed(ctx.number(v[1], "the value that a block waits for"), bits)
        return ((Ev.SPIN, site, ctx.flag(v[0], bits // 8), flags, scope, "==", asked),)

    return Effect(emit, (at, bound), None, i.operands[:1])


def global_footprint(
    addresses: Sequence[int],
    size: int,
    lanes: Sequence[int],
    part: bool = False,
    rows: int = 1,
    pitch: int = 0,
) -> Footprint:
    """``size`` bytes at each lane's address, so many ``rows`` of them; ``part``: the lanes are some of a
    class, and so are named."""
    if len(set(addresses)) == 1 and not part:
        return footprint(GLOBAL_MEMORY, Range(addresses[0], size, rows, pitch), lanes)
    return footprint(GLOBAL_MEMORY, [Range(a, size, rows, pitch) for a in addresses], lanes)


# ---------------------------------------------------------------- boxes of tensor maps

_MAP = 200  # bits of a tensor map's own memory, which lies beyond all addresses
_COORDINATE = 33  # bits, the sign's included


def box_footprint(number: int, box: Sequence[int], element: int, coords: Sequence[int]) -> Footprint:
    """A box as bytes of its tensor map's own memory, laid out in tiles of the box.

    Boxes of one map meet if and only if their footprints do, whatever the tensor's extents are.
    """
    size = element
    for b in box:
        size *= b
    # from the outermost dimension in: tile, row-major position of a run inside it, and its length
    parts: list[tuple[tuple[int, ...], int, int]] = [((), 0, 1)]
    for b, c in zip(reversed(box), reversed(coords), strict=True):
        tile, offset = divmod(c, b)
        pieces = [(tile, offset, b - offset)] + ([(tile + 1, 0, offset)] if offset else [])
        grown = []
        for tiles, start, n in parts:
            for t, lo, count in pieces:
                if count == b:
                    grown.append(((*tiles, t), start * b, n * b))
                else:
                    grown += [((*tiles, t), (start + i) * b + lo, count) for i in range(n)]
        parts = grown
    runs = []
    for tiles, start, n in parts:
        at = 0
        for t in tiles:
            at = at << _COORDINATE | (t + (1 << (_COORDINATE - 1)))
        lo = (number + 1 << _MAP) + at * size + start * element
        runs.append((lo, lo + n * element))
    return Footprint(GLOBAL_MEMORY, merge(runs))
