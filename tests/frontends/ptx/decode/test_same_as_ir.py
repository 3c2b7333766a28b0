"""A line of PTX and the statement of the IR that means the same have the same events."""

from __future__ import annotations

from typing import Any

import pytest

from syncverify.frontends.ptx.decode.effects import SHARED_BASE
from syncverify.model.events import Ev, Footprint
from tests.frontends.ir.helpers import only, run
from tests.frontends.ptx.effect_helpers import FakeContext, emitted, resolve

HEADER = """
launch grid [2] block [32] cluster [2]
tensor a : f32[65536] in
tensor o : f32[1024, 64] out
tensormap A of o box [4, 64]
shared tile : f32[1024] align 1024
shared spare : f32[1024]
mbarrier bar[2]
fragment acc : f32[64, 64]
"""
#: In PTX, variables of shared memory lie behind what the system keeps; in the IR they begin at 0.
TILE, SPARE, BAR = SHARED_BASE, SHARED_BASE + 4096, SHARED_BASE + 8192
PEER = 1 << 24
TX = "mbarrier::complete_tx::bytes"

PAIRS = [
    ("mbarrier.init bar[1], 4", "mbarrier.init.shared::cta.b64 [%b+8], 4"),
    ("mbarrier.inval bar[0]", "mbarrier.inval.shared::cta.b64 [%b]"),
    ("mbarrier.arrive bar[0]", "mbarrier.arrive.shared::cta.b64 _, [%b]"),
    ("mbarrier.arrive bar[0], count 3", "mbarrier.arrive.shared::cta.b64 _, [%b], 3"),
    ("mbarrier.arrive.cluster bar[0] @ 1", "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%pb]"),
    ("mbarrier.arrive.relaxed.cluster bar[0] @ 1",
     "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%pb]"),
    ("mbarrier.arrive.expect_tx bar[0], 512", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 512"),
    ("mbarrier.arrive.drop bar[0]", "mbarrier.arrive_drop.shared::cta.b64 _, [%b]"),
    ("let t = mbarrier.arrive bar[0]", "mbarrier.arrive.shared::cta.b64 %d1, [%b]"),
    ("let t = mbarrier.arrive.no_complete bar[0]", "mbarrier.arrive.noComplete.shared::cta.b64 %d1, [%b], 1"),
    ("mbarrier.expect_tx bar[1], 64", "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b+8], 64"),
    ("mbarrier.complete_tx bar[1], 64", "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b+8], 64"),
    ("let p = mbarrier.test bar[0], 1", "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%b], 1"),
    ("let p = mbarrier.try.cluster bar[0], 0",
     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%b], 0"),
    ("cp.async.mbarrier.arrive bar[0]", "cp.async.mbarrier.arrive.shared::cta.b64 [%b]"),
    ("cp.async.mbarrier.arrive.noinc bar[0]", "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%b]"),
    ("bar.sync 1, 32", "bar.sync 1, 32"),
    ("bar.arrive 2, 64", "bar.arrive 2, 64"),
    ("bar.red 0", "bar.red.and.pred %p1, 0, %p2"),
    ("barrier.sync 3", "barrier.sync 3"),
    ("warp.sync", "bar.warp.sync -1"),
    ("cluster.arrive.aligned", "barrier.cluster.arrive.aligned"),
    ("cluster.arrive.relaxed", "barrier.cluster.arrive.relaxed"),
    ("cluster.wait", "barrier.cluster.wait"),
    ("elect p", "elect.sync _|%p1, -1"),
    ("setmaxnreg.dec 40", "setmaxnreg.dec.sync.aligned.u32 40"),
    ("setmaxnreg.inc 232", "setmaxnreg.inc.sync.aligned.u32 232"),
    ("griddep.wait", "griddepcontrol.wait"),
    ("griddep.launch", "griddepcontrol.launch_dependents"),
    ("fence.mbarrier_init", "fence.mbarrier_init.release.cluster"),
    ("fence.acq_rel.gpu", "fence.acq_rel.gpu"),
    ("fence.sc.cta", "membar.cta"),
    ("fence.release.sync_restrict", "fence.release.sync_restrict::shared::cta.cluster"),
    ("fence.acquire.sync_restrict", "fence.acquire.sync_restrict::shared::cluster.cluster"),
    ("fence.proxy.async", "fence.proxy.async"),
    ("fence.proxy.async.global", "fence.proxy.async.global"),
    ("fence.proxy.async.shared_cta", "fence.proxy.async.shared::cta"),
    ("fence.proxy.async.shared_cluster", "fence.proxy.async.shared::cluster"),
    ("fence.proxy.async.release", "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster"),
    ("fence.proxy.async.acquire",
     "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster"),
    ("fence.proxy.tensormap.release.gpu", "fence.proxy.tensormap::generic.release.gpu"),
    ("fence.proxy.tensormap.acquire.gpu A", "fence.proxy.tensormap::generic.acquire.gpu [%m], 128"),
    ("tensormap.replace A, global_dim, 4", "tensormap.replace.tile.global_dim.global.b1024.b32 [%m], 0, 4"),
    ("cp.async tile[][0 : 4], a[0 : 4]", "cp.async.cg.shared::cta.global [%a], [%d1], 16"),
    ("cp.async tile[][lane * 4 : 4], a[lane * 4 : 4]", "cp.async.cg.shared::cta.global [%rows], [%d1], 16"),
    ("cp.async.commit", "cp.async.commit_group"),
    ("cp.async.wait 2", "cp.async.wait_group 2"),
    ("cp.async.wait_all", "cp.async.wait_all"),
    ("bulk.load tile[][0 : 256], a[0 : 256], bar[0]",
     f"cp.async.bulk.shared::cta.global.{TX} [%a], [%d1], 1024, [%b]"),
    ("bulk.load tile[][0 : 256], a[0 : 256], bar[1], multicast 3",
     f"cp.async.bulk.shared::cluster.global.{TX}.multicast::cluster [%a], [%d1], 1024, [%b+8], 3"),
    ("bulk.store a[0 : 256], tile[][0 : 256]",
     "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%a], 1024"),
    ("bulk.reduce.add a[0 : 256], tile[][0 : 256]",
     "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%d1], [%a], 1024"),
    ("bulk.copy spare[][0 : 4] @ 1, tile[][0 : 4], bar[0] @ 1",
     f"cp.async.bulk.shared::cluster.shared::cta.{TX} [%ps], [%a], 16, [%pb]"),
    ("tma.load tile[][0 : 256], A[0, 0], bar[0]",
     f"cp.async.bulk.tensor.2d.shared::cluster.global.{TX} [%a], [%m, {{%r1, %r2}}], [%b]"),
    ("tma.load tile[][0 : 256], A[0, 0], bar[0], multicast 2",
     f"cp.async.bulk.tensor.2d.shared::cluster.global.{TX}.multicast::cluster "
     "[%a], [%m, {%r1, %r2}], [%b], 2"),
    ("tma.store A[0, 0], tile[][0 : 256]",
     "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%m, {%r1, %r2}], [%a]"),
    ("tma.reduce.add A[0, 0], tile[][0 : 256]",
     "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%m, {%r1, %r2}], [%a]"),
    ("bulk.commit", "cp.async.bulk.commit_group"),
    ("bulk.wait 1", "cp.async.bulk.wait_group 1"),
    ("bulk.wait.read 0", "cp.async.bulk.wait_group.read 0"),
    ("st.async spare[][0 : 1] @ 1, 1.0, bar[0] @ 1",
     f"st.async.shared::cluster.{TX}.f32 [%ps], %f1, [%pb]"),
    ("red.async.add spare[][0 : 1] @ 1, 1, bar[0] @ 1",
     f"red.async.relaxed.cluster.shared::cluster.{TX}.add.u32 [%ps], %r1, [%pb]"),
    ("wgmma.fence", "wgmma.fence.sync.aligned"),
    ("wgmma.commit", "wgmma.commit_group.sync.aligned"),
    ("wgmma.wait 1", "wgmma.wait_group.sync.aligned 1"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "line"), PAIRS)
def test_same_events(statement: str, line: str) -> None:
    assert from_ptx(line) == from_ir(statement)


def from_ptx(line: str) -> list[tuple[Any, ...]]:
    ctx = FakeContext(ctas=2, lanes=tuple(range(32)), boxes={77: 1024})
    rows = tuple(TILE + 16 * i for i in range(32))
    return emitted(line, ctx, a=TILE, b=BAR, ps=PEER + SPARE, pb=PEER + BAR, m=77, rows=rows)


def from_ir(statement: str) -> list[tuple[Any, ...]]:
    system = only(statement, HEADER)
    agent = next(a for a in system.agents() if system.info.classes[a.cls].cta == 0)
    barriers = [(b.cta, SHARED_BASE + b.offset) for b in system.info.barriers]
    out = []
    for event in run(agent):
        if event[0] != Ev.EXIT:
            shown = [_as_in_ptx(f) for f in system.info.footprints]
            out.append(resolve(event, shown, barriers))
    return out


def _as_in_ptx(f: Footprint) -> tuple[Any, ...]:
    base = SHARED_BASE if f.memory >= 0 else 0
    lanes = tuple((base + lo, base + hi, lane) for lo, hi, lane in f.lanes)
    return (f.memory, *((base + lo, base + hi) for lo, hi in f.intervals), *((lanes,) if lanes else ()))
