"""What of an agent's state later events depend on: live registers, and counters modulo their period.

Two states of one class with equal normal forms emit the same events from there on, given the same answers:
a register that is written before it is read again is left out, and a register that only reaches events
through ``% m`` or ``// s % m`` is kept modulo the least common period.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd, lcm

from syncverify.ir.expr import Binary, Expr, Int, Unary, Var, children, names

#: Periods beyond this are no reduction; such registers are kept exact.
_MAX_PERIOD = 1 << 20
#: A register's period; None: its exact value matters.
Period = int | None


# ---------------------------------------------------------------- liveness


def live_slots(text: str, first: int) -> dict[int, frozenset[int]]:
    """Per block of generated text: the slots from ``first`` on that may be read before they are written."""
    reads: dict[int, set[int]] = {}
    writes: dict[int, set[int]] = {}
    follows: dict[int, set[int]] = {}
    for f in ast.parse(text).body:
        assert isinstance(f, ast.FunctionDef)
        label = int(f.name[1:])
        reads[label], writes[label] = _reads_and_writes(f.body)
        follows[label] = set(_successors(f))
    live = {b: {s for s in found if s >= first} for b, found in reads.items()}
    changed = True
    while changed:
        changed = False
        for b in sorted(live, reverse=True):
            out = {s for f in follows[b] for s in live[f]} - writes[b]
            if not out <= live[b]:
                live[b] |= out
                changed = True
    return {b: frozenset(s) for b, s in live.items()}


def _slot(node: ast.AST) -> int | None:
    """The slot of ``r[slot]``."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "r":
        at = node.slice
        return at.value if isinstance(at, ast.Constant) and isinstance(at.value, int) else None
    return None


def _reads_and_writes(body: Sequence[ast.stmt]) -> tuple[set[int], set[int]]:
    """Slots read before they are written, and slots written on every path."""
    reads: set[int] = set()
    written: set[int] = set()
    for statement in body:
        stores = set()
        for node in ast.walk(statement):
            slot = _slot(node)
            if slot is None:
                continue
            assert isinstance(node, ast.Subscript)
            if isinstance(node.ctx, ast.Load):
                reads |= {slot} - written
            else:
                stores.add(slot)
        for node in ast.walk(statement):
            if isinstance(node, ast.AugAssign) and (slot := _slot(node.target)) is not None:
                reads |= {slot} - written
        if not isinstance(statement, ast.If):
            written |= stores
    return reads, written


def _successors(f: ast.FunctionDef) -> Iterator[int]:
    """Blocks that the function may set the program counter to."""
    for node in ast.walk(f):
        if isinstance(node, ast.Assign) and _slot(node.targets[0]) == 0:
            value = node.value
            for v in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
                if isinstance(v, ast.Constant) and isinstance(v.value, int):
                    yield v.value


# ---------------------------------------------------------------- periods


def periods(exact: Iterable[Expr], assigned: Mapping[str, Iterable[Expr]]) -> dict[str, Period]:
    """The period of every assigned register: its value matters only modulo that.

    ``exact``: expressions whose value reaches an event or a branch; ``assigned``: what registers are set to.
    """
    found: dict[str, Period] = dict.fromkeys(assigned, 1)
    registers = frozenset(assigned)
    for e in exact:
        _demand(found, e, None, registers)
    changed = True
    while changed:
        before = dict(found)
        for name, values in assigned.items():
            for e in values:
                _demand(found, e, found[name], registers)
        changed = before != found
    return found


def _demand(found: dict[str, Period], e: Expr, modulus: Period, registers: frozenset[str]) -> None:
    """Raises the periods of the registers in ``e`` until they fix ``e`` modulo ``modulus`` (None: exactly)."""
    if modulus == 1:
        return
    for x in names(e) & registers:
        found[x] = _common(found[x], _period(e, modulus, x))


def _common(a: Period, b: Period) -> Period:
    if a is None or b is None:
        return None
    both = lcm(a, b)
    return both if both <= _MAX_PERIOD else None


def _period(e: Expr, modulus: Period, x: str) -> Period:
    """The period of ``x`` that fixes ``e`` modulo ``modulus`` (None: exactly), whatever else ``e`` reads."""
    if x not in names(e) or modulus == 1:
        return 1
    match e:
        case Var():
            return modulus
        case Binary("%", a, Int(m)) if m > 0:
            # a mod m decides the value, so a modulus on top of it cannot ask for more
            return _period(a, m, x)
        case Binary("&", a, Int(m)) if m > 0 and m & (m + 1) == 0:
            return _period(a, m + 1, x)
    if modulus is not None:
        match e:
            case Unary("-", a):
                return _period(a, modulus, x)
            case Binary("*", a, Int(c)) | Binary("*", Int(c), a) if c:
                return _period(a, modulus // gcd(modulus, c), x)
            case Binary("+" | "-" | "*", a, b):
                return _common(_period(a, modulus, x), _period(b, modulus, x))
            case Binary("//", a, Int(s)) if s > 0:
                return _period(a, modulus * s, x)
            case Binary(">>", a, Int(s)) if 0 <= s < 32:
                return _period(a, modulus << s, x)
    total: Period = 1
    for part in children(e):
        total = _common(total, _period(part, None, x))
    return total
