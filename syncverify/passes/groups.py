"""Groups of asynchronous operations inside one role: commit what was issued, wait for it as late as possible.

Bulk stores whose source is written again, cp.async whose bytes are read, wgmma: what completes without an
mbarrier. The waits stand in front of the barrier that tells the others, and leave as many groups pending as
were committed since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from syncverify.ir.expr import Int
from syncverify.ir.nodes import (
    BarrierSync,
    BulkCommit,
    BulkStore,
    BulkWait,
    CpAsync,
    CpAsyncCommit,
    CpAsyncMbarrierArrive,
    CpAsyncWait,
    For,
    Kernel,
    Role,
    Stmt,
    TmaStore,
    WarpSync,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from syncverify.model.ordering import Need, ordering
from syncverify.model.proxies import Access
from syncverify.passes.edits import Edits, Path, body_at, enclosing, numbered, statement
from syncverify.passes.rewrite import Body, with_bodies
from syncverify.passes.rings import rings
from syncverify.passes.trace import Step, Touch, Trace, loops, traced

_STORES = (BulkStore, TmaStore)
_SYNCS = (BarrierSync, WarpSync)


@dataclass(frozen=True)
class Groups:
    """Commits and waits of bulk stores and cp.async that no mbarrier accounts for, and of wgmma."""

    name: str = "groups"

    def apply(self, kernel: Kernel) -> Kernel:
        kernel = replace(kernel, body=_multiplied(kernel.body))
        kernel, copied = _committed(kernel, (CpAsync,), CpAsyncCommit())
        kernel, stored = _committed(kernel, _STORES, BulkCommit())
        edits = Edits()
        landed = _waits(kernel, Access.CPASYNC_WRITE, CpAsyncCommit, copied)
        for (place, _), pending in sorted(landed.items()):
            edits.put_before(place, CpAsyncWait(Int(pending)))
        waited = _waits(kernel, Access.ASYNC_READ, BulkCommit, stored)
        for (at, source), pending in sorted(waited.items()):
            edits.put_before(at, _issued(kernel.body, source, at, BulkWait(Int(pending), True)))
        for source in sorted(stored):
            _drain(kernel.body, source, edits)
        return replace(kernel, body=edits.apply(kernel.body))


def _committed(kernel: Kernel, kinds: tuple[type, ...], commit: Stmt) -> tuple[Kernel, set[Path]]:
    """The kernel with a commit behind each run of such operations, and the places of those operations.

    The commit stands outside conditions and inner loops, so that every round of a ring's loop commits once.
    """
    carriers = {p for r in rings(kernel) for p in r.carriers}
    ours = [
        (p, s) for p, s in numbered(kernel.body) if isinstance(s, kinds) and not _accounted(kernel.body, p)
    ]
    ends = {_outside(kernel.body, p, carriers) for p, _ in ours}
    edits = Edits()
    for at in ends:
        if (*at[:-1], at[-1] + 1) not in ends:
            edits.put_after(at, commit)
    body = edits.apply(kernel.body)
    moved = {p for p, s in numbered(body) if any(s is t for _, t in ours)}
    return replace(kernel, body=body), moved


def _accounted(body: Body, path: Path) -> bool:
    """Whether a commit or an arrival for it stands behind an operation in its role already."""
    for p in reversed(list(enclosing(path))):
        s = statement(body, p)
        if isinstance(s, Role):
            return False
        if any(isinstance(x, BulkCommit | CpAsyncMbarrierArrive) for x in body_at(body, p[:-1])[p[-1] + 1 :]):
            return True
    return False


def _outside(body: Body, path: Path, carriers: set[Path]) -> Path:
    """The outermost statement around an operation inside its role and its ring's loop."""
    at = path
    while len(at) > 2 and not isinstance(statement(body, at[:-2]), Role) and at[:-2] not in carriers:
        at = at[:-2]
    return at


# ---------------------------------------------------------------- waits


