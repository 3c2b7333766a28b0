"""What registers hold in the turns of loops: sums of how many turns were begun, and of what is open.

Example: after ``mov r, 0; L: mul.wide.u32 d, r, 256; add.u64 a, b, d; add r, r, 1; @p bra L`` the form
of ``a`` in the loop is ``b + 256 * turn``. A loaded word is open: another one in each turn, if its address
moves. There is no form where the text may bring back what was there before, as masks, remainders and choices
do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce

from syncverify.frontends.ptx.analysis.global_memory.global_uses import used_in_global
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.graph import jumps_back
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Reg, Special, Sym
from syncverify.frontends.ptx.syntax.operands import repeats
from syncverify.frontends.ptx.syntax.types import kind, width

_WORD = 64


class Varies(Enum):
    """How a part of a sum varies between turns."""

    FIXED = "fixed"  # the same whenever a thread reads it
    OPEN = "open"  # what memory, other threads, or a parameter say: another one in each turn, if they wish
    TURN = "turn"  # how many turns of a loop came before
    SELF = "self"  # a merge whose form is being made


@dataclass(frozen=True, slots=True)
class Summand:
    """``of``: a version, a name, or the head of a loop; ``block``: where it is made, -1 for nowhere."""

    what: Varies
    of: int | str
    block: int = -1


@dataclass(frozen=True, slots=True)
class Share:
    """``times``: the factor; ``bits``: of so many bits the values are that it takes, at most."""

    times: int
    bits: int = _WORD


@dataclass(frozen=True, slots=True)
class TurnForm:
    """A sum of a number and parts."""

    number: int
    parts: Mapping[Summand, Share] = field(default_factory=dict)

    def plus(self, other: TurnForm, times: int = 1) -> TurnForm:
        found = dict(self.parts)
        for atom, part in other.parts.items():
            had = found.get(atom, Share(0))
            found[atom] = Share(had.times + times * part.times, min(had.bits, part.bits))
        return TurnForm(self.number + times * other.number, found)

    def times(self, by: int) -> TurnForm:
        return TurnForm(0).plus(self, by)

    def within(self, bits: int) -> TurnForm:
        """The same as a number of so many bits, if it does not wrap."""
        parts = {a: p for a, x in self.parts.items() if (p := _within(x, bits)).times}
        return TurnForm(_signed(self.number, bits), parts)

    def some(self, *what: Varies) -> bool:
        return any(a.what in what for a in self.parts)


def _signed(n: int, bits: int) -> int:
    n &= (1 << bits) - 1
    return n - (1 << bits) if n >> (bits - 1) else n


def _within(part: Share, bits: int) -> Share:
    times = _signed(part.times, bits)
    even = (times & -times).bit_length() - 1 if times else 0
    return Share(times, max(0, min(part.bits, bits - even)))


#: Loads of words that others may change.
_BY_OTHERS = frozenset("volatile relaxed acquire mmio local".split())


class TurnForms:
    """The forms of a function's registers; ``through``: by a block outside of loops, where a thread comes to
    it from."""

    def __init__(self, flow: Flow, through: Mapping[int, int] | None = None) -> None:
        self.flow, self._through = flow, through or {}
        loops: dict[int, frozenset[int]] = {}
        for head, body in jumps_back(flow.blocks, flow.idom):
            loops[head] = loops.get(head, frozenset()) | body
        #: by its head, the blocks of a loop
        self.loops = loops
        self._known: dict[tuple[int, frozenset[int]], TurnForm | None] = {}
        self._open: frozenset[int] = frozenset()  # merges whose forms are being made
        self._asked: set[int] = set()

    def place(self, op: Operand, k: int) -> TurnForm | None:
        """The form of an address that an instruction names."""
        base = self._operand(op.base, k) if isinstance(op, Mem) else None
        return base.plus(TurnForm(op.offset)) if base is not None and isinstance(op, Mem) else None

    def turns(self, head: int) -> int | None:
        """How many turns a loop has at most, where one counter and a constant say so."""
        back = [b for b in self.loops[head] if head in self.flow.blocks[b].succ]
        k = self.flow.blocks[back[0]].hi - 1
        guard = self.flow.body[k].guard
        if len(back) != 1 or guard is None or self.flow.body[k].negated:
            return None
        at = self.flow.versions.writer[self.flow.versions.read(guard.name, k)]
        i = self.flow.body[at] if at >= 0 else None
        if i is None or i.op != "setp" or i.guard is not None or len(i.mods) != 2 or i.mods[0] != "lt":
            return None
        _, counter, end = i.operands
        found = self._operand(counter, at)
        if found is None or not isinstance(end, Imm) or len(found.parts) != 1 or kind(i.mods[1]) not in "us":
            return None
        ((atom, part),) = found.parts.items()
        if atom != Summand(Varies.TURN, head, head) or part.times <= 0 or found.number < 0:
            return None
        return max(1, 1 - (found.number - end.value) // part.times)

    # ------------------------------------------------------------

    def _operand(self, op: Operand, k: int) -> TurnForm | None:
        match op:
            case Imm(int(n)):
                return TurnForm(n)
            case Sym(name, offset):
                return TurnForm(offset, {Summand(Varies.FIXED, name): Share(1)})
            case Special(name):
                return TurnForm(0, {Summand(Varies.FIXED, name): Share(1)})
            case Reg(name):
                return self._version(self.flow.versions.read(name, k))
        return None

    def _version(self, v: int) -> TurnForm | None:
        key = v, self._open
        if key not in self._known:
            if v in self._asked:
                return None  # made of itself, not in a loop with one head
            self._asked.add(v)
            k = self.flow.versions.writer[v]
            self._known[key] = self._merged(v) if k < 0 else self._written(v, k)
            self._asked.discard(v)
        return self._known[key]

    def _merged(self, v: int) -> TurnForm | None:
        versions, head = self.flow.versions, self.flow.versions.block[v]
        if versions.is_unset(v):
            return None
        if v in self._open:
            return TurnForm(0, {Summand(Varies.SELF, v): Share(1)})
        ways = versions.merged(v)
        if head in self._through:
            ways = [(b, w) for b, w in ways if b == self._through[head]]
        loop = self.loops.get(head, frozenset())
        first = _either([self._version(w) for b, w in ways if b not in loop])
        back = [w for b, w in ways if b in loop]
        if not back or first is None:
            return first
        step = self._step(v, back)
        if step is None or not step.some(Varies.OPEN, Varies.FIXED, Varies.TURN):
            turn = Summand(Varies.TURN, head, head)
            return (
                None
                if step is None
                else first.plus(TurnForm(0, {turn: Share(step.number)} if step.number else {}))
            )
        ways_on = {x > 0 for x in (step.number, *(p.times for p in step.parts.values()))}
        if step.some(Varies.TURN) and (len(ways_on) > 1 or not step.number):
            return None  # else the turns of a loop inside move on in one direction
        return TurnForm(0, {Summand(Varies.OPEN, v, head): Share(1)})

    def _step(self, v: int, back: Iterable[int]) -> TurnForm | None:
        """What each turn adds to a merge, or an open form that each turn puts there."""
        before, asked = self._open, self._asked
        self._open, self._asked = before | {v}, set()
        try:
            found = _either([self._version(w) for w in back])
        finally:
            self._open, self._asked = before, asked
        if found is None:
            return None
        own = found.parts.get(Summand(Varies.SELF, v))
        if own is None:
            return found if found.some(Varies.OPEN) and not found.some(Varies.SELF) else None
        rest = {a: p for a, p in found.parts.items() if a != Summand(Varies.SELF, v)}
        whole = own.times == 1 and not any(a.what is Varies.SELF for a in rest)
        return TurnForm(found.number, rest) if whole else None

    def _written(self, v: int, k: int) -> TurnForm | None:
        i, versions = self.flow.body[k], self.flow.versions
        found = self._made(v, i, k)
        if i.guard is None:
            return found
        return _either([found, self._version(versions.read(versions.name[v], k))])

    def _made(self, v: int, i: Instr, k: int) -> TurnForm | None:
        """What an instruction puts into a version, whatever its guard."""
        if i.op == "ld":
            return self._atom(Varies.FIXED, v, i) if "param" in i.mods else self._loaded(v, i, k)
        found = [self._operand(op, k) for op in i.operands[1:]]
        if i.op == "shfl":
            return found[0]  # all lanes go through the same turns
        if not repeats(i):
            return self._atom(Varies.OPEN, v, i)
        if any(x is None for x in found) and i.op not in ("setp", "selp"):
            return None
        linear = _linear(i, found)
        if linear is not None:
            return linear
        if i.op in ("mul", "mad") and "hi" not in i.mods:
            return self._scaled(v, i, found)
        forms = [x for x in found if x is not None]
        if len(forms) == len(found) and not any(x.some(Varies.OPEN, Varies.TURN, Varies.SELF) for x in forms):
            return self._atom(Varies.FIXED, v, i)
        return _either(found[:2]) if i.op == "selp" else self._of_open(v, i, found)

    def _scaled(self, v: int, i: Instr, found: list[TurnForm | None]) -> TurnForm | None:
        """A number of turns times what a parameter or the launch says, which is another one in each turn, if
        these wish: ``turn * %nctaid.x``."""
        a, b, *more = found
        if a is None or b is None or None in more:
            return None
        turns, factor = (a, b) if a.some(Varies.TURN, Varies.OPEN) else (b, a)
        fixed = factor.some(Varies.FIXED) and not factor.some(Varies.OPEN, Varies.TURN, Varies.SELF)
        if turns.some(Varies.SELF) or not fixed:
            return None
        what = Varies.OPEN if turns.some(Varies.TURN, Varies.OPEN) else Varies.FIXED
        return reduce(TurnForm.plus, (x for x in more if x is not None), self._atom(what, v, i))

    def _of_open(self, v: int, i: Instr, found: list[TurnForm | None]) -> TurnForm | None:
        """What is made of open words, and may be as many different ones; else there is no form."""
        a, b = (*found, None, None)[:2]
        if a is None or b is None or len(found) != 2 or i.op not in ("and", "shr", "rem", "div"):
            return None
        if (
            i.op in ("rem", "div")
            and b.some(Varies.FIXED)
            and not b.some(Varies.OPEN, Varies.TURN, Varies.SELF)
        ):
            return None if a.some(Varies.SELF) else self._atom(Varies.OPEN, v, i)  # by what a parameter says
        if a.some(Varies.TURN, Varies.SELF) or b.parts or not a.some(Varies.OPEN):
            return None
        held = max(p.bits for x, p in a.parts.items() if x.what is Varies.OPEN)
        if i.op == "and":
            left = (b.number & ((1 << held) - 1)).bit_count()
        elif i.op == "shr":
            left = held - b.number
        else:
            left = (
                min(held, abs(b.number).bit_length() - 1) if i.op == "rem" else held - b.number.bit_length()
            )
        return self._atom(Varies.OPEN, v, i, max(left, 0))

    def _loaded(self, v: int, i: Instr, k: int) -> TurnForm | None:
        """A word of memory: the same in each turn, if its address is and nothing writes there."""
        (place,) = (op for op in i.operands if isinstance(op, Mem))
        at = self.place(place, k)
        if "shared" in "".join(i.mods) or _BY_OTHERS.intersection(i.mods):
            return self._atom(Varies.OPEN, v, i)
        if at is None or at.some(Varies.SELF):
            return None
        moves = at.some(Varies.OPEN, Varies.TURN) or self._may_change(self.flow.block_of[k])
        return self._atom(Varies.OPEN if moves else Varies.FIXED, v, i)

    def _may_change(self, block: int) -> bool:
        """Whether a loop around a block writes global memory otherwise than by bulk copies."""
        inside = (b for loop in self.loops.values() if block in loop for b in loop)
        some = (
            self.flow.body[k] for b in inside for k in range(self.flow.blocks[b].lo, self.flow.blocks[b].hi)
        )
        return any(x is not None and x[0] != "reads" for x in map(used_in_global, some))

    def _atom(self, what: Varies, v: int, i: Instr, bits: int = _WORD) -> TurnForm:
        held = min(bits, width(i.mods[-1])) if i.mods else bits
        return TurnForm(0, {Summand(what, v, self.flow.versions.block[v]): Share(1, held)})


def _linear(i: Instr, found: list[TurnForm | None]) -> TurnForm | None:
    """The form of an instruction that computes a sum, or a product with a number."""
    forms = [x for x in found if x is not None]
    if len(forms) != len(found) or not i.mods or "sat" in i.mods or kind(i.mods[-1]) not in ("u", "s", "b"):
        return None
    bits = width(i.mods[-1])
    made = bits * 2 if "wide" in i.mods else bits
    match i.op, forms:
        case "mov" | "cvta", [a]:
            return a
        case "cvt", [a] if kind(i.mods[-2]) in ("u", "s", "b"):
            return a.within(bits).within(width(i.mods[-2]))
        case "add", [a, b]:
            return a.plus(b).within(bits)
        case "sub", [a, b]:
            return a.plus(b, -1).within(bits)
        case "shl", [a, TurnForm(number=n, parts={}) as b] if not b.parts:
            return a.times(1 << n).within(bits) if 0 <= n < bits else TurnForm(0)
        case "and", _ if any(not x.parts and not x.number for x in forms):
            return TurnForm(0)
        case "mul" | "mad", [a, b, *more] if "hi" not in i.mods and "24" not in "".join(i.mods):
            product = _product(a.within(bits), b.within(bits))
            return None if product is None else reduce(TurnForm.plus, more, product).within(made)
    return None


def _product(a: TurnForm, b: TurnForm) -> TurnForm | None:
    if a.parts and b.parts:
        return None
    return a.times(b.number) if not b.parts else b.times(a.number)


def _either(found: list[TurnForm | None]) -> TurnForm | None:
    """One form for several ways: they have the same, or all are open."""
    some = [x for x in found if x is not None]
    if not some or len(some) != len(found):
        return None
    if all(x == some[0] for x in some):
        return some[0]
    return some[0] if all(x.some(Varies.OPEN) and not x.some(Varies.SELF) for x in some) else None


__all__ = ["Summand", "TurnForm", "Share", "TurnForms", "Varies"]
