"""wgmma at open sizes: all threads of a warpgroup name the same matrices (PTX ISA: wgmma.mma_async).

Where data flow cannot tell, what the warps of a warpgroup name is compared in the run.
"""

from __future__ import annotations

import pytest

import syncverify

_KERNEL = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 256
{{
.reg .pred %p<4>;
.reg .b32 %r<32>;
.reg .b64 %rd<16>;
.reg .f32 %f<8>;
.shared .align 1024 .b8 s[24576];
ld.param.u32 %r10, [n];
mov.u32 %r0, %tid.x;
mov.u32 %r4, s;
shl.b32 %r3, %r0, 5;
add.u32 %r5, %r4, %r3;
mov.u32 %r20, 0;
st.shared.v4.u32 [%r5], {{%r20, %r20, %r20, %r20}};
st.shared.v4.u32 [%r5+16], {{%r20, %r20, %r20, %r20}};
fence.proxy.async.shared::cta;
bar.sync 0;
mul.hi.u32 %r1, %r0, {quotient};
shl.b32 %r2, %r1, 11;
add.u32 %r6, %r4, %r2;
and.b32 %r6, %r6, 0x3ffff;
shr.u32 %r6, %r6, 4;
mov.u32 %r11, 0;
mov.f32 %f1, 0f00000000;
mov.f32 %f2, %f1;
mov.f32 %f3, %f1;
mov.f32 %f4, %f1;
LOOP:
setp.ge.u32 %p1, %r11, %r10;
@%p1 bra END;
and.b32 %r12, %r11, 1;
shl.b32 %r12, %r12, 7;
add.u32 %r13, %r6, %r12;
cvt.u64.u32 %rd5, %r13;
or.b64 %rd5, %rd5, 0x0000000800080000;
add.u64 %rd6, %rd5, {other};
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%f1, %f2, %f3, %f4}}, %rd5, %rd6, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
add.u32 %r11, %r11, 1;
bra LOOP;
END:
ret;
}}
"""


@pytest.mark.parametrize(
    ("quotient", "verdict"),
    [
        (1 << 25, "proved"),  # tid / 128, as a product's upper half
        (1 << 26, "refuted"),  # tid / 64: two tiles for one warpgroup
        (1 << 27, "refuted"),  # tid / 32
    ],
)
def test_matrices_by_a_quotient(quotient: int, verdict: str) -> None:
    (report,) = syncverify.check(_KERNEL.format(quotient=quotient, other=64), timeout=60, advice=False)
    assert str(report.verdict) == verdict, report.reason
    if verdict == "refuted":
        assert report.diagnostics[0].rule == "SV303"
