"""What registers of one thread hold, as polynomials, and what holds where an instruction is executed.

    mad.lo.s32 i, k, 128, tid;  div.s32 q, i, n;  mad.lo.s32 a, q, n, i;     // a = q n + i

Names are of numbers that the thread has of its own (``"1.x"`` for the number of thread 1 in its row), or that
all threads of its block share. What an instruction makes of numbers is named by what it is made of, so it is
one number wherever it is computed. A register that a loop moves on by one step ``s`` is ``first + s turns``.
Behind the first turn holds what the branch back to the loop asked for, which compilers write at its end:

    L: st.shared [i], x;  add.s32 i, i, 128;  setp.lt.s32 p, i, n;  @p bra L;      // turns = 0 or i < n

**Claim.** What ``given`` says of an instruction holds of what its thread's registers held when it last came
there. *Proof.* It says what branches asked for whose blocks lie on all ways there, or on all from the
last time that the thread came to a join or a loop's head which does: one that may never be come to rules
nothing out. A register that such a branch read is
written again only ahead of that join, as each way from there to the instruction leads through it. What the
loop writes has names of its own for the turn before, but for what was handed back to its head. ∎

Numbers are whole. It is assumed that no sum or product of sizes, data or turns leaves its register,
and that none is divided by 0; who asks says so. What constants and numbers of threads alone make is followed
as far as it fits, and factors are small: a hash is a number of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

from syncverify.frontends.ptx.analysis.barriers.barrier_intervals import launch_parameter
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Not, Operand, Reg, Special, Sym
from syncverify.frontends.ptx.syntax.operands import results
from syncverify.frontends.ptx.syntax.pure_operations import PURE
from syncverify.frontends.ptx.syntax.types import kind, width
from syncverify.frontends.ptx.values.polynomials import Polynomial
from syncverify.ir.expr import Binary, Expr, Int, Var

_DEEPEST = 60
#: The largest factor of a number that may be anything.
_MOST_FACTOR = 1 << 20
_OF_BLOCK = ("%ctaid", "%nctaid", "%gridid")
_HALF = 31
#: With these, an instruction does not make what its name says of whole numbers.
_LOSES = frozenset({"cc", "sat", "hi", "relu"})
_COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
             "eq": "==", "ne": "!="}  # fmt: skip
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
#: Of a merge in an interval between barriers: the name of its value if all threads hold one, else None.
Named = Callable[[int], str | None]

#: Whether a block may have led to a join that is named behind it.
Led = Callable[[int, int], bool]


def _any_way(block: int, join: int) -> bool:
    return True


@dataclass(slots=True)
class Facts:
    """What holds of the names: ``holds``; quotients by name, each with what is divided by what."""

    holds: list[Expr] = field(default_factory=list)
    quotients: dict[str, tuple[Polynomial, Polynomial]] = field(default_factory=dict)
    others: int = 0  # numbers without a name of their own
    _known: set[str] = field(default_factory=set)

    def said(self, name: str) -> bool:
        """Whether a name is known."""
        return name in self._known

    def first(self, name: str) -> bool:
        """Whether a name is new, so that what holds of it is still to be said."""
        new = name not in self._known
        self._known.add(name)
        return new


def written(x: Polynomial) -> Expr:
    """A polynomial as an expression in which each product is one name."""
    parts = [Int(k) if not p else Int(k) * Var("*".join(p)) for p, k in sorted(x.terms.items())]
    return reduce(lambda a, b: a + b, parts) if parts else Int(0)


def all_of(facts: Sequence[Expr]) -> Expr:
    """That all of some facts hold."""
    return reduce(lambda a, b: Binary("and", a, b), facts) if facts else Int(1)


def either(*facts: Expr) -> Expr:
    """That one of some facts holds."""
    return reduce(lambda a, b: Binary("or", a, b), facts)


class ThreadTerms:
    """The registers of the thread ``tag``, in a block of one shape, at one moment."""

    def __init__(self, flow: Flow, block: Sequence[int], tag: str, named: Named, facts: Facts) -> None:
        self.flow, self.block, self.tag, self.named, self.facts = flow, block, tag, named, facts
        self._led: Led = _any_way
        self._at: int | None = None
        self._held: dict[int, Polynomial] = {}
        self._steps: dict[int, Polynomial] = {}  # by register of a loop's head, what each turn adds
        self._turns: dict[int, Expr] = {}  # by head of a loop, how often it was gone round

    def arrived(self, at: int, led: Led) -> ThreadTerms:
        """Itself, of a thread that is in a block at that moment: it came through those that dominate it."""
        self._at, self._led = at, led
        return self

    # ------------------------------------------------------------ numbers

    def of(self, op: Operand, k: int, depth: int = _DEEPEST) -> Polynomial:
        """What an operand of an instruction is."""
        match op:
            case Imm(value):
                return Polynomial.of(value)
            case Reg(name):
                return self.version(self.flow.versions.read(name, k), depth)
            case Special(name):
                return self._special(name)
            case Sym(name, offset):
                return Polynomial.of(f"&{name}") + Polynomial.of(offset)
        return self._other()

    def version(self, v: int, depth: int = _DEEPEST) -> Polynomial:
        """What a version of a register is."""
        found = self._held.get(v)
        if found is None:
            k = self.flow.versions.writer[v]
            found = self._leaf(v)
            if depth > 0:
                found = self._merged(v, depth - 1) if k < 0 else self._made(v, k, depth - 1)
            self._held[v] = found
        return found

    def thread(self, axis: int) -> Polynomial:
        """The thread's number along an axis."""
        if self.block[axis] == 1:
            return Polynomial.of(0)
        name = f"{self.tag}.{'xyz'[axis]}"
        if self.facts.first(name):
            self.facts.holds += [Var(name) >= 0, Var(name) < self.block[axis]]
        return Polynomial.of(name)

    def _other(self) -> Polynomial:
        self.facts.others += 1
        return Polynomial.of(f"{self.tag}.?{self.facts.others}")

    def _leaf(self, v: int) -> Polynomial:
        name = self.named(v) if self.flow.versions.writer[v] < 0 else None
        return Polynomial.of(f"{self.tag}.v{v}" if name is None else name)

    def _special(self, name: str) -> Polynomial:
        base, _, axis = name.partition(".")
        if base in ("%tid", "%ntid") and axis in ("x", "y", "z"):
            n = "xyz".index(axis)
            return self.thread(n) if base == "%tid" else Polynomial.of(self.block[n])
        if name.startswith(_OF_BLOCK):
            if self.facts.first(name):
                self.facts.holds.append(Var(name) >= 0)
            return Polynomial.of(name)
        return self._other()

    def _made(self, v: int, k: int, depth: int) -> Polynomial:
        i = self.flow.body[k]
        if i.guard is not None or results(i) != (self.flow.versions.name[v],) or not i.mods:
            return self._leaf(v)
        parameter = launch_parameter(self.flow, i)
        if parameter is not None:
            return Polynomial.of(parameter)
        types = [m for m in i.mods if any(c.isdigit() for c in m)]  # of halves, too
        whole = all(kind(m) in ("u", "s", "b") and width(m) > _HALF for m in types)
        if i.op not in PURE or not whole or len(i.operands) < 2 or not _LOSES.isdisjoint(i.mods):
            return self._leaf(v)
        if i.op == "selp":
            return self._selected(v, i, k, depth)
        found = self._computed(i, [self.of(_signed(op, i), k, depth) for op in i.operands[1:]])
        return found if found is not None and self._fits(found) else self._leaf(v)

    def _fits(self, x: Polynomial) -> bool:
        """Whether constants and numbers of threads stay below 2**31, and factors of others are small."""
        low = high = 0
        for p, factor in x.terms.items():
            most = 1
            for name in p:
                tag, _, axis = name.partition(".")
                most *= (
                    self.block["xyz".index(axis)] - 1 if tag == self.tag and axis in ("x", "y", "z") else 1
                )
            if most * abs(factor) > _MOST_FACTOR and p and not all(map(self._is_thread, p)):
                return False
            if all(map(self._is_thread, p)):
                low, high = low + min(0, most * factor), high + max(0, most * factor)
        return -(1 << _HALF) <= low <= high < 1 << _HALF

    def _is_thread(self, name: str) -> bool:
        return name in (f"{self.tag}.x", f"{self.tag}.y", f"{self.tag}.z")

    def _computed(self, i: Instr, args: Sequence[Polynomial]) -> Polynomial | None:
        a, b = args[0], args[1] if len(args) > 1 else Polynomial.of(0)
        match i.op:
            case "mov" | "cvta":
                return a
            case "cvt":
                return self._widened(i, a)
            case "add":
                return a + b
            case "sub":
                return a - b
            case "neg":
                return a.times(-1)
            case "not":
                return a.times(-1) - Polynomial.of(1)
            case "mul" | "mad" if i.mods[0] == "lo" or (i.mods[0] == "wide" and i.mods[-1] == "s32"):
                return a * b + (args[2] if i.op == "mad" else Polynomial.of(0))
            case "mul" | "mad" if i.mods[0] == "wide":
                product = self._widened(i, a) * self._widened(i, b)
                return product + (args[2] if i.op == "mad" else Polynomial.of(0))
            case "shl" if b.number is not None and 0 <= b.number < _HALF:
                return a.times(1 << b.number)
        return self._opaque(i, args)

    def _widened(self, i: Instr, a: Polynomial) -> Polynomial:
        """A number that is read as unsigned in more bits: itself, where it is not below 0."""
        if i.mods[-1] != "u32" or (i.op == "cvt" and width(i.mods[0]) <= width(i.mods[-1])):
            return a
        if all(k >= 0 and all(x.partition(".")[2] in ("x", "y", "z") for x in p) for p, k in a.terms.items()):
            return a
        return self._said(f"wide({a.key})", lambda w: [either(written(a) < 0, w.eq(written(a))), w >= 0])

    def _said(self, how: str, say: Callable[[Expr], list[Expr]]) -> Polynomial:
        """The number that is made in a way, of which something holds."""
        name = f"[{how}]".replace("*", "x")
        if self.facts.first(name):
            self.facts.holds += say(Var(name))
        return Polynomial.of(name)

    def _opaque(self, i: Instr, args: Sequence[Polynomial]) -> Polynomial | None:
        """What an instruction makes of numbers, with what holds of it."""
        how = f"{i.op}.{'.'.join(i.mods)}({'; '.join(x.key for x in args)})"
        a, b = args[0], args[1] if len(args) > 1 else Polynomial.of(0)
        x, y, n, signed = written(a), written(b), b.number, kind(i.mods[-1]) == "s"
        match i.op:
            case "div" | "rem":
                return self._divided(i.op, f"div.{i.mods[-1]}({a.key}; {b.key})", a, b)
            case "shr" if n is not None and 0 <= n < _HALF:
                step = 1 << n
                return self._said(
                    how, lambda w: [_unless(x, all_of([step * w <= x, x < step * w + step]), signed=signed)]
                )
            case "and" if n is not None and n >= 0 and n & (n + 1) == 0:
                rest = Var(f"[{how}/]".replace("*", "x"))
                return self._said(how, lambda w: [w >= 0, w <= n, x.eq(Int(n + 1) * rest + w)])
            case "and" if n is not None and n >= 0:
                return self._said(how, lambda w: [w >= 0, w <= n])
            case "or" if n is not None and n >= 0:
                return self._said(how, lambda w: [w >= x, w <= x + n])
            case "min" | "max":
                less, more = (x <= y, x >= y) if i.op == "min" else (x >= y, x <= y)

                def say(w: Expr) -> list[Expr]:
                    both = either(all_of([w.eq(x), less]), all_of([w.eq(y), more]))
                    return [both if signed else either(x < 0, y < 0, both)]

                return self._said(how, say)
        return self._said(how, lambda w: [])

    def _divided(self, op: str, how: str, a: Polynomial, b: Polynomial) -> Polynomial:
        """A quotient of numbers that are not below 0, or the rest."""
        name = f"[{how}]".replace("*", "x")
        q = Polynomial.of(name)
        if self.facts.first(name):
            self.facts.quotients[name] = a, b
            x, y, product = written(a), written(b), written(q * b)
            known = all_of([product <= x, x < product + y, Var(name) >= 0, Var(name) <= x])
            self.facts.holds.append(either(x < 0, y <= 0, known))
        return q if op == "div" else a - q * b

    def _selected(self, v: int, i: Instr, k: int, depth: int) -> Polynomial:
        one, other = (self.of(_signed(op, i), k, depth) for op in i.operands[1:3])
        if one.key == other.key:
            return one
        chosen = i.operands[3]
        x = self._leaf(v)
        yes, no = (list(self.decided(chosen, k, holds=holds, depth=depth)) for holds in (True, False))
        name = next(iter(x.names))
        if self.facts.first(name):
            w = written(x)
            self.facts.holds.append(
                either(all_of([w.eq(written(one)), *yes]), all_of([w.eq(written(other)), *no]))
            )
        return x

    # ------------------------------------------------------------ merges

    def _merged(self, v: int, depth: int) -> Polynomial:
        flow, versions = self.flow, self.flow.versions
        edges, here = versions.merged(v), versions.block[v]
        back = {x for b, x in edges if b >= 0 and flow.dominates(here, b)}
        first = {x for b, x in edges if b < 0 or not flow.dominates(here, b)}
        if not edges or any(versions.is_unset(x) for x in first):
            return self._leaf(v)
        if back:
            return self._counted(v, first, back, depth)
        x = self._leaf(v)
        if any(flow.dominates(here, versions.block[b]) for b in first):
            return x
        self._held[v] = x
        name = next(iter(x.names))
        if self.facts.first(name):
            w = written(x)
            came = self._at is not None and flow.dominates(here, self._at)  # another may never be come to
            ways = [
                all_of([w.eq(written(self.version(y, depth))), *(self._came(b, here, depth) if came else ())])
                for y, b in sorted((y, b) for b, y in edges)
            ]
            self.facts.holds.append(either(*ways))
        return x

    def _came(self, block: int, join: int, depth: int) -> Iterator[Expr]:
        """What holds at a join because one block led there."""
        flow, at = self.flow, block
        if depth <= 0:
            return
        last, succ = flow.blocks[at].hi - 1, flow.blocks[at].succ
        branch = flow.body[last]
        if len(succ) == 2 and succ[0] != succ[1] and branch.op == "bra" and branch.guard is not None:
            yield from self.decided(
                branch.guard, last, holds=(succ[0] == join) != branch.negated, depth=depth
            )
        while at != flow.idom[join] and flow.idom[at] != at and flow.idom[at] >= 0:
            yield from self._entered(at, depth)
            at = flow.idom[at]

    def _counted(self, v: int, first: set[int], back: set[int], depth: int) -> Polynomial:
        """A number that each turn of a loop moves on by the same."""
        x = self._leaf(v)
        if len(first) > 1:
            return x
        aside = ThreadTerms(self.flow, self.block, self.tag, self.named, Facts())
        aside._held = {**self._held, v: x}
        steps = [aside.version(b, depth) - x for b in sorted(back)]
        step = steps[0]
        if any(s.key != step.key or not all(map(_of_launch, s.names)) for s in steps):
            return x
        name = f"turns {next(iter(x.names))}"
        if self.facts.first(name):
            self.facts.holds.append(Var(name) >= 0)
        every = self._turns.setdefault(self.flow.versions.block[v], Var(name))
        if self.facts.first(f"{name} is {every}"):
            self.facts.holds.append(every.eq(Var(name)))
        self._steps[v] = step
        return self.version(next(iter(first)), depth) + Polynomial.of(name) * step

    def step(self, v: int) -> Polynomial | None:
        """What each turn of a loop adds to a register of its head, where it is one number."""
        self.version(v)
        return self._steps.get(v)

    def before_the_end(
        self, first: Polynomial, x: Polynomial, end: Polynomial, step: int, way: int
    ) -> Iterator[Expr]:
        """What goes from one number by steps, and has not been another yet, lies before that: if it began
        there, a multiple of the step away. ``way``: whether it goes up, 1, or down, -1."""
        away, left = (end - first).times(way), (end - x).times(way)
        name = f"[{away.key} by {step}]".replace("*", "x")
        whole, rest = Var(name), Var(f"{name}/")
        if self.facts.first(name):
            self.facts.holds += [written(away).eq(Int(step) * whole + rest), rest >= 0, rest < step]
        yield either(written(away) <= 0, rest.ne(0), written(left) >= step)

    # ------------------------------------------------------------ conditions

    def given(self, k: int) -> Iterator[Expr]:
        """What holds where an instruction is executed, by branches on all ways to it, and its guard."""
        flow, i = self.flow, self.flow.body[k]
        if i.guard is not None:
            yield from self.decided(i.guard, k, holds=not i.negated)
        at = flow.block_of[k]
        yield from self._gone_round(at)
        while flow.idom[at] != at and flow.idom[at] >= 0:
            yield from self._entered(at)
            yield from self._joined(at)
            at = flow.idom[at]
            yield from self._gone_round(at)

    def _joined(self, at: int) -> Iterator[Expr]:
        """What holds in a block to which several branches lead, for each of them."""
        flow = self.flow
        ahead = [p for p in flow.blocks[at].pred if p in flow.reached and not flow.dominates(at, p)]
        if len(ahead) > 1:
            ways = [list(self._came(p, at, _DEEPEST)) for p in ahead if self._led(p, at)]
            if ways and all(ways):
                yield either(*map(all_of, ways))

    def _entered(self, at: int, depth: int = _DEEPEST) -> Iterator[Expr]:
        """What holds in a block because the branch above leads to it, and no other way does."""
        flow = self.flow
        above = flow.idom[at]
        last = flow.blocks[above].hi - 1
        branch = flow.body[last]
        succ = flow.blocks[above].succ
        if len(succ) == 2 and at in succ and branch.op == "bra" and branch.guard is not None:
            others = (p for p in flow.blocks[at].pred if p != above and p in flow.reached)
            if all(flow.dominates(at, p) for p in others):
                holds = (succ[0] == at) != branch.negated
                yield from self.decided(branch.guard, last, holds=holds, depth=depth)

    def _gone_round(self, head: int) -> Iterator[Expr]:
        """What holds in a loop since its branches back: one was taken, or this is the first turn."""
        flow = self.flow
        tails = [b for b in flow.blocks[head].pred if b in flow.reached and flow.dominates(head, b)]
        if not tails:
            return
        turns = [_TurnBefore(self, head, b) for b in sorted(tails)]
        if len(turns) == 1:
            yield from turns[0].not_yet()
        held = [list(turn.held()) for turn in turns]
        moved = {v: x for turn in turns for v, x in turn.moved.items()}
        if moved and all(held):
            yield either(all_of([x for _, x in sorted(moved.items())]), *map(all_of, held))

    def decided(self, p: Operand, k: int, *, holds: bool, depth: int = _DEEPEST) -> Iterator[Expr]:
        """What holds where a predicate that an instruction reads is true, or false."""
        if isinstance(p, Not):
            yield from self.decided(p.reg, k, holds=not holds, depth=depth)
        elif isinstance(p, Reg) and depth > 0:
            at = self.flow.versions.writer[self.flow.versions.read(p.name, k)]
            if at >= 0 and self.flow.body[at].guard is None:
                yield from self._decided_by(self.flow.body[at], at, holds=holds, depth=depth - 1)

    def _decided_by(self, i: Instr, k: int, *, holds: bool, depth: int) -> Iterator[Expr]:
        ops = i.operands
        if not isinstance(ops[0], Reg):
            return
        if (
            i.op == "setp"
            and len(ops) == 3
            and i.mods[0] in _COMPARED
            and kind(i.mods[-1]) in ("u", "s", "b")
        ):
            yield from self._compared(i, k, holds=holds, depth=depth)
        elif i.op == "not" and i.mods[-1] == "pred":
            yield from self.decided(ops[1], k, holds=not holds, depth=depth)
        elif i.op in ("and", "or") and i.mods[-1] == "pred":
            one, other = (list(self.decided(op, k, holds=holds, depth=depth)) for op in ops[1:3])
            if (i.op == "and") == holds:
                yield from (*one, *other)
            elif one and other:
                yield either(all_of(one), all_of(other))

    def _compared(self, i: Instr, k: int, *, holds: bool, depth: int) -> Iterator[Expr]:
        if width(i.mods[-1]) < _HALF:
            return
        a, b = (self.of(_signed(op, i), k, depth) for op in i.operands[1:3])
        x, y, how = written(a), written(b), _COMPARED[i.mods[0]]
        how = how if holds else _OPPOSITE[how]
        unsigned = kind(i.mods[-1]) == "u" or i.mods[0] in ("lo", "ls", "hi", "hs")
        if how in ("==", "!=") or not unsigned:
            yield Binary(how, x, y)
        elif how in ("<", "<="):
            yield either(y < 0, all_of([x >= 0, Binary(how, x, y)]))
        else:
            yield either(x < 0, all_of([y >= 0, Binary(how, x, y)]))


