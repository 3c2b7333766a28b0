"""Which power of two surely divides an index: what vector accesses may rely on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import gcd

from syncverify.ir import nodes as n
from syncverify.ir.evaluate import statements
from syncverify.ir.expr import Binary, Call, Expr, Int, Unary, Var

#: No access is wider than 16 bytes, so no larger divisor is of use.
MOST = 128


def divisor(e: Expr, known: Mapping[str, int]) -> int:
    """A power of two up to ``MOST`` that divides the expression; names without an entry may be anything."""
    return _power(_divisor(e, known))


def _power(v: int) -> int:
    """The largest power of two that divides ``v``, at most ``MOST``."""
    return MOST if v == 0 else min(v & -v, MOST)


def _divisor(e: Expr, known: Mapping[str, int]) -> int:
    match e:
        case Int(v):
            return _power(v)
        case Var(name):
            return known.get(name, 1)
        case Unary("-", a):
            return _divisor(a, known)
        case Binary("+" | "-" | "%" | "|" | "^", a, b):
            return gcd(_divisor(a, known), _divisor(b, known))
        case Binary("*", a, b):
            return _power(_divisor(a, known) * _divisor(b, known))
        case Binary("&", a, b):
            return max(_divisor(a, known), _divisor(b, known))
        case Binary("<<", a, Int(s)) if 0 <= s < 32:
            return _power(_divisor(a, known) << s)
        case Call("min" | "max", args):
            return gcd(*(_divisor(a, known) for a in args))
        case Call("select", (_, a, b)):
            return gcd(_divisor(a, known), _divisor(b, known))
    return 1


def known_divisors(kernel: n.Kernel, assigned: Collection[str]) -> dict[str, int]:
    """A divisor of every parameter and of every register that is ``assigned``, whatever path sets it.

    Names that are declared once per scope are the emitter's to add, scope by scope.
    """
    known = _assumed(kernel.assumes)
    values: dict[str, list[Expr]] = {}
    for s in statements(kernel.body):
        match s:
            case n.Let(name, e) | n.Assign(name, e):
                values.setdefault(name, []).append(e)
            case n.For(var, lo, _, step):
                values.setdefault(var, []).extend((lo, step))
            case n.LoadIndex(name):
                values.setdefault(name, []).append(Int(1))
    # From the most hopeful start, lowered until every definition agrees: the greatest fixed point.
    known |= dict.fromkeys(values, MOST)
    changed = True
    while changed:
        changed = False
        for name, definitions in values.items():
            v = gcd(known[name], *(divisor(e, known) for e in definitions))
            changed |= v != known[name]
            known[name] = v
    return {name: v for name, v in known.items() if name not in values or name in assigned}


def _assumed(facts: Iterable[Expr]) -> dict[str, int]:
    """Divisors that facts like ``C % 8 == 0`` give."""
    found: dict[str, int] = {}
    for fact in facts:
        match fact:
            case Binary("==", Binary("%", Var(name), Int(m)), Int(0)) if m > 0:
                found[name] = max(found.get(name, 1), _power(m))
    return found
