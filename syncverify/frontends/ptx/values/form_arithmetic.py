"""What instructions make of numbers that are linear forms of unknown words (``linear_forms``).

Sums, products with numbers and choices stay forms. Everything else makes a new word, which is the same
wherever the same operation meets the same operands.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.pure_operations import PLAIN
from syncverify.frontends.ptx.syntax.types import kind, width
from syncverify.frontends.ptx.values.linear_forms import (
    Bits,
    Choice,
    Form,
    Number,
    Ways,
    Words,
    given,
    literal,
    plus,
    times,
)

_TESTS: Mapping[str, Ways] = {
    "eq": (0, 1, 0), "ne": (1, 0, 1), "lt": (1, 0, 0), "le": (1, 1, 0), "gt": (0, 0, 1), "ge": (0, 1, 1),
}  # fmt: skip
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
#: Choices inside of each other, and words in one form, at most.
_DEEPEST, _MOST_WORDS = 3, 1100
_SOURCES = ("up", "down", "bfly", "idx")


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Instructions on the numbers of one run."""

    words: Words

    def of(self, i: Instr, args: Sequence[Number], bits: int) -> Number:
        """What an instruction without a guard makes of its operands, in a register of some bits."""
        at = next((x for x in args if isinstance(x, Choice)), None)
        if at is not None:
            if sum(map(_depth, args)) > _DEEPEST:
                return self._opaque(i, args, bits)
            p = at.predicate
            one, other = ([_side(x, p, yes=yes) for x in args] for yes in (True, False))
            return self.chosen(p, self.of(i, one, bits), self.of(i, other, bits), bits)
        found = self._computed(i, args, bits)
        if isinstance(found, Form) and len(found.terms) > _MOST_WORDS:
            found = None
        return self._opaque(i, args, bits) if found is None else found

    def key(self, x: Number) -> Hashable:
        match x:
            case Form():
                return x.key
            case Choice(p, yes, no):
                return "choice", p.key, self.key(yes), self.key(no)
            case Bits(bits):
                return "bits", tuple(self.key(b) for b in bits)
        return x

    # ------------------------------------------------------------ predicates

    def predicate(self, x: Number) -> int | Form:
        """What a register holds as a predicate."""
        if isinstance(x, int):
            return x & 1
        if isinstance(x, Form) and self.words.predicate(x):
            return x
        if isinstance(x, Choice):
            return self._either(x.predicate, self.predicate(x.yes), self.predicate(x.no))
        return self.words.made(("predicate", self.key(x)), 0, 1)

    def opposite(self, p: int | Form) -> int | Form:
        return plus(1, times(p, -1))

    def both(self, p: int | Form, q: int | Form) -> int | Form:
        """Whether two predicates hold."""
        if isinstance(p, int):
            return q if p else 0
        if isinstance(q, int):
            return p if q else 0
        if p.key == q.key:
            return p
        if self.key(self.opposite(p)) == q.key:
            return 0
        found = self.words.product(p, q)
        if found is not None:
            return found
        return self.words.made(("both", *sorted((p.key, q.key), key=repr)), 0, 1)

    def one_of(self, p: int | Form, q: int | Form) -> int | Form:
        """Whether one of two predicates holds."""
        return self.opposite(self.both(self.opposite(p), self.opposite(q)))

    def _either(self, p: Form, yes: int | Form, no: int | Form) -> int | Form:
        if self.key(yes) == self.key(no):
            return yes
        if isinstance(yes, int):
            return self.one_of(p, no) if yes else self.both(self.opposite(p), no)
        if isinstance(no, int):
            return self.one_of(self.opposite(p), yes) if no else self.both(p, yes)
        return self.words.made(("either", p.key, yes.key, no.key), 0, 1)

    def chosen(self, p: int | Form, yes: Number, no: Number, bits: int) -> Number:
        """One of two numbers by a predicate."""
        if bits == 1 and not isinstance(p, int):
            return self._either(p, self.predicate(yes), self.predicate(no))
        found = self.words.chosen(p, yes, no)
        if found is not None:
            return found
        assert not isinstance(p, int)
        counted = self._counted(p, yes, no)
        if counted is not None:
            return counted
        here = literal(p)
        if here is not None and here[1] == 0:
            p, yes, no = plus(1, times(p, -1)), no, yes
        assert isinstance(p, Form)
        small = not self._wide(yes, bits) and not self._wide(no, bits)
        if small and _depth(yes) + _depth(no) < _DEEPEST:
            return Choice(p, yes, no)
        return self.words.made(("chosen", bits, p.key, self.key(yes), self.key(no)), 0, (1 << bits) - 1)

    def _counted(self, p: Form, yes: Number, no: Number) -> int | Form | None:
        """One of two numbers of which each is at most 1 more than the other, by what else has to hold."""
        if not isinstance(yes, int | Form) or not isinstance(no, int | Form):
            return None
        if isinstance(yes, int) and isinstance(no, Form) and self.words.predicate(no) and yes in (0, 1):
            return self._either(p, yes, no)
        for sign in (1, -1):
            more = times(plus(yes, times(no, -1)), sign)
            if isinstance(more, Form) and self.words.predicate(more):
                return plus(no, times(self.both(p, more), sign))
        return None

    def _wide(self, x: Number, bits: int) -> bool:
        """Whether nothing is known of a number."""
        if isinstance(x, Form):
            low, high = self.words.bounds(x)
            return high - low >= 1 << min(bits, 32) - 1
        return isinstance(x, Bits)

    # ------------------------------------------------------------ places

    def sum(self, x: Number, more: int, bits: int) -> Number:
        match x:
            case int():
                return x + more & (1 << bits) - 1
            case Form():
                return plus(x, more)
            case Choice(p, yes, no):
                return Choice(p, self.sum(yes, more, bits), self.sum(no, more, bits))
        return self.words.made(("sum", self.key(x), more), 0, (1 << bits) - 1)

    def cases(self, x: Number, known: Mapping[int, int]) -> Iterator[tuple[int | Form, Mapping[int, int]]]:
        """The forms that a number may be, each with what is known there by word."""
        if isinstance(x, Choice):
            here = literal(x.predicate)
            for yes in (True, False):
                more = {} if here is None else {here[0]: here[1] if yes else 1 - here[1]}
                if all(known.get(word, value) == value for word, value in more.items()):
                    yield from self.cases(x.yes if yes else x.no, {**known, **more})
        elif isinstance(x, Bits):
            yield self.words.made(("word", self.key(x)), 0, (1 << 32) - 1), known
        else:
            for word in () if isinstance(x, int) else known.keys() & x.terms.keys():
                x = given(x, word, known[word])
            yield x, known

    # ------------------------------------------------------------ exchanges

    def number(self, x: Bits) -> Number:
        """The number that bits are, where all are known."""
        if all(isinstance(b, int) for b in x.bits):
            return sum(b << n for n, b in enumerate(x.bits) if isinstance(b, int))
        return x

    def source(self, mods: Sequence[str], lane: int, step: int, limit: int) -> tuple[int, bool]:
        """PTX ISA, shfl.sync: the lane that a lane reads, and whether it is in range."""
        mode = next(m for m in mods if m in _SOURCES)
        clamp, segment = limit & 31, limit >> 8 & 31
        least, most = lane & segment, lane & segment | clamp & ~segment
        match mode:
            case "up":
                return lane - step, lane - step >= most
            case "down":
                return lane + step, lane + step <= most
            case "bfly":
                return lane ^ step, lane ^ step <= most
        at = least | step & ~segment & 31
        return at, at <= most

    # ------------------------------------------------------------ operations

    def _computed(self, i: Instr, args: Sequence[Number], held: int) -> Number | None:
        """A form, or bits, in a register of so many bits; None for a new word."""
        type_ = i.mods[-1] if i.mods else ""
        if type_ == "pred":
            return self._logic(i.op, [self.predicate(x) for x in args])
        if i.op == "setp":
            return self._asked(i, args)
        if i.op == "mov":
            return args[0]
        if i.op == "cvta":
            return self._of_window(i, args[0])
        plain = PLAIN.issuperset(i.mods[: -2 if i.op == "cvt" else -1])
        if kind(type_) not in ("u", "s", "b") or not plain:
            return self._selected(args, width(type_)) if i.op == "selp" else None
        if i.op == "selp":
            return self._selected(args, width(type_))
        first = args[0]
        if isinstance(first, int) and i.op == "popc":
            return (first & (1 << width(type_)) - 1).bit_count()
        if isinstance(first, int) and i.op == "and" and isinstance(args[1], Bits):
            first, args = args[1], [args[1], first]
        if isinstance(first, Bits):
            return self._of_bits(i, first, args[1:]) if width(type_) == 32 else None
        forms = [x for x in args if isinstance(x, int | Form)]
        if len(forms) < len(args):
            return None
        if i.op == "cvt":
            return self._converted(i, forms[0], held)
        bits = width(type_)
        if bits < 32:
            return None
        widths = (bits, bits, 2 * bits if "wide" in i.mods else bits)
        numbers = zip(forms, widths, strict=False)
        return self._sum(i, [_centred(x, w) if isinstance(x, int) else x for x, w in numbers], bits)

    def _selected(self, args: Sequence[Number], bits: int) -> Number:
        return self.chosen(self.predicate(args[2]), args[0], args[1], bits)

    def _of_window(self, i: Instr, x: Number) -> Number | None:
        """An address in the generic space, or of that; those of global memory are the same in both."""
        if "global" in i.mods:
            return x
        if not isinstance(x, int | Form):
            return None
        space = next(m for m in i.mods if m != "to")
        window = self.words.made(("window", space.split("::")[0]), 0, (1 << 64) - 1)
        return plus(x, times(window, -1 if "to" in i.mods else 1))

    def _sum(self, i: Instr, forms: Sequence[int | Form], bits: int) -> int | Form | None:
        a = forms[0]
        b = forms[1] if len(forms) > 1 else 0
        match i.op:
            case "add":
                return plus(a, b)
            case "sub":
                return plus(a, times(b, -1))
            case "neg":
                return times(a, -1)
            case "shl":
                return times(a, 1 << b) if isinstance(b, int) and 0 <= b < bits else None
            case "mul" | "mad":
                found = self._product(i, a, b, bits)
                return found if found is None or i.op == "mul" else plus(found, forms[2])
            case "and" | "or" | "xor":
                return self._bitwise(i.op, a, b)
        return None

    def _product(self, i: Instr, a: int | Form, b: int | Form, bits: int) -> int | Form | None:
        if "wide" in i.mods:
            typed = [self._typed(x, bits, signed=i.mods[-1][0] == "s") for x in (a, b)]
            if typed[0] is None or typed[1] is None:
                return None
            a, b = typed[0], typed[1]
        elif "lo" not in i.mods:
            return None
        if isinstance(a, int):
            a, b = b, a
        return times(a, b) if isinstance(b, int) else None

    def _typed(self, x: int | Form, bits: int, *, signed: bool) -> int | Form | None:
        """A number in the range of its type."""
        if isinstance(x, Form):
            return self.words.within(x, bits, signed=signed)
        x &= (1 << bits) - 1
        return x - (1 << bits) if signed and x >> bits - 1 else x

    def _converted(self, i: Instr, x: int | Form, held: int) -> int | Form | None:
        if len(i.mods) < 2 or "sat" in i.mods:
            return None
        to, of = i.mods[-2:]
        if kind(to) not in ("u", "s", "b") or kind(of) not in ("u", "s", "b"):
            return None
        signed, bits = to[0] == "s", width(to)
        found = self._typed(x, width(of), signed=of[0] == "s")
        if bits < 32 and bits < width(of):
            return found if isinstance(found, Form) and self._fits(found, bits, signed=signed) else None
        if bits < width(of):
            found = x  # its lower bits
        return found if found is None or held <= bits else self._typed(found, bits, signed=signed)

    def _fits(self, x: Form, bits: int, *, signed: bool) -> bool:
        found = self.words.within(x, bits, signed=signed)
        return found is not None and self.key(found) == x.key

    def _bitwise(self, op: str, a: int | Form, b: int | Form) -> int | Form | None:
        if isinstance(a, int):
            a, b = b, a
        if not self.words.predicate(a) or not (b in (0, 1) or self.words.predicate(b)):
            return None
        if op == "and":
            return self.both(a, b)
        if op == "or":
            return self.one_of(a, b)
        return (self.opposite(a) if b else a) if isinstance(b, int) else None

    def _logic(self, op: str, args: Sequence[int | Form]) -> int | Form | None:
        match op:
            case "mov":
                return args[0]
            case "not":
                return self.opposite(args[0])
            case "and":
                return self.both(*args)
            case "or":
                return self.one_of(*args)
            case "xor":
                a, b = args if isinstance(args[1], int) else args[::-1]
                return (self.opposite(a) if b else a) if isinstance(b, int) else None
        return None

    def _of_bits(self, i: Instr, x: Bits, more: Sequence[Number]) -> Number | None:
        other, op = more[0] if more else 0, i.op
        if op == "popc":
            total: int | Form = 0
            for b in x.bits:
                total = plus(total, b)
            return total
        if op == "not":
            return self.number(Bits(tuple(self.opposite(b) for b in x.bits)))
        if op == "cvt" or not isinstance(other, int):
            return None
        if op == "and":
            return self.number(Bits(tuple(b if other >> n & 1 else 0 for n, b in enumerate(x.bits))))
        if op == "shr" and 0 <= other < 32:
            above = x.bits[-1] if kind(i.mods[-1]) == "s" else 0
            return self.number(Bits((*x.bits[other:], *(above,) * other)))
        if op == "shl" and 0 <= other < 32:
            return self.number(Bits((*(0,) * other, *x.bits[: 32 - other])))
        return None

    # ------------------------------------------------------------ comparisons

    def _asked(self, i: Instr, args: Sequence[Number]) -> int | Form | None:
        type_, test = i.mods[-1], i.mods[0]
        floats = kind(type_) == "f"
        test = _UNSIGNED.get(test, test)
        if floats and len(test) == 3 and test.endswith("u"):
            test = test[:2]  # none is a NaN
        holds = _TESTS.get(test)
        plain = len(i.mods) == 2 or (len(i.mods) == 3 and i.mods[1] == "ftz")
        a, b, *more = args
        if holds is None or not plain or more:
            return None
        if not isinstance(a, int | Form) or not isinstance(b, int | Form):
            return None
        if floats:
            known = type_ in ("f32", "f64")
            return self.words.compared(a, b, ".".join(i.mods[:0:-1]), holds) if known else None
        signed = type_[0] == "s" and i.mods[0] not in _UNSIGNED
        return self._compared(a, b, width(type_), holds, signed=signed)

    def _compared(self, a: int | Form, b: int | Form, bits: int, holds: Ways, *, signed: bool) -> int | Form:
        one, other = (self._typed(x, bits, signed=signed) for x in (a, b))
        if one is not None and other is not None:
            found = self._decided(plus(one, times(other, -1)), holds)
            if found is not None:
                return found
        kind_ = f"{'s' if signed else 'u'}{bits}"
        if isinstance(a, int):
            a, b, holds, other = b, a, (holds[2], holds[1], holds[0]), one
        if isinstance(b, int) and isinstance(other, int) and isinstance(a, Form):
            return self._with_number(a, other, kind_, bits, holds)
        return self.words.compared(a, b, kind_, holds)

    def _decided(self, d: int | Form, holds: Ways) -> int | Form | None:
        """Whether a difference is below, at or above 0."""
        low, high = self.words.bounds(d)
        possible = set[int]()
        possible |= {holds[0]} if low < 0 else set()
        possible |= {holds[1]} if low <= 0 <= high else set()
        possible |= {holds[2]} if high > 0 else set()
        if len(possible) == 1:
            return possible.pop()
        if isinstance(d, int):
            return None
        if len(d.terms) == 1:
            ((word, _),) = d.terms.items()
            if self.words.ranges[word] == (0, 1):
                at = [_sign(given(d, word, value), holds) for value in (0, 1)]
                return plus(at[0], times(Form(0, {word: 1}), at[1] - at[0]))
        found = self.words.ways(d)
        if found is None:
            return None
        less, equal, more = (_sign(x, holds) for x in found[1])
        return self.words.of_ways(found[0], (less, equal, more))

    def _with_number(self, x: Form, c: int, type_: str, bits: int, holds: Ways) -> int | Form:
        """A comparison with a number: by the word that says whether the form is at least some number."""
        x = Form(x.constant % (1 << bits), x.terms)
        if holds in (_TESTS["eq"], _TESTS["ne"]):
            found = self.words.made(("is", bits, x.key, c % (1 << bits)), 0, 1)
            return found if holds[1] else self.opposite(found)
        least = c if holds in (_TESTS["lt"], _TESTS["ge"]) else c + 1
        low = -(1 << bits - 1) if type_[0] == "s" else 0
        reached: int | Form = self.words.made(("at least", type_, x.key, least), 0, 1)
        reached = 1 if least <= low else 0 if least >= low + (1 << bits) else reached
        return reached if holds[2] else self.opposite(reached)

    # ------------------------------------------------------------ new words

    def _opaque(self, i: Instr, args: Sequence[Number], bits: int) -> Form:
        how = (i.op, i.mods, bits, *(self.key(x) for x in args))
        return self.words.made(how, 0, self._most(i, args, bits))

    def _most(self, i: Instr, args: Sequence[Number], bits: int) -> int:
        """The largest number that an instruction makes."""
        most: int = (1 << bits) - 1
        type_ = i.mods[-1] if i.mods else ""
        if i.op == "popc":
            return width(type_)
        if i.op == "cvt" and kind(i.mods[-2]) == "u":
            return min(most, (1 << width(i.mods[-2])) - 1)
        if not type_ or kind(type_) not in ("u", "s", "b"):
            return most
        numbers = [x & (1 << width(type_)) - 1 for x in args if isinstance(x, int)]
        if i.op == "and" and numbers:
            return min(most, *numbers)
        second = args[1] if len(args) > 1 else None
        if i.op == "shr" and kind(type_) != "s" and isinstance(second, int):
            by = second & (1 << 32) - 1  # an amount has no sign
            return int((1 << width(type_)) - 1 >> min(by, width(type_)))
        if i.op == "rem" and kind(type_) == "u" and isinstance(second, int) and second > 0:
            return second - 1
        return most


def _centred(x: int, bits: int) -> int:
    """The same number modulo two to the width, around 0."""
    half = 1 << bits - 1
    return (x + half & (1 << bits) - 1) - half


def _sign(x: int | Form, holds: Ways) -> int:
    assert isinstance(x, int)
    return holds[(x > 0) + (x >= 0)]


def _depth(x: Number) -> int:
    return 1 + _depth(x.yes) + _depth(x.no) if isinstance(x, Choice) else 0


def _side(x: Number, p: Form, *, yes: bool) -> Number:
    if isinstance(x, Choice) and x.predicate.key == p.key:
        return x.yes if yes else x.no
    return x


__all__ = ["Arithmetic"]
