"""Turns of a loop that two roles deal out between them, while a third takes all of them.

Where every iteration takes its sizes again (``SymbolicContext.fresh_per_iteration``), a role that skips each
other turn and counts on as far as the other role goes in it must read that other turn's sizes there. What it
then holds is the remainder of a sum of a number and a size: ``(stage + steps) % S``. While iterations are
distributed round-robin, a size is written so that this is an unknown of its own, within the bounds of a
remainder: whoever has gone through that iteration knows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncverify.symbolic.context import AffineTerm, SymbolicContext

#: A question about a symbol: its name, how often it counts, and what is added.
PresplitQuestion = tuple[str, int, int]
#: Symbols with fewer values than so many times the divisor are distinguished by them.
FEW_TIMES = 8


@dataclass(slots=True)
class RoundRobin:
    """``slots``: of the ring that turns go round, 0 while that is not known; ``havocked_sizes``: the sizes
    that turns
    which are distributed round-robin havoc; ``groups``: offsets of barriers that cycle through the ring, by
    slot."""

    slots: int = 0
    havocked_sizes: set[str] = field(default_factory=set)
    by_prefix_sum: bool = False  # stages go on by whole turns at once
    havocked_names: set[str] = field(default_factory=set)  # symbols that some iteration has taken again
    groups: tuple[tuple[int, ...], ...] = ()
    # some roles go past turns of others, so at no time all are as far round the ring
    roles_skip: bool = False


def split_remainder(space: SymbolicContext, x: AffineTerm, m: int) -> None:
    """Writes the only symbol of a sum that is not taken ``m`` times so that the sum divided by ``m`` leaves
    an
    symbol as its rest."""
    odd = [(a, k) for a, k in x.parts if k % m or not space.has_prefix_sums]
    if len(odd) != 1:
        return
    ((a, k),) = odd
    low, high = space.path.interval(a)
    if k == 1 and x.c % m and (low is None or high is None or high - low >= FEW_TIMES * m):
        space.divide_symbol(a, m, x.c % m)


def xor_bit(space: SymbolicContext, value: AffineTerm, bit: Any) -> Any:
    """The exclusive or of a value and a bit, where the value is a bit; else None."""
    if bit.__class__ is not int and space.has_prefix_sums:
        return _of_two(space, value, bit)
    low, high = space.bounds(value)
    if bit.__class__ is not int or bit not in (0, 1) or low is None or high is None:
        return None
    return (1 - value if bit else value) if 0 <= low <= high <= 1 else None


def _of_two(space: SymbolicContext, value: AffineTerm, bit: Any) -> Any:
    """The exclusive or of two bits; None if they are none."""
    if space.bounds(value) != (0, 1) or space.bounds(bit) != (0, 1):
        return None
    return space.remainder(value + bit, 2)


def floor_half(space: SymbolicContext, rest: AffineTerm) -> Any:
    """Half of a sum of few values, rounded down: one more unknown, of which the remainder is known."""
    low, high = space.bounds(rest)
    assert low is not None and high is not None

    def unknown() -> Any:
        q = space.symbol(f"({rest!r})//2", low // 2, high // 2)
        space.path.assume(*space.of(rest - q * 2))
        space.path.assume(*space.of(q * 2 + 1 - rest))
        return q

    return space.path.memo_symbol(("//", rest, 2), unknown)


def split_on_lap_length(space: SymbolicContext, size: Any) -> bool:
    """Tells sizes that go once round the ring, or more, from others, and those from each other. True."""
    slots = 0 if space.round_robin is None else space.round_robin.slots
    return not slots or bool(size > slots) or space.number(size) <= slots


__all__ = [
    "PresplitQuestion",
    "RoundRobin",
    "floor_half",
    "split_on_lap_length",
    "split_remainder",
    "xor_bit",
]
