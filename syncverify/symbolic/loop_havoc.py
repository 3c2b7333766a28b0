"""Values that a loop reads and does not change, over new unknowns in every iteration: see
``SymbolicContext.fresh_per_iteration``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from syncverify.symbolic.affine import AffineTerm
from syncverify.symbolic.round_robin import split_on_lap_length

if TYPE_CHECKING:
    from syncverify.symbolic.context import SymbolicContext

#: Begins the keys of what ``havoc_iteration`` makes; agents name their next iteration by it.
ITERATION = "again "


def havoc_iteration(
    space: SymbolicContext,
    values: list[Any],
    trips: list[Any],
    kept: list[Any],
    iteration: Any,
    some: bool = False,
    pairs: bool = False,
) -> list[Any]:
    """Values that do not change, in an ``iteration`` of a loop: those that have to do with ``trips``
    over other unknowns in every iteration, the same for all who ask, of which as much is known as is now of
    theirs. The values themselves if ``kept`` ones have to do with them; ``some``: only those that do.
    ``pairs``: what counts twice as often as trips do is of this iteration and the next."""
    space.havocked.add(ITERATION)
    values = [space.resolved(v) for v in values]
    if not space.havocs:
        return values
    for v in () if some else trips:  # block groups ask when they meet it
        space.at_least(v - 1)  # some ask that before the loop, others in each iteration
        if space.has_round_robin:
            split_on_lap_length(space, v)
    all_ = {a for v in values for a, _ in space.of(v)[1]}
    fixed = {a for v in kept for a, _ in space.of(space.resolved(v))[1]}
    start = {a for v in trips for a, _ in space.of(space.resolved(v))[1]}
    if some:
        start -= _near(space, all_ | fixed, fixed)
    near = _near(space, all_, start)
    if near & fixed:
        return values
    for name, k, c in sorted(space.presplit) if space.presplit else ():
        for a in near:
            if space.symbols[a].name == name:
                space.at_least(space.term(c, ((a, k),)))
    if space.round_robin is not None:
        space.round_robin.havocked_names |= {space.symbols[space.parent_of(a)].name for a in near}
    new = _twins(space, near, iteration)
    next_ = _twins(space, near, iteration + 1) if pairs and counts_twice(space, values, trips) else new
    once = _once(space, trips)

    def moved(v: Any) -> Any:
        c, parts = space.of(v)
        total: Any = c
        for a, k in parts:
            twice = next_ is not new and k == 2 * once.get(a, 0)
            total = total + (new[a] * (k // 2) + next_[a] * (k // 2) if twice else new[a] * k)
        return space.resolved(total)

    return [
        moved(v) if isinstance(v, AffineTerm) and all(a in new for a, _ in v.parts) else v for v in values
    ]


def counts_twice(space: SymbolicContext, values: list[Any], trips: list[Any]) -> bool:
    """Whether some value counts a size twice as often as trips do."""
    once = _once(space, trips)
    found = (part for v in values for part in space.of(space.resolved(v))[1])
    return any(k == 2 * once.get(a, 0) for a, k in found)


def _once(space: SymbolicContext, trips: list[Any]) -> dict[int, int]:
    return {a: k for v in trips for a, k in space.of(space.resolved(v))[1]}


def _twins(space: SymbolicContext, near: set[int], iteration: Any) -> dict[int, Any]:
    """New unknowns for some symbols in an iteration, of which as much is known."""
    new: dict[int, Any] = {}
    made = False
    for a in sorted(near):
        key = (ITERATION, space.term(0, ((a, 1),)), iteration)
        made |= space.path._key(key) not in space.path.memo
        new[a] = space.path.memo_symbol(key, partial(space.fresh_like, a))
    if made:
        for parts, c in list(space.path.inequalities.items()):
            if all(a in new for a, _ in parts):
                space.path.assume(*space.of(sum((new[a] * k for a, k in parts), c)))
    return new


def _near(space: SymbolicContext, atoms: set[int], start: set[int]) -> set[int]:
    """Those of some symbols that inequalities tie to the first."""
    near, more = set[int](), start & atoms
    while more - near:
        near |= more
        tied = [parts for parts in space.path.inequalities if any(b in near for b, _ in parts)]
        more = {a for parts in tied for a, _ in parts} & atoms
    return near


__all__ = ["ITERATION", "counts_twice", "havoc_iteration"]
