"""Which instructions of sm_90a the reader lacks, and what those compute that it got for the table's sake."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from syncverify.simulate.ptx import Kind, Launch, buffer, first_harm, run
from tests.simulate.ptx.isa_rows import refused
from tests.simulate.ptx.support import apply, execute, kernel

#: Rows of sm_90a that are refused, by name: sparse products, m8n8k4 of f16, addresses of 32 bits.
REFUSED = {
    "mma": 7, "wgmma.mma_async.sp": 10,
    "fma": 1, "cvta": 1, "cvta.to": 1,
    "mapa": 1, "getctarank": 1,
}  # fmt: skip


def test_no_other_row_is_refused() -> None:
    assert dict(Counter(row.name for row, _, _ in refused(most=8))) == REFUSED


@pytest.mark.parametrize(
    ("kind", "c", "high", "low"),
    [
        ("u2", 0, 0b1111, 0),
        ("s2", 3, 0b110101, 0b1010),
        ("u4", 1, 0x17F, 0),
        ("s4", 0, 0x77, 0x88),
        ("u8", 5, 0x507FF, 0),
        ("s8", 0, 0x77F, 0x8080),
    ],
)
def test_packed_conversions(kind: str, c: int, high: int, low: int) -> None:
    """Each operand is clamped; the second is the lowest part, and the third stands above the first."""
    text = f"cvt.pack.sat.{kind}.s32.b32 D, A, B, C;"
    assert apply(text, [32] * 3, 32, [[7, 300, c], [2**32 - 200, 2**32 - 999, 0]]) == [high, low]


@pytest.mark.parametrize(
    ("form", "widths", "result", "row", "wanted"),
    [
        ("set.lt.f16.s32", [32, 32], 16, [2**32 - 1, 1], 0x3C00),
        ("set.gt.bf16.b16", [16, 16], 16, [9, 10], 0),
        ("set.ge.bf16.f32", [32, 32], 16, [0x40000000, 0x3F800000], 0x3F80),
        ("set.eq.u16.f16", [16, 16], 16, [0x3C00, 0x3C00], 0xFFFF),
        ("set.eq.f16x2.f16x2", [32, 32], 32, [0x3C004000, 0x3C003C00], 0x3C000000),
        ("set.ltu.u32.f16x2", [32, 32], 32, [0x7E004000, 0x00003C00], 0xFFFF0000),
        ("set.ne.bf16x2.bf16x2", [32, 32], 32, [0x3F804000, 0x3F803F80], 0x00003F80),
        ("mad24.hi.sat.s32", [32, 32, 32], 32, [0x7FFFFF, 0x7FFFFF, 0x7FFFFFFF], 0x7FFFFFFF),
    ],
)
def test_comparisons_and_products(
    form: str, widths: list[int], result: int, row: list[int], wanted: int
) -> None:
    operands = "ABC"[: len(widths)]
    assert apply(f"{form} D, {', '.join(operands)};", widths, result, [row]) == [wanted]


def test_products_of_eight_rows() -> None:
    """m8n8k16 of s8, with sums that saturate, and m8n8k4 of f64: D = A B + C by NumPy."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(-128, 128, (8, 16)), rng.integers(-128, 128, (16, 8))
    words = [
        np.ascontiguousarray(x.astype(np.int8)).view(np.uint32).reshape(32)
        for x in (a, np.ascontiguousarray(b.T))
    ]
    c = rng.integers(2**31 - 60000, 2**31 - 1, (8, 8)).astype(np.int32)
    given = [
        *words,
        c.view(np.uint32).reshape(32, 2)[:, 0].copy(),
        c.view(np.uint32).reshape(32, 2)[:, 1].copy(),
    ]
    text = "mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32 {%r40, %r41}, {A}, {B}, {C, E}; mov.b32 D, %rN;"
    got = [apply(text.replace("N", str(n)), [32] * 4, 32, np.stack(given, 1).tolist()) for n in (40, 41)]
    wanted = np.clip(a @ b + c.astype(np.int64), -(2**31), 2**31 - 1)
    found = np.stack([np.array(g, np.uint32).view(np.int32) for g in got], 1).reshape(8, 8)
    assert (found == wanted).all() and (wanted == 2**31 - 1).any()

    x, y = rng.integers(-9, 9, (8, 4)).astype(np.float64), rng.integers(-9, 9, (4, 8)).astype(np.float64)
    rows = np.stack([x.reshape(32).view(np.uint64), np.ascontiguousarray(y.T).reshape(32).view(np.uint64)], 1)
    text = "mov.f64 %fd1, A; mov.f64 %fd2, B; mov.f64 %fd3, 0d0000000000000000;"
    text += "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd4, %fd5}, {%fd1}, {%fd2}, {%fd3, %fd3}; mov.b64 D, %fdN;"
    got = [apply(text.replace("N", str(n)), [64] * 2, 64, rows.tolist()) for n in (4, 5)]
    assert (np.stack([np.array(g, np.uint64).view(np.float64) for g in got], 1).reshape(8, 8) == x @ y).all()


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(("shape", "k"), [("m8n8k4", 4), ("m16n8k8", 8)])
def test_products_of_f64_round_as_they_say(shape: str, k: int, mode: str) -> None:
    """One product for each element of D and a sum with C, so that no order counts: by exact fractions."""
    rng = np.random.default_rng(5)
    m = 8 if shape.startswith("m8") else 16
    a, b, c = (rng.uniform(-2, 2, size) for size in ((m, k), (k, 8), (m, 8)))
    b[np.arange(k) != 1] = 0
    lane = np.arange(32)
    group, inside = lane >> 2, lane & 3
    A = [a[group + 8 * (r % (m // 8)), inside + 4 * (r // (m // 8))] for r in range(m * k // 32)]
    B = [b[inside + 4 * r, group] for r in range(k // 4)]
    C = [c[group + 8 * (r >> 1), 2 * inside + (r & 1)] for r in range(m // 4)]
    given = np.stack([x.view(np.uint64) for x in (*A, *B, *C)], 1)
    data, out = buffer(given.reshape(-1)), buffer(np.zeros(32 * len(C), np.uint64))
    names = [f"%fd{n}" for n in range(given.shape[1])]
    loads = "".join(f"ld.global.f64 {x}, [%rd4+{8 * n}];" for n, x in enumerate(names))
    parts = [names[: len(A)], names[len(A) : -len(C)], names[-len(C) :]]
    D, *rest = ("{" + ", ".join(x) + "}" for x in (parts[2], *parts))
    stores = "".join(f"st.global.f64 [%rd5+{8 * n}], {x};" for n, x in enumerate(parts[2]))
    text = f"""ld.param.u64 %rd3, [a]; mad.wide.u32 %rd4, %r1, {8 * len(names)}, %rd3;
    mad.wide.u32 %rd5, %r1, {8 * len(C)}, %rd1; {loads}
    mma.sync.aligned.{shape}.row.col.{mode}.f64.f64.f64.f64 {D}, {", ".join(rest)}; {stores}"""
    r = run(kernel(text, ".param .u64 out, .param .u64 a"), "k", Launch((32, 1, 1), params=(out, data)))
    assert r.harm is None
    found = r.memory(out).view(np.float64).reshape(32, len(C))
    lost = 0
    for t in range(32):
        for n in range(len(C)):
            i, j = group[t] + 8 * (n >> 1), 2 * inside[t] + (n & 1)
            exact = Fraction(a[i, 1]) * Fraction(b[1, j]) + Fraction(c[i, j])
            assert found[t, n] == in_mode(exact, mode), (i, j)
            lost += Fraction(float(exact)) != exact
    assert lost > 20


def in_mode(exact: Fraction, mode: str) -> float:
    """The double of a fraction that a mode takes."""
    near = float(exact)
    if mode == "rn" or Fraction(near) == exact:
        return near
    low, high = sorted((near, math.nextafter(near, math.inf if Fraction(near) < exact else -math.inf)))
    if mode == "rz":
        return low if exact > 0 else high
    return low if mode == "rm" else high


MULTIMEM = """mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;
multimem.st.relaxed.sys.global.u32 [%rd2], 3; multimem.red.release.gpu.global.add.u32 [%rd2], 4;
multimem.ld_reduce.acquire.sys.global.add.u32 %r3, [%rd2]; add.u32 %r3, %r3, 1; st.relaxed.sys.global.u32 [%rd2], %r3;"""


def test_memory_of_several_devices_is_that_of_this_one() -> None:
    out = buffer(np.zeros(32, np.uint32))
    r = execute(MULTIMEM, out)
    assert r.harm is None and set(r.memory(out).tolist()) == {8}


#: Each thread stores a word of shared memory; one hands all of them to a copy.
COPIED = """.shared .align 128 .b8 s[128]; .reg .pred %q;
mov.u32 %r5, s; mad.lo.u32 %r5, %r1, 4, %r5; add.u32 %r6, %r1, 1; st.shared.u32 [%r5], %r6;
FENCE bar.sync 0; setp.ne.u32 %q, %r1, 0; @%q bra DONE; mov.u32 %r5, s;
COPY; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
DONE:"""
FENCE = "fence.proxy.async.shared::cta;"


@pytest.mark.parametrize(
    ("copy", "first"),
    [
        ("multimem.cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r5], 128", 0),
        ("multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r5], 128", 7),
    ],
)
def test_copies_to_several_devices(copy: str, first: int) -> None:
    out = buffer(np.full(32, 7, np.uint32))
    r = execute(COPIED.replace("COPY", copy).replace("FENCE", FENCE), out)
    assert r.harm is None and r.memory(out).tolist() == [first + n + 1 for n in range(32)]
    text = kernel(COPIED.replace("COPY", copy).replace("FENCE", ""))
    harm = first_harm(text, "k", Launch(params=(out,)), range(4))
    assert harm is not None and harm.kind is Kind.STALE


@pytest.mark.parametrize(("form", "kind"), [("multimem.red.relaxed.gpu.global.add.u32 [%rd1], 1;", None),
                                            ("multimem.st.weak.global.u32 [%rd1], %r1;", Kind.RACE)])  # fmt: skip
def test_races_of_multimem(form: str, kind: Kind | None) -> None:
    text, out = kernel(form), buffer(np.zeros(1, np.uint32))
    harm = first_harm(text, "k", Launch(block=(64, 1, 1), params=(out,)), range(4))
    assert (None if harm is None else harm.kind) == kind
    assert kind or run(text, "k", Launch(block=(64, 1, 1), params=(out,))).memory(out)[0] == 64


@pytest.mark.parametrize("held", [False, True])
def test_products_of_single_bits(held: bool) -> None:
    """wgmma of b1: how many bits two rows of 256 have in common, counted by Python's integers."""
    draw = np.random.default_rng(5)
    a, b = draw.integers(0, 256, (64, 32), np.uint8), draw.integers(0, 256, (8, 32), np.uint8)
    image = np.zeros(64 * 32 + 8 * 32, np.uint8)  # core matrices of 8 rows of 16 bytes, those along K beside
    for start, rows in ((0, a), (64 * 32, b)):
        for r, row in enumerate(rows):
            for k, byte in enumerate(row):
                image[start + r // 8 * 256 + k // 16 * 128 + r % 8 * 16 + k % 16] = byte
    # in registers: a word each of rows g and g + 8, then those 16 bytes further
    words = a.view(np.uint32)
    places = [
        (16 * (t // 32) + t % 32 // 4 + 8 * (j & 1), t % 4 + 4 * (j >> 1))
        for t in range(128)
        for j in range(4)
    ]
    out = buffer(np.zeros(512, np.int32))
    given = [out, buffer(image.view(np.uint32)), buffer(np.array([words[x] for x in places], np.uint32))]
    copy = "\n".join(
        f"add.u32 %r3, %r1, {at}; setp.lt.u32 %p1, %r3, 576; mul.wide.u32 %rd5, %r3, 4; add.u64 %rd5, %rd5, %rd2;"
        " shl.b32 %r4, %r3, 2; add.u32 %r4, %r4, %r2;"
        " @%p1 ld.global.u32 %r5, [%rd5]; @%p1 st.shared.u32 [%r4], %r5;"
        for at in range(0, 640, 128)
    )
    factor = "{%r10, %r11, %r12, %r13}" if held else "%rd10"
    body = f"""
    .shared .align 128 .b8 both[2304];
    ld.param.u64 %rd2, [image]; ld.param.u64 %rd3, [own];
    mov.u32 %r2, both;
    {copy}
    mul.wide.u32 %rd5, %r1, 16; add.u64 %rd6, %rd3, %rd5; add.u64 %rd7, %rd1, %rd5;
    ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd6];
    cvt.u64.u32 %rd8, %r2; shr.u64 %rd8, %rd8, 4;
    or.b64 %rd10, %rd8, {(128 >> 4) << 16 | (256 >> 4) << 32};
    add.u64 %rd11, %rd10, {2048 >> 4};
    fence.proxy.async; bar.sync 0; setp.ne.u32 %p2, 0, 0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {{%r20, %r21, %r22, %r23}}, {factor}, %rd11, %p2;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    st.global.v4.u32 [%rd7], {{%r20, %r21, %r22, %r23}};
    """
    text = kernel(body, ".param .u64 out, .param .u64 image, .param .u64 own")
    found = run(text, "k", Launch(block=(128, 1, 1), grid=(1, 1, 1), params=given))
    assert found.harm is None, found.harm
    numbers = [[int.from_bytes(row.tobytes(), "little") for row in rows] for rows in (a, b)]
    wanted = [
        (
            numbers[0][16 * (t // 32) + t % 32 // 4 + 8 * (j >> 1)] & numbers[1][t % 4 * 2 + (j & 1)]
        ).bit_count()
        for t in range(128)
        for j in range(4)
    ]
    assert found.memory(out).tolist() == wanted
