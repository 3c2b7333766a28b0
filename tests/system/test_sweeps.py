"""The sweeps of which the suite runs a part are there under their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sweeps import NIGHTLY, PARTS

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("name", sorted({*PARTS, *NIGHTLY}))
def test_a_sweep_that_is_renamed_is_renamed_here(name: str) -> None:
    file, test = name.partition("[")[0].split("::")
    assert f"\ndef {test}(" in (TESTS / file).read_text("utf-8")
