"""Values that the threads of one role exchange through shared memory: barriers between writes and reads."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

from syncverify.ir.expr import Int
from syncverify.ir.nodes import BarrierSync, ClusterArrive, ClusterWait, For, Kernel, Role, Stmt, WarpSync
from syncverify.model.ordering import Need, ordering
from syncverify.model.proxies import Access
from syncverify.passes.access import accesses, uses
from syncverify.passes.rewrite import Body, use_of, walk, with_bodies
from syncverify.passes.role_handover import COMPUTE_BARRIER
from syncverify.passes.roles import COMPUTE

_WRITE, _READ = Access.GENERIC_WRITE, Access.GENERIC_READ


@dataclass(frozen=True, slots=True)
class _Touch:
    """A statement of a loop's body that accesses a buffer, and the same memory ``slots`` iterations later."""

    at: int
    buffer: str
    access: Access
    slots: int


@dataclass(frozen=True)
class ExchangeBarriers:
    """Generic write, then generic read of what other threads wrote, and the next write after the read.

    The ordering table asks for a barrier between them; one stands right before the later access, unless a
    barrier is on the way already, in the same iteration or, where buffers take turns, in those between.
    Inside the compute role of a specialized kernel it is a named barrier of its threads, else the block's.
    ``unaligned``: use the form that PTX allows in role branches (K13). ``by_warp``: buffers in which each
    warp accesses a part of its own; there the lanes of the warp meet, and no others. ``by_thread``: those in
    which each thread does, where nobody waits. That it does is the checker's to prove.
    """

    unaligned: bool = False
    by_warp: frozenset[str] = frozenset()
    by_thread: frozenset[str] = frozenset()
    name: str = "exchange-barriers"

    def apply(self, kernel: Kernel) -> Kernel:
        found = uses(kernel)
        shared = {u.region.buffer for u in found if u.access is _WRITE}
        shared &= {u.region.buffer for u in found if u.access is _READ}
        shared -= {u.region.buffer for u in found if u.access not in (_WRITE, _READ)} | self.by_thread
        if not shared or all(
            ordering(a, b).need is Need.NOTHING for a, b in ((_WRITE, _READ), (_READ, _WRITE))
        ):
            return kernel
        remote = {u.region.buffer for u in found if u.region.rank is not None} & shared

        def place(stmt: Stmt, sync: BarrierSync) -> Stmt:
            if isinstance(stmt, Role) and stmt.name == COMPUTE:
                sync = self._sync(stmt)
            stmt = with_bodies(stmt, lambda b: tuple(place(s, sync) for s in b))
            if not isinstance(stmt, For):
                return stmt
            body = _separated(stmt.body, shared - self.by_warp - remote, (sync,))
            body = _separated(body, remote, (ClusterArrive(), ClusterWait()))
            return replace(stmt, body=_separated(body, shared & self.by_warp, (WarpSync(),)))

        body = tuple(place(s, BarrierSync(Int(0))) for s in kernel.body)
        # nobody writes into a block that may not have begun
        begun: Body = (ClusterArrive("relaxed"), ClusterWait()) if remote and not _met(body, remote) else ()
        return replace(kernel, body=(*begun, *body))

    def _sync(self, role: Role) -> BarrierSync:
        assert isinstance(role.lo, Int) and isinstance(role.hi, Int)
        threads = (role.hi.value - role.lo.value) * 32
        return BarrierSync(Int(COMPUTE_BARRIER), Int(threads), aligned=not self.unaligned)


def _met(body: Body, remote: Set[str]) -> bool:
    """Whether the blocks of a cluster meet in each round of each loop before they access these buffers."""
    for stmt in body:
        inner = stmt.body if isinstance(stmt, For) else (stmt,)
        touched = [at for at, s in enumerate(inner) if _accesses(s, remote)]
        if touched and not any(isinstance(s, ClusterWait) for s in inner[: min(touched)]):
            return False
    return True


def _accesses(stmt: Stmt, buffers: Set[str]) -> bool:
    return any(region.buffer in buffers for s in walk((stmt,)) for _, region in accesses(s))


def _separated(body: Body, shared: Iterable[str], sync: tuple[Stmt, ...]) -> Body:
    """The loop body with a barrier between accesses that need one, those within an iteration first."""
    for wrap in (False, True):
        pair = _unordered(body, shared, wrap, type(sync[-1]))
        while pair is not None:
            body = (*body[:pair], *sync, *body[pair:])
            pair = _unordered(body, shared, wrap, type(sync[-1]))
    return body


def _unordered(body: Body, shared: Iterable[str], wrap: bool, sync: type[Stmt]) -> int | None:
    """The place of an access that follows a conflicting one, in this iteration or (``wrap``) a later one,
    with no statement of the kind ``sync`` between them."""
    touches = _touches(body, set(shared))
    for first in touches:
        for second in touches:
            if first.buffer != second.buffer or first.access is second.access:
                continue
            if not wrap and first.at < second.at:
                between = body[first.at + 1 : second.at]
            elif wrap and first.at > second.at:
                rounds = body if first.slots > 1 else ()
                between = (*body[first.at + 1 :], *rounds, *body[: second.at])
            else:
                continue
            if not any(isinstance(s, sync) for s in between):
                return second.at
    return None


def _touches(body: Body, shared: set[str]) -> list[_Touch]:
    found = []
    for at, stmt in enumerate(body):
        if isinstance(stmt, For):
            continue  # a loop of its own orders its accesses
        for s in walk((stmt,)):
            for access, region in accesses(s):
                if region.buffer in shared:
                    found.append(_Touch(at, region.buffer, access, _slots(region.index)))
    return found


def _slots(index: tuple[object, ...]) -> int:
    try:
        return use_of(index[0])[1] if index else 1  # type: ignore[arg-type]
    except ValueError:
        return 1


__all__ = ["ExchangeBarriers"]
