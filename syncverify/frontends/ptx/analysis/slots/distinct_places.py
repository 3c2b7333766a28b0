"""Stores at places of data of which no two threads share a byte: ranks from scans and from comparisons.

    scan[t] = keep;  ... an inclusive scan ...  if (keep) buf[scan[t] - 1] = x;

``block_run`` has each place as a form of words, and what is known where the store is made. Here ``scan[t]``
is ``f0 + ... + ft``, each of them 0 or 1, and ``ft`` is 1.

**Claim.** Two stores of a group by different threads touch no common byte, or one is ordered after the other.

*Proof.* Between a barrier of the block and the next one all places of the group are at least as far apart
as the bytes that are stored, for all values of the words: ``_apart`` shows that of each two stores. Stores
with a barrier between them are ordered. In an execution take the first race: before it everything is as in
the run, so it is not one between two stores of the group, and the check finds it. ∎

Two places are apart if the least (largest) of their difference is, each word of its range by itself. So are
those of ranks that count keys below the own one: keys of a pair compare in one of three ways, and in each the
other keys stand to both of them in few ways, for the order is transitive. An example: of ``k1 < k2`` and
another key ``k``, ``k < k1`` and ``k > k2`` do not both hold.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np

from syncverify.frontends.ptx.analysis.registers.interval_rules import Interval
from syncverify.frontends.ptx.analysis.slots.block_run import BlockRun, NotFollowedError, SharedStore
from syncverify.frontends.ptx.decode.memory import Access, decode_access
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import from_outside
from syncverify.frontends.ptx.isa.participants import by_lanes
from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.operands import computed_from, registers, results
from syncverify.frontends.ptx.values.linear_forms import Form, Pair, Words
from syncverify.ir.launch_grid import Dims
from syncverify.model.events import Ev

#: Threads of a block, and products of two stores and words of one phase, at most.
_THREADS, _PRODUCTS = 1024, 600_000_000
_END = 1 << 24
_SHARED = frozenset({"shared", "shared::cta"})
#: State spaces that nobody writes while the kernel runs.
_CONSTANT = frozenset({"param", "param::entry", "param::func", "const"})
#: How a third key compares with two of which the first is less than, equal to or more than the second.
_THIRD: Sequence[Sequence[tuple[int, int]]] = (
    ((0, 0), (1, 0), (2, 0), (2, 1), (2, 2)),
    ((0, 0), (1, 1), (2, 2)),
    ((0, 0), (0, 1), (0, 2), (1, 2), (2, 2)),
)


@dataclass(frozen=True, slots=True)
class Distinct:
    """Where a store may begin, and its group; ``floats``: this takes it that no NaN is compared."""

    group: int
    places: Interval
    floats: bool


class DistinctPlaces:
    """The stores of a function at places of data that no two threads share, in a block of one shape."""

    def __init__(self, flow: Flow, block: Dims, shared: Mapping[str, int]) -> None:
        self.flow, self.block, self.shared = flow, block, shared

    def of(self, k: int) -> Distinct | None:
        """What is known of a store."""
        return self._found.get(k) if k in self._stores else None

    @cached_property
    def _found(self) -> dict[int, Distinct]:
        x, y, z = self.block
        if x * y * z > _THREADS:
            return {}
        run = BlockRun(self.flow, self.block, self.shared)
        try:
            stores = run.run()
        except NotFollowedError:
            return {}
        return self._judged(stores, run.words)

    @cached_property
    def _stores(self) -> dict[int, Access]:
        found = {k: a for k, i in enumerate(self.flow.body) if (a := decode_access(i)) is not None}
        return {k: a for k, a in found.items() if a.code == Ev.WRITE and a.space in _SHARED}

    def _judged(self, stores: Sequence[SharedStore], words: Words) -> dict[int, Distinct]:
        by_site: dict[int, list[SharedStore]] = {}
        for s in stores:
            by_site.setdefault(s.at, []).append(s)
        by_data = {k for k, found in by_site.items() if any(isinstance(s.place, Form) for s in found)}
        whole = {k: by_site[k] for k in by_data if all(s.place is not None for s in by_site[k])}
        if not whole:
            return {}
        placed = {k: p for k, found in whole.items() if (p := _places(found, words)) is not None}
        together = [s for k in placed for s in whole[k]]
        bytes_ = max((self._stores[k].bytes for k in placed), default=0)
        if self._all_apart(together, words, bytes_):
            return {k: Distinct(0, p, words.floats) for k, p in placed.items()}
        alone = [k for k in placed if self._all_apart(whole[k], words, self._stores[k].bytes)]
        return {k: Distinct(n, placed[k], words.floats) for n, k in enumerate(alone)}

    def _all_apart(self, stores: Sequence[SharedStore], words: Words, size: int) -> bool:
        by_phase: dict[int, list[SharedStore]] = {}
        for s in stores:
            by_phase.setdefault(s.phase, []).append(s)
        return all(_apart(found, words, size) for found in by_phase.values())


def _form(s: SharedStore) -> tuple[int, Mapping[int, int]]:
    place = s.place
    return (place.constant, place.terms) if isinstance(place, Form) else (place or 0, {})


def _apart(stores: Sequence[SharedStore], words: Words, size: int) -> bool:
    """Whether the places of each two stores of different threads differ by some bytes."""
    found = _ranks(stores, words)
    if found is not None and len(found.keys) ** 2 * len(found.keys) < _PRODUCTS and found.apart(size):
        return True
    used = sorted({w for s in stores for w in (*_form(s)[1], *s.given)})
    if len(stores) ** 2 * max(1, len(used)) > _PRODUCTS:
        return False
    column = {w: n for n, w in enumerate(used)}
    shape = len(stores), len(used)
    factors = np.zeros(shape)
    low = np.array([words.ranges[w][0] for w in used], dtype=float) + np.zeros(shape)
    high = np.array([words.ranges[w][1] for w in used], dtype=float) + np.zeros(shape)
    constants, threads = np.zeros(shape[0]), np.array([s.thread for s in stores])
    for n, s in enumerate(stores):
        constants[n], terms = _form(s)
        for w, k in terms.items():
            factors[n, column[w]] = k
        for w, value in s.given.items():
            low[n, column[w]] = high[n, column[w]] = value
    if (
        np.abs(factors).max(initial=0) > 1 << 20
        or np.abs(high[:, np.any(factors != 0, axis=0)]).max(initial=0) > 1 << 20
    ):
        return False  # sums may leave what floats hold exactly, or 32 bits
    for n in range(len(stores) - 1):
        others = threads[n + 1 :] != threads[n]
        d = factors[n + 1 :] - factors[n]
        least, most = np.maximum(low[n + 1 :], low[n]), np.minimum(high[n + 1 :], high[n])
        never = np.any(least > most, axis=1)
        between = constants[n + 1 :] - constants[n]
        at_least = between + np.where(d > 0, d * least, d * most).sum(axis=1)
        at_most = between + np.where(d > 0, d * most, d * least).sum(axis=1)
        if np.any(others & ~never & (at_least < size) & (at_most > -size)):
            return False
    return True


def _places(stores: Sequence[SharedStore], words: Words) -> Interval | None:
    """Where one of some stores may begin."""
    lows, highs, step = [], [], 0
    for s in stores:
        constant, terms = _form(s)
        by_pair: dict[Pair, list[int]] = {}
        low = high = constant
        for w, k in terms.items():
            step = gcd(step, k)
            if w in words.pairs and w not in s.given:
                pair, way = words.pairs[w]
                by_pair.setdefault(pair, [0, 0, 0])[way] += k
                continue
            a, b = (s.given[w],) * 2 if w in s.given else words.ranges[w]
            low, high = low + min(k * a, k * b), high + max(k * a, k * b)
        lows.append(low + sum(min(ways) for ways in by_pair.values()))
        highs.append(high + sum(max(ways) for ways in by_pair.values()))
        step = gcd(step, constant - _form(stores[0])[0])
    found = Interval(min(lows), max(highs), step)
    return found if 0 <= found.low <= found.high < _END else None


@dataclass(frozen=True, slots=True)
class _Ranks:
    """Stores by threads with keys of their own: ``ways[n][m]``, what key ``m`` adds to the place of store
    ``n``, by whether it is less, equal or more than the store's."""

    keys: Sequence[Hashable]
    constants: Any
    ways: Any

    def apart(self, size: int) -> bool:
        return all(self._one(n, way, size) for n in range(len(self.keys)) for way in range(3))

    def _one(self, n: int, way: int, size: int) -> bool:
        """Whether all other places are apart from that of a store, where its key compares so with theirs."""
        mine, theirs = self.ways[n], self.ways
        third = [theirs[:, :, b] - mine[:, a] for a, b in _THIRD[way]]
        least, most = np.minimum.reduce(third), np.maximum.reduce(third)
        each = np.arange(len(self.keys))
        # its own key beside another, and that beside its own
        exact = theirs[:, n, way] - mine[each, 2 - way]
        between = self.constants - self.constants[n] + exact
        both = [x.sum(axis=1) - x[:, n] - x[each, each] for x in (least, most)]
        bad = (between + both[0] < size) & (between + both[1] > -size)
        bad[n] = False
        return not bool(np.any(bad))


