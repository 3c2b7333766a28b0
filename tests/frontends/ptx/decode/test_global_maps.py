"""Tensor maps of data that is handed over through global memory: boxes, and maps that the kernel edits."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from syncverify.frontends.ptx.decode.global_access import box_footprint
from tests.frontends.ptx.execute_helpers import module_text, system
from tests.frontends.ptx.global_helpers import EDITED, FACTS, PARAMS, edits, first, line


def test_boxes_meet_where_their_elements_do() -> None:
    def covered(at: tuple[int, int]) -> set[int]:
        return {x for lo, hi in box_footprint(0, (3, 2), 4, at).intervals for x in range(lo, hi)}

    places = list(product(range(-4, 5), range(-3, 4)))
    for at in places:
        across = max(0, 3 - abs(at[0])) * max(0, 2 - abs(at[1]))
        assert len(covered((0, 0)) & covered(at)) == 4 * across
        assert len(covered(at)) == 24


def test_boxes_of_different_maps_never_meet() -> None:
    a, b = box_footprint(0, (4,), 2, (0,)), box_footprint(1, (8,), 2, (0,))
    assert not set(range(*a.intervals[0])) & set(range(*b.intervals[0]))


# ---------------------------------------------------------------- tensor maps (SV502), and data behind them

EDITS = edits(
    """
    ld.param.u64 %rd1, [k_out];
""",
    "",
    """
    setp.lt.u32 %p4, %r7, 3;
    @%p4 bra LOOP;
    ret;
""",
)


def test_an_edited_map_is_published_acquired_and_drained(check: Any) -> None:
    assert check(module_text(EDITS, params=PARAMS), 1)["verdict"] == "proved"


def test_an_edited_map_without_acquire_is_refuted(check: Any) -> None:
    acquire = "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;"
    text = module_text(EDITS.replace(acquire, ""), params=PARAMS)
    assert first(check(text, 1)) == ("SV502", line(text, "cp.async.bulk.tensor"))


def test_a_map_edited_while_a_copy_uses_it_is_refuted(check: Any) -> None:
    text = module_text(EDITS.replace("cp.async.bulk.wait_group.read 0;", ""), params=PARAMS)
    assert first(check(text, 1)) == ("SV502", line(text, "tensormap.cp_fenceproxy"))


#: Loads through a map that is edited before each: the edit comes while the load before may be in flight.
LOADS = """
    .shared .align 128 .b8 desc[128];
    .shared .align 128 .b8 tile[1024];
    .shared .align 8 .b8 full[8];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r2, %tid.x;
    setp.ne.u32 %p1, %r2, 0;
    mov.u32 %r4, desc;
    mov.u32 %r5, tile;
    mov.u32 %r6, full;
    mov.u32 %r7, 0;
    @%p1 bra LOOP;
    mbarrier.init.shared::cta.b64 [%r6], 1;
    LOOP:
    // EDITED
    sub.u32 %r8, %r7, 1;
    and.b32 %r9, %r8, 1;
    setp.eq.u32 %p6, %r7, 0;
    or.pred %p7, %p1, %p6;
    @%p7 bra DRAINED;
    DRAIN
    DRAINED:
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r4], 128;
    @%p1 bra NEXT;
    fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
    @%p6 bra FIRST;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r6], %r9;
    @!%p5 bra W;
    FIRST:
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 1024;
    cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd1, {%r7}], [%r6];
    NEXT:
    bar.warp.sync -1;
    add.u32 %r7, %r7, 1;
    setp.lt.u32 %p4, %r7, 3;
    @%p4 bra LOOP;
    @%p1 bra OUT;
    V: mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r6], 0;
    @!%p5 bra V;
    OUT: ret;
