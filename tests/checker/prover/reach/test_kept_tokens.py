"""Tokens of phases that are kept in memory, for every size: they are as old as those in registers."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, ScopeKind, Verdict
from syncverify.driver.certificates import dumps
from syncverify.driver.files import certificates, check_source, read_source, recheck
from syncverify.frontends.launch_facts import read_facts

_HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 k_n)
{
    .reg .pred %p<10>;
    .reg .b32 %r<30>;
    .reg .b64 %rd<10>;
    .shared .align 8 .b8 bars[16];
    .SPACE .align 8 .b8 tokens[16];
    ld.param.u32 %r1, [k_n];
    mov.u32 %r2, bars;
    mov.u32 %r3, tokens;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    mbarrier.init.shared::cta.b64 [%r2+8], 1;
    mov.u32 %r4, 0;
"""

#: Two barriers in turn: iteration i arrives for iteration i + 1 and waits for the token that the turn before
#: has kept.
RING = (
    _HEAD
    + """    mbarrier.arrive.shared::cta.b64 %rd1, [%r2];
    st.SPACE.b64 [%r3], %rd1;
LOOP:
    setp.ge.s32 %p1, %r4, %r1;
    @%p1 bra REST;
    and.b32 %r5, %r4, 1;
    shl.b32 %r5, %r5, 3;
    xor.b32 %r6, %r5, 8;
    add.u32 %r7, %r2, %r6;
    add.u32 %r8, %r3, %r6;
    mbarrier.arrive.shared::cta.b64 %rd2, [%r7];
    setp.ge.s32 %p2, %r4, FROM;
    @%p2 bra KEPT;
    st.SPACE.b64 [%r8], %rd2;
KEPT:
    add.u32 %r9, %r2, %r5;
    add.u32 %r10, %r3, SLOT;
    ld.SPACE.b64 %rd3, [%r10];
WAIT:
    mbarrier.test_wait.shared::cta.b64 %p3, [%r9], %rd3;
    @!%p3 bra WAIT;
    add.u32 %r4, %r4, 1;
    bra LOOP;
REST:
    ret;
}
"""
)

#: A token that is kept once is waited for after the loop, where there are more than FROM turns.
ONCE = (
    _HEAD
    + """    mbarrier.arrive.shared::cta.b64 %rd1, [%r2+AT];
    st.SPACE.b64 [%r3], %rd1;
FIRST:
    mbarrier.test_wait.shared::cta.b64 %p3, [%r2+AT], %rd1;
    @!%p3 bra FIRST;
    mov.u32 %r6, PARITY;
LOOP:
    setp.ge.s32 %p1, %r4, %r1;
    @%p1 bra REST;
    mbarrier.arrive.shared::cta.b64 _, [%r2];
WAIT:
    mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r2], %r6;
    @!%p3 bra WAIT;
    xor.b32 %r6, %r6, 1;
    add.u32 %r4, %r4, 1;
    bra LOOP;
REST:
    setp.le.s32 %p2, %r1, FROM;
    @%p2 bra END;
    ld.SPACE.b64 %rd3, [%r3];
LAST:
    mbarrier.test_wait.shared::cta.b64 %p3, [%r2+AT], %rd3;
    @!%p3 bra LAST;
END:
    ret;
}
"""
)


LAUNCH = """[kernel.k]
block = [1]
cluster = [1]
assume = ["n <= 1000000"]
[kernel.k.params]
0 = {i32 = "n"}
"""


def check(folder: Path, kernel: str, space: str, **parts: object) -> KernelReport:
    text = kernel.replace("SPACE", space)
    for name, value in parts.items():
        text = text.replace(name, str(value))
    (path := folder / "k.ptx").write_text(text)
    (launch := folder / "k.toml").write_text(LAUNCH)
    source, facts = read_source(path), read_facts(launch)
    (report,) = check_source(source, facts=facts, scope=ScopeKind.ALL, repairs=False)
    if report.verdict is Verdict.PROVED:
        (done,) = recheck(dumps(certificates(source, facts, {}, [report])), "c.json", source, facts)
        assert done.met.counts["nodes"] > 0
    return report


@pytest.mark.parametrize("space", ["shared", "local"])
def test_tokens_of_a_ring_are_followed(tmp_path: Path, space: str) -> None:
    report = check(tmp_path, RING, space, FROM="%r1", SLOT="%r5")
    assert report.verdict is Verdict.PROVED, report.reason
    assert "params.0" not in report.scope.values


@pytest.mark.parametrize("space", ["shared", "local"])
@pytest.mark.parametrize("first", [3, 20])
def test_a_token_that_is_not_replaced_is_too_old(tmp_path: Path, space: str, first: int) -> None:
    report = check(tmp_path, RING, space, FROM=first, SLOT="%r5")
    assert report.verdict is Verdict.REFUTED
    assert report.scope.values["params.0"] == first + 2


@pytest.mark.parametrize("space", ["shared", "local"])
def test_the_token_of_the_other_barrier(tmp_path: Path, space: str) -> None:
    assert check(tmp_path, RING, space, FROM="%r1", SLOT="%r6").verdict is not Verdict.PROVED


@pytest.mark.parametrize("space", ["shared", "local"])
def test_a_token_that_is_kept_through_a_loop_grows_old(tmp_path: Path, space: str) -> None:
    assert check(tmp_path, ONCE, space, FROM=20, AT=8, PARITY=0).verdict is Verdict.PROVED
    report = check(tmp_path, ONCE, space, FROM=20, AT=0, PARITY=1)
    assert (report.verdict, report.scope.values["params.0"]) == (Verdict.REFUTED, 21)
