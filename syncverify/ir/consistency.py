"""Whether facts about sizes can hold together: facts that no launch meets would prove anything.

``conflict`` looks for a model of the facts. It tries a few numbers first and asks z3 where they do not do.
Of facts without a model it gives a part that is contradictory and minimal: each line of it is needed.

    n > 4, n < 3, m >= 1    ->  (n > 4, n < 3)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from syncverify.base.source import UNKNOWN_SPAN, InputError, Span
from syncverify.ir.expr import Binary, Expr, Int, Var, evaluate, names

#: Sizes that are tried for every name at once, before the solver is asked.
SAMPLES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 8192, 0)
#: z3 resource units of one question; about two seconds, and facts are few.
RLIMIT = 8_000_000


@dataclass(frozen=True, slots=True)
class Fact:
    """A condition that every launch keeps. ``text``: in its author's words. ``span``: where it was given."""

    expr: Expr
    text: str
    span: Span = UNKNOWN_SPAN


class NoLaunchError(InputError):
    """Facts that no launch meets."""


class Undecided(Enum):
    """The answer where neither a model nor a contradiction was found."""

    UNDECIDED = "undecided"


UNDECIDED: Final = Undecided.UNDECIDED
#: What a verdict assumes where the facts are undecided.
ASSUMED = "some launch meets all the facts given: neither a launch nor a contradiction was found"


def within(e: Expr, low: int, high: int, text: str) -> Fact:
    """The fact that a value lies in a range."""
    return Fact(Binary("and", e >= Int(low), e <= Int(high)), text)


def conflict(facts: Iterable[Fact]) -> tuple[Fact, ...] | Literal[Undecided.UNDECIDED]:
    """A minimal contradictory part of the facts; empty where they have a model."""
    every = [f for f in facts if _value(f.expr) != 1]
    if not every or _sampled(every):
        return ()
    answer = _satisfiable(every)
    if answer is None:
        return UNDECIDED
    return () if answer else _core(every)


def demand(facts: Sequence[Fact], of: str, span: Span) -> tuple[str, ...]:
    """What is to be assumed so that some launch meets the facts; NoLaunchError where none does.

    ``of``: the kernel's name. ``span``: the place of the error where no fact has one.
    """
    wrong = conflict(facts)
    if wrong is UNDECIDED:
        return (ASSUMED,)
    if wrong:
        at = next((f.span for f in wrong if f.span.line), span)
        lines = "".join(f"\n  {_place(f)}{f.text}" for f in wrong)
        raise NoLaunchError(f"no launch of kernel {of} meets these facts together:{lines}", at)
    return ()


def _place(f: Fact) -> str:
    return f"line {f.span.line}: " if f.span.line else ""


def _core(facts: list[Fact]) -> tuple[Fact, ...]:
    """The facts without those that the contradiction does not need: dropped one by one, types first."""
    kept = list(facts)
    for f in sorted(facts, key=lambda f: f.span.line != 0):
        rest = [x for x in kept if x is not f]
        if rest and _satisfiable(rest) is False:
            kept = rest
    return tuple(kept)


def _satisfiable(facts: Iterable[Fact]) -> bool | None:
    from syncverify.ir import solver

    return solver.satisfiable([f.expr for f in facts], RLIMIT)


def _sampled(facts: Sequence[Fact]) -> bool:
    """Whether one number for all names keeps all facts."""
    every = frozenset().union(*(names(f.expr) for f in facts))
    return any(all(_value(f.expr, dict.fromkeys(every, n)) not in (0, None) for f in facts) for n in SAMPLES)


def _value(e: Expr, values: dict[str, int] | None = None) -> int | None:
    try:
        return evaluate(e, values or {})
    except (KeyError, ZeroDivisionError, ValueError):
        return None


def equals(values: dict[str, int], how: str) -> list[Fact]:
    """The facts that some names have given values; ``how`` they were given."""
    return [Fact(Binary("==", Var(n), Int(v)), f"{n} = {v} ({how})") for n, v in values.items()]


__all__ = ["ASSUMED", "UNDECIDED", "Fact", "NoLaunchError", "conflict", "demand", "equals", "within"]
