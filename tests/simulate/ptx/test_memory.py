"""Loads and stores: widths, signs, vectors, windows, spaces, and what is undefined."""

from __future__ import annotations

import numpy as np
import pytest

from syncverify.simulate.ptx import CannotExecute, Kind, Launch, buffer, first_harm, run
from tests.simulate.ptx.support import execute, kernel

SHARED = ".shared .align 16 .b8 s[1024];\nmov.u32 %r4, s;\nmad.lo.u32 %r5, %r1, 4, %r4;\n"


def out(words: int = 32) -> object:
    return buffer(np.zeros(words, np.uint32))


STORE = "mad.wide.u32 %rd2, %r1, 4, %rd1;\nst.global.u32 [%rd2], %r9;"


@pytest.mark.parametrize(
    ("store", "load", "wanted"),
    [
        ("st.shared.u8 [%r5], %r8", "ld.shared.u8 %r9, [%r5]", 0xFE),
        ("st.shared.u16 [%r5], %r8", "ld.shared.u16 %r9, [%r5]", 0x80FE),
        ("st.shared.u8 [%r5], %r8", "ld.shared.s8 %r9, [%r5]", 0xFFFFFFFE),
        ("st.shared.u16 [%r5], %r8", "ld.shared.s16 %r9, [%r5]", 0xFFFF80FE),
        ("st.shared.u32 [%r5], %r8", "ld.shared.u8 %r9, [%r5+1]", 0x80),
        ("st.shared.u32 [%r5], %r8", "ld.shared.s16 %r9, [%r5+2]", 0x1234),
    ],
)
def test_narrow_accesses_cut_and_extend(store: str, load: str, wanted: int) -> None:
    b = out()
    r = execute(f"{SHARED} mov.u32 %r8, 0x123480FE;\n{store};\n{load};\n{STORE}", b)
    assert r.harm is None and set(r.memory(b).tolist()) == {wanted}


def test_a_word_fills_a_wider_register_by_its_sign() -> None:
    b = out(64)
    text = """mov.u32 %r8, 0x80000000; st.shared.u32 [%r5], %r8; ld.shared.s32 %rd3, [%r5];
    mad.wide.u32 %rd2, %r1, 8, %rd1; st.global.u64 [%rd2], %rd3;"""
    r = execute(SHARED + text, b)
    assert set(r.memory(b).view(np.uint64).tolist()) == {0xFFFFFFFF80000000}


def test_vectors() -> None:
    b = out(128)
    text = """mad.lo.u32 %r6, %r1, 16, %r4; add.u32 %r7, %r1, 1;
    st.shared.v4.u32 [%r6], {%r1, %r7, %r1, 7}; ld.shared.v2.u64 {%rd4, %rd5}, [%r6];
    mad.wide.u32 %rd2, %r1, 16, %rd1; st.global.v2.u64 [%rd2], {%rd5, %rd4};"""
    r = execute(SHARED + text, b)
    lane = np.arange(32)
    assert (r.memory(b).reshape(32, 4) == np.stack([lane, lane * 0 + 7, lane, lane + 1], axis=1)).all()


def test_generic_addresses_lead_to_each_lanes_own_window() -> None:
    b = out()
    text = """.local .align 8 .b8 l[64];
    cvta.to.global.u64 %rd7, %rd1; mad.wide.u32 %rd2, %r1, 4, %rd7;
    cvt.u64.u32 %rd3, %r5; cvta.shared.u64 %rd3, %rd3;
    mov.u64 %rd4, l; cvta.local.u64 %rd4, %rd4;
    and.b32 %r6, %r1, 1; setp.eq.u32 %p1, %r6, 0; selp.b64 %rd5, %rd3, %rd4, %p1;
    st.u32 [%rd5], %r1; ld.u32 %r9, [%rd5]; isspacep.shared %p2, %rd5; selp.u32 %r7, 100, 0, %p2;
    add.u32 %r9, %r9, %r7; st.u32 [%rd2], %r9;"""
    r = execute(SHARED + text, b)
    lane = np.arange(32)
    assert (r.memory(b) == lane + 100 * (lane % 2 == 0)).all()


def test_local_memory_is_each_threads_own() -> None:
    b = out(64)
    text = """.local .align 8 .b8 l[64]; mov.u64 %rd4, l; st.local.u32 [%rd4+8], %r1; bar.sync 0;
    ld.local.u32 %r9, [%rd4+8];"""
    r = execute(text + STORE, b, block=64)
    assert (r.memory(b) == np.arange(64)).all()


def test_constants_and_parameters() -> None:
    b = out()
    before = ".const .align 4 .u32 c[4] = {11, 22, 33, 44};"
    text = """and.b32 %r3, %r1, 3; shl.b32 %r3, %r3, 2; mov.u64 %rd3, c; cvt.u64.u32 %rd4, %r3;
    add.u64 %rd3, %rd3, %rd4; ld.const.u32 %r9, [%rd3]; ld.param.s8 %r7, [q+3]; add.u32 %r9, %r9, %r7;"""
    r = execute(text + STORE, b, 0xFE000000, params=", .param .u32 q", before=before)
    assert (r.memory(b) == (np.arange(32) % 4 + 1) * 11 - 2).all()


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("ld.shared.u64 %rd3, [%r5];", "not aligned"),
        ("ld.shared.u32 %r9, [%r4+1024];", "outside of the block's shared memory"),
        ("ld.global.u32 %r9, [%rd1+4096];", "no memory lies there"),
        ("ld.const.u32 %r9, [%r5];", "outside of the const space"),
    ],
)
def test_undefined_accesses(text: str, detail: str) -> None:
    r = execute(SHARED + text, out())
    assert r.harm is not None and r.harm.kind is Kind.UNDEFINED and detail in r.harm.detail


