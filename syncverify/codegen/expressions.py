"""Expressions of the kernel IR as CUDA C++."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from syncverify.base.source import InputError
from syncverify.codegen.rings import Key, Ring, parity_of, slot_of
from syncverify.ir.expr import Binary, Call, Expr, Float, Int, Unary, Var, children, walk

#: C++ precedence, tightest first; only what the emitter writes.
_PRECEDENCE = {
    "*": 12, "/": 12, "%": 12, "+": 11, "-": 11, "<<": 10, ">>": 10, "<": 9, "<=": 9, ">": 9, ">=": 9,
    "==": 8, "!=": 8, "&": 7, "^": 6, "|": 5, "&&": 4, "||": 3,
}  # fmt: skip
_ATOM, _UNARY, _TERNARY = 100, 14, 2

_BUILTINS = {
    "tid.x": "threadIdx.x", "tid.y": "threadIdx.y", "tid.z": "threadIdx.z",
    "block.x": "blockIdx.x", "block.y": "blockIdx.y", "block.z": "blockIdx.z",
    "grid.x": "gridDim.x", "grid.y": "gridDim.y", "grid.z": "gridDim.z",
}  # fmt: skip

_FUNCTIONS = {
    "exp": "expf", "exp2": "exp2f", "log": "logf", "log2": "log2f", "sin": "sinf", "cos": "cosf",
    "tanh": "tanhf",
    "sqrt": "sqrtf", "rsqrt": "rsqrtf", "abs": "fabsf", "erf": "erff", "pow": "powf", "floor": "floorf",
    "ceil": "ceilf", "fma": "fmaf", "min": "min_nan", "max": "max_nan", "log1p": "log1pf", "expm1": "expm1f",
    "round": "rintf", "trunc": "truncf",
    "cast.bf16": "rounded<bf16>", "cast.f16": "rounded<f16>", "cast.e4m3": "rounded<e4m3>",
    "cast.e5m2": "rounded<e5m2>", "sigmoid": "sigmoid",
}  # fmt: skip
#: Cheaper forms, and the most bits of a result whose rounding hides their relative error.
_FAST = {"exp": ("exp_fast", 11), "sigmoid": ("sigmoid_fast", 11), "tanh": ("tanh_fast", 8)}
#: The same of absolute errors, which are as small beside the constant of a sum and nowhere else.
_FAST_IN_SUMS = {"erf": ("erf_fast", 11)}

#: The same for quotients.
_DIVIDED = 11


@dataclass
class Names:
    """What the emitter knows of integer names: which are 64 bits wide, and which are never negative.

    ``widened``: 32-bit names that are to be computed with in 64 bits. ``rings``: counters that stand for
    slots and parities.
    """

    wide: set[str] = field(default_factory=set)
    natural: set[str] = field(default_factory=set)
    widened: frozenset[str] = frozenset()
    rings: dict[Key, Ring] = field(default_factory=dict)

    def copy(self) -> Names:
        return Names(set(self.wide), set(self.natural), self.widened, dict(self.rings))

    def ring(self, e: Expr) -> str | None:
        """The counter that an expression is."""
        parity, slot = parity_of(e), slot_of(e)
        if parity is not None and parity[0] in self.rings:
            name = self.rings[parity[0]].parity
            return None if name is None else f"({name} ^ 1)" if parity[1] else name
        return self.rings[slot].slot if slot is not None and slot in self.rings else None

    def is_wide(self, e: Expr) -> bool:
        return any(isinstance(x, Var) and x.name in self.wide for x in walk(e))

    def is_natural(self, e: Expr) -> bool:
        """Whether the expression is certainly at least 0, so that C's division floors."""
        match e:
            case Int(v):
                return v >= 0
            case Var(n):
                return (
                    n in self.natural or n in _BUILTINS or n in ("tid", "warp", "lane", "wg", "block", "grid")
                )
            case Binary("+" | "*" | "//" | "<<" | ">>" | "&", a, b):
                return self.is_natural(a) and self.is_natural(b)
            case Binary("%", _, Int(v)):
                return v > 0
            case Binary("%", _, b):
                return self.is_natural(b)
            case Binary(op, _, _):
                return op in ("==", "!=", "<", "<=", ">", ">=", "and", "or")
            case Unary("not", _):
                return True
            case Call("max", args):
                return any(self.is_natural(a) for a in args)
            case Call("min", args):
                return all(self.is_natural(a) for a in args)
            case Call("cdiv", (a, b)):
                return self.is_natural(a) and self.is_natural(b)
            case Call("select", (_, a, b)):
                return self.is_natural(a) and self.is_natural(b)
            case Call("abs", _):
                return True
        return False


