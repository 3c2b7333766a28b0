"""``syncverify check``: exit statuses, selection, launch values, formats, and input nobody can use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from syncverify.cli import check as check_module
from syncverify.cli import common
from syncverify.cli.main import run
from syncverify.driver import ir
from syncverify.ir.nodes import Kernel

EXAMPLES = Path(__file__).parents[2] / "syncverify" / "examples" / "rules"
BAD, GOOD = (str(EXAMPLES / f"SV210.{kind}.syncir") for kind in ("bad", "good"))

TWO_OF_PTX = """\
.version 8.0
.target sm_90a
.address_size 64
.entry a() { ret; }
.entry b() { ret; }
"""

UNDECIDED = """\
kernel undecided {
  launch grid [1] block [32]
  tensor a : i32[4] in
  let n = load a[0]
  for i in 0..n {
    bar.sync 0
  }
}
"""

SIZED = """\
kernel sized {
  launch grid [1] block [32]
  param N : i32
  assume N >= 1
  mbarrier done
  if tid == 0 {
    mbarrier.init done, 1
    for i in 0..N {
      mbarrier.arrive done
      mbarrier.wait done, i % 2
    }
  }
}
kernel other {
  launch grid [1] block [32]
  bar.sync 0
}
"""


@pytest.fixture
def sized(tmp_path: Path) -> Path:
    path = tmp_path / "sized.syncir"
    path.write_text(SIZED)
    return path


def _json(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    assert isinstance(kernels, list)
    return kernels


# ---------------------------------------------------------------- verdicts and exit statuses


@pytest.fixture
def undecided(tmp_path: Path) -> str:
    """A kernel whose control depends on data."""
    path = tmp_path / "undecided.syncir"
    path.write_text(UNDECIDED)
    return str(path)


def test_exit_status_is_the_worst_verdict(undecided: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--no-advice", GOOD]) == 0
    assert run(["check", "--no-advice", GOOD, BAD]) == 1
    assert run(["check", "--no-advice", GOOD, undecided]) == 3
    assert run(["check", "--no-advice", undecided, BAD]) == 1
    assert run(["check", "--no-advice", undecided, BAD, "missing.syncir"]) == 2


def test_unknown_maps_as_asked(undecided: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--no-advice", undecided, "--on-unknown", "pass"]) == 0
    assert run(["check", "--no-advice", undecided, "--on-unknown", "fail"]) == 1
    assert run(["check", "--no-advice", undecided, BAD, "--on-unknown", "pass"]) == 1


def test_a_broken_file_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.syncir"
    broken.write_text("kernel x {")
    assert run(["check", str(broken), GOOD, "--format", "json"]) == 2
    out, err = capsys.readouterr()
    assert [k["verdict"] for k in json.loads(out)["kernels"]] == ["proved"]
    assert err.startswith(f"error: {broken}:1:")
    assert "Traceback" not in err


# ---------------------------------------------------------------- values


def test_a_size_without_a_value_stands_for_every_one(sized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(sized), "--format", "json"]) == 0
    kernel, other = _json(capsys)
    assert kernel["verdict"] == "proved"
    assert kernel["scope"] == {"kind": "all", "values": {}, "assume": ["N >= 1"]}
    assert other["scope"] == {"kind": "all", "values": {}, "assume": []}


def test_values_come_from_option_then_launch_file(sized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch = sized.with_name("launch.toml")
    launch.write_text('[kernel."*"]\ngrid = [2]\n[kernel.sized.params]\nN = 3\n')
    command = ["check", str(sized), "--kernel", "sized", "--format", "json"]
    assert run([*command, "--launch", str(launch)]) == 0
    assert _json(capsys)[0]["scope"] == {"kind": "exact", "values": {"N": 3}, "assume": ["N >= 1"]}
    assert run([*command, "--launch", str(launch), "--param", "N=0x10"]) == 0
    assert _json(capsys)[0]["scope"] == {"kind": "exact", "values": {"N": 16}, "assume": ["N >= 1"]}


def test_launch_file_beside_the_input_is_read(sized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(f"{sized}.launch.toml").write_text("[kernel.sized.params]\n0 = {i32 = 2}\n")
    assert run(["check", str(sized), "--format", "json"]) == 0
    assert _json(capsys)[0]["scope"] == {"kind": "exact", "values": {"N": 2}, "assume": ["N >= 1"]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[kernel.sized]\nregister = 8\n", "did you mean 'registers'?"),
        ("[kernels.sized]\n", "did you mean 'kernel'?"),
        ("[kernel.sized.params]\nM = 8\n", "no parameter 'M'"),
        ("[kernel.sized.params]\n4 = 8\n", "no parameter number 4"),
        ('[kernel.sized.params]\nN = "8"\n', "give an integer"),
        ("[kernel.sized.params]\nN = {f32 = 8}\n", "is an integer"),
        ("[kernel.sized.params]\nN = 1\n0 = 1\n", "given twice"),
        ("[kernel.sized]\ngrid = [0]\n", "not positive"),
        ("[kernel.sized]\ngrid = [1, 1, 1, 1]\n", "one to three sizes"),
        ("[kernel.sized]\nblock = [64]\n", "is written for [32, 1, 1]"),
        ("[kernel.sized]\ndynamic_smem = 64\n", "follows from its buffers"),
        ('[kernel.sized]\nassume = ["N > 1"]\n', "write it in the kernel"),
        ("[kernel]\nsized = 3\n", "must be a table"),
        ("[kernel.nosuch]\ngrid = [1]\n", "names no kernel"),
        ("[kernel.sized.params]\nN = 0\n", "break `assume N >= 1`: N = 0"),
        ("[kernel.sized.params]\nN = 3000000000\n", "does not fit its type i32"),
        ("not toml", "not a TOML file"),
    ],
)
def test_bad_launch_facts_are_one_error(
    sized: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = sized.with_name("launch.toml")
    launch.write_text(text)
    params = [] if "params" in text else ["--param", "N=1"]
    assert run(["check", str(sized), "--kernel", "sized", "--launch", str(launch), *params]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("error:") == 1


@pytest.mark.parametrize("param", ["N", "N=", "=3", "N=three", "N=1.5", "M=1"])
def test_bad_param_is_an_error(sized: Path, param: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(sized), "--kernel", "sized", "--param", param]) == 2
    assert capsys.readouterr().err.startswith("error: ")


# ---------------------------------------------------------------- selection


def test_kernel_selects_by_name_or_pattern(sized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(sized), "--kernel", "oth*", "--format", "json"]) == 0
    assert [k["name"] for k in _json(capsys)] == ["other"]
    assert run(["check", str(sized), GOOD, "--kernel", "other", "--format", "json"]) == 0
    assert [k["name"] for k in _json(capsys)] == ["other"]


def test_kernel_that_matches_nothing_is_an_error(sized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(sized), "--kernel", "nosuch"]) == 2
    assert "no kernel matches --kernel nosuch (found: other, sized)" in capsys.readouterr().err


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.syncir", b"", "kernel"),
        ("comment.syncir", b"// nothing\n", "kernel"),
        ("junk.syncir", bytes(range(256)), "not UTF-8"),
        ("nul.syncir", b"kernel \x00 {}", "error:"),
        ("cut.syncir", SIZED[:150].encode(), "error:"),
        ("type.syncir", b"kernel k {\n  param N : f99\n}\n", ":2:"),
        ("deep.syncir", b"kernel k {\n" + b"if 1 {\n" * 5000 + b"}\n" * 5001, "error:"),
        ("big.syncir", b"kernel k {\n  shared x : f32[100000]\n  bar.sync 0\n}\n", "2324"),
        ("kernel.ptx", b".version 9.0", "expected .target"),
        ("none.ptx", b".version 9.0\n.target sm_90a\n.address_size 64\n", "no kernel"),
        ("kernel.cu", b"\n__global__ x", ":2:"),
        ("cut.cu", b"__global__", "at the end of the file"),
        ("none.cu", b"int x;\n", "no kernel"),
        ("kernel", b"", "without a suffix"),
    ],
)
def test_unusable_file_is_one_error(
    tmp_path: Path, name: str, content: bytes, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert run(["check", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {path}")
    assert says in err
    assert err.count("error:") == 1
    assert "Traceback" not in err


def test_machine_formats_are_whole_even_without_a_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "missing.syncir", "--format", "json"]) == 2
    assert json.loads(capsys.readouterr().out) == {"schema_version": 1, "policy": "practical", "kernels": []}


def test_missing_file_and_directory_are_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(tmp_path / "no.syncir"), str(tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert sorted(line.split(": ")[2] for line in lines) == [
        "cannot read", "no .syncir, .ptx, .cu file in this directory",
    ]  # fmt: skip


def test_bug_in_the_tool_is_reported_as_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = ir.check_kernel

    def broken(kernel: Kernel, *more: object, **options: object) -> object:
        if kernel.span.file == BAD:
            raise RuntimeError("oops")
        return real(kernel, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ir, "check_kernel", broken)
    assert run(["check", "--no-advice", BAD, GOOD]) == 3
    out, err = capsys.readouterr()
    assert "internal fault, a bug in syncverify: please report it (RuntimeError: oops" in out
    assert "Traceback" not in out + err
    assert "2 kernels: 1 proved, 1 unknown" in out
    assert run(["check", "--no-advice", BAD, "--on-unknown", "pass"]) == 3  # no fault is let through


@pytest.mark.parametrize("args", [[], ["frob"], ["check"], ["check", GOOD, "--format", "xml"], ["explain"]])
def test_bad_usage_is_status_2(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(args) == 2
    out, err = capsys.readouterr()
    assert "Usage: syncverify" in out + err


# ---------------------------------------------------------------- output


@pytest.mark.parametrize("format_", ["text", *check_module.FORMATS])
def test_every_format_of_a_real_run(format_: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "sub" / "report"
    assert run(["check", BAD, "--format", format_, "-o", str(output)]) == 1
    assert capsys.readouterr().out == ""
    report = output.read_text("utf-8")
    assert "ring" in report
    if format_ != "trace":
        assert "SV210" in report


def test_unwritable_output_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", GOOD, "-o", str(tmp_path)]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_witnesses_of_one_name_do_not_collide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy.syncir"
    copy.write_text(Path(BAD).read_text("utf-8"))
    assert (
        run(
            ["check", "--no-advice", BAD, str(copy), "--format", "json", "--witness-dir", str(tmp_path / "w")]
        )
        == 1
    )
    paths = [str(k["witness"]) for k in _json(capsys)]
    assert [Path(p).name for p in paths] == ["ring.json", "ring-2.json"]
    assert [json.loads(Path(p).read_text("utf-8"))["file"] for p in paths] == [BAD, str(copy)]


def test_color_needs_a_terminal_and_obeys_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(common.sys.stdout, "isatty", lambda: True, raising=False)
    assert common.use_color(None)
    assert not common.use_color("report.txt")
    assert not common.use_color(None, "never")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not common.use_color(None)
    assert common.use_color("report.txt", "always")
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr(common.sys.stdout, "isatty", lambda: False, raising=False)
    assert not common.use_color(None)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert common.use_color(None)


def test_module_runs_and_survives_a_closed_pipe() -> None:
    command = f"{sys.executable} -m syncverify explain SV210 | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout == "SV210 deadlock\n"
    assert done.stderr == ""


def test_a_mistake_of_the_launch_file_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "two.ptx").write_text(TWO_OF_PTX)
    (tmp_path / "facts.toml").write_text('[kernel."*"]\ngrid = [0]\n')
    status = run(["check", str(tmp_path / "two.ptx"), "--launch", str(tmp_path / "facts.toml")])
    assert (status, capsys.readouterr().err.count("0 is not from 1")) == (2, 1)


@pytest.mark.parametrize(("when", "colored"), [("always", True), ("never", False), ("auto", False)])
def test_colour_reaches_what_is_no_terminal_only_when_asked(
    when: str,
    colored: bool,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    (path := tmp_path / "k.syncir").write_text("kernel k {\n  launch grid [1] block [32]\n}\n", "utf-8")
    assert run(["check", str(path), "--color", when]) == 0
    assert ("\x1b[" in capfd.readouterr().out) is colored
