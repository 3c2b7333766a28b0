"""Sums that addresses and sizes are: a number, and multiples of what they are made of.

Example: of ``ld.param.u32 n, [k_param_2]; add r, t, n; shl r, r, 2; mov b, rows; add a, b, r`` the address
``a`` is the place of ``rows``, four times a parameter, and four times the register ``t``. What the whole
launch shares has a name of its own wherever it is computed: parameters, the block's extents, and what is
made of these alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.use_def import behind
from syncverify.frontends.ptx.isa.accesses import from_outside
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Reg, Special, Sym
from syncverify.frontends.ptx.syntax.operands import sources
from syncverify.frontends.ptx.syntax.types import kind, width

_WORD = 1 << 32
#: The place of a number's sign.
_SIGN = 31
#: Units by which a rounded size may grow at once.
MOST_STEP = 256


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a shared variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a kernel finds at an offset of a parameter."""

    name: str
    offset: int
    type: str


@dataclass(frozen=True, slots=True)
class Extent:
    """``%ntid`` along an axis."""

    axis: str


@dataclass(frozen=True, slots=True)
class Made:
    """What an instruction makes of what the whole launch shares."""

    op: str
    type: str
    of: tuple[Sum, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """What a version of a register holds; ``special``: a special register, in place of one."""

    version: int
    special: str = ""


Atom = Place | Parameter | Extent | Made | Held
Shared = Parameter | Extent | Made


@dataclass(frozen=True, slots=True)
class Sum:
    """``number`` and multiples of atoms, modulo 2**32. ``parts``: each atom once, in order."""

    number: int = 0
    parts: tuple[tuple[Atom, int], ...] = ()

    def __add__(self, other: Sum) -> Sum:
        return made(self.number + other.number, (*self.parts, *other.parts))

    def times(self, factor: int) -> Sum:
        """The sum taken several times."""
        return made(self.number * factor, [(atom, n * factor) for atom, n in self.parts])

    @property
    def sizes(self) -> Sum:
        """Its parts that the whole launch shares, without the number."""
        return Sum(0, tuple((atom, n) for atom, n in self.parts if isinstance(atom, Shared)))

    @property
    def rest(self) -> tuple[tuple[Held, int], ...]:
        """Its parts that threads may have of their own."""
        return tuple((atom, n) for atom, n in self.parts if isinstance(atom, Held))

    @property
    def places(self) -> tuple[tuple[Place, int], ...]:
        """The places that it holds."""
        return tuple((atom, n) for atom, n in self.parts if isinstance(atom, Place))


def made(number: int, parts: Iterable[tuple[Atom, int]]) -> Sum:
    """A sum of parts among which an atom may stand twice."""
    found: dict[Atom, int] = {}
    for atom, n in parts:
        found[atom] = _signed(found.get(atom, 0) + n)
    kept = sorted(((atom, n) for atom, n in found.items() if n), key=lambda part: repr(part[0]))
    return Sum(_signed(number), tuple(kept))


def _signed(value: int) -> int:
    return (value + _WORD // 2) % _WORD - _WORD // 2


def _one(atom: Atom) -> Sum:
    return Sum(0, ((atom, 1),))


class Sums:
    """The sums that the registers of a function hold, of wide ones the low 32 bits. ``shared``: variables
    whose places count."""

    def __init__(self, flow: Flow, shared: frozenset[str]) -> None:
        self.flow, self.shared = flow, shared
        self._known: dict[int, Sum] = {}

    def of(self, x: Operand, k: int) -> Sum | None:
        """What an operand holds where an instruction reads it; None for what is no word."""
        match x:
            case Imm(value):
                return Sum(_signed(value))
            case Sym(name, offset) if name in self.shared:
                return Sum(offset, ((Place(name), 1),))
            case Special(name) if name.startswith("%ntid."):
                return _one(Extent(name[-1]))
            case Special(name) if name.startswith(_STEADY):
                return _one(Held(-1, name))
            case Reg(name):
                return self.version(self.flow.versions.read(name, k))
        return None

    def version(self, v: int) -> Sum:
        """What a version holds."""
        if v not in self._known:
            self._known[v] = _one(Held(v))  # of what it makes itself, nothing is known
            k = self.flow.versions.writer[v]
            i = self.flow.body[k] if k >= 0 else None
            if i is not None and i.guard is None and i.operands[:1] == (Reg(self.flow.versions.name[v]),):
                self._known[v] = self._made(i, k) or self._known[v]
        return self._known[v]

    def _made(self, i: Instr, k: int) -> Sum | None:
        type_ = i.mods[-1] if i.mods else ""
        if i.op == "ld" and "param" in i.mods and isinstance(place := i.operands[1], Mem):
            plain = isinstance(place.base, Sym) and width(type_) == 32 and type_[0] in "usb"
            if not plain or not isinstance(place.base, Sym):
                return None
            return _one(Parameter(place.base.name, place.base.offset + place.offset, type_))
        if not _of_words(i):
            return None
        xs = [self.of(x, k) for x in i.operands[1:]]
        if any(x is None for x in xs):
            return None
        words = [x for x in xs if x is not None]
        found = _RULES[i.op](words) if i.op in _RULES else None
        if found is not None or i.op not in _NUMBERS:
            return found
        alike = all(isinstance(atom, Shared) for x in words for atom, _ in x.parts)
        return _one(Made(i.op, type_, tuple(words))) if alike and _even(i.op, words) else None

    def of_sizes(self, v: int) -> bool:
        """Whether a parameter goes into what a version holds."""
        writers = map(self.flow.versions.writer.__getitem__, behind(self.flow, [v], _but_loads))
        made = (self.flow.body[k] for k in writers if k >= 0)
        return any(i.op == "ld" and "param" in i.mods for i in made)


def _but_loads(i: Instr) -> Sequence[str]:
    """The registers that go into what an instruction makes, where it loads nothing."""
    return () if from_outside(i) else sources(i)


def _of_words(i: Instr) -> bool:
    """Whether the low 32 bits that an instruction makes are a sum's, or a number made of numbers."""
    types = i.mods[-2:] if i.op == "cvt" else i.mods[-1:]
    if not types or any(width(t) not in (32, 64) or kind(t) not in ("u", "s", "b") for t in types):
        return False
    if i.op in _NUMBERS and i.op not in _RULES:
        return width(types[0]) == 32 and len(i.mods) == 1
    return i.op in _RULES and _PLAIN.issuperset(i.mods[: -len(types)])


def _even(op: str, xs: list[Sum]) -> bool:
    """Whether a number grows with what it is made of, but for steps of a few units: no bound stops it."""
    by = xs[1]
    if by.parts:
        return op == "mul"
    if op == "or":
        return 0 <= by.number < MOST_STEP
    if op == "and":
        return -MOST_STEP <= by.number < 0 and not -by.number & (-by.number - 1)
    signs = [isinstance(a, Made) and a.op == "shr" and a.of[1] == Sum(_SIGN) for a, _ in xs[0].parts]
    if op == "shr" and (by.number == _SIGN or (signs and all(signs))):
        return 0 <= by.number  # a sign, as in a division that rounds to 0
    return op == "shr" and 0 <= by.number and 1 << by.number <= MOST_STEP


def _times(xs: list[Sum]) -> Sum | None:
    a, b = xs[:2]
    if not a.parts:
        return b.times(a.number)
    return None if b.parts else a.times(b.number)


def _shifted(xs: list[Sum]) -> Sum | None:
    a, by = xs
    return None if by.parts or not 0 <= by.number < 32 else a.times(1 << by.number)


def _mad(xs: list[Sum]) -> Sum | None:
    product = _times(xs[:2])
    return None if product is None else product + xs[2]


def _or(xs: list[Sum]) -> Sum | None:
    """A sum where a number has no bit in common with the other operand."""
    a, by = xs
    if by.parts:
        a, by = by, a
    factors = (a.number, *(n for _, n in a.parts))
    apart = not by.parts and 0 <= by.number and not any(n % (1 << by.number.bit_length()) for n in factors)
    return a + by if apart else None


def _complement(xs: list[Sum]) -> Sum | None:
    """A sum of which all but the low bits are turned, and these are 0: of ``x`` and -4 it is ``-4 - x``."""
    a, by = xs if not xs[1].parts else xs[::-1]
    lowest = -by.number
    turned = not by.parts and lowest > 0 and not lowest & (lowest - 1)
    if not turned or any(n % lowest for n in (a.number, *(n for _, n in a.parts))):
        return None
    return by + a.times(-1)


_PLAIN = frozenset({"lo", "wide"})
#: Registers that hold the same whenever a thread reads them.
_STEADY = ("%tid", "%ctaid", "%nctaid", "%laneid", "%clusterid", "%nclusterid", "%cluster_")
#: What makes a sum of sums.
_RULES: dict[str, Callable[[list[Sum]], Sum | None]] = {
    "mov": lambda xs: xs[0],
    "cvt": lambda xs: xs[0],
    "add": lambda xs: xs[0] + xs[1],
    "sub": lambda xs: xs[0] + xs[1].times(-1),
    "neg": lambda xs: xs[0].times(-1),
    "or": _or,
    "xor": _complement,
    "not": lambda xs: Sum(-1) + xs[0].times(-1),
    "mul": _times,
    "shl": _shifted,
    "mad": _mad,
}
#: What makes a number of numbers that is no sum, of unsigned words or of signed ones.
_NUMBERS: dict[str, Callable[[int, int], int]] = {
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "shr": lambda a, b: a >> b,
}


def number_of(x: Sum, of: Callable[[Parameter | Extent], int]) -> int:
    """The number that a sum of what the launch shares is. ``of``: what parameters and extents are."""

    def atom(a: Atom) -> int:
        if isinstance(a, Made):
            signed = a.type[0] == "s"
            xs = [number_of(s, of) for s in a.of]
            return _signed(reduce(_NUMBERS[a.op], xs if signed else [n % _WORD for n in xs]))
        assert isinstance(a, Parameter | Extent)
        return of(a)

    return _signed(x.number + sum(n * atom(a) for a, n in x.parts))


__all__ = [
    "MOST_STEP",
    "Atom",
    "Extent",
    "Held",
    "Made",
    "Parameter",
    "Place",
    "Shared",
    "Sum",
    "Sums",
    "made",
    "number_of",
]
