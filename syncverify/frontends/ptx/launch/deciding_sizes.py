"""Parameters that decide and place nothing, and blocks, with numbers by which a comparison is true, or false.

    ld.param.u32 %r1, [n];  setp.gt.u32 %p1, %r1, 64;  @%p1 bra END;      // n: 1, 63, 64, 65

What a parameter places is left out: a host makes strides as large as what they keep apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.frontends.ptx.isa.accesses import from_outside
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Mem, Special, Sym
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.types import width

#: Numbers of one parameter that are looked at.
_MOST = 9
#: Blocks along an axis.
_MOST_BLOCKS = 1 << 14
_COPIES = frozenset({"mov", "cvt"})
_LARGEST = (1 << 31) - 1


def deciding_sizes(function: Function) -> dict[tuple[str, int], tuple[int, ...]]:
    """By parameter and byte, of words that place nothing: 1, and what is around the numbers they meet."""
    found: dict[tuple[str, int], set[str]] = {}
    for i, place in _loads(function):
        if isinstance(place.base, Sym):
            found.setdefault((place.base.name, place.offset), set()).update(results(i))
    out = {}
    for key, held in found.items():
        made = _made_of(held, function)
        if not any(made & {*_placing(i)} for i in function.body):
            out[key] = _numbers(made, function)
    return out


def compared_blocks(function: Function) -> dict[str, tuple[int, ...]]:
    """By axis, the numbers that a block's number, or how many blocks there are, is compared with."""
    found = {}
    for axis in "xyz":
        specials = {f"{x}.{axis}" for x in ("%ctaid", "%nctaid", "%clusterid", "%nclusterid")}
        reads = (
            i for i in function.body if any(isinstance(o, Special) and o.name in specials for o in i.operands)
        )
        held = {name for i in reads for name in results(i) if i.op in _COPIES}
        met = sorted({
            op.value
            for i in function.body
            if i.op == "setp" and _asks(i, specials, held)
            for op in i.operands
            if isinstance(op, Imm) and 1 < op.value <= _MOST_BLOCKS
        })  # fmt: skip
        if met:
            found[axis] = tuple(met[:_MOST])
    return found


def _asks(i: Instr, specials: set[str], held: set[str]) -> bool:
    """Whether a comparison has a special register, or a copy of it."""
    names = {o.name for o in i.operands if isinstance(o, Special)}
    return not (names.isdisjoint(specials) and held.isdisjoint(sources(i)))


def _loads(function: Function) -> Iterator[tuple[Instr, Mem]]:
    """The loads of words of parameters."""
    for i in function.body:
        if i.op == "ld" and "param" in i.mods and width(i.mods[-1]) == 32 and isinstance(i.operands[1], Mem):
            yield i, i.operands[1]


def _made_of(held: set[str], function: Function) -> set[str]:
    """Registers that hold some numbers, or what is made of them."""
    found, grows = set(held), True
    while grows:
        before = len(found)
        for i in function.body:
            if i.op != "setp" and not from_outside(i) and not found.isdisjoint(sources(i)):
                found.update(results(i))
        grows = len(found) > before
    return found


def _placing(i: Instr) -> Iterator[str]:
    for op in i.operands:
        if isinstance(op, Mem):
            yield from registers(op)


def _numbers(made: set[str], function: Function) -> tuple[int, ...]:
    """Numbers that are small, or around those that a comparison has."""
    asking = (i for i in function.body if i.op == "setp" and not made.isdisjoint(sources(i)))
    met = {op.value for i in asking for op in i.operands if isinstance(op, Imm)}
    near = {1, *(n + d for n in met for d in (-1, 0, 1))}
    return tuple(sorted(n for n in near if 0 <= n <= _LARGEST)[:_MOST])


__all__ = ["compared_blocks", "deciding_sizes"]
