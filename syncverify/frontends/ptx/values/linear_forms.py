"""Numbers in registers as sums of unknown words: ``c + k1 x1 + k2 x2 + ...``.

A form is exact modulo two to the width of its register, whatever its words hold. Each word has a range, and
two words are one where they were made alike: by one operation of the same operands. So a predicate that is
computed twice is one word, 0 or 1, and its opposite is ``1 - x``.

Comparisons of two numbers that are not known are three-way. Words ``less`` and ``more`` of a pair say how
they compare; both are 0 where the numbers are equal. So ``a <= b`` is ``1 - more``, and
``a < b || a == b`` is the same form. A NaN compares in none of these ways: who uses a pair of floats takes it
that there is none.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

#: By word, what it is multiplied by; never 0.
Terms = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Form:
    """``constant`` and the sum of words times their factors; there is a word."""

    constant: int
    terms: Terms

    @property
    def key(self) -> Hashable:
        return self.constant, tuple(sorted(self.terms.items()))


@dataclass(frozen=True, slots=True)
class Choice:
    """One of two numbers: the first where a predicate holds."""

    predicate: Form
    yes: Number
    no: Number


@dataclass(frozen=True, slots=True)
class Bits:
    """A word of 32 bits of which each is 0, 1 or a form of these."""

    bits: tuple[int | Form, ...]


Number = int | Form | Choice | Bits
#: What a pair's order adds to a form: by whether the first is less, equal or more.
Ways = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two numbers that are compared, in the order in which their words speak of them. ``kind``: as which
    type."""

    kind: str
    one: Hashable
    other: Hashable


@dataclass(slots=True)
class Words:
    """The words of one run: their ranges, how they were made, and which say how a pair compares."""

    ranges: list[tuple[int, int]] = field(default_factory=list)
    _made: dict[Hashable, int] = field(default_factory=dict)
    pairs: dict[int, tuple[Pair, int]] = field(default_factory=dict)  # by word: 0 for less, 2 for more
    _kinds: dict[Hashable, str] = field(default_factory=dict)
    floats: bool = False  # whether any were compared

    def fresh(self, low: int, high: int) -> Form:
        """A word that nothing is known of but its range."""
        self.ranges.append((low, high))
        return Form(0, {len(self.ranges) - 1: 1})

    def made(self, how: Hashable, low: int, high: int) -> Form:
        """The word that is made in a way."""
        at = self._made.get(how)
        if at is None:
            at = self._made[how] = len(self.ranges)
            self.ranges.append((low, high))
        return Form(0, {at: 1})

    def bounds(self, x: int | Form) -> tuple[int, int]:
        """The least and the largest number that a form may be."""
        if isinstance(x, int):
            return x, x
        low = high = x.constant
        for word, k in x.terms.items():
            a, b = self.ranges[word]
            low += k * (a if k > 0 else b)
            high += k * (b if k > 0 else a)
        return low, high

    def within(self, x: int | Form, width: int, *, signed: bool) -> int | Form | None:
        """The same number modulo two to the width, in the range of a type; None where it may lie on both
        sides of an end of that range."""
        low, high = self.bounds(x)
        least = -(1 << width - 1) if signed else 0
        moved = (least - low + (1 << width) - 1) // (1 << width) * (1 << width)
        if low + moved < least or high + moved >= least + (1 << width):
            return None
        return plus(x, moved)

    def predicate(self, x: int | Form) -> bool:
        """Whether a form is 0 or 1 by what is known of its words."""
        low, high = self.bounds(x)
        if low >= 0 and high <= 1:
            return True
        found = self.ways(x)
        return found is not None and set(found[1]) <= {0, 1}

    def chosen(self, p: int | Form, yes: Number, no: Number) -> Number | None:
        """One of two numbers by a predicate, as a form; None where there is none."""
        if isinstance(p, int):
            return yes if p else no
        if yes == no:
            return yes
        if not isinstance(yes, int | Form) or not isinstance(no, int | Form):
            return None
        here = literal(p)
        if here is not None:
            word, on = here
            yes, no = given(yes, word, on), given(no, word, 1 - on)
        difference = plus(yes, times(no, -1))
        if isinstance(difference, int):
            return plus(no, times(p, difference))
        both = self.product(p, difference)
        return None if both is None else plus(no, both)

    def product(self, p: Form, x: Form) -> int | Form | None:
        """A predicate times a form, where both speak of how one pair compares."""
        a, b = self.ways(p), self.ways(x)
        if a is None or b is None or a[0] != b[0]:
            return None
        less, equal, more = (m * n for m, n in zip(a[1], b[1], strict=True))
        return self.of_ways(a[0], (less, equal, more))

    def ways(self, x: int | Form) -> tuple[Pair, Ways] | None:
        """The pair that a form's words speak of, and what the form is in each way that it compares."""
        if isinstance(x, int):
            return None
        found = [self.pairs.get(word) for word in x.terms]
        pair = next((p[0] for p in found if p is not None), None)
        if pair is None or any(p is None or p[0] != pair for p in found):
            return None
        by_way = [x.constant] * 3
        for word, k in x.terms.items():
            by_way[self.pairs[word][1]] += k
        return pair, (by_way[0], by_way[1], by_way[2])

    def of_ways(self, pair: Pair, ways: Ways) -> int | Form:
        """The form that is one of three numbers, by how a pair compares."""
        terms = {self._word(pair, way): ways[way] - ways[1] for way in (0, 2) if ways[way] != ways[1]}
        return Form(ways[1], terms) if terms else ways[1]

    def _word(self, pair: Pair, way: int) -> int:
        (word,) = self.made(("pair", pair, way), 0, 1).terms
        self.pairs[word] = pair, way
        return word

    def compared(self, a: int | Form, b: int | Form, kind: str, holds: Ways) -> int | Form:
        """A comparison of two numbers of a type, by the ways in which it holds."""
        if isinstance(a, int) and isinstance(b, int):
            a, b = self.made(("number", a), a, a), self.made(("number", b), b, b)
        one, other = _key(a), _key(b)
        self.floats |= kind[0] == "f"
        if one == other:
            return holds[1]
        if repr(other) < repr(one):
            one, other, holds = other, one, (holds[2], holds[1], holds[0])
        if kind[0] != "f" and holds in ((0, 1, 0), (1, 0, 1)):
            kind = self._kinds.get((one, other, kind[1:]), kind)  # equality is one for all integers
        elif kind[0] != "f":
            self._kinds.setdefault((one, other, kind[1:]), kind)
        return self.of_ways(Pair(kind, one, other), holds)