def index(e: Expr, names: Names) -> str:
    """An integer expression; ``//`` and ``%`` become C's where operands cannot be negative."""
    return _index(e, names)[0]


def _index(e: Expr, names: Names) -> tuple[str, int]:
    ring = names.ring(e) if names.rings else None
    if ring is not None:
        return ring, _ATOM
    found: tuple[str, int] | None = None
    match e:
        case Int(v):
            return (f"{v}" if abs(v) < 2**31 else f"{v}LL"), _ATOM if v >= 0 else _UNARY
        case Var(n):
            if n in names.widened:
                return f"(long long){n}", _UNARY
            # PTX's special registers are unsigned; the IR's integers are not
            return (f"int({_BUILTINS[n]})" if n in _BUILTINS else n), _ATOM
        case Unary("-", a):
            return "-" + _at_least(_index(a, names), _ATOM), _UNARY
        case Unary("not", a):
            return "!" + _at_least(_index(a, names), _UNARY), _UNARY
        case Unary("~", a):
            return "~" + _at_least(_index(a, names), _UNARY), _UNARY
        case Binary("//" | "%" as op, a, b) if not (
            names.is_natural(a) and names.is_natural(b) and isinstance(b, Int)
        ):
            return _division(op, a, b, names), _ATOM
        case Binary(op, a, b):
            return _infix(
                {"//": "/", "and": "&&", "or": "||"}.get(op, op), _index(a, names), _index(b, names)
            )
        case Call():
            found = _index_call(e, names)
    if found is None:
        raise InputError(f"cannot write {e} as an integer expression of CUDA")
    return found


def _division(op: str, a: Expr, b: Expr, names: Names) -> str:
    """A quotient or remainder that is not C's own: it floors, or it is unsigned, which is shorter code."""
    natural = names.is_natural(a) and names.is_natural(b)
    function = {
        ("//", False): "floor_div",
        ("%", False): "floor_mod",
        ("//", True): "divide",
        ("%", True): "remainder_of",
    }[op, natural]
    return f"{function}<{_type(Binary(op, a, b), names)}>({index(a, names)}, {index(b, names)})"


def _index_call(e: Call, names: Names) -> tuple[str, int] | None:
    match e:
        case Call("select", (c, a, b)):
            parts = (
                _at_least(_index(c, names), 3),
                _at_least(_index(a, names), 3),
                _at_least(_index(b, names), 3),
            )
            return "{} ? {} : {}".format(*parts), _TERNARY
        case Call("cdiv", (a, b)):
            return f"ceil_div<{_type(e, names)}>({index(a, names)}, {index(b, names)})", _ATOM
        case Call("min" | "max" as name, args) if args:
            function = "least" if name == "min" else "most"
            text = index(args[0], names)
            for a in args[1:]:
                text = f"{function}<{_type(e, names)}>({text}, {index(a, names)})"
            return text, _ATOM
        case Call("abs", (a,)):
            return f"abs({index(a, names)})", _ATOM
    return None


def _type(e: Expr, names: Names) -> str:
    return "long long" if names.is_wide(e) else "int"


@dataclass(frozen=True)
class Values:
    """Value registers in scope: how many elements each has, and which hold integers.

    ``bits`` of the most precise result. ``at``: which element of a register is meant. ``summed``: an
    expression is a term of a sum with a constant, or a factor of one, which may cancel.
    """

    lengths: Mapping[str, int]
    bits: int = 24
    integers: frozenset[str] = frozenset()
    at: str = "k"
    summed: bool = False

    def length(self, e: Expr) -> int:
        match e:
            case Var(name):
                return self.lengths.get(name, 1)
            case Call("reduce.add" | "reduce.max" | "reduce.min"):
                return 1
            case Call("iota", (Int(count), Int(rows), _)) | Call(
                "philox", (_, _, _, Int(count), Int(rows), _)
            ):
                return count * rows
        return max((self.length(x) for x in children(e)), default=1)

    def integral(self, e: Expr) -> bool:
        """Whether an expression is an integer of 32 bits; all others are in f32."""
        match e:
            case Var(name):
                return name in self.integers
            case Unary("-" | "~", a) | Call("abs" | "neg", (a,)):
                return self.integral(a)
            case Binary("/", _, _):
                return False
            case Unary("not", _) | Call("cast.i32", _) | Binary("&" | "|" | "^", _, _):
                return True
            case Binary(op, _, _) if op in _TRUTHS:
                return True
            case Binary(_, a, b) | Call("min" | "max", (a, b)) | Call("select", (_, a, b)):
                parts = [x for x in (a, b) if not isinstance(x, Int)]
                return bool(parts) and all(self.integral(x) for x in parts)
        return False


