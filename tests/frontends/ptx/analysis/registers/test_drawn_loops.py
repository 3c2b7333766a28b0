"""What analyses say of registers, beside what the second reader computes: branches that join, and loops.

Each program has a few registers of each width that statements write again and again: behind predicates, on
sides of branches, and in loops inside of loops that count up or down, by shifts, products, remainders, and
words that are loaded. Words go through shared and local memory, and addresses are made of places. Probes
store all registers, once more in each visit. Each claim is held beside every visit of every thread, also of
loops that turn on: the steps of an execution are bounded, and what was stored until then counts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Mem, Reg, Vector
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.simulate.ptx import Launch, buffer, run
from tests.frontends.ptx.analysis.register_claims import Claims, Seen, Words, names_wrongly

BLOCK, VISITS, STEPS = 64, 12, 4000
#: Probes of a program, at most.
MOST = 8
#: By letter, how many registers there are: words, wide and half words, floats, predicates, addresses.
COUNTS = {"v": 6, "d": 3, "h": 2, "f": 2, "q": 3, "a": 3}
STORED = [f"%{kind}{n}" for kind in "vdhfqa" for n in range(COUNTS[kind])]
#: Bytes of what a probe stores in one visit.
PROBE = 16 * BLOCK * len(STORED)
NUMBERS = [0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 64, 100, 255, 1024, 65536, -1, -2, -4, -8, 0x7FFFFFFF]
ENDS = [0, 1, 3, 4, 7, 8, 10, 16, 32, -1, -4]
#: By letter, what numbers of a statement are: any, a shift, a divisor, a step, a byte, a large shift, bytes,
#: a table.
CONSTANTS = {
    "N": NUMBERS, "S": [0, 1, 2, 4, 8, 16, 31, 32], "K": [1, 2, 3, 4, 7, 8, 32], "T": [1, 1, 2, 3, 4, 8, 255],
    "B": [0, 3, 31, 32, 40, 64, 255], "M": [33, 64, 65, 256, -1],
    "Q": [0x4410, 0x3210, 0x4440, 0x5140, 0xBB10, 0x7654, 0x9180],
    "L": [0xEA, 0x96, 0x80, 0xFE, 0xC0, 0x3C, 1, 0xFF, 0],
}  # fmt: skip
#: ``<v>`` is a register of words, ``<N>`` a number; one of several forms stands in brackets. A second
#: ``<v1>`` is the same register.
MOVES = """add.(s32|u32) <v>, <v>, (<N>|<v>)
sub.(s32|u32) <v>, (<v>|<N>), (<N>|<v>)
(and|or|xor).b32 <v>, <v>, (<N>|<v>)
(shl.b32|shr.u32|shr.s32) <v>, <v>, (<S>|<S>|<M>|<v>)
mul.lo.(s32|u32) <v>, <v>, (<N>|<N>|<v>)
mul.hi.(u32|s32) <v>, <v>, (<v>|<N>)
mad.lo.(s32|u32) <v>, <v>, <N>, <v>
(min|max).(s32|u32) <v>, <v>, (<N>|<v>)
(rem|div).(u32|s32) <v>, <v>, <K>
mov.u32 <v>, (<N>|<v>|<v>)
mov.u32 <v>, (%tid.x|%laneid|%ntid.x|%lanemask_lt)
selp.b32 <v>, (<v>|<N>), (<N>|<v>), <q>
(neg.s32|abs.s32|not.b32|popc.b32|clz.b32|brev.b32|bfind.u32) <v>, <v>
bfe.(u32|s32) <v>, <v>, (<S>|<B>), (<S>|<B>)
bfi.b32 <v>, <v>, <v>, (<S>|<B>), (<S>|<B>)
prmt.b32 <v>, <v>, (<v>|0), <Q>
lop3.b32 <v>, <v>, <v>, <v>, <L>
shf.(l.wrap|l.clamp|r.clamp|r.wrap).b32 <v>, <v>, <v>, (<S>|<M>|<v>)
sad.(u32|s32) <v>, <v>, <v>, <v>
dp4a.(u32.u32|s32.s32|u32.s32) <v>, <v>, <v>, <v>
mul24.lo.(u32|s32) <v>, <v>, (<v>|<N>)
(add.u16x2|min.s16x2|max.u16x2) <v>, <v>, <v>
set.(lt|eq|ge).u32.(s32|u32) <v>, <v>, (<N>|<v>)
slct.b32.s32 <v>, <v>, <v>, <v>
add.cc.u32 <v>, <v>, <v>; addc.u32 <v>, <v>, <N>
cvt.(u8.u32|s8.s32|u16.u32|s16.s32|s8.u32|u32.u8|s32.s8) <v>, <v>
cvt.(u32.u16|s32.s16|s8.u16) <v>, <h>
cvt.(u32.u64|s32.s64|u8.u64|s16.s64) <v>, <d>
cvt.(rzi.u32|rni.s32).f32 <v>, <f>
mov.b32 <v>, (<f>|{<h>, <h>})
mov.b64 {<v1>, <v2>}, <d>
mov.b32 {<h1>, <h2>}, <v>
cvt.(u64.u32|s64.s32|u64.s32|u64.u8) <d>, <v>
(add.u64|sub.s64|mul.lo.u64) <d>, <d>, (<d>|<N>)
(and|or|xor).b64 <d>, <d>, (<d>|<N>)
(min|max).(u64|s64) <d>, <d>, (<d>|<N>)
(shl.b64|shr.u64|shr.s64) <d>, <d>, (<S>|<M>|<v>)
mul.wide.(u32|s32) <d>, <v>, (<v>|<N>)
mad.wide.(u32|s32) <d>, <v>, (<v>|<N>), <d>
mad.lo.(u64|s64) <d>, <d>, <N>, <d>
selp.b64 <d>, <d>, (<d>|<N>), <q>
mov.b64 <d>, {<v>, <v>}
mov.u64 <d>, (<N>|<d>)
(rem|div).u64 <d>, <d>, <K>
bfe.u64 <d>, <d>, (<S>|<B>), <S>
cvt.(u16.u32|s16.s32|u16.u8) <h>, <v>
(add.s16|sub.u16|mul.lo.u16|min.s16|max.u16) <h>, <h>, (<h>|<T>)
(and|or|xor).b16 <h>, <h>, (<h>|<T>)
(shl.b16|shr.u16|shr.s16) <h>, <h>, (<S>|<M>|<v>)
mul.wide.(u16|s16) <v>, <h>, (<h>|<T>)
mad.wide.(u16|s16) <v>, <h>, <T>, <v>
mov.u16 <h>, (<h>|<T>)
cvt.rn.f32.(u32|s32) <f>, <v>
mov.b32 <f>, <v>
(add|mul|max).f32 <f>, <f>, <f>
selp.f32 <f>, <f>, <f>, <q>
setp.(eq|ne|lt|le|gt|ge).(u32|s32) <q>, <v>, (<v>|<N>)
setp.(lt|ls|hi).u32 <q>, <v>, (<v>|<N>)
setp.(lt|ge).(u64|s64) <q>, <d>, (<d>|<N>)
setp.(lt|ne).(u16|s16) <q>, <h>, (<h>|<T>)
setp.(lt|ge).(and|or|xor).s32 <q>, <v>, (<v>|<N>), (<q>|!<q>)
setp.lt.u32 <q1>|<q2>, <v>, (<v>|<N>)
(and|or|xor).pred <q>, <q>, <q>
not.pred <q>, <q>
(add|sub).u32 <a>, <a>, (<v>|<N>)
add.u32 <a>, <v>, <a>
mad.lo.u32 <a>, <v>, <T>, <a>
mov.u32 <a>, (<a>|left|right|left+4|rows+64)
selp.b32 <a>, <a>, <a>, <q>
and.b32 <a>, <a>, -4
shfl.sync.(idx|down|up|bfly).b32 <v>, <v>, (1|2|4|16), (31|7199), (-1|%full)
shfl.sync.bfly.b32 %x0, <v1>, (1|2|4|16), 31, -1; (add.u32|min.s32|max.u32|xor.b32) <v>, %x0, <v1>
vote.sync.ballot.b32 <v>, <q>, (-1|%full)
st.shared.u32 [%own], <v>; ld.shared.(u32|s8|u8|u16) <v>, [%own]
st.shared.v2.u32 [%own], {<v>, <v>}; ld.shared.v2.u32 {<v1>, <v2>}, [%own]
st.local.u32 [kept], <v>; ld.local.(u32|s8|u16) <v>, [kept]
st.local.u64 [kept+8], <d>; ld.local.(u64 <d>|u32 <v>|u16 <v>), [kept+8]
st.shared.u32 [%own+512], <a>; ld.shared.u32 <a>, [%own+512]
st.local.u32 [kept], <a>; ld.local.u32 <a>, [kept]
atom.shared.(add|max|exch).u32 <v>, [rows], <v>
ld.global.(u32|u8|s16) <v>, [%to1]
ld.global.(u32|nc.u32|u8|s8|u16) <v>, [%row]
ld.param.u32 <v>, [n]""".splitlines()
#: What passes write in another form: signs, guards, generic addresses, words that a thread loads again.
PASSED = [
    "or.b32 %x0, <v>, <v>; setp.(lt.s32 <q>, %x0, 0|ge.s32 <q>, %x0, 0|gt.s32 <q>, %x0, -1)",
    "setp.(ne|lt).s32 %z0, %p0, 96; setp.ge.s32 %z1, <v>, 9;"
    " (or|and).pred %z2, %z0, %z1; @(!|)%z2 st.shared.u32 [%own], <v>",
    "setp.gt.s32 %z3, <v>, 3; @(!|)%z3 ld.shared.u32 <v>, [%own]",
    "cvt.u64.u32 %g, %own; cvta.shared.u64 %g, %g;"
    " st.(u32|u8) [%g], <v>; ld.(u32 <v>, [%g]|shared.u32 <v>, [%own])",
    "mov.u64 %g, kept; cvta.local.u64 %g, %g; st.u32 [%g+8], <v>;"
    " ld.(u32 <v>, [%g+8]|local.u32 <v>, [kept+8])",
    "st.shared.u32 [%own], <v>; ld.shared.u32 <v>, [%own]",
]
TESTS = ["lt.s32", "le.s32", "gt.s32", "ge.s32", "lt.u32", "ge.u32", "hi.u32", "ls.u32", "eq.s32", "ne.s32"]
#: What turns a loop's counter on.
TURNS = [
    "add.s32 <v1>, <v1>, <T>", "add.s32 <v1>, <v1>, -<T>", "sub.s32 <v1>, <v1>, <T>", "shl.b32 <v1>, <v1>, 1",
    "shr.u32 <v1>, <v1>, 1", "mul.lo.s32 <v1>, <v1>, <T>", "add.u32 <v1>, <v1>, %ntid.x",
    "xor.b32 <v1>, <v1>, <T>", "add.s32 <v1>, <v1>, <v>",
]  # fmt: skip
#: Loops that end: where a counter begins, its turn, and the comparison that goes on.
COUNTED = [
    ("0", "add.s32 <v1>, <v1>, <T>", "lt.s32", [4, 7, 8, 10]),
    ("%tid.x", "add.s32 <v1>, <v1>, 32", "lt.u32", [64, 100, 255]),
    ("8", "sub.s32 <v1>, <v1>, <T>", "gt.s32", [0, 1, -1, -4]),
    ("7", "add.s32 <v1>, <v1>, -<T>", "ge.s32", [0, 1, 2]),
    ("16", "shr.u32 <v1>, <v1>, 1", "ne.s32", [0]),
    ("1", "shl.b32 <v1>, <v1>, 1", "lt.u32", [8, 10, 16, 32]),
    ("1", "mul.lo.s32 <v1>, <v1>, 2", "le.s32", [8, 32]),
    ("0", "add.s32 <v1>, <v1>, 1", "ne.s32", [3, 4, 8]),
    ("-4", "add.s32 <v1>, <v1>, 1", "lt.s32", [0, 3]),
    ("0", "add.u32 <v1>, <v1>, 2", "ls.u32", [7, 8]),
    ("0", "sub.s32 <v1>, <v1>, 1", "gt.s32", [-4]),
    ("31", "add.s32 <v1>, <v1>, -8", "hi.u32", [0, 7]),
    ("", "and.b32 <v1>, <v1>, 7; add.s32 <v1>, <v1>, 1", "lt.u32", [8]),
    ("%tid.x", "shr.s32 <v1>, <v1>, 1", "gt.s32", [0, 1]),
    ("<v>", "add.s32 <v1>, <v1>, 1", "lt.s32", [10]),
    ("0", "add.u64 <v1>, <v1>, <T>", "lt.u64", [4, 8, 100]),
    ("8", "add.s64 <v1>, <v1>, -1", "gt.s64", [0, -2]),
    ("0", "add.s16 <v1>, <v1>, <T>", "lt.s16", [4, 8]),
    ("7", "sub.u16 <v1>, <v1>, 1", "ne.u16", [0, 3]),
]
#: By the width of a counter, its registers and how it is moved.
COUNTERS = {"64": "d", "16": "h", "32": "v"}
HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n)
{
.reg .pred %q<4>; .reg .b32 %v<8>; .reg .b64 %d<4>; .reg .b16 %h<3>; .reg .f32 %f<3>; .reg .b32 %a<4>;
.reg .b32 %m, %full, %own, %p<9>, %x<2>, %t; .reg .b64 %m64, %row, %g, %to<12>;
.reg .pred %z<4>; .reg .b16 %m16; .reg .f32 %mf;
.shared .align 4 .b8 left[64]; .shared .align 16 .b8 right[128]; .shared .align 8 .b8 own[1024];
.shared .align 4 .b8 rows[256]; .local .align 8 .b8 kept[16];
mov.u32 %m, 1; mov.u32 %full, -1; mov.u64 %m64, 1; mov.u16 %m16, 1; mov.b32 %mf, 1; mov.u32 %v0, %tid.x;
ld.param.u64 %to0, [out]; ld.param.u64 %to1, [in]; shl.b32 %p0, %v0, 3; mov.u32 %p1, own;
add.u32 %own, %p0, %p1;
ld.global.u32 %v1, [%to1]; mul.wide.u32 %to2, %v0, 4; add.u64 %row, %to1, %to2; add.u64 %row, %row, 256;
ld.global.u32 %v2, [%row]; ld.param.u32 %v3, [n]; mov.u32 %v4, 0; and.b32 %v5, %v2, 31;
setp.lt.u32 %q0, %v0, 32; setp.eq.u32 %q1, %v1, 4; setp.gt.s32 %q2, %v2, 8; cvt.u64.u32 %d0, %v0;
mov.u64 %d1, 8; cvt.s64.s32 %d2, %v2; cvt.u16.u32 %h0, %v0; mov.u16 %h1, 3;
mov.u32 %a0, left; mov.u32 %a1, rows;
add.u32 %a2, %p0, %a1; cvt.rn.f32.u32 %f0, %v0; mov.b32 %f1, %v2; st.shared.u64 [%own], %d0;
mov.u64 %to2, %to0; mul.wide.u32 %to0, %v0, 16; add.u64 %to0, %to0, %to2; st.local.u64 [kept+8], %d2;
"""
#: The places of variables are stored before all else.
PLACES = ["left", "right", "own", "rows"]
SENT = {"v": ("v2.b32", "%m"), "a": ("v2.b32", "%m"), "d": ("v2.b64", "%m64"), "h": ("v2.b16", "%m16"),
        "f": ("v2.f32", "%mf"), "q": ("v2.b32", "%m")}  # fmt: skip


