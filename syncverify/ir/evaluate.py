"""Index expressions made ready to run: folded, as Python source, as closures, split by what lanes share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from syncverify.base.source import Span
from syncverify.ir.expr import Binary, Call, Expr, Float, Int, Unary, Var, children, evaluate, names, walk
from syncverify.ir.memo import once
from syncverify.ir.nodes import Assign, Elect, For, If, Kernel, Let, Role, Stmt
from syncverify.symbolic.affine import AffineTerm

#: Comparison operators.
ORDER = frozenset({"==", "!=", "<", "<=", ">", ">="})
#: Reads one integer from an agent's registers.
Reader = Callable[[list[int]], int]

#: Shifts beyond this are no index arithmetic; they would only make huge numbers.
_MAX_SHIFT = 62


def shift_left(a: int, b: int) -> int:
    """``a << b`` for sane distances."""
    if not 0 <= b <= _MAX_SHIFT:
        raise ArithmeticError(f"shift by {b}")
    return a << b


def shift_right(a: int, b: int) -> int:
    """``a >> b`` for sane distances."""
    if b < 0:
        raise ArithmeticError(f"shift by {b}")
    return a >> b


def truth(value: Any) -> Any:
    """1 if the value is 0 or more, else 0; a size without a number may answer with an unknown for both."""
    return value.space.boolean_symbol(value) if isinstance(value, AffineTerm) else int(value >= 0)


def counting(e: Expr, sizes: Set[str]) -> Expr:
    """The expression, comparisons of ``sizes`` that are added being numbers that need not be decided."""
    match e:
        case Binary("+" | "-", a, b):
            return replace(e, left=_added(a, sizes), right=_added(b, sizes))
    return e


def _added(e: Expr, sizes: Set[str]) -> Expr:
    match e:
        case Binary("<" | "<=" | ">" | ">=" as op, a, b) if names(e) <= sizes:
            less, more = (a, b) if op[0] == "<" else (b, a)
            return Call("truth", (Binary("-", Binary("-", more, less), Int(int(len(op) == 1))),))
    return counting(e, sizes)


def plain_sum(e: Expr) -> bool:
    """Whether an expression is a sum of sizes, without decisions and ratios: these are made once and kept."""
    for x in walk(e):
        match x:
            case Binary("+" | "-" | "*"):
                pass
            case Binary("//" | "%", _, Int()) | Call("cdiv", (_, Int())):
                pass
            case Binary() | Call():
                return False
    return True


def fold(e: Expr, known: Mapping[str, Expr]) -> Expr:
    """The expression with known names replaced and constant parts computed.

    A constant part that cannot be computed (a zero divisor) stays, and fails where it is executed.
    """
    match e:
        case Var(n):
            return known.get(n, e)
        case Unary(op, a):
            return _constant(Unary(op, fold(a, known)))
        case Binary(op, a, b):
            return _constant(Binary(op, fold(a, known), fold(b, known)))
        case Call(n, args):
            return _constant(Call(n, tuple(fold(a, known) for a in args)))
    return e


def _constant(e: Expr) -> Expr:
    match e:
        case Unary(_, Int()) | Binary(_, Int(), Int()):
            pass
        case (
            Binary("*", Int(1), x) | Binary("*", x, Int(1)) | Binary("+", Int(0), x) | Binary("+", x, Int(0))
        ):
            return x
        case Call(_, args) if all(isinstance(a, Int) for a in args):
            pass
        case _:
            return e
    if isinstance(e, Binary) and e.op in ("<<", ">>"):
        assert isinstance(e.right, Int)
        if not 0 <= e.right.value <= _MAX_SHIFT:
            return e
    try:
        return Int(evaluate(e, {}))
    except (ArithmeticError, TypeError, KeyError):
        return e


def source(e: Expr, slot: Mapping[str, int]) -> str:
    """Python source of the integer value; registers are ``r[slot]``."""
    match e:
        case Int(v):
            return str(v) if v >= 0 else f"({v})"
        case Var(n):
            return f"r[{slot[n]}]"
        case Unary("not", a):
            return f"(0 if {source(a, slot)} else 1)"
        case Unary(op, a):
            return f"({op}{source(a, slot)})"
        case Binary("and", a, b):
            return f"(1 if {condition(a, slot)} and {condition(b, slot)} else 0)"
        case Binary("or", a, b):
            return f"(1 if {condition(a, slot)} or {condition(b, slot)} else 0)"
        case Binary("<<", a, b):
            return f"shift_left({source(a, slot)}, {source(b, slot)})"
        case Binary(">>", a, b):
            return f"shift_right({source(a, slot)}, {source(b, slot)})"
        case Binary(op, a, b) if op in ORDER:
            return f"(+({source(a, slot)} {op} {source(b, slot)}))"
        case Binary(op, a, b):
            left = source(a, slot)
            if op in ("+", "-") and isinstance(a, Binary) and a.op in ("+", "-"):
                left = left[1:-1]  # a long sum must not nest parentheses
            return f"({left} {op} {source(b, slot)})"
        case Call("select", (c, a, b)):
            return f"({source(a, slot)} if {condition(c, slot)} else {source(b, slot)})"
        case Call("cdiv", (a, b)):
            return f"(-(-{source(a, slot)} // {source(b, slot)}))"
        case Call(("min" | "max" | "abs" | "truth") as name, args):
            return f"{name}({', '.join(source(a, slot) for a in args)})"
    raise TypeError(f"not an index expression: {e}")


def condition(e: Expr, slot: Mapping[str, int]) -> str:
    """Python source of the truth value, without the detour over 0 and 1."""
    match e:
        case Unary("not", a):
            return f"(not {condition(a, slot)})"
        case Binary(("and" | "or") as op, a, b):
            return f"({condition(a, slot)} {op} {condition(b, slot)})"
        case Binary(op, a, b) if op in ORDER:
            return f"({source(a, slot)} {op} {source(b, slot)})"
    return source(e, slot)


def closure(e: Expr, slot: Mapping[str, int]) -> Reader:
    """The same as ``source``, as nested closures: cheap to make, for paths that run rarely."""
    match e:
        case Int(v):
            return lambda r: v
        case Var(n):
            s = slot[n]
            return lambda r: r[s]
        case Unary(op, a):
            x = closure(a, slot)
            return {"-": lambda r: -x(r), "~": lambda r: ~x(r), "not": lambda r: 0 if x(r) else 1}[op]
        case Binary(op, a, b):
            return _binary(op, closure(a, slot), closure(b, slot))
        case Call("select", (c, a, b)):
            p, x, y = closure(c, slot), closure(a, slot), closure(b, slot)
            return lambda r: x(r) if p(r) else y(r)
        case Call("cdiv", (a, b)):
            x, y = closure(a, slot), closure(b, slot)
            return lambda r: -(-x(r) // y(r))
        case Call("abs", (a,)):
            x = closure(a, slot)
            return lambda r: abs(x(r))
        case Call("truth", (a,)):
            x = closure(a, slot)
            return lambda r: int(truth(x(r)))
        case Call(("min" | "max") as name, args):
            parts = [closure(a, slot) for a in args]
            pick = min if name == "min" else max
            return lambda r: pick([p(r) for p in parts])
    raise TypeError(f"not an index expression: {e}")


def _binary(op: str, x: Reader, y: Reader) -> Reader:
    table: dict[str, Reader] = {
        "+": lambda r: x(r) + y(r),
        "-": lambda r: x(r) - y(r),
        "*": lambda r: x(r) * y(r),
        "//": lambda r: x(r) // y(r),
        "%": lambda r: x(r) % y(r),
        "<<": lambda r: shift_left(x(r), y(r)),
        ">>": lambda r: shift_right(x(r), y(r)),
        "&": lambda r: x(r) & y(r),
        "|": lambda r: x(r) | y(r),
        "^": lambda r: x(r) ^ y(r),
        "==": lambda r: 1 if x(r) == y(r) else 0,
        "!=": lambda r: 1 if x(r) != y(r) else 0,
        "<": lambda r: 1 if x(r) < y(r) else 0,
        "<=": lambda r: 1 if x(r) <= y(r) else 0,
        ">": lambda r: 1 if x(r) > y(r) else 0,
        ">=": lambda r: 1 if x(r) >= y(r) else 0,
        "and": lambda r: 1 if x(r) and y(r) else 0,
        "or": lambda r: 1 if x(r) or y(r) else 0,
    }
    if op not in table:
        raise TypeError(f"not an index operator: {op}")
    return table[op]


def shared_parts(e: Expr, varying: frozenset[str], registers: frozenset[str]) -> Iterator[Expr]:
    """What decides the value for all lanes of a class: the largest parts that the lanes share, and the
    lane-varying ``registers`` themselves. Lane builtins are left out, since the class fixes them."""
    if isinstance(e, Int | Float):
        return
    if isinstance(e, Var):
        if e.name not in varying or e.name in registers:
            yield e
        return
    if not mentions(e, varying) and not _may_fail(e):
        yield e
        return
    match e:
        case Unary(_, a):
            yield from shared_parts(a, varying, registers)
        case Binary(_, a, b):
            yield from shared_parts(a, varying, registers)
            yield from shared_parts(b, varying, registers)
        case Call(_, args):
            for a in args:
                yield from shared_parts(a, varying, registers)


def _may_fail(e: Expr) -> bool:
    """Whether a divisor or a shift could stop the evaluation: ``and``, ``or`` and ``select`` may skip it."""
    match e:
        case Binary("//" | "%", a, Int(d)) if d:
            return _may_fail(a)
        case Binary("//" | "%" | "<<" | ">>", _, _) | Call("cdiv", _):
            return True
    return any(_may_fail(c) for c in children(e))


def mentions(e: Expr, names: frozenset[str]) -> bool:
    """Whether the expression reads one of the names."""
    match e:
        case Var(n):
            return n in names
        case Unary(_, a):
            return mentions(a, names)
        case Binary(_, a, b):
            return mentions(a, names) or mentions(b, names)
        case Call(_, args):
            return any(mentions(a, names) for a in args)
    return False


def terms(e: Expr, factor: int) -> Iterator[tuple[int, Expr]]:
    """The expression as a sum of terms with integer factors."""
    match e:
        case Binary("+", a, b):
            yield from terms(a, factor)
            yield from terms(b, factor)
        case Binary("-", a, b):
            yield from terms(a, factor)
            yield from terms(b, -factor)
        case Unary("-", a):
            yield from terms(a, -factor)
        case Binary("*", a, Int(c)) | Binary("*", Int(c), a):
            yield from terms(a, factor * c)
        case _:
            yield factor, e


def total(parts: Iterable[tuple[int, Expr]]) -> Expr:
    """The sum of terms with factors."""
    result: Expr = Int(0)
    for factor, t in parts:
        result = fold(Binary("+", result, Binary("*", Int(factor), t)), {})
    return result


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer ones first, in source order."""
    for s in body:
        yield s
        for inner in bodies(s):
            yield from statements(inner)


