"""State spaces of generic accesses that can be in one alone (inference of address spaces).

A compiler that does not optimize accesses every variable by a generic address. An example:

    cvta.shared.u64 %rd1, %rd0;  ld.u32 %r1, [%rd1+4];

becomes ``cvta.to.shared.u64 %t, %rd1; ld.shared.u32 %r1, [%t+4]``. A register is in shared memory where
each write of it is: ``cvta.shared``, a copy or a choice of such registers, or one plus or minus a number. One
that a parameter of the kernel goes into instead is in global memory: the host has no address of another
space. Nothing changes: an address that is made so and leaves its space is undefined (PTX ISA, 6.4.1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.expand import expanded
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Mem, Operand, Reg, Sym
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
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
    known = register_kinds(function)
    by: dict[int, list[Instr]] = {}
    types: dict[str, str] = {}
    for k, i in enumerate(function.body):
        m = _generic(i)
        if m is None or not isinstance(m.base, Reg):
            continue
        space = _SPACE.get(known.get(m.base.name, What.MIXED))
        if space is None:
            continue
        to = Reg(f"{m.base.name}@{space}{k}")
        types[to.name] = function.registers[m.base.name]
        made = replace(
            i,
            op="cvta",
            mods=("to", space.partition("::")[0], "u64"),
            operands=(to, m.base),
            guard=None,
            negated=False,
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


#: Versions of registers that are looked at for one address, and the name of what a guarded write leaves.
_MOST_VERSIONS = 64
_BEFORE_IT = "%before"
#: Whose result is as unknown as an operand.
_SUMS = frozenset({"mov", "add", "mad", "mul", "shl", "cvt", "cvta"})


class What(Enum):
    """What a register holds wherever it is written: a flat lattice below MIXED; not known yet: None.

    What is said of shared memory is said of local memory where its window is asked for."""

    #: a generic address of shared memory
    SHARED = auto()
    #: one of shared memory of some CTA of the cluster, as ``mapa`` brings it
    CLUSTER = auto()
    #: an address in the window of shared memory itself, as ``mov`` of a variable's name brings it
    OFFSET = auto()
    #: what ``cvta`` makes of an address of another space: it lies nowhere
    LOST = auto()
    #: a parameter of the kernel, or one plus numbers: where it is an address, one in global memory
    HOST = auto()
    NUMBER = auto()
    #: what nothing has written, and what is computed of it
    UNSET = auto()
    MIXED = auto()


@dataclass(frozen=True, slots=True)
class Window:
    """The state space whose addresses are followed, shared or local, and its variables."""

    space: str = "shared"
    names: frozenset[str] = frozenset()


SHARED_WINDOW = Window()


def register_kinds(function: Function, window: Window = SHARED_WINDOW) -> dict[str, What]:
    """What each register holds: a least fixed point."""
    parameters = {p.name for p in function.params} if function.entry else set()
    known: dict[str, What] = {}
    changed = True
    while changed:
        changed = False
        for i in function.body:
            made = What.HOST if _from_host(i, parameters) else _made(i, known, window)
            for name in results(i):
                before = known.get(name)
                after = made if before in (None, made) else What.MIXED
                if made is not None and after is not None and after is not before:
                    known[name] = after
                    changed = True
    return known


def kind_at(flow: Flow, name: str, k: int, window: Window) -> What | None:
    """What the version of a register holds that instruction ``k`` reads: a least fixed point."""
    versions = flow.versions
    first = versions.read(name, k)
    reads: dict[int, dict[str, int]] = {}
    left = [first]
    while left and len(reads) < _MOST_VERSIONS:
        v = left.pop()
        if v not in reads:
            reads[v] = _read_by(flow, v)
            left += reads[v].values()
    if left:
        return What.MIXED
    parameters = {p.name for p in flow.function.params} if flow.function.entry else set()
    known: dict[int, What] = {}
    changed = True
    while changed:
        changed = False
        for v, read in reads.items():
            of = {x: known[w] for x, w in read.items() if w in known}
            held = _held(flow, v, of, parameters, window)
            after = None if held is None else _either([held, known.get(v, held)])
            if after is not None and after is not known.get(v):
                known[v] = after
                changed = True
    return known.get(first)


def _read_by(flow: Flow, v: int) -> dict[str, int]:
    """The versions that a version is made of: what its instruction reads, or what it merges."""
    versions = flow.versions
    k = versions.writer[v]
    if k < 0:
        return {str(block): w for block, w in versions.merged(v)}
    i = flow.body[k]
    read = {x: versions.read(x, k) for x in sources(i)}
    return read if i.guard is None else {**read, _BEFORE_IT: versions.read(versions.name[v], k)}


def _held(
    flow: Flow, v: int, of: Mapping[str, What], parameters: Collection[str], window: Window
) -> What | None:
    """What a version holds where what it is made of holds ``of``."""
    k = flow.versions.writer[v]
    if k < 0:
        return What.UNSET if flow.versions.is_unset(v) else _either(of.values())
    i = flow.body[k]
    if What.UNSET in of.values() and i.op in _SUMS and i.guard is None:
        return What.UNSET
    made = What.HOST if _from_host(i, parameters) else _made(i, of, window)
    return made if i.guard is None or made is None else _either([made, of.get(_BEFORE_IT, made)])


def _either(kinds: Iterable[What]) -> What | None:
    several = {*kinds}
    return None if not several else several.pop() if len(several) == 1 else What.MIXED


def _from_host(i: Instr, parameters: Collection[str]) -> bool:
    """Whether an instruction loads a whole parameter of 64 bits."""
    m = i.operands[1] if i.op == "ld" and "param" in i.mods and width(i.mods[-1]) == 64 else None
    return isinstance(m, Mem) and isinstance(m.base, Sym) and m.base.name in parameters


def _begins(i: Instr, window: Window) -> bool:
    return i.op == "cvta" and "to" not in i.mods and i.mods[0] in (window.space, f"{window.space}::cta")


def _made(i: Instr, known: Mapping[str, What], window: Window) -> What | None:
    """What an instruction makes; None while nothing is known of a register that it reads."""
    if i.op == "cvta":
        given = _operand(i.operands[1], known, window)
        if given in _OF_SHARED:
            return _converted(i, given, window)
    if _begins(i, window):
        return What.SHARED
    if i.op in ("ld", "ldu", "atom", "shfl") or not i.operands:
        return What.NUMBER
    ops = i.operands[1:]
    if i.op in _ADDRESSES and isinstance(i.operands[0], Reg):
        of = [_operand(op, known, window) for op in ops]
        return _address(i.op, of[:2] if i.op == "selp" else of)
    found = [known.get(n) for op in ops for n in registers(op)]
    if i.op == "mad" and len(ops) == 3 and set(found[:-1]) <= {What.NUMBER}:
        return _operand(ops[2], known, window)
    if not {What.MIXED, What.CLUSTER, *_OF_SHARED}.isdisjoint(found):
        return _changed(i, found)
    return None if None in found else What.NUMBER


def _changed(i: Instr, found: Sequence[What | None]) -> What:
    """What an instruction makes of operands one of which has to do with shared memory: the lower half of a
    generic address lies in no window, whatever its upper half was, and ``mapa`` takes one of its own form."""
    if i.op == "cvt" and len(found) == 1 and {*i.mods[-2:]} <= _UNSIGNED:
        return What.OFFSET if found[0] is What.OFFSET else What.LOST if found[0] in _OF_SHARED else What.MIXED
    if i.op == "mapa" and found[0] in (What.SHARED, What.OFFSET):
        own = i.mods[0].startswith("shared")
        if (found[0] is What.OFFSET) is not own:
            return What.LOST
        return What.MIXED if own else What.CLUSTER
    return What.LOST if What.LOST in found and i.op in ("cvt", "mapa") else What.MIXED


def _converted(i: Instr, of: What | None, window: Window) -> What:
    """What ``cvta`` makes of an address that has to do with the window."""
    if "to" in i.mods:
        return What.OFFSET if of is What.SHARED and i.mods[1].startswith(window.space) else What.MIXED
    return What.SHARED if of is What.OFFSET and _begins(i, window) else What.LOST


def _operand(op: Operand, known: Mapping[str, What], window: Window) -> What | None:
    if isinstance(op, Reg):
        return known.get(op.name)
    return What.OFFSET if isinstance(op, Sym) and op.name in window.names else What.NUMBER


#: Instructions whose result is an address where an operand is one.
_ADDRESSES = frozenset({"mov", "selp", "add", "sub"})
_OF_SHARED = (What.SHARED, What.OFFSET, What.LOST)
#: The one space that an address may be in.
_SPACE = {What.SHARED: "shared", What.CLUSTER: "shared::cluster", What.HOST: "global"}
#: Types between which a conversion keeps an address in the window of shared memory, which has 32 bits.
_UNSIGNED = frozenset({"u32", "u64"})


def _address(op: str, of: Sequence[What | None]) -> What | None:
    """What a copy, a choice, a sum or a difference is."""
    if None in of:
        return None
    if What.MIXED in of:
        return What.MIXED
    if op in ("mov", "selp"):
        return of[0] if len(set(of)) == 1 else What.MIXED
    shared = [x for x in of if x in _OF_SHARED or x is What.CLUSTER]
    if not shared:
        return What.HOST if What.HOST in of else What.NUMBER
    if len(shared) == len(of):
        return What.NUMBER if op == "sub" and len({*shared}) == 1 else What.MIXED
    return shared[0] if op == "add" or of[0] is shared[0] else What.MIXED


__all__ = ["SHARED_WINDOW", "What", "Window", "kind_at", "register_kinds", "with_spaces"]
