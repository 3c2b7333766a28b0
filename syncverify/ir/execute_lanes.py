"""Which lanes a kernel tells apart: the elected lane to try, and the role a class belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from syncverify.ir import nodes as n
from syncverify.ir.execute_blocks import Grid
from syncverify.ir.execute_code import Program
from syncverify.ir.execute_expr import bodies, fold, mentions, statements
from syncverify.ir.expr import LANE_BUILTINS, Expr, Int, evaluate, walk
from syncverify.model.events import ThreadClass


def elected_lanes(kernel: n.Kernel, values: Mapping[str, int]) -> list[int]:
    """The lanes to elect: one that no guard names, and lane 0 where a role both elects and names lanes.

    A guard that names lanes beside an election may hit the elected lane or miss it; both must be right.
    """
    if not any(isinstance(s, n.Elect) for s in statements(kernel.body)):
        return [0]
    known: dict[str, Expr] = {k: Int(v) for k, v in values.items()}
    named = {c % 32 for guard in _lane_guards(kernel.body) for c in _constants(fold(guard, known))}
    free = next((lane for lane in range(1, 32) if lane not in named), 1)
    return [free, 0] if _both(kernel.body) else [free]


def _lane_guards(body: tuple[n.Stmt, ...]) -> Iterator[Expr]:
    for s in statements(body):
        if isinstance(s, n.If) and mentions(s.cond, LANE_BUILTINS):
            yield s.cond
        elif isinstance(s, n.Role) and s.unit == "threads":
            yield s.lo
            yield s.hi


def _constants(e: Expr) -> Iterator[int]:
    """The numbers of a guard, with their neighbours (``lane < 1`` names lane 0 and lane 1)."""
    for x in walk(e):
        if isinstance(x, Int):
            yield from (x.value - 1, x.value, x.value + 1)


def _both(body: tuple[n.Stmt, ...]) -> bool:
    """Whether some role, or the code outside roles together with a role that uses its election, has both."""
    outside = tuple(_without_roles(body))
    elects = any(isinstance(s, n.Elect) for s in outside)
    guards = any(_names_lanes(s) for s in outside)
    if elects and guards:
        return True
    kept = frozenset(s.name for s in outside if isinstance(s, n.Elect))
    for role in (s for s in statements(body) if isinstance(s, n.Role)):
        inside = list(statements(role.body))
        here = any(isinstance(s, n.Elect) for s in inside) or any(
            isinstance(s, n.If) and mentions(s.cond, kept) for s in inside
        )
        if here and (guards or any(_names_lanes(s) for s in inside)):
            return True
    return False


def _names_lanes(s: n.Stmt) -> bool:
    return isinstance(s, n.If) and mentions(s.cond, LANE_BUILTINS)


def _without_roles(body: tuple[n.Stmt, ...]) -> Iterator[n.Stmt]:
    for s in body:
        if isinstance(s, n.Role):
            continue
        yield s
        for inner in bodies(s):
            yield from _without_roles(inner)


def role_of(program: Program, grid: Grid, c: ThreadClass) -> str:
    """The first role whose range holds the class's first lane, by its launch-time bounds."""
    first = (c.lanes & -c.lanes).bit_length() - 1
    number = {"threads": 32 * c.warp + first, "warps": c.warp, "warpgroups": c.warp // 4}
    for s in statements(program.kernel.body):
        if isinstance(s, n.Role):
            try:
                lo, hi = (evaluate(fold(e, program.known), {}) for e in (s.lo, s.hi))
            except (KeyError, ArithmeticError, TypeError):
                continue
            if lo <= number[s.unit] < hi:
                return s.name
    return ""
