"""``--jobs``: the report of one after the other, in the order of the files, whatever becomes of a process."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from syncverify.cli import check as check_module
from syncverify.cli.jobs import side_by_side
from syncverify.cli.main import run

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "syncverify" / "examples" / "rules"
BAD, GOOD = (str(EXAMPLES / f"SV210.{kind}.syncir") for kind in ("bad", "good"))


def _slow_first(n: int) -> tuple[int, int]:
    time.sleep(0.2 if n == 0 else 0)
    return n, os.getpid()


def _dies(n: int) -> int:
    if n == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if n == 3:
        os._exit(7)
    return n


def _lost(n: int, code: int | None) -> int:
    return 100 * n + (code or 0)


def test_results_come_in_the_order_of_the_items() -> None:
    found = list(side_by_side(_slow_first, range(8), 3, lambda n, code: (n, 0)))
    assert [n for n, _ in found] == list(range(8))
    workers = {worker for _, worker in found}
    assert 2 <= len(workers) <= 3
    assert os.getpid() not in workers


def test_a_process_that_dies_takes_nothing_along() -> None:
    assert list(side_by_side(_dies, range(6), 2, _lost)) == [0, 100 - 9, 2, 307, 4, 5]


def test_fewer_items_than_jobs_and_none() -> None:
    assert [n for n, _ in side_by_side(_slow_first, [5], 4, lambda n, code: (n, 0))] == [5]
    assert list(side_by_side(_slow_first, [], 4, lambda n, code: (n, 0))) == []


FILES = [BAD, "missing.syncir", GOOD, str(EXAMPLES / "SV101.bad.syncir"), BAD]
PTX = sorted(str(p) for p in (ROOT / "corpus" / "ptx").glob("*.ptx"))[:6]


@pytest.mark.parametrize("format_", ["text", "json", "sarif"])
def test_the_report_is_the_same(format_: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for jobs in ("1", "3"):
        directory = tmp_path / "w"
        args = ["check", *FILES, *PTX, "--format", format_, "--witness-dir", str(directory), "-j", jobs]
        assert run(args) == 2
        out, err = capsys.readouterr()
        said.append((re.sub(r'\d+\.\d+ s\b|"seconds": .*', "", out), err, sorted(os.listdir(directory))))
    assert said[0] == said[1]
    assert "missing.syncir" in said[0][1]


def test_zero_is_one_for_each_processor(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", GOOD, GOOD, "--jobs", "0"]) == 0
    assert run(["check", GOOD, "--jobs", "-1"]) == 2
    assert "--jobs" in capsys.readouterr().err


def test_a_bug_or_a_death_is_told_with_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = check_module.check_source

    def broken(source: object, **options: object) -> object:
        match getattr(source, "path", ""):
            case path if path == BAD:
                raise RuntimeError("oops")
            case path if path.endswith("SV101.bad.syncir"):
                os.kill(os.getpid(), signal.SIGKILL)
        return real(source, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(check_module, "check_source", broken)
    assert run(["check", FILES[0], FILES[3], GOOD, "-j", "2"]) == 2
    out, err = capsys.readouterr()
    assert out.endswith("1 kernel: 1 proved; 2 errors\n")
    assert f"{BAD}: internal error, a bug in syncverify, not in your input: RuntimeError: oops" in err
    assert f"{FILES[3]}: the process that checked it was ended by signal 9" in err
