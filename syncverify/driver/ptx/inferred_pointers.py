"""Pointers that a launch file leaves out, of kernels whose blocks hand data over through global memory.

Such a kernel needs the addresses of its flags and of its data. Compilers of CUDA declare a pointer as a plain
parameter of 64 bits, and only its uses show what it is. One that addresses of global memory are made of leads
to memory of its own, if the launch file says nothing of any pointer.

Example: of ``ld.param.u64 %rd1, [flag]; ld.acquire.gpu.global.u32 %r1, [%rd1];`` ``flag`` is a pointer. With
``prefix`` beside it, ``flag`` and ``prefix`` lead to different memory, which the verdict assumes.
"""

from __future__ import annotations

from dataclasses import replace

from syncverify.frontends.ptx.analysis.handover.handover_detection import bulk_copies, global_operand
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.parameters import Leaf
from syncverify.frontends.ptx.syntax.nodes import Mem, Operand

_POINTER = 8
_ALIGN = 16


def with_pointers(facts: PtxFacts, program: Program) -> PtxFacts | None:
    """The facts with the pointers that the hand-over of a program goes by; None where there are none, or the
    launch file says of some pointer where it leads."""
    given = [leaf for leaves in facts.params for leaf in leaves if leaf.kind == "ptr"]
    if program.handing is None or given:
        return None
    places = [*program.handing.accesses, *program.handing.spins]
    operands: list[Operand] = [op for k in places for op in program.body[k].operands if isinstance(op, Mem)]
    operands += [global_operand(program.body[k]) for _, copies in bulk_copies(program.flow) for k in copies]
    made = {place for op in operands for place in program.origins.of(op)}
    whole = {f"{p.name}+0": n for n, p in enumerate(program.function.params) if p.size == _POINTER}
    found = sorted(n for place, n in whole.items() if place in made and not facts.params[n])
    if not found:
        return None
    params = list(facts.params)
    for n in found:
        params[n] = (Leaf(0, _POINTER, "ptr", name=facts.called[n], align=_ALIGN),)
    return replace(facts, params=tuple(params), _cache={})


def of_pointers(given: PtxFacts, used: PtxFacts) -> list[str]:
    """What a verdict assumes of pointers that were inferred; ``given``: the facts of the launch file."""
    names = [
        leaf.name
        for before, leaves in zip(given.params, used.params, strict=True)
        for leaf in leaves
        if not before and leaf.kind == "ptr"
    ]
    return (
        [f"{', '.join(names)}: pointers, each to memory of its own, aligned to {_ALIGN} bytes"]
        if names
        else []
    )


__all__ = ["of_pointers", "with_pointers"]
