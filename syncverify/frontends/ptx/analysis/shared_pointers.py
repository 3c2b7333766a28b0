"""Which registers may hold addresses of shared memory, and which hold the place of a kernel parameter."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence

from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Mem, Module, Reg, Sym
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.types import width


class _Role(enum.Enum):
    """What an instruction's result may be."""

    POINTER = enum.auto()  # an address of shared memory, whatever its operands are
    LOADED = enum.auto()  # one, if such addresses are stored where loads look
    CARRIED = enum.auto()  # one, if an operand is one


def shared_pointers(function: Function) -> frozenset[str]:
    """Registers that may hold a generic address of shared memory."""
    carried: dict[str, set[str]] = {}
    found: set[str] = set()
    stored: set[str] = set()  # what is stored where loads of pointers look
    loads: set[str] = set()
    handed: set[str] = set()  # what may be stored in global memory
    brought: set[str] = set()  # what loads bring from there
    copies = any(i.op == "cp" and "bulk" in i.mods for i in function.body)
    for i in function.body:
        if i.op in _STORES and _SPACES.isdisjoint(i.mods):
            handed.update(r for op in i.operands if not isinstance(op, Mem) for r in registers(op))
        if i.op in ("ld", "ldu") and "global" in i.mods:
            brought.update(results(i))
        if i.op == "st" and "global" not in i.mods:
            stored.update(r for op in i.operands[1:] for r in registers(op))
        match _role(i, function):
            case _Role.POINTER:
                found.update(results(i))
            case _Role.LOADED:
                loads.update(results(i))
            case _Role.CARRIED:
                for name in results(i):
                    carried.setdefault(name, set()).update(sources(i))
    ways = [(loads, stored), (brought, handed | stored if copies else handed)]
    return frozenset(_closed(found, carried, ways))


def _role(i: Instr, function: Function) -> _Role | None:
    """What an instruction's result may be; None if no address of shared memory."""
    if i.op == "ld":
        if any(m in ("global", "const") for m in i.mods) or _entry_parameter(i, function):
            return None
        if i.mods[-1:] == ("u64",):
            return _Role.LOADED
        return _Role.POINTER if width(i.mods[-1]) == 64 else None
    if i.op in ("cvta", "mapa") and any(m.startswith("shared") for m in i.mods) and "to" not in i.mods:
        return _Role.POINTER
    return _Role.CARRIED if i.op in _CARRIES else None


def _closed(
    found: set[str], carried: dict[str, set[str]], ways: Sequence[tuple[set[str], set[str]]]
) -> set[str]:
    """The registers that addresses come to from some, by copies and through memory; ``ways``: what is loaded
    where what is stored lies."""
    changed = True
    while changed:
        changed = False
        for loads, stored in ways:
            if not stored.isdisjoint(found) and not loads <= found:
                changed = True
                found |= loads
        for name, of in carried.items():
            if name not in found and of & found:
                found.add(name)
                changed = True
    return found


#: What writes to memory, and the spaces in which it then is no global memory.
_STORES = frozenset({"st", "atom", "red"})
_SPACES = frozenset({"shared", "shared::cta", "shared::cluster", "local", "param", "param::func"})
#: Instructions whose result may be a pointer if an operand is one.
_CARRIES = frozenset(
    "mov add sub and or xor selp mad shfl cvt shl shr mapa mul max min lop3 bfi prmt shf not neg addc subc "
    "atom slct".split()
)


def parameter_pointers(function: Function) -> dict[str, Sym]:
    """Registers that hold nothing but the place of a kernel parameter: each is written once, by one such."""
    names = {p.name for p in function.params} if function.entry else set()
    found: dict[str, Sym] = {}
    writes = Counter(name for i in function.body for name in results(i))
    for i in function.body:
        source = i.operands[1] if i.op in ("mov", "cvta", "add") and len(i.operands) > 1 else None
        if isinstance(source, Reg):
            source = found.get(source.name)
        if i.guard is not None or not isinstance(source, Sym) or source.name not in names:
            continue
        if i.op == "add" and not isinstance(i.operands[2], Imm):
            continue
        more = i.operands[2].value if i.op == "add" and isinstance(i.operands[2], Imm) else 0
        for name in results(i):
            if writes[name] == 1:
                found[name] = Sym(source.name, source.offset + more)
    return found


def _entry_parameter(i: Instr, function: Function) -> bool:
    """A load of a kernel parameter: no pointer to shared memory can come from the host."""
    m = i.operands[1]
    return "param" in i.mods and isinstance(m, Mem) and function.entry and (
        not isinstance(m.base, Sym) or any(p.name == m.base.name for p in function.params)
    )  # fmt: skip


def names_shared(m: Mem, function: Function, module: Module) -> bool:
    if not isinstance(m.base, Sym):
        return False
    name = m.base.name
    return any(v.name == name and v.space == "shared" for v in (*function.variables, *module.variables))
