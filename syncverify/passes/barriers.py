"""Block, named and warp barriers among threads of one group, for RAW, WAR and WAW alike.

The program is traced as it is meant; a barrier goes wherever two accesses need an order that none stands
for yet, as far out as it separates the two, and those that the others turn out to cover are taken away again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from syncverify.base.source import InputError
from syncverify.ir.expr import Int
from syncverify.ir.nodes import (
    BarrierSync,
    Compute,
    For,
    If,
    Kernel,
    LdGlobal,
    Let,
    Role,
    Shuffle,
    StGlobal,
    Stmt,
    WarpSync,
)
from syncverify.model.ordering import Need, ordering
from syncverify.model.proxies import Access
from syncverify.passes.edits import Edits, Path, common_body, numbered, statement, without
from syncverify.passes.rewrite import Body, walk
from syncverify.passes.rings import Warps, all_hand_overs, rings, role_warps
from syncverify.passes.trace import Step, Touch, Trace, loops, traced

#: Barriers that one kernel may get; more means that the search does not settle.
MOST = 64
#: Id 0 is the block's.
FIRST_NAMED = 1


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two accesses without the order that they need. ``apart``: threads of different warps are involved."""

    first: Touch
    second: Touch
    apart: bool


@dataclass(frozen=True)
class Barriers:
    """Orders what the same warps do: one warp by a warp barrier, a role by a named one, a block by its own.

    ``unaligned``: use the form that PTX allows in role branches (K13).
    """

    unaligned: bool = False
    name: str = "barriers"

    def apply(self, kernel: Kernel) -> Kernel:
        apart, slots = _handed_over(kernel), _slots(kernel)
        ids: dict[Warps, int] = {}
        ours: list[Stmt] = []
        for _ in range(MOST):
            conflict = first_conflict(kernel, apart, slots)
            if conflict is None:
                return _pruned(kernel, apart, ours, slots)
            at = _separating(kernel.body, conflict)
            ours.append(self._barrier(kernel, party_at(kernel, at), conflict, ids))
            edits = Edits()
            edits.put_before(at, ours[-1])
            kernel = replace(kernel, body=edits.apply(kernel.body))
        raise InputError(f"{kernel.name}: more than {MOST} barriers", kernel.span)

    def _barrier(self, kernel: Kernel, party: Warps, c: Conflict, ids: dict[Warps, int]) -> Stmt:
        if len(party) == 1 or not c.apart:
            return WarpSync()
        if len(party) * 32 >= kernel.launch.threads:
            return BarrierSync(Int(0))
        used = {s.id for s in walk(kernel.body) if isinstance(s, BarrierSync) and s.count is not None}
        free = next(k for k in range(FIRST_NAMED, 17) if Int(k) not in used and k not in ids.values())
        number = ids.setdefault(party, free)
        if number > 15:
            raise InputError(f"{kernel.name}: no named barrier is left", kernel.span)
        return BarrierSync(Int(number), Int(len(party) * 32), aligned=not self.unaligned)


def _pruned(kernel: Kernel, apart: frozenset[frozenset[str]], ours: list[Stmt], slots: int) -> Kernel:
    """Without those of our barriers that the others cover, inner ones first: they cost most."""
    places = [p for p, s in numbered(kernel.body) if any(s is x for x in ours)]
    traces = list(_traces(kernel, slots)) if places else []
    gone: set[Path] = set()
    for path in sorted(places, key=len, reverse=True):
        # one that others do not cover is not covered by fewer of them
        tried = gone | {path}
        if not any(_scan([x for x in t if x.path not in tried], apart) for t in traces):
            gone = tried
    return replace(kernel, body=without(kernel.body, gone)) if gone else kernel


def _handed_over(kernel: Kernel) -> frozenset[frozenset[str]]:
    """Buffers that go from one group of warps to another, or give way to each other there."""
    found: set[frozenset[str]] = set()
    for r, edges in all_hand_overs(kernel):
        if edges:
            found |= {frozenset({a, b}) for a in r.buffers for b in r.buffers if a != b or not r.shared_by}
    return frozenset(found)


# ---------------------------------------------------------------- conflicts


