"""Registers as the exploration of sizes sees them, and what it puts there."""

from __future__ import annotations

from typing import Any

from syncverify.frontends.ptx.values.register_values import PerLane, per_lane
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.symbolic.context import AffineTerm
from syncverify.symbolic.phase_tokens import Token


def lanes_apart(value: PerLane) -> tuple[int, ...] | None:
    """By how much lanes hold more than the first one, where all hold the same sum but for numbers."""
    found: tuple[int, ...] | None = value.memo.get("apart", ())
    if found == ():
        found = value.memo["apart"] = _apart(value.lanes)
    return found


def _apart(lanes: tuple[Any, ...]) -> tuple[int, ...] | None:
    first = lanes[0]
    if not (first.__class__ is SymbolicWord and isinstance(first.term, AffineTerm) and first.raw):
        return None
    for x in lanes:
        alike = (
            x.__class__ is SymbolicWord
            and isinstance(x.term, AffineTerm)
            and x.term.parts == first.term.parts
        )
        if not alike or x.bits != first.bits or not x.raw:
            return None
    return tuple([x.term.c - first.term.c for x in lanes])


def stay_apart(value: Any, by: Any, bits: int) -> bool:
    """Whether lanes hold ``by`` so much more than the first one still, also where they hold numbers now."""
    lanes = value.lanes if value.__class__ is PerLane else (value,) * len(by or ())
    if by and all(x.__class__ is int for x in lanes):
        return all((x - lanes[0] - d) % (1 << bits) == 0 for x, d in zip(lanes, by, strict=True))
    return by is not None and value.__class__ is PerLane and lanes_apart(value) == by


def exposed(value: Any, bits: int) -> Any:
    """A register as the exploration of sizes sees it: signed numbers, terms, tokens, tuples of them."""
    if value.__class__ is int:
        if bits <= 1:
            return value
        half = 1 << (bits - 1)
        return (value ^ half) - half
    if isinstance(value, SymbolicWord):
        return value.term
    if value.__class__ is PerLane and value.shown(SymbolicWord | Token):
        return tuple(exposed(x, bits) for x in value.lanes)
    return value


def restored(value: Any, bits: int) -> Any:
    """A register's content for what the exploration has put there."""
    if isinstance(value, AffineTerm):
        return SymbolicWord(value, bits)
    if isinstance(value, tuple):
        return per_lane([restored(x, bits) for x in value])
    if value.__class__ is int and bits > 1:
        return value & (1 << bits) - 1
    return value


__all__ = ["exposed", "lanes_apart", "restored", "stay_apart"]
