"""Addresses of tensor maps that no launch fact gives as numbers, as symbolic sums.

A pointer parameter without a name, plus what the block's place in the grid makes, plus a constant: such an
address is an ``Address``. Its value is not known, but two of them are compared. Equal terms and equal offsets
are one tensor map; equal terms and offsets at least a map apart are two. Pointers of two parameters lead
to different memory. All else may or may not be one map.

Terms come from the text: what one instruction makes of constants, parameters and special registers that all
threads of a block read alike is the same whenever it is executed. What goes through memory, or through
registers that several instructions write, takes its ``Address`` along as a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Reg, Special, Sym
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.types import width
from syncverify.frontends.ptx.values.register_values import UNWRITTEN, PerLane, Unknown, lanes_of, per_lane

MAP_BYTES = 128
_WRAP = 1 << 64
#: What a term is: nested tuples that name a parameter, a special register, or an instruction on such.
Atom = tuple[Any, ...]
#: Terms with their factors, sorted; and a number of bytes modulo ``2**64``.
Sum = tuple[tuple[tuple[Atom, int], ...], int]


class Address(Unknown):
    """The sum ``terms + offset``. Interned by ``address``: identity is equality."""

    __slots__ = ("offset", "plain", "terms")

    def __init__(self, of: Unknown, terms: tuple[tuple[Atom, int], ...], offset: int) -> None:
        super().__init__(of.why, of.source)
        self.plain = of.derived()
        self.terms = terms
        self.offset = offset

    def derived(self) -> Unknown:
        """What is computed from it elsewhere is no sum that is followed."""
        return self.plain

    @property
    def parameter(self) -> Atom | None:
        """The one pointer parameter that it begins at, if there is one."""
        found = [a for a, factor in self.terms if a[0] == "param" and a[3] == 64 and factor == 1]
        return found[0] if len(found) == 1 else None

    def name(self, whole: bool = False) -> str:
        """As reports call the map there, the same in every run; ``whole``: with all that is added."""
        behind = self.offset - (_WRAP if self.offset >> 63 else 0)
        after = f"{behind:+d}" if behind else ""
        base = self.parameter
        if base is None or whole:
            return "+".join(_shown(a) + ("" if k == 1 else f"*{k}") for a, k in self.terms) + after
        return _shown(base) + ("+..." if len(self.terms) > 1 else "") + after


def _shown(atom: Atom) -> str:
    if atom[0] == "param":
        return f"{atom[1]}" + (f"[{atom[2]}]" if atom[2] else "")
    if atom[0] == "line":
        return f"at line {atom[1]}"
    return str(atom[0]) if len(atom) < 3 else f"{atom[0]}({', '.join(_summed(x) for x in atom[2:])})"


def _summed(x: Sum) -> str:
    parts = [_shown(a) + ("" if k == 1 else f"*{k}") for a, k in x[0]]
    return "+".join([*parts, str(x[1])] if x[1] or not parts else parts)


_KNOWN: dict[tuple[Any, ...], Address] = {}


def address(of: Unknown, terms: tuple[tuple[Atom, int], ...], offset: int) -> Address:
    """The address of a sum; ``of``: the value as it is known otherwise."""
    key = terms, offset % _WRAP
    found = _KNOWN.get(key)
    if found is None:
        found = _KNOWN[key] = Address(of, *key)
    return found


def apart(a: Address, b: Address) -> bool | None:
    """Whether the tensor maps at two addresses are two; None where that is not known."""
    if a is b:
        return False
    if a.terms == b.terms:
        behind = (a.offset - b.offset) % _WRAP
        return True if MAP_BYTES <= behind <= _WRAP - MAP_BYTES else None
    if a.parameter is not None and b.parameter is not None and a.parameter != b.parameter:
        return True
    return None


# ---------------------------------------------------------------- for compiled code


def located(value: Any, terms: tuple[tuple[Atom, int], ...], offset: int, context: Any) -> Any:
    """A value of which the text says the sum. ``context``: of the class that computes it."""
    if value.__class__ is PerLane:
        return per_lane([located(v, terms, offset, context) for v in value.lanes])
    if not isinstance(value, Unknown) or value.source == "lane" or isinstance(context, Unknown):
        return value
    cta = context.first + context.cta
    own = tuple(((*a, cta) if _of_block(a) else a, k) for a, k in terms) if cta else terms
    return address(value, own, offset)


def moved(value: Any, a: Any, b: Any, sign: int) -> Any:
    """The value ``a + sign * b``, where one of them may be an ``Address`` and the other a number."""
    if any(x.__class__ is PerLane for x in (value, a, b)):
        rows = zip(*map(lanes_of, (value, a, b)), strict=True)
        return per_lane([moved(v, x, y, sign) for v, x, y in rows])
    if isinstance(a, Address) and b.__class__ is int:
        return address(a.plain, a.terms, a.offset + sign * b)
    if isinstance(b, Address) and a.__class__ is int and sign == 1:
        return address(b.plain, b.terms, b.offset + a)
    return value


def somewhere(value: Any, line: int) -> Any:
    """The address of a tensor map that an instruction takes from where no sum is known; what nobody wrote is
    no address."""
    if value.__class__ is PerLane:
        return per_lane([somewhere(v, line) for v in value.lanes])
    plain = isinstance(value, Unknown) and not isinstance(value, Address)
    plain = plain and value.source not in ("lane", UNWRITTEN)
    return address(value, ((("line", line), 1),), 0) if plain else value


def _of_block(atom: Atom) -> bool:
    """Whether blocks of a cluster may hold different values."""
    if atom[0] in _SAME_IN_CLUSTER or atom[0] in ("param", "line"):
        return False
    return len(atom) < 3 or any(_of_block(a) for x in atom[2:] for a, _ in x[0])


# ---------------------------------------------------------------- what the text says

#: Special registers that all threads of a block read alike; those that all of a cluster do.
_SAME_IN_BLOCK = (
    "%ctaid", "%nctaid", "%ntid", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid",
    "%cluster_ctarank", "%cluster_nctarank",
)  # fmt: skip
_SAME_IN_CLUSTER = frozenset(
    f"{x}{axis}" for x in ("%nctaid", "%ntid", "%clusterid", "%nclusterid", "%cluster_nctaid")
    for axis in ("", ".x", ".y", ".z")
) | {"%cluster_nctarank"}  # fmt: skip
#: Pure instructions whose result is a term: the same for the same operands.
_TERMS = frozenset(
    "add sub mul mad shl shr and or xor cvt min max div rem neg not bfe selp lop3 prmt".split()
)
_MOST_PARTS = 64


@dataclass(frozen=True, slots=True)
class MapAddress(Mem):
    """The operand of an instruction that names a tensor map by its address."""


class MapAddresses:
    """The registers that addresses of tensor maps are made of, and the sums that the text says.

    ``followed``: those whose values take an ``Address`` along; ``stored``: whether memory does.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._written: dict[str, list[int]] = {}
        self._sums: dict[int, Sum | None] = {}  # by the instruction that makes them
        self.followed: set[str] = set()
        self.stored = False
        named = [op for i in flow.body for op in map_operands(i)]
        if not named:
            return
        for k, i in enumerate(flow.body):
            for name in results(i):
                self._written.setdefault(name, []).append(k)
        work = [name for op in named for name in registers(op.base)]
        while work:
            name = work.pop()
            if name in self.followed:
                continue
            self.followed.add(name)
            for k in self._written.get(name, ()):
                i = flow.body[k]
                if i.op in ("mov", "add", "sub", "selp", "cvta"):
                    work += sources(i)
                self.stored |= i.op == "ld" and not {"param", "global", "const"} & {*i.mods}
        if self.stored:
            for k, i in enumerate(flow.body):
                for op in i.operands[1:] if i.op == "st" else ():
                    self.followed.update(n for n in registers(op) if self.sum(n, k) is not None)

    def sum(self, register: str, at: int) -> Sum | None:
        """What a register holds at an instruction, if all threads of a block find the same there, always."""
        k = self._writer(register, at)
        if k is None:
            return None
        if k not in self._sums:
            self._sums[k] = None  # of itself, in a loop: nothing is known
            self._sums[k] = self._of(self.flow.body[k], k)
        return self._sums[k]

    def _writer(self, register: str, at: int) -> int | None:
        """The one instruction whose value is read there, on all paths."""
        written = self._written.get(register, ())
        if len(written) == 1:
            return written[0] if self.flow.body[written[0]].guard is None else None
        body, blocks = self.flow.body, self.flow.blocks
        found: set[int] = set()
        seen: set[int] = set()
        work = [(self.flow.block_of[at], at)]
        while work:
            n, end = work.pop()
            last = next((k for k in reversed(range(blocks[n].lo, end)) if k in written), None)
            if last is not None:
                found.add(last)
                if body[last].guard is not None or len(found) > 1:
                    return None
            elif not blocks[n].pred:
                return None
            else:
                work += [(p, blocks[p].hi) for p in blocks[n].pred if p not in seen]
                seen.update(blocks[n].pred)
        return next(iter(found), None)

    def _of(self, i: Instr, at: int) -> Sum | None:
        if not isinstance(i.operands[0], Reg):
            return None
        bits = width(i.mods[-1]) if i.mods else 64
        if i.op == "ld":
            m = i.operands[1]
            base = m.base if isinstance(m, Mem) else None
            if "param" not in i.mods or not isinstance(base, Sym) or not isinstance(m, Mem):
                return None
            if not any(p.name == base.name for p in self.flow.function.params):
                return None
            return ((("param", base.name, base.offset + m.offset, bits), 1),), 0
        if i.op == "cvta":
            return self._operand(i.operands[1], at) if "global" in i.mods else None
        if i.op == "mov" and bits >= 32:
            return self._operand(i.operands[1], at)
        if i.op not in _TERMS or "cc" in i.mods:
            return None
        parts = [self._operand(op, at) for op in i.operands[1:]]
        known = [x for x in parts if x is not None]
        if len(known) < len(parts):
            return None
        if bits == 64 and (found := _linear(i, known)) is not None:
            return found
        if sum(len(x[0]) for x in known) > _MOST_PARTS:
            return None
        return (((i.op, i.mods, *known), 1),), 0

    def _operand(self, op: Operand, at: int) -> Sum | None:
        if isinstance(op, Imm):
            return (), op.value % _WRAP
        if isinstance(op, Special) and op.name.split(".")[0] in _SAME_IN_BLOCK:
            return (((op.name,), 1),), 0
        return self.sum(op.name, at) if isinstance(op, Reg) else None


