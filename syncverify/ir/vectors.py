"""Index expressions for many blocks or threads at once: arrays of numbers in place of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from syncverify.ir.expr import ARITHMETIC, COMPARISONS, Binary, Call, Expr, Int, Unary, Var


def _counted(holds: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: holds(a, b) * 1


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **ARITHMETIC,
    **{op: _counted(holds) for op, holds in COMPARISONS.items()},
    "and": lambda a, b: (np.not_equal(a, 0) & np.not_equal(b, 0)) * 1,
    "or": lambda a, b: (np.not_equal(a, 0) | np.not_equal(b, 0)) * 1,
}


def evaluate_all(e: Expr, env: Mapping[str, Any]) -> Any:
    """The values of an index expression: an int, or an array with one number for each.

    Raises KeyError for a name without a value and ZeroDivisionError where one int is divided by zero; an
    array's element that is divided by zero becomes 0, as NumPy has it.
    """
    match e:
        case Int(v):
            return v
        case Var(name):
            return env[name]
        case Unary("-", a):
            return -evaluate_all(a, env)
        case Unary("~", a):
            return ~evaluate_all(a, env)
        case Unary("not", a):
            return np.equal(evaluate_all(a, env), 0) * 1
        case Binary(op, a, b) if op in _BINARY:
            return _BINARY[op](evaluate_all(a, env), evaluate_all(b, env))
        case Call("min", args):
            return reduce(np.minimum, (evaluate_all(a, env) for a in args))
        case Call("max", args):
            return reduce(np.maximum, (evaluate_all(a, env) for a in args))
        case Call("abs", (a,)):
            return abs(evaluate_all(a, env))
        case Call("cdiv", (a, b)):
            return -(-evaluate_all(a, env) // evaluate_all(b, env))
        case Call("select", (c, a, b)):
            return np.where(np.not_equal(evaluate_all(c, env), 0), evaluate_all(a, env), evaluate_all(b, env))
    raise TypeError(f"not an index expression: {e}")
