"""Casts to 8 bits, dropout, rotary embedding, transposes and the elementwise functions, on a Hopper GPU.

    python benchmarks/fusion_more.py --prepare [--jobs 2]    # compiles and proves all, without a GPU
    python benchmarks/fusion_more.py --out results [--seconds 150] [--cases A,B] [--what correct,speed]

Results of ragged sizes are compared with float64 for three seeds, over outputs that were poisoned; then
times beside a copy of as many bytes. Needs torch on the GPU. Cases run in a child process, which is killed
when it takes too long and started anew behind the case that it was at. Writes fusion_more.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import numpy as np  # noqa: E402

from syncverify import gate  # noqa: E402
from syncverify.examples import functions  # noqa: E402
from syncverify.examples import fusions as examples  # noqa: E402
from syncverify.fusion import Fusion, Schedule  # noqa: E402

#: Largest error of a row, relative to the row, by element type.
LIMIT = {"f32": 1e-4, "bf16": 2e-2, "e4m3": 2.0**-4, "e5m2": 2.0**-3, "i32": 0.0, "bool": 0.0}
Sizes = dict[str, int]


@dataclass(frozen=True)
class Case:
    """A fusion, sizes whose results are compared, and those that are timed."""

    make: Callable[[], Fusion]
    ragged: tuple[Sizes, ...]
    timed: tuple[Sizes, ...] = ()
    schedule: Schedule | None = None
    spread: float = 3.0


def grids(*sizes: tuple[int, ...], dims: str = "RC") -> tuple[Sizes, ...]:
    return tuple(dict(zip(dims, s, strict=True)) for s in sizes)


RAGGED = grids((1, 1), (37, 1000), (131, 4096), (257, 777))
EVEN = grids((1, 2), (37, 1000), (131, 4096), (257, 778))
BIG = grids((16384, 8192))
STREAM = Schedule(cache="streaming")
HEADS = grids((3, 5, 128), (129, 7, 96), (31, 3, 34), (7, 1, 256), dims="THD")

CASES: dict[str, Case] = {
    "quantize": Case(lambda: examples.quantize, RAGGED, BIG, STREAM, 400.0),
    "dequantize": Case(lambda: examples.dequantize, RAGGED, BIG, STREAM),
    "dropout_mask": Case(lambda: examples.dropout_mask, RAGGED, BIG, STREAM),
    "dropout_add": Case(lambda: examples.dropout_add, RAGGED, BIG, STREAM),
    "rotary_pairs": Case(lambda: examples.rotary_pairs, EVEN, BIG, STREAM),
    "rotary_halves": Case(lambda: examples.rotary_halves, HEADS, grids((32768, 32, 128), dims="THD"), STREAM),
    "masked_count": Case(lambda: examples.masked_count, RAGGED, BIG, STREAM),
    "transposed": Case(lambda: examples.transposed, RAGGED, BIG),
    "bias_relu_transposed": Case(lambda: examples.bias_relu_transposed, RAGGED, BIG),
    "quantize_both": Case(lambda: examples.quantize_both, RAGGED, BIG, None, 400.0),
    "batch_transposed": Case(
        lambda: examples.batch_transposed,
        grids((3, 72, 136), (2, 65, 33), (5, 256, 64), dims="BRC"),
        grids((64, 2048, 1024), dims="BRC"),
    ),
}
for _dtype in ("f32", "bf16"):
    for _k in range(3):
        CASES[f"functions_{_dtype}_{_k}"] = Case(
            lambda d=_dtype, k=_k: functions.many(d, tuple(functions.FUNCTIONS)[12 * k : 12 * k + 12]),  # type: ignore[misc]
            grids((37, 1000), (5, 333)),
        )


def compiled(name: str) -> gate.CompiledKernel:
    case = CASES[name]
    kernel = gate.compile(case.make(), case.schedule)
    assert isinstance(kernel, gate.CompiledKernel), "one kernel does each case"
    return kernel


def prepare(names: list[str], jobs: int) -> int:
    """Compiles and proves every kernel that the cases run; the number of failures."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        failures = 0
        for failed, text in pool.map(prepared, names):
            failures += failed
            print(text, flush=True)
    return failures


