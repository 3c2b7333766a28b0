"""``torch.compile(backend="syncverify")`` on a Hopper GPU: correct against float64, then time.

    python benchmarks/torch_backend.py --out DIR [--seconds 170] [--cases rms_norm,block] [--jobs 14]
    python benchmarks/torch_backend.py --prepare [--jobs 2]      # compiles and proves only, without a GPU

First all kernels are compiled and proved, several at once. Then every function runs in a child process that
is started again where it dies: its results and gradients for three seeds, on a stream of its own, with other
numbers of rows, and from a CUDA graph, all against float64. What time is left goes to CUDA graph replays
beside eager torch and inductor, in alternation, medians. DIR/torch_backend.json gets everything.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

DEVICE = "cuda"
#: Seconds that one case may take, with inductor's compilation.
PATIENCE = 75


def prove(name: str) -> dict[str, Any]:
    """Compiles and proves the kernels of one case on fake tensors."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch_cases import CASES, make_inputs, results

    import syncverify.torch as sv

    case, backend = CASES[name], sv.make_backend({"runner": "prove"})
    start = time.perf_counter()
    with FakeTensorMode():
        inputs = [
            torch.empty(x.shape, dtype=x.dtype, device=DEVICE).requires_grad_(x.requires_grad)
            for x in make_inputs(case, "meta")
        ]
        results(case, torch.compile(case.function, backend=backend), inputs)
    return {
        "case": name, "what": "prepare", "seconds": round(time.perf_counter() - start, 2),
        "kernels": len(backend.report.regions), "refused": [r.refused for r in backend.report.refused],
    }  # fmt: skip


def prepare(names: list[str], jobs: int) -> list[dict[str, Any]]:
    """All cases, so many child processes at once."""

    def one(name: str) -> dict[str, Any]:
        command = [sys.executable, __file__, "--child", "prove", "--cases", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=540)
        lines = [x for x in done.stdout.splitlines() if x.startswith("{")]
        found = json.loads(lines[-1]) if lines else {"case": name, "failed": done.stderr[-2000:]}
        print(json.dumps(found), flush=True)
        return dict(found)

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, names))


# ---------------------------------------------------------------- on the GPU


def errors(got: list[Any], want: list[Any]) -> float:
    """The largest error of a tensor, relative to it; infinite where something is not finite."""
    import torch

    worst = 0.0
    for g, w in zip(got, want, strict=True):
        if g.shape != w.shape or not bool(torch.isfinite(g).all()):
            return float("inf")
        worst = max(worst, float((g.double() - w).norm() / w.double().norm().clamp_min(1e-30)))
    return worst


def correct(name: str) -> dict[str, Any]:
    """One case against float64: three seeds, a stream of its own, other rows, a CUDA graph."""
    import torch
    from torch_cases import CASES, exact, make_inputs, results

    import syncverify.torch as sv

    case, backend = CASES[name], sv.make_backend()
    compiled = torch.compile(case.function, backend=backend)
    start = time.perf_counter()
    found: dict[str, Any] = {"case": name, "what": "correct", "tolerance": case.tolerance}
    inputs = make_inputs(case, DEVICE)
    worst = {"plain": errors(results(case, compiled, inputs), exact(case, inputs))}
    found["first_call_seconds"] = round(time.perf_counter() - start, 2)
    found["kernels"] = [str(r) for r in backend.report.regions]
    found["refused"] = [str(r) for r in backend.report.refused]
    found["left"] = [f"{o}: {why}" for _, o, why in backend.report.left]
    for seed in (1, 2):
        other = make_inputs(case, DEVICE, seed)
        worst["plain"] = max(worst["plain"], errors(results(case, compiled, other), exact(case, other)))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        other = make_inputs(case, DEVICE, 3)
        made = results(case, compiled, other)
    side.synchronize()
    worst["stream"] = errors(made, exact(case, other))
    if not case.gradients:
        worst["graph"] = graphed(case, compiled)
        worst["rows"] = fewer_rows(case, backend)
    found["errors"] = worst
    found["right"] = all(e <= case.tolerance for e in worst.values())
    found["notes"] = [n for r in backend.report.regions for n in r.notes]
    return found


