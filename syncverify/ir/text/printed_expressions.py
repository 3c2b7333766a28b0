"""Expressions to text: that of an opaque expression is its name in forms."""

from __future__ import annotations

from syncverify.base.source import InputError
from syncverify.ir.expr import Binary, Call, Expr, Float, Int, Unary, Var
from syncverify.ir.text.statements import COMPARISON, NOT_PRECEDENCE, PRECEDENCE, UNARY_PRECEDENCE

#: Binds tighter than any operator.
ATOM = 100


def print_expr(e: Expr) -> str:
    """An expression outside brackets, where ``//`` stands in parentheses (it would start a comment)."""
    return _expr(e, inside=False)


def inside_brackets(e: Expr) -> str:
    """An expression inside brackets."""
    return _expr(e, inside=True)


def _level(e: Expr, *, inside: bool) -> int:
    """How tightly the text of an expression binds."""
    match e:
        case Binary("//") if not inside:
            return ATOM
        case Binary(op):
            return PRECEDENCE[op]
        case Unary("not"):
            return NOT_PRECEDENCE
        case Unary():
            return UNARY_PRECEDENCE
    return ATOM


def _expr(e: Expr, *, inside: bool) -> str:
    match e:
        case Int(v):
            return str(v)
        case Float(v):
            return repr(v)
        case Var(name):
            return name
        case Call(name, args):
            return f"{name}({', '.join(map(inside_brackets, args))})"
        case Unary("not", a):
            return f"not {wrapped(a, NOT_PRECEDENCE, inside=inside)}"
        case Unary("-", Int() | Float() as a):
            return f"-({inside_brackets(a)})"  # without parentheses it would be read as a negative literal
        case Unary(op, a):
            return op + wrapped(a, UNARY_PRECEDENCE, inside=inside)
        case Binary("//") if not inside:
            return f"({inside_brackets(e)})"
        case Binary(op, a, b):
            level = PRECEDENCE[op]
            left = level + 1 if level == COMPARISON else level
            return f"{wrapped(a, left, inside=inside)} {op} {wrapped(b, level + 1, inside=inside)}"
    raise InputError(f"not an expression: {e!r}")


def wrapped(e: Expr, least: int, *, inside: bool) -> str:
    """An expression, in parentheses where it binds less tightly than this."""
    return _expr(e, inside=inside) if _level(e, inside=inside) >= least else f"({inside_brackets(e)})"
