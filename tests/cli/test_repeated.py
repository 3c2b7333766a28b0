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


def test_a_folder_and_its_report_come_again_until_it_has_other_kernels(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    _aged(tmp_path / "all" / "k.syncir", KERNEL.format("ring"))
    asked = ("check", "all", "-o", "json:all/new/report.json")
    first = _run(tmp_path, *asked)
    report = tmp_path / "all" / "new" / "report.json"
    written = report.read_bytes()
    assert first[2] and b"ring" in written
    report.unlink()
    assert _run(tmp_path, *asked) == (*first[:2], False)
    assert report.read_bytes() == written
    _aged(tmp_path / "all" / "l.syncir", KERNEL.format("other"))
    more = _run(tmp_path, *asked)
    assert more[2] and b"other" in report.read_bytes()


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


def test_a_folder_is_its_kernel_files_and_folders(ask: Ask, tmp_path: Path) -> None:
    assert ask("check", "all") is None
    repeated.keep("proved\n", 0, [f"{tmp_path}/all/"])
    assert ask("check", "all") is not None
    (tmp_path / "all").mkdir()
    assert ask("check", "all") is None
    repeated.keep("proved\n", 0, [f"{tmp_path}/all/"])
    for name in ("notes.txt", ".hidden.ptx"):
        (tmp_path / "all" / name).write_text("")
    assert ask("check", "all") is not None
    (tmp_path / "all" / "k.ptx").write_text("")
    assert ask("check", "all") is None


def test_reports_are_written_again_or_the_run_is_made_again(ask: Ask, tmp_path: Path) -> None:
    ask("check", "a.ptx")
    one, other = tmp_path / "new" / "a.json", tmp_path / "b.html"
    repeated.keep("proved\n", 0, [], {str(one): b"{}\n\n", str(other): b"<p>"})
    assert ask("check", "a.ptx") == (b"proved\n", 0)
    assert (one.read_bytes(), other.read_bytes()) == (b"{}\n\n", b"<p>")
    other.unlink()
    other.mkdir()
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