def _linear(i: Instr, parts: list[Sum]) -> Sum | None:
    """The sum that a 64-bit instruction makes of sums."""
    match i.op:
        case "add":
            return _plus(parts[0], parts[1], 1)
        case "sub":
            return _plus(parts[0], parts[1], -1)
        case "shl" if not parts[1][0] and parts[1][1] < 64:
            return _plus(((), 0), parts[0], 1 << parts[1][1])
        case "mul" | "mad" if "lo" in i.mods:
            a, b = parts[:2]
            if a[0] and b[0]:
                return None
            product = _plus(((), 0), a, b[1]) if not b[0] else _plus(((), 0), b, a[1])
            return product if i.op == "mul" else _plus(product, parts[2], 1)
    return None


def _plus(a: Sum, b: Sum, factor: int) -> Sum:
    terms: dict[Atom, int] = dict(a[0])
    for atom, k in b[0]:
        terms[atom] = (terms.get(atom, 0) + factor * k) % _WRAP
    kept = sorted(((x, k) for x, k in terms.items() if k), key=repr)
    return tuple(kept), (a[1] + factor * b[1]) % _WRAP


def map_operands(i: Instr) -> list[Mem]:
    """The operands of an instruction that name a tensor map in global memory by its address."""
    if i.op == "tensormap" and i.operands and ("global" in i.mods or i.mods[:1] == ("cp_fenceproxy",)):
        at = [i.operands[0]]
    elif i.op == "fence" and i.mods[:2] == ("proxy", "tensormap::generic"):
        at = list(i.operands[:1])
    elif i.op == "cp" and "tensor" in i.mods:
        at = [op for op in i.operands if isinstance(op, Mem) and op.coords]
    else:
        return []
    return [op for op in at if isinstance(op, Mem)]


def indices(params: Mapping[str, int], found: Address) -> tuple[int, int] | None:
    """Index and offset of the parameter that an address is, without anything added."""
    if found.parameter is None or len(found.terms) > 1 or found.offset:
        return None
    return params[found.parameter[1]], found.parameter[2]


__all__ = ["Address", "MapAddress", "MapAddresses", "apart", "indices", "located", "moved", "somewhere"]
