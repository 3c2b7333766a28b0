"""Ping-pong with tiles of whole laps of the ring beside tiles that begin anywhere, and beside cuBLAS (H200).

python benchmarks/hardware/pingpong_laps.py --out FILE   needs torch and a GPU; every launch is proved
        before it runs
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from syncverify.gate.matmul import CompiledMatmul
from syncverify.matmul import Schedule, product
from syncverify.matmul.choose import candidates

SHAPES = (
    (16384, 16384, 256), (16384, 16384, 512), (8192, 8192, 256), (8192, 8192, 512), (4096, 4096, 1024),
    (4096, 4096, 4096), (8192, 8192, 2048), (4816, 5008, 5672), (3072, 3072, 64), (3072, 3072, 200),
)  # fmt: skip
COOPERATIVE = Schedule(128, 256, registers=(40, 232), persistent=True, store="tma")
ROUNDS, LAUNCHES = 7, 10


def schedules(m: int, n: int, k: int) -> dict[str, Schedule]:
    """The ping-pong of the menu, the same with tiles that begin anywhere, and a cooperative one."""
    of_menu = next(s for s in candidates(product(), {"M": m, "N": n, "K": k}, 132) if s.pingpong)
    return {
        "whole laps": of_menu,
        "whole laps, 2 stages": replace(of_menu, stages=2, laps=_laps(k, 2)),
        "anywhere": replace(of_menu, laps="any"),
        "anywhere, 4 stages": replace(of_menu, laps="any", stages=4),
        "cooperative": COOPERATIVE,
    }


def _laps(k: int, stages: int) -> Any:
    return "odd" if -(-k // (64 * stages)) % 2 else "even"


def measured(m: int, n: int, k: int) -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
    want, runs = a @ b.T, {"cublas": lambda: torch.matmul(a, b.T, out=want)}
    row: dict[str, Any] = {"sizes": [m, n, k], "schedules": {}, "deviates": {}}
    for name, schedule in schedules(m, n, k).items():
        kernel = CompiledMatmul(product(), schedule, each_launch=True)
        out = torch.full_like(want, float("nan"))
        kernel(a, b.T, out=out)
        torch.cuda.synchronize()
        row["deviates"][name] = float((out - want).abs().max() / want.abs().max())
        row["schedules"][name] = schedule.title
        runs[name] = lambda kernel=kernel, out=out: kernel(a, b.T, out=out)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            run()
            begin.record()
            for _ in range(LAUNCHES):
                run()
            end.record()
            torch.cuda.synchronize()
            times[name].append(begin.elapsed_time(end) * 1e3 / LAUNCHES)
    row["us"] = {name: round(median(found), 2) for name, found in times.items()}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out, rows = parser.parse_args().out, []
    for shape in SHAPES:
        rows.append(measured(*shape))
        print(json.dumps(rows[-1]), flush=True)
        out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
