"""Measures products of random shapes: schedules of the menu beside cuBLAS, for the model of their time.

    python benchmarks/hardware/matmul_random.py --seed N [--count 200] [--arms 16] [--seconds 400] --out FILE

Shapes are drawn log-uniformly (M 16 to 16384, N and K 64 to 16384, all layouts, three in five multiples of
tiles); a seed names them for ever. Two thirds of a shape's arms are what the model ranks first, the others
come from further behind, so that the model meets its own mistakes. A pool of processes compiles and proves
every kernel, IR and PTX, for every size, before it runs; what is not proved in time is left out. Each result
is compared with cuBLAS's over a poisoned output; times are medians of CUDA graph replays in alternation, over
inputs that exceed L2. Needs torch and a GPU of sm_90. ``matmul_fit.py`` fits a card's coefficients to it.
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
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from syncverify.gate.matmul import CompiledMatmul  # noqa: E402
from syncverify.matmul import Schedule, product  # noqa: E402
from syncverify.matmul.choose import ranked  # noqa: E402

Shape = tuple[int, int, int, str]
SMS = 132
#: Seconds of processor time that a proof may take, and that a shape waits for its kernels.
PROOF, PATIENCE = 8.0, 20.0
#: Relative error from which on a result is wrong; bytes that inputs exceed; milliseconds of a graph; replays.
WRONG, L2_BYTES, MILLISECONDS, REPLAYS = 5e-3, 180e6, 3.0, 5


def shapes(seed: int, count: int) -> list[Shape]:
    """So many shapes of a seed."""
    g = random.Random(seed)

    def drawn(low: int, high: int) -> int:
        return int(2 ** g.uniform(math.log2(low), math.log2(high)))

    found: list[Shape] = []
    while len(found) < count:
        m, n, k = drawn(16, 16384), drawn(64, 16384), drawn(64, 16384)
        if g.random() < 0.6:
            m, n, k = (-(-m // 128) * 128 if m > 128 else m), -(-n // 128) * 128, -(-k // 64) * 64
        n, k = -(-n // 8) * 8, -(-k // 8) * 8
        layout = g.choice(["KK", "KK", "KK", "MN", "KN", "MK"])
        m = -(-m // 8) * 8 if layout[0] == "M" else m
        if 2e8 <= m * n * k <= 7.5e12:
            found.append((m, n, k, layout))
    return found


def arms(shape: Shape, count: int, g: random.Random) -> list[Schedule]:
    """What is measured of a shape."""
    m, n, k, layout = shape
    order = ranked(product(layout=layout), {"M": m, "N": n, "K": k}, SMS)
    first = count * 2 // 3
    rest = order[first : count * 4]
    return order[:first] + g.sample(rest, min(count - first, len(rest)))


def prove(job: tuple[str, Schedule]) -> str:
    """In a process of the pool: nothing if the kernel is proved for every size, or why it is not."""
    layout, schedule = job
    try:
        made = CompiledMatmul(product(layout=layout), schedule, each_launch=True, proof_seconds=PROOF)
        return "not proved for every size" if made.program().undecided else ""
    except Exception as e:
        return repr(e)[:200]


def graph(torch: Any, calls: list[Callable[[], Any]], milliseconds: float = MILLISECONDS) -> tuple[Any, int]:
    """A CUDA graph of the calls, repeated, and how many calls it holds."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    for call in calls:
        call()
    after.record()
    torch.cuda.synchronize()
    rounds = max(1, min(400, int(milliseconds / max(before.elapsed_time(after), 2e-3))))
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        for _ in range(rounds):
            for call in calls:
                call()
    return made, rounds * len(calls)


def alternated(torch: Any, graphs: dict[str, tuple[Any, int]], replays: int = REPLAYS) -> dict[str, float]:
    """Microseconds of a call of each arm: medians of replays in turn; the first is not counted."""
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for turn in range(replays + 1):
        marks = []
        for name in list(graphs)[:: 1 if turn % 2 else -1]:
            made, calls = graphs[name]
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            made.replay()
            after.record()
            marks.append((name, before, after, calls))
        torch.cuda.synchronize()
        if turn:
            for name, before, after, calls in marks:
                times[name].append(before.elapsed_time(after) / calls * 1e3)
    return {name: round(statistics.median(each), 3) for name, each in times.items()}


