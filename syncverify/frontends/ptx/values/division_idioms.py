"""Divisions as compilers write them: by tiles and rings, and as products with what is nearly a reciprocal."""

from __future__ import annotations

from math import gcd
from typing import Any

from syncverify.symbolic.context import AffineTerm
from syncverify.symbolic.quotients import by_number

#: Divisors from here on are taken for tiles, those below for rings.
LEAST_TILE = 16
#: Factors from here on are taken for those of divisions.
LEAST_SCALE = 1 << 24
#: Smaller numbers that a sum to be divided may be a multiple of.
MOST_STEP = 256


def within(x: Any, limit: int) -> tuple[int, int]:
    """The least and the greatest value; what is not known of them is what the type can hold."""
    low, high = x.space.bounds(x) if isinstance(x, AffineTerm) else (x, x)
    return -limit if low is None else max(low, -limit), limit if high is None else min(high, limit)


def quotient_by(x: Any, factor: int, shift: int, limit: int) -> Any:
    """``x * factor >> shift`` as a quotient by a small number; None if it is none for all that x may be."""
    unit = 1 << shift
    d = -(-unit // factor) if factor else 0
    d = d if d * factor - unit < factor else 0
    rest = d * factor - unit
    low, high = within(x, limit)
    if d < 2 or max(high, -low) * rest >= unit:
        return None
    if x >= 0:
        return over(x, d)
    return -1 - over(-1 * x, d) if rest else over(x, d)


def unscaled(term: AffineTerm, shift: int) -> Any:
    """What was scaled to be divided by a small number, and kept as a sum since; None if it was not."""
    unit = gcd(term.c, *(k for _, k in term.parts))
    for times in range(1, MOST_STEP):
        if unit // times < LEAST_SCALE:
            return None
        if unit % times == 0:
            factor = unit // times
            x = term.space.term(term.c // factor, tuple((a, k // factor) for a, k in term.parts))
            found = quotient_by(x, factor, shift, (1 << 64) // factor) if x >= 0 else None
            if found is not None:
                return found
    return None


def over(x: Any, m: Any) -> Any:
    """Floor division. The quotient of sizes by a tile is one more unknown, of which its remainder is known;
    what loops count is taken apart instead, and what rings are indexed by, for they repeat with it."""
    if not isinstance(x, AffineTerm) or m.__class__ is not int or m < LEAST_TILE:
        return x // m
    space = x.space
    x = space.resolved(x)
    if not isinstance(x, AffineTerm) or any(space.symbols[a].widened for a, _ in x.parts):
        return x // m
    near = [(a, (k + (m - 1) // 2) // m) for a, k in x.parts]  # what is left has coefficients nearest to 0
    whole = space.term(x.c // m, tuple((a, k) for a, k in near if k))
    rest = x - whole * m
    low, high = space.bounds(rest)
    if low is None or high is None or low // m == high // m:
        return whole + (rest // m if low is None or high is None else low // m)

    return whole + by_number(space, rest, m)


__all__ = ["over", "quotient_by", "unscaled", "within"]
