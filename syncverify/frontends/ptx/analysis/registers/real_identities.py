"""Whether two terms of floats are the same number, were nothing rounded.

Both are rational functions of what they are computed from. Two such functions are the same if and only if
they agree at all points where neither divides by zero. They are compared at random points of a field of a
prime number of elements: functions of degree ``d`` that differ agree at one of them with a chance of at most
``d / PRIME`` (Schwartz, 1980; Zippel, 1979).

Example: ``m + (n - m) * b / (a + b)`` and ``n + (m - n) * a / (a + b)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

#: What is computed, as ``analysis.registers.butterflies`` writes it: an operation, its kind, and what it is
#: of.
Term = tuple[object, ...]
PRIME = (1 << 61) - 1
_POINTS = 4
#: Operations on numbers of the field; a division by zero raises ``ZeroDivisionError``.
_OPERATIONS: Mapping[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "factors": lambda a, b: a * b,
    "fma": lambda product, c: product + c,
    "mad": lambda product, c: product + c,
    "neg": lambda a: -a,
    "rcp": lambda a: _inverse(a),
    "div": lambda a, b: a * _inverse(b),
}


class _OtherError(Exception):
    """A term is of something else than sums, products and quotients of floats."""


def equal_over_the_reals(one: Term, other: Term) -> bool:
    """Whether two terms are one number; false where they are made by other operations than these."""
    drawn = Random(20261128)
    points: list[dict[Term, int]] = [{} for _ in range(_POINTS)]
    try:
        return all(_value(one, p, drawn, {}) == _value(other, p, drawn, {}) for p in points)
    except (_OtherError, ZeroDivisionError):
        return False


def _value(term: Term, point: dict[Term, int], drawn: Random, known: dict[int, int]) -> int:
    """The value at a point, whose coordinates are drawn as they are met. ``known``: of parts, which terms
    share."""
    found = known.get(id(term))
    if found is not None:
        return found
    if term[0] in ("own", "other", "fixed"):
        if term not in point:
            point[term] = drawn.randrange(1, PRIME)
        found = point[term]
    elif term[0] in ("commutes", "computes"):
        name, *modifiers = str(term[1]).split(".")
        parts = [x for x in term[2:] if isinstance(x, tuple)]
        if (
            name not in _OPERATIONS
            or (modifiers and not _is_float(modifiers[-1]))
            or len(parts) < len(term) - 2
        ):
            raise _OtherError
        found = _OPERATIONS[name](*[_value(x, point, drawn, known) for x in parts]) % PRIME
    else:
        raise _OtherError
    known[id(term)] = found
    return found


def _is_float(kind: str) -> bool:
    return kind in ("f16", "bf16", "f32", "f64")


def _inverse(a: int) -> int:
    if a % PRIME == 0:
        raise ZeroDivisionError
    return pow(a, -1, PRIME)


__all__ = ["PRIME", "equal_over_the_reals"]
