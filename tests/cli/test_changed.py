"""Files that changed, and the kernels that they concern."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.cli.changed import concerned
from syncverify.cli.main import run


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
        "k/a.cu": '#include "ring.cuh"\n',
        "k/ring.cuh": '#include "bits.h"\n',
        "k/bits.h": "",
        "k/other.h": "",
        "k/b.cu": "#include <cuda_fp16.h>\n",
        "k/macro.cu": "#include WHICH\n",
        "k/c.ptx": "",
        "k/c.launch.toml": "",
        "k/a.cu.launch.toml": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "kernels"),
    [
        (["k/b.cu"], ["k/b.cu"]),
        (["k/bits.h"], ["k/a.cu", "k/macro.cu"]),
        (["k/other.h"], ["k/macro.cu"]),
        (["k/a.cu", "k/ring.cuh"], ["k/a.cu", "k/macro.cu"]),
        (["k/a.cu.launch.toml"], ["k/a.cu"]),
        (["k/c.launch.toml"], ["k/c.ptx"]),
        (["k/gone.launch.toml"], []),
    ],
)
@pytest.mark.usefixtures("project")
def test_what_a_change_concerns(changed: list[str], kernels: list[str]) -> None:
    assert list(concerned(changed, ())) == kernels


@pytest.mark.usefixtures("project")
def test_a_change_that_concerns_no_kernel_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--changed", "k/gone.launch.toml"]) == 0
    assert "no kernel is concerned" in capsys.readouterr().err
