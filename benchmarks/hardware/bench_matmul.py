"""Matrix products on a Hopper GPU: correct against cuBLAS, and TFLOP/s beside it.

    python benchmarks/hardware/bench_matmul.py [correct] [speed] [fused] [split] [--seconds 240] [--only NAME]
        [--proved] [--out FOLDER]

Needs torch and cuda-bindings. Each schedule runs in a child process that is killed after its time; what a
child had found by then is kept. Writes bench_matmul.json into the folder (else $OUT, or here). Without
``--proved`` the children run kernels without asking for their proofs. ``split``: ``matmul_split.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.hardware import matmul_split
from syncverify.fusion import Tensor, Value, gelu, trace
from syncverify.gate.matmul import CompiledMatmul
from syncverify.matmul import Problem, Schedule, product

#: The schedules that are run, most important first.
SCHEDULES = {
    "128x128": Schedule(128, 128),
    "128x256": Schedule(128, 256, registers=(40, 232)),
    "128x256pt": Schedule(128, 256, registers=(40, 232), persistent=True, store="tma"),
    "128x256ptc": Schedule(128, 256, registers=(40, 232), persistent=True, store="tma", cluster=2),
    "128x256t": Schedule(128, 256, registers=(40, 232), store="tma"),
    "128x256tc": Schedule(128, 256, registers=(40, 232), store="tma", cluster=2),
    "128x128t": Schedule(128, 128, store="tma"),
    "128x256p": Schedule(128, 256, registers=(40, 232), persistent=True),
    "128x128p": Schedule(128, 128, persistent=True),
    "256x128pt": Schedule(256, 128, registers=(40, 232), persistent=True, store="tma"),
    "256x128p": Schedule(256, 128, registers=(40, 232), persistent=True),
    "128x192p": Schedule(128, 192, registers=(40, 232), persistent=True),
    "256x160p": Schedule(256, 160, registers=(40, 232), persistent=True),
    "192x192p": Schedule(192, 192, consumers=3, registers=(32, 160), persistent=True),
    "64x128": Schedule(64, 128, consumers=1),
    "128x128.pending1": Schedule(128, 128, pending=1),
    "128x256pt.pending1": Schedule(128, 256, registers=(40, 232), persistent=True, store="tma", pending=1),
    "128x256p.group16": Schedule(128, 256, registers=(40, 232), persistent=True, group=16),
}
#: Ragged and tiny shapes: (M, N, K); sizes that a layout's 16-byte rows do not allow are left out.
SHAPES = [
    (128, 128, 64), (128, 128, 512), (512, 512, 512), (1, 8, 8), (8, 16, 24), (129, 136, 72),
    (1000, 1000, 1000), (333, 328, 2056), (4096, 2112, 7168), (63, 4104, 200), (2048, 120, 8192),
    (127, 255, 512), (300, 77, 136),
]  # fmt: skip
#: Schedules that run fused epilogues.
FUSED = ("128x256pt", "128x128t", "128x256ptc")
#: Shapes of peer_bench.py.
SPEED = [
    (4096, 4096, 4096, "KK"), (8192, 8192, 8192, "KK"), (2048, 2048, 8192, "MN"), (16384, 16384, 1024, "MN"),
    (4096, 14336, 5120, "KK"), (4096, 5120, 14336, "KK"), (8192, 6144, 4096, "KK"),
    (8192, 28672, 4096, "KK"), (8192, 4096, 14336, "KK"), (4096, 8192, 28672, "KK"),
    (4096, 7168, 16384, "KK"), (4096, 24576, 1536, "KK"),
    (4096, 2112, 7168, "KK"), (128, 7168, 2048, "KK"), (64, 4096, 4096, "KK"), (3648, 480, 8632, "MN"),
    (4816, 5008, 5672, "MN"), (1176, 1840, 44280, "MN"),
]  # fmt: skip


# ---------------------------------------------------------------- in a child


def child(job: dict[str, Any]) -> None:
    """Runs one job; a line of JSON for each finding."""
    import torch

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    if job["what"].startswith("split"):
        matmul_split.child(torch, job)
        return
    schedule = SCHEDULES[job["schedule"]]
    proved = bool(job["proved"])
    if job["what"] == "fused":
        fused(torch, schedule, job["shapes"], proved)
        return
    for m, n, k, layout in job["shapes"]:
        try:
            kernel = _kernel(schedule, layout)
            a, b = _factors(torch, m, n, k, layout)
            found = _correct(torch, kernel, a, b, proved, job["repeats"])
            if job["what"] == "speed" and found["ok"]:
                found |= _speed(torch, kernel, a, b, proved)
        except Exception as e:
            found = {"ok": False, "error": f"{type(e).__name__}: {e}"[:400]}
        print(json.dumps({"m": m, "n": n, "k": k, "layout": layout, **found}), flush=True)
        if "error" in found and "CUDA" in found["error"]:
            return  # the context may be broken


def fused(torch: Any, schedule: Schedule, shapes: list[list[Any]], proved: bool) -> None:
    """A bias, an activation and a residual in the epilogue, beside what torch.compile makes of the same."""

    def ours(acc: Value, bias: Value, residual: Value) -> Value:
        return (gelu(acc + bias) + residual).cast("bf16")

    def theirs(a: Any, b: Any, bias: Any, residual: Any) -> Any:
        return torch.nn.functional.gelu(a @ b + bias) + residual

    full = ("M", "N")
    tensors = {"acc": Tensor("f32", full), "bias": Tensor("bf16", ("N",)), "residual": Tensor("bf16", full)}
    kernel = CompiledMatmul(Problem("bias_gelu_add", "bf16", "KK", trace(ours, tensors)), schedule)
    for m, n, k, layout in shapes:
        try:
            a, b = _factors(torch, m, n, k, layout)
            bias, residual = (torch.randn(*x, device="cuda", dtype=torch.bfloat16) for x in ((n,), (m, n)))
            want = theirs(a.float(), b.float(), bias.float(), residual.float())
            out = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
            kernel(a, b, out=out, proved=proved, bias=bias, residual=residual)
            torch.cuda.synchronize()
            error = float(((out.float() - want).norm() / want.norm()).item())
            worst = float(((out.float() - want).abs().max() / want.square().mean().sqrt()).item())
            found = {"ok": bool(error < 1e-2 and worst < 0.25), "relative": error, "worst_rms": worst}
            if found["ok"]:
                torch._dynamo.reset()
                calls = (
                    partial(kernel, a, b, out=out, proved=proved, bias=bias, residual=residual),
                    partial(torch.compile(theirs, dynamic=False), a, b, bias, residual),
                )
                found |= _beside(torch, calls, 2.0 * m * n * k)
        except Exception as e:
            found = {"ok": False, "error": f"{type(e).__name__}: {e}"[:400]}
        print(json.dumps({"m": m, "n": n, "k": k, "layout": layout, **found}), flush=True)


_KERNELS: dict[str, CompiledMatmul] = {}


def _kernel(schedule: Schedule, layout: str) -> CompiledMatmul:
    if layout not in _KERNELS:
        _KERNELS[layout] = CompiledMatmul(product(layout=layout), schedule)
    return _KERNELS[layout]


def _factors(torch: Any, m: int, n: int, k: int, layout: str) -> tuple[Any, Any]:
    def made(rows: int, columns: int, along_rows: bool) -> Any:
        x = torch.randn(
            *((columns, rows) if along_rows else (rows, columns)), device="cuda", dtype=torch.bfloat16
        )
        return x.t() if along_rows else x

    return made(m, k, layout[0] == "M"), made(k, n, layout[1] == "K")


def _correct(
    torch: Any, kernel: CompiledMatmul, a: Any, b: Any, proved: bool, repeats: int
) -> dict[str, Any]:
    """Against cuBLAS, over all of C, several times into a poisoned result."""
    want = (a @ b).float()
    rms = want.square().mean().sqrt().clamp_min(1e-30)
    out = torch.empty(a.shape[0], b.shape[1], device="cuda", dtype=torch.bfloat16)
    worst = relative = 0.0
    for _ in range(repeats):
        out.fill_(float("nan"))
        kernel(a, b, out=out, proved=proved)
        torch.cuda.synchronize()
        error = out.float() - want
        this = float((error.abs().max() / rms).item())
        worst = max(worst, this) if this == this else float("inf")
        relative = max(relative, float((error.norm() / want.norm().clamp_min(1e-30)).item()))
    return {"ok": bool(worst < 0.25 and relative < 1e-2), "worst_rms": worst, "relative": relative}


def _speed(torch: Any, kernel: CompiledMatmul, a: Any, b: Any, proved: bool) -> dict[str, Any]:
    """Ours and cuBLAS."""
    out = torch.empty(a.shape[0], b.shape[1], device="cuda", dtype=torch.bfloat16)
    both = (lambda: kernel(a, b, out=out, proved=proved), lambda: torch.mm(a, b, out=out))
    return _beside(torch, both, 2.0 * a.shape[0] * a.shape[1] * b.shape[1])


def _beside(torch: Any, both: Sequence[Callable[[], Any]], flops: float) -> dict[str, Any]:
    """Medians of graph replays of two calls, in alternation."""
    calls = max(1, int(2e-3 / (flops / 600e12)))
    graphs = []
    for call in both:
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                call()
        graphs.append(graph)
    times: list[list[float]] = [[], []]
    end = time.monotonic() + 0.3
    while time.monotonic() < end or len(times[0]) < 5:
        for graph, kept in zip(graphs, times, strict=True):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            kept.append(start.elapsed_time(stop) * 1e3 / calls)
    ours, cublas = (statistics.median(t[2:] or t) for t in times)
    return {
        "us": round(ours, 2), "cublas_us": round(cublas, 2), "tflops": round(flops / ours / 1e6, 1),
        "cublas_tflops": round(flops / cublas / 1e6, 1), "ratio": round(cublas / ours, 4),
    }  # fmt: skip


# ---------------------------------------------------------------- the parent


def run(job: dict[str, Any], seconds: float) -> dict[str, Any]:
    """A job in a child, killed after that time; what it printed until then."""
    command = [sys.executable, __file__, "--child", json.dumps(job)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    started = time.monotonic()
    output, errors = process.communicate()
    timer.cancel()
    lines = [json.loads(x) for x in output.splitlines() if x.startswith("{")]
    missing = len(job["shapes"]) - len(lines)
    return {
        **{k: v for k, v in job.items() if k != "shapes"},
        "seconds": round(time.monotonic() - started, 1),
        "status": process.returncode,
        "found": lines,
        "missing": missing,
        "next": job["shapes"][len(lines)] if missing else None,
        "stderr": errors[-600:] if process.returncode else "",
    }


def allowed(m: int, n: int, k: int, layout: str, schedule: Schedule) -> bool:
    if schedule.store == "tma" and n % 8:
        return False
    return (m if layout[0] == "M" else k) % 8 == 0 and (k if layout[1] == "K" else n) % 8 == 0


def jobs(what: list[str], only: str | None, proved: bool) -> list[dict[str, Any]]:
    names = [n for n in SCHEDULES if only is None or only in n]
    found = []
    for kind in what:
        if kind == "split":
            found += [j for j in matmul_split.jobs() if only is None or only in j["schedule"]]
            continue
        for name in names:
            if kind == "fused":
                shapes = [(4096, 4096, 4096, "KK"), (8192, 6144, 4096, "KK"), (1000, 1000, 1000, "KK")]
                if name not in FUSED:
                    continue
            elif kind == "correct":
                layouts = (
                    ("KK", "MN", "MK", "KN")
                    if name in ("128x128", "128x256pt", "128x256ptc")
                    else ("KK", "MN")
                )
                shapes = [(*s, x) for x in layouts for s in SHAPES if allowed(*s, x, SCHEDULES[name])]
            else:
                shapes = list(SPEED)
            if SCHEDULES[name].tile_n % 64:  # no whole panels
                shapes = [s for s in shapes if s[3][1] == "K"]
            found.append(
                {"what": kind, "schedule": name, "proved": proved, "repeats": 3 if kind == "correct" else 1,
                 "shapes": shapes}
            )  # fmt: skip
    return found


def show(result: dict[str, Any]) -> None:
    good = sum(x["ok"] for x in result["found"])
    print(f"{result['what']} {result['schedule']}: {good} of {len(result['found'])} right, "
          f"{result['missing']} missing, {result['seconds']} s, status {result['status']}")  # fmt: skip
    for x in result["found"]:
        shape = f"{x['m']}x{x['n']}x{x['k']} {x['layout']} {x.get('name', '')}"
        if not x["ok"]:
            print(f"   WRONG {shape}: {x.get('error') or (x['worst_rms'], x['relative'])}")
        elif "ratio" in x:
            print(f"   {shape:36} {x['tflops']:6} TFLOP/s, cuBLAS {x['cublas_tflops']:6}: {x['ratio']:.3f}")
    if result["missing"]:
        print(f"   stopped before {result['next']}; {result['stderr'][-300:]}")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["correct", "speed", "fused"])
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--only")
    parser.add_argument("--proved", action="store_true")
    parser.add_argument("--child")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    args = parser.parse_args()
    if args.child:
        child(json.loads(args.child))
        return
    end = time.monotonic() + args.seconds
    results: list[dict[str, Any]] = []
    args.out.mkdir(parents=True, exist_ok=True)
    place = args.out / ("bench_matmul_split.json" if args.what == ["split"] else "bench_matmul.json")
    wanted = jobs(args.what or ["correct", "speed", "fused"], args.only, args.proved)
    # the first schedule through both kinds first, then the others
    wanted.sort(key=lambda j: list(SCHEDULES).index(j["schedule"]) if j["schedule"] in SCHEDULES else -1)
    for job in wanted:
        left = end - time.monotonic()
        if left < 5:
            print(f"no time left for {job['what']} {job['schedule']}")
            continue
        results.append(run(job, min(left, 60)))
        show(results[-1])
        known = {**SCHEDULES, **matmul_split.SCHEDULES}
        schedules = {n: asdict(s) for n, s in known.items()}
        place.write_text(json.dumps({"schedules": schedules, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
