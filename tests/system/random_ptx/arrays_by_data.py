"""Several arrays in shared memory with places that data says: right if accesses stay inside their array.

A program is a row of phases with barriers between them. In each phase an array is used in one way: each
thread has its own elements, or all read, or all add by atomics. Places are loaded words, of which the text
gives no bounds and the executions have some. Data also says how often loops turn. So a proof needs, mostly,
the assumption that an access stays inside the array that it names. A mistake leaves out a barrier, takes
another array, or uses one in another way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tests.system.random_ptx.writer import Program, Writer

_WIDTHS = (1, 2, 4, 4, 4)
_READ, _OWN, _ADD = "read", "own", "add"


@dataclass
class Array:
    """A shared array: its name, the bytes of an element, how many there are, and its last use."""

    name: str
    width: int
    length: int
    use: str = ""

    @property
    def kind(self) -> str:
        return f"u{8 * self.width}"


@dataclass
class Phases:
    """Draws phases. ``words``: registers with loaded words."""

    w: Writer
    threads: int
    arrays: list[Array] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    phase: int = 0

    def begin(self) -> None:
        w, draw = self.w, self.w.draw
        for n in range(draw.choice([2, 2, 3, 4])):
            a = Array(f"a{n}", draw.choice(_WIDTHS), self.threads * draw.choice([1, 1, 2]))
            self.arrays.append(a)
            w.room(a.name, a.width * a.length, draw.choice([4, 16]))
        for n in range(draw.choice([1, 2, 3])):
            self.words.append(self.loaded(n))

    def loaded(self, n: int) -> str:
        """A word of the input for each thread."""
        w = self.w
        d, r = w.fresh("d"), w.fresh("r")
        w.emit(f"mul.wide.u32 {d}, %thr, 4;", f"add.s64 {d}, %in, {d};")
        w.emit(f"ld.global.u32 {r}, [{d}+{4 * n * self.threads}];")
        return r

    def place(self, a: Array, index: str, more: int = 0) -> str:
        """A register with the address of an element; the ways to compute it differ."""
        w, r, base = self.w, self.w.fresh("r"), self.w.fresh("r")
        w.emit(f"mov.u32 {base}, {a.name};")
        match w.draw.randrange(3):
            case 0:
                w.emit(f"mad.lo.u32 {r}, {index}, {a.width}, {base};")
            case 1:
                w.emit(f"shl.b32 {r}, {index}, {a.width.bit_length() - 1};", f"add.u32 {r}, {base}, {r};")
            case _:
                w.emit(f"mul.lo.u32 {r}, {index}, {a.width};", f"add.s32 {r}, {r}, {base};")
        if more:
            w.emit(f"add.u32 {r}, {r}, {more * a.width};")
        return r

    def other(self, a: Array) -> Array:
        """Another array of the same width, or the next one."""
        rest = [x for x in self.arrays if x is not a]
        return next((x for x in rest if x.width == a.width), rest[0])

    def taken(self, a: Array) -> Array:
        return self.other(a) if self.w.wrong(f"another array in phase {self.phase}, {a.name}") else a

    # -- uses ---------------------------------------------------------------------------------------------

    def own(self, a: Array) -> None:
        """Each thread stores its own elements."""
        w, draw, value = self.w, self.w.draw, self.w.fresh("r")
        w.emit(f"add.u32 {value}, %thr, {draw.randrange(9)};")
        index = "%thr"
        if w.wrong(f"stores where data says in phase {self.phase}, {a.name}"):
            index = draw.choice(self.words)
        b = self.taken(a)
        for more in range(0, a.length, self.threads):
            at = self.place(b, index, more)
            w.emit(f"st.shared.{b.kind} [{at}], {self.narrow(b, value)};")

    def narrow(self, a: Array, value: str) -> str:
        if a.width == 4 or self.w.chance(0.5):
            return value
        h = self.w.fresh("h")
        self.w.emit(f"cvt.u16.u32 {h}, {value};")
        return h

    def read(self, a: Array) -> None:
        """A read where a loaded word says, or a row of them whose length data says."""
        w, draw = self.w, self.w.draw
        b, value, index = self.taken(a), w.fresh("r"), draw.choice(self.words)
        if draw.random() < 0.4:
            self.loop(b, index)
            return
        at = self.place(b, index)
        w.emit(f"ld.shared.{b.kind} {value}, [{at}];")
        if w.wrong(f"stores beside it in phase {self.phase}, {a.name}"):
            w.emit(f"st.shared.{b.kind} [{at}], {self.narrow(b, value)};")

    def loop(self, a: Array, index: str) -> None:
        """Reads from where a word says on, as often as another word says."""
        w, draw = self.w, self.w.draw
        i, end, p, value = w.fresh("r"), w.fresh("r"), w.fresh("p"), w.fresh("r")
        top, out = w.label("T"), w.label("E")
        w.emit(f"and.b32 {end}, {draw.choice(self.words)}, 3;", f"mov.u32 {i}, 0;")
        at = self.place(a, index)
        w.emit(f"{top}:", f"setp.ge.u32 {p}, {i}, {end};", f"@{p} bra {out};")
        w.emit(f"ld.shared.{a.kind} {value}, [{at}];", f"add.u32 {at}, {at}, {a.width};")
        w.emit(f"add.u32 {i}, {i}, 1;", f"bra {top};", f"{out}:")

    def add(self, a: Array) -> None:
        """An atomic where data says."""
        w, one = self.w, self.w.constant(1)
        b = self.taken(a)
        at = self.place(b, w.draw.choice(self.words))
        if b.width != 4:
            b = Array(b.name, 4, b.length)
        if w.wrong(f"adds without an atomic in phase {self.phase}, {a.name}"):
            v = w.fresh("r")
            w.emit(f"ld.shared.u32 {v}, [{at}];", f"add.u32 {v}, {v}, 1;", f"st.shared.u32 [{at}], {v};")
        elif w.chance(0.5):
            w.emit(f"red.shared.add.u32 [{at}], {one};")
        else:
            w.emit(f"atom.shared.max.u32 {w.fresh('r')}, [{at}], {one};")

    def meet(self) -> None:
        if not self.w.wrong(f"no barrier before phase {self.phase}"):
            self.w.emit("bar.sync 0;")

    def one(self) -> None:
        """One phase: some arrays are used, at least one where data says beside one that is written."""
        draw = self.w.draw
        self.phase += 1
        if self.phase > 1:
            self.meet()
        if self.phase == 1:
            uses = [_OWN] * len(self.arrays)
        else:
            uses = [draw.choice([_READ, _READ, _OWN, _ADD if a.width == 4 else _READ]) for a in self.arrays]
        order = list(zip(self.arrays, uses, strict=True))
        draw.shuffle(order)
        for a, use in order:
            if self.phase == 1 or draw.random() < 0.8:
                a.use = use
                {_OWN: self.own, _READ: self.read, _ADD: self.add}[use](a)


def _ended(m: Phases, family: str) -> Program:
    least = min(a.length for a in m.arrays) - 4
    p = m.w.finished(family, m.threads)
    p.by_data = True
    rng = np.random.default_rng(m.w.seed)
    p.contents = tuple(tuple(int(x) for x in rng.integers(0, n, 512)) for n in (least, least, 8, 1))
    return p


def phases(w: Writer) -> Program:
    """Phases one after the other."""
    m = Phases(w, w.draw.choice([32, 64, 64, 96, 128]))
    m.begin()
    for _ in range(w.draw.choice([2, 3, 3, 4])):
        m.one()
    return _ended(m, "phases")


def turns(w: Writer) -> Program:
    """Phases in a loop that turns as often as a word says which all threads of the block read."""
    m = Phases(w, w.draw.choice([32, 64, 64, 128]))
    m.begin()
    m.one()
    i, end, p = w.fresh("r"), w.fresh("r"), w.fresh("p")
    top, out = w.label("T"), w.label("E")
    w.emit(f"ld.global.u32 {end}, [%in+{4 * w.draw.randrange(64)}];", f"and.b32 {end}, {end}, 3;")
    w.emit(f"mov.u32 {i}, 0;")
    if w.wrong("turns by each thread's word"):
        w.emit(f"and.b32 {end}, {m.words[0]}, 3;")
    w.emit(f"{top}:", f"setp.ge.u32 {p}, {i}, {end};", f"@{p} bra {out};")
    for _ in range(w.draw.choice([1, 2, 2])):
        m.one()
    m.phase += 1
    m.meet()
    w.emit(f"add.u32 {i}, {i}, 1;", f"bra {top};", f"{out}:")
    if not w.wrong("no barrier behind the loop"):
        w.emit("bar.sync 0;")
    m.one()
    return _ended(m, "turns")


ARRAY_FAMILIES: dict[str, Callable[[Writer], Program]] = {"phases": phases, "turns": turns}
