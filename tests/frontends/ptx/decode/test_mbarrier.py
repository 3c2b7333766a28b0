"""mbarrier instructions: their events, defaults, and what is undefined about them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syncverify.frontends.ptx.decode.mbarrier import blocking
from syncverify.frontends.ptx.syntax.nodes import Reg
from syncverify.model.events import Ev, Flag
from tests.frontends.ptx.effect_helpers import FakeContext, decoded, emitted, refused, shared_generic

BAR = 1024
HERE = (0, BAR)
THERE = (1, BAR)
REMOTE = (1 << 24) + BAR


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("mbarrier.init.shared::cta.b64 [%a], 4", ("INIT", HERE, 4)),
        ("mbarrier.init.shared.b64 [%a], %r1", ("INIT", HERE, 9)),
        ("mbarrier.inval.shared::cta.b64 [%a]", ("INVAL", HERE)),
        ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%a], 512", ("EXPECT_TX", HERE, 512)),
        ("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%a], 64", ("COMPLETE_TX", HERE, 64)),
        ("mbarrier.arrive.shared::cta.b64 _, [%a]", ("ARRIVE", HERE, 1, -1, 0)),
        ("mbarrier.arrive.shared::cta.b64 _, [%a], 3", ("ARRIVE", HERE, 3, -1, 0)),
        ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%a], 128", ("ARRIVE", HERE, 1, 128, 0)),
        ("mbarrier.arrive.expect_tx.release.cta.shared.b64 _, [%a], %r1", ("ARRIVE", HERE, 1, 9, 0)),
        ("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%a]",
         ("ARRIVE", HERE, 1, -1, Flag.RELAXED | Flag.CLUSTER)),
        ("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%a], 2",
         ("ARRIVE", HERE, 2, -1, Flag.CLUSTER)),
        ("mbarrier.arrive.shared::cta.b64 %d1, [%a]", ("ARRIVE", HERE, 1, -1, Flag.TOKEN)),
        ("mbarrier.arrive_drop.shared::cta.b64 _, [%a]", ("ARRIVE", HERE, 1, -1, Flag.DROP)),
        ("mbarrier.arrive_drop.expect_tx.shared::cta.b64 _, [%a], 32", ("ARRIVE", HERE, 1, 32, Flag.DROP)),
        ("mbarrier.arrive.noComplete.shared::cta.b64 %d1, [%a], 2",
         ("ARRIVE", HERE, 2, -1, Flag.NO_COMPLETE | Flag.TOKEN)),
        ("mbarrier.test_wait.parity.shared::cta.b64 %p1, [%a], 1", ("POLL", HERE, 1, 0)),
        ("mbarrier.test_wait.shared::cta.b64 %p1, [%a], %r1", ("POLL_TOKEN", HERE, 9, 0)),
        ("mbarrier.try_wait.parity.shared::cta.b64 %p1, [%a], 0", ("POLL", HERE, 0, Flag.MAY_SUSPEND)),
        ("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%a], 0, 0x989680",
         ("POLL", HERE, 0, Flag.MAY_SUSPEND | Flag.CLUSTER)),
        ("mbarrier.try_wait.relaxed.cluster.shared::cta.b64 %p1, [%a], %r1, 100",
         ("POLL_TOKEN", HERE, 9, Flag.MAY_SUSPEND | Flag.RELAXED | Flag.CLUSTER)),
        ("cp.async.mbarrier.arrive.shared::cta.b64 [%a]", ("CP_ARRIVE", HERE, 0)),
        ("cp.async.mbarrier.arrive.noinc.shared.b64 [%a]", ("CP_ARRIVE", HERE, 1)),
    ],
)  # fmt: skip
def test_events(line: str, event: tuple[object, ...]) -> None:
    assert emitted(line, a=BAR, r1=9) == [event]


def test_generic_addresses() -> None:
    assert emitted("mbarrier.init.b64 [%a+8], 1", a=shared_generic(BAR)) == [("INIT", (0, BAR + 8), 1)]


@pytest.mark.parametrize("kind", ["arrive.release.cluster", "expect_tx.relaxed.cluster"])
def test_remote_barriers(kind: str) -> None:
    into = "_, " if kind.startswith("arrive") else ""
    count = "" if kind.startswith("arrive") else ", 16"
    (event,) = emitted(
        f"mbarrier.{kind}.shared::cluster.b64 {into}[%a]{count}", FakeContext(ctas=2), a=REMOTE
    )
    assert event[1] == THERE


@pytest.mark.parametrize(
    "line",
    [
        "mbarrier.init.shared::cta.b64 [%a], 1",
        "mbarrier.inval.shared::cta.b64 [%a]",
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%a], 0",
        "cp.async.mbarrier.arrive.noinc.shared.b64 [%a]",
    ],
)
def test_operations_on_own_barriers_only(line: str) -> None:
    (event,) = emitted(line, FakeContext(ctas=2), a=REMOTE)
    assert event[:2] == ("FAULT", "SV208")


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("mbarrier.init.shared::cta.b64 [%a], 0", "SV202"),
        ("mbarrier.init.shared::cta.b64 [%a], 0x100000", "SV202"),
        ("mbarrier.arrive.shared::cta.b64 _, [%a], 0", "SV202"),
        ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%a], 0x100000", "SV203"),
        ("mbarrier.arrive.shared::cta.b64 _, [%a+4]", "SV701"),
        ("mbarrier.arrive.shared::cta.b64 _, [%a+0x40000]", "SV208"),
    ],
)
def test_faults(line: str, rule: str) -> None:
    assert emitted(line, a=BAR, r1=2)[0][:2] == ("FAULT", rule)


def test_a_remote_arrival_returns_no_token() -> None:
    first, second = emitted("mbarrier.arrive.shared::cluster.b64 %d1, [%a]", FakeContext(ctas=2), a=REMOTE)
    assert first[:2] == ("FAULT", "SV208")
    assert second[:2] == ("ARRIVE", THERE)


def test_rank_outside_the_cluster() -> None:
    (event,) = emitted("mbarrier.arrive.shared::cluster.b64 _, [%a]", a=REMOTE)
    assert event[:2] == ("FAULT", "SV208")


def test_answers_go_to_the_destination() -> None:
    assert decoded("mbarrier.arrive.shared::cta.b64 %d1, [%a]").answer == Reg("%d1")
    assert decoded("mbarrier.arrive.shared::cta.b64 _, [%a]").answer is None
    assert decoded("mbarrier.try_wait.parity.shared::cta.b64 %p1, [%a], 0").answer == Reg("%p1")


def test_pending_count_is_data() -> None:
    effect = decoded("mbarrier.pending_count.b64 %r1, %d1")
    assert effect.unknown == (Reg("%r1"),)
    assert emitted("mbarrier.pending_count.b64 %r1, %d1") == []


def test_blocking_form_of_a_poll() -> None:
    event = (Ev.POLL, 5, 0, 1, int(Flag.MAY_SUSPEND | Flag.CLUSTER))
    assert blocking(event) == (Ev.WAIT, 5, 0, 1, Flag.CLUSTER)
    assert blocking((Ev.POLL_TOKEN, 5, 0, 3, 0)) == (Ev.WAIT_TOKEN, 5, 0, 3, 0)


def test_unknown_operations_are_named() -> None:
    assert "mbarrier.future" in refused("mbarrier.future.b64 [%a]")


def test_contexts_are_independent() -> None:
    ctx = FakeContext(ctas=4)
    assert emitted("mbarrier.arrive.shared::cta.b64 _, [%a]", replace(ctx), a=BAR)[0][1] == HERE
