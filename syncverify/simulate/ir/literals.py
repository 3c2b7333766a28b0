"""Value expressions read as integers, for words of global memory that blocks spin on."""

from __future__ import annotations

from syncverify.ir.expr import Binary, Expr, Float, Int, Unary


def literal(e: Expr) -> Expr:
    """The expression with whole floats as integers."""
    match e:
        case Float(v) if v == int(v):
            return Int(int(v))
        case Unary(op, a):
            return Unary(op, literal(a))
        case Binary(op, a, b):
            return Binary(op, literal(a), literal(b))
    return e
