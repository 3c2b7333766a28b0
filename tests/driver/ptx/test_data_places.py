"""Atomics at places that data says within bounds, beside plain accesses of other blocks."""

from __future__ import annotations

from typing import Any

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict

_TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 bins, .param .u64 data, .param .u64 out, .param .u32 n)
{{
.reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %rd<24>;
.shared .align 4 .b8 s[4];
ld.param.u64 %rd1, [bins]; ld.param.u64 %rd2, [data]; ld.param.u64 %rd3, [out]; ld.param.u32 %r15, [n];
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r3, %r1, 64, %r0;
mul.wide.u32 %rd5, %r3, 4; add.u64 %rd6, %rd1, %rd5; add.u64 %rd7, %rd2, %rd5; add.u64 %rd14, %rd3, %rd5;
mul.wide.u32 %rd8, %r0, 4; add.u64 %rd9, %rd1, %rd8;
setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r1, 0;
ld.global.u32 %r9, [%rd7];
{body}
END:
ret;
}}
"""
_AT = "mul.wide.u32 %rd12, %r10, 4; add.u64 %rd13, %rd1, %rd12;\n"
_RED = "red.global.add.u32 [%rd13], 1;\n"
_MASK = "and.b32 %r10, %r9, 63;"
_CLEAR = "@%p1 st.global.u32 [%rd9], 0; bar.sync 0;\n"
_READ = "bar.sync 0; ld.global.u32 %r11, [%rd9]; st.global.u32 [%rd14], %r11;\n"
_OWN = "bar.sync 0; ld.global.u32 %r11, [%rd6]; st.global.u32 [%rd14], %r11;\n"
_SLICE = "and.b32 %r10, %r9, 63; mad.lo.u32 %r10, %r1, 64, %r10;"
_LAST = """fence.acq_rel.gpu; bar.sync 0;
@!%p0 bra N; atom.global.add.u32 %r12, [%rd3+4096], 1; setp.eq.u32 %p2, %r12, 3; selp.u32 %r13, 1, 0, %p2;
st.shared.u32 [s], %r13; fence.acq_rel.gpu;
N: bar.sync 0; ld.shared.u32 %r13, [s]; setp.eq.u32 %p3, %r13, 0; @%p3 bra END; fence.acq_rel.gpu;
ld.global.u32 %r11, [%rd9]; st.global.u32 [%rd14], %r11;
"""
_BAD = [
    _CLEAR + _MASK + _AT + _RED,
    _MASK + _AT + _RED + _READ,
    _CLEAR + "rem.u32 %r10, %r9, 60;" + _AT + _RED,
    _CLEAR + "shr.u32 %r10, %r9, 26;" + _AT + _RED,
    _CLEAR + "max.s32 %r10, %r9, 0; min.s32 %r10, %r10, 63;" + _AT + _RED,
    _CLEAR + "setp.gt.u32 %p4, %r9, 63; @%p4 bra END; mov.u32 %r10, %r9;" + _AT + _RED,
    _CLEAR + "ld.global.u8 %r10, [%rd7];" + _AT + _RED,
    _CLEAR + _MASK + _AT + "atom.global.add.u32 %r11, [%rd13], 1; st.global.u32 [%rd14], %r11;",
    _SLICE + _AT + _RED + _OWN.replace("[%rd6]", "[%rd6+128]"),
]
_GOOD = [
    _MASK + _AT + _RED,
    "st.global.u32 [%rd6], 0; bar.sync 0;" + _SLICE + _AT + _RED + _OWN,
    _MASK + _AT + _RED + _LAST,
    _CLEAR + "and.b32 %r10, %r9, 63; add.u32 %r10, %r10, 64;" + _AT + _RED,
    _MASK + _AT + _RED + _READ.replace("ld.global", "ld.relaxed.gpu.global"),
    _CLEAR.replace("st.global", "st.relaxed.gpu.global") + _MASK + _AT + _RED,
    "shr.u32 %r13, %r9, 30; setp.ne.u32 %p4, %r13, %r1; st.global.u32 [%rd6], 0; bar.sync 0; @%p4 bra END;"
    "shr.u32 %r10, %r9, 24;" + _AT + _RED,
    "@!%p1 bra END;" + _CLEAR + _MASK + _AT + _RED,
]


_ALL = {"block": [64], "grid": [4], "params": {"0": "ptr", "1": "ptr", "2": "ptr"}}
_OPEN = {"block": [64]}
_BELOW_N = (
    "setp.ge.u32 %p4, %r1, %r15; @%p4 bra END;" + _CLEAR.replace("bar.sync 0;", "") + _MASK + _AT + _RED
)
_STRIDE = "and.b32 %r10, %r9, 63; mad.lo.u32 %r10, %r1, %r15, %r10;" + _AT + _RED
_SLICES = (
    """mad.lo.u32 %r16, %r1, %r15, %r0; mul.wide.u32 %rd15, %r16, 4; add.u64 %rd15, %rd1, %rd15;
