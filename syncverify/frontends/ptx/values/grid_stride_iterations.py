"""Comparisons in loops whose step is an extent of the grid, asked as numbers of iterations.

Tiles are distributed round-robin to the blocks of a grid: ``for (t = block; t < tiles; t += blocks)``. Turn n
asks whether ``tiles - 1 - block - n * blocks`` is 0 or more. With the quotient of what does not turn by the
step that is ``quotient - n``, which speaks of neither: so states repeat, whatever the grid.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from syncverify.symbolic.context import AffineTerm, SymbolicContext

#: Begins the keys of such quotients.
TURNS = "turns "
#: What they are called; the last iteration of a loop is one.
QUOTIENT = "turns"
_GRID = frozenset(f"grid.{axis}" for axis in "xyz")
_STEPS: WeakKeyDictionary[SymbolicContext, dict[int, tuple[int, int]]] = WeakKeyDictionary()


def at_least(d: Any) -> bool:
    """Whether a value is 0 or more: asked as it stands where the context counts no turns."""
    step = _step(d) if isinstance(d, AffineTerm) and d.space.counts_turns else None
    if step is None:
        return bool(d >= 0)
    space = d.space
    d = space.resolved(d)
    if not isinstance(d, AffineTerm) or space.path.decide(d.c, d.parts) is not None:
        return bool(d >= 0)
    step = _step(d)
    if step is None or (space.bounds(space.term(0, ((step, 1),)))[0] or 0) < 1:
        return bool(d >= 0)
    quotient, rest = _split(space, d, step)
    if rest.__class__ is int or not _counts(quotient):
        return bool(d >= 0)
    found = _quotient(space, rest, step)
    return bool(d >= 0 if found is None else quotient + found >= 0)


def _step(d: AffineTerm) -> int | None:
    """The extent of the grid, or the product of several, that a sum counts in multiples."""
    known = _STEPS.setdefault(d.space, {})
    best, most = None, 0
    for a, _ in d.parts:
        if a not in known:
            known[a] = _steps_in(d.space, a)
        size, step = known[a]
        if size > most:
            best, most = step, size
    return best


def _steps_in(space: SymbolicContext, a: int) -> tuple[int, int]:
    """Of an atom and its factors the one of most extents of the grid and nothing else, after their number."""
    found = [(len(space.basic(b)) or 1, b) for b in (a, *space.factors(a))
             if all(space.symbols[c].name in _GRID for c in space.basic(b) or (b,))]  # fmt: skip
    return max(found, default=(0, -1))


def _split(space: SymbolicContext, d: AffineTerm, step: int) -> tuple[Any, Any]:
    """``quotient`` and ``rest`` of ``d == turn * step + rest``."""
    quotient: Any = 0
    rest: Any = d.c
    for a, k in d.parts:
        factors = space.symbols[a].factors
        if a == step:
            quotient = quotient + k
        elif factors is not None and step in factors:
            other = factors[0] if factors[1] == step else factors[1]
            quotient = quotient + space.term(0, ((other, k),))
        else:
            rest = rest + space.term(0, ((a, k),))
    return quotient, rest


def _counts(quotient: Any) -> bool:
    """Whether it is a number of iterations, and no place in the grid."""
    if not isinstance(quotient, AffineTerm):
        return True
    atoms = [quotient.space.symbols[a] for a, _ in quotient.parts]
    return all(a.widened or a.name == QUOTIENT for a in atoms)


def _quotient(space: SymbolicContext, rest: AffineTerm, step: int) -> Any:
    """What a sum holds of the step: one unknown for all that ask, 0 or more for the sum or its complement.
    None where neither is known to be: what is known of the unknown would not tell states alike."""
    path, unit = space.path, space.term(0, ((step, 1),))
    other = -1 * rest - 1
    for x, known in ((rest, False), (other, False), (rest, True), (other, True)):
        key = (TURNS, x, unit)
        if key in path.memo or (known and path.implies(x.c, x.parts)):
            found = path.memo_symbol(key, lambda: space.symbol(QUOTIENT, 0, None))
            return found if x is rest else -1 - found
    return None
