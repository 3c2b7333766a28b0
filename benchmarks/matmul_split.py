"""Products of few tiles and long sums on a Hopper GPU: blocks that share the steps along K, beside cuBLAS.

    python benchmarks/bench_matmul.py split --out FOLDER [--seconds 170]

Correctness first (ragged and tiny sizes, poisoned results, some a hundred times over, eager and in replayed
graphs, on two streams at once), then times. Inputs rotate, so that none is in the cache when its turn comes;
all candidates of a shape and cuBLAS take turns, medians. Nothing is proved here:
``matmul_launches.py --split`` proves the same launches on any machine.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from syncverify.gate_matmul import CompiledMatmul
from syncverify.matmul import Schedule, product

Arm = Callable[[Any, Any, Any], Any]
TWO, THREE = (40, 232), (32, 160)
SCHEDULES = {
    "128x256t": Schedule(128, 256, registers=TWO, store="tma"),
    "128x256pt": Schedule(128, 256, registers=TWO, store="tma", persistent=True),
    "128x192t": Schedule(128, 192, registers=TWO, store="tma"),
    "128x192pt": Schedule(128, 192, registers=TWO, store="tma", persistent=True),
    "128x128t": Schedule(128, 128, store="tma"),
    "128x64t": Schedule(128, 64, store="tma"),
    "64x64t": Schedule(64, 64, consumers=1, store="tma"),
    "128x256t/2": Schedule(128, 256, registers=TWO, store="tma", split_k=2),
    "128x256t/3": Schedule(128, 256, registers=TWO, store="tma", split_k=3),
    "128x256t/4": Schedule(128, 256, registers=TWO, store="tma", split_k=4),
    "128x256t/4 any": Schedule(128, 256, registers=TWO, store="tma", split_k=4, sums="any"),
    "128x256t/8": Schedule(128, 256, registers=TWO, store="tma", split_k=8),
    "128x256/2": Schedule(128, 256, registers=TWO, split_k=2),
    "128x256/3": Schedule(128, 256, registers=TWO, split_k=3),
    "256x128t/2": Schedule(256, 128, registers=TWO, store="tma", split_k=2),
    "256x128t/3": Schedule(256, 128, registers=TWO, store="tma", split_k=3),
    "256x128t/5": Schedule(256, 128, registers=TWO, store="tma", split_k=5),
    "128x192t/3": Schedule(128, 192, registers=TWO, store="tma", split_k=3),
    "192x192t/3": Schedule(192, 192, consumers=3, registers=THREE, store="tma", split_k=3),
    "128x192t/6": Schedule(128, 192, registers=TWO, store="tma", split_k=6),
    "128x128t/2": Schedule(128, 128, store="tma", split_k=2),
    "128x128t/4": Schedule(128, 128, store="tma", split_k=4),
    "128x128t/4 any": Schedule(128, 128, store="tma", split_k=4, sums="any"),
    "64x64t/2": Schedule(64, 64, consumers=1, store="tma", split_k=2),
    "64x128t/4": Schedule(64, 128, consumers=1, store="tma", split_k=4),
    "64x128t/4 any": Schedule(64, 128, consumers=1, store="tma", split_k=4, sums="any"),
    "64x256t/8": Schedule(64, 256, consumers=1, store="tma", split_k=8),
}
#: What is timed: the best without a split first.
SPEED: dict[tuple[int, int, int, str], tuple[str, ...]] = {
    (3648, 480, 8632, "MN"): (
        "128x128t", "128x256t/2", "128x256/2", "256x128t/2", "192x192t/3", "128x192t/3",
    ),
    (1176, 1840, 44280, "MN"): ("128x192t", "256x128t/5", "128x256t/3", "128x256t/8", "256x128t/3"),
    (4096, 2112, 7168, "KK"): ("128x192pt", "128x192t/3", "128x192t/6", "128x256t/2", "128x256t/3"),
    (64, 4096, 4096, "KK"): ("64x64t", "64x64t/2", "64x128t/4", "64x128t/4 any", "64x256t/8"),
    (128, 7168, 2048, "KK"): ("128x64t", "128x128t/2", "128x256t/4", "128x256t/4 any", "128x192t/3"),
}  # fmt: skip
#: Ragged and tiny sizes; those that a layout's or an output's 16-byte rows do not allow are left out.
SHAPES = [
    (1, 8, 8), (8, 16, 24), (129, 136, 72), (333, 328, 2056), (1000, 1000, 1000), (63, 4104, 200),
    (2048, 120, 8192), (300, 80, 136), (4096, 2112, 7168),
]  # fmt: skip
#: Schedules whose results are compared, and sizes that are computed a hundred times over.
COMPARED = (
    "128x256t/2", "128x256/3", "128x192t/3", "256x128t/5", "192x192t/3", "64x64t/2", "64x128t/4 any",
    "128x128t/4", "128x128t/4 any", "128x192t/6",
)  # fmt: skip
STREAMS = "128x128t/4"
AGAIN = [(333, 328, 2056), (129, 136, 72)]


def jobs() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for shape, names in SPEED.items():
        cases = [[*shape, name] for name in names]
        found.append({"what": "split speed", "schedule": " ".join(map(str, shape)), "shapes": cases})
    correct: list[dict[str, Any]] = []
    for names in (COMPARED[:1], COMPARED[1:4], COMPARED[4:7], COMPARED[7:]):
        cases = []
        for name in names:
            layouts = ("KK", "MN", "MK", "KN") if name == COMPARED[0] else ("KK", "MN")
            cases += [[*s, x, 3, name] for x in layouts for s in SHAPES if allowed(*s, x, SCHEDULES[name])]
            cases += [[*s, "KK", 100, name] for s in AGAIN]
        correct.append({"what": "split correct", "schedule": " ".join(names), "shapes": cases})
    streams = {"what": "split streams", "schedule": STREAMS, "shapes": [[333, 328, 2056, "KK", 50, STREAMS]]}
    # a wrong kernel is found before it is timed
    return [correct[0], *found, streams, *correct[1:]]


def allowed(m: int, n: int, k: int, layout: str, schedule: Schedule) -> bool:
    if schedule.store == "tma" and n % 8:
        return False
    return (m if layout[0] == "M" else k) % 8 == 0 and (k if layout[1] == "K" else n) % 8 == 0


def child(torch: Any, job: dict[str, Any]) -> None:
    """A line of JSON for each finding."""
    if job["what"] == "split speed":
        _times(torch, job["shapes"])
        return
    for m, n, k, layout, repeats, name in job["shapes"]:
        try:
            kernel = _kernel(layout, name)
            check = _streams if job["what"] == "split streams" else _compare
            found = check(torch, kernel, m, n, k, layout, repeats)
        except Exception as e:
            found = {"ok": False, "error": f"{type(e).__name__}: {e}"[:400]}
        place = {"m": m, "n": n, "k": k, "layout": layout, "repeats": repeats, "name": name}
        print(json.dumps({**place, **found}), flush=True)
        if "CUDA" in found.get("error", ""):
            return


@lru_cache(maxsize=64)
def _kernel(layout: str, name: str) -> CompiledMatmul:
    return CompiledMatmul(product(layout=layout), SCHEDULES[name])


def factors(torch: Any, m: int, n: int, k: int, layout: str) -> tuple[Any, Any]:
    def made(rows: int, columns: int, along_rows: bool) -> Any:
        shape = (columns, rows) if along_rows else (rows, columns)
        x = torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
        return x.t() if along_rows else x

    return made(m, k, layout[0] == "M"), made(k, n, layout[1] == "K")


def difference(torch: Any, out: Any, want: Any) -> dict[str, Any]:
    """Over all of C: the greatest and the relative deviation."""
    rms = want.square().mean().sqrt().clamp_min(1e-30)
    error = out.float() - want
    worst, relative = float(error.abs().max() / rms), float(error.norm() / want.norm().clamp_min(1e-30))
    return {"ok": bool(worst < 0.25 and relative < 1e-2), "worst_rms": worst, "relative": relative}


def _compare(
    torch: Any, kernel: CompiledMatmul, m: int, n: int, k: int, layout: str, repeats: int
) -> dict[str, Any]:
    """Several times into a poisoned result; every run of an ordered sum gives the same bits."""
    a, b = factors(torch, m, n, k, layout)
    want = (a @ b).float()
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    found: dict[str, Any] = {"ok": True, "worst_rms": 0.0, "relative": 0.0}
    first, same = None, True
    for _ in range(repeats):
        out.fill_(float("nan"))
        kernel(a, b, out=out, proved=False)
        torch.cuda.synchronize()
        new = difference(torch, out, want)
        found = {
            "ok": found["ok"] and new["ok"], "worst_rms": max(found["worst_rms"], new["worst_rms"]),
            "relative": max(found["relative"], new["relative"]),
        }  # fmt: skip
        first = out.clone() if first is None else first
        same = same and bool(torch.equal(first, out))
    if kernel.schedule.sums == "ordered":
        found["ok"] = found["ok"] and same
    return {**found, "same bits": same}


def _streams(
    torch: Any, kernel: CompiledMatmul, m: int, n: int, k: int, layout: str, repeats: int
) -> dict[str, Any]:
    """Two streams and two replayed graphs at once: each has sums of its own."""
    pairs = [factors(torch, m, n, k, layout) for _ in range(4)]
    outs = [torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in pairs]
    streams = [torch.cuda.Stream() for _ in pairs]
    graphs = []
    torch.cuda.synchronize()
    for (a, b), out in zip(pairs[2:], outs[2:], strict=True):
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            kernel(a, b, out=out, proved=False)
    torch.cuda.synchronize()
    for _ in range(repeats):
        for i, s in enumerate(streams):
            with torch.cuda.stream(s):
                if i < 2:
                    kernel(*pairs[i], out=outs[i], proved=False)
                else:
                    graphs[i - 2].replay()
    torch.cuda.synchronize()
    found = [difference(torch, o, (a @ b).float()) for (a, b), o in zip(pairs, outs, strict=True)]
    return {
        "ok": all(f["ok"] for f in found), "worst_rms": max(f["worst_rms"] for f in found),
        "relative": max(f["relative"] for f in found),
    }  # fmt: skip


def _times(torch: Any, shapes: Sequence[Sequence[Any]]) -> None:
    m, n, k, layout = shapes[0][:4]
    size = 2 * (m * k + k * n + m * n)
    sets = max(1, min(8, -(-200_000_000 // size)))
    inputs = [factors(torch, m, n, k, layout) for _ in range(sets)]
    outs = [torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
    want = (inputs[0][0] @ inputs[0][1]).float()
    arms: dict[str, Arm] = {"cublas": lambda a, b, c: torch.mm(a, b, out=c)}
    checks: dict[str, dict[str, Any]] = {}
    for name in (s[4] for s in shapes):
        try:
            kernel = _kernel(layout, name)
            outs[0].fill_(float("nan"))
            kernel(*inputs[0], out=outs[0], proved=False)
            torch.cuda.synchronize()
            checks[name] = difference(torch, outs[0], want)
        except Exception as e:
            checks[name] = {"ok": False, "error": f"{type(e).__name__}: {e}"[:400]}
        if checks[name]["ok"]:
            arms[name] = _arm(kernel)
    medians = _medians(torch, arms, inputs, outs, 2.0 * m * n * k)
    for name, check in checks.items():
        found = dict(check)
        if name in medians:
            us, cublas = medians[name], medians["cublas"]
            found |= {"us": round(us, 2), "cublas_us": round(cublas, 2), "ratio": round(cublas / us, 4)}
            found |= {
                "tflops": round(2e-6 * m * n * k / us, 1),
                "cublas_tflops": round(2e-6 * m * n * k / cublas, 1),
            }
        print(json.dumps({"m": m, "n": n, "k": k, "layout": layout, "name": name, **found}), flush=True)


def _arm(kernel: CompiledMatmul) -> Arm:
    return lambda a, b, c: kernel(a, b, out=c, proved=False)


def _medians(
    torch: Any,
    arms: dict[str, Arm],
    inputs: Sequence[Any],
    outs: Sequence[Any],
    flops: float,
) -> dict[str, float]:
    """Microseconds of one call: graphs of calls on rotating inputs, all arms in turn."""
    calls = max(len(inputs), int(1e-3 / (flops / 500e12)) // len(inputs) * len(inputs))
    graphs = {}
    for name, call in arms.items():
        graphs[name] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[name]):
            for i in range(calls):
                a, b = inputs[i % len(inputs)]
                call(a, b, outs[i % len(inputs)])
    times: dict[str, list[float]] = {name: [] for name in arms}
    end = time.monotonic() + 2.5
    while time.monotonic() < end or len(times["cublas"]) < 8:
        for name, graph in graphs.items():
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            times[name].append(start.elapsed_time(stop) * 1e3 / calls)
    return {name: statistics.median(t[2:]) for name, t in times.items()}