def graphed(case: Any, compiled: Any) -> float:
    """The error of a replay with other inputs than those at the capture."""
    import torch
    from torch_cases import exact, make_inputs, results

    with torch.no_grad():
        inputs = make_inputs(case, DEVICE, 4)
        results(case, compiled, inputs)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = results(case, compiled, inputs)
        other = make_inputs(case, DEVICE, 5)
        for x, y in zip(inputs, other, strict=True):
            x.copy_(y)
        for x in made:
            x.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        return errors(made, exact(case, other))


def fewer_rows(case: Any, backend: Any) -> float:
    """The error for one row less, where all sizes are unknown when the function is compiled."""
    import torch
    from torch_cases import exact, make_inputs, results

    compiled = torch.compile(case.function, backend=backend, dynamic=True)
    rows = case.shapes[0][0] - 1
    inputs = [
        x[:rows].contiguous() if k in case.rows else x for k, x in enumerate(make_inputs(case, DEVICE, 6))
    ]
    return errors(results(case, compiled, inputs), exact(case, inputs))


def speed(name: str) -> dict[str, Any]:
    """Microseconds of CUDA graph replays, and of a call without one."""
    import torch
    from torch_cases import CASES, make_inputs, results

    import syncverify.torch as sv

    case, backend = CASES[name], sv.make_backend()
    arms: dict[str, Any] = {
        "ours": torch.compile(case.function, backend=backend),
        "eager": case.function,
        "inductor": torch.compile(case.function),
    }
    graphs: dict[str, Any] = {}
    calls: dict[str, float] = {}
    with torch.no_grad():
        inputs = [x.detach() for x in make_inputs(case, DEVICE)]
        plain = type(case)(case.function, case.shapes, case.dtype, case.tolerance)
        for arm, function in arms.items():
            if arm == "inductor":
                torch._dynamo.reset()
            for _ in range(3):
                results(plain, function, inputs)
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(20):
                results(plain, function, inputs)
            calls[arm] = (time.perf_counter() - start) / 20 * 1e6
            torch.cuda.synchronize()
            graphs[arm] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[arm]):
                for _ in range(4):
                    results(plain, function, inputs)
    times: dict[str, list[float]] = {arm: [] for arm in graphs}
    for _ in range(12):
        for arm, graph in graphs.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times[arm].append(begin.elapsed_time(end) * 1e3 / 4)
    median = {arm: round(statistics.median(t), 2) for arm, t in times.items()}
    return {
        "case": name, "what": "speed", "microseconds": median,
        "call_microseconds": {arm: round(t, 1) for arm, t in calls.items()},
        "over_eager": round(median["eager"] / median["ours"], 3),
        "over_inductor": round(median["inductor"] / median["ours"], 3),
    }  # fmt: skip


def operators() -> dict[str, Any]:
    """The custom operators: torch's own check of them, gradients, a CUDA graph."""
    import torch
    import torch.nn.functional as F

    import syncverify.torch as sv
    from syncverify.fusion import Tensor, gelu, rms_norm, trace
    from syncverify.matmul import Problem

    def norm(x: Any, w: Any) -> Any:
        return rms_norm(x, w)

    def epilogue(acc: Any, bias: Any) -> Any:
        return gelu(acc + bias).cast("bf16")

    rows, weight = Tensor("bf16", ("R", "C")), Tensor("bf16", ("C",))
    normed = sv.custom_op(trace(norm, {"x": rows, "w": weight}), "bench_norm")
    parts = {"acc": Tensor("f32", ("M", "N")), "bias": Tensor("bf16", ("N",))}
    fused = sv.matmul_op(Problem("bench_linear", "bf16", "KK", trace(epilogue, parts)))

    def make(*shape: int, scale: float = 1.0) -> Any:
        x = torch.randn(shape, device=DEVICE) * scale
        return x.bfloat16().requires_grad_()

    x, w, bias = make(1000, 1024), make(1024), make(512)
    weights = make(512, 1024, scale=1 / 32)
    checks = {
        "norm": torch.library.opcheck(normed, (x, w)),
        "linear": torch.library.opcheck(fused, (x, weights.t(), bias)),
    }
    y = fused(normed(x, w), weights.t(), bias)
    y.sum().backward()
    wide = [t.detach().double().requires_grad_() for t in (x, w, weights, bias)]
    want = F.gelu(F.rms_norm(wide[0], (1024,), wide[1], 1e-6) @ wide[2].t() + wide[3])
    want.sum().backward()
    grads = [t.grad for t in (x, w, weights, bias)]
    worst = errors([y.detach(), *grads], [want.detach(), *(t.grad for t in wide)])
    with torch.no_grad():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = fused(normed(x, w), weights.t(), bias)
        made.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
    replay = errors([made], [want.detach()])
    good = all(v == "SUCCESS" for c in checks.values() for v in c.values())
    return {
        "case": "operators", "what": "operators", "opcheck": checks, "error": worst, "graph_error": replay,
        "right": good and worst < 2e-2 and replay < 2e-2,
    }  # fmt: skip


