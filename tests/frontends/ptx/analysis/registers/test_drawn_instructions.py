"""What analyses say of registers, beside what the second reader computes: instructions of all kinds, drawn.

Each program loads a word that all threads share and one for each thread, and goes on by instructions of which
each reads what others wrote, also through shared and local memory. All results are stored. Each claim of a
register is held beside that, and so are sums, and values that threads compute alike.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import pytest

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Reg
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.model.events import EACH_BLOCK
from syncverify.simulate.ptx import Launch, buffer, run
from tests.frontends.ptx.analysis.register_claims import Claims, Words

BLOCK = 64
#: Shapes of a block, which are drawn: of whole warps, and others. None has more threads.
SHAPES = [
    (64, 1, 1),
    (32, 2, 1),
    (8, 8, 1),
    (16, 2, 2),
    (4, 4, 4),
    (2, 32, 1),
    (1, 64, 1),
    (1, 1, 64),
    (8, 2, 2),
]
ODD = [(6, 10, 1), (3, 7, 3), (48, 1, 1), (33, 1, 1), (20, 3, 1), (5, 3, 4), (40, 1, 1)]
#: Results are named by small letters, operands by capitals: words, wide and half words, floats, predicates,
#: and numbers (C any, M of 15 bits, K a divisor, N a shift, W a wide one, B a byte, Q bytes, L a table, S a
#: lane). Each line has forms that differ in what stands in braces.
STEPS = """{add.u32 add.s32 sub.u32 sub.s32 mul.lo.u32 mul.hi.u32 mul.hi.s32 and.b32 or.b32 xor.b32} r, R, R;
{add.u32 sub.s32 mul.lo.s32 and.b32 or.b32 xor.b32 min.u32 min.s32 max.u32 max.s32 mul24.lo.u32} r, R, C;
{shl.b32 shr.u32 shr.s32} r, R, {N R};
{add.s16 sub.u16 mul.lo.u16 and.b16 xor.b16 max.u16} h, H, {H M};
{add.u64 sub.s64 mul.lo.u64 and.b64 or.b64 min.s64} d, X, {X C};
{shl.b64 shr.u64 shr.s64} d, X, W;
{add.u16x2 min.s16x2 max.u16x2} r, R, R;
{mul.wide.u32 mul.wide.s32} d, R, C;
{mul.wide.u16 mul.wide.s16} r, H, M;
{mad.lo.u32 mad.lo.s32 mad.hi.u32} r, R, C, R;
{mad.wide.u32 mad.wide.s32} d, R, C, X;
{div.u32 rem.u32 div.s32 rem.s32} r, R, K;
{abs.s32 neg.s32 not.b32 popc.b32 clz.b32 brev.b32 bfind.u32 bfind.s32 bfind.shiftamt.u32} r, R;
{bfe.u32 bfe.s32} r, R, {N B}, N;
bfi.b32 r, R, R, {N B}, N;
prmt.b32 r, R, {R 0}, Q;
lop3.b32 r, R, R, R, L;
{shf.l.wrap.b32 shf.r.clamp.b32} r, R, R, N;
cvt.{u8.u32 s8.u32 u16.u32 s16.u32 s8.u8 u8.s8 s16.s8 u32.u8 s32.s8 u32.u16} r, R;
cvt.{u16.u32 s16.s32} h, R;
cvt.{u32.u16 s32.s16 s8.u16} r, H;
cvt.{u32.u64 s32.s64 s16.s64 u8.u64} r, X;
cvt.{u64.u32 s64.s32 u64.s8} d, R;
cvt.pack.sat.{u8.s32.b32 r, R, R, R/s16.s32 r, R, R};
cvt.rn.f32.{u32 s32 u8} f, R;
cvt.{rzi.u32.f32 rzi.s32.f32 rni.sat.u8.f32} r, F;
mov.b32 {r, F/f, R/r, {H, H}};
mov.b64 d, {R, R};
{add.rn.f32 mul.rn.f32 max.f32} f, F, F;
setp.{eq lt le gt ge hi ls}.u32 p, R, C;
setp.{ne lt le gt ge}.s32 p, R, {C R};
setp.{lt ge}.and.u32 p|p, R, C, P;
{and.pred or.pred xor.pred} p, P, P;
set.{lt ge}.u32.s32 r, R, C;
{selp.b32 selp.u32} r, R, {R C}, P;
slct.b32.s32 r, R, R, R;
@P mov.u32 r, R;
shfl.sync.{idx down up bfly}.b32 r|p, R, S, {31 7199 6175}, -1;
vote.sync.{ballot.b32 r any.pred p all.pred p}, P, -1;
match.any.sync.b32 r, R, -1;
redux.sync.{add.u32 max.s32 and.b32} r, R, -1;
add.cc.u32 r, R, R; addc.u32 r, R, C;
lop3.or.b32 r|p, R, R, R, L, P;
mov.u32 r, {%ctaid.x %cluster_ctarank %nctaid.x};
mov.u32 r, {%lanemask_lt %laneid %ntid.x %tid.x %tid.y %tid.z %ntid.y};
mov.u32 r, C;
mov.u64 d, {C one two};
{sad.u32 sad.s32 dp4a.u32.u32 dp4a.s32.s32 dp4a.u32.s32} r, R, R, R;
{mad24.lo.u32 mad24.hi.s32} r, R, C, R;
{shl.b16 shr.u16 shr.s16} h, H, {N R};
{neg.s16 not.b16} h, H;
{mad.wide.u16 mad.wide.s16} r, H, M, R;
{mad.lo.u64 mad.lo.s64} d, X, C, X;
{max.u64 max.s64 min.u64 xor.b64} d, X, {X C};
{div.u64 rem.u64 rem.s64} d, X, K;
{neg.s64 abs.s64 not.b64} d, X;
{popc.b64 clz.b64 bfind.u64} r, X;
{bfe.u64 bfe.s64} d, X, {N B}, N;
bfi.b64 d, X, X, {N B}, N;
selp.b64 d, X, {X C}, P;
setp.{lt ge}.{u64 s64} p, X, {X C};
setp.{lt ne}.{u16 s16} p, H, {H M};
selp.f32 f, F, F, P;
not.pred p, P;
{shl.b32 shr.u32 shr.s32} r, R, {B C};
{shl.b64 shr.s64} d, X, {R C};
{add.u32 sub.u32} r, one, R;
mad.lo.u32 r, R, C, two;
ld.global.u32 r, [%to2];
ld.global.nc.{u8 s16 u32} r, [%to4+256];
st.shared.u32 [%own], R; ld.shared.{u32 s8 u16} r, [%own];
st.local.u64 [kept], X; ld.local.{u64 d/u32 r/s16 r}, [kept];
mov.b64 {UNPACK}, X;""".splitlines()
NUMBERS = {
    "C": [0, 1, 2, 3, 4, 7, 8, 12, 31, 32, 63, 64, 255, 0x7FFFFFFF, 0x80000000, -1, -4, 0xFFFF, 65536, 100],
    "M": [0, 1, 2, 7, 8, 255, 0x7FFF, 100],
    "K": [1, 2, 3, 4, 7, 8, 32, 100],
    "N": [0, 1, 2, 3, 4, 5, 8, 16, 24, 30, 31, 32, 33],
    "W": [0, 1, 2, 5, 16, 31, 32, 40, 63, 64, 65],
    "B": [0, 31, 32, 40, 64, 255],
    "Q": [0x4410, 0x3210, 0x4440, 0x5140, 0xBB10, 0x8888, 0x3333, 0x7654, 0x9180, 0x0123],
    "L": [0xEA, 0x96, 0x80, 0xFE, 0xC0, 0x3C, 0x1, 0xFF, 0],
    "S": [0, 1, 2, 4, 8, 16, 31],
}
WORDS = [0, 1, 2, 5, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1]
FIRST = {"r": ["%r1", "%r2", "%r3", "%r6", "%r7"], "d": ["%rd9"], "h": ["%h1"], "f": ["%f1"], "p": ["%p1"]}
OPERANDS = {"R": "r", "X": "d", "H": "h", "F": "f", "P": "p"}
PREFIX = {"r": "%r", "d": "%rd", "h": "%h", "f": "%f", "p": "%p"}
TYPES = {"r": "u32", "d": "u64", "h": "u16", "f": "f32"}
BITS = {"r": 32, "d": 64, "h": 16, "f": 32, "p": 1}
HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in)
{
.reg .pred %p<200>; .reg .b16 %h<200>; .reg .b32 %r<300>; .reg .b64 %rd<200>; .reg .f32 %f<200>;
.reg .b64 %to<9>; .reg .b32 %own, %lin;
.shared .align 4 .b8 one[64]; .shared .align 16 .b8 two[64]; .shared .align 4 .b8 own[256];
.local .align 8 .b8 kept[8];
mov.u32 %r1, %tid.x; mov.u32 %r6, %tid.y; mov.u32 %r7, %tid.z; mov.u32 %lin, %ntid.y;
mad.lo.u32 %lin, %lin, %r7, %r6; mov.u32 %own, %ntid.x; mad.lo.u32 %lin, %lin, %own, %r1;
ld.param.u64 %to1, [out]; ld.param.u64 %to2, [in]; ld.global.u32 %r2, [%to2];
mul.wide.u32 %to3, %lin, 4; add.u64 %to4, %to2, %to3; ld.global.u32 %r3, [%to4+256];
mul.wide.u32 %to3, %lin, 8; add.u64 %to1, %to1, %to3; mov.u32 %own, %ctaid.x;
mad.wide.u32 %to1, %own, BEHIND, %to1;
cvt.u64.u32 %rd9, %r1; cvt.u16.u32 %h1, %r1; cvt.rn.f32.u32 %f1, %r1; setp.lt.u32 %p1, %r1, 32;
mov.u32 %own, own; mad.lo.u32 %own, %lin, 4, %own; st.shared.u32 [%own], %r1; st.local.u32 [kept], %r1;
st.local.u32 [kept+4], %r3; mov.u32 %r4, one; mov.u32 %r5, two;
st.global.u32 [%to1+PLACES], %r4; st.global.u32 [%to1+PLACES+4], %r5;
"""


