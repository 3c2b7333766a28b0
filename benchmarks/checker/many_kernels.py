"""Many kernels: one run, two jobs, an interrupt and a resume, a Dask cluster with a worker killed. All alike?

    python benchmarks/checker/many_kernels.py [--count 1000] [--no-dask]

Kernels are small rings with other sizes, counts and parities, a third of them wrong. Every way of running
must give the same reports in the same order, but for seconds; the figures are wall seconds. The second run of
the same files is answered by the cache. Dask is left out where ``distributed`` is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

RING = """kernel ring_{i} {{
  launch grid [1] block [64]
  shared tile : f32[{stages}, 32]
  mbarrier full[{stages}]
  mbarrier empty[{stages}]
  if tid == 0 {{
    for s in 0..{stages} {{
      mbarrier.init full[s], 32
      mbarrier.init empty[s], {count}
    }}
  }}
  bar.sync 0
  if warp == 0 {{
    for i in 0..{turns} {{
      mbarrier.wait empty[i % {stages}], (i // {stages} + 1) % 2
      st.shared tile[i % {stages}][lane : 1], i
      mbarrier.arrive full[i % {stages}]
    }}
  }} else {{
    for i in 0..{turns} {{
      mbarrier.wait full[i % {stages}], (i // {stages} + {parity}) % 2
      ld.shared x, tile[i % {stages}][31 - lane : 1]
      mbarrier.arrive empty[i % {stages}]
    }}
  }}
}}
"""


def write(folder: Path, count: int) -> list[str]:
    """The files, each with one kernel."""
    for i in range(count):
        wrong = i % 3 == 0
        text = RING.format(
            i=i,
            turns=4 + i % 7,
            stages=1 + i % 4,
            count=33 if wrong and i % 2 else 32,
            parity=1 if wrong and not i % 2 else 0,
        )
        (folder / f"ring_{i:04}.syncir").write_text(text, "utf-8")
    return sorted(str(p) for p in folder.iterdir())


def command(files: Path, out: Path, *more: str) -> list[str]:
    """The command that checks all files of a folder into a report."""
    outputs = ["-o", f"json:{out}", "-o", os.devnull]
    return [sys.executable, "-m", "syncverify", "check", str(files), *outputs, *more]


def run(variables: dict[str, str], files: Path, out: Path, *more: str) -> tuple[float, list[dict[str, Any]]]:
    """The wall seconds of a run, and its reports without theirs."""
    start = time.perf_counter()
    subprocess.run(command(files, out, *more), env=variables, cwd=ROOT, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start, read(out)


def read(out: Path) -> list[dict[str, Any]]:
    """The reports of a run, without seconds."""
    kernels = json.loads(out.read_text("utf-8"))["kernels"]
    return [{key: value for key, value in k.items() if key != "seconds"} for k in kernels]


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--no-dask", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        (files := root / "kernels").mkdir()
        write(files, args.count)

        def cached(name: str) -> dict[str, str]:
            return {**os.environ, "SYNCVERIFY_CACHE": str(root / name), "PYTHONPATH": str(ROOT)}

        seconds, alone = run(cached("a"), files, root / "alone.json")
        print(f"{len(alone)} kernels: {dict(Counter(k['verdict'] for k in alone))}")
        print(f"one process          {seconds:7.1f} s")
        seconds, found = run(cached("b"), files, root / "two.json", "-j", "2")
        print(f"-j 2                 {seconds:7.1f} s  the same: {found == alone}")
        seconds, found = run(cached("b"), files, root / "again.json", "-j", "2")
        print(f"again, from the cache{seconds:7.1f} s  the same: {found == alone}")
        child = subprocess.Popen(
            command(files, root / "cut.json", "-j", "2"), env=cached("c"), cwd=ROOT, stderr=subprocess.DEVNULL
        )
        while not list((root / "c").rglob("*")) and child.poll() is None:
            time.sleep(0.1)
        time.sleep(2 * seconds)
        child.send_signal(signal.SIGINT)
        status = child.wait()
        cut = read(root / "cut.json")
        prefix = cut == alone[: len(cut)]
        print(f"interrupted          status {status}, {len(cut)} kernels, as a prefix: {prefix}")
        seconds, found = run(cached("c"), files, root / "resumed.json", "-j", "2")
        print(f"resumed              {seconds:7.1f} s  the same: {found == alone}")
        if not args.no_dask and find_spec("distributed") is not None:
            seconds, same = over_dask(cached("d"), files, root / "dask.json", alone)
            print(f"Dask, a worker killed{seconds:7.1f} s  the same: {same}")


def over_dask(
    variables: dict[str, str], files: Path, out: Path, alone: list[dict[str, Any]]
) -> tuple[float, bool]:
    """The same on a local cluster of two workers, of which one is killed after two seconds."""
    import distributed

    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        start = time.perf_counter()
        child = subprocess.Popen(
            command(files, out, "--dask", cluster.scheduler_address), env=variables, cwd=ROOT
        )
        time.sleep(4)
        worker = next(iter(cluster.workers.values()))
        os.kill(worker.process.pid, signal.SIGKILL)
        child.wait()
        return time.perf_counter() - start, read(out) == alone


if __name__ == "__main__":
    main()
