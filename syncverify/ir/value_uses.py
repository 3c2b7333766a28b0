"""Value registers: which there are, where values come from and go to, which may differ between lanes."""

from __future__ import annotations

from syncverify.ir import nodes as n
from syncverify.ir.evaluate import mentions, statements, varying_names
from syncverify.ir.expr import LANE_BUILTINS, Expr, names
from syncverify.ir.memo import once

#: Statements that consume a value expression.
CONSUMERS = (
    n.StShared, n.StMatrix, n.StGlobal, n.FragWrite, n.StAsync, n.AtomShared, n.AtomGlobal, n.Multimem,
    n.Compute, n.Shuffle,
)  # fmt: skip


def stored_value(s: n.Stmt) -> Expr | None:
    """The value expression that a statement consumes, if any."""
    return s.value if isinstance(s, CONSUMERS) else None


def carried(s: n.Stmt) -> tuple[str, frozenset[str]] | None:
    """The register that arithmetic fills and those it reads.

    Nothing holds it before a release: ptxas moves sums, shuffles and votes behind an arrive (K1).
    """
    match s:
        case n.Compute(name, value):
            return name, names(value)
        case n.Shuffle(name):
            return name, names(s.value)
        case n.FragWrite(frag):
            return frag, names(s.value) | (frozenset() if s.start is None else {frag})
        case n.FragRead(name, frag):
            return name, frozenset({frag})
    return None


def pinned(s: n.Stmt) -> frozenset[str]:
    """The registers that must have their values when a statement runs that no release overtakes."""
    if isinstance(s, n.Wgmma):
        return frozenset({s.acc, s.a}) if isinstance(s.a, str) else frozenset({s.acc})
    if carried(s) is not None or isinstance(s, n.Let | n.Assign):
        return frozenset()
    value = getattr(s, "value", None)
    return names(value) if isinstance(value, Expr) else frozenset()


def reaching_memory(body: tuple[n.Stmt, ...]) -> frozenset[str]:
    """Registers whose values reach a store, an atomic or a matrix product, through any arithmetic."""
    inside = tuple(statements(body))
    found = frozenset[str]().union(*map(pinned, inside))
    flows = [c for c in map(carried, inside) if c is not None]
    while True:
        more = found.union(*(read for name, read in flows if name in found))
        if more == found:
            return found
        found = more


@once
def refilled(kernel: n.Kernel) -> frozenset[str]:
    """The shared buffers that bulk copies may write: of no others it matters when their reads are over.

    Only a generic read before a write of the async proxy asks for that (``model/ordering.py``, K1).
    """
    copies = [s for s in statements(kernel.body) if isinstance(s, n.BulkLoad | n.BulkCopy | n.TmaLoad)]
    if copies and any(s.offset is not None for s in kernel.shared):
        return frozenset(s.name for s in kernel.shared)  # buffers may overlap
    return frozenset(s.dst.buffer for s in copies)


def holders(kernel: n.Kernel) -> dict[str, frozenset[str]]:
    """Per register that a refilled buffer is read into: itself, and what may hold values computed from it."""
    into: dict[str, set[str]] = {}
    for to, read in (c for c in map(carried, statements(kernel.body)) if c is not None):
        for name in read:
            into.setdefault(name, set()).add(to)
    found: dict[str, frozenset[str]] = {}
    buffers = refilled(kernel)
    for s in statements(kernel.body):
        if isinstance(s, n.LdShared | n.LdMatrix) and s.src.buffer in buffers and s.name not in found:
            seen, work = {s.name}, [s.name]
            while work:
                more = into.get(work.pop(), set()) - seen
                seen |= more
                work += more
            found[s.name] = frozenset(seen)
    return found


@once
def awaited(kernel: n.Kernel) -> dict[str, frozenset[str]]:
    """The same without what never reaches memory: ptxas leaves that out, or it is over at once."""
    reaching = reaching_memory(kernel.body)
    return {name: held & reaching for name, held in holders(kernel).items()}


def fence_covers_reads(fence: n.Fence | n.FenceProxyAsync, body: tuple[n.Stmt, ...]) -> bool:
    """Whether all reads of shared memory that come before a fence are over behind it."""
    if isinstance(fence, n.Fence):
        return fence.sem in ("acq_rel", "sc")
    if fence.half is not None or fence.space == "global":
        return False
    if fence.space != "shared_cta":
        return True
    reads = (s.src for s in statements(body) if isinstance(s, n.LdShared | n.LdMatrix))
    return all(r.rank is None for r in reads)


def value_registers(body: tuple[n.Stmt, ...]) -> frozenset[str]:
    """All registers that hold values."""
    found: set[str] = set()
    for s in statements(body):
        if isinstance(s, n.LdShared | n.LdGlobal | n.LdMatrix | n.FragRead | n.Compute | n.Shuffle):
            found.add(s.name)
        elif isinstance(s, n.AtomShared | n.AtomGlobal | n.Multimem) and s.name:
            found.add(s.name)
    return frozenset(found)


@once
def lane_differences(kernel: n.Kernel) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The names whose values lanes may differ in; the registers of values, and those that may differ."""
    varying, registers = varying_names(kernel.body, LANE_BUILTINS), value_registers(kernel.body)
    return varying, registers, varying_values(kernel.body, varying, registers)


def varying_values(
    body: tuple[n.Stmt, ...], varying: frozenset[str], registers: frozenset[str]
) -> frozenset[str]:
    """Value registers that may hold different values in different lanes."""
    found: set[str] = set()
    changed = True
    while changed:
        changed = False
        both = varying | found
        for s in statements(body):
            name: str | None = None
            if isinstance(s, n.FragRead | n.LdMatrix):
                name = s.name  # each lane gets its own share
            elif isinstance(s, n.LdShared):
                r = s.src
                parts = [*r.index, r.start, r.count, r.rows, r.pitch]
                name = s.name if any(p is not None and mentions(p, both) for p in parts) else None
            elif isinstance(s, n.LdGlobal):
                name = s.name if mentions(s.src.start, both) else None
            elif isinstance(s, n.AtomShared | n.AtomGlobal | n.Multimem | n.Shuffle):
                name = s.name  # atomics and other lanes answer each lane differently
            elif isinstance(s, n.Compute):
                name = s.name if mentions(s.value, both) else None
            if name in registers and name not in found:
                found.add(name)
                changed = True
    return frozenset(found)