@dataclass
class Program:
    """Statements as they are drawn; ``probes``: how many there are."""

    draw: random.Random
    lines: list[str] = field(default_factory=list)
    probes: int = 0
    labels: int = 0

    def register(self, kind: str) -> str:
        return f"%{kind}{self.draw.randrange(COUNTS[kind])}"

    def formed(self, form: str, **given: str) -> str:
        """A statement with its choices made; ``given``: registers by their place holders."""
        draw, known = self.draw, dict(given)
        form = re.sub(r"\(([^()]*)\)", lambda m: draw.choice(m[1].split("|")), form)

        def put(m: re.Match[str]) -> str:
            name = m[1]
            if name in CONSTANTS:
                return str(draw.choice(CONSTANTS[name]))
            if len(name) > 1:
                others = {x for n, x in known.items() if n != name}
                while name not in known:
                    found = self.register(name[0])
                    if found not in others:
                        known[name] = found
                return known[name]
            return self.register(name)

        return re.sub(r"<(\w+)>", put, form)

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def guard(self) -> str:
        return f"@{self.draw.choice(['', '!'])}{self.register('q')} "

    def move(self, *, guarded: bool) -> None:
        form = self.draw.choice(MOVES if self.draw.random() < 0.85 else PASSED)
        lines = self.formed(form).split("; ")
        guard = self.guard() if guarded else ""
        self.lines += [f"{line};" if line.startswith("@") else f"{guard}{line};" for line in lines]

    def probe(self) -> None:
        if self.probes >= MOST:
            return
        guard = self.guard() if self.draw.random() < 0.2 else ""
        at = f"%to{self.probes + 3}"
        for n, name in enumerate(STORED):
            how, mark = SENT[name[1]]
            place = f"[{at}+{16 * BLOCK * n}]"
            if name[1] == "q":
                self.lines.append(f"selp.b32 %t, 1, 0, {name};")
            self.lines.append(
                f"{guard}st.global.{how} {place}, {{{'%t' if name[1] == 'q' else name}, {mark}}};"
            )
        self.lines.append(f"add.u64 {at}, {at}, STRIDE;")
        self.probes += 1

    def compared(self, of: str = "", numbers: list[int] = NUMBERS, how: str = "") -> str:
        """A comparison; its predicate. ``of``: what is compared; ``how``: the test and its type."""
        q = self.register("q")
        of = of or self.register("v")
        by = self.register(of[1]) if self.draw.random() < 0.25 else str(self.draw.choice(numbers))
        joined = self.draw.random() < 0.12
        test, type_ = (how or self.draw.choice(TESTS)).split(".")
        more = f"{test}.{self.draw.choice(['and', 'or'])}.{type_}" if joined else f"{test}.{type_}"
        last = f", {self.register('q')}" if joined else ""
        self.lines.append(f"setp.{more} {q}, {of}, {by}{last};")
        return q

    def statements(self, depth: int, most: int = 5) -> None:
        for _ in range(self.draw.randint(1, most)):
            kind = self.draw.choice("mmmmmmgscbeellp") if depth else self.draw.choice("mmmmgsp")
            if kind in "mg":
                self.move(guarded=kind == "g")
            elif kind == "s" or kind == "c":
                self.compared()
            elif kind in "be":
                self.branch(depth, other=kind == "e")
            elif kind == "l":
                self.loop(depth)
            else:
                self.probe()

    def branch(self, depth: int, *, other: bool) -> None:
        q, past, end = self.compared(), self.label(), self.label()
        self.lines.append(f"@{self.draw.choice(['', '!'])}{q} bra {past};")
        self.statements(depth - 1)
        self.lines += [f"bra {end};", f"{past}:"] if other else [f"{past}:"]
        if other:
            self.statements(depth - 1)
            self.lines.append(f"{end}:")
        if self.draw.random() < 0.5:
            self.probe()

    def counted(self, depth: int) -> None:
        """A loop that ends, unless what is in it moves its counter."""
        draw, begin = self.draw, self.label()
        first, turn, how, ends = draw.choice(COUNTED)
        bits = how[-2:]
        counter = self.register(COUNTERS[bits])
        if first:
            self.lines.append(self.formed(f"mov.u{bits} <v1>, {first}", v1=counter) + ";")
        self.lines.append(f"{begin}:")
        self.probe()
        early = draw.random() < 0.5
        if early:
            self.lines.append(self.formed(turn, v1=counter) + ";")
        if draw.random() < 0.8:
            self.statements(depth - 1, 3)
        if not early:
            self.lines.append(self.formed(turn, v1=counter) + ";")
        q = self.compared(counter, ends, how)
        self.lines.append(f"@{q} bra {begin};")
        if draw.random() < 0.5:
            self.probe()

    def loop(self, depth: int) -> None:
        if self.draw.random() < 0.65:
            self.counted(depth)
        else:
            self.free(depth)

    def free(self, depth: int) -> None:
        """A loop that ends by a comparison in front, behind, or both; perhaps with a second way back."""
        counter, begin, end = self.register("v"), self.label(), self.label()
        if self.draw.random() < 0.75:
            start = self.draw.choice([0, 0, 1, 2, 7, 8, 16, 31, -1, "%tid.x"])
            self.lines.append(f"mov.u32 {counter}, {start};")
        self.lines.append(f"{begin}:")
        self.probe()
        where = self.draw.choice(["front", "behind", "behind", "twice", "both"])
        if where in ("front", "both"):
            q = self.compared(counter, ENDS)
            self.lines.append(f"@{self.draw.choice(['', '!'])}{q} bra {end};")
        if self.draw.random() < 0.7:
            self.statements(depth - 1, 3)
        turn = self.formed(self.draw.choice(TURNS), v1=counter)
        if where == "twice":
            self.lines.append(f"{turn};")
            side = self.label()
            q = self.compared()
            self.lines.append(f"@{q} bra {side};")
            q = self.compared(counter, ENDS)
            self.lines += [f"@{q} bra {begin};", f"bra {end};", f"{side}:"]
            if self.draw.random() < 0.5:
                self.statements(depth - 1, 2)
        else:
            guard = self.guard() if self.draw.random() < 0.15 else ""
            self.lines.append(f"{guard}{turn};")
        if where == "front":
            self.lines.append(f"bra {begin};")
        else:
            q = self.compared(counter, ENDS)
            self.lines.append(f"@{self.draw.choice(['', '!'])}{q} bra {begin};")
        self.lines.append(f"{end}:")
        if self.draw.random() < 0.7:
            self.probe()

    @property
    def stride(self) -> int:
        return PROBE * self.probes

    @property
    def text(self) -> str:
        starts = [f"mov.u32 %t, {name}; st.global.u32 [%to2+{4 * n}], %t;" for n, name in enumerate(PLACES)]
        starts += [f"add.u64 %to{p + 3}, %to0, {16 + PROBE * p};" for p in range(self.probes)]
        body = [line.replace("STRIDE", str(self.stride)) for line in self.lines]
        return HEAD + "\n".join([*starts, *body, "ret;\n}\n"])


