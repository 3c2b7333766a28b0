"""Litmus tests of the memory model: which values strong loads may bring (PTX ISA, memory consistency model)."""

from __future__ import annotations

import numpy as np
import pytest

from syncverify.simulate.ptx import Launch, buffer
from syncverify.simulate.ptx.execute import run_loaded
from syncverify.simulate.ptx.loading import load
from syncverify.simulate.ptx.schedules import Parting
from syncverify.simulate.ptx.syntax import parse

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<2>;
    .shared .align 4 .b8 x[4];
    .shared .align 4 .b8 y[4];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 0;
    setp.eq.u32 %p2, %r1, 32;
    mov.u32 %r4, 9;
    mov.u32 %r5, 9;
    @%p1 st.shared.u32 [x], 0;
    @%p1 st.shared.u32 [y], 0;
    bar.sync 0;
"""


def ends(first: str, second: str, executions: int = 40) -> set[tuple[int, int]]:
    """What threads 0 and 32 leave in ``%r4`` and ``%r5`` after their statements."""
    text = f"{HEAD}@!%p1 bra A;\n{first}\n"
    text += "A:\n@!%p2 bra B;\n" + second
    text += """
B:
    bar.sync 0;
    @%p1 st.global.u32 [%rd1], %r4;
    @%p1 st.global.u32 [%rd1+4], %r5;
    @%p2 st.global.u32 [%rd1+8], %r4;
    @%p2 st.global.u32 [%rd1+12], %r5;
    ret;
}
"""
    launch = Launch(block=(64, 1, 1), params=[buffer(np.zeros(4, np.uint32))], watches=frozenset({"shared"}))
    loaded = load(parse(text), "k", launch, 0)
    out = set()
    for seed in range(executions):
        r = run_loaded(loaded, launch, Parting(seed, frozenset(), 0.5), 5000, seed)
        assert r.harm is None
        of = [int(n) for n in r.buffers[0][1]]
        out.add((min(of[0], of[2]), min(of[1], of[3])))
    return out


def message(store: str, poll: str, before: str = "", after: str = "") -> set[tuple[int, int]]:
    """Thread 0 writes x, then y; thread 32 reads y, then x. By (y, x)."""
    first = f"st.relaxed.cta.shared.u32 [x], 1;\n{before}\n{store}.shared.u32 [y], 1;"
    second = f"{poll}.shared.u32 %r4, [y];\n{after}\nld.relaxed.cta.shared.u32 %r5, [x];"
    return ends(first, second)


FENCE = "fence.acq_rel.cta;"


@pytest.mark.parametrize(
    ("how", "stale"),
    [
        (("st.relaxed.cta", "ld.relaxed.cta"), True),
        (("st.volatile", "ld.volatile"), True),
        (("st.release.cta", "ld.acquire.cta"), False),
        (("st.release.cta", "ld.relaxed.cta"), True),
        (("st.relaxed.cta", "ld.relaxed.cta", FENCE, FENCE), False),
        (("st.relaxed.cta", "ld.relaxed.cta", FENCE, ""), True),
    ],
)
def test_message_passing(how: tuple[str, ...], stale: bool) -> None:
    """Who sees the flag sees what was written before it, if one releases and the other acquires."""
    assert ((1, 0) in message(*how)) is stale
    assert (1, 1) in message(*how)


@pytest.mark.parametrize(("fence", "both"), [("", True), (FENCE, True), ("fence.sc.cta;", False)])
def test_store_buffering(fence: str, both: bool) -> None:
    """Each thread writes a word and reads the other's: neither store may be seen, unless fence.sc orders them."""
    write, read = "st.relaxed.cta.shared.u32 [{}], 1;", "ld.relaxed.cta.shared.u32 {}, [{}];"
    first = f"{write.format('x')}\n{fence}\n{read.format('%r4', 'y')}"
    second = f"{write.format('y')}\n{fence}\n{read.format('%r5', 'x')}"
    assert ((0, 0) in ends(first, second)) is both


def test_reads_of_one_word_do_not_go_back() -> None:
    first = "st.relaxed.cta.shared.u32 [x], 1;\nst.relaxed.cta.shared.u32 [x], 2;"
    second = "ld.relaxed.cta.shared.u32 %r4, [x];\nld.relaxed.cta.shared.u32 %r5, [x];"
    found = ends(first, second)
    assert {(0, 2), (1, 2)} <= found
    assert all(a <= b for a, b in found)


def test_a_poll_ends() -> None:
    first = "st.release.cta.shared.u32 [y], 1;"
    second = "W:\nld.acquire.cta.shared.u32 %r4, [y];\nsetp.ne.u32 %p3, %r4, 1;\n@%p3 bra W;\nmov.u32 %r5, 1;"
    assert ends(first, second) == {(1, 1)}


def test_atomics_read_the_last_value() -> None:
    add = "atom.relaxed.cta.shared.add.u32 {}, [x], 1;"
    assert ends(add.format("%r4"), add.format("%r5")) == {(0, 1), (1, 0)}
