"""Barriers and collectives in loops that threads leave, begin again or bypass in part.

A program is nested regions: branches and loops with their test at the head or the tail, in which threads may
break, continue or leave the kernel. All threads of a block come to a region together, or whole warps, or the
lanes of a mask. What decides there is the same for those; barriers are for them. Each does something now and
then that others may see: a store of its own place, an atomic. Mistakes: a decision that warps or lanes take
for themselves. Many of them do no harm, for whoever has left is not waited for: executions say so.

Another set has loops that threads leave at their heads in different turns, after they went round a barrier or
not. Where two collectives of one kind meet at two places, the text allows it and the second reader does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from tests.system.random_ptx.writer import Program, Writer

#: How deep regions are nested.
DEEPEST = 3


class Who(IntEnum):
    """Who comes to a region, and decides there, together."""

    LANES = 0
    WARPS = 1
    BLOCK = 2


@dataclass(frozen=True)
class Region:
    """``mask``: of the lanes that come, if they are no whole warps. ``out``, ``again``: labels of the loop
    around; ``turn``: its counter."""

    who: Who
    mask: str = "-1"
    out: str = ""
    again: str = ""
    turn: str = ""


@dataclass
class Rounds:
    """``value``: a word of each lane, from the input. ``size``: a number that all threads share."""

    w: Writer
    threads: int
    value: str
    size: str
    own: str
    end: str
    data: bool = False
    depth: int = 0
    names: list[str] = field(default_factory=list)

    def region(self, r: Region) -> None:
        w = self.w
        for _ in range(w.draw.randrange(1, 4)):
            kinds: list[Callable[[Region], None]] = [self.meet, self.meet, self.meet, self.act]
            if self.depth < DEEPEST:
                kinds += [self.branch, self.sides, self.loop, self.loop, *([self.part] if r.who else [])]
                kinds += [self.warps] if r.who is Who.BLOCK and self.threads > 32 else []
            if r.out:
                kinds += [self.leave, self.leave]
            w.draw.choice(kinds)(r)

    # -- decisions ----------------------------------------------------------------------------------------

    def test(self, r: Region, what: str) -> str:
        """A predicate that those who come hold alike, or by mistake some of them."""
        w, who = self.w, r.who
        if w.wrong(f"{what} by lanes"):
            who = Who.LANES
        elif r.who is Who.BLOCK and self.threads > 32 and w.wrong(f"{what} by warps"):
            who = Who.WARPS
        p = w.fresh("p")
        if who is Who.LANES and (r.who is not Who.LANES or w.mistake.startswith(what)):
            of = w.draw.choice(["%lane", "%lane", "%thr", self.value])
            self.data |= of == self.value
        elif who is Who.WARPS and self.threads > 32 and w.chance(0.7):
            of = "%warp"
        else:
            of = w.draw.choice([self.size, r.turn or self.size])
        bounds = {"%lane": (1, 5, 16, 31), "%thr": (1, 16, 32, 40), "%warp": (0, 1)}
        bound = w.draw.choice(bounds.get(of, (0, 1, 2)))
        w.emit(f"setp.{w.draw.choice(['lt.u32', 'ge.u32', 'eq.s32', 'ne.s32'])} {p}, {of}, {bound};")
        return p

    # -- statements ---------------------------------------------------------------------------------------

    def meet(self, r: Region) -> None:
        """A barrier or a collective of those who come."""
        w = self.w
        guard = ""
        if w.chance(0.15):
            p = self.test(r, "a guard")
            guard = f"@{w.draw.choice(['', '!'])}{p} "
        if r.who is Who.BLOCK and w.chance(0.5):
            forms = ["bar.sync 0", "bar.sync 0", "barrier.cta.sync 1", f"bar.sync 2, {self.threads}",
                     f"barrier.sync 3, {self.threads}"]  # fmt: skip
            w.emit(f"{guard}{w.draw.choice(forms)};")
            return
        d = w.fresh("r")
        forms = [f"bar.warp.sync {r.mask}", f"shfl.sync.bfly.b32 {d}, %thr, 1, 31, {r.mask}",
                 f"shfl.sync.bfly.b32 {d}, %thr, 2, 31, {r.mask}", f"redux.sync.add.u32 {d}, %thr, {r.mask}",
                 f"vote.sync.ballot.b32 {d}, %odd, {r.mask}",
                 f"match.any.sync.b32 {d}, %thr, {r.mask}"]  # fmt: skip
        w.emit(f"{guard}{w.draw.choice(forms)};")

    def act(self, _r: Region) -> None:
        w = self.w
        forms = [f"st.shared.u32 [{self.own}], %thr;", f"st.shared.u32 [{self.own}], %thr;",
                 f"st.global.u32 [%out], {self.size};", "red.shared.add.u32 [counter], 1;",
                 f"ld.shared.u32 {w.fresh('r')}, [{self.own}];"]  # fmt: skip
        w.emit(w.draw.choice(forms))

    def branch(self, r: Region) -> None:
        w = self.w
        p, other, out = self.test(r, "a branch"), w.label("O"), w.label("B")
        w.emit(f"@{p} bra {other};")
        self.inside(r)
        if w.chance(0.4):
            w.emit(f"bra {out};", f"{other}:")
            self.inside(r)
            w.emit(f"{out}:")
        else:
            w.emit(f"{other}:")

    def sides(self, r: Region) -> None:
        """A collective on each side of a branch: by the text those without ``.aligned`` are one, if they are
        of one kind."""
        w = self.w
        mask = r.mask
        forms = [f"bar.warp.sync {mask}", f"shfl.sync.bfly.b32 %tv, %thr, 1, 31, {mask}",
                 f"shfl.sync.bfly.b32 %tv, %thr, 3, 31, {mask}", f"redux.sync.add.u32 %tv, %thr, {mask}",
                 f"redux.sync.max.u32 %tv, %thr, {mask}",
                 f"vote.sync.any.pred %p1, %odd, {mask}"]  # fmt: skip
        if r.who is Who.BLOCK:
            forms += [
                "bar.sync 0",
                "barrier.cta.sync 0",
                "barrier.cta.sync 1",
                f"barrier.cta.sync 2, {self.threads}",
            ]
        if r.who:
            forms += [
                "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%ma, %mb}, {%ma, %mb}, {%mc}, {%ma, %mb}"
            ]
        one = w.draw.choice(forms)
        other = one if w.chance(0.6) else w.draw.choice(forms)
        p, there, out = self.test(r, "sides"), w.label("S"), w.label("J")
        more = w.draw.choice(["", "add.u32 %tv, %tv, 1;", f"st.shared.u32 [{self.own}], %thr;"])
        w.emit(f"@{p} bra {there};", f"{one};", more, f"bra {out};", f"{there}:", f"{other};", f"{out}:")

    def loop(self, r: Region) -> None:
        """A loop of some turns, with its test at the head or the tail."""
        w = self.w
        t, n, p = w.fresh("r"), w.fresh("r"), w.fresh("p")
        top, again, out = w.label("T"), w.label("A"), w.label("E")
        w.emit(f"and.b32 {n}, {self.turns(r)}, {w.draw.choice([1, 3])};")
        w.emit(f"add.u32 {n}, {n}, {w.draw.choice([0, 1, 2])};")
        w.emit(f"mov.u32 {t}, 0;", f"{top}:")
        head = w.chance(0.5)
        if head:
            w.emit(f"setp.ge.u32 {p}, {t}, {n};", f"@{p} bra {self.end if w.chance(0.25) else out};")
        self.inside(Region(r.who, r.mask, out, again, t))
        w.emit(f"{again}:", f"add.u32 {t}, {t}, 1;")
        if w.chance(0.3):
            self.act(r)
        if head:
            w.emit(f"bra {top};")
        else:
            w.emit(f"setp.lt.u32 {p}, {t}, {n};", f"@{p} bra {top};")
        w.emit(f"{out}:")

    def turns(self, r: Region) -> str:
        """A number that those who come hold alike, or by mistake some of them."""
        w = self.w
        if w.wrong("turns by lanes"):
            return "%lane"
        several = r.who is Who.BLOCK and self.threads > 32 and w.wrong("turns by warps")
        return "%warp" if several or (r.who is Who.WARPS and self.threads > 32) else self.size

    def warps(self, r: Region) -> None:
        """Some warps go on alone."""
        w = self.w
        p, out = w.fresh("p"), w.label("W")
        test = w.draw.choice(["eq", "ne"])
        w.emit(f"setp.{test}.u32 {p}, %warp, {w.draw.choice([0, 1])};", f"@{p} bra {out};")
        who = Who.BLOCK if w.wrong("a barrier of the block for some warps") else Who.WARPS
        leaves = r.out if w.wrong("warps leave a loop") else ""
        self.inside(Region(who, r.mask, leaves, r.again, r.turn))
        w.emit(f"{out}:")

    def part(self, r: Region) -> None:
        """Lanes of a warp go on alone, with a mask."""
        w = self.w
        p, m, out = w.fresh("p"), w.fresh("r"), w.label("P")
        bound = w.draw.choice([1, 5, 16])
        w.emit(
            f"setp.lt.u32 {p}, %lane, {bound};",
            f"vote.sync.ballot.b32 {m}, {p}, {r.mask};",
            f"@!{p} bra {out};",
        )
        mask = m if w.chance(0.6) else str((1 << bound) - 1)
        if w.wrong("the mask of all lanes"):
            mask = "-1"
        leaves = r.out if w.wrong("lanes leave a loop") else ""
        self.inside(Region(Who.LANES, mask, leaves, r.again, r.turn))
        w.emit(f"{out}:")

    def leave(self, r: Region) -> None:
        """Break, continue, or the end of the kernel, behind a test."""
        w = self.w
        kind = w.draw.choice(["a break", "a continue", "an exit"])
        p = self.test(r, kind)
        sense = w.draw.choice(["", "!"])
        if kind == "an exit":
            w.emit(w.draw.choice([f"@{sense}{p} exit;", f"@{sense}{p} ret;", f"@{sense}{p} bra {self.end};"]))
        else:
            w.emit(f"@{sense}{p} bra {r.out if kind == 'a break' else r.again};")

    def inside(self, r: Region) -> None:
        self.depth += 1
        self.region(r)
        self.depth -= 1


def rounds(w: Writer) -> Program:
    """One to three warps."""
    threads = w.draw.choice([32, 32, 64, 96])
    w.room("own", 4 * threads)
    w.room("counter", 4)
    d, value, own, base = w.fresh("d"), w.fresh("r"), w.fresh("r"), w.fresh("r")
    w.emit(f"mul.wide.u32 {d}, %thr, 4;", f"add.s64 %out, %out, {d};", f"add.s64 {d}, %in, {d};")
    w.emit(f"ld.global.u32 {value}, [{d}];", f"and.b32 {value}, {value}, 3;")
    w.emit(f"mov.u32 {base}, own;", f"mad.lo.u32 {own}, %thr, 4, {base};")
    w.emit("and.b32 %tv, %thr, 1;", "setp.eq.u32 %p1, %tv, 1;")
    w.counts["p"] = max(w.counts.get("p", 0), 1)
    size = w.open_size(0, 1, 2, 3) if w.chance(0.35) else w.constant(w.draw.randrange(4))
    made = Rounds(w, threads, value, size, own, w.label("END"))
    made.loop(Region(Who.BLOCK))
    if w.chance(0.5):
        made.region(Region(Who.BLOCK))
    if w.chance(0.7):
        made.meet(Region(Who.BLOCK))
    w.emit(f"{made.end}:")
    if w.chance(0.3):
        made.act(Region(Who.BLOCK))
    names = {f"%m{x}": w.fresh("r") for x in "abc"}
    lines = [f"mov.u32 {r}, 0;" for r in names.values()] + w.lines
    w.lines = [_named(x, names | {"%odd": "%p1"}) for x in lines if x]
    p = w.finished("rounds", threads)
    p.by_data = made.data
    return p


def heads(w: Writer) -> Program:
    """A loop that threads leave at its head, after as many turns as lanes, warps or a size say. In each turn
    they come to barriers and collectives, and do what others may see. Mistakes: some bypass one."""
    threads = w.draw.choice([32, 64, 64])
    w.room("own", 4 * threads)
    base, own, n, t, p = w.fresh("r"), w.fresh("r"), w.fresh("r"), w.fresh("r"), w.fresh("p")
    w.emit(f"mov.u32 {base}, own;", f"mad.lo.u32 {own}, %thr, 4, {base};")
    size = w.open_size(1, 2, 3) if w.chance(0.2) else w.constant(w.draw.randrange(1, 4))
    turns = w.draw.choice(["%lane", "%lane", "%warp", size])
    w.emit(f"and.b32 {n}, {turns}, {w.draw.choice([1, 3])};", f"add.u32 {n}, {n}, {w.draw.choice([1, 2])};")
    top, out = w.label("T"), w.label("E")
    w.emit(f"mov.u32 {t}, 0;", f"{top}:", f"setp.ge.u32 {p}, {t}, {n};")
    w.emit(w.draw.choice([f"@{p} bra {out};", f"@{p} ret;", f"@{p} exit;"]))
    for x in range(w.draw.randrange(1, 8)):
        _maybe_round(w, x, t)
        if w.chance(0.6):
            w.emit(f"st.shared.u32 [{own}], {t};")
    w.emit(f"add.u32 {t}, {t}, 1;", f"bra {top};", f"{out}:")
    return w.finished("heads", threads)


def _maybe_round(w: Writer, x: int, t: str) -> None:
    """A barrier of the block or a collective of each warp, to which all come, or which some bypass."""
    d, p, skip = w.fresh("r"), w.fresh("p"), w.label("N")
    block = w.chance(0.25)
    forms = [f"shfl.sync.bfly.b32 {d}, %thr, 1, 31, -1", f"redux.sync.add.u32 {d}, %thr, -1",
             "bar.warp.sync -1", f"match.any.sync.b32 {d}, %thr, -1"]  # fmt: skip
    meet = w.draw.choice(["bar.sync 0", "barrier.sync 0"] if block else forms)
    test = f"setp.gt.u32 {p}, %lane, 40;"  # nobody, and an analysis may not know it
    if w.chance(0.3):
        test = f"setp.eq.u32 {p}, {t}, {w.draw.choice([0, 1])};"
    elif not block and w.chance(0.2):
        test = f"setp.eq.u32 {p}, %warp, {w.draw.choice([0, 1])};"
    if w.wrong(f"lanes bypass meeting {x}"):
        test = f"setp.{w.draw.choice(['lt', 'ge'])}.u32 {p}, %lane, {w.draw.choice([1, 5, 16])};"
    if block and w.wrong(f"a warp bypasses meeting {x}"):
        test = f"setp.eq.u32 {p}, %warp, {w.draw.choice([0, 1])};"
    if w.chance(0.25) and not w.mistake.endswith(f"meeting {x}"):
        w.emit(f"{meet};")
    elif w.chance(0.2):
        w.emit(test, f"@!{p} {meet};")
    else:
        w.emit(test, f"@{p} bra {skip};", f"{meet};", f"{skip}:")


def _named(line: str, names: Mapping[str, str]) -> str:
    for name, register in names.items():
        line = line.replace(name, register)
    return line


BYPASS_FAMILIES = {"rounds": rounds}
HEAD_FAMILIES = {"heads": heads}
