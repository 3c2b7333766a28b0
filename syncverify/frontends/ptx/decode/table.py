"""Which instructions have events, which cannot matter, and who decodes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from syncverify.frontends.ptx.decode.barriers import (
    decode_barrier,
    decode_elect,
    decode_griddepcontrol,
    decode_setmaxnreg,
    decode_uniform,
)
from syncverify.frontends.ptx.decode.copies import decode_async_store, decode_cp, decode_multimem
from syncverify.frontends.ptx.decode.effects import Effect, Unsupported
from syncverify.frontends.ptx.decode.fences import decode_fence
from syncverify.frontends.ptx.decode.matrix import decode_ldmatrix, decode_stmatrix, decode_wgmma
from syncverify.frontends.ptx.decode.mbarrier import decode_mbarrier
from syncverify.frontends.ptx.decode.tensor import decode_tensor, decode_tensormap
from syncverify.frontends.ptx.decode.wmma import decode_wmma
from syncverify.frontends.ptx.isa.match import Problem, forms, match
from syncverify.frontends.ptx.syntax.nodes import Function, Instr

_DECODERS: dict[str, Callable[[Instr], Effect | Unsupported | None]] = {
    "bar": decode_barrier,
    "barrier": decode_barrier,
    "elect": decode_elect,
    "fence": decode_fence,
    "griddepcontrol": decode_griddepcontrol,
    "ldmatrix": decode_ldmatrix,
    "mbarrier": decode_mbarrier,
    "membar": decode_fence,
    "multimem": decode_multimem,
    "red": decode_async_store,
    "setmaxnreg": decode_setmaxnreg,
    "st": decode_async_store,
    "stmatrix": decode_stmatrix,
    "wgmma": decode_wgmma,
    "wmma": decode_wmma,
}

#: Opcodes to ask ``decode`` about.
EFFECT_OPS = frozenset(_DECODERS) | {"cp", "tensormap"}


def _is_tensor_copy(mods: Sequence[str]) -> bool:
    return "tensor" in mods and "prefetch" not in mods


def decode(instr: Instr, function: Function) -> Effect | Unsupported | None:
    """The events of an instruction; None if it has none of the kind decoded here. What the table does not
    have, or does not model, is never decoded."""
    if instr.op == "uniform":
        return decode_uniform(instr)
    unknown = refused(instr, function)
    if unknown is not None:
        return unknown
    if instr.op == "cp":
        return decode_tensor(instr) if _is_tensor_copy(instr.mods) else decode_cp(instr, function)
    if instr.op == "tensormap":
        return decode_tensormap(instr, function)
    decoder = _DECODERS.get(instr.op)
    return None if decoder is None else decoder(instr)


def refused(instr: Instr, function: Function) -> Unsupported | None:
    """Why nothing may be said of what an instruction does: the table does not have it, or it has a form or a
    modifier that is not modelled. None where every modifier is read, or harmless for the table's reason."""
    found = forms(instr.op, instr.mods)
    if found and all(f.mods == instr.mods and f.unmodelled is None for f in found):
        return None
    form = match(instr, function.registers)
    if isinstance(form, Problem):
        return Unsupported(form.text)
    if form.unmodelled is not None:
        return Unsupported(f"{instr.name}: {form.unmodelled}")
    if form.mods != instr.mods:
        usual = ".".join((instr.op, *form.mods))
        return Unsupported(f"{instr.name}: its modifiers are in another order than {usual}")
    return None
