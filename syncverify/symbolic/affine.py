"""Integers without a number, as values that agents compute with: one term for each sum of a space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncverify.symbolic.inequalities import Parts
from syncverify.symbolic.round_robin import xor_bit

if TYPE_CHECKING:
    from syncverify.symbolic.context import SymbolicContext


class AffineTerm:
    """``c + sum(k * atom)``; equal terms of one space are one object."""

    __slots__ = ("_hash", "c", "parts", "space")

    def __init__(self, space: SymbolicContext, c: int, parts: Parts) -> None:
        self.space = space
        self.c = c
        self.parts = parts
        self._hash = hash(("term", c, parts))

    def __repr__(self) -> str:
        return self.space.text(self.c, self.parts)

    def __hash__(self) -> int:
        return self._hash

    # ------------------------------------------------------------ arithmetic

    def __add__(self, o: Any) -> Any:
        if isinstance(o, int):
            return self.space.term(self.c + o, self.parts)
        if isinstance(o, AffineTerm):
            return self.space.term(self.c + o.c, _sum(self.parts, o.parts, 1))
        return NotImplemented

    __radd__ = __add__

    def __sub__(self, o: Any) -> Any:
        if isinstance(o, int):
            return self.space.term(self.c - o, self.parts)
        if isinstance(o, AffineTerm):
            return self.space.term(self.c - o.c, _sum(self.parts, o.parts, -1))
        return NotImplemented

    def __neg__(self) -> Any:
        return self * -1

    def __rsub__(self, o: Any) -> Any:
        return self * -1 + o

    def __mul__(self, o: Any) -> Any:
        if isinstance(o, int):
            return self.space.term(self.c * o, tuple((a, k * o) for a, k in self.parts) if o else ())
        if isinstance(o, AffineTerm):
            return self.space.product(self, o)
        return NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, m: Any) -> Any:
        return self.space.quotient(self, m)

    def __mod__(self, m: Any) -> Any:
        return self.space.remainder(self, m)

    def __rfloordiv__(self, o: Any) -> Any:
        return self.space.quotient(o, self)

    def __rmod__(self, o: Any) -> Any:
        return self.space.remainder(o, self)

    def __lshift__(self, n: Any) -> Any:
        return self * (1 << self.space.number(n))

    def __rshift__(self, n: Any) -> Any:
        return self // (1 << self.space.number(n))

    def __rlshift__(self, o: int) -> int:
        return o << self.space.number(self)

    def __rrshift__(self, o: int) -> int:
        return o >> self.space.number(self)

    def __and__(self, m: Any) -> Any:
        if isinstance(m, int) and m >= 0:
            if m & (m + 1) == 0:
                return self % (m + 1)
            low = m & -m
            if (m + low) & m == 0:  # a run of ones: bits cut out of the middle
                return self % (m + low) // low * low
        if isinstance(m, int) and m < 0 and -m & (-m - 1) == 0:  # ~(2**n - 1)
            return self // -m * -m
        return self.space.number(self) & self.space.number(m)

    __rand__ = __and__

    def __or__(self, o: Any) -> Any:
        return self.space.number(self) | self.space.number(o)

    __ror__ = __or__

    def __xor__(self, o: Any) -> Any:
        found = xor_bit(self.space, self, o) if self.space.has_round_robin else None
        return found if found is not None else self.space.number(self) ^ self.space.number(o)

    __rxor__ = __xor__

    def __invert__(self) -> Any:
        return -self + -1

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    # ------------------------------------------------------------ questions

    def __ge__(self, o: Any) -> bool:
        return self.space.at_least(self - o)

    def __le__(self, o: Any) -> bool:
        return self.space.at_least(o - self)

    def __gt__(self, o: Any) -> bool:
        return self.space.at_least(self - o - 1)

    def __lt__(self, o: Any) -> bool:
        return self.space.at_least(o - self - 1)

    def __eq__(self, o: object) -> bool:
        if self is o:
            return True
        if not isinstance(o, int | AffineTerm):
            return NotImplemented
        return self.space.zero(self - o)

    def __ne__(self, o: object) -> bool:
        return not self == o

    def __bool__(self) -> bool:
        return not self.space.zero(self)

    def __index__(self) -> int:
        return self.space.number(self)


def _sum(a: Parts, b: Parts, sign: int) -> Parts:
    out = dict(a)
    for atom, k in b:
        out[atom] = out.get(atom, 0) + sign * k
    return tuple(sorted((atom, k) for atom, k in out.items() if k))
