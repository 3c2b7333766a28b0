"""Guesses of iterations and ends: which depths to add to contributions, and how many iterations of a ring
complete.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from syncverify.checker.kernel.hops import CONTRIBUTIONS, MEETINGS, Graph
from syncverify.checker.kernel.linear import ZERO, Term, apply, num
from syncverify.checker.kernel.protocol import Kind, N, Protocol, Tiles, U
from syncverify.checker.prover.protocols.sizes import Sample, shape, value

#: Most ways of shifting the arrivals of one ring that are tried.
MOST_SHIFTS = 16


class NotFoundError(Exception):
    """The search found no proof; the message says of what."""


def parities(p: Protocol) -> dict[int, int]:
    """The shift of each wait that its parity names."""
    g = Graph(p, {})
    return {i: s.op.parity for i, s in enumerate(g.sites) if s.op.kind is Kind.WAIT and s.op.parity}


def landing(g: Graph, ring: str) -> list[int]:
    return g.of(ring, MEETINGS if g.p.rings[ring].named else CONTRIBUTIONS)


def weight(g: Graph, i: int) -> int:
    """The arrivals of one event of a site, all its threads together."""
    op = g.sites[i].op
    each = {Kind.ARRIVE: op.count, Kind.SYNC: 1, Kind.JOIN: 1}.get(op.kind, 0)
    return each * len(g.threads(i))


def claims(
    p: Protocol, sizes: Sequence[Sample], events: Sequence[Sequence[Sequence[tuple[int, int]]]]
) -> tuple[dict[int, int], dict[str, Term]]:
    """Shifts and ends under which all samples add up; NotFoundError where none were found."""
    shift = parities(p)
    g = Graph(p, shift)
    end: dict[str, Term] = {}
    for ring in p.rings:
        moved, end[ring] = _ring(g, ring, sizes, events)
        shift.update(moved)
    return shift, end


def _ring(
    g: Graph, ring: str, sizes: Sequence[Sample], events: Sequence[Sequence[Sequence[tuple[int, int]]]]
) -> tuple[dict[int, int], Term]:
    lands = landing(g, ring)
    if not lands:
        return {}, ZERO
    arrivals = [i for i in lands if g.sites[i].op.kind is Kind.ARRIVE]
    data = [
        (e, {i: [value(g.sites[i].op.index, {**e, "u": u, "n": n}) for u, n in some[i]] for i in lands})
        for e, some in zip(sizes, events, strict=True)
    ]
    ways = list(itertools.product((0, 1), repeat=min(len(arrivals), 12)))[:MOST_SHIFTS]
    for end, ups in itertools.product(_ends(g, ring, lands), ways):
        moved = {i: k for i, k in zip(arrivals, ups, strict=False) if k}
        if all(_adds_up(g, ring, end, moved, e, turns) for e, turns in data):
            return moved, end
    raise NotFoundError(f"no end of {ring} under which its turns get what they need")


def _adds_up(
    g: Graph, ring: str, end: Term, moved: dict[int, int], e: Sample, turns: dict[int, list[int]]
) -> bool:
    r = g.p.rings[ring]
    depth, last = value(r.depth, e), value(end, e)
    got: dict[int, int] = {}
    for i, some in turns.items():
        ahead, arrivals = depth * moved.get(i, 0), weight(g, i)
        for t in some:
            got[t + ahead] = got.get(t + ahead, 0) + arrivals
    needed = r.count * (len({t // g.p.warp for i in turns for t in g.threads(i)}) if r.level else 1)
    needed = r.count if r.level == 3 else needed
    if any(not 0 <= t < last + depth or (t >= last and n >= needed) for t, n in got.items()):
        return False
    return all(got.get(j, 0) == needed for j in range(last))


def _ends(g: Graph, ring: str, lands: Sequence[int]) -> list[Term]:
    """Where the iterations of a ring may end: behind the last event of some contribution."""
    s = shape(g.p)
    depth = g.p.rings[ring].depth
    found: list[Term] = []
    at_zero = {"u": ZERO, "n": ZERO}
    for i in lands:
        site = g.sites[i]
        first = g.turn(i, ZERO, ZERO)
        if site.position.tiles:
            found += [apply(f, c) if site.position.loops else c for f in _functions(g, i) for c in s.counts]
            if not g.p.prefix:
                found += list(s.counts)
            tiles = g.p.roles[site.role].body[site.position.segment // 2]
            stride = tiles.stride if isinstance(tiles, Tiles) else 1
            each, rest = divmod(site.op.index.parts.get("u", 0), stride)
            found += [c * each for c in s.counts if each > 1 and not rest]
            own = (c for c in site.op.guard if c.parts.get("u") == -1)  # the first tiles alone
            found += [c.put(at_zero) + 1 + first for c in own]
        elif site.position.loops:
            highs = [c.put(at_zero) + 1 + first for c in site.domain if c.parts.get("n") == -1]
            found += [t for h in highs for t in (h + depth, h)]
        else:
            found.append(first + 1)
    if g.sites and any(g.p.roles[g.sites[i].role].body and g.sites[i].position.tiles for i in lands):
        # halves of the tiles, where a parameter says how many they are
        for f in g.p.facts:
            found += [Term({a: 1}) for a, k in f.parts.items() if abs(k) > 1 and isinstance(a, str)]
            found += [c - Term({a: 1}) for c in s.counts for a, k in f.parts.items() if abs(k) > 1]
    found = list(dict.fromkeys(found))
    found += [t + d for t in found for d in (depth, num(1), num(-1), -depth)] + [t * 2 for t in found]
    found += [ZERO, *(t + depth for t in found)]
    return list(dict.fromkeys(found))


def _functions(g: Graph, i: int) -> list[str]:
    """The prefix sums that a site counts with: those of its loop's bounds and its index; of any, where it has
    none.
    """
    own = {f for c in (*g.sites[i].domain, g.sites[i].op.index) for f in c.functions()}
    return [f for f in g.p.prefix if f in own] or list(g.p.prefix[:1])


__all__ = ["N", "NotFoundError", "U", "claims", "landing", "weight"]
