"""Steps of butterflies: what two lanes that exchange values compute alike.

``shfl.sync.bfly`` of a value with a mask of one bit gives each lane what the lane holds whose number differs
in that bit. A result is *symmetric* if both lanes make the same of it: if it stays the same when what a lane
holds (``own``) and what it got (``other``) change places. Then it does not vary with the bit.

Three things show it:

- commutative operations are written in one order: ``x + other(x)`` is ``other(x) + x``, bit by bit, of
  integers and of floats;
- a selection is looked at for each outcome of the comparisons that decide: less, equal, greater, and of
  floats unordered. With ``v > w || (v == w && i < j)`` both lanes choose the same pair ``(v, i)`` in each;
- integers that are equal are one value.

Two of these outcomes are of floats whose bits may differ though they compare as equal (zeros of both signs),
or that do not compare at all (NaN). A result that is symmetric without them rests on an assumption, which the
report prints. So does a sum that the assembler may contract with a product before it: one lane would add what
the other has rounded.

A result of floats may be symmetric but for rounding, as means and variances are that two lanes merge
(``m1 + (m2 - m1) * n2 / (n1 + n2)``). It is then an assumption that this does not matter. So is it that lanes
hold the same where they ask whether such a sum of counts is zero (``analysis.registers.real_identities``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING

from syncverify.frontends.ptx.analysis.registers.real_identities import equal_over_the_reals
from syncverify.frontends.ptx.syntax.nodes import (
    FloatImm,
    Imm,
    Instr,
    Not,
    Operand,
    Pair,
    Reg,
    Special,
    Vector,
)
from syncverify.frontends.ptx.syntax.operands import registers, results
from syncverify.frontends.ptx.syntax.types import width

if TYPE_CHECKING:
    from syncverify.frontends.ptx.analysis.registers.uniformity import Uniformity

#: What a step computes, as a tree: ``("own", leaf)``, ``("other", leaf)``, ``("fixed", text)``, or the name
#: of an operation and what it is of.
Term = tuple[object, ...]
#: Instructions that are looked at for one step, versions between them, and outcomes.
_MOST, _OUTCOMES = 96, 1 << 10
#: Nodes of a term, written out, that two terms are compared up to.
_NODES = 4_000
#: The bits of a lane's number in a mask of what a value varies with.
_LANES = 31
_COMMUTATIVE = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})
_FLOATS = ("f", "bf")
#: The outcomes of a comparison of floats in which a predicate holds: less, equal, greater, unordered.
_HOLDS = {
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=", "ne": "<>", "lo": "<", "ls": "<=", "hi": ">",
    "hs": ">=", "ltu": "<?", "leu": "<=?", "gtu": ">?", "geu": ">=?", "equ": "=?", "neu": "<>?", "num": "<=>",
    "nan": "?",
}  # fmt: skip
_ROUNDING = frozenset({"rn", "rz", "rm", "rp", "rna"})


@dataclass(frozen=True, slots=True)
class Symmetric:
    """A result that lanes whose numbers differ in ``bit`` hold alike, and what that rests on: texts by
    instruction. ``rounded``: alike but for rounding."""

    bit: int
    rests_on: tuple[tuple[int, str], ...]
    rounded: bool = False


@dataclass(frozen=True, slots=True)
class _Shown:
    """What was found of a version, while other versions vary with these bits of the lane."""

    found: Symmetric | None
    while_held: Mapping[int, int]


class Butterflies:
    """The exchanges of a function."""

    def __init__(self, uniformity: Uniformity) -> None:
        self.u = uniformity
        self._steps: dict[int, tuple[int, frozenset[int], frozenset[int]]] = {}
        self._shown: dict[int, _Shown] = {}

    def needs(self, v: int) -> frozenset[int]:
        """The versions on which it depends whether one is a step's result."""
        return self._step(v)[2]

    def symmetric(self, v: int) -> Symmetric | None:
        """Whether a version of a register is a step's result; None if that is not shown."""
        bit, leaves, _ = self._step(v)
        if not leaves:
            return None
        known = self._shown.get(v)
        if known is None or any(self.u.held(x) & _LANES != held for x, held in known.while_held.items()):
            tree = _Tree(self.u, bit, leaves)
            rests_on = tree.rests_on(v)
            found = None if rests_on is None else Symmetric(bit, rests_on, tree.rounded)
            known = self._shown[v] = _Shown(found, tree.held)
        return known.found

    def _step(self, v: int) -> tuple[int, frozenset[int], frozenset[int]]:
        """The bit that is exchanged, the versions that are, by the exchanges last made, and those that were
        looked at."""
        found = self._steps.get(v)
        if found is None:
            found = self._steps[v] = self._last_exchanges(v)
        return found

    def _last_exchanges(self, v: int) -> tuple[int, frozenset[int], frozenset[int]]:
        u = self.u
        work: list[tuple[int, int]] = []
        seen: set[int] = set()
        leaves: set[int] = set()
        bit = 0

        def look(x: int) -> None:
            if x not in seen and x not in leaves:
                seen.add(x)
                at = u.versions.writer[x]
                heappush(work, (-(at if at >= 0 else u.flow.blocks[u.versions.block[x]].lo), x))

        look(v)
        for _ in range(_MOST):
            if not work:
                break
            _, x = heappop(work)
            if x in leaves:
                continue
            k = u.versions.writer[x]
            if k < 0:
                for _, y in u.versions.merged(x) if _choice(u, x) is not None else ():
                    look(y)
                continue
            got = exchanged(u, x)
            if got is not None:
                for y in u.leaving(k):
                    seen.add(y)
                if bit in (0, got.bit):
                    bit = got.bit
                    leaves.add(got.of)
                continue
            if u.body[k].op in _FOLLOWED:
                for name in _read(u.body[k]):
                    look(u.versions.read(name, k))
        return (bit, frozenset(leaves), frozenset(seen)) if leaves else (0, frozenset(), frozenset())


