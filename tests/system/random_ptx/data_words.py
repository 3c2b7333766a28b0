"""Shapes that words of data steer: what memory holds decides who meets, how often, and where accesses go.

A program is right whatever the words are. ``DataMaker`` draws guards, loops and barriers as ``structured``
does; conditions that all threads decide in one way come from data: a word that the whole block reads, a flag
of one thread behind a barrier, a reduction by a barrier. The other families are idioms with mistakes of their
own: relaxation until nothing changes, votes, bins, packed lists, the last block, bounds from memory, a word
that is read twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.system.random_ptx.structured import Maker
from tests.system.random_ptx.writer import Program, Writer


@dataclass
class DataMaker(Maker):
    """Conditions that are uniform in the block are decided by data, mostly."""

    flags: int = 0

    def _uniform(self) -> str:
        if self.fewer or self.w.chance(0.2):
            return super()._uniform()
        return self.w.draw.choice([self._by_flag, self._by_flag, self._by_reduction, self._by_block_word])()

    def _tested(self, word: str) -> str:
        """A predicate of a word, whose values are a few."""
        p, r, draw = self.w.fresh("p"), self.w.fresh("r"), self.w.draw
        how = draw.choice(["ne", "eq", "lt", "gt"])
        self.w.emit(f"and.b32 {r}, {word}, {draw.choice([1, 3])};", f"setp.{how}.u32 {p}, {r}, 1;")
        return p

    def _by_flag(self) -> str:
        """One thread stores what it has read; all read it behind a barrier."""
        w, draw = self.w, self.w.draw
        leader, over, seen, one = draw.randrange(self.threads), w.label("F"), w.fresh("r"), w.fresh("p")
        word = f"flags+{4 * (self.flags % 16)}"
        self.flags += 1
        if self.wrong("each thread asks its own word"):
            return self._tested(self.data)
        leads = f"setp.ne.u32 {one}, %thr, {leader};"
        if self.wrong("each warp has a leader"):
            leads = f"setp.ne.u32 {one}, %lane, {leader % 32};"
        w.emit(leads, f"@{one} bra {over};", f"st.shared.u32 [{word}], {self.data};", f"{over}:")
        if not self.wrong("no barrier before the flag is read"):
            w.emit("bar.sync 0;")
        w.emit(f"ld.shared.u32 {seen}, [{word}];")
        if (self.breaks or self.flags > 16 or draw.random() < 0.5) and not self.wrong("no barrier behind it"):
            w.emit("bar.sync 0;")
        self.used = dict(self.left)
        return self._tested(seen)

    def _by_reduction(self) -> str:
        w, draw = self.w, self.w.draw
        p, q = self._tested(self.data), w.fresh("p")
        if self.wrong("a vote of a warp"):
            w.emit(f"vote.sync.any.pred {q}, {p}, -1;")
        elif draw.random() < 0.3:
            r = w.fresh("r")
            w.emit(f"bar.red.popc.u32 {r}, 0, {p};", f"setp.gt.u32 {q}, {r}, {draw.randrange(4)};")
        else:
            w.emit(f"bar.red.{draw.choice(['or', 'and'])}.pred {q}, 0, {p};")
        self.used = dict(self.left)
        return q

    def _by_block_word(self) -> str:
        """A word of the input that all threads of the block read, which nobody writes."""
        w = self.w
        d, r, n = w.fresh("d"), w.fresh("r"), w.draw.randrange(64)
        index = self.index if self.wrong("a word of each thread") else self.block
        w.emit(f"mad.lo.u32 {r}, {index}, 4, {4 * n};", f"cvt.u64.u32 {d}, {r};", f"add.s64 {d}, %in, {d};")
        w.emit(f"ld.global.u32 {r}, [{d}];")
        return self._tested(r)

    def limit(self, uniform: bool) -> str:
        """A number of turns: of a uniform loop, a word that is handed to all."""
        if not uniform or self.fewer or self.w.chance(0.4):
            return super().limit(uniform)
        w, draw = self.w, self.w.draw
        r, one = w.fresh("r"), w.fresh("p")
        leader = draw.randrange(self.threads)
        if self.wrong("turns by each thread's word"):
            w.emit(f"and.b32 {r}, {self.data}, 3;")
            return r
        w.emit(f"setp.eq.u32 {one}, %thr, {leader};", f"and.b32 {r}, {self.data}, 3;")
        w.emit(f"@{one} st.shared.u32 [turns], {r};")
        if not self.wrong("no barrier before the turns are read"):
            w.emit("bar.sync 0;")
        w.emit(f"ld.shared.u32 {r}, [turns];")
        if not self.wrong("no barrier behind the turns"):
            w.emit("bar.sync 0;")
        self.used = dict(self.left)
        return r


def _maker(w: Writer, kind: type[Maker] = Maker) -> Maker:
    m = kind(w, w.draw.choice([32, 64, 64, 96, 128]))
    m.prologue()
    return m


def _ended(m: Maker, family: str) -> Program:
    m.w.emit(f"{m.exit}:")
    p = m.w.finished(family, m.threads)
    p.by_data = True
    return p


def steered(w: Writer) -> Program:
    """Guards, loops and barriers under conditions of data, drawn at random."""
    m = _maker(w, DataMaker)
    w.room("flags", 64)
    w.room("turns", 16)
    m.block_of(0, True, w.draw.choice([3, 5, 7]))
    return _ended(m, "steered")


def _shift(m: Maker) -> int:
    return 4 * m.w.draw.randrange(1, m.threads & -m.threads)


def relaxed(w: Writer) -> Program:
    """Each turn takes the larger of two words, until no thread changes its own."""
    m = _maker(w)
    own, there, mine, theirs = (w.fresh("r") for _ in range(4))
    top, changed, some = w.label("T"), w.fresh("p"), w.fresh("p")
    w.emit(f"and.b32 {mine}, {m.data}, 15;", f"mov.u32 {own}, {m.own};", f"st.shared.u32 [{own}], {mine};")
    if not w.wrong("no barrier before the loop"):
        w.emit("bar.sync 0;")
    w.emit(f"xor.b32 {there}, {own}, {_shift(m)};", f"{top}:", f"ld.shared.u32 {theirs}, [{there}];")
    w.emit(f"max.u32 {theirs}, {theirs}, {mine};", f"setp.ne.u32 {changed}, {theirs}, {mine};")
    form = w.draw.randrange(3)
    early = w.wrong("stores before the barrier")
    store = [f"mov.u32 {mine}, {theirs};", f"st.shared.u32 [{own}], {mine};"]
    w.emit(*(store if early else []))
    if form == 2:
        _change_by_flag(w, changed, some)
    elif w.wrong("a vote of a warp"):
        w.emit("bar.sync 0;", f"vote.sync.any.pred {some}, {changed}, -1;")
    elif form == 1:
        r = w.fresh("r")
        w.emit(f"bar.red.popc.u32 {r}, 0, {changed};", f"setp.ne.u32 {some}, {r}, 0;")
    else:
        w.emit(f"bar.red.or.pred {some}, 0, {changed};")
    w.emit(*([] if early else store))
    if not w.wrong("no barrier behind the store"):
        w.emit("bar.sync 0;")
    w.emit(f"@{changed if w.wrong('goes on for itself') else some} bra {top};")
    return _ended(m, "relaxed")


def _change_by_flag(w: Writer, changed: str, some: str) -> None:
    """A word is cleared, any thread may set it, and all read it."""
    w.room("change", 16)
    first, r, one = w.fresh("p"), w.fresh("r"), w.constant(1)
    w.emit(f"setp.eq.u32 {first}, %thr, 0;", f"mov.u32 {r}, 0;", f"@{first} st.shared.u32 [change], {r};")
    if not w.wrong("no barrier behind the clearing"):
        w.emit("bar.sync 0;")
    if w.wrong("plain stores of their own"):
        w.emit(f"@{changed} st.shared.u32 [change], %thr;")
    else:
        w.emit(f"@{changed} red.shared.or.b32 [change], {one};")
    if not w.wrong("no barrier before the change is read"):
        w.emit("bar.sync 0;")
    w.emit(f"ld.shared.u32 {r}, [change];", f"setp.ne.u32 {some}, {r}, 0;")
    if not w.wrong("no barrier before it is cleared again"):
        w.emit("bar.sync 0;")


def voted(w: Writer) -> Program:
    """What a warp agrees on decides whether its lanes exchange words."""
    m = _maker(w)
    p, q, r, over, there = w.fresh("p"), w.fresh("p"), w.fresh("r"), w.label("V"), w.fresh("r")
    w.emit(f"and.b32 {r}, {m.data}, 1;", f"setp.eq.u32 {p}, {r}, 1;", f"st.shared.u32 [{m.own}], %thr;")
    form = w.draw.randrange(5)
    if w.wrong("each lane decides for itself"):
        w.emit(f"mov.pred {q}, {p};")
    elif form == 0:
        w.emit(f"vote.sync.ballot.b32 {r}, {p}, -1;", f"setp.ne.u32 {q}, {r}, 0;")
    elif form == 1:
        w.emit(f"shfl.sync.idx.b32 {r}, {r}, {w.draw.randrange(32)}, 31, -1;", f"setp.ne.u32 {q}, {r}, 0;")
    elif form == 2:
        w.emit(f"redux.sync.or.b32 {r}, {r}, -1;", f"setp.ne.u32 {q}, {r}, 0;")
    else:
        w.emit(f"vote.sync.{w.draw.choice(['any', 'all'])}.pred {q}, {p}, -1;")
    w.emit(f"@!{q} bra {over};")
    if not w.wrong("no barrier of the warp"):
        w.emit("bar.sync 0;" if w.wrong("a barrier of the block") else "bar.warp.sync -1;")
    by = 128 if w.wrong("a word of another warp") and m.threads > 32 else 4 * w.draw.randrange(1, 32)
    w.emit(f"xor.b32 {there}, {m.own}, {by};", f"ld.shared.u32 {r}, [{there}];")
    if not w.wrong("no barrier of the warp behind the loads"):
        w.emit("bar.warp.sync -1;")
    w.emit(f"st.shared.u32 [{m.own}], {r};", f"{over}:")
    if not w.wrong("no barrier before others read"):
        w.emit("bar.sync 0;")
    w.emit(f"xor.b32 {there}, {m.own}, {_shift(m)};", f"ld.shared.u32 {r}, [{there}];")
    return _ended(m, "voted")


def bins(w: Writer) -> Program:
    """Data is the place of an atomic; all read the bins behind a barrier."""
    m = _maker(w)
    many = w.draw.choice([32, 64, 128])
    w.room("bins", 4 * many, 4 * many)
    base, r, at, one, zero = w.constant(0), w.fresh("r"), w.fresh("r"), w.constant(1), w.constant(0)
    w.emit(f"mov.u32 {base}, bins;", f"mad.lo.u32 {at}, %thr, 4, {base};")
    w.emit(*_each_of(w, many, m.threads, f"st.shared.u32 [{at}], {zero};", at))
    if not w.wrong("no barrier behind the zeros"):
        w.emit("bar.sync 0;")
    mask = w.off("a mask of a bit more", many - 1, 2 * many - 1)
    if w.wrong("no mask"):
        mask = 0xFFFF
    turns = w.draw.choice([1, 1, 2])
    for n in range(turns):
        w.emit(
            f"shr.u32 {r}, {m.data}, {5 * n};",
            f"and.b32 {r}, {r}, {mask};",
            f"mad.lo.u32 {r}, {r}, 4, {base};",
        )
        if w.wrong("adds without an atomic"):
            v = w.fresh("r")
            w.emit(f"ld.shared.u32 {v}, [{r}];", f"add.u32 {v}, {v}, 1;", f"st.shared.u32 [{r}], {v};")
        else:
            w.emit(f"red.shared.add.u32 [{r}], {one};")
    if not w.wrong("no barrier before the bins are read"):
        w.emit("bar.sync 0;")
    w.emit(f"mad.lo.u32 {at}, %thr, 4, {base};")
    w.emit(*_each_of(w, many, m.threads, f"ld.shared.u32 {r}, [{at}];", at))
    return _ended(m, "bins")


def _each_of(w: Writer, many: int, threads: int, line: str, at: str) -> list[str]:
    """An access by each thread to its own places of an array of words."""
    out: list[str] = []
    for first in range(0, many, threads):
        p = w.fresh("p")
        guarded = many - first < threads
        out += [f"setp.lt.u32 {p}, %thr, {many - first};"] if guarded else []
        out += [f"@{p} {line}" if guarded else line, f"add.u32 {at}, {at}, {4 * threads};"]
    return out


def packed(w: Writer) -> Program:
    """Threads whose word says so put it into a list, at a place that an atomic hands out."""
    m = _maker(w)
    w.room("list", 4 * m.threads, 512)
    w.room("count", 16)
    p, first, r, at, base, n = w.fresh("p"), w.fresh("p"), *(w.fresh("r") for _ in range(4))
    w.emit(f"mov.u32 {base}, list;", f"setp.eq.u32 {first}, %thr, 0;", f"mov.u32 {r}, 0;")
    w.emit(f"@{first} st.shared.u32 [count], {r};")
    if not w.wrong("no barrier behind the zero"):
        w.emit("bar.sync 0;")
    over, end = w.label("P"), w.label("Q")
    w.emit(f"and.b32 {r}, {m.data}, 1;", f"setp.eq.u32 {p}, {r}, 0;", f"@{p} bra {over};")
    step = w.off("a step of 0", 1, 0)
    if w.wrong("counts without an atomic"):
        w.emit(f"ld.shared.u32 {at}, [count];", f"add.u32 {r}, {at}, 1;", f"st.shared.u32 [count], {r};")
    else:
        w.emit(f"atom.shared.add.u32 {at}, [count], {step};")
    w.emit(f"mad.lo.u32 {at}, {at}, 4, {base};", f"st.shared.u32 [{at}], {m.data};", f"{over}:")
    if not w.wrong("no barrier before the list is read"):
        w.emit("bar.sync 0;")
    w.emit(f"ld.shared.u32 {n}, [count];", f"setp.ge.u32 {p}, %thr, {n};", f"@{p} bra {end};")
    w.emit(f"mad.lo.u32 {at}, %thr, 4, {base};", f"ld.shared.u32 {r}, [{at}];", f"{end}:")
    return _ended(m, "packed")


def last(w: Writer) -> Program:
    """Blocks count themselves; the one that comes last works on."""
    m = _maker(w)
    w.grids = w.draw.choice([(1, 2, 3), (2,), (1, 3)])
    w.room("is_last", 16)
    counter, d = w.counter(), w.fresh("d")
    p, q, t, over, many = w.fresh("p"), w.fresh("p"), w.fresh("r"), w.label("L"), w.fresh("r")
    w.emit(f"mad.lo.u32 {t}, {m.block}, 4, 4096;", f"cvt.u64.u32 {d}, {t};", f"add.s64 {d}, %out, {d};")
    w.emit(f"setp.ne.u32 {p}, %thr, 0;", f"@{p} bra {over};", f"st.global.u32 [{d}], {m.data};", "membar.gl;")
    w.emit(f"atom.global.add.u32 {t}, [{counter}], 1;", f"mov.u32 {many}, %nctaid.x;")
    w.emit(f"sub.u32 {many}, {many}, 1;", f"setp.eq.u32 {q}, {t}, {many};", f"selp.u32 {t}, 1, 0, {q};")
    w.emit(f"st.shared.u32 [is_last], {t};", f"{over}:")
    if not w.wrong("no barrier before all know"):
        w.emit("bar.sync 0;")
    w.emit(f"ld.shared.u32 {t}, [is_last];", f"setp.eq.u32 {q}, {t}, 0;")
    if w.wrong("each thread asks for itself"):
        w.emit(f"setp.eq.u32 {q}, %thr, {t};")
    w.emit(f"@{q} bra {m.exit};", f"st.shared.u32 [{m.own}], {t};")
    if not w.wrong("no barrier behind the store"):
        w.emit("bar.sync 0;")
    r = w.fresh("r")
    w.emit(f"xor.b32 {r}, {m.own}, {_shift(m)};", f"ld.shared.u32 {t}, [{r}];")
    return _ended(m, "last")


def rows(w: Writer) -> Program:
    """A row's bounds lie in memory; all threads of a block turn as often, with barriers."""
    m = _maker(w)
    d, i, end, p = w.fresh("d"), w.fresh("r"), w.fresh("r"), w.fresh("p")
    top, out, r, value = w.label("T"), w.label("E"), w.fresh("r"), w.fresh("r")
    index = m.index if w.wrong("bounds of each thread") else m.block
    w.emit(f"mul.wide.u32 {d}, {index}, 4;", f"add.s64 {d}, %in, {d};")
    if w.wrong("a thread changes the bound"):
        q = w.fresh("p")
        w.emit(f"setp.eq.u32 {q}, %thr, {m.threads - 1};", f"@{q} st.global.u32 [{d}], %thr;")
    w.emit(f"ld.global.u32 {end}, [{d}];", f"and.b32 {end}, {end}, 3;", f"mov.u32 {i}, 0;")
    w.emit(f"{top}:", f"setp.ge.u32 {p}, {i}, {end};", f"@{p} bra {out};")
    w.emit(f"st.shared.u32 [{m.own}], {i};")
    if not w.wrong("no barrier behind the store"):
        w.emit("bar.sync 0;")
    w.emit(f"xor.b32 {r}, {m.own}, {_shift(m)};", f"ld.shared.u32 {value}, [{r}];")
    if not w.wrong("no barrier behind the load"):
        w.emit("bar.sync 0;")
    w.emit(f"add.u32 {i}, {i}, 1;", f"bra {top};", f"{out}:")
    m.used = {}
    if w.chance(0.5):
        m.access()
    return _ended(m, "rows")


