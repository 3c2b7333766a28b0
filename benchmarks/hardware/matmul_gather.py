"""Many launches of products of random shapes on one Hopper GPU, for the model of their time: not proved.

    python benchmarks/hardware/matmul_gather.py --seed N --out FILE [--arms 20] [--seconds 200] [--deep]

The shapes of a seed (``matmul_random.shapes``): the first 190, and of those behind them 40 of 128 rows or
fewer, 60 others of 512 rows or columns or fewer, and 30 of more than 10^11 operations. With ``--deep``: 150
of few rows or columns and long K, most of them with a factor that is stored across K. Two thirds of a
shape's arms are what the model ranks first (with ``--deep`` a third), the others the best of each family of
tiles. Kernels are
compiled, compared with cuBLAS over a poisoned output and timed, in an experiment that asks for no proof: what
a call runs is proved at the call. Seconds of one GPU give ten times as many launches so as
``matmul_random.py``, which waits for proofs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.hardware import matmul_random  # noqa: E402
from benchmarks.hardware.matmul_random import SMS, Shape, measure  # noqa: E402
from syncverify.gate.matmul import CompiledMatmul  # noqa: E402
from syncverify.matmul import Schedule, product  # noqa: E402
from syncverify.matmul.choose import ranked  # noqa: E402

#: Shapes: plain ones, of few rows, of few rows or columns, large ones; how many are drawn. Seconds that a
#: shape waits for kernels, and after how many shapes the file is written again.
PLAIN, FEW, THIN, LARGE, DRAWN, PATIENCE, WRITTEN = 190, 40, 60, 30, 4000, 15.0, 40
#: Shapes of few rows and long K: how many, their most rows, least K, and products of all three.
DEEP, MOST_ROWS, LEAST_K, LARGEST = 150, 576, 3000, 1.2e11
#: Milliseconds of a graph, and replays that count: fewer than where single times are reported.
GRAPH_MILLISECONDS, REPLAYS = 1.5, 4


def shapes(seed: int) -> list[Shape]:
    """Plain shapes, with those of few rows or columns and large ones in between."""
    every = matmul_random.shapes(seed, DRAWN)
    rest = every[PLAIN:]
    few = [s for s in rest if s[0] <= 128][:FEW]
    thin = [s for s in rest if s[0] > 128 and min(s[:2]) <= 512][:THIN]
    large = [s for s in rest if 2 * s[0] * s[1] * s[2] > 1e11][:LARGE]
    return [s for n in range(PLAIN) for some in (every[:PLAIN], few, thin, large) for s in some[n : n + 1]]


def deep(seed: int) -> list[Shape]:
    """Shapes of few rows, or of few columns, and of long K; two thirds are multiples of 64."""
    g = random.Random(seed)

    def drawn(low: int, high: int) -> int:
        return int(2 ** g.uniform(math.log2(low), math.log2(high)))

    found: list[Shape] = []
    while len(found) < DEEP:
        few, n, k = drawn(16, MOST_ROWS), drawn(256, 16384), drawn(LEAST_K, 16384)
        if g.random() < 2 / 3:
            few, n, k = (-(-few // 64) * 64 if few > 64 else few), -(-n // 64) * 64, -(-k // 64) * 64
        layout = g.choice(["KN", "MK", "MN", "KN", "MK", "KK"])
        m, n = (few, n) if g.random() < 0.8 else (n, few)
        m, n, k = (-(-x // 8) * 8 for x in (m, n, k))
        if 4e8 <= m * n * k <= LARGEST:
            found.append((m, n, k, layout))
    return found


def arms(shape: Shape, count: int, front: int | None = None) -> list[Schedule]:
    """The front of the ranking, then the best of each family."""
    m, n, k, layout = shape
    order = ranked(product(layout=layout), {"M": m, "N": n, "K": k}, SMS)
    families: dict[tuple[Any, ...], Schedule] = {}
    for s in order:
        kind = (s.tile_m, s.consumers, s.resident, s.by_columns, s.split_k > 1, s.cluster)
        families.setdefault(kind, s)
    best = sorted(families.values(), key=order.index)
    return list(dict.fromkeys([*order[: count * 2 // 3 if front is None else front], *best, *order]))[:count]


@dataclass(frozen=True)
class Unproved:
    """A product that runs without its proof."""

    matmul: CompiledMatmul

    @property
    def schedule(self) -> Schedule:
        return self.matmul.schedule

    def __call__(self, a: Any, b: Any, out: Any) -> Any:
        return self.matmul(a, b, out=out, proved=False)


def made(shape: Shape, s: Schedule) -> CompiledMatmul:
    return CompiledMatmul(product(layout=shape[3]), s, each_launch=True)


def prepared(job: tuple[Shape, int] | tuple[Shape, int, int | None]) -> list[Schedule]:
    """In a process of the pool: ranks the menu of a shape and puts the code of its arms into the cache; those
    that have code."""
    shape, *counts = job
    found = []
    for s in arms(shape, *counts):
        with contextlib.suppress(Exception):  # one kernel's trouble is no other's
            _ = made(shape, s).program(2 if shape[1] % 2 == 0 and not s.by_columns else 1).code
            found.append(s)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--arms", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--deep", action="store_true", help="few rows and long K alone")
    o = parser.parse_args()
    import torch  # type: ignore[import-not-found, unused-ignore]

    matmul_random.MILLISECONDS, matmul_random.REPLAYS = GRAPH_MILLISECONDS, REPLAYS
    begun = time.monotonic()
    jobs, front = (deep(o.seed), o.arms // 3) if o.deep else (shapes(o.seed), None)
    pool = multiprocessing.get_context("spawn").Pool(max(1, (os.cpu_count() or 2) - 1))
    waiting = [pool.apply_async(prepared, ((s, o.arms, front),)) for s in jobs]
    rows: list[dict[str, Any]] = []
    record = {"card": torch.cuda.get_device_name(0), "seed": o.seed, "proved": False, "rows": rows}
    kept: dict[tuple[str, Schedule], Unproved] = {}
    for shape, found in zip(jobs, waiting, strict=True):
        left = o.seconds - (time.monotonic() - begun)
        if left < 1:
            break
        try:
            some = found.get(min(left, PATIENCE))
        except multiprocessing.TimeoutError:
            continue
        kernels: list[Any] = [kept.setdefault((shape[3], x), Unproved(made(shape, x))) for x in some]
        rows.append(measure(torch, shape, kernels))
        if len(rows) % WRITTEN == 0:
            o.out.write_text(json.dumps(record) + "\n")
    o.out.write_text(json.dumps(record) + "\n")
    launches, wrong = sum(len(r["us"]) for r in rows), sum(len(r.get("wrong", ())) for r in rows)
    took = time.monotonic() - begun
    print(f"{len(rows)} of {len(jobs)} shapes, {launches} launches, {wrong} wrong, {took:.0f} s")
    pool.terminate()


if __name__ == "__main__":
    main()