_FOLLOWED = _COMMUTATIVE | frozenset("mov selp setp not fma mad cvt sub neg abs shl shr div rcp".split())


def _read(i: Instr) -> Iterator[str]:
    for op in i.operands[1:]:
        yield from registers(op)
    if i.guard is not None:
        yield i.guard.name
        yield from results(i)


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What an exchange brings: the other lane's version ``of``, or of it the words that ``parts`` number."""

    bit: int
    of: int
    parts: tuple[int, ...]


def exchanged(u: Uniformity, v: int) -> Exchanged | None:
    """What all lanes exchange by the instruction that writes a version; None for others."""
    k = u.versions.writer[v]
    i = u.body[k] if k >= 0 else None
    if i is None or i.op != "shfl" or "bfly" not in i.mods or "sync" not in i.mods or len(i.operands) < 5:
        return None
    first, value, lane, clamp, members = i.operands[:5]
    if i.guard is not None or not isinstance(value, Reg):
        return None
    if isinstance(first, Pair) and isinstance(first.second, Reg) and first.second.name == u.versions.name[v]:
        return None  # whether the other lane was in range
    bit, c = u.constant(lane, k), u.constant(clamp, k)
    if bit not in (1, 2, 4, 8, 16) or c is None or c & 31 != 31 or c >> 8 & bit or not u.whole(members, k):
        return None
    return Exchanged(bit, *_moved(u, u.versions.read(value.name, k)))


def _moved(u: Uniformity, v: int) -> tuple[int, tuple[int, ...]]:
    """The version that one is moved from, and which words of it one is."""
    parts: list[int] = []
    for _ in range(8):
        k = u.versions.writer[v]
        i = u.body[k] if k >= 0 else None
        if i is None or i.op != "mov" or i.guard is not None or not isinstance(i.operands[1], Reg):
            break
        first = i.operands[0]
        if isinstance(first, Vector):
            name = u.versions.name[v]
            parts.append(next(j for j, x in enumerate(first.items) if isinstance(x, Reg) and x.name == name))
        v = u.versions.read(i.operands[1].name, k)
    return v, tuple(parts)


