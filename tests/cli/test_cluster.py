"""Checks over a Dask cluster: results as on one machine, also when a worker is killed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from syncverify.cli.cluster import over_cluster
from syncverify.cli.main import run

KERNEL = "kernel k{0} {{\n  launch grid [1] block [64]\n  {1}\n}}\n"


def test_without_a_scheduler_the_message_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    pytest.importorskip("distributed")
    monkeypatch.setattr("syncverify.cli.cluster.SECONDS", 0.5)
    (path := tmp_path / "k.syncir").write_text(KERNEL.format(0, "bar.sync 0"), "utf-8")
    assert run(["check", str(path), "--no-cache", "--dask", "tcp://127.0.0.1:1"]) == 2
    assert "--dask tcp://127.0.0.1:1: no scheduler answers there" in capsys.readouterr().err


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as made:
        yield made


def _files(folder: Path, n: int) -> list[str]:
    folder.mkdir()
    for i in range(n):
        body = "bar.sync 0" if i % 3 else "if warp == 0 {\n    bar.sync 0\n  }"
        (folder / f"k{i:02}.syncir").write_text(KERNEL.format(i, body), "utf-8")
    return sorted(map(str, folder.iterdir()))


def _report(args: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]]]:
    status = run(["check", *args, "--format", "json"])
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    return status, [{k: v for k, v in kernel.items() if k != "seconds"} for kernel in kernels]


def test_results_are_those_of_one_machine(cluster: Any, tmp_path: Path, capsys: Any,
                                          monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SYNCVERIFY_NO_CACHE", raising=False)
    files = _files(tmp_path / "kernels", 9)
    here = _report([*files, "--no-cache"], capsys)
    address = cluster.scheduler_address
    assert _report([*files, "--dask", address], capsys) == here
    assert run(["check", *files, "--statistics", "-o", str(tmp_path / "out")]) == 1
    assert "9 from the cache" in capsys.readouterr().err  # what came over the network was kept


def _slow(item: int) -> tuple[int, int]:
    time.sleep(0.3)
    return item, os.getpid()


def test_the_work_of_a_worker_that_is_killed_is_done_by_another(cluster: Any) -> None:
    killed: list[int] = []

    def kill(pid: int) -> None:
        killed.append(pid)
        os.kill(pid, signal.SIGKILL)

    found: list[tuple[int, int]] = []
    results = over_cluster(_slow, range(16), cluster.scheduler_address, lambda item, code: (item, -1))
    for result in results:
        found.append(result)
        if len(found) == 2:
            thread = threading.Thread(target=kill, args=(result[1],))
            thread.start()
            thread.join()
    assert [item for item, _ in found] == list(range(16))
    assert killed and -1 not in [pid for _, pid in found]


def _deadly(item: int) -> int:
    if item == 1:
        os._exit(9)
    return item


def test_what_no_worker_survives_is_lost(cluster: Any) -> None:
    """What waited for the same workers may be lost with it; ``check`` does lost items again, one by one."""
    results = over_cluster(_deadly, range(4), cluster.scheduler_address, lambda item, code: -item)
    found = list(results)
    assert found[1] == -1
    assert [abs(item) for item in found] == [0, 1, 2, 3]
