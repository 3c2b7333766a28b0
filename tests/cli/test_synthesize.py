"""``syncverify synthesize``: plain kernels in, proved ones out, and nothing that is not proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.cli.main import run
from syncverify.examples import unsynchronized
from syncverify.ir.text.printer import print_kernel


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "staged.syncir"
    path.write_text(print_kernel(unsynchronized.staged_store()))
    return path


def test_the_written_kernel_is_proved(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = plain.with_name("out.syncir")
    assert run(["check", str(plain)]) == 1
    assert run(["synthesize", str(plain), "-o", str(out)]) == 0
    assert run(["check", str(out)]) == 0
    assert "bulk.wait.read 0" in out.read_text()


def test_passes_can_be_printed(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["synthesize", str(plain), "--print-after", "barriers"]) == 0
    out, err = capsys.readouterr()
    assert "fence.proxy.async" in out and "bar.sync 0" in err and "fence.proxy.async" not in err
    assert run(["synthesize", str(plain), "--print-after", "no-such"]) == 2


def test_what_no_pass_can_order_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "odd.syncir"
    path.write_text(
        "kernel odd {\n  launch block [64]\n  shared t : f32[64]\n  if tid < 40 {\n"
        "    st.shared t[][tid : 1], 1.0\n    ld.shared x, t[][39 - tid : 1]\n  }\n}\n"
    )
    out = tmp_path / "out.syncir"
    assert run(["synthesize", str(path), "-o", str(out)]) == 2
    assert "odd.syncir:4" in capsys.readouterr().err
    assert not out.exists()
    assert run(["synthesize", str(path), "--kernel", "other"]) == 2
