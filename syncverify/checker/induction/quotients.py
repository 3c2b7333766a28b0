"""Quotients of sizes by numbers as sizes of their own. TRUSTED.

A loop over ``(K + 31) // 32`` steps asks of a quotient, which is no sum of sizes. It gets a name at the
start, where all agents find it: ``q`` with ``32 q <= K + 31 <= 32 q + 31``. There is one such number for all
sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syncverify.checker.induction.stepping import NotReadError
from syncverify.symbolic.context import AffineTerm, SymbolicContext
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.quotients import BY_NUMBER, by_number

#: A sum over named sizes: its number, and names with coefficients.
NamedSum = tuple[int, tuple[tuple[str, int], ...]]


class UnnamedSizeError(Exception):
    """What an agent does depends on the quotient of a sum of sizes, which has no name yet."""

    def __init__(self, total: NamedSum, divisor: int) -> None:
        super().__init__("a quotient of sizes without a name")
        self.total = total
        self.divisor = divisor


def unnamed(space: SymbolicContext, names: Mapping[int, str], a: int) -> None:
    """Raises UnnamedSizeError if a symbol is a quotient of named sizes, or of another such quotient."""
    if a in names or a not in space.quotients:
        return
    x, m = space.quotients[a]
    c, parts = space.of(x)
    for b, _ in parts:
        unnamed(space, names, b)
    if all(b in names for b, _ in parts):
        raise UnnamedSizeError((c, tuple((names[b], k) for b, k in parts)), m)


def with_quotient(
    space: SymbolicContext, path: PathCondition, names: Mapping[int, str], total: NamedSum, divisor: int
) -> PathCondition:
    """The path with a name for a quotient of sizes; NotReadError where there is nothing to name."""
    atoms = {name: a for a, name in names.items()}
    c, parts = total
    if divisor < 2 or not parts or any(name not in atoms for name, _ in parts):
        raise NotReadError("a quotient of no sizes")
    found = path.fork()
    space.path = found
    x = space.resolved(space.term(c, tuple((atoms[name], k) for name, k in parts)))
    if not isinstance(x, AffineTerm) or None in space.bounds(x) or (BY_NUMBER, x, divisor) in found.memo:
        raise NotReadError("a quotient that has a name, or is none of a bounded sum")
    by_number(space, x, divisor)
    return found


def content(space: SymbolicContext, root: PathCondition, a: int) -> str | None:
    """The name of a quotient says what it is of; None for one that the path does not know."""
    x, m = space.quotients[a]
    known: Any = root.memo.get((BY_NUMBER, x, m))
    if not isinstance(known, AffineTerm) or known.parts != ((a, 1),):
        return None
    return f"quotient of {x} by {m}"


__all__ = ["NamedSum", "UnnamedSizeError", "content", "unnamed", "with_quotient"]
