"""Locks in global memory: blocks that change the same data, one after the other."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, Severity
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from syncverify.frontends.ptx.analysis.exclusion.locks import neighbours
from syncverify.frontends.ptx.analysis.handover.handover_detection import hand_over
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

#: Each block takes the lock, adds to the words of DATA and lets the lock go.
KERNEL = module_text(
    """
    .shared .align 4 .b8 found[4];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    ld.param.u64 %rd1, [k_lock];
    ld.param.u64 %rd2, [k_data];
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd2, %rd2, %rd3;
    setp.eq.u32 %p4, %r2, 0;
TAKE:
    setp.eq.u32 %p1, %r1, 0;
    bar.sync 0;
    mov.u32 %r3, 0;
    mov.u32 %r4, 1;
    @%p1 atom.global.acq_rel.gpu.cas.b32 %r5, [%rd1], %r3, %r4;
    @%p1 st.shared.u32 [found], %r5;
    bar.sync 0;
    ld.shared.u32 %r6, [found];
    setp.eq.u32 %p2, %r6, 1;
    @%p2 bra TAKE;
    ld.global.u32 %r7, [%rd2];
    add.u32 %r7, %r7, 1;
    st.global.u32 [%rd2], %r7;
    bar.sync 0;
    @%p1 atom.global.acq_rel.gpu.exch.b32 %r8, [%rd1], 0;
    ret;
""",
    params=".param .u64 k_lock, .param .u64 k_data",
)


def _check(
    folder: Path, *changes: tuple[str, str], grid: int = 2, text: str = KERNEL, replay: bool = True
) -> KernelReport:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (path := folder / "k.ptx").write_text(text)
    (facts := folder / "k.toml").write_text(
        f"[kernel.k]\ngrid = [{grid}]\nblock = [64]\ncluster = [1]\n[kernel.k.params]\n"
        '0 = {ptr = "lock"}\n1 = {ptr = "data"}\n'
    )
    (report,) = check_source(read_source(path), facts=read_facts(facts), replay=replay, repairs=False)
    return report


@pytest.mark.parametrize("grid", [1, 2, 3, 4])
def test_data_behind_a_lock(tmp_path: Path, grid: int) -> None:
    report = _check(tmp_path, grid=grid)
    assert report.verdict.value == "proved", report.reason
    assert "flags and counters in global memory are zero at launch" in report.assumptions


PAIRS = "mul.wide.u32 %rd4, %r9, 4; add.s64 %rd1, %rd1, %rd4; setp.eq.u32 %p4, %r2, 0;"


def test_two_locks(tmp_path: Path) -> None:
    """Blocks 0 and 2 share a lock and data, 1 and 3 others."""
    at = "mad.wide.u32 %rd2, %r9, 256, %rd2; " + PAIRS
    changes = [("setp.eq.u32 %p4, %r2, 0;", "and.b32 %r9, %r2, 1; " + at)]
    report = _check(tmp_path, *changes, grid=4)
    assert report.verdict.value == "proved", report.reason


LET_GO = "    bar.sync 0;\n    @%p1 atom.global.acq_rel.gpu.exch.b32 %r8, [%rd1], 0;\n"
STORE = "    st.global.u32 [%rd2], %r7;\n"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([(LET_GO, LET_GO.replace("    bar.sync 0;\n", ""))], id="let go before all have stored"),
        pytest.param([("acq_rel.gpu.exch", "relaxed.gpu.exch")], id="let go without a release"),
        pytest.param([("acq_rel.gpu.cas", "relaxed.gpu.cas")], id="taken without an acquire"),
        pytest.param([(STORE, ""), ("    ret;", STORE + "    ret;")], id="stored after it was let go"),
        pytest.param([("setp.eq.u32 %p2, %r6, 1;", "setp.eq.u32 %p2, %r6, 0;")], id="the answer turned"),
        pytest.param([("    bar.sync 0;\n    ld.shared", "    ld.shared")], id="nobody waits for the answer"),
        pytest.param(
            [("setp.eq.u32 %p4, %r2, 0;", "mov.u32 %r9, %r2; " + PAIRS)], id="a lock for each block"
        ),
        pytest.param([("TAKE:", "    @%p4 st.global.u32 [%rd2], %r1;\nTAKE:")], id="one stores too soon"),
        pytest.param([("@%p1 atom.global.acq_rel.gpu.exch", "@%p2 atom.global.acq_rel.gpu.exch")],
                     id="never let go"),
    ],
)  # fmt: skip
def test_wrong_use_of_a_lock(tmp_path: Path, changes: list[tuple[str, str]]) -> None:
    report = _check(tmp_path, *changes)
    assert report.verdict.value == "refuted", report.reason
    assert any(d.severity is Severity.ERROR for d in report.diagnostics)


UNTIL_FIVE = "    setp.lt.u32 %p3, %r9, 5;\n    and.pred %p2, %p2, %p3;\n    @%p2 bra TAKE;"
COUNTED = """    @%p1 ld.shared.u32 %r9, [found+4];
    add.u32 %r9, %r9, 1;
    @%p1 st.shared.u32 [found+4], %r9;"""


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([("TAKE:", "    @%p1 atom.global.acq_rel.gpu.exch.b32 %r8, [%rd1], 0;\nTAKE:")],
                     id="let go by one who has not taken it"),
        pytest.param([(LET_GO, LET_GO.replace("[%rd1], 0", "[%rd1], 2"))], id="let go, and not free"),
        pytest.param([("mov.u32 %r3, 0;", "mov.u32 %r3, 5;")], id="not free at launch"),
        pytest.param([("setp.eq.u32 %p1, %r1, 0;\n", "setp.lt.u32 %p1, %r1, 2;\n")], id="taken by two lanes"),
        pytest.param(
            [("setp.eq.u32 %p4", "setp.eq.u32 %p5, %r1, 32; setp.eq.u32 %p4"),
             ("@%p1 atom.global.acq_rel.gpu.exch", "@%p5 atom.global.acq_rel.gpu.exch")],
            id="let go by another thread",
        ),
        pytest.param([(STORE, STORE + "    st.global.u32 [%rd1], %r1;\n")], id="stored over"),
        pytest.param([("    ret;", "    @%p4 bra TAKE;\n    ret;")], id="taken again"),
        pytest.param(
            [("TAKE:", "    mov.u32 %r9, 0;\nTAKE:\n    add.u32 %r9, %r9, 1;"),
             ("    @%p2 bra TAKE;", UNTIL_FIVE)],
            id="given up after five turns",
        ),
        pytest.param(
            [("TAKE:", "    mov.u32 %r9, 0;\nTAKE:\n    add.u32 %r9, %r9, 1;"),
             ("    ret;", "    setp.eq.u32 %p3, %r9, 2;\n    @%p3 ret;\n    bar.sync 0, 96;\n    ret;")],
            id="what follows depends on the turns",
        ),
        pytest.param(
            [("    .shared .align 4 .b8 found[4];", "    .shared .align 4 .b8 found[8];"),
             ("TAKE:", "    setp.eq.u32 %p1, %r1, 0;\n    @%p1 st.shared.u32 [found+4], 0;\nTAKE:"),
             ("    @%p1 st.shared.u32 [found], %r5;", "    @%p1 st.shared.u32 [found], %r5;\n" + COUNTED),
             ("    @%p2 bra TAKE;", "    ld.shared.u32 %r9, [found+4];\n" + UNTIL_FIVE)],
            id="given up as shared memory says",
        ),
    ],
)  # fmt: skip
def test_locks_that_are_not_followed(tmp_path: Path, changes: list[tuple[str, str]]) -> None:
    assert _check(tmp_path, *changes, replay=False).verdict.value != "proved"


@pytest.mark.parametrize("n", range(1, 9))
def test_each_comes_right_after_each_other(n: int) -> None:
    rows = neighbours(range(n))
    assert all(sorted(row) == list(range(n)) for row in rows)
    assert {p for row in rows for p in pairwise(row)} >= {
        (a, b) for a in range(n) for b in range(n) if a != b
    }


#: One thread of each block takes the lock by itself, adds to a word and lets the lock go.
ALONE = module_text(
    """
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [k_lock];
    ld.param.u64 %rd2, [k_data];
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra OUT;
    mov.u32 %r3, 0;
    mov.u32 %r4, 1;
