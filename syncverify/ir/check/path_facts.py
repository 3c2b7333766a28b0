"""What holds at each place of a kernel, and what the solver concludes: notes, never errors.

A guard that no thread can meet and an index that is outside for every thread are worth saying, but
they are no misuse of the language; what they break is for the checker to find.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, repeat

from syncverify.base.source import UNKNOWN_SPAN, Span
from syncverify.ir import nodes, solver
from syncverify.ir.check.launch import GRID_LIMITS
from syncverify.ir.check.rules import Problem, sets
from syncverify.ir.consistency import Fact, demand, equals, within
from syncverify.ir.expr import Binary, Expr, Int, Unary, Var, names, substitute
from syncverify.ir.text.printed_expressions import print_expr

#: Questions about one kernel; what comes after is not asked.
QUESTIONS = 300

_RANGES = {
    "i32": (-(2**31), 2**31 - 1),
    "u32": (0, 2**32 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u64": (0, 2**64 - 1),
}
_UNITS = {"threads": "tid", "warps": "warp", "warpgroups": "wg"}


def launch_facts(kernel: nodes.Kernel) -> tuple[Expr, ...]:
    """What every thread of every launch knows: parameter ranges, ``assume``, and the builtins."""
    at = kernel.launch
    tid, x, y, z = Var("tid"), Var("tid.x"), Var("tid.y"), Var("tid.z")
    out: list[Expr] = []
    for p in kernel.params:
        lo, hi = _RANGES[p.dtype]
        out += [Var(p.name) >= lo, Var(p.name) <= hi]
    out += kernel.assumes
    for axis, size in zip((x, y, z), at.block, strict=True):
        out += _within(axis, Int(size))
    out.append(tid.eq(x + y * at.block[0] + z * (at.block[0] * at.block[1])))
    out += _within(tid, Int(at.threads))
    out += [Var("warp").eq(tid // 32), Var("lane").eq(tid % 32), Var("wg").eq(tid // 128)]
    out += _within(Var("rank"), Int(at.ctas))
    for axis_name, extent in zip("xyz", at.grid, strict=True):
        out += [Var(f"grid.{axis_name}").eq(extent), *_within(Var(f"block.{axis_name}"), extent)]
    return tuple(out)


def given_facts(kernel: nodes.Kernel) -> tuple[Fact, ...]:
    """What the author states of every launch: types of parameters, extents of the grid, ``assume``."""
    out = []
    for p in kernel.params:
        low, high = _RANGES[p.dtype]
        out.append(within(Var(p.name), low, high, f"{low} <= {p.name} <= {high} (parameter {p.dtype})"))
    for axis, extent, most in zip("xyz", kernel.launch.grid, GRID_LIMITS, strict=True):
        shown = print_expr(extent)
        out.append(within(extent, 1, most, f"1 <= {shown} <= {most} (grid.{axis})"))
    places = chain(kernel.assume_spans, repeat(UNKNOWN_SPAN))
    out += [Fact(e, f"assume {print_expr(e)}", at) for e, at in zip(kernel.assumes, places, strict=False)]
    return tuple(out)


def demand_launch(kernel: nodes.Kernel, values: Mapping[str, int] | None = None) -> tuple[str, ...]:
    """What has to be assumed for some launch to exist, with ``values`` for some parameters.

    Raises InputError where the facts, or the facts and the values, contradict each other.
    """
    if not kernel.assumes:
        return ()
    facts = [*given_facts(kernel), *equals(dict(values or {}), "given for this check")]
    return demand(facts, kernel.name, kernel.span)


def notes(kernel: nodes.Kernel) -> list[Problem]:
    """Guards that never hold, roles and loops that never run, indices that are always outside."""
    return list(_Notes(kernel).run())


class _Notes:
    """One walk in text order; ``facts`` hold at the place where the walk stands."""

    def __init__(self, kernel: nodes.Kernel) -> None:
        self.kernel = kernel
        self.shared = {s.name: s for s in kernel.shared}
        self.barriers = {b.name: b for b in kernel.barriers}
        self.asked = 0
        self.fresh = 0
        written = Counter(name for s in walk(kernel.body) for name, _ in sets(s))
        written.update(s.name for s in walk(kernel.body) if isinstance(s, nodes.Assign))
        loops = {s.var for s in walk(kernel.body) if isinstance(s, nodes.For)}
        #: Registers that are set once: their name means one value wherever the fact is in force.
        self.stable = {name for name, times in written.items() if times == 1} - loops
        self.unstable = {name for name, times in written.items() if times > 1 or name in loops}

    def run(self) -> Iterator[Problem]:
        facts = list(launch_facts(self.kernel))
        if solver.satisfiable(facts) is False:
            yield self.note("the assumptions of this kernel contradict each other", self.kernel.span)
            return
        yield from self.body(self.kernel.body, facts)

    def note(self, message: str, span: Span) -> Problem:
        return Problem(message, span, "note")

    def impossible(self, facts: list[Expr]) -> bool:
        """Whether the facts are proved to contradict each other."""
        self.asked += 1
        return self.asked <= QUESTIONS and solver.satisfiable(facts) is False

    def steady(self, e: Expr) -> Expr:
        """The expression with every register that may change replaced by an unknown of its own."""
        changing = names(e) & self.unstable
        if not changing:
            return e
        self.fresh += 1
        return substitute(e, {name: Var(f"{name}'{self.fresh}") for name in changing})

    def body(self, body: Iterable[nodes.Stmt], above: list[Expr]) -> Iterator[Problem]:
        facts = list(above)
        for s in body:
            yield from self.indices(s, facts)
            match s:
                case nodes.If():
                    condition = self.steady(s.cond)
                    then, orelse = [*facts, condition], [*facts, Unary("not", condition)]
                    if self.impossible(then):
                        yield self.note("this condition never holds: the block is never entered", s.span)
                    else:
                        yield from self.body(s.then, then)
                    if s.orelse and self.impossible(orelse):
                        yield self.note("this condition always holds: its else is never entered", s.span)
                    else:
                        yield from self.body(s.orelse, orelse)
                case nodes.Role():
                    unit = Var(_UNITS[s.unit])
                    inside = [*facts, unit >= self.steady(s.lo), unit < self.steady(s.hi)]
                    if self.impossible(inside):
                        yield self.note(f"no thread is in role {s.name}", s.span)
                    else:
                        yield from self.body(s.body, inside)
                case nodes.For():
                    i, lo = Var(s.var), self.steady(s.lo)
                    inside = [*facts, i >= lo, i < self.steady(s.hi)]
                    if s.step != Int(1):
                        inside.append(((i - lo) % self.steady(s.step)).eq(0))
                    if self.impossible(inside):
                        yield self.note(f"the loop over {s.var} never runs", s.span)
                    else:
                        yield from self.body(s.body, inside)
                case nodes.Let() if s.name in self.stable:
                    facts.append(Var(s.name).eq(self.steady(s.value)))
                case nodes.Elect() if s.name in self.stable:
                    facts += _within(Var(s.name), Int(2))

    def indices(self, s: nodes.Stmt, facts: list[Expr]) -> Iterator[Problem]:
        for reference in references(s):
            match reference:
                case nodes.Region():
                    buffer = self.shared[reference.buffer]
                    for index, size in zip(reference.index, buffer.shape, strict=False):
                        if self.outside(index, Int(1), size, facts):
                            yield self._outside(f"index {print_expr(index)} of {buffer.name}", s.span)
                    if reference.start is not None and reference.count is not None:
                        rest: Expr = Int(1)
                        for d in buffer.shape[len(reference.index) :]:
                            rest = rest * d
                        if self.outside(reference.start, reference.count, rest, facts):
                            yield self._outside(f"the range of {buffer.name}", s.span)
                case nodes.BarrierRef(name, index) if index is not None:
                    if self.outside(index, Int(1), self.barriers[name].count, facts):
                        yield self._outside(f"index {print_expr(index)} of {name}", s.span)

    def _outside(self, what: str, span: Span) -> Problem:
        return self.note(f"{what} is out of bounds whenever this is executed", span)

    def outside(self, start: Expr, count: Expr, size: Expr, facts: list[Expr]) -> bool:
        """Whether ``start .. start + count`` is never inside ``0 .. size``."""
        match start, count, size:
            case Int(a), Int(n), Int(d):
                return not (0 <= a and a + n <= d)
            case Binary("%", _, Int(m)), Int(1), Int(d) if 0 < m <= d:
                return False
        at = self.steady(start)
        return self.impossible([*facts, at >= 0, at + self.steady(count) <= self.steady(size)])


def walk(body: Iterable[nodes.Stmt]) -> Iterator[nodes.Stmt]:
    """Every statement, in text order."""
    for s in body:
        yield s
        match s:
            case nodes.For() | nodes.Role():
                yield from walk(s.body)
            case nodes.If():
                yield from walk(s.then)
                yield from walk(s.orelse)


def references(s: nodes.Stmt) -> Iterator[nodes.Region | nodes.BarrierRef]:
    """The shared regions and barriers that a statement names."""
    for field in ("dst", "src", "a", "b", "bar"):
        x = getattr(s, field, None)
        if isinstance(x, nodes.Region | nodes.BarrierRef):
            yield x


def _within(e: Expr, size: Expr) -> list[Expr]:
    return [e >= 0, e < size]