_TRUTHS = frozenset({"<", "<=", ">", ">=", "==", "!=", "and", "or"})
_VALUE_OPS = {
    **{op: op for op in ("+", "-", "*", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^")},
    "and": "&&", "or": "||",
}  # fmt: skip
_WRAPPING = {"+": "add_int", "-": "subtract_int", "*": "multiply_int"}


def value(e: Expr, values: Values) -> str:
    """One element (``[k]``) of a value expression, in f32 or, where it is integral, in 32-bit integers."""
    return _value(e, values)[0]


def _numbers(values: Values, *parts: Expr) -> list[tuple[str, int]]:
    """Operands of one operation: literals are integers beside integers."""
    whole = any(values.integral(x) for x in parts)
    return [
        (str(x.value), _ATOM if x.value >= 0 else _UNARY)
        if whole and isinstance(x, Int)
        else _value(x, values)
        for x in parts
    ]


def _float_of(e: Expr, values: Values) -> str:
    """An operand of a function of floats."""
    return f"float({value(e, values)})" if values.integral(e) else value(e, values)


def sums_with_constants(e: Expr, *, summed: bool = False) -> Iterator[str]:
    """The registers that are terms of a sum with a constant, or factors of one.

    ``summed``: the expression is itself one of them.
    """
    if isinstance(e, Var) and summed:
        yield e.name
    for x in children(e):
        yield from sums_with_constants(x, summed=_summed(e, summed=summed))


def _summed(e: Expr, *, summed: bool) -> bool:
    """Whether the operands of an expression are terms or factors of such a sum, where it is or is not."""
    match e:
        case Binary("+" | "-", a, b):
            return summed or _has_constant(a, b)
        case Binary("*", _, _) | Unary("-", _) | Call("neg", _):
            return summed
    return False


def _has_constant(a: Expr, b: Expr) -> bool:
    return isinstance(a, Int | Float) or isinstance(b, Int | Float)


def _within(e: Expr, values: Values) -> Values:
    """What is known of the operands of an expression."""
    summed = _summed(e, summed=values.summed)
    return values if summed == values.summed else replace(values, summed=summed)


def _value(e: Expr, values: Values) -> tuple[str, int]:
    found: tuple[str, int] | None = None
    match e:
        case Int(v):
            return f"{float(v)!r}f", _ATOM
        case Float(v):
            return _float(v), _UNARY if math.copysign(1.0, v) < 0 else _ATOM
        case Var(n):
            if n not in values.lengths:  # an integer
                return f"float({index(e, Names())})", _ATOM
            return (f"{n}[{values.at}]" if values.lengths[n] > 1 else f"{n}[0]"), _ATOM
        case Call("neg", (a,)):
            return _value(Unary("-", a), values)
        case Unary() | Binary():
            found = _operation(e, _within(e, values))
        case Call():
            inner = _within(e, values)
            found = _choice(e, inner) or _elements(e, inner) or _function(e, inner, summed=values.summed)
    if found is None:
        raise InputError(f"cannot write {e} as a value expression of CUDA")
    return found


def _operation(e: Expr, values: Values) -> tuple[str, int] | None:
    """An operator and its operands; integers wrap."""
    match e:
        case Unary("-", a) if values.integral(a):
            return f"subtract_int(0, {value(a, values)})", _ATOM
        case Unary("-", a):
            return "-" + _at_least(_value(a, values), _ATOM), _UNARY
        case Unary("~", a):
            return "~" + _at_least(_value(a, values), _ATOM), _UNARY
        case Unary("not", a):
            return "!" + _at_least(_value(a, values), _ATOM), _UNARY
        case Binary("+" | "-" | "*" as op, a, b) if values.integral(e):
            (x, _), (y, _) = _numbers(values, a, b)
            return f"{_WRAPPING[op]}({x}, {y})", _ATOM
        case Binary("/", a, b):
            if values.bits <= _DIVIDED and not isinstance(b, Float):
                return f"divide_fast({_float_of(a, values)}, {_float_of(b, values)})", _ATOM
            return _infix(
                "/",
                (_float_of(a, values), _ATOM if values.integral(a) else _value(a, values)[1]),
                (_float_of(b, values), _ATOM if values.integral(b) else _value(b, values)[1]),
            )
        case Binary("-", a, b) | Binary("+", a, Unary("-", b)) if not _has_constant(a, b):
            # of rounded products: a multiply-add of what is equal would leave a rounding error
            return f"__fsub_rn({_float_of(a, values)}, {_float_of(b, values)})", _ATOM
        case Binary(op, a, b) if op in _VALUE_OPS:
            return _infix(_VALUE_OPS[op], *_numbers(values, a, b))
    return None


def _choice(e: Expr, values: Values) -> tuple[str, int] | None:
    """One of two values, or a value without its sign."""
    match e:
        case Call("select", (c, a, b)):
            condition = _at_least(_value(c, values), 3)
            x, y = (_at_least(part, 3) for part in _numbers(values, a, b))
            return f"{condition} ? {x} : {y}", _TERNARY
        case Call("min" | "max" as name, (a, b)) if values.integral(e):
            (x, _), (y, _) = _numbers(values, a, b)
            return f"{'least' if name == 'min' else 'most'}<int>({x}, {y})", _ATOM
        case Call("abs", (a,)) if values.integral(a):
            return f"abs({value(a, values)})", _ATOM
    return None


def _elements(e: Expr, values: Values) -> tuple[str, int] | None:
    """Another type of a value, other elements of its register, or all of them in one."""
    match e:
        case Call("cast.i32", (a,)):
            return (value(a, values) if values.integral(a) else f"int({value(a, values)})"), _ATOM
        case Call("pairs", (a,)) if values.length(a) % 2 == 0:
            k = values.at
            x = _at_least(_value(a, replace(values, at=f"({k} ^ 1)")), _ATOM)
            return f"({k} % 2 ? {x} : -{x})", _ATOM
        case Call("cast.f32", (a,)):
            return (f"float({value(a, values)})", _ATOM) if values.integral(a) else _value(a, values)
        case Call("reduce.add" | "reduce.max" | "reduce.min" as name, (a,)):
            inner = f"[&](int k) {{ return {value(a, values)}; }}"
            return f"{name.replace('.', '_')}<{values.length(a)}>({inner})", _ATOM
        case Call("iota", (Int(1), Int(1), _)):
            return "0.0f", _ATOM
        case Call("iota", (Int(count), Int(rows), Int(pitch))):
            return f"float(k / {count} * {pitch} + k % {count})" if rows > 1 else "float(k)", _ATOM
    return None


def _function(e: Expr, values: Values, *, summed: bool) -> tuple[str, int] | None:
    """A function of floats, by the fastest form that is exact enough."""
    match e:
        case Call("relu", (a,)):
            return f"max_nan({value(a, values)}, 0.0f)", _ATOM
        case Call(name, args) if name in _FUNCTIONS:
            # the error of a hyperbolic tangent near 1 is all that 1 less it would be
            table = _FAST_IN_SUMS if summed and name in ("erf", "tanh") else _FAST
            fast, most = table.get(name, ("", 0))
            function = fast if values.bits <= most else _FUNCTIONS[name]
            return f"{function}({', '.join(_float_of(a, values) for a in args)})", _ATOM
    return None


def _float(v: float) -> str:
    if math.isnan(v):
        return "__int_as_float(0x7fc00000)"
    if math.isinf(v):
        return "__int_as_float(0x7f800000)" if v > 0 else "__int_as_float(0xff800000)"
    return f"{v!r}f"


def _infix(op: str, a: tuple[str, int], b: tuple[str, int]) -> tuple[str, int]:
    level = _PRECEDENCE[op]
    return f"{_at_least(a, level)} {op} {_at_least(b, level + 1)}", level


def _at_least(part: tuple[str, int], level: int) -> str:
    text, own = part
    return text if own >= level else f"({text})"
