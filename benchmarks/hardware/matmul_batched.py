"""Batched products of random shapes beside torch.bmm on one Hopper GPU: the default path, nothing tuned.

    python benchmarks/hardware/matmul_batched.py --seed N --out FILE [--count 40] [--others 6] [--seconds 60]

Shapes are drawn log-uniformly (2 to 512 matrices, M 16 to 4096, N 64 to 4096, K 32 to 4096, all layouts,
three in five multiples of 64); a seed names them for ever. A pool of processes proves what each call will
run. ``--others`` times so many other schedules of the menu beside it, compiled and compared with
torch.bmm but not proved. How a time is taken is told in matmul_random.py.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.hardware.matmul_random import L2_BYTES, SMS, WRONG, alternated, graph  # noqa: E402
from syncverify.gate.matmul import CompiledMatmul, Matmul  # noqa: E402
from syncverify.matmul import Schedule, product  # noqa: E402
from syncverify.matmul.choose import choose, ranked  # noqa: E402

#: Matrices, M, N, K, and the layout.
Shape = tuple[int, int, int, int, str]
#: Products of numbers that a shape takes, and elements of a tensor: at least, at most.
LEAST, MOST, ELEMENTS = 2e8, 1e12, 2**29


def shapes(seed: int, count: int) -> list[Shape]:
    """So many shapes of a seed."""
    g = random.Random(seed)

    def drawn(low: int, high: int) -> int:
        return int(2 ** g.uniform(math.log2(low), math.log2(high)))

    found: list[Shape] = []
    while len(found) < count:
        b, m, n, k = drawn(2, 512), drawn(16, 4096), drawn(64, 4096), drawn(32, 4096)
        if g.random() < 0.6:
            m, n, k = (-(-m // 64) * 64 if m > 64 else m), -(-n // 64) * 64, -(-k // 64) * 64
        n, k = -(-n // 8) * 8, -(-k // 8) * 8
        layout = g.choice(["KK", "KN", "KK", "KN", "MN", "MK"])
        m = -(-m // 8) * 8 if layout[0] == "M" else m
        if LEAST <= b * m * n * k <= MOST and b * max(m * n, m * k, n * k) < ELEMENTS:
            found.append((b, m, n, k, layout))
    return found


def sizes_of(shape: Shape) -> dict[str, int]:
    return dict(zip("BMNK", shape[:4], strict=True))


def prepared(job: tuple[Shape, Schedule | None]) -> str:
    """In a process of the pool: proves what is chosen, or compiles a schedule; nothing, or what failed."""
    shape, schedule = job
    problem, sizes = product(layout=shape[4], batched=True), sizes_of(shape)
    try:
        if schedule is None:
            chosen = choose(problem, sizes, SMS)
            CompiledMatmul(problem, chosen, each_launch=True).require_proof(sizes, SMS)
        else:
            _ = CompiledMatmul(problem, schedule).program(1 if schedule.by_columns else 2).code
        return ""
    except Exception as e:  # one kernel's trouble is no other's
        return repr(e)[:200]


def others(shape: Shape, count: int) -> list[Schedule]:
    """Schedules beside the chosen one: the next ones, and the first of other kinds."""
    order = ranked(product(layout=shape[4], batched=True), sizes_of(shape), SMS)[1:] if count else []
    kinds: dict[tuple[Any, ...], Schedule] = {}
    for s in order:
        kinds.setdefault((s.tile_m, s.resident, s.by_columns, s.cluster > 1, s.persistent), s)
    return list(dict.fromkeys([*order[: count // 2], *kinds.values()]))[:count]


def measure(torch: Any, shape: Shape, product_: Matmul, some: list[Schedule]) -> dict[str, Any]:
    """Microseconds of torch.bmm, of the default path and of other schedules."""
    b, m, n, k, layout = shape
    sets = max(1, min(6, int(L2_BYTES / (b * (m * k + k * n + m * n) * 2)) + 1))

    def drawn(rows: int, columns: int, turned: bool) -> Any:
        x = torch.randn(b, *((columns, rows) if turned else (rows, columns)), device="cuda").bfloat16()
        return x.mT if turned else x

    left = [drawn(m, k, layout[0] == "M") for _ in range(sets)]
    right = [drawn(k, n, layout[1] == "K") for _ in range(sets)]
    out = [torch.empty(b, m, n, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
    want = torch.bmm(left[0], right[0]).float()
    run: dict[str, Any] = {"ours": product_}
    for s in some:
        run[s.title] = CompiledMatmul(product_.problem, s)
    calls = {"bmm": [lambda i=i: torch.bmm(left[i], right[i], out=out[i]) for i in range(sets)]}
    wrong = []
    for name, f in run.items():
        out[0].fill_(math.nan)
        proved = name == "ours"
        f(left[0], right[0], out=out[0], proved=proved)
        if not float((out[0].float() - want).norm() / want.norm()) < WRONG:
            wrong.append(name)
            continue
        calls[name] = [
            lambda i=i, f=f, p=proved: f(left[i], right[i], out=out[i], proved=p) for i in range(sets)
        ]
    us = alternated(torch, {name: graph(torch, each) for name, each in calls.items()})
    chosen = product_.schedule(sizes_of(shape)).title
    return {"shape": shape, "schedule": chosen, "us": us, **({"wrong": wrong} if wrong else {})}


def told(rows: list[dict[str, Any]]) -> str:
    """Geomeans of torch.bmm's time by ours."""
    ratios = [r["us"]["bmm"] / r["us"]["ours"] for r in rows if "ours" in r["us"]]
    best = [
        r["us"]["bmm"] / min(t for n, t in r["us"].items() if n != "bmm") for r in rows if len(r["us"]) > 1
    ]
    if not ratios:
        return "nothing was timed"
    mean = statistics.geometric_mean
    wrong = [r["shape"] for r in rows if "wrong" in r]
    kinds = f"fastest {mean(best):.3f}, worst {min(ratios):.3f}, wrong {wrong}"
    return f"{len(ratios)} shapes: {mean(ratios):.3f}, {kinds}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--others", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, required=True)
    o = parser.parse_args()
    import torch  # type: ignore[import-not-found, unused-ignore]

    begun = time.monotonic()
    pool = multiprocessing.get_context("spawn").Pool(max(1, (os.cpu_count() or 2) - 1))
    wanted = [(s, others(s, o.others)) for s in shapes(o.seed, o.count)]
    first = [pool.apply_async(prepared, ((s, None),)) for s, _ in wanted]
    more = [[(x, pool.apply_async(prepared, ((s, x),))) for x in each] for s, each in wanted]
    made: dict[str, Matmul] = {}
    rows: list[dict[str, Any]] = []
    record = {"card": torch.cuda.get_device_name(0), "seed": o.seed, "rows": rows}
    for (shape, _), proof, waiting in zip(wanted, first, more, strict=True):
        if time.monotonic() - begun > o.seconds:
            break
        why = proof.get()
        if why:
            rows.append({"shape": shape, "unproved": why, "us": {}})
            continue
        some = [x for x, job in waiting if not job.get()]
        default = made.setdefault(shape[4], Matmul(product(layout=shape[4], batched=True)))
        rows.append(measure(torch, shape, default, some))
        print(shape, rows[-1]["schedule"], rows[-1]["us"], rows[-1].get("wrong", ""), flush=True)
        o.out.write_text(json.dumps(record) + "\n")
    print(told(rows))
    pool.terminate()


if __name__ == "__main__":
    main()
