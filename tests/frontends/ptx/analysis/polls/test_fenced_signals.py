"""All threads fence, meet at a block barrier, and one of them sets a flag by a relaxed write (K26)."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, Policy
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from syncverify.frontends.ptx.analysis.polls.fenced_signals import with_fenced_signals
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

#: Block 1 waits for the flag that block 0 sets, and reads what all threads of block 0 have written.
KERNEL = module_text(
    """
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    ld.param.u64 %rd1, [k_flag];
    ld.param.u64 %rd2, [k_part];
    ld.param.u64 %rd4, [k_out];
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd2, %rd2, %rd3;
    add.s64 %rd4, %rd4, %rd3;
    setp.ne.u32 %p1, %r1, 0;
    setp.eq.u32 %p2, %r2, 1;
    @%p2 bra READER;
    st.global.u32 [%rd2], %r1;
    membar.gl;
    bar.sync 0;
    @%p1 bra OUT;
    atom.global.exch.b32 %r3, [%rd1], 1;
    bra OUT;
READER:
    @%p1 bra MEET;
SPIN:
    ld.acquire.gpu.global.u32 %r4, [%rd1];
    setp.eq.u32 %p3, %r4, 0;
    @%p3 bra SPIN;
MEET:
    bar.sync 0;
    ld.global.u32 %r5, [%rd2];
    st.global.u32 [%rd4], %r5;
OUT:
    ret;
""",
    params=".param .u64 k_flag, .param .u64 k_part, .param .u64 k_out",
)
EXCHANGE = "atom.global.exch.b32 %r3, [%rd1], 1;"
FENCE = "    membar.gl;\n"


def _check(folder: Path, policy: Policy, *changes: tuple[str, str]) -> KernelReport:
    (path := folder / "k.ptx").write_text(_changed(*changes))
    (facts := folder / "k.toml").write_text(
        "[kernel.k]\ngrid = [2]\nblock = [64]\ncluster = [1]\n[kernel.k.params]\n"
        '0 = {ptr = "flag"}\n1 = {ptr = "part"}\n2 = {ptr = "out"}\n'
    )
    (report,) = check_source(read_source(path), facts=read_facts(facts), policy=policy, repairs=False)
    return report


def _changed(*changes: tuple[str, str]) -> str:
    text = KERNEL
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("policy, verdict", [(Policy.PRACTICAL, "proved"), (Policy.STRICT, "refuted")])
def test_fences_before_the_barrier(tmp_path: Path, policy: Policy, verdict: str) -> None:
    report = _check(tmp_path, policy)
    assert report.verdict.value == verdict, report.reason
    assert any("(K26)" in x for x in report.assumptions) == (policy is Policy.PRACTICAL)


#: The same without a fence of each thread between its write and the barrier.
UNFENCED = [
    [(FENCE, "")],
    [(FENCE, "    membar.cta;\n")],
    [(FENCE, "    @!%p1 membar.gl;\n")],
    [(FENCE, "    @%p1 bra PAST;\n    membar.gl;\nPAST:\n")],
    [("    st.global.u32 [%rd2], %r1;\n" + FENCE, FENCE + "    st.global.u32 [%rd2], %r1;\n")],
    [(FENCE + "    bar.sync 0;\n", FENCE)],
]


@pytest.mark.parametrize("changes", UNFENCED)
def test_writes_that_are_not_fenced(tmp_path: Path, changes: list[tuple[str, str]]) -> None:
    assert _check(tmp_path, Policy.PRACTICAL, *changes).verdict.value == "refuted"


@pytest.mark.parametrize(
    "signal, released",
    [
        (EXCHANGE, "atom.release.gpu.global.exch.b32"),
        ("atom.acquire.gpu.global.exch.b32 %r3, [%rd1], 1;", "atom.acq_rel.gpu.global.exch.b32"),
        ("red.relaxed.sys.global.add.u32 [%rd1], 1;", "red.release.sys.global.add.u32"),
        ("st.volatile.global.u32 [%rd1], 1;", "st.release.sys.global.u32"),
        ("st.global.u32 [%rd1], 1;", ""),
        ("st.release.gpu.global.u32 [%rd1], 1;", ""),
        ("atom.relaxed.cta.global.exch.b32 %r3, [%rd1], 1;", ""),
        ("membar.gl; st.volatile.global.u32 [%rd1], 1;", ""),
        ("ld.shared.u32 %r3, [0]; st.relaxed.gpu.global.u32 [%rd1], %r3;", "st.release.gpu.global.u32"),
        ("st.shared.u32 [0], %r1; st.relaxed.gpu.global.u32 [%rd1], 1;", ""),
        ("ld.shared::cluster.u32 %r3, [%r3]; st.relaxed.gpu.global.u32 [%rd1], 1;", ""),
        ("ld.u32 %r3, [%rd2]; st.relaxed.gpu.global.u32 [%rd1], 1;", ""),
    ],
)
def test_which_writes_are_signals(signal: str, released: str) -> None:
    f = parse(_changed((EXCHANGE, signal))).entries[0]
    changed, found = with_fenced_signals(f)
    assert [changed.body[k].name for k in found] == [released] * bool(released)


LOAD = "ld.acquire.gpu.global.u32 %r4, [%rd1];"


@pytest.mark.parametrize(
    "poll, verdict",
    [
        ("atom.acquire.gpu.global.add.u32 %r4, [%rd1], 0;", "proved"),
        ("mov.u32 %r6, 0; atom.acq_rel.gpu.global.or.b32 %r4, [%rd1], %r6;", "proved"),
        ("atom.relaxed.gpu.global.add.u32 %r4, [%rd1], 0; fence.acq_rel.gpu;", "proved"),
        ("atom.relaxed.gpu.global.add.u32 %r4, [%rd1], 0;", "refuted"),
        ("atom.acquire.gpu.global.add.u32 %r4, [%rd1], %r6;", "refuted"),  # of any bits: nobody sets %r6
    ],
)
def test_atomics_that_only_read_are_polls(tmp_path: Path, poll: str, verdict: str) -> None:
    report = _check(tmp_path, Policy.PRACTICAL, (LOAD, poll))
    assert report.verdict.value == verdict, report.reason
