"""What registers hold that are made of numbers of threads and blocks alone, for some of these numbers.

Which threads come to an instruction is known as far as such numbers decide. A comparison with anything else
may have either answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.use_def import behind
from syncverify.frontends.ptx.isa.accesses import computes, effects, touches
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Label, Mem, Not, Operand, Reg, Special, Sym
from syncverify.frontends.ptx.syntax.pure_operations import PLAIN, PURE
from syncverify.frontends.ptx.syntax.types import kind, width
from syncverify.frontends.ptx.values import arith
from syncverify.frontends.ptx.values.arith import PRMT_MODES

#: Threads, and blocks, whose numbers are looked at; beside these threads, the first of each warp and those
#: that comparisons name.
_THREADS, _BLOCKS, _LARGEST, _CONSTANTS = 34, 4, 1024, 8
_DEEPEST = 24
_OF_THREAD = ("%tid", "%laneid", "%warpid", "%lanemask")
_OF_BLOCK = ("%ctaid", "%cluster")
_NUMBERS = (*_OF_THREAD, *_OF_BLOCK, "%ntid", "%nctaid", "%ncluster")
#: Exchanges between lanes, and sums that carry: made of numbers where their operands are.
_EXCHANGES = frozenset("shfl vote match redux elect activemask addc subc madc".split())
_COMPARED = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
#: By special register, the number that a thread has.
Numbers = Mapping[str, int]


def _loads_the_same(i: Instr) -> bool:
    """Whether an instruction loads the same at equal addresses, in whatever block."""
    mine = {"shared", "local"}
    return effects(i) == {"memory read"} and all(t.space.partition("::")[0] not in mine for t in touches(i))


@dataclass(frozen=True)
class ThreadNumbers:
    """Registers of one function, by the numbers of the thread that executes it."""

    flow: Flow
    _reachable: dict[tuple[int, int], frozenset[int]] = field(default_factory=dict)
    _above: dict[int, frozenset[int]] = field(default_factory=dict)

    @cached_property
    def threads(self) -> list[Numbers]:
        """Threads of the first block."""
        given = self.flow.function.directives
        x, y, z = (*(given.get("reqntid") or given.get("maxntid") or (_LARGEST,)), 1, 1)[:3]
        sizes = {"%ntid.x": x, "%ntid.y": y, "%ntid.z": z, "%nctaid.x": _BLOCKS}
        constants = {
            op.value for k in self.flow.body if k.op == "setp" for op in k.operands if isinstance(op, Imm)
        }
        compared = {c + more for c in sorted(constants - {0})[:_CONSTANTS] for more in (-1, 0, 1)} - {0, 1}
        some = list(product(range(z), range(y), range(x)))
        return [
            {"%tid.x": i, "%tid.y": j, "%tid.z": n, "%laneid": at % 32, "%ctaid.x": 0, **sizes}
            for at, (n, j, i) in enumerate(some)
            if at < _THREADS or not at & 31 or at + 1 == len(some) or not compared.isdisjoint((i, j, n))
        ]

    def others(self, thread: Numbers) -> list[Numbers]:
        """The threads with the same number in other blocks, and that itself."""
        return [{**thread, "%ctaid.x": n} for n in range(_BLOCKS)]

    def made_of(self, v: int, *, of_block: bool) -> bool:
        """Whether a version may be another one in another thread, or block."""
        names = _OF_BLOCK if of_block else _OF_THREAD
        for x in behind(self.flow, [v]):
            k = self.flow.versions.writer[x]
            if k < 0:
                continue
            i = self.flow.body[k]
            special = any(_special(op).startswith(names) for op in i.operands)
            if special or i.op in _EXCHANGES or not (computes(i) or _loads_the_same(i)):
                return True
        return False

    def numbers_only(self, v: int) -> bool:
        """Whether a version is computed of such numbers, and of nothing else, by whatever path."""
        for x in behind(self.flow, [v]):
            k = self.flow.versions.writer[x]
            if k >= 0:
                if not _of_numbers(self.flow.body[k], PURE | _EXCHANGES):
                    return False
                continue
            merged = self.flow.versions.merged(x)
            if not merged or any(b < 0 for b, _ in merged):
                return False
        return True

    def alone(self, v: int) -> bool:
        """Whether a version is computed of such numbers, and of nothing else, with no choice of paths."""
        for x in behind(self.flow, [v]):
            k = self.flow.versions.writer[x]
            i = self.flow.body[k] if k >= 0 else None
            if i is None or i.guard is not None or not _of_numbers(i, PURE):
                return False
            if any(isinstance(op, Mem | Sym) for op in i.operands):
                return False
        return True

    def comes(self, k: int, numbers: Numbers) -> bool:
        """Whether a thread may come to an instruction."""
        guard = self.flow.body[k].guard
        if guard is not None and self._read(guard, k, numbers, 0) == int(self.flow.body[k].negated):
            return False
        here = self.flow.block_of[k]
        return not any(self.parts(b, here, taken=self.taken(b, numbers)) for b in self.above(here))

    def several_issue(self, k: int) -> bool:
        """Whether several threads of a block may come to an instruction that one is to execute: threads of
        two warps, or lanes of one between which nothing chooses but their numbers."""
        come = [n for n in self.threads if self.comes(k, n)]
        nx, ny = (come[0][f"%ntid.{a}"] for a in "xy") if come else (1, 1)
        warps = {(n["%tid.x"] + nx * (n["%tid.y"] + ny * n["%tid.z"])) // 32 for n in come}
        return len(warps) > 1 or (len(come) > 1 and not self._chosen(k, come[0]))

    def _chosen(self, k: int, numbers: Numbers) -> bool:
        """Whether anything but numbers decides who comes to an instruction, as ``elect`` does."""
        guard = self.flow.body[k].guard
        if guard is not None and self._read(guard, k, numbers, 0) is None:
            return True
        above = self.above(self.flow.block_of[k])
        ends = (self.flow.body[self.flow.blocks[b].hi - 1] for b in above)
        asked = (b for b, i in zip(above, ends, strict=True) if i.op == "bra" and i.guard is not None)
        return any(self.taken(b, numbers) is None for b in asked)

    def taken(self, b: int, numbers: Numbers) -> bool | None:
        """Whether a thread takes the branch at a block's end; None where its numbers do not tell."""
        k = self.flow.blocks[b].hi - 1
        i = self.flow.body[k]
        if i.op != "bra" or i.guard is None:
            return None
        found = self._read(i.guard, k, numbers, 0)
        return None if found is None else bool(found) != i.negated

    def parts(self, b: int, here: int, *, taken: bool | None) -> bool:
        """Whether the side of a branch that is taken, at the end of a block, does not lead to another."""
        if taken is None:
            return False
        target = self.target(b, taken=True)
        sides = [s for s in self.flow.blocks[b].succ if (s == target) == taken]
        return not any(here in self._from(s, b) for s in sides)

    def target(self, b: int, *, taken: bool) -> int:
        """The block that the branch at a block's end leads to."""
        k = self.flow.blocks[b].hi - 1
        label = self.flow.body[k].operands[0]
        at = label.target if taken and isinstance(label, Label) else k + 1
        return self.flow.block_of[at] if at < len(self.flow.body) else self.flow.end

    def _from(self, start: int, past: int) -> frozenset[int]:
        if (start, past) not in self._reachable:
            seen, work = set[int](), [start]
            while work:
                at = work.pop()
                if 0 <= at != self.flow.end and at not in seen and at != past:
                    seen.add(at)
                    work += self.flow.blocks[at].succ
            self._reachable[start, past] = frozenset(seen)
        return self._reachable[start, past]

    def above(self, block: int) -> frozenset[int]:
        """The blocks whose branches decide whether a block is executed for the first time."""
        if block not in self._above:
            found, work = set[int](), [block]
            while work:
                more = self._controllers[work.pop()] - found
                found |= more
                work += more
            self._above[block] = frozenset(b for b in found if not self.flow.dominates(block, b))
        return self._above[block]

    @cached_property
    def _controllers(self) -> list[set[int]]:
        return self.flow.controllers()

    def value(self, v: int, numbers: Numbers, depth: int = 0) -> int | None:
        """What a version holds; None where anything else goes into it."""
        k = self.flow.versions.writer[v]
        i = self.flow.body[k] if k >= 0 else None
        if i is None or i.guard is not None or depth > _DEEPEST or not i.mods:
            return None
        if not isinstance(i.operands[0], Reg) or not {"hi", "sat", "cc"}.isdisjoint(i.mods):
            return None
        read = [self._read(op, k, numbers, depth + 1) for op in i.operands[1:]]
        if i.mods[-1] == "pred":
            return logic(i, read)
        if None in read:
            return None
        made = computed(i, [x for x in read if x is not None])
        held = width(self.flow.function.registers.get(i.operands[0].name, "b64"))
        return None if made is None else made & (1 << held) - 1

    def _read(self, op: Operand, k: int, numbers: Numbers, depth: int) -> int | None:
        match op:
            case Imm(value):
                return value
            case Special(name):
                return numbers.get(name)
            case Not(reg):
                found = self._read(reg, k, numbers, depth)
                return None if found is None else 1 - found
            case Reg(name):
                return self.value(self.flow.versions.read(name, k), numbers, depth)
        return None


