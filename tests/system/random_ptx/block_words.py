"""Words of the input that a whole block reads as one number: rows of a sparse matrix, lengths, entries of a
table, tickets. How often all turn, around barriers or through a ring, is such a word.

A program is right whatever the words are, as long as rows do not end before they begin. Mistakes: a bound of
each thread or warp, one that is written, one that roles read apart, too few barriers, turns more or less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.system.random_ptx.writer import Program, Writer

_WORDS = 512


def _offsets(seed: int, most: int, step: int = 1) -> tuple[int, ...]:
    """Ascending offsets, whose differences are 0 to ``most`` steps."""
    steps = np.random.default_rng(seed).integers(0, most + 1, _WORDS) * step
    return tuple(int(x) for x in np.cumsum(steps) - steps[0])


def _lengths(seed: int, most: int) -> tuple[int, ...]:
    return tuple(int(x) for x in np.random.default_rng(seed).integers(0, most + 1, _WORDS))


@dataclass
class Block:
    """One block of threads: where each stores in ``arr``, and registers that all families use."""

    w: Writer
    threads: int
    own: str = ""
    block: str = ""

    def __post_init__(self) -> None:
        w = self.w
        w.grids = w.draw.choice([(1, 2, 3), (2,), (1, 3)])
        w.room("arr", 8 * self.threads, 1024)
        self.block, self.own = w.fresh("r"), w.fresh("r")
        w.emit(f"mov.u32 {self.block}, %ctaid.x;", f"mov.u32 {self.own}, arr;")
        w.emit(f"mad.lo.u32 {self.own}, %thr, 4, {self.own};")

    def loaded(self, index: str, offset: int = 0) -> str:
        """The word of the input at an index."""
        w = self.w
        d, r = w.fresh("d"), w.fresh("r")
        w.emit(f"mul.wide.u32 {d}, {index}, 4;", f"add.s64 {d}, %in, {d};")
        w.emit(f"ld.global.{w.draw.choice(['u32', 's32', 'b32'])} {r}, [{d}+{4 * offset}];")
        return r

    def row(self) -> str:
        """The number of a row: of the block, unless each thread or warp takes its own."""
        w = self.w
        if w.wrong("a row of each thread"):
            r = w.fresh("r")
            w.emit(f"add.u32 {r}, {self.block}, %thr;")
            return r
        if self.threads > 32 and w.wrong("a row of each warp"):
            r = w.fresh("r")
            w.emit(f"add.u32 {r}, {self.block}, %warp;")
            return r
        if w.chance(0.3):  # a grid of several rows for a block, of which it takes one
            r = w.fresh("r")
            w.emit(f"mad.lo.u32 {r}, {self.block}, {w.draw.choice([2, 3, 4])}, {w.draw.randrange(4)};")
            return r
        return self.block

    def exchange(self, turn: str | None) -> None:
        """Each stores its word and reads that of another, in one array or in two by turns."""
        w = self.w
        at, there, value = w.fresh("r"), w.fresh("r"), w.fresh("r")
        by = 4 * w.draw.randrange(1, self.threads & -self.threads)
        twice = turn is not None and w.chance(0.4)
        w.emit(f"mov.u32 {at}, {self.own};")
        if twice:
            half = w.fresh("r")
            kept = (
                "and.b32 {0}, {1}, 1;" if not w.wrong("one array for all turns") else "and.b32 {0}, {1}, 0;"
            )
            w.emit(kept.format(half, turn), f"mad.lo.u32 {at}, {half}, {4 * self.threads}, {at};")
        w.emit(f"st.shared.u32 [{at}], %thr;")
        if not w.wrong("no barrier behind the store"):
            w.emit("bar.sync 0;")
        w.emit(f"xor.b32 {there}, %thr, {by // 4};", f"sub.u32 {there}, {there}, %thr;")
        w.emit(f"mad.lo.s32 {there}, {there}, 4, {at};", f"ld.shared.u32 {value}, [{there}];")
        if not twice and not w.wrong("no barrier behind the load"):
            w.emit("bar.sync 0;")

    def turns(self, first: str, end: str, body: Callable[[str], None], step: int = 1) -> None:
        """A loop from one number to another, tested at its head or, behind a guard, at its foot."""
        w = self.w
        i, p, top, out = w.fresh("r"), w.fresh("p"), w.label("T"), w.label("E")
        w.emit(f"mov.u32 {i}, {first};")
        if w.chance(0.5):
            w.emit(f"{top}:", f"setp.ge.s32 {p}, {i}, {end};", f"@{p} bra {out};")
            body(i)
            w.emit(f"add.s32 {i}, {i}, {step};", f"bra {top};", f"{out}:")
        else:
            w.emit(f"setp.ge.s32 {p}, {i}, {end};", f"@{p} bra {out};", f"{top}:")
            body(i)
            w.emit(
                f"add.s32 {i}, {i}, {step};", f"setp.lt.s32 {p}, {i}, {end};", f"@{p} bra {top};", f"{out}:"
            )

    def ended(self, family: str, *contents: tuple[int, ...]) -> Program:
        if self.w.chance(0.4):
            self.w.emit("bar.sync 0;", f"st.shared.u32 [{self.own}], %thr;")
        p = self.w.finished(family, self.threads)
        p.by_data, p.contents = True, contents
        return p


def _block(w: Writer) -> Block:
    return Block(w, w.draw.choice([32, 64, 64, 96, 128]))


def lengths(w: Writer) -> Program:
    """A length for each block, maybe by way of a table, maybe handed on by one thread."""
    b = _block(w)
    row = b.row()
    if w.chance(0.4):
        row = b.loaded(row)  # the number of an expert or a page
    if w.chance(0.4):
        end = _handed(b, row)
    else:
        end = b.loaded(row, w.draw.choice([0, 64]))
    if w.wrong("a thread writes the length"):
        d, p = w.fresh("d"), w.fresh("p")
        w.emit(f"mul.wide.u32 {d}, %thr, 4;", f"add.s64 {d}, %in, {d};", f"setp.lt.u32 {p}, %thr, 16;")
        w.emit(f"@{p} st.global.u32 [{d}], %thr;")
        end = b.loaded(row)
    if w.wrong("the length of each half"):
        half = w.fresh("r")
        w.emit(f"shr.u32 {half}, %thr, 4;", f"and.b32 {half}, {half}, 1;", f"add.u32 {end}, {end}, {half};")
    b.turns("0", end, b.exchange)
    return b.ended("lengths", _lengths(w.seed, 3), _lengths(w.seed + 1, 2), (2,) * 8)


def _handed(b: Block, row: str) -> str:
    """One thread reads the word; the others have it from shared memory."""
    w = b.w
    w.room("handed", 16)
    p, over, r = w.fresh("p"), w.label("H"), w.fresh("r")
    w.emit(f"setp.ne.u32 {p}, %thr, {w.draw.randrange(b.threads)};", f"@{p} bra {over};")
    w.emit(f"st.shared.u32 [handed], {b.loaded(row)};", f"{over}:")
    if not w.wrong("no barrier before all have it"):
        w.emit("bar.sync 0;")
    w.emit(f"ld.shared.u32 {r}, [handed];")
    return r


def sparse(w: Writer) -> Program:
    """Rows of a sparse matrix: from one offset to the next, by one or by a tile."""
    b = _block(w)
    row = b.row()
    first, end = b.loaded(row), b.loaded(row, 1)
    step = w.draw.choice([1, 1, 2])
    if w.wrong("each thread begins at its own"):
        w.emit(f"add.u32 {first}, {first}, %thr;")
    b.turns(first, end, b.exchange if step == 1 else lambda _: b.exchange(None), step)
    if w.chance(0.4):
        w.emit("bar.sync 0;")
        b.turns(first, end, lambda _: b.exchange(None))
    return b.ended("sparse", _offsets(w.seed, 3), _offsets(w.seed + 1, 2, 2), _offsets(w.seed + 2, 0))


def two_lengths(w: Writer) -> Program:
    """Two loops, whose turns go on counting: which array a turn of the second uses hangs on both words."""
    b = _block(w)
    one, two, sum_ = b.loaded(b.row()), b.loaded(b.block, 64), w.fresh("r")
    b.turns("0", one, b.exchange)
    if not w.wrong("no barrier between the loops"):
        w.emit("bar.sync 0;")
    w.emit(f"add.s32 {sum_}, {one}, {two};")
    b.turns(one, sum_, lambda _: b.exchange(None))
    return b.ended("two_lengths", _lengths(w.seed, 2), _lengths(w.seed + 1, 3), (1,) * 8)


def ring(w: Writer) -> Program:
    """A warp fills slots and another empties them, as often as a word of the block says."""
    b = Block(w, 64)
    slots = w.draw.choice([1, 2, 2, 3])
    w.room("slots", 128 * slots, 128)
    w.room("bars", 16 * slots, 8)
    p, over, role, done = w.fresh("p"), w.label("I"), w.fresh("p"), w.label("D")
    w.emit(f"setp.ne.u32 {p}, %thr, 0;", f"@{p} bra {over};")
    for s in range(2 * slots):
        count = w.off("a count of the barriers", 32, 31, 33) if s in (0, slots) else 32
        w.emit(f"mbarrier.init.shared::cta.b64 [bars+{8 * s}], {count};")
    w.emit(f"{over}:", "bar.sync 0;")
    row = b.block
    fills = w.label("F")
    shared = b.loaded(row) if w.chance(0.5) else None
    w.emit(f"setp.eq.u32 {role}, %warp, 0;", f"@{role} bra {fills};")
    end = shared or b.loaded(row, w.off("the consumer reads another word", 0, 1))
    if w.wrong("the consumer turns once more"):
        end = _more(w, end)
    b.turns("0", end, lambda i: _turn(w, i, slots, False))
    w.emit(f"bra {done};", f"{fills}:")
    end = shared or b.loaded(row)
    b.turns("0", end, lambda i: _turn(w, i, slots, True))
    w.emit(f"{done}:")
    return b.ended("ring_by_word", _lengths(w.seed, 4), _lengths(w.seed + 1, 7), (0,) * 8)


def _more(w: Writer, number: str) -> str:
    r = w.fresh("r")
    w.emit(f"add.u32 {r}, {number}, 1;")
    return r


def _turn(w: Writer, i: str, slots: int, fills: bool) -> None:
    """One side's turn: waits for the slot, stores or reads, and arrives for the other side."""
    slot, parity, full, at, p, top = (*(w.fresh("r") for _ in range(4)), w.fresh("p"), w.label("W"))
    value = w.fresh("r")
    w.emit(
        f"rem.u32 {slot}, {i}, {slots};",
        f"div.u32 {parity}, {i}, {slots};",
        f"and.b32 {parity}, {parity}, 1;",
    )
    w.emit(f"mov.u32 {full}, bars;", f"mad.lo.u32 {full}, {slot}, 8, {full};", f"mov.u32 {at}, slots;")
    w.emit(f"mad.lo.u32 {at}, {slot}, 128, {at};", f"mad.lo.u32 {at}, %lane, 4, {at};")
    mine, other = (8 * slots, 0) if fills else (0, 8 * slots)
    if fills:
        w.emit(f"xor.b32 {parity}, {parity}, 1;")
    side = "full" if fills else "empty"
    if w.wrong(f"the other parity before {side}"):
        w.emit(f"xor.b32 {parity}, {parity}, 1;")
    if not w.wrong(f"no wait before {side}"):
        w.emit(f"{top}:", f"mbarrier.try_wait.parity.shared::cta.b64 {p}, [{full}+{mine}], {parity};")
        w.emit(f"@!{p} bra {top};")
    there = w.fresh("r")
    w.emit(f"xor.b32 {there}, {at}, {4 * w.draw.randrange(32)};")
    w.emit(f"st.shared.u32 [{there}], {i};" if fills else f"ld.shared.u32 {value}, [{there}];")
    if not w.wrong(f"does not say {side}"):
        w.emit(f"mbarrier.arrive.shared::cta.b64 _, [{full}+{other}];")


BLOCK_WORD_FAMILIES: dict[str, Callable[[Writer], Program]] = {
    "lengths": lengths, "sparse": sparse, "two_lengths": two_lengths, "ring_by_word": ring,
}  # fmt: skip
