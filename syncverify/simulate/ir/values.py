"""Value expressions on NumPy arrays: one row per lane, computed in float32 like the hardware's registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from syncverify.base.source import InputError, Span
from syncverify.ir.expr import Binary, Call, Expr, Float, Int, Unary, Var
from syncverify.simulate.ir.philox import uniform

Array = NDArray[Any]

#: Storage types; arithmetic on narrow floats happens in float32.
DTYPES: dict[str, np.dtype[Any]] = {
    "f32": np.dtype(np.float32), "tf32": np.dtype(np.float32), "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16), "f64": np.dtype(np.float64),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "bool": np.dtype(np.bool_),
    "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32), "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8), "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64), "b8": np.dtype(np.uint8), "b16": np.dtype(np.uint16),
    "b32": np.dtype(np.uint32), "b64": np.dtype(np.uint64),
}  # fmt: skip
NARROW = {DTYPES[x] for x in ("f16", "bf16", "e4m3", "e5m2")}


#: The largest number of types to which conversions saturate (PTX ISA, cvt.satfinite).
_LARGEST = {DTYPES["e4m3"]: 448.0, DTYPES["e5m2"]: 57344.0}


def narrowed(x: Any, dtype: np.dtype[Any]) -> Array:
    """A value as it is stored."""
    found: Array = np.asarray(x)
    most = _LARGEST.get(dtype)
    if most is not None and found.dtype != dtype:
        found = np.clip(found.astype(np.float32), -most, most)
    return found.astype(dtype)


def widen(x: Array) -> Array:
    """Narrow floats as float32."""
    return x.astype(np.float32) if x.dtype in NARROW else x


def _is_float(x: Any) -> bool:
    return isinstance(x, float) or (isinstance(x, np.ndarray) and x.dtype.kind == "f")


def _promoted(a: Any, b: Any) -> tuple[Any, Any]:
    """Integers beside floats become float32, so that NumPy does not widen to float64."""
    if _is_float(a) and isinstance(b, np.ndarray) and b.dtype.kind in "iu":
        return a, b.astype(np.float32)
    if _is_float(b) and isinstance(a, np.ndarray) and a.dtype.kind in "iu":
        return a.astype(np.float32), b
    return a, b


def _f32(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x.astype(np.float32) if x.dtype.kind in "iub" else x
    return np.float32(x)


_erf = np.frompyfunc(math.erf, 1, 1)

_UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": lambda x: np.asarray(_erf(x)).astype(np.float32),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "floor": np.floor, "ceil": np.ceil,
    "log1p": np.log1p, "expm1": np.expm1, "round": np.rint, "trunc": np.trunc,
}  # fmt: skip
_EXACT: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs, "neg": np.negative, "relu": lambda x: np.maximum(x, 0),
    "cast.f32": _f32,
    "cast.bf16": lambda x: np.asarray(x).astype(ml_dtypes.bfloat16).astype(np.float32),
    "cast.f16": lambda x: np.asarray(x).astype(np.float16).astype(np.float32),
    "cast.e4m3": lambda x: narrowed(x, DTYPES["e4m3"]).astype(np.float32),
    "cast.e5m2": lambda x: narrowed(x, DTYPES["e5m2"]).astype(np.float32),
    "cast.i32": lambda x: np.trunc(np.asarray(x)).astype(np.int32),
}  # fmt: skip
_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "and": lambda a, b: (np.asarray(a) != 0) & (np.asarray(b) != 0),
    "or": lambda a, b: (np.asarray(a) != 0) | (np.asarray(b) != 0),
}  # fmt: skip
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "reduce.add": np.sum, "reduce.max": np.max, "reduce.min": np.min
}  # fmt: skip
LOGICAL = frozenset({"==", "!=", "<", "<=", ">", ">=", "and", "or"})


def value(e: Expr, registers: Mapping[str, Array], env: Mapping[str, Any], span: Span) -> Any:
    """The expression for all lanes: a number, or an array of (lanes or 1, elements)."""
    match e:
        case Int(v):
            return v
        case Float(x):
            return float(x)
        case Var(name):
            if name in registers:
                return registers[name]
            if name in env:
                r = env[name]
                return r[:, None] if isinstance(r, np.ndarray) else r
            raise InputError(f"{name!r} has no value here", span)
        case Unary(op, a):
            x = value(a, registers, env, span)
            return -x if op == "-" else (np.asarray(x) == 0).astype(np.int32) if op == "not" else ~x
        case Binary(op, a, b):
            x, y = _promoted(value(a, registers, env, span), value(b, registers, env, span))
            if op == "/":
                with np.errstate(all="ignore"):
                    return _f32(x) / _f32(y)
            with np.errstate(all="ignore"):
                r = _OPS[op](x, y)
            return np.asarray(r).astype(np.int32) if op in LOGICAL else r
        case Call(name, args):
            return _call(name, [value(a, registers, env, span) for a in args], span)
    raise InputError("this is not a value expression", span)


def _call(name: str, xs: list[Any], span: Span) -> Any:
    with np.errstate(all="ignore"):
        if len(xs) == 1:
            if name in _UNARY:
                return _UNARY[name](_f32(xs[0]))
            if name in _EXACT:
                return _EXACT[name](xs[0])
            if name in _REDUCTIONS:
                return _REDUCTIONS[name](np.atleast_2d(np.asarray(_f32(xs[0]))), axis=1, keepdims=True)
        if name in ("min", "max") and xs:
            pick = np.minimum if name == "min" else np.maximum
            return reduce(lambda a, b: pick(*_promoted(a, b)), xs)
        if name == "pairs" and len(xs) == 1 and (odd := np.atleast_2d(np.asarray(xs[0])).shape[1]) % 2:
            raise InputError(f"pairs of {odd} elements", span)
        arguments, function = _FUNCTIONS.get(name, (-1, _pairs))
        if arguments == len(xs):
            return function(*xs)
    raise InputError(f"{name} with {len(xs)} arguments is not a function of values", span)


def _pow(x: Any, y: Any) -> Any:
    return np.power(_f32(x), _f32(y))


def _fma(x: Any, y: Any, z: Any) -> Any:
    """One rounding, as the instruction has."""
    a, b, c = (np.asarray(_f32(v)).astype(np.float64) for v in (x, y, z))
    return (a * b + c).astype(np.float32)


def _select(condition: Any, x: Any, y: Any) -> Any:
    a, b = _promoted(x, y)
    r = np.where(np.asarray(condition) != 0, a, b)
    return r.astype(np.float32) if r.dtype == np.float64 else r


def _cdiv(x: Any, y: Any) -> Any:
    return -(-x // y)


def _pairs(values: Any) -> Any:
    """Pairs of elements, turned by a right angle."""
    x = np.atleast_2d(np.asarray(values))
    return np.stack([-x[:, 1::2], x[:, ::2]], axis=-1).reshape(x.shape)


def _philox(seed: Any, offset: Any, first: Any, *shape: Any) -> Any:
    return uniform(first + _iota(*shape), seed, offset)


def _iota(count: Any, rows: Any, pitch: Any) -> Any:
    return (np.arange(int(rows))[:, None] * int(pitch) + np.arange(int(count))).reshape(1, -1)


#: Functions of a fixed number of arguments.
_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "pow": (2, _pow),
    "fma": (3, _fma),
    "select": (3, _select),
    "cdiv": (2, _cdiv),
    "pairs": (1, _pairs),
    "philox": (6, _philox),
    "iota": (3, _iota),
}


def combine(op: str, old: Array, new: Array) -> Array:
    """A reduction's result, in the stored type."""
    match op:
        case "add":
            return (widen(old) + widen(new)).astype(old.dtype)
        case "min":
            return np.minimum(old, new)
        case "max":
            return np.maximum(old, new)
        case "and":
            return old & new
        case "or":
            return old | new
        case "xor":
            return old ^ new
        case "inc":
            return np.where(old >= new, np.zeros_like(old), old + 1)
        case "dec":
            return np.where((old == 0) | (old > new), new, old - 1)
    return new.astype(old.dtype)
