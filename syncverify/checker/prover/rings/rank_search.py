"""Finds ranks, one parameter at a time: longest paths over slopes, and over values where all are least."""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.checker.prover.rings.agents import Program
from syncverify.checker.prover.rings.linear import Facts, Lin, num, var
from syncverify.checker.prover.rings.program import FIRST, SECOND, highs, lows
from syncverify.checker.prover.rings.ranks import WEIGHT, Key, key, keys, pairs, unordered
from syncverify.checker.prover.rings.rules import Turns, drained, turn


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
            # the iterations agree where the counters differ by this much
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
