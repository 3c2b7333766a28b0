"""Operations that one lane of a warp issues: an elected lane's predicate around them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from syncverify.ir.expr import Var
from syncverify.ir.nodes import (
    Assign,
    AtomGlobal,
    BulkCommit,
    BulkCopy,
    BulkLoad,
    BulkStore,
    BulkWait,
    Elect,
    For,
    If,
    Kernel,
    Let,
    MbarrierArrive,
    MbarrierWait,
    Role,
    SpinGlobal,
    Stmt,
    TmaLoad,
    TmaStore,
)
from syncverify.passes.rewrite import Body, bodies, walk

#: Operations of one thread (PTX ISA: each executing thread issues its own copy).
_SINGLE = (BulkLoad, BulkStore, TmaLoad, TmaStore, BulkCopy, BulkCommit, BulkWait)
#: Operations that may stand beside them under the same predicate.
_NEUTRAL = (MbarrierWait, SpinGlobal, AtomGlobal)


@dataclass(frozen=True)
class ElectOneLane:
    """Puts the largest groups of single-thread operations of a role under ``if elected``.

    A role that does nothing else goes under it as a whole, its arrivals too. The lane is elected once, at
    the kernel's start, where every warp is whole (B5).
    """

    register: str = "elected"
    name: str = "elect"

    def apply(self, kernel: Kernel) -> Kernel:
        if not any(_single(s) for s in walk(kernel.body)):
            return kernel
        return replace(kernel, body=(Elect(self.register), *self._predicated(kernel.body)))

    def _predicated(self, body: Body) -> Body:
        result: list[Stmt] = []
        group: list[Stmt] = []

        def flush() -> None:
            if any(_has_single(s) for s in group):
                result.append(If(Var(self.register), tuple(group)))
            else:
                result.extend(group)
            group.clear()

        for stmt in body:
            if _may_be_single(stmt):
                group.append(stmt)
                continue
            flush()
            match stmt:
                case Role(body=b) if _issues_only(b):
                    result.append(replace(stmt, body=(If(Var(self.register), b),)))
                case For(body=b) | Role(body=b):
                    result.append(replace(stmt, body=self._predicated(b)))
                case If(then=t, orelse=o):
                    result.append(replace(stmt, then=self._predicated(t), orelse=self._predicated(o)))
                case _:
                    result.append(stmt)
        flush()
        return tuple(result)


def _single(stmt: Stmt) -> bool:
    return isinstance(stmt, _SINGLE) or (isinstance(stmt, MbarrierArrive) and stmt.expect is not None)


def _issues_only(body: Body) -> bool:
    """Whether one thread can do all of it: issue copies, wait and arrive for them."""
    leaves = [s for s in walk(body) if not bodies(s)]
    return any(_single(s) for s in leaves) and all(
        _single(s) or isinstance(s, (*_NEUTRAL, MbarrierArrive, Let, Assign)) for s in leaves
    )


def _has_single(stmt: Stmt) -> bool:
    return any(_single(s) for s in walk((stmt,)))


def _may_be_single(stmt: Stmt) -> bool:
    """Nothing but single-thread operations and what may stand beside them; roles keep their own predicate."""
    if isinstance(stmt, Role):
        return False
    inner = bodies(stmt)
    if inner:
        return all(_may_be_single(s) for b in inner for s in b)
    return _single(stmt) or isinstance(stmt, _NEUTRAL)
