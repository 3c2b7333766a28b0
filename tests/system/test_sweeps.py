"""The sweeps of which the suite runs a part are there under their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import sweeps
from tests.sweeps import NIGHTLY, PARTS, part_of

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("name", sorted({*PARTS, *NIGHTLY}))
def test_a_sweep_that_is_renamed_is_renamed_here(name: str) -> None:
    file, test = name.partition("[")[0].split("::")
    assert f"\ndef {test}(" in (TESTS / file).read_text("utf-8")


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9])
@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_turns_come_to_all_cases_and_none_is_without_any(
    count: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: set[int] = set()
    for turn in range(parts):
        monkeypatch.setattr(sweeps, "TURN", turn)
        some = part_of(range(count), parts)
        assert len(some) > 0 or count == 0
        met.update(some)
    assert met == set(range(count))
