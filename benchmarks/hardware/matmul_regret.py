"""Where a product is slow: the choice, or the menu? Times much of the menu at fresh seeds' worst shapes.

    python benchmarks/hardware/matmul_regret.py --fresh FILE --out FILE [--worst 10] [--arms 30] \
        [--shapes 512x2560x9536KN,...] [--seconds 120]

``--fresh``: what ``matmul_fresh.py`` wrote. Of each of its worst shapes, and of those that are named, so many
schedules are timed beside cuBLAS: the first of the ranking, then the best of each family of tiles. They
are compared with cuBLAS's results and not proved. Regret: the time of the chosen schedule by that of the
fastest one. What cuBLAS's kernel is called says how it shares tiles.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.hardware.matmul_gather import Unproved, made, prepared  # noqa: E402
from benchmarks.hardware.matmul_random import Shape, measure, tensors  # noqa: E402


def worst_of(record: dict[str, Any], count: int) -> list[Shape]:
    """The worst shapes of all seeds of a record; none of the table."""
    seeds = [rows for name, rows in record.items() if name.startswith("seed")]
    rows = [r for each in seeds for r in each if "ratio" in r]
    return [tuple(r["shape"]) for r in sorted(rows, key=lambda r: r["ratio"])[:count]]


def named(text: str) -> Shape:
    """A shape, written as 512x2560x9536KN."""
    found = re.fullmatch(r"(\d+)x(\d+)x(\d+)([KM][KN])", text)
    if found is None:
        raise SystemExit(f"{text}: write a shape as 512x2560x9536KN")
    m, n, k, layout = found.groups()
    return int(m), int(n), int(k), layout


def kernels_of_cublas(torch: Any, shape: Shape) -> list[str]:
    """The names of what torch.mm launches."""
    a, b, c = tensors(torch, shape)
    torch.mm(a[0], b[0], out=c[0])
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
        torch.mm(a[0], b[0], out=c[0])
        torch.cuda.synchronize()
    return [e.key[:100] for e in p.key_averages() if e.self_device_time_total]


def told(row: dict[str, Any]) -> str:
    """One line of a shape: cuBLAS by the chosen schedule and by the fastest, and the regret."""
    us, cublas = row["us"], row["cublas"]
    order = sorted(us, key=us.__getitem__)
    first, best = row["first"], order[0]
    chosen = us.get(first)
    text = f"{row['shape']} cuBLAS {cublas} us {row['kernels']}: "
    if chosen is not None:
        text += f"chosen {first} {cublas / chosen:.3f}, regret {chosen / us[best]:.3f}, "
    return text + "fastest " + ", ".join(f"{t} {cublas / us[t]:.3f}" for t in order[:6])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--fresh", type=Path, action="append", default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--worst", type=int, default=10)
    parser.add_argument("--arms", type=int, default=30)
    parser.add_argument("--shapes", default="")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) - 1))
    o = parser.parse_args()
    import torch  # type: ignore[import-not-found, unused-ignore]

    if not torch.cuda.is_available():
        print("no GPU: nothing is measured")
        return
    begun = time.monotonic()
    shapes = [named(text) for text in filter(None, o.shapes.split(","))]
    shapes += [s for file in o.fresh for s in worst_of(json.loads(file.read_text()), o.worst)]
    pool = multiprocessing.get_context("spawn").Pool(o.jobs)
    waiting = [(s, pool.apply_async(prepared, ((s, o.arms),))) for s in dict.fromkeys(shapes)]
    rows: list[dict[str, Any]] = []
    for shape, job in waiting:
        left = o.seconds - (time.monotonic() - begun)
        if left < 1:
            print("time is over", flush=True)
            break
        try:
            some = job.get(left)
            row = measure(torch, shape, [Unproved(made(shape, s)) for s in some])  # type: ignore[misc]
        except Exception as e:  # the next shape is measured
            print(shape, repr(e)[:200], flush=True)
            continue
        rows.append({**row, "first": some[0].title, "kernels": kernels_of_cublas(torch, shape)})
        print(told(rows[-1]), flush=True)
        o.out.write_text(json.dumps({"card": torch.cuda.get_device_name(0), "rows": rows}) + "\n")
    pool.terminate()


if __name__ == "__main__":
    main()
