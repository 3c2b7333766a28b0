"""Copies: cp.async, bulk, tensor, st.async, tensor maps."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.decode.effects import Effect, Opaque
from syncverify.frontends.ptx.decode.table import decode
from syncverify.model.events import Flag
from syncverify.model.proxies import Scope
from tests.frontends.ptx.effect_helpers import FakeContext, emitted, function, readable, refused

BAR = 1024
DST = 2048
PEER = 1 << 24
FIVE, THREE = "{%r1, %r1, %r1, %r1, %r1}", "{%r2, %r2, %r2}"
TX = "mbarrier::complete_tx::bytes"
BULK = f"cp.async.bulk.shared::cluster.global.{TX}"
TILE = f"cp.async.bulk.tensor.2d.shared::cluster.global.{TX}"


def cluster(n: int = 2, **more: object) -> FakeContext:
    return FakeContext(ctas=n, **more)  # type: ignore[arg-type]


# ------------------------------------------------------------------ cp.async


@pytest.mark.parametrize(
    "line",
    [
        "cp.async.ca.shared.global [%a], [%d1], 16",
        "cp.async.cg.shared::cta.global.L2::128B [%a], [%d1], 16",
        "cp.async.cg.shared.global.L2::cache_hint [%a], [%d1], 16, %d2",
        "cp.async.ca.shared.global [%a], [%d1], 16, 8",
        "cp.async.ca.shared.global [%a], [%d1], 16, 0",
        "cp.async.cg.shared.global [%a], [%d1], 16, %p1",
        "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%a], [%d1], 16, %p1, %d2",
    ],
)
def test_cp_async(line: str) -> None:
    assert emitted(line, a=DST) == [("CP_ASYNC", (0, (DST, DST + 16)), -1)]


def test_cp_async_of_each_lane() -> None:
    ctx = FakeContext(lanes=(0, 1))
    (event,) = emitted("cp.async.ca.shared.global [%a], [%d1], 8", ctx, a=(DST, DST + 64))
    lanes = ((DST, DST + 8, 0), (DST + 64, DST + 72, 1))
    assert event[1] == (0, (DST, DST + 8), (DST + 64, DST + 72), lanes)


def source_bytes(*lines: str, **values: object) -> list[tuple[object, ...]]:
    """The events of a copy whose source size is ``%r1``, with the lines that set it before it."""
    f = function(*lines, "cp.async.cg.shared.global [%a], [%d1], 16, %r1")
    effect = decode(f.body[len(lines)], f)
    assert isinstance(effect, Effect)
    ctx = FakeContext(values={"%a": DST, "%r1": values.get("r1")}, lanes=(0, 1))
    return [readable(ctx, e) for e in effect.emit(ctx, 0, [ctx.value(o) for o in effect.operands])]


def test_a_size_of_the_source_that_some_path_has_not_set() -> None:
    copy = "cp.async.cg.shared.global [%a], [%d1], 16, %r1"
    set_, either = "selp.b32 %r1, 16, 0, %p1", ("@%p1 mov.b32 %r1, 16", "@!%p1 mov.b32 %r1, 0")
    for lines, asked in (((set_,), False), (either, False), (either[:1], True), ((), True)):
        f = function(*lines, copy, set_)
        effect = decode(f.body[len(lines)], f)
        assert isinstance(effect, Effect) and (len(effect.operands) == 3) is asked


def test_more_source_bytes_than_are_copied() -> None:
    assert source_bytes(r1=32)[0][:2] == ("FAULT", "SV701")
    assert source_bytes(r1=(16, 17))[0][:2] == ("FAULT", "SV701")
    assert source_bytes(r1=(16, 0))[0][0] == "CP_ASYNC"


def test_source_sizes_that_are_constants_are_not_asked_for() -> None:
    assert source_bytes("selp.b32 %r1, 16, 0, %p1")[0][0] == "CP_ASYNC"
    with pytest.raises(Opaque):
        source_bytes("selp.b32 %r1, 32, 0, %p1")


@pytest.mark.parametrize(
    "line",
    [
        "and.b32 %r1, %r2, 16",
        "and.b32 %r1, 8, %r2",
        "selp.b32 %r2, 1, 0, %p1; shl.b32 %r1, %r2, 4",
        "and.b32 %r4, %r3, 1; shl.b32 %r2, %r4, 4; mov.b32 %r1, %r2",
    ],
)
def test_source_sizes_that_are_bounded_are_not_asked_for(line: str) -> None:
    assert source_bytes(*line.split("; "))[0][0] == "CP_ASYNC"


@pytest.mark.parametrize(
    "line",
    [
        "and.b32 %r1, %r2, 17",
        "and.b32 %r1, %r2, %r3",
        "selp.b32 %r2, 2, 0, %p1; shl.b32 %r1, %r2, 4",
        "and.b32 %r2, %r3, 1; shl.b32 %r1, %r2, 5",
        "add.u32 %r1, %r2, 0",
    ],
)
def test_source_sizes_that_may_be_larger_are_asked_for(line: str) -> None:
    with pytest.raises(Opaque):
        source_bytes(*line.split("; "))


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%f1, %f2, %f3, %f4}, [%d1]",
         ("GLOBAL_READ", -1, Flag.STRONG, Scope.SYS)),
        ("multimem.st.global.v4.f32 [%d1], {%f1, %f2, %f3, %f4}", ("GLOBAL_WRITE", -1, 0, Scope.SYS, None)),
        ("multimem.red.release.gpu.global.add.f16x2 [%d1], %r1",
         ("GLOBAL_ATOMIC", -1, Flag.STRONG | Flag.RELEASE, Scope.GPU, "add", None)),
        ("multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [%a], 64",
         ("BULK_STORE", (0, (DST, DST + 64)), -1, -1, 1)),
    ],
)  # fmt: skip
def test_multimem(line: str, event: tuple[object, ...]) -> None:
    assert emitted(line, a=DST) == [event]


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("cp.async.commit_group", ("CP_COMMIT",)),
        ("cp.async.wait_group 2", ("CP_WAIT", 2)),
        ("cp.async.wait_all", ("CP_WAIT", -1)),
        ("cp.async.bulk.commit_group", ("BULK_COMMIT",)),
        ("cp.async.bulk.wait_group 1", ("BULK_WAIT", 1, 0)),
        ("cp.async.bulk.wait_group.read 0", ("BULK_WAIT", 0, 1)),
    ],
)
def test_groups(line: str, event: tuple[object, ...]) -> None:
    assert emitted(line) == [event]


# ------------------------------------------------------------------ bulk copies


@pytest.mark.parametrize("space", ["shared::cta", "shared::cluster"])
@pytest.mark.parametrize("hint", ["", ".L2::cache_hint"])
def test_bulk_load(space: str, hint: str) -> None:
    policy = ", %d2" if hint else ""
    line = f"cp.async.bulk.{space}.global.{TX}{hint} [%a], [%d1], %r1, [%b]{policy}"
    target = ((0, (DST, DST + 256)), (0, BAR), 256)
    assert emitted(line, a=DST, b=BAR, r1=256) == [("BULK_LOAD", (target,), -1, -1)]


def test_multicast_goes_to_the_same_offsets() -> None:
    line = f"{BULK}.multicast::cluster.L2::cache_hint [%a], [%d1], 64, [%b], %r1, %d2"
    (event,) = emitted(line, cluster(4), a=DST, b=BAR, r1=0b1010)
    assert event[1] == tuple(((r, (DST, DST + 64)), (r, BAR), 64) for r in (1, 3))


@pytest.mark.parametrize("mask", [0, 0b100])
def test_multicast_outside_the_cluster(mask: int) -> None:
    events = emitted(
        f"{BULK}.multicast::cluster [%a], [%d1], 64, [%b], %r1", cluster(), a=DST, b=BAR, r1=mask
    )
    assert events[0][:2] == ("FAULT", "SV208")


def test_bulk_store() -> None:
    line = "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%a], 128"
    assert emitted(line, a=DST) == [("BULK_STORE", (0, (DST, DST + 128)), -1, -1, 0)]


@pytest.mark.parametrize("op", ["add.f32", "add.noftz.bf16", "min.s32"])
def test_bulk_reduction(op: str) -> None:
    line = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op} [%d1], [%a], 128"
    assert emitted(line, a=DST)[0][-1] == 1


def test_bulk_copy_to_a_peer() -> None:
    line = f"cp.async.bulk.shared::cluster.shared::cta.{TX} [%a], [%b], 32, [%d1]"
    (event,) = emitted(line, cluster(), a=PEER + DST, b=DST, d1=PEER + BAR)
    assert event == ("BULK_COPY", (0, (DST, DST + 32)), (1, (DST, DST + 32)), (1, BAR), 32)


@pytest.mark.parametrize("op", ["add.u32", "min.s32", "xor.b32"])
def test_bulk_reduction_into_a_peer(op: str) -> None:
    line = f"cp.reduce.async.bulk.shared::cluster.shared::cta.{TX}.{op} [%a], [%b], 32, [%d1]"
    (event,) = emitted(line, cluster(), a=PEER + DST, b=DST, d1=PEER + BAR)
    assert event == ("BULK_COPY", (0, (DST, DST + 32)), (1, (DST, DST + 32)), (1, BAR), 32, 1)


def test_bulk_copy_needs_a_peer() -> None:
    line = f"cp.async.bulk.shared::cluster.shared::cta.{TX} [%a], [%b], 32, [%d1]"
    assert emitted(line, cluster(), a=DST, b=DST + 64, d1=BAR)[0][:2] == ("FAULT", "SV208")


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"a": DST + 8}, "SV701"),
        ({"r1": 24}, "SV701"),
        ({"b": BAR + 4}, "SV701"),
        ({"a": 232448 - 16}, "SV114"),
        ({"a": PEER + DST}, "SV208"),
        ({"b": PEER + BAR}, "SV208"),
        ({"a": 2 * PEER + DST}, "SV114"),
    ],
)
def test_faults_of_a_bulk_load(changed: dict[str, int], rule: str) -> None:
    values = {"a": DST, "b": BAR, "r1": 32} | changed
    assert emitted(f"{BULK} [%a], [%d1], %r1, [%b]", cluster(), **values)[0][:2] == ("FAULT", rule)


@pytest.mark.parametrize("line", [
    f"{BULK} [%a], [%d1], %r1, [%b]",
    "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%a], %r1",
])  # fmt: skip
def test_a_copy_of_nothing(line: str) -> None:
    """No bytes are a multiple of 16; a place that is not aligned is a fault all the same."""
    assert emitted(line, cluster(), a=DST, b=BAR, r1=0) == []
    assert emitted(line, cluster(), a=DST + 8, b=BAR, r1=0)[0][:2] == ("FAULT", "SV701")


def test_source_of_a_store_is_the_own_cta() -> None:
    line = "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%a], 128"
    assert emitted(line, cluster(), a=PEER + DST)[0][:2] == ("FAULT", "SV701")


def test_lanes_copy_rows_of_their_own() -> None:
    ctx = FakeContext(lanes=(0, 1))
    (event,) = emitted(f"{BULK} [%a], [%d1], 32, [%b]", ctx, a=(DST, DST + 32), b=BAR)
    lanes = ((DST, DST + 32, 0), (DST + 32, DST + 64, 1))
    assert event[1] == (((0, (DST, DST + 64), lanes), (0, BAR), 32),)


# ------------------------------------------------------------------ tensor copies


@pytest.mark.parametrize(
    "line",
    [
        f"{TILE} [%a], [%m, {{%r1, %r2}}], [%b]",
        f"{TILE}.L2::cache_hint [%a], [%m, {{%r1, %r2}}], [%b], %d2",
        f"cp.async.bulk.tensor.2d.shared::cta.global.tile.{TX} [%a], [%m, {{%r1, %r2}}], [%b]",
        f"cp.async.bulk.tensor.1d.shared::cluster.global.{TX} [%a], [%m, {{%r1}}], [%b]",
        f"cp.async.bulk.tensor.5d.shared::cluster.global.im2col.{TX} [%a], [%m, {FIVE}], [%b], {THREE}",
    ],
)
def test_tensor_load(line: str) -> None:
    ctx = FakeContext(boxes={77: 512})
    target = ((0, (DST, DST + 512)), (0, BAR), 512)
    assert emitted(line, ctx, a=DST, b=BAR, m=77) == [("BULK_LOAD", (target,), -1, 0)]
    assert ctx.maps == [77]


def test_tensor_multicast_with_im2col_offsets() -> None:
    line = (
        f"cp.async.bulk.tensor.3d.shared::cluster.global.im2col.{TX}.multicast::cluster.L2::cache_hint "
        "[%a], [%m, {%r1, %r1, %r1}], [%b], {%r2}, %r3, %d2"
    )
    (event,) = emitted(line, cluster(boxes={77: 128}), a=DST, b=BAR, m=77, r3=3)
    assert [bar for _, bar, _ in event[1]] == [(0, BAR), (1, BAR)]


def test_tensor_store() -> None:
    line = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%m, {%r1, %r2}], [%a]"
    ctx = FakeContext(boxes={77: 256})
    assert emitted(line, ctx, a=DST, m=77) == [("BULK_STORE", (0, (DST, DST + 256)), -1, 0, 0)]


def test_tensor_reduction() -> None:
    line = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%m, {%r1, %r2}], [%a]"
    assert emitted(line, FakeContext(boxes={77: 256}), a=DST, m=77)[0][-1] == 1


def test_tensor_copies_are_aligned_to_128_bytes() -> None:
    events = emitted(
        f"{TILE} [%a], [%m, {{%r1, %r2}}], [%b]", FakeContext(boxes={7: 64}), a=DST + 64, b=BAR, m=7
    )
    assert events[0][:2] == ("FAULT", "SV701")


def test_unknown_box_is_asked_for() -> None:
    with pytest.raises(Opaque, match="box of tensor map 77"):
        emitted(f"{TILE} [%a], [%m, {{%r1, %r2}}], [%b]", a=DST, b=BAR, m=77)


def test_prefetches_have_no_event() -> None:
    for line in (
        "cp.async.bulk.prefetch.L2.global [%d1], %r1",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%m, {%r1, %r2}]",
    ):
        f = function(line)
        assert decode(f.body[0], f) is None


@pytest.mark.parametrize(
    "line",
    [
        f"cp.async.bulk.tensor.2d.tile::gather4.shared::cta.global.{TX} [%a], [%m, {FIVE}], [%b]",
        f"cp.async.bulk.tensor.1d.shared::cluster.global.{TX}.cta_group::2 [%a], [%m, {{%r1}}], [%b]",
    ],
)
def test_unsupported(line: str) -> None:
    assert line.split()[0] in refused(line)


# ------------------------------------------------------------------ st.async, red.async


@pytest.mark.parametrize(
    ("line", "size"),
    [
        (f"st.async.weak.shared::cluster.{TX}.u32 [%a], %r1, [%b]", 4),
        (f"st.async.shared::cluster.{TX}.b64 [%a], %d1, [%b]", 8),
        (f"st.async.shared::cluster.{TX}.v4.f32 [%a], {{%f1, %f2, %f3, %f4}}, [%b]", 16),
    ],
)
def test_st_async(line: str, size: int) -> None:
    (event,) = emitted(line, cluster(), a=PEER + DST, b=PEER + BAR)
    assert event == ("ST_ASYNC", (1, (DST, DST + size)), (1, BAR), size, 0)


def test_red_async() -> None:
    line = f"red.async.relaxed.cluster.shared::cluster.{TX}.add.u32 [%a], %r1, [%b]"
    (event,) = emitted(line, cluster(), a=PEER + DST, b=PEER + BAR)
    assert event == ("ST_ASYNC", (1, (DST, DST + 4)), (1, BAR), 4, 1)


def test_red_async_needs_a_peer_and_st_async_a_cluster() -> None:
    red = f"red.async.relaxed.cluster.shared::cluster.{TX}.inc.u32 [%a], %r1, [%b]"
    store = f"st.async.shared::cluster.{TX}.u32 [%a], %r1, [%b]"
    assert emitted(red, cluster(), a=DST, b=BAR)[0][:2] == ("FAULT", "SV208")
    assert emitted(store, cluster(), a=DST, b=BAR)[0][0] == "ST_ASYNC"
    assert emitted(store, a=DST, b=BAR)[0][:2] == ("FAULT", "SV208")


# ------------------------------------------------------------------ tensor maps


def test_edit_of_a_map_in_global_memory() -> None:
    assert emitted("tensormap.replace.tile.global_address.global.b1024.b64 [%m], %d1", m=9) == [
        ("MAP_REPLACE", 0, 0)
    ]


def test_edit_of_a_map_in_shared_memory_writes_all_of_it() -> None:
    line = "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%a], 0, 64"
    assert emitted(line, a=DST) == [("WRITE", (0, (DST, DST + 128)))]


def built(*edits: str) -> int | None:
    """Bytes of the box of a map that is edited so and then published."""
    name = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
    replace = "tensormap.replace.tile"
    lines = [f"{replace}.{e.replace(' ', '.shared::cta.b1024.b32 [%a], ', 1)}" for e in edits]
    f = function("mov.b32 %r1, 64", *lines, f"{name} [%m], [%a], 128")
    effect = decode(f.body[1 + len(lines)], f)
    assert isinstance(effect, Effect)
    ctx = FakeContext(values={"%a": DST, "%m": 9})
    effect.emit(ctx, 0, [ctx.value(o) for o in effect.operands])
    return ctx.boxes.get(9)


def test_box_of_a_map_that_the_kernel_builds() -> None:
    assert built("rank 1", "box_dim 0, %r1", "box_dim 1, 32", "elemtype 6") == 64 * 32 * 2
    assert built("rank 1", "box_dim 0, %r1", "elemtype 6") is None
    assert built("rank 0", "box_dim 0, %r2", "elemtype 6") is None
    assert built("rank 0", "box_dim 0, 8", "box_dim 0, 16", "elemtype 0") == 16
    assert built("global_dim 0, 8") is None


def test_publication_of_an_edited_map() -> None:
    name = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
    assert emitted(f"{name} [%m], [%a], 128", a=DST, m=9) == [
        ("ELECT", 0xFFFFFFFF),
        ("READ", (0, (DST, DST + 128)), -1),
        ("WARP_SYNC", 0xFFFFFFFF),
        ("MAP_REPLACE", 0, 1),
        ("MAP_CP_FENCE", 0, Scope.GPU),
    ]


def test_bulk_zeros_are_a_write_of_each_lane() -> None:
    line = "st.bulk.weak.shared::cta [%a], %d1, 0"
    assert emitted(line, a=DST, d1=256) == [("WRITE", (0, (DST, DST + 256)))]
    assert emitted(line, a=DST, d1=0) == []
    assert emitted(line, a=DST, d1=20)[0][:2] == ("FAULT", "SV701")
    assert emitted(line, cluster(), a=PEER + DST, d1=64)[0][:2] == ("FAULT", "SV114")


def test_both_spellings_of_a_multicast() -> None:
    for kind in ("", "::16b"):
        line = f"{BULK}.multicast::cluster{kind} [%a], [%d1], 64, [%b], %r1"
        (event,) = emitted(line, cluster(), a=DST, b=BAR, r1=0b11)
        assert len(event[1]) == 2
