"""``torch.compile(backend="syncverify")`` on a Hopper GPU: correct against float64, then time.

    python benchmarks/hardware/torch_backend.py --out DIR [--seconds 170] [--cases rms_norm,block] [--jobs 14]
    python benchmarks/hardware/torch_backend.py --prepare [--jobs 2]      # compiles and proves only,
        without a GPU

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
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.compiler.children import strided, supervised  # noqa: E402

DEVICE = "cuda"
#: Seconds that one case may take, with inductor's compilation.
PATIENCE = 75
#: Children that compare results at once.
WORKERS = 3


def prove(name: str) -> dict[str, Any]:
    """Compiles and proves the kernels of one case on fake tensors."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    import syncverify.torch as sv
    from benchmarks.compiler.torch_cases import CASES, make_inputs, results

    case, backend = CASES[name], sv.make_backend({"runner": "prove"})
    # autograd asks for the device of CUDA tensors, fake ones too
    device = DEVICE if torch.cuda.is_available() else "cpu"
    start = time.perf_counter()
    with FakeTensorMode():
        inputs = [
            torch.empty(x.shape, dtype=x.dtype, device=device).requires_grad_(x.requires_grad)
            for x in make_inputs(case, "meta")
        ]
        results(case, torch.compile(case.function, backend=backend), inputs)
    return {
        "case": name, "what": "prepare", "seconds": round(time.perf_counter() - start, 2),
        "kernels": len(backend.report.regions), "refused": [r.refused for r in backend.report.refused],
    }  # fmt: skip


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

    import syncverify.torch as sv
    from benchmarks.compiler.torch_cases import CASES, exact, make_inputs, results

    case, backend = CASES[name], sv.make_backend({"use": "always"})
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

    from benchmarks.compiler.torch_cases import exact, make_inputs, results

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

    from benchmarks.compiler.torch_cases import exact, make_inputs, results

    compiled = torch.compile(case.function, backend=backend, dynamic=True)
    rows = case.shapes[0][0] - 1
    inputs = [
        x[:rows].contiguous() if k in case.rows else x for k, x in enumerate(make_inputs(case, DEVICE, 6))
    ]
    return errors(results(case, compiled, inputs), exact(case, inputs))


def speed(name: str) -> dict[str, Any]:
    """Microseconds of CUDA graph replays, and of a call without one."""
    import torch

    import syncverify.torch as sv
    from benchmarks.compiler.torch_cases import CASES, make_inputs, results

    case, backend = CASES[name], sv.make_backend({"use": "always"})
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
        print(json.dumps({"begins": name}), flush=True)
        try:
            found = operators() if name == "operators" else steps[what](name)
        except Exception as e:
            found = {"case": name, "what": what, "failed": f"{type(e).__name__}: {e}"[:2000]}
        print(json.dumps(found), flush=True)
        if "CUDA" in str(found.get("failed", "")):
            # the context may be broken: the rest in another process
            sys.exit(1)


def command(what: str) -> Any:
    return lambda names: [sys.executable, __file__, "--child", what, "--cases", ",".join(names)]


def main() -> None:
    from benchmarks.compiler.torch_cases import CASES

    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--seconds", type=float, default=170, help="on the GPU, behind the proofs")
    parser.add_argument("--prove-seconds", type=float, default=300)
    parser.add_argument("--cases", default="")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--child", choices=["prove", "correct", "speed"])
    given = parser.parse_args()
    names = given.cases.split(",") if given.cases else [*CASES, "operators"]
    if given.child:
        child(given.child, names)
        return
    # the slowest first
    cases = [n for n in names if n in CASES]
    ordered = sorted(cases, key=lambda n: ("mlp" not in n and n not in ("block", "residual_linear"), n))
    start = time.monotonic()
    limit = 1e9 if given.prepare else given.prove_seconds
    rows = supervised(command("prove"), [[n] for n in ordered], start + limit, 540, given.jobs)
    print(f"proved in {time.monotonic() - start:.0f} s", flush=True)
    if not given.prepare:
        until = time.monotonic() + given.seconds
        rows += supervised(command("correct"), strided(names, WORKERS), until, PATIENCE, WORKERS)
        timed = [n for n in cases if not CASES[n].gradients]
        rows += supervised(command("speed"), [timed], until, PATIENCE)
        bad = [r["case"] for r in rows if r.get("right") is False or "failed" in r]
        print(f"wrong or failed: {bad or 'none'}")
        print(f"{sum(r.get('right', False) for r in rows)} cases right of {len(names)}")
    else:
        bad = [r["case"] for r in rows if "failed" in r or r["refused"]]
        print(f"{len(rows)} cases, refused or failed: {bad or 'none'}")
    path = Path(given.out) / "torch_backend.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
