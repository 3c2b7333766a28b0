"""Which registers may hold addresses of shared memory, and which hold the place of a kernel parameter."""

from __future__ import annotations

from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Mem, Module, Reg, Sym
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.types import width


def shared_pointers(function: Function) -> frozenset[str]:
    """Registers that may hold a generic address of shared memory."""
    copies: dict[str, set[str]] = {}
    found: set[str] = set()
    kept: set[str] = set()  # what is stored where loads of pointers look
    loads: set[str] = set()
    for i in function.body:
        names = results(i)
        if i.op == "st" and "global" not in i.mods:
            kept.update(r for op in i.operands[1:] for r in registers(op))
        if i.op in ("cvta", "mapa") and any(m.startswith("shared") for m in i.mods) and "to" not in i.mods:
            found.update(names)
        elif i.op == "ld" and not any(m in ("global", "const") for m in i.mods) and "u64" not in i.mods[-1:]:
            if width(i.mods[-1]) == 64 and not _entry_parameter(i, function):
                found.update(names)
        elif i.op == "ld" and "u64" in i.mods and not _entry_parameter(i, function):
            loads.update(() if any(m in ("global", "const") for m in i.mods) else names)
        elif i.op in _CARRIES:
            for name in names:
                copies.setdefault(name, set()).update(sources(i))
    changed = True
    while changed:
        changed = False
        if loads and not kept.isdisjoint(found):
            changed = not loads <= found
            found |= loads
        for name, of in copies.items():
            if name not in found and of & found:
                found.add(name)
                changed = True
    return frozenset(found)


#: Instructions whose result may be a pointer if an operand is one.
_CARRIES = frozenset(
    "mov add sub and or xor selp mad shfl cvt shl shr mapa mul max min lop3 bfi prmt shf not neg addc subc "
    "atom slct".split()
)


def parameter_pointers(function: Function) -> dict[str, Sym]:
    """Registers that hold nothing but the place of a kernel parameter."""
    names = {p.name for p in function.params} if function.entry else set()
    found: dict[str, Sym] = {}
    written: set[str] = set()
    for i in function.body:
        source = i.operands[1] if i.op in ("mov", "cvta", "add") and len(i.operands) > 1 else None
        if isinstance(source, Reg):
            source = found.get(source.name)
        for name in results(i):
            found.pop(name, None)
            if (
                name in written
                or i.guard is not None
                or not isinstance(source, Sym)
                or source.name not in names
            ):
                written.add(name)
                continue
            written.add(name)
            more = i.operands[2].value if i.op == "add" and isinstance(i.operands[2], Imm) else 0
            if i.op != "add" or isinstance(i.operands[2], Imm):
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
