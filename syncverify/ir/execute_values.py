"""Value registers: which there are, which values are ever used, which may differ between lanes."""

from __future__ import annotations

from syncverify.ir import nodes as n
from syncverify.ir.execute_expr import mentions, statements
from syncverify.ir.expr import Expr, Var, names

#: Statements that consume a value expression.
CONSUMERS = (
    n.StShared, n.StMatrix, n.StGlobal, n.FragWrite, n.StAsync, n.AtomShared, n.AtomGlobal, n.Multimem,
    n.Compute, n.Shuffle,
)  # fmt: skip


def is_move(s: n.Stmt, registers: frozenset[str]) -> bool:
    """Whether the statement only renames a value: that is no use of it (rulebook K1)."""
    return isinstance(s, n.Compute) and isinstance(s.value, Var) and s.value.name in registers


def used_registers(body: tuple[n.Stmt, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """All value registers, and those whose value feeds a non-move somewhere, directly or through moves."""
    registers: set[str] = set()
    moves: list[tuple[str, str]] = []
    used: set[str] = set()
    for s in statements(body):
        if isinstance(s, n.LdShared | n.LdGlobal | n.LdMatrix | n.FragRead | n.Compute | n.Shuffle):
            registers.add(s.name)
        elif isinstance(s, n.AtomShared | n.AtomGlobal | n.Multimem) and s.name:
            registers.add(s.name)
        if isinstance(s, n.Compute) and isinstance(s.value, Var):
            moves.append((s.value.name, s.name))
        else:
            value = stored_value(s)
            if value is not None:
                used |= names(value)
    for _ in range(len(moves)):
        used |= {a for a, b in moves if b in used}
    return frozenset(registers), frozenset(used & registers)


def stored_value(s: n.Stmt) -> Expr | None:
    """The value expression that a statement consumes, if any."""
    return s.value if isinstance(s, CONSUMERS) else None


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