@dataclass
class Drawn:
    """A program: its text, its results by kind and name, in the order of the stores, and its block."""

    text: str
    made: list[tuple[str, str]]
    shape: tuple[int, int, int] = (BLOCK, 1, 1)

    @property
    def threads(self) -> int:
        return prod(self.shape)


def _form(draw: random.Random, step: str) -> str:
    """One of the forms of a step."""

    def chosen(m: re.Match[str]) -> str:
        text = str(m[1])
        return draw.choice(text.split("/" if "/" in text else " "))

    if step.startswith(("mov.b32", "mov.b64")):  # vectors have braces of their own
        return draw.choice(["mov.b32 r, F;", "mov.b32 f, R;", "mov.b32 r, {H, H};", "mov.b64 d, {R, R};"])
    if "UNPACK" in step:
        return draw.choice(["mov.b64 {r, r}, X;", "mov.b32 {h, h}, R;"])
    if step.startswith("vote"):
        return draw.choice([f"vote.sync.{x}, P, -1;" for x in ("ballot.b32 r", "any.pred p", "all.pred p")])
    return re.sub(r"\{([^{}]*)\}", chosen, step)


def drawn(draw: random.Random, steps: int) -> Drawn:
    pools = {kind: list(names) for kind, names in FIRST.items()}
    made: list[tuple[str, str]] = []
    lines: list[str] = []
    alone = draw.random() < 0.4  # without collectives, so that lanes may be missing
    some = [x for x in STEPS if ".sync" not in x] if alone else STEPS
    for _ in range(steps):
        new: list[tuple[str, str]] = []

        def put(m: re.Match[str], new: list[tuple[str, str]] = new, first: int = 10 + len(made)) -> str:
            letter = m[0]
            if letter in OPERANDS:
                pool = pools[OPERANDS[letter]]
                return draw.choice(pool[-4:] if draw.random() < 0.6 else pool)
            if letter in NUMBERS:
                return str(draw.choice(NUMBERS[letter]))
            new.append((letter, f"{PREFIX[letter]}{first + len(new)}"))
            return new[-1][1]

        form = _form(draw, draw.choice(some))
        line = re.sub(r"(?<![\w.%])[RXHFPrdhfpCMKNWBQLS](?![\w.])", put, form)
        if line.startswith("@"):
            line = f"mov.u32 {new[0][1]}, {draw.choice(pools['r'])}; {line}"
        lines.append(line)
        for kind, name in new:
            pools[kind].append(name)
        made += new
    for n, (kind, name) in enumerate(made):
        at = f"[%to1+{8 * BLOCK * n}]"
        as_word = f"selp.u32 %r299, 1, 0, {name}; st.global.u32 {at}, %r299;"
        lines.append(as_word if kind == "p" else f"st.global.{TYPES[kind]} {at}, {name};")
    head = HEAD.replace("PLACES", str(8 * BLOCK * len(made))).replace(
        "BEHIND", str(8 * BLOCK * len(made) + 8 * BLOCK)
    )
    return Drawn(head + "\n".join([*lines, "ret;\n}\n"]), made, draw.choice(SHAPES + ODD * alone))


