"""Schedules of the row menu are ranked once, and found by other processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.fusion import Fusion, RowSchedule, Tensor, kept_choices, layer_norm, row_menu, softmax, trace
from syncverify.fusion.plan import plan_of
from syncverify.fusion.row_cards import H100

ROWS = Tensor("bf16", ("R", "C"))


def norm() -> Fusion:
    return trace(lambda x: layer_norm(x), {"x": ROWS})


@pytest.fixture
def ranked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The widths that a menu was ranked for, with an empty cache."""
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    seen: list[int] = []
    plain = row_menu.chosen

    def chosen(fusion: Fusion, schedule: RowSchedule, width: int) -> RowSchedule:
        seen.append(width)
        return plain(fusion, schedule, width)

    monkeypatch.setattr(row_menu, "chosen", chosen)
    return seen


def test_a_menu_is_ranked_once(ranked: list[int]) -> None:
    first = plan_of(norm(), RowSchedule(width=600)).resources(600)
    assert plan_of(norm(), RowSchedule(width=600)).resources(600) == first
    assert ranked == [600]


def test_others_have_choices_of_their_own(ranked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = RowSchedule(width=600)
    kept_choices.chosen(norm(), asked, 600)
    kept_choices.chosen(norm(), asked, 608)
    kept_choices.chosen(norm(), RowSchedule(width=600, index="i64"), 600)
    kept_choices.chosen(trace(lambda x: softmax(x), {"x": ROWS}), asked, 600)
    monkeypatch.setattr(kept_choices, "here", lambda: H100)
    kept_choices.chosen(norm(), asked, 600)
    assert ranked == [600, 608, 600, 600, 600]


@pytest.mark.parametrize("data", [b"", b"[1]", b'{"width": "wide"}', b'{"other": 1}', b"\xff"])
def test_a_damaged_file_is_written_again(ranked: list[int], tmp_path: Path, data: bytes) -> None:
    asked = RowSchedule(width=600)
    first = kept_choices.chosen(norm(), asked, 600)
    (file,) = tmp_path.glob("*.rows.json")
    file.write_bytes(data)
    assert kept_choices.chosen(norm(), asked, 600) == first == kept_choices.chosen(norm(), asked, 600)
    assert ranked == [600, 600]
