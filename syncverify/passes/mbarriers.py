"""mbarriers: one full and one empty barrier per async role and slot, derived from who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from syncverify.ir.expr import Expr, Int, Var
from syncverify.ir.nodes import (
    DTYPE_BYTES,
    Barrier,
    BarrierRef,
    BarrierSync,
    BulkLoad,
    ClusterArrive,
    ClusterWait,
    Elect,
    FenceMbarrierInit,
    For,
    If,
    Kernel,
    LdShared,
    Let,
    MbarrierArrive,
    MbarrierInit,
    MbarrierWait,
    Role,
    Stmt,
    WarpSync,
)
from syncverify.model.ordering import Need
from syncverify.model.proxies import Access
from syncverify.passes.access import needed, touches, used_by
from syncverify.passes.arrivals import arrivals
from syncverify.passes.rewrite import Body, flat_map, parity, unused, use_of, walk, with_bodies


def filled_by(kernel: Kernel) -> dict[str, set[str]]:
    """For every mbarrier on which copies complete: the buffers that those copies fill."""
    result: dict[str, set[str]] = {}
    for stmt in walk(kernel.body):
        if isinstance(stmt, BulkLoad):
            result.setdefault(stmt.bar.name, set()).add(stmt.dst.buffer)
    return result


def reading_loop(stmt: Stmt) -> bool:
    """A loop whose iterations read one slot each, named by the loop's variable."""
    if not isinstance(stmt, For):
        return False
    return any(
        isinstance(s, LdShared) and s.src.index and use_of(s.src.index[0])[0] == Var(stmt.var)
        for s in walk(stmt.body)
    )


def slot_read(body: Body, buffers: Iterable[str]) -> Expr | None:
    """The slot at which the body reads one of ``buffers``."""
    wanted = set(buffers)
    for s in walk(body):
        if isinstance(s, LdShared) and s.src.buffer in wanted and s.src.index:
            return s.src.index[0]
    return None


def copy_bytes(kernel: Kernel, load: BulkLoad) -> int:
    dtype = next(s.dtype for s in kernel.shared if s.name == load.dst.buffer)
    if not isinstance(load.dst.count, Int):
        raise ValueError("a bulk copy of variable size")
    return load.dst.count.value * DTYPE_BYTES[dtype]


@dataclass(frozen=True)
class FullBarriers:
    """Async write, then generic read: the copies' bytes are announced, and readers wait for the phase."""

    name: str = "full-barriers"

    def apply(self, kernel: Kernel) -> Kernel:
        needs = needed(kernel, Access.ASYNC_WRITE, Access.GENERIC_READ)
        filled = {
            b: {x for x in bs if needs.get(x) is Need.COMPLETION} for b, bs in filled_by(kernel).items()
        }

        def announce(body: Body) -> Body:
            """Before each run of copies on one barrier: one arrival that expects the sum of their bytes."""
            result: list[Stmt] = []
            at: dict[BarrierRef, int] = {}
            for stmt in (with_bodies(s, announce) for s in body):
                if isinstance(stmt, BulkLoad) and filled[stmt.bar.name]:
                    if stmt.bar not in at:
                        at[stmt.bar] = len(result)
                        result.append(MbarrierArrive(stmt.bar, expect=Int(0)))
                    arrive = result[at[stmt.bar]]
                    assert isinstance(arrive, MbarrierArrive) and isinstance(arrive.expect, Int)
                    total = arrive.expect.value + copy_bytes(kernel, stmt)
                    result[at[stmt.bar]] = replace(arrive, expect=Int(total))
                result.append(stmt)
            return tuple(result)

        def wait(stmt: Stmt) -> Iterable[Stmt]:
            if not (isinstance(stmt, For) and reading_loop(stmt)):
                return (stmt,)
            body = stmt.body
            for barrier, buffers in filled.items():
                slot = slot_read(body, buffers)
                if slot is None:
                    continue
                first = next(k for k, s in enumerate(body) if touches(s, Access.GENERIC_READ, buffers))
                body = (*body[:first], MbarrierWait(BarrierRef(barrier, slot), parity(slot)), *body[first:])
            return (replace(stmt, body=body),)

        return replace(kernel, body=flat_map(announce(kernel.body), wait))