@dataclass(frozen=True)
class Execution:
    """What each register holds in each thread of two blocks, and where variables lie."""

    held: Mapping[str, Words]
    beside: Mapping[str, Words]
    places: Mapping[str, int]


def executed(program: Drawn, draw: random.Random) -> Execution:
    data = [
        draw.choice(WORDS) if draw.random() < 0.3 else draw.getrandbits(draw.choice([4, 8, 16, 31, 32]))
        for _ in range(64 + BLOCK)
    ]
    out = buffer(np.zeros(2 * BLOCK * (len(program.made) + 1), np.uint64))
    given = buffer(np.array(data, np.uint32))
    launch = Launch(program.shape, (2, 1, 1), params=(out, given))
    memory = run(program.text, "k", launch, seed=1).memory(out)
    (rows, beside), n = memory.view(np.uint64).reshape(2, -1, BLOCK), program.threads
    words = [np.arange(n) % program.shape[0], [data[0]] * n, data[64 : 64 + n]]
    held = {f"%r{k}": np.array(x, np.uint64) for k, x in enumerate(words, 1)}
    held |= {name: row[:n] for (_, name), row in zip(program.made, rows[:-1], strict=True)}
    there = {name: row[:n] for (_, name), row in zip(program.made, beside[:-1], strict=True)}
    one, two = map(int, rows[-1].view(np.uint32)[:2])
    return Execution(held, there, {"one": one, "two": two})