def _choice(u: Uniformity, v: int) -> tuple[str, bool, int, int] | None:
    """For what a short branch merges: the predicate, at the end of which block, and the versions where it
    holds and where not."""
    merged = u.versions.merged(v)
    here = u.versions.block[v]
    if len(merged) != 2 or here < 0:
        return None
    top = u.flow.idom[here]
    last = u.body[u.flow.blocks[top].hi - 1]
    if last.op != "bra" or last.guard is None or len(u.flow.blocks[top].succ) != 2:
        return None
    jump, fall = u.flow.blocks[top].succ
    found: dict[bool, int] = {}
    for b, x in merged:
        side = here if b == top else b
        if b != top and (u.flow.blocks[b].pred != [top] or u.flow.blocks[b].succ != [here]):
            return None
        if side not in (jump, fall):
            return None
        found[(side == jump) != last.negated] = x
    if len(found) != 2:
        return None
    return last.guard.name, True, found[True], found[False]


def _written_out(term: object, known: dict[int, int]) -> int:
    """How many nodes a term has where each part that is shared is written out as often as it is used."""
    if not isinstance(term, tuple):
        return 1
    found = known.get(id(term))
    if found is None:
        found = known[id(term)] = 1 + sum(_written_out(x, known) for x in term)
    return found


