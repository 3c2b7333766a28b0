"""Floating-point instructions (PTX ISA, 9.7.3 to 9.7.5): exact where the ISA is, else the nearest number.

``add``, ``sub``, ``mul``, ``fma``, ``div.rn``, ``rcp.rn`` and ``sqrt.rn`` round once. What the ISA calls
approximate (``ex2.approx``, ``div.full``) is given to the last bit: no kernel may rely on less or on more.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from syncverify.simulate.ptx.rounding import (
    FORMATS,
    NAN_BITS,
    flushed,
    from_bits,
    odd,
    rounded,
    to_bits,
    two_sum,
)
from syncverify.simulate.ptx.types import Lanes

Operation = Callable[..., Lanes]
_MODES = frozenset({"rn", "rz", "rm", "rp"})
#: Elements of packed types.
ELEMENT = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32"}


def mode_of(mods: tuple[str, ...]) -> str:
    return next((m for m in mods if m in _MODES), "rn")


def packed(kind: str, of: Operation) -> Operation:
    """An operation on the two elements of a packed type."""
    element = np.dtype(f"u{FORMATS[ELEMENT[kind]].bits // 8}")
    whole = np.dtype(f"u{FORMATS[ELEMENT[kind]].bits // 4}")

    def both(*operands: Lanes) -> Lanes:
        return np.ascontiguousarray(of(*(np.ascontiguousarray(x).view(element) for x in operands))).view(
            whole
        )

    return both


#: Sums, of which an exact zero is negative when rounding goes down, unless both parts are positive zeros.
_SUMS = frozenset({"add", "sub", "fma", "mad"})


def _negative_zero(op: str, total: Lanes, error: Lanes, values: list[Lanes]) -> Lanes:
    first = values[0] * values[1] if op in ("fma", "mad") else values[0]
    second = -values[1] if op == "sub" else values[-1]
    zero = (total == 0) & (error == 0) & (np.signbit(first) | np.signbit(second))
    return np.where(zero, -0.0, total)


def _exact(op: str, kind: str, mods: tuple[str, ...], of: Callable[..., tuple[Lanes, Lanes]]) -> Operation:
    """An operation given as nearest ``float64`` and its error, rounded once to the format."""
    mode = mode_of(mods)
    form = FORMATS[kind]
    ftz, sat, relu = "ftz" in mods, "sat" in mods, "relu" in mods

    def run(*operands: Lanes) -> Lanes:
        values = [from_bits(x, kind) for x in operands]
        if ftz:
            values = [flushed(v, kind) for v in values]
        total, error = of(*values)
        if mode == "rm" and op in _SUMS:
            total = _negative_zero(op, total, error, values)
        if kind == "f64":
            out = _directed(total, error, mode)
        else:
            out = rounded(odd(total, error), form, mode)
        if ftz:
            out = flushed(out, kind)
        if sat:
            out = np.where(np.isnan(out), 0.0, np.clip(out, 0.0, 1.0) + 0.0)  # of both zeros the positive
        if relu:
            out = np.where(out <= 0, 0.0, out)
        return to_bits(out, kind)

    return run


def _directed(total: Lanes, error: Lanes, mode: str) -> Lanes:
    """``float64`` moved from the nearest to the directed neighbour."""
    if mode == "rn":
        return total
    down = error < 0
    if mode == "rz":
        step = ((total > 0) & down) | ((total < 0) & (error > 0))
        return np.where(step, np.nextafter(total, 0.0), total)
    if mode == "rm":
        return np.where(down, np.nextafter(total, -np.inf), total)
    return np.where(error > 0, np.nextafter(total, np.inf), total)


def _product(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """A product of ``float64`` and its error, by exact fractions where 53 bits may not do."""
    total = a * b
    error = np.zeros_like(total)
    wide = ((a.view(np.uint64) | b.view(np.uint64)) & np.uint64((1 << 26) - 1)) != 0
    small = (np.abs(total) < 2.0**-960) & (a != 0) & (b != 0)
    error = np.where(np.isinf(total) & np.isfinite(a) & np.isfinite(b), -np.sign(total), error)
    for i in np.flatnonzero((wide | small) & np.isfinite(total) & np.isfinite(a) & np.isfinite(b)):
        lost = Fraction(float(a.flat[i])) * Fraction(float(b.flat[i])) - Fraction(float(total.flat[i]))
        error.flat[i] = _sign(lost)
    return total, error


def _sign(x: Fraction) -> float:
    return float((x > 0) - (x < 0))


def _multiply_add(a: Lanes, b: Lanes, c: Lanes) -> tuple[Lanes, Lanes]:
    product, lost = _product(a, b)
    total, error = two_sum(product, c)
    for i in np.flatnonzero(lost != 0):
        exact = Fraction(float(a.flat[i])) * Fraction(float(b.flat[i]))
        if np.isfinite(c.flat[i]) and np.isfinite(product.flat[i]):
            exact += Fraction(float(c.flat[i]))
            total.flat[i] = float(exact)  # nearest
            error.flat[i] = _sign(exact - Fraction(float(total.flat[i])))
    return total, error


def _no_error(of: Callable[..., Lanes]) -> Callable[..., tuple[Lanes, Lanes]]:
    def run(*values: Lanes) -> tuple[Lanes, Lanes]:
        out = of(*values)
        return out, np.zeros_like(out)

    return run


def _quotient(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    total = a / b
    error = np.where(np.isinf(total) & np.isfinite(a) & (b != 0), -np.sign(total), 0.0)
    for i in np.flatnonzero(np.isfinite(total) & (b != 0) & np.isfinite(b)):
        x, y, q = (Fraction(float(v.flat[i])) for v in (a, b, total))
        error.flat[i] = _sign(x / y - q)
    return total, error


def _root(a: Lanes) -> tuple[Lanes, Lanes]:
    total = np.sqrt(a)
    error = np.zeros_like(total)
    for i in np.flatnonzero(np.isfinite(total)):
        q = Fraction(float(total.flat[i]))
        error.flat[i] = _sign(Fraction(float(a.flat[i])) - q * q)
    return total, error


def _inverse(a: Lanes) -> tuple[Lanes, Lanes]:
    return _quotient(np.ones_like(a), a)


#: What takes one rounding, as nearest and error.
_ROUNDED: dict[str, Callable[..., tuple[Lanes, Lanes]]] = {
    "add": two_sum,
    "sub": lambda a, b: two_sum(a, -b),
    "mul": _product,
    "fma": _multiply_add,
    "mad": _multiply_add,
    "div": _quotient,
    "rcp": _inverse,
    "sqrt": _root,
}
_APPROXIMATE: dict[str, Callable[..., Lanes]] = {
    "div": lambda a, b: a / b,
    "rcp": lambda a: 1.0 / a,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1.0 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


_NATIVE: dict[str, Callable[..., Lanes]] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def _native(of: Callable[..., Lanes]) -> Operation:
    """NumPy's own arithmetic of ``float32``, which rounds to nearest as well."""

    def run(a: Lanes, b: Lanes) -> Lanes:
        out = of(a.view(np.float32), b.view(np.float32))
        return np.where(np.isnan(out), np.uint32(NAN_BITS["f32"]), out.view(np.uint32))

    return run


