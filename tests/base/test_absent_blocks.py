"""A rank outside of the cluster: the advice says how many blocks there are, and nothing of a buffer."""

from __future__ import annotations

import pytest

from syncverify.api import check
from syncverify.base.absent_blocks import AbsentBlock
from syncverify.base.diagnostics import Severity, Verdict
from tests.frontends.ptx.execute_helpers import module_text

REMOTE = """
    .shared .align 16 .b8 s[512];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, s;
    add.u32 %r4, %r3, %r2;
    mapa.shared::cluster.u32 %r5, %r4, RANK;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    st.shared::cluster.u32 [%r5], %r1;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;
"""


def test_it_is_the_text_of_the_finding() -> None:
    said = AbsentBlock(3, 2)
    assert said == "rank 3 is no CTA of the cluster, which has 2"
    assert said.advice.startswith("the cluster has 2 blocks, of ranks 0 to 1: ")
    assert AbsentBlock(1, 1).advice.startswith("the cluster has one block, of rank 0: ")


@pytest.mark.parametrize("rank", [2, 3])
def test_the_advice_of_a_finding_in_ptx(rank: int) -> None:
    text = module_text(REMOTE.replace("RANK", str(rank)), bounds=".reqntid 128\n.reqnctapercluster 2")
    (report,) = check(text, advice=False)
    assert report.verdict is Verdict.REFUTED
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    assert first.rule == "SV114"
    assert first.fix is not None
    assert first.fix.startswith("the cluster has 2 blocks, of ranks 0 to 1")
