"""The picture of a schedule: lanes, copies, arrows, barriers and the circle of waits, from real witnesses."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, StepKind, Witness
from syncverify.report.schedule_view import view_of
from tests.report.html.rings import early_release, wrong_parity


def _witness(report: KernelReport) -> Witness:
    assert report.witness is not None
    return report.witness


@pytest.fixture
def race(tmp_path: Path) -> Witness:
    return _witness(early_release(tmp_path))


@pytest.fixture
def hang(tmp_path: Path) -> Witness:
    return _witness(wrong_parity(tmp_path))


def test_every_step_has_a_lane_and_completions_have_their_own(race: Witness) -> None:
    view = view_of(race)
    assert len(view.lane_of) == len(race.steps)
    for step, lane in zip(race.steps, view.lane_of, strict=True):
        assert view.lanes[lane].asynchronous == (step.kind is StepKind.COMPLETION)


def test_a_copy_lies_between_its_issue_and_its_completion(race: Witness) -> None:
    view = view_of(race)
    assert view.copies
    for copy in view.copies:
        assert race.steps[copy.issue].kind is StepKind.ISSUE
        if copy.completion is not None:
            completion = race.steps[copy.completion]
            assert completion.op == f"completion of {race.steps[copy.issue].op}"
            assert completion.issued_by == copy.issue < copy.completion


def test_arrows_lead_from_contributions_to_waits_of_the_same_barrier(race: Witness) -> None:
    view = view_of(race)
    assert view.arrows
    for arrow in view.arrows:
        start, end = race.steps[arrow.start], race.steps[arrow.end]
        assert arrow.start < arrow.end and start.barrier == end.barrier and end.kind is StepKind.WAIT
    ended = {arrow.end for arrow in view.arrows}
    assert ended == {arrow.end for arrow in view.arrows if arrow.last}


def test_bytes_of_a_phase_go_up_with_its_announcement_and_down_with_its_copy(race: Witness) -> None:
    bytes_ = [span.state.tx for span in view_of(race).barriers["full[0]"]]
    assert bytes_[:3] == [0, 256, 0]


def test_phases_of_a_barrier_only_grow(race: Witness) -> None:
    for spans in view_of(race).barriers.values():
        phases = [span.state.phase for span in spans]
        assert phases == sorted(phases)


def test_blocked_lanes_are_those_of_the_witness(hang: Witness) -> None:
    view = view_of(hang)
    assert len(view.waiting) == len(hang.blocked) == 2
    for blocked, lane in zip(hang.blocked, view.waiting, strict=True):
        warp = blocked.agent.split(".")[1].removeprefix("warp")
        assert view.lanes[lane].label.startswith(f"warp {warp}") and not view.lanes[lane].asynchronous
