"""Quotients of sizes by sizes: how often a loop turns whose step is a size, and what asks for it.

The quotient of a sum of sizes by a size is one unknown q for all that ask:
its product with the step is the sum or less, and more than the sum less the step.
Turn u of ``for i in 0..N step D`` asks whether ``N - 1 - u * D`` is 0 or more. With q the quotient of
``N - 1`` that is ``q - u >= 0``: the loop turns q + 1 times, and ``cdiv(N, D)`` is that as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncverify.symbolic.affine import AffineTerm
from syncverify.symbolic.inequalities import Parts, Sum

if TYPE_CHECKING:
    from syncverify.symbolic.context import SymbolicContext
    from syncverify.symbolic.path_condition import PathCondition

#: Begins the keys of such quotients, and of quotients by a number.
RATIO, BY_NUMBER = "ratio", "quotient"


def outlives_iteration(path: PathCondition, key: tuple[Any, ...]) -> bool:
    """Whether a key is that of a quotient of sizes that are still there."""
    return key[0] == RATIO and {a for part in key[1:] for a, _ in path.space.of(part)[1]} <= _sizes(path)


def by_number(space: SymbolicContext, x: AffineTerm, m: int) -> Any:
    """Floor division of a bounded sum by a number: one unknown, of which the remainder is known."""
    low, high = space.bounds(x)
    assert low is not None and high is not None

    def unknown() -> Any:
        q = space.symbol(f"({x!r})//{m}", low // m, high // m)
        space.quotients[q.parts[0][0]] = (x, m)
        space.path.assume(*space.of(x - q * m))
        space.path.assume(*space.of(q * m + m - 1 - x))
        return q

    return space.path.memo_symbol((BY_NUMBER, x, m), unknown)


def ratio(space: SymbolicContext, x: Any, step: Any) -> Any:
    """Floor division of a sum by a step of 1 or more; None where nothing is seen of it."""
    a = _unit(space, step)
    if a is None:
        return None
    quotient, rest = divided(space, space.of(space.resolved(x)), a)
    found = _quotient(space, rest, a)
    if found is not None:
        return quotient + found
    return None if quotient.__class__ is int and quotient == 0 else quotient + space.quotient(rest, step)


def modulo(space: SymbolicContext, x: Any, step: Any) -> Any:
    """A sum without the multiples of a step that it is to be divided by."""
    a = _unit(space, step)
    return x if a is None else divided(space, space.of(space.resolved(x)), a)[1]


def as_iteration_count(space: SymbolicContext, c: int, parts: Parts) -> Any:
    """A value that is 0 or more where a sum is, which asks of iterations; None if the sum counts none."""
    asked = any(key[0] == RATIO for key in space.path.memo)
    if not asked and not any(space.symbols[a].widened for a, _ in parts):
        return None  # nobody has asked for a quotient, and nothing counts
    for a in _steps(space, parts):
        quotient, rest = divided(space, (c, parts), a)
        if not space.of(rest)[1]:
            continue
        counts = any(space.symbols[b].widened for b, _ in space.of(quotient)[1])
        if (counts or _known(space, rest, a)) and space.path.implies(-1, ((a, 1),)):
            found = _quotient(space, rest, a)
            if found is not None:
                return quotient + found
    return None


def divided(space: SymbolicContext, x: Sum, a: int) -> tuple[Any, Any]:
    """``quotient`` and ``rest`` of ``x == turn * a + rest``, all multiples of the symbol in the first."""
    quotient: Any = 0
    rest: Any = x[0]
    for b, k in x[1]:
        pair = space.symbols[b].factors
        if b == a:
            quotient = quotient + k
        elif pair is not None and a in pair:
            quotient = quotient + space.term(0, ((pair[pair[0] == a], k),))
        else:
            rest = rest + space.term(0, ((b, k),))
    return quotient, rest


def _sizes(path: PathCondition) -> set[int]:
    """The symbols of the sizes, without those that a widening made: these count what loops have done."""
    space = path.space
    found = {a for value in path.sizes.values() for a, _ in space.of(space.resolved(value))[1]}
    return {a for a in found if not space.symbols[a].widened}


def _unit(space: SymbolicContext, step: Any) -> int | None:
    """The symbol that a step is."""
    c, parts = space.of(space.resolved(step))
    return parts[0][0] if c == 0 and len(parts) == 1 and parts[0][1] == 1 else None


def _steps(space: SymbolicContext, parts: Parts) -> list[int]:
    """Sizes of which a sum holds multiples beside themselves."""
    sizes = _sizes(space.path)
    inside = {f for b, _ in parts for f in (b, *(space.symbols[b].factors or ()))}
    return sorted(a for a in inside & sizes if space.symbols[a].factors is None)


def _canonical(space: SymbolicContext, rest: Any) -> tuple[Any, bool]:
    """A sum or its complement ``-1 - rest``, whichever begins with more than 0; whether it is the latter."""
    _, parts = space.of(rest)
    return (rest, False) if parts[0][1] > 0 else (-1 - rest, True)


def _known(space: SymbolicContext, rest: Any, a: int) -> bool:
    """Whether somebody has asked for the quotient."""
    x, _ = _canonical(space, rest)
    return (RATIO, x, space.term(0, ((a, 1),))) in space.path.memo


def _quotient(space: SymbolicContext, rest: Any, a: int) -> Any:
    """The quotient of what sizes make up; the complement's is its complement."""
    _, parts = space.of(rest)
    sizes = _sizes(space.path)
    if not parts or a not in sizes or not sizes.issuperset(b for b, _ in parts):
        return None
    x, canonical = _canonical(space, rest)
    key = (RATIO, x, space.term(0, ((a, 1),)))
    found = space.resolved(space.path.memo_symbol(key, lambda: _made(space, x, a)))
    return -1 - found if canonical else found


def _made(space: SymbolicContext, x: Any, a: int) -> Any:
    """A new quotient, with what is known of it."""
    step = space.term(0, ((a, 1),))
    low, high = space.bounds(x)
    least = None if low is None else min(low, 0)
    most = None if high is None else max(high, -1)
    q = space.symbol("turns", least, most, space.sources(x) | space.sources(step))
    space.path.assume(*space.of(x - q * step))
    space.path.assume(*space.of(q * step + step - 1 - x))
    return space.resolved(q)


__all__ = [
    "BY_NUMBER",
    "RATIO",
    "as_iteration_count",
    "by_number",
    "divided",
    "modulo",
    "outlives_iteration",
    "ratio",
]
