"""Conversions and tests of floating-point numbers given by their bits (PTX ISA, cvt, testp and setp).

Values are exact fractions, which are rounded once. What a NaN becomes as a number of another format is not
specified: such results are data.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from syncverify.frontends.ptx.values.arith import AS_FLOAT
from syncverify.frontends.ptx.values.register_values import INTS, PerLane, lift

#: By type, the bits of the exponent and of the fraction.
FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
ROUNDINGS = frozenset({"rn", "rz", "rm", "rp"})
#: Roundings to an integer, by the rounding of the same name.
TO_INTEGER = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}


class Conversion(NamedTuple):
    """How numbers of one type become those of another; ``whole``: rounded to an integer first, ``flushed``:
    with zeros for those below the normal ones."""

    rounding: str
    of: str
    to: str
    whole: bool = False
    flushed: bool = False


def _range(type_: str) -> tuple[int, int, int]:
    """The bits of an integer type, its smallest number and its largest one."""
    n = int(type_[1:])
    return (n, -(1 << n - 1), (1 << n - 1) - 1) if type_[0] == "s" else (n, 0, (1 << n) - 1)


def _parts(bits: int, type_: str, *, flushed: bool = False) -> tuple[int, int, int]:
    """Sign, exponent and fraction; ``flushed``: zero for numbers below the normal ones."""
    e, m = FORMATS[type_]
    exponent, fraction = bits >> m & (1 << e) - 1, bits & (1 << m) - 1
    return bits >> e + m & 1, exponent, 0 if flushed and not exponent else fraction


def _value(exponent: int, fraction: int, type_: str) -> Fraction | None:
    """The size of a finite number; None of an infinite one, or of a NaN."""
    e, m = FORMATS[type_]
    if exponent == (1 << e) - 1:
        return None
    whole = fraction | (1 << m if exponent else 0)
    return whole * Fraction(2) ** (max(exponent, 1) - (1 << e - 1) + 1 - m)


def _rounded(x: Fraction, rounding: str, negative: int) -> int:
    """The whole number that the size of a number is rounded to."""
    low = x.numerator // x.denominator
    if x == low or rounding == "rz":
        return low
    if rounding == "rn":
        return round(x)
    return low + ((rounding == "rp") != bool(negative))


def _encoded(x: Fraction, negative: int, type_: str, rounding: str, *, flushed: bool) -> int:
    """The bits of a number of that size, rounded."""
    e, m = FORMATS[type_]
    lowest, sign = 2 - (1 << e - 1), negative << e + m
    if x == 0:
        return sign
    power = x.numerator.bit_length() - x.denominator.bit_length()
    power = max(power if x >= Fraction(2) ** power else power - 1, lowest)
    whole = _rounded(x / Fraction(2) ** (power - m), rounding, negative)
    if flushed and whole < 1 << m:
        return sign
    found = whole if whole < 1 << m else (power - lowest << m) + whole
    most = ((1 << e) - 1) << m
    if found >= most:
        away = rounding == "rn" or (rounding == "rp" and not negative) or (rounding == "rm" and negative)
        found = most if away else most - 1
    return sign | found


def _to_integer(c: Conversion, bits: int) -> int:
    """The nearest whole number that the type has."""
    negative, exponent, fraction = _parts(bits, c.of, flushed=c.flushed and c.of == "f32")
    to, low, high = _range(c.to)
    x = _value(exponent, fraction, c.of)
    if x is None and fraction:
        return 1 << to - 1 if c.of == "f64" or to == 64 else 0
    if x is None:
        return (low if negative else high) & (1 << to) - 1
    whole = _rounded(x, c.rounding, negative)
    return max(low, min(high, -whole if negative else whole)) & (1 << to) - 1


def _from_integer(c: Conversion, bits: int) -> int:
    n, _, high = _range(c.of)
    x = bits - (1 << n) if bits > high else bits
    return _encoded(Fraction(abs(x)), int(x < 0), c.to, c.rounding, flushed=False)


def _between(c: Conversion, bits: int) -> Any:
    """A number of another format."""
    negative, exponent, fraction = _parts(bits, c.of, flushed=c.flushed and c.of == "f32")
    e, m = FORMATS[c.to]
    x = _value(exponent, fraction, c.of)
    if x is None:
        return AS_FLOAT.derived() if fraction else negative << e + m | ((1 << e) - 1) << m
    if c.whole:
        x = Fraction(_rounded(x, c.rounding, negative))
    return _encoded(x, negative, c.to, c.rounding, flushed=c.flushed and c.to == "f32")


def _tested(kind: str, type_: str, bits: int) -> int:
    """``testp``: what class a number is of."""
    e, _ = FORMATS[type_]
    _, exponent, fraction = _parts(bits, type_)
    special, tiny = exponent == (1 << e) - 1, exponent == 0
    return int(
        {
            "finite": not special,
            "infinite": special and not fraction,
            "number": not (special and fraction),
            "notanumber": special and bool(fraction),
            "normal": not special and not (tiny and fraction),  # zeros are normal numbers
            "subnormal": tiny and bool(fraction),
        }[kind]
    )


def _packed(to: str, of: str, a: int, b: int, c: int) -> int:
    """``cvt.pack``: two numbers of 32 bits as near as their type has them, before the bits of a third."""
    n, low, high = _range(to)

    def near(x: int) -> int:
        x = x - (1 << 32) if of[0] == "s" and x >> 31 else x
        return max(low, min(high, x)) & (1 << n) - 1

    return (c << 2 * n | near(a) << n | near(b)) & 0xFFFFFFFF


def _halves(op: str, type_: str, a: int, b: int) -> int:
    """A sum, or the smaller or larger one, of each half of two words; ``relu``: or zero, if below it."""
    found = 0
    for at in (0, 16):
        x, y = (v >> at & 0xFFFF for v in (a, b))
        if type_ == "s16x2":
            x, y = ((v ^ 0x8000) - 0x8000 for v in (x, y))
        z = x + y if op == "add" else min(x, y) if op.startswith("min") else max(x, y)
        found |= (max(z, 0) if op.endswith("relu") else z) % (1 << 16) << at
    return found


def _of_numbers(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of settings, and of registers: of what is no number the result is data."""

    @cache
    def with_(settings: tuple[Any, ...]) -> Callable[..., Any]:
        return lambda *x: f(*settings, *x) if all(a.__class__ in INTS for a in x) else AS_FLOAT.derived()

    return lambda settings, *args: lift(with_(settings), *args)


to_integer, from_integer, between = (
    _of_numbers(_to_integer),
    _of_numbers(_from_integer),
    _of_numbers(_between),
)
tested, packed, halves = _of_numbers(_tested), _of_numbers(_packed), _of_numbers(_halves)


def flushed(a: Any, bits: int) -> Any:
    """A number, or zero of its sign if it is below the normal ones; what is no number stays as it is."""
    if a.__class__ is PerLane:
        return lift(flushed, a, bits)
    normal = 0xFF << 23 if bits == 32 else 0x1F << 10
    return a & 1 << bits - 1 if a.__class__ in INTS and not a & normal else a


__all__ = [
    "FORMATS",
    "Conversion",
    "ROUNDINGS",
    "TO_INTEGER",
    "between",
    "flushed",
    "from_integer",
    "halves",
    "packed",
    "tested",
    "to_integer",
]