def drawn(draw: random.Random) -> Program:
    program = Program(draw)
    program.statements(2, 3)
    program.loop(draw.choice([2, 2, 3]))
    program.statements(1, 2)
    program.probe()
    return program


@dataclass(frozen=True)
class Execution:
    """By probe and register, what was held by visit and thread, and who came.

    ``places``: where variables lie; ``ended``: all threads have.
    """

    words: Mapping[tuple[int, str], Words]
    seen: Mapping[tuple[int, str], Seen]
    places: Mapping[str, int]
    ended: bool


def data_of(draw: random.Random) -> tuple[list[int], int]:
    """Words of a buffer, and a parameter."""
    data = [draw.choice(NUMBERS) & 0xFFFFFFFF if draw.random() < 0.7 else draw.getrandbits(32)
            for _ in range(64 + BLOCK)]  # fmt: skip
    return data, draw.choice([0, 1, 3, 5, 8, 100, -1]) & 0xFFFFFFFF


def executed(program: Program, given: tuple[list[int], int], seed: int = 1) -> Execution:
    """An execution; ``seed``: where it has its variables."""
    out = buffer(np.zeros(VISITS * program.stride // 8 + 2, np.uint64))
    params = (out, buffer(np.array(given[0], np.uint32)), given[1])
    launch = Launch((BLOCK, 1, 1), params=params, watches=frozenset(), apart=True)
    done = run(program.text, "k", launch, seed=seed, limit=STEPS)
    memory, ended = done.memory(out), done.harm is None and not done.limit
    places = dict(zip(PLACES, map(int, memory[:2].view(np.uint32)), strict=True))
    held = memory[2:].reshape(VISITS, program.probes, len(STORED), BLOCK, 2)
    words, seen = {}, {}
    for n, name in enumerate(STORED):
        size = {"v": 32, "a": 32, "d": 64, "h": 16, "f": 32, "q": 32}[name[1]]
        mask = np.uint64((1 << size) - 1)
        mark = held[..., 1] if size == 64 else held[..., 0] >> np.uint64(size) & mask
        for p in range(program.probes):
            words[p, name] = held[:, p, n, :, 0] & mask
            seen[p, name] = mark[:, p, n] == 1
    return Execution(words, seen, places, ended)


def probed(flow: Flow) -> Iterator[tuple[int, int, Reg]]:
    """The instructions at which a probe reads registers, with its number."""
    for k, i in enumerate(flow.body):
        place = i.operands[0] if i.operands else None
        if i.op != "st" or not isinstance(place, Mem) or not isinstance(i.operands[1], Vector):
            continue
        if not isinstance(place.base, Reg) or not place.base.name.startswith("%to"):
            continue
        probe, register = int(place.base.name[3:]) - 3, i.operands[1].items[0]
        assert isinstance(register, Reg)
        if register.name == "%t":
            k = next(at for at in range(k, -1, -1) if flow.body[at].op == "selp")
            register = flow.body[k].operands[3]
            assert isinstance(register, Reg)
        yield probe, k, register


def wrong(program: Program, one: Execution, two: Execution | None = None) -> Iterator[tuple[str, int, str]]:
    """What is said of a register where a probe reads it, and does not hold: with the probe. ``two``: the same
    with its variables elsewhere."""
    flow = Flow(parse(program.text).entries[0])
    claims = Claims(flow, (BLOCK, 1, 1), one.places)
    for probe, k, register in probed(flow):
        words, seen = one.words[probe, register.name], one.seen[probe, register.name]
        if flow.block_of[k] not in flow.reached:
            continue
        for found in claims.wrong(k, register, words, seen):
            yield found, probe, register.name
        if one.ended and register.name == STORED[0] and not claims.comes_alike(k, seen):
            yield "comes as often", probe, ""
        if two is not None and register.name[1] == "a":
            other = two.words[probe, register.name], two.seen[probe, register.name]
            for found in names_wrongly(claims, k, register, (words, seen), other, two.places):
                yield found, probe, register.name


def judged(seed: int) -> list[tuple[str, int, str]]:
    draw = random.Random(seed)
    program = drawn(draw)
    found = []
    for n in range(2):
        given = data_of(draw)
        alike = not n and "atom" not in program.text  # what an atomic brings depends on who comes first
        two = executed(program, given, seed=2) if alike else None
        found += [*wrong(program, executed(program, given), two)]
    return found


#: Some that have shown false claims: of parts of a constant, of bits of floats.
@pytest.mark.parametrize("seed", [1, 18])
def test_what_is_said_in_loops_holds(seed: int) -> None:
    assert judged(seed) == []


#: A number that one of two ways back ends at, and only other turns come to.
TWO_WAYS = """mov.u32 %v4, 0;
L1:
PROBE
add.s32 %v4, %v4, 1; and.b32 %v5, %v4, 1; setp.eq.u32 %q0, %v5, 0; @%q0 bra L2;
setp.ne.s32 %q1, %v4, 4; @%q1 bra L1; bra L3;
L2:
setp.ne.s32 %q1, %v4, 7; @%q1 bra L1;
L3:"""


def test_what_is_said_with_two_ways_back_holds() -> None:
    program = Program(random.Random(1))
    before, after = TWO_WAYS.split("PROBE")
    program.lines.append(before)
    program.probe()
    program.lines.append(after)
    found = executed(program, data_of(random.Random(2)))
    assert found.seen[0, "%v0"].any(axis=1).sum() > 9
    assert list(wrong(program, found)) == []


@pytest.mark.slow
def test_what_is_said_in_many_loops_holds() -> None:
    assert {seed: found for seed in range(100, 400) if (found := judged(seed))} == {}