TAKE:
    atom.global.cas.b32 %r5, [%rd1], %r3, %r4;
    setp.ne.u32 %p2, %r5, 0;
    @%p2 bra TAKE;
    membar.gl;
    ld.global.u32 %r7, [%rd2];
    add.u32 %r7, %r7, 1;
    st.global.u32 [%rd2], %r7;
    fence.acq_rel.gpu;
    atom.global.exch.b32 %r8, [%rd1], 0;
OUT:
    ret;
""",
    params=".param .u64 k_lock, .param .u64 k_data",
)
EXCHANGED = ("atom.global.cas.b32 %r5, [%rd1], %r3, %r4;", "atom.global.exch.b32 %r5, [%rd1], %r4;")
#: The turns go on until a flag of the thread's own says that it has held the lock.
UNTIL_DONE = [
    ("@%p1 bra OUT;", "@%p1 bra OUT; mov.u32 %r9, 0;"),
    ("@%p2 bra TAKE;", "@%p2 bra NEXT;"),
    ("OUT:", "mov.u32 %r9, 1; NEXT: setp.eq.u32 %p3, %r9, 0; @%p3 bra TAKE; OUT:"),
]


@pytest.mark.parametrize(
    "changes, verdict",
    [
        ([], "proved"),
        ([("fence.acq_rel.gpu;", "")], "refuted"),
        ([("membar.gl;", "")], "refuted"),
        ([("fence.acq_rel.gpu;", "fence.acq_rel.cta;")], "refuted"),
        ([EXCHANGED], "unknown"),
        (UNTIL_DONE, "unknown"),
        ([*UNTIL_DONE, ("membar.gl;", ""), ("fence.acq_rel.gpu;", "")], "refuted"),
    ],
)
def test_a_lock_that_one_thread_takes(tmp_path: Path, changes: list[tuple[str, str]], verdict: str) -> None:
    report = _check(tmp_path, *changes, grid=3, text=ALONE)
    assert report.verdict.value == verdict, report.reason


#: ``old = cas(word, old, old + 1)``: another thread's update only lets it try again.
UPDATE = [
    ("mov.u32 %r3, 0;", "ld.global.u32 %r3, [%rd1];"),
    ("mov.u32 %r4, 1;", ""),
    ("TAKE:", "TAKE: add.u32 %r4, %r3, 1;"),
    ("setp.ne.u32 %p2, %r5, 0;", "setp.ne.u32 %p2, %r5, %r3; mov.u32 %r3, %r5;"),
]
TICKETS = [("cas.b32 %r5, [%rd1], %r3, %r4;", "add.u32 %r5, [%rd1], %r4;")]


@pytest.mark.parametrize(
    "changes, waits",
    [([], 1), ([EXCHANGED], 1), (UNTIL_DONE, 1), (UPDATE, 0), (TICKETS, 0)],
)
def test_what_waits_for_another_thread(changes: list[tuple[str, str]], waits: int) -> None:
    text = ALONE
    for old, new in changes:
        text = text.replace(old, new)
    found = hand_over(Flow(parse(text).entries[0]), {})
    assert found is not None and len(found.waits) == waits