def expressions(x: Any, without: tuple[type, ...] = ()) -> Iterator[Expr]:
    """The expressions of a statement, with those of its bodies, or of a part of one; ``without``: parts that
    are passed over."""
    if isinstance(x, Expr):
        yield x
    elif isinstance(x, tuple):
        for y in x:
            yield from expressions(y, without)
    elif is_dataclass(x) and not isinstance(x, (Span, *without)):
        for f in fields(x):
            yield from expressions(getattr(x, f.name), without)


def bodies(s: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The statement lists inside a statement."""
    if isinstance(s, If):
        return (s.then, s.orelse)
    if isinstance(s, For | Role):
        return (s.body,)
    return ()


@once
def steady(body: tuple[Stmt, ...]) -> frozenset[str]:
    """Registers that are given a value outside of all loops only."""
    inside = [x for s in statements(body) if isinstance(s, For) for x in statements(s.body)]
    turning = {x.name for x in inside if isinstance(x, Let | Assign)}
    return frozenset(s.name for s in statements(body) if isinstance(s, Let)) - turning


@once
def rounds(body: tuple[Stmt, ...]) -> frozenset[str]:
    """Names that may cycle through a ring: those that are assigned again, and what is determined by them."""
    found = {s.name for s in statements(body) if isinstance(s, Assign)}
    sources: list[tuple[str, frozenset[str]]] = []
    for s in statements(body):
        match s:
            case Let(name=name, value=value):
                sources.append((name, names(value)))
            case For(var=name):
                sources.append((name, names(s.lo) | names(s.step)))
    while more := {name for name, of in sources if of & found} - found:
        found |= more
    return frozenset(found)


def varying_names(body: tuple[Stmt, ...], seeds: frozenset[str]) -> frozenset[str]:
    """Names whose value may differ between lanes that took the same path (loop variables never do:
    the bounds are decisions)."""
    found = set(seeds)
    lets = []
    for s in statements(body):
        if isinstance(s, Elect):
            found.add(s.name)
        elif isinstance(s, Let | Assign):
            lets.append(s)
    changed = True
    while changed:
        changed = False
        for s in lets:
            if s.name not in found and mentions(s.value, frozenset(found)):
                found.add(s.name)
                changed = True
    return frozenset(found)


def once_named(body: tuple[Stmt, ...]) -> frozenset[str]:
    """Names that one ``let`` gives a value, and nothing else."""
    given = [s.name for s in statements(body) if isinstance(s, Let | Assign)]
    others = {getattr(s, "name", None) for s in statements(body) if not isinstance(s, Let)}
    return frozenset(x for x in given if given.count(x) == 1 and x not in others)


@once
def chosen_ends(kernel: Kernel) -> frozenset[str]:
    """The names of what comparisons choose among sums, in a loop, only for other loops to end there."""
    ends: set[str] = set()
    others: set[str] = set()
    given: dict[str, list[Expr]] = {}
    for s in statements(kernel.body):
        if isinstance(s, For) and isinstance(s.hi, Var):
            ends.add(s.hi.name)
            others |= names(s.lo) | names(s.step)
        else:
            own = (getattr(s, f.name) for f in fields(s))
            others |= {x for e in own for y in expressions(e, (Stmt,)) for x in names(y)}
        if isinstance(s, Let | Assign):
            given.setdefault(s.name, []).append(s.value)
    return frozenset(x for x in ends - others if any(map(choice, given.get(x, ()))))


@dataclass(frozen=True, slots=True)
class Choice:
    """What comparisons choose among values: differences are compared with 0, as the ``form`` says."""

    form: str
    differences: tuple[Expr, ...]
    values: tuple[Expr, ...]


def choice(e: Expr) -> Choice | None:
    """The expression as a choice among sums; None for others."""
    match e:
        case Call("select", (Binary(op, a, b), x, y)) if op in ORDER and plain_sum(a) and plain_sum(b):
            left, right = _either(x), _either(y)
            if left is not None and right is not None:
                form = f"({op} {left.form} {right.form})"
                differences = (Binary("-", a, b), *left.differences, *right.differences)
                return Choice(form, differences, left.values + right.values)
    return None


def _either(e: Expr) -> Choice | None:
    return Choice("x", (), (e,)) if plain_sum(e) else choice(e)


def control_names(
    body: tuple[Stmt, ...], apart: frozenset[str] = frozenset(), without: frozenset[str] = frozenset()
) -> frozenset[str]:
    """Names that decide control inside some statements, also by way of values that these give names to; not
    those of conditions that name one of ``apart``, or of what is given to names ``without``."""
    found: set[str] = set()
    given: dict[str, set[str]] = {}
    for s in statements(body):
        match s:
            case If(cond=cond):
                found |= set() if names(cond) & apart else names(cond)
            case For():
                found |= names(s.lo) | names(s.hi) | names(s.step)
            case Role():
                found |= names(s.lo) | names(s.hi)
            case Let() | Assign() if s.name not in without or choice(s.value) is None:
                given.setdefault(s.name, set()).update(names(s.value))
    work = list(found)
    while work:
        for x in given.get(work.pop(), set()) - found:
            found.add(x)
            work.append(x)
    return frozenset(found)
