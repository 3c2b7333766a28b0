"""Execution barriers, fences, register pool, dependent launch."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.decode.table import decode
from syncverify.frontends.ptx.isa.match import forms
from syncverify.model.events import Flag
from syncverify.model.proxies import Scope, Space
from tests.frontends.ptx.effect_helpers import FakeContext, decoded, emitted, function, refused

ALL = Space.ALL
SHARED = Space.SHARED_CTA | Space.SHARED_CLUSTER
FULL = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("bar.sync 0", ("BARRIER_SYNC", 0, 0, Flag.ALIGNED)),
        ("bar.cta.sync 1, 128", ("BARRIER_SYNC", 1, 128, Flag.ALIGNED)),
        ("barrier.sync %r1", ("BARRIER_SYNC", 3, 0, 0)),
        ("barrier.cta.sync.aligned %r1, %r2", ("BARRIER_SYNC", 3, 64, Flag.ALIGNED)),
        ("bar.arrive %r1, 256", ("BARRIER_ARRIVE", 3, 256, Flag.ALIGNED)),
        ("barrier.arrive 2, %r2", ("BARRIER_ARRIVE", 2, 64, 0)),
        ("bar.red.popc.u32 %r3, 0, %p1", ("BARRIER_SYNC", 0, 0, Flag.ALIGNED | Flag.RED | Flag.COUNT)),
        ("barrier.red.or.pred %p2, 1, 64, !%p1", ("BARRIER_SYNC", 1, 64, Flag.RED | Flag.OR)),
        ("bar.warp.sync 0xffffffff", ("WARP_SYNC", FULL)),
        ("bar.warp.sync -1", ("WARP_SYNC", FULL)),
        ("barrier.cluster.arrive", ("CLUSTER_ARRIVE", 0)),
        ("barrier.cluster.arrive.release.aligned", ("CLUSTER_ARRIVE", Flag.ALIGNED)),
        ("barrier.cluster.arrive.relaxed.aligned", ("CLUSTER_ARRIVE", Flag.ALIGNED | Flag.RELAXED)),
        ("barrier.cluster.wait", ("CLUSTER_WAIT", 0)),
        ("barrier.cluster.wait.acquire.aligned", ("CLUSTER_WAIT", Flag.ALIGNED)),
        ("elect.sync _|%p1, -1", ("ELECT", FULL)),
        ("elect.sync %r3|%p1, %r4", ("COLLECTIVE", 0xFF, 1, 1)),
        ("setmaxnreg.inc.sync.aligned.u32 240", ("SETMAXNREG", 1, 240)),
        ("setmaxnreg.dec.sync.aligned.u32 24", ("SETMAXNREG", 0, 24)),
        ("griddepcontrol.wait", ("GRID_WAIT",)),
        ("griddepcontrol.launch_dependents", ("GRID_LAUNCH",)),
        ("fence.acq_rel.gpu", ("FENCE", Flag.ACQUIRE | Flag.RELEASE, Scope.GPU)),
        ("fence.cluster", ("FENCE", Flag.ACQUIRE | Flag.RELEASE, Scope.CLUSTER)),
        ("fence.sc.sys", ("FENCE", Flag.ACQUIRE | Flag.RELEASE | Flag.SC, Scope.SYS)),
        ("fence.acquire.cta", ("FENCE", Flag.ACQUIRE, Scope.CTA)),
        ("fence.release.sync_restrict::shared::cta.cluster",
         ("FENCE", Flag.RELEASE | Flag.SYNC_RESTRICT, Scope.CLUSTER)),
        ("fence.acquire.sync_restrict::shared::cluster.cluster",
         ("FENCE", Flag.ACQUIRE | Flag.SYNC_RESTRICT, Scope.CLUSTER)),
        ("membar.gl", ("FENCE", Flag.ACQUIRE | Flag.RELEASE | Flag.SC, Scope.GPU)),
        ("membar.cta", ("FENCE", Flag.ACQUIRE | Flag.RELEASE | Flag.SC, Scope.CTA)),
        ("fence.mbarrier_init.release.cluster", ("INIT_FENCE",)),
        ("fence.proxy.async", ("PROXY_FENCE", ALL, 0)),
        ("fence.proxy.async.global", ("PROXY_FENCE", Space.GLOBAL, 0)),
        ("fence.proxy.async.shared::cta", ("PROXY_FENCE", Space.SHARED_CTA, 0)),
        ("fence.proxy.async.shared::cluster", ("PROXY_FENCE", SHARED, 0)),
        ("membar.proxy.async", ("PROXY_FENCE", Space.ALL, 0)),
        ("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster",
         ("PROXY_FENCE", Space.SHARED_CTA, Flag.RELEASE)),
        ("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
         ("PROXY_FENCE", SHARED, Flag.ACQUIRE)),
        ("fence.proxy.tensormap::generic.release.gpu", ("MAP_RELEASE", Scope.GPU)),
        ("fence.proxy.tensormap::generic.acquire.sys [%m], 128", ("MAP_ACQUIRE", 0, Scope.SYS)),
    ],
)  # fmt: skip
def test_events(line: str, event: tuple[object, ...]) -> None:
    assert emitted(line, r1=3, r2=64, r4=0xFF, m=512) == [event]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("bar.sync %r1, 64", "SV301"),
        ("bar.sync 0, %r2", "SV301"),
        ("bar.sync 0, %r3", "SV301"),
        ("setmaxnreg.inc.sync.aligned.u32 100", "SV304"),
        ("bar.warp.sync 0xfffffffe", "SV303"),
        ("elect.sync _|%p1, 2", "SV303"),
    ],
)
def test_faults(line: str, rule: str) -> None:
    assert emitted(line, r1=16, r2=0, r3=48)[0][:2] == ("FAULT", rule)


def test_masks_name_lanes_that_exist() -> None:
    ctx = FakeContext(lanes=(0, 1), warp_lanes=0b1111)
    assert emitted("bar.warp.sync -1", ctx) == [("WARP_SYNC", 0b1111)]


def test_result_of_a_reduction_is_data() -> None:
    assert [o.name for o in decoded("bar.red.popc.u32 %r3, 0, %p1").unknown] == ["%r3"]  # type: ignore[union-attr]


def test_alias_fence_has_no_event() -> None:
    assert emitted("fence.proxy.alias") == []


@pytest.mark.parametrize(
    "line",
    [
        "fence.proxy.future",
        "fence.new_restrict.release.cluster",
        "barrier.cluster.future",
        "tcgen05.fence::before_thread_sync",
        "griddepcontrol.future",
    ],
)
def test_what_is_not_known_is_unsupported(line: str) -> None:
    assert line in refused(line)


def test_ordinary_instructions_have_none() -> None:
    for line in ("st.shared.b32 [%r1], %r2", "red.shared.add.u32 [%r1], %r2", "add.s32 %r1, %r2, %r3"):
        f = function(line)
        assert decode(f.body[0], f) is None


def test_harmless_ones_have_none() -> None:
    for line in ("nanosleep.u32 20", "prefetch.global.L2 [%d1]"):
        f = function(line)
        assert {form.row.effect for form in forms(f.body[0].op, f.body[0].mods)} == {"hint"}
        assert decode(f.body[0], f) is None
