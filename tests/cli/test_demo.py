"""``make demo`` shows what it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.examples.demo import demo


def test_every_step_of_the_demo_ends_as_it_should(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(tmp_path)
    out = capsys.readouterr().out
    for said in ("equals the reference", "error[SV210 deadlock]", "hang reproduced", "1 kernel: 1 proved"):
        assert said in out
