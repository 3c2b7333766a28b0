"""A second layout of shared variables, in which what leaves one for another lands elsewhere.

With room between variables, an access that leaves its variable lies in none, but for offsets of just its size
and all the room: those lead to another one. Where variables lie is the assembler's choice, so that no right
kernel depends on it. A kernel is therefore checked under two layouts, and proved only if it is under both:

    first     a . . . . b . . . . c
    second    c . . b . . a

Order and gaps of the second are chosen such that no offset from a variable that accesses may leave leads to
another one in both. Places stay what they are modulo 1,024 and the alignment of their variable. Dynamic
memory is the last in both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from syncverify.frontends.ptx.decode.effects import SHARED_BASE
from syncverify.frontends.ptx.exec.tables import Layout
from syncverify.frontends.ptx.syntax.nodes import Variable

#: Gaps that are tried are these parts of the first gap.
_PARTS = 4
#: First byte, end and name of a variable.
Span = tuple[int, int, str]


def second_layout(
    first: Layout, variables: Sequence[Variable], asked: Collection[str], spread: int
) -> Layout:
    """The second layout beside a first one over so many bytes; the first where that leaves no room. Where
    none tells the two apart, variables count as too many for room between them. ``variables``: shared ones;
    ``asked``: those whose places accesses may leave."""
    if not first.spaced:
        return first
    static = {first.shared[v.name]: v for v in variables if _is_static(v) and v.name in first.shared}
    named = {first.shared[name] for name in asked if name in first.shared}
    fit = (x for x in _candidates(first, static, named, spread) if _distinguishes(first, x, asked))
    return next(fit, replace(first, spaced=False, crowded=True))


def _is_static(v: Variable) -> bool:
    return bool(v.size) and not v.extern


def _candidates(
    first: Layout, static: Mapping[int, Variable], asked: set[int], spread: int
) -> Iterator[Layout]:
    """Layouts that fit, in the other order and in the same one, those with most room first. Then one with
    little room but ahead of those that are asked for. ``static``, ``asked``: by first byte."""
    spans = [x for x in first.names if x[0] in static]
    room = min((b[0] - a[1] for a, b in zip(first.names, first.names[1:], strict=False)), default=0)
    for order in (spans[::-1], spans):
        for parts in range(_PARTS * (len(first.names) + 2), 0, -1):
            gap = room * parts // _PARTS // SHARED_BASE * SHARED_BASE
            made = _laid_out(first, order, static, [gap] * len(order))
            if gap and made.end <= spread:
                yield made
    order = sorted(spans, key=lambda x: x[0] in asked)
    gaps = [0] * len(order)
    ahead = len(order) - len(asked & static.keys()) - 1
    if ahead >= 0:
        gaps[ahead] = (spread - _laid_out(first, order, static, gaps).end) // SHARED_BASE * SHARED_BASE
        yield _laid_out(first, order, static, gaps)


def _laid_out(
    first: Layout, order: Sequence[Span], static: Mapping[int, Variable], gaps: Sequence[int]
) -> Layout:
    """Static variables in some order, with a gap behind each, and dynamic memory behind them."""
    at, moved = SHARED_BASE, dict[int, int]()
    for (low, high, _), gap in zip(order, gaps, strict=True):
        at += (low - at) % max(SHARED_BASE, static[low].align)
        moved[low] = at
        at += high - low + gap
    dynamic = [x for x in first.names if x[0] not in static]
    begin = min((x[0] for x in dynamic), default=max(x[1] for x in first.names) + gaps[-1])
    behind = at + (begin - at) % SHARED_BASE - begin

    def place(low: int) -> int:
        return moved.get(low, low + behind)

    def span(low: int, high: int) -> tuple[int, int]:
        return place(low), place(low) + high - low

    return replace(
        first,
        shared={name: place(low) for name, low in first.shared.items()},
        names=tuple(sorted((*span(low, high), name) for low, high, name in first.names)),
        declared=tuple((*span(low, high), name, align) for low, high, name, align in first.declared),
        start=min(map(place, first.shared.values())),
        end=first.end + behind,
    )


def _distinguishes(first: Layout, second: Layout, asked: Collection[str]) -> bool:
    """Whether no offset from a variable that is asked for leads to another one in both layouts."""

    def away(made: Layout, name: str) -> list[tuple[int, int]]:
        at = made.shared[name]
        return [(low - at, high - at) for low, high, _ in made.names if not low <= at < high]

    return not any(_meet(away(first, x), away(second, x)) for x in asked if x in first.shared)


def _meet(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> bool:
    """Whether an interval of one list meets one of the other; within a list none do, and they are sorted."""
    m = n = 0
    while m < len(some) and n < len(others):
        if max(some[m][0], others[n][0]) < min(some[m][1], others[n][1]):
            return True
        if some[m][1] <= others[n][1]:
            m += 1
        else:
            n += 1
    return False


__all__ = ["second_layout"]
