"""Tensor maps that kernels edit, at places and as often as sizes say that have no number."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, ScopeKind
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from tests.frontends.ptx.execute_helpers import module_text
from tests.frontends.ptx.global_helpers import EDITED, edits

PARAMS = ".param .u64 k_maps, .param .u32 k_n"
#: Each block edits a map of its own before each of ``n`` stores.
EDITS = edits(
    """
    ld.param.u64 %rd1, [k_maps];
    ld.param.u32 %r8, [k_n];
    mov.u32 %r3, %ctaid.x;
    mul.wide.u32 %rd2, %r3, 128;
    add.s64 %rd1, %rd1, %rd2;
""",
    """
    setp.ge.s32 %p4, %r7, %r8;
    @%p4 bra END;
""",
    """
    bra LOOP;
    END:
    ret;
""",
)
FACTS = """
[kernel.k]
block = [32]
cluster = [1]
[kernel.k.params]
0 = {ptr = "maps"}
1 = {i32 = "n"}
"""


def _check(folder: Path, body: str) -> KernelReport:
    (path := folder / "k.ptx").write_text(module_text(body, params=PARAMS))
    (launch := folder / "k.toml").write_text(FACTS)
    (report,) = check_source(read_source(path), facts=read_facts(launch), scope=ScopeKind.ALL, repairs=False)
    return report


def test_an_edit_before_each_store(tmp_path: Path) -> None:
    report = _check(tmp_path, EDITS)
    assert report.verdict.value == "proved", [d.message for d in report.diagnostics]


@pytest.mark.parametrize(
    "gone",
    [
        "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;",
        "cp.async.bulk.wait_group.read 0;",
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r4], 0, 256;",
    ],
)
def test_what_an_edit_needs(tmp_path: Path, gone: str) -> None:
    report = _check(tmp_path, EDITS.replace(gone, ""))
    assert report.verdict.value != "proved"
    assert report.verdict.value == "refuted" or "replace" in gone


def test_the_acquire_of_another_map(tmp_path: Path) -> None:
    gone = "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;"
    report = _check(tmp_path, EDITS.replace(gone, gone.replace("%rd1", "%rd1+128")))
    assert report.verdict.value == "refuted", report.reason


def test_a_map_whose_place_moves(tmp_path: Path) -> None:
    moved = EDITS.replace("    add.u32 %r7, %r7, 1;", "    add.u32 %r7, %r7, 1; add.s64 %rd1, %rd1, 128;")
    assert _check(tmp_path, moved).verdict.value != "refuted"
    wrong = moved.replace("fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;", "")
    assert _check(tmp_path, wrong).verdict.value == "refuted"


#: Warp 0 edits a map and loads through it ``n`` times, each time by a barrier made again; then warp 1 edits.
LOADS = """
    .shared .align 128 .b8 desc[128];
    .shared .align 128 .b8 tile[1024];
    .shared .align 8 .b64 done;
    ld.param.u64 %rd1, [k_maps];
    ld.param.u32 %r8, [k_n];
    mov.u32 %r2, %tid.x;
    mov.u32 %r4, desc;
    mov.u32 %r7, 0;
    setp.ne.u32 %p1, %r2, 0;
    setp.ge.u32 %p2, %r2, 32;
    @%p2 bra BEGIN;
    // EDITED
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r4], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
    BEGIN:
    bar.sync 0;
    LOOP:
    setp.ge.s32 %p4, %r7, %r8;
    @%p4 bra OTHER;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [done], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [done], 1024;
    cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd1, {%r7}], [done];
    READY:
    bar.sync 0;
    add.u32 %r7, %r7, 1;
    // PASSED
    WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p5, [done], 0;
    @!%p5 bra WAIT;
    bar.sync 0;
    @%p1 bra LOOP;
    mbarrier.inval.shared::cta.b64 [done];
    bra LOOP;
    OTHER:
    // LATE
    setp.ne.u32 %p6, %r2, 32;
    @%p6 bra END;
    tensormap.replace.tile.global_dim.global.b1024.b32 [%rd1], 0, 16;
    END:
    ret;
""".replace("    // EDITED\n", EDITED)
#: The warp that edits does not wait for the load that some turn makes.
PASSED = """
    @!%p2 bra WAIT;
    setp.COMPARED %p7, %r7, TURN;
    @%p7 bra OTHER;
"""
#: A load at the end that nobody waits for, or that the editor does not.
LATE = """
    @%p1 bra MORE;
    mbarrier.init.shared::cta.b64 [done], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [done], 1024;
    cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd1, {%r7}], [done];
    LAST:
    mbarrier.try_wait.parity.shared::cta.b64 %p5, [done], 0;
    @!%p5 bra LAST;
    MORE:
"""


def _loads(folder: Path, body: str) -> KernelReport:
    (path := folder / "k.ptx").write_text(module_text(body, params=PARAMS))
    (launch := folder / "k.toml").write_text(FACTS.replace("[32]", "[64]"))
    (report,) = check_source(read_source(path), facts=read_facts(launch), scope=ScopeKind.ALL, repairs=False)
    return report


def test_a_barrier_for_each_load_through_an_edited_map(tmp_path: Path) -> None:
    report = _loads(tmp_path, LOADS)
    assert report.verdict.value == "proved", [d.message for d in report.diagnostics]
    assert report.stats["nodes"] < 50  # loads that everybody knows to be over are no part of a state
    ordered = LOADS.replace("// LATE", LATE + "    bar.sync 0;\n")
    assert _loads(tmp_path, ordered).verdict.value == "proved"


@pytest.mark.parametrize(
    ("place", "more"),
    [
        ("PASSED", PASSED.replace("COMPARED", "eq.s32").replace("TURN", "7")),
        ("PASSED", PASSED.replace("COMPARED", "eq.s32").replace("TURN", "%r8")),
        ("LATE", LATE),
        ("LATE", LATE.split("    LAST:")[0] + "    MORE:\n    bar.sync 0;\n"),
    ],
)
def test_an_edit_while_a_load_may_use_the_map(tmp_path: Path, place: str, more: str) -> None:
    report = _loads(tmp_path, LOADS.replace(f"// {place}", more))
    assert report.verdict.value == "refuted", report.reason