""".replace("    // EDITED\n", EDITED)
GROUPS = "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;"
WAITED = "D: mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r6], %r9; @!%p5 bra D;"


def test_a_load_that_was_waited_for_uses_its_map_no_more(check: Any) -> None:
    found = check(module_text(LOADS.replace("DRAIN\n", WAITED + "\n"), params=PARAMS), 1)
    assert found["verdict"] == "proved", found
    assert not [d for d in found["diagnostics"] if d["rule"] == "SV502"]


def test_a_drain_of_groups_before_an_edit_is_what_cutlass_does(check: Any) -> None:
    text = module_text(LOADS.replace("DRAIN\n", GROUPS + "\n"), params=PARAMS)
    found = check(text, 1)
    assert found["verdict"] == "proved", found
    assert [d["severity"] for d in found["diagnostics"] if d["rule"] == "SV502"] == ["warning"]
    assert first(check(text, 1, FACTS, "--policy", "strict"))[0] == "SV502"


@pytest.mark.parametrize("drain", ["", GROUPS.split(";")[0] + ";", GROUPS.split(";")[1] + ";"])
def test_half_a_drain_is_none(check: Any, drain: str) -> None:
    text = module_text(LOADS.replace("DRAIN\n", drain + "\n"), params=PARAMS)
    assert first(check(text, 1)) == ("SV502", line(text, "tensormap.cp_fenceproxy"))


#: Block 0 stores a box, block 1 loads it back once the flag is up.
BOXES = """
    .shared .align 128 .b8 tile[1024];
    .shared .align 8 .b8 full[8];
    ld.param.u64 %rd2, [k_flag];
    mov.b64 %rd1, k_map;
    cvta.param.u64 %rd1, %rd1;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mov.u32 %r5, tile;
    mov.u32 %r6, full;
    mov.u32 %r8, AT;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra END;
    setp.ne.u32 %p2, %r1, 0;
    @%p2 bra LOAD;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {16, 8}], [%r5];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_groupREAD 0;
    st.release.gpu.global.u32 [%rd2], 1;
    bra END;
    LOAD:
    mbarrier.init.shared::cta.b64 [%r6], 1;
    SPIN:
    ld.acquire.gpu.global.u32 %r7, [%rd2];
    setp.eq.u32 %p3, %r7, 0;
    @%p3 bra SPIN;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 1024;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.TX [%r5], [%rd1, {%r8, 8}], [%r6];
    WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r6], 0;
    @!%p4 bra WAIT;
    END: ret;
"""
MAPPED = """
[kernel.k]
grid = [{grid}]
block = [32]
[kernel.k.params]
0 = {{tensormap = "t", dtype = "f32", box = [16, 16], swizzle = "none"}}
1 = {{ptr = "flag"}}
"""


@pytest.mark.parametrize(
    ("read", "at", "verdict"), [("", 16, "proved"), (".read", 16, "refuted"), (".read", 31, "refuted"),
                                (".read", 32, "proved"), (".read", 0, "proved")]
)  # fmt: skip
def test_a_box_is_handed_over_after_the_full_wait(check: Any, read: str, at: int, verdict: str) -> None:
    body = BOXES.replace("TX", "mbarrier::complete_tx::bytes").replace("READ", read).replace("AT;", f"{at};")
    text = module_text(body, params=".param .align 64 .b8 k_map[128], .param .u64 k_flag")
    report = check(text, 2, MAPPED)
    assert report["verdict"] == verdict, report.get("reason")
    if verdict == "refuted":
        assert first(report) == ("SV501", line(text, "st.release"))


@pytest.mark.parametrize(
    ("place", "second", "known"),
    [
        ("ld.param.u64 %rd1, [k_out];", 128, True),
        ("ld.param.u64 %rd1, [k_out];", 256, True),
        ("ld.param.u64 %rd2, [k_out]; ld.global.u64 %rd1, [%rd2];", 128, False),
    ],
)
def test_maps_at_places_that_no_launch_file_gives(check: Any, place: str, second: int, known: bool) -> None:
    """Those behind one pointer are distinguished by their offsets; those behind data are not."""

    def built(box: int, at: int) -> str:
        replaced = EDITED.replace("256;", f"{box};").replace("EDITED", f"EDITED{box}{at}")
        copied = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
        return f"{replaced}    {copied} [%rd1+{at}], [%r4], 128;\n"

    body = f"""
    .shared .align 128 .b8 desc[128];
    {place}
    mov.u32 %r2, %tid.x;
    setp.ne.u32 %p1, %r2, 0;
    mov.u32 %r4, desc;
    {built(256, 128)}    bar.warp.sync -1;
    {built(second, 256)}    ret;
"""
    found = system(body, params=PARAMS)
    assert any("which of the kernel's tensor maps" in str(why) for why in found.stuck) is not known
