"""Values of which only the low bits are known: what loops that step by powers of two leave of their counters.

A register that holds 5 and is increased by 256 any number of times holds 5 modulo 256, also where its 32 bits
wrap (congruences modulo powers of two: Granger, Static analysis of arithmetical congruences, 1989). Four
times that is 20 modulo 1024: thread 5 reaches words of its own, however many there are.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from syncverify.frontends.ptx.values.register_values import INTS, PerLane, Unknown, lanes_of, per_lane

#: Moduli do not exceed this, so that joining values over and over ends soon.
MOST = 1 << 16


class Residue(Unknown):
    """A value that is ``residue`` modulo ``modulus``, a power of two from 2 on."""

    __slots__ = ("modulus", "residue")

    def __init__(self, why: str, source: str, residue: int, modulus: int) -> None:
        super().__init__(why, source)
        self.residue = residue
        self.modulus = modulus

    def derived(self) -> Unknown:
        """What is computed from this value, where nothing is known of that."""
        return _plain(self.why, self.source)

    def _with(self, residue: int, modulus: int) -> Unknown:
        return known(self.why, self.source, residue, modulus)

    def __add__(self, o: Any) -> Any:
        at = _at(o)
        return self.derived() if at is None else self._with(self.residue + at[0], min(self.modulus, at[1]))

    def __sub__(self, o: Any) -> Any:
        at = _at(o)
        return self.derived() if at is None else self._with(self.residue - at[0], min(self.modulus, at[1]))

    def __rsub__(self, o: Any) -> Any:
        return self._with(o - self.residue, self.modulus) if o.__class__ in INTS else self.derived()

    def __mul__(self, o: Any) -> Any:
        if o.__class__ not in INTS:
            return self.derived()
        return self._with(self.residue * o, self.modulus * (o & -o)) if o else 0

    def __lshift__(self, o: Any) -> Any:
        if o.__class__ not in INTS:
            return self.derived()
        return self._with(self.residue << o, self.modulus << o)

    def __rshift__(self, o: Any) -> Any:
        if o.__class__ not in INTS:
            return self.derived()
        return self._with(self.residue >> o, self.modulus >> o)

    def __and__(self, o: Any) -> Any:
        if o.__class__ not in INTS:
            return self.derived()
        return self.residue & o if 0 <= o < self.modulus else self._with(self.residue & o, self.modulus)

    def __xor__(self, o: Any) -> Any:
        return self._with(self.residue ^ o, self.modulus) if o.__class__ in INTS else self.derived()

    def __or__(self, o: Any) -> Any:
        return self._with(self.residue | o, self.modulus) if o.__class__ in INTS else self.derived()

    def __radd__(self, o: Any) -> Any:
        return self.__add__(o)

    def __rmul__(self, o: Any) -> Any:
        return self.__mul__(o)

    def __rand__(self, o: Any) -> Any:
        return self.__and__(o)

    def __rxor__(self, o: Any) -> Any:
        return self.__xor__(o)

    def __ror__(self, o: Any) -> Any:
        return self.__or__(o)


def _at(value: Any) -> tuple[int, int] | None:
    """A summand's residue and modulus; None if nothing is known of it."""
    if value.__class__ in INTS:
        return value, MOST
    return (value.residue, value.modulus) if value.__class__ is Residue else None


@cache
def _plain(why: str, source: str) -> Unknown:
    return Unknown(why, source)


@cache
def _residue(why: str, source: str, residue: int, modulus: int) -> Residue:
    return Residue(why, source, residue, modulus)


def known(why: str, source: str, residue: int, modulus: int) -> Unknown:
    """The value that is ``residue`` modulo ``modulus``; equal ones are one object."""
    modulus = min(modulus, MOST)
    return _residue(why, source, residue % modulus, modulus) if modulus > 1 else _plain(why, source)


def joined(a: Any, b: Any, otherwise: Unknown) -> Any:
    """A value that may be either, lane by lane; ``otherwise``: what it is where nothing is known of it, and
    neither is data."""
    if a is b or (a.__class__ in INTS and b.__class__ in INTS and a == b):
        return a
    if a.__class__ is PerLane or b.__class__ is PerLane:
        lanes = zip(lanes_of(a), lanes_of(b), strict=True)
        return per_lane([joined(x, y, otherwise) for x, y in lanes])
    one, two = _at(a), _at(b)
    if one is None or two is None:
        data = next((x for x, at in ((a, one), (b, two)) if at is None and _is_data(x)), otherwise)
        return data.derived()
    apart = one[0] - two[0]
    modulus = min(one[1], two[1], apart & -apart if apart else MOST)
    return known(otherwise.why, otherwise.source, one[0], modulus)


def _is_data(x: Any) -> bool:
    return isinstance(x, Unknown) and x.source == "data"


__all__ = ["MOST", "Residue", "joined", "known"]
