"""certify, recheck, replay and compile give what their commands give: the same output, and the same errors.

Exit status 2 of a command is an InputError of the function, 1 of ``recheck`` a RejectedError.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.base.source import InputError
from syncverify.cli.main import run
from syncverify.examples import fusions
from syncverify.fusion.plan import with_settings
from syncverify.report.witness import dumps as witness_text

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "syncverify" / "examples" / "rules"
PTX = ROOT / "corpus" / "ptx"
#: Kernels of IR and PTX, with and without a launch file, right and wrong, each checked in a moment.
INPUTS = [
    *(RULES / f"{rule}.{half}.syncir" for rule in ("SV101", "SV210", "SV304") for half in ("bad", "good")),
    *sorted((ROOT / "corpus" / "theory").glob("*.syncir"))[:8],
    *(PTX / f"{name}.good.ptx" for name in ("one_value_of_two_warps", "value_of_the_turn")),
    *sorted(PTX.glob("*.ptx"), key=lambda p: (p.stat().st_size, p.name))[:6],
]
#: What the front end knows from addresses alone cannot be stepped through.
KNOWN_FROM_ADDRESSES = {"generic_without_cvta.bad.ptx"}
CAPTURED = pytest.CaptureFixture[str]


def command(capsys: CAPTURED, *given: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command."""
    status = run([str(x) for x in given])
    out, err = capsys.readouterr()
    return int(status), out, err


def error_of(call: Callable[..., Any], *given: Any, **named: Any) -> Exception:
    with pytest.raises((InputError, syncverify.RejectedError)) as raised:
        call(*given, **named)
    return raised.value


def digest(certificate: str) -> object:
    """A certificate without the times of its search."""
    return {k: v for k, v in json.loads(certificate).items() if k != "seconds"}


@pytest.fixture(scope="module")
def reports() -> dict[Path, list[KernelReport]]:
    """Each input is checked once."""
    return {path: syncverify.check(path, advice=False) for path in INPUTS}


def test_there_are_twenty_inputs_and_more_of_all_kinds(reports: dict[Path, list[KernelReport]]) -> None:
    assert len(set(INPUTS)) == len(INPUTS) >= 20
    verdicts = [r.verdict for found in reports.values() for r in found]
    assert {Verdict.PROVED, Verdict.REFUTED} <= set(verdicts)
    assert any(Path(f"{p}.launch.toml").is_file() for p in INPUTS)


@pytest.mark.parametrize("path", INPUTS, ids=lambda p: p.name)
def test_certificates_and_witnesses(
    path: Path, reports: dict[Path, list[KernelReport]], tmp_path: Path, capsys: CAPTURED
) -> None:
    """What the command writes for a file is what the functions return, and both take it back."""
    found = reports[path]
    proof, witnesses = tmp_path / "proof.json", tmp_path / "witnesses"
    status, _, said = command(capsys, "check", path, "--certificate", proof, "--witness-dir", witnesses)
    if any(r.verdict is Verdict.PROVED for r in found):
        text = syncverify.certify(path, reports=found)
        assert digest(text) == digest(proof.read_text("utf-8"))
        done = syncverify.recheck(proof, path)
        status, out, _ = command(capsys, "recheck", proof, path)
        assert status == (0 if all(r.judged for r in done) else 3)
        assert [line.split(":")[0] for line in out.splitlines() if ": holds" in line] == [
            r.kernel for r in done
        ]
    else:
        assert not proof.exists() and "no kernel is proved" in said
        assert "no kernel is proved" in str(error_of(syncverify.certify, path, reports=found))
    for report in found:
        if report.witness is not None:
            (written,) = witnesses.glob(f"{report.name}.json")
            assert json.loads(written.read_text("utf-8")) == json.loads(witness_text(report.witness))
            if path.name in KNOWN_FROM_ADDRESSES:
                status, _, said = command(capsys, "replay", written, "--quiet")
                assert status == 2 and str(error_of(syncverify.replay, written)) in said
                continue
            result = syncverify.replay(written)
            status, out, _ = command(capsys, "replay", written, "--quiet")
            assert status == (0 if result.reproduced else 1)
            assert out.rstrip().endswith(result.reason)


@pytest.fixture
def bad(tmp_path: Path) -> dict[str, Path]:
    """Inputs that nobody can use."""
    ptx = PTX / "host_constant.good.ptx"
    found = {"missing": tmp_path / "missing.syncir"}

    def written(name: str, file: str, text: str) -> None:
        found[name] = tmp_path / file
        found[name].write_text(text, "utf-8")

    written("no kernel", "empty.syncir", "")
    written("syntax", "syntax.syncir", "kernel k {\n  bar.sink 0\n}\n")
    written("suffix", "kernel.txt", "kernel k {\n  bar.sync 0\n}\n")
    (tmp_path / "bytes.ptx").write_bytes(b"\xff\xfe\x00\x01")
    found["bytes"] = tmp_path / "bytes.ptx"
    for name, facts in {
        "unknown field": "gird = [1]",
        "contradictory facts": 'grid = ["n"]\nblock = [64]\nassume = ["n > 4", "n < 3"]',
        "kind of a field": "params = 3",
        "no TOML": "grid = [",
    }.items():
        found[name] = tmp_path / f"{name}.ptx"
        shutil.copy(ptx, found[name])
        Path(f"{found[name]}.launch.toml").write_text(f"[kernel.host_constant]\n{facts}\n", "utf-8")
    return found


