"""Which shared buffers a statement touches, and how: the passes' view of the ordering table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from syncverify.ir.expr import names
from syncverify.ir.nodes import (
    AtomShared,
    BulkCopy,
    BulkLoad,
    BulkStore,
    Compute,
    CpAsync,
    Kernel,
    LdMatrix,
    LdShared,
    Region,
    Role,
    Shuffle,
    StAsync,
    StGlobal,
    StMatrix,
    Stmt,
    StShared,
    TmaLoad,
    TmaStore,
    Wgmma,
)
from syncverify.model.ordering import Need, ordering
from syncverify.model.proxies import Access
from syncverify.passes.arrival_of_reads import open_reads
from syncverify.passes.edits import statement
from syncverify.passes.rewrite import Body, bodies, walk

#: Statements that compute with values.
_CONSUMERS = (Compute, Shuffle, StGlobal, StShared)


@dataclass(frozen=True, slots=True)
class Use:
    """One access in the program: which role executes it (None: every thread) and the statement."""

    role: str | None
    access: Access
    region: Region
    stmt: Stmt


def accesses(stmt: Stmt) -> tuple[tuple[Access, Region], ...]:
    """The shared accesses of one statement itself, not of what is inside it."""
    match stmt:
        case LdShared(src=r) | LdMatrix(src=r):
            return ((Access.GENERIC_READ, r),)
        case StShared(dst=r) | StMatrix(dst=r) | AtomShared(dst=r):
            return ((Access.GENERIC_WRITE, r),)
        case BulkLoad(dst=r) | TmaLoad(dst=r):
            return ((Access.ASYNC_WRITE, r),)
        case BulkStore(src=r) | TmaStore(src=r):
            return ((Access.ASYNC_READ, r),)
        case BulkCopy(dst=d, src=r):
            return ((Access.ASYNC_READ, r), (Access.ASYNC_WRITE, d))
        case CpAsync(dst=r):
            return ((Access.CPASYNC_WRITE, r),)
        case StAsync(dst=r):
            return ((Access.STASYNC_WRITE, r),)
        case Wgmma(a=a, b=b):
            return tuple((Access.MMA_READ, r) for r in (a, b) if isinstance(r, Region))
    return ()


def touches(stmt: Stmt, kind: Access, buffers: Iterable[str]) -> bool:
    """Whether the statement, or one inside it, accesses one of ``buffers`` that way."""
    wanted = set(buffers)
    return any(a is kind and r.buffer in wanted for s in walk((stmt,)) for a, r in accesses(s))


def uses(kernel: Kernel) -> tuple[Use, ...]:
    """Every shared access of the kernel, in program order, with the outermost role around it."""
    return tuple(_uses(kernel.body, None))


def _uses(body: Iterable[Stmt], role: str | None) -> Iterator[Use]:
    for stmt in body:
        for access, region in accesses(stmt):
            yield Use(role, access, region, stmt)
        inner = stmt.name if isinstance(stmt, Role) and role is None else role
        for b in bodies(stmt):
            yield from _uses(b, inner)


def needed(kernel: Kernel, first: Access, second: Access) -> dict[str, Need]:
    """For every buffer accessed in both ways: what the second access needs of the first (never NOTHING)."""
    found = uses(kernel)
    a = {u.region.buffer for u in found if u.access is first}
    b = {u.region.buffer for u in found if u.access is second}
    need = ordering(first, second).need
    return {} if need is Need.NOTHING else dict.fromkeys(sorted(a & b), need)


def all_used(body: Iterable[Stmt], buffers: Iterable[str]) -> bool:
    """Whether every value that statements read from ``buffers`` feeds another instruction among them.

    That is a good place to hand the buffers back, no proof that the values have arrived: see all_pinned.
    """
    inside = list(walk(body))
    wanted = set(buffers)
    read = {s.name for s in inside if isinstance(s, LdShared) and s.src.buffer in wanted}
    return read <= {x for s in inside if isinstance(s, _CONSUMERS) for x in names(s.value)}


def all_pinned(body: Body, first: int, buffers: Iterable[str]) -> bool:
    """Whether what statements from place ``first`` on read from ``buffers`` has reached memory by the end."""
    wanted = set(buffers)
    late = [p for p in open_reads(body) if p[0] >= first]
    return not any(r.buffer in wanted for p in late for _, r in accesses(statement(body, p)))


def used_by(body: Sequence[Stmt], read: int, buffers: Iterable[str]) -> int:
    """The first place from ``read`` on before which all values of ``buffers`` are used; else ``read``."""
    wanted = tuple(buffers)
    return next((k for k in range(read, len(body) + 1) if all_used(body[:k], wanted)), read)
