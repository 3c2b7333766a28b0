"""Which registers may hold addresses of shared memory, and which hold the place of a kernel parameter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Mem, Module, Reg, Sym
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.types import width

#: The memory that a kernel can leave words in; an access that names none of it may be to each but the last.
_SPACES = ("shared", "local", "global", "param")
#: What a load of words brings that other instructions have stored, by state space.
Ways = Sequence[tuple[Collection[str], Collection[str]]]


def shared_pointers(function: Function) -> frozenset[str]:
    """Registers that may hold a generic address of shared memory.

    Whatever is made of one may be one again, by whichever instruction and in parts; so may what is loaded
    where a part of one is stored, or copied to. Only predicates are none.
    """
    carried: dict[str, set[str]] = {}
    found: set[str] = set()
    stored: dict[str, set[str]] = {space: set() for space in _SPACES}
    loads: dict[str, set[str]] = {space: set() for space in _SPACES}
    for i in function.body:
        made = [name for name in results(i) if function.registers.get(name) != "pred"]
        if _is_pointer(i, function):
            found.update(made)
        elif any(isinstance(op, Mem) for op in i.operands):
            read = i.operands[1:] if results(i) else i.operands
            kept = {r for op in read if not isinstance(op, Mem) for r in registers(op)}
            brought = () if _entry_parameter(i, function) else made
            for space in _spaces(i):
                stored[space] |= kept
                loads[space].update(brought)
        elif i.op != "cvta":
            for name in made:
                carried.setdefault(name, set()).update(sources(i))
    if any(i.op == "cp" for i in function.body):
        stored["shared"] = stored["global"] = stored["shared"] | stored["global"]
    return frozenset(_closed(found, carried, [(loads[x], stored[x]) for x in _SPACES]))


def _spaces(i: Instr) -> Sequence[str]:
    """The memory that an instruction may access, of that which kernels leave words in."""
    named = {m.split("::")[0] for m in i.mods} & {*_SPACES, "const"}
    return [x for x in _SPACES if x in named] if named else _SPACES[:-1]


def _is_pointer(i: Instr, function: Function) -> bool:
    """Whether an instruction's result may be an address of shared memory, whatever its operands are."""
    if i.op == "ld":
        outside = not {"global", "const"}.isdisjoint(i.mods) or _entry_parameter(i, function)
        return not outside and i.mods[-1] != "u64" and width(i.mods[-1]) == 64
    return i.op in ("cvta", "mapa") and any(m.startswith("shared") for m in i.mods) and "to" not in i.mods


def _closed(found: set[str], carried: dict[str, set[str]], ways: Ways) -> set[str]:
    """The registers that addresses come to from some, by what is computed of them and through memory."""
    changed = True
    while changed:
        changed = False
        for loads, stored in ways:
            if not found.isdisjoint(stored) and not found.issuperset(loads):
                changed = True
                found.update(loads)
        for name, of in carried.items():
            if name not in found and of & found:
                found.add(name)
                changed = True
    return found


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
    m = i.operands[1] if i.op == "ld" else None
    return "param" in i.mods and isinstance(m, Mem) and function.entry and (
        not isinstance(m.base, Sym) or any(p.name == m.base.name for p in function.params)
    )  # fmt: skip


def names_shared(m: Mem, function: Function, module: Module) -> bool:
    if not isinstance(m.base, Sym):
        return False
    name = m.base.name
    return any(v.name == name and v.space == "shared" for v in (*function.variables, *module.variables))