def _slots(kernel: Kernel) -> int:
    """The most slots of a ring."""
    return max((r.slots for r in rings(kernel)), default=1)


def first_conflict(kernel: Kernel, handed_over: frozenset[frozenset[str]], slots: int) -> Conflict | None:
    """The first pair of accesses of overlapping groups that no barrier orders, in any of the traces."""
    return next((c for trace in _traces(kernel, slots) if (c := _scan(trace, handed_over)) is not None), None)


def _traces(kernel: Kernel, slots: int) -> Iterator[Trace]:
    """With all loops, and without each that may go round no time."""
    optional = loops(kernel.body)
    silent = {p for p in optional if _silent(statement(kernel.body, p))}
    for skipped in [(), *[(p,) for p in optional if p not in silent]]:
        yield traced(kernel, slots + 2, {*skipped, *silent})


def _silent(loop: Stmt) -> bool:
    """Whether nothing in a loop touches shared memory, synchronizes, or decides what comes after it."""
    return all(isinstance(s, For | If | Let | Compute | LdGlobal | StGlobal | Shuffle) for s in walk((loop,)))


@dataclass(eq=False, slots=True)
class _Pending:
    """An access that later ones may conflict with, and which warps know of it."""

    touch: Touch
    known: set[int]
    in_warp: bool = False


def _scan(trace: Trace, handed_over: frozenset[frozenset[str]]) -> Conflict | None:
    pending: dict[int, list[_Pending]] = {}
    everyone = frozenset(w for t in trace for w in t.warps)
    for item in trace:
        if isinstance(item, Step):
            _note(item, pending, everyone)
            continue
        for b in pending.values():
            for p in b:
                c = _conflict(p, item, handed_over)
                if c is not None:
                    return c
        pending.setdefault(id(item.stmt), []).append(_Pending(item, set()))
    return None


def _note(step: Step, pending: dict[int, list[_Pending]], everyone: Warps) -> None:
    """What a synchronization tells its participants."""
    if not isinstance(step.stmt, BarrierSync | WarpSync):
        return
    for key, group in pending.items():
        for p in group:
            if not p.touch.warps <= step.warps:
                continue
            p.in_warp = True
            if isinstance(step.stmt, BarrierSync):
                p.known |= step.warps
        pending[key] = [p for p in group if not p.known >= everyone]


def _conflict(p: _Pending, item: Touch, handed_over: frozenset[frozenset[str]]) -> Conflict | None:
    a = p.touch
    if ordering(a.access, item.access).need is Need.NOTHING or a.access is Access.ASYNC_WRITE:
        return None  # copies are waited for on their mbarrier
    if not a.warps & item.warps and frozenset({a.region.buffer, item.region.buffer}) in handed_over:
        return None
    if item.warps <= p.known:
        return None
    met, apart = a.meets(item)
    apart = apart or bool(a.warps ^ item.warps)
    if not met or (not apart and p.in_warp):
        return None
    return Conflict(a, item, apart)


# ---------------------------------------------------------------- places


def _separating(body: Body, c: Conflict) -> Path:
    """The statement in front of which a barrier separates the two, outermost, inside their common role."""
    a, b = c.first, c.second
    level = common_body(a.path, b.path)
    for (p, i), (q, j) in zip(a.rounds, b.rounds, strict=False):
        if p == q and i != j:
            level = (*p, 0)  # rounds of this loop distinguish them
            break
        if p != q:
            break
    at = b.path[: len(level) + 1]
    while (
        isinstance(role := statement(body, at), Role)
        and role_warps(role) >= a.warps | b.warps
        and len(at) < len(b.path)
    ):
        at = b.path[: len(at) + 2]
    return at


def party_at(kernel: Kernel, path: Path) -> Warps:
    """The warps that execute a statement; InputError under a condition, which may part them."""
    party = frozenset(range(-(-kernel.launch.threads // 32)))
    for n in range(1, len(path), 2):
        around = statement(kernel.body, path[:n])
        if isinstance(around, Role):
            party = role_warps(around)
        elif isinstance(around, If):
            raise InputError("a barrier would stand under a condition", around.span)
        assert isinstance(around, For | Role)
    return party
