"""Numbers as polynomials over names: ``4 i + 4 q n + 16`` is what ``pitch * q + i`` may come to.

Names are of whole numbers. Two that are the same sum of the same products are equal, whatever the names hold,
so ``(n + 1) * q + i - q * n`` is ``q + i``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: The names of a product, in order; none of the constant.
Product = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Polynomial:
    """The sum of products, each times its factor, which is never 0."""

    terms: Mapping[Product, int]

    @classmethod
    def of(cls, x: int | str) -> Polynomial:
        """A number, or what a name holds."""
        if isinstance(x, str):
            return cls({(x,): 1})
        return cls({(): x} if x else {})

    def __add__(self, other: Polynomial) -> Polynomial:
        found = dict(self.terms)
        for product, k in other.terms.items():
            n = found.pop(product, 0) + k
            if n:
                found[product] = n
        return Polynomial(found)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other.times(-1)

    def times(self, n: int) -> Polynomial:
        """So many times the sum."""
        return Polynomial({p: n * k for p, k in self.terms.items()} if n else {})

    def __mul__(self, other: Polynomial) -> Polynomial:
        found = Polynomial({})
        for p, k in self.terms.items():
            found += Polynomial({tuple(sorted(p + q)): k * n for q, n in other.terms.items()})
        return found

    @property
    def number(self) -> int | None:
        """The number that it is whatever the names hold; None where they matter."""
        return self.terms.get((), 0) if self.terms.keys() <= {()} else None

    @property
    def names(self) -> frozenset[str]:
        """The names in it."""
        return frozenset(name for product in self.terms for name in product)

    @property
    def key(self) -> str:
        """A text that two have if and only if they are the same sum."""
        return " + ".join(f"{k} {' '.join(p)}" for p, k in sorted(self.terms.items()))


__all__ = ["Polynomial", "Product"]
