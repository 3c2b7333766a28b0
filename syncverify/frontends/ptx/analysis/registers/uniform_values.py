"""Values that all threads compute alike, whenever they do: of memory that nobody writes, at fixed places.

Compilers branch on such values, around code that has events. A comparison of them has one answer for a whole
launch, and both can be tried. A value is known by its expression, so that copies of code ask the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import FloatImm, Imm, Instr, Mem, Not, Operand, Reg, Sym, Vector
from syncverify.frontends.ptx.syntax.operands import results
from syncverify.frontends.ptx.syntax.pure_operations import COMPARED
from syncverify.frontends.ptx.syntax.types import kind, width

#: What the assembler looks through where it makes one instruction of a product and a sum.
_PASSES = frozenset("abs copysign max min mov neg selp".split())
_ROUNDED = frozenset("rn rz rm rp rni rzi rmi rpi".split())
#: Comparisons by the one that holds where they do not.
_OPPOSITE = {"ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt", "neu": "eq", "ne": "equ", "nan": "num"}
_OF_INTEGERS = {"ne": "eq", "gt": "le", "ge": "lt", "hi": "ls", "hs": "lo"}
#: An expression: an operation and what it is applied to; a number; a place in memory.
Expression = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Common:
    """A register's value: its expression, and of a predicate whether it is negated. ``load``: the first
    instruction that brings what it is made of."""

    key: Expression
    negated: bool
    predicate: bool
    load: int


@dataclass(slots=True)
class _Values:
    """``loads``: of memory that nobody writes."""

    flow: Flow
    loads: Collection[int]
    makers: dict[str, int] = field(default_factory=dict)  # of registers that one instruction writes
    found: dict[str, Common | None] = field(default_factory=dict)
    numbers: dict[Expression, int] = field(default_factory=dict)  # shared parts are named by a number
    unrounded: set[Expression] = field(default_factory=set)  # products that may become part of a sum
    first: dict[Expression, int] = field(default_factory=dict)  # the first load from a place

    def __post_init__(self) -> None:
        several: set[str] = set()
        for k, i in enumerate(self.flow.body):
            for name in results(i):
                if name in self.makers:
                    several.add(name)
                self.makers[name] = k
        for name in several:
            del self.makers[name]

    def of(self, name: str) -> Common | None:
        """What is known of a register; makers come first, however long the chain is."""
        work = [name]
        while work:
            at = work[-1]
            if at in self.found:
                work.pop()
                continue
            needs = [x for x in self._needs(at) if x not in self.found]
            if needs and len(work) <= len(self.makers):
                work += needs
                continue
            work.pop()
            self.found[at] = None  # also of what is made of itself
            self.found[at] = self._made(at)
        return self.found[name]

    def _plain(self, name: str) -> Instr | None:
        k = self.makers.get(name)
        if k is None or self.flow.block_of[k] not in self.flow.reached:
            return None
        i = self.flow.body[k]
        return i if i.guard is None else None

    def _needs(self, name: str) -> list[str]:
        i = self._plain(name)
        if i is None or i.op not in COMPARED:
            return []
        regs = (o.reg if isinstance(o, Not) else o for o in i.operands[1:])
        return [o.name for o in regs if isinstance(o, Reg)]

    def _made(self, name: str) -> Common | None:
        i = self._plain(name)
        if i is None:
            return None
        k = self.makers[name]
        if i.op == "ld":
            return self._loaded(i, name, k) if k in self.loads else None
        if i.op not in COMPARED or i.operands[0] != Reg(name) or "cc" in i.mods:
            return None
        operands = [self._operand(o) for o in i.operands[1:]]
        if any(x is None for x, _, _ in operands):
            return None
        load = max(at for _, _, at in operands)
        if load < 0:
            return None  # a number
        return self._computed(i, [x for x, _, _ in operands], [n for _, n, _ in operands], load)

    def _computed(self, i: Instr, parts: list[Any], negated: list[bool], load: int) -> Common | None:
        if i.op == "not" and i.mods[-1] == "pred":
            return Common(parts[0], not negated[0], True, load)
        test, flipped = _compared(i)
        mods = (test, *i.mods[1:]) if i.op == "setp" else i.mods
        given = [self._number((x, n)) if n else self._number(x) for x, n in zip(parts, negated, strict=True)]
        key = (i.op, mods, *given)
        if not self._same_everywhere(i, key, parts):
            return None
        predicate = i.mods[-1] == "pred" or i.op in ("setp", "testp")
        return Common(key, flipped, predicate, load)

    def _same_everywhere(self, i: Instr, key: Expression, parts: list[Any]) -> bool:
        """Whether no sum may be one instruction with a product in one place, and not in another."""
        floats = kind(i.mods[-1]) == "f" or i.mods[-1].startswith("bf")
        free = floats and i.op in ("add", "sub", "mul", "mad") and _ROUNDED.isdisjoint(i.mods)
        rounds_freely = any(isinstance(x, tuple) and x in self.unrounded for x in parts)
        if free and (i.op == "mad" or (i.op != "mul" and rounds_freely)):
            return False
        if (free and i.op == "mul") or (rounds_freely and i.op in _PASSES):
            self.unrounded.add(key)
        return True

    def _number(self, part: Any) -> Any:
        return self.numbers.setdefault(part, len(self.numbers)) if isinstance(part, tuple) else part

    def _operand(self, op: Operand) -> tuple[Any, bool, int]:
        """Its expression (None: there is none), whether it is negated, and a load that it comes from."""
        match op:
            case Imm(value):
                return ("number", value), False, -1
            case FloatImm(bits, size):
                return ("number", bits, size), False, -1
            case Not(Reg(name)):
                found = self.found.get(name)
                return (None, False, -1) if found is None else (found.key, not found.negated, found.load)
            case Reg(name):
                found = self.found.get(name)
                if found is None:
                    number = self._constant(name)
                    return number, False, -1
                return found.key, found.negated, found.load
        return None, False, -1

    def _constant(self, name: str) -> Any:
        """A number that one ``mov`` puts into a register."""
        i = self._plain(name)
        if i is None or i.op != "mov" or not isinstance(i.operands[1], Imm | FloatImm):
            return None
        return self._operand(i.operands[1])[0]

    def _loaded(self, i: Instr, name: str, k: int) -> Common | None:
        m = i.operands[1]
        place = self._place(m.base) if isinstance(m, Mem) else None
        if place is None:
            return None
        items = i.operands[0].items if isinstance(i.operands[0], Vector) else (i.operands[0],)
        at = next((n for n, x in enumerate(items) if x == Reg(name)), None)
        if at is None:
            return None
        assert isinstance(m, Mem)
        type_ = i.mods[-1]
        where = place[1] + m.offset + at * width(type_) // 8
        key = ("memory", place[0], where, type_)
        return Common(key, False, False, self.first.setdefault(key, k))

    def _place(self, op: Operand) -> tuple[str, int] | None:
        """The parameter that holds a pointer, and the bytes from where it points to."""
        offset = 0
        while isinstance(op, Reg):
            i = self._plain(op.name)
            if i is None:
                return None
            of = i.operands[1] if len(i.operands) > 1 else None
            if i.op == "ld" and "param" in i.mods and isinstance(of, Mem) and isinstance(of.base, Sym):
                whole = any(p.name == of.base.name for p in self.flow.function.params)
                return (f"{of.base.name}+{of.base.offset + of.offset}", offset) if whole else None
            if i.op == "add" and len(i.operands) == 3 and isinstance(i.operands[2], Imm):
                offset += i.operands[2].value
            elif i.op not in ("mov", "cvta"):
                return None
            assert of is not None
            op = of
        return None


def _compared(i: Instr) -> tuple[str, bool]:
    """A comparison as one of those that represent others, and whether it is the opposite of that."""
    test = i.mods[0] if i.mods else ""
    if i.op != "setp" or len(i.operands) > 3:
        return test, False
    floats = kind(i.mods[-1]) == "f" or i.mods[-1].startswith("bf")
    table = _OPPOSITE if floats else _OF_INTEGERS
    return table.get(test, test), test in table


def common_values(flow: Flow, loads: Collection[int]) -> Mapping[tuple[int, str], Common]:
    """By instruction and register written, the values that are the same for all threads at any time."""
    if not loads:
        return {}
    values = _Values(flow, loads)
    found = {(k, name): values.of(name) for name, k in values.makers.items()}
    return {where: x for where, x in found.items() if x is not None}


__all__ = ["Common", "common_values"]
