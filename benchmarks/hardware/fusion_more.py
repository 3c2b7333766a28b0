"""Every fusion, on a Hopper GPU: right against float64, then time beside a copy of as many bytes.

    python benchmarks/hardware/fusion_more.py --prepare [--jobs 2]    # compiles and proves all, without a GPU
    python benchmarks/hardware/fusion_more.py --out DIR [--seconds 150] [--jobs 14] [--cases A,B] [--what \
        speed]

Casts, dropout, rotary embedding, transposes, all functions; normalizations, softmax and losses along rows;
long rows, columns, several dimensions, several kernels. First all kernels are compiled and proved, by --jobs
children (--prove-seconds at most); then --seconds begin. Results of ragged sizes are compared with float64
for three seeds, over outputs that were poisoned. Cases run in children that are killed when they stall. Needs
torch on the GPU. Writes DIR/fusion_more.json; the last line says how many cases are right.
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

import numpy as np  # noqa: E402

from benchmarks.compiler.children import strided, supervised  # noqa: E402
from benchmarks.compiler.fusion_more_cases import CASES, Case, Sizes  # noqa: E402
from syncverify import gate  # noqa: E402
from syncverify.fusion import Fusion  # noqa: E402

#: Largest error of a row, relative to the row, by element type.
LIMIT = {
    "f32": 1e-4, "bf16": 2e-2, "f16": 3e-3, "e4m3": 2.0**-4, "e5m2": 2.0**-3, "i32": 0.0, "bool": 0.0
}  # fmt: skip
SEEDS = (0, 1, 2)
DEVICE = "cuda"
#: Seconds without a word after which a child is killed: of proofs, and on the GPU.
PROOF_PATIENCE, PATIENCE = 600.0, 45.0
#: Children that compare results at once.
WORKERS = 4


def compiled(name: str) -> Any:
    case = CASES[name]
    return gate.compile(case.make(), case.schedule)


def prove(name: str) -> dict[str, Any]:
    """Compiles and proves the kernels of a case, for all its sizes."""
    start = time.perf_counter()
    kernel, scopes, count = compiled(name), set(), 0
    for sizes in (*CASES[name].ragged, *CASES[name].timed):
        for program, values in launches(kernel, sizes):
            program.require_proof(values)
            scopes |= {f"{stage} {report.scope.kind}" for stage, report in program.proofs.items()}
            count += 1
    seconds = round(time.perf_counter() - start, 1)
    every = all(s.endswith("all") for s in scopes)
    return {"scopes": sorted(scopes), "every_size": every, "launches": count, "seconds": seconds}


def launches(kernel: Any, sizes: Sizes) -> list[tuple[gate.Program, dict[str, int]]]:
    """The kernels that make the results, and their parameters on an H200."""
    if isinstance(kernel, gate.CompiledKernel):
        return [(kernel.program(sizes), kernel.launch_values(sizes))]
    stages: list[tuple[gate.Program, dict[str, int]]] = kernel.launches(sizes)
    return stages


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
            made[name] = torch.randint(0, 2**62, shape, device=DEVICE)
        elif t.dtype == "i32":
            made[name] = torch.randint(-1000, 1000, shape, device=DEVICE, dtype=kind)
        elif t.dtype == "bool":
            made[name] = torch.rand(shape, device=DEVICE) < 0.5
        else:
            spread = case.spread if t.dims == fusion.dims else 1.0
            made[name] = (torch.randn(shape, device=DEVICE) * spread + case.mean).to(kind)
    return made


def poisoned(fusion: Fusion, sizes: Sizes) -> tuple[Any, ...]:
    """Outputs whose bytes no result has: NaN, or truth values of 0x55."""
    import torch

    found = []
    for o in fusion.outputs:
        x = torch.empty([sizes[d] for d in o.dims], device=DEVICE, dtype=torch_type(o.dtype))
        byte = {"bool": 0x55, "i32": 0x7F}.get(o.dtype, 0xFF)
        x.reshape(-1).view(torch.uint8).fill_(byte)
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
    got, want = (np.atleast_1d(np.asarray(x, np.float64)) for x in (got, want))
    got, want = (x.reshape(-1, x.shape[-1]) for x in (got, want))
    same = np.isinf(want) & (got == want)  # as 1 / 0 is
    got, want = np.where(same, 0.0, got), np.where(same, 0.0, want)
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
    for seed in SEEDS:
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
    a, b = torch.randn(half, device=DEVICE), torch.empty(half, device=DEVICE)

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


def child(names: list[str], what: str) -> None:
    """Runs cases, a line of JSON for each."""
    if what != "prove":
        import torch  # noqa: F401  # its import is no case's time
    for name in names:
        print(json.dumps({"begins": name}), flush=True)
        for sizes in CASES[name].timed if what == "speed" else [{}]:
            line: dict[str, Any] = {"case": name, "what": what}
            start = time.perf_counter()
            try:
                if what == "speed":
                    line |= {"sizes": sizes, **speed(name, sizes)}
                else:
                    line |= prove(name) if what == "prove" else correct(name)
            except Exception as e:  # one case's trouble is no other's, and the parent reports it
                line["failed"] = f"{type(e).__name__}: {e}"[:600]
            line.setdefault("seconds", round(time.perf_counter() - start, 1))
            print(json.dumps(line), flush=True)
            if "CUDA" in line.get("failed", ""):
                sys.exit(1)  # the context is lost


def command(what: str) -> Any:
    return lambda names: [sys.executable, __file__, "--child", what, "--cases", ",".join(names)]


def on_gpu(names: list[str], what: list[str], seconds: float) -> list[dict[str, Any]]:
    """Right results first, several children at once; then times, one child alone."""
    rows: list[dict[str, Any]] = []
    until = time.monotonic() + seconds
    if "correct" in what:
        rows += supervised(command("correct"), strided(names, WORKERS), until, PATIENCE, WORKERS)
    if "speed" in what:
        timed = [n for n in names if CASES[n].timed]
        rows += supervised(command("speed"), [timed], until, PATIENCE)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--prove-seconds", type=float, default=360.0)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--what", default="correct,speed")
    parser.add_argument("--child", choices=["prove", "correct", "speed"])
    args = parser.parse_args()
    names = args.cases.split(",")
    if args.child:
        child(names, args.child)
        return 0
    start = time.monotonic()
    limit = 1e9 if args.prepare else args.prove_seconds
    rows = supervised(command("prove"), [[n] for n in names], start + limit, PROOF_PATIENCE, args.jobs)
    proved = [r["case"] for r in rows if "failed" not in r]
    print(f"proved: {len(proved)} of {len(names)} in {time.monotonic() - start:.0f} s", flush=True)
    if not args.prepare:
        rows += on_gpu(proved, args.what.split(","), args.seconds)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "fusion_more.json").write_text(json.dumps(rows, indent=1))
    return summary(rows, names)


def summary(rows: list[dict[str, Any]], names: list[str]) -> int:
    failed = [f"{r['case']}: {r['failed']}" for r in rows if "failed" in r]
    wrong = [r["case"] for r in rows if r.get("ok") is False]
    some = [r["case"] for r in rows if r.get("every_size") is False]
    fast = [r["fraction"] for r in rows if "fraction" in r]
    print("\n".join(["failed:", *failed] if failed else []))
    print(f"not proved for every size: {some or 'none'}; wrong: {wrong or 'none'}")
    if fast:
        print(f"fraction of the copy: geomean {statistics.geometric_mean(fast):.3f} of {len(fast)} points")
    print(f"{sum(r.get('ok', False) for r in rows)} cases right of {len(names)}")
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
