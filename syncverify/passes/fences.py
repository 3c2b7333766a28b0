"""Proxy fences: by every generic accessor, after its last access, in front of what hands the bytes over."""

from __future__ import annotations

from dataclasses import dataclass, replace

from syncverify.base.diagnostics import Policy
from syncverify.ir.nodes import (
    BarrierArrive,
    BarrierSync,
    ClusterArrive,
    FenceProxyAsync,
    For,
    If,
    Kernel,
    LdShared,
    MbarrierArrive,
    Role,
    Stmt,
    WarpSync,
)
from syncverify.model.ordering import Need, ordering
from syncverify.model.proxies import Proxy
from syncverify.passes.arrival_of_reads import open_reads
from syncverify.passes.edits import Edits, Path, body_at, statement
from syncverify.passes.rewrite import Body, walk
from syncverify.passes.rings import rings
from syncverify.passes.trace import Touch, traced

_HAND_OVER = (BarrierSync, BarrierArrive, WarpSync, MbarrierArrive, ClusterArrive)


@dataclass(frozen=True)
class Fences:
    """Generic access, then async access of the same bytes: a fence for the block's shared memory.

    It stands where the accessors hand the bytes over: outside the loops of the accesses, under their
    conditions, so that only threads execute it that have something to make known. Where the table marks the
    row as contested (K1), the practical policy does without if every value read reaches memory before.
    """

    policy: Policy
    name: str = "fences"

    def apply(self, kernel: Kernel) -> Kernel:
        body = kernel.body
        spans: list[tuple[Path, Path, bool]] = []
        for path, inside, contested in bridged(kernel):
            place, before = release(body, path, inside)
            if contested and self.policy is Policy.PRACTICAL and _arrived(body, path, place):
                continue
            start = path[: len(place)]
            behind = start if start[:-1] == place[:-1] else (*place[:-1], -1)
            spans.append((behind, place, before))
        edits = Edits()
        for place, before in stabbed(spans):
            (edits.put_before if before else edits.put_after)(place, FenceProxyAsync("shared_cta"))
        return replace(kernel, body=edits.apply(body))


def bridged(kernel: Kernel) -> set[tuple[Path, bool, bool]]:
    """Generic accesses whose bytes a later one reaches through the async proxy.

    With each: whether that is done by warps of the same group, and whether the row is contested (K1).
    """
    found: set[tuple[Path, bool, bool]] = set()
    earlier: list[Touch] = []
    for t in traced(kernel, max((r.slots for r in rings(kernel)), default=1) + 2):
        if not isinstance(t, Touch):
            continue
        if t.access.proxy is not Proxy.ASYNC:
            earlier.append(t)
            continue
        for a in earlier:
            row = ordering(a.access, t.access)
            key = (a.path, bool(a.warps & t.warps), row.contested == "K1")
            crossing = row.need in (Need.BRIDGE, Need.COMPLETION_BRIDGE)
            if crossing and key not in found and a.meets(t)[0]:
                found.add(key)
    return found


def release(body: Body, path: Path, inside: bool) -> tuple[Path, bool]:
    """Where the bytes of an access leave its thread: a place, and whether a fence goes before it or after.

    ``inside``: to warps of its own group, by the next barrier; else by its arrival, where it has one.
    """
    at = path
    while True:
        around = at[:-2]
        siblings = body_at(body, at[:-1])
        place = _handed_over(siblings, at[-1] + 1, inside)
        if place is not None:
            return (*at[:-1], place), True
        enclosing = statement(body, around) if around else None
        if isinstance(enclosing, Role):
            return _in_a_later_part(body, around, inside) or (at, False)
        if isinstance(enclosing, If):
            return (*at[:-1], len(siblings) - 1), False  # one for all accesses under the condition
        if not isinstance(enclosing, For):
            return at, False
        if any(_hands_over(s) for s in siblings):
            return at, False  # handed over in the next round
        at = around


def _handed_over(siblings: Body, first: int, inside: bool) -> int | None:
    """The place among statements that hands over what was done before the first of them."""
    later = [k for k in range(first, len(siblings)) if _hands_over(siblings[k])]
    arrivals = [k for k in later if not isinstance(siblings[k], BarrierSync)]
    if not later:
        return None
    return later[0] if inside or not arrivals else arrivals[0]


def _in_a_later_part(body: Body, at: Path, inside: bool) -> tuple[Path, bool] | None:
    """The hand-over in a later part of a role, where other roles stand between its parts."""
    role = statement(body, at)
    assert isinstance(role, Role)
    siblings = body_at(body, at[:-1])
    for k in range(at[-1] + 1, len(siblings)):
        s = siblings[k]
        if isinstance(s, Role) and (s.unit, s.lo, s.hi) == (role.unit, role.lo, role.hi):
            place = _handed_over(s.body, 0, inside)
            if place is not None:
                return (*at[:-1], k, 0, place), True
        elif isinstance(s, BarrierSync):
            return (*at[:-1], k), True
    return None


def stabbed(spans: list[tuple[Path, Path, bool]]) -> list[tuple[Path, bool]]:
    """The fewest places of which each span has one: behind its access, not behind its hand-over."""
    chosen: list[tuple[Path, bool]] = []
    for start, place, before in sorted(spans, key=lambda s: (s[1], not s[2])):
        if (place, before) not in chosen and not any(_between_ends(start, at, place) for at, _ in chosen):
            chosen.append((place, before))
    return chosen


def _between_ends(start: Path, at: Path, place: Path) -> bool:
    return at[:-1] == place[:-1] == start[:-1] and start < at <= place


def _hands_over(stmt: Stmt) -> bool:
    return any(isinstance(s, _HAND_OVER) for s in walk((stmt,)))


def _arrived(body: Body, path: Path, until: Path) -> bool:
    """Whether a loaded value reaches memory between the load and its hand-over."""
    d = len(until) - 1
    if not isinstance(statement(body, path), LdShared) or path[:d] != until[:d]:
        return False
    end = max(path[d] + 1, until[d])
    stretch = body_at(body, until[:-1])[path[d] : end]
    return (0, *path[d + 1 :]) not in open_reads(stretch)
