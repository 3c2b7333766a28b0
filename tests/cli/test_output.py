"""Where results go: streams closed or full, files nobody can write, Ctrl-C; nothing found is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from syncverify.cli import check as check_module
from syncverify.cli.main import run
from syncverify.driver import ir
from syncverify.ir.nodes import Kernel

EXAMPLES = Path(__file__).parents[2] / "syncverify" / "examples" / "rules"
BAD, GOOD = (str(EXAMPLES / f"SV210.{kind}.syncir") for kind in ("bad", "good"))
OTHER = str(EXAMPLES / "SV101.bad.syncir")


def _shell(redirected: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = f'"{sys.executable}" -m syncverify "$@" {redirected}'
    variables = {
        k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"
    }  # what is left goes out at exit
    return subprocess.run(
        ["bash", "-c", command, "bash", *args], capture_output=True, text=True, env=variables
    )


@pytest.mark.parametrize(
    ("redirected", "args", "status", "says"),
    [
        (
            "> /dev/full",
            ["check", "--no-advice", BAD],
            2,
            "error: cannot write to stdout: No space left on device\n",
        ),
        (">&-", ["check", "--no-advice", BAD], 2, "error: cannot write: stdout is closed\n"),
        ("2>&-", ["check", "missing.syncir"], 2, ""),
        ("2> /dev/full", ["check", "missing.syncir"], 2, ""),
        (
            "> /dev/null",
            ["check", "--no-advice", BAD, "-o", "/dev/full"],
            2,
            "error: /dev/full: cannot write: No space",
        ),
    ],
)
def test_streams_that_take_nothing(redirected: str, args: list[str], status: int, says: str) -> None:
    done = _shell(redirected, *args)
    assert done.returncode == status
    assert done.stderr.startswith(says)
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr


def test_a_report_that_no_file_takes_goes_to_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", "--no-advice", BAD, "--format", "json", "-o", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["kernels"][0]["verdict"] == "refuted"
    assert err == f"error: {tmp_path}: cannot write: Is a directory\n"


def test_the_report_survives_witnesses_nobody_can_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    args = ["check", "--no-advice", BAD, "--format", "json", "--witness-dir", str(tmp_path / "file")]
    assert run(args) == 2
    out, err = capsys.readouterr()
    (kernel,) = json.loads(out)["kernels"]
    assert (kernel["verdict"], kernel["witness"]) == ("refuted", None)
    assert "cannot write" in err


@pytest.mark.parametrize(
    "command", ["check -o", "check --certificate", "minimize -o", "minimize --write", "synthesize -o"]
)
def test_an_input_is_not_overwritten(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel, link = tmp_path / "k.syncir", tmp_path / "link.syncir"
    kernel.write_text(Path(GOOD).read_text("utf-8"))
    link.symlink_to(kernel)
    name, option = command.split()
    assert run([name, str(kernel), option, str(link)]) == 2
    assert "is an input" in capsys.readouterr().err
    assert kernel.read_text() == Path(GOOD).read_text("utf-8")


def test_two_outputs_are_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = tmp_path / "out"
    assert run(["check", GOOD, "-o", str(same), "--certificate", str(same)]) == 2
    assert "is the file of -o" in capsys.readouterr().err
    assert not same.exists()


def test_a_kernel_of_a_long_name_has_a_witness(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "ring" * 100
    kernel = tmp_path / "k.syncir"
    kernel.write_text(Path(BAD).read_text("utf-8").replace("kernel ring", f"kernel {name}"))
    assert (
        run(["check", "--no-advice", str(kernel), "--witness-dir", str(tmp_path / "w"), "--format", "json"])
        == 1
    )
    witness = json.loads(capsys.readouterr().out)["kernels"][0]["witness"]
    assert json.loads(Path(witness).read_text())["kernel"] == name


def test_ctrl_c_reports_what_was_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = ir.check_kernel

    def interrupted(kernel: Kernel, *more: object, **options: object) -> object:
        if kernel.span.file == GOOD:
            raise KeyboardInterrupt
        return real(kernel, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ir, "check_kernel", interrupted)
    assert run(["check", "--no-advice", BAD, GOOD, OTHER]) == 130
    out, err = capsys.readouterr()
    assert out.endswith("1 kernel: 1 refuted\n")
    assert err == "interrupted: 2 of 3 inputs looked at, 1 kernels checked\n"
    assert run(["check", "--no-advice", BAD, GOOD, OTHER, "--format", "json"]) == 130
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["verdict"] == "refuted"


@pytest.mark.parametrize("format_", ["text", *check_module.FORMATS])
def test_names_and_comments_of_any_bytes(
    format_: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / os.fsdecode(b"\xff\n\xe4.syncir")
    path.write_text("// \u03c4\u03ad\u03bb\u03bf\u03c2\n" + Path(BAD).read_text("utf-8"), "utf-8")
    assert run(["check", "--no-advice", str(path), "--format", format_, "-o", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == ""
    report = (tmp_path / "out").read_bytes().decode()
    if format_ in ("json", "sarif", "trace"):
        json.loads(report)
    if format_ == "junit":
        ET.fromstring(report)


def test_a_terminal_of_another_encoding_gets_a_report(tmp_path: Path) -> None:
    path = tmp_path / "k.syncir"
    text = Path(BAD).read_text("utf-8").replace("(i // 2) % 2\n", "(i // 2) % 2 // \u03c4\n")
    path.write_text(text, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "syncverify", "check", "--no-advice", str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1:strict"},
    )
    assert done.returncode == 1
    assert "\\u03c4" in done.stdout
    assert done.stderr == ""


# ---------------------------------------------------------------- input nobody can use, in each format


def test_every_format_tells_of_input_nobody_can_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.syncir"
    broken.write_text("kernel k {\n  frob\n}\n")

    def report(format_: str) -> str:
        assert run(["check", "--no-advice", str(broken), GOOD, "--format", format_]) == 2
        return capsys.readouterr().out

    assert report("text").endswith("1 kernel: 1 proved; 1 error\n")
    assert report("github").startswith(f"::error file={broken},line=2,")
    (run_,) = json.loads(report("sarif"))["runs"]
    assert not run_["invocations"][0]["executionSuccessful"]
    (note,) = run_["invocations"][0]["toolExecutionNotifications"]
    assert note["level"] == "error"
    assert note["locations"][0]["physicalLocation"]["region"]["startLine"] == 2
    root = ET.fromstring(report("junit"))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "0", "1")
    assert [c.get("name") for c in root.iter("testcase")] == ["input", "ring"]
    assert f"{broken}:2" in report("html")