def prepared(name: str) -> tuple[bool, str]:
    """Compiles and proves the kernels of a case; whether that failed, and a line that says so."""
    start = time.time()
    try:
        kernel = compiled(name)
        for sizes in (*CASES[name].ragged, *CASES[name].timed):
            kernel.program(sizes).require_proof(kernel.launch_values(sizes))
    except Exception as e:
        return True, f"{name} {type(e).__name__}: {e}"[:600]
    undecided = sorted({s for p in kernel.programs.values() for s in p.undecided})
    scope = f"for each launch: {undecided}" if undecided else "for every size"
    return False, f"{name} proved {scope}, {len(kernel.programs)} kernels, {time.time() - start:.1f} s"


# ---------------------------------------------------------------- on the GPU


def torch_type(dtype: str) -> Any:
    import torch

    names = {
        "f32": "float32", "bf16": "bfloat16", "f16": "float16", "e4m3": "float8_e4m3fn",
        "e5m2": "float8_e5m2", "i32": "int32", "i64": "int64", "bool": "bool",
    }  # fmt: skip
    return getattr(torch, names[dtype])


def inputs(case: Case, fusion: Fusion, sizes: Sizes, seed: int) -> dict[str, Any]:
    import torch

    torch.manual_seed(seed)
    made = {}
    for name, t in fusion.inputs:
        shape = [sizes[d] for d in t.dims]
        kind = torch_type(t.dtype)
        if t.dtype == "i64":
            made[name] = torch.randint(0, 2**62, shape, device="cuda")
        elif t.dtype == "i32":
            made[name] = torch.randint(-1000, 1000, shape, device="cuda", dtype=kind)
        elif t.dtype == "bool":
            made[name] = torch.rand(shape, device="cuda") < 0.5
        else:
            spread = case.spread if t.dims == fusion.dims else 1.0
            made[name] = (torch.randn(shape, device="cuda") * spread).to(kind)
    return made


def poisoned(fusion: Fusion, sizes: Sizes) -> tuple[Any, ...]:
    """Outputs whose bytes no result has: NaN, or truth values of 0x55."""
    import torch

    found = []
    for o in fusion.outputs:
        x = torch.empty([sizes[d] for d in o.dims], device="cuda", dtype=torch_type(o.dtype))
        x.view(torch.uint8).fill_(0x55 if o.dtype == "bool" else 0xFF if o.dtype != "i32" else 0x7F)
        found.append(x)
    return tuple(found)


def on_host(x: Any) -> Any:
    """A tensor as NumPy has it; truth values as their bytes."""
    import torch

    if x.dtype is torch.bool:
        return x.view(torch.uint8).cpu().numpy()
    return x.float().double().cpu().numpy() if x.is_floating_point() else x.cpu().numpy()


def worst_row(got: Any, want: Any) -> float:
    """The largest error of a row, relative to the row."""
    got, want = (np.asarray(x, np.float64).reshape(-1, x.shape[-1]) for x in (got, want))
    error = np.linalg.norm(got - want, axis=1) / np.maximum(np.linalg.norm(want, axis=1), 1e-30)
    return float(np.max(np.where(np.isfinite(error), error, np.inf), initial=0.0))


def correct(name: str) -> dict[str, Any]:
    """Every result of the ragged sizes, for three seeds, against float64."""
    import torch

    case = CASES[name]
    kernel = compiled(name)
    fusion = kernel.fusion
    worst = {o.name: 0.0 for o in fusion.outputs}
    launches = 0
    for seed in range(3):
        for sizes in case.ragged:
            given = inputs(case, fusion, sizes, seed)
            want = fusion.reference({n: _as_bool(on_host(x), x) for n, x in given.items()}, np.float64)
            out = poisoned(fusion, sizes)
            kernel(**given, out=out)
            torch.cuda.synchronize()
            launches += 1
            for o, g, w in zip(fusion.outputs, out, want, strict=True):
                got = on_host(g)
                if LIMIT[o.dtype] == 0.0:
                    error = float(np.any(got != np.asarray(w).astype(got.dtype)))
                else:
                    error = worst_row(got, _saturated(np.asarray(w), o.dtype))
                worst[o.name] = max(worst[o.name], error)
    limits = {o.name: LIMIT[o.dtype] for o in fusion.outputs}
    return {
        "errors": worst, "limits": limits, "launches": launches,
        "ok": all(worst[n] <= limits[n] for n in worst),
    }  # fmt: skip


