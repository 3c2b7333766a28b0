"""What analyses say of a register where an instruction reads it, held beside what threads have held there.

What is held is by visit of the instruction and by thread. Each claim is one of values (intervals, single
bits, remainders, sums, numbers), of which threads hold the same, or of the variable that an address names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from syncverify.frontends.ptx.analysis.arrays.address_ranges import AddressRanges
from syncverify.frontends.ptx.analysis.arrays.carved_sums import Held, Place, Sum, Sums
from syncverify.frontends.ptx.analysis.arrays.lowest_places import LowestPlaces
from syncverify.frontends.ptx.analysis.arrays.named_arrays import NamedArrays
from syncverify.frontends.ptx.analysis.global_memory.copy_addresses import remainder
from syncverify.frontends.ptx.analysis.registers.interval_rules import Interval
from syncverify.frontends.ptx.analysis.registers.thread_numbers import ThreadNumbers
from syncverify.frontends.ptx.analysis.registers.thread_values import ThreadValues
from syncverify.frontends.ptx.analysis.registers.uniform_values import Common, common_values
from syncverify.frontends.ptx.analysis.registers.uniformity import THREADS, TIME, Uniformity
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Mem, Not, Reg
from syncverify.frontends.ptx.syntax.types import width

#: What threads hold, and whether they came, by visit and thread.
Words = npt.NDArray[np.uint64]
Seen = npt.NDArray[np.bool_]
#: More than any address of shared memory: beyond it, the least of an address says nothing.
SHARED = 232448
#: Threads that are asked about one by one.
SOME = (0, 5, 33)


@dataclass
class Claims:
    """``shape``: of a block. ``places``: where an execution has the shared variables."""

    flow: Flow
    shape: tuple[int, int, int]
    places: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape, self.block = self.shape, prod(self.shape)
        self.uniformity = Uniformity(self.flow, shape)
        self.ranges = AddressRanges(self.flow, self.places, shape)
        self.by_thread, self.numbers = ThreadValues(self.flow, shape), ThreadNumbers(self.flow)
        self.sums = Sums(self.flow, frozenset(self.places))
        self.lowest = LowestPlaces(self.flow, self.places)
        self.arrays = NamedArrays(self.flow, dict.fromkeys(self.places, 1 << 24))
        self.some = {t: self.ranges.of_thread(t) for t in SOME if t < self.block}

    def bits(self, x: Reg) -> int:
        """The bits of a register."""
        return width(self.flow.function.registers[x.name])

    def wrong(self, k: int, x: Reg, words: Words, seen: Seen) -> Iterator[str]:
        """The claims of what instruction ``k`` reads that do not hold."""
        kind = self.flow.function.registers[x.name]
        here = {*map(int, words[seen])}
        yield from self._alike(k, x, words, seen)
        known = self.by_thread.read(x, k)
        if known is not None and (words != known)[seen].any():
            yield "values by thread"
        constant = self.uniformity.constant(x, k)
        if constant is not None and here - {constant % (1 << self.bits(x))}:
            yield "constant"
        yield from self._of_threads(k, x, words, seen)
        if kind == "pred":
            yield from self._truth(k, x, here)
        elif kind[0] != "f":
            yield from self._of_integers(k, x, here)

    def _of_integers(self, k: int, x: Reg, here: set[int]) -> Iterator[str]:
        bits, version = self.bits(x), self.flow.versions.read(x.name, k)
        for name, found in (("wherever", self.ranges.operand(x, k)), ("here", self.ranges.places(k, Mem(x)))):
            if found is not None and not _within(found, here):
                yield f"interval {name}"
        maybe = self.uniformity._maybe(x) % (1 << bits)
        if any(word & ~maybe for word in here):
            yield "bits"
        m, r = remainder(self.flow, version) or (1, 0)
        if any(word % m != r for word in here):
            yield "remainder"
        if bits > 16 and self.uniformity._positive(x) and any(word >> bits - 1 for word in here):
            yield "sign"
        low = self.lowest.of_address(Mem(x), k)
        if low is not None and any(word < min(low, SHARED) for word in here):
            yield "the least"

    def _truth(self, k: int, x: Reg, here: set[int]) -> Iterator[str]:
        for p, turned in ((x, 0), (Not(x), 1)):
            found = self.ranges.branches.truth(p, k)
            if found is not None and here - {int(found) ^ turned}:
                yield "truth"

    def _of_threads(self, k: int, x: Reg, words: Words, seen: Seen) -> Iterator[str]:
        """Claims of single threads."""
        for t, ranges in self.some.items():
            held = {*map(int, words[:, t][seen[:, t]])}
            if self.flow.function.registers[x.name][0] in "usb":
                found = ranges.places(k, Mem(x))
                if found is not None and not _within(found, held):
                    yield "interval of a thread"
            elif held - {0, 1} == set() and (of := ranges.branches.truth(x, k)) is not None and held - {of}:
                yield "truth of a thread"
            if held and ranges.excluded(k):
                yield "no thread comes"
            at = self._numbers(t)
            if held and not self.numbers.comes(k, at):
                yield "the thread does not come"
            value = self.numbers.value(self.flow.versions.read(x.name, k), at)
            if value is not None and held - {value % (1 << self.bits(x))}:
                yield "number of a thread"

    def _numbers(self, t: int) -> dict[str, int]:
        """The numbers of a thread."""
        wide, high, _ = self.shape
        axes = t % wide, t // wide % high, t // (wide * high)
        found = {"%laneid": t % 32, "%ctaid.x": 0}
        found |= {f"%tid.{axis}": n for axis, n in zip("xyz", axes, strict=True)}
        return found | {f"%ntid.{axis}": n for axis, n in zip("xyz", self.shape, strict=True)}

    def _alike(self, k: int, x: Reg, words: Words, seen: Seen) -> Iterator[str]:
        """Claims of which threads hold the same."""
        i = self.flow.body[k]
        whole = self.uniformity.read_at(k, [x.name])
        masks = {"varies with": whole}
        if i.op == "st" and [x.name] == [r.name for r in i.operands[1:] if isinstance(r, Reg)]:
            masks["what is stored varies with"] = self.uniformity.stored(k)
        for name, mask in masks.items():
            if any(_differ(mask & THREADS, visit, some) for visit, some in zip(words, seen, strict=True)):
                yield name
        if not whole & TIME and _differ(whole & THREADS, words.ravel(), seen.ravel(), self.block):
            yield "varies with time"

    def differ(self, k: int, x: Reg, words: Words) -> bool:
        """Whether threads that are said to hold the same do not: those of several blocks, one by one."""
        mask = self.uniformity.read_at(k, [x.name]) & THREADS
        return _differ(mask, words, np.ones(len(words), np.bool_), self.block)

    def comes_alike(self, k: int, seen: Seen) -> bool:
        """Whether threads that are said to come to an instruction equally often do, where all have ended."""
        mask = self.uniformity.decided_by(k) & THREADS
        return not _differ(mask, seen.sum(axis=0).astype(np.uint64), np.ones(self.block, np.bool_))

    def sums_up(self, k: int, x: Reg, held: Mapping[str, Words], words: Words) -> bool:
        """Whether a sum of registers is what threads hold, modulo 2**32; true where it holds others."""
        found = self.sums.of(x, k)
        total = None if found is None else self._total(found, held)
        return total is None or bool(((total - words) & np.uint64(0xFFFFFFFF) == 0).all())

    def _total(self, found: Sum, held: Mapping[str, Words]) -> Words | None:
        total = np.full(self.block, found.number % (1 << 64), np.uint64)
        for atom, n in found.parts:
            if isinstance(atom, Place):
                value = np.full(self.block, self.places[atom.name], np.uint64)
            elif isinstance(atom, Held) and not atom.special:
                name = self.flow.versions.name[atom.version]
                if name not in held:
                    return None
                value = held[name]
            else:
                return None
            total = total + value * np.uint64(n % (1 << 64))
        return total

    @cached_property
    def common(self) -> Mapping[tuple[int, str], Common]:
        """What all threads compute alike, of loads from the buffer that nobody writes."""
        body = self.flow.body
        return common_values(
            self.flow, [k for k, i in enumerate(body) if i.op == "ld" and "global" in i.mods]
        )


def _differ(mask: int, words: Words, seen: Seen, block: int = 0) -> bool:
    """Whether threads that agree in the bits of a mask hold different words."""
    alike: dict[int, int] = {}
    some = map(int, np.flatnonzero(seen))
    return any(alike.setdefault((t % block if block else t) & mask, int(words[t])) != words[t] for t in some)


def _within(found: Interval, words: Iterable[int]) -> bool:
    return all(found.low <= x <= found.high and (x - found.low) % (found.step or 1) == 0 for x in words)


def names_wrongly(
    claims: Claims, k: int, x: Reg, one: tuple[Words, Seen], two: tuple[Words, Seen], other: Mapping[str, int]
) -> Iterator[str]:
    """What is said of the variable that an address is in, beside two executions that differ in places alone.

    ``other``: the places of the second one. Addresses move with the variable that they are in. Where threads
    no longer come alike, other addresses have decided.
    """
    (words, seen), (moved, there) = one, two
    if not (seen == there).all():
        return
    names = claims.arrays._names(x, k)
    if len(names) != 1 or "" in names:
        return
    (name,) = names
    by = np.uint64((other[name] - claims.places[name]) % (1 << 64))
    bits = np.uint64((1 << claims.bits(x)) - 1)
    if (((moved - words - by) & bits) != 0)[seen].any():
        yield "named array"


__all__ = ["Claims", "Seen", "Words", "names_wrongly"]
