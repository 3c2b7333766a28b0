"""Two blocks that make their tensor maps at one place race: such a kernel is not proved."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict

_HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{
.reg .pred %p<8>;
.reg .b32 %r<24>;
.reg .b64 %rd<12>;
.shared .align 128 .b8 made[128];
ld.param.u64 %rd1, [p0];
ld.param.u64 %rd2, [p1];
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mov.u32 %r3, made;
shl.b32 %r4, %r0, 2;
add.u32 %r4, %r3, %r4;
st.shared.u32 [%r4], %r0;
bar.warp.sync -1;
"""
_OWN = "mul.wide.u32 %rd3, %r1, 128; add.u64 %rd1, %rd1, %rd3; "
_COPY = ("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
         " [%rd1], [%r3], 128; ")  # fmt: skip
_HALF = "shr.u32 %r5, %r1, 1; mul.wide.u32 %rd3, %r5, 128; add.u64 %rd1, %rd1, %rd3; "
_FIRST = "setp.ne.u32 %p2, %r1, 0; @%p2 ret; "
_EDIT = "setp.eq.u32 %p1, %r0, 0; @%p1 tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd2; "
_MAPS = "two blocks of the launch write one tensor map"


@pytest.mark.parametrize(
    ("body", "cluster", "one"),
    [
        (_COPY, 1, True),
        (_OWN + _COPY, 1, False),
        (_HALF + _COPY, 1, True),
        (_HALF + _COPY, 2, False),  # undecided, for barriers of a cluster may order its blocks
        (_FIRST + _COPY, 1, False),
        (_EDIT, 1, True),
        (_OWN + _EDIT, 1, False),
    ],
)
def test_blocks_write_one_map(body: str, cluster: int, *, one: bool) -> None:
    facts = {"block": [32], "grid": [8], "cluster": [cluster], "params": {"0": "ptr", "1": "ptr"}}
    (report,) = syncverify.check(_HEAD + body + "ret; }", facts={"kernel": {"k": facts}}, advice=False)
    if one:
        assert report.verdict is not Verdict.PROVED
        assert any(_MAPS in d.message for d in report.diagnostics)
    else:
        assert not any(_MAPS in d.message for d in report.diagnostics)
