"""Whether an access may meet another one too early: the hazards of docs/model.md C, as they happen."""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.simulate.ir.program import GLOBAL, Event, Kind, Program
from syncverify.simulate.ir.regions import lanes_clash
from syncverify.simulate.ir.state import Found


def check_access(
    p: Program,
    H: int,
    O: int,  # noqa: E741 -- the theory's name
    A: int,
    AO: int,
    cw: list[int],
    cr: list[int],
    g: int,
    bit: int,
    mask: int,
    kind: Kind,
    cells: tuple[int, ...],
    e: Event,
) -> list[Found]:
    """Performs one access: updates the cells, gives the harms.

    A write must know the last write and the reads since, a read the last write. An access by the async
    proxy must know earlier generic ones through a proxy fence (PTX ISA, Async Proxy).
    """
    if kind.by_async_proxy or kind is Kind.MU:
        ok = A | (H & ~p.bridged)  # in A also: async accesses known through a narrow scope (K4)
        own = (AO & p.bridged) | (O & ~p.bridged)
    else:
        ok, own = H, O
    if p.strict and kind.by_async_proxy:
        ok = _strictly(p, g, p.accesses[bit].memory, ok, A)
    ok |= mask
    compatible = p.friends.get(bit, 0)
    bad = 0
    if kind.writes:
        for c in cells:
            w = cw[c]
            bad |= (w & ~compatible | cr[c]) & ~ok
            cw[c] = (w & compatible & ~H) | mask
            cr[c] = 0
    else:
        for c in cells:
            bad |= cw[c] & ~ok
            cr[c] |= mask
    return _explain(p, g, bit, kind, bad, own, H, O, e) if bad else []


def fenced_in(p: Program, cta: int, known: int) -> int:
    """The bits, in sets of what is bridged, that accesses were known to a proxy fence of a CTA."""
    return known << (len(p.accesses) * (1 + cta))


def _strictly(p: Program, g: int, memory: int, ok: int, bridged: int) -> int:
    """What a strict reading leaves of accesses that are known: of other CTAs' in global memory those that a
    fence of this CTA knew; and what it adds: other CTAs' here that a fence of the memory's CTA knew."""
    cta = p.groups[g].cta
    away = p.away.get((cta, memory), 0)
    where = cta if memory == GLOBAL else memory
    near = bridged >> (len(p.accesses) * (1 + where)) & away
    return (ok & ~away if memory == GLOBAL else ok) | near


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _explain(
    p: Program,
    g: int,
    bit: int,
    kind: Kind,
    bad: int,
    own: int,
    H: int,
    O: int,  # noqa: E741
    e: Event,
) -> list[Found]:
    found: list[Found] = []
    for b in _bits(bad):
        a = p.accesses[b]
        mine = p.accesses[bit]
        known = bool(H >> b & 1)
        if a.group == g and not lanes_clash(a.lanes, mine.lanes, a.intervals, mine.intervals):
            if own >> b & 1:
                continue  # every lane comes after its own access
            known = known or bool(O >> b & 1)
        rule, what = verdict(a.kind, kind, known, a.memory)
        found.append(Found("stale-value", rule, f"{e.text} {what} {a.text}", e.span, g, a.span))
    return found


def verdict(first: Kind, second: Kind, known: bool, memory: int) -> tuple[str, str]:
    """The rule that a pair breaks, and what is wrong in words."""
    if first in (Kind.MU, Kind.MW):
        return (
            "SV502",
            "uses a tensor map without having acquired it, after"
            if first is Kind.MW
            else "edits a tensor map in use by",
        )
    if {first, second} == {Kind.AT, Kind.RD}:
        return "SV504", "is not atomic with"
    if known:
        if first is Kind.GR:
            return "SV105", "may overtake, for want of a proxy fence,"
        return "SV101", "may not see, for want of a proxy fence,"
    if first is Kind.AR:
        return "SV104", "overwrites the source, in flight, of"
    if memory == GLOBAL and first in (Kind.AW, Kind.RD):
        return "SV501", "is not ordered after the completion of"
    if first.writes:
        return ("SV112" if second.writes else "SV110"), "is not ordered after"
    return "SV111", "is not ordered after"
