"""Values that a loop reads and does not change, over new unknowns in every turn: see ``Space.again``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from syncverify.model.deals import whole_laps
from syncverify.model.inequalities import Parts
from syncverify.model.term import Term

if TYPE_CHECKING:
    from syncverify.model.terms import Space

#: Begins the keys of what ``renewed`` makes; agents name their next turn by it.
AGAIN = "again "


def renewed(
    space: Space, values: list[Any], trips: list[Any], kept: list[Any], turn: Any, some: bool = False
) -> list[Any]:
    """Values that do not change, in the ``turn``-th turn of a loop: those that have to do with ``trips``
    over other unknowns in every turn, the same for all who ask, of which as much is known as is now of
    theirs. The values themselves if ``kept`` ones have to do with them; ``some``: only those that do."""
    space.forgotten.add(AGAIN)
    values = [space.resolved(v) for v in values]
    if not space.forgets:
        return values
    for v in () if some else trips:  # teams ask when they meet it
        space.at_least(v - 1)  # some ask that before the loop, others in each turn
        if space.dealing:
            whole_laps(space, v)
    all_ = {a for v in values for a, _ in space.of(v)[1]}
    fixed = {a for v in kept for a, _ in space.of(space.resolved(v))[1]}
    start = {a for v in trips for a, _ in space.of(space.resolved(v))[1]}
    if some:
        start -= _near(space, all_ | fixed, fixed)
    near = _near(space, all_, start)
    if near & fixed:
        return values
    new: dict[int, Any] = {}
    made = False
    for a in sorted(near):
        key = (AGAIN, space.term(0, ((a, 1),)), turn)
        made |= space.path._key(key) not in space.path.entries
        new[a] = space.path.entry(key, partial(space.twin, a))

    def moved(c: int, parts: Parts) -> Any:
        return sum((new[a] * k for a, k in parts), c)

    if made:
        for parts, c in list(space.path.cons.items()):
            if all(a in new for a, _ in parts):
                space.path.assume(*space.of(moved(c, parts)))
    return [
        space.resolved(moved(v.c, v.parts))
        if isinstance(v, Term) and all(a in new for a, _ in v.parts)
        else v
        for v in values
    ]


def _near(space: Space, atoms: set[int], start: set[int]) -> set[int]:
    """Those of some atoms that inequalities tie to the first."""
    near, more = set[int](), start & atoms
    while more - near:
        near |= more
        tied = [parts for parts in space.path.cons if any(b in near for b, _ in parts)]
        more = {a for parts in tied for a, _ in parts} & atoms
    return near


__all__ = ["AGAIN", "renewed"]
