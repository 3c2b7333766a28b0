"""Polls that count their turns, beside a sum of what comes to the barrier that they ask for.

Threads arrive ahead of their polls, or in some turn of them, or with a copy that brings bytes. The phase is
over if as many come as the barrier counts, and the bytes are those that are expected; an odd parity asks for
the phase before (a copy would come too late there). Else all poll for ever, and that is a hang, unless a thread stores something in each turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

from syncverify.simulate.ptx import Kind, Launch, buffer, run
from syncverify.simulate.ptx.machine import Machine
from tests.simulate.ptx.support import kernel

TEXT = """.shared .align 128 .b8 s[1024]; .shared .align 8 .b8 bar[8];
mov.u32 %r4, s; mov.u32 %r5, bar; setp.ne.u32 %p1, %r1, 0; mov.u32 %r9, 0;
@%p1 bra I; mbarrier.init.shared::cta.b64 [%r5], {count}; fence.mbarrier_init.release.cluster; I: bar.sync 0;
{copy}
setp.lt.u32 %p4, %r1, {ahead}; @%p4 mbarrier.arrive.shared::cta.b64 _, [%r5];
bra.uni START;
W: add.u32 %r9, %r9, 1; {busy}
START: setp.eq.u32 %p3, %r9, {turn}; setp.lt.and.u32 %p3, %r1, {later}, %p3;
@%p3 mbarrier.arrive.shared::cta.b64 _, [%r5];
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], {parity}; @!%p2 bra W;
"""
COPY = """@%p1 bra C; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {bytes};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 256, [%r5]; C:"""
BUSY = "@!%p1 st.volatile.shared.u32 [%r4+512], %r9;"


@dataclass(frozen=True)
class Polls:
    """``ahead``, ``later``: threads that arrive, the latter in their ``turn``. ``lacks``: arrivals that never
    come. ``bytes``: what a copy of 256 is said to bring; 0 without one. ``busy``: a thread stores."""

    ahead: int
    later: int
    turn: int
    lacks: int
    bytes: int
    parity: int
    busy: bool

    @property
    def over(self) -> bool:
        return self.parity == 1 or (self.lacks == 0 and self.bytes in (0, 256))

    def ends(self) -> str:
        """``end``, ``hang``, or ``limit`` where nothing is known of what comes behind the last step."""
        copy = COPY.format(bytes=self.bytes) if self.bytes else ""
        count = self.ahead + self.later + self.lacks + (self.bytes > 0)
        text = TEXT.format(count=count, ahead=self.ahead, later=self.later, turn=self.turn, copy=copy,
                           parity=self.parity, busy=BUSY if self.busy else "")  # fmt: skip
        launch = Launch((64, 1, 1), params=(buffer(np.zeros(256, np.uint32)),))
        r = run(kernel(text), "k", launch, limit=6000)
        assert r.harm is None or r.harm.kind is Kind.HANG, r.harm
        hangs = r.harm is not None or r.still is not None
        return "hang" if hangs else "limit" if r.limit else "end"

    def wrong(self) -> bool:
        return self.ends() != ("end" if self.over else "limit" if self.busy else "hang")


def polls(seed: int) -> Polls:
    draw = Random(seed)
    bytes_ = draw.choice([0, 0, 256, 256, 512])
    ahead, later = draw.randrange(1, 5), draw.choice([0, 0, 1, 3])
    lacks, parity = draw.choice([0, 0, 0, 1, 2]), int(bytes_ == 0 and draw.random() < 0.3)
    parity = parity if lacks else 0  # else the phase that it asks for is the next one
    return Polls(ahead, later, draw.randrange(1, 6), lacks, bytes_, parity, draw.random() < 0.25)


@pytest.mark.parametrize(
    ("first", "last"), [(0, 16), pytest.param(16, 400, marks=pytest.mark.slow)], ids=("some", "more")
)
def test_a_hang_is_where_too_little_comes(first: int, last: int) -> None:
    assert [polls(seed) for seed in range(first, last) if polls(seed).wrong()] == []


def test_a_thread_that_still_stores_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Polls(ahead=2, later=0, turn=1, lacks=1, bytes=0, parity=0, busy=True)
    assert not busy.wrong()
    monkeypatch.setattr(Machine, "_still", lambda m: m._nobody_moves().harm)
    assert busy.ends() == "hang"
