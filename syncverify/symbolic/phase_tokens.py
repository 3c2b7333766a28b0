"""Tokens of phases, as agents keep them where sizes have no number.

The number of a phase grows without end, so states would never repeat. Agents may therefore keep such a token,
copy it and wait for it, and nothing else: whatever would look at its number says that it is not followed.
"""

from __future__ import annotations

from typing import Any, NoReturn

from syncverify.symbolic.context import NotConcrete


class Token(int):
    """The phase of ``barrier``, in its ``life``, that an arrival counted in. Tokens that are alike are one
    object, so that keys made of them are found; no comparison is ever made."""

    barrier: int
    life: int
    _known: dict[tuple[int, int, int], Token] = {}  # noqa: RUF012 -- one table for all

    def __new__(cls, phase: int, barrier: int, life: int) -> Token:
        found = cls._known.get((phase, barrier, life))
        if found is None:
            found = cls._known[phase, barrier, life] = super().__new__(cls, phase)
            found.barrier, found.life = barrier, life
        return found

    def __hash__(self) -> int:
        return hash((number(self), self.barrier, self.life))

    def __deepcopy__(self, memo: object) -> Token:
        return self


_PHASES = 32  # bits of a plain token that hold the phase; the number of the barrier, plus one, lies above


def given(phase: int, barrier: int) -> int:
    """The token of a phase of a barrier, as an arrival gives it to an agent of numbers."""
    return phase + (barrier + 1 << _PHASES)


def number(token: int) -> int:
    """The phase of a token."""
    plain = int.__add__(token, 0) if isinstance(token, Token) else token
    return plain & (1 << _PHASES) - 1


def barrier_of(token: int) -> int:
    """The barrier that an arrival gave a token of; -1 for a number that no arrival gave."""
    return token.barrier if isinstance(token, Token) else (token >> _PHASES) - 1


def _refuses(*_: Any) -> NoReturn:
    raise NotConcrete("the number of a phase is looked at")


_BINARY = "add sub mul floordiv truediv mod divmod pow lshift rshift and or xor".split()
_OTHERS = "eq ne lt le gt ge neg pos abs invert bool int float index round trunc ceil floor".split()
for _name in (*_BINARY, *(f"r{x}" for x in _BINARY), *_OTHERS):
    setattr(Token, f"__{_name}__", _refuses)


__all__ = ["Token", "barrier_of", "given", "number"]