class _Tree:
    """What a step computes, of one choice of leaves."""

    def __init__(self, u: Uniformity, bit: int, leaves: frozenset[int]) -> None:
        self.u = u
        self.bit = bit
        self.leaves = leaves
        self.assumed: set[tuple[int, str]] = set()
        self.rounded = False
        #: an instruction that compares a leaf as a type
        self.compared: dict[tuple[str, object], int] = {}
        #: the bits of the lane that versions which are not looked into vary with, as far as is known yet
        self.held: dict[int, int] = {}
        self._known: dict[int, Term] = {}
        self._size = 0

    def rests_on(self, v: int) -> tuple[tuple[int, str], ...] | None:
        """What the symmetry of a version rests on; None if it is not symmetric."""
        if v in self.leaves:
            return None
        term = self.term(v)
        if _written_out(term, {}) > _NODES:
            return None
        if self._size > _MOST or not _exchanges(term, {}):
            return None
        other = _swapped(term, {})
        known: dict[int, tuple[Term, str]] = {}
        if _ordered(term, known)[1] == _ordered(other, known)[1]:
            return tuple(sorted(self.assumed))
        asked = list(dict.fromkeys([*_asked(term), *_asked(other)]))
        outcomes = [_outcomes(x) for x in asked]
        total = 1
        for some in outcomes:
            total *= len(some)
        if total > _OUTCOMES:
            return None
        for chosen in product(*outcomes):
            case = dict(zip(asked, chosen, strict=True))
            same = self._equal_integers(case)
            a, b = _resolved(term, case, same), _resolved(other, case, same)
            if a == b:
                continue
            reason = self._excused(term, other, case, same) or self._but_for_rounding(v, a, b, case)
            if reason is None:
                return None
            self.assumed |= reason
        return tuple(sorted(self.assumed))

    def _equal_integers(self, case: Mapping[Term, str]) -> frozenset[object]:
        return frozenset(
            x[2] for x, outcome in case.items()
            if x[0] == "relation" and outcome == "=" and not str(x[1]).startswith(_FLOATS)
        )  # fmt: skip

    def _excused(
        self, term: Term, other: Term, case: Mapping[Term, str], same: frozenset[object]
    ) -> set[tuple[int, str]] | None:
        """What rules an outcome out, or makes it harmless; None if nothing does."""
        floats = {x: o for x, o in case.items() if x[0] == "relation" and str(x[1]).startswith(_FLOATS)}
        unordered = [x for x, o in floats.items() if o == "?"]
        if unordered:
            return {(self._line(x), "no NaN is compared") for x in unordered}
        equal = [x for x, o in floats.items() if o == "="]
        more = same | {x[2] for x in equal}
        if equal and _resolved(term, case, more) == _resolved(other, case, more):
            return {(self._line(x), "zeros that are compared have one sign") for x in equal}
        return None

    def _but_for_rounding(
        self, v: int, one: Term, other: Term, case: Mapping[Term, str]
    ) -> set[tuple[int, str]] | None:
        """What both lanes hold is the same number, or they hold nothing yet; None if that is not shown."""
        k = self.u.versions.writer[v]
        if k < 0 or not self.u.body[k].mods or not self.u.body[k].mods[-1].startswith(_FLOATS):
            return None
        self.rounded = True
        if equal_over_the_reals(one, other):
            return {(k, "what lanes hold alike but for rounding is one value")}
        if any(_is_zero(x, outcome) for x, outcome in case.items()):
            return {(k, "lanes that find the sum of their counts zero hold one value")}
        return None

    def _line(self, relation: Term) -> int:
        return self.compared[str(relation[1]), relation[2]]

    # ------------------------------------------------------------

    def term(self, v: int) -> Term:
        """What a version is computed as."""
        found = self._known.get(v)
        if found is None:
            self._size += 1
            self._known[v] = ("own", v)  # of a loop
            found = self._known[v] = self._made(v) if self._size <= _MOST else ("own", v)
        return found

    def _made(self, v: int) -> Term:
        u = self.u
        if v in self.leaves:
            return ("own", v)
        got = exchanged(u, v)
        if got is not None and not self._together(u.versions.writer[v]):
            return self._opaque(v)  # the other lane may have left
        if got is not None and got.bit == self.bit and got.of in self.leaves:
            found: Term = ("other", got.of)
            for n in reversed(got.parts):
                found = ("part", n, found)
            return found
        k = u.versions.writer[v]
        if k < 0:
            choice = _choice(u, v)
            if choice is None:
                return self._opaque(v)
            top = u.flow.idom[u.versions.block[v]]
            last = u.flow.blocks[top].hi - 1
            return ("choose", self._operand(Reg(choice[0]), last), self.term(choice[2]), self.term(choice[3]))
        i = u.body[k]
        name = u.versions.name[v]
        made = self._instruction(k, i, name)
        if made is None:
            return self._opaque(v)
        if i.guard is None:
            return made
        guard = self._operand(i.guard, k)
        old = self.term(u.versions.read(name, k))
        return ("choose", guard, old, made) if i.negated else ("choose", guard, made, old)

    def _opaque(self, v: int) -> Term:
        """What is not looked into: the same for both lanes, if it does not vary with the bit."""
        held = self.held[v] = self.u.held(v) & _LANES
        return ("own", v) if held & self.bit else ("fixed", v)

    def _together(self, k: int) -> bool:
        """Whether no lane has left before the others come to an exchange."""
        for v in self.u.leaving(k):
            self.held[v] = self.u.held(v) & _LANES
        return self.u.together(k)

    def _instruction(self, k: int, i: Instr, name: str) -> Term | None:
        ops = i.operands
        first = ops[0]
        if i.op == "setp":
            return self._comparison(k, i, name)
        if isinstance(first, Vector) and i.op == "mov" and len(ops) == 2:
            n = next((j for j, x in enumerate(first.items) if isinstance(x, Reg) and x.name == name), None)
            return None if n is None else ("part", n, self._operand(ops[1], k))
        if not isinstance(first, Reg) or not {"cc", "sat"}.isdisjoint(i.mods):
            return None
        args = tuple(self._operand(x, k) for x in ops[1:])
        kind = ".".join((i.op, *i.mods))
        match i.op:
            case "mov" if len(args) == 1:
                return args[0]
            case "selp" if len(args) == 3:
                return ("choose", args[2], args[0], args[1])
            case "not" if i.mods[-1:] == ("pred",):
                return ("not", args[0])
            case "and" | "or" | "xor" if i.mods[-1:] == ("pred",):
                return (i.op, *args)
            case "add" | "sub" if i.mods[-1][:1] in "fb" and _ROUNDING.isdisjoint(i.mods):
                self._contracted(k, i)
                return ("commutes" if i.op == "add" else "computes", kind, *args)
            case _ if i.op in _COMMUTATIVE and "hi" not in i.mods and len(args) == 2:
                return ("commutes", kind, *args)
            case "fma" | "mad" if len(args) == 3:
                return ("computes", kind, ("commutes", "factors", args[0], args[1]), args[2])
            case "sub" | "neg" | "abs" | "cvt" | "shl" | "shr" | "not" | "div" | "rcp":
                return ("computes", kind, *args)
        return None

    def _contracted(self, k: int, i: Instr) -> None:
        """Whether the assembler may make one instruction of a sum and a product before it (PTX ISA, add)."""
        u = self.u
        for op in i.operands[1:]:
            at = u.versions.writer[_moved(u, u.versions.read(op.name, k))[0]] if isinstance(op, Reg) else -1
            if at >= 0 and u.body[at].op == "mul" and _ROUNDING.isdisjoint(u.body[at].mods):
                self.assumed.add((k, "the sum is not contracted with the product before it"))

    def _comparison(self, k: int, i: Instr, name: str) -> Term | None:
        """``setp.cmp{.and|.or|.xor}{.ftz}.type p{|q}, a, b{, c}``."""
        ops = i.operands
        first = ops[0]
        second = isinstance(first, Pair) and isinstance(first.second, Reg) and first.second.name == name
        holds = _HOLDS.get(i.mods[0])
        if holds is None or len(ops) not in (3, 4):
            return None
        a, b = self._operand(ops[1], k), self._operand(ops[2], k)
        kind = i.mods[-1]
        mine = ({a[0], b[0]} == {"own", "other"}) and a[1] == b[1] and a[1] in self.leaves
        wide = mine and width(kind) == self.u.width_of(a[1])  # type: ignore[arg-type]
        if mine and (wide or kind.startswith(_FLOATS)):
            relation: Term = ("relation", kind + ".ftz" if "ftz" in i.mods else kind, a[1])
            self.compared[str(relation[1]), a[1]] = k
            found: Term = ("holds", relation, holds if a[0] == "own" else _turned(holds))
        else:
            found = ("asked", ".".join(i.mods), a, b)
        if second:
            found = ("not", found)
        if len(ops) == 4:
            rule = next((m for m in i.mods[1:] if m in ("and", "or", "xor")), None)
            return None if rule is None else (rule, found, self._operand(ops[3], k))
        return found

    def _operand(self, op: Operand, k: int) -> Term:
        match op:
            case Imm() | FloatImm():
                return ("fixed", repr(op))
            case Special(name):
                return ("fixed", name) if not self.u.special(name) & self.bit else ("own", name)
            case Reg(name):
                return self.term(self.u.versions.read(name, k))
            case Not(reg):
                return ("not", self._operand(reg, k))
            case Vector(items):
                return _packed(tuple(self._operand(x, k) for x in items))
        return ("own", repr(op))


