"""What is kept of memories is part of what the future depends on."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, ScopeKind
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from tests.frontends.ptx.execute_helpers import module_text

#: From turn FROM on, as a counter in shared memory says, no barrier stands between a store and its reader.
TURNS = module_text(
    """
    .shared .align 16 .b8 slot[16];
    .shared .align 16 .b8 mode[16];
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    ld.param.u32 %r3, [k_n];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r4, 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    st.shared.u32 [mode], 0;
READY:
    bar.sync 0;
LOOP:
    setp.ge.s32 %p2, %r4, %r3;
    @%p2 bra END;
    ld.shared.u32 %r5, [mode];
    bar.sync 0;
    @%p1 bra FILLED;
    st.shared.u32 [slot], %r4;
FILLED:
    setp.eq.u32 %p3, %r5, FROM;
    @%p3 bra SKIP;
    bar.sync 0;
SKIP:
    setp.eq.u32 %p4, %r2, 0;
    @%p4 bra NEXT;
    ld.shared.u32 %r6, [slot];
    st.global.u32 [%rd1], %r6;
NEXT:
    bar.sync 0;
    @%p1 bra KEPT;
    add.u32 %r7, %r5, 1;
    min.u32 %r7, %r7, FROM;
    st.shared.u32 [mode], %r7;
KEPT:
    bar.sync 0;
    add.u32 %r4, %r4, 1;
    bra LOOP;
END:
    ret;
""",
    ".param .u32 k_n, .param .u64 k_out",
)

#: A poll's answer is told through shared memory, and decides who comes to a barrier.
POLLED = module_text(
    """
    .shared .align 8 .b64 full;
    .shared .align 16 .b8 slot[16];
    .shared .align 16 .b8 flag[16];
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    ld.param.u64 %rd1, [k_out];
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
READY:
    bar.sync 0;
    setp.eq.u32 %p2, %r2, 0;
    setp.ne.u32 %p3, %r1, 32;
    @%p3 bra ASK;
    st.shared.u32 [slot], 7;
    mbarrier.arrive.shared::cta.b64 _, [full];
ASK:
    @%p1 bra MEET;
    mbarrier.test_wait.parity.shared::cta.b64 %p4, [full], 0;
    selp.b32 %r3, 1, 0, %p4;
    st.shared.u32 [flag], %r3;
MEET:
    bar.sync 1, 64;
    ld.shared.u32 %r4, [flag];
    setp.eq.u32 %p5, %r4, 0;
    @%p5 bra END;
    setp.ne.u32 %p6, %r2, 0;
    @%p6 bra END;
    bar.sync 2, 64;
END:
    ret;
