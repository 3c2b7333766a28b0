"""Alignment that no declaration promises, where the layout of static shared memory cannot take it away.

``__shared__ float As[1024]`` is ``.align 4``, and read by ``float4`` it has to lie at a multiple of 16. ptxas
begins a kernel's static shared memory there, and where the size of each variable is a multiple of 16, so is
every place that an order of them can give one: gaps come from alignments alone, which are powers of two. Then
only the begin has to be assumed. One variable alone lies at the begin, whatever its size is.

Example: beside ``__shared__ float a[3]``, of 12 bytes, ``As`` may lie at byte 12, and nothing is assumed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from syncverify.base.kernel_names import base_name
from syncverify.frontends.ptx.analysis.arrays.stored_words import LOADS
from syncverify.frontends.ptx.decode.memory import decode_place, natural
from syncverify.frontends.ptx.flow.asserts import SILENT, called, stops
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.use_def import behind
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Mem, Module, Variable
from syncverify.frontends.ptx.syntax.operands import registers, sources, symbols

#: What matrices, their rows and bulk copies ask for in shared memory, and an mbarrier.
_ROWS, _MBARRIER = 16, 8
_OF_ROWS = frozenset({"ldmatrix", "stmatrix", "wmma", "wgmma"})


@dataclass(frozen=True, slots=True)
class Meant:
    """A shared variable that is used at an alignment above the declared one. ``at``: by which instruction
    first."""

    variable: Variable
    align: int
    at: int


def with_meant_alignment(module: Module, f: Function) -> tuple[Module, Function, tuple[Meant, ...]]:
    """The module and the entry, with variables as aligned as they are used, and which these are."""
    here, dynamic = _section(module, f), _dynamic(module, f)
    found = dict[str, Meant]()
    for unit, uses in sorted(_uses(f, {**here, **dynamic}).items()):
        kept = len(here) == 1 or all(v.size % unit == 0 for v in here.values())
        found |= {name: Meant(here[name], unit, at) for name, at in uses.items() if name in here and kept}
        found |= {name: Meant(dynamic[name], unit, at) for name, at in uses.items() if name in dynamic}
    if not found:
        return module, f, ()

    def aligned(variables: Iterable[Variable]) -> tuple[Variable, ...]:
        return tuple(
            replace(v, align=found[v.name].align) if v.name in found and v == found[v.name].variable else v
            for v in variables
        )

    changed = replace(f, variables=aligned(f.variables))
    functions = tuple(changed if x is f else x for x in module.functions)
    whole = replace(module, variables=aligned(module.variables), functions=functions)
    return whole, changed, tuple(found.values())


def of_alignment(module: Module, f: Function, meant: Iterable[Meant]) -> list[str]:
    """What proofs with such alignments take for granted."""
    return [
        f"line {module.span(f.body[m.at]).line}: the {_kind(m.variable)} shared memory begins at a "
        f"multiple of {m.align} bytes; `{base_name(m.variable.name)}` is declared with "
        f"alignment {m.variable.align}: __align__({m.align}) promises it"
        for m in meant
    ]


def _kind(v: Variable) -> str:
    return "static" if v.size else "dynamic"


def _dynamic(module: Module, f: Function) -> Mapping[str, Variable]:
    """The arrays in dynamic shared memory."""
    everything = (*f.variables, *module.variables)
    return {v.name: v for v in everything if v.space == "shared" and not v.size}


def _section(module: Module, f: Function) -> Mapping[str, Variable]:
    """The variables among which the assembler lays one out; none where others may lie there, too: those of
    functions that are called, and those that a linker places."""
    if any(i.op == "call" and not (called(i) in SILENT or stops(i)) for i in f.body):
        return {}
    named = {name for i in f.body for op in i.operands for name in symbols(op)}
    found = [v for v in f.variables if v.space == "shared"]
    found += [v for v in module.variables if v.space == "shared" and v.name in named]
    if any(v.extern and v.size for v in found):
        return {}
    return {v.name: v for v in found if v.size}


def _uses(f: Function, here: Mapping[str, Variable]) -> Mapping[int, Mapping[str, int]]:
    """By alignment, the variables that are used at it and do not promise it, each with the first use."""
    least = min((v.align for v in here.values()), default=_ROWS)
    wide = [(k, i, unit) for k, i in enumerate(f.body) if (unit := _asks(i)) > least]
    flow = Flow(f) if wide else None
    found = dict[int, dict[str, int]]()
    for k, i, unit in wide if flow is not None else ():
        if flow is None or flow.block_of[k] not in flow.reached:
            continue
        for name in _places(flow, k, i, here):
            if here[name].align % unit:
                found.setdefault(unit, {}).setdefault(name, k)
    return found


def _asks(i: Instr) -> int:
    """What the place of an instruction in shared memory has to be a multiple of."""
    access = decode_place(i)
    if access is not None:
        return natural(access.bytes) if access.space in ("shared", "generic") else 1
    if i.op in _OF_ROWS:
        return _ROWS
    if i.op == "mbarrier":
        return _MBARRIER
    if i.op == "cp" and i.mods[:1] == ("async",):
        if "bulk" in i.mods:
            return _ROWS
        size = i.operands[2] if len(i.operands) > 2 else None
        return natural(size.value) if isinstance(size, Imm) and isinstance(size.value, int) else 1
    return 1


def _places(flow: Flow, k: int, i: Instr, here: Collection[str]) -> Iterator[str]:
    """The variables whose places an instruction's addresses are computed of; none behind what was loaded."""
    memory = [op for op in i.operands if isinstance(op, Mem)]
    signals = i.op == "cp" and any(m.startswith("mbarrier") for m in i.mods)  # the last address; 8 are enough
    places = (memory[:-1] if signals else memory) or i.operands
    first = [flow.versions.read(name, k) for op in places for name in registers(op)]
    made = behind(flow, first, lambda i: () if i.op in LOADS else sources(i))
    writers = {at for at in map(flow.versions.writer.__getitem__, made) if at >= 0}
    operands = [
        *places,
        *(op for at in writers if flow.body[at].op not in LOADS for op in flow.body[at].operands),
    ]
    yield from dict.fromkeys(name for op in operands for name in symbols(op) if name in here)


__all__ = ["Meant", "of_alignment", "with_meant_alignment"]
