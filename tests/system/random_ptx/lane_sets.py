"""Lanes that exchange values by masks that they make: votes, matches, active lanes, in branches and loops
that data, lanes or sizes steer.

A program is right if each mask names the lanes that come with it. It is built from a stack: each region has
the register of its mask, and a part of its lanes votes for the mask of an inner region. Mistakes: the mask of
an outer region, of another vote, of an earlier turn; a predicate or a value that is written between the vote
and the branch; a guard on the exchange; a loop that lanes leave in different turns without a new vote.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.system.random_ptx.writer import Program, Writer

#: How deep regions are nested.
DEEPEST = 3


@dataclass
class Lanes:
    """``value``: a word of each lane, from the input. ``size``: a number that all lanes share."""

    w: Writer
    value: str
    size: str
    out: str
    outer: list[str] = field(default_factory=list)

    def region(self, mask: str, depth: int) -> None:
        """Some statements that the lanes of a mask execute together."""
        w = self.w
        for _ in range(w.draw.randrange(1, 3)):
            kinds: list[Callable[[str, int], None]] = [self.trade]
            if depth < DEEPEST:
                kinds += [self.part, self.both, self.shared, self.turns, self.until]
            w.draw.choice(kinds)(mask, depth)
        if w.chance(0.1):
            w.emit(f"bar.warp.sync {mask};")

    def trade(self, mask: str, _depth: int) -> None:
        """Lanes take values from each other."""
        w = self.w
        mask = self.taken(mask)
        guard = f"@{self.predicate(self.value)} " if w.wrong("a guard on an exchange") else ""
        result, given = w.fresh("r"), w.draw.choice([self.value, self.value, self.size])
        kind = w.draw.randrange(4)
        if kind == 0:
            w.emit(f"{guard}shfl.sync.bfly.b32 {result}, {given}, {w.draw.randrange(1, 32)}, 31, {mask};")
        elif kind == 1:
            w.emit(f"{guard}redux.sync.add.u32 {result}, {given}, {mask};")
        elif kind == 2:
            w.emit(f"{guard}match.any.sync.b32 {result}, {given}, {mask};")
        else:
            w.emit(f"{guard}vote.sync.ballot.b32 {result}, {self.predicate(given)}, {mask};")
        w.emit(f"add.u32 {self.out}, {self.out}, {result};")

    def taken(self, mask: str) -> str:
        """The mask of a region, or by mistake that of an outer one."""
        others = [m for m in self.outer if m != mask]
        return self.w.draw.choice(others) if others and self.w.wrong("the mask of an outer region") else mask

    def predicate(self, of: str) -> str:
        w = self.w
        p = w.fresh("p")
        test = w.draw.choice(["lt.u32", "ge.u32", "ne.s32", "gt.s32"])
        w.emit(f"setp.{test} {p}, {of}, {w.draw.choice([0, 1, 3, 7, 16, 1 << 30])};")
        return p

    def voted(self, mask: str, p: str) -> str:
        """The mask of those for whom a predicate holds."""
        w = self.w
        m = w.fresh("r")
        w.emit(f"vote.sync.ballot.b32 {m}, {p}, {mask};")
        return m

    def part(self, mask: str, depth: int) -> None:
        """Those who voted for a predicate go on alone; it may be asked again by its opposite."""
        w = self.w
        of = w.draw.choice([self.value, "%thr"])
        bound, out, p = w.draw.choice([1, 3, 7, 16]), w.label("P"), w.fresh("p")
        if w.chance(0.5):
            w.emit(f"setp.lt.u32 {p}, {of}, {bound};")
            m = self.voted(mask, p)
            if w.wrong("the predicate is written again"):
                w.emit(f"setp.lt.u32 {p}, {of}, {bound + 1};")
            w.emit(f"@!{p} bra {out};")
        else:
            q, copy = w.fresh("p"), w.fresh("r")
            w.emit(f"mov.u32 {copy}, {of};", f"setp.lt.u32 {p}, {copy}, {bound};")
            m = self.voted(mask, p)
            if w.wrong("the value is written again"):
                w.emit(f"add.u32 {copy}, {copy}, 1;")
            w.emit(f"setp.ge.u32 {q}, {copy}, {bound};", f"@{q} bra {out};")
        self.inside(m, mask, depth)
        w.emit(f"{out}:")

    def both(self, mask: str, depth: int) -> None:
        """Each side of a branch with its own mask."""
        w = self.w
        p, out, other = self.predicate(self.value), w.label("B"), w.label("O")
        yes, no, n = self.voted(mask, p), w.fresh("r"), w.fresh("p")
        if w.chance(0.5):
            w.emit(f"not.b32 {no}, {yes};", f"and.b32 {no}, {no}, {mask};")
        else:
            w.emit(f"not.pred {n}, {p};", f"vote.sync.ballot.b32 {no}, {n}, {mask};")
        if w.wrong("masks of two sides exchanged"):
            yes, no = no, yes
        w.emit(f"@!{p} bra {other};")
        self.inside(yes, mask, depth)
        w.emit(f"bra {out};", f"{other}:")
        self.inside(no, mask, depth)
        w.emit(f"{out}:")

    def shared(self, mask: str, depth: int) -> None:
        """A condition that all lanes share needs no vote."""
        w = self.w
        p, out = w.fresh("p"), w.label("S")
        of = self.value if w.wrong("a condition of each lane without a vote") else self.size
        w.emit(f"setp.gt.s32 {p}, {of}, {w.draw.randrange(3)};", f"@{p} bra {out};")
        self.inside(mask, mask, depth)
        w.emit(f"{out}:")

    def turns(self, mask: str, depth: int) -> None:
        """A loop of as many turns in all lanes."""
        w = self.w
        i, p, top = w.fresh("r"), w.fresh("p"), w.label("T")
        end = w.fresh("r")
        of = "%thr" if w.wrong("turns of each lane without a vote") else self.size
        w.emit(f"and.b32 {end}, {of}, 3;", f"mov.u32 {i}, 0;", f"{top}:")
        self.inside(mask, mask, depth)
        w.emit(f"add.u32 {i}, {i}, 1;", f"setp.lt.u32 {p}, {i}, {end};", f"@{p} bra {top};")

    def until(self, mask: str, depth: int) -> None:
        """A loop that lanes leave in different turns: those who stay vote for the mask of the next one.
        Behind it all are there again."""
        w = self.w
        i, p, m, top, out = w.fresh("r"), w.fresh("p"), w.fresh("r"), w.label("U"), w.label("E")
        end = w.fresh("r")
        w.emit(f"and.b32 {end}, {self.value}, 3;", f"mov.u32 {i}, 0;", f"mov.u32 {m}, {mask};", f"{top}:")
        w.emit(f"setp.lt.u32 {p}, {i}, {end};")
        if not w.wrong("no vote before the next turn"):
            w.emit(f"vote.sync.ballot.b32 {m}, {p}, {m};")
        w.emit(f"@!{p} bra {out};")
        self.inside(m, mask, depth)
        w.emit(f"add.u32 {i}, {i}, 1;", f"bra {top};", f"{out}:")
        if w.wrong("the mask of the last turn"):
            self.trade(m, depth)

    def inside(self, mask: str, outer: str, depth: int) -> None:
        self.outer.append(outer)
        self.region(mask, depth + 1)
        self.outer.pop()


def lane_sets(w: Writer) -> Program:
    """One or two warps that divide into smaller and smaller sets of lanes."""
    threads = w.draw.choice([32, 64])
    d, value, out, m = w.fresh("d"), w.fresh("r"), w.fresh("r"), w.fresh("r")
    w.emit(f"mul.wide.u32 {d}, %thr, 4;", f"add.s64 {d}, %in, {d};", f"ld.global.u32 {value}, [{d}];")
    w.emit(f"mov.u32 {out}, 0;")
    size = w.open_size(0, 1, 2, 5) if w.chance(0.5) else w.constant(w.draw.randrange(4))
    w.emit(f"activemask.b32 {m};" if w.chance(0.3) else f"mov.u32 {m}, -1;")
    Lanes(w, value, size, out).region(m, 0)
    p = w.finished("lane sets", threads)
    p.by_data = True
    return p


LANE_SET_FAMILIES = {"lane sets": lane_sets}
