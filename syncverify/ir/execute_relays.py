"""Kernels whose blocks hand on flags in global memory, each block to the next. See docs/symbolic.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from syncverify.ir import nodes as n
from syncverify.ir.execute_expr import statements
from syncverify.ir.execute_tables import mixes_atomics

_INTEGERS = frozenset({"i32", "u32", "i64", "u64"})
_SIGNALS = frozenset({"relaxed", "release", "acq_rel", "sc"})


def flag_tensors(kernel: n.Kernel) -> frozenset[str]:
    """The tensors that blocks spin on, if nothing but spins and single signals touches them; else none."""
    body = list(statements(kernel.body))
    spun = frozenset(s.src.tensor for s in body if isinstance(s, n.SpinGlobal))
    for s in body:
        if spun & set(_tensors(kernel, s)) and not isinstance(s, n.SpinGlobal) and not _signal(s):
            return frozenset()
    if any(t.name in spun and t.dtype not in _INTEGERS for t in kernel.tensors):
        return frozenset()
    edits = any(isinstance(s, n.TensormapReplace) for s in body)
    return frozenset() if edits or mixes_atomics(kernel) else spun


def assumed(kernel: n.Kernel) -> tuple[str, ...]:
    """What a proof for every size takes for granted where blocks hand on flags."""
    flags = sorted(flag_tensors(kernel))
    zero = f"the flags in {', '.join(flags)} are 0 at launch"
    order = "a block starts no later than those of higher numbers, which wait for it"
    return (zero, *([] if kernel.launch.cooperative else [order])) if flags else ()


def _signal(s: n.Stmt) -> bool:
    """Whether a statement only gives a flag another value."""
    if isinstance(s, n.StGlobal):
        return s.sem in _SIGNALS
    return isinstance(s, n.AtomGlobal) and s.sem in _SIGNALS and s.op == "add" and s.name is None


def written(kernel: n.Kernel) -> frozenset[str]:
    """The tensors that a kernel may write."""
    found: set[str] = set()
    for s in statements(kernel.body):
        if not isinstance(s, n.LdGlobal | n.SpinGlobal | n.BulkLoad | n.TmaLoad | n.CpAsync | n.LoadIndex):
            found.update(_tensors(kernel, s))
    return frozenset(found)


def _tensors(kernel: n.Kernel, s: n.Stmt) -> Iterator[str]:
    """The tensors that a statement names, itself or by a map."""
    maps = {m.name: m.tensor for m in kernel.maps}
    for f in fields(s):
        match getattr(s, f.name):
            case n.GlobalRegion(tensor):
                yield tensor
            case str(name) if name in maps:
                yield maps[name]


__all__ = ["assumed", "flag_tensors", "written"]