def test_registers_that_nobody_wrote_are_small_now_and_then() -> None:
    """A branch that asks for 1 is taken by some lanes, and by none where the register is written."""
    text = "setp.ne.u32 %p1, %r7, 1;\n@%p1 bra E;\nld.shared.u32 %r9, [4096];\nE:\n"
    launch = Launch((32, 1, 1), params=(out(),))
    found = first_harm(kernel(text), "k", launch, range(6))
    assert found is not None and found.kind is Kind.UNDEFINED
    assert first_harm(kernel("mov.u32 %r7, 5;\n" + text), "k", launch, range(6)) is None


def test_atomics_of_a_warp_all_count() -> None:
    b = out()
    text = "atom.global.add.u32 %r9, [%rd1], 1; atom.global.max.u32 %r8, [%rd1+4], %r1;"
    r = execute(text, b, block=128)
    assert r.harm is None and r.memory(b)[:2].tolist() == [128, 127]


def test_compare_and_swap_hands_a_lock_to_one() -> None:
    b = out()
    text = (
        "atom.global.cas.b32 %r9, [%rd1], 0, 5; setp.eq.u32 %p1, %r9, 0; @%p1 red.global.add.u32 [%rd1+4], 1;"
    )
    assert execute(text, b, block=128).memory(b)[:2].tolist() == [5, 1]


def test_functions_have_registers_parameters_and_stacks_of_their_own() -> None:
    before = """.func (.param .b32 r) twice(.param .b32 a)
    { .reg .b32 %r<4>; .local .align 4 .b8 l[4]; ld.param.u32 %r1, [a]; st.local.u32 [l], %r1;
      setp.eq.u32 %p1, %r1, 3; @%p1 bra THREE; ld.local.u32 %r2, [l]; add.u32 %r1, %r1, %r2;
      st.param.b32 [r], %r1; ret; THREE: mov.u32 %r1, 99; st.param.b32 [r], %r1; ret; .reg .pred %p<2>; }"""
    before = before.replace(".reg .b32 %r<4>;", ".reg .pred %p<2>; .reg .b32 %r<4>;").replace(
        "ret; .reg .pred %p<2>; }", "ret; }"
    )
    b = out()
    text = """{ .param .b32 a0; .param .b32 r0; st.param.b32 [a0], %r1; call.uni (r0), twice, (a0);
    ld.param.b32 %r9, [r0]; }"""
    r = execute(text + STORE, b, before=before)
    lane = np.arange(32)
    assert r.harm is None and (r.memory(b) == np.where(lane == 3, 99, 2 * lane)).all()


def test_jump_tables() -> None:
    b = out()
    text = """and.b32 %r3, %r1, 3; ts: .branchtargets A, B, C, A; brx.idx %r3, ts;
    A: mov.u32 %r9, 10; bra D; B: mov.u32 %r9, 20; bra D; C: mov.u32 %r9, 30; D:"""
    r = execute(text + STORE, b)
    assert r.harm is None and (r.memory(b) == np.array([10, 20, 30, 10] * 8)).all()


INITIAL = """.global .u32 w[4] = {10, 11, 12, 13}; .const .u32 u = 5; .const .u32 c[4] = {20, 21, 22, 23};
.const .u64 t[3] = {w+4, generic(c)+8, 7}; .global .u64 g[2] = {c+4, t}; .global .u16 rows[2][2] = {{1}, {2, 3}};
.global .u8 b[8] = {0xff(w), 0xff00(w), 0xff0000(w), 0xff000000(w), 0xff00000000(w), 0xff0000000000(w)};
"""


def test_addresses_as_initial_values() -> None:
    b = out(4)
    text = """ld.const.u64 %rd2, [t]; ld.global.u32 %r2, [%rd2]; ld.const.u64 %rd3, [t+8]; ld.u32 %r3, [%rd3];
    ld.global.u64 %rd4, [g]; ld.const.u32 %r4, [%rd4]; ld.global.u64 %rd5, [b]; ld.global.u32 %r5, [%rd5+8];
    st.global.v4.u32 [%rd1], {%r2, %r3, %r4, %r5};"""
    r = run(kernel(text, before=INITIAL), "k", Launch(block=(1, 1, 1), params=(b,)))
    assert r.harm is None and r.memory(b).tolist() == [11, 22, 21, 12]


def test_initial_values_that_are_not_known_are_never_zeros() -> None:
    text = kernel("ld.global.u16 %rs1, [rows+2];", before=INITIAL)
    with pytest.raises(CannotExecute, match="rows: initial values that are not known"):
        run(text, "k", Launch(params=(out(),)))
    assert run(kernel("", before=INITIAL), "k", Launch(params=(out(),))).harm is None
