"""The same command line on the same files: printed from its entry, and only then."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from syncverify.cli import repeated
from syncverify.cli.repeated import VARIABLES

ROOT = Path(__file__).parents[2]
KERNEL = "kernel {} {{\n  bar.sync 0\n}}\n"
#: Parts of the tool that a check does not run.
OTHERS = (
    "torch",
    "gate",
    "tune",
    "record",
    "watch",
    "codegen",
    "cli/record.py",
    "cli/watch.py",
    "cli/main.py",
)


def _run(folder: Path, *args: str) -> tuple[str, int, bool]:
    """What a command prints in a process of its own, its status, and whether it loaded the command."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('whole', file=sys.stderr))\n"
        "from syncverify.cli.entry import main\nmain()"
    )
    environment = {k: v for k, v in os.environ.items() if k != "SYNCVERIFY_NO_CACHE"}
    environment |= {"SYNCVERIFY_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *args]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    return done.stdout, done.returncode, "whole" in done.stderr


def _aged(path: Path, text: str) -> None:
    """Writes a file, and comes back when it is old enough to have been read by a process that begins now."""
    path.write_text(text, "utf-8")
    time.sleep(0.03)


def test_a_run_is_printed_again_until_something_that_it_read_changes(tmp_path: Path) -> None:
    _aged(tmp_path / "k.syncir", KERNEL.format("ring"))
    first = _run(tmp_path, "check", "k.syncir")
    assert first[2] and first[1] == 0 and "ring" in first[0]
    assert _run(tmp_path, "check", "k.syncir") == (*first[:2], False)
    _aged(tmp_path / "syncverify.toml", 'policy = "strict"\n')
    configured = _run(tmp_path, "check", "k.syncir")
    assert configured[2] and "strict" in configured[0]


def test_a_run_that_writes_files_is_run_again(tmp_path: Path) -> None:
    _aged(tmp_path / "k.syncir", KERNEL.format("ring"))
    for _ in range(2):
        assert _run(tmp_path, "check", "k.syncir", "-o", "json:report.json")[2]
        (tmp_path / "report.json").unlink()


Ask = Callable[..., tuple[bytes, int] | None]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Asks for a command line as a new process would."""
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SYNCVERIFY_NO_CACHE")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "utf-8"))
    monkeypatch.setattr(repeated, "_NOW", [])
    return lambda *args: repeated.begun(list(args))


def test_what_is_kept_depends_on_every_file(ask: Ask, tmp_path: Path) -> None:
    _aged(tmp_path / "a.ptx", "a")
    files = [str(tmp_path / "a.ptx"), str(tmp_path / "a.ptx.launch.toml"), str(tmp_path)]
    assert ask("check", "a.ptx") is None
    repeated.keep("proved é\n\nend\n", 3, files)
    assert ask("check", "a.ptx") == ("proved é\n\nend\n".encode(), 3)
    assert ask("check", "b.ptx") is None
    with pytest.MonkeyPatch.context() as other:
        other.setenv("NO_COLOR", "1")
        assert ask("check", "a.ptx") is None
    assert ask("replay", "a.ptx") is None
    (tmp_path / "a.ptx.launch.toml").write_text("")
    assert ask("check", "a.ptx") is None
    (tmp_path / "a.ptx.launch.toml").unlink()
    assert ask("check", "a.ptx") is not None
    (tmp_path / "a.ptx").write_text("b")
    assert ask("check", "a.ptx") is None


def test_a_file_that_changes_during_the_run_keeps_nothing(ask: Ask, tmp_path: Path) -> None:
    assert ask("check", "a.ptx") is None
    (tmp_path / "a.ptx").write_text("a")
    repeated.keep("proved\n", 0, [str(tmp_path / "a.ptx")])
    assert ask("check", "a.ptx") is None


def test_a_damaged_entry_is_none(ask: Ask, tmp_path: Path) -> None:
    ask("check", "a.ptx")
    repeated.keep("proved\n", 0, [])
    (entry,) = (tmp_path / "cache" / repeated.FOLDER).iterdir()
    whole = entry.read_bytes()
    for damaged in (whole[:-1], whole.replace(b"proved", b"broken"), b"", b"\n"):
        entry.write_bytes(damaged)
        assert ask("check", "a.ptx") is None
    entry.write_bytes(whole)
    assert ask("check", "a.ptx") == (b"proved\n", 0)


def test_every_variable_that_a_check_reads_is_one_that_decides() -> None:
    read = re.compile(r"""environ(?:\.get\(|\.setdefault\(|\[)\s*"(\w+)""")
    package = ROOT / "syncverify"
    found = {
        name
        for path in package.rglob("*.py")
        if not path.relative_to(package).as_posix().startswith(OTHERS)
        for name in read.findall(path.read_text("utf-8"))
    }
    assert {"NO_COLOR", "COLUMNS"} <= found  # they are found
    assert found - {"SYNCVERIFY_CACHE", "XDG_CACHE_HOME"} <= set(VARIABLES)
