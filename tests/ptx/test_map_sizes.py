"""Tensor maps that kernels edit, at places and as often as sizes say that have no number."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.diagnostics import KernelReport, ScopeKind
from syncverify.files import check_source, read_source
from syncverify.launch import read_facts
from tests.ptx.execute_helpers import module_text
from tests.ptx.global_helpers import edits

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
    (report,) = check_source(read_source(path), facts=read_facts(launch), scope=ScopeKind.ALL)
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
