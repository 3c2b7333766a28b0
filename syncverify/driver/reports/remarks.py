"""Remarks on kernels that their text alone gives rise to, whatever the verdict is.

A shuffle that brings nothing is a warning. And a compiler removes stores that nobody reads and barriers that
order nothing. What it leaves may be free of hazards because it is free of shared memory: `proved` then says
nothing of the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from syncverify.base.diagnostics import Diagnostic, KernelReport, Severity, Verdict
from syncverify.base.source import Span

if TYPE_CHECKING:
    from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Module
    from syncverify.ir.nodes import Kernel

RULE = "SV905"
_WHAT = "no access to shared memory, no barrier and no asynchronous operation"
#: Statements of the IR that nothing has to order.
_PLAIN = frozenset("For If Role Let Assign LoadIndex Exit LdGlobal StGlobal Compute".split())
#: Opcodes of PTX with obligations of their own, in any space.
_CHECKED = frozenset(
    "bar barrier mbarrier cp wgmma tcgen05 fence membar griddepcontrol tensormap setmaxnreg elect shfl vote "
    "match redux mma wmma ldmatrix stmatrix movmatrix atom red multimem mapa getctarank "
    "clusterlaunchcontrol".split()
)
#: Modifiers of loads and stores that synchronize, or that reach shared memory.
_CHECKED_MODS = frozenset({"acquire", "release", "relaxed", "volatile", "async", "mmio", "bulk"})
#: What a CUDA source has whose kernels share memory or synchronize.
_SHARED_SOURCE = re.compile(
    rb"\b__shared__\b|\b__syncthreads\w*\b|\bmbarrier\b|\bcp\.async\b|\bcuda::barrier\b|\bmemcpy_async\b"
)
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)


def nothing_in_ir(kernel: Kernel) -> bool:
    """Whether a kernel of the IR only computes, and accesses global memory plainly."""
    from syncverify.passes.rewrite import walk

    return all(type(s).__name__ in _PLAIN for s in walk(kernel.body))


def nothing_in_ptx(module: Module, entry: Function) -> bool:
    """Whether an entry, with the functions that it may call, only computes and accesses global memory."""
    functions = [entry]
    if any(i.op == "call" for i in entry.body):
        functions += [f for f in module.functions if not f.entry]
    if any(v.space == "shared" for v in (*module.variables, *(v for f in functions for v in f.variables))):
        return False
    return not any(map(_obliges, (i for f in functions for i in f.body)))


def _obliges(i: Instr) -> bool:
    return i.op in _CHECKED or any(m in _CHECKED_MODS or m.startswith("shared") for m in i.mods)


def source_shares(data: bytes) -> bool:
    """Whether a CUDA source has shared memory or synchronization outside its comments."""
    return _SHARED_SOURCE.search(_COMMENT.sub(b" ", data)) is not None


def remarked(
    reports: Iterable[KernelReport], empty: Iterable[str], places: dict[str, Span], lost: bool
) -> list[KernelReport]:
    """The reports, with a note on proved kernels that are among the ``empty``.

    ``lost``: the source that they were compiled from shares memory or synchronizes.
    """
    names = frozenset(empty)
    made = []
    for r in reports:
        if r.verdict is Verdict.PROVED and r.name in names:
            text = f"nothing is left to check: {_WHAT}"
            if lost:
                text += "; the source has some, and the compiler removed them: nothing used what they gave"
            note = Diagnostic(RULE, Severity.NOTE, text, places.get(r.name, Span(r.file)))
            r = replace(r, diagnostics=(*r.diagnostics, note))
        made.append(r)
    return made


def with_stray_exchanges(reports: Iterable[KernelReport], module: Module) -> list[KernelReport]:
    """The reports, with a warning at each shuffle whose lanes take values from lanes alone that its mask
    leaves out. A proof says nothing of values, so it stands."""
    from syncverify.frontends.ptx.analysis.warps.stray_exchanges import stray_exchanges

    entries = {f.name: f for f in module.entries}
    made = []
    for r in reports:
        found = stray_exchanges(entries[r.name]) if r.name in entries else []
        warnings = [
            Diagnostic(
                "SV303",
                Severity.WARNING,
                f"lane {lane} takes a value from lane {asked}, which the mask leaves out, and no lane takes "
                "one from another of the mask: what they get is undefined",
                module.span(i),
                contested="K23",
                fix="name all lanes that values are taken from, and let them execute it",
            )
            for i, lane, asked in found
        ]
        made.append(replace(r, diagnostics=(*r.diagnostics, *warnings)))
    return made


__all__ = [
    "RULE",
    "nothing_in_ir",
    "nothing_in_ptx",
    "remarked",
    "source_shares",
    "with_stray_exchanges",
]
