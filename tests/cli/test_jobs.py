"""``--jobs``: the report of one after the other, in the order of the files, whatever becomes of a process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
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
PTX = [str(ROOT / "corpus" / "ptx" / f"generic_without_cvta.{kind}.ptx") for kind in ("bad", "good")]


@pytest.mark.parametrize(
    ("format_", "files"),
    [("text", FILES + PTX), ("json", FILES), pytest.param("sarif", FILES, marks=pytest.mark.slow)],
)
def test_the_report_is_the_same(
    format_: str,
    files: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = tmp_path / "w"
    command = ["check", *files, "--format", format_, "--witness-dir", str(directory), "--no-advice", "-j"]

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
from syncverify.cli.main import main
from syncverify.driver import ir

real = ir.check_kernel

def broken(kernel, *more, **options):
    if kernel.span.file.endswith("SV210.bad.syncir"):
        raise RuntimeError("oops")
    if kernel.name == "dies" or kernel.name == "once" and not os.path.exists(sys.argv[-1] + ".died"):
        open(sys.argv[-1] + ".died", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return real(kernel, *more, **options)

ir.check_kernel = broken
main()
"""
THREE = "kernel {} {{\n  bar.sync 0\n}}\n"


@pytest.mark.parametrize("jobs", ["0", "2"])
def test_a_fault_or_a_death_costs_its_kernel_alone(jobs: str, tmp_path: Path) -> None:
    if jobs == "0" and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("one processor: no other process")
    several = tmp_path / "several.syncir"
    several.write_text("".join(THREE.format(name) for name in ("a", "dies", "b")))
    once = tmp_path / "once.syncir"
    once.write_text(THREE.format("once"))
    done = _python(
        BROKEN, "check", BAD, str(several), "--no-advice", "-j", jobs, "--format", "json", str(once)
    )
    assert done.returncode == 3, done.stderr
    found = {k["name"]: (k["verdict"], k["reason_kind"]) for k in json.loads(done.stdout)["kernels"]}
    fault, proved = ("unknown", "internal-fault"), ("proved", None)
    assert found == {"ring": fault, "a": proved, "dies": fault, "b": proved, "once": proved}
    assert "was ended by signal 9" in done.stdout and "RuntimeError: oops" in done.stdout


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_sigterm_reports_what_was_done(jobs: str, tmp_path: Path) -> None:
    """The first input is done at once, the second never: the report has the first."""
    code = """
import sys, time
from syncverify.cli.main import main
from syncverify.cli.work import Run
from syncverify.driver import ir

real, add = ir.check_kernel, Run.add

def added(run, file):
    add(run, file)
    open(sys.argv[2] + ".added", "w").close()

def slow(kernel, *more, **options):
    if kernel.name == "slow":
        open(sys.argv[2] + ".begun", "w").close()
        time.sleep(600)
    return real(kernel, *more, **options)

ir.check_kernel, Run.add = slow, added
main()
"""
    first, second = tmp_path / "a.syncir", tmp_path / "b.syncir"
    first.write_text(THREE.format("quick"))
    second.write_text(THREE.format("slow"))
    process = subprocess.Popen(
        [sys.executable, "-c", code, "check", str(first), str(second), "--format", "json", "-j", jobs],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    reached = Path(f"{first}.begun"), Path(f"{first}.added")
    while not all(p.exists() for p in reached) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 143, err
    assert [k["name"] for k in json.loads(out)["kernels"]] == ["quick"]
    assert "interrupted" in err