def _as_bool(array: Any, x: Any) -> Any:
    return array.astype(np.bool_) if str(x.dtype) == "torch.bool" else array


def _saturated(x: Any, dtype: str) -> Any:
    from syncverify.fusion.functions import LARGEST

    return np.clip(x, -LARGEST[dtype], LARGEST[dtype]) if dtype in LARGEST else x


def speed(name: str, sizes: Sizes) -> dict[str, Any]:
    """Time per call in a graph of calls on different data, alternating with a copy of as many bytes."""
    import torch

    case = CASES[name]
    kernel = compiled(name)
    sets = [inputs(case, kernel.fusion, sizes, s) for s in range(2)]
    outs = [poisoned(kernel.fusion, sizes) for _ in sets]
    moved = sum(x.nbytes for x in (*sets[0].values(), *outs[0]))
    half = moved // 2 // 4
    a, b = torch.randn(half, device="cuda"), torch.empty(half, device="cuda")

    def ours() -> None:
        for g, o in zip(sets, outs, strict=True):
            kernel(**g, out=o)

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
    for turn in range(10):
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
        "fraction": round(moved / mine / (8 * half / theirs), 3),
    }  # fmt: skip


def child(names: list[str], what: list[str]) -> None:
    """Runs the cases, a line of JSON for each point."""
    for name in names:
        points: list[tuple[str, Sizes]] = [("correct", {})] if "correct" in what else []
        points += [("speed", s) for s in CASES[name].timed] if "speed" in what else []
        for kind, sizes in points:
            line: dict[str, Any] = {"case": name, "what": kind, "sizes": sizes}
            print(json.dumps({"begins": name}), flush=True)
            start = time.time()
            try:
                line |= correct(name) if kind == "correct" else speed(name, sizes)
            except Exception as e:  # one point's trouble is no other's, and the parent reports it
                line["failed"] = f"{type(e).__name__}: {e}"[:400]
            line["seconds"] = round(time.time() - start, 1)
            print(json.dumps(line), flush=True)
            if "CUDA" in line.get("failed", ""):
                sys.exit(1)  # the context is lost


def parent(names: list[str], what: str, seconds: float, out: Path) -> int:
    end = time.time() + seconds
    results: list[dict[str, Any]] = []
    left = list(names)
    while left and end - time.time() > 5:
        command = [sys.executable, __file__, "--child", ",".join(left), "--what", what]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            text, _ = process.communicate(timeout=end - time.time())
        except subprocess.TimeoutExpired:
            process.kill()
            text, _ = process.communicate()
        lines = [json.loads(x) for x in text.splitlines() if x.startswith("{")]
        results += [x for x in lines if "case" in x]
        begun = [x["begins"] for x in lines if "begins" in x]
        last = begun[-1] if begun else left[0]
        if process.returncode:
            results.append({"case": last, "failed": f"the process ended with {process.returncode}"})
        left = left[left.index(last) + 1 :]
    results += [{"case": name, "failed": "no time left"} for name in left]
    out.mkdir(parents=True, exist_ok=True)
    (out / "fusion_more.json").write_text(json.dumps(results, indent=1))
    for r in results:
        print(json.dumps(r))
    right = [r for r in results if r.get("what") == "correct"]
    bad = [r for r in results if "failed" in r or r.get("ok") is False]
    print(f"correct: {sum(r.get('ok', False) for r in right)} of {len(right)}; failures: {len(bad)}")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--what", default="correct,speed")
    parser.add_argument("--child")
    args = parser.parse_args()
    if args.child:
        child(args.child.split(","), args.what.split(","))
        return 0
    names = args.cases.split(",")
    if args.prepare:
        return min(prepare(names, args.jobs), 1)
    return parent(names, args.what, args.seconds, args.out)


if __name__ == "__main__":
    sys.exit(main())
