"""Reports from the cache: the same as those that were put there, for the same question alone."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from syncverify.base.cache_dir import Store
from syncverify.base.reason import Cause, Reason
from syncverify.cli.main import run
from syncverify.driver.files import check_source, read_source
from syncverify.driver.reports import stored_reports
from syncverify.driver.reports.stored_reports import dumped, headers, restored

RULES = Path(__file__).resolve().parents[3] / "syncverify" / "examples" / "rules"
FILES = sorted(RULES.glob("SV[12]*.syncir"))[::6]
TEXT = "kernel {} {{\n  bar.sync 0\n}}\n"


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_reports_come_back_as_they_were(path: Path) -> None:
    reports = check_source(read_source(path))
    again = restored(dumped(reports, {"ring"}))
    assert again is not None
    assert list(again[0]) == reports
    assert again[1] == {"ring"}


def test_reasons_come_back_with_their_causes() -> None:
    (report,) = check_source(read_source(FILES[0]))

    undecided = replace(report, reason=Reason("too long", Cause.BUDGET))
    again = restored(dumped([undecided], ()))
    assert again is not None and isinstance(again[0][0].reason, Reason)
    assert again[0][0].reason.causes == {Cause.BUDGET}


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[1:], lambda b: b.replace(b"SV", b"XX"), lambda b: b""]
)
def test_a_damaged_entry_is_none(damage: object) -> None:
    whole = dumped(check_source(read_source(RULES / "SV210.bad.syncir")), ())
    assert restored(whole) is not None
    assert restored(damage(whole)) is None  # type: ignore[operator]


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Checks a file, and says whether its report came from the cache, and the report."""
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SYNCVERIFY_NO_CACHE")

    def checked(path: Path, *more: str) -> tuple[bool, str]:
        run(["check", str(path), "--format", "json", "--statistics", *more])
        out, err = capsys.readouterr()
        return ", 1 from the cache;" in err, out

    return checked


def test_a_second_check_is_read(cached, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "k.syncir"
    path.write_text(TEXT.format("a"))
    first, second = cached(path), cached(path)
    assert (first[0], second[0]) == (False, True)
    assert first[1] == second[1]
    assert not cached(path, "--no-cache")[0]


@pytest.mark.parametrize(
    "other", [["--policy", "strict"], ["--kernel", "a*"], ["--no-infer"], ["--no-advice"], ["--param", "N=3"]]
)
def test_another_question_has_another_answer(cached, tmp_path: Path, other: list[str]) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "k.syncir"
    path.write_text("kernel a {\n  param N : i32 = 2\n  bar.sync 0\n}\n")
    cached(path)
    assert not cached(path, *other)[0]
    assert cached(path)[0]


def test_the_text_and_the_launch_file_count(cached, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "k.syncir"
    path.write_text(TEXT.format("a"))
    cached(path)
    path.write_text(TEXT.format("a") + " ")
    assert not cached(path)[0]
    Path(f"{path}.launch.toml").write_text("[kernel.a]\nregisters = 64\n")
    assert not cached(path)[0]
    assert cached(path)[0]


def test_a_torn_entry_is_checked_again(cached, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "k.syncir"
    path.write_text(TEXT.format("a"))
    cached(path)
    (entry,) = (tmp_path / "cache" / "reports").iterdir()
    entry.write_bytes(entry.read_bytes()[:40])
    assert not cached(path)[0]
    assert cached(path)[0]


def test_what_a_guard_ended_is_not_kept(cached, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = RULES / "SV210.good.syncir"
    out = cached(path, "--timeout", "1e-6")[1]
    assert json.loads(out)["kernels"][0]["reason_kind"] == "timeout"
    assert not cached(path, "--timeout", "1e-6")[0]


def _write(args: tuple[str, int]) -> None:
    Store(Path(args[0])).write("entry", f"{args[1]}\n".encode() * 5000)


def test_writers_at_once_leave_a_whole_entry(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.map(_write, [(str(tmp_path), i) for i in range(30)])
    lines = (tmp_path / "entry").read_bytes().split()
    assert len(lines) == 5000 and len(set(lines)) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["entry"]


def test_headers_are_part_of_a_source(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "a.h").write_text('#include "b.h"\n#include <cuda.h>\n')
    (tmp_path / "include" / "b.h").write_text("int b;\n")
    source = b'#include "a.h"\n'
    first = headers(tmp_path / "k.cu", source, [str(tmp_path / "include")])
    assert first is not None and len(first) == 2
    (tmp_path / "include" / "b.h").write_text("int c;\n")
    assert headers(tmp_path / "k.cu", source, [str(tmp_path / "include")]) != first
    assert headers(tmp_path / "k.cu", b"#include WHICH\n", []) is None


def test_old_entries_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_reports, "MOST", 4)
    monkeypatch.setattr(stored_reports, "KEPT", 2)
    for i in range(5):
        (tmp_path / str(i)).write_text("x")
    stored_reports.pruned(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_an_entry_is_shown_without_what_a_check_needs(tmp_path: Path) -> None:
    code = (
        "import sys; from syncverify.cli.main import run; run(sys.argv[1:])\n"
        "slow = ('z3', 'lark', 'networkx', 'numpy', 'cuda', 'platformdirs', 'tomllib', 'traceback')\n"
        "own = ('checker', 'frontends.ptx', 'ir', 'symbolic', 'frontends.cuda.to_ptx', 'driver.files')\n"
        "some = (*slow, *('syncverify.' + name for name in own))\n"
        "print(sorted(m for m in some if m in sys.modules), file=sys.stderr)"
    )
    source = tmp_path / "k.cu"
    body = "__shared__ int s; if (threadIdx.x == 0) s = 1; __syncthreads(); if (s == 2) __nanosleep(1);"
    source.write_text(f'extern "C" __global__ void __launch_bounds__(64) k() {{ {body} }}\n', "utf-8")
    environment = {k: v for k, v in os.environ.items() if k != "SYNCVERIFY_NO_CACHE"}
    environment["SYNCVERIFY_CACHE"] = str(tmp_path / "cache")
    command = [sys.executable, "-c", code, "check", "--config", "none", str(source)]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert second.stdout == first.stdout and "proved" in first.stdout
    assert first.stderr.splitlines()[-1] != "[]"
    assert second.stderr.splitlines()[-1] == "[]"
