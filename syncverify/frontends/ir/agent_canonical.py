"""What of an agent's state later events depend on: live registers, and counters modulo their period.

Two states of one class with equal normal forms emit the same events from there on, given the same answers:
a register that is written before it is read again is left out, and a register that only reaches events
through ``% m`` or ``// s % m`` is kept modulo the least common period.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd, lcm

from syncverify.ir.expr import Binary, Expr, Int, Unary, Var, children, names

#: Periods beyond this are no reduction; such registers are kept exact.
_MAX_PERIOD = 1 << 20
_PC = 0  # the slot of the program counter
#: A register's period; None: its exact value matters.
Period = int | None


# ---------------------------------------------------------------- liveness


def live_slots(text: str, first: int, others: Collection[int] = ()) -> Mapping[int, frozenset[int]]:
    """Per block of generated text: the slots from ``first`` on, and ``others``, that may be read before they
    are written."""
    return _live_slots(text, first, frozenset(others))


@lru_cache(128)
def _live_slots(text: str, first: int, others: frozenset[int]) -> Mapping[int, frozenset[int]]:
    functions = {int(f.name[1:]): f for f in ast.parse(text).body if isinstance(f, ast.FunctionDef)}
    found = _Live({label: set() for label in functions})
    changed = True
    while changed:
        changed = False
        for label in sorted(functions, reverse=True):
            before = found.before(functions[label].body)
            slots = {s for s in before if s >= first or s in others}
            changed |= slots != found.live[label]
            found.live[label] = slots
    return {label: frozenset(slots) for label, slots in found.live.items()}


@dataclass(slots=True)
class _Live:
    """``live``: the slots live before each block, as far as is known."""

    live: dict[int, set[int]]
    _read: dict[int, set[int]] = field(default_factory=dict)  # by identity of the node

    def before(self, body: Sequence[ast.stmt], after: Iterable[int] = ()) -> set[int]:
        """Slots live before the statements; a statement that sets the program counter says what follows."""
        out = set(after)
        for statement in reversed(body):
            if isinstance(statement, ast.If):
                out |= self.before(statement.body, out) | self.loads(statement.test)
                continue
            if isinstance(statement, ast.Return):
                out = set()
            if isinstance(statement, ast.Assign):
                slots = [_slot(t) for t in statement.targets]
                if slots == [_PC]:
                    for target in _targets(statement.value):
                        out |= self.live[target]
                out -= {s for s in slots if s is not None}
            out |= self.loads(statement)
        return out

    def loads(self, node: ast.AST) -> set[int]:
        """Slots read; ``r[s] &= x`` reads for itself alone."""
        found = self._read.get(id(node))
        if found is None:
            slots = ((_slot(x), x) for x in ast.walk(node) if isinstance(x, ast.Subscript))
            found = {s for s, x in slots if s is not None and isinstance(x.ctx, ast.Load)}
            self._read[id(node)] = found
        return found


def _slot(node: ast.AST) -> int | None:
    """The slot of ``r[slot]``."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "r":
        at = node.slice
        return at.value if isinstance(at, ast.Constant) and isinstance(at.value, int) else None
    return None


def _targets(value: ast.expr) -> Iterator[int]:
    """Blocks that the program counter is set to."""
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
    """Raises the periods of the registers in ``e`` until they fix it modulo ``modulus`` (None: exactly)."""
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
