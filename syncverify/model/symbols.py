"""Sizes without a number, as values that agents compute with.

Two kinds. A ``Linear`` is ``c + q*Q + s*S``: ``S`` the size under study and ``Q`` how often a cycle is
repeated, both unknown and not negative. A comparison is answered by the ``Asked`` it belongs to: for a size
that is *large* (and the largest size for which the answer would differ is remembered), or only if the
answer is the same for all values. A ``Multiple`` is ``c + g*u`` with ``u`` any integer at all: nothing is
known but its remainders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from math import gcd
from typing import Any, Protocol

from syncverify.model.events import Agent, System
from syncverify.model.terms import Symbolic as Symbolic
from syncverify.model.terms import Term


class Matters(Symbolic):
    """A decision depends on the size ``name``."""

    def __init__(self, name: str) -> None:
        super().__init__(f"control depends on {name}")
        self.name = name


class NeedsPeriod(Symbolic):
    """The size is taken modulo ``factor`` (or divided by it): study it one remainder at a time."""

    def __init__(self, factor: int) -> None:
        super().__init__(f"the size is taken modulo {factor}")
        self.factor = factor


class NotUniform(Symbolic):
    """The answer is not the same for all repetitions."""


_SERIALS = count()


class Asked:
    """Answers comparisons. ``large``: for all sizes from some on, the last exception being ``threshold``;
    else the answer has to be the same for all values of the unknowns."""

    def __init__(self, large: bool) -> None:
        self.serial = next(_SERIALS)
        self.large = large
        self.threshold = -1

    def sign(self, c: int, q: int, s: int) -> int:
        """The sign of ``c + q*Q + s*S``, or what is as good: strictly inside one side of every comparison."""
        if self.large:
            if q:
                raise NotUniform("a repetition in a run of large sizes")
            # c + s*S has the sign of s once S > |c| / |s|
            last = abs(c) // abs(s) if c * s <= 0 else -1
            self.threshold = max(self.threshold, last)
            return 1 if s > 0 else -1
        if c > 0 and q >= 0 and s >= 0:
            return 1
        if c < 0 and q <= 0 and s <= 0:
            return -1
        raise NotUniform("a comparison that repetitions change")


class Linear:
    """``c + q*Q + s*S``; a number where neither unknown is left, see ``linear``."""

    __slots__ = ("asked", "c", "q", "s")

    def __init__(self, asked: Asked, c: int, q: int, s: int) -> None:
        self.asked = asked
        self.c = c
        self.q = q
        self.s = s

    def __repr__(self) -> str:
        return f"{self.c} + {self.q}*Q + {self.s}*S"

    def _sum(self, o: Any, sign: int) -> Any:
        if isinstance(o, int):
            return Linear(self.asked, self.c + sign * o, self.q, self.s)
        if isinstance(o, Linear):
            return linear(self.asked, self.c + sign * o.c, self.q + sign * o.q, self.s + sign * o.s)
        return NotImplemented

    def __add__(self, o: Any) -> Any:
        return self._sum(o, 1)

    __radd__ = __add__

    def __sub__(self, o: Any) -> Any:
        return self._sum(o, -1)

    def __neg__(self) -> Linear:
        return Linear(self.asked, -self.c, -self.q, -self.s)

    def __rsub__(self, o: Any) -> Any:
        return (-self)._sum(o, 1)

    def __mul__(self, o: Any) -> Any:
        if isinstance(o, int):
            return linear(self.asked, self.c * o, self.q * o, self.s * o)
        if isinstance(o, Linear):
            # a product of sizes: only its remainders are known
            return Multiple(self.c, gcd(self.q, self.s), "a product of sizes") * o
        return NotImplemented

    __rmul__ = __mul__

    def _whole(self, m: Any) -> None:
        if not isinstance(m, int):
            raise Symbolic("a division by a size")
        if m == 0:
            raise ZeroDivisionError("integer division or modulo by zero")
        if self.s % m:
            raise NeedsPeriod(abs(m) // gcd(self.s, m))
        if self.q % m:
            raise NotUniform("a remainder that repetitions change")

    def __floordiv__(self, m: Any) -> Any:
        if isinstance(m, Multiple):
            return NotImplemented
        self._whole(m)
        return Linear(self.asked, self.c // m, self.q // m, self.s // m)

    def __mod__(self, m: Any) -> Any:
        if isinstance(m, Multiple):
            return NotImplemented
        self._whole(m)
        return self.c % m

    def __rfloordiv__(self, o: Any) -> Any:
        raise Symbolic("a division by a size")

    __rmod__ = __rfloordiv__

    def __rshift__(self, n: int) -> Any:
        return self // (1 << n)

    def __lshift__(self, n: int) -> Any:
        return self * (1 << n)

    def __and__(self, m: Any) -> Any:
        if isinstance(m, int) and m >= 0 and m & (m + 1) == 0:
            return self % (m + 1)
        raise Symbolic("bit arithmetic on a size")

    __rand__ = __and__

    def __or__(self, o: Any) -> Any:
        raise Symbolic("bit arithmetic on a size")

    __ror__ = __xor__ = __rxor__ = __or__

    def __invert__(self) -> Linear:
        return -self + -1  # type: ignore[no-any-return]

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def _compare(self, o: Any) -> int:
        d = self - o
        if isinstance(d, int):
            return (d > 0) - (d < 0)
        if isinstance(d, Linear):
            return self.asked.sign(d.c, d.q, d.s)
        raise Matters(d.name)

    def __lt__(self, o: Any) -> bool:
        return _at_most(self - o, -1)

    def __le__(self, o: Any) -> bool:
        return _at_most(self - o, 0)

    def __gt__(self, o: Any) -> bool:
        return not _at_most(self - o, 0)

    def __ge__(self, o: Any) -> bool:
        return not _at_most(self - o, -1)

    def __eq__(self, o: object) -> bool:
        if self is o:
            return True
        if not isinstance(o, int | Linear | Multiple):
            return NotImplemented
        if isinstance(o, Linear) and o.asked is not self.asked:
            return False  # an answer remembered for one run must not serve another
        return self._compare(o) == 0

    def __ne__(self, o: object) -> bool:
        return not self == o

    def __bool__(self) -> bool:
        return self._compare(0) != 0

    def __hash__(self) -> int:
        return hash((self.asked.serial, self.c, self.q, self.s))


def _at_most(d: Any, bound: int) -> bool:
    """Whether ``d <= bound``."""
    if isinstance(d, int):
        return d <= bound
    if isinstance(d, Linear):
        # d <= bound iff 2*d - 2*bound - 1 < 0, which is never 0: no answer hides in equality
        return d.asked.sign(2 * (d.c - bound) - 1, 2 * d.q, 2 * d.s) < 0
    raise Matters(d.name)


def linear(asked: Asked, c: int, q: int, s: int) -> int | Linear:
    """The value, a plain number if neither unknown is in it."""
    return Linear(asked, c, q, s) if q or s else c


class Multiple:
    """``c + g*u`` for an unknown integer ``u``; ``name``: the size that it comes from."""

    __slots__ = ("c", "g", "name")

    def __init__(self, c: int, g: int, name: str) -> None:
        self.c = c
        self.g = g
        self.name = name

    def __repr__(self) -> str:
        return f"{self.c} + {self.g}*[{self.name}]"

    def _of(self, o: Any) -> tuple[int, int] | None:
        if isinstance(o, int):
            return o, 0
        if isinstance(o, Linear):
            return o.c, gcd(o.q, o.s)
        return (o.c, o.g) if isinstance(o, Multiple) else None

    def _new(self, c: int, g: int) -> Any:
        return Multiple(c, g, self.name) if g else c

    def __add__(self, o: Any) -> Any:
        other = self._of(o)
        return NotImplemented if other is None else self._new(self.c + other[0], gcd(self.g, other[1]))

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self._new(-self.c, self.g)

    def __sub__(self, o: Any) -> Any:
        return self + -o

    def __rsub__(self, o: Any) -> Any:
        return -self + o

    def __mul__(self, o: Any) -> Any:
        other = self._of(o)
        if other is None:
            return NotImplemented
        c, g = other
        return self._new(self.c * c, gcd(self.c * g, c * self.g, self.g * g))

    __rmul__ = __mul__

    def __mod__(self, m: Any) -> Any:
        if isinstance(m, int) and m and self.g % m == 0:
            return self.c % m
        raise Matters(self.name)

    def __floordiv__(self, m: Any) -> Any:
        if isinstance(m, int) and m and self.g % m == 0:
            return self._new(self.c // m, self.g // m)
        if isinstance(m, int) and m:
            return Multiple(0, 1, self.name)
        raise Matters(self.name)

    def __rshift__(self, n: int) -> Any:
        return self // (1 << n)

    def __lshift__(self, n: int) -> Any:
        return self * (1 << n)

    def __and__(self, m: Any) -> Any:
        if isinstance(m, int) and m >= 0 and m & (m + 1) == 0:
            return self % (m + 1)
        raise Matters(self.name)

    def _decides(self, *_: Any) -> Any:
        raise Matters(self.name)

    __rand__ = __and__
    __rmod__ = __rfloordiv__ = __or__ = __ror__ = __xor__ = __rxor__ = _decides
    __invert__ = __abs__ = __bool__ = __lt__ = __le__ = __gt__ = __ge__ = _decides

    def __eq__(self, o: object) -> bool:
        if self is o:
            return True
        raise Matters(self.name)

    def __ne__(self, o: object) -> bool:
        return not self == o

    def __hash__(self) -> int:
        return hash((self.c, self.g, self.name))


#: What a register may hold beside a number.
UNKNOWNS = (Linear, Multiple, Term)


def symbolic(value: Any) -> bool:
    """Whether a value (or one of the lanes of a tuple) is no number."""
    if isinstance(value, tuple):
        return any(isinstance(x, UNKNOWNS) for x in value)
    return isinstance(value, UNKNOWNS)


class SizedAgent(Agent, Protocol):
    """An agent whose registers may be looked at and replaced, and whose sizes may be terms.

    Registers hold ints, ``terms.Term``, tuples of these (one per lane), or anything hashable but numbers.
    ``step`` may let pass: ``LaneSplit``; ``terms.Interrupted`` (an open question: the agent is then back at a
    point from which the same ``step(answer)`` goes on, at best the latest such point, and shared data is as
    it was); ``terms.Symbolic`` (this path cannot be followed, with the reason). Events hold no terms: a
    value that reaches one goes through ``Space.number``, and no memo may keep what was decided for a term.
    """

    def point(self) -> tuple[Any, ...]:
        """Where it stands, without any register; the first entry grows along its code."""

    def live(self) -> dict[Any, Any]:
        """The registers that anything later may depend on, by slot."""

    def put(self, slot: Any, value: Any) -> None:
        """Replaces a register that ``live`` named."""

    def fork(self) -> SizedAgent:
        """An independent copy at the same point."""

    def turns(self) -> Mapping[str, Any]:
        """For each size that it takes by ``Space.again``: the turn of its next request."""


class SizedSystem(System, Protocol):
    """A system whose agents start with terms for sizes. ``refined`` keeps the space.

    May offer ``fork_agents(agents) -> list``: copies of all agents of one run, where they share mutable data
    (such data is part of ``live`` and ``put`` of exactly one of them); without it each agent is forked.
    """

    def sized(self, size: Any) -> SizedSystem:
        """The same system with another value of its first size."""


@dataclass(frozen=True, slots=True)
class Family:
    """All sizes ``period * m + remainder`` with ``m >= least``."""

    period: int
    remainder: int
    least: int

    def size(self, m: int) -> int:
        return self.period * m + self.remainder