def tensors(torch: Any, shape: Shape) -> tuple[list[Any], list[Any], list[Any]]:
    """Factors and results of as many products as exceed L2 together."""
    m, n, k, layout = shape
    sets = max(1, min(6, int(L2_BYTES / ((m * k + k * n + m * n) * 2)) + 1))

    def drawn(rows: int, columns: int) -> Any:
        return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)

    a = [drawn(m, k) if layout[0] == "K" else drawn(k, m).t() for _ in range(sets)]
    b = [drawn(n, k).t() if layout[1] == "K" else drawn(k, n) for _ in range(sets)]
    return a, b, [torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]


def measure(torch: Any, shape: Shape, kernels: list[CompiledMatmul]) -> dict[str, Any]:
    """Microseconds of cuBLAS and of each kernel; ``wrong`` names those that compute something else."""
    a, b, c = tensors(torch, shape)
    sets = len(c)
    want = torch.mm(a[0], b[0]).float()
    graphs = {"cublas": graph(torch, [lambda i=i: torch.mm(a[i], b[i], out=c[i]) for i in range(sets)])}
    wrong = []
    for kernel in kernels:
        title = kernel.schedule.title
        c[0].fill_(math.nan)
        kernel(a[0], b[0], out=c[0])
        if not float((c[0].float() - want).norm() / want.norm()) < WRONG:
            wrong.append(title)
            continue
        calls = [lambda i=i, f=kernel: f(a[i], b[i], out=c[i]) for i in range(sets)]
        graphs[title] = graph(torch, calls)
    us = alternated(torch, graphs)
    schedules = {k.schedule.title: asdict(k.schedule) for k in kernels}
    row: dict[str, Any] = {"shape": shape, "cublas": us.pop("cublas"), "us": us, "schedules": schedules}
    return {**row, "wrong": wrong} if wrong else row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--arms", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=400.0)
    parser.add_argument("--out", type=Path, required=True)
    o = parser.parse_args()
    import torch  # type: ignore[import-not-found, unused-ignore]

    begun, g = time.monotonic(), random.Random(o.seed + 1)
    wanted = [(s, arms(s, o.arms, g)) for s in shapes(o.seed, o.count)]
    pool = multiprocessing.get_context("spawn").Pool(max(1, (os.cpu_count() or 2) - 1))
    jobs = {(s[3], x): None for s, each in wanted for x in each}
    waiting = {job: pool.apply_async(prove, (job,)) for job in jobs}
    made: dict[tuple[str, Schedule], CompiledMatmul] = {}
    unproved: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    record = {"card": torch.cuda.get_device_name(0), "seed": o.seed, "unproved": unproved, "rows": rows}
    for shape, each in wanted:
        now, kernels = time.monotonic(), []
        if now - begun > o.seconds:
            break
        for x in each:
            job = (shape[3], x)
            try:
                why = waiting[job].get(max(0.01, PATIENCE - (time.monotonic() - now)))
            except multiprocessing.TimeoutError:
                continue
            if why:
                unproved[f"{shape[3]} {x.title}"] = why
                continue
            if job not in made:
                made[job] = CompiledMatmul(product(layout=shape[3]), x, each_launch=True)
            kernels.append(made[job])
        rows.append(measure(torch, shape, kernels))
        o.out.write_text(json.dumps(record) + "\n")
        us, cublas = rows[-1]["us"], rows[-1]["cublas"]
        if us:
            best, first = min(us, key=lambda t: us[t]), kernels[0].schedule.title
            told = (
                f"first {first} {cublas / us.get(first, math.inf):.3f}, best {best} {cublas / us[best]:.3f}"
            )
            print(shape, f"cuBLAS {cublas} us, {told}", rows[-1].get("wrong", ""), flush=True)
    print(f"{len(rows)} of {len(wanted)} shapes, {len(unproved)} kernels not proved")
    pool.terminate()


if __name__ == "__main__":
    main()
