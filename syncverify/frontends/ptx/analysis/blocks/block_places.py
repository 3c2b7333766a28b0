"""Places in global memory that two blocks of a grid share, where each stores a value of its own.

    and.b32 i, %ctaid.x, 1;  st.global.u32 [p + 4 i], %ctaid.x;     // every second block stores to one word
    mad.lo.u32 i, %ctaid.x, 16, %tid.x;  st.global.u32 [p + 4 i], %ctaid.x;      // in blocks of 32 threads

Bytes, guards and values are computed for many blocks, each with some of its threads, and for the first few
blocks with all of them: for the numbers that the launch file gives, and for some drawn ones where it gives
none. Drawn sizes are larger than the grid, as a host makes them. Two blocks share a byte if it is the same
number in every draw.

What ``shfl.sync.idx`` takes from another lane is what that one computes of its own number, where no loop
makes it. Its mask has to name all lanes: that they come is asked elsewhere.

So the usual orders of tiles share none: a quotient and a remainder by one size, groups of rows that
several blocks go through in turn, an exclusive or of bits. Of a loop the first turns are looked at. What is
computed of data, or of what a loop leaves behind, has no number: whether places are shared is open. Where
data decides whether a thread stores, it may; where an atomic does, or a word of shared memory, places that
are shared are open, for it may be one thread that stores. Values are taken to be the same if all that they
are computed of is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache, cached_property, lru_cache
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from syncverify.frontends.ptx.analysis.blocks.data_places import DataPlaces, Reach, Touched, compared
from syncverify.frontends.ptx.analysis.registers.thread_values import (
    OPERATIONS,
    Numbers,
    RegisterValues,
    as_type,
    cut,
    numbers_of_threads,
    of_lanes,
    signed,
)
from syncverify.frontends.ptx.decode.memory import Access
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import effects
from syncverify.frontends.ptx.syntax.nodes import FloatImm, Imm, Instr, Mem, Operand, Reg, Special, Sym
from syncverify.frontends.ptx.syntax.operands import sources
from syncverify.frontends.ptx.syntax.types import kind, width
from syncverify.ir.launch_grid import Dims

#: The number at a place of a parameter: by name, byte and size; None where none is given.
Given = Callable[[str, int, int], int | None]

#: Draws, and where loads bring numbers: these may lose bits by a mask.
_DRAWS, _DRAWS_OF_INPUTS = 3, 12
#: Parts of a grid that are looked at: many blocks, each with some of its threads; and the first, with all.
SAMPLES = 2
#: Turns of a loop that are looked at.
_TURNS = 5
#: Blocks that are looked at, and of an axis whose extent has no number.
_BLOCKS, _OPEN = 1024, 16
#: Blocks along each axis that are looked at with all of their threads.
_FIRST = (4, 2, 2)
_AXES = "xyz"
#: Drawn numbers: of words, and of what may be a pointer.
_WORDS, _POINTERS = (1 << 20, 1 << 21), (1 << 40, 1 << 46)
_ALIGNED = 1 << 12
#: Bits above those of an address.
_ABOVE = np.uint64(48)
#: Bits of a cluster's number along one axis, in one number for all three.
_BITS_OF_AN_AXIS = 21
#: The last lane of a warp, and a mask of all.
_LAST_LANE, _ALL_LANES = 31, (1 << 32) - 1
#: What makes values of registers, and of memory that is the same for all blocks.
_MADE = frozenset({"register", "data", "warp", "matrix registers", "hint"})
_COMMON = frozenset({"global", "param", "const"})


#: What keeps different numbers of a load apart, but for bits that a mask of 32 bits takes away.
_KEEPS_APART = frozenset({"mov", "cvt", "cvta", "add", "sub", "mul", "mad", "shl", "and"})


def nothing(_name: str, _at: int, _size: int) -> int | None:
    """Of no parameter a number is given."""
    return None


@dataclass(frozen=True, slots=True)
class Loaded:
    """What loads bring. ``given``: numbers of parameters. ``held``: a number, by instruction. ``is_input``:
    whether a load brings what stays the same while the kernel runs. That has a number for each address, where
    it places an access: two places that are one in every draw are one for every input. Where it decides it
    has none. ``sizes``: words of parameters that nothing gives have drawn numbers; else none.
    """

    given: Given = nothing
    held: Mapping[int, int] = field(default_factory=dict)
    is_input: Callable[[int], bool] | None = None
    sizes: bool = True


NOTHING = Loaded()


class Shared(IntEnum):
    """Whether blocks, or threads of one, store values of their own to one byte. CERTAINLY: these differ."""

    NO = 0
    OPEN = 1
    YES = 2
    CERTAINLY = 3


class BlockPlaces:
    """What stores of one function write, in blocks of a grid. ``grid``: None along axes without a number."""

    def __init__(
        self,
        flow: Flow,
        block: Dims,
        grid: Sequence[int | None],
        cluster: Dims | None,
        loaded: Loaded = NOTHING,
    ) -> None:
        extents = [_OPEN if n is None else n for n in grid]
        size = block[0] * block[1] * block[2]
        first = [min(n, most) for n, most in zip(extents, _FIRST, strict=True)]
        self._samples = list[_Sample]()
        for part, threads in ((_some(extents), _threads(size)), (first, list(range(size)))):
            each = np.array(threads, dtype=np.uint64)
            blocks = np.repeat(np.arange(int(np.prod(part)), dtype=np.uint64), len(each))
            specials = numbers_of_threads(np.tile(each, len(blocks) // len(each)), block)
            specials |= _of_blocks(blocks, part, extents, cluster or (1, 1, 1))
            count = _DRAWS if loaded.is_input is None else _DRAWS_OF_INPUTS
            threads_of = np.tile(each, len(blocks) // len(each))
            values = _Values(flow, len(blocks), specials, count, loaded)
            self._samples.append(_Sample(flow, blocks, threads_of, values))

    def shared(self, k: int, access: Access, stored: Iterable[str]) -> Shared:
        """Whether two blocks store values of their own to one byte by instruction ``k``, which is a store."""
        names = list(stored)
        return max(sample.shared(k, access, names) for sample in self._samples)

    def shared_by_threads(self, k: int, access: Access, stored: Iterable[str], *, in_turn: bool) -> Shared:
        """The same of two threads of one block. ``in_turn``: turns of loops around it are ordered."""
        return self._samples[-1].shared(k, access, list(stored), of_one_block=True, in_turn=in_turn)

    def touched(self, k: int, access: Access) -> list[Touched | None]:
        """What threads touch for certain by ``k`` in first turns, in each sample; None where that is open."""
        return [sample.touched(k, access) for sample in self._samples]

    def reached(
        self, k: int, access: Access, is_input: Callable[[int], bool]
    ) -> list[tuple[Reach, Numbers] | None]:
        """Where data places ``k`` in first turns, in each sample, and the clusters of the threads that do."""
        return [sample.reached(k, access, is_input) for sample in self._samples]

    def rows(self, k: int, access: Access) -> list[StoreRows | None]:
        """What threads store by one instruction, in each sample; None where a place has no number."""
        return [sample.rows(k, access) for sample in self._samples]


@dataclass(frozen=True, slots=True)
class StoreRows:
    """What threads store by one instruction, in the turns that are looked at: a row for each store.

    ``places``: the first byte in each draw. ``words``: by element, its number in each draw; None of one that
    has none. ``certain``: these threads store, and once. ``elected``: an atomic, or a word of shared memory,
    says which of them do.
    """

    places: Sequence[Numbers]
    blocks: Numbers
    clusters: Numbers
    threads: Numbers
    words: Sequence[Sequence[Numbers] | None]
    size: int
    certain: bool
    elected: bool

    def of_anything(self) -> StoreRows:
        """The places without what is stored there: a load may bring anything."""
        return replace(self, words=[None] * len(self.words))


@dataclass(frozen=True, slots=True)
class _Turn:
    """The values of registers in each draw, in one turn of a loop around a store, or in the first of all.
    ``before``: those in the turn before it."""

    values: _Values
    before: _Values | None = None

    def known(self, v: int) -> list[Numbers] | None:
        """What a version of a register holds in each draw; None where it has no number."""
        return self.values.by_draw(self.values.of_version(v))


@dataclass(frozen=True, slots=True)
class _Stored:
    """What some threads store in one turn: first bytes in each draw, their blocks, what the values are made
    of, or None where they are a block's own in any case. ``values``: the numbers that are stored, where these
    are known, and it is known who stores. ``elected``: what has no number, and is no data that all share,
    decides about that."""

    places: Sequence[Numbers]
    blocks: Numbers
    threads: Numbers
    made: Sequence[Numbers] | None
    values: Sequence[Numbers] | None
    elected: bool


class _Sample:
    """The same for some blocks and some threads of each."""

    def __init__(self, flow: Flow, blocks: Numbers, threads: Numbers, values: _Values) -> None:
        """``blocks``: the number of each thread's block; ``threads``: its own there."""
        self.flow, self.blocks, self.threads, self.values = flow, blocks, threads, values
        each = [x for axis in _AXES if (x := values.special(f"%clusterid.{axis}")) is not None]
        self.clusters = sum(
            (x << np.uint64(_BITS_OF_AN_AXIS * n) for n, x in enumerate(each)), np.zeros_like(blocks)
        )
        self._controllers = flow.controllers()
        self._heads = {
            h: loop for loop in flow.loops for h in loop if all(flow.dominates(h, b) for b in loop)
        }
        self._kept: dict[frozenset[int], list[_Turn]] = {}
        self._conditions = cache(lambda k: list(conditions(flow, self._controllers, k)))

    def shared(
        self,
        k: int,
        access: Access,
        stored: Sequence[str],
        *,
        of_one_block: bool = False,
        in_turn: bool = False,
    ) -> Shared:
        """Whether two of the blocks, or two threads of one, store values of their own to one byte by
        instruction ``k``."""
        size = access.bytes
        known, read = list[_Stored](), [self.flow.versions.read(name, k) for name in stored]
        for turn in self._turns(k):
            made = self._made_of(read, turn)
            if made == []:
                return Shared.NO
            found = self._stored(k, access, read, turn, made)
            if found is None:
                return Shared.OPEN
            known.append(found if not of_one_block else _of_threads(found))
        sure = len(known) == 1 and known[0].values is not None
        if sure and not (of_one_block and _at_one_place(known[0])) and _differ(known, size, exactly=True):
            return Shared.CERTAINLY
        together = [[x] for x in known] if in_turn else [known]
        if not any(_differ(some, size, exactly=False) for some in together):
            return Shared.NO
        return Shared.OPEN if any(x.elected for x in known) else Shared.YES

    def rows(self, k: int, access: Access) -> StoreRows | None:
        """What threads store by one instruction; None where a place has no number."""
        turns, certain, elected = 0, True, False
        draws = range(self.values.draws)
        places: list[list[Numbers]] = [[] for _ in draws]
        words: list[list[list[Numbers]] | None] = [[[] for _ in draws] for _ in access.elements]
        kept = list[NDArray[np.bool_]]()
        for turn in self._turns(k):
            at = turn.values.address(access.address, k)
            if at is None:
                return None
            stores, sure, own = self._stores(k, turn)
            turns, certain, elected = turns + 1, certain and sure, elected or own
            for column, x in zip(places, at, strict=True):
                column.append(x[stores])
            for n, element in enumerate(access.elements):
                number = turn.values.by_draw(turn.values.word(element, k))
                column_of = words[n]
                if number is None or column_of is None:
                    words[n] = None
                else:
                    for column, x in zip(column_of, number, strict=True):
                        column.append(x[stores])
            kept.append(stores)
        joined = [None if x is None else [np.concatenate(c) for c in x] for x in words]
        return StoreRows(
            [np.concatenate(x) for x in places],
            np.concatenate([self.blocks[s] for s in kept]),
            np.concatenate([self.clusters[s] for s in kept]),
            np.concatenate([self.threads[s] for s in kept]),
            joined,
            access.size,
            certain and turns == 1,
            elected,
        )

    def touched(self, k: int, access: Access) -> Touched | None:
        """What threads touch for certain in the first turn of loops; None where that is open."""
        turn = next(self._turns(k))
        places = turn.values.address(access.address, k)
        who, bounds = self._who(k, turn)
        if places is None or who is None or bounds:
            return None
        return Touched([x[who] for x in places], self.clusters[who], access.bytes)

    def reached(
        self, k: int, access: Access, is_input: Callable[[int], bool]
    ) -> tuple[Reach, Numbers] | None:
        """Where data places an access in the first turn of loops; None where that is open."""
        turn = next(self._turns(k))
        who, bounds = self._who(k, turn)
        if who is None:
            return None
        found = DataPlaces(self.flow, turn.values, is_input, bounds).of_place(access.address, k)
        if found is None:
            return None
        word = None if found.word is None else [x[who] for x in found.word]
        return replace(found, begin=[x[who] for x in found.begin], word=word), self.clusters[who]

    def _who(self, k: int, turn: _Turn) -> tuple[NDArray[np.bool_] | None, dict[int, tuple[int, int]]]:
        """The threads that come to an instruction, if versions are in ranges; None where that is open."""
        who, bounds = np.ones(len(self.blocks), dtype=bool), dict[int, tuple[int, int]]()
        here = self.flow.block_of[k]
        for at, wanted in self._conditions(k):
            guard, block = self.flow.body[at].guard, self.flow.block_of[at]
            if guard is None or (block != here and self.flow.dominates(here, block)):
                continue  # what lies behind it decides about later turns
            v = self.flow.versions.read(guard.name, at)
            known, writer = turn.values.of_version(v), self.flow.versions.writer[v]
            if not self.flow.dominates(block, here):
                return None, bounds
            if known is not None:
                if wanted is not None:
                    who &= _holds(known, wanted=wanted != self.flow.body[at].negated)
                continue
            if wanted is None or writer < 0:
                return None, bounds
            holds = wanted != self.flow.body[at].negated
            bound = compared(self.flow, turn.values, writer, holds=holds)
            if bound is None:
                return None, bounds
            low, high = bounds.get(bound[0], bound[1])
            bounds[bound[0]] = max(low, bound[1][0]), min(high, bound[1][1])
        return who, bounds

    def _turns(self, k: int) -> Iterator[_Turn]:
        """The first turn of all loops around an instruction, and some more of each."""
        here = self.flow.block_of[k]
        heads = frozenset(h for h, loop in self._heads.items() if here in loop)
        if heads not in self._kept:
            first = self.values.turned(heads) if heads else self.values
            self._kept[heads] = [_Turn(first)]
        kept = self._kept[heads]
        for n in range(1 + (_TURNS - 1) * len(heads)):
            if n == len(kept):
                before = kept[0 if (n - 1) % (_TURNS - 1) == 0 else -1].values
                h = sorted(heads)[(n - 1) // (_TURNS - 1)]
                kept.append(_Turn(before.turned(heads, h, before), before))
            yield kept[n]

    def _stored(
        self, k: int, access: Access, read: Sequence[int], turn: _Turn, made: Sequence[Numbers] | None
    ) -> _Stored | None:
        """What threads store in a turn; None where places have no number. ``read``: the versions that are
        stored, of whose bytes a store takes the low ones."""
        places = turn.values.address(access.address, k)
        stores, certain, elected = self._stores(k, turn)
        if places is None:
            return None
        numbers = [turn.known(v) for v in read]
        low = np.uint64((1 << 8 * min(access.size, 8)) - 1)
        values = [x[stores] & low for n in numbers if n is not None for x in n]
        return _Stored(
            [x[stores] for x in places],
            self.blocks[stores],
            self.threads[stores],
            None if made is None else [x[stores] for x in made],
            None if None in numbers or not certain else values,
            elected,
        )

    def _made_of(self, versions: Iterable[int], turn: _Turn) -> list[Numbers] | None:
        """The numbers that values are computed of; None where these are a block's own in any case."""
        found, seen, work = list[Numbers](), set[int](), list(versions)
        names = self.flow.versions
        while work:
            v = work.pop()
            if v in seen:
                continue
            seen.add(v)
            known = turn.known(v)
            if known is not None:
                found += known
                continue
            k = names.writer[v]
            if k < 0:
                work += [x for _, x in names.merged(v)]
                continue
            i = self.flow.body[k]
            if not _common(i):
                return None
            for x in i.operands:
                if isinstance(x, Special):
                    number = self.values.special(x.name)
                    if number is None:
                        return None
                    found.append(number)
            kept = () if i.guard is None else (names.name[v],)
            work += [names.read(name, k) for name in (*kept, *sources(i))]
        return found

    def _stores(self, k: int, turn: _Turn) -> tuple[NDArray[np.bool_], bool, bool]:
        """Where an instruction may be executed; whether it is for certain; and whether an atomic or the like
        says which block does. What does not lie on each way there decides in the turn before."""
        found, certain, elected = np.ones(len(self.blocks), dtype=bool), True, False
        for at, wanted in self._conditions(k):
            i = self.flow.body[at]
            guard = i.guard
            if guard is None:
                continue
            v = self.flow.versions.read(guard.name, at)
            ahead = self.flow.dominates(self.flow.block_of[at], self.flow.block_of[k])
            values = turn.values if ahead else turn.before
            known = None if values is None else values.of_version(v)
            certain = certain and ahead and known is not None
            if known is None:
                elected = elected or self._made_of([v], turn) is None
                continue
            if wanted is not None:
                found &= _holds(known, wanted=wanted != i.negated)
        return found, certain, elected


def _holds(bits: Numbers, *, wanted: bool) -> NDArray[np.bool_]:
    """The threads in which a predicate has one value in every draw."""
    found: NDArray[np.bool_] = ((bits & np.uint64(1)).astype(bool) == wanted).all(axis=0)
    return found


def _of_threads(x: _Stored) -> _Stored:
    """The same with threads in the place of blocks, each block by itself."""
    return replace(x, places=[at + (x.blocks << _ABOVE) for at in x.places], blocks=x.threads)


def _at_one_place(x: _Stored) -> bool:
    """Whether all threads of each block store to one word: nobody asks which value stays there."""
    blocks = x.places[0] >> _ABOVE
    return all(len(np.unique(at)) == len(np.unique(blocks)) for at in x.places)


def _differ(found: Sequence[_Stored], size: int, *, exactly: bool) -> bool:
    """Whether two blocks store values of their own to one byte; ``exactly``: from one first byte on, numbers
    that differ, each by one thread of its block."""
    begins = [np.concatenate(x) for x in zip(*(x.places for x in found), strict=True)]
    who = np.concatenate([x.blocks for x in found])
    if not len(who):
        return False
    unit = size if exactly else int(np.gcd.reduce([np.uint64(size), *(np.gcd.reduce(x) for x in begins)]))
    steps = np.arange(0, size, unit, dtype=np.uint64)
    parts = [(x[:, None] + steps).ravel() for x in begins]
    who = np.repeat(who, len(steps))
    met = np.isin(parts[0], _of_several(parts[0], who))
    if not met.any():
        return False
    at, who = _classes([x[met] for x in parts]), who[met]
    several = _of_several(at, who)
    own = _columns([x.values if exactly else x.made for x in found])
    if own is not None and len(several):
        values = _classes([np.repeat(x, len(steps))[met] for x in own])
        several = np.intersect1d(several, _of_several(at, values))
    return bool(len(np.setdiff1d(several, _crowded(at, who)) if exactly else several))


def _crowded(at: NDArray[Any], who: Numbers) -> NDArray[Any]:
    """The places to which several threads of one block store: nobody asks which value stays there."""
    order = np.lexsort((who, at))
    a, b = at[order], who[order]
    found: NDArray[Any] = a[1:][(a[1:] == a[:-1]) & (b[1:] == b[:-1])]
    return found


def _columns(found: Sequence[Sequence[Numbers] | None]) -> list[Numbers] | None:
    """What values are made of, of all turns together; None where these are a block's own, or not alike."""
    known = [x for x in found if x is not None]
    if len(known) < len(found) or len({len(x) for x in known}) > 1:
        return None
    return [np.concatenate(x) for x in zip(*known, strict=True)]


def conditions(
    flow: Flow, controllers: Sequence[Collection[int]], k: int
) -> Iterator[tuple[int, bool | None]]:
    """The instructions whose guards decide whether ``k`` is executed, and whether they have to be executed
    for that, themselves; None: either way leads there."""
    if flow.body[k].guard is not None:
        yield k, True
    here = flow.block_of[k]
    found, work = set[int](), [here]
    while work:
        new = set(controllers[work.pop()]) - found
        found |= new
        work += new
    for b in found:
        last = flow.blocks[b].hi - 1
        ways = [s for s in flow.blocks[b].succ if _leads(flow, s, here, b)]
        yield last, ways[0] != b + 1 if len(ways) == 1 else None


def _leads(flow: Flow, start: int, to: int, without: int) -> bool:
    """Whether a path leads from one block to another that does not come by a third."""
    seen, work = {without}, [start]
    while work:
        b = work.pop()
        if b == to:
            return True
        if b in seen or b >= len(flow.blocks):
            continue
        seen.add(b)
        work += flow.blocks[b].succ
    return False


def _common(i: Instr) -> bool:
    """Whether an instruction makes the same of the same operands, in whatever block."""
    found = effects(i)
    if found <= _MADE:
        return i.op != "activemask"
    spaces = {m.partition("::")[0] for m in i.mods}
    return found == {"memory read"} and not spaces.isdisjoint(_COMMON)


class _Values(RegisterValues):
    """The values of registers in some draws: a row for each. What is the same in all is one row, and what is
    the same in all threads one column."""

    def __init__(
        self, flow: Flow, threads: int, specials: Mapping[str, Numbers], draws: int, loaded: Loaded
    ) -> None:
        super().__init__(flow, threads, {name: np.atleast_2d(x) for name, x in specials.items()})
        self.draws, self.loaded = draws, loaded
        self.heads, self.head = frozenset[int](), -1
        self.before: _Values | None = None
        self.of_others = dict[bytes, _Values]()

    def turned(self, heads: frozenset[int], head: int = -1, before: _Values | None = None) -> _Values:
        """The same in the first turn of loops with some heads; of one of them behind the turn ``before``."""
        found = _Values(self.flow, self.threads, self._specials, self.draws, self.loaded)
        found.heads, found.head, found.before = heads, head, before
        found.of_others = self.of_others
        return found

    def _version(self, v: int, known: dict[int, Numbers | None]) -> Numbers | None:
        versions = self.flow.versions
        if v in known or versions.writer[v] >= 0 or versions.block[v] not in self.heads:
            return super()._version(v, known)
        known[v] = None
        h = versions.block[v]
        back = {x for b, x in versions.merged(v) if b >= 0 and self.flow.dominates(h, b)}
        first = {x for b, x in versions.merged(v) if b < 0 or not self.flow.dominates(h, b)}
        (x, *more) = back if h == self.head else first
        values = self.before if h == self.head else self
        known[v] = values.of_version(x) if values is not None and not more else None
        return known[v]

    def made(self, i: Instr, k: int) -> Numbers | None:
        """What an instruction makes."""
        return self._made(i, k, self._known)

    def all(self, number: int) -> Numbers:
        """One number in every draw and thread."""
        return np.full((1, 1), number & (1 << 64) - 1, dtype=np.uint64)

    def by_draw(self, found: Numbers | None) -> list[Numbers] | None:
        """A number for each thread, by draw."""
        return None if found is None else list(np.broadcast_to(found, (self.draws, self.threads)))

    def numbers(self, op: Operand, k: int) -> list[Numbers] | None:
        """The same of what an instruction reads; None where it has no number."""
        return self.by_draw(self.read(op, k))

    def special(self, name: str) -> Numbers | None:
        """What a special register holds, by thread."""
        found = self._specials.get(name)
        return None if found is None else found[0]

    @cached_property
    def of_places(self) -> _Values:
        """The values that place accesses."""
        return self if self.loaded.is_input is None else _OfInputs(self, self._specials, self.loaded.is_input)

    def address(self, place: Mem, k: int) -> list[Numbers] | None:
        """The address of an access, by draw."""
        values = self.of_places
        base = self._sym(place.base) if isinstance(place.base, Sym) else values.read(place.base, k)
        return None if base is None else self.by_draw(base + np.uint64(place.offset & (1 << 64) - 1))

    def word(self, op: Operand, k: int) -> Numbers | None:
        """The bits that an operand of a store holds."""
        if isinstance(op, FloatImm):
            return self.all(op.bits)
        return self.read(op, k)

    def _made(self, i: Instr, k: int, known: dict[int, Numbers | None]) -> Numbers | None:
        if k in self.loaded.held:
            return self.all(self.loaded.held[k])
        if i.op == "shfl":
            return self._handed(i, k, known)
        if i.op == "ld" and "param" in i.mods and i.guard is None:
            return self._parameter(i)
        if i.op == "mov" and i.guard is None and isinstance(i.operands[1], Sym):
            return self._sym(i.operands[1])
        if i.guard is None and i.op in ("mov", "cvt") and kind(i.mods[0 if i.op == "mov" else -2]) == "f":
            return self._float(i, k)
        return super()._made(i, k, known)

    def _handed(self, i: Instr, k: int, known: dict[int, Numbers | None]) -> Numbers | None:
        """What all lanes of a warp take from one of them, each from its own choice."""
        if i.guard is not None or i.name != "shfl.sync.idx.b32" or not isinstance(i.operands[0], Reg):
            return None
        _, value, lane, bounds, mask = i.operands
        full = isinstance(mask, Imm) and mask.value & _ALL_LANES == _ALL_LANES
        chosen = self._operand(lane, k, known) if full and bounds == Imm(_LAST_LANE) else None
        if chosen is None or len(chosen) > 1:
            return None
        others = self._of_lanes(np.broadcast_to(chosen & np.uint64(_LAST_LANE), (1, self.threads)))
        return None if others is None else others.read(value, k)

    def _of_lanes(self, lanes: Numbers) -> _Values | None:
        """What other lanes of each thread's warp hold: of what no loop and no election makes. None where a
        block has no such lane."""
        key = lanes.tobytes()
        if key not in self.of_others:
            specials = of_lanes(self._specials, lanes)
            if specials is None:
                return None
            loaded = replace(self.loaded, held={})
            self.of_others[key] = _Values(self.flow, self.threads, specials, self.draws, loaded)
        return self.of_others[key]

    def _float(self, i: Instr, k: int) -> Numbers | None:
        """The bits of a float that is moved, or that an integer of 32 bits becomes."""
        if i.op == "mov":
            return self.word(i.operands[1], k)
        number = self.read(i.operands[1], k) if i.mods[0] == "rn" and len(i.mods) == 3 else None
        if number is None or i.mods[2] not in ("u32", "s32"):
            return None
        whole = as_type(number, i.mods[2])
        whole = whole.view(np.int64) if i.mods[2] == "s32" else whole
        if i.mods[1] == "f32":
            return whole.astype(np.float32).view(np.uint32).astype(np.uint64)
        return whole.astype(np.float64).view(np.uint64) if i.mods[1] == "f64" else None

    def _sym(self, place: Sym) -> Numbers:
        start = self._drawn(place.name, 0, *_POINTERS) // _ALIGNED * _ALIGNED
        return start + np.uint64(place.offset & (1 << 64) - 1)

    def _parameter(self, i: Instr) -> Numbers | None:
        into, place = i.operands[:2]
        if not isinstance(into, Reg) or not isinstance(place, Mem) or not isinstance(place.base, Sym):
            return None
        if kind(i.mods[-1]) not in ("u", "s", "b"):
            return None
        size, at = width(i.mods[-1]) // 8, place.base.offset + place.offset
        number = self.loaded.given(place.base.name, at, size)
        if number is None and size < (4 if self.loaded.sizes else 8):
            return None
        if number is not None:
            return self.all(number)
        drawn = self._drawn(place.base.name, at, *(_POINTERS if size == 8 else _WORDS))
        return drawn // _ALIGNED * _ALIGNED if size == 8 else drawn

    def _drawn(self, name: str, at: int, low: int, high: int) -> Numbers:
        found = [_drawn(name, at, low, high, seed) for seed in range(self.draws)]
        return np.array(found, dtype=np.uint64)[:, None]


@lru_cache(maxsize=1 << 16)
def _drawn(name: str, at: int, low: int, high: int, seed: int) -> int:
    """The number of a place of a parameter in a draw."""
    return int(np.random.default_rng((crc32(f"{name}+{at}".encode()), seed)).integers(low, high))


class _OfInputs(_Values):
    """The values of registers where a load of an input brings a number that its address says."""

    def __init__(
        self, plain: _Values, specials: Mapping[str, Numbers], is_input: Callable[[int], bool]
    ) -> None:
        super().__init__(plain.flow, plain.threads, specials, plain.draws, plain.loaded)
        self.plain, self.is_input = plain, is_input
        self.heads, self.head = plain.heads, plain.head
        self.before = None if plain.before is None else plain.before.of_places

    def _made(self, i: Instr, k: int, known: dict[int, Numbers | None]) -> Numbers | None:
        found = self.plain.made(i, k)
        if found is not None or i.guard is not None:
            return found
        if i.op == "ld":
            return self._loaded(i, k, known) if self.is_input(k) else None
        if i.op not in _KEEPS_APART:
            return None
        loses = {"hi", "sat"} & {*i.mods} or (i.op == "and" and width(i.mods[-1]) != 32)
        return None if loses else super()._made(i, k, known)

    def _loaded(self, i: Instr, k: int, known: dict[int, Numbers | None]) -> Numbers | None:
        into, place, type_ = i.operands[0], i.operands[1], i.mods[-1]
        if not isinstance(into, Reg) or not isinstance(place, Mem) or kind(type_) not in ("u", "s", "b"):
            return None
        bits, held = width(type_), width(self.flow.function.registers.get(into.name, type_))
        base = self._sym(place.base) if isinstance(place.base, Sym) else self._operand(place.base, k, known)
        if base is None or (kind(type_) == "s" and held != bits):
            return None
        number = _mixed(base + np.uint64(place.offset & (1 << 64) - 1), self.draws)
        if bits < 64:
            return cut(number, bits)
        low, high = _POINTERS
        return (number % np.uint64(high - low) + np.uint64(low)) & np.uint64((1 << 64) - 16)


def _mixed(at: Numbers, draws: int) -> Numbers:
    """Numbers of addresses that look drawn, a row for each draw: SplitMix64."""
    step = np.uint64(0x9E3779B97F4A7C15)
    x = at + np.arange(1, draws + 1, dtype=np.uint64)[:, None] * step
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    found: Numbers = x ^ x >> np.uint64(31)
    return found


def _some(extents: Sequence[int]) -> list[int]:
    """Extents of the part of a grid that is looked at: all of the shorter axes, if they are not too long."""
    found, left = [1, 1, 1], _BLOCKS
    for n, axis in enumerate(sorted(range(3), key=lambda axis: extents[axis])):
        share = max(2, round(left ** (1 / (3 - n))))
        found[axis] = max(1, min(extents[axis], share))
        left = max(1, left // found[axis])
    return found


def _threads(count: int) -> list[int]:
    """Some threads of a block: the first, those whose numbers are one bit, and the last."""
    return sorted({0, count - 1, *(1 << n for n in range(10) if 1 << n < count)})


def _of_blocks(n: Numbers, part: Sequence[int], grid: Sequence[int], cluster: Dims) -> dict[str, Numbers]:
    """The special registers of blocks with some numbers."""
    found, rest, rank, blocks = dict[str, Numbers](), n, np.zeros_like(n), 1
    for axis, some, extent, size in zip(_AXES, part, grid, cluster, strict=True):
        at, rest = rest % np.uint64(some), rest // np.uint64(some)
        found[f"%ctaid.{axis}"] = at
        found[f"%nctaid.{axis}"] = np.full_like(n, extent)
        found[f"%clusterid.{axis}"] = at // np.uint64(size)
        found[f"%nclusterid.{axis}"] = np.full_like(n, max(1, extent // size))
        found[f"%cluster_ctaid.{axis}"] = at % np.uint64(size)
        found[f"%cluster_nctaid.{axis}"] = np.full_like(n, size)
        rank = rank + at % np.uint64(size) * np.uint64(blocks)
        blocks *= size
    found["%cluster_ctarank"] = rank
    found["%cluster_nctarank"] = np.full_like(n, blocks)
    return found


def _classes(columns: Sequence[Numbers]) -> NDArray[np.int64]:
    """By row, the number of its class: rows with the same numbers in all columns are one."""
    order, new = np.lexsort(columns), np.zeros(len(columns[0]), dtype=bool)
    for x in columns:
        held = x[order]
        new[1:] |= held[1:] != held[:-1]
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.cumsum(new)
    return found


def _of_several(classes: NDArray[Any], what: NDArray[Any]) -> NDArray[Any]:
    """The classes whose rows differ in something."""
    order = np.lexsort((what, classes))
    a, b = classes[order], what[order]
    found: NDArray[Any] = a[1:][(a[1:] == a[:-1]) & (b[1:] != b[:-1])]
    return found


def _divided(*, rest: bool) -> Callable[[Instr, list[Any]], Numbers | None]:
    def compute(i: Instr, args: list[Any]) -> Numbers | None:
        type_ = i.mods[-1]
        if kind(type_) not in ("u", "s"):
            return None
        a, b = (as_type(x, type_) for x in args)
        minus = [
            np.zeros(x.shape, dtype=bool) if kind(type_) == "u" else x.view(np.int64) < 0 for x in (a, b)
        ]
        a, b = (np.where(m, np.uint64(0) - x, x) for m, x in zip(minus, (a, b), strict=True))
        by = np.where(b == 0, np.uint64(1), b)
        found = a % by if rest else a // by
        negative = minus[0] if rest else minus[0] ^ minus[1]
        found = np.where(negative, np.uint64(0) - found, found)
        return cut(np.where(b == 0, np.uint64((1 << 64) - 1), found), width(type_))

    return compute


def _extreme(*, least: bool) -> Callable[[Instr, list[Any]], Numbers | None]:
    def compute(i: Instr, args: list[Any]) -> Numbers | None:
        type_ = i.mods[-1]
        if len(i.mods) != 1 or kind(type_) not in ("u", "s"):
            return None
        a, b = (as_type(x, type_) for x in args)
        if kind(type_) == "s":
            a, b = a.view(np.int64), b.view(np.int64)
        found = np.minimum(a, b) if least else np.maximum(a, b)
        return cut(found.astype(np.uint64), width(type_))

    return compute


def _upper(i: Instr, args: list[Any]) -> Numbers | None:
    """A product, or a sum with one: with its upper half, where that is asked for."""
    if "hi" not in i.mods:
        return OPERATIONS[i.op](i, args)
    type_ = i.mods[-1]
    if width(type_) != 32 or "sat" in i.mods or "cc" in i.mods:
        return None
    a, b = (as_type(x, type_) for x in args[:2])
    product = (a * b).view(np.int64) >> np.int64(32) if kind(type_) == "s" else a * b >> np.uint64(32)
    return cut(sum(args[2:], product.astype(np.uint64)), 32)


def _logic(i: Instr, args: list[Any]) -> Numbers | None:
    """``lop3.b32``: the bit that a table has for three bits."""
    if len(args) != 4 or len(i.operands) != 5 or not isinstance(i.operands[4], Imm):
        return None
    table, found = i.operands[4].value, np.zeros((1, 1), dtype=np.uint64)
    for n in range(8):
        if table >> n & 1:
            a, b, c = (x if n >> 2 - at & 1 else ~x for at, x in enumerate(args[:3]))
            found = found | a & b & c
    return cut(found, 32)


def _field(i: Instr, args: list[Any]) -> Numbers | None:
    """``bfe.u32``: bits of a number."""
    if i.mods != ("u32",):
        return None
    at, count = (np.minimum(x & np.uint64(255), np.uint64(32)) for x in args[1:])
    found: Numbers = (cut(args[0], 32) >> at) & ((np.uint64(1) << count) - np.uint64(1))
    return found


def _inserted(i: Instr, args: list[Any]) -> Numbers | None:
    """``bfi.b32``: bits of a number in the place of others."""
    if i.mods != ("b32",) or len(args) != 4:
        return None
    at, count = (np.minimum(x & np.uint64(255), np.uint64(32)) for x in args[2:])
    mask = cut(((np.uint64(1) << count) - np.uint64(1)) << at, 32)
    found: Numbers = (args[0] << at & mask) | (cut(args[1], 32) & ~mask)
    return found


def _turned(i: Instr, args: list[Any]) -> Numbers | None:
    """``neg``, ``abs``."""
    a = signed(args[0], width(i.mods[-1]))
    return cut((-a if i.op == "neg" else np.abs(a)).astype(np.uint64), width(i.mods[-1]))


_Values.operations = {
    **OPERATIONS,
    "div": _divided(rest=False),
    "rem": _divided(rest=True),
    "min": _extreme(least=True),
    "max": _extreme(least=False),
    "mul": _upper,
    "mad": _upper,
    "lop3": _logic,
    "bfe": _field,
    "bfi": _inserted,
    "neg": _turned,
    "abs": _turned,
}

__all__ = ["NOTHING", "SAMPLES", "BlockPlaces", "Given", "Loaded", "Shared", "StoreRows", "conditions"]
