"""The drawing of a schedule fits its width and shows every lane, copy and phase."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Witness
from syncverify.report.drawing import draw
from syncverify.report.schedule_view import view_of
from tests.report.html.rings import early_release, wrong_parity


@pytest.fixture
def race(tmp_path: Path) -> Witness:
    witness = early_release(tmp_path).witness
    assert witness is not None
    return witness


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_longer_than_the_terminal(width: int, race: Witness) -> None:
    lines = list(draw(race, width))
    assert max(map(len, lines)) <= width
    rows = len(view_of(race).lanes) + len(view_of(race).barriers)
    assert len(lines) >= rows


def test_a_hang_shows_who_waits_for_ever(tmp_path: Path) -> None:
    witness = wrong_parity(tmp_path).witness
    assert witness is not None
    stuck = [line for line in draw(witness) if line.rstrip().endswith("~")]
    assert len(stuck) == len(witness.blocked)


def test_a_copy_is_drawn_from_its_issue_to_its_completion(race: Witness) -> None:
    lines = list(draw(race, 120))
    engine = next(line for line in lines if line.startswith(" async"))
    issuer = lines[lines.index(engine) - 1]
    assert issuer.index(">") < engine.rindex("c")
    assert engine.rindex("c") > len(" async of it")


def test_phases_are_those_of_the_barrier(race: Witness) -> None:
    row = next(line for line in draw(race, 120) if line.startswith("full[0]"))
    digits = row.removeprefix("full[0]").strip().replace(" ", "")
    assert digits == "".join(sorted(digits)) and set(digits) >= {"0", "1"}
