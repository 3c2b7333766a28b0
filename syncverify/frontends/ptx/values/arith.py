"""Integer arithmetic of PTX beyond Python's operators, on numbers, values per lane and missing ones.

Registers hold unsigned bits. Each function takes the width in bits where it matters; the plain ones at the
top work on ints, the exported ones lift them (``values.lift``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_float
from math import copysign
from struct import pack, unpack
from typing import Any

from syncverify.base.reason import Cause, Reason
from syncverify.frontends.ptx.syntax.types import WINDOW
from syncverify.frontends.ptx.values.register_values import (
    ELSEWHERE,
    INTS,
    WARP,
    PerLane,
    Unknown,
    choice,
    is_choice,
    lanes_of,
    lift,
    lift_operator,
    per_lane,
)

_DIVIDES = "a division by zero: give the sizes that divide, or assume that they are at least 1"
BY_ZERO = Unknown(Reason(_DIVIDES, Cause.ZERO_DIVISOR))
NO_PLACE = Unknown("an fns from a bit that no word has")
OF_SIZES = Unknown("a saturating or packed operation on a size without a number")
AS_FLOAT = Unknown("a size taken as a floating-point number")
AMONG_LANES = Unknown("a vote, match or reduction of sizes without a number")


def signed(x: int, w: int) -> int:
    """The two's complement value of ``w`` bits."""
    half = 1 << (w - 1)
    return (x ^ half) - half


def _udiv(a: int, b: int) -> Any:
    return a // b if b else BY_ZERO


def _urem(a: int, b: int) -> Any:
    return a % b if b else BY_ZERO


def _sdiv(a: int, b: int, w: int) -> Any:
    if not b:
        return BY_ZERO
    x, y = signed(a, w), signed(b, w)
    q = abs(x) // abs(y)
    return (q if (x < 0) == (y < 0) else -q) & (1 << w) - 1


def _srem(a: int, b: int, w: int) -> Any:
    if not b:
        return BY_ZERO
    x, y = signed(a, w), signed(b, w)
    m = abs(x) % abs(y)
    return (-m if x < 0 else m) & (1 << w) - 1


def _count(n: Any) -> int:
    """A number as such: what is shifted by a size without a number is known for its numbers only."""
    return n if n.__class__ in INTS else n.number()  # type: ignore[no-any-return]


def _shl(a: int, n: int, w: int) -> int:
    n = _count(n)
    return (a << n) & (1 << w) - 1 if n < w else 0


def _shr(a: Any, n: Any, w: int) -> Any:
    if n.__class__ not in INTS:
        return n.shifts(a, w)
    return a >> n if n < w else 0


def _sar(a: int, n: int, w: int) -> int:
    return signed(a, w) >> min(_count(n), w) & (1 << w) - 1


def _shf(low: int, high: int, n: int, left: int, wrap: int) -> int:
    """shf: the 64 bits ``high:low``; left gives the upper word, right the lower."""
    n = _count(n) & 31 if wrap else min(_count(n), 32)
    both = high << 32 | low
    return (both << n >> 32 if left else both >> n) & 0xFFFFFFFF


def _bfe(a: int, pos: int, count: int, w: int, s: int) -> int:
    pos, count = _count(pos) & 0xFF, _count(count) & 0xFF
    if not count:
        return 0
    field = a >> pos & (1 << count) - 1
    if s and signed(a, w) >> min(pos + count - 1, w - 1) & 1:
        field |= -1 << min(count, w - pos if pos < w else 0)
    return field & (1 << w) - 1


def _bfi(a: int, b: int, pos: int, count: int, w: int) -> int:
    pos, count = _count(pos) & 0xFF, _count(count) & 0xFF
    mask = ((1 << count) - 1 << pos) & (1 << w) - 1
    return b & ~mask | a << pos & mask


#: PTX ISA, prmt: the byte ``i`` that each special mode picks by the lower two bits of its third operand.
_PICKED: tuple[Callable[[int, int], int], ...] = (
    lambda c, i: c + i,
    lambda c, i: (c - i) % 8,
    lambda c, i: c,
    max,
    min,
    lambda c, i: 2 * (c & 1) + (i & 1),
)
#: Their names, in that order.
PRMT_MODES = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


