"""Whose mistake a finding names: the wait that has to begin with what is free, or a mask."""

from __future__ import annotations

from typing import Any

import syncverify
from syncverify.base.diagnostics import Diagnostic, Severity, Verdict

_HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{
.reg .pred %p<16>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .b64 %rd<16>;
.shared .align 128 .b8 s[1024];
.shared .align 8 .b64 full;
.shared .align 8 .b64 empty;
mov.u32 %r0, %tid.x;
ld.param.u64 %rd1, [p0];
ld.param.u64 %rd2, [p1];
mul.wide.u32 %rd3, %r0, 4;
add.u64 %rd3, %rd2, %rd3;
"""

#: A thread draws tiles from a counter and hands them to four warps, which is data.
_TILES = (
    _HEAD
    + """setp.ne.u32 %p0, %r0, 128;
@!%p0 mbarrier.init.shared::cta.b64 [full], 1;
@!%p0 mbarrier.init.shared::cta.b64 [empty], 128;
bar.sync 0;
mov.u32 %r10, 0;
setp.lt.u32 %p1, %r0, 128;
@%p1 bra TAKE;
@%p0 bra DONE;
MAKE:
xor.b32 %r11, %r10, 1;
FREE:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [empty], %r11;
@!%p2 bra FREE;
atom.global.add.u32 %r12, [%rd1], 1;
st.shared.u32 [s], %r12;
mbarrier.arrive.shared::cta.b64 _, [full];
xor.b32 %r10, %r10, 1;
setp.lt.u32 %p3, %r12, 100;
@%p3 bra MAKE;
bra DONE;
TAKE:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], %r10;
@!%p2 bra TAKE;
ld.shared.u32 %r13, [s];
mbarrier.arrive.shared::cta.b64 _, [empty];
xor.b32 %r10, %r10, 1;
setp.lt.u32 %p4, %r13, 100;
@%p4 bra TAKE;
DONE:
ret;
}
"""
)

#: Each of two blocks loads its half of two slots for both, three times.
_HALVES = (
    _HEAD
    + """mov.u32 %r4, s;
mov.u32 %r6, %cluster_ctarank;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra MET;
mbarrier.init.shared::cta.b64 [full], 1;
mbarrier.init.shared::cta.b64 [empty], 2;
fence.mbarrier_init.release.cluster;
MET:
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
mad.lo.u32 %r5, %r6, 512, %r4;
mov.u16 %h1, 3;
mov.u32 %r10, 0;
LOOP:
and.b32 %r11, %r10, 1;
xor.b32 %r12, %r11, 1;
@%p0 bra READ;
FREE:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [empty], %r12;
@!%p2 bra FREE;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 1024;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
 [%r5], [%rd1], 512, [full], %h1;
READ:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [full], %r11;
@!%p2 bra READ;
mad.lo.u32 %r7, %r0, 4, %r4;
ld.shared.u32 %r8, [%r7];
st.global.u32 [%rd3], %r8;
fence.proxy.async;
bar.sync 0;
setp.gt.u32 %p1, %r0, 1;
@%p1 bra NEXT;
mov.u32 %r13, empty;
mapa.shared::cluster.u32 %r14, %r13, %r0;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r14];
NEXT:
add.u32 %r10, %r10, 1;
setp.lt.u32 %p3, %r10, 3;
@%p3 bra LOOP;
barrier.cluster.arrive;
barrier.cluster.wait;
ret;
}
"""
)

_ALONE: dict[str, Any] = {"grid": [1], "block": [160], "params": {"0": "ptr", "1": "ptr"}}
_PAIR: dict[str, Any] = {"grid": [2], "cluster": [2], "block": [64], "params": {"0": "ptr", "1": "ptr"}}


def _first(text: str, facts: dict[str, Any]) -> Diagnostic:
    (report,) = syncverify.check(text, facts={"kernel": {"k": facts}}, replay=False)
    assert report.verdict is Verdict.REFUTED
    return next(d for d in report.diagnostics if d.severity is Severity.ERROR)


def _line(text: str, of: str) -> int:
    return text[: text.index(of)].count("\n") + 1


def _right(text: str, facts: dict[str, Any]) -> bool:
    (report,) = syncverify.check(text, facts={"kernel": {"k": facts}}, replay=False)
    return report.verdict is Verdict.PROVED


def test_of_two_waits_the_one_that_begins_with_what_is_free() -> None:
    """Data decides how the takers go on, who were named: nothing showed what comes behind the other wait."""
    found = _first(_TILES.replace("xor.b32 %r11, %r10, 1;", "mov.u32 %r11, %r10;"), _ALONE)
    assert found.rule == "SV210"
    assert found.span.line == _line(_TILES, "mbarrier.try_wait.parity.shared::cta.b64 %p2, [empty]")
    assert "begin with parity 1" in (found.fix or "")


def test_a_mask_that_leaves_a_block_out_is_no_parity() -> None:
    assert _right(_HALVES, _PAIR)
    found = _first(_HALVES.replace("mov.u16 %h1, 3;", "mov.u16 %h1, 1;"), _PAIR)
    assert found.rule == "SV212"
    assert "goes to cta0: its mask leaves out cta1" in [label.text for label in found.related]