BAD = (
    "missing", "no kernel", "syntax", "suffix", "bytes", "unknown field", "contradictory facts",
    "kind of a field", "no TOML",
)  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_the_same_error(
    name: str, bad: dict[str, Path], tmp_path: Path, capsys: CAPTURED
) -> None:
    assert set(bad) == set(BAD)
    path, proof = bad[name], tmp_path / "proof.json"
    status, _, said = command(capsys, "check", path, "--certificate", proof)
    assert status == 2 and not proof.exists()
    for function in (syncverify.check, syncverify.certify):
        error = error_of(function, path)
        assert isinstance(error, InputError)
        assert f"error: {error}" in said


@pytest.mark.parametrize("what", ["certificate", "witness"])
@pytest.mark.parametrize("name", ["missing", "folder", "bytes", "no JSON", "another format"])
def test_bad_proofs_are_the_same_error(
    what: str, name: str, bad: dict[str, Path], tmp_path: Path, capsys: CAPTURED
) -> None:
    given = bad.get(name, tmp_path)
    if name in ("no JSON", "another format"):
        given = tmp_path / "proof.json"
        given.write_text("[" if name == "no JSON" else '{"format": "a song"}', "utf-8")
    good = RULES / "SV210.good.syncir"
    if what == "certificate":
        status, _, said = command(capsys, "recheck", given, good)
        error = error_of(syncverify.recheck, given, good)
    else:
        status, _, said = command(capsys, "replay", given, "--kernel-file", good)
        error = error_of(syncverify.replay, given, good)
    assert status == 2 and isinstance(error, InputError)
    assert said == f"error: {error}\n"


def test_a_certificate_of_another_text_is_rejected(tmp_path: Path, capsys: CAPTURED) -> None:
    proof = tmp_path / "proof.json"
    proof.write_text(syncverify.certify(RULES / "SV101.good.syncir"), "utf-8")
    status, said, _ = command(capsys, "recheck", proof, RULES / "SV101.bad.syncir")
    error = error_of(syncverify.recheck, proof, RULES / "SV101.bad.syncir")
    assert status == 1 and isinstance(error, syncverify.RejectedError)
    assert said == f"rejected: {proof}: {error}\n"


def test_cuda_has_no_certificate(tmp_path: Path, capsys: CAPTURED) -> None:
    cuda, proof = tmp_path / "k.cu", tmp_path / "proof.json"
    cuda.write_text('extern "C" __global__ void k() { __syncthreads(); }\n', "utf-8")
    proof.write_text(syncverify.certify("kernel k {\n  bar.sync 0\n}\n"), "utf-8")
    status, _, said = command(capsys, "recheck", proof, cuda)
    error = error_of(syncverify.recheck, proof, cuda)
    assert (status, said) == (2, f"error: {error}\n")
    assert str(error_of(syncverify.certify, cuda)) == str(error)


def test_a_folder_is_all_its_files(tmp_path: Path, capsys: CAPTURED) -> None:
    inside = tmp_path / "deep" / "er"
    inside.mkdir(parents=True)
    for path in (RULES / "SV101.bad.syncir", PTX / "host_constant.good.ptx"):
        shutil.copy(path, inside if path.suffix == ".ptx" else tmp_path)
    (tmp_path / ".hidden.syncir").write_text("no kernel", "utf-8")
    status, out, _ = command(capsys, "check", tmp_path, "--format", "json")
    found = syncverify.check(tmp_path, advice=False)
    said = json.loads(out)["kernels"]
    assert [(k["file"], k["verdict"]) for k in said] == [(r.file, str(r.verdict)) for r in found]
    assert (status, len(found)) == (1, 2)
    empty = tmp_path / "empty"
    empty.mkdir()
    status, _, err = command(capsys, "check", empty)
    assert (status, err) == (2, f"error: {error_of(syncverify.check, empty)}\n")


@pytest.mark.parametrize("name", ["mul", "bias_relu"])
def test_compile_is_the_command(name: str, capsys: CAPTURED) -> None:
    """The same CUDA, by the same schedule, with the same proofs."""
    fusion = getattr(fusions, name)
    status, out, proofs = command(capsys, "compile", f"syncverify.examples.fusions:{name}")
    kernel = syncverify.compile(fusion)
    assert (status, out.rstrip()) == (0, kernel.source.rstrip())
    assert (kernel.report.verdict, kernel.ptx_report.verdict) == (Verdict.PROVED, Verdict.PROVED)
    assert proofs.count("proved for every size") == 2


def test_a_schedule_that_does_not_fit_is_the_same_error(capsys: CAPTURED) -> None:
    fusion = fusions.mul
    wrong = "stages=1000"
    status, out, said = command(capsys, "compile", "syncverify.examples.fusions:mul", "--set", wrong)
    error = error_of(lambda: syncverify.compile(fusion, with_settings(fusion, (wrong,))))
    assert (status, out, said) == (2, "", f"error: {error}\n")