def _waits(kernel: Kernel, access: Access, commit: type, sources: set[Path]) -> dict[tuple[Path, Path], int]:
    """In front of which barrier to wait for the groups of which operation, and how many may stay pending."""
    found: dict[tuple[Path, Path], int] = {}
    if not sources:
        return found
    most = max(r.slots for r in rings(kernel)) + 2
    for skipped in [(), *[(p,) for p in loops(kernel.body)]]:
        for key, pending in _pairs(traced(kernel, most, skipped), access, commit, sources):
            found[key] = min(pending, found.get(key, pending))
    if access is Access.CPASYNC_WRITE:
        joined: dict[tuple[Path, Path], int] = {}
        for (at, _), pending in found.items():
            joined[at, at] = min(pending, joined.get((at, at), pending))
        return joined
    return found


def _pairs(
    trace: Trace, access: Access, commit: type, sources: set[Path]
) -> Iterator[tuple[tuple[Path, Path], int]]:
    for i, a in enumerate(trace):
        if not (isinstance(a, Touch) and a.access is access and a.path in sources):
            continue
        for j in range(i + 1, len(trace)):
            b = trace[j]
            if not isinstance(b, Touch) or ordering(a.access, b.access).need is Need.NOTHING:
                continue
            if a.meets(b)[0] or _own(a, b):
                yield _wait(trace, i, j, a, b, commit)
                break


def _own(a: Touch, b: Touch) -> bool:
    """Whether threads touch bytes of their own that they wrote asynchronously."""
    lo, hi = max(a.base, b.base), min(a.base + len(a.low), b.base + len(b.low))
    return lo < hi


def _wait(trace: Trace, i: int, j: int, a: Touch, b: Touch, commit: type) -> tuple[tuple[Path, Path], int]:
    between = [s for s in trace[i + 1 : j] if isinstance(s, Step)]
    commits = [k for k, s in enumerate(between) if isinstance(s.stmt, commit) and s.warps >= a.warps]
    first = commits[0] if commits else -1
    both = a.warps | b.warps
    known = [
        k
        for k, s in enumerate(between)
        if k > first and s.warps >= both and isinstance(s.stmt, BarrierSync if len(both) > 1 else _SYNCS)
    ]
    if not known:
        return (b.path, a.path), len(commits) - 1
    last = known[-1]
    return (between[last].path, a.path), sum(first < k < last for k in commits)


def _issued(body: Body, source: Path, at: Path, wait: Stmt) -> Stmt:
    """The wait, under the innermost role of the operation, unless the place is in it as well."""
    roles = [s for p in enclosing(source) if at[: len(p)] != p and isinstance(s := statement(body, p), Role)]
    return replace(roles[-1], body=(wait,)) if roles else wait


def _drain(body: Body, source: Path, edits: Edits) -> None:
    """Nothing may be in flight when the block ends (K21): wait once behind the outermost loop."""
    outer = next((p for p in enclosing(source) if isinstance(statement(body, p), For)), None)
    wait = BulkWait(Int(0), read=True)
    at = _commit_behind(body, source)
    if outer is None or at[: len(outer)] != outer:
        if wait not in edits.after.get(at, ()):
            edits.put_after(at, wait)
        return
    roles = [
        s for p in enclosing(source) if len(p) > len(outer) and isinstance(s := statement(body, p), Role)
    ]
    drained: Stmt = replace(roles[-1], body=(wait,)) if roles else wait
    if drained not in edits.after.get(outer, ()):
        edits.put_after(outer, drained)


def _commit_behind(body: Body, source: Path) -> Path:
    """The commit of the run that an operation is in."""
    for p in reversed(list(enclosing(source))):
        siblings = body_at(body, p[:-1])
        for k in range(p[-1] + 1, len(siblings)):
            if isinstance(siblings[k], BulkCommit):
                return (*p[:-1], k)
    return source


# ---------------------------------------------------------------- wgmma


def _multiplied(body: Body) -> Body:
    """Runs of wgmma between a fence and a commit; the wait follows at once, for what comes to rely on it."""
    result: list[Stmt] = []
    items = [with_bodies(s, _multiplied) for s in body]
    for k, s in enumerate(items):
        is_mma = isinstance(s, Wgmma)
        if is_mma and not (k and isinstance(items[k - 1], Wgmma)):
            result.append(WgmmaFence())
        result.append(s)
        if is_mma and not (k + 1 < len(items) and isinstance(items[k + 1], Wgmma)):
            result += [WgmmaCommit(), WgmmaWait(Int(0))]
    return tuple(result)
