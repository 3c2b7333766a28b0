"""How long the loops of an iteration go on, where a comparison chooses that among values: see
docs/havoc.md, "Lengths that are chosen"."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from syncverify.symbolic.context import AffineTerm, NeedsDecision, SymbolicContext
from syncverify.symbolic.path_condition import PathCondition

#: Begins the keys of what ``select_symbol`` makes; agents name their next iteration by it.
CHOSEN = "chosen "
#: The end of most sizes.
MOST = 2**31 - 1


def select_symbol(
    space: SymbolicContext,
    name: str,
    keys: list[Any],
    arms: list[Any],
    iteration: Any,
    real: Callable[[], Any],
) -> Any:
    """What comparisons choose among some values in an ``iteration`` of a loop, ``real`` by asking.

    While forgetting, what is open is an unknown of that iteration instead, the same for all who compare and
    choose the same; of it is known that it is 1 or more, if all values are.
    """
    key = space.path._key((name, *keys, *arms, iteration))
    sized = any(isinstance(k, AffineTerm) for k in keys) and not space.is_speculative
    if key not in space.path.memo and not sized:
        return real()
    space.havocked.add(name)
    if not space.havocs:
        return real()
    if key not in space.path.memo:
        try:
            values = [real()]
        except NeedsDecision:  # it is open
            values = arms
        space.path.memo[key] = _one_of(space, values)
    return space.path.memo[key]


def _one_of(space: SymbolicContext, values: list[Any]) -> Any:
    """An unknown that may be any of some values."""
    lows = [space.bounds(space.resolved(x))[0] if isinstance(x, AffineTerm) else x for x in values]
    known = [low for low in lows if low is not None]
    low = min(known) if len(known) == len(values) else None
    if (low is None or low < 1) and all(provably_non_negative(space, space.path, x - 1) for x in values):
        low = 1
    high = MOST if all(provably_non_negative(space, space.path, MOST - x) for x in values) else None
    return space.symbol("chosen", low, high)


def provably_non_negative(space: SymbolicContext, path: PathCondition, value: Any) -> bool:
    """Whether a value is surely 0 or more: if need be as it is at both ends of a factor of products, for it
    is a straight line in that as long as nothing else moves."""
    c, parts = path.resolve(*space.of(value))
    if path.decide(c, parts) is True:
        return True
    for a in sorted(set().union(*(space.basic(p) for p, _ in parts))):
        low, high = path.interval(a)
        if low is not None and high is not None and all(_times(space, p, a) < 2 for p, _ in parts):
            ends = [_without(path, a) for _ in range(2)]
            for one, end in zip(ends, (low, high), strict=True):
                one.substitute(a, end, ())
            return all(provably_non_negative(space, one, space.term(c, parts)) for one in ends)
    return False


def _times(space: SymbolicContext, atom: int, factor: int) -> int:
    """How often a symbol has another one as a factor."""
    pair = space.symbols[atom].factors
    return int(atom == factor) if pair is None else sum(_times(space, x, factor) for x in pair)


def _without(path: PathCondition, a: int) -> PathCondition:
    """What a path knows whatever one symbol is, and nothing of that one and its products."""
    space, found = path.space, PathCondition(path.space)

    def apart(atoms: Iterable[int]) -> bool:
        return all(b != a and a not in space.factors(b) for b in atoms)

    found.low = {b: x for b, x in path.low.items() if apart([b])}
    found.high = {b: x for b, x in path.high.items() if apart([b])}
    found.inequalities = {parts: c for parts, c in path.inequalities.items() if apart(b for b, _ in parts)}
    return found


__all__ = ["CHOSEN", "select_symbol"]
