"""What one slot's barriers miss, moved on to the other slots: by places, wherever a run was moved to."""

from __future__ import annotations

import pytest

from syncverify.checker.happens_before.run import Run
from syncverify.checker.prover.reach.ring.action import apply_rotation
from syncverify.checker.prover.reach.ring.orbits import RingWaits
from syncverify.checker.prover.reach.ring.symmetry import Ring, detect_ring
from syncverify.checker.prover.reach.tile_history import RingBarriers
from syncverify.ir.text.parser import parse
from syncverify.model.events import Ev
from tests.checker.prover.reach.ring.test_symmetry import pipeline
from tests.checker.prover.reach.state.test_snapshot import started

STAGES = 3


def filled(copies: int) -> tuple[Run, Ring]:
    """A run after so many copies, whose next copy goes to the slot that is left then."""
    (kernel,) = parse(pipeline(STAGES), "kernel.syncir")
    run = started(kernel, {"T": 5, "K": 4})
    made = 0
    while made < copies:
        t = run.ready.popleft()
        while not t.done and not t.blocked and made < copies:
            before = len(run.trace)
            run.step(t)
            made += any(event[:1] == (Ev.BULK_LOAD,) for _, event in run.trace[before:])
        if not t.done and not t.blocked:
            run.ready.append(t)
    ring = detect_ring(run)
    assert ring is not None and ring.size == STAGES
    return run, ring


@pytest.mark.parametrize("laps", [2, 4])
def test_parities_and_numbers_of_phases_tell_the_same_places(laps: int) -> None:
    run, ring = filled(STAGES * laps)  # place 0 is next
    by_number, by_parity = RingBarriers(run, ring.offsets), RingWaits(run, ring.offsets)
    full = [b for b in ring.barriers if run.info.barriers[b].name.startswith("full")]
    assert len(full) == STAGES
    assert {by_parity.place(b) - by_number.place(b) for b in full} == {-STAGES * laps}


@pytest.mark.parametrize("copies", range(2 * STAGES, 4 * STAGES))
def test_the_last_phase_of_one_is_the_last_of_its_likes_wherever_the_run_is_moved(copies: int) -> None:
    run, ring = filled(copies)
    by = -copies % ring.places
    if by:
        apply_rotation(run, ring, by)
    slots = RingWaits(run, ring.offsets)
    for b in ring.barriers:
        s = run.barriers[b]
        for like in slots.orbits[b][0]:
            further = slots.place(like) - slots.place(b)
            other = run.barriers[like]
            assert slots.moved(s.column, s.auto.phase, further) == (other.column, other.auto.phase)
            assert slots.moved(other.column, other.auto.phase, -further) == (s.column, s.auto.phase)
    full = sorted(slots.place(b) for b in ring.barriers if run.info.barriers[b].name.startswith("full"))
    assert full == list(range(-STAGES, 0))  # place 0 is filled next
