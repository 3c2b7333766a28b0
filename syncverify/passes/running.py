"""Rings whose slot and phase are registers that every role advances: they carry on from tile to tile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from syncverify.ir.evaluate import expressions
from syncverify.ir.expr import Int, Var, names
from syncverify.ir.nodes import (
    Assign,
    Barrier,
    BarrierRef,
    For,
    If,
    Kernel,
    LdShared,
    Let,
    LoadIndex,
    Region,
    Role,
    Shared,
    Stmt,
    TmaLoad,
    Wgmma,
)
from syncverify.passes.rewrite import Body, bodies, contains, flat_map, walk, with_bodies

#: The registers of a role: the slot it is at, and the parity of that slot's phase.
STAGE, PHASE = Var("stage"), Var("phase")


@dataclass(frozen=True)
class RunningRings:
    """Gives the buffers that tensor copies fill ``stages`` slots, gone through in turn by the innermost loop.

    Each role keeps the slot and the parity of its phase in registers, advanced at the end of an iteration.
    """

    stages: int
    name: str = "running-rings"

    def apply(self, kernel: Kernel) -> Kernel:
        loads = [s for s in walk(kernel.body) if isinstance(s, TmaLoad)]
        buffers = {s.dst.buffer for s in loads}
        fulls = {s.bar.name for s in loads}

        def in_role(stmt: Stmt) -> Stmt:
            if not isinstance(stmt, Role):
                return with_bodies(stmt, lambda b: tuple(in_role(s) for s in b))
            loops = flat_map(stmt.body, lambda s: (self._slotted(s, buffers, fulls),))
            if loops == stmt.body:
                return stmt
            return replace(stmt, body=(Let("stage", Int(0)), Let("phase", Int(0)), *loops))

        return replace(
            kernel,
            body=tuple(in_role(s) for s in kernel.body),
            shared=tuple(self._widened(s) if s.name in buffers else s for s in kernel.shared),
            barriers=tuple(
                Barrier(b.name, Int(self.stages)) if b.name in fulls else b for b in kernel.barriers
            ),
        )

    def _widened(self, s: Shared) -> Shared:
        return replace(s, shape=(Int(self.stages), *s.shape))

    def _slotted(self, stmt: Stmt, buffers: set[str], fulls: set[str]) -> Stmt:
        if not ring_loop(stmt):
            return stmt
        assert isinstance(stmt, For)
        body = flat_map(stmt.body, lambda s: (_at_stage(s, buffers, fulls),))
        return replace(stmt, body=(*body, *advance(self.stages)))


def ring_loop(stmt: Stmt) -> bool:
    """The innermost loops around copies into a ring, and around the products that read it."""
    if not isinstance(stmt, For) or not contains(stmt, (TmaLoad, Wgmma)):
        return False
    return not any(
        isinstance(s, For) and contains(s, (TmaLoad, Wgmma)) for b in stmt.body for s in walk((b,))
    )


def advance(stages: int) -> tuple[Stmt, ...]:
    """To the next slot, and to the next phase after the last one."""
    again: tuple[Stmt, ...] = (Assign("stage", Int(0)), Assign("phase", PHASE ^ 1))
    return (Assign("stage", STAGE + 1), If(STAGE.eq(stages), again))


def _at_stage(stmt: Stmt, buffers: set[str], fulls: set[str]) -> Stmt:
    def slot(r: Region) -> Region:
        return replace(r, index=(STAGE, *r.index)) if r.buffer in buffers else r

    match stmt:
        case TmaLoad(dst=dst, bar=bar) if bar.name in fulls:
            return replace(stmt, dst=slot(dst), bar=BarrierRef(bar.name, STAGE))
        case Wgmma(a=a, b=b):
            return replace(stmt, a=slot(a) if isinstance(a, Region) else a, b=slot(b))
        case LdShared(src=src):
            return replace(stmt, src=slot(src))
    return stmt


def used_lets(body: Body, also: Iterable[str] = ()) -> Body:
    """The body without ``let`` statements that nothing after them reads."""
    out: list[Stmt] = []
    read = set(also)
    for s in reversed(body):
        if isinstance(s, Let | LoadIndex) and s.name not in read:
            continue
        later = frozenset(read)
        inner = with_bodies(s, lambda b, later=later: used_lets(b, later))  # type: ignore[misc]
        read |= mentioned(inner)
        out.append(inner)
    return tuple(reversed(out))


def mentioned(stmt: Stmt) -> set[str]:
    """Every name that the expressions of a statement, and of those inside it, read."""
    return {x for e in expressions(stmt) for x in names(e)}


def without_empty(body: Body, keeps: Callable[[Stmt], bool]) -> Body:
    """The body without loops, roles and conditionals that hold nothing of what ``keeps`` accepts."""

    def wanted(s: Stmt) -> bool:
        return not bodies(s) or any(keeps(x) for x in walk((s,)))

    return tuple(with_bodies(s, lambda b: without_empty(b, keeps)) for s in body if wanted(s))


__all__ = [
    "PHASE", "STAGE", "RunningRings", "advance", "mentioned", "ring_loop", "used_lets", "without_empty",
]  # fmt: skip
