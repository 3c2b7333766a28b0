"""Products of fresh seeds beside cuBLAS on a Hopper GPU: the default path and nothing tuned.

    python benchmarks/hardware/matmul_fresh.py --seeds N,M --out FILE [--count 80] [--table] [--seconds 280]

Each shape (``matmul_random.shapes``) is one call of ``Matmul(product("bf16", layout))``, which chooses a
schedule and runs it if it is proved, IR and PTX. A pool of processes proves first. Every result is compared
with ``torch.mm``'s over one of NaN; times are medians of replays of CUDA graphs in alternation, over inputs
that exceed L2. ``--table``: also the 18 shapes of the table beside cuBLAS. At the end: cuBLAS's time by
ours, the geometric mean by kind and the ten worst. FILE is written after every shape.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.hardware.bench_matmul import SPEED  # noqa: E402
from benchmarks.hardware.matmul_random import (  # noqa: E402
    WRONG,
    Shape,
    alternated,
    graph,
    shapes,
    tensors,
)
from syncverify.gate import VerificationError  # noqa: E402
from syncverify.gate.matmul import CompiledMatmul, Matmul  # noqa: E402
from syncverify.matmul import Schedule, product  # noqa: E402

#: Milliseconds of a graph, and replays that count.
LONG, MANY = 6.0, 15
#: Operations from which on a product is large.
LARGE = 1e11
KINDS: dict[str, Callable[[Shape], bool]] = {
    "all": lambda s: True,
    "aligned": lambda s: s[0] % 128 == s[1] % 128 == s[2] % 64 == 0,
    "ragged": lambda s: bool(s[0] % 128 or s[1] % 128 or s[2] % 64),
    "K <= 512": lambda s: s[2] <= 512,
    "M <= 128": lambda s: s[0] <= 128,
    "N <= 512": lambda s: s[1] <= 512,
    "over 1e11": lambda s: 2 * s[0] * s[1] * s[2] > LARGE,
}


def sizes_of(shape: Shape) -> dict[str, int]:
    return dict(zip("MNK", shape[:3], strict=True))


def prove(shape: Shape, schedule: Schedule, count: int) -> None:
    """In a process of the pool: proves what the call will need, for every size or for these; a kernel without
    a proof is the call's to report."""
    compiled = CompiledMatmul(product("bf16", shape[3]), schedule, each_launch=True)
    with contextlib.suppress(VerificationError):
        compiled.require_proof(sizes_of(shape), count)


def measured(torch: Any, matmul: Matmul, shape: Shape, count: int) -> dict[str, Any]:
    """Microseconds of cuBLAS and of ours, and how far our result is from cuBLAS's."""
    a, b, c = tensors(torch, shape)
    ours = [torch.full_like(x, math.nan) for x in c]
    matmul(a[0], b[0], out=ours[0])
    want = torch.mm(a[0], b[0]).float()
    apart = float((ours[0].float() - want).norm() / want.norm())
    sets = range(len(c))
    us = alternated(
        torch,
        {
            "cublas": graph(torch, [lambda i=i: torch.mm(a[i], b[i], out=c[i]) for i in sets], LONG),
            "ours": graph(torch, [lambda i=i: matmul(a[i], b[i], out=ours[i]) for i in sets], LONG),
        },
        MANY,
    )
    title = matmul.schedule(sizes_of(shape), count).title
    return {"schedule": title, "rel": apart, "us": us, "ratio": us["cublas"] / us["ours"]}


def geomean(ratios: Iterable[float]) -> float:
    logs = [math.log(r) for r in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def tell(name: str, rows: list[dict[str, Any]]) -> None:
    """What a seed shows, by kind."""
    done = [r for r in rows if "ratio" in r]
    for kind, is_one in KINDS.items():
        some = [r["ratio"] for r in done if is_one(r["shape"])]
        if some:
            least = min(some)
            print(f"{name}: {kind:9} {len(some):3} shapes, geomean {geomean(some):.3f}, worst {least:.3f}")
    worst = sorted(done, key=lambda r: r["ratio"])[:10]
    print(f"{name}: worst", [(*r["shape"], r["schedule"], round(r["ratio"], 3)) for r in worst])
    wrong = [r["shape"] for r in done if not r["rel"] < WRONG]
    failed = [(r["shape"], r["failed"]) for r in rows if "failed" in r]
    below = sum(r["ratio"] < 0.9 for r in done)
    print(f"{name}: {len(done)} measured, {below} below 0.9, wrong {wrong}, failed {failed}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=80)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) - 1))
    o = parser.parse_args()
    import torch  # type: ignore[import-not-found, unused-ignore]

    if not torch.cuda.is_available():
        print("no GPU: nothing is measured")
        return
    begun = time.monotonic()
    wanted: dict[str, list[Shape]] = {"the table": list(SPEED)} if o.table else {}
    wanted |= {f"seed {n}": shapes(int(n), o.count) for n in o.seeds.split(",")}
    card = torch.cuda.get_device_properties(0)
    made = {layout: Matmul(product("bf16", layout)) for layout in ("KK", "MN", "KN", "MK")}
    chosen = {
        s: made[s[3]].schedule(sizes_of(s), card.multi_processor_count)
        for each in wanted.values()
        for s in each
    }
    pool = multiprocessing.get_context("spawn").Pool(o.jobs)
    jobs = {s: pool.apply_async(prove, (s, x, card.multi_processor_count)) for s, x in chosen.items()}
    record: dict[str, Any] = {"card": card.name}
    for name, each in wanted.items():
        rows: list[dict[str, Any]] = []
        record[name] = rows
        for shape in each:
            left = o.seconds - (time.monotonic() - begun)
            if left < 1:
                print("time is over", flush=True)
                break
            row: dict[str, Any] = {"shape": shape}
            try:
                jobs[shape].get(left)
                row |= measured(torch, made[shape[3]], shape, card.multi_processor_count)
            except Exception as e:  # what it was is kept, and the next shape is measured
                row["failed"] = repr(e)[:300]
            rows.append(row)
            o.out.write_text(json.dumps(record) + "\n")
        tell(name, rows)
    pool.terminate()
    print(f"{time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