def _ranks(stores: Sequence[SharedStore], words: Words) -> _Ranks | None:
    """Stores as ranks by comparisons of keys, where each is by one thread and has a key of its own."""
    if len({s.thread for s in stores}) < len(stores):
        return None
    by_store: list[dict[Pair, list[int]]] = []
    keys: list[Hashable] = []
    kinds = set[str]()
    for s in stores:
        pairs: dict[Pair, list[int]] = {}
        sides: set[Hashable] | None = None
        for w, k in _form(s)[1].items():
            if w not in words.pairs:
                return None
            pair, way = words.pairs[w]
            kinds.add(pair.kind)
            pairs.setdefault(pair, [0, 0, 0])[way] += k
            here = {pair.one, pair.other}
            sides = here if sides is None else sides & here
        if sides is None or len(sides) != 1:
            return None
        keys.append(sides.pop())
        by_store.append(pairs)
    if len(set(keys)) < len(keys) or len(kinds) != 1:
        return None
    number = {key: n for n, key in enumerate(keys)}
    ways = np.zeros((len(keys), len(keys), 3), dtype=np.int64)
    for n, pairs in enumerate(by_store):
        for pair, added in pairs.items():
            one, other = pair.one, pair.other
            third = other if one == keys[n] else one
            if third not in number:
                return None
            ways[n, number[third]] = added if third == one else added[::-1]
    constants = np.array([_form(s)[0] for s in stores], dtype=np.int64)
    return _Ranks(keys, constants, ways)


