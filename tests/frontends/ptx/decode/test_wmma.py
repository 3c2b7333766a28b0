"""Matrices that a warp loads and stores as a whole: who holds which element is not specified."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, ScopeKind, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from tests.frontends.ptx.effect_helpers import FakeContext, emitted
from tests.frontends.ptx.execute_helpers import module_text

TILE = ".shared .align 32 .b8 tile[2048];\n"
#: Each of two warps writes half of a tile of 16 rows of 64 bytes, and loads all of it.
FILLED = """
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r2;
    st.shared.v4.b32 [%r3], {%r9, %r9, %r9, %r9};
    SYNC
    wmma.load.a.sync.aligned.row.m16n16k16.shared.f16
        {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%r2], 32;
    END
    ret;
"""
#: A warp stores a tile, and its lanes read it.
READ_BACK = """
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r2;
    wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r2], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, 16;
    SYNC
    ld.shared.b32 %r4, [%r3];
    ret;
"""
#: A flag is polled, then a matrix is loaded from what it guards.
POLLED = """
    ld.param.u64 %rd1, [k_n];
    red.release.gpu.global.add.u32 [%rd1], 1;
    WAIT: ld.acquire.gpu.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT;
    wmma.load.a.sync.aligned.row.m16n16k16.global.f16
        {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%rd1+128], 16;
    ret;
"""


def checked(
    tmp_path: Path, body: str, threads: int, params: str = ".param .u32 k_n", facts: str = ""
) -> KernelReport:
    (path := tmp_path / "k.ptx").write_text(module_text(body, params=params, outside=TILE))
    (launch := tmp_path / "k.toml").write_text(f"[kernel.k]\nblock = [{threads}]\ngrid = [1]\n{facts}")
    (report,) = check_source(read_source(path), facts=read_facts(launch), scope=ScopeKind.ALL, repairs=False)
    return report


@pytest.mark.parametrize(
    ("body", "threads", "sync", "rule"),
    [
        (FILLED, 64, "bar.sync 0;", ""),
        (FILLED, 64, "", "SV110"),
        (FILLED.replace("END", "bar.sync 0; st.shared.b32 [%r3], %r9;"), 64, "bar.sync 0;", ""),
        (FILLED.replace("END", "st.shared.b32 [%r3], %r9;"), 64, "bar.sync 0;", "SV111"),
        (READ_BACK, 32, "bar.warp.sync -1;", ""),
        (READ_BACK, 32, "", "SV110"),  # not even in its own warp: another lane may have stored the element
    ],
)
def test_order(tmp_path: Path, body: str, threads: int, sync: str, rule: str) -> None:
    report = checked(tmp_path, body.replace("SYNC", sync).replace("END", ""), threads)
    assert report.verdict is (Verdict.REFUTED if rule else Verdict.PROVED)
    assert [d.rule for d in report.diagnostics if d.severity.value == "error"] == [rule] * bool(rule)


@pytest.mark.parametrize(("form", "elements", "stride", "runs"), [
    ("load.a.sync.aligned.row.m16n16k16.shared.f16", 8, ", 40", [(80 * r, 80 * r + 32) for r in range(16)]),
    ("load.a.sync.aligned.col.m32n8k16.shared.bf16", 8, ", 40", [(80 * r, 80 * r + 64) for r in range(16)]),
    ("load.b.sync.aligned.row.m32n8k16.shared.s8", 1, ", 16", [(16 * r, 16 * r + 8) for r in range(16)]),
    ("load.b.sync.aligned.col.m8n8k4.shared.f64", 1, "", [(0, 256)]),
    ("store.d.sync.aligned.row.m16n16k8.shared.f32", 8, ", 20", [(80 * r, 80 * r + 64) for r in range(16)]),
])  # fmt: skip
def test_bytes(form: str, elements: int, stride: str, runs: list[tuple[int, int]]) -> None:
    regs = "{" + ", ".join(f"%x{j}" for j in range(elements)) + "}"
    ops = f"[%a], {regs}" if "store" in form else f"{regs}, [%a]"
    ctx = FakeContext(lanes=tuple(range(32)))
    events = emitted(f"wmma.{form} {ops}{stride}", ctx, a=2048)
    assert [e[0] for e in events] == ["ELECT", "WRITE" if "store" in form else "READ"]
    assert list(ctx.footprints[0].intervals) == [(2048 + lo, 2048 + hi) for lo, hi in runs]
    assert not ctx.footprints[0].lanes


def test_outside_shared_memory(tmp_path: Path) -> None:
    report = checked(
        tmp_path, FILLED.replace("SYNC", "bar.sync 0;").replace("END", "").replace(", 32;", ", 512;"), 64
    )
    assert [d.rule for d in report.diagnostics if d.severity.value == "error"] == ["SV114"]


def test_not_followed_where_blocks_hand_over(tmp_path: Path) -> None:
    report = checked(
        tmp_path, POLLED, 32, params=".param .u64 k_n", facts='[kernel.k.params]\n0 = {ptr = "A"}\n'
    )
    assert report.verdict is Verdict.UNKNOWN
    assert report.reason is not None and "wmma.load" in report.reason
