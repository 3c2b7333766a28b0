"""Loops over a length that lies in shared memory: verdicts, beside what executions do."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, ScopeKind
from tests.simulate.ptx.support import kernel

#: ``for (i = t; i < n; i += step) access(s[i + first])`` behind what fills ``s``, and a barrier.
LOOP = """.shared .align 256 .b8 s[256]; .shared .align 4 .b8 more[{more}];
setp.ne.u32 %p1, %r1, 0; @%p1 bra A; ld.global.u32 %r2, [%rd1]; st.shared.u32 [more], %r2;
A: mov.u32 %r3, s; mad.lo.u32 %r4, %r1, 4, %r3; st.shared.u32 [%r4], %r1;
{barrier}
ld.{space}.u32 %r5, [{length}]; setp.ge.u32 %p2, %r1, %r5; @%p2 bra OUT;
mov.u32 %r6, %r1; add.u32 %r4, %r4, {first};
IN: {access}
add.u32 %r4, %r4, {bytes}; add.u32 %r6, %r6, 64; setp.lt.u32 %p3, %r6, %r5; @%p3 bra IN;
OUT: {behind}
"""
#: The length lies in global memory.
OUTSIDE = {"space": "global", "length": "%rd1", "more": 256}
READ, WRITE = "ld.shared.u32 %r7, [%r4]; st.global.u32 [%rd1], %r7;", "st.shared.u32 [%r4], %r1;"


def _report(**changes: object) -> KernelReport:
    parts = {"barrier": "bar.sync 0;", "first": 0, "access": READ, "bytes": 256, "behind": ""}
    parts = parts | {"space": "shared", "length": "more", "more": 4} | changes
    facts = {"kernel": {"k": {"grid": [1], "block": [64]}}}
    (report,) = syncverify.check(kernel(LOOP.format(**parts)), facts=facts, scope=ScopeKind.ALL, advice=False)
    return report


@pytest.mark.parametrize(
    ("changes", "verdicts"),
    [
        ({}, {"proved"}),
        ({"access": WRITE, **OUTSIDE}, {"proved"}),  # each lane's places are 256 bytes apart
        ({"access": WRITE, "bytes": 4, **OUTSIDE}, {"unknown", "refuted"}),  # places of the next lane
        ({"access": WRITE, "behind": "ld.shared.u32 %r7, [s+64];", **OUTSIDE}, {"unknown", "refuted"}),
        ({"access": WRITE, "behind": "bar.sync 0; ld.shared.u32 %r7, [s+64];", **OUTSIDE}, {"proved"}),
        ({"barrier": ""}, {"unknown", "refuted"}),
        ({"first": 512}, {"unknown", "refuted"}),  # the first turn lies outside
    ],
)
def test_verdicts(changes: dict[str, object], verdicts: set[str]) -> None:
    assert str(_report(**changes).verdict) in verdicts


def test_that_the_length_is_not_written_is_assumed() -> None:
    """The second turn writes the length, which lies behind the array that its address names."""
    report = _report(access=WRITE)
    assert str(report.verdict) == "proved"
    assert any("stays inside `s`" in a for a in report.assumptions)


#: A loop over an open number of rounds, of which data says whether a word is written; what lies there steers.
ROUNDS = """.shared .align 4 .b8 s[256]; .shared .align 4 .b32 n; ld.param.u32 %r20, [rounds];
mov.u32 %r3, s; mad.lo.u32 %r4, %r1, 4, %r3; mov.u32 %r21, 0; setp.eq.u32 %p9, %r20, 0; @%p9 bra END;
IN: bar.sync 0; ld.global.u32 %r2, [%rd1]; setp.gt.s32 %p1, %r2, 0; @%p1 st.shared.u32 [%r4], %r2;
{barrier} ld.shared.u32 %r5, [s+12]; setp.lt.u32 %p2, %r1, %r5; @!%p2 bra OVER;
ld.shared.u32 %r6, [s+32]; st.global.u32 [%rd1], %r6;
OVER: add.u32 %r21, %r21, 1; setp.lt.u32 %p3, %r21, %r20; @%p3 bra IN;
END:
"""


@pytest.mark.parametrize(("barrier", "proved"), [("bar.sync 0;", True), ("", False)])
def test_contents_that_steer_beside_open_sizes(barrier: str, proved: bool) -> None:
    text = kernel(ROUNDS.format(barrier=barrier), params=".param .u64 out, .param .u32 rounds")
    facts = {"kernel": {"k": {"grid": [1], "block": [64]}}}
    (report,) = syncverify.check(text, facts=facts, scope=ScopeKind.ALL, advice=False)
    assert (str(report.verdict) == "proved") is proved
