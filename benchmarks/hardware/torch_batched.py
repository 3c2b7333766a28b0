"""Batched products of random shapes: ``backend="syncverify"`` beside Inductor, on a Hopper GPU.

    python benchmarks/hardware/torch_batched.py --seed N --out FILE [--count 12] [--processes 3]

Shapes and layouts are those that matmul_batched.py draws from a seed. One function multiplies all pairs, and
doubles what is positive of every second result. Each process compiles it with what those before it left in
caches, which are empty at first. In the end it waits for proofs that were late, and the next process shows
what becomes of them. FILE gets a line of each process: seconds of the first call by either arm, medians of
microseconds by events of the GPU, largest errors of both against float64, and what was found of each product.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE)]

#: Seconds that are waited for late proofs.
PATIENCE = 30.0
ARMS = ("inductor", "syncverify")


def factors(shape: tuple[int, int, int, int, str]) -> tuple[Any, Any]:
    import torch

    b, m, n, k, layout = shape
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def drawn(rows: int, columns: int, turned: bool) -> Any:
        x = torch.randn(b, *((columns, rows) if turned else (rows, columns)), device=device).bfloat16()
        return x.mT if turned else x

    return drawn(m, k, layout[0] == "M"), drawn(k, n, layout[1] == "K")


def function(*given: Any) -> list[Any]:
    pairs = zip(given[::2], given[1::2], strict=True)
    return [x @ y if k % 2 == 0 else (x @ y).relu() * 2 for k, (x, y) in enumerate(pairs)]


def error(got: list[Any], given: list[Any]) -> float:
    """The largest of all results, relative to each, by two matrices of each product."""
    import torch

    wanted = function(*(x[[0, -1]].double() for x in given))
    errors = [(g[[0, -1]].double() - w).norm() / w.norm() for g, w in zip(got, wanted, strict=True)]
    return float(torch.stack(errors).max())


def child(o: argparse.Namespace) -> None:
    import torch
    from matmul_batched import shapes
    from torch_whole_models import REPORTS, collect, timed

    from syncverify.gate.ahead import provers

    collect()
    torch.manual_seed(o.seed)
    drawn = shapes(o.seed, o.count)
    given = [x for shape in drawn for x in factors(shape)]
    row: dict[str, Any] = {"process": o.child, "shapes": drawn, "torch": torch.__version__}
    made: dict[str, Any] = {}
    for arm in ARMS:
        began = time.perf_counter()
        made[arm] = torch.compile(function, backend=arm)
        got = made[arm](*given)
        row[arm] = {"first_s": time.perf_counter() - began, "error": error(got, given)}
        del got
    late = [one for report in REPORTS for one in report.late]
    row["late"] = len(late)
    row["regions"] = [
        [r.name, dict(r.sizes), r.refused or "; ".join(r.notes)]
        for report in REPORTS
        for r in (*report.regions, *report.refused)
    ]
    row["kernels"] = sum(len(report.regions) for report in REPORTS)
    if torch.cuda.is_available():
        row["gpu"] = torch.cuda.get_device_name()
        for _ in range(2):
            for arm in ARMS:
                row[arm].setdefault("us", []).append(1e3 * timed(lambda arm=arm: made[arm](*given)))
        row["ratio"] = min(row["inductor"]["us"]) / min(row["syncverify"]["us"])
    row["proved_later"] = sum(provers().wait(late, PATIENCE))
    with open(o.out, "a") as rows:
        rows.write(json.dumps(row, default=str) + "\n")
    print({k: v for k, v in row.items() if k not in ("shapes", "regions")}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.child is not None:
        child(o)
        return
    caches = {"SYNCVERIFY_CACHE": "own", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
    own = {name: str(o.out.with_suffix("") / folder) for name, folder in caches.items()}
    same = [f"--{k}={getattr(o, k)}" for k in ("seed", "out", "count")]
    for k in range(o.processes):
        command = [sys.executable, __file__, f"--child={k}", *same]
        subprocess.run(command, env={**os.environ, **own}, check=False)


if __name__ == "__main__":
    main()
