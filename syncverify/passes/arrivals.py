"""Who arrives: runs a kernel's control for every thread of a block and counts arrivals per phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from syncverify.ir.expr import evaluate
from syncverify.ir.nodes import (
    Assign,
    CpAsyncMbarrierArrive,
    Elect,
    Exit,
    For,
    If,
    Kernel,
    Let,
    MbarrierArrive,
    Role,
    Stmt,
)
from syncverify.passes.rewrite import contains, use_of, with_bodies
from syncverify.source import InputError

Phase = tuple[str, int]
_ARRIVE = (MbarrierArrive, CpAsyncMbarrierArrive)


def arrivals(kernel: Kernel) -> dict[str, int]:
    """For every mbarrier array: the arrivals of each of its phases.

    The kernel's default sizes give the trip counts; a slot ``e % S`` belongs to the phase of use e.
    Raises InputError if phases of one array get different numbers.
    """
    if any(p.default is None for p in kernel.params):
        raise InputError(f"{kernel.name}: arrivals can only be counted where every parameter has a default")
    counted: Counter[Phase] = Counter()
    values = {p.name: p.default for p in kernel.params if p.default is not None}
    grid = evaluate(kernel.launch.grid[0], values)
    body = _counting(kernel.body)
    for tid in range(kernel.launch.threads):
        env = values | {
            "tid": tid, "tid.x": tid, "warp": tid // 32, "lane": tid % 32, "wg": tid // 128,
            "block": 0, "block.x": 0, "grid": grid, "grid.x": grid, "rank": 0,
        }  # fmt: skip
        _count(body, env, counted)
    result: dict[str, int] = {}
    for (name, use), n in counted.items():
        if result.setdefault(name, n) != n:
            raise InputError(
                f"{kernel.name}: phase {use} of {name} gets {n} arrivals, an earlier one {result[name]}"
            )
    return result


def _counting(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """What counting looks at."""
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case If() if not contains(stmt, (*_ARRIVE, Exit)):
                continue
            case For() if not contains(stmt, _ARRIVE):
                continue
            case If() | For() | Role():
                out.append(with_bodies(stmt, _counting))
            case Let() | Assign() | Elect() | MbarrierArrive() | CpAsyncMbarrierArrive(noinc=True):
                out.append(stmt)
    return tuple(out)


def _count(body: Iterable[Stmt], env: dict[str, int], counted: Counter[Phase]) -> None:
    for stmt in body:
        match stmt:
            case Let(name, value) | Assign(name, value):
                env[name] = evaluate(value, env)
            case Elect(name):
                env[name] = int(env["lane"] == 0)
            case MbarrierArrive(bar=bar) | CpAsyncMbarrierArrive(bar=bar):
                if bar.index is None:
                    raise InputError(f"arrivals on {bar.name} have no slot", stmt.span)
                count = evaluate(stmt.count, env) if isinstance(stmt, MbarrierArrive) else 1
                counted[bar.name, evaluate(use_of(bar.index)[0], env)] += count
            case Role(unit=unit, lo=lo, hi=hi, body=inner):
                me = env[{"threads": "tid", "warps": "warp", "warpgroups": "wg"}[unit]]
                if evaluate(lo, env) <= me < evaluate(hi, env):
                    _count(inner, env, counted)
            case If(cond, then, orelse):
                _count(then if evaluate(cond, env) else orelse, env, counted)
            case For(var, lo, hi, step, inner):
                for i in range(evaluate(lo, env), evaluate(hi, env), evaluate(step, env)):
                    env[var] = i
                    _count(inner, env, counted)
