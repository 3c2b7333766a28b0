"""Statements that no event depends on: conditionals and loops around nothing but plain global accesses.

Where blocks do not synchronize through global memory, its data is nobody's business here, and neither is
which lanes touch it. Left in, ``if i < rest`` would part the lanes of a warp at every value of ``rest``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from syncverify.ir import nodes as n
from syncverify.ir.execute_expr import bodies, statements
from syncverify.ir.execute_tables import synchronizes_globally
from syncverify.ir.execute_values import carried
from syncverify.ir.expr import Binary, Call, Expr, Int, Var, names, walk
from syncverify.source import Span


def without_quiet(kernel: n.Kernel) -> n.Kernel:
    """The kernel without its quiet statements: with the same synchronization, shared accesses and uses."""
    if synchronizes_globally(kernel) or any(
        isinstance(s, n.GridDepWait | n.GridDepLaunch) for s in statements(kernel.body)
    ):
        return kernel
    body, values = kernel.body, _read_values(kernel.body)
    if any(isinstance(s, n.If | n.For) and _plain(s) for s in statements(body)):
        body = _kept(body, frozenset(), values)
    return replace(kernel, body=_without(body, _closure(kernel.body, False) - _closure(body, True), values))


def _read_values(body: tuple[n.Stmt, ...]) -> frozenset[str]:
    """Value registers that may wait for a read of shared memory: arithmetic hands that on (K1)."""
    found: set[str] = set()
    flows: list[tuple[str, frozenset[str]]] = []
    for s in statements(body):
        if isinstance(s, n.LdShared | n.LdMatrix | n.AtomShared) and s.name:
            found.add(s.name)
        flow = carried(s)
        if flow is not None:
            flows.append(flow)
    while True:
        more = {to for to, read in flows if to not in found and not found.isdisjoint(read)}
        if not more:
            return frozenset(found)
        found |= more


def _closure(body: tuple[n.Stmt, ...], steers: bool) -> frozenset[str]:
    """Names that the statements read, directly or through other registers.

    ``steers``: without those that only say where in global memory data lies, or become data.
    """
    read: set[str] = set()
    given: dict[str, set[str]] = {}
    for s in statements(body):
        if isinstance(s, n.Let | n.Assign):
            given.setdefault(s.name, set()).update(names(s.value))
        elif isinstance(s, n.LoadIndex):
            given.setdefault(s.name, set()).update(names(s.source.start))
        elif not steers or not isinstance(s, n.LdGlobal | n.StGlobal | n.Compute):
            if steers and isinstance(s, n.TmaLoad | n.TmaStore | n.TmaPrefetch):
                s = replace(s, coords=())
            read |= set(_names_in(s))
    work = list(read)
    while work:
        new = given.get(work.pop(), set()) - read
        read |= new
        work += new
    return frozenset(read)


def _without(body: tuple[n.Stmt, ...], unread: frozenset[str], values: frozenset[str]) -> tuple[n.Stmt, ...]:
    """The body without what gives names a value that nothing reads.

    A fragment that is read is as good as one read again and again, unless its registers wait for a read.
    """
    out: list[n.Stmt] = []
    for s in body:
        match s:
            case n.Let(name) | n.Assign(name) | n.LoadIndex(name) if name in unread:
                continue  # even a quotient by 0: it would be data, or a place
            case n.If():
                out.append(
                    replace(
                        s, then=_without(s.then, unread, values), orelse=_without(s.orelse, unread, values)
                    )
                )
            case n.For(lo=lo, hi=hi, body=inner):
                inner = _without(inner, unread, values)
                once = isinstance(lo, Int) and isinstance(hi, Int) and lo.value < hi.value
                if once and inner and all(isinstance(x, n.FragRead) for x in inner):
                    out += inner
                else:
                    out.append(replace(s, body=inner))
            case n.FragRead(frag=frag) if (
                out and isinstance(last := out[-1], n.FragRead) and last.frag == frag not in values
            ):
                continue
            case n.Role():
                out.append(replace(s, body=_without(s.body, unread, values)))
            case _:
                out.append(s)
    return tuple(out)


def _kept(body: tuple[n.Stmt, ...], live: frozenset[str], values: frozenset[str]) -> tuple[n.Stmt, ...]:
    """The body without what is quiet; ``live``: names that are read after it."""
    out: list[n.Stmt] = []
    for s in reversed(body):
        if isinstance(s, n.If | n.For) and _plain(s) and not _uses(s, values):
            handed = _handed(s, live, values)
            if handed is not None:
                out += reversed(handed)
                live = live - {load.name for load in handed}
                continue
        match s:
            case n.If():
                out.append(replace(s, then=_kept(s.then, live, values), orelse=_kept(s.orelse, live, values)))
            case n.For():
                again = live | frozenset(_exposed(s.body, frozenset()))
                out.append(replace(s, body=_kept(s.body, again, values)))
            case n.Role():
                out.append(replace(s, body=_kept(s.body, live, values)))
            case _:
                out.append(s)
        live = (live - frozenset(_made(s))) | frozenset(_exposed((s,), frozenset()))
    return tuple(reversed(out))


def _plain(s: n.If | n.For) -> bool:
    """Whether a statement touches global memory, and nothing in it is another event or might fail."""
    inside = [x for b in bodies(s) for x in statements(b)]
    touches = any(isinstance(x, n.LdGlobal | n.StGlobal) for x in inside)
    return touches and all(map(_silent, (s, *inside)))


def _silent(s: n.Stmt) -> bool:
    match s:
        case n.If(cond):
            return _total(cond)
        case n.For(_, lo, hi, step):
            return _total(lo) and _total(hi) and isinstance(step, Int) and step.value > 0
        case n.LdGlobal(sem="weak") | n.StGlobal(sem="weak") | n.Compute():
            return True
        case n.Let(_, value):
            return _total(value)
    return False


def _total(e: Expr) -> bool:
    """Whether an expression has a value whatever its names stand for."""
    for x in walk(e):
        match x:
            case Binary("//" | "%", _, by) | Call("cdiv", (_, by)) if not _positive(by):
                return False
            case Binary("<<" | ">>"):
                return False
    return True


def _positive(e: Expr) -> bool:
    return isinstance(e, Int) and e.value > 0


def _uses(s: n.If | n.For, values: frozenset[str]) -> bool:
    """Whether a statement uses a value that may have been read from shared memory."""
    return any(name in values for b in bodies(s) for name in _exposed(b, frozenset()))


def _handed(s: n.If | n.For, live: frozenset[str], values: frozenset[str]) -> list[n.LdGlobal] | None:
    """What stands for a statement: loads of the data that it hands on, of which nothing is known either.

    None if it hands on an integer, or a register that it may leave with what was read from shared memory.
    """
    inside = [x for b in bodies(s) for x in statements(b)]
    handed = {name for x in inside for name in _made(x)} & live
    data = {x.name for x in inside if isinstance(x, n.Compute | n.LdGlobal)}
    if not handed <= data - values:
        return None
    tensor = next(x.src.tensor if isinstance(x, n.LdGlobal) else x.dst.tensor for x in inside
                  if isinstance(x, n.LdGlobal | n.StGlobal))  # fmt: skip
    return [n.LdGlobal(name, n.GlobalRegion(tensor, Var("tid")), span=s.span) for name in sorted(handed)]


def _exposed(body: tuple[n.Stmt, ...], made: frozenset[str]) -> Iterator[str]:
    """Names that may be read with a value from before the body."""
    for s in body:
        inner = bodies(s)
        read = {x for b in inner for x in _exposed(b, made | ({s.var} if isinstance(s, n.For) else set()))}
        yield from (read | set(_names_in(s))) - made
        made |= frozenset(_made(s))


def _made(s: n.Stmt) -> Iterator[str]:
    """What a statement surely gives a value."""
    if isinstance(
        s, n.Let | n.Assign | n.Compute | n.LdGlobal | n.LdShared | n.LdMatrix | n.FragRead | n.Shuffle
    ):
        yield s.name


def _names_in(s: n.Stmt) -> Iterator[str]:
    """The names in a statement's own expressions."""
    for f in fields(s):
        if f.name not in ("body", "then", "orelse"):
            yield from _names(getattr(s, f.name))


def _names(x: Any) -> Iterator[str]:
    if isinstance(x, Expr):
        yield from names(x)
    elif isinstance(x, tuple):
        for y in x:
            yield from _names(y)
    elif is_dataclass(x) and not isinstance(x, Span):
        for f in fields(x):
            yield from _names(getattr(x, f.name))


__all__ = ["without_quiet"]