def _packed(items: tuple[Term, ...]) -> Term:
    """Words of one value that are put together again are that value."""
    first = items[0]
    if all(x[0] == "part" and x[1] == n and x[2] == first[2] for n, x in enumerate(items)):
        return first[2]  # type: ignore[return-value]
    return ("computes", "pack", *items)


def _turned(holds: str) -> str:
    return holds.translate(str.maketrans("<>", "><"))


def _swapped(term: Term, known: dict[int, Term]) -> Term:
    """What the other lane computes, in the words of this one. ``known``: of parts, which terms share."""
    found = known.get(id(term))
    if found is None:
        match term:
            case ("own", leaf):
                found = ("other", leaf)
            case ("other", leaf):
                found = ("own", leaf)
            case ("holds", relation, holds):
                found = ("holds", relation, _turned(str(holds)))
            case ("fixed", _) | ("relation", *_):
                found = term
            case _:
                found = tuple(_swapped(x, known) if isinstance(x, tuple) else x for x in term)
        known[id(term)] = found
    return found


def _exchanges(term: Term, known: dict[int, bool]) -> bool:
    """Whether a term holds what another lane has. ``known``: of parts, which terms share."""
    found = known.get(id(term))
    if found is None:
        found = known[id(term)] = term[0] in ("other", "holds") or any(
            _exchanges(x, known) for x in term[1:] if isinstance(x, tuple)
        )
    return found


def _normal(term: Term) -> Term:
    """With the operands of commutative operations in one order."""
    return _ordered(term, {})[0]


