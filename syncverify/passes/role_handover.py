"""Handing shared memory over inside a role: block and named barriers, bulk groups, proxy fences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from syncverify.base.diagnostics import Policy
from syncverify.ir.expr import Int, names
from syncverify.ir.nodes import (
    BarrierSync,
    BulkCommit,
    BulkLoad,
    BulkStore,
    BulkWait,
    FenceProxyAsync,
    For,
    Kernel,
    LdShared,
    MbarrierArrive,
    Role,
    Stmt,
    StShared,
    WarpSync,
)
from syncverify.model.ordering import Need, ordering
from syncverify.model.proxies import Access
from syncverify.passes.access import all_pinned, needed, touches
from syncverify.passes.rewrite import Body, contains, flat_map, use_of, walk, with_bodies
from syncverify.passes.roles import COMPUTE

#: The named barrier of the compute warps; 0 is the block's.
COMPUTE_BARRIER = 1


@dataclass(frozen=True)
class BulkGroups:
    """Async read, then generic write of the same slot: the issuer commits, and waits before a slot's reuse.

    The wait stands right after the commit. One barrier per iteration (writers to issuer) then carries
    it to the writers one iteration later, so S slots leave S - 2 groups pending; with a single slot
    nothing may stay pending. At the end nothing may be in flight (K21).
    """

    name: str = "bulk-groups"

    def apply(self, kernel: Kernel) -> Kernel:
        if not any(isinstance(s, BulkStore) for s in walk(kernel.body)):
            return kernel
        hazards = needed(kernel, Access.ASYNC_READ, Access.GENERIC_WRITE)

        def pending(store: Role) -> int:
            slots = min(use_of(s.src.index[0])[1] for s in store.body if isinstance(s, BulkStore))
            return max(0, slots - 2)

        def close(stmt: Stmt) -> Iterable[Stmt]:
            if not (isinstance(stmt, Role) and any(isinstance(s, BulkStore) for s in stmt.body)):
                return (stmt,)
            wait = [BulkWait(Int(pending(stmt)), read=True)] if hazards else []
            return (replace(stmt, body=(*stmt.body, BulkCommit(), *wait)),)

        def drain(stmt: Stmt) -> Iterable[Stmt]:
            if not (isinstance(stmt, For) and contains(stmt, BulkCommit)):
                return (stmt,)
            store = next(s for s in walk(stmt.body) if isinstance(s, Role) and contains(s, BulkCommit))
            if hazards and pending(store) == 0:
                return (stmt,)
            return (stmt, replace(store, body=(BulkWait(Int(0), read=True),)))

        return replace(kernel, body=flat_map(flat_map(kernel.body, close), drain))


@dataclass(frozen=True)
class HandoverBarriers:
    """Barriers among the threads of one role: writers to issuer, issuer to writers, readers to issuer.

    Inside the compute role of a specialized kernel they are named barriers of its threads, else the
    block's. ``unaligned``: use the form that PTX allows in role branches (K13).
    """

    unaligned: bool = False
    name: str = "handover-barriers"

    def apply(self, kernel: Kernel) -> Kernel:
        stored = needed(kernel, Access.GENERIC_WRITE, Access.ASYNC_READ)
        refilled = needed(kernel, Access.GENERIC_READ, Access.ASYNC_WRITE)

        def within(body: Body, sync: BarrierSync) -> Body:
            return tuple(place(s, sync) for s in body)

        def place(stmt: Stmt, sync: BarrierSync) -> Stmt:
            if isinstance(stmt, Role) and stmt.name == COMPUTE:
                return replace(stmt, body=within(stmt.body, self._sync(stmt)))
            if not (isinstance(stmt, For) and slot_loop(stmt)):
                return with_bodies(stmt, lambda b: within(b, sync))
            body = self._before_issue(
                stmt.body, sync, Access.GENERIC_WRITE, Access.ASYNC_READ, BulkStore, stored
            )
            body = self._after_wait(body, sync, stored)
            return replace(
                stmt,
                body=self._before_issue(
                    body, sync, Access.GENERIC_READ, Access.ASYNC_WRITE, BulkLoad, refilled
                ),
            )

        return replace(kernel, body=within(kernel.body, BarrierSync(Int(0))))

    def _sync(self, role: Role) -> BarrierSync:
        assert isinstance(role.lo, Int) and isinstance(role.hi, Int)
        threads = (role.hi.value - role.lo.value) * 32
        return BarrierSync(Int(COMPUTE_BARRIER), Int(threads), aligned=not self.unaligned)

    def _before_issue(
        self,
        body: Body,
        sync: BarrierSync,
        first: Access,
        second: Access,
        issue: type,
        hazards: dict[str, Need],
    ) -> Body:
        """A barrier between the generic accesses and the next issue, which may be in the next iteration."""
        generic = [k for k, s in enumerate(body) if touches(s, first, hazards)]
        issues = [k for k, s in enumerate(body) if contains(s, issue) and touches(s, second, hazards)]
        if not generic or not issues:
            return body
        last, at = generic[-1], issues[0]
        between = body[last + 1 : at] if last < at else (*body[last + 1 :], *body[:at])
        return body if any(isinstance(s, BarrierSync) for s in between) else (*body[:at], sync, *body[at:])

    def _after_wait(self, body: Body, sync: BarrierSync, stored: dict[str, Need]) -> Body:
        """With one slot, nothing but a further barrier tells the writers that the slot was read."""
        result: list[Stmt] = []
        for stmt in body:
            result.append(stmt)
            single = isinstance(stmt, Role) and any(
                isinstance(s, BulkStore) and use_of(s.src.index[0])[1] == 1 and s.src.buffer in stored
                for s in stmt.body
            )
            if single:
                result.append(sync)
        return tuple(result)


@dataclass(frozen=True)
class ProxyFences:
    """Generic access, then async access: a proxy fence by every generic accessor, after its last access.

    Where the table marks a row as contested (K1), the practical policy leaves the fence out if every value
    read reaches memory before the hand-over; the strict one never does.
    """

    policy: Policy
    name: str = "proxy-fences"

    def apply(self, kernel: Kernel) -> Kernel:
        written = _bridged(kernel, Access.GENERIC_WRITE, Access.ASYNC_READ)
        read = _bridged(kernel, Access.GENERIC_READ, Access.ASYNC_WRITE)
        fence = FenceProxyAsync("shared_cta")

        def fenced(stmt: Stmt) -> Iterable[Stmt]:
            if not (isinstance(stmt, For) and slot_loop(stmt)):
                return (stmt,)
            body = stmt.body
            writers = [k for k, s in enumerate(body) if touches(s, Access.GENERIC_WRITE, written)]
            readers = [k for k, s in enumerate(body) if touches(s, Access.GENERIC_READ, read)]
            wanted = set(writers[-1:])
            # several buffers may be handed back at places of their own
            groups: dict[int, list[int]] = {}
            for k in readers:
                groups.setdefault(_hand_over(body, k), []).append(k)
            always = self._always(Access.GENERIC_READ, Access.ASYNC_WRITE)
            wanted |= {
                ks[-1] for end, ks in groups.items() if always or not all_pinned(body[:end], ks[0], read)
            }
            for k in sorted(wanted, reverse=True):
                body = (*body[: k + 1], fence, *body[k + 1 :])
            return (replace(stmt, body=body),)

        return replace(kernel, body=flat_map(kernel.body, fenced))

    def _always(self, first: Access, second: Access) -> bool:
        return self.policy is Policy.STRICT or ordering(first, second).contested is None


def _bridged(kernel: Kernel, first: Access, second: Access) -> set[str]:
    return {b for b, need in needed(kernel, first, second).items() if need is Need.BRIDGE}


def slot_loop(loop: For) -> bool:
    """The loop over tiles: generic accesses inside name their slot by this loop's variable."""
    return any(isinstance(s, (LdShared, StShared)) and _region_use(s) == loop.var for s in walk(loop.body))


def _region_use(stmt: LdShared | StShared) -> str | None:
    region = stmt.src if isinstance(stmt, LdShared) else stmt.dst
    found = names(region.index[0]) if region.index else frozenset()
    return next(iter(found), None)


def _hand_over(body: Body, after: int) -> int:
    """The first statement after another that synchronizes."""
    for k in range(after + 1, len(body)):
        if contains(body[k], (BarrierSync, WarpSync, MbarrierArrive)):
            return k
    return len(body)
