"""Conditions, slots and parities as the rings of a kernel have them."""

from __future__ import annotations

from collections.abc import Callable

from syncverify.checker.prover.rings.linear import Lin, OutsideError, linear, num
from syncverify.ir.expr import Binary, Call, Expr, Int, Unary
from syncverify.ir.text.printed_expressions import print_expr

#: Whether a part that is not linear may stand for any number.
Opaque = Callable[[Expr], bool]


def simple(e: Expr) -> Expr:
    """A condition without parts that are decided."""
    match e:
        case Binary("and", a, b):
            x, y = simple(a), simple(b)
            if x == Int(0) or y == Int(0):
                return Int(0)
            return y if isinstance(x, Int) else x if isinstance(y, Int) else Binary("and", x, y)
        case Binary("or", a, b):
            x, y = simple(a), simple(b)
            for p, q in ((x, y), (y, x)):
                if isinstance(p, Int):
                    return Int(1) if p.value else q
            return Binary("or", x, y)
        case Unary("not", a):
            x = simple(a)
            return Int(int(not x.value)) if isinstance(x, Int) else Unary("not", x)
    return e


def alternatives(call: str, e: Expr) -> list[Expr]:
    """The arguments of a ``min`` or ``max``, or the expression alone."""
    return (
        [p for a in e.args for p in alternatives(call, a)] if isinstance(e, Call) and e.name == call else [e]
    )


def is_linear(e: Expr) -> bool:
    try:
        linear(e)
    except OutsideError:
        return False
    return True


def multiple(d: Lin, depth: Lin) -> int | None:
    """How many times ``depth`` the form is."""
    if not d.terms and not d.const:
        return 0
    for t in (1, -1, 2, -2, 3, -3):
        if depth.scaled(t) == d:
            return t
    if not depth.terms and not d.terms and depth.const and d.const % depth.const == 0:
        return d.const // depth.const
    return None


def parity(e: Expr, opaque: Opaque) -> tuple[Lin | None, Lin, int]:
    """A parity as ``(base div per + odd) mod 2``; no base for a number."""
    match e:
        case Int(v) if v in (0, 1):
            return None, num(1), v
        case Binary("^", a, Int(1)) | Binary("^", Int(1), a) | Binary("-", Int(1), a):
            base, per, odd = parity(a, opaque)
            return base, per, odd + 1
        case Binary("%", a, Int(2)) | Binary("&", a, Int(1)):
            return turn(a, opaque)
        case Binary("==", a, Int(0)) | Unary("not", a):
            base, per, odd = parity(a, opaque)
            return base, per, odd + 1
    raise OutsideError(f"{print_expr(e)} is no parity of a turn")


def turn(e: Expr, opaque: Opaque) -> tuple[Lin | None, Lin, int]:
    """``base div per + odd``, where the number that is divided by 2 is one quotient plus a number."""
    match e:
        case Binary("//", a, d):
            return linear(a, opaque), linear(d, opaque), 0
        case Binary("+", a, Int(v)) | Binary("+", Int(v), a):
            base, per, odd = turn(a, opaque)
            return base, per, odd + v
        case Binary("-", a, Int(v)):
            base, per, odd = turn(a, opaque)
            return base, per, odd - v
        case Binary("^", a, Int(1)):
            base, per, odd = turn(a, opaque)
            return base, per, odd + 1
        case Binary("%", a, Int(2)) | Binary("&", a, Int(1)):
            return turn(a, opaque)
    found = linear(e, opaque)
    if not found.terms:
        return None, num(1), found.const
    return found, num(1), 0
