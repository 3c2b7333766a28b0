"""Expressions of the kernel IR: integers that steer, and values that are computed.

One tree serves both. *Index* expressions (loop bounds, indices, parities, guards) are over
mathematical integers with floor division; *value* expressions (``compute``) are elementwise over
value registers. The IR verifier keeps them apart.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Number = int | float

#: Integer names every kernel has. ``tid`` is linear (x fastest), ``rank`` the CTA's rank in its cluster.
BUILTINS = frozenset(
    {
        "tid", "tid.x", "tid.y", "tid.z", "warp", "lane", "wg", "rank",
        "block", "block.x", "block.y", "block.z", "grid", "grid.x", "grid.y", "grid.z",
    }
)  # fmt: skip
#: Builtins whose value differs between lanes of one warp (tid.x/y/z may, depending on the block shape).
LANE_BUILTINS = frozenset({"tid", "tid.x", "tid.y", "tid.z", "lane"})

BINARY_OPS = ("+", "-", "*", "/", "//", "%", "<<", ">>", "&", "|", "^",
              "==", "!=", "<", "<=", ">", ">=", "and", "or")  # fmt: skip
UNARY_OPS = ("-", "not", "~")
INDEX_CALLS = ("min", "max", "cdiv", "select", "abs")
VALUE_CALLS = (
    "exp", "exp2", "log", "log2", "sin", "cos", "tanh", "sqrt", "rsqrt", "abs", "neg", "erf", "sigmoid",
    "relu", "min", "max", "pow", "floor", "ceil", "select", "fma", "cast.f32", "cast.bf16", "cast.f16",
    "cast.i32", "cast.e4m3", "cast.e5m2", "log1p", "expm1", "round", "trunc", "pairs", "philox",
    "reduce.add", "reduce.max", "reduce.min", "iota",
)  # fmt: skip


class Expr:
    """Base of all expressions; Python operators build trees."""

    __slots__ = ()

    def __add__(self, o: ExprLike) -> Expr:
        return Binary("+", self, as_expr(o))

    def __radd__(self, o: ExprLike) -> Expr:
        return Binary("+", as_expr(o), self)

    def __sub__(self, o: ExprLike) -> Expr:
        return Binary("-", self, as_expr(o))

    def __rsub__(self, o: ExprLike) -> Expr:
        return Binary("-", as_expr(o), self)

    def __mul__(self, o: ExprLike) -> Expr:
        return Binary("*", self, as_expr(o))

    def __rmul__(self, o: ExprLike) -> Expr:
        return Binary("*", as_expr(o), self)

    def __truediv__(self, o: ExprLike) -> Expr:
        return Binary("/", self, as_expr(o))

    def __rtruediv__(self, o: ExprLike) -> Expr:
        return Binary("/", as_expr(o), self)

    def __floordiv__(self, o: ExprLike) -> Expr:
        return Binary("//", self, as_expr(o))

    def __mod__(self, o: ExprLike) -> Expr:
        return Binary("%", self, as_expr(o))

    def __xor__(self, o: ExprLike) -> Expr:
        return Binary("^", self, as_expr(o))

    def __and__(self, o: ExprLike) -> Expr:
        return Binary("&", self, as_expr(o))

    def __lt__(self, o: ExprLike) -> Expr:
        return Binary("<", self, as_expr(o))

    def __le__(self, o: ExprLike) -> Expr:
        return Binary("<=", self, as_expr(o))

    def __gt__(self, o: ExprLike) -> Expr:
        return Binary(">", self, as_expr(o))

    def __ge__(self, o: ExprLike) -> Expr:
        return Binary(">=", self, as_expr(o))

    def __neg__(self) -> Expr:
        return Unary("-", self)

    def eq(self, o: ExprLike) -> Expr:
        """Equality as an expression (``==`` stays structural, so that nodes compare and hash)."""
        return Binary("==", self, as_expr(o))

    def ne(self, o: ExprLike) -> Expr:
        return Binary("!=", self, as_expr(o))


@dataclass(frozen=True, slots=True)
class Int(Expr):
    value: int


@dataclass(frozen=True, slots=True)
class Float(Expr):
    value: float

    def __post_init__(self) -> None:
        if self.value != self.value:
            object.__setattr__(self, "value", math.nan)  # one object, so that equal texts are equal trees


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A parameter, loop variable, integer register, value register or builtin, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """``//`` and ``%`` floor; comparisons, ``and`` and ``or`` give 0 or 1; ``/`` is for values only."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """``min max cdiv select abs`` on integers; the functions of ``VALUE_CALLS`` on values."""

    name: str
    args: tuple[Expr, ...]


ExprLike = Expr | int | float


def as_expr(x: ExprLike) -> Expr:
    """A number or an expression, as an expression."""
    if isinstance(x, Expr):
        return x
    if isinstance(x, bool):
        return Int(int(x))
    if isinstance(x, int):
        return Int(x)
    return Float(float(x))


def children(e: Expr) -> tuple[Expr, ...]:
    match e:
        case Unary(_, a):
            return (a,)
        case Binary(_, a, b):
            return (a, b)
        case Call(_, args):
            return args
    return ()


def walk(e: Expr) -> Iterator[Expr]:
    """The expression and everything below it, parents first."""
    yield e
    for c in children(e):
        yield from walk(c)


def names(e: Expr) -> frozenset[str]:
    """Every name the expression reads."""
    return frozenset(x.name for x in walk(e) if isinstance(x, Var))


def substitute(e: Expr, values: Mapping[str, Expr]) -> Expr:
    """The expression with names replaced; unknown names stay."""
    match e:
        case Var(n):
            return values.get(n, e)
        case Unary(op, a):
            return Unary(op, substitute(a, values))
        case Binary(op, a, b):
            return Binary(op, substitute(a, values), substitute(b, values))
        case Call(n, args):
            return Call(n, tuple(substitute(a, values) for a in args))
    return e


#: What operators do to numbers, and to arrays of them.
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _counted(holds: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: int(holds(a, b))


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **ARITHMETIC,
    **{op: _counted(holds) for op, holds in COMPARISONS.items()},
    "and": lambda a, b: int(bool(a) and bool(b)),
    "or": lambda a, b: int(bool(a) or bool(b)),
}


def evaluate(e: Expr, env: Mapping[str, int]) -> int:
    """The integer value of an index expression.

    Raises KeyError for a name without a value and ZeroDivisionError for a zero divisor.
    """
    match e:
        case Int(v):
            return v
        case Var(n):
            return env[n]
        case Binary(op, a, b) if op in _BINARY:
            found: int = _BINARY[op](evaluate(a, env), evaluate(b, env))
            return found
        case Unary("-", a):
            return -evaluate(a, env)
        case Unary("~", a):
            return ~evaluate(a, env)
        case Unary("not", a):
            return int(not evaluate(a, env))
        case Call("min", args):
            return min(evaluate(a, env) for a in args)
        case Call("max", args):
            return max(evaluate(a, env) for a in args)
        case Call("abs", (a,)):
            return abs(evaluate(a, env))
        case Call("cdiv", (a, b)):
            return -(-evaluate(a, env) // evaluate(b, env))
        case Call("select", (c, a, b)):
            return evaluate(a, env) if evaluate(c, env) else evaluate(b, env)
    raise TypeError(f"not an index expression: {e}")
