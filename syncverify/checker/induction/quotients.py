"""Quotients of sizes by numbers, and products of two sizes, as sizes of their own. TRUSTED.

A loop over ``(K + 31) // 32`` steps asks of a quotient, which is no sum of sizes. It gets a name at the
start, where all agents find it: ``q`` with ``32 q <= K + 31 <= 32 q + 31``. There is one such number for all
sizes. So it is with a product: tiles of rows times tiles of columns, say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from syncverify.checker.induction.stepping import NotReadError
from syncverify.symbolic.context import AffineTerm, SymbolicContext
from syncverify.symbolic.inequalities import Parts
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.quotients import BY_NUMBER, by_number

#: A sum over named sizes: its number, and names with coefficients.
NamedSum = tuple[int, tuple[tuple[str, int], ...]]


#: Begins the keys of products that have a name.
PRODUCT = "product"


@dataclass(frozen=True, slots=True)
class Quotient:
    """A sum of sizes, divided by a number."""

    total: NamedSum
    divisor: int


@dataclass(frozen=True, slots=True)
class Product:
    """A product of two sizes."""

    factors: tuple[str, str]


class UnnamedSizeError(Exception):
    """What an agent does depends on a quotient or a product of sizes, which has no name yet."""

    def __init__(self, size: Quotient | Product) -> None:
        super().__init__("a quotient or product of sizes without a name")
        self.size = size


def derived(space: SymbolicContext, a: int) -> bool:
    """Whether a symbol is made of others, as a quotient or a product."""
    return a in space.quotients or space.symbols[a].factors is not None


def unnamed(space: SymbolicContext, names: Mapping[int, str], a: int) -> None:
    """Raises UnnamedSizeError if a symbol is made of named sizes, or of others that are made so."""
    if a in names or not derived(space, a):
        return
    c, parts, divisor = _made_of(space, a)
    for b, _ in parts:
        unnamed(space, names, b)
    if all(b in names for b, _ in parts):
        if divisor is None:
            x, y = (names[b] for b, _ in parts)
            raise UnnamedSizeError(Product((x, y)))
        raise UnnamedSizeError(Quotient((c, tuple((names[b], k) for b, k in parts)), divisor))


def _made_of(space: SymbolicContext, a: int) -> tuple[int, Parts, int | None]:
    """The sum that a quotient is of, and its divisor; for a product its factors, and None."""
    factors = space.symbols[a].factors
    if factors is not None:
        return 0, tuple((f, 1) for f in factors), None
    x, m = space.quotients[a]
    return *space.of(x), m


def nameable(space: SymbolicContext, names: Mapping[int, str], a: int) -> bool:
    """Whether a symbol is a size, or made of sizes alone."""
    if a in names:
        return True
    return derived(space, a) and all(nameable(space, names, b) for b, _ in _made_of(space, a)[1])


def with_size(
    space: SymbolicContext, path: PathCondition, names: Mapping[int, str], size: Quotient | Product
) -> PathCondition:
    """The path with a name for what sizes make; NotReadError where there is nothing to name."""
    if isinstance(size, Quotient):
        return with_quotient(space, path, names, size.total, size.divisor)
    return with_product(space, path, names, size.factors)


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


def with_product(
    space: SymbolicContext, path: PathCondition, names: Mapping[int, str], factors: tuple[str, str]
) -> PathCondition:
    """The path with a name for a product of two sizes; NotReadError where there is nothing to name."""
    atoms = {name: a for a, name in names.items()}
    if any(name not in atoms for name in factors):
        raise NotReadError("a product of no sizes")
    found = path.fork()
    space.path = found
    x, y = (space.term(0, ((atoms[name], 1),)) for name in sorted(factors, key=atoms.__getitem__))
    key = (PRODUCT, x, y)
    if (
        key in found.memo
        or found.resolve(*space.of(x)) != space.of(x)
        or found.resolve(*space.of(y)) != space.of(y)
    ):
        raise NotReadError("a product that has a name, or of a size that is known")
    found.memo[key] = space.product(x, y)
    return found


def content(space: SymbolicContext, root: PathCondition, a: int) -> str | None:
    """The name of what sizes make says of what it is; None for what the path does not know."""
    factors = space.symbols[a].factors
    if factors is not None:
        x, y = (space.term(0, ((f, 1),)) for f in factors)
        return f"product of {x} and {y}" if (PRODUCT, x, y) in root.memo else None
    x, m = space.quotients[a]
    known: Any = root.memo.get((BY_NUMBER, x, m))
    if not isinstance(known, AffineTerm) or known.parts != ((a, 1),):
        return None
    return f"quotient of {x} by {m}"


__all__ = [
    "NamedSum",
    "Product",
    "Quotient",
    "UnnamedSizeError",
    "content",
    "derived",
    "nameable",
    "unnamed",
    "with_size",
]
