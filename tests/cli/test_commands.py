"""``explain``, ``replay``, ``compile`` and ``run``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from syncverify.base.rules import RULES
from syncverify.cli.main import run

EXAMPLES = Path(__file__).parents[2] / "syncverify" / "examples" / "rules"
MUL = "syncverify.examples.fusions:mul"


# ---------------------------------------------------------------- explain


@pytest.mark.parametrize("rule", RULES)
def test_explain_says_what_why_and_fix(rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", rule]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{rule} {RULES[rule].name}\n")
    headings = [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    with_example = not rule.startswith("SV9")
    assert headings == ["What:", "Why:", *(["Bad:", "Good:"] if with_example else []), "Fix:"]


def test_explain_a_contested_point(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "k1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("K1 generic read, then a bulk write")
    assert "Policy strict:\n    proxy fence" in out


def test_explain_unknown_rule_suggests(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "missing-proxy-fense"]) == 2
    assert "did you mean SV101 missing-proxy-fence?" in capsys.readouterr().err


# ---------------------------------------------------------------- replay


@pytest.fixture
def checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, Path]:
    """A refuted kernel in a file of its own, and its witness."""
    source = tmp_path / "ring.syncir"
    source.write_text((EXAMPLES / "SV210.bad.syncir").read_text("utf-8"))
    assert run(["check", "--no-advice", str(source), "--witness-dir", str(tmp_path)]) == 1
    capsys.readouterr()
    return source, tmp_path / "ring.json"


def test_replay_reproduces_the_claim(checked: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(checked[1])]) == 0
    steps = capsys.readouterr().out.splitlines()
    assert "hang reproduced" in steps[-1]
    assert run(["replay", "--quiet", str(checked[1])]) == 0
    assert capsys.readouterr().out.splitlines() == steps[-1:]


def test_replay_denies_a_false_claim(checked: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    witness = checked[1]
    data = json.loads(witness.read_text("utf-8"))
    witness.write_text(json.dumps({**data, "claim": "stale-value", "blocked": []}))
    assert run(["replay", str(witness)]) == 1
    assert "NOT reproduced" in capsys.readouterr().out


def test_replay_refuses_a_changed_kernel(
    checked: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source, witness = checked
    moved = source.with_name("moved.syncir")
    source.rename(moved)
    assert run(["replay", str(witness)]) == 2
    assert "cannot read" in capsys.readouterr().err
    assert run(["replay", str(witness), "--kernel-file", str(moved)]) == 0
    moved.write_text(moved.read_text("utf-8") + "\n")
    assert run(["replay", str(witness), "--kernel-file", str(moved)]) == 2
    assert "has changed since the witness was written" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"schema_version": 1, "claim": "hang"}', "\x00"])
def test_replay_of_junk_is_one_error(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    junk = tmp_path / "junk.json"
    junk.write_text(content)
    assert run(["replay", str(junk)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {junk}: ")
    assert err.count("\n") == 1


# ---------------------------------------------------------------- compile and run


def test_compile_emits_each_form(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["compile", MUL, "--emit", "ir"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"kernel mul {")
    assert run(["compile", MUL]) == 0
    assert b"__global__" in capfdbinary.readouterr().out
    assert run(["compile", MUL, "--emit", "ptx"]) == 0
    assert b".target sm_90a" in capfdbinary.readouterr().out
    cubin = tmp_path / "mul.cubin"
    assert run(["compile", MUL, "--emit", "cubin", "-o", str(cubin)]) == 0
    assert cubin.read_bytes().startswith(b"\x7fELF")


def test_compiled_ir_is_proved_by_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ir = tmp_path / "mul.syncir"
    assert run(["compile", MUL, "--emit", "ir", "--set", "stages=3", "-o", str(ir)]) == 0
    assert run(["check", "--no-advice", str(ir)]) == 0


def test_run_equals_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", MUL, "--set", "R=3", "--set", "C=500", "--set", "tile=512"]) == 0
    assert "R = 3, C = 500" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["no_colon"], "write MODULE:FUSION"),
        (["no.such.module:f"], "cannot import no.such.module: ModuleNotFoundError"),
        (["syncverify.examples.fusions:mull"], "has no fusion 'mull' (it has: scale, mul"),
        ([MUL, "--set", "stages"], "unknown setting 'stages'"),
        ([MUL, "--set", "stages=many"], "cannot use 'many'"),
        ([MUL, "--set", "stages=65"], "stages must be 1 to 64"),
        ([MUL, "--print-after", "nothing"], "no such pass"),
    ],
)
def test_bad_compile_is_one_error(args: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", *args]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "Traceback" not in err


def test_fusion_is_found_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_fusions_here.py").write_text(
        "from syncverify.fusion import Tensor, fusion\n"
        '@fusion(a=Tensor("f32", ("N",)))\n'
        "def double(a):\n    return a * 2.0\n"
    )
    (tmp_path / "my_broken_module.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    assert run(["compile", "my_fusions_here:double", "--emit", "ir"]) == 0
    assert capsys.readouterr().out.startswith("kernel double {")
    assert run(["compile", "my_broken_module:f"]) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["compile", "--emit", "ir"], ["run"]])
def test_a_proof_that_takes_too_long(
    command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    given = [MUL, "--set", "stages=2", "--proof-seconds", "1e-9"]
    assert run([*command, *given]) == 3
    said = capsys.readouterr()
    assert "no proof within 1e-09 seconds of processor time (proof_seconds)" in said.err and not said.out
    assert run([*command, *given[:-1], "0"]) == 2
    assert "0.0 is not in the range x>0" in capsys.readouterr().err


# ---------------------------------------------------------------- modules and sizes of users


FUSION = """from syncverify.fusion import Tensor, fusion, softmax


@fusion(x=Tensor("f32", ("R", "C")))
def norm(x):
    half = x * 0.5
    return {}
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('half.sum("Q")', "mine.py:7: fusion norm: a reduction along Q of an expression"),
        ("softmax(half, 'Q')", "mine.py:7: fusion norm: "),
        ("half if half > 0 else x", "mine.py:7: fusion norm: a fusion cannot branch on a tensor's value"),
        ("half @ x", "mine.py:7: fusion norm: matrix products are no part of a fusion"),
        ("half // x", "mine.py:7: cannot import mine: TypeError: unsupported operand"),
        ("half.foo()", "mine.py:7: cannot import mine: AttributeError: 'Value' object has no"),
        ("half * 10**400", "mine.py:7: fusion norm: mul: an integer that no float holds"),
        ("{1: half}", "mine.py:4: fusion norm: an output cannot be called 1"),
        ("(half", "mine.py:7: cannot import mine: SyntaxError: '(' was never closed"),
    ],
)
def test_what_is_wrong_in_a_module_has_a_line(
    body: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(FUSION.format(body))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    assert run(["run", "mine:norm"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("R=1000000000", "1000000000000 elements, of a trial run at most"),
        ("Q=5", "--set Q=5: neither a size (R, C) nor a field of the schedule"),
        ("R=-3", "a size is a positive integer"),
    ],
)
def test_sizes_nobody_can_run(setting: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", MUL, "--set", setting]) == 2
    assert said in capsys.readouterr().err


def test_a_dash_is_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        run(["check", "--no-advice", str(EXAMPLES / "SV210.good.syncir"), "--format", "json", "-o", "-"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["kernels"][0]["verdict"] == "proved"
    assert not list(tmp_path.iterdir())