class _TurnBefore(ThreadTerms):
    """The registers of a thread where it last took one of a loop's branches back, beside those of now.

    What a register of the loop's head holds now is what was handed back there. Other registers that
    the loop writes held numbers of their own.
    """

    def __init__(self, now: ThreadTerms, head: int, tail: int) -> None:
        super().__init__(now.flow, now.block, now.tag, now.named, now.facts)
        self.now, self.head, self.tail = now, head, tail
        #: by register of the head that was asked for, that it holds what it did in the first turn
        self.moved: dict[int, Expr] = {}
        inside = min((loop for loop in now.flow.loops if {head, tail} <= loop), key=len)
        self._inside = inside
        versions = now.flow.versions
        names = sorted(name for name, by in versions.writes.items() if not inside.isdisjoint(by))
        self._heads = {v for name in names if self._merges(v := versions.entering(name, head))}
        self._back = {x: v for v in sorted(self._heads) for b, x in versions.merged(v) if b == tail}

    def _merges(self, v: int) -> bool:
        """Whether a register of the head holds something before the loop, and in it."""
        versions = self.flow.versions
        edges = versions.merged(v) if versions.writer[v] < 0 and versions.block[v] == self.head else []
        return bool(edges) and not any(versions.is_unset(x) for _, x in edges)

    def held(self) -> Iterator[Expr]:
        """What the branches from the head to the end of the turn asked for."""
        flow, at = self.flow, self.tail
        last = flow.blocks[at].hi - 1
        branch, succ = flow.body[last], flow.blocks[at].succ
        if len(succ) == 2 and branch.op == "bra" and branch.guard is not None:
            yield from self.decided(branch.guard, last, holds=(succ[0] == self.head) != branch.negated)
        while at != self.head:
            yield from self._entered(at)
            at = flow.idom[at]

    def not_yet(self) -> Iterator[Expr]:
        """Of a number that each turn moves towards another, until it is that: it was not passed."""
        flow, last = self.flow, self.flow.blocks[self.tail].hi - 1
        branch, succ = flow.body[last], flow.blocks[self.tail].succ
        if len(succ) != 2 or branch.op != "bra" or branch.guard is None:
            return
        at = flow.versions.writer[flow.versions.read(branch.guard.name, last)]
        i = flow.body[at]
        unequal = "ne" if (succ[0] == self.head) != branch.negated else "eq"
        if at < 0 or i.op != "setp" or i.guard is not None or len(i.operands) != 3 or i.mods[0] != unequal:
            return
        one, other = i.operands[1:3]
        v = self._back.get(flow.versions.read(one.name, at)) if isinstance(one, Reg) else None
        step = None if v is None else self.now.step(v)
        fixed = isinstance(other, Imm) or (
            isinstance(other, Reg)
            and flow.versions.block[flow.versions.read(other.name, at)] not in self._inside
        )
        if v is None or step is None or not step.number or width(i.mods[-1]) <= _HALF or not fixed:
            return
        first = next(x for b, x in flow.versions.merged(v) if b != self.tail)
        end, way = self.now.of(_signed(other, i), at), 1 if step.number > 0 else -1
        yield from self.now.before_the_end(
            self.now.version(first), self.now.version(v), end, step.number * way, way
        )

    def version(self, v: int, depth: int = _DEEPEST) -> Polynomial:
        if v in self._back:
            return self._now(self._back[v])
        if v in self._heads and (step := self.now.step(v)) is not None:
            return self._now(v) - step
        return super().version(v, depth)

    def _now(self, v: int) -> Polynomial:
        x = self.now.version(v)
        first = [y for b, y in self.flow.versions.merged(v) if b < 0 or not self.flow.dominates(self.head, b)]
        self.moved[v] = either(*(written(x).eq(written(self.now.version(y))) for y in sorted(first)))
        return x

    def _leaf(self, v: int) -> Polynomial:
        if self.flow.versions.block[v] in self._inside:
            return Polynomial.of(f"{self.tag}.v{v} before {self.head}")
        return super()._leaf(v)


def _unless(x: Expr, holds: Expr, *, signed: bool) -> Expr:
    return holds if signed else either(x < 0, holds)


def _of_launch(name: str) -> bool:
    """Whether a number is one for the launch, or the block."""
    return name.startswith(("param ", "%ctaid", "%nctaid"))


def _signed(op: Operand, i: Instr) -> Operand:
    """A constant as the signed number that its bits are."""
    bits = 32 if i.mods[-1] in ("u32", "s32", "b32") else 64
    if isinstance(op, Imm) and op.value >> bits - 1 == 1:
        return Imm(op.value - (1 << bits))
    return op


__all__ = ["Facts", "ThreadTerms", "all_of", "either", "written"]