def arithmetic(op: str, kind: str, mods: tuple[str, ...]) -> Operation | None:
    """The operation of an opcode on elements of ``kind``; None if there is none."""
    if kind in ELEMENT:
        inner = arithmetic(op, ELEMENT[kind], mods)
        return None if inner is None else packed(kind, inner)
    if ("approx" in mods or "full" in mods or op not in _ROUNDED) and op in _APPROXIMATE:
        return _exact(op, kind, mods, _no_error(_APPROXIMATE[op]))
    if kind == "f32" and op in _NATIVE and not _MODES.union(("ftz", "sat")).difference({"rn"}) & set(mods):
        return _native(_NATIVE[op])
    if op in _ROUNDED:
        return _exact(op, kind, mods, _ROUNDED[op])
    if op in ("min", "max"):
        return _extreme(op, kind, mods)
    if op in ("abs", "neg"):
        return _sign_bit(op, kind, "ftz" in mods)
    if op == "copysign":
        top = _top(kind)
        return lambda a, b: (a & top) | (b & ~top)
    return None


def _top(kind: str) -> Lanes:
    """The sign bit's position, as mask in the type of the bits: sign bit set."""
    bits = FORMATS[kind].bits
    return np.array(1 << (bits - 1), f"u{bits // 8}")


def _sign_bit(op: str, kind: str, ftz: bool) -> Operation:
    top = _top(kind)

    def run(a: Lanes) -> Lanes:
        out = a & ~top if op == "abs" else a ^ top
        return to_bits(flushed(from_bits(out, kind), kind), kind) if ftz else out

    return run


def _extreme(op: str, kind: str, mods: tuple[str, ...]) -> Operation:
    """A NaN loses against a number, unless ``.NaN``; -0 is less than +0."""
    nan, ftz, xorsign = "NaN" in mods, "ftz" in mods, "xorsign" in mods
    top = _top(kind)

    def run(a: Lanes, b: Lanes) -> Lanes:
        sign = (a ^ b) & top
        if xorsign:
            a, b = a & ~top, b & ~top
        x, y = from_bits(a, kind), from_bits(b, kind)
        if ftz:
            x, y = flushed(x, kind), flushed(y, kind)
        before = (x < y) | ((x == y) & np.signbit(x) & ~np.signbit(y))
        first = before if op == "min" else ~before
        out = np.where(first, x, y)
        out = np.where(np.isnan(x), y, np.where(np.isnan(y), x, out))
        if nan:
            out = np.where(np.isnan(x) | np.isnan(y), np.nan, out)
        bits = to_bits(out, kind)
        return (bits & ~top) | sign if xorsign else bits

    return run


def compare(kind: str, how: str, ftz: bool) -> Operation | None:
    """Comparisons; the ones with ``u`` hold if an operand is NaN."""
    unordered = how.endswith("u") and how != "nu"
    base = how[:-1] if unordered else how
    table: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
        "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
        "ge": np.greater_equal,
    }  # fmt: skip

    def run(a: Lanes, b: Lanes) -> Lanes:
        x, y = from_bits(a, kind), from_bits(b, kind)
        if ftz:
            x, y = flushed(x, kind), flushed(y, kind)
        either = np.isnan(x) | np.isnan(y)
        if how == "num":
            return ~either
        if how == "nan":
            return either
        holds = table[base](x, y)
        return holds | either if unordered else holds & ~either

    return run if base in table or how in ("num", "nan") else None


def test_property(kind: str, what: str) -> Operation | None:
    form = FORMATS[kind]

    def run(a: Lanes) -> Lanes:
        x = from_bits(a, kind)
        match what:
            case "finite":
                return np.isfinite(x)
            case "infinite":
                return np.isinf(x)
            case "number":
                return ~np.isnan(x)
            case "notanumber":
                return np.isnan(x)
            case "normal":
                return np.isfinite(x) & ((np.abs(x) >= 2.0**form.least) | (x == 0))
        return (x != 0) & (np.abs(x) < 2.0**form.least)

    known = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    return run if what in known else None


def canonical_nan(kind: str) -> int:
    return NAN_BITS[kind]
