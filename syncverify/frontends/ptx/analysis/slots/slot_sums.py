"""Addresses of slots as sums: of a number that an atomic brought, a rank, and what varies with neither.

    buf[base + rank], with 4 bytes for each:    4 * number + 4 * rank + buf

The terms hold modulo 2**32, as addresses of shared memory do: each step is a sum, or a product with a number.
A mask, a remainder or a quotient on the way changes nothing (or leaves 0) where the sum is small enough: that
is needed of it (``Below``), and shown once the counter's numbers are known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from syncverify.frontends.ptx.analysis.arrays.address_ranges import Interval

_ZERO = Interval(0, 0, 0)
#: The most that a slot number is multiplied by.
_MOST = 1 << 16
#: Slot numbers are taken to stay below: no sum of one and a number wraps.
MOST_NUMBER = 1 << 30
#: What makes the rank of a lane that is its number in the warp.
OWN = -1
#: Ranks are less.
_LANES = 32


@dataclass(frozen=True, slots=True)
class Rank:
    """The lanes of a mask on one side of the own one, which is one of them. ``made``: the instruction that
    makes the mask; ``first``: the least rank, 1 where the own lane counts; ``one``: all lanes of the warp
    have one mask. ``OWN`` makes the lane's number, which lies in ``numbers``."""

    made: int
    first: int
    one: bool = True
    numbers: Interval = Interval(0, _LANES, 1)


@dataclass(frozen=True, slots=True)
class Form:
    """``scale * number + by * rank + rest``.

    ``takes``: the atomics one of which brought the number; ``shuffle``: the ``shfl`` that handed it on;
    ``group``: what makes the mask of the lanes that got it, None where these are all of the warp.
    ``most``: what the number is at most, and what number and rank together are, as the kernel compares them.
    ``negative``: a sum on the way may be below 0. ``needs``: what else has to hold.
    """

    takes: frozenset[int] = frozenset()
    scale: int = 0
    shuffle: int | None = None
    group: int | None = None
    rank: Rank | None = None
    by: int = 0
    rest: Interval = _ZERO
    most: tuple[int, int] = (MOST_NUMBER, MOST_NUMBER)
    negative: bool = False
    needs: frozenset[Below] = frozenset()

    def times(self, n: int) -> Form | None:
        """The sum, multiplied."""
        if not 0 < abs(n) * max(abs(self.scale), abs(self.by), 1) <= _MOST:
            return None
        rest = _scaled(self.rest, n)
        return replace(self, scale=self.scale * n, by=self.by * n, rest=rest, negative=self.negative or n < 0)

    def plus(self, other: Form) -> Form | None:
        """The sum of two, of which one at most has a slot number, and one at most a rank in a mask."""
        if self.rank and other.rank:
            return self.without_lane().plus(other.without_lane()) if self.own or other.own else None
        if self.takes and other.takes:
            return None
        one, two = (self, other) if self.takes else (other, self)
        rest, negative = one.rest.plus(two.rest), self.negative or other.negative
        return replace(one, rank=self.rank or other.rank, by=self.by or other.by, rest=rest,
                       negative=negative or rest.low < 0, needs=one.needs | two.needs)  # fmt: skip

    @property
    def own(self) -> bool:
        """Whether the rank is the lane's number."""
        return self.rank is not None and self.rank.made == OWN

    def without_lane(self) -> Form:
        """The same with the lane's number as something that is added."""
        if not self.own:
            return self
        return replace(self, rank=None, by=0, rest=self.rest.plus(self.ranks))

    @property
    def ranks(self) -> Interval:
        """What the rank adds."""
        return _ZERO if self.rank is None else _scaled(self.rank.numbers, self.by)

    def within(self, most: int | None) -> Form:
        """The same where the sum is known to be at most so much."""
        if most is None or self.scale != 1 or max(map(abs, (self.rest.low, self.rest.high))) > MOST_NUMBER:
            return self
        limit, (number, both) = most - self.rest.low, self.most
        if self.rank is None:
            return replace(self, most=(min(number, limit), both))
        return replace(self, most=(number, min(both, limit))) if self.by == 1 else self

    def divisible(self, n: int) -> bool:
        """Whether the sum is a multiple of a number."""
        return all(x % n == 0 for x in (self.scale, self.by, self.rest.low, self.rest.step))

    def masked(self, mask: int) -> Form | None:
        """The sum with some of its bits, if these are all that it has."""
        low = mask & -mask
        if mask <= 0 or mask + low & mask or not self.divisible(low):
            return None
        return self.below(mask + low)

    def below(self, limit: int) -> Form | None:
        """The same sum, of which is needed that it is 0 or more, and less than a limit."""
        return replace(self, needs=self.needs | {Below(self, limit)}) if self.takes and limit > 0 else None

    def quotient(self, limit: int) -> Form | None:
        """The 0 that a division brings of a sum that has to be less than a limit."""
        needed = self.below(limit)
        return None if needed is None else Form(needs=needed.needs)


@dataclass(frozen=True, slots=True)
class Below:
    """What a mask, a remainder or a quotient needs: a sum is 0 or more, and less than ``limit``."""

    form: Form
    limit: int


def _scaled(x: Interval, n: int) -> Interval:
    return x.times(n) if n >= 0 else Interval(x.high * n, x.low * n, x.step * -n)


__all__ = ["MOST_NUMBER", "OWN", "Below", "Form", "Rank"]