@dataclass(frozen=True)
class EmptyBarriers:
    """Generic read, then async write of the same slot by another role: readers release, the role waits.

    ``ahead``: how many iterations the async roles may be ahead of the readers (at most the slots).
    ``arrive``: every reading thread arrives, or one lane of each warp after a warp barrier.
    """

    ahead: int
    arrive: Literal["warp", "thread"]
    name: str = "empty-barriers"

    def apply(self, kernel: Kernel) -> Kernel:
        needs = needed(kernel, Access.GENERIC_READ, Access.ASYNC_WRITE)
        roles = {s.name: s for s in kernel.body if isinstance(s, Role)}
        barriers: list[Barrier] = []
        rewritten = dict(roles)
        for full, buffers in filled_by(kernel).items():
            hazards = {b for b in buffers if b in needs}
            writer = next((r for r in roles.values() if _issues(r, full)), None)
            reader = next(
                (r for r in roles.values() if any(touches(s, Access.GENERIC_READ, hazards) for s in r.body)),
                None,
            )
            if not hazards or writer is None or reader is None or writer.name == reader.name:
                continue
            empty = "empty" + full.removeprefix("full")
            barriers.append(Barrier(empty, next(b.count for b in kernel.barriers if b.name == full)))
            rewritten[reader.name] = self._release(rewritten[reader.name], empty, hazards)
            rewritten[writer.name] = self._acquire(rewritten[writer.name], full, empty)
        body = tuple(rewritten[s.name] if isinstance(s, Role) else s for s in kernel.body)
        return replace(kernel, body=body, barriers=(*kernel.barriers, *barriers))

    def _release(self, role: Role, empty: str, buffers: set[str]) -> Role:
        def after_reads(stmt: Stmt) -> Iterable[Stmt]:
            if not (isinstance(stmt, For) and reading_loop(stmt)):
                return (stmt,)
            slot = slot_read(stmt.body, buffers)
            if slot is None:
                return (stmt,)
            read = max(k for k, s in enumerate(stmt.body) if touches(s, Access.GENERIC_READ, buffers)) + 1
            last = used_by(stmt.body, read, buffers)
            arrive: Stmt = MbarrierArrive(BarrierRef(empty, slot))
            if self.arrive == "thread":
                return (replace(stmt, body=_insert(stmt.body, last, arrive)),)
            body = stmt.body
            if last < len(body) and isinstance(body[last], WarpSync):
                joined = body[last + 1]
                assert isinstance(joined, If)
                return (
                    replace(
                        stmt,
                        body=(
                            *body[: last + 1],
                            replace(joined, then=(*joined.then, arrive)),
                            *body[last + 2 :],
                        ),
                    ),
                )
            return (replace(stmt, body=_insert(body, last, WarpSync(), If(Var("lane").eq(0), (arrive,)))),)

        return replace(role, body=flat_map(role.body, after_reads))

    def _acquire(self, role: Role, full: str, empty: str) -> Role:
        def before_copies(body: Body) -> Body:
            result = tuple(with_bodies(s, before_copies) for s in body)
            for k, stmt in enumerate(result):
                if isinstance(stmt, (MbarrierArrive, BulkLoad)) and stmt.bar.name == full:
                    return _insert(result, k, self._wait(stmt.bar, empty))
            return result

        return replace(role, body=before_copies(role.body))

    def _wait(self, bar: BarrierRef, empty: str) -> Stmt:
        assert bar.index is not None
        use, stages = use_of(bar.index)
        if self.ahead == stages:
            # the first use of each slot passes at once: the phase before phase 0 counts as complete (B19)
            return MbarrierWait(BarrierRef(empty, bar.index), parity(bar.index, 1))
        slot = (use - self.ahead) % stages
        return If(use >= self.ahead, (MbarrierWait(BarrierRef(empty, slot), parity(slot)),))


def _issues(role: Role, full: str) -> bool:
    return any(isinstance(s, BulkLoad) and s.bar.name == full for s in walk(role.body))


def _insert(body: Body, at: int, *stmts: Stmt) -> Body:
    return (*body[:at], *stmts, *body[at:])


@dataclass(frozen=True)
class InitBarriers:
    """Initializes every mbarrier with the number of arrivals that one phase really gets, before any use.

    A block barrier makes the objects visible to the block, unless one stands before all uses by others;
    where other blocks use them, the init fence and a cluster barrier do (B24).
    """

    name: str = "mbarrier-init"

    def apply(self, kernel: Kernel) -> Kernel:
        counts = arrivals(kernel)
        if not counts:
            return kernel
        inits: list[Stmt] = []
        slot = unused(kernel, "s")
        for stages in sorted({_slots(b) for b in kernel.barriers}):
            names = [b.name for b in kernel.barriers if _slots(b) == stages and b.name in counts]
            each = tuple(MbarrierInit(BarrierRef(n, Var(slot)), Int(counts[n])) for n in names)
            inits.append(For(slot, Int(0), Int(stages), Int(1), each))
        fence = (FenceMbarrierInit(),) if kernel.launch.ctas > 1 else ()
        others: tuple[Stmt, ...] = ()
        if _reached_from_afar(kernel):
            others = (ClusterArrive("relaxed"), ClusterWait())
        elif not _synchronized(kernel.body, False)[0]:
            others = (BarrierSync(Int(0)),)
        prologue: list[Stmt] = [
            Role("init", "warps", Int(0), Int(1), (If(Var("elected"), (*inits, *fence)),)),
            *others,
        ]
        body = kernel.body
        # after what all threads compute alike: warps that ask for it together need one answer
        at = next((i for i, s in enumerate(body) if not isinstance(s, Elect | Let)), len(body))
        first = body[:at] if any(isinstance(s, Elect) for s in body[:at]) else (*body[:at], Elect("elected"))
        return replace(kernel, body=(*first, *prologue, *body[at:]))


def _synchronized(body: Body, after: bool) -> tuple[bool, bool]:
    """Whether all uses of mbarriers but those of the initializing lane come after a barrier of the block.

    ``after``: whether one stands in front of the body. The second result says the same of what follows it.
    """
    for s in body:
        match s:
            case BarrierSync(id=Int(0), count=None):
                after = True
            case Role(unit="warps", lo=Int(0), hi=Int(1), body=(If(cond=Var("elected"), orelse=()),)):
                continue
            case For(body=inner) | Role(body=inner):
                if not _synchronized(inner, after)[0]:
                    return False, after
            case If(then=then, orelse=orelse):
                if not (_synchronized(then, after)[0] and _synchronized(orelse, after)[0]):
                    return False, after
            case _ if not after and isinstance(getattr(s, "bar", None), BarrierRef):
                return False, after
    return True, after


def _reached_from_afar(kernel: Kernel) -> bool:
    """Whether another block of the cluster arrives or completes copies on a barrier of this one."""
    bars = (getattr(s, "bar", None) for s in walk(kernel.body))
    return any(isinstance(b, BarrierRef) and b.rank is not None for b in bars) or any(
        getattr(s, "multicast", None) is not None for s in walk(kernel.body)
    )


def _slots(barrier: Barrier) -> int:
    assert isinstance(barrier.count, Int)
    return barrier.count.value
