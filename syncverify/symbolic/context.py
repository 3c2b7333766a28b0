"""Integers without a number: sums ``c + k1*x1 + ...`` over symbols, as values that agents compute with.

A symbol is a size, a part of one, a product of two symbols, or what was read from memory. All terms of one
exploration share a ``SymbolicContext``; what is known of the symbols on the present path is its ``path``.
Sums and products never ask; comparisons, bits and divisions may: they raise ``NeedsDecision`` where there is
no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from syncverify.base.reason import Cause, Reason
from syncverify.model.events import BlockRelative
from syncverify.symbolic.affine import AffineTerm
from syncverify.symbolic.inequalities import Parts, Sum, combined, reduced
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.quotients import as_iteration_count, modulo, ratio
from syncverify.symbolic.round_robin import PresplitQuestion, RoundRobin, floor_half, split_remainder

#: More values than this are not distinguished one by one.
MOST_VALUES = 4096

#: Begins the keys of answers that are left open.
TRUTH = "truth "


class NotConcrete(Exception):  # noqa: N818 -- control flow: this way of looking at the sizes does not work
    """A size reaches something that has to be a number."""


class BranchAfterHavoc(NotConcrete):
    """A size is asked of that turns have taken again: it is to be asked before."""


class NeedsDecision(Exception):  # noqa: N818 -- control flow, not an error
    """A step met a question that has no answer yet. ``step`` puts its agent back to a point from which the
    same ``step(answer)`` goes on, lets this pass, and is called again once the question is settled."""


class UndecidedBranch(NeedsDecision):
    """``term >= 0`` is true on some continuations of the path and false on others."""

    def __init__(self, c: int, parts: Parts) -> None:
        super().__init__()
        self.c = c
        self.parts = parts


class SymbolSplit(NeedsDecision):
    """``atom`` is to be written as ``c + parts`` from here on, in the path and in every register."""

    def __init__(self, atom: int, c: int, parts: Parts) -> None:
        super().__init__()
        self.atom = atom
        self.c = c
        self.parts = parts


@dataclass(frozen=True, slots=True)
class Symbol:
    """An unknown integer. ``factors``: the symbols that it is the product of; ``widened``: a
    widening made it, or it is a part of such an atom."""

    name: str
    low: int | None
    high: int | None
    factors: tuple[int, int] | None = None
    widened: bool = False


class SymbolicContext:
    """The symbols and terms of one exploration, and the ``path`` that it is on at present.

    ``exact_words``: arithmetic on registers may wrap, and what would is no sum. ``is_speculative``: open
    questions are answered somehow, and the answer kept (for a first attempt at what lanes do). ``havocs``:
    ``fresh_per_iteration`` gives a new unknown for every iteration of a loop, instead of the same one.
    ``may_havoc``: agents are built so that it can. ``round_robin``: iterations that roles share out are
    distinguished from others.
    """

    def __init__(self, round_robin: RoundRobin | None = None, *, may_havoc: bool = True) -> None:
        self.round_robin = round_robin
        self.may_havoc = may_havoc
        self.counts_turns = True  # loops by extents of the grid ask about numbers of iterations
        self.symbols: list[Symbol] = []
        self.path = PathCondition(self)
        self.is_speculative = False
        self.exact_words = False
        self.havocs = False
        self.havocked: set[str] = set()  # sizes that ``fresh_per_iteration`` was asked for
        self.root: PathCondition | None = None  # the path when agents start
        self.branched_sizes: set[str] = set()  # sizes that open questions were about
        self.quotients: dict[int, tuple[Any, int]] = {}  # symbols -> what they are the quotient of, by what
        self.parents: dict[int, int] = {}  # quotients and remainders, and what they are parts of
        self.split_sums: dict[
            int, AffineTerm
        ] = {}  # quotients and remainders -> the sum that they are parts of
        self.havocked_symbols: set[int] = set()  # symbols that iterations of loops havoc
        self.presplit: set[PresplitQuestion] = set()  # what is asked of such before any turn takes them
        # what was asked of such when some iterations had taken them
        self.split_too_late: set[PresplitQuestion] = set()
        self.inequalities_compared = 0  # by all eliminations: what questions have cost
        self._sources: dict[int, frozenset[str]] = {}  # symbols -> the sizes that they come from
        self._terms: dict[tuple[int, Parts], AffineTerm] = {}
        self._guessed: dict[tuple[tuple[int, bool], ...], int] = {}
        self._products: dict[tuple[int, int], int] = {}
        self._spoken: dict[Parts, frozenset[int]] = {}  # the atoms of sums with all their factors

    @property
    def has_round_robin(self) -> bool:
        """Whether iterations are distributed round-robin."""
        return self.havocs and self.round_robin is not None and bool(self.round_robin.havocked_sizes)

    @property
    def has_prefix_sums(self) -> bool:
        """Whether iterations are distributed round-robin, and stages go on by whole turns at once."""
        return self.has_round_robin and self.round_robin is not None and self.round_robin.by_prefix_sum

    @contextmanager
    def speculatively(self) -> Iterator[None]:
        """Open questions are answered somehow, on a path that is dropped at the end."""
        path, self.path, before = self.path, self.path.fork(), self.is_speculative
        self.is_speculative = True
        self._guessed = {}
        try:
            yield
        finally:
            self.path, self.is_speculative = path, before

    # ------------------------------------------------------------ making values

    def symbol(
        self,
        name: str,
        low: int | None = None,
        high: int | None = None,
        sources: frozenset[str] = frozenset(),
        widened: bool = False,
    ) -> Any:
        """A new unknown within bounds; ``sources``: the sizes that it comes from."""
        self.symbols.append(Symbol(name, low, high, widened=widened))
        self._sources[len(self.symbols) - 1] = sources
        return self.term(0, ((len(self.symbols) - 1, 1),))

    def memory_symbol(self, key: tuple[Any, ...], low: int | None, high: int | None, name: str) -> Any:
        """What was read from memory: one value for one key on this path. Keys may have terms in them."""
        return self.path.memo_symbol(key, lambda: self.symbol(name, low, high))

    def fresh_per_iteration(self, name: str, iteration: Any) -> Any:
        """The size ``name`` in the ``iteration``-th turn (a number or a term): the same for all who ask."""
        self.havocked.add(name)
        root = self.root
        if not self.havocs or root is None:
            return self.path.sizes[name]
        return self.path.memo_symbol((name, iteration), lambda: self._copy(root.sizes[name]))

    def fresh_copy(self, name: str) -> Any:
        """The same once more, for others who need not agree."""
        assert self.root is not None
        return self._copy(self.root.sizes[name])

    def boolean_symbol(self, value: Any) -> Any:
        """1 where a value is 0 or more, else 0; while forgetting, an unknown that may be both instead of a
        question, the same for all who ask."""
        found = self.path.decide(*self.path.resolve(*self.of(value)))
        if found is not None or self.is_speculative:
            return int(self.at_least(value))
        self.havocked.add(TRUTH)
        if not self.havocs:
            return int(self.at_least(value))
        return self.path.memo_symbol((TRUTH, value), lambda: self.symbol("truth", 0, 1))

    def parent_of(self, a: int) -> int:
        """The symbol that one is a part of."""
        while a in self.parents:
            a = self.parents[a]
        return a

    def symbol_of(self, value: Any) -> int | None:
        """The symbol that a sum is, also where quotients and remainders make it up; None if it is none."""
        last = len(self.symbols)
        while isinstance(value, AffineTerm):
            part = max((a for a, _ in value.parts if a in self.parents), default=None)
            if part is None:
                ((a, k), *more) = value.parts
                return a if k == 1 and not more and value.c == 0 else None
            if part >= last:
                return None
            last, whole = part, self.split_sums[part]
            times = dict(value.parts)[part] // dict(whole.parts)[part]
            value = value - self._with_numbers(whole) * times + self.term(0, ((self.parents[part], times),))
        return None

    def _with_numbers(self, value: AffineTerm) -> Any:
        """A sum with the symbols that are numbers by now replaced by these."""
        now = {a: self.resolved(self.term(0, ((a, 1),))) for a, _ in value.parts}
        fixed = {a: x for a, x in now.items() if not isinstance(x, AffineTerm)}
        return self.term(
            value.c + sum(k * fixed[a] for a, k in value.parts if a in fixed),
            tuple((a, k) for a, k in value.parts if a not in fixed),
        )

    def record_branch(self, c: int, parts: Parts) -> None:
        """Takes note of a question about a symbol that turns have taken again: they do not know the
        answer.
        """
        if len(parts) == 1 and parts[0][0] in self.havocked_symbols:
            ((a, k),) = parts
            self.split_too_late.add((self.symbols[a].name, k, c))
            if (
                self.has_prefix_sums
                and self.round_robin is not None
                and self.round_robin.slots
                and not self.split_too_late <= self.presplit
            ):
                raise BranchAfterHavoc

    def fresh_like(self, a: int) -> Any:
        """Another symbol within the bounds of one."""
        self.havocked_symbols.add(a)
        low, high = self.path.interval(a)
        return self.symbol(self.symbols[a].name, low, high, self._sources[a])

    def _copy(self, value: Any) -> Any:
        """A value over new symbols, of which as much is known as of the old ones at the start."""
        assert self.root is not None
        if not isinstance(value, AffineTerm):
            return value
        new: dict[int, int] = {}
        for a, _ in value.parts:
            low, high = self.root.interval(a)
            new[a] = self.symbol(self.symbols[a].name, low, high, self._sources[a]).parts[0][0]
        for parts, c in self.root.inequalities.items():
            if all(a in new for a, _ in parts):
                self.path.assume(c, tuple(sorted((new[a], k) for a, k in parts)))
        return self.term(value.c, tuple(sorted((new[a], k) for a, k in value.parts)))

    def term(self, c: int, parts: Parts) -> Any:
        """The one term for a sum; a number if no symbol is left."""
        if not parts:
            return c
        found = self._terms.get((c, parts))
        if found is None:
            found = self._terms[c, parts] = AffineTerm(self, c, parts)
        return found

    def of(self, value: Any) -> tuple[int, Parts]:
        return (value.c, value.parts) if isinstance(value, AffineTerm) else (value, ())

    def resolved(self, value: Any) -> Any:
        """The value with symbols that the path has rewritten replaced."""
        if not isinstance(value, AffineTerm):
            return value
        return self.term(*self.path.resolve(value.c, value.parts))

    def product(self, x: AffineTerm, y: AffineTerm) -> Any:
        resolve = self.path.resolve
        return self.term(*resolve(*self.times(resolve(x.c, x.parts), resolve(y.c, y.parts))))

    def sources(self, value: Any) -> frozenset[str]:
        """The sizes that a value comes from."""
        return frozenset[str]().union(*(self._sources[a] for a, _ in self.of(value)[1]))

    def times(self, x: Sum, y: Sum) -> Sum:
        """The product of two sums, whatever any path knows of them."""
        pairs = [(i * j, (0, ((self._product(a, b), 1),))) for a, i in x[1] for b, j in y[1]]
        return combined([(x[0], y), (y[0], (0, x[1])), *pairs])

    def _product(self, a: int, b: int) -> int:
        key = (min(a, b), max(a, b))
        found = self._products.get(key)
        if found is None:
            found = self._products[key] = len(self.symbols)
            name = f"{self.symbols[key[0]].name}*{self.symbols[key[1]].name}"
            made = any(self.symbols[f].widened for f in key)
            self.symbols.append(Symbol(name, None, None, key, made))
            self._sources[found] = self._sources[key[0]] | self._sources[key[1]]
        return found

    def factors(self, a: int) -> frozenset[int]:
        """All that a product is made of, products of it too; nothing for other atoms."""
        pair = self.symbols[a].factors
        return frozenset() if pair is None else frozenset(pair).union(*map(self.factors, pair))

    def spoken(self, parts: Parts) -> frozenset[int]:
        """The atoms of a sum with all their factors, which never change."""
        found = self._spoken.get(parts)
        if found is None:
            found = frozenset(a for a, _ in parts).union(*(self.factors(a) for a, _ in parts))
            self._spoken[parts] = found
        return found

    def basic(self, a: int) -> frozenset[int]:
        """Those factors that are no products."""
        return frozenset(f for f in self.factors(a) if self.symbols[f].factors is None)

    def product_of(self, a: int, b: int) -> int | None:
        """The symbol that is the product of two, if there is one."""
        return self._products.get((min(a, b), max(a, b)))

    # ------------------------------------------------------------ division

    def quotient(self, x: Any, m: Any) -> Any:
        """Floor division."""
        m = self._divisor(m)
        if isinstance(m, AffineTerm) and not self.at_least(m - 1):
            return self.quotient(-x, -m)
        if not isinstance(x, AffineTerm):
            x, m = (x // m, 1) if isinstance(m, int) else (x, m)
            return x if isinstance(m, int) else self._ratio(x, m)
        if not isinstance(m, int):
            return self._ratio(x, m)
        if m < 0:
            return self.quotient(-x, -m)
        x = self.resolved(x)
        if not isinstance(x, AffineTerm):
            return x // m
        whole, rest = self._divided(x, m)
        if not isinstance(rest, AffineTerm):
            return whole + rest // m
        low, high = self.bounds(rest)
        assert low is not None and high is not None
        if self.has_prefix_sums and len(rest.parts) == 1 and high - low == abs(rest.parts[0][1]):
            ((a, k),) = rest.parts  # one of two values
            step = high // m - low // m
            at = self.path.interval(a)[0 if k > 0 else 1]
            bit = (self.term(0, ((a, 1),)) - at) * (1 if k > 0 else -1)
            return whole + low // m + bit * step
        if self.has_prefix_sums and m == 2 and low // 2 < high // 2:
            return whole + floor_half(self, rest)
        q = high // m
        while q > low // m and not self.at_least(rest - q * m):
            q -= 1
        return whole + q

    def remainder(self, x: Any, m: Any) -> Any:
        """The remainder of floor division."""
        m = self._divisor(m)
        if isinstance(m, AffineTerm) and not self.at_least(m - 1):
            return -self.remainder(-x, -m)
        if not isinstance(m, int):
            x = modulo(self, x, m)
            if isinstance(x, AffineTerm) and x is m:
                return 0
            low, high = self.bounds(m)
            at, most = self.bounds(x)
            if at is not None and at >= 0 and most is not None and low is not None and most < low:
                return x
            if self.at_least(x) and self.at_least(m - x - 1):
                return x
            top = None if high is None else high - 1
            return self.path.memo_symbol(("%", x, m), lambda: self.symbol("remainder", 0, top))
        if not isinstance(x, AffineTerm):
            return x % m
        return x - self.quotient(x, m) * m

    def _divisor(self, m: Any) -> Any:
        if isinstance(m, AffineTerm):
            low, high = self.bounds(m)
            if low is not None and low == high:
                m = low
            elif low is None or low <= 0:
                if self.at_least(m - 1):
                    return m
                if self.zero(m):
                    m = 0
        if isinstance(m, int) and m == 0:
            raise ZeroDivisionError("integer division or modulo by zero")
        return m

    def _ratio(self, x: Any, m: AffineTerm) -> Any:
        """The quotient of two sizes, the divisor 1 or more."""
        if x is m:
            return 1
        found = ratio(self, x, m)
        if found is not None:
            return found
        if not self.at_least(x):
            return self.path.memo_symbol(("//", x, m), lambda: self.symbol("quotient", None, -1))
        if self.at_least(m - x - 1):
            return 0
        low = self.bounds(m)[0] or 1
        high = self.bounds(x)[1]
        q = self.path.memo_symbol(
            ("//", x, m), lambda: self.symbol("quotient", 1, None if high is None else high // low)
        )
        if isinstance(q, AffineTerm):
            self.path.assume(*self.of(x - q * low))
        return q

    def _divided(self, x: AffineTerm, m: int) -> tuple[Any, Any]:
        """``x == m * parent_of + rest``, the rest within bounds; symbols are split where they must be."""
        if self.has_round_robin:
            split_remainder(self, x, m)
        split = [(a, (k + (m - 1) // 2) // m) for a, k in x.parts]  # coefficients of the rest nearest to 0
        whole = self.term(x.c // m, tuple((a, k) for a, k in split if k))
        rest = x - whole * m
        low, high = self.bounds(rest)
        if low is not None and high is not None and high - low < 8 * m:
            return whole, rest
        for a, k in rest.parts:
            low, high = self.path.interval(a)
            period = m // reduced(m, k)
            if low is None or high is None or high - low >= period:
                self.divide_symbol(a, period)
        for a, k in rest.parts:
            rest = rest + (self.number(self.term(0, ((a, 1),))) * k - self.term(0, ((a, k),)))
        return whole, rest

    def divide_symbol(self, a: int, m: int, shift: int = 0) -> None:
        """Writes a symbol as ``m * q + r - shift``."""
        low, high = self.path.interval(a)
        name = self.symbols[a].name
        sources = self._sources[a]
        least, most = (None if end is None else (end + shift) // m for end in (low, high))
        made = self.symbols[a].widened
        q = self.symbol(f"{name}//{m}", least, most, sources, made)
        r = self.symbol(f"{name}%{m}", 0, m - 1, sources, made)
        value = q * m + r - shift
        for part in (x.parts[0][0] for x in (q, r) if isinstance(x, AffineTerm)):
            self.parents[part], self.split_sums[part] = a, value
        raise SymbolSplit(a, value.c, value.parts)

    # ------------------------------------------------------------ questions

    def bounds(self, value: Any) -> tuple[int | None, int | None]:
        """The least and the greatest value that the path allows, as far as is cheaply known."""
        if not isinstance(value, AffineTerm):
            return value, value
        return self.path.bounds(*self.path.resolve(value.c, value.parts))

    def at_least(self, value: Any) -> bool:
        """Whether the value is 0 or more."""
        if not isinstance(value, AffineTerm):
            return bool(value >= 0)
        c, parts = self.path.resolve(value.c, value.parts)
        found = self.path.decide(c, parts)
        if found is not None:
            return found
        count = None if self.is_speculative else as_iteration_count(self, c, parts)
        if count is not None:
            return self.at_least(count)
        if not self.is_speculative:
            self.branched_sizes.update(*(self._sources[a] for a, _ in parts))
            raise UndecidedBranch(c, parts)
        kind = tuple((a, k > 0) for a, k in parts)  # a counter with a step that is a size asks for other sums
        times = self._guessed[kind] = self._guessed.get(kind, 0) + 1
        if times <= 2:
            self.path.assume(c, parts)
        else:
            self.path.assume(-c - 1, tuple((a, -k) for a, k in parts))
        return times <= 2

    def _needed(self, value: AffineTerm) -> Reason:
        """The reason that a value has to be a number."""
        placed = any("ctaid" in self.symbols[a].name for a, _ in value.parts)
        causes = (Cause.NEEDS_NUMBER, Cause.BLOCK_PLACE) if placed else (Cause.NEEDS_NUMBER,)
        return Reason(f"{value} has to be a number", *causes)

    def zero(self, value: Any) -> bool:
        """Whether the value is 0."""
        if not isinstance(value, AffineTerm):
            return bool(value == 0)
        c, parts = self.path.resolve(value.c, value.parts)
        g = reduced(*(k for _, k in parts)) if parts else 0
        if g and c % g:
            return False
        value = self.term(c, parts)
        low, high = self.bounds(value)
        if low is not None and low >= 0:
            return not self.at_least(value - 1)
        if high is not None and high <= 0:
            return not self.at_least(-value - 1)
        return self.at_least(value) and self.at_least(-value)

    def number(self, value: Any) -> int:
        """The value as a number; its possible values are distinguished by questions."""
        if not isinstance(value, AffineTerm):
            return int(value)
        value = self.resolved(value)
        if not isinstance(value, AffineTerm):
            return int(value)
        step = reduced(*(k for _, k in value.parts))
        first, last = self.bounds(value)
        if first is None or last is None or last - first >= MOST_VALUES * step:
            raise NotConcrete(self._needed(value))
        low, high = -((value.c - first) // step), (last - value.c) // step
        while low < high:  # by answers, for bounds need not tell all that is known
            middle = (low + high + 1) // 2
            if self.at_least(value - (value.c + middle * step)):
                low = middle
            else:
                high = middle - 1
        return int(value.c + low * step)

    def numbers(
        self, values: list[Any], ahead: tuple[int, ...] = (), places: tuple[tuple[int, int], ...] = ()
    ) -> list[Any]:
        """Values as numbers, those of lanes in tuples; ``ahead``: which of them is determined by which
        others;
        ``places``: which are places determined by that of a block, and where stands how far it moves them."""
        placed: dict[int, Any] = dict.fromkeys(ahead, 0)
        if ahead:
            placed[ahead[0]] = self.relative_value(*(values[i] for i in ahead))
        for at, block in places:
            placed[at], placed[block] = self.relative_address(values[at], values[block])
        return [placed[i] if i in placed else self._number_of_each(v) for i, v in enumerate(values)]

    def _number_of_each(self, value: Any) -> Any:
        return tuple(map(self.number, value)) if isinstance(value, tuple) else self.number(value)

    def relative_address(self, value: Any, block: Any) -> tuple[Any, int]:
        """A place as a number, or one for each lane, beyond a multiple of the block's number; and which."""
        where, each = self.resolved(block), lanes(value)
        times = 0
        if isinstance(where, AffineTerm):
            atom, unit = where.parts[0]
            times = dict(self.of(self.resolved(each[0]))[1]).get(atom, 0) // unit
        beyond: dict[Parts, int] = {}  # what lanes have in common, mostly all of it
        for parts in dict.fromkeys(self.of(x)[1] for x in each):
            beyond[parts] = self.number(self.resolved(self.term(0, parts)) - where * times)
        found = tuple(self.of(x)[0] + beyond[self.of(x)[1]] for x in each)
        return found if isinstance(value, tuple) else found[0], times

    def relative_value(self, value: Any, block: Any) -> BlockRelative | None:
        """A value determined by the number of a block, and as such, one for all lanes; None where neither."""
        each = [self.resolved(x) for x in lanes(value)]
        by = {self.of(x - self.resolved(block)) for x in each}
        found = BlockRelative(*(_only(sums) for sums in (by, {self.of(x) for x in each})))
        return None if found == BlockRelative(None) else found

    # ------------------------------------------------------------ text

    def text(self, c: int, parts: Parts) -> str:
        out = [(f"{k}*" if k != 1 else "") + self.symbols[a].name for a, k in parts]
        return " + ".join([*out, str(c)] if c else out)


def _only(sums: set[Sum]) -> int | None:
    """The number that is all of some sums."""
    ((c, parts), *others) = sums
    return None if parts or others else c


def lanes(value: Any) -> tuple[Any, ...]:
    """The values of the lanes; one value represents all."""
    return value if isinstance(value, tuple) else (value,)


def mapped(value: Any, f: Callable[[Any], Any]) -> Any:
    """A register's value with every term in it replaced."""
    if isinstance(value, tuple):
        return tuple(f(x) if isinstance(x, AffineTerm) else x for x in value)
    return f(value) if isinstance(value, AffineTerm) else value


__all__ = [
    "AffineTerm",
    "NeedsDecision",
    "NotConcrete",
    "Symbol",
    "SymbolSplit",
    "SymbolicContext",
    "UndecidedBranch",
    "lanes",
    "mapped",
]
