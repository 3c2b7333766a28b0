"""docs/decisions/block-size-from-a-bound.md: `.maxntid` is a bound, `.reqntid` a fact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from syncverify.cli.main import run as command
from tests.frontends.ptx.execute_helpers import module_text

TAKEN = "block = 128: from .maxntid, which is a bound"
#: Threads read what a neighbour wrote; ``WAIT`` stands between.
BODY = """
    .shared .align 16 .b8 tile[512];
    .shared .align 8 .b64 bar;
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r9, %ntid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.u32 %r4, %r3, %r2;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [bar], COUNT;
READY:
    bar.sync 0;
    st.shared.u32 [%r4], %r1;
    WAIT
    xor.b32 %r5, %r2, 4;
    add.u32 %r6, %r3, %r5;
    ld.shared.u32 %r7, [%r6];
    st.global.u32 [%rd1], %r7;
    ret;
"""
ARRIVE = """mbarrier.arrive.shared::cta.b64 _, [bar];
    SPIN: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra SPIN;"""
ROLES = """setp.lt.u32 %p3, %r1, 64;
    @%p3 bra FIRST;
    bar.sync 1, 64;
    bra MET;
FIRST: bar.sync 2, 64;
MET:"""


def _check(tmp_path: Path, capsys: Any, wait: str, count: str, directive: str, launch: str) -> dict[str, Any]:
    text = module_text(BODY.replace("WAIT", wait).replace("COUNT", count), ".param .u64 k_out")
    text = text.replace("(.param .u64 k_out)", f"(.param .u64 k_out)\n{directive}")
    (tmp_path / "k.ptx").write_text(text)
    (tmp_path / "k.ptx.launch.toml").write_text(launch)
    command(["check", str(tmp_path / "k.ptx"), "--format", "json"])
    (report,) = json.loads(capsys.readouterr().out)["kernels"]
    return dict(report)


@pytest.mark.parametrize(
    ("wait", "count", "verdict"),
    [
        ("bar.sync 0;", "1", "proved"),
        ("bar.sync 1, %r9;", "1", "proved"),
        ("bar.sync 1, 128;", "1", "unknown"),
        ("barrier.sync.aligned 3, 128;", "1", "unknown"),
        ("barrier.sync 1, 128; barrier.sync 2, 128;", "1", "unknown"),
        (ARRIVE, "%r9", "proved"),
        (ARRIVE, "128", "unknown"),
        (ROLES, "1", "proved"),
    ],
)
def test_a_smaller_block(tmp_path: Path, capsys: Any, wait: str, count: str, verdict: str) -> None:
    found = _check(tmp_path, capsys, wait, count, ".maxntid 128, 1, 1", "")
    assert found["verdict"] == verdict, found["reason"]
    assert TAKEN in found["assumptions"]
    given = "[kernel.k]\nblock = [128]\n"
    for directive, launch in ((".reqntid 128, 1, 1", ""), (".maxntid 128, 1, 1", given)):
        found = _check(tmp_path, capsys, wait, count, directive, launch)
        assert found["verdict"] == "proved", found["reason"]
        assert TAKEN not in found["assumptions"]


def test_a_smaller_block_that_is_given_is_refuted(tmp_path: Path, capsys: Any) -> None:
    launch = "[kernel.k]\nblock = [64]\n"
    assert _check(tmp_path, capsys, "bar.sync 1, 128;", "1", ".maxntid 128", launch)["verdict"] == "refuted"


#: The array has 96 words, and a barrier is for 96 threads: ``WAIT`` and ``STEP`` are what goes wrong.
FEWER = """
    .shared .align 16 .b8 tile[384];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    WAIT
    sub.u32 %r5, 380, %r2;
    add.u32 %r6, %r3, %r5;
    ld.shared.u32 %r7, [%r6];
    bar.sync 1, 96;
    ret;
"""


@pytest.mark.parametrize(
    ("wait", "directive", "verdict"),
    [
        ("bar.sync 1, 96;", ".maxntid 128", "unknown"),
        ("bar.sync 1, 96;", ".reqntid 96", "proved"),
        ("bar.sync 1, 96;", ".reqntid 128", "refuted"),
        ("", ".maxntid 128", "refuted"),
    ],
)
def test_a_block_that_a_barrier_names(
    tmp_path: Path, capsys: Any, wait: str, directive: str, verdict: str
) -> None:
    text = module_text(FEWER.replace("WAIT", wait), ".param .u64 k_out", bounds=directive)
    (tmp_path / "k.ptx").write_text(text)
    command(["check", str(tmp_path / "k.ptx"), "--format", "json"])
    (report,) = json.loads(capsys.readouterr().out)["kernels"]
    assert report["verdict"] == verdict, report["reason"]
    if verdict == "unknown":
        assert "a block of 96 threads" in report["reason"]


#: Under ``.maxntid 128`` alone: what is right for the threads that the text names, and its mistake.
MEANT = {
    "one thread": """
    .shared .align 16 .b8 s[16]; ld.param.u64 %rd1, [k_out]; mov.u32 %r3, s;
    cp.async.ca.shared.global [%r3], [%rd1], 16; WAIT
    ld.shared.u32 %r1, [%r3]; add.u32 %r1, %r1, 1; st.shared.u32 [%r3], %r1; ret;""",
    "96 threads": """
    .shared .align 16 .b8 s[384]; .shared .align 8 .b64 full; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2;
    mov.u32 %r3, s; add.u32 %r4, %r3, %r2; mov.u32 %r8, full; setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared.b64 [%r8], 96; bar.sync 0; st.shared.u32 [%r4], %r1;
    mbarrier.arrive.shared.b64 %rd2, [%r8]; W: mbarrier.try_wait.shared.b64 %p2, [%r8], %rd2; @!%p2 bra W;
    WAIT sub.u32 %r5, 380, %r2; add.u32 %r6, %r3, %r5; ld.shared.u32 %r7, [%r6]; ret;""",
    "a block of 96": """
    .shared .align 16 .b8 s[384]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, s;
    add.u32 %r4, %r3, %r2; st.shared.u32 [%r4], %r1; WAIT
    xor.b32 %r5, %r4, 4; ld.shared.u32 %r7, [%r5]; ret;""",
}
#: ``WAIT`` of the right ones, and of the wrong ones. The mbarrier waits in both.
RIGHT = {
    "one thread": "cp.async.wait_all;",
    "96 threads": "",
    "a block of 96": "bar.warp.sync -1;",
}
WRONG = {"one thread": "", "96 threads": "st.shared.u32 [%r3], %r1;", "a block of 96": ""}


@pytest.mark.parametrize("name", MEANT)
@pytest.mark.parametrize("right", [True, False])
def test_a_block_that_the_text_is_meant_for(tmp_path: Path, capsys: Any, name: str, right: bool) -> None:
    body = MEANT[name].replace("WAIT", (RIGHT if right else WRONG)[name])
    (tmp_path / "k.ptx").write_text(module_text(body, ".param .u64 k_out", bounds=".maxntid 128"))
    command(["check", str(tmp_path / "k.ptx"), "--format", "json"])
    (report,) = json.loads(capsys.readouterr().out)["kernels"]
    assert report["verdict"] == ("unknown" if right else "refuted"), report["reason"]
    assert not right or name in report["reason"]