def twice(w: Writer) -> Program:
    """Two reads of one word decide who stores and who reads: of one word they exclude each other, unless it
    was written again."""
    m = _maker(w)
    w.room("flag", 16)
    f, g, p, q, there, value = (
        *(w.fresh("r") for _ in range(2)),
        *(w.fresh("p") for _ in range(2)),
        w.fresh("r"),
        w.fresh("r"),
    )
    again, first = w.chance(0.6), w.fresh("p")
    for n, (into, test) in enumerate(((f, p), (g, q))):
        leader, at = w.draw.randrange(m.threads), w.draw.choice([m.data, "%clock", m.data])
        w.emit(f"setp.eq.u32 {first}, %thr, {leader};", f"mov.u32 {value}, {at};")
        if n == 0 or again:
            w.emit("bar.sync 0;", f"@{first} st.shared.u32 [flag], {value};", "bar.sync 0;")
        w.emit(f"ld.shared.u32 {into}, [flag];", f"and.b32 {into}, {into}, 1;")
        w.emit(f"setp.ne.u32 {test}, {into}, 0;")
    over, end = w.label("S"), w.label("E")
    w.emit(f"@!{p} bra {over};", f"st.shared.u32 [{m.own}], %thr;", f"{over}:")
    if again and not w.wrong("no barrier between the sides of two words"):
        w.emit("bar.sync 0;")
    w.emit(f"@{'!' if w.wrong('both on one side') else ''}{q} bra {end};")
    w.emit(f"xor.b32 {there}, {m.own}, {_shift(m)};", f"ld.shared.u32 {value}, [{there}];", f"{end}:")
    return _ended(m, "twice")


DATA_FAMILIES: dict[str, Callable[[Writer], Program]] = {
    "steered": steered, "relaxed": relaxed, "voted": voted, "bins": bins, "packed": packed, "last": last,
    "rows": rows, "twice": twice,
}  # fmt: skip
