"""Fusions on a Hopper GPU: correctness against float64, then time beside a copy kernel.

    python benchmarks/bench_rows.py [--seconds 240] [--cases rmsnorm,softmax] [--what correct,speed,tune]

Every case runs in a child process that is killed when it takes too long; a line of JSON for each point goes
to stdout and to $OUT/bench_rows.json. Outputs are filled with NaN before each launch. Needs torch. Kernels
that the cache directory does not hold are compiled and proved first (peer_plugin.py --prepare does so
without a GPU).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from fusion_cases import CASES, fusion_of, schedules  # noqa: E402

WIDTHS = (4096, 32768, 1024, 8192, 16384, 2048)
#: Largest error of any row, relative to the row.
LIMIT = {"bf16": 2e-2, "f32": 1e-4}
ELEMENTS = 1 << 27


def inputs(case: str, dtype: str, rows: int, width: int, seed: int) -> list[Any]:
    import torch

    torch.manual_seed(seed)
    kind = torch.bfloat16 if dtype == "bf16" else torch.float32
    made = {
        "X": lambda: torch.randn(rows, width, device="cuda", dtype=kind),
        "V": lambda: torch.randn(width, device="cuda", dtype=kind),
        "T": lambda: torch.randint(0, width, (rows,), device="cuda"),
    }
    return [made[k]() for k in CASES[case][1]]


def outputs(fusion: Any, rows: int, width: int, given: list[Any]) -> list[Any]:
    """Arrays full of NaN."""
    import torch

    kinds = {"bf16": torch.bfloat16, "f32": torch.float32}
    sizes = {"R": rows, "C": width}
    return [
        torch.full([sizes[d] for d in o.dims], float("nan"), device=given[0].device, dtype=kinds[o.dtype])
        for o in fusion.outputs
    ]


def worst_row(got: Any, want: Any) -> float:
    """The largest relative error of a row; where rows are numbers, relative to all of them."""
    import torch

    got, want = got.double().cpu(), torch.as_tensor(want, dtype=torch.float64)
    if want.dim() == 2:
        error = ((got - want).norm(dim=1) / want.norm(dim=1).clamp_min(1e-30)).max()
    else:
        error = (got - want).abs().max() / want.square().mean().sqrt().clamp_min(1e-30)
    return float(error) if torch.isfinite(error) else float("inf")


def correct(case: str, dtype: str, width: int, name: str) -> dict[str, Any]:
    """Every result of some ragged numbers of rows, for three seeds, against float64."""
    import numpy as np
    import torch

    from syncverify import gate

    fusion = fusion_of(case, dtype)
    kernel = gate.compile(fusion, schedules(case, width)[name])
    worst, launches = 0.0, 0
    for seed, rows in enumerate((1, 131, 1237)):
        given = inputs(case, dtype, rows, width, seed)
        want = fusion.reference(
            [g.cpu().numpy() if not g.is_floating_point() else g.double().cpu().numpy() for g in given],
            np.float64,
        )
        for _ in range(3):
            out = outputs(fusion, rows, width, given)
            kernel(*given, out=tuple(out))
            torch.cuda.synchronize()
            launches += 1
            worst = max(worst, *(worst_row(g, w) for g, w in zip(out, want, strict=True)))
    limit = LIMIT[fusion.outputs[0].dtype]
    return {"error": worst, "limit": limit, "launches": launches, "ok": worst < limit}


def speed(case: str, dtype: str, width: int, name: str) -> dict[str, Any]:
    """Time per call in a graph of calls on different data, alternating with a copy of as many bytes."""
    import torch

    from syncverify import gate

    rows = ELEMENTS // width
    fusion = fusion_of(case, dtype)
    kernel = gate.compile(fusion, schedules(case, width)[name])
    sets = [inputs(case, dtype, rows, width, s) for s in range(2)]
    outs = [tuple(outputs(fusion, rows, width, g)) for g in sets]
    moved = sum(x.nbytes for x in (*sets[0], *outs[0]))
    half = moved // 2 // 4
    a, b = torch.randn(half, device="cuda"), torch.empty(half, device="cuda")

    def ours() -> None:
        for g, o in zip(sets, outs, strict=True):
            kernel(*g, out=o)

    def copy() -> None:
        for _ in sets:
            torch.mul(a, 1.0, out=b)

    def graph(f: Any) -> Any:
        f()
        torch.cuda.synchronize()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            for _ in range(4):
                f()
        return g

    graphs = {"ours": graph(ours), "copy": graph(copy)}
    times: dict[str, list[float]] = {k: [] for k in graphs}
    for turn in range(12):
        for k, g in graphs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            g.replay()
            end.record()
            end.synchronize()
            if turn > 1:
                times[k].append(start.elapsed_time(end) * 1e3 / (4 * len(sets)))
    mine, theirs = (statistics.median(times[k]) for k in ("ours", "copy"))
    return {
        "us": round(mine, 2), "GBps": round(moved / mine / 1e3),
        "copy_GBps": round(2 * half * 4 / theirs / 1e3),
        "fraction": round((moved / mine) / (2 * half * 4 / theirs), 3),
    }  # fmt: skip


def tuned(case: str, dtype: str, width: int, name: str) -> dict[str, Any]:
    """The schedules that the tuner tries beside the default one, and which is the fastest."""
    import torch

    from syncverify import tune

    sizes = {"R": ELEMENTS // width, "C": width}
    found = tune.tune(
        fusion_of(case, dtype), sizes, tune.on_gpu(), device=torch.cuda.get_device_name()
    )  # fmt: skip
    trials = {
        t.settings: t.reason[:80] if t.seconds is None else round(t.seconds * 1e6, 2) for t in found.trials
    }
    return {"best": found.settings, "us": trials}


KINDS = {"correct": correct, "speed": speed, "tune": tuned}


def child(case: str, what: list[str], points: list[tuple[str, int]]) -> None:
    for kind in what:
        for dtype, width in points:
            for name in schedules(case, width):
                line = {"case": case, "dtype": dtype, "width": width, "schedule": name, "what": kind}
                try:
                    line |= KINDS[kind](case, dtype, width, name)
                except Exception as e:  # one point's trouble is no other's, and the parent reports it
                    line["failed"] = f"{type(e).__name__}: {e}"[:400]
                print(json.dumps(line), flush=True)
                if "CUDA" in line.get("failed", ""):
                    return  # the context is lost


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--dtypes", default="bf16,f32")
    parser.add_argument("--what", default="correct,speed")
    parser.add_argument("--child")
    args = parser.parse_args()
    widths = [int(w) for w in args.widths.split(",")]
    points = [(d, w) for w in widths for d in args.dtypes.split(",")]
    if args.child:
        child(args.child, args.what.split(","), points)
        return
    end = time.time() + args.seconds
    results: list[dict[str, Any]] = []
    path = Path(os.environ.get("OUT", ".")) / "bench_rows.json"
    cases = args.cases.split(",")
    for number, case in enumerate(cases):
        left = (end - time.time()) / (len(cases) - number)
        if left < 5:
            results.append({"case": case, "failed": "no time left"})
            continue
        command = [
            sys.executable, __file__, "--child", case, "--widths", args.widths, "--dtypes", args.dtypes,
            "--what", args.what,
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            out, _ = process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
            results.append({"case": case, "failed": f"killed after {left:.0f} s"})
        results += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        print(out, end="", flush=True)
        path.write_text(json.dumps(results, indent=1))
    right = [r for r in results if r.get("what") == "correct"]
    fast = [r["fraction"] for r in results if "fraction" in r]
    print(f"correct: {sum(r.get('ok', False) for r in right)} of {len(right)}; ", end="")
    print(
        f"fraction of the copy kernel: geomean {statistics.geometric_mean(fast):.3f}" if fast else "no times"
    )


if __name__ == "__main__":
    main()
