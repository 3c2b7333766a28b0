"""Loops over a register that moves by a size: how often they turn has no sum, and gets a name. TRUSTED.

A register that is ``x`` in some turn and ``x + s`` in the next, from ``x0`` on, with ``s`` a sum of sizes,
goes on while ``k x + c >= 0``. Turn ``n`` asks ``(k x0 + c) + n k s >= 0``. If ``k s`` is negative, this is
true of the first ``T`` turns and of no other, for a number ``T`` that depends on ``k x0 + c`` and ``k s``
alone: all loops that agree in both turn equally often. Example: ``for (r = block; r < R; r += grid)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from syncverify.checker.induction.stepping import NotReadError
from syncverify.checker.kernel.linear import Term, num, var

#: Names of registers that move by a size, in terms; and of how often loops turn.
MOVING, TURNS = "%x", "turns_"
#: How names spell the signs of sums.
_WORDS = str.maketrans({"-": "minus", "+": "plus", "*": "times", " ": "_"})
#: Turns by which a question may be about another turn than its own.
AHEAD = 12


@dataclass(frozen=True, slots=True)
class Stride:
    """A register of a loop: its value at the first turn, and by how much it moves, once they are known.
    ``place``: of the loop's header.
    """

    place: int
    first: Term | None = None
    step: Term | None = None


@dataclass(slots=True)
class Turns:
    """How often loops turn: names by (what the first turn asks, by how much that moves)."""

    names: dict[tuple[Term, Term], str] = field(default_factory=dict)

    def of(self, first: Term, step: Term) -> Term:
        """The name says what is asked, so that it is the same whenever a kernel is read. Sizes may have such
        words in their names: of two questions that say the same, the later one has a name of its own.
        """
        if (first, step) not in self.names:
            said = f"{TURNS}{first}_by_{step}".translate(_WORDS)
            while said in self.names.values():
                said += "_"
            self.names[first, step] = said
        return var(self.names[first, step])

    def key(self, name: str) -> tuple[Term, Term]:
        return next(key for key, known in self.names.items() if known == name)

    def asked(self, first: Term, step: Term) -> Term | None:
        """``first + n step >= 0`` for the first turns of a loop, as a constraint without ``n``: the number of
        turns less the turn that is asked about, less 1; None where no loop asks that.

        Of turns before the first one the number of turns says nothing: where there is none, it may be true or
        false there.
        """
        for (q, d), name in self.names.items():
            for m in range(AHEAD + 1):
                if step == d and first == q + d * m:
                    return var(name) - m - 1
                if step == -d and first == -(q + d * m) - 1:
                    return num(m) - var(name)
        return None

    def sized(self, t: Term) -> Term:
        """A constraint on sizes, in words of turns where some loop asks it."""
        for (q, d), name in self.names.items():
            for m in range(AHEAD + 1):
                if t == q + d * m:
                    return var(name) - m - 1
                if t == -(q + d * m) - 1:
                    return num(m) - var(name)
        return t

    def facts(self, used: set[str], holds: Callable[[Term], bool | None]) -> list[Term]:
        """What is known of numbers of turns. ``holds``: whether sizes make a term at least 0."""
        out: list[Term] = []
        for (q, d), name in self.names.items():
            if name not in used:
                continue
            out.append(var(name))
            for m in range(AHEAD + 1):
                known = holds(q + d * m)
                if known is None:
                    break
                out.append(var(name) - m - 1 if known else num(m) - var(name))
                if not known:
                    break
        return out


def noted(stride: Stride, *, first: Term | None = None, step: Term | None = None) -> Stride:
    """A stride with what some way shows of it; NotReadError where another way showed something else."""
    if first is not None and stride.first not in (None, first):
        raise NotReadError("a register with different values where a loop begins")
    if step is not None and stride.step not in (None, step):
        raise NotReadError("a register that moves by different sizes")
    return Stride(
        stride.place, first if first is not None else stride.first, step if step is not None else stride.step
    )


__all__ = ["MOVING", "TURNS", "Any", "Stride", "Turns", "noted"]
