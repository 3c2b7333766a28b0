"""Copies that loaded words align or not: random small kernels, executed with each choice of two words.

Where the analysis leaves alignment to the caller, some choice has to align all copies that are executed.
"""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from syncverify.frontends.ptx.analysis.global_memory.copy_addresses import copy_addresses
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.simulate.ptx import Launch, buffer, first_harm

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c)
{
.reg .pred %p<4>;
.reg .b32 %r<16>;
.reg .f32 %f<4>;
.reg .b64 %rd<5>;
.reg .b64 %w<32>;
.reg .b32 %lo, %hi, %x;
.reg .b64 %t;
.shared .align 16 .b8 s[4096];
.shared .align 16 .b8 kept[256];
.shared .align 16 .b8 other[256];
ld.param.u64 %rd1, [a];
ld.param.u64 %rd2, [b];
ld.param.u64 %rd4, [c];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 3;
cvt.u64.u32 %t, %r2;
mov.u32 %r3, kept;
add.u32 %r4, %r3, %r2;
mov.u32 %r5, other;
add.u32 %r6, %r5, %r2;
shl.b32 %r8, %r1, 4;
mov.u32 %r9, s;
add.u32 %r8, %r8, %r9;
and.b32 %r7, %r1, 1;
setp.ne.u32 %p1, %r7, 0;
ld.global.u64 %w0, [%rd1];
ld.global.u64 %w1, [%rd1+8];
"""
TO, ONE, TWO = "%TO", "%ONE", "%TWO"
HALVES = "mov.b64 {%lo, %hi}, %ONE;"
WHOLE = "mov.b64 %TO, {%lo, %hi};"
STEPS = [
    "mov.b64 %TO, %ONE;",
    "add.s64 %TO, %ONE, %TWO;",
    "add.s64 %TO, %ONE, %TWO;",
    "sub.s64 %TO, %ONE, %TWO;",
    "add.s64 %TO, %ONE, 8;",
    "add.s64 %TO, %ONE, %t;",
    "mov.b64 %TO, %t;",
    "mov.b64 %TO, 8;",
    "shl.b64 %TO, %ONE, 1;",
    "mul.lo.u64 %TO, %ONE, 4;",
    "and.b64 %TO, %ONE, 8;",
    "and.b64 %TO, %ONE, 255;",
    "xor.b64 %TO, %ONE, %TWO;",
    "selp.b64 %TO, %ONE, %TWO, %p1;",
    "and.b64 %TO, %ONE, 8; setp.eq.u64 %p2, %TO, 0; selp.b64 %TO, %ONE, %TWO, %p2;",
    "mov.b64 %TO, %ONE; @%p1 mov.b64 %TO, %TWO;",
    "mov.b64 %TO, %ONE; @%p1 bra L#; mov.b64 %TO, %TWO; L#:",
    "mov.b64 %TO, %ONE; mov.u32 %x, 0; L#: add.s64 %TO, %TO, 8; add.u32 %x, %x, 1; setp.lt.u32 %p2, %x, 2; "
    "@%p2 bra L#;",
    "st.shared.u64 [%r4], %ONE; bar.sync 0; ld.shared.u64 %TO, [%r4]; bar.sync 0;",
    "st.shared.u64 [%r4], %ONE; bar.sync 0; xor.b32 %x, %r4, 8; ld.shared.u64 %TO, [%x]; bar.sync 0;",
    "st.shared.u64 [%r6], %ONE; bar.sync 0; ld.shared.u64 %TO, [other]; bar.sync 0;",
    "st.shared.u32 [%r6], 8; st.shared.u64 [%r4], %ONE; bar.sync 0; ld.shared.u64 %TO, [%r4]; bar.sync 0;",
    "cvt.u32.u64 %x, %ONE; st.shared.u8 [%r4], %x; bar.sync 0; ld.shared.u8 %x, [%r4]; "
    "cvt.u64.u32 %TO, %x; bar.sync 0;",
    HALVES + "st.shared.v2.u32 [%r4], {%lo, %hi}; bar.sync 0; ld.shared.u64 %TO, [%r4]; bar.sync 0;",
    "add.s64 %rd3, %rd4, %t; st.global.u64 [%rd3], %ONE; ld.global.u64 %TO, [%rd3];",
    "st.shared.u64 [%r4], %TWO; bar.sync 0; atom.shared.exch.b64 %TO, [%r4], %ONE; bar.sync 0;",
    "st.shared.u64 [%r4], %ONE; atom.shared.add.u64 %TO, [%r4], %TWO; ld.shared.u64 %TO, [%r4]; bar.sync 0;",
    HALVES + "shfl.sync.bfly.b32 %lo, %lo, 1, 31, -1;" + WHOLE,
    HALVES + "shfl.sync.up.b32 %lo, %lo, 1, 0, -1;" + WHOLE,
    HALVES + "shfl.sync.idx.b32 %lo, %lo, 1, 31, -1;" + WHOLE,
    HALVES + "shfl.sync.down.b32 %lo, %lo, 2, 31, -1;" + WHOLE,
    HALVES + "cvt.rn.f32.u32 %f1, %lo; cvt.rzi.u32.f32 %lo, %f1;" + WHOLE,
    "vote.sync.ballot.b32 %x, %p1, -1; popc.b32 %x, %x; shr.u32 %x, %x, 1; cvt.u64.u32 %TO, %x;",
]
COPY = "add.s64 %rd3, %rd2, %ONE; cp.async.cg.shared.global [%r8], [%rd3], 16; add.u32 %r8, %r8, 1024;"
TAIL = "cp.async.commit_group;\ncp.async.wait_all;\nret;\n}\n"
THREADS = 32


def drawn(seed: int) -> str:
    """A small kernel: some words are made, and one to three of them are copied from."""
    draw, made, lines = Random(seed), ["%w0", "%w1"], []
    for n in range(draw.randint(1, 5)):
        step = draw.choice(STEPS).replace("#", str(n))
        one, two = draw.choice(made[-3:]), draw.choice(made)
        lines.append(step.replace(TO, f"%w{n + 2}").replace(ONE, one).replace(TWO, two))
        made.append(f"%w{n + 2}")
    some = [made[-1], *draw.choices(made, k=draw.randint(0, 2))]
    lines += [COPY.replace(ONE, w) for w in some]
    return HEAD + "\n".join(lines) + "\n" + TAIL


def left_to_the_caller(text: str) -> bool:
    module = parse(text)
    found = copy_addresses(module.functions[0], variables=module.variables)
    return not (found.hidden or found.off or found.judged)


def some_choice_aligns(text: str) -> bool:
    """Whether some words, of all that two may be past multiples of 16, align the copies of an execution."""
    choices = sorted(product(range(16), range(16)), key=lambda w: (w[0] % 8 + w[1] % 8, w))
    for words in choices:
        launch = Launch(
            (THREADS, 1, 1),
            params=(
                buffer(np.array(words, np.uint64)),
                *(buffer(np.zeros(512, np.uint64)) for _ in range(2)),
            ),
            boundless=True,
        )
        harm = first_harm(text, "k", launch, range(1), 4000)
        if harm is None:
            return True
        assert "multiple" in str(harm) or "align" in str(harm), harm
    return False


def not_aligned(seeds: range) -> list[int]:
    left = [seed for seed in seeds if left_to_the_caller(drawn(seed))]
    return [seed for seed in left if not some_choice_aligns(drawn(seed))]


def test_some_choice_aligns_what_is_left_to_the_caller() -> None:
    assert not_aligned(range(10)) == []


@pytest.mark.slow
def test_some_choice_aligns_in_many_kernels() -> None:
    assert not_aligned(range(10, 1000)) == []
