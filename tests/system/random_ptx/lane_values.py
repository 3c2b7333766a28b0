"""Lanes that exchange values by masks which travel: through vector accesses, selections, shuffles, shared
memory; and by predicates that are the second result of a comparison.

The programs are those of ``lane_sets`` but for this. Words in shared memory are handed on within the lanes of
a mask, behind ``bar.warp.sync``. Mistakes besides: the other word of a vector, the mask of the other choice,
the value of another lane, the first result for the second, a vector load between the vote and the branch, a
missing synchronization.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.system.random_ptx.lane_sets import Lanes
from tests.system.random_ptx.writer import Program, Writer


@dataclass
class Travelling(Lanes):
    """``own``: a register with the address of 8 bytes of each lane. ``words``: where they begin."""

    own: str = ""
    words: str = ""
    place: str = ""

    def predicate(self, of: str) -> str:
        w = self.w
        if w.chance(0.5):
            return super().predicate(of)
        p, q = w.fresh("p"), w.fresh("p")
        test = w.draw.choice(["lt.u32", "ge.u32", "ne.s32", "gt.s32"])
        w.emit(f"setp.{test} {p}|{q}, {of}, {w.draw.choice([0, 1, 3, 7, 16, 1 << 30])};")
        return w.draw.choice([p, q])

    def voted(self, mask: str, p: str) -> str:
        m = super().voted(mask, p)
        for _ in range(self.w.draw.randrange(3)):
            m = self.travelled(m, mask)
        return m

    def travelled(self, m: str, among: str) -> str:
        """A mask that has been somewhere; ``among``: the lanes that execute this."""
        w = self.w
        new, other = w.fresh("r"), w.fresh("r")
        match w.draw.randrange(5):
            case 0:
                first, second = (other, new) if w.wrong("the other word of a vector") else (new, other)
                w.emit(f"st.shared.v2.u32 [{self.own}], {{{m}, {self.value}}};")
                w.emit(f"ld.shared.v2.u32 {{{first}, {second}}}, [{self.own}];")
            case 1:
                p = w.fresh("p")
                a, b = (among, m) if w.wrong("the mask of the other choice") else (m, among)
                w.emit(f"setp.ge.u32 {p}, {self.size}, 0;", f"selp.b32 {new}, {a}, {b}, {p};")
            case 2:
                source = self.lowest(among)
                given = self.value if w.wrong("the value of another lane") else m
                w.emit(f"shfl.sync.idx.b32 {new}, {given}, {source}, 31, {among};")
            case 3:
                w.emit(f"st.shared.u32 [{self.own}+4], {m};", f"ld.shared.u32 {new}, [{self.own}+4];")
            case _:
                w.emit(f"not.b32 {other}, {m};", f"xor.b32 {new}, {other}, -1;")
        return new

    def lowest(self, mask: str) -> str:
        """The lowest lane of a mask."""
        w = self.w
        turned, lane = w.fresh("r"), w.fresh("r")
        w.emit(f"brev.b32 {turned}, {mask};", f"clz.b32 {lane}, {turned};")
        return lane

    def trade(self, mask: str, depth: int) -> None:
        if self.w.chance(0.3):
            self.handed(self.taken(mask))
        else:
            super().trade(mask, depth)

    def handed(self, mask: str) -> None:
        """The lowest lane of a mask hands a word to the others."""
        w = self.w
        result, at = w.fresh("r"), w.fresh("r")
        lane = self.lowest(mask)
        w.emit(f"shl.b32 {at}, {lane}, 3;", f"add.u32 {at}, {at}, {self.words};")
        w.emit(f"st.shared.u32 [{self.own}], {self.value};")
        if not w.wrong("no synchronization after the store"):
            w.emit(f"bar.warp.sync {mask};")
        w.emit(f"ld.shared.u32 {result}, [{at}];")
        if not w.wrong("no synchronization after the load"):
            w.emit(f"bar.warp.sync {mask};")
        w.emit(f"add.u32 {self.out}, {self.out}, {result};")

    def part(self, mask: str, depth: int) -> None:
        """Those who voted go on alone; both results of one comparison are used, or vectors are loaded."""
        w = self.w
        if w.chance(0.4):
            super().part(mask, depth)
            return
        p, q, out, copy, other = w.fresh("p"), w.fresh("p"), w.label("P"), w.fresh("r"), w.fresh("r")
        bound = w.draw.choice([1, 3, 7, 16])
        w.emit(f"ld.global.v2.u32 {{{copy}, {other}}}, [{self.place}];")
        w.emit(f"setp.lt.u32 {p}|{q}, {copy}, {bound};")
        m = self.voted(mask, p)
        if w.chance(0.5):
            leaves = p if w.wrong("the first result for the second") else q
        else:
            leaves = w.fresh("p")
            if w.wrong("a vector load between the vote and the branch"):
                w.emit(f"ld.global.v2.u32 {{{other}, {copy}}}, [{self.place}];")
            w.emit(f"setp.ge.u32 {leaves}, {copy}, {bound};")
        w.emit(f"@{leaves} bra {out};")
        self.inside(m, mask, depth)
        w.emit(f"{out}:")


def lane_values(w: Writer) -> Program:
    """One or two warps that divide into smaller and smaller sets of lanes, by masks that travel."""
    threads = w.draw.choice([32, 64])
    d, value, second, out, m = w.fresh("d"), w.fresh("r"), w.fresh("r"), w.fresh("r"), w.fresh("r")
    own, words, base = w.fresh("r"), w.fresh("r"), w.room("words", 8 * threads)
    w.emit(f"mul.wide.u32 {d}, %thr, 8;", f"add.s64 {d}, %in, {d};")
    w.emit(f"ld.global.v2.u32 {{{value}, {second}}}, [{d}];", f"mov.u32 {out}, {second};")
    w.emit(f"mov.u32 {words}, {base};", f"shl.b32 {own}, %thr, 3;", f"add.u32 {own}, {words}, {own};")
    w.emit(f"shl.b32 {second}, %warp, 8;", f"add.u32 {words}, {words}, {second};")
    size = w.open_size(0, 1, 2, 5) if w.chance(0.3) else w.constant(w.draw.randrange(4))
    w.emit(f"activemask.b32 {m};" if w.chance(0.2) else f"mov.u32 {m}, -1;")
    Travelling(w, value, size, out, own=own, words=words, place=d).region(m, 0)
    p = w.finished("lane values", threads)
    p.by_data = True
    return p


LANE_VALUE_FAMILIES = {"lane values": lane_values}