# ---------------------------------------------------------------- processes


def child(what: str, names: list[str]) -> None:
    """Runs cases, a line of JSON for each."""
    steps = {"prove": prove, "correct": correct, "speed": speed}
    for name in names:
        try:
            found = operators() if name == "operators" else steps[what](name)
        except Exception as e:
            found = {"case": name, "what": what, "failed": f"{type(e).__name__}: {e}"[:2000]}
            if what != "prove":
                found["right"] = False
        print(json.dumps(found), flush=True)
        if "CUDA" in str(found.get("failed", "")):
            # the context may be broken: the rest in another process
            sys.exit(1)


def supervised(what: str, names: list[str], until: float) -> list[dict[str, Any]]:
    """Cases in a child process, and those behind one that killed it in another."""
    rows: list[dict[str, Any]] = []
    waiting = list(names)
    while waiting and time.monotonic() < until:
        command = [sys.executable, __file__, "--child", what, "--cases", ",".join(waiting)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            deadline = min(until, time.monotonic() + PATIENCE)
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
            text = ""
            while process.poll() is None and time.monotonic() < deadline:
                text += process.stdout.read() or ""
                *lines, text = text.split("\n")
                for line in lines:
                    if line.startswith("{"):
                        rows.append(json.loads(line))
                        waiting.remove(rows[-1]["case"])
                        deadline = min(until, time.monotonic() + PATIENCE)
                        print(line[:400], flush=True)
                time.sleep(0.05)
            late = process.poll() is None
            process.kill()
            text += process.stdout.read() or ""
        for line in text.split("\n"):
            if line.startswith("{"):
                rows.append(json.loads(line))
                waiting.remove(rows[-1]["case"])
                print(line[:400], flush=True)
        if waiting and process.returncode != 0 and time.monotonic() < until and not _failed(rows):
            why = "took too long" if late else f"died with {process.returncode}"
            rows.append({"case": waiting.pop(0), "what": what, "failed": why, "right": False})
    rows += [{"case": n, "what": what, "skipped": "no time left"} for n in waiting]
    return rows


def _failed(rows: list[dict[str, Any]]) -> bool:
    """Whether the last case ended its process by itself."""
    return bool(rows) and "failed" in rows[-1]


def main() -> None:
    from torch_cases import CASES

    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--seconds", type=float, default=170)
    parser.add_argument("--cases", default="")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--child", choices=["prove", "correct", "speed"])
    given = parser.parse_args()
    names = given.cases.split(",") if given.cases else list(CASES)
    if given.child:
        child(given.child, names)
        return
    until = time.monotonic() + given.seconds
    # the slowest first
    ordered = sorted(names, key=lambda n: ("mlp" not in n and n not in ("block", "residual_linear"), n))
    rows = prepare(ordered, given.jobs)
    if not given.prepare:
        rows += supervised("correct", [*names, "operators"], until)
        rows += supervised("speed", [n for n in names if not CASES[n].gradients], until)
        good = [r for r in rows if r.get("right")]
        bad = [r["case"] for r in rows if r.get("right") is False]
        print(json.dumps({"right": len(good), "wrong_or_failed": bad}))
    Path(given.out).mkdir(parents=True, exist_ok=True)
    path = Path(given.out) / "torch_backend.json"
    path.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
