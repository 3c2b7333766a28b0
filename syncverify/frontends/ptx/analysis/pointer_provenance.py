"""Which parameters addresses in global memory come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from syncverify.frontends.ptx.analysis.shared_pointers import parameter_pointers
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Mem, Not, Operand, Reg, Sym, Vector
from syncverify.frontends.ptx.syntax.operands import registers, results, sources

ANYWHERE = "*"
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
        work = list(self.known)
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


def _without_pointer(flow: Flow) -> frozenset[str]:
    """Registers one of whose definitions is made of no pointer as far as is seen: words, numbers of threads.

    Where another definition is a pointer, the first may be one as well, put together of words. An index that
    is added to a pointer and overwritten then (``mul.wide %rd1, %r1, 4; add.u64 %rd1, %rd0, %rd1;``) is none.
    """
    types = flow.function.registers
    found = {name for name, type_ in types.items() if not type_.endswith("64")}
    grown = -1
    while grown != len(found):
        grown = len(found)
        for k, i in enumerate(flow.body):
            of = [n for op in i.operands[1:] if not isinstance(op, Vector) for n in registers(op)]
            if of and i.op not in ("ld", "ldu", "atom") and found.issuperset(of):
                found.update(name for name in results(i) if not _is_index(flow, k, name, found))
    return frozenset(found)


def _is_index(flow: Flow, k: int, name: str, found: set[str]) -> bool:
    """Whether what an instruction makes is only scaled, or added to registers that are not ``found``, on
    every path until it is overwritten."""
    work, seen = [k + 1], {k + 1}
    while work:
        at = work.pop()
        if at == len(flow.body):
            continue
        i = flow.body[at]
        read, over = sources(i), name in results(i) and i.guard is None
        if name in read:
            bases = {n for op in i.operands if isinstance(op, Mem) for n in registers(op)}
            scaled = found.union((name,)).issuperset(read)
            if name in bases or (not over if scaled else i.op not in _SUMS):
                return False
            over = over and not scaled
        block = flow.blocks[flow.block_of[at]]
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
    if i.op in ("atom", "shfl", "call"):
        return [ANYWHERE]
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
    else:
        operands = [o.reg if isinstance(o, Not) else o for o in i.operands[1:]]
    return [o if isinstance(o, Reg) else o.name for o in operands if isinstance(o, Reg | Sym)]
