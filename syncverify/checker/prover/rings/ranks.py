"""Ranks that grow along every enablement edge: no cycle, so that the run with these iterations exists.

The rank of an operation's execution is ``WEIGHT * counter`` plus a linear form of the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.checker.prover.rings.agents import Agent, Program
from syncverify.checker.prover.rings.linear import Facts, Lin, var
from syncverify.checker.prover.rings.program import FIRST, SECOND, Op
from syncverify.checker.prover.rings.rules import Step, Turns, enabling, exists

#: More than any path inside one iteration.
WEIGHT = 1000
#: An operation's agent by kind and part, its place, and whether its completion is meant.
Key = tuple[int, int, int, bool]


def key(a: Agent, op: Op, done: bool = False) -> Key:
    return a.kind, a.part, op.place, done


def keys(p: Program) -> list[Key]:
    found = [key(a, op) for a in p.agents for op in a.ops]
    found += [key(a, op, True) for a in p.agents for op in a.ops if op.kind in ("copy", "store", "mma")]
    return list(dict.fromkeys(found))


def rank(ranks: dict[Key, Lin], p: Program, s: Step) -> Lin:
    """The rank of a step; leaving an operation comes one above entering it."""
    agent = p.agents[s.agent]
    base = ranks[key(agent, agent.ops[s.op], s.half == "done")]
    return base + s.at.scaled(WEIGHT) + (1 if s.half == "out" else 0)


def unordered(p: Program, t: Turns, ranks: dict[Key, Lin], facts: Facts) -> str | None:
    """An edge along which the rank does not grow; None if there is none."""
    n = var(FIRST)
    for a, b, given in pairs(p, t):
        gain = rank(ranks, p, b) - rank(ranks, p, a) - 1
        if not facts.entails((*given, *exists(p.agents[a.agent].ops[a.op], n)), [(gain,)]):
            x, y = p.agents[a.agent].ops[a.op], p.agents[b.agent].ops[b.op]
            return f"a cycle may pass through {x.kind} (line {x.span.line}) and {y.kind} (line {y.span.line})"
    return None


def pairs(p: Program, t: Turns) -> Iterator[tuple[Step, Step, tuple[Lin, ...]]]:
    """All enablement edges, with the constraints under which they hold."""
    n, m = var(FIRST), var(SECOND)
    seen: set[tuple[int, int]] = set()
    for i, a in enumerate(p.agents):
        if (a.kind, a.part) not in seen:
            seen.add((a.kind, a.part))
            for j, x in enumerate(a.ops):
                for k, y in enumerate(a.ops):
                    if x.segment < y.segment:
                        yield Step(i, j, "out", n), Step(i, k, "in", m), exists(y, m)
                    elif x.segment == y.segment:
                        at = n if y.place > x.place else n + 1
                        yield Step(i, j, "out", n), Step(i, k, "in", at), exists(y, at)
        for j, x in enumerate(a.ops):
            for k, b in enumerate(p.agents):
                for q, y in enumerate(b.ops):
                    yield from _between(p, t, (i, j, x), (k, q, y))


def _between(
    p: Program, t: Turns, a: tuple[int, int, Op], b: tuple[int, int, Op]
) -> Iterator[tuple[Step, Step, tuple[Lin, ...]]]:
    n = var(FIRST)
    x, y = a[2], b[2]
    if y.kind == "wait" and x.ring == y.ring and x.kind in ("arrive", "expect", "copy"):
        steps = [("done" if x.kind == "copy" else "out", var(SECOND))]
    elif x.kind in ("meet", "warp_meet", "mma", "mma_commit", "mma_drain") and x.statement == y.statement:
        steps = [("in", n)]
    elif (x.kind, y.kind) in (("store", "drain"), ("mma", "mma_drain")):
        steps = [("done", var(SECOND))]
    else:
        steps = []
    if x is y and a[0] == b[0] and x.kind in ("copy", "store", "mma"):
        yield Step(a[0], a[1], "out", n), Step(b[0], b[1], "done", n), ()
    for half, at in steps:
        first = Step(a[0], a[1], "done" if half == "done" else "in" if half == "in" else "out", n)
        second = Step(b[0], b[1], "out", at)
        if first.half == "in" and a[0] == b[0]:
            continue
        found = enabling(p, t, first, second)
        if found is not None:
            yield first, second, found[1]
