"""Two multiplying warpgroups that take the block's tiles in turn: one stores while the other multiplies.

Both go through one ring of loads; where a tile goes round it a whole number of times, all of a warpgroup
begin at the same place. A wait for a phase tells only its parity, so a warpgroup may not ask for a phase
before the one before it is complete. That one belongs to the other warpgroup's tile: which warpgroup
multiplies next is handed over with a pair of mbarriers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from syncverify.base.source import InputError
from syncverify.ir.expr import Expr, Int, Var
from syncverify.ir.nodes import (
    Assign,
    Barrier,
    BarrierRef,
    For,
    If,
    Kernel,
    Let,
    MbarrierArrive,
    MbarrierInit,
    MbarrierWait,
    Role,
    Stmt,
    Wgmma,
)
from syncverify.passes.rewrite import Body, contains, flat_map, walk
from syncverify.passes.roles import COMPUTE
from syncverify.passes.running import PHASE, STAGE, ring_loop
from syncverify.passes.wgmma import ELECTED, LOAD

#: Whose turn it is to multiply: a barrier for each warpgroup, and the parity that it waits for next.
ORDER, TURN = "order", Var("turn")
WARPS = 4


@dataclass(frozen=True)
class TakeTurns:
    """Makes of one multiplying warpgroup two, of which each does every other turn of the loop over tiles.

    ``stages``: slots of the ring. A turn of the other warpgroup moves the own place in it by ``steps`` slots;
    where these are whole ``laps``, only phases are other ones then, or nothing is.
    """

    stages: int
    laps: Literal["even", "odd", "any"] = "any"
    steps: str = "steps"
    name: str = "take-turns"

    def apply(self, kernel: Kernel) -> Kernel:
        body = flat_map(kernel.body, lambda s: (self._of_two(s),) if isinstance(s, Role) else (s,))
        if not any(isinstance(s, MbarrierWait) and s.bar.name == ORDER for s in walk(body)):
            raise InputError(f"{kernel.name}: no loop over tiles that warpgroups could take turns in")
        return replace(kernel, body=body, barriers=(*kernel.barriers, Barrier(ORDER, Int(2))))

    def _of_two(self, role: Role) -> Role:
        if role.name == LOAD:
            return replace(role, lo=Int(2 * WARPS), hi=Int(2 * WARPS + 1))
        if role.name == COMPUTE:
            return replace(role, hi=Int(2 * WARPS), body=self._multiplying(role.body))
        if contains(role, MbarrierInit):
            count = MbarrierInit(BarrierRef(ORDER, Var("s")), Int(WARPS))
            orders = For("s", Int(0), Int(2), Int(1), (count,))
            return replace(role, body=tuple(_with(s, orders) for s in role.body))
        return role

    def _multiplying(self, body: Body) -> Body:
        """The second warpgroup starts behind the first one's tile, and waits for it."""
        at = next(k for k, s in enumerate(body) if isinstance(s, For) and contains(s, Wgmma))
        loop = body[at]
        assert isinstance(loop, For)
        there = Var("wg") * Var(self.steps)
        start: dict[str, Expr] = {}
        if self.laps == "any":
            start = {"stage": there % self.stages, "phase": there // self.stages % 2}
        elif self.laps == "odd":
            start = {"phase": Var("wg")}
        before = tuple(
            replace(s, value=start[s.name]) if isinstance(s, Let) and s.name in start else s
            for s in body[:at]
        )
        return (*before, Let("turn", Var("wg") ^ 1), self._every_other(loop), *body[at + 1 :])

    def _every_other(self, loop: For) -> For:
        first = next(k for k, s in enumerate(loop.body) if contains(s, (MbarrierWait, Wgmma)))
        last = next(k for k, s in enumerate(loop.body) if ring_loop(s))
        mine = MbarrierWait(BarrierRef(ORDER, Var("wg")), TURN)
        over = If(ELECTED, (MbarrierArrive(BarrierRef(ORDER, Var("wg") ^ 1)),))
        body = (
            *loop.body[:first],
            mine,
            Assign("turn", TURN ^ 1),
            *loop.body[first : last + 1],
            over,
            *loop.body[last + 1 :],
            *self._passing_over(),
        )
        return replace(loop, lo=Var("wg"), step=Int(2), body=body)

    def _passing_over(self) -> Body:
        """Over the slots that the other warpgroup goes through."""
        if self.laps != "any":
            return (Assign("phase", PHASE ^ 1),) if self.laps == "odd" else ()
        there = STAGE + Var(self.steps)
        return (
            Assign("phase", PHASE ^ (there // self.stages % 2)),
            Assign("stage", there % self.stages),
        )


def _with(stmt: Stmt, more: Stmt) -> Stmt:
    """In front of a fence that may stand behind the other inits, and has to release all of them."""
    return replace(stmt, then=(more, *stmt.then)) if isinstance(stmt, If) else stmt


__all__ = ["ORDER", "TakeTurns"]
