"""Every command on files nobody can use: one message that names the file, status 2, no traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from syncverify.cli.main import run

EXAMPLES = Path(__file__).parents[2] / "syncverify" / "examples" / "rules"
BAD, GOOD = (str(EXAMPLES / f"SV210.{kind}.syncir") for kind in ("bad", "good"))
TEXT = Path(BAD).read_text("utf-8")
PTX = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() .reqntid 32\n{\n\tret;\n}\n"
CUDA = "__global__ void k() {}\n"

COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "check": lambda f: ["check", f],
    "synthesize": lambda f: ["synthesize", f],
    "minimize": lambda f: ["minimize", f],
    "recheck": lambda f: ["recheck", f, GOOD],
    "replay": lambda f: ["replay", f],
    "launch": lambda f: ["check", GOOD, "--launch", f],
}

KERNELS = ("check", "synthesize", "minimize")
CONTENTS: dict[str, bytes] = {
    "empty.syncir": b"",
    "empty.ptx": b"",
    "empty.cu": b"",
    "blank.syncir": b" \n\t\n",
    "bytes.syncir": bytes(range(255, -1, -1)),
    "bytes.ptx": bytes(range(255, -1, -1)),
    "bytes.cu": bytes(range(255, -1, -1)),
    "zeros.syncir": b"\0" * 100,
    "zeros.ptx": b"\0" * 100,
    "utf16.syncir": TEXT.encode("utf-16"),
    "long_line.syncir": b"x" * 1_000_000,
    "long_line.ptx": b"x" * 1_000_000,
    "cut.syncir": TEXT.encode()[:300],
    "cut.ptx": PTX.encode()[:-3],
    "kernel.txt": TEXT.encode(),
    "kernel": TEXT.encode(),
    "KERNEL.SYNCIR": TEXT.encode(),
}
NO_JSON = {"empty": b"", "bytes": b"\xff\xfe", "deep": b"[" * 100_000, "number": b"7", "other": b'{"a": 1}'}
NO_TOML = {"word": b"word", "bytes": b"\xff", "deep": b"a = " + b"[" * 5000, "wrong": b"[kernels]"}
CASES = [
    *((c, name, data) for c in KERNELS for name, data in CONTENTS.items()),
    *((c, f"{name}.json", data) for c in ("recheck", "replay") for name, data in NO_JSON.items()),
    *(("launch", f"{name}.toml", data) for name, data in NO_TOML.items()),
]


def _one_message(args: list[str], path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {path}")
    assert err.count("error:") == 1
    assert "Traceback" not in err and "internal error" not in err
    assert len(err) < 500
    return err


@pytest.mark.parametrize(("command", "name", "data"), CASES, ids=[f"{c}-{n}" for c, n, _ in CASES])
def test_a_file_nobody_can_use(
    command: str, name: str, data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    _one_message(COMMANDS[command](str(path)), path, capsys)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_not_there(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing, directory, dangling = (tmp_path / f"{n}.syncir" for n in ("missing", "directory", "dangling"))
    directory.mkdir()
    dangling.symlink_to(tmp_path / "nowhere")
    for path in (missing, directory, dangling):
        said = _one_message(COMMANDS[command](str(path)), path, capsys)
        empty = command == "check" and path is directory  # a directory stands for the files in it
        assert ("no .syncir, .ptx, .cu file" if empty else "cannot read") in said


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("k.syncir", b"// one\n// caf\xe9\n" + TEXT.encode()),
        ("k.ptx", b"// one\n// caf\xe9\n" + PTX.encode()),
        ("k.cu", b"// one\n// caf\xe9\n" + CUDA.encode()),
    ],
)
def test_another_encoding_is_named_with_its_line(
    name: str, data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    err = _one_message(["check", str(path)], path, capsys)
    assert err == f"error: {path}:2: not UTF-8 text: byte 0xe9\n"


@pytest.mark.parametrize("command", ["synthesize", "recheck", "minimize"])
def test_commands_for_the_ir_refuse_cuda_without_compiling_it(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.cu"
    path.write_text("this would not compile")
    args = {"recheck": [GOOD, str(path)], "minimize": [str(path), "--write", "out.syncir"]}
    if command == "recheck":
        certificate = tmp_path / "c.json"
        assert run(["check", GOOD, "--certificate", str(certificate)]) == 0
        args["recheck"][0] = str(certificate)
        capsys.readouterr()
    err = _one_message([command, *args.get(command, [str(path)])], path, capsys)
    assert "files only" in err


# ---------------------------------------------------------------- the same text in another dress


def _finding(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The finding and its source lines, without the path."""
    assert run(["check", str(path)]) == 1
    return capsys.readouterr().out.replace(str(path), "FILE").split("\n\n")[0].splitlines()


@pytest.mark.parametrize(
    "dress",
    [
        lambda t: t.replace("\n", "\r\n"),
        lambda t: "\ufeff" + t,
        lambda t: "\ufeff" + t.replace("\n", "\r\n"),
    ],
    ids=["crlf", "bom", "both"],
)
def test_line_ends_and_byte_order_marks_change_no_line(
    dress: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, dressed = tmp_path / "plain.syncir", tmp_path / "dressed.syncir"
    plain.write_bytes(TEXT.encode())
    dressed.write_bytes(dress(TEXT).encode())
    assert _finding(dressed, capsys) == _finding(plain, capsys)


@pytest.mark.parametrize("space", ["\x0c", "\x85", "\u2028", "\r"])
def test_only_line_feeds_end_a_line(space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, odd = tmp_path / "plain.syncir", tmp_path / "odd.syncir"
    plain.write_bytes(f"// a b\n{TEXT}".encode())
    odd.write_bytes(f"// a{space}b\n{TEXT}".encode())
    assert _finding(odd, capsys) == _finding(plain, capsys)


@pytest.mark.parametrize(("name", "text"), [("k.ptx", PTX), ("k.cu", CUDA)])
@pytest.mark.parametrize("dress", ["\ufeff{}", "{}"])
def test_ptx_and_cuda_in_another_dress(
    name: str, text: str, dress: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(dress.format(text).replace("\n", "\r\n").encode())
    assert run(["check", str(path)]) in (0, 3)
    assert capsys.readouterr().err == ""
