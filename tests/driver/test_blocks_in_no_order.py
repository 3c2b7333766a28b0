"""Blocks that read what others write, where nothing is released and nothing waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, Replayed, ScopeKind, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import LaunchFacts

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n, .param .u64 m)
.reqntid 32, 1, 1
{{
.reg .pred %p<9>;
.reg .b32 %r<20>;
.reg .b64 %rd<20>;
ld.param.u64 %rd1, [p];
ld.param.u32 %r9, [n];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %nctaid.x;
ld.param.u64 %rd6, [q];
mad.lo.u32 %r10, %r2, 32, %r1;
mul.wide.u32 %rd7, %r10, 4;
add.s64 %rd7, %rd6, %rd7;
mov.u32 %r6, 0;
{body}
st.global.u32 [%rd7], %r6;
ret;
}}
"""
FOUR = LaunchFacts.of({"grid": [4]})
#: A block's own word; the words of all, by the first thread of the first block; of this block's neighbour.
OWN = (
    "mul.wide.u32 %rd2, %r2, {0}; add.s64 %rd3, %rd1, %rd2; setp.ne.u32 %p1, %r1, 0; @%p1 bra A; "
    "st.global.u32 [%rd3], %r2; A: bar.sync 0; "
)
ALL = (
    "or.b32 %r4, %r1, %r2; setp.ne.u32 %p2, %r4, 0; @%p2 bra Z; mov.u32 %r5, 0; L: "
    "mul.wide.u32 %rd4, %r5, 4; add.s64 %rd5, %rd1, %rd4; ld.global.u32 %r6, [%rd5]; "
    "add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, %r3; @%p3 bra L; Z: "
)
BACK = "ld.global.u32 %r6, [%rd3];"
NEXT = "{0}.b32 %r7, %r2, 1; mul.wide.u32 %rd4, %r7, 4; add.s64 %rd5, %rd1, %rd4; ld.global.u32 %r6, [%rd5];"
#: The first word of the memory, by a kernel that is one for a single block.
FIRST = (
    "setp.ne.u32 %p1, %r1, 0; @%p1 bra A; st.global.u32 [%rd1], %r1; A: bar.sync 0; "
    "ld.global.u32 %r6, [%rd1];"
)
#: Rows whose pitch the host says: with 0 they would be one.
ROWS = (
    "mul.lo.u32 %r8, %r2, %r9; mad.lo.u32 %r8, %r8, 32, %r1; mul.wide.u32 %rd2, %r8, 4; "
    "add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1; ld.global.u32 %r6, [%rd3];"
)
#: A region that the host says by 64 bits: with 0 it would be the one that is written.
REGION = (
    OWN.format(4)
    + "xor.b32 %r7, %r2, 1; mul.wide.u32 %rd4, %r7, 4; ld.param.u64 %rd9, [m]; shl.b64 %rd9, %rd9, 9; "
    "add.s64 %rd4, %rd4, %rd9; add.s64 %rd5, %rd1, %rd4; ld.global.u32 %r6, [%rd5];"
)
#: All blocks store one table, and each reads it, beside a word of its own through another pointer.
TABLE = (
    "mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1; bar.sync 0; "
    "ld.global.u32 %r6, [%rd1];"
)
#: One launch writes, another one reads: a size says which, or a word in memory.
PHASES = "setp.ne.u32 %p4, %r9, 0; @%p4 bra A; {write}bra Z; A: {read}Z: "
WRITES = "mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r2; "
READS = (
    "xor.b32 %r7, %r2, 1; mul.wide.u32 %rd4, %r7, 4; add.s64 %rd5, %rd1, %rd4; ld.global.u32 %r6, [%rd5]; "
)
BY_SIZE = PHASES.format(write=WRITES, read=READS)
BY_DATA = "ld.param.u64 %rd9, [m]; ld.global.u32 %r9, [%rd9]; " + BY_SIZE


def checked(tmp_path: Path, body: str, facts: LaunchFacts, *, replay: bool = True) -> KernelReport:
    (tmp_path / "k.ptx").write_text(KERNEL.format(body=body.replace("; ", ";\n")))
    source = read_source(str(tmp_path / "k.ptx"))
    (found,) = check_source(source, facts=facts, scope=ScopeKind.ALL, replay=replay, repairs=False)
    return found


@pytest.mark.parametrize("facts", [FOUR, LaunchFacts.of({})], ids=["four blocks", "any grid"])
@pytest.mark.parametrize("body", [OWN.format(4) + ALL, OWN.format(4) + NEXT.format("xor")])
def test_what_others_write_is_refuted_by_an_execution(tmp_path: Path, body: str, facts: LaunchFacts) -> None:
    found = checked(tmp_path, body, facts)
    assert found.verdict is Verdict.REFUTED, found.reason
    assert found.replay is not None and found.replay.outcome is Replayed.REPRODUCED


@pytest.mark.parametrize(
    "body",
    [OWN.format(4) + BACK, OWN.format(8) + NEXT.format("shl"), ROWS, REGION, BY_SIZE, BY_DATA],
    ids=["back", "between", "rows", "region", "by size", "by data"],
)
def test_what_no_other_block_writes_stays_proved(tmp_path: Path, body: str) -> None:
    found = checked(tmp_path, body, FOUR)
    assert found.verdict is Verdict.PROVED, (found.reason, found.diagnostics)


@pytest.mark.parametrize("body", [FIRST, TABLE], ids=["first", "table"])
def test_what_is_for_one_block_is_refuted_with_four(tmp_path: Path, body: str) -> None:
    """What a block reads back others store too, in no order: a race, though all store the same."""
    assert checked(tmp_path, body, LaunchFacts.of({"grid": [1]})).verdict is Verdict.PROVED
    assert checked(tmp_path, body, FOUR).verdict is Verdict.REFUTED


def test_without_an_execution_it_is_unknown_with_both_lines(tmp_path: Path) -> None:
    found = checked(tmp_path, OWN.format(4) + NEXT.format("xor"), FOUR, replay=False)
    assert found.verdict is Verdict.UNKNOWN
    text = (tmp_path / "k.ptx").read_text().splitlines()
    lines = [n for n, x in enumerate(text, 1) if "[%rd3]" in x or "[%rd5]" in x]
    assert found.reason is not None and "outside what is proved" in found.reason
    assert all(f"line {n}" in found.reason for n in lines)
