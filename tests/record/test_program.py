"""A program that is recorded runs as ``python`` runs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from syncverify.cli.main import run
from syncverify.record.cupti import brought
from syncverify.record.recording import run_program


def _program(tmp_path: Path, text: str) -> str:
    path = tmp_path / "program.py"
    path.write_text(f"import sys\n{text}\n")
    return str(path)


def test_it_has_its_arguments_and_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    text = "import beside\nprint(beside.NAME, sys.argv[1:], __name__)"
    before = list(sys.argv), list(sys.path)
    assert run_program(_program(tmp_path, text), ["-x", "1"], as_module=False) == 0
    assert capsys.readouterr().out == "beside ['-x', '1'] __main__\n"
    assert before == (sys.argv, sys.path)
    del sys.modules["beside"]


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(5)", 5, ""),
        ("sys.exit('no')", 1, "no\n"),
        ("raise ValueError('what')", 1, "ValueError: what\n"),
    ],
)
def test_its_status_is_passed_on(
    text: str, status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(_program(tmp_path, text), [], as_module=False) == status
    assert capsys.readouterr().err.endswith(said)


def test_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program("calendar", ["2026", "11"], as_module=True) == 0
    assert "November 2026" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert run(["record", "-o", str(tmp_path / "file"), "none.py"]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path}/file: cannot be written to: File exists\n"


def test_no_such_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["record", "-o", str(tmp_path), "none.py"]) == 2
    assert capsys.readouterr().err == "error: none.py: no such program\n"


def test_where_packages_bring_cupti(tmp_path: Path) -> None:
    names = ["nvidia/cu13/lib/libcupti.so.13", "triton/backends/nvidia/lib/cupti/libcupti.so.12"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"")
    assert list(brought([str(tmp_path / "none"), str(tmp_path)])) == [str(tmp_path / n) for n in names]


def test_without_a_driver(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", missing)
    assert run(["record", "-o", str(tmp_path), _program(tmp_path, "print('ran')")]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        "error: record needs a GPU: there is no CUDA driver (libcuda.so.1) here\n",
    )
