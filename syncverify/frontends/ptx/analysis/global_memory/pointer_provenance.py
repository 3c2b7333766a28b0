"""Which parameters addresses in global memory come from."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from syncverify.frontends.ptx.analysis.arrays.shared_pointers import parameter_pointers
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import computes, from_outside
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Mem, Not, Operand, Reg, Sym, Vector
from syncverify.frontends.ptx.syntax.operands import computed_from, registers, results, sources

ANYWHERE = "*"
#: What no pointer is made of.
_NO_POINTER = frozenset({"setp", "set", "popc", "clz", "bfind", "vote", "match"})
#: The lowest bits of an address, below this, tell nothing of where it leads.
_LOW_BITS = 1 << 12
#: What adds an index to a pointer.
_SUMS = frozenset({"add", "sub", "mad"})


class Origins:
    """Which parameters and variables an address may be computed from; ``*``: from what is in memory.

    ``fine``: places inside a parameter count apart where they are loaded by their offset; ``numbers``: those
    that no address is made of.
    """

    def __init__(self, flow: Flow, fine: bool, numbers: frozenset[str] = frozenset()) -> None:
        types = flow.function.registers
        self.known: dict[str, set[str]] = {}
        self._apart = _without_pointer(flow)
        users: dict[str, list[str]] = {}
        places = parameter_pointers(flow.function) if fine else {}
        halves = _halves(flow.function)
        for i in flow.body:
            for name in results(i):
                if types.get(name, "").endswith("64"):
                    for x in (*_inputs(i, fine, places), *_of_halves(i, halves)):
                        if isinstance(x, Reg):
                            users.setdefault(x.name, []).append(name)
                        elif x not in numbers:
                            self.known.setdefault(name, set()).add(x)
        self._follow(users, list(self.known))
        words = _Words(flow, self.known, {x for at in _bases(flow) for x in self.of(at)} - {ANYWHERE})
        while more := words.step():
            for name, found in more.items():
                self.known.setdefault(name, set()).update(found)
            self._follow(users, list(more))

    def _follow(self, users: Mapping[str, Sequence[str]], work: list[str]) -> None:
        """Hands what registers come from on to what is made of them."""
        while work:
            name = work.pop()
            for user in users.get(name, ()):
                found = self.known.setdefault(user, set())
                if not self.known[name] <= found:
                    found |= self.known[name]
                    work.append(user)

    def of(self, op: Operand) -> frozenset[str]:
        base = op.base if isinstance(op, Mem) else op
        if isinstance(base, Sym):
            return frozenset({base.name})
        found = frozenset(self.known.get(base.name, ())) if isinstance(base, Reg) else frozenset()
        lost = found and isinstance(base, Reg) and base.name in self._apart
        return found | {ANYWHERE} if lost else found


@dataclass
class _Words:
    """What words come from that pointers are taken apart into, and hand on where they are put together again.

    Words count that are made of parameters which addresses are made of (``bases``). What is loaded is
    followed from the upper half of 64 bits on: else it is an index. The lowest bits of a pointer tell none.
    """

    flow: Flow
    whole: Mapping[str, set[str]]
    bases: set[str]
    held: dict[str, set[str]] = field(default_factory=dict)

    def step(self) -> dict[str, set[str]]:
        """What wide registers come from beside what is known of them."""
        more: dict[str, set[str]] = {}
        grown = True
        while grown:
            grown = False
            for i in self._instructions:
                found = _half_of_parameter(i) & self.bases if from_outside(i) else self._read(i)
                if not found and self._puts_loaded_half(i):
                    found = {ANYWHERE}
                for name in results(i) if found else ():
                    if self._is_wide(name) and from_outside(i):
                        continue
                    known = self.whole.get(name, set()) | more.get(name, set())
                    if not self._is_wide(name):
                        known = self.held.setdefault(name, set())
                        grown |= not found <= known
                        known |= found
                    elif not found <= known:
                        more.setdefault(name, set()).update(found)
        return more

    def _puts_loaded_half(self, i: Instr) -> bool:
        """Whether an instruction makes an upper half of a loaded word, and not to extend its sign."""
        if i.op != "shl" or _number(i.operands[2]) < 32 or self._loaded.isdisjoint(sources(i)):
            return False
        made = set(results(i))
        return any(j.op not in ("shl", "shr") and not made.isdisjoint(sources(j)) for j in self.flow.body)

    @cached_property
    def _loaded(self) -> frozenset[str]:
        """Registers that loaded words of 32 bits and less go into."""
        body = self.flow.body
        loads = (i for i in body if from_outside(i) and "param" not in i.mods)
        words = {n for i in loads for n in results(i) if not self._is_wide(n)}
        return computed_from(words, [i for i in body if not from_outside(i)]) if self._shifts else frozenset()

    @cached_property
    def _shifts(self) -> bool:
        return any(i.op == "shl" and _number(i.operands[2]) >= 32 for i in self.flow.body)

    @cached_property
    def _instructions(self) -> list[Instr]:
        apart = (i for i in self.flow.body if not from_outside(i) or _half_of_parameter(i) & self.bases)
        return [i for i in apart if i.op not in _NO_POINTER and not _keeps_low_bits(i)]

    def _read(self, i: Instr) -> set[str]:
        found: set[str] = set()
        wide = any(map(self._is_wide, results(i)))
        for name in sources(i):
            if not self._is_wide(name):
                found |= self.held.get(name, set())
            elif not wide and name not in self._low:
                of = self.whole.get(name, set())
                upper = name in self._upper or isinstance(i.operands[0], Vector)
                found |= of & self.bases | (of & {ANYWHERE} if upper else set())
        return found

    def _is_wide(self, name: str) -> bool:
        return self.flow.function.registers.get(name, "").endswith("64")

    @cached_property
    def _upper(self) -> set[str]:
        """Registers that hold an upper half."""
        shifts = (i for i in self.flow.body if i.op == "shr" and isinstance(i.operands[2], Imm))
        return {n for i in shifts if _number(i.operands[2]) >= 32 for n in results(i)}

    @cached_property
    def _low(self) -> set[str]:
        """Registers that hold the lowest bits of a number alone."""
        low, others = set[str](), set[str]()
        for i in self.flow.body:
            (low if _keeps_low_bits(i) else others).update(results(i))
        return low - others


def _bases(flow: Flow) -> Iterator[Mem]:
    ops = (op for i in flow.body for op in i.operands if isinstance(op, Mem))
    return (op for op in ops if isinstance(op.base, Reg))


def _number(op: Operand) -> int:
    return op.value if isinstance(op, Imm) else -1


def _keeps_low_bits(i: Instr) -> bool:
    return i.op in ("and", "rem") and any(0 <= _number(op) < _LOW_BITS for op in i.operands[1:])


def _half_of_parameter(i: Instr) -> set[str]:
    """The eight bytes of a parameter that a word is loaded from."""
    m = i.operands[1] if i.op == "ld" and "param" in i.mods else None
    if not isinstance(m, Mem) or not isinstance(m.base, Sym):
        return set()
    at = m.base.offset + m.offset
    return {m.base.name, f"{m.base.name}+{at - at % 8}"}


def _without_pointer(flow: Flow) -> frozenset[str]:
    """Registers one of whose definitions is made of no pointer as far as is seen: words, numbers of threads.

    Where another definition is a pointer, the first may be one as well, put together of words. An index that
    is added to a pointer and overwritten then (``mul.wide %rd1, %r1, 4; add.u64 %rd1, %rd0, %rd1;``) is none.
    """
    types = flow.function.registers
    found = {name for name, type_ in types.items() if not type_.endswith("64")}
    made: list[tuple[int, list[str], list[str]]] = []  # wide registers, and what they are computed from
    uses: dict[str, list[int]] = {}  # by register, where it is read or written
    for k, i in enumerate(flow.body):
        for name in {*sources(i), *results(i)}:
            uses.setdefault(name, []).append(k)
        of = [n for op in i.operands[1:] if not isinstance(op, Vector) for n in registers(op)]
        wide = [name for name in results(i) if name not in found]
        if of and wide and not from_outside(i):
            made.append((k, wide, of))
    grown = -1
    while grown != len(found):
        grown = len(found)
        for k, wide, of in made:
            if found.issuperset(of):
                found.update(x for x in wide if x not in found and not _is_index(flow, k, x, uses[x], found))
    return frozenset(found)


def _is_index(flow: Flow, k: int, name: str, uses: Sequence[int], found: set[str]) -> bool:
    """Whether what an instruction makes is only scaled, or added to registers that are not ``found``, on
    every path until it is overwritten. ``uses``: where the register is read or written."""
    work, seen = [k + 1], {k + 1}
    while work:
        at = work.pop()
        if at == len(flow.body):
            continue
        block = flow.blocks[flow.block_of[at]]
        n = bisect_left(uses, at)
        at = uses[n] if n < len(uses) and uses[n] < block.hi else block.hi - 1
        i = flow.body[at]
        read, over = sources(i), name in results(i) and i.guard is None
        if name in read:
            bases = {n for op in i.operands if isinstance(op, Mem) for n in registers(op)}
            scaled = all(n == name or n in found for n in read)
            if name in bases or (not over if scaled else i.op not in _SUMS):
                return False
            over = over and not scaled
        last = at + 1 == block.hi
        following = [flow.blocks[b].lo for b in block.succ if b < flow.end] if last else [at + 1]
        fresh = [] if over else [x for x in following if x not in seen]
        work += fresh
        seen.update(fresh)
    return True


def _halves(function: Function) -> dict[str, list[Operand]]:
    """By register what it is a part of, by each instruction that writes it; a number: of anything."""
    found: dict[str, list[Operand]] = {}
    for i in function.body:
        apart = i.op == "mov" and isinstance(i.operands[0], Vector)
        for name in results(i):
            found.setdefault(name, []).append(i.operands[1] if apart else Imm(0))
    return found


def _of_halves(i: Instr, halves: Mapping[str, list[Operand]]) -> list[Reg | str]:
    """What a register that is put together of parts is computed from."""
    if i.op != "mov" or not isinstance(i.operands[1], Vector):
        return []
    whole = [x for op in i.operands[1].items if isinstance(op, Reg) for x in halves.get(op.name, ())]
    return [x if isinstance(x, Reg) else ANYWHERE for x in whole]


def _inputs(i: Instr, fine: bool, places: Mapping[str, Sym]) -> list[Reg | str]:
    """What an instruction's result is computed from: registers, and names of variables and parameters."""
    if i.op in ("ld", "ldu"):
        m = i.operands[1]
        if "param" not in i.mods or not isinstance(m, Mem):
            return [ANYWHERE]
        base = places.get(m.base.name) if isinstance(m.base, Reg) else m.base
        if fine and isinstance(base, Sym):
            return [f"{base.name}+{base.offset + m.offset}"]
        if fine:
            return [ANYWHERE]  # at a place that is not known
        operands: Sequence[Operand] = (m.base,)
    elif not computes(i):
        return [ANYWHERE]
    else:
        operands = [o.reg if isinstance(o, Not) else o for o in i.operands[1:]]
    return [o if isinstance(o, Reg) else o.name for o in operands if isinstance(o, Reg | Sym)]