def _of_numbers(i: Instr, ops: Collection[str]) -> bool:
    """Whether an instruction is one of some, and no special register goes into it but the numbers."""
    named = [_special(op) for op in i.operands if _special(op)]
    return i.op in ops and all(x.startswith(_NUMBERS) for x in named)


def _special(op: Operand) -> str:
    return op.name if isinstance(op, Special) else ""


def logic(i: Instr, read: Sequence[int | None]) -> int | None:
    """Predicates of predicates: one of them may decide alone."""
    decides = {"and": 0, "or": 1}.get(i.op)
    if decides is not None and decides in read:
        return decides
    if None in read:
        return None
    a, *rest = (int(x or 0) for x in read)
    found = {"mov": a, "not": 1 - a, "and": 1, "or": 0, "xor": a ^ (rest or [0])[0]}
    return found.get(i.op)


def computed(i: Instr, read: Sequence[int]) -> int | None:
    """What an instruction makes of numbers; None where that is not known."""
    types = i.mods[-2:] if i.op == "cvt" else i.mods[-1:]
    if any(kind(m) not in ("u", "s", "b") for m in types):
        return None
    bits = width(i.mods[-1])
    if i.op in _BITWISE:
        return _BITWISE[i.op](i, [x & (1 << 64) - 1 for x in read])
    if i.op in ("shl", "shr"):
        read = [read[0], min(read[1] & (1 << 32) - 1, bits)]
        return _shifted(i, _as(read[0], i), read[1])
    if i.op not in ("setp", "cvta") and not PLAIN.issuperset(i.mods[: -len(types)]):
        return None
    a, b, c = (*(_as(x, i) for x in read), 0, 0)[:3]
    if "wide" in i.mods and i.op == "mad":
        c = read[2]
    if i.op == "setp":
        compare = _COMPARED.get({"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(i.mods[0], i.mods[0]))
        return None if compare is None or len(read) != 2 else int(compare(a, b))
    if i.op == "selp":
        return read[0] if read[2] else read[1]
    made = {
        "mov": a, "cvt": a, "cvta": a, "add": a + b, "sub": a - b, "mul": a * b, "mad": a * b + c,
        "and": a & b, "or": a | b, "xor": a ^ b, "not": ~a, "min": min(a, b), "max": max(a, b),
    }.get(i.op)  # fmt: skip
    if i.op in ("div", "rem") and a >= 0 < b:
        made = a // b if i.op == "div" else a % b
    if i.op == "bfe" and i.mods[-1][0] == "u":
        made = a >> min(b & 255, 64) & (1 << (c & 255)) - 1
    if made is None:
        return None
    if i.op == "cvt":
        return _in_type(made, i.mods[-2])
    return made & (1 << (2 * bits if "wide" in i.mods else bits)) - 1


def _shifted(i: Instr, a: int, by: int) -> int:
    return (a << by if i.op == "shl" else a >> by) & (1 << width(i.mods[-1])) - 1


def _in_type(x: int, type_: str) -> int:
    """A number cut to a type, whose sign fills the register that it is in."""
    bits = width(type_)
    x &= (1 << bits) - 1
    return x - (1 << bits) & (1 << 64) - 1 if kind(type_) == "s" and x >> bits - 1 else x


def _permuted(i: Instr, read: Sequence[int]) -> int | None:
    mode = next((PRMT_MODES.index(m) for m in i.mods if m in PRMT_MODES), -1)
    return int(arith.prmt(*(x & (1 << 32) - 1 for x in read), mode))


def _inserted(i: Instr, read: Sequence[int]) -> int | None:
    return int(arith.bfi(*read, width(i.mods[-1])))


def _of_three(i: Instr, read: Sequence[int]) -> int | None:
    return int(arith.lop3(*read, width(i.mods[-1]))) if len(read) == 4 else None


def _funnel(i: Instr, read: Sequence[int]) -> int | None:
    low, high, n = (x & (1 << 32) - 1 for x in read)
    return int(arith.shf(low, high, n, int("l" in i.mods), int("wrap" in i.mods)))


#: Instructions that move bits between registers.
_BITWISE = {"prmt": _permuted, "bfi": _inserted, "lop3": _of_three, "shf": _funnel}


def _as(x: int, i: Instr) -> int:
    """An operand in the type that an instruction reads."""
    bits = width(i.mods[-1])
    x &= (1 << bits) - 1
    return x - (1 << bits) if i.mods[-1][0] == "s" and x >> bits - 1 else x


__all__ = ["Numbers", "ThreadNumbers", "computed", "logic"]
