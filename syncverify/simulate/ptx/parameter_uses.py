"""Which words of a kernel's parameters may lead to memory: those that nothing is computed of but sums.

Example: of ``ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [n]; shl.b64 %rd3, %rd2, 2; add.s64 %rd4, %rd1,
%rd3`` the word at byte 0 of ``p`` may lead to memory; that of ``n`` is a number, for it is shifted. Control
flow does not count: a register that holds a word sometimes, holds it.
"""

from __future__ import annotations

from syncverify.simulate.ptx.program import registers_in
from syncverify.simulate.ptx.syntax import Function, Instr, Mem, Operand, Reg, Sym, Vector

Place = tuple[str, int]  # a parameter's name and a byte of it
#: Instructions that hand a word on, by the operands that may hold it.
_HANDS_ON = {
    "mov": (1,),
    "cvta": (1,),
    "add": (1, 2),
    "sub": (1,),
    "mad": (3,),
    "selp": (1, 2),
    "and": (1, 2),
    "or": (1, 2),
    "shfl": (1,),
    "cvt": (1,),
}
#: Instructions whose operands are numbers.
_COUNTS = frozenset({"mul", "mad", "div", "rem", "shl", "shr", "min", "max", "neg", "abs"})


def pointers(function: Function) -> frozenset[Place]:
    """The places of a kernel's parameters, 8 bytes each, that may lead to memory."""
    names = {p.name for p in function.params}
    origins: dict[str, set[Place]] = {}
    for i in function.body:
        for n, (register, place) in enumerate(_loaded(i, names)):
            if register:
                origins.setdefault(register, set()).add((place[0], place[1] + 8 * n))
    grown = bool(origins)
    while grown:
        grown = False
        for i in function.body:
            for target in registers_in(i.operands[:1]) if i.op in _HANDS_ON else ():
                for k in _HANDS_ON[i.op]:
                    for source in registers_in(i.operands[k : k + 1]):
                        new = origins.get(source, set()) - origins.get(target, set())
                        if new:
                            origins.setdefault(target, set()).update(new)
                            grown = True
    numbers: set[Place] = set()
    for i in function.body:
        if i.op in _COUNTS:
            for register in registers_in(i.operands[1 : 3 if i.op == "mad" else None]):
                numbers |= origins.get(register, set())
    return frozenset(place for places in origins.values() for place in places if place not in numbers)


def _loaded(i: Instr, names: set[str]) -> list[tuple[str, Place]]:
    """The registers that a load of 64-bit words from a parameter brings, each with the load's own place."""
    if i.op != "ld" or "param" not in i.mods or i.mods[-1] not in ("u64", "s64", "b64"):
        return []
    address: Operand = i.operands[1]
    if not isinstance(address, Mem) or not isinstance(address.base, Sym) or address.base.name not in names:
        return []
    to = i.operands[0]
    items = to.items if isinstance(to, Vector) else (to,)
    place = (address.base.name, address.base.offset + address.offset)
    return [(x.name if isinstance(x, Reg) else "", place) for x in items]


__all__ = ["pointers"]
