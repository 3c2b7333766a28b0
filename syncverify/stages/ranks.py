"""Ranks that grow along every enablement edge: no cycle, so that the run with these turns exists.

The rank of an operation's execution is ``WEIGHT * counter`` plus a linear form of the parameters; it is found
one parameter at a time, as longest paths over slopes, and over values where all parameters are least.
"""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.stages.linear import Facts, Lin, num, var
from syncverify.stages.program import FIRST, SECOND, Agent, Op, Program, highs, lows
from syncverify.stages.rules import Step, Turns, drained, enabling, exists, turn

#: More than any path inside one turn.
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


# ---------------------------------------------------------------- search


def search(p: Program, t: Turns, facts: Facts) -> dict[Key, Lin] | None:
    """Ranks that may do; None if none were found. ``unordered`` has the last word."""
    boxed, back = _box(facts.always)
    for choice in range(3):
        found = _solve(p, t, boxed, choice)
        if found is not None:
            ranks = {k: v.put(back) for k, v in found.items()}
            if unordered(p, t, ranks, facts) is None:
                return ranks
    return None


def _box(facts: tuple[Lin, ...]) -> tuple[dict[str, Lin], dict[str, Lin]]:
    """Parameters as forms of others that are at least 0, from facts such as P < S; and the way back."""
    forward: dict[str, Lin] = {}
    least: dict[str, int] = {}
    for f in facts:
        if len(f.terms) == 1 and f.terms[0][1] == 1:
            least[f.terms[0][0]] = max(least.get(f.terms[0][0], -f.const), -f.const)
    for f in facts:
        ups = [n for n, k in f.terms if k == 1]
        if len(f.terms) > 1 and len(ups) == 1 and ups[0] not in forward:
            rest = var(ups[0]) - f
            if not rest.names() & set(forward):
                forward[ups[0]] = var(ups[0]) + rest
    back = {n: var(n).scaled(2) - forward[n] for n in forward}
    for f in facts:
        if len(f.terms) == 1 and f.terms[0][1] == -1 and f.terms[0][0] not in {*least, *forward}:
            name = f.terms[0][0]
            forward[name] = back[name] = num(f.const) - var(name)
    for name, low in least.items():
        if name not in forward:
            forward[name] = var(name) + low
            back[name] = var(name) - low
    for name in list(forward):
        shift = {x: forward[x] for x in forward if x not in back or len(forward[x].terms) == 1}
        if len(forward[name].terms) > 1:
            forward[name] = var(name) + (forward[name] - var(name)).put(shift)
    return forward, back


def _solve(p: Program, t: Turns, boxed: dict[str, Lin], choice: int) -> dict[Key, Lin] | None:
    """Longest paths for the constant part, then for each parameter's slope."""
    edges = [(a, b, w.put(boxed)) for a, b, w in _weights(p, t, choice)]
    nodes = keys(p)
    params = sorted({n for _, _, w in edges for n in w.names()})
    parts: dict[str, dict[Key, int]] = {}
    for name in ("", *params):
        weights = [(a, b, w.coefficient(name) if name else w.const) for a, b, w in edges]
        found = _longest(nodes, weights)
        if found is None:
            return None
        parts[name] = found
    return {k: sum((var(n).scaled(parts[n][k]) for n in params), num(parts[""][k])) for k in nodes}


def _weights(p: Program, t: Turns, choice: int) -> Iterator[tuple[Key, Key, Lin]]:
    """``rank(b) >= rank(a) + weight`` where the counters are 0."""
    for a, b, _ in pairs(p, t):
        x, y = p.agents[a.agent], p.agents[b.agent]
        u, v = x.ops[a.op], y.ops[b.op]
        gain = 1 + (a.half == "out") - (b.half == "out")
        from_, to = key(x, u, a.half == "done"), key(y, v, b.half == "done")
        if a.agent == b.agent and a.half == "out" and b.half == "in":
            if u.segment < v.segment:
                up, down = highs(u.domain), lows(v.domain)
                last, first = up[min(choice, len(up) - 1)], down[0]
                yield from_, to, (last - first).scaled(WEIGHT) + gain
            else:
                yield from_, to, (num(0) if v.place > u.place else num(-1)).scaled(WEIGHT) + gain
        elif v.kind == "wait" and u.ring == v.ring:
            # the turns agree where the counters differ by this much
            moving = turn(p, t, u, var(FIRST)).coefficient(FIRST) or turn(p, t, v, var(FIRST)).coefficient(
                FIRST
            )
            ahead = turn(p, t, v, num(0)) - turn(p, t, u, num(0)) if moving else num(0)
            yield from_, to, ahead.scaled(WEIGHT) + gain
        elif a.half == "done" and v.kind in ("drain", "mma_drain"):
            if u.segment == v.segment:
                # covered from ``least`` turns later on
                covered = drained(p, a, b)[-1]
                per = max(covered.coefficient(SECOND), 1)
                rest = covered.put({FIRST: num(0), SECOND: num(0)})
                ahead = rest if per == 1 else num(rest.const // per)
            else:
                ahead = highs(u.domain)[0] - lows(v.domain)[0]
            yield from_, to, ahead.scaled(WEIGHT) + gain
        else:
            yield from_, to, num(gain)


def _longest(nodes: list[Key], edges: list[tuple[Key, Key, int]]) -> dict[Key, int] | None:
    """Least values with ``value(b) >= value(a) + weight``; None where a cycle forbids it."""
    value = dict.fromkeys(nodes, 0)
    for _ in range(len(nodes) + 1):
        changed = False
        for a, b, w in edges:
            if value[a] + w > value[b]:
                value[b] = value[a] + w
                changed = True
        if not changed:
            return value
    return None


__all__ = ["rank", "search", "unordered"]
