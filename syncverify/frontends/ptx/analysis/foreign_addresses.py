"""Accesses and copies whose address belongs to another state space, as the text alone shows.

A generic address of shared memory is no address in its window, and none in global memory. An example:

    mov.u64 %rd1, tile;  ld.u32 %r1, [%rd1];

Without ``cvta.shared`` the load goes to what lies at that number among all addresses, which is undefined
(PTX ISA, generic addressing). Accesses whose address is followed are judged by its number instead
(``decode/memory.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from syncverify.frontends.ptx.decode.effects import Context, Effect, Value
from syncverify.frontends.ptx.decode.parts import fault
from syncverify.frontends.ptx.flow.address_spaces import What, register_kinds
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Mem, Module, Reg
from syncverify.model.events import Event

_ACCESSES = ("ld", "st", "atom", "red", "mbarrier", "ldmatrix", "stmatrix")
_SPACES = ("shared", "global", "local", "const", "param")


def foreign_addresses(function: Function, module: Module) -> Mapping[int, Effect]:
    """The accesses, by index, that leave every state space whenever they are executed."""
    everything = (*function.variables, *module.variables)
    shared = frozenset(v.name for v in everything if v.space == "shared")
    if not shared:
        return {}
    kinds = register_kinds(function, shared)
    found: dict[int, Effect] = {}
    for k, i in enumerate(function.body):
        text = _wrong(i, kinds)
        if text is not None:
            found[k] = _undefined(text)
    return found


def _wrong(i: Instr, kinds: Mapping[str, What]) -> str | None:
    """What is wrong about the address of an access; None where nothing is shown to be."""
    found = [op for op in i.operands if isinstance(op, Mem) and not op.coords]
    texts = (_of(op, space, kinds) for op, space in zip(found, _operand_spaces(i), strict=False))
    return next((text for text in texts if text is not None), None)


def _operand_spaces(i: Instr) -> Sequence[str]:
    """The state space of each address of an instruction, as far as it is judged here."""
    named = [s for m in i.mods if (s := m.split("::")[0]) in _SPACES]
    if i.op == "cp" and i.mods[:1] == ("async",) and not {"tensor", "prefetch", "mbarrier"} & {*i.mods}:
        return (*named, "shared") if len(named) == 2 else ()
    if i.op not in _ACCESSES or i.mods[:1] in (("async",), ("bulk",)):
        return ()
    return (named or ["generic"])[:1]


def _of(at: Mem, space: str, kinds: Mapping[str, What]) -> str | None:
    kind = kinds.get(at.base.name) if isinstance(at.base, Reg) else None
    if kind is What.LOST:
        return "cvta, cvt or mapa was given an address of another kind: the result lies in no state space"
    if kind is What.SHARED and space != "generic":
        return f"a generic address of shared memory is used in space {space}: cvta.to.shared is missing"
    if kind is What.OFFSET and space != "shared":
        return f"an address in the window of shared memory is used as one in space {space}: " + (
            "cvta.shared is missing" if space == "generic" else "it lies elsewhere"
        )
    return None


def _undefined(text: str) -> Effect:
    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        return [fault(site, "SV114", text)]

    return Effect(emit)


__all__ = ["foreign_addresses"]
