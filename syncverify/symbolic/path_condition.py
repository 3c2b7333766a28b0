"""What is known of unknown integers on one path: bounds, linear inequalities, and symbols rewritten as
others.

A sum ``c + sum(k * atom)`` is a number and ``parts``, sorted pairs (symbol, k). Deciding ``sum >= 0`` is
sound and incomplete: None may also mean that it was not found out. Nothing here searches longer than a fixed
count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from math import gcd
from typing import TYPE_CHECKING, Any

from syncverify.symbolic.inequalities import (
    Parts,
    Sum,
    add,
    combined,
    eliminated,
    left,
    negated,
    primitive,
    product_bounds,
    reduced,
    replaced,
    without,
)
from syncverify.symbolic.product_facts import is_permanent

if TYPE_CHECKING:
    from syncverify.symbolic.context import SymbolicContext

#: Inequalities that the elimination for one bound may come to.
FEW_INEQUALITIES = 60
#: Symbols with no more values than this, but one, get the best bounds that are found.
FEW_VALUES = 8
#: Pairs of inequalities that are multiplied for one question, and numbers beyond which it says nothing.
MOST_MULTIPLIED, FAR = 40, 1 << 20


class PathCondition:
    """The knowledge of one path; ``fork`` copies it."""

    __slots__ = (
        "dead",
        "decided",
        "defs",
        "high",
        "inequalities",
        "low",
        "memo",
        "products",
        "registers_outdated",
        "sizes",
        "space",
    )

    def __init__(self, space: SymbolicContext) -> None:
        self.space = space
        self.low: dict[int, int] = {}
        self.high: dict[int, int] = {}
        self.inequalities: dict[Parts, int] = {}  # parts -> the least c with ``c + parts >= 0``
        self.defs: dict[int, Sum] = {}  # rewritten symbols, in terms of those that are not
        self.products: set[int] = set()  # products among them that tell something of their factors
        self.memo: dict[tuple[Any, ...], Any] = {}  # opaque values by key
        self.sizes: dict[str, Any] = {}  # the sizes, by name; one that was forgotten is missing
        self.registers_outdated = False  # registers may hold rewritten symbols
        self.dead = False  # no integers are left
        # what was decided of sums with what is known now, while there were so many symbols
        self.decided: tuple[int, dict[Sum, bool | None]] = (0, {})

    def fork(self) -> PathCondition:
        p = PathCondition(self.space)
        p.low, p.high, p.inequalities = dict(self.low), dict(self.high), dict(self.inequalities)
        p.defs, p.memo, p.sizes = dict(self.defs), dict(self.memo), dict(self.sizes)
        p.registers_outdated, p.dead, p.products = self.registers_outdated, self.dead, set(self.products)
        return p

    # ------------------------------------------------------------ what is known

    def interval(self, a: int) -> tuple[int | None, int | None]:
        """Bounds of one atom."""
        atom = self.space.symbols[a]
        low, high = self.low.get(a, atom.low), self.high.get(a, atom.high)
        if atom.factors is not None:
            x, y = (self._resolved_interval(f) for f in atom.factors)
            least, most = product_bounds(x, y)
            if least is not None:
                low = least if low is None else max(low, least)
            if most is not None:
                high = most if high is None else min(high, most)
        return low, high

    def _resolved_interval(self, a: int) -> tuple[int | None, int | None]:
        if a not in self.defs:
            return self.interval(a)
        c, parts = self.defs[a]
        if any(self.space.symbols[b].factors for b, _ in parts):
            return None, None  # it may be the very product that asks
        return self.bounds(c, parts)

    def bounds(self, c: int, parts: Parts) -> tuple[int | None, int | None]:
        """Bounds of a resolved sum, from those of its symbols and from what was assumed of it as a whole."""
        low: int | None = c
        high: int | None = c
        for a, k in parts:
            lo, hi = self.interval(a)
            if k < 0:
                lo, hi = hi, lo
            low = None if low is None or lo is None else low + k * lo
            high = None if high is None or hi is None else high + k * hi
        if len(parts) > 1 and self.inequalities:
            g = gcd(*(k for _, k in parts))
            unit = parts if g == 1 else tuple((a, k // g) for a, k in parts)
            least = self.inequalities.get(unit)
            if least is not None:
                low = c - g * least if low is None else max(low, c - g * least)
            most = self.inequalities.get(negated(unit))
            if most is not None:
                high = c + g * most if high is None else min(high, c + g * most)
        return low, high

    def resolve(self, c: int, parts: Parts) -> Sum:
        """The sum with rewritten symbols replaced, and products of them by products of what they are."""
        defs, symbols = self.defs, self.space.symbols
        for a, _ in parts if defs else ():
            if a in defs or (symbols[a].factors and self._value_of(a)):
                return combined([(1, (c, ())), *[(k, self._value_of(a) or (0, ((a, 1),))) for a, k in parts]])
        return c, parts

    def _value_of(self, a: int) -> Sum | None:
        """What a symbol was rewritten to, or a product one of whose factors was."""
        found = self.defs.get(a)
        factors = self.space.symbols[a].factors
        if found is not None or factors is None:
            return found
        x, y = (self._value_of(f) for f in factors)
        if x is None and y is None:
            return None
        x, y = (v or (0, ((f, 1),)) for v, f in zip((x, y), factors, strict=True))
        found = self.defs[a] = self.resolve(*self.space.times(x, y))
        return found

    def decide(self, c: int, parts: Parts) -> bool | None:
        """Whether a resolved sum is 0 or more; None if both may be."""
        if not parts:
            return c >= 0
        if self.decided[0] != len(self.space.symbols):
            self.decided = (len(self.space.symbols), {})
        known = self.decided[1]
        key = (c, parts)
        if key not in known:
            known[key] = self._decide(c, parts)
        return known[key]

    def _decide(self, c: int, parts: Parts) -> bool | None:
        c, parts = primitive(c, parts)
        low, high = self.bounds(c, parts)
        if low is not None and low >= 0:
            return True
        if high is not None and high < 0:
            return False
        if self.inequalities or self.products:
            if self._contradicts(-c - 1, negated(parts)):
                self._keep(c, parts)
                return True
            if self._contradicts(c, parts):
                self._keep(-c - 1, negated(parts))
                return False
        return None

    def _keep(self, c: int, parts: Parts) -> None:
        """Keeps an answer that may rest on products: what it follows from may be forgotten."""
        if self.products or any(
            self.space.symbols[a].factors is not None for p in self.inequalities for a, _ in p
        ):
            self.assume(c, parts)

    def implies(self, c: int, parts: Parts) -> bool:
        """Whether a resolved sum is surely 0 or more."""
        if not parts:
            return c >= 0
        c, parts = primitive(c, parts)
        low, _ = self.bounds(c, parts)
        return (low is not None and low >= 0) or (
            bool(self.inequalities or self.products) and self._contradicts(-c - 1, negated(parts))
        )

    # ------------------------------------------------------------ learning

    def assume(self, c: int, parts: Parts) -> None:
        """From here on the sum is 0 or more."""
        self.decided = (0, {})
        c, parts = self.resolve(c, parts)
        if not parts:
            self.dead |= c < 0
            return
        c, parts = primitive(c, parts)
        if len(parts) == 1:
            self._assume_bound(c, *parts[0])
            return
        known = self.inequalities.get(parts)
        if known is not None and known <= c:
            return
        self.inequalities[parts] = c
        if self._assume_all(self._cuts(c, parts), parts) and self._assume_all(self._bounded(parts), parts):
            self._compare_with_opposite(c, parts)

    def _assume_bound(self, c: int, a: int, k: int) -> None:
        """``c + k a >= 0`` for k = 1 or -1: a bound of one symbol, which is a number if its bounds meet."""
        low, high = self.interval(a)
        if k > 0 and (low is None or low < -c):
            self.low[a] = low = -c
        if k < 0 and (high is None or high > c):
            self.high[a] = high = c
        if low is not None and high is not None:
            if low > high:
                self.dead = True
            elif low == high:
                self.substitute(a, low, ())

    def _assume_all(self, found: Iterable[Sum], of: Parts) -> bool:
        """Assumes what follows from an inequality; False once that one is contradicted or rewritten."""
        for one in found:
            self.assume(*one)
            if self.dead or of not in self.inequalities:
                return False
        return True

    def _compare_with_opposite(self, c: int, parts: Parts) -> None:
        """Whether an inequality leaves no value, or one: an equation, which removes a symbol."""
        opposite = self.inequalities.get(negated(parts))
        if opposite is None:
            _, high = self.bounds(c, parts)
            if high is not None and high < 0:
                self.dead = True
            elif high == 0:
                self._equal(c, parts)
        elif c + opposite < 0:
            self.dead = True
        elif c + opposite == 0:
            self._equal(c, parts)

    def assume_branch(self, c: int, parts: Parts) -> None:
        """As ``assume``, with a look whether integers are left where inequalities were rounded again."""
        self.assume(c, parts)
        if self.registers_outdated and not self.dead:
            self.dead = not self.is_feasible()

    def is_feasible(self) -> bool:
        """Whether what is known is not seen to contradict itself."""
        work, atoms = self._about({}, {a for p in self.inequalities for a, _ in p})
        return not eliminated(work, atoms)

    def _cuts(self, c: int, parts: Parts) -> list[Sum]:
        """What follows when one symbol takes its best value and the rest shares a divisor: ``2q + r >= 5``
        with ``r <= 1`` says ``q >= 2``."""
        out = []
        for a, k in parts:
            rest = tuple(p for p in parts if p[0] != a)
            if k % reduced(*(j for _, j in rest)) == 0:
                continue
            low, high = self.interval(a)
            most = high if k > 0 else low
            if most is not None:
                out.append(primitive(c + k * most, rest))
        return out

    def _bounded(self, parts: Parts) -> Iterator[Sum]:
        """What a sum with products tells of each of their factors."""
        factors = set().union(*(self.space.basic(a) for a, _ in parts))
        for a in sorted(factors):
            work, atoms = self._about({}, {a for a, _ in parts} | {a})
            wrong, work = left(work, atoms - {a}, FEW_INEQUALITIES)
            if wrong:
                yield -1, ()
                return
            low, high = self.interval(a)
            for k in (1, -1):
                c = work.get(((a, k),))
                if c is not None and (
                    (k > 0 and (low is None or low < -c)) or (k < 0 and (high is None or high > c))
                ):
                    yield c, ((a, k),)

    def _equal(self, c: int, parts: Parts) -> None:
        """The sum is 0: a symbol with coefficient 1 or -1 is written by the others."""
        inside = {f for a, _ in parts for f in self.space.factors(a)}
        units = [(a, k) for a, k in parts if abs(k) == 1 and self.space.symbols[a].factors is None]
        units = [(a, k) for a, k in units if a not in inside]
        if units:
            a, k = units[-1]
            self.substitute(a, *combined([(-k, (c, tuple(p for p in parts if p[0] != a)))]))

    def substitute(self, atom: int, c: int, parts: Parts) -> None:
        """From here on ``atom`` is ``c + parts``."""
        self._rewrite(atom, c, parts)
        if self.space.symbols[atom].factors is not None and atom in self.defs:
            self.products.add(atom)
            if not self.defs.keys().isdisjoint(self.space.factors(atom)):
                self._untie(atom)
                return
            for cut in list(self._bounded(((atom, 1),))):
                self.assume(*cut)

    def _rewrite(self, atom: int, c: int, parts: Parts) -> None:
        self.decided = (0, {})
        value = (c, parts)
        low, high = self.interval(atom)
        self.low.pop(atom, None)
        self.high.pop(atom, None)
        for b, s in list(self.defs.items()):
            if any(a == atom for a, _ in s[1]):
                self.defs[b] = replaced(s, atom, value)
        self.defs[atom] = value
        self.registers_outdated = True
        again = [(p, k) for p, k in self.inequalities.items() if any(a == atom for a, _ in p)]
        for p, _ in again:
            del self.inequalities[p]
        for p, k in again:
            self.assume(*replaced((k, p), atom, value))
        if low is not None:
            self.assume(c - low, parts)
        if high is not None:
            self.assume(*combined([(-1, value), (1, (high, ()))]))
        for both in self._known_products(atom):
            if both not in self.defs:
                x, y = (self.resolve(0, ((f, 1),)) for f in self.space.symbols[both].factors or ())
                self._rewrite(both, *self.resolve(*self.space.times(x, y)))
        for tie in sorted(t for t in self.products if atom in self.space.factors(t)):
            self._untie(tie)
        self.memo = {self._key(k): self._value(v) for k, v in self.memo.items()}
        self.sizes = {k: self._value(v) for k, v in self.sizes.items()}

    def _untie(self, tie: int) -> None:
        """A factor of a tied product was rewritten: what is known is that the values are equal."""
        if tie not in self.products:
            return
        self.products.discard(tie)
        known = self.defs.pop(tie)
        equal = combined([(1, self._value_of(tie) or (0, ((tie, 1),))), (-1, self.resolve(*known))])
        self.assume(*equal)
        self.assume(-equal[0], negated(equal[1]))

    def _known_products(self, atom: int) -> list[int]:
        """Products of a symbol of which something is known as such."""
        spoken = {a for p in self.inequalities for a, _ in p} | self.low.keys() | self.high.keys()
        return sorted(a for a in spoken if atom in (self.space.symbols[a].factors or ()))

    def _value(self, value: Any) -> Any:
        """A term of this path, or anything else, as it stands now."""
        parts = getattr(value, "parts", None)
        return value if parts is None else self.space.term(*self.resolve(value.c, parts))

    def _key(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(self._value, key))

    def memo_symbol(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """The opaque value of a key, made when it is first asked for."""
        key = self._key(key)
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]

    # ------------------------------------------------------------ forgetting

    def eliminate(self, seen: set[int]) -> None:
        """Forgets all symbols but those ``seen``; what follows for these is kept."""
        self.decided = (0, {})
        for a in list(seen):
            seen.update(self.space.factors(a))
        spoken = {a for p in self.inequalities for a, _ in p} | self.low.keys() | self.high.keys()
        for a in sorted(spoken):  # products of what is seen are seen
            if self.space.symbols[a].factors is not None and self.space.basic(a) <= seen:
                seen.add(a)
        ties = is_permanent(self, seen)
        free = {a for a in ties.values() if a is not None}
        work: dict[Parts, int] = {}
        hidden: set[int] = set()
        for p, c in self.inequalities.items():
            work[p] = c
            hidden |= {a for a, _ in p if a not in seen}
        for a in hidden:
            low, high = self.interval(a)
            if low is not None:
                add(work, -low, ((a, 1),))
            if high is not None:
                add(work, high, ((a, -1),))
        for a in sorted(hidden):
            work = without(work, a)[1]
        self.low = {a: v for a, v in self.low.items() if a in seen or a in free}
        self.high = {a: v for a, v in self.high.items() if a in seen or a in free}
        self.defs = {a: self.defs[a] for a in ties}
        self.products = set(ties)
        self.inequalities = {}
        for p, c in work.items():
            if len(p) == 1 or not self._known(c, p):
                self.assume(c, p)
        self._tighten(seen)

    def _tighten(self, seen: set[int]) -> None:
        """Bounds of symbols with few values, as far as several inequalities together say them."""
        uses = Counter(a for p in self.inequalities for a, _ in p)
        for a in sorted(a for a in seen if uses[a] > 1):
            low, high = self.interval(a)
            if low is None or high is None or high - low > FEW_VALUES:
                continue
            while low < high and self.implies(high - 1, ((a, -1),)):
                high -= 1
            while low < high and self.implies(-low - 1, ((a, 1),)):
                low += 1
            self.assume(high, ((a, -1),))
            self.assume(-low, ((a, 1),))

    def _known(self, c: int, parts: Parts) -> bool:
        low, _ = self.bounds(c, parts)
        return low is not None and low >= 0

    # ------------------------------------------------------------ elimination

    def _contradicts(self, c: int, parts: Parts) -> bool:
        """Whether no integers keep all that is known and ``c + parts >= 0``."""
        work, atoms = self._about({parts: c}, {a for a, _ in parts})
        self.space.inequalities_compared += len(work)
        return len(work) > 1 and eliminated(work, atoms)

    def _about(self, work: dict[Parts, int], some: set[int]) -> tuple[dict[Parts, int], set[int]]:
        """All that is known of some symbols and of those that they are related to; none if only their bounds
        are, for ``bounds`` has said what these say."""
        atoms = self._with_factors(some)
        left = {p: self.space.spoken(p) for p in self.inequalities}
        tied = {t: self._with_factors({t, *(a for a, _ in self.defs[t][1])}) for t in self.products}
        grown = True
        while grown:
            near = [p for p, theirs in left.items() if not theirs.isdisjoint(atoms)]
            grown = bool(near)
            for p in near:
                work[p] = min(self.inequalities[p], work.get(p, 1 << 80))
                atoms |= left.pop(p)
            for t in [t for t, theirs in tied.items() if not theirs.isdisjoint(atoms)]:
                atoms |= tied.pop(t)
                grown = True
        products = {a for a in atoms if self.space.symbols[a].factors is not None}
        if len(work) == 1 and not products:
            return work, atoms
        for a in atoms:
            low, high = self.interval(a)
            value = self.defs[a] if a in self.products else (0, ((a, 1),))
            if low is not None:
                add(work, value[0] - low, value[1])
            if high is not None:
                add(work, high - value[0], negated(value[1]))
        for product in self._multiplied(work, atoms) if products else ():
            add(work, *product)
        return work, atoms

    def _with_factors(self, atoms: set[int]) -> set[int]:
        return atoms.union(*(self.space.factors(a) for a in atoms))

    def _multiplied(self, work: dict[Parts, int], atoms: set[int]) -> list[Sum]:
        """Products of two inequalities that speak of no further symbols: 0 or more as both are."""
        space = self.space
        linear = [
            (c, p)
            for p, c in work.items()
            if abs(c) < FAR and all(space.symbols[a].factors is None for a, _ in p)
        ]
        by_atom: dict[int, list[Sum]] = {}
        for s in [*self._ends(linear), *linear]:
            for a, _ in s[1]:
                by_atom.setdefault(a, []).append(s)
        pairs: dict[tuple[Sum, Sum], None] = {}
        for a in sorted(atoms):
            x, y = space.symbols[a].factors or (a, a)
            if x != a:
                for s in by_atom.get(x, ()):
                    for t in by_atom.get(y, ()):
                        pairs.setdefault((min(s, t), max(s, t)))
        out = []
        for s, t in list(pairs)[:MOST_MULTIPLIED]:
            both = self._times_known(s, t, atoms)
            if both is not None:
                out.append(both)
        return out

    def _ends(self, sums: list[Sum]) -> Iterator[Sum]:
        """Bounds of single symbols that sums say with the bounds of the others."""
        for c, parts in sums:
            if len(parts) > 1:
                for a, k in parts:
                    others = tuple(p for p in parts if p[0] != a)
                    _, most = self.bounds(c, others)
                    if most is not None and abs(most) < FAR:
                        yield primitive(most, ((a, k),))

    def _times_known(self, s: Sum, t: Sum, atoms: set[int]) -> Sum | None:
        """The product of two sums, if it speaks of these symbols only."""
        terms: list[tuple[int, Sum]] = [(s[0], t), (t[0], (0, s[1]))]
        for a, i in s[1]:
            for b, j in t[1]:
                both = self.space.product_of(a, b)
                if both is None:
                    return None
                value = self.resolve(0, ((both, 1),))
                if any(x not in atoms for x, _ in value[1]):
                    return None
                terms.append((i * j, value))
        return combined(terms)
