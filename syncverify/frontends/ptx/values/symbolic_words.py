"""Registers that hold sizes without a number: bits of a width that represent a sum over unknowns.

A ``SymbolicWord`` is right modulo ``2**bits``: sums, differences and products only reduce their coefficients.
Where an instruction looks at the number itself, as signed or unsigned, it must lie in the type's range; a sum
whose range is not known to fit is taken not to wrap, and the report says so.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from syncverify.frontends.ptx.values import arith
from syncverify.frontends.ptx.values.arith import select, signed
from syncverify.frontends.ptx.values.division_idioms import over, quotient_by, unscaled, within
from syncverify.frontends.ptx.values.grid_stride_iterations import at_least
from syncverify.frontends.ptx.values.register_values import (
    INTS,
    PerLane,
    Unknown,
    is_choice,
    lift,
    per_lane,
)
from syncverify.symbolic.context import AffineTerm, SymbolicContext
from syncverify.symbolic.round_robin import xor_bit

_WRAPS = {(1 << 32) - 1: 32, (1 << 64) - 1: 64}
_HALVES = {1 << 31: 32, 1 << 63: 64}
_RAW, _BIASED, _SIGNED = range(3)
#: A factor that leaves the register for numbers of more bits than this is meant to, powers of two aside.
FEW_BITS = 4
WRAPPING = Unknown("a product that wraps")
#: In explorations whose words are exact: bits that nobody can tell one by one.
_MIXED = Unknown("data that is combined bit by bit")
#: A shift left by fewer bits than these is a product, which is taken not to wrap; by more it may cut.
LEAST_CUT = 8
#: Fewer counts of a shift than this are distinguished.
FEW_COUNTS = 64
#: The largest signed number of 64 bits.
_LARGEST = (1 << 63) - 1
#: What ``_reaches``, ``wrapped`` and ``narrowed`` take for granted, as reports say it.
NO_WRAP = (
    "arithmetic on open sizes fits its registers: no 32-bit or 64-bit sum or product of them wraps, one "
    "whose sign or highest bit is read is below 2**31 (2**63), and a 64-bit size that is cut to 32 bits fits "
    "them, where no fact bounds it"
)


class SymbolicWord:
    """``term`` modulo ``2**bits``; ``kind``: raw, the signed value plus ``2**(bits-1)``, the signed value."""

    __slots__ = ("bits", "kind", "term")
    adds = True  # what is added to it is so on every path

    def __init__(self, term: AffineTerm, bits: int, kind: int = _RAW) -> None:
        self.term = term
        self.bits = bits
        self.kind = kind

    def __repr__(self) -> str:
        return f"({self.term!r}):{self.bits}"

    def __hash__(self) -> int:
        return hash((self.term, self.bits, self.kind))

    def unsigned(self) -> Any:
        """The number that the bits represent, unsigned."""
        term = self.term
        if self.kind == _BIASED:
            return term
        if not isinstance(term, AffineTerm):
            return term & (1 << self.bits) - 1
        low, high = term.space.bounds(term)
        if _exceeds(term, low, high, 1 << self.bits):
            return lower_bits(term, self.bits, negative=False)
        if low is not None and low >= 0:
            return term
        if term >= 0:
            return term
        return term + (1 << self.bits)

    def signed(self) -> Any:
        """The number that the bits represent in two's complement."""
        term = self.term
        if self.kind == _SIGNED:
            return term
        half = 1 << (self.bits - 1)
        if not isinstance(term, AffineTerm):
            return (term & 2 * half - 1 ^ half) - half
        low, high = term.space.bounds(term)
        if _exceeds(term, low, high, 2 * half):
            return lower_bits(term, self.bits, negative=True)
        if high is not None and high < -half:
            return term + 2 * half
        above = low is not None and low >= half
        if not above and ((self.kind == _RAW and not _reaches(term, half)) or term < half):
            return term
        return term - 2 * half

    @staticmethod
    def signed_alike(lanes: tuple[Any, ...], half: int) -> tuple[Any, ...] | None:
        """``signed`` plus half the range for lanes that hold one sum but for numbers, where the least and the
        greatest tell of all that it is the sum itself; None where they do not."""
        first = lanes[0]
        bits, term, ends = _HALVES.get(half), first.term, 1 << (first.bits - 1)
        if bits is None or any(
            x.__class__ is not SymbolicWord or not isinstance(x.term, AffineTerm) for x in lanes
        ):
            return None
        if any((x.kind, x.bits, x.term.parts) != (_RAW, first.bits, term.parts) for x in lanes):
            return None
        low, high = term.space.bounds(term)
        numbers = [x.term.c - term.c for x in lanes]
        least, most = min(numbers), max(numbers)
        if (low is not None and low + most >= ends) or (high is not None and high + least < -ends):
            return None
        if low is not None and high is not None and _exceeds(term, low + least, high + most, 2 * ends):
            return None
        fits = high is not None and high + most < ends
        if not fits and any(_reaches(x.term, ends) for x in lanes):
            return None
        return tuple([SymbolicWord(x.term + half, bits, _BIASED) for x in lanes])

    @property
    def raw(self) -> bool:
        """Whether its term is the number modulo ``2**bits``."""
        return self.kind == _RAW

    @property
    def positive(self) -> bool:
        """Whether its term is the unsigned number, as is known without a question."""
        low = self.term.space.bounds(self.term)[0] if isinstance(self.term, AffineTerm) else None
        return self.kind == _RAW and low is not None and low >= 0

    def number(self) -> int:
        """Its bits, if they can only be one number (or few, distinguished by questions)."""
        term = self.term
        return (term.space.number(term) if isinstance(term, AffineTerm) else int(term)) & (1 << self.bits) - 1

    # ------------------------------------------------------------ arithmetic

    def _plain(self, o: Any) -> Any:
        return o.term if isinstance(o, SymbolicWord) else o

    def __add__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        return size(self.term + self._plain(o), self.bits)

    __radd__ = __add__

    def __sub__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        if self.kind == _BIASED and o.__class__ is int and _HALVES.get(o) == self.bits:
            return size(self.term - o, self.bits, _SIGNED)
        return size(self.term - self._plain(o), self.bits)

    def __rsub__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        return size(o - self.term, self.bits)

    def __mul__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        narrow = self.bits < 64 and _exact(self.term)  # a product that may wrap is none
        if o.__class__ is int and o >> 16 > 0 and self.kind != _BIASED and not narrow:
            limit = (1 << self.bits - (self.kind == _SIGNED)) - 1
            return ScaledWord(self._value(), o, 0, self.bits, limit, self.kind)
        return size(self.term * self._plain(o), self.bits)

    __rmul__ = __mul__

    def __lshift__(self, n: Any) -> Any:
        if not known(n):
            return NotImplemented
        return size(self.term * (1 << _int(n)), self.bits)

    def __rshift__(self, n: Any) -> Any:
        if not known(n):
            return NotImplemented
        cut = self._cut(_int(n))
        if cut is not None:
            return cut
        if self.kind == _SIGNED:
            if _int(n) >= self.bits - 1:
                return 0 if self.term >= 0 else -1
            return size(over(self.term, 1 << _int(n)), self.bits, _SIGNED)
        if _int(n) == self.bits - 1:
            return int(self.signed() < 0)
        if self.kind == _RAW and self.bits == 64 and isinstance(self.term, AffineTerm):
            found = unscaled(self.term, _int(n))
            if found is not None:
                return size(found, self.bits)
        return size(over(self.unsigned(), 1 << _int(n)), self.bits)

    def _cut(self, n: int) -> Any:
        """What a shift right leaves of a sum that was shifted left: some of its lower bits. None if the sum
        was not, or is known to have kept its upper bits.

        Example: of ``(x << 16) >> 20`` bits 4 to 15 of ``x`` are left. Compilers write it for that.
        """
        term = self.term
        if not LEAST_CUT <= n < self.bits or self.kind == _BIASED or not isinstance(term, AffineTerm):
            return None
        factor = gcd(term.c, *(k for _, k in term.parts))
        left = min((factor & -factor).bit_length(), self.bits) - 1
        if term.space.exact_words or left < LEAST_CUT:
            return None
        low, high = term.space.bounds(term)
        half = 1 << self.bits - 1
        if low is not None and high is not None and low >= -half and high < half << (self.kind == _RAW):
            return None
        kept = lower_bits(over(term, 1 << left), self.bits - left, negative=self.kind == _SIGNED)
        moved = kept * (1 << left - n) if left > n else over(kept, 1 << n - left)
        return size(moved, self.bits, self.kind)

    def shifts(self, o: Any, bits: int) -> Any:
        """The unsigned ``o >> self``: by many counts one more unknown, no more than ``o``."""
        n = self.unsigned()
        if not isinstance(n, AffineTerm) or _few(n) or not known(o):
            count = self.number()
            return o >> count if count < bits else 0
        space, x = n.space, o.unsigned() if isinstance(o, SymbolicWord) else int(o)

        def unknown() -> Any:
            found = space.symbol(
                f"({x!r} >> {n!r})", 0, space.bounds(x)[1] if isinstance(x, AffineTerm) else x
            )
            space.path.assume(*space.of(x - found))
            return found

        return size(space.path.memo_symbol(("shifted", x, n), unknown), bits)

    def __floordiv__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        return size(over(self._value(), value_of(o)), self.bits)

    def __mod__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        x, m = self._value(), value_of(o)
        return size(x - over(x, m) * m if m.__class__ is int and m > 0 else x % m, self.bits)

    def __rfloordiv__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        return size(o // self._value(), self.bits)

    def __rmod__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        return size(o % self._value(), self.bits)

    def _value(self) -> Any:
        return self.term if self.kind != _RAW else self.unsigned()

    def __abs__(self) -> Any:
        return size(abs(self._value()), self.bits, self.kind)

    def __neg__(self) -> Any:
        return size(-self.term, self.bits, _SIGNED if self.kind == _SIGNED else _RAW)

    # ------------------------------------------------------------ bits

    def cut_alike(self, mask: int) -> bool:
        """Whether what a mask leaves is told without a look at the path: all bits of a register."""
        bits, term = _WRAPS.get(mask), self.term
        few = 0 if bits is None else 1 << bits - FEW_BITS
        return isinstance(term, AffineTerm) and all(abs(k) < few for _, k in term.parts)

    def __and__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        if o.__class__ is bool:
            o = int(o)
        if o.__class__ is not int:
            return _MIXED if _mixed(self, o) else self.number() & _int(o)
        if o < 0:  # the complement of a mask
            o &= (1 << self.bits) - 1
        bits = _WRAPS.get(o)
        if bits is not None:
            return wrapped(self.term, bits) if bits >= self.bits else narrowed(self.term, bits)
        if o >> 63 or o >> 31 == 1:  # all upper bits kept: the lower ones are cut off
            low = o & -o
            width = o.bit_length()
            if o + low == 1 << width and (width == self.bits or (width == 32 and self._has_bits(32))):
                return wrapped(self.term - self.term % low, self.bits)
        if o and o & (o + 1) == 0:
            return size(self.term - over(self.term, o + 1) * (o + 1), self.bits)
        if o and _mixed(self, o):
            return _MIXED
        return size(self.term & o, self.bits)

    __rand__ = __and__

    def _has_bits(self, bits: int) -> bool:
        """Whether its term is known to be an unsigned number of so many bits."""
        if not isinstance(self.term, AffineTerm):
            return 0 <= int(self.term) < 1 << bits
        low, high = self.term.space.bounds(self.term)
        return low is not None and low >= 0 and high is not None and high < 1 << bits

    def __xor__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        if o.__class__ is int:
            if o < 0:
                o &= (1 << self.bits) - 1
            if o in _HALVES:
                if self.kind == _BIASED and _HALVES[o] == self.bits:
                    return size(self.term - o, self.bits)
                return size(self.signed() + o, _HALVES[o], _BIASED)
            if o in _WRAPS:
                return wrapped(self.term * -1 - 1, _WRAPS[o])
            low, high = self.term.space.bounds(self.term)
            if o in (0, 1) and low == 0 and high == 1:
                return size(self.term * -1 + 1, self.bits) if o else self
        elif (
            isinstance(o, SymbolicWord)
            and isinstance(self.term, AffineTerm)
            and self.term.space.has_prefix_sums
        ):
            found = xor_bit(self.term.space, self.term, o.term)
            if found is not None:
                return size(found, self.bits)
        return _MIXED if _mixed(self, o) else self.number() ^ _int(o)

    __rxor__ = __xor__

    def __or__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        if o.__class__ is int:
            o = o & (1 << self.bits) - 1 if o < 0 else o
            unit = 1 << o.bit_length()
            term = self.term
            if all(k % unit == 0 for _, k in term.parts):
                low = term.c % unit
                return size(term + ((low | o) - low), self.bits)
        return _MIXED if _mixed(self, o) else self.number() | _int(o)

    __ror__ = __or__

    def __invert__(self) -> Any:
        return size(self.term * -1 - 1, self.bits)

    # ------------------------------------------------------------ questions

    def __lt__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        return at_least(value_of(o) - self._value() - 1)

    def __le__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        return at_least(value_of(o) - self._value())

    def __gt__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        return at_least(self._value() - value_of(o) - 1)

    def __ge__(self, o: Any) -> Any:
        if not known(o):
            return NotImplemented
        return at_least(self._value() - value_of(o))

    def __eq__(self, o: object) -> bool:
        if self is o:
            return True
        if isinstance(o, SymbolicWord):
            if self.term is o.term and (self.bits, self.kind) == (o.bits, o.kind):
                return True
            here, there = (x.space if isinstance(x, AffineTerm) else None for x in (self.term, o.term))
            if here is not there and None not in (here, there):
                return False  # of another exploration, whose questions are not asked here
            if self.positive and o.positive and self.bits == o.bits:
                return bool(self.term == o.term)
            return bool(self.signed() == o.signed())
        if isinstance(o, int):
            if self.positive:
                return bool(self.term == o & (1 << self.bits) - 1)
            half = 1 << (self.bits - 1)
            return bool(self.signed() == ((o ^ half) - half if o >= 0 and self.kind != _SIGNED else o))
        return False

    def is_bit(self, o: int) -> Any:
        """Whether an unknown bit is 0, or 1, as a bit, where stages go on by sums; None if it is none."""
        term = self.term
        if o not in (0, 1) or not isinstance(term, AffineTerm) or not term.space.has_prefix_sums:
            return None
        if term.space.bounds(term) != (0, 1):
            return None
        return size(term if o else term * -1 + 1, self.bits)

    def chosen(self, a: Any, b: Any) -> Any:
        """One of two values, the first where this bit is 1."""
        if a.__class__ in INTS and b.__class__ in INTS:
            return size(self.term * (a - b) + b, 32)
        return a if self.number() else b

    def __ne__(self, o: object) -> bool:
        return not self == o

    def __bool__(self) -> bool:
        return not self == 0


class ScaledWord(SymbolicWord):
    """``x * factor >> shift``, kept apart: that is how compilers divide by a constant.

    ``limit``: what the type of ``x`` can hold; its arithmetic is taken not to wrap.
    """

    __slots__ = ("factor", "limit", "shift", "x")
    adds = False

    def __init__(self, x: Any, factor: int, shift: int, bits: int, limit: int, kind: int = _RAW) -> None:
        self.x = x
        self.limit = limit
        self.factor = factor
        self.shift = shift
        self.bits = bits
        self.kind = kind

    @property
    def term(self) -> Any:  # type: ignore[override]
        found = self.x * self.factor // (1 << self.shift)
        return found + (1 << self.bits - 1) if self.kind == _BIASED else found

    def _at_most(self) -> int | None:
        low, high = within(self.x, self.limit)
        return None if low < 0 else high * self.factor >> self.shift

    def _fits(self) -> bool:
        """Whether it is known to lie in the signed range of its bits."""
        ends = (x * self.factor >> self.shift for x in within(self.x, self.limit))
        return all(-1 <= x >> self.bits - 1 <= 0 for x in ends)

    def _as(self, kind: int) -> ScaledWord:
        return ScaledWord(self.x, self.factor, self.shift, self.bits, self.limit, kind)

    def __xor__(self, o: Any) -> Any:
        if o.__class__ is int and _HALVES.get(o) == self.bits and self._fits():
            return self._as(_BIASED)
        return _forced(self, self.bits) ^ o

    __rxor__ = __xor__

    def __or__(self, o: Any) -> Any:
        return _forced(self, self.bits) | o

    __ror__ = __or__

    def __sub__(self, o: Any) -> Any:
        if self.kind == _BIASED and o.__class__ is int and _HALVES.get(o) == self.bits:
            return self._as(_SIGNED)
        return super().__sub__(o)

    def __and__(self, o: Any) -> Any:
        most = self._at_most()
        if most is not None and o in _WRAPS and most <= o:
            return self if self.kind == _BIASED else self._as(_RAW)
        if self.shift == 0 and o in _WRAPS:
            return wrapped(self.x * self.factor, _WRAPS[o])
        if _WRAPS.get(o) == self.bits and self.kind != _BIASED and self._fits():
            return self._as(_RAW)
        return _forced(self, self.bits) & o

    __rand__ = __and__

    def __rshift__(self, n: Any) -> Any:
        if not known(n):
            return NotImplemented
        if self.kind == _RAW and self._at_most() is None:  # bits that may represent less than 0
            return int(self.x < 0) if _int(n) == self.bits - 1 else _forced(self, self.bits) >> n
        if self.shift == 0 and self.factor & (self.factor - 1) == 0:
            return _forced(self, self.bits) >> n
        shift = self.shift + _int(n)
        found = quotient_by(self.x, self.factor, shift, self.limit)
        if found is not None:
            return size(found, self.bits)
        return ScaledWord(self.x, self.factor, shift, self.bits, self.limit, self.kind)


def _few(n: AffineTerm) -> bool:
    low, high = n.space.bounds(n)
    return low is not None and high is not None and high - low < FEW_COUNTS


def _forced(x: ScaledWord, bits: int) -> Any:
    return size(x.term, bits)


def _reaches(term: AffineTerm, half: int) -> bool:
    """Whether a size may be an unsigned number of ``half`` or more; sums are taken not to wrap."""
    space = term.space
    _, high = space.bounds(term)
    if space.exact_words:
        return high is None or high >= half
    if high is not None and high < half:
        return False
    if _is_bounded(term, half):
        return True
    a = space.symbol_of(term)
    most = None if a is None else space.symbols[a].high
    return most is not None and most >= half


def _is_bounded(term: AffineTerm, half: int) -> bool:
    """Whether facts bound each unknown of a sum, by less than its register does."""
    space = term.space
    most = (space.symbols[space.parent_of(a)].high for a, _ in term.parts)
    return all(x is not None and x < half - 2 for x in most)


def _exceeds(term: AffineTerm, low: int | None, high: int | None, unit: int) -> bool:
    """Whether facts let a sum, which is between numbers, leave a register of ``unit`` values."""
    if low is None or high is None or (low >= -unit // 2 and high < unit):
        return False
    return not term.space.exact_words and _is_bounded(term, unit // 2)


def float_test(test: str, a: Any, b: Any, w: int) -> Any:
    """A comparison of floating-point numbers given by their bits: of exact words one answer for all who
    compare the same."""
    if a.__class__ is PerLane or b.__class__ is PerLane:
        return lift(lambda x, y: float_test(test, x, y, w), a, b)
    words = [x.term for x in (a, b) if isinstance(x, SymbolicWord)]
    if not any(map(_exact, words)) or not (known(a) and known(b)):
        return arith.float_test(test, a, b, w)
    key = ("float test", test, *(x if x.__class__ in INTS else x.term for x in (a, b)), w)
    return size(words[0].space.memory_symbol(key, 0, 1, "test"), 1)


def _exact(term: Any) -> bool:
    """Whether arithmetic on a term is not taken to fit its register."""
    return isinstance(term, AffineTerm) and term.space.exact_words


def _mixed(x: SymbolicWord, o: Any) -> bool:
    """Whether the bits of two words are not told: one of them may be many numbers, in exact words."""
    some = [w.term for w in (x, o) if isinstance(w, SymbolicWord) and _exact(w.term)]
    return any(not _few(t) for t in some)


def known(o: Any) -> bool:
    return o.__class__ in INTS or isinstance(o, SymbolicWord)


def value_of(o: Any) -> Any:
    return o._value() if isinstance(o, SymbolicWord) else o


def _int(o: Any) -> int:
    return o.number() if isinstance(o, SymbolicWord) else int(o)


def below(a: Any, b: Any, strict: bool) -> Any:
    """Whether one value is less than another, or not above it; of sizes as a number that is only added."""
    if (isinstance(a, SymbolicWord) or isinstance(b, SymbolicWord)) and known(a) and known(b):
        x = value_of(b) - value_of(a) - int(strict)
        return size(x.space.boolean_symbol(x), 32) if isinstance(x, AffineTerm) else x >= 0
    return a < b if strict else a <= b


def flipped(x: Any, bits: int) -> Any:
    """What a kernel's own ``xor`` has made, whose sign may be turned, as a signed number again."""
    return size(x.signed(), bits) if isinstance(x, SymbolicWord) else x


def counted(p: Any) -> Any:
    """1 where a predicate of ``below`` holds, else 0."""
    return p if isinstance(p, SymbolicWord) else select(p, 1, 0)


def size(term: Any, bits: int, kind: int = _RAW) -> Any:
    """A register's content: a number if no unknown is left in it."""
    if isinstance(term, AffineTerm):
        return SymbolicWord(term, bits, kind)
    return int(term) & (1 << bits) - 1 if kind == _RAW else int(term)


def wrapped(term: Any, bits: int) -> Any:
    """The term modulo ``2**bits``, its coefficients nearest to 0."""
    if not isinstance(term, AffineTerm):
        return int(term) & (1 << bits) - 1
    space = term.space
    unit = 1 << bits
    if space.exact_words:
        # a number is subtracted by adding what it wraps to
        found = next((x for x in (term, term - unit) if _fits(x, unit)), None)
        return WRAPPING if found is None else size(found, bits)
    few = unit >> FEW_BITS
    if -few <= term.c < few and all(-few < k < few for _, k in term.parts):
        return SymbolicWord(term, bits)
    parts = tuple((a, _centred(k, unit)) for a, k in term.parts)
    found = space.term(_centred(term.c, unit), tuple((a, k) for a, k in parts if k))
    if not isinstance(found, AffineTerm):
        return size(found, bits)
    cut = {a for a, k in term.parts if k % unit == 0 and a in space.quotients}
    if (cut and not _fits(found, unit)) or _never_fits(found, unit):
        # what was cut exactly stays exact
        return size(term if _fits(term, unit) else lower_bits(found, bits, negative=True), bits)
    if any(abs(k) >> bits - FEW_BITS and k & -k != abs(k) for _, k in parts):
        low, high = space.bounds(found)
        if low is None or high is None or low < -unit // 2 or high >= unit:
            return WRAPPING
    return size(found, bits)


def narrowed(term: Any, bits: int) -> Any:
    """The lower bits of a sum that a wider register holds.

    The sum is taken to fit, as ``wrapped`` takes it, unless facts about sizes of 64 bits say how far it goes
    beyond.

    Example: with ``n <= 2**33`` the lower 32 bits of ``n`` are ``n - (n + 2**31) // 2**32 * 2**32``, signed.
    """
    if not isinstance(term, AffineTerm) or term.space.exact_words or _fits(term, 1 << bits):
        return wrapped(term, bits)
    if _bounded_by_facts(term):
        return size(lower_bits(term, bits, negative=True), bits)  # so that its sign is known to fit
    return wrapped(term, bits)


def _bounded_by_facts(term: AffineTerm) -> bool:
    """Whether facts bound a sum with a size whose type has 64 bits, or with parts of one."""
    space = term.space
    low, high = space.bounds(term)
    if low is None or high is None or max(-low, high) >= _LARGEST:
        return False
    most = (space.symbols[space.parent_of(a)].high for a, _ in term.parts)
    return any(x is None or x >= _LARGEST for x in most)


def _fits(term: AffineTerm, unit: int) -> bool:
    """Whether a term is a number of a register of ``unit`` values, signed or not."""
    low, high = term.space.bounds(term)
    return low is not None and high is not None and low >= -unit // 2 and high < unit


def _never_fits(term: AffineTerm, unit: int) -> bool:
    """Whether no value of a term is a number of such a register: then it is not taken to fit."""
    low, high = term.space.bounds(term)
    return (low is not None and low >= unit) or (high is not None and high < -unit // 2)


def _centred(k: int, unit: int) -> int:
    return (k + unit // 2) % unit - unit // 2


def widened(x: Any, bits: int) -> Any:
    """An unsigned value of ``bits`` bits in a wider register."""
    return size(x.unsigned(), 64) if isinstance(x, SymbolicWord) else x


def lower_bits(term: Any, bits: int, *, negative: bool) -> Any:
    """The number that the lower bits of a sum represent; ``negative``: in two's complement."""
    if not isinstance(term, AffineTerm):
        return signed(term, bits) if negative else term & (1 << bits) - 1
    unit = 1 << bits
    least = -unit // 2 if negative else 0
    low, high = term.space.bounds(term)
    if low is not None and high is not None and low >= least and high < least + unit:
        return term
    moved = term - least
    return moved - over(moved, unit) * unit + least


def unsigned(x: Any, bits: int) -> Any:
    """The lower bits of a value, as an unsigned number; what lies beyond them is cut and not taken to fit."""
    if x.__class__ is PerLane:
        return per_lane([unsigned(v, bits) for v in x.lanes])
    if isinstance(x, SymbolicWord):
        return size(lower_bits(x.term, bits, negative=False), bits)
    return x & (1 << bits) - 1


def carried(total: Any, bits: int, sign: int) -> Any:
    """What a sum of unsigned numbers carries; ``sign`` is -1 for a difference, which borrows."""
    if total.__class__ is PerLane:
        return per_lane([carried(v, bits, sign) for v in total.lanes])
    if isinstance(total, SymbolicWord):
        return size(over(total.term, 1 << bits) * sign, bits)
    return total >> bits & 1


def full(x: Any) -> Any:
    """A factor of an unsigned product whose upper half is asked for; as it is if it is not negative."""
    if x.__class__ is PerLane:
        return per_lane([full(v) for v in x.lanes])
    if x.__class__ is not SymbolicWord or x.kind != _RAW or not isinstance(x.term, AffineTerm):
        return x
    low, _ = x.term.space.bounds(x.term)
    return x if low is not None and low >= 0 else size(x.unsigned(), x.bits)


def extended(x: Any, bits: int, held: int, negative: bool) -> Any:
    """A value of ``bits`` bits in a wider register of ``held`` bits; ``negative``: its type is signed."""
    if x.__class__ in INTS:
        return signed(x, bits) & (1 << held) - 1 if negative else x
    if x.__class__ is PerLane:
        return per_lane([extended(v, bits, held, negative) for v in x.lanes])
    if isinstance(x, SymbolicWord):
        if negative and bits < x.bits and x.kind == _RAW and isinstance(x.term, AffineTerm):
            return size(lower_bits(x.term, bits, negative=True), held)
        return size(x.signed() if negative else x.unsigned(), held)
    return x.derived() if negative and isinstance(x, Unknown) and not is_choice(x) else x


__all__ = [
    "NO_WRAP",
    "SymbolicContext",
    "SymbolicWord",
    "below",
    "carried",
    "extended",
    "float_test",
    "full",
    "known",
    "lower_bits",
    "narrowed",
    "size",
    "unsigned",
    "value_of",
    "widened",
    "wrapped",
]
