"""Who executes what: warp specialization, or one role that prefetches for itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from syncverify.ir.expr import Call, Expr, Int, Var
from syncverify.ir.nodes import BulkLoad, BulkStore, For, If, Kernel, Let, Role, Stmt
from syncverify.passes.rewrite import Body, contains, flat_map, keep, plus, replaced

#: The role that computes and stores.
COMPUTE = "compute"


def _store_role(body: Body) -> Body:
    """Bulk stores are issued by one warp of those that wrote their source."""

    def wrap(stmt: Stmt) -> Iterable[Stmt]:
        return (Role("store", "warps", Int(0), Int(1), (stmt,)),) if isinstance(stmt, BulkStore) else (stmt,)

    return merge_roles(flat_map(body, wrap))


def merge_roles(body: Body) -> Body:
    """Neighbouring roles of the same threads become one."""

    def merged(items: Body) -> Body:
        result: list[Stmt] = []
        for stmt in items:
            last = result[-1] if result else None
            if (
                isinstance(stmt, Role) and isinstance(last, Role)
                and (stmt.name, stmt.unit, stmt.lo, stmt.hi) == (last.name, last.unit, last.lo, last.hi)
            ):  # fmt: skip
                result[-1] = replace(last, body=last.body + stmt.body)
            else:
                result.append(stmt)
        return tuple(result)

    def inside(stmt: Stmt) -> Iterable[Stmt]:
        match stmt:
            case For(body=b) | Role(body=b):
                return (replace(stmt, body=merged(b)),)
            case If(then=t, orelse=o):
                return (replace(stmt, then=merged(t), orelse=merged(o)),)
        return (stmt,)

    return merged(flat_map(body, inside))


@dataclass(frozen=True)
class Specialize:
    """Moves the copies of each barrier into the loop of the warp that ``warps`` names; the rest computes.

    Compute warps come first, so that ``tid`` counts them from 0. ``reserved``: warps of the block that
    are set aside for async roles (more than are used where a whole warpgroup is needed).
    """

    warps: Mapping[str, int]
    compute_warps: int
    reserved: int
    name: str = "specialize"

    def apply(self, kernel: Kernel) -> Kernel:
        shared = tuple(s for s in kernel.body if isinstance(s, Let))
        work = tuple(s for s in kernel.body if not isinstance(s, Let))
        roles: list[Stmt] = [
            Role(COMPUTE, "warps", Int(0), Int(self.compute_warps),
                 _store_role(keep(work, lambda s: not isinstance(s, BulkLoad))))
        ]  # fmt: skip
        for warp in dict.fromkeys(self.warps.values()):
            mine = keep(
                work,
                lambda s, w=warp: isinstance(s, BulkLoad) and self.warps.get(s.bar.name) == w,  # type: ignore[misc]
            )
            at = self.compute_warps + warp
            roles.append(Role(f"load{warp}", "warps", Int(at), Int(at + 1), mine))
        threads = (self.compute_warps + self.reserved) * 32
        return replace(kernel, body=(*shared, *roles), launch=replace(kernel.launch, block=(threads, 1, 1)))


@dataclass(frozen=True)
class Prefetch:
    """Issues the copies of iteration i + ``distance`` in iteration i, and the first ones before the loop.

    ``free_before``: the slot is free before the iteration computes (distance below the number of slots);
    otherwise the copies stand at the iteration's end. ``warps``: which warp issues a barrier's copies.
    """

    distance: int
    warps: Mapping[str, int]
    free_before: bool
    name: str = "prefetch"

    def apply(self, kernel: Kernel) -> Kernel:
        body: list[Stmt] = []
        for stmt in kernel.body:
            if isinstance(stmt, For) and contains(stmt, BulkLoad):
                body += self._pipelined(stmt)
            else:
                body.append(stmt)
        return replace(kernel, body=_store_role(tuple(body)))

    def _pipelined(self, loop: For) -> list[Stmt]:
        loads = keep(loop.body, lambda s: isinstance(s, BulkLoad))
        rest = keep(loop.body, lambda s: not isinstance(s, BulkLoad))
        ahead = plus(Var(loop.var), self.distance)
        first = For(
            "q",
            Int(0),
            Call("min", (Int(self.distance), loop.hi)),
            Int(1),
            self._issued(loads, loop, Var("q")),
        )
        later = If(ahead < loop.hi, self._issued(loads, loop, ahead))
        inner = (later, *rest) if self.free_before else (*rest, later)
        return [first, replace(loop, body=inner)]

    def _issued(self, loads: Body, loop: For, iteration: Expr) -> Body:
        roles: list[Stmt] = []
        for barrier, warp in self.warps.items():
            mine = tuple(
                replaced(s, {loop.var: iteration})
                for s in loads
                if isinstance(s, BulkLoad) and s.bar.name == barrier
            )
            roles.append(Role(f"load{warp}", "warps", Int(warp), Int(warp + 1), mine))
        return tuple(roles)
