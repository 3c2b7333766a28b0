"""What a launch may leave open: blocks that do not run, memory without bounds, maps of any rank, unnamed variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syncverify.simulate.ptx import (
    AnyMap,
    Buffer,
    CannotExecute,
    Kind,
    Launch,
    Struct,
    TensorMap,
    buffer,
    run,
)
from syncverify.simulate.ptx.parameter_uses import pointers
from syncverify.simulate.ptx.syntax import parse
from tests.simulate.ptx.support import execute, kernel

STORE_BLOCK = "mov.u32 %r2, %ctaid.x; st.global.u32 [%rd1], %r2;"


def test_only_chosen_blocks_run() -> None:
    out = buffer(np.zeros(4, np.uint32))
    result = execute(STORE_BLOCK, out, grid=(8, 1, 1), chosen=[(5, 0, 0)])
    assert result.harm is None
    assert result.memory(out)[0] == 5


def test_an_address_without_memory_is_undefined() -> None:
    result = execute("ld.global.u32 %r2, [%rd1+40000];", buffer(np.zeros(4, np.uint32)))
    assert result.harm is not None
    assert (result.harm.kind, result.harm.space) == (Kind.UNDEFINED, "global")


def test_it_leads_nowhere_in_a_launch_without_bounds() -> None:
    body = """ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1+40000];
    st.global.u32 [%rd1+80000], %r2;
    st.global.u32 [%rd1], %r1;"""
    out = buffer(np.zeros(4, np.uint32))
    result = execute(body, out, block=1, boundless=True)
    assert result.harm is None
    assert result.memory(out).tolist() == [0, 0, 0, 0]


def test_a_struct_holds_numbers_and_memory() -> None:
    text = kernel(
        "ld.param.u64 %rd2, [s+8]; ld.param.u32 %r2, [s]; ld.global.u32 %r3, [%rd2]; add.u32 %r2, %r2, %r3;"
        "st.global.u32 [%rd1], %r2;",
        ".param .u64 out, .param .align 8 .b8 s[16]",
    )
    out, inner = buffer(np.zeros(1, np.uint32)), buffer(np.array([40], np.uint32))
    s = Struct(bytes([2]), {8: inner})
    result = run(text, "k", Launch(block=(1, 1, 1), params=(out, s)))
    assert result.memory(out)[0] == 42


def test_memory_holds_pointers() -> None:
    inner = buffer(np.array([7], np.uint32))
    out = Buffer(np.zeros(4, np.uint32), places={8: inner})
    result = execute(
        "ld.global.u64 %rd2, [%rd1+8]; ld.global.u32 %r2, [%rd2]; st.global.u32 [%rd1], %r2;", out
    )
    assert result.memory(out)[0] == 7


COPY = """
    mov.b64 %rd2, map;
    cvta.param.u64 %rd2, %rd2;
    mbarrier.init.shared.b64 [full], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared.b64 %rd9, [full], {bytes};
    cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [tile], [%rd2, {{%r1, %r1, %r1}}], [full];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p1, [full], 0;
    @!%p1 bra WAIT;
    ld.shared.u32 %r2, [tile];
"""
MEMORY = ".shared .align 8 .b64 full;\n.shared .align 128 .b8 tile[512];\n"


def test_a_map_of_known_bytes_takes_any_rank() -> None:
    for bytes_, kind in ((256, None), (512, Kind.HANG)):
        result = execute(
            COPY.format(bytes=bytes_), buffer(np.zeros(1)), AnyMap(256), block=1,
            params=", .param .align 64 .b8 map[128]", before=MEMORY,
        )  # fmt: skip
        assert (result.harm and result.harm.kind) == kind, result.harm


def test_a_copy_in_im2col_mode_writes_the_bytes_of_its_box() -> None:
    """The offsets say which elements of the tensor these are, and nobody knows the tensor."""
    text = (
        COPY.format(bytes=256).replace(".tile.", ".im2col.").replace("[full];\nWAIT", "[full], {%rs1};\nWAIT")
    )
    given: dict[str, Any] = {"block": 1, "params": ", .param .align 64 .b8 map[128]", "before": MEMORY}
    assert execute(text, buffer(np.zeros(1)), AnyMap(256), **given).harm is None
    whole = TensorMap(buffer(np.zeros((8, 8, 8), np.float32)), (8, 8, 8), (32, 256), (4, 4, 4))
    with pytest.raises(CannotExecute, match="im2col"):
        execute(text, buffer(np.zeros(1)), whole, **given)


@pytest.mark.parametrize(
    "race",
    [
        "st.global.u32 [%rd1], %r1;",  # lanes of one store
        "@%p1 st.global.u32 [%rd1], %r1;",  # warps
        "@%p1 red.global.add.u32 [%rd1], 1; ld.global.u32 %r2, [%rd1];",
    ],
)
def test_races_in_global_memory_are_harm_at_the_lines_that_are_asked_about(race: str) -> None:
    body = f"and.b32 %r3, %r1, 31; setp.eq.u32 %p1, %r3, 0;\n{race}\n"
    at = kernel(body).splitlines().index(race) + 1
    for racing, harm in ((None, True), (frozenset({at}), True), (frozenset({at + 9}), False)):
        result = execute(body, buffer(np.zeros(1, np.uint32)), block=64, racing=racing)
        assert (result.harm is not None) == harm, (racing, result.harm)


def test_variables_that_nobody_names_have_no_bytes() -> None:
    before = ".shared .align 4 .b8 used[4];\n.shared .align 4 .b8 unused[64];\n"
    inside = execute("st.shared.u32 [used], 1;", buffer(np.zeros(1)), block=1, before=before)
    behind = execute("st.shared.u32 [used+32], 1;", buffer(np.zeros(1)), block=1, before=before)
    assert inside.harm is None
    assert behind.harm is not None
    assert behind.harm.space == "shared"


def test_a_copy_of_no_bytes_has_an_aligned_source_all_the_same() -> None:
    body = "add.s64 %rd2, %rd1, 4; mov.u32 %r2, 0; cp.async.cg.shared.global [tile], [%rd2], 16, %r2;"
    body += "cp.async.wait_all;"
    result = execute(body, buffer(np.zeros(64, np.uint32)), block=1, before=MEMORY)
    assert result.harm is not None
    assert result.harm.kind is Kind.UNDEFINED


def test_words_that_lead_to_memory() -> None:
    """Those that nobody computes with; not a number that a product scales."""
    text = kernel(
        "ld.param.u64 %rd2, [n]; mul.lo.s64 %rd2, %rd2, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1;",
        ".param .u64 out, .param .u64 n, .param .u64 other",
    )
    text = text.replace("mov.u32 %r1, %tid.x;", "mov.u32 %r1, %tid.x; ld.param.u64 %rd5, [other];")
    assert pointers(parse(text).entries[0]) == {("out", 0), ("other", 0)}
