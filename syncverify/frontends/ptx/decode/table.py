"""Which instructions have events, which cannot matter, and who decodes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from syncverify.frontends.ptx.decode.barriers import (
    decode_barrier,
    decode_elect,
    decode_griddepcontrol,
    decode_setmaxnreg,
)
from syncverify.frontends.ptx.decode.copies import decode_async_store, decode_cp, decode_multimem
from syncverify.frontends.ptx.decode.effects import Effect, Unsupported
from syncverify.frontends.ptx.decode.fences import decode_fence
from syncverify.frontends.ptx.decode.matrix import decode_ldmatrix, decode_stmatrix, decode_wgmma
from syncverify.frontends.ptx.decode.mbarrier import decode_mbarrier
from syncverify.frontends.ptx.decode.tensor import decode_tensor, decode_tensormap
from syncverify.frontends.ptx.decode.wmma import decode_wmma
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

#: Opcodes that exist, may matter, and are not modelled: why.
_UNSUPPORTED = {
    "tcgen05": "is no sm_90 instruction",
    "clusterlaunchcontrol": "is no sm_90 instruction",
}

#: Hints, and instructions that touch neither shared memory nor synchronization (PTX ISA, cache hints;
#: miscellaneous instructions). ``movmatrix`` and ``mma`` move and multiply registers.
HARMLESS_OPS = frozenset(
    {"applypriority", "brkpt", "createpolicy", "discard", "mma", "movmatrix", "nanosleep", "pmevent",
     "prefetch", "prefetchu"}
)  # fmt: skip

#: Opcodes to ask ``decode`` about.
EFFECT_OPS = frozenset(_DECODERS) | _UNSUPPORTED.keys() | {"cp", "tensormap"}


def _is_tensor_copy(mods: Sequence[str]) -> bool:
    return "tensor" in mods and "prefetch" not in mods


def decode(instr: Instr, function: Function) -> Effect | Unsupported | None:
    """The events of an instruction; None if it has none of the kind decoded here."""
    if instr.op == "cp":
        return decode_tensor(instr) if _is_tensor_copy(instr.mods) else decode_cp(instr, function)
    if instr.op == "tensormap":
        return decode_tensormap(instr, function)
    decoder = _DECODERS.get(instr.op)
    if decoder is not None:
        return decoder(instr)
    why = _UNSUPPORTED.get(instr.op)
    return None if why is None else Unsupported(f"{instr.name} {why}")
