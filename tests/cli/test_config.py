"""Configuration, inputs, selection and baselines of ``check``."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from syncverify.cli.main import run

RULES = Path(__file__).resolve().parents[2] / "syncverify" / "examples" / "rules"
BAD, GOOD = ((RULES / f"SV210.{kind}.syncir").read_text("utf-8") for kind in ("bad", "good"))
QUICK = "kernel quick {\n  bar.sync 0\n}\n"
PLAIN = "kernel plain {\n  let x = 1\n}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two kernels, to run in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels" / "more").mkdir(parents=True)
    (tmp_path / "kernels" / "quick.syncir").write_text(QUICK)
    (tmp_path / "kernels" / "more" / "plain.syncir").write_text(PLAIN)
    return tmp_path


def _names(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [k["name"] for k in json.loads(capsys.readouterr().out)["kernels"]]


# ---------------------------------------------------------------- inputs


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["kernels"], ["plain", "quick"]),
        (["kernels/*.syncir"], ["quick"]),
        (["kernels/**/*.syncir"], ["plain", "quick"]),
        (["kernels/quick.syncir", "kernels"], ["quick", "plain"]),
    ],
)
def test_directories_and_patterns(
    project: Path, given: list[str], names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", *given, "--format", "json"]) == 0
    assert _names(capsys) == names


def test_a_pattern_without_a_file_is_an_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "kernels/*.ptx", "kernels"]) == 2
    assert "no file matches this pattern" in capsys.readouterr().err


def test_standard_input(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ptx = b".version 8.0\n.target sm_90a\n.address_size 64\n"
    ptx += b".visible .entry k() .reqntid 32 { bar.sync 0; ret; }\n"
    for text, kind, name in ((BAD.encode(), "syncir", "ring"), (ptx, "ptx", "k")):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
        run(["check", "-", "--kind", kind, "--format", "json"])
        assert _names(capsys) == [name]
    cuda = b'extern "C" __global__ void told() { __shared__ int s; s = 1; __syncthreads(); }'
    for text, name in ((ptx, "k"), (cuda, "told")):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
        run(["check", "-", "--format", "json"])
        assert _names(capsys) == [name]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    assert run(["check", "-"]) == 2
    assert "--kind ptx" in capsys.readouterr().err


# ---------------------------------------------------------------- configuration


def test_defaults_come_from_pyproject(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '[tool.syncverify]\nfiles = ["kernels"]\nformat = "json"\npolicy = "strict"\n'
    (project / "pyproject.toml").write_text(text)
    assert run(["check"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["policy"], len(report["kernels"])) == ("strict", 2)
    assert run(["check", "kernels/quick.syncir", "--policy", "practical"]) == 0  # the command line wins
    report = json.loads(capsys.readouterr().out)
    assert (report["policy"], len(report["kernels"])) == ("practical", 1)
    assert run(["check", "--config", "none"]) == 2


def test_the_nearest_file_counts_and_paths_are_its_own(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text("[tool.other]\n")
    text = 'files = ["kernels/quick.syncir"]\noutput = ["json:report.json"]\n'
    (project / "syncverify.toml").write_text(text)
    (project / "src").mkdir()
    monkeypatch.chdir(project / "src")
    assert run(["check"]) == 0
    assert json.loads((project / "report.json").read_text())["kernels"][0]["name"] == "quick"
    assert "1 kernel: 1 proved" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('polcy = "strict"', "unknown key 'polcy': did you mean 'policy'?"),
        ("jobs = true", "jobs = True: give a number"),
        ("select = [1]", "select = [1]: give a list of strings"),
        ("files = ", "not a TOML file"),
    ],
)
def test_mistakes_in_the_file_are_errors(
    project: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "syncverify.toml").write_text(text)
    assert run(["check", "kernels"]) == 2
    error = capsys.readouterr().err
    assert "syncverify.toml: " in error and said in error


# ---------------------------------------------------------------- outputs


def test_one_run_writes_several_formats(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = ["-o", "json:out/r.json", "-o", "sarif:out/r.sarif", "-o", "junit:out/r.xml"]
    assert run(["check", "kernels", *outputs]) == 0
    assert "2 kernels: 2 proved" in capsys.readouterr().out
    assert len(json.loads((project / "out/r.json").read_text())["kernels"]) == 2
    assert json.loads((project / "out/r.sarif").read_text())["version"] == "2.1.0"
    assert (project / "out/r.xml").read_text().startswith("<?xml")
    assert run(["check", "kernels", "-o", "a", "-o", "b"]) == 2
    assert run(["check", "kernels", "-o", "json:same", "-o", "same"]) == 2


# ---------------------------------------------------------------- selection


def test_rules_are_selected_and_ignored(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*options: str) -> set[str]:
        run(["check", "kernels", "--format", "json", *options])
        kernels = json.loads(capsys.readouterr().out)["kernels"]
        return {d["rule"] for k in kernels for d in k["diagnostics"]}

    assert shown() == {"SV602", "SV905"} or shown() == {"SV905"}
    assert shown("--ignore", "SV905", "--ignore", "SV6") == set()
    assert shown("--ignore", "nothing-to-check,SV6") == set()
    assert shown("--select", "SV9") == {"SV905"}
    assert run(["check", "kernels", "--select", "SV99"]) == 2


def test_errors_are_never_hidden(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "bad.syncir").write_text(BAD)
    assert run(["check", "bad.syncir", "--ignore", "SV210", "--select", "SV101"]) == 1
    assert "error[SV210" in capsys.readouterr().out


def test_fail_on(project: Path) -> None:
    assert run(["check", "kernels/more", "--fail-on", "note"]) == 1
    assert run(["check", "kernels/more", "--fail-on", "warning"]) == 0


# ---------------------------------------------------------------- baselines


def test_no_baseline_of_a_run_with_errors(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "broken.syncir").write_text("kernel")
    (project / "base.json").write_text("kept")
    assert run(["check", "kernels", "broken.syncir", "--write-baseline", "base.json"]) == 2
    assert (project / "base.json").read_text() == "kept"
    assert "base.json is not written" in capsys.readouterr().err


def test_a_baseline_accepts_what_it_has(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = project / "bad.syncir"
    bad.write_text(BAD)
    assert run(["check", "bad.syncir", "--write-baseline", "base.json"]) == 0
    assert run(["check", "bad.syncir"]) == 1
    assert run(["check", "bad.syncir", "--baseline", "base.json"]) == 0
    bad.write_text("// a line above\n" + BAD)  # lines may move
    assert run(["check", "bad.syncir", "--baseline", "base.json"]) == 0
    (project / "other.syncir").write_text(BAD.replace("kernel ring", "kernel other"))
    assert run(["check", "bad.syncir", "other.syncir", "--baseline", "base.json"]) == 1
    capsys.readouterr()
    bad.write_text(GOOD)
    assert run(["check", "bad.syncir", "--baseline", "base.json"]) == 0
    assert "stale in base.json: bad.syncir: ring: SV210 is gone" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"version": 7, "findings": []}', '{"version": 1, "findings": [{}]}']
)
def test_a_file_that_is_no_baseline(project: Path, text: str) -> None:
    (project / "base.json").write_text(text)
    assert run(["check", "kernels", "--baseline", "base.json"]) == 2


def test_a_mistyped_format_is_no_file_name(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "ring.syncir", "--output", "sarf:found.sarif"]) == 2
    assert "did you mean 'sarif'?" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_costs_no_other(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", "ring.syncir", "--output", "sarif:.", "--output", "json:found.json"]) == 2
    assert "cannot write" in capsys.readouterr().err
    assert Path("found.json").exists()


def test_a_folder_that_may_not_be_entered_is_an_error_of_its_input(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def closed(self: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", closed)
    assert run(["check", "closed/ring.syncir"]) == 2
    assert "closed/ring.syncir: cannot read: Permission denied" in capsys.readouterr().err
