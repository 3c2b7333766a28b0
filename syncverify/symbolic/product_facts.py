"""What a path knows of products as such, and all that it knows of some atoms.

A product that was rewritten while its factors still represent themselves is *tied* to its value: a register
that is multiplied again gets that value. Whoever compares paths must compare ties as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from syncverify.symbolic.inequalities import Parts, Sum, combined, negated, reduced

if TYPE_CHECKING:
    from syncverify.symbolic.path_condition import PathCondition

#: Holds nowhere.
NEVER: Sum = (-1, ())


def known_symbols(path: PathCondition, atoms: Set[int]) -> Iterator[Sum]:
    """All inequalities that a path knows of some symbols and of products of what these are made of, as sums
    that are 0 or more."""
    for a in sorted({*atoms, *_products(path, atoms)}):
        low, high = path.interval(a)
        if low is not None:
            yield -low, ((a, 1),)
        if high is not None:
            yield high, ((a, -1),)
    for parts, c in path.inequalities.items():
        yield c, parts
    tied = _tied(path, atoms)
    if tied is None:
        yield NEVER
    for a, shown, hidden in tied or ():
        c, parts = combined([(1, (0, ((a, 1),))), (-1, shown)])
        low, high = path.bounds(0, hidden)
        if low is not None:
            yield c - low, parts
        if high is not None:
            yield high - c, negated(parts)


def residues(path: PathCondition, atoms: Set[int]) -> Iterator[tuple[Sum, int]]:
    """Sums of symbols and their products that a path knows to be multiples of a number."""
    for a, shown, hidden in _tied(path, atoms) or ():
        if hidden:
            yield combined([(1, (0, ((a, 1),))), (-1, shown)]), reduced(*(k for _, k in hidden))


def is_permanent(path: PathCondition, seen: Set[int]) -> dict[int, int | None]:
    """The ties that are kept when all symbols but those ``seen`` are forgotten, with the one unknown of their
    value that then nothing else speaks of."""
    out: dict[int, int | None] = {}
    for a in sorted(path.products):
        hidden = [b for b, _ in path.defs[a][1] if b not in seen]
        if path.space.basic(a) <= seen and len(hidden) <= 1:
            out[a] = hidden[0] if hidden else None
    uses = Counter(out.values())
    return {a: h for a, h in out.items() if h is None or uses[h] == 1}


def _basics(path: PathCondition, atoms: Set[int]) -> set[int]:
    """What symbols are made of."""
    return {f for a in atoms for f in (path.space.basic(a) or (a,))}


def _products(path: PathCondition, atoms: Set[int]) -> set[int]:
    """Products of what some symbols are made of that the path bounds."""
    inside = _basics(path, atoms)
    return {a for a in path.low.keys() | path.high.keys() if (b := path.space.basic(a)) and b <= inside}


def _tied(path: PathCondition, atoms: Set[int]) -> list[tuple[int, Sum, Parts]] | None:
    """Tied products of what some symbols are made of: the part of their value that symbols show, and the part
    of
    an unknown that nothing else speaks of; None where more is hidden."""
    inside = _basics(path, atoms)
    spoken = {*inside, *_basics(path, {a for p in path.inequalities for a, _ in p})}
    out: list[tuple[int, Sum, Parts]] = []
    for a in sorted(path.products):
        if path.space.basic(a) <= inside:
            c, parts = path.defs[a]
            rest = tuple((b, k) for b, k in parts if not _shown(path, atoms, b))
            if len(rest) > 1 or any(b in spoken or path.space.symbols[b].factors for b, _ in rest):
                return None
            spoken |= {b for b, _ in rest}
            out.append((a, (c, tuple(p for p in parts if p not in rest)), rest))
    return out


def _shown(path: PathCondition, atoms: Set[int], b: int) -> bool:
    made = path.space.basic(b)
    return b in atoms or (bool(made) and made <= atoms)


__all__ = ["NEVER", "is_permanent", "known_symbols", "residues"]
