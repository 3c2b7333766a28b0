"""Turns of a loop that two roles deal out between them, while a third takes all of them.

Where every turn takes its sizes anew (``Space.again``), a role that skips each other turn and counts on as
far as the other role goes in it must read that other turn's sizes there. What it then holds is the remainder
of a sum of a number and a size: ``(stage + steps) % S``. While turns are dealt out, a size is written so that
this is an unknown of its own, within the bounds of a remainder: whoever has gone through that turn knows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncverify.model.terms import Space, Term

#: Atoms with fewer values than so many times the divisor are told apart by them.
FEW_TIMES = 8


@dataclass(slots=True)
class Deals:
    """``slots``: of the ring that turns go round, 0 while that is not known; ``names``: the sizes that turns
    which are dealt out take anew."""

    slots: int = 0
    names: set[str] = field(default_factory=set)


def part(space: Space, x: Term, m: int) -> None:
    """Writes the only atom of a sum so that the sum divided by ``m`` leaves an atom as its rest."""
    ((a, k),) = x.parts
    low, high = space.path.interval(a)
    if k == 1 and x.c % m and (low is None or high is None or high - low >= FEW_TIMES * m):
        space.split(a, m, x.c % m)


def other_bit(space: Space, value: Term, bit: Any) -> Any:
    """The exclusive or of a value and a bit, where the value is a bit; else None."""
    low, high = space.bounds(value)
    if bit.__class__ is not int or bit not in (0, 1) or low is None or high is None:
        return None
    return (1 - value if bit else value) if 0 <= low <= high <= 1 else None


def whole_laps(space: Space, size: Any) -> bool:
    """Tells sizes that go once round the ring, or more, from others, and those from each other. True."""
    slots = 0 if space.deals is None else space.deals.slots
    return not slots or bool(size > slots) or space.number(size) <= slots


__all__ = ["Deals", "other_bit", "part", "whole_laps"]
