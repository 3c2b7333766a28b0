"""How long loops go on, where a comparison chooses among two values: ``conditional_lengths.chosen_lengths``.

The predicate that decides is held as a number, 0 or more where it is true.
"""

from __future__ import annotations

from typing import Any

from syncverify.frontends.ptx.values.arith import select
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord, below, known, size, value_of
from syncverify.symbolic import conditional_lengths
from syncverify.symbolic.context import AffineTerm

#: What agents name the next turn of choices by.
CHOICES = conditional_lengths.CHOSEN + "lengths"


def ahead(a: Any, b: Any, strict: bool) -> Any:
    """How much more one value is than another; 0 or more where that is less, or not above it. Where one of
    them is not known 0 or -1, for each lane."""
    if not (known(a) and known(b)):
        return below(a, b, strict) - 1
    x = value_of(b) - value_of(a) - int(strict)
    return size(x, 32) if isinstance(x, AffineTerm) else x


def chosen(iteration: Any, difference: Any, a: Any, b: Any) -> Any:
    """One value where a difference is 0 or more, else the other; of sizes as an unknown of the turn."""
    given = (difference, a, b)
    sizes = [x for x in given if isinstance(x, SymbolicWord)]
    if not sizes or not all(map(known, given)):
        return select(decided(difference), a, b)
    space = sizes[0].term.space
    by, *values = (space.resolved(x.term) if isinstance(x, SymbolicWord) else x for x in given)
    now = iteration.term if isinstance(iteration, SymbolicWord) else iteration
    found = conditional_lengths.select_symbol(
        space, CHOICES, [by], values, now, lambda: values[0 if by >= 0 else 1]
    )
    return size(found, 32)


def decided(difference: Any) -> Any:
    """Whether a difference is 0 or more."""
    if isinstance(difference, SymbolicWord):
        return int(difference.term.space.at_least(difference.term))
    return difference >= 0


__all__ = ["CHOICES", "ahead", "chosen", "decided"]