#: The last that were asked about: one function is compiled for several attempts.
_ASKED: list[DistinctPlaces] = []
_MOST_ASKED = 4


def distinct_places(flow: Flow, block: Sequence[int], shared: Mapping[str, int]) -> DistinctPlaces:
    """What is known of the stores of a function, in a block of one shape."""
    for known in _ASKED:
        same = known.flow.function is flow.function and tuple(known.block) == tuple(block)
        if same and known.shared == shared and known.flow.stops == flow.stops:
            return known
    found = DistinctPlaces(flow, (block[0], block[1], block[2]), dict(shared))
    _ASKED[:] = [found, *_ASKED[: _MOST_ASKED - 1]]
    return found


def placed_by_data(body: Sequence[Instr]) -> frozenset[int]:
    """The stores whose address may be made of data, or of what lanes exchange. Some threads may have a number
    there: the first lane of all has rank 0 whatever the ballot is."""
    brings = (name for i in body if _brings_data(i) for name in results(i))
    data = computed_from(brings, body)
    return frozenset(
        k for k, i in enumerate(body) if i.op == "st" and not data.isdisjoint(registers(i.operands[0]))
    )


def _brings_data(i: Instr) -> bool:
    return by_lanes(i) or (from_outside(i) and _CONSTANT.isdisjoint(i.mods))


__all__ = ["Distinct", "DistinctPlaces", "distinct_places", "placed_by_data"]
