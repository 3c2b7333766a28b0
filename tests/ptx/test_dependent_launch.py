"""Programmatic launch: what a kernel touches before griddepcontrol.wait."""

from __future__ import annotations

import pytest

from syncverify.diagnostics import Policy, Severity, Verdict
from syncverify.judge import run_system
from tests.ptx.execute_helpers import system

EARLY_READ = """
    .shared .align 8 .b8 full[8];
    .shared .align 128 .b8 tile[128];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 128, [full];
    READY:
    griddepcontrol.wait;
    bar.sync 0;
    WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
    @!%p2 bra WAIT;
    ret;
"""
EARLY_WRITE = """
    .shared .align 128 .b8 tile[128];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    READY:
    griddepcontrol.wait;
    ret;
"""


def judge(body: str, policy: Policy) -> tuple[Verdict, list[tuple[str, Severity]]]:
    outcome = run_system(system(body), policy)
    return outcome.verdict, [(d.rule, d.severity) for d in outcome.diagnostics]


def test_an_early_read_is_right_if_the_grid_before_leaves_its_source_alone() -> None:
    verdict, found = judge(EARLY_READ, Policy.PRACTICAL)
    assert verdict is Verdict.PROVED
    assert found == [("SV503", Severity.WARNING)]


@pytest.mark.parametrize(("body", "policy"), [(EARLY_READ, Policy.STRICT), (EARLY_WRITE, Policy.PRACTICAL)])
def test_early_reads_in_strict_mode_and_early_writes_are_refuted(body: str, policy: Policy) -> None:
    verdict, found = judge(body, policy)
    assert verdict is Verdict.REFUTED
    assert ("SV503", Severity.ERROR) in found
