"""Waits that evidently wait for each other, without running anything.

A wait for a barrier's first phase opens only after some arrival. An arrival that stands behind such a
wait in the same thread code needs that wait to open first. A wait that no arrival can open, by the
least fixpoint of these two facts, never opens in any run. What this misses the checker finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from syncverify.base.source import InputError
from syncverify.ir import nodes
from syncverify.ir.expr import Expr, Int, evaluate


@dataclass
class _Facts:
    """First-phase waits, and per barrier its arrivals, each with the waits before it."""

    waits: list[nodes.MbarrierWait] = field(default_factory=list)
    arrivals: dict[str, list[frozenset[int]]] = field(default_factory=dict)


def cyclic_waits(kernel: nodes.Kernel) -> tuple[nodes.MbarrierWait, ...]:
    """One cycle of waits, each of which only arrivals behind the next one could open; () if there is none."""
    facts = _Facts()
    _collect(kernel.body, frozenset(), {}, facts)
    opened: set[int] = set()
    grew = True
    while grew:
        grew = False
        for i, w in enumerate(facts.waits):
            if i not in opened and any(before <= opened for before in facts.arrivals.get(w.bar.name, ())):
                opened.add(i)
                grew = True
    for first in range(len(facts.waits)):
        path: list[int] = []
        at: int | None = first
        while at is not None and at not in opened:
            if at in path:
                return tuple(facts.waits[i] for i in path[path.index(at) :])
            path.append(at)
            arrivals = facts.arrivals.get(facts.waits[at].bar.name, [])
            at = min(arrivals[0] - opened) if arrivals else None
    return ()


def reject_cyclic_waits(kernel: nodes.Kernel) -> None:
    """InputError if some waits evidently wait for each other."""
    cycle = cyclic_waits(kernel)
    if not cycle:
        return
    if len(cycle) == 1:
        w = cycle[0]
        message = f"this wait on {w.bar.name} can never end: every arrival on it stands behind the wait"
        raise InputError(message, w.span)
    names = " -> ".join([w.bar.name for w in cycle] + [cycle[0].bar.name])
    lines = ", ".join(str(w.span.line) for w in cycle)
    raise InputError(f"these waits wait for each other: {names} (lines {lines})", cycle[0].span)


def _collect(
    body: Iterable[nodes.Stmt], before: frozenset[int], first: Mapping[str, int], facts: _Facts
) -> None:
    """``before``: the waits that a thread has passed; ``first``: loop variables in their first iteration."""
    for s in body:
        match s:
            case nodes.MbarrierWait() if not s.token and s.bar.rank is None and _value(s.phase, first) == 0:
                before = before | {len(facts.waits)}
                facts.waits.append(s)
            case nodes.For():
                lo = _value(s.lo, first)
                _collect(s.body, before, first if lo is None else {**first, s.var: lo}, facts)
            case nodes.If():
                # under a guard the first execution may come in a later iteration
                _collect(s.then, before, {}, facts)
                _collect(s.orelse, before, {}, facts)
            case nodes.Role():
                _collect(s.body, before, first, facts)
            case nodes.MbarrierArrive() | nodes.CpAsyncMbarrierArrive():
                facts.arrivals.setdefault(s.bar.name, []).append(before)


def _value(e: Expr, env: Mapping[str, int]) -> int | None:
    if isinstance(e, Int):
        return e.value
    try:
        return evaluate(e, env)
    except (KeyError, ZeroDivisionError, ValueError, TypeError):
        return None
