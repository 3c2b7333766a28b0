"""``--jobs``: the report of one after the other, in the order of the files, whatever becomes of a process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from syncverify.cli.main import run

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "syncverify" / "examples" / "rules"
BAD, GOOD = (str(EXAMPLES / f"SV210.{kind}.syncir") for kind in ("bad", "good"))

WORK = """
import os, signal, time
from syncverify.cli.jobs import side_by_side

def slow_first(n):
    time.sleep(0.3 if n == 0 else 0.01)
    return n, os.getpid()

def dies(n):
    if n == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if n == 3:
        os._exit(7)
    return n

def lost(n, code):
    return 100 * n + code
"""


def _python(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Runs code that forks in a process without threads, which that of a test need not be."""
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, cwd=ROOT)


def _printed(code: str) -> str:
    done = _python(WORK + code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_results_come_in_the_order_of_the_items() -> None:
    code = """
found = list(side_by_side(slow_first, range(8), 3, lost))
workers = {worker for _, worker in found}
print([n for n, _ in found], len(workers), os.getpid() in workers)
"""
    assert _printed(code) == "[0, 1, 2, 3, 4, 5, 6, 7] 3 False"


def test_a_process_that_dies_takes_nothing_along() -> None:
    assert _printed("print(list(side_by_side(dies, range(6), 2, lost)))") == "[0, 91, 2, 307, 4, 5]"


def test_fewer_items_than_jobs_and_none() -> None:
    code = "print([[n for n, _ in side_by_side(slow_first, x, 4, lost)] for x in ([5], [])])"
    assert _printed(code) == "[[5], []]"


FILES = [BAD, "missing.syncir", GOOD, str(EXAMPLES / "SV101.bad.syncir"), BAD]
PTX = sorted(str(p) for p in (ROOT / "corpus" / "ptx").glob("*.ptx"))[:2]


@pytest.mark.parametrize("format_", ["text", "json", "sarif"])
def test_the_report_is_the_same(
    format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "w"
    command = ["check", *FILES, *PTX, "--format", format_, "--witness-dir", str(directory), "-j"]

    def told(status: int, out: str, err: str) -> tuple[str, str, list[str]]:
        assert status == 2
        return re.sub(r'\d+\.\d+ s\b|"seconds": .*', "", out), err, sorted(os.listdir(directory))

    monkeypatch.chdir(ROOT)
    status = run([*command, "1"])
    said = [told(status, *capsys.readouterr())]
    done = subprocess.run(
        [sys.executable, "-m", "syncverify", *command, "3"], capture_output=True, text=True, cwd=ROOT
    )
    said.append(told(done.returncode, done.stdout, done.stderr))
    assert said[0] == said[1]
    assert "missing.syncir" in said[0][1]


def test_a_negative_number_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", GOOD, "--jobs", "-1"]) == 2
    assert "--jobs" in capsys.readouterr().err


BROKEN = """
import os, signal, sys
from syncverify.cli import check as module
from syncverify.cli.main import main

real = module.check_source

def broken(source, **options):
    if source.path.endswith("SV210.bad.syncir"):
        raise RuntimeError("oops")
    if source.path.endswith("SV101.bad.syncir"):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(source, **options)

module.check_source = broken
main()
"""


@pytest.mark.parametrize("jobs", ["0", "2"])
def test_a_bug_or_a_death_is_told_with_its_file(jobs: str) -> None:
    if jobs == "0" and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("one processor: no other process")
    done = _python(BROKEN, "check", BAD, FILES[3], GOOD, "-j", jobs)
    assert done.returncode == 2
    assert done.stdout.endswith("1 kernel: 1 proved; 2 errors\n")
    assert f"{BAD}: internal error, a bug in syncverify, not in your input: RuntimeError: oops" in done.stderr
    assert f"{FILES[3]}: the process that checked it was ended by signal 9" in done.stderr