def _key(x: int | Form) -> Hashable:
    return (x, ()) if isinstance(x, int) else x.key


def plus(x: int | Form, y: int | Form) -> int | Form:
    """The sum of two forms."""
    if isinstance(x, int):
        if isinstance(y, int):
            return x + y
        x, y = y, x
    if isinstance(y, int):
        return Form(x.constant + y, x.terms) if y else x
    terms = dict(x.terms)
    for word, k in y.terms.items():
        n = terms.get(word, 0) + k
        if n:
            terms[word] = n
        else:
            del terms[word]
    return Form(x.constant + y.constant, terms) if terms else x.constant + y.constant


def times(x: int | Form, n: int) -> int | Form:
    """A form times a number."""
    if isinstance(x, int):
        return x * n
    return Form(x.constant * n, {word: k * n for word, k in x.terms.items()}) if n else 0


def literal(p: int | Form) -> tuple[int, int] | None:
    """The word that is a predicate, and what it is where that holds."""
    if isinstance(p, int) or len(p.terms) != 1:
        return None
    ((word, k),) = p.terms.items()
    return (word, 1) if (p.constant, k) == (0, 1) else (word, 0) if (p.constant, k) == (1, -1) else None


def given(x: int | Form, word: int, value: int) -> int | Form:
    """A form where a word is known."""
    if isinstance(x, int) or word not in x.terms:
        return x
    terms = {w: k for w, k in x.terms.items() if w != word}
    constant = x.constant + value * x.terms[word]
    return Form(constant, terms) if terms else constant


__all__ = ["Bits", "Choice", "Form", "Number", "Pair", "Terms", "Ways", "Words", "given", "literal", "plus",
           "times"]  # fmt: skip