""",
    ".param .u64 k_out",
)


def _check(folder: Path, kernel: str, facts: str) -> KernelReport:
    (path := folder / "k.ptx").write_text(kernel)
    (launch := folder / "k.toml").write_text(f"[kernel.k]\nblock = [64]\ncluster = [1]\n{facts}")
    (report,) = check_source(read_source(path), facts=read_facts(launch), scope=ScopeKind.ALL, repairs=False)
    return report


OPEN = '[kernel.k.params]\n0 = {i32 = "n"}\n1 = {ptr = "out"}\n'


@pytest.mark.parametrize("first", [2, 20])
def test_a_counter_in_shared_memory_is_part_of_the_state(tmp_path: Path, first: int) -> None:
    report = _check(tmp_path, TURNS.replace("FROM", str(first)), OPEN)
    assert report.verdict.value == "refuted", report.reason
    assert dict(report.scope.values)["params.0"] == first + 1


def test_a_counter_in_local_memory_is_part_of_the_state(tmp_path: Path) -> None:
    text = TURNS.replace("FROM", "20").replace(".shared .align 16 .b8 mode", ".local .align 16 .b8 mode")
    for a, b in (
        ("    @%p1 bra READY;\n", ""),
        ("st.shared.u32 [mode]", "st.local.u32 [mode]"),
        ("ld.shared.u32 %r5, [mode]", "ld.local.u32 %r5, [mode]"),
        ("    @%p1 bra KEPT;\n", ""),
    ):
        text = text.replace(a, b)
    assert _check(tmp_path, text, OPEN).verdict.value == "refuted"


def test_a_flag_that_stays_is_no_obstacle(tmp_path: Path) -> None:
    text = TURNS.replace("FROM", "20").replace("    add.u32 %r7, %r5, 1;\n", "    mov.u32 %r7, %r5;\n")
    report = _check(tmp_path, text, OPEN)
    assert report.verdict.value == "proved", report.reason


def test_a_size_in_shared_memory_is_part_of_the_state(tmp_path: Path) -> None:
    """The turns left, told through shared memory; the same with one turn too many told."""
    good = TURNS.replace("[mode], 0;", "[mode], %r3;").replace(
        "add.u32 %r7, %r5, 1;", "add.u32 %r7, %r5, -1;"
    )
    good = good.replace("    min.u32 %r7, %r7, FROM;\n", "").replace(", FROM;", ", 0;")
    report = _check(tmp_path, good, OPEN)
    assert report.verdict.value == "proved", report.reason
    bad = good.replace("add.u32 %r7, %r5, -1;", "add.u32 %r7, %r5, -2;")
    assert _check(tmp_path, bad, OPEN).verdict.value == "refuted"


def test_the_answer_of_a_poll_goes_through_shared_memory(tmp_path: Path) -> None:
    facts = 'grid = [1]\n[kernel.k.params]\n0 = {ptr = "out"}\n'
    assert _check(tmp_path, POLLED, facts).verdict.value == "refuted"
    same = POLLED.replace("    @%p5 bra END;\n", "").replace("    @%p6 bra END;\n", "")
    assert _check(tmp_path, same, facts).verdict.value == "proved"


def test_a_carry_is_part_of_the_state(tmp_path: Path) -> None:
    """The carry says from turn 20 on that the barrier is left out; others' steps come before it is asked."""
    text = TURNS.replace("FROM", "1")
    for a, b in (
        ("    ld.shared.u32 %r5, [mode];\n", "    add.cc.u32 %r7, %r4, 0xffffffec;\n"),
        ("FILLED:\n", "FILLED:\n    addc.u32 %r5, 0, 0;\n"),
        ("    add.u32 %r7, %r5, 1;\n    min.u32 %r7, %r7, 1;\n    st.shared.u32 [mode], %r7;\n", ""),
    ):
        assert text.count(a) == 1, a
        text = text.replace(a, b)
    assert _check(tmp_path, text, OPEN).verdict.value == "refuted"


#: A parity in local memory, and a store through a generic pointer, of which a size says the place.
PLACED = module_text(
    """
    .shared .align 8 .b64 bar;
    .shared .align 16 .b8 slot[16];
    .local .align 16 .b8 parities[16];
    mov.u32 %r1, %tid.x;
    ld.param.u32 %r2, [k_n];
    ld.param.u64 %rd1, [k_out];
    setp.ne.u32 %p1, %r1, 0;
    @!%p1 mbarrier.init.shared::cta.b64 [bar], 64;
    bar.sync 0;
    mov.u64 %rd2, parities;
    cvta.local.u64 %rd3, %rd2;
    st.local.u32 [parities], 0;
    mul.wide.u32 %rd4, %r2, 4;
    add.u64 %rd5, %rd3, %rd4;
    STORE
    @!%p1 st.shared.u32 [slot], %r2;
    mbarrier.arrive.shared::cta.b64 _, [bar];
    ld.local.u32 %r3, [parities];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r3;
    @!%p2 bra WAIT;
    ld.shared.u32 %r4, [slot];
    st.global.u32 [%rd1], %r4;
    setp.gt.s32 %p3, %r2, 2;
    @%p3 bra END;
END:
    ret;
""",
    ".param .u32 k_n, .param .u64 k_out",
)


def test_a_store_somewhere_in_local_memory(tmp_path: Path) -> None:
    facts = f'assume = ["n >= 0", "n <= 3"]\n{OPEN}'
    assert _check(tmp_path, PLACED.replace("STORE", ""), facts).verdict.value == "proved"
    for store in ("st.u32 [%rd5], 1;", "st.v2.u32 [%rd5], {%r2, 1};", "@%p1 st.u8 [%rd5], 1;"):
        assert _check(tmp_path, PLACED.replace("STORE", store), facts).verdict.value != "proved"
