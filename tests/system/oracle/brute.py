"""Brute force over small systems: every interleaving, one lane and one engine at a time.

It shares nothing with the checker: no clocks, no canonical run, no table of orderings. Each lane is a thread
of its own, each asynchronous operation lands in up to two pieces at any time, and what is known is an
explicit set of operations, pushed along each complete execution. Feasible for a few agents of a few
operations each.

Rulebook ids (A9, B13, C, K1 ...) name the statement that a line follows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from syncverify.base.diagnostics import Policy
from syncverify.model.events import System
from tests.system.oracle.known import find_race
from tests.system.oracle.machine import Async, Machine


@dataclass(frozen=True)
class Result:
    """What all executions together show."""

    harms: frozenset[str]  # hang, race, ub; in strict mode also unobserved (B20, K14)
    mixed: bool  # an operation lands in different phases, or a last phase stays open for want of bytes
    states: int
    complete: bool
    detail: dict[str, str] = field(default_factory=dict)


def in_flight(a: Async) -> bool:
    """K21: must this operation be over when the block leaves? A bulk load, the read end of a bulk store."""
    return len(a.pieces) > {"load": 0, "store": 1}.get(a.kind, 2)


def explore(system: System, policy: Policy = Policy.PRACTICAL, limit: int = 20_000) -> Result:
    """Every execution of a small system."""
    machine = Machine(system)
    todo = [machine.start()]
    seen = {todo[0].key()}
    landed: dict[tuple[Any, ...], int] = {}
    harms: dict[str, str] = {}
    mixed = False
    while todo and len(seen) <= limit:
        state = todo.pop()
        for where, phase in state.landing.items():
            mixed |= landed.setdefault(where, phase) != phase
        nexts = [] if state.ub else list(machine.moves(state))
        done = all(machine.event(state, t) is None for t in range(len(machine.threads)))
        if done and any(bar.pending == 0 for bar in state.bars.values()):
            mixed = True
        if state.unobserved and policy is Policy.STRICT:
            harms.setdefault("unobserved", "a phase that nobody waited for")
        if state.ub:
            harms.setdefault("ub", state.ub)
        elif done and any(in_flight(a) for a in state.asyncs):
            harms.setdefault("ub", "asynchronous work in flight at exit")
        elif not nexts and not done:
            harms.setdefault("hang", f"lanes stop at {state.pcs}")
        if not nexts and (race := find_race(machine, state, policy)) is not None:
            harms.setdefault("race", race)
        for n in nexts:
            k = n.key()
            if k not in seen:
                seen.add(k)
                todo.append(n)
    return Result(frozenset(harms), mixed, len(seen), not todo, harms)
