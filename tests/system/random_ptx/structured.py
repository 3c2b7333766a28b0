"""Programs of guards, loops, returns and barriers; open sizes and data steer them.

Shared memory has four arrays with a word for each thread. Between two barriers of the block an array is used
in one way: each thread its own word, or reads of any word, or atomics of any word. What is right is right by
this discipline, whoever decides about an access. Address registers move between arrays: within a side of a
guard, in turns of a loop, by selections. A mistake drops or moves a barrier, shifts an address by a word,
takes another register, forgets a move, lets a side run on into the other one, or asks data instead of a size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.system.random_ptx.writer import Open, Program, Writer

ARRAYS = 4
#: How an array is used between two barriers, or in ways that exclude each other.
OWN, READ, ATOMIC, MIXED = "own", "read", "atomic", "mixed"
#: By whom a condition is decided in one way: all threads, or each for itself.
UNIFORM, THREAD = "uniform", "thread"

Uses = dict[int, str]
Places = dict[str, frozenset[int]]


def joined(*some: Uses) -> Uses:
    """How arrays are used if any of these may have been: unlike ways exclude each other."""
    out: Uses = {}
    for uses in some:
        for array, use in uses.items():
            out[array] = use if out.get(array, use) == use else MIXED
    return out


def either(*some: Places) -> Places:
    """Where each register may lead after one of several ways; nowhere, if one of them leaves it unset."""
    nowhere: frozenset[int] = frozenset()
    ways = {r: [s.get(r, nowhere) for s in some] for r in some[0]}
    return {r: nowhere.union(*a) if all(a) else nowhere for r, a in ways.items()}


@dataclass
class Maker:
    """Writes one program. ``used``: of arrays since the last barrier; ``left``: by threads that may be gone;
    ``at``: the arrays that an address register may lead to."""

    w: Writer
    threads: int
    used: Uses = field(default_factory=dict)
    left: Uses = field(default_factory=dict)
    at: Places = field(default_factory=dict)
    fewer: bool = False  # threads may have returned
    last: int = 0  # where the statement before begins in the text
    places: int = 0
    breaks: list[list[tuple[Uses, Places]]] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    meets: list[bool] = field(default_factory=list)
    exit: str = ""

    def __post_init__(self) -> None:
        self.stride = 1 << (4 * self.threads - 1).bit_length()
        self.exit = self.w.label("X")

    # -- text ---------------------------------------------------------------------------------------------

    def wrong(self, name: str) -> bool:
        """A mistake at this place of the program."""
        self.places += 1
        return self.w.wrong(f"{name} ({self.places})")

    def prologue(self) -> None:
        w = self.w
        w.room("arr", ARRAYS * self.stride, ARRAYS * self.stride)
        t = self.threads
        self.size = w.open_size(0, 1, t // 2 + 1, t - 1, t, 2 * t + 3)
        self.turns = self.size if w.chance(0.2) else w.open_size(0, 1, 2, 3)
        if self.turns == self.size:
            w.params[-1] = Open((0, 1, 3, t // 2 + 1))
        if w.chance(0.3):
            w.grids = (1, 2, 3)
        self.block, self.index, self.own = w.fresh("r"), w.fresh("r"), w.fresh("r")
        d = w.fresh("d")
        self.data = w.fresh("r")
        w.emit(
            f"mov.u32 {self.block}, %ctaid.x;",
            f"mad.lo.u32 {self.index}, {self.block}, {t}, %thr;",
            f"mul.wide.u32 {d}, {self.index}, 4;",
            f"add.s64 {d}, %in, {d};",
            f"ld.global.u32 {self.data}, [{d}];",
            f"mov.u32 {self.own}, arr;",
            f"mad.lo.u32 {self.own}, %thr, 4, {self.own};",
        )
        for _ in range(3):
            r, array = w.fresh("r"), w.draw.randrange(ARRAYS)
            w.emit(f"add.u32 {r}, {self.own}, {array * self.stride};")
            self.at[r] = frozenset([array])
        self.values = [w.fresh("r") for _ in range(3)]
        for r, source in zip(self.values, ("%thr", "7", self.data), strict=True):
            w.emit(f"mov.u32 {r}, {source};")

    def block_of(self, depth: int, uniform: bool, most: int) -> None:
        """Some statements; ``uniform``: all threads of the block that are left come here together."""
        draw = self.w.draw
        for _ in range(draw.randint(1, most)):
            begin = len(self.w.lines)
            ways: list[tuple[float, Callable[[], None]]] = [(5, self.access), (2, self.move), (1, self.count)]
            if uniform:
                ways.append((3, self.barrier))
            if depth < 2:
                ways.append((4, lambda: self.branch(depth, uniform)))
                ways.append((1.5, lambda: self.loop(depth, uniform)))
            if not self.breaks and not self.fewer:
                ways.append((0.5, lambda: self.leave(uniform)))
            if self.breaks and (uniform or not self.meets[-1]):
                ways.append((0.4, lambda: self.stop(uniform)))
            weights = [x for x, _ in ways]
            draw.choices([y for _, y in ways], weights)[0]()
            self.last = begin

    # -- statements ---------------------------------------------------------------------------------------

    def barrier(self) -> None:
        w = self.w
        forms = ["bar.sync 0;", "barrier.sync.aligned 0;", "barrier.sync 0;", "bar.sync 1;"]
        if not self.fewer:
            forms += [f"bar.sync 2, {self.threads};"]
        text = w.draw.choice(forms)
        part = w.draw.random()
        counted = self.fewer and self.wrong("a count though threads have left")
        if self.wrong("barrier dropped"):
            pass
        elif self.wrong("barrier moved up"):
            end = len(w.lines)
            w.lines.insert(self.last + int(part * (end - self.last)), text)
        else:
            w.emit(f"bar.sync 3, {self.threads};" if counted else text)
        self.used = dict(self.left)

    def may(self, arrays: frozenset[int], use: str) -> bool:
        return bool(arrays) and all(self.used.get(a, use) == use for a in arrays)

    def options(self) -> list[tuple[str, str]]:
        """The accesses that the discipline allows: each thread's own word twice as often."""
        some = [(r, u) for r, a in self.at.items() for u in (OWN, OWN, READ, ATOMIC) if self.may(a, u)]
        return [(r, u) for r, u in some if u != ATOMIC or self.w.seed % 3 == 0]

    def access(self, guard: str = "") -> None:
        """A store, a load or an atomic, as far as the discipline has one for some register."""
        w, draw = self.w, self.w.draw
        options = self.options()
        if not options:
            return
        r, use = draw.choice(options)
        for a in self.at[r]:
            self.used[a] = use
        other = draw.choice(list(self.at))
        if self.wrong("wrong register"):
            r = other
        if self.wrong("own register"):
            r = self.own
        off = "+4" if self.wrong("a word further") else ""
        value = draw.choice([*self.values, "%thr"])
        into = draw.choice(self.values)
        shift = 4 * draw.randrange(1, self.threads & -self.threads)
        narrow = draw.choice(["u32", "u32", "u32", "u16", "u8"])
        if use == OWN:
            if draw.random() < 0.6:
                w.emit(f"{guard}st.shared.{narrow} [{r}{off}], {value};")
            else:
                w.emit(f"{guard}ld.shared.{narrow} {into}, [{r}{off}];")
        elif use == READ:
            if self.wrong("a store to another's word"):
                w.emit(f"{guard}st.shared.u32 [{r}+4], {value};")
            there = w.fresh("r")
            w.emit(f"xor.b32 {there}, {r}, {shift};", f"{guard}ld.shared.u32 {into}, [{there}];")
        elif draw.random() < 0.5:
            w.emit(f"{guard}red.shared.add.u32 [{r}{off}], {value};")
        else:
            how = draw.choice(["add.u32", "max.u32", "exch.b32"])
            w.emit(f"{guard}atom.shared.{how} {into}, [{r}], {value};")

    def move(self) -> None:
        """An address register leads elsewhere."""
        w, draw = self.w, self.w.draw
        r = draw.choice(list(self.at))
        arrays, way = self.at[r], draw.randrange(5)
        forgotten = self.wrong("move forgotten")
        by = self.stride + (4 if self.wrong("moved by a word more") else 0)
        array, other = draw.randrange(ARRAYS), draw.choice(list(self.at))
        line = f"add.u32 {r}, {self.own}, {array * self.stride};"
        after = frozenset([array])
        if way == 0 and arrays:
            line, after = f"xor.b32 {r}, {r}, {by};", frozenset(a ^ 1 for a in arrays)
        elif way == 1 and arrays and max(arrays) + 1 < ARRAYS:
            line, after = f"add.u32 {r}, {r}, {by};", frozenset(a + 1 for a in arrays)
        elif way == 2 and arrays and min(arrays) > 0:
            line, after = f"sub.u32 {r}, {r}, {by};", frozenset(a - 1 for a in arrays)
        elif way == 3 and arrays and self.at[other]:
            p, _ = self.condition(False)
            line, after = f"selp.b32 {r}, {other}, {r}, {p};", arrays | self.at[other]
        if not forgotten:
            w.emit(line)
        self.at[r] = after

    def count(self) -> None:
        w, draw = self.w, self.w.draw
        a, b = draw.choice(self.values), draw.choice([*self.values, "%lane", self.data])
        w.emit(
            f"{draw.choice(['add.u32', 'xor.b32', 'mul.lo.u32', 'min.u32'])} {a}, {b}, {draw.randint(1, 9)};"
        )

    def leave(self, uniform: bool = True) -> None:
        """Threads return early. Within a side that some take, what is uniform still parts them."""
        w = self.w
        p, kind = self.condition(w.chance(0.2) and uniform)
        how = w.draw.choice([f"bra {self.exit};", "ret;", "exit;"])
        w.emit(f"@{p} {how}")
        if kind == THREAD:
            self.left = joined(self.left, self.used)
            self.fewer = True

    def stop(self, uniform: bool) -> None:
        """A loop ends early."""
        p, _ = self.condition(uniform)
        self.w.emit(f"@{p} bra {self.ends[-1]};")
        self.breaks[-1].append((dict(self.used), dict(self.at)))

    # -- conditions ---------------------------------------------------------------------------------------

    def condition(self, uniform: bool) -> tuple[str, str]:
        """A predicate, and who decides it in one way."""
        w, draw = self.w, self.w.draw
        if uniform:
            p = self._uniform()
            if self.wrong("a guard of each thread"):
                w.emit(f"setp.lt.s32 {p}, %thr, {self.size};")
            return p, UNIFORM
        p, c = w.fresh("p"), draw.randrange(1, self.threads)
        less = draw.choice(["lt.s32", "ge.s32", "lt.u32", "ge.u32", "eq.s32"])
        way = draw.randrange(7)
        if way <= 2:
            what = draw.choice(["%thr", self.index, "%lane", "%warp"])
            w.emit(f"setp.{less} {p}, {what}, {self.size};")
        elif way == 3:
            r = w.fresh("r")
            w.emit(f"add.u32 {r}, %thr, {c};", f"setp.{less} {p}, {r}, {self.size};")
        elif way == 4:
            r = w.fresh("r")
            w.emit(f"and.b32 {r}, {self.data}, {draw.choice([1, 3])};", f"setp.eq.u32 {p}, {r}, 0;")
        elif way == 5:
            q = w.fresh("p")
            both, kind = draw.choice(["and", "or"]), less.split(".")
            w.emit(f"setp.lt.s32 {q}, %thr, {self.size};")
            w.emit(f"setp.{kind[0]}.{both}.{kind[1]} {p}, %thr, {c}, {q};")
        else:
            w.emit(f"setp.{less} {p}, {draw.choice(['%thr', '%lane'])}, {c};")
        return p, THREAD

    def _uniform(self) -> str:
        w, draw = self.w, self.w.draw
        p = w.fresh("p")
        way = draw.randrange(5)
        if way == 0 and w.grids:
            w.emit(f"setp.eq.u32 {p}, {self.block}, {draw.randrange(2)};")
        elif way == 1 and w.grids:
            r = w.fresh("r")
            w.emit(f"mul.lo.u32 {r}, {self.block}, {self.threads};", f"setp.lt.u32 {p}, {r}, {self.size};")
        elif way == 2:
            w.emit(f"setp.gt.s32 {p}, {self.size}, {draw.randrange(self.threads)};")
        elif way == 3 and not self.fewer:
            q = w.fresh("p")
            w.emit(f"setp.lt.u32 {q}, %thr, {self.size};")
            how, short = draw.choice(["or", "and"]), draw.random() < 0.5
            if self.wrong("a vote of each warp"):
                w.emit(f"vote.sync.{'any' if how == 'or' else 'all'}.pred {p}, {q}, -1;")
            elif short:
                w.emit(f"bar.red.{how}.pred {p}, 0, {q};")
            else:
                w.emit(f"barrier.red.{how}.aligned.pred {p}, 0, {q};")
            self.used = dict(self.left)
        else:
            w.emit(f"setp.{draw.choice(['gt', 'ne', 'le'])}.s32 {p}, {self.turns}, {draw.randrange(3)};")
        return p

    # -- control ------------------------------------------------------------------------------------------

    def branch(self, depth: int, uniform: bool) -> None:
        w, draw = self.w, self.w.draw
        p, kind = self.condition(uniform and draw.random() < 0.5)
        inner = uniform and kind == UNIFORM
        negated = draw.random() < 0.5
        if not inner and draw.random() < 0.25:
            self.access(f"@{'!' if negated else ''}{p} ")
            return
        sides = 2 if draw.random() < 0.65 else 1
        other, meet = w.label("S"), w.label("M")
        w.emit(f"@{'!' if negated else ''}{p} bra {other if sides == 2 else meet};")
        used, at = dict(self.used), dict(self.at)
        self.block_of(depth + 1, inner, 2)
        ways = [(self.used, self.at)]
        if sides == 2:
            if not self.wrong("one side runs on into the other"):
                w.emit(f"bra {meet};")
            w.emit(f"{other}:")
            self.at = dict(at)
            if inner:  # nobody takes the other side
                self.used = dict(used)
            self.block_of(depth + 1, inner, 2)
            ways.append((self.used, self.at))
        else:
            ways.append((used, at))
        w.emit(f"{meet}:")
        self.used, self.at = joined(*(u for u, _ in ways)), either(*(a for _, a in ways))

    def loop(self, depth: int, uniform: bool) -> None:
        """Turns by an open size, a constant or each thread's own number, with a barrier in each or none."""
        w, draw = self.w, self.w.draw
        meets = uniform and draw.random() < 0.7
        first = draw.random() < 0.5
        i, p, top, end = w.fresh("r"), w.fresh("p"), w.label("T"), w.label("E")
        limit = self.limit(meets)
        carried = [r for r, arrays in self.at.items() if arrays and draw.random() < 0.5]
        for r in self.at:
            pair = frozenset(b for a in self.at[r] for b in (a, a ^ 1))
            self.at[r] = pair if r in carried else frozenset()
        before = dict(self.used), dict(self.at)
        w.emit(f"mov.u32 {i}, 0;", f"{top}:", f"setp.ge.u32 {p}, {i}, {limit};", f"@{p} bra {end};")
        self.breaks.append([])
        self.ends.append(end)
        self.meets.append(meets)
        for r in [r for r in self.at if r not in carried]:
            array = draw.randrange(ARRAYS)
            w.emit(f"add.u32 {r}, {self.own}, {array * self.stride};")
            self.at[r] = frozenset([array])
        fixed = {r: self.at.pop(r) for r in carried}
        if meets and first:
            self.barrier()
        self.at |= fixed
        self._body(depth, meets, carried)
        if meets and not first:
            self.barrier()
        for r in carried:
            if draw.random() < 0.5 and not self.wrong("no flip"):
                w.emit(f"xor.b32 {r}, {r}, {self.stride};")
        w.emit(f"add.u32 {i}, {i}, 1;", f"bra {top};", f"{end}:")
        ways = [before, (self.used, self.at), *self.breaks.pop()]
        self.ends.pop()
        self.meets.pop()
        self.used = joined(*(u for u, _ in ways))
        self.at = either(*(a for _, a in ways))
        for r in carried:
            self.at[r] = fixed[r]
        for r in [r for r in self.at if not self.at[r]]:
            w.emit(f"mov.u32 {r}, {self.own};")
            self.at[r] = frozenset([0])

    def _body(self, depth: int, meets: bool, carried: list[str]) -> None:
        """A loop's statements; what is carried from turn to turn stays within its pair of arrays."""
        kept = {r: self.at[r] for r in carried}
        others = {r: a for r, a in self.at.items() if r not in kept}
        for inner in (True, False, True):
            self.at = others if inner else kept
            if inner and others:
                self.block_of(depth + 1, meets, 2)
                others = self.at
            elif not inner and kept:
                for _ in range(self.w.draw.randint(1, 2)):
                    self.access()
        self.at = others | kept

    def limit(self, uniform: bool) -> str:
        """A number of turns."""
        w, draw = self.w, self.w.draw
        r = w.fresh("r")
        if uniform:
            limit = draw.choice([self.turns, self.turns, "2", "3"])
            if self.wrong("turns of each thread"):
                w.emit(f"shr.u32 {r}, %thr, 4;", f"add.u32 {r}, {r}, {limit};")
                return r
            return limit
        way = draw.randrange(3)
        if way == 0:
            w.emit(f"and.b32 {r}, {self.data}, 3;")
        elif way == 1:
            w.emit(f"and.b32 {r}, %thr, 3;", f"min.u32 {r}, {r}, {self.turns};")
        else:
            w.emit(f"and.b32 {r}, %lane, 1;", f"add.u32 {r}, {r}, {self.turns};")
        return r


def structured(w: Writer) -> Program:
    """Guards, loops, returns and barriers, drawn at random."""
    m = Maker(w, w.draw.choice([32, 64, 64, 96, 128]))
    m.prologue()
    m.block_of(0, True, w.draw.choice([3, 5, 7]))
    w.emit(f"{m.exit}:")
    return w.finished("structured", m.threads)
