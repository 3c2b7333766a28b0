"""Random tiny programs with flags: what is proved, a brute force over all executions finds right, and what is
refuted, wrong.

Outside of what is drawn: lanes of one warp, loops, plain loads of flags, and clusters.
"""

from __future__ import annotations

import random

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.checker.happens_before.handlers import flag_order
from syncverify.checker.happens_before.handlers.global_memory import Location, Spin
from tests.checker.happens_before.flag_model import Op, Threads, harm
from tests.checker.happens_before.flag_programs import Program, launch, program, ptx

#: How many programs each run draws, and the slow one, in parts.
DRAWN = 60
MORE = 1000
PARTS = 4

_DATA, _READ = Op("write"), Op("read")
_SET, _RELAXED = Op("store", release=True), Op("store")
_GOT, _SEEN = Op("wait", acquire=True), Op("wait")


@pytest.mark.parametrize(
    ("threads", "wrong"),
    [
        (((_DATA, _SET), (_GOT, _READ)), None),
        (((_DATA, _RELAXED), (_GOT, _READ)), "race"),
        (((_DATA, _SET), (_SEEN, _READ)), "race"),
        (((_DATA, Op("fence"), _RELAXED), (_SEEN, Op("fence"), _READ)), None),
        # An atomic goes on with what the message before it released; a store does not.
        (((_DATA, _SET), (_SEEN, Op("add")), (Op("wait", 0, 2, acquire=True), _READ)), None),
        (((_DATA, _SET), (_SEEN, Op("store", 0, 2)), (Op("wait", 0, 2, acquire=True), _READ)), "race"),
        # A later strong write of the thread that released does; one of a third thread may come between.
        (((_DATA, _SET, Op("store", 0, 2)), (Op("wait", 0, 2, acquire=True), _READ)), None),
        # Writes in no order: the value that is waited for may be overwritten.
        (((_SET,), (Op("store", 0, 2),), (_GOT,)), "hang"),
        (((_SET, Op("store", 0, 2)), (_GOT,)), "hang"),
        (((_SET,), (Op("store", 0, 2),), (Op("wait", 0, 1, ">="),)), None),
        # Relaxed stores to two flags: the second one may be seen first.
        (((_RELAXED, Op("store", 1)), (Op("wait", 1), Op("store", 0, 2)), (Op("wait", 0, 2),)), "hang"),
        # A weak store of a flag races with whoever polls it; a message of too small a scope does, too.
        (((Op("plain"),), (_GOT,)), "race"),
        (((_DATA, Op("store", release=True, narrow=True)), (_GOT, _READ)), "race"),
    ],
)  # fmt: skip
def test_the_model(threads: Threads, wrong: str | None) -> None:
    assert harm(threads) == wrong


def _verdict(p: Program, replay: bool) -> Verdict:
    (found,) = syncverify.check(
        ptx(p), facts={"kernel": {"k": launch(p)}}, timeout=60, replay=replay, advice=False
    )
    return found.verdict


def _told_wrong(p: Program) -> bool:
    """Whether a program is proved that some execution harms, or refuted, and replayed, though none does."""
    wrong = harm(p.meant)
    said = _verdict(p, replay=False)
    if wrong:
        return said is Verdict.PROVED
    return said is Verdict.REFUTED and _verdict(p, replay=True) is Verdict.REFUTED


def _differing(first: int, last: int) -> list[str]:
    drawn = [(seed, program(random.Random(seed))) for seed in range(first, last)]
    return [f"seed {seed}: {p}" for seed, p in drawn if _told_wrong(p)]


def test_verdicts_bear_out() -> None:
    assert _differing(0, DRAWN) == []


#: Programs with two stores in no order, of which a wait needs the one that came last in the judged run.
IN_NO_ORDER = (250, 886)


@pytest.mark.parametrize("seed", IN_NO_ORDER)
def test_stores_in_no_order_end_no_wait(seed: int) -> None:
    assert _differing(seed, seed + 1) == []


def test_a_wait_that_the_last_store_ends_anyway_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = flag_order.decided

    def ordered(at: Location, spin: Spin) -> bool:
        """As if all writes of a flag came one after the other in every execution."""
        for n, w in enumerate(at.writes):
            w.after = n
        return plain(at, spin)

    monkeypatch.setattr(flag_order, "decided", ordered)
    assert any(_differing(seed, seed + 1) for seed in IN_NO_ORDER)


def test_many_are_decided() -> None:
    """Half of the programs are right, and most of these are proved: else nothing is judged."""
    drawn = [program(random.Random(seed)) for seed in range(DRAWN)]
    right = [p for p in drawn if harm(p.meant) is None]
    assert DRAWN / 4 < len(right) < DRAWN * 3 / 4
    assert sum(_verdict(p, replay=False) is Verdict.PROVED for p in right) > len(right) / 2


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_verdicts_of_more_bear_out(part: int) -> None:
    size = (MORE - DRAWN) // PARTS
    assert _differing(DRAWN + part * size, DRAWN + (part + 1) * size) == []
