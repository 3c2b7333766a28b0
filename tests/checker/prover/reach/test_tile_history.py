"""Traces of where tiles began are forgotten: fewer states, and nothing that is wrong is proved for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.checker.happens_before.run import Run
from syncverify.checker.happens_before.vector_clocks import E
from syncverify.checker.prover.parametric.strategy import ParametricResult
from syncverify.checker.prover.reach import worklist
from syncverify.checker.prover.reach.state.snapshot import flat
from syncverify.checker.prover.reach.threshold_abstraction import ThresholdAbstraction
from syncverify.checker.prover.reach.thresholds import ORDER
from syncverify.checker.prover.reach.tile_history import (
    Groups,
    OrbitWeakening,
    RingBarriers,
    forget_tile_history,
    orbit_weakenings_of,
)
from syncverify.checker.prover.reach.worklist import NodeProcessing
from tests.checker.prover.reach.kernels import proof
from tests.checker.prover.reach.test_round_robin import WRONG, pingpong


def events(found: ParametricResult) -> int:
    assert found.verdict is Verdict.PROVED
    return found.stats["events"]


def test_states_do_not_tell_where_tiles_began(monkeypatch: pytest.MonkeyPatch) -> None:
    few = events(proof(pingpong(4)))
    monkeypatch.setattr(NodeProcessing, "groups", ())
    assert few < 0.9 * events(proof(pingpong(4)))


def test_what_is_forgotten_too_much_is_known_in_the_next_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[Groups] = []

    def all_(run: Run, groups: Groups, lacks: Iterable[OrbitWeakening] = ()) -> None:
        attempts.append(groups)
        for s in run.barriers.values():
            for p in s.phases[1:2]:
                m = p.m.copy()
                m[E] = 0
                s.phases = [s.phases[0], flat(p, m=m), *s.phases[2:]]

    monkeypatch.setattr(worklist, "forget_tile_history", all_)
    assert proof(pingpong(2)).verdict is Verdict.PROVED
    assert attempts


@pytest.mark.parametrize("what", ["at one slot only", "the turn is not handed on", "no wait for one slot"])
def test_with_more_slots_what_is_wrong_is_refuted(what: str) -> None:
    assert proof(pingpong(3, **WRONG[what])).verdict is Verdict.REFUTED


@pytest.fixture(scope="module")
def states() -> Iterator[list[tuple[Run, Groups]]]:
    """Runs that are compared, before their traces are forgotten."""
    seen: list[tuple[Run, Groups]] = []

    def keep(run: Run, groups: Groups, lacks: Iterable[OrbitWeakening] = ()) -> None:
        check(run, groups)
        seen.append((run, groups))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worklist, "forget_tile_history", keep)
        proof(pingpong(3))
    yield seen


def check(run: Run, groups: Groups) -> None:
    """Forgets; no row knows more than before, and what the ring and its waits are asked for stays known."""
    slots = RingBarriers(run, groups)
    before = {b: [m.copy() for m, _ in slots.last(b)] for b in slots.orbits}
    asked = {(c, w[0]) for b in slots.orbits for c, w in run.barriers[b].waits.items()}
    asked |= {
        (column, v) for column, b in slots.columns.items() for v in range(run.barriers[b].auto.phase + 1)
    }
    forget_tile_history(run, groups)
    for b, rows in before.items():
        for old, (new, _) in zip(rows, slots.last(b), strict=True):
            assert (new <= old).all()
            assert (new[E + 1 :] == old[E + 1 :]).all()
            assert all((new[E, column] >= v) == (old[E, column] >= v) for column, v in asked)


def test_what_is_asked_of_the_ring_stays_known(states: list[tuple[Run, Groups]]) -> None:
    assert len(states) > 20  # each was checked


def test_thresholds_move_with_slots(states: list[tuple[Run, Groups]]) -> None:
    run, groups = states[-1]
    slots = RingBarriers(run, groups)
    assert len(slots.orbits) == 6  # full and empty, three slots each
    for b, (likes, slot) in slots.orbits.items():
        column = run.barriers[b].column
        assert slots.moved(column, 5, 0) == (column, 5)
        assert slots.moved(column, 5, 3) == (column, 6)  # a lap
        onward = run.barriers[likes[(slot + 1) % 3]].column
        assert slots.moved(column, 5, 1) == (onward, 5 + (slot == 2))
    (other,) = {
        s.column for b, s in run.barriers.items() if b not in slots.orbits and s.index == max(run.barriers)
    }
    assert slots.moved(other, 5, 1) == (other, 5)


def test_slots_miss_of_the_ring_what_they_are_to_lack(states: list[tuple[Run, Groups]]) -> None:
    run, groups = states[-1]
    slots = RingBarriers(run, groups)
    known = {b: m[E].copy() for b in slots.orbits for m, _ in slots.last(b)}
    newest = {
        (b, column): slots.distance(b, column, int(row[column]))
        for b, row in known.items()
        for column in slots.columns
    }
    lacks = {(slots.group[b], False, *to) for (b, _), to in newest.items() if to is not None and to[1] > 0}
    assert lacks
    forget_tile_history(run, groups, lacks)
    least = np.min([t.clock.m[E] for t in run.threads if not t.done], axis=0)
    for (b, column), to in newest.items():
        ((m, _),) = slots.last(b)
        assert to is not None and slots.beyond(b, *to) == (column, known[b][column])
        lost = (slots.group[b], False, *to) in lacks and known[b][column] > least[column]
        assert m[E, column] == known[b][column] - lost


def test_what_last_phases_miss_is_told_by_how_far_it_is(states: list[tuple[Run, Groups]]) -> None:
    run, groups = states[-1]
    slots, loose = RingBarriers(run, groups), ThresholdAbstraction(run, everything=True)
    assert loose.compute()
    b = min(slots.orbits)
    (last, _), *_ = slots.last(b)
    row = next(i for i, m in enumerate(loose.matrices) if m is last)
    asked = [loose.value((ORDER, i)) for i in range(len(loose.asked[ORDER]))]
    number, to = next(
        (i, to) for i, (column, v) in enumerate(asked) if (to := slots.distance(b, column, v)) is not None
    )
    assert orbit_weakenings_of(loose, groups, [((ORDER, number), [row])]) == {(slots.group[b], False, *to)}
    other = next(i for i, (column, _) in enumerate(asked) if column not in slots.columns)
    assert not orbit_weakenings_of(loose, groups, [((ORDER, other), [row])])