def _prmt(a: int, b: int, c: int, mode: int) -> int:
    """prmt: each nibble of ``c`` picks a byte of ``b:a`` (bit 3 spreads its sign), or a mode, -1 for none."""
    both, out = b << 32 | a, 0
    if mode >= 0:
        c = sum(_PICKED[mode](c & 3, i) << 4 * i for i in range(4))
    for i in range(4):
        pick = c >> 4 * i & 15
        byte = both >> 8 * (pick & 7) & 255
        if pick & 8:
            byte = 255 if byte & 128 else 0
        out |= byte << 8 * i
    return out


def _lop3(a: int, b: int, c: int, lut: int, w: int) -> int:
    out, mask = 0, (1 << w) - 1
    for i in range(8):
        if lut >> i & 1:
            out |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return out & mask


def _brev(a: int, w: int) -> int:
    return int(f"{a:0{w}b}"[::-1], 2)


def _bfind(a: int, w: int, s: int, shiftamt: int) -> int:
    if s and a >> (w - 1):
        a ^= (1 << w) - 1
    found = a.bit_length() - 1
    if found < 0:
        return 0xFFFFFFFF
    return w - 1 - found if shiftamt else found


def _mul_hi(a: int, b: int, w: int, s: int) -> int:
    return (signed(a, w) * signed(b, w) if s else a * b) >> w & (1 << w) - 1


def _smin(a: int, b: int, w: int) -> int:
    return a if signed(a, w) < signed(b, w) else b


def _smax(a: int, b: int, w: int) -> int:
    return a if signed(a, w) > signed(b, w) else b


def _sad(a: int, b: int, c: int, w: int, s: int) -> int:
    x, y = (signed(a, w), signed(b, w)) if s else (a, b)
    return c + abs(x - y) & (1 << w) - 1


def _mul24(a: int, b: int, c: int, hi: int, s: int) -> int:
    """mul24, mad24: of the 48 bits of the product of the lower 24 bits the lower or the upper 32."""
    x, y = a & 0xFFFFFF, b & 0xFFFFFF
    product = signed(x, 24) * signed(y, 24) if s else x * y
    return (product >> 16 * hi) + c & 0xFFFFFFFF


def _bmsk(a: int, b: int, wrap: int) -> int:
    """bmsk: ``b`` ones from bit ``a`` on; both modulo 32, or no more than 32."""
    a, b = (a & 31, b & 31) if wrap else (min(a, 32), min(b, 32))
    return ((1 << b) - 1 << a) & 0xFFFFFFFF


def _fns(mask: int, base: int, offset: int) -> Any:
    """fns: the place of the n-th one of a mask from a base upwards, or downwards where n is negative; -1 if
    there are not so many. With n = 0 it is the base if that is a one."""
    if base > 31:
        return NO_PLACE
    n = signed(offset, 32)
    places = range(base, 32) if n > 0 else range(base, -1, -1) if n < 0 else (base,)
    ones = [p for p in places if mask >> p & 1]
    wanted = max(abs(n) - 1, 0)
    return ones[wanted] if wanted < len(ones) else 0xFFFFFFFF


def _szext(a: int, n: int, s: int, wrap: int) -> int:
    """szext: the lower ``n`` bits of a word, and above them zeros, or their sign; of no bits it is 0."""
    n = n & 31 if wrap else min(n, 32)
    low = a & (1 << n) - 1
    return signed(low, n) & 0xFFFFFFFF if s and n else low


