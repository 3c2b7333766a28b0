"""Who arrives: runs a kernel's control for every thread of a block and counts arrivals per phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from syncverify.base.source import InputError
from syncverify.ir.expr import Binary, Expr, Int, Var, evaluate, names
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
from syncverify.passes.rewrite import contains, use_of, walk, with_bodies

Phase = tuple[str, int]
_ARRIVE = (MbarrierArrive, CpAsyncMbarrierArrive)
#: Whether a thread is the first of its warp, as the lane is that counting elects.
FIRST = "first_lane"
_UNITS = {"threads": "tid", "warps": "warp", "warpgroups": "wg"}


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
    read = _read(body)
    body = _without(body, read)
    block = {"block": 0, "block.x": 0, "grid": grid, "grid.x": grid, "rank": 0}
    alike: Counter[tuple[tuple[str, int], ...]] = Counter()
    for tid in range(kernel.launch.threads):
        own = {
            "tid": tid, "tid.x": tid, "warp": tid // 32, "lane": tid % 32, "wg": tid // 128,
            FIRST: int(tid % 32 == 0),
        }  # fmt: skip
        alike[tuple((name, n) for name, n in own.items() if name in read)] += 1
    for mine, threads in alike.items():
        found: Counter[Phase] = Counter()
        _count(body, values | block | dict(mine), found)
        for phase, n in found.items():
            counted[phase] += n * threads
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
            case If(cond=cond):
                out.append(with_bodies(replace(stmt, cond=_by_first(cond)), _counting))
            case For() | Role():
                out.append(with_bodies(stmt, _counting))
            case Let() | Assign() | Elect() | MbarrierArrive() | CpAsyncMbarrierArrive(noinc=True):
                out.append(stmt)
    return tuple(out)


def _by_first(e: Expr) -> Expr:
    """A condition of the first lane, said in a name of its own."""
    match e:
        case Binary("==", Var("lane"), Int(0)):
            return Var(FIRST)
        case Binary(op, left, right):
            return Binary(op, _by_first(left), _by_first(right))
    return e


def _read(body: tuple[Stmt, ...]) -> set[str]:
    """The names on which it depends who arrives where."""
    read: set[str] = set()
    made: list[tuple[str, frozenset[str]]] = []
    for stmt in walk(body):
        match stmt:
            case Let(name, value) | Assign(name, value):
                made.append((name, names(value)))
            case Elect(name):
                made.append((name, frozenset({FIRST})))
            case MbarrierArrive(bar=bar) | CpAsyncMbarrierArrive(bar=bar):
                read |= names(bar.index) if bar.index is not None else frozenset()
                read |= names(stmt.count) if isinstance(stmt, MbarrierArrive) else frozenset()
            case Role(unit=unit, lo=lo, hi=hi):
                read |= {_UNITS[unit]} | names(lo) | names(hi)
            case If(cond=cond):
                read |= names(cond)
            case For(lo=lo, hi=hi, step=step):
                read |= names(lo) | names(hi) | names(step)
    size = -1
    while size != len(read):
        size = len(read)
        read = read.union(*(needs for name, needs in made if name in read))
    return read


def _without(body: tuple[Stmt, ...], read: set[str]) -> tuple[Stmt, ...]:
    """Without the names that nothing depends on."""
    return tuple(
        with_bodies(s, lambda inner: _without(inner, read)) if isinstance(s, (If, For, Role)) else s
        for s in body
        if not isinstance(s, (Let, Assign, Elect)) or s.name in read
    )


def _count(body: Iterable[Stmt], env: dict[str, int], counted: Counter[Phase]) -> None:
    for stmt in body:
        match stmt:
            case Let(name, value) | Assign(name, value):
                env[name] = evaluate(value, env)
            case Elect(name):
                env[name] = env[FIRST]
            case MbarrierArrive(bar=bar) | CpAsyncMbarrierArrive(bar=bar):
                if bar.index is None:
                    raise InputError(f"arrivals on {bar.name} have no slot", stmt.span)
                count = evaluate(stmt.count, env) if isinstance(stmt, MbarrierArrive) else 1
                counted[bar.name, evaluate(use_of(bar.index)[0], env)] += count
            case Role(unit=unit, lo=lo, hi=hi, body=inner):
                if evaluate(lo, env) <= env[_UNITS[unit]] < evaluate(hi, env):
                    _count(inner, env, counted)
            case If(cond, then, orelse):
                _count(then if evaluate(cond, env) else orelse, env, counted)
            case For(var, lo, hi, step, inner):
                for i in range(evaluate(lo, env), evaluate(hi, env), evaluate(step, env)):
                    env[var] = i
                    _count(inner, env, counted)
