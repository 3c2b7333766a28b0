"""Reductions beyond rows that fit, on a Hopper GPU: correct against float64, then time beside a copy.

    python benchmarks/bench_reductions.py --out DIR [--seconds 150] [--cases "long softmax,column sum"]
    python benchmarks/bench_reductions.py --prepare [--jobs 2]      # compile and prove, without a GPU

Every case runs in a child process that is killed when it takes too long; a line of JSON for each point
goes to stdout, and all of them to DIR/reductions.json. Outputs are filled with NaN before each launch; three
seeds for every ragged size. Needs torch, but for --prepare. Kernels that the cache directory does not hold
are compiled and proved first, by --jobs children, and how long that took is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from reduction_cases import CASES, Case  # noqa: E402

#: Largest error of any row, relative to the row.
LIMIT = {"bf16": 2e-2, "f32": 1e-4}
SEEDS = (0, 1, 2)
#: A copy kernel moves this many bytes at least, so that its time is that of the memory.
MOST = 1 << 30


def prepare(case: Case) -> Iterator[dict[str, Any]]:
    """Compiles and proves all kernels of a case, for all its sizes."""
    from syncverify import gate

    start = time.perf_counter()
    kernel = gate.compile(case.fusion)
    scopes = set()
    kernels = 0
    for sizes in (*case.correct, *case.timed):
        programs = kernel.programs(sizes) if hasattr(kernel, "stages") else (kernel.program(sizes),)
        kernels = max(kernels, len(programs))
        for program in programs:
            scopes |= {f"{stage} {report.scope.kind}" for stage, report in program.proofs.items()}
    yield {
        "what": "prepare", "kernels": kernels, "proofs": sorted(scopes),
        "seconds": round(time.perf_counter() - start, 2),
    }  # fmt: skip


def made(case: Case, sizes: dict[str, int], seed: int) -> list[Any]:
    import torch

    torch.manual_seed(seed)
    kinds = {"bf16": torch.bfloat16, "f32": torch.float32}
    found = []
    for _, t in case.fusion.inputs:
        shape = [sizes[d] for d in t.dims]
        if t.dtype == "i64":
            found.append(torch.randint(0, sizes["C"], shape, device="cuda"))
        else:
            found.append((torch.randn(shape, device="cuda") * 2 + 0.5).to(kinds[t.dtype]))
    return found


def outputs(case: Case, sizes: dict[str, int]) -> tuple[Any, ...]:
    """Arrays full of NaN."""
    import torch

    kinds = {"bf16": torch.bfloat16, "f32": torch.float32}
    return tuple(
        torch.full([sizes[d] for d in o.dims], float("nan"), device="cuda", dtype=kinds[o.dtype])
        for o in case.fusion.outputs
    )


def worst(got: Any, want: Any) -> float:
    """The largest relative error of a row; of numbers, relative to all of them."""
    import torch

    got, want = got.double().cpu(), torch.as_tensor(want, dtype=torch.float64)
    if want.dim() > 1:
        got, want = got.flatten(0, -2), want.flatten(0, -2)
        error = ((got - want).norm(dim=1) / want.norm(dim=1).clamp_min(1e-30)).max()
    else:
        error = (got - want).abs().max() / want.square().mean().sqrt().clamp_min(1e-30)
    return float(error) if torch.isfinite(error) else float("inf")


def correct(case: Case) -> Iterator[dict[str, Any]]:
    import numpy as np
    import torch

    from syncverify import gate

    kernel = gate.compile(case.fusion)
    for sizes in case.correct:
        errors = []
        for seed in SEEDS:
            given = made(case, sizes, seed)
            want = case.fusion.reference(
                [g.double().cpu().numpy() if g.is_floating_point() else g.cpu().numpy() for g in given],
                np.float64,
            )
            out = outputs(case, sizes)
            kernel(*given, out=out)
            torch.cuda.synchronize()
            errors += [worst(g, w) for g, w in zip(out, want, strict=True)]
        limit = min(LIMIT[o.dtype] for o in case.fusion.outputs)
        yield {"what": "correct", "sizes": sizes, "error": max(errors), "ok": max(errors) < limit}


def speed(case: Case) -> Iterator[dict[str, Any]]:
    """Time per call in a graph of calls, alternating with a copy of as many bytes as go in and out once."""
    import torch

    from syncverify import gate

    kernel = gate.compile(case.fusion)
    for sizes in case.timed:
        given, out = made(case, sizes, 0), outputs(case, sizes)
        moved = sum(x.nbytes for x in (*given, *out))
        a = torch.randn(min(moved, MOST) // 8, device="cuda")
        b = torch.empty_like(a)

        def ours(given: list[Any] = given, out: tuple[Any, ...] = out) -> None:
            kernel(*given, out=out)

        def copy(a: Any = a, b: Any = b) -> None:
            torch.mul(a, 1.0, out=b)

        times = alternated({"ours": ours, "copy": copy})
        mine, theirs = moved / times["ours"], 2 * a.nbytes / times["copy"]
        yield {
            "what": "speed", "sizes": sizes, "us": round(times["ours"] * 1e6, 2),
            "GBps": round(mine / 1e9), "copy_GBps": round(theirs / 1e9), "fraction": round(mine / theirs, 3),
        }  # fmt: skip


def alternated(functions: dict[str, Any], calls: int = 4, turns: int = 10) -> dict[str, float]:
    """The median seconds of a call of each, as CUDA graphs that take turns."""
    import torch

    graphs = {}
    for name, f in functions.items():
        f()
        torch.cuda.synchronize()
        graphs[name] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[name]):
            for _ in range(calls):
                f()
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(turns):
        for name, graph in graphs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            if turn > 1:
                times[name].append(start.elapsed_time(end) / 1e3 / calls)
    return {name: statistics.median(t) for name, t in times.items()}


KINDS = {"prepare": prepare, "correct": correct, "speed": speed}


def child(name: str, what: list[str]) -> None:
    for kind in what:
        line: dict[str, Any] = {"case": name, "what": kind}
        try:
            for found in KINDS[kind](CASES[name]):
                print(json.dumps({"case": name, **found}), flush=True)
        except Exception as e:  # one case's trouble is no other's, and the parent reports it
            print(json.dumps({**line, "failed": f"{type(e).__name__}: {e}"[:400]}), flush=True)
            if "CUDA" in str(e):
                return  # the context is lost


def run_case(name: str, what: str, limit: float) -> list[dict[str, Any]]:
    """The lines of one child."""
    command = [sys.executable, __file__, "--child", name, "--what", what]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    found = []
    try:
        out, _ = process.communicate(timeout=max(limit, 1.0))
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
        found.append({"case": name, "what": what, "failed": f"killed after {limit:.0f} s"})
    print(out, end="", flush=True)
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")] + found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--what", default="correct,speed")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--out", default=".")
    parser.add_argument("--child")
    args = parser.parse_args()
    if args.child:
        child(args.child, args.what.split(","))
        return
    end = time.monotonic() + args.seconds
    cases = args.cases.split(",")
    with ThreadPoolExecutor(args.jobs) as pool:
        limit = 600.0 if args.prepare else 0.5 * args.seconds
        rows = [r for found in pool.map(lambda c: run_case(c, "prepare", limit), cases) for r in found]
    if not args.prepare:
        for number, name in enumerate(cases):
            left = (end - time.monotonic()) / (len(cases) - number)
            rows += run_case(name, args.what, min(3 * left, end - time.monotonic()))
    path = Path(args.out) / "reductions.json"
    path.write_text(json.dumps(rows, indent=1) + "\n")
    right = [r for r in rows if r["what"] == "correct"]
    fast = [r["fraction"] for r in rows if "fraction" in r]
    failed = [f"{r['case']}: {r['failed']}" for r in rows if "failed" in r]
    print(f"correct: {sum(r.get('ok', False) for r in right)} of {len(right)}; failed: {failed or 'none'}")
    if fast:
        print(f"fraction of the copy kernel: geomean {statistics.geometric_mean(fast):.3f}")


if __name__ == "__main__":
    main()
