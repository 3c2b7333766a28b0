"""What a wait of a cluster receives of its own block's arrivals, and of another block's: the checker beside
the second reader, over all orders that the ends and fences ask for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.simulate.ptx import Launch, buffer, first_harm

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<3>;
.reg .b32 %r<16>;
.reg .b64 %rd<4>;
.shared .align 16 .b8 s[512];
.shared .align 8 .b8 bar[8];
mov.u32 %r0, %tid.x;
shl.b32 %r1, %r0, 2;
mov.u32 %r2, s;
add.u32 %r3, %r2, %r1;
xor.b32 %r4, %r1, 128;
add.u32 %r4, %r2, %r4;
mov.u32 %r5, bar;
mov.u32 %r6, %cluster_ctarank;
mad.lo.u32 %r8, %r6, 256, %r1;
xor.b32 %r7, %r6, 1;
mapa.shared::cluster.u32 %r9, %r3, %r7;
mapa.shared::cluster.u32 %r10, %r5, %r7;
ld.param.u64 %rd1, [out];
cvt.u64.u32 %rd2, %r8;
add.s64 %rd1, %rd1, %rd2;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra I;
mbarrier.init.shared::cta.b64 [%r5], 128;
fence.mbarrier_init.release.cluster;
I:
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
st.shared.u32 [%r3], %r0;
st.shared::cluster.u32 [%r9+256], %r0;
RELEASE
MEET
ACQUIRE
ld.shared.u32 %r11, [READ];
st.global.u32 [%rd1], %r11;
ret;
}
"""
MBARRIER = """mbarrier.arrive.NEAR.shared::cta.b64 _, [%r5];
mbarrier.arrive.FAR.shared::cluster.b64 _, [%r10];
W:
mbarrier.try_wait.parity.WAIT.shared::cta.b64 %p2, [%r5], 0;
@!%p2 bra W;"""
CLUSTER = "barrier.cluster.arrive.ARRIVE.aligned;\nbarrier.cluster.wait.acquire.aligned;"
FENCES = ("", "fence.acq_rel.cta;", "fence.acq_rel.cluster;")
READS = ("%r4", "%r3+256")  # what a thread of the own block wrote, or one of the other
ENDS = [
    MBARRIER.replace("NEAR", near).replace("FAR", far).replace("WAIT", wait)
    for near, far, wait in product(
        ("relaxed.cluster", "release.cta"),
        ("relaxed.cluster", "release.cluster"),
        ("relaxed.cluster", "relaxed.cta", "acquire.cluster", "acquire.cta"),
    )
]
ENDS += [CLUSTER.replace("ARRIVE", x) for x in ("release", "relaxed")]
CASES = list(product(FENCES, ENDS, FENCES, READS))
FACTS = {"kernel": {"k": {"block": [64], "grid": [2], "cluster": [2], "params": {"out": "ptr"}}}}
SEEDS, STEPS = range(6), 20_000


def agrees(release: str, meet: str, acquire: str, read: str) -> bool:
    """Whether the checker, without the second reader, says what that finds."""
    text = TEXT.replace("RELEASE", release).replace("MEET", meet)
    text = text.replace("ACQUIRE", acquire).replace("READ", read)
    (report,) = syncverify.check(text, facts=FACTS, replay=False, advice=False)
    launch = Launch((64, 1, 1), (2, 1, 1), cluster=(2, 1, 1), params=(buffer(np.zeros(128, np.uint32)),))
    harm = first_harm(text, "k", launch, SEEDS, STEPS)
    return report.verdict is (Verdict.PROVED if harm is None else Verdict.REFUTED)


@pytest.mark.parametrize("case", CASES[::29])
def test_some_orders(case: tuple[str, str, str, str]) -> None:
    assert agrees(*case)


@pytest.mark.slow
def test_all_orders() -> None:
    assert [case for case in CASES if not agrees(*case)] == []
