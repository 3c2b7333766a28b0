"""Drawn programs, executed by the second reader, beside the forms that a run of the block makes of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from syncverify.frontends.ptx.analysis.slots.block_run import BlockRun
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.frontends.ptx.values.linear_forms import Bits, Choice, Form, Number, Words
from syncverify.simulate.ptx import Launch, buffer, run
from tests.simulate.ptx.support import kernel

THREADS = 32
#: Registers 10 and up hold what is drawn; 2 and 3 what was loaded.
FIRST, LENGTH = 10, 24
START = """.shared .align 16 .b8 s[128]; mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.u32 %r2, [%rd2];
ld.global.u32 %r3, [%rd2+128]; setp.eq.u32 %p1, %r2, %r3; setp.gt.s32 %p2, %r2, 1; setp.lt.u32 %p3, %r1, 9;
mov.u32 %r4, s; shl.b32 %r5, %r1, 2; add.u32 %r4, %r4, %r5;
"""
TESTS = ("eq", "ne", "lt", "le", "gt", "ge")


def _operation(draw: random.Random, into: str, read: list[str]) -> str:
    """One instruction, or a few that hand words to other lanes."""
    a, b = draw.choice(read), draw.choice([*read, *map(str, (0, 1, 2, 3, -1, 31, 255))])
    p = draw.choice(["%p1", "%p2", "%p3", "%p4", "%p5"])
    small, type_ = draw.choice([0, 1, 2, 5, 31]), draw.choice(["s32", "u32"])
    match draw.randrange(16):
        case 0 | 1:
            return f"{draw.choice(['add', 'sub'])}.s32 {into}, {a}, {b};"
        case 2:
            return f"mul.lo.s32 {into}, {a}, {draw.choice(['-1', '2', '3', b])};"
        case 3:
            return f"{draw.choice(['shl.b32', 'shr.u32', 'shr.s32'])} {into}, {a}, {small};"
        case 4:
            return f"{draw.choice(['and', 'or', 'xor'])}.b32 {into}, {a}, {draw.choice(['1', b, '3'])};"
        case 5 | 6:
            return f"selp.{draw.choice(['b32', 'u32'])} {into}, {a}, {b}, {p};"
        case 7:
            return f"selp.u32 {into}, 1, 0, {p};"
        case 8 | 9:
            test = draw.choice([f"%p4, {a}, {b}", f"%p5, {a}, {draw.choice(['0', '1', '2', '-1'])}"])
            return f"setp.{draw.choice(TESTS)}.{type_} {test}; selp.u32 {into}, 1, 0, {p};"
        case 10:
            logic = draw.choice(
                [f"and.pred %p4, {p}, %p2;", f"or.pred %p5, {p}, %p1;", f"not.pred %p4, {p};"]
            )
            return f"{logic} mov.u32 {into}, {a};"
        case 11:
            return f"vote.sync.ballot.b32 {into}, {p}, -1; popc.b32 {into}, {into};"
        case 12:
            mode = draw.choice([f"up.b32 {into}, {a}, 1, 0", f"down.b32 {into}, {a}, 2, 31",
                                f"bfly.b32 {into}, {a}, 4, 31", f"idx.b32 {into}, {a}, 3, 31"])  # fmt: skip
            return f"shfl.sync.{mode}, -1;"
        case 13:
            size = draw.choice(["u32", "u32", "u8", "s8", "u16"])
            store = f"bar.sync 0; st.shared.{size.replace('s', 'u')} [%r4], {a}; bar.sync 0;"
            return f"{store} ld.shared.{size} {into}, [{draw.choice(['%r4', 's', 's+8'])}];"
        case 14:
            return f"cvt.s64.{type_} %rd5, {a}; cvt.u32.u64 {into}, %rd5;"
    wide = f"mul.wide.{type_} %rd5, {a}, {draw.choice(['4', '1', '-2'])};"
    return f"{wide} shr.u64 %rd6, %rd5, {draw.choice([0, 1, 32])}; cvt.u32.u64 {into}, %rd6;"


def _program(draw: random.Random) -> str:
    read, text = ["%r1", "%r2", "%r3"], [START + "setp.lt.s32 %p4, %r3, 2; setp.ge.s32 %p5, %r3, %r2;"]
    for n in range(LENGTH):
        into = f"%r{FIRST + n}"
        made = _operation(draw, into, read)
        apart = "sync" not in made
        if apart and draw.random() < 0.3:  # data, or the thread's number, decides
            p = draw.choice(["%p1", "!%p2", "%p3", "%p4", "!%p5"])
            other = _operation(draw, into, read)
            if draw.random() < 0.5 and made.count(";") == 1:
                made = f"mov.u32 {into}, {draw.choice(read)}; @{p} {made}"
            elif "sync" not in other:
                made = f"@{p} bra A{n}; {made} bra B{n}; A{n}: {other} B{n}:"
        text.append(made)
        read.append(into)
    stores = [f"st.global.u32 [%rd2+{256 + 128 * n}], %r{FIRST + n};" for n in range(LENGTH)]
    return kernel("\n".join([*text, *stores]))


def _may_be(x: Number, value: int, words: Words) -> bool:
    """Whether bounds of the words leave a number possible."""
    if isinstance(x, Choice):
        return _may_be(x.yes, value, words) or _may_be(x.no, value, words)
    if isinstance(x, Bits):
        return all(value >> n & 1 == b for n, b in enumerate(x.bits) if isinstance(b, int))
    low, high = words.bounds(x)
    return (value - low) % (1 << 32) <= high - low


@pytest.mark.parametrize("seed", range(20))
def test_forms_say_what_executions_do(seed: int) -> None:
    """Numbers are those of the second reader, others lie within their bounds, and forms that differ by a
    number do."""
    draw = random.Random(seed)
    text = _program(draw)
    blocks = BlockRun(Flow(parse(text).entries[0]), (THREADS, 1, 1), {"s": 1024})
    blocks.run()
    for most in (2, 4, 1 << 32):
        given = [draw.randrange(most) for _ in range(2 * THREADS)]
        out = buffer(np.array(given + [0] * THREADS * LENGTH, dtype=np.uint32))
        done = run(text, "k", Launch((THREADS, 1, 1), params=(out,)), seed=seed)
        assert done.harm is None
        found = [int(x) for x in done.memory(out)]
        alike: dict[object, tuple[int, int]] = {}
        for n in range(LENGTH):
            for t, registers in enumerate(blocks.registers):
                value, said = found[(2 + n) * THREADS + t], registers[f"%r{FIRST + n}"]
                assert _may_be(said, value, blocks.words), (n, t, said, value)
                if isinstance(said, Form):
                    terms = tuple(sorted((w, k % (1 << 32)) for w, k in said.terms.items()))
                    first = alike.setdefault(terms, (said.constant, value))
                    assert (value - first[1] - said.constant + first[0]) % (1 << 32) == 0, (n, t, said, value)