st.global.u32 [%rd15], 0; bar.sync 0;
"""
    + _STRIDE
)
#: With a part of the facts: what is said of the launch in which they meet.
_BAD_OPEN: list[tuple[str, dict[str, Any], str]] = [
    (_CLEAR + _MASK + _AT + _RED, _OPEN, "grid = [2, 1, 1]"),
    (_MASK + _AT + _RED + _READ, _OPEN, "grid = [2, 1, 1]"),
    (_SLICE + _AT + _RED + _OWN.replace("[%rd6]", "[%rd6+128]"), _OPEN, "grid = [2, 1, 1]"),
    (_BELOW_N, _OPEN, "grid = [2, 1, 1], all other sizes large"),
    (_BELOW_N, {**_OPEN, "grid": [4]}, "seen with all other sizes large"),
    (_BELOW_N, {**_OPEN, "grid": ["(m + 63) // 64"], "params": {"3": "m"}}, "grid = [2, 1, 1], m = 65"),
    (_SLICES, {**_OPEN, "params": {"3": "m"}, "assume": ["m <= 32", "m > 0"]}, "m = 1"),
]
_GOOD_OPEN: list[tuple[str, dict[str, Any]]] = [
    *((body, _OPEN) for body in _GOOD),
    (_GOOD[0], {}),
    (_BELOW_N, {**_OPEN, "params": {"3": 0}}),
    (_BELOW_N, {**_OPEN, "params": {"3": "m"}, "assume": ["m <= 1"]}),
    (_BELOW_N, {**_OPEN, "grid": ["(m + 63) // 64"], "params": {"3": "m"}, "assume": ["m <= 64"]}),
    (_BAD[0], {**_OPEN, "grid": [1]}),
    (_BAD[0], {**_OPEN, "assume": ["grid.x == 1"]}),
    (_SLICES, _OPEN),
    (_SLICES, {**_OPEN, "params": {"3": "m"}, "assume": ["m >= 64"]}),
]


def _checked(body: str, facts: dict[str, Any] = _ALL) -> KernelReport:
    text = _TEXT.format(body=body)
    replay = _LAST in body  # executions are asked whether that block is alone
    (report,) = syncverify.check(text, facts={"kernel": {"k": facts}}, replay=replay, advice=False)
    return report


@pytest.mark.parametrize("body", _BAD)
def test_what_another_block_touches_plainly_names_both_lines(body: str) -> None:
    report = _checked(body)
    assert report.verdict is Verdict.UNKNOWN
    assert "some input places this atomic" in str(report.reason)


@pytest.mark.parametrize("body", _GOOD)
def test_what_no_other_block_touches_stays_proved(body: str) -> None:
    assert _checked(body).verdict is Verdict.PROVED


@pytest.mark.parametrize(("body", "facts", "seen"), _BAD_OPEN)
def test_an_open_launch_names_one_in_which_they_meet(body: str, facts: dict[str, Any], seen: str) -> None:
    report = _checked(body, facts)
    assert report.verdict is Verdict.UNKNOWN
    assert "some input places this atomic" in str(report.reason)
    assert seen in str(report.reason)


def test_without_a_launch_file_nothing_is_proved() -> None:
    assert _checked(_CLEAR + _MASK + _AT + _RED, {}).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(("body", "facts"), _GOOD_OPEN)
def test_no_launch_that_the_facts_exclude_counts(body: str, facts: dict[str, Any]) -> None:
    """Where the last block goes on, a proof needs an execution too, which an open grid does not give."""
    report = _checked(body, facts)
    executed = "an execution with zeros in memory" in str(report.reason)
    assert report.verdict is (Verdict.UNKNOWN if executed else Verdict.PROVED)
    assert "some input" not in str(report.reason)


def test_of_memory_that_the_kernel_writes_nothing_is_said() -> None:
    body = "st.global.u32 [%rd7], %r1; bar.sync 0; ld.global.u32 %r9, [%rd7];" + _CLEAR + _MASK + _AT + _RED
    assert "some input" not in str(_checked(body).reason)
