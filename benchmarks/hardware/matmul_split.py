"""Products of few tiles and long sums on a Hopper GPU: blocks that share the steps along K, beside cuBLAS.

    python benchmarks/hardware/bench_matmul.py split --out FOLDER [--seconds 170]

Correctness first (ragged and tiny sizes, poisoned results, some a hundred times over, eager and in replayed
graphs, on two streams at once), then times. Inputs rotate, so that none is in the cache when its turn comes;
all candidates of a shape and cuBLAS take turns, medians. Nothing is proved here:
``matmul_launches.py --split`` proves the same launches on any machine.
"""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from syncverify.gate.matmul import CompiledMatmul
from syncverify.matmul import Schedule, product

Arm = Callable[[Any, Any, Any], Any]
TWO, THREE = (40, 232), (32, 160)
TILES = {
    "128x256": Schedule(128, 256, registers=TWO, store="tma"),
    "256x128": Schedule(256, 128, registers=TWO, store="tma"),
    "128x192": Schedule(128, 192, registers=TWO, store="tma"),
    "192x192": Schedule(192, 192, consumers=3, registers=THREE, store="tma"),
    "128x128": Schedule(128, 128, store="tma"),
    "128x64": Schedule(128, 64, store="tma"),
    "64x256": Schedule(64, 256, consumers=1, store="tma"),
    "64x128": Schedule(64, 128, consumers=1, store="tma"),
    "64x64": Schedule(64, 64, consumers=1, store="tma"),
    "64x32": Schedule(64, 32, consumers=1),
    "192x176": Schedule(192, 176, consumers=3, registers=THREE),
}


def scheduled(name: str) -> Schedule:
    """By the title of a schedule of those tiles, whose results are staged where they can be."""
    tile = TILES[re.match(r"\d+x\d+", name).group()]  # type: ignore[union-attr]
    split = re.search(r"/(\d+)(one|runs|)(any|)", name)
    fields: dict[str, Any] = {}
    if split is not None:
        fields["split_k"] = int(split[1])
        fields["shares"] = {"one": "one", "runs": "any", "": "pairs"}[split[2]]
        fields["sums"] = "any" if split[3] else "ordered"
    marks = name.removeprefix(f"{tile.tile_m}x{tile.tile_n}").partition("/")[0]
    fields |= {"persistent": "p" in marks, "dependent": "d" in marks, "pending": int("+" in marks)}
    found = replace(tile, cluster=2 if "c" in marks else 1, **fields)
    assert found.title == name, (found.title, name)
    return found


#: What is timed: the best without a split first.
SPEED: dict[tuple[int, int, int, str], tuple[str, ...]] = {
    (4096, 2112, 7168, "KK"): (
        "128x192pt", "128x192pt/3", "128x192ptd/3", "128x192pt+/3", "128x192ptd+/3", "128x192t/3runs",
        "128x192td/3runs", "128x192td+/3runs", "256x128ptcd/8one", "192x176pd",
    ),
    (3648, 480, 8632, "MN"): ("128x128t", "128x256t/2", "128x256td/2", "128x256t/2runs", "256x128t/2"),
    (1176, 1840, 44280, "MN"): ("128x192t", "128x256t/3", "128x256t/3runs", "256x128t/5runs"),
    (64, 4096, 4096, "KK"): ("64x32", "64x64t", "64x64t/2", "64x128t/4one", "64x128t/4runs", "64x256t/8one"),
    (128, 7168, 2048, "KK"): ("128x64t", "128x128t/2", "128x256t/4one", "128x256t/4runs"),
    (2560, 4096, 4096, "KK"): ("128x256pt", "128x256pt/2", "128x256ptd/2", "128x256t/2runs", "128x128pt"),
    (2304, 4096, 8192, "KK"): ("128x256pt", "128x256pt/4one", "128x256pt/3one", "128x256t/5runs"),
    (64, 1024, 16384, "KK"): (
        "64x64t", "64x64t/8one", "64x64t/8runs", "64x64t/8runsany", "64x128t/13one",
    ),
    (512, 512, 16384, "KK"): (
        "128x128t", "128x128t/8one", "128x128t/8runs", "128x64t/4one", "128x256t/13one",
    ),
}  # fmt: skip
#: Ragged and tiny sizes; those that a layout's or an output's 16-byte rows do not allow are left out.
SHAPES = [
    (1, 8, 8), (8, 16, 24), (129, 136, 72), (333, 328, 2056), (1000, 1000, 1000), (63, 4104, 200),
    (2048, 120, 8192), (300, 80, 136), (4096, 2112, 7168),
]  # fmt: skip
#: Schedules whose results are compared, and sizes that are computed a hundred times over.
COMPARED = (
    "128x192pt/3", "128x256pt/2", "128x256t/3", "64x64t/2", "128x128pt/4one", "64x128t/4one", "128x128t/8one",
    "128x192ptd+/3", "128x128ptc/2", "192x192t/4", "64x128t/4runsany", "128x192t/3runs",
)  # fmt: skip
STREAMS = "128x128pt/4one"
#: By name, all of them.
SCHEDULES = {x: scheduled(x) for x in (*COMPARED, STREAMS, *(x for v in SPEED.values() for x in v))}
AGAIN = [(333, 328, 2056), (129, 136, 72)]


def jobs() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for shape, names in SPEED.items():
        cases = [[*shape, name] for name in names]
        found.append({"what": "split speed", "schedule": " ".join(map(str, shape)), "shapes": cases})
    correct: list[dict[str, Any]] = []
    for names in (COMPARED[:1], COMPARED[1:4], COMPARED[4:7], COMPARED[7:10], COMPARED[10:]):
        cases = []
        for name in names:
            layouts = ("KK", "MN", "MK", "KN") if name == COMPARED[0] else ("KK", "MN")
            cases += [[*s, x, 3, name] for x in layouts for s in SHAPES if allowed(*s, x, scheduled(name))]
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
    return CompiledMatmul(product(layout=layout), scheduled(name))


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
