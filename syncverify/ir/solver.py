"""Questions about index expressions, answered by z3. The only module that imports it, and only when asked.

Expressions are over mathematical integers with floor division. An assignment that divides by zero
or shifts by a negative number counts for nothing: it neither proves nor refutes. Budgets are rlimits
and every question has its own context, so that the same question always gets the same answer. An answer
is therefore kept: a search asks two thirds of its questions again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from syncverify.base.source import InputError
from syncverify.ir import nodes
from syncverify.ir.expr import Binary, Call, Expr, Int, Unary, Var, names
from syncverify.ir.layout import Layout

#: z3 resource units of one question; about a tenth of a second.
RLIMIT = 400_000


def satisfiable(facts: Iterable[Expr], rlimit: int = RLIMIT) -> bool | None:
    """Whether some integers make all facts true; None if undecided."""
    return _check(facts, rlimit)[0]


def prove(fact: Expr, assumptions: Iterable[Expr] = (), rlimit: int = RLIMIT) -> bool | None:
    """True if the fact follows from the assumptions, False if it does not, None if undecided."""
    found = _check([*assumptions, Unary("not", fact)], rlimit)[0]
    return None if found is None else not found


def counterexample(
    fact: Expr, assumptions: Iterable[Expr] = (), rlimit: int = RLIMIT
) -> Mapping[str, int] | None:
    """Values of all names that meet the assumptions and not the fact; None if none was found."""
    return _check([*assumptions, Unary("not", fact)], rlimit)[1]


def model(facts: Iterable[Expr], rlimit: int = RLIMIT) -> Mapping[str, int] | None:
    """Values of all names that make all facts true; None if none was found."""
    return _check(facts, rlimit)[1]


def overlap(
    kernel: nodes.Kernel,
    a: nodes.Region,
    b: nodes.Region,
    assumptions: Iterable[Expr] = (),
    layout: Layout | None = None,
    rlimit: int = RLIMIT,
) -> bool | None:
    """Whether two regions of one block can share a byte; None if undecided.

    A name means the same in both; to compare two threads, substitute other names in one of them.
    Without a layout, buffers that have no explicit offset are apart.
    """
    shared = {s.name: s for s in kernel.shared}
    for r in (a, b):
        if r.buffer not in shared:
            raise InputError(f"there is no shared buffer named {r.buffer}")
    first, second = shared[a.buffer], shared[b.buffer]
    if first is not second and layout is None and (first.offset is None or second.offset is None):
        return False
    facts = list(assumptions)
    lo_a, size_a = _bytes_of(first, a, "row a", facts, layout, first is second)
    lo_b, size_b = _bytes_of(second, b, "row b", facts, layout, first is second)
    return satisfiable([*facts, lo_a < lo_b + size_b, lo_b < lo_a + size_a], rlimit)


def _bytes_of(
    s: nodes.Shared, r: nodes.Region, row: str, facts: list[Expr], layout: Layout | None, same: bool
) -> tuple[Expr, Expr]:
    """The first byte of one run of a region and its bytes; ``row`` names which run, bounded in ``facts``."""
    element = nodes.DTYPE_BYTES[s.dtype]
    base: Expr = Int(0)
    if not same:
        base = Int(layout.buffers[s.name].offset) if layout is not None else s.offset or Int(0)
    flat: Expr = Int(0)
    rest: Expr = Int(1)
    for i, d in enumerate(s.shape):
        if i < len(r.index):
            flat = flat * d + r.index[i]
        else:
            rest = rest * d
    start = Int(0) if r.start is None else r.start
    count = rest if r.count is None else r.count
    at = flat * rest + start
    if r.rows is not None and r.pitch is not None:
        run = Var(row)
        facts += [run >= 0, run < r.rows]
        at = at + run * r.pitch
    return base + at * element, count * element


def buffer_size(s: nodes.Shared) -> Expr:
    """The elements of a shared buffer."""
    total: Expr = Int(1)
    for d in s.shape:
        total = total * d
    return total


class _UndecidableError(Exception):
    """An expression without an encoding, such as ``a & b`` of two unknowns."""


def _check(facts: Iterable[Expr], rlimit: int) -> tuple[bool | None, Mapping[str, int] | None]:
    """Whether integers make all facts true, and such integers; None where it is undecided."""
    try:
        satisfied, values = _answer(tuple(facts), rlimit)
    except (_UndecidableError, RecursionError):
        return None, None
    return satisfied, None if values is None else dict(values)


@lru_cache(maxsize=4096)
def _answer(facts: tuple[Expr, ...], rlimit: int) -> tuple[bool | None, Mapping[str, int] | None]:
    """As ``_check``, and kept; raises where facts have no encoding or are too deep for this stack."""
    import z3

    context = z3.Context()
    solver = z3.Solver(ctx=context)
    solver.set("rlimit", rlimit)
    encoder = _Encoder(z3, context)
    for f in facts:
        solver.add(encoder.truth(f))
    solver.add(*encoder.defined)
    answer = solver.check()
    if answer == z3.unsat:
        return False, None
    if answer != z3.sat:
        return None, None
    found = solver.model()
    every = sorted(frozenset().union(*map(names, facts)))
    values = {n: found.eval(encoder.name(n), model_completion=True).as_long() for n in every}
    return True, values


class _Encoder:
    """Index expressions as z3 terms; ``defined`` collects what keeps every subterm defined."""

    def __init__(self, z3: Any, context: Any) -> None:
        self.z3 = z3
        self.context = context
        self.defined: list[Any] = []
        self._names: dict[str, Any] = {}

    def name(self, n: str) -> Any:
        if n not in self._names:
            self._names[n] = self.z3.Int(n, ctx=self.context)
        return self._names[n]

    def number(self, n: int) -> Any:
        return self.z3.IntVal(n, ctx=self.context)

    def truth(self, e: Expr) -> Any:
        """An expression as a condition: not zero."""
        z3 = self.z3
        match e:
            case Int(v):
                return z3.BoolVal(v != 0, ctx=self.context)
            case Unary("not", a):
                return z3.Not(self.truth(a))
            case Binary("and", a, b):
                return z3.And(self.truth(a), self.truth(b))
            case Binary("or", a, b):
                return z3.Or(self.truth(a), self.truth(b))
            case Binary("==", a, b):
                return self.term(a) == self.term(b)
            case Binary("!=", a, b):
                return self.term(a) != self.term(b)
            case Binary("<", a, b):
                return self.term(a) < self.term(b)
            case Binary("<=", a, b):
                return self.term(a) <= self.term(b)
            case Binary(">", a, b):
                return self.term(a) > self.term(b)
            case Binary(">=", a, b):
                return self.term(a) >= self.term(b)
        return self.term(e) != 0

    def term(self, e: Expr) -> Any:
        """An expression as an integer."""
        z3 = self.z3
        match e:
            case Int(v):
                return self.number(v)
            case Var(n):
                return self.name(n)
            case Unary("-", a):
                return -self.term(a)
            case Unary("~", a):
                return -self.term(a) - 1
            case Binary("==" | "!=" | "<" | "<=" | ">" | ">=" | "and" | "or") | Unary("not"):
                return z3.If(self.truth(e), self.number(1), self.number(0))
            case Binary(op, a, b):
                return self._binary(op, a, b)
            case Call(name, args):
                return self._call(name, args)
        raise _UndecidableError

    def _binary(self, op: str, a: Expr, b: Expr) -> Any:
        """Arithmetic of two integers; shifts by a number alone."""
        match op, b:
            case "+", _:
                return self.term(a) + self.term(b)
            case "-", _:
                return self.term(a) - self.term(b)
            case "*", _:
                return self.term(a) * self.term(b)
            case "//", _:
                return self._floor(self.term(a), b)
            case "%", _:
                x = self.term(a)
                return x - self.term(b) * self._floor(x, b)
            case "<<", Int(n) if 0 <= n <= 63:
                return self.term(a) * 2**n
            case ">>", Int(n) if 0 <= n <= 63:
                return self._floor(self.term(a), Int(2**n))
            case "&" | "|" | "^", _:
                return self._bits(op, a, b)
        raise _UndecidableError

    def _call(self, name: str, args: Sequence[Expr]) -> Any:
        """A function of integers."""
        z3 = self.z3
        match name, args:
            case "cdiv", (a, b):
                return -self._floor(-self.term(a), b)
            case "abs", (a,):
                x = self.term(a)
                return z3.If(x >= 0, x, -x)
            case "select", (c, a, b):
                return self._select(c, a, b)
            case "min" | "max", (first, *others):
                out = self.term(first)
                for a in others:
                    x = self.term(a)
                    out = z3.If(out <= x if name == "min" else out >= x, out, x)
                return out
        raise _UndecidableError

    def _select(self, c: Expr, a: Expr, b: Expr) -> Any:
        """Only the chosen branch has to be defined, as when it is evaluated."""
        condition = self.truth(c)
        outer, self.defined = self.defined, []
        x = self.term(a)
        in_a, self.defined = self.defined, []
        y = self.term(b)
        in_b, self.defined = self.defined, outer
        self.defined += [self.z3.Implies(condition, d) for d in in_a]
        self.defined += [self.z3.Implies(self.z3.Not(condition), d) for d in in_b]
        return self.z3.If(condition, x, y)

    def _floor(self, x: Any, divisor: Expr) -> Any:
        """Floor division; z3's own rounds so that the remainder is not negative."""
        y = self.term(divisor)
        if isinstance(divisor, Int) and divisor.value != 0:
            return x / y if divisor.value > 0 else (-x) / (-y)
        self.defined.append(y != 0)
        return self.z3.If(y > 0, x / y, (-x) / (-y))

    def _bits(self, op: str, a: Expr, b: Expr) -> Any:
        """Bitwise operations with a mask that is a number, as sums of runs of bits."""
        if not isinstance(b, Int):
            a, b = b, a
        if not isinstance(b, Int) or b.value < 0:
            raise _UndecidableError
        x, mask = self.term(a), b.value
        both = self.number(0)
        low = 0
        while mask >> low:
            if not mask >> low & 1:
                low += 1
                continue
            width = 1
            while mask >> low + width & 1:
                width += 1
            both = both + (x / 2**low) % 2**width * 2**low
            low += width
        return {"&": both, "|": x + mask - both, "^": x + mask - 2 * both}[op]
