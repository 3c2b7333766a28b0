"""wgmma, ldmatrix, stmatrix; descriptors against layouts written down element by element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from syncverify.frontends.ptx.compile.wgmma_runs import Together, together
from syncverify.frontends.ptx.decode.descriptors import decode_descriptor, operand_bytes
from syncverify.frontends.ptx.decode.table import decode
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Reg
from syncverify.frontends.ptx.values.register_values import per_lane
from syncverify.model.events import Ev
from tests.frontends.ptx.effect_helpers import FakeContext, decoded, emitted, function, refused

MODES = {0: 0, 128: 1, 64: 2, 32: 3}


def descriptor(start: int, lbo: int, sbo: int, swizzle: int, base: int = 0) -> int:
    return start >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32 | base << 49 | MODES[swizzle] << 62


def swizzle_address(address: int, swizzle: int) -> int:
    """Of 16-byte chunks: column exclusive-or row, in a pattern of 8 rows (of 128 bytes for 128B)."""
    if swizzle == 0:
        return address
    pattern = {128: 1024, 64: 512, 32: 256}[swizzle]
    at, rest = divmod(address, pattern)
    row128, inside = divmod(rest, 128)
    chunk, byte = divmod(inside, 16)
    width = swizzle // 16
    flip = row128 % width
    return at * pattern + row128 * 128 + (chunk ^ flip) * 16 + byte


def k_major(rows: int, k: int, size: int, lbo: int, sbo: int, swizzle: int) -> Iterator[int]:
    """Byte offsets before swizzling, one element after another (CuTe: ((8,m),(T,2k)))."""
    t = 16 // size
    for r in range(rows):
        for x in range(k):
            if swizzle:
                yield (r % 8) * swizzle + (r // 8) * sbo + x * size
            else:
                yield (r % 8) * 16 + (r // 8) * sbo + (x // t) * lbo + (x % t) * size


def mn_major(rows: int, k: int, lbo: int, sbo: int, swizzle: int) -> Iterator[int]:
    """16-bit elements (CuTe: ((T,w,m),(8,k)), w = 1, 2, 4, 8)."""
    for r in range(rows):
        for x in range(k):
            if swizzle:
                width = swizzle // 2  # elements
                yield (r % width) * 2 + (r // width) * lbo + (x % 8) * swizzle + (x // 8) * sbo
            else:
                yield (r % 8) * 2 + (r // 8) * sbo + (x % 8) * 16 + (x // 8) * lbo


def intervals(bytes_: set[int]) -> tuple[tuple[int, int], ...]:
    out: list[list[int]] = []
    for b in sorted(bytes_):
        if out and out[-1][1] == b:
            out[-1][1] = b + 1
        else:
            out.append([b, b + 1])
    return tuple((a, b) for a, b in out)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize(("rows", "size"), [(64, 2), (64, 1), (8, 4), (24, 2), (256, 2)])
@pytest.mark.parametrize("advance", [0, 32])
def test_k_major(swizzle: int, rows: int, size: int, advance: int) -> None:
    if swizzle == 32 and advance:
        return  # the next step along K lies in another atom
    lbo, sbo = (128, 256) if swizzle == 0 else (16, 8 * swizzle)
    start = 4096 + (advance if swizzle else 2 * advance)
    wanted = {
        swizzle_address(start + x + i, swizzle)
        for x in k_major(rows, 32 // size, size, lbo, sbo, swizzle)
        for i in range(size)
    }
    found = operand_bytes(descriptor(start, lbo, sbo, swizzle), range(rows), 32, False)
    assert found == intervals(wanted)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("rows", [8, 64, 128, 256])
def test_mn_major(swizzle: int, rows: int) -> None:
    lbo, sbo = (2048, 128) if swizzle == 0 else (4096, 8 * swizzle)
    wanted = {
        swizzle_address(8192 + x + i, swizzle)
        for x in mn_major(rows, 16, lbo, sbo, swizzle)
        for i in range(2)
    }
    assert operand_bytes(descriptor(8192, lbo, sbo, swizzle), range(rows), 32, True) == intervals(wanted)


def test_a_whole_tile_is_covered_by_its_steps_along_k() -> None:
    parts = [operand_bytes(descriptor(2048 + 32 * i, 16, 1024, 128), range(64), 32, False) for i in range(4)]
    covered = [b for p in parts for lo, hi in p for b in range(lo, hi)]
    assert sorted(covered) == list(range(2048, 2048 + 64 * 128))


def test_base_offset_moves_the_pattern() -> None:
    shifted = operand_bytes(descriptor(1024 + 256, 16, 1024, 128, base=2), range(8), 32, False)
    straight = operand_bytes(descriptor(1024, 16, 1024, 128), range(8), 32, False)
    assert shifted == tuple((lo + 256, hi + 256) for lo, hi in straight)


def test_fields() -> None:
    d = decode_descriptor(descriptor(0x3FFF0, 16, 1024, 64, base=5))
    assert (d.start, d.lbo, d.sbo, d.swizzle, d.base_offset) == (0x3FFF0, 16, 1024, 64, 5)


# ------------------------------------------------------------------ wgmma

A, B = descriptor(1024, 16, 1024, 128), descriptor(16384, 16, 1024, 128)
ACC = "{%f1, %f2, %f3, %f4}"
MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"


def test_operands_in_shared_memory() -> None:
    ctx = FakeContext(cta=1, ctas=2)
    (event,) = emitted(f"{MMA} {ACC}, %d1, %d2, %p1, 1, 1, 0, 0", ctx, d1=A, d2=B, p1=1)
    name, acc, left, a_fragment, right, accumulate, others = event
    assert (name, acc, a_fragment, accumulate) == ("WGMMA", 0, -1, 1)
    assert left == (1, *operand_bytes(A, range(16), 32, False))
    assert right == (1, *operand_bytes(B, range(8), 32, False))
    assert others == (1, *operand_bytes(A, range(16, 64), 32, False))
    assert ctx.fragments == ["%f1"]


@pytest.mark.parametrize("warp", range(8))
def test_each_warp_has_rows_of_its_own(warp: int) -> None:
    (event,) = emitted(f"{MMA} {ACC}, %d1, %d2, %p1, 1, 1, 0, 0", FakeContext(warp=warp), d1=A, d2=B, p1=1)
    first = warp % 4 * 16
    mine, others = event[2][1:], event[6][1:]
    assert mine == operand_bytes(A, range(first, first + 16), 32, False)
    together = {b for lo, hi in (*mine, *others) for b in range(lo, hi)}
    assert intervals(together) == operand_bytes(A, range(64), 32, False)


def test_a_in_registers() -> None:
    ctx = FakeContext()
    (event,) = emitted(f"{MMA} {ACC}, {{%r1, %r2, %r3, %r4}}, %d2, 0, 1, -1, 1", ctx, d2=B)
    assert event[2] is None
    assert event[4] == (0, *operand_bytes(B, range(8), 32, True))
    assert event[5] == 0
    assert {ctx.fragments[event[1]], ctx.fragments[event[3]]} == {"%f1", "%r1"}


STEP = (
    f"{MMA} {ACC}, %d1, %d2, %p1, 1, 1, 0, 0",
    "add.u64 %d3, %d1, 2",
    "add.u64 %d4, %d2, 2",
    f"{MMA} {ACC}, %d3, %d4, 1, 1, 1, 0, 0",
    "add.u64 %d5, %d1, 4",
    "add.u64 %d6, %d2, 4",
    f"{MMA} {ACC}, %d5, %d6, 1, 1, 1, 0, 0",
)


def joined(*lines: str, touches: tuple[int, ...] = ()) -> tuple[Flow, dict[int, Any], Together]:
    f = function(*lines)
    flow = Flow(f)
    found = {k: e for k, i in enumerate(f.body) if (e := decode(i, f)) is not None}
    return flow, *together(flow, found, touches)


def test_products_of_a_step_are_one_event_at_the_last() -> None:
    _, found, of = joined(*STEP)
    assert list(found) == [6] and of.first == {6: 0}
    assert set(of.reads[6]) == {f"%d{i}" for i in range(1, 7)}
    ctx = FakeContext({f"%d{i}": (A, B)[i % 2 == 0] + (i - 1) // 2 * 2 for i in range(1, 7)} | {"%p1": 1})
    effect = found[6]
    (event,) = effect.emit(ctx, 3, [ctx.value(op) for op in effect.operands])
    assert event[:3] == (Ev.WGMMA, 3, 0) and event[6] == 1
    for at, bits, rows in ((3, A, (0, 16)), (5, B, (0, 8)), (7, A, (16, 64))):
        each = {
            b
            for n in range(3)
            for lo, hi in operand_bytes(bits + 2 * n, range(*rows), 32, False)
            for b in range(lo, hi)
        }
        assert ctx.footprints[event[at]].intervals == intervals(each)


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ((STEP[0], "wgmma.commit_group.sync.aligned", *STEP[1:4]), [0, 1, 4]),
        ((STEP[0], "fence.proxy.async", *STEP[1:4]), [0, 1, 4]),
        # what the first reads is another value by then
        ((STEP[0], "mov.u64 %d1, %d9", *STEP[1:4]), [0, 4]),
        ((STEP[0], f"{MMA} {{%f5, %f6, %f7, %f8}}, %d1, %d2, 1, 1, 1, 0, 0"), [0, 1]),
        ((STEP[0], f"@%p2 {STEP[0]}"), [0, 1]),
        ((STEP[0], "L:", STEP[3]), [0, 1]),
        ((STEP[0], f"{MMA} {ACC}, {{%r1, %r2, %r3, %r4}}, %d2, 0, 1, -1, 1"), [0, 1]),
    ],
)
def test_others_are_events_of_their_own(lines: tuple[str, ...], left: list[int]) -> None:
    lines = (*lines, "@%p3 bra L") if "L:" in lines else lines
    assert list(joined(*lines)[1]) == left


def test_products_whose_registers_are_touched_between_are_not_joined() -> None:
    assert list(joined(*STEP, touches=(3,))[1]) == [0, 6]
    assert list(joined(*STEP, touches=(1,))[1]) == [0, 6]


def test_transposed_a() -> None:
    (event,) = emitted(f"{MMA} {ACC}, %d1, %d2, 1, 1, 1, 1, 0", d1=A, d2=B)
    assert event[2] == (0, *operand_bytes(A, range(16), 32, True))


@pytest.mark.parametrize(
    "line",
    [
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {%r1, %r2, %r3, %r4}, %d1, %d2, %p1",
        "wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.u8.u8 {%r1, %r2, %r3, %r4}, %d1, %d2, %p1",
        "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {%f1, %f2, %f3, %f4}, %d1, %d2, %p1, 1, 1",
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f1, %f2, %f3, %f4}, %d1, %d2, %p1, 1, 1",
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%r1, %r2, %r3, %r4}, %d1, %d2, %p1",
    ],
)
def test_other_types_read_as_many_bytes(line: str) -> None:
    (event,) = emitted(line, d1=A, d2=B, p1=0)
    assert event[2] == (0, *operand_bytes(A, range(16), 32, False))
    assert event[4] == (0, *operand_bytes(B, range(8), 32, False))


def test_sparse_a_is_packed() -> None:
    line = f"wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {ACC}, %d1, %d2, %r9, 0, %p1, 1, 1, 0, 0"
    ctx = FakeContext()
    (event,) = emitted(line, ctx, d1=A, d2=B, p1=1)
    assert event[2] == (0, *operand_bytes(A, range(16), 32, False))
    assert event[4] == (0, *operand_bytes(B, range(8), 64, False))
    assert ctx.fragments[event[3]] == "%r9"


def test_accumulators_are_data() -> None:
    assert decoded(f"{MMA} {ACC}, %d1, %d2, %p1, 1, 1, 0, 0").unknown == tuple(
        Reg(f"%f{i}") for i in range(1, 5)
    )


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("wgmma.fence.sync.aligned", ("WGMMA_FENCE",)),
        ("wgmma.commit_group.sync.aligned", ("WGMMA_COMMIT",)),
        ("wgmma.wait_group.sync.aligned 1", ("WGMMA_WAIT", 1)),
    ],
)
def test_groups(line: str, event: tuple[object, ...]) -> None:
    assert emitted(line) == [event]


# ------------------------------------------------------------------ ldmatrix, stmatrix

WARP = tuple(range(32))


@pytest.mark.parametrize(("count", "rows", "into"), [("x1", 8, "%r1"), ("x2", 16, "%r1, %r2"),
                                                     ("x4", 32, "%r1, %r2, %r3, %r4")])  # fmt: skip
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix_rows(count: str, rows: int, into: str, trans: str) -> None:
    ctx = FakeContext(lanes=WARP)
    line = f"ldmatrix.sync.aligned.m8n8.{count}{trans}.shared.b16 {{{into}}}, [%a]"
    meet, read = emitted(line, ctx, a=per_lane([1024 + 64 * i for i in range(32)]))
    assert meet == ("ELECT", 0xFFFFFFFF)
    assert (read[0], read[2]) == ("READ", 7)
    assert ctx.footprints[-1].intervals == tuple((1024 + 64 * i, 1040 + 64 * i) for i in range(rows))
    assert len(decoded(line).unknown) == rows // 8


def test_stmatrix_rows() -> None:
    ctx = FakeContext(lanes=WARP)
    line = "stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%a], {%r1, %r2, %r3, %r4}"
    assert emitted(line, ctx, a=per_lane([1024 + 16 * i for i in range(32)]))[1][0] == "WRITE"
    assert ctx.footprints[-1].intervals == ((1024, 1536),)


@pytest.mark.parametrize(("stride", "twice"), [(16, False), (0, True), (32, False)])
def test_rows_of_a_store_that_share_bytes_are_in_no_order(stride: int, twice: bool) -> None:
    ctx = FakeContext(lanes=WARP)
    line = "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%a], {%r1, %r2}"
    emitted(line, ctx, a=per_lane([1024 + stride * i for i in range(32)]))
    assert ctx.footprints[-1].overlap is twice


@pytest.mark.parametrize(("trans", "piece"), [("", (1044, 1048, 5)), (".trans", (1042, 1044, 4))])
def test_each_lane_has_its_own_fragment(trans: str, piece: tuple[int, int, int]) -> None:
    ctx = FakeContext(lanes=WARP)
    line = f"ldmatrix.sync.aligned.m8n8.x1{trans}.shared.b16 {{%r1}}, [%a]"
    emitted(line, ctx, a=per_lane([1024 + 16 * i for i in range(32)]))
    assert piece in ctx.footprints[0].lanes


def test_rows_are_aligned() -> None:
    line = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%a]"
    assert emitted(line, FakeContext(lanes=WARP), a=1032)[0][:2] == ("FAULT", "SV701")


def test_newer_shapes_are_refused() -> None:
    assert "not modelled" in refused("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%a]")
    assert "not modelled" in refused("stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%a], {%r1}")
