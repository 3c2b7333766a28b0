"""Proxy fences: by every generic accessor, after its last access, in front of what hands the bytes over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from syncverify.diagnostics import Policy
from syncverify.ir.expr import Expr, names
from syncverify.ir.nodes import (
    BarrierArrive,
    BarrierSync,
    ClusterArrive,
    Compute,
    FenceProxyAsync,
    For,
    Kernel,
    LdShared,
    MbarrierArrive,
    StAsync,
    StGlobal,
    Stmt,
    StShared,
    WarpSync,
)
from syncverify.model.ordering import Need, ordering
from syncverify.model.proxies import Proxy
from syncverify.passes.edits import Edits, Path, body_at, numbered, statement
from syncverify.passes.rewrite import Body, walk
from syncverify.passes.rings import rings
from syncverify.passes.trace import Touch, traced

_HAND_OVER = (BarrierSync, BarrierArrive, WarpSync, MbarrierArrive, ClusterArrive)


@dataclass(frozen=True)
class Fences:
    """Generic access, then async access of the same bytes: a fence for the block's shared memory.

    It stands where the accessors hand the bytes over: outside the loops of the accesses, under their
    conditions, so that only threads execute it that have something to make known. Where the table marks the
    row as contested (K1), the practical policy does without if every value read is used before the hand-over.
    """

    policy: Policy
    name: str = "fences"

    def apply(self, kernel: Kernel) -> Kernel:
        wanted: set[tuple[Path, bool]] = set()
        for path in bridged(kernel, contested=False):
            wanted.add(release(kernel.body, path))
        for path in bridged(kernel, contested=True):
            place = release(kernel.body, path)
            if self.policy is Policy.STRICT or not _used(kernel.body, path, place[0]):
                wanted.add(place)
        edits = Edits()
        for path, before in sorted(wanted):
            (edits.put_before if before else edits.put_after)(path, FenceProxyAsync("shared_cta"))
        return replace(kernel, body=edits.apply(kernel.body))


def bridged(kernel: Kernel, contested: bool) -> set[Path]:
    """Generic accesses whose bytes a later one reaches through the async proxy, by contested rows or not."""
    found: set[Path] = set()
    earlier: list[Touch] = []
    for t in traced(kernel, max((r.slots for r in rings(kernel)), default=1) + 2):
        if not isinstance(t, Touch):
            continue
        if t.access.proxy is Proxy.ASYNC:
            for a in earlier:
                row = ordering(a.access, t.access)
                crossing = row.need in (Need.BRIDGE, Need.COMPLETION_BRIDGE)
                fits = (row.contested == "K1") is contested
                if crossing and fits and a.path not in found and a.meets(t)[0]:
                    found.add(a.path)
        else:
            earlier.append(t)
    return found


def release(body: Body, path: Path) -> tuple[Path, bool]:
    """Where the bytes of an access leave its thread: a place, and whether a fence goes before it or after."""
    at = path
    while True:
        around = at[:-2]
        siblings = body_at(body, at[:-1])
        for k in range(at[-1] + 1, len(siblings)):
            if _hands_over(siblings[k]):
                return (*at[:-1], k), True
        if not around or not isinstance(statement(body, around), For):
            return at, False
        if any(_hands_over(s) for s in siblings):
            return at, False  # handed over in the next round
        at = around


def _hands_over(stmt: Stmt) -> bool:
    return any(isinstance(s, _HAND_OVER) for s in walk((stmt,)))


def _used(body: Body, path: Path, until: Path) -> bool:
    """Whether a loaded value feeds an instruction between the load and its hand-over."""
    load = statement(body, path)
    if not isinstance(load, LdShared):
        return False
    return any(load.name in names(e) for s in _between(body, path, until) for e in _values(s))


def _between(body: Body, path: Path, until: Path) -> Iterator[Stmt]:
    for p, s in numbered(body):
        if p > path and (p < until or p[: len(until)] == until):
            yield s


def _values(s: Stmt) -> tuple[Expr, ...]:
    return (s.value,) if isinstance(s, Compute | StGlobal | StShared | StAsync) else ()
