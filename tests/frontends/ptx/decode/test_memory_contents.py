"""What launch files say of global memory: values that steer a kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, Severity
from syncverify.base.source import InputError
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts

#: Warp 1 reads what warp 0 wrote. Its wait is left out where the word of its block in TABLE is 1.
KERNEL = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 k_table, .param .u64 k_out)
{
    .reg .pred %p<8>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<16>;
    .shared .align 128 .b8 buf[128];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    shl.b32 %r3, %r2, 2;
    mov.u32 %r4, buf;
    add.u32 %r4, %r4, %r3;
    ld.param.u64 %rd1, [k_table];
    ld.param.u64 %rd2, [k_out];
    mov.u32 %r5, %ctaid.x;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.u32 %r6, [%rd4+4];
    setp.gt.u32 %p1, %r1, 31;
    @%p1 bra READER;
    st.shared.u32 [%r4], %r1;
    bar.arrive 1, 64;
    bra END;
READER:
    setp.eq.u32 %p2, %r6, 1;
    @%p2 bra READ;
    bar.sync 1, 64;
READ:
    ld.shared.u32 %r7, [%r4];
    st.global.u32 [%rd2], %r7;
END:
    ret;
}
"""


def _check(folder: Path, table: str, grid: int = 2, kernel: str = KERNEL) -> KernelReport:
    (path := folder / "k.ptx").write_text(kernel)
    (facts := folder / "k.toml").write_text(
        f"[kernel.k]\ngrid = [{grid}]\nblock = [64]\ncluster = [1]\n[kernel.k.params]\n"
        f'0 = {{ptr = "table"{table}}}\n1 = {{ptr = "out"}}\n'
    )
    (report,) = check_source(read_source(path), facts=read_facts(facts), repairs=False)
    return report


def test_values_that_are_given_steer(tmp_path: Path) -> None:
    report = _check(tmp_path, ", holds = {i32 = [9, 0, 2]}")
    assert report.verdict.value == "proved", report.reason
    assert "what table holds stays as the launch file says" in report.assumptions


def test_one_block_reads_another_word(tmp_path: Path) -> None:
    report = _check(tmp_path, ", holds = {i32 = [9, 0, 1]}")
    assert report.verdict.value == "refuted"
    assert [d.rule for d in report.diagnostics if d.severity is Severity.ERROR][:1] == ["SV110"]
    assert report.witness is not None and report.witness.block == (1, 0, 0)


def test_the_missing_fact_is_named(tmp_path: Path) -> None:
    report = _check(tmp_path, "", grid=1)
    assert report.verdict.value == "unknown"
    assert report.reason is not None and "give what table holds: holds = [{i32 = N, at = 4}]" in report.reason


def test_of_a_place_that_is_not_known_the_parameter_is_named(tmp_path: Path) -> None:
    """The word's place is itself loaded."""
    kernel = KERNEL.replace("mov.u32 %r5, %ctaid.x;", "ld.global.u32 %r5, [%rd2];")
    report = _check(tmp_path, "", 1, kernel)
    assert report.verdict.value == "unknown"
    assert report.reason is not None and "give what parameter" in report.reason


def test_a_word_beyond_those_given_is_named(tmp_path: Path) -> None:
    report = _check(tmp_path, ", holds = {i32 = [9, 0]}")
    assert report.verdict.value == "unknown"
    assert report.reason is not None and "give what table holds: holds = [{i32 = N, at = 8}]" in report.reason


def test_a_table_of_pointers(tmp_path: Path) -> None:
    kernel = KERNEL.replace(
        "ld.global.u32 %r6, [%rd4+4];", "ld.global.u64 %rd5, [%rd1+8];\n    ld.global.u32 %r6, [%rd5+4];"
    )
    inner = '[{u64 = 0}, {ptr = "inner", holds = {i32 = [7, 0]}}]'
    assert _check(tmp_path, f", holds = {inner}", 1, kernel).verdict.value == "proved"


def test_a_kernel_that_also_stores_generically_may_change_the_word(tmp_path: Path) -> None:
    """Without launch facts: two loads of one place need not bring one value."""
    twice = KERNEL.replace("st.global.u32 [%rd2], %r7;", "st.u32 [%rd2], %r7;").replace("[%rd4+4]", "[%rd1]")
    report = _check(tmp_path, "", 1, twice)
    assert report.verdict.value == "unknown"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (', holds = {i32 = "N"}', "give numbers"),
        (", holds = [{i32 = 1}, {i32 = 2, at = 2}]", "overlap"),
        (", holds = {i33 = 1}", "unknown key 'i33'"),
    ],
)
def test_bad_contents(tmp_path: Path, table: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _check(tmp_path, table)


@pytest.mark.parametrize(("other", "verdict"), [(0, "proved"), (1, "refuted")])
def test_each_lane_may_load_its_own_word(tmp_path: Path, other: int, verdict: str) -> None:
    """The reader's lane 5 may find another word than the others."""
    kernel = KERNEL.replace("mul.wide.u32 %rd3, %r5, 4;", "mul.wide.u32 %rd3, %r2, 4;")
    words = [0] * 33
    words[6] = other
    assert _check(tmp_path, f", holds = {{i32 = {words}}}", 1, kernel).verdict.value == verdict


#: As KERNEL, but the word goes through shared memory: thread 0 puts it there, all read it after a barrier.
THROUGH = KERNEL.replace(
    ".shared .align 128 .b8 buf[128];", ".shared .align 128 .b8 buf[128];\n    .shared .align 4 .b8 word[4];"
).replace(
    "    setp.gt.u32 %p1, %r1, 31;",
    """    setp.ne.u32 %p3, %r1, 0;
    @%p3 bra PUT;
    st.shared.u32 [word], %r6;
PUT:
    bar.sync 0;
    ld.shared.u32 %r6, [word];
    setp.gt.u32 %p1, %r1, 31;""",
)


@pytest.mark.parametrize("place", ["%ctaid.x", "%clusterid.x"])
@pytest.mark.parametrize("stores", [True, False])
def test_a_word_that_goes_through_shared_memory(tmp_path: Path, place: str, stores: bool) -> None:
    kernel = THROUGH.replace("%ctaid.x", place)
    if not stores:  # a kernel that only reads global memory
        kernel = kernel.replace("st.global.u32 [%rd2], %r7;", "")
    report = _check(tmp_path, ", holds = {i32 = [9, 0, 2]}", kernel=kernel)
    assert report.verdict.value == "proved", report.reason
    report = _check(tmp_path, ", holds = {i32 = [9, 0, 1]}", kernel=kernel)
    assert report.verdict.value == "refuted"
    assert report.witness is not None and report.witness.block == (1, 0, 0)