def _ordered(term: Term, known: dict[int, tuple[Term, str]]) -> tuple[Term, str]:
    """The same and its text, by which operands are ordered. ``known``: of parts, which terms share."""
    found = known.get(id(term))
    if found is None:
        if term[0] in ("own", "other", "fixed", "holds"):
            found = term, repr(term)
        else:
            parts = [_ordered(x, known) if isinstance(x, tuple) else (x, repr(x)) for x in term]
            start = {"commutes": 2, "and": 1, "or": 1, "xor": 1}.get(str(term[0]), len(parts))
            parts[start:] = sorted(parts[start:], key=itemgetter(1))
            found = tuple(x for x, _ in parts), f"({', '.join(text for _, text in parts)})"
        known[id(term)] = found
    return found


def _asked(term: Term) -> Iterator[Term]:
    """The comparisons that decide: of what is exchanged, and others."""
    if term[0] == "holds":
        yield term[1]  # type: ignore[misc]
        return
    if term[0] == "asked":
        yield _normal(term)
        return
    if term[0] in ("not", "and", "or", "xor"):
        yield from _conditions(term)
    if term[0] == "choose" and isinstance(term[1], tuple):
        yield from _conditions(term[1])
    for x in term[1:]:
        if isinstance(x, tuple):
            yield from _asked(x)


def _conditions(term: Term) -> Iterator[Term]:
    """The predicates of a condition that nothing else explains."""
    if term[0] in ("own", "other", "fixed"):
        yield term
    elif term[0] in ("not", "and", "or", "xor", "choose"):
        for x in term[1:]:
            if isinstance(x, tuple):
                yield from _conditions(x)
    elif term[0] not in ("holds", "asked"):
        yield _normal(term)


_ZEROS = [("fixed", repr(FloatImm(0, width))) for width in (32, 64)]


def _is_zero(asked: Term, outcome: str) -> bool:
    """Whether this is the outcome of a comparison in which a sum of floats is zero."""
    if asked[0] != "asked":
        return False
    comparison, *modifiers = str(asked[1]).split(".")
    sums = [x for x in asked[2:] if isinstance(x, tuple) and x[0] == "commutes" and str(x[1])[:4] == "add."]
    zero = any(x in _ZEROS for x in asked[2:])
    floats = modifiers[-1].startswith(_FLOATS)
    return floats and zero and len(sums) == 1 and (comparison, outcome) in (("eq", "1"), ("neu", "0"))


def _outcomes(asked: Term) -> str:
    if asked[0] != "relation":
        return "01"
    return "<=>?" if str(asked[1]).startswith(_FLOATS) else "<=>"


def _truth(term: Term, case: Mapping[Term, str]) -> bool:
    match term:
        case ("holds", tuple() as relation, str() as holds):
            return case[relation] in holds
        case ("not", tuple() as a):
            return not _truth(a, case)
        case ("and", tuple() as a, tuple() as b):
            return _truth(a, case) and _truth(b, case)
        case ("or", tuple() as a, tuple() as b):
            return _truth(a, case) or _truth(b, case)
        case ("xor", tuple() as a, tuple() as b):
            return _truth(a, case) != _truth(b, case)
        case ("choose", tuple() as p, tuple() as a, tuple() as b):
            return _truth(a if _truth(p, case) else b, case)
    return case[_normal(term)] == "1"


def _resolved(term: Term, case: Mapping[Term, str], same: frozenset[object]) -> Term:
    """What is computed in one outcome; ``same``: leaves that both lanes hold alike."""
    match term:
        case ("other", leaf) if leaf in same:
            return ("own", leaf)
        case ("own" | "other" | "fixed", _):
            return term
        case ("choose", tuple() as p, tuple() as a, tuple() as b):
            return _resolved(a if _truth(p, case) else b, case, same)
        case ("holds" | "not" | "and" | "or" | "xor" | "asked", *_):
            return ("fixed", _truth(term, case))
    parts = tuple(_resolved(x, case, same) if isinstance(x, tuple) else x for x in term)
    return (*parts[:2], *sorted(parts[2:], key=repr)) if term[0] == "commutes" else parts


__all__ = ["Butterflies", "Symmetric", "exchanged"]