def _dot(a: int, b: int, c: int, half: int, signs: int) -> int:
    """dp4a (``half`` -1), and dp2a with the lower (0) or upper (1) bytes of ``b``: ``c`` and the products of
    parts of ``a`` with bytes. Bits 0 and 1 of ``signs``: those of ``a`` and ``b`` have signs."""
    size = 8 if half < 0 else 16
    for part in range(32 // size):
        x, y = a >> size * part & (1 << size) - 1, b >> 8 * (part + 2 * max(half, 0)) & 255
        c += (signed(x, size) if signs & 1 else x) * (signed(y, 8) if signs & 2 else y)
    return c & 0xFFFFFFFF


def _saturated(x: int, w: int, s: int, to: int, to_signed: int, held: int) -> int:
    """cvt.sat: the nearest number of the type of ``to`` bits, in a register of ``held`` bits."""
    x = signed(x, w) if s else x
    low, high = (-(1 << to - 1), (1 << to - 1) - 1) if to_signed else (0, (1 << to) - 1)
    return max(low, min(high, x)) & (1 << held) - 1


def _clamped(a: int, b: int, sign: int) -> int:
    """add.sat.s32, or sub.sat.s32 where the sign is -1."""
    return max(-(1 << 31), min((1 << 31) - 1, signed(a, 32) + sign * signed(b, 32))) & 0xFFFFFFFF


#: A bit that no address in shared memory has.
_BEYOND = 1 << WINDOW - 1


def _lifted(f: Callable[..., Any]) -> Callable[..., Any]:
    def on_anything(*args: Any) -> Any:
        for a in args:
            if a.__class__ not in INTS:
                return lift(f, *args)
        return f(*args)

    return on_anything


def _on_bits(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of bits: of sizes without a number it is known for their numbers only."""
    return _lifted(lambda *args: f(*map(_count, args)))


udiv, urem, sdiv, srem = _lifted(_udiv), _lifted(_urem), _lifted(_sdiv), _lifted(_srem)
shl, shr, sar, shf = _lifted(_shl), _lifted(_shr), _lifted(_sar), _lifted(_shf)
bfe, bfi, prmt, lop3, brev = _lifted(_bfe), _lifted(_bfi), _on_bits(_prmt), _lifted(_lop3), _on_bits(_brev)
bfind, mul_hi = _on_bits(_bfind), _lifted(_mul_hi)


def _numbers_only(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers: of sizes without one it is data."""
    return _lifted(lambda *args: f(*args) if all(a.__class__ in INTS for a in args) else OF_SIZES)


sad, mul24 = _numbers_only(_sad), _numbers_only(_mul24)
fns = _numbers_only(_fns)
bmsk, szext, dot = _numbers_only(_bmsk), _numbers_only(_szext), _numbers_only(_dot)
#: A rank of a block as the byte that addresses have for it: 255, which no cluster has, for what is larger.
rank_byte = _lifted(lambda a: min(a, 255) if a.__class__ in INTS else a)
#: An address in shared memory that comes of a generic one: beyond the window's 32 bits it lies nowhere.
in_window = _lifted(lambda a: a | _BEYOND if a.__class__ in INTS and a >> 32 else a)
saturated, clamped = _numbers_only(_saturated), _numbers_only(_clamped)
umin, umax, smin, smax = _lifted(min), _lifted(max), _lifted(_smin), _lifted(_smax)
popc = _on_bits(int.bit_count)
clz = _on_bits(lambda a, w: w - a.bit_length())
sabs = _lifted(lambda a, w: abs(signed(a, w)) & (1 << w) - 1)
_equal = _lifted(lambda a, b: a == b)


def equal(a: Any, b: Any) -> Any:
    """Whether two registers hold the same, lane by lane."""
    if a.__class__ is PerLane or b.__class__ is PerLane:
        return lift_operator(_plain_equal, a, b)
    return _plain_equal(a, b)


def _plain_equal(a: Any, b: Any) -> Any:
    for x, other in ((a, b), (b, a)):
        if isinstance(x, Unknown):
            if is_choice(x) and other.__class__ in INTS:
                return x ^ 1 - other if other in (0, 1) else 0
            return x.derived()
        found = x.is_bit(other) if other.__class__ is int and hasattr(x, "is_bit") else None
        if found is not None:
            return found
    return a == b


# ---------------------------------------------------------------- questions


_FORMATS = {16: "<e", 32: "<f", 64: "<d"}
_TESTS: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b and a == a and b == b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "equ": lambda a, b: not (a < b or a > b),
    "neu": lambda a, b: a != b,
    "ltu": lambda a, b: not a >= b,
    "leu": lambda a, b: not a > b,
    "gtu": lambda a, b: not a <= b,
    "geu": lambda a, b: not a < b,
    "num": lambda a, b: a == a and b == b,
    "nan": lambda a, b: a != a or b != b,
}
FLOAT_TESTS = frozenset(_TESTS)


def float_test(test: str, a: Any, b: Any, w: int) -> Any:
    """A comparison of floating-point numbers given by their bits."""
    if a.__class__ in INTS and b.__class__ in INTS:
        return int(_TESTS[test](_float(a, w), _float(b, w)))
    if a.__class__ is Unknown and a.key is not None and b.__class__ in INTS:
        opposite = {"ne": "equ", "neu": "eq"}.get(test)
        return choice(a.why, a.source, (a.key, opposite or test, b, w, opposite is not None))
    if a.__class__ is PerLane or b.__class__ is PerLane:
        return lift(lambda x, y: float_test(test, x, y, w), a, b)
    missing = next((x for x in (a, b) if isinstance(x, Unknown)), AS_FLOAT)
    return missing.derived()


def float_product(a: Any, b: Any, flushed: bool) -> Any:
    """The product of two f32 given by their bits, to nearest: exact in Python's numbers, then rounded once.
    A sum that it goes into may become one instruction with it: such sums are data."""
    if a.__class__ in INTS and b.__class__ in INTS:
        x, y = _flushed(_float(a, 32), flushed), _flushed(_float(b, 32), flushed)
        found = _flushed(c_float(x * y).value, flushed)
        return 0x7FFFFFFF if found != found else int.from_bytes(pack("<f", found), "little")
    if a.__class__ is PerLane or b.__class__ is PerLane:
        return lift(lambda x, y: float_product(x, y, flushed), a, b)
    missing = next((x for x in (a, b) if isinstance(x, Unknown)), AS_FLOAT)
    return missing.derived()


def _flushed(x: float, flushed: bool) -> float:
    """Zero of the same sign for a number below the smallest normal one."""
    return copysign(0.0, x) if flushed and abs(x) < 2.0**-126 else x


def _float(bits: int, w: int) -> float:
    return float(unpack(_FORMATS[w], bits.to_bytes(w // 8, "little"))[0])


def is_null(a: Any, b: Any) -> Any:
    """``equal`` of 64-bit values: whether a pointer is null has one answer for a whole launch."""
    if a.__class__ is Unknown and a.key is not None and b.__class__ in INTS and not b:
        return choice(a.why, a.source, (a.key, "null", 0, 64, False))
    return equal(a, b)


def _chosen(p: Unknown, a: Any, b: Any) -> Any:
    """One of two values where the choice is not known: the answer itself, if they are 1 and 0."""
    if is_choice(p) and a.__class__ in INTS and b.__class__ in INTS and {a, b} == {0, 1}:
        return p if a else p ^ 1
    return p.derived()


def select(p: Any, a: Any, b: Any) -> Any:
    """``a`` where ``p`` holds, else ``b``."""
    if p.__class__ in INTS:
        return a if p else b
    if a is b or (a.__class__ in INTS and b.__class__ in INTS and a == b):
        return a
    if hasattr(p, "is_bit"):  # a Size, which is made of what is here
        return p.chosen(a, b)
    if p.__class__ is not PerLane:
        if a.__class__ is not PerLane and b.__class__ is not PerLane:
            return _chosen(p, a, b)
        p_lanes: tuple[Any, ...] = (p,) * WARP
    else:
        p_lanes = p.lanes
    return per_lane([select(q, x, y) for q, x, y in zip(p_lanes, lanes_of(a), lanes_of(b), strict=True)])


# ---------------------------------------------------------------- across lanes


def _untold(of: Sequence[Any]) -> Unknown:
    """What lanes make of values of which one at least has no number: nothing is known of it."""
    return next((v.derived() for v in of if isinstance(v, Unknown)), AMONG_LANES)


def _alike(of: Sequence[Any]) -> bool:
    """Whether lanes hold one value, whatever it is: a size without a number, or a choice for all of them."""
    first = of[0]
    held = not isinstance(first, Unknown) or is_choice(first)
    return held and all(v is first for v in of)


def shfl(mode: str, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """shfl.sync: what each lane receives, and whether its source was within its segment."""
    if a.__class__ not in INTS or b.__class__ not in INTS or c.__class__ not in INTS:
        values, steps, limits = lanes_of(a), lanes_of(b), lanes_of(c)
    else:
        values, steps, limits = (a,) * WARP, (b,) * WARP, (c,) * WARP
    out: list[Any] = []
    inside: list[Any] = []
    for lane in range(WARP):
        step, limit = steps[lane], limits[lane]
        if step.__class__ not in INTS or limit.__class__ not in INTS:
            out.append(_untold((step, limit)))
            inside.append(out[-1])
            continue
        j, ok = source_lane(mode, lane, step & 31, limit)
        out.append(values[j if ok else lane])
        inside.append(int(ok))
    return per_lane(out), per_lane(inside)


def source_lane(mode: str, lane: int, step: int, limit: int) -> tuple[int, bool]:
    """PTX ISA, shfl.sync: the source lane and whether it is in range."""
    clamp, segment = limit & 31, limit >> 8 & 31
    highest = lane & segment | clamp & ~segment
    lowest = lane & segment
    if mode == "up":
        j = lane - step
        return j, j >= highest
    if mode == "down":
        j = lane + step
    elif mode == "bfly":
        j = lane ^ step
    else:
        j = lowest | step & ~segment
    return j, j <= highest


def vote(mode: str, p: Any, mask: Any, live: int) -> Any:
    """vote.sync over the lanes of ``mask`` that exist (``live``)."""
    if mask.__class__ not in INTS:
        return _untold((mask,))
    lanes = [v for i, v in enumerate(lanes_of(p)) if mask & live & 1 << i]
    known = [v for v in lanes if v.__class__ in INTS]
    missing = [v for v in lanes if v.__class__ not in INTS]
    if mode == "any" and any(known):
        return 1
    if mode == "all" and not all(known):
        return 0
    if missing:
        return _vote_on(mode, missing, len(known), mask & live)
    if mode == "ballot":
        # lanes outside of the mask may hold what has no truth value: they are not asked
        return sum(1 << i for i, v in enumerate(lanes_of(p)) if mask & live & 1 << i and v)
    if mode == "uni":
        return int(len({bool(v) for v in known}) <= 1)
    return int(all(known) if mode == "all" else any(known))


def _vote_on(mode: str, missing: Sequence[Any], known: int, voters: int) -> Any:
    """The vote where some lanes' bits have no number, and the ``known`` others leave it to these."""
    if not _alike(missing):
        return _untold(missing)
    if mode in ("any", "all"):
        return missing[0]
    if known:
        return _untold(missing)
    return 1 if mode == "uni" else missing[0] * voters


def match(mode: str, a: Any, mask: Any, live: int) -> tuple[Any, Any]:
    """match.sync: which lanes of ``mask`` hold each lane's value (``any``), or all of them if all hold one
    (``all``), and whether they do."""
    if mask.__class__ not in INTS:
        found = _untold((mask,))
        return found, found
    values = lanes_of(a)
    inside = [i for i in range(WARP) if mask & live & 1 << i]
    if not inside:
        return ELSEWHERE, ELSEWHERE
    held = [values[i] for i in inside]
    if any(v.__class__ not in INTS for v in held):
        if _alike(held):
            return mask & live, 1
        found = _untold(held)
        return found, found
    if mode == "all":
        same = len(set(held)) == 1
        return (mask & live if same else 0), int(same)
    groups: dict[int, int] = {}
    for i in inside:
        groups[values[i]] = groups.get(values[i], 0) | 1 << i
    return per_lane([groups.get(values[i], ELSEWHERE) if i in inside else ELSEWHERE for i in range(WARP)]), 1


_REDUCE: dict[str, Callable[[list[int]], int]] = {
    "add": lambda v: sum(v) & 0xFFFFFFFF,
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda v: min(v, key=lambda x: signed(x, 32)),
    "max.s32": lambda v: max(v, key=lambda x: signed(x, 32)),
}


def redux(op: str, a: Any, mask: Any, live: int) -> Any:
    """redux.sync of integers."""
    if mask.__class__ not in INTS:
        return _untold((mask,))
    lanes = [v for i, v in enumerate(lanes_of(a)) if mask & live & 1 << i]
    if not lanes:
        return ELSEWHERE
    if any(v.__class__ not in INTS for v in lanes):
        return _redux_of(op, lanes)
    if op in ("and", "or", "xor"):
        total = lanes[0]
        for v in lanes[1:]:
            total = total & v if op == "and" else total | v if op == "or" else total ^ v
        return total
    return _REDUCE[op](lanes)


def _redux_of(op: str, lanes: Sequence[Any]) -> Any:
    """The same of values of which one at least has no number."""
    if not _alike(lanes):
        return _untold(lanes)
    if op == "add":
        return lanes[0] * len(lanes) & 0xFFFFFFFF
    return lanes[0] if op != "xor" or len(lanes) % 2 else 0