def wrong(program: Drawn, execution: Execution) -> Iterator[tuple[str, str]]:
    """What is said of a register that does not hold."""
    flow = Flow(parse(program.text).entries[0])
    claims, held = Claims(flow, program.shape, execution.places), execution.held
    readers = {i.operands[1].name if i.op == "st" else i.operands[3].name: k  # type: ignore[union-attr]
               for k, i in enumerate(flow.body) if i.op in ("st", "selp")}  # fmt: skip
    alike: dict[object, set[int]] = defaultdict(set)
    for kind, name in program.made:
        words, k, register = held[name], readers[name], Reg(name)
        for found in claims.wrong(k, register, words[None], np.ones((1, program.threads), np.bool_)):
            yield found, name
        if not claims.uniformity.read_at(k, [name]) & EACH_BLOCK:
            both = np.concatenate([words, execution.beside[name]])
            if claims.differ(k, register, both):
                yield "one for all blocks", name
        if kind in "rd" and not claims.sums_up(k, register, held, words):
            yield "sum", name
        common = claims.common.get((flow.versions.writer[flow.versions.read(name, k)], name))
        if common is not None:
            alike[common.key] |= {int(x) ^ common.negated for x in words}
    if any(len(some) > 1 for some in alike.values()):
        yield "computed alike", ""


def judged(seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    program = drawn(draw, 40)
    return [x for _ in range(2) for x in wrong(program, executed(program, draw))]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_said_of_registers_holds(seed: int) -> None:
    assert judged(seed) == []


@pytest.mark.slow
def test_what_is_said_of_many_registers_holds() -> None:
    assert {seed: found for seed in range(100, 400) if (found := judged(seed))} == {}
