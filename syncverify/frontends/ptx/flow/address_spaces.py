"""State spaces of generic accesses that can be in one alone (inference of address spaces).

A compiler that does not optimize accesses every variable by a generic address. An example:

    cvta.shared.u64 %rd1, %rd0;  ld.u32 %r1, [%rd1+4];

becomes ``cvta.to.shared.u64 %t, %rd1; ld.shared.u32 %r1, [%t+4]``. A register is in shared memory where
each write of it is: ``cvta.shared``, a copy or a choice of such registers, or one plus or minus a number. One
that a parameter of the kernel goes into instead is in global memory: the host has no address of another
space. Nothing changes: an address that is made so and leaves its space is undefined (PTX ISA, 6.4.1).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto

from syncverify.frontends.ptx.flow.expand import expanded
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Mem, Reg, Sym
from syncverify.frontends.ptx.syntax.operands import registers, results
from syncverify.frontends.ptx.syntax.types import width

#: What may stand before the state space of a load, a store or an atomic instruction.
_BEFORE = frozenset("weak volatile relaxed acquire release acq_rel cta cluster gpu sys".split())
_SPACES = frozenset(
    "global shared shared::cta shared::cluster local param const param::entry param::func".split()
)


def with_spaces(function: Function) -> Function:
    """The function with the state space at generic accesses that can be in one alone."""
    if not any(_generic(i) for i in function.body):
        return function
    known = _kinds(function)
    by: dict[int, list[Instr]] = {}
    types: dict[str, str] = {}
    for k, i in enumerate(function.body):
        m = _generic(i)
        if m is None or not isinstance(m.base, Reg):
            continue
        space = {What.SHARED: "shared", What.HOST: "global"}.get(known.get(m.base.name, What.MIXED))
        if space is None:
            continue
        to = Reg(f"{m.base.name}@{space}{k}")
        types[to.name] = function.registers[m.base.name]
        made = replace(
            i, op="cvta", mods=("to", space, "u64"), operands=(to, m.base), guard=None, negated=False
        )
        n = next((n for n, mod in enumerate(i.mods) if mod not in _BEFORE), len(i.mods))
        operands = tuple(replace(m, base=to) if op is m else op for op in i.operands)
        by[k] = [made, replace(i, mods=(*i.mods[:n], space, *i.mods[n:]), operands=operands)]
    return expanded(function, by, types) if by else function


def _generic(i: Instr) -> Mem | None:
    """The address of a load, store or atomic instruction that names no state space."""
    if i.op not in ("ld", "st", "atom", "red") or not _SPACES.isdisjoint(i.mods):
        return None
    found = [op for op in i.operands if isinstance(op, Mem)]
    return found[0] if len(found) == 1 and not found[0].coords else None


class What(Enum):
    """What a register holds wherever it is written: a flat lattice below MIXED; not known yet: None."""

    SHARED = auto()
    #: a parameter of the kernel, or one plus numbers: where it is an address, one in global memory
    HOST = auto()
    NUMBER = auto()
    MIXED = auto()


def _kinds(function: Function) -> dict[str, What]:
    """What each register holds: a least fixed point."""
    parameters = {p.name for p in function.params} if function.entry else set()
    known: dict[str, What] = {}
    changed = True
    while changed:
        changed = False
        for i in function.body:
            made = What.HOST if _from_host(i, parameters) else _made(i, known)
            for name in results(i):
                before = known.get(name)
                after = made if before in (None, made) else What.MIXED
                if made is not None and after is not None and after is not before:
                    known[name] = after
                    changed = True
    return known


def _from_host(i: Instr, parameters: Collection[str]) -> bool:
    """Whether an instruction loads a whole parameter of 64 bits."""
    m = i.operands[1] if i.op == "ld" and "param" in i.mods and width(i.mods[-1]) == 64 else None
    return isinstance(m, Mem) and isinstance(m.base, Sym) and m.base.name in parameters


def _begins(i: Instr) -> bool:
    return i.op == "cvta" and "to" not in i.mods and i.mods[:1] in (("shared",), ("shared::cta",))


def _made(i: Instr, known: Mapping[str, What]) -> What | None:
    """What an instruction makes; None while nothing is known of a register that it reads."""
    if _begins(i):
        return What.SHARED
    if i.op in ("ld", "ldu", "atom", "shfl") or not i.operands:
        return What.NUMBER
    ops = i.operands[1:]
    if i.op in _ADDRESSES and isinstance(i.operands[0], Reg):
        of = [known.get(op.name) if isinstance(op, Reg) else What.NUMBER for op in ops]
        return _address(i.op, of[:2] if i.op == "selp" else of)
    found = [known.get(n) for op in ops for n in registers(op)]
    if What.MIXED in found or What.SHARED in found:
        return What.MIXED
    return None if None in found else What.NUMBER


#: Instructions whose result is an address where an operand is one.
_ADDRESSES = frozenset({"mov", "selp", "add", "sub"})


def _address(op: str, of: Sequence[What | None]) -> What | None:
    """What a copy, a choice, a sum or a difference is."""
    if None in of:
        return None
    if What.MIXED in of:
        return What.MIXED
    if op in ("mov", "selp"):
        return of[0] if len(set(of)) == 1 else What.MIXED
    shared = [x is What.SHARED for x in of]
    if not any(shared):
        return What.HOST if What.HOST in of else What.NUMBER
    if all(shared):
        return What.NUMBER if op == "sub" else What.MIXED
    return What.SHARED if op == "add" or shared[0] else What.MIXED


__all__ = ["with_spaces"]
