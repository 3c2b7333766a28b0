"""Launch facts that contradict each other: an error (2) in every command, with the lines of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.cli.main import run

PTX = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u32 m) .reqntid 32 {
  .reg .pred %p<2>; .reg .b32 %r<4>;
  ld.param.u32 %r0, [n];
  mov.u32 %r1, 0;
L: setp.ge.u32 %p0, %r1, %r0;
  @%p0 bra E;
  bar.sync 0;
  add.u32 %r1, %r1, 1;
  bra L;
E: ret;
}
"""
HEAD = '[kernel."*"]\ngrid = [1]\n'
PARAMS = '[kernel."*".params]\n0 = {u32 = "n"}\n1 = {u32 = "m"}\n'


def _kernel(tmp_path: Path, facts: str) -> str:
    path = tmp_path / "k.ptx"
    path.write_text(PTX)
    Path(f"{path}.launch.toml").write_text(facts)
    return str(path)


@pytest.mark.parametrize(
    ("assume", "lines"),
    [
        (
            'assume = [\n  "m >= 1",\n  "n > 4",\n  "n < 3",\n]\n',
            ("line 5: assume n > 4", "line 6: assume n < 3"),
        ),
        ('assume = ["n < 0"]\n', ("line 3: assume n < 0", "0 <= n <= 4294967295 (parameter 0, u32)")),
        ('assume = ["n > m", "m > n"]\n', ("line 3: assume n > m", "line 3: assume m > n")),
    ],
)
def test_check_names_the_lines(
    tmp_path: Path, assume: str, lines: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    path = _kernel(tmp_path, HEAD + assume + PARAMS)
    assert run(["check", path]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert f"{path}.launch.toml:" in said.err
    for line in lines:
        assert line in said.err


def test_a_grid_that_no_cluster_divides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = '[kernel.k]\ngrid = ["g"]\ncluster = [2]\nassume = ["g % 4 == 1"]\n'
    assert run(["check", _kernel(tmp_path, facts)]) == 2
    said = capsys.readouterr().err
    assert "k.ptx.launch.toml:4:" in said
    assert "g % 2 == 0 (whole clusters)" in said


def test_values_given_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _kernel(tmp_path, HEAD + 'assume = ["n > m", "m >= 5"]\n' + PARAMS)
    assert run(["check", path, "--param", "n=7"]) == 0
    assert run(["check", path, "--param", "n=5"]) == 2
    assert "n = 5 (given for this check)" in capsys.readouterr().err


def test_recheck_does_not_hold_what_no_launch_meets(tmp_path: Path) -> None:
    path = _kernel(tmp_path, HEAD + 'assume = ["n > 4"]\n' + PARAMS)
    proof = str(tmp_path / "proof.json")
    assert run(["check", path, "--certificate", proof]) == 0
    assert run(["recheck", proof, path]) == 0
    _kernel(tmp_path, HEAD + 'assume = ["n > 4", "n < 3"]\n' + PARAMS)
    assert run(["recheck", proof, path]) == 2


def test_a_kernel_of_the_ir(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.syncir"
    path.write_text("kernel k {\n  param n : i32\n  assume n > 4\n  assume n < 3\n  bar.sync 0\n}\n")
    assert run(["check", str(path)]) == 2
    said = capsys.readouterr().err
    assert "k.syncir:3:" in said
    assert "line 4: assume n < 3" in said
