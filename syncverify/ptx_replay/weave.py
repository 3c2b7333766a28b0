"""Statements of the classes of a warpgroup as one body, each class's in its order.

An instruction that a whole warp or warpgroup executes is one statement for all of it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

from syncverify.ir import nodes as n
from syncverify.ir.expr import Binary, Call, Expr, Int, Var
from syncverify.model.events import ThreadClass

_ALIGNED = (
    n.BarrierSync, n.BarrierArrive, n.ClusterArrive, n.ClusterWait, n.Elect, n.SetMaxNReg,
    n.WgmmaFence, n.Wgmma, n.WgmmaCommit, n.WgmmaWait,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Member:
    """One class and its statements, each with the number of its site."""

    cls: ThreadClass
    body: Sequence[tuple[int, n.Stmt]]


def woven(members: Sequence[Member]) -> tuple[n.Stmt, ...]:
    """The body of a warpgroup."""
    for shared in (lambda s: True, lambda s: isinstance(s, _ALIGNED), lambda s: False):
        keys = [_keys(i, m, shared) for i, m in enumerate(members)]
        order = _order(keys)
        if order is not None:
            return _body(members, keys, order)
    raise AssertionError("lists that share nothing have an order")


def _keys(i: int, m: Member, shared: Callable[[n.Stmt], bool]) -> list[Hashable]:
    times: Counter[tuple[int, str]] = Counter()
    out: list[Hashable] = []
    for site, s in m.body:
        what = (site, type(s).__name__)
        times[what] += 1
        out.append((*what, times[what], -1 if shared(s) else i))
    return out


def _order(lists: Sequence[Sequence[Hashable]]) -> list[Hashable] | None:
    """All keys, each list's in its order; None if the lists contradict each other."""
    after: dict[Hashable, dict[Hashable, None]] = {}
    before: Counter[Hashable] = Counter()
    for keys in lists:
        for k in keys:
            after.setdefault(k, {})
        for a, b in pairwise(keys):
            if b not in after[a]:
                after[a][b] = None
                before[b] += 1
    ready = deque(k for k in after if not before[k])
    out: list[Hashable] = []
    while ready:
        k = ready.popleft()
        out.append(k)
        for b in after[k]:
            before[b] -= 1
            if not before[b]:
                ready.append(b)
    return out if len(out) == len(after) else None


def _body(
    members: Sequence[Member], keys: Sequence[Sequence[Hashable]], order: list[Hashable]
) -> tuple[n.Stmt, ...]:
    who: dict[Hashable, list[tuple[int, n.Stmt]]] = {}
    for i, (m, mine) in enumerate(zip(members, keys, strict=True)):
        for k, (_, s) in zip(mine, m.body, strict=True):
            who.setdefault(k, []).append((i, s))
    blocks: list[tuple[tuple[int, ...], list[n.Stmt]]] = []
    for k in order:
        for owners, s in _variants(members, who[k]):
            if blocks and blocks[-1][0] == owners:
                blocks[-1][1].append(s)
            else:
                blocks.append((owners, [s]))
    everyone = tuple(range(len(members)))
    out: list[n.Stmt] = []
    for owners, body in blocks:
        if owners == everyone:
            out += body
        else:
            out.append(n.If(guard([members[i].cls for i in owners]), tuple(body), span=body[0].span))
    return tuple(out)


def _variants(
    members: Sequence[Member], each: list[tuple[int, n.Stmt]]
) -> list[tuple[tuple[int, ...], n.Stmt]]:
    alike: dict[n.Stmt, list[int]] = {}
    for i, s in each:
        alike.setdefault(s, []).append(i)
    if len(alike) > 1 and isinstance(each[0][1], _ALIGNED):
        one: object = None
        for s, owners in alike.items():
            one = s if one is None else _joined(guard([members[i].cls for i in owners]), s, one)
            if one is None:
                break
        if isinstance(one, n.Stmt):
            return [(tuple(i for i, _ in each), one)]
    return [(tuple(owners), s) for s, owners in alike.items()]


def _joined(cond: Expr, a: object, b: object) -> object:
    """What is ``a`` where a condition holds and ``b`` elsewhere; None if they differ in more than numbers."""
    if a == b:
        return a
    if isinstance(a, Expr) and isinstance(b, Expr):
        return Call("select", (cond, a, b))
    if type(a) is type(b) and isinstance(a, n.Stmt | n.Region):
        parts: dict[str, Any] = {}
        for f in fields(a):
            x, y = getattr(a, f.name), getattr(b, f.name)
            if f.name == "span" or x == y:
                continue
            joined = _joined(cond, x, y)
            if joined is None:
                return None
            parts[f.name] = joined
        return replace(a, **parts)
    return None


def guard(classes: Sequence[ThreadClass]) -> Expr:
    """Whether a thread of the warpgroup belongs to one of its classes."""
    warps: dict[int, int] = {}
    for c in classes:
        warps[c.warp] = warps.get(c.warp, 0) | c.lanes
    terms: list[Expr] = []
    for warp, lanes in warps.items():
        here: Expr = Binary("==", Var("warp"), Int(warp))
        if lanes != 0xFFFFFFFF:
            mine = Binary("&", Binary(">>", Int(lanes), Var("lane")), Int(1))
            here = Binary("and", here, Binary("==", mine, Int(1)))
        terms.append(here)
    out = terms[0]
    for term in terms[1:]:
        out = Binary("or", out, term)
    return out
