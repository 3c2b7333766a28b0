"""Experiments with matrix products on a Hopper GPU; kernels are compiled and judged beforehand.

    python benchmarks/matmul_on_gpu.py --prepare DIR [--parts abcde]                # no GPU needed
    python benchmarks/matmul_on_gpu.py DIR --out OUT [--parts abcde] [--seconds c=150]

a  clusters that multicast, warpgroups that take turns: ragged and tiny products against cuBLAS, and times
b  mutants of the kernels: hang, stopped, wrong or right, beside the checker's verdict
c  fused epilogues beside cuBLAS with PyTorch, torch.compile, and max-autotune
d  the proxy fence of the store epilogue, by whom and where: verdict, outcome, time
e  the ladder: TFLOP/s after each technique

Every part runs in child processes that are killed at their deadlines, and writes ``matmul_PART.json``. Parts
a, c, d, e need torch; b needs cuda-bindings and NumPy only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import matmul_prepared as prepared  # noqa: E402
from matmul_prepared import Item, Shape  # noqa: E402

from syncverify.unsafe import watched  # noqa: E402

#: Seconds that each part may take, unless --seconds says otherwise.
SECONDS = {"a": 60.0, "b": 70.0, "c": 150.0, "d": 25.0, "e": 25.0}
#: A child that has started and prints nothing for so long hangs; compilers are slower.
QUIET = {"a": 10.0, "b": 10.0, "c": 60.0, "d": 10.0, "e": 10.0}
MUTANTS, LAUNCHES, AT_ONCE = 40, 100, 8
FENCE_RUNS = 100
L2_BYTES = 60 << 20
#: The gate of every timed kernel: relative error, and largest deviation by the root mean square.
RELATIVE, DEVIATION = 1e-2, 0.25

NOT_RUN = "not run: no time left"

Row = dict[str, Any]
Call = Callable[[], Any]


# ---------------------------------------------------------------- timing (in a child)


def factors(torch: Any, shape: Shape, layout: str) -> tuple[Any, Any]:
    """A (M, K) and B (K, N), each contiguous in its layout."""
    m, n, k = shape

    def made(rows: int, columns: int, along_rows: bool) -> Any:
        size = (columns, rows) if along_rows else (rows, columns)
        x = torch.randn(*size, device=device(torch), dtype=torch.bfloat16)
        return x.t() if along_rows else x

    return made(m, k, layout[0] == "M"), made(k, n, layout[1] == "K")


def device(torch: Any) -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def errors(out: Any, want: Any) -> tuple[float, float]:
    """Relative error and largest deviation; infinite where something is not a number."""
    want = want.float()
    off = out.float() - want
    relative = float((off.norm() / want.norm().clamp_min(1e-30)).item())
    worst = float((off.abs().max() / want.square().mean().sqrt().clamp_min(1e-30)).item())
    return (relative, worst) if math.isfinite(relative) and math.isfinite(worst) else (math.inf, math.inf)


def captured(torch: Any, calls: Sequence[Call], seconds: float = 6e-3) -> tuple[Call, int]:
    """A CUDA graph of the calls, one for each set of inputs, repeated to fill ``seconds``."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    calls[0]()
    after.record()
    after.synchronize()
    each = max(before.elapsed_time(after) / 1e3, 1e-6)
    rounds = max(1, min(200, round(seconds / (each * len(calls)))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            for call in calls:
                call()
    graph.replay()
    torch.cuda.synchronize()
    return graph.replay, rounds * len(calls)


def alternated(
    torch: Any, arms: Mapping[str, tuple[Call, int]], replays: int = 20, warm: float = 0.2
) -> dict[str, dict[str, float]]:
    """Microseconds of each arm's calls: replays in turn, median and outer deciles."""
    end = time.monotonic() + warm
    while time.monotonic() < end:
        for run, _ in arms.values():
            run()
        torch.cuda.synchronize()
    times: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(replays):
        names = list(arms) if turn % 2 == 0 else list(reversed(arms))
        marks = []
        for name in names:
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            arms[name][0]()
            after.record()
            marks.append((name, before, after))
        torch.cuda.synchronize()
        for name, before, after in marks:
            times[name].append(before.elapsed_time(after) * 1e3 / arms[name][1])
    return {
        name: {"us": round(statistics.median(each), 2), "p10": round(sorted(each)[len(each) // 10], 2),
               "p90": round(sorted(each)[-1 - len(each) // 10], 2)}
        for name, each in times.items()
    }  # fmt: skip


def input_sets(shape: Shape, bytes_beside: int = 0) -> int:
    """So many that replays do not find their inputs in L2."""
    m, n, k = shape
    return max(1, min(8, math.ceil(3 * L2_BYTES / (2 * (m * k + n * k + m * n) + bytes_beside))))


def tell(row: Row) -> None:
    print(json.dumps(row), flush=True)


def ready(torch: Any) -> None:
    """From here on silence is a hang."""
    torch.cuda.synchronize()
    tell({"ready": torch.__version__})


def failed(e: Exception) -> Row:
    return {"ok": False, "error": f"{type(e).__name__}: {e}"[:300]}


def broken(e: Exception) -> bool:
    """Whether the context is lost."""
    return any(s in str(e) for s in ("CUDA_ERROR", "CUDA error", "launch failure", "illegal"))


def poisoned(torch: Any, shape: Shape, dtype: Any = None) -> Any:
    return torch.full(shape[:2], math.nan, device=device(torch), dtype=dtype or torch.bfloat16)


# ---------------------------------------------------------------- a: clusters, e: the ladder


def correct(torch: Any, item: Item, shape: Shape, repeats: int) -> Row:
    """Against cuBLAS, over all of C, several times into a poisoned result."""
    a, b = factors(torch, shape, item.matmul.problem.layout)
    want = a @ b
    out = poisoned(torch, shape)
    relative = worst = 0.0
    for _ in range(repeats):
        out.fill_(math.nan)
        item.matmul(a, b, out=out, proved=False)
        found = errors(out, want)
        relative, worst = max(relative, found[0]), max(worst, found[1])
    return {"ok": relative < RELATIVE and worst < DEVIATION, "relative": relative, "worst_rms": worst}


def speed(torch: Any, items: Sequence[Item], shape: Shape) -> Row:
    """All items of a layout beside cuBLAS."""
    layout = items[0].matmul.problem.layout
    sets = [(*factors(torch, shape, layout), poisoned(torch, shape)) for _ in range(input_sets(shape))]
    arms: dict[str, Sequence[Call]] = {
        "cublas": [lambda s=s: torch.mm(s[0], s[1], out=s[2]) for s in sets]  # type: ignore[misc]
    }
    for item in items:
        arms[item.name] = [
            lambda s=s, x=item: x.matmul(s[0], s[1], out=s[2], proved=False)  # type: ignore[misc]
            for s in sets
        ]
    found = alternated(torch, {name: captured(torch, calls) for name, calls in arms.items()})
    flops = 2.0 * math.prod(shape)
    for times in found.values():
        times["tflops"] = round(flops / times["us"] / 1e6, 1)
    return {"ok": True, "times": found}


def new(item: Item) -> bool:
    return item.matmul.schedule.cluster > 1 or item.matmul.schedule.pingpong


def cluster_tasks(items: Sequence[Item]) -> list[Row]:
    checks = [
        {"do": "correct", "item": k, "shape": s, "repeats": 5}
        for s in prepared.SHAPES
        for k, x in enumerate(items)
        if new(x) and allowed(s, x)
    ]
    long: list[Row] = [
        {"do": "correct", "item": k, "shape": (4096, 4096, 4096), "repeats": 20}
        for k, x in enumerate(items)
        if new(x)
    ]
    times: list[Row] = [
        {"do": "speed", "items": _of_layout(items, layout), "shape": s}
        for layout, s in (
            ("KK", (4096, 4096, 4096)), ("KK", (8192, 8192, 8192)), ("MN", (2048, 2048, 8192)),
            ("MN", (16384, 16384, 1024)), ("KK", (4096, 14336, 5120)), ("KK", (4096, 24576, 1536)),
            ("KK", (8192, 6144, 4096)),
        )
    ]  # fmt: skip
    return checks[: len(items)] + times[:1] + checks[len(items) :] + long + times[1:]


def _of_layout(items: Sequence[Item], layout: str) -> list[int]:
    return [k for k, x in enumerate(items) if x.matmul.problem.layout == layout]


def allowed(shape: Shape, item: Item) -> bool:
    """Whether rows of both factors and of the result are multiples of 16 bytes."""
    m, n, k = shape
    layout = item.matmul.problem.layout
    return not ((m if layout[0] == "M" else k) % 8 or (k if layout[1] == "K" else n) % 8 or n % 8)


def ladder_tasks(items: Sequence[Item]) -> list[Row]:
    size = (prepared.LADDER_SIZE,) * 3
    checks: list[Row] = [{"do": "correct", "item": k, "shape": size, "repeats": 1} for k in range(len(items))]
    times: list[Row] = [
        {"do": "speed", "items": list(range(len(items))), "shape": s} for s in (size, (4096,) * 3)
    ]
    return checks + times


def run_products(items: Sequence[Item], tasks: Sequence[Row]) -> None:
    import torch

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    good = set(range(len(items)))
    ready(torch)
    for task in tasks:
        shape = tuple(task["shape"])
        try:
            if task["do"] == "correct":
                found = correct(torch, items[task["item"]], shape, task["repeats"])
                if not found["ok"]:
                    good.discard(task["item"])
                found |= {
                    "schedule": items[task["item"]].name,
                    "layout": items[task["item"]].matmul.problem.layout,
                }
            else:
                chosen = [items[k] for k in task["items"] if k in good]
                found = speed(torch, chosen, shape) | {"layout": chosen[0].matmul.problem.layout}
        except Exception as e:
            found = failed(e)
        tell({"task": task, **found})
        if "error" in found and broken(RuntimeError(found["error"])):
            sys.exit(found["error"])


# ---------------------------------------------------------------- b: mutants


def bf16(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Random numbers as the bits of bfloat16."""
    bits: np.ndarray[Any, Any] = rng.standard_normal(shape, np.float32).view(np.uint32)
    return np.ascontiguousarray((bits >> 16).astype(np.uint16))


def widened(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    wide: np.ndarray[Any, Any] = bits.astype(np.uint32) << 16
    return wide.view(np.float32)


def run_mutant(whole: Item, mutant: Item) -> None:
    """The kernel as it was, against NumPy; then the mutant many times against that, bit by bit."""
    from syncverify import gate
    from syncverify.codegen import driver

    sizes = prepared.MUTANT_SIZES
    m, n, k = (sizes[d] for d in "MNK")
    rng = np.random.default_rng(3)
    a, b = bf16(rng, (m, k)), bf16(rng, (n, k))
    driver.use_device(0)
    places = {name: driver.allocate(x) for name, x in (("a", a.nbytes), ("b", b.nbytes), ("out", m * n * 2))}
    driver.copy_in(places["a"], a)
    driver.copy_in(places["b"], b)
    poison = np.full((m, n), 0xFFFF, np.uint16)

    def result(item: Item) -> np.ndarray[Any, Any]:
        driver.copy_in(places["out"], poison)
        values = item.matmul.launch_values(sizes, driver.multiprocessors(0))
        gate.launch(item.matmul.program(), places, values, 0, 0)
        driver.synchronize(0)
        out = np.empty_like(poison)
        driver.copy_out(out, places["out"])
        return out

    want = result(whole)
    rows = rng.integers(0, m, 16)
    exact = widened(a[rows]) @ widened(b).T
    off = np.abs(widened(want[rows]) - exact).max() / np.sqrt(np.square(exact).mean())
    if not off < DEVIATION:
        sys.exit(f"the kernel that is no mutant is wrong by {off}")
    tell({"ready": True})
    begun, wrong, launches = time.monotonic(), 0, 0
    while launches < LAUNCHES and time.monotonic() - begun < 4.0:
        different = int(np.count_nonzero(result(mutant) != want))
        launches += 1
        wrong += different > 0
        if launches in (1, 10) or launches % 25 == 0:
            tell({"launches": launches, "wrong": wrong, "elements": different})
    tell({"launches": launches, "wrong": wrong})


def mutants(place: Path, seconds: float) -> Iterator[Row]:
    items = prepared.load(place, "b")
    whole = {x.name: x for x in items if not x.facts["what"]}
    end = time.monotonic() + seconds

    def one(item: Item) -> Row:
        row: Row = {"schedule": item.name, **item.facts}
        left = end - time.monotonic()
        if left < QUIET["b"]:
            return {**row, "outcome": "not run"}
        command = [sys.executable, str(HERE / "matmul_on_gpu.py"), "--child", "b"]
        seen = watched(command, pickle.dumps((whole[item.name], item)), min(left, 30.0), QUIET["b"])
        told = [json.loads(line) for line in seen.output.splitlines() if line.startswith("{")]
        last = told[-1] if told else {}
        row |= {"launches": last.get("launches", 0), "wrong launches": last.get("wrong", 0)}
        if not told:
            return {**row, "outcome": "not run", "message": seen.message}
        ends = {"timeout": "hang", "crashed": "stopped", "failed": "failed"}
        outcome = ends.get(seen.ending) or ("wrong" if last["wrong"] else "right")
        return {**row, "outcome": outcome, "message": seen.message}

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(one, [x for x in items if x.facts["what"]])


# ---------------------------------------------------------------- c: fused epilogues


def peers(torch: Any, name: str) -> dict[str, Callable[..., Any]]:
    """The same function in PyTorch, of A (M, K), W (N, K) and the other inputs; and by cuBLASLt."""
    F = torch.nn.functional
    plain: dict[str, Callable[..., Any]] = {
        "bias_gelu": lambda a, w, bias: F.gelu(F.linear(a, w, bias)),
        "bias_gelu_tanh": lambda a, w, bias: F.gelu(F.linear(a, w, bias), approximate="tanh"),
        "bias_relu": lambda a, w, bias: F.relu(F.linear(a, w, bias)),
        "residual": lambda a, w, residual: F.linear(a, w) + residual,
        "gated": lambda a, w, gate: F.silu(gate) * F.linear(a, w),
        "bias_gelu_residual": lambda a, w, bias, residual: F.gelu(F.linear(a, w, bias)) + residual,
        "row_scale": lambda a, w, scale: (F.linear(a, w) * scale[:, None]).to(a.dtype),
        "f32_result": lambda a, w: F.linear(a, w).float(),
        "two_results": lambda a, w, bias: both(F, F.linear(a, w, bias)),
    }
    library: dict[str, Callable[..., Any]] = {
        "bias_relu": lambda a, w, bias: torch._addmm_activation(bias, a, w.t()),
        "bias_gelu_tanh": lambda a, w, bias: torch._addmm_activation(bias, a, w.t(), use_gelu=True),
        "f32_result": lambda a, w: torch.mm(a, w.t(), out_dtype=torch.float32),
    }
    found = {"eager": plain[name]}
    return found | ({"cublaslt": library[name]} if name in library else {})


def both(F: Any, h: Any) -> tuple[Any, Any]:
    return h, F.gelu(h)


def exact(torch: Any, name: str, inputs: Sequence[Any]) -> tuple[Any, ...]:
    found = peers(torch, name)["eager"](*(x.float() for x in inputs))
    return found if isinstance(found, tuple) else (found,)


def epilogue_inputs(torch: Any, item: Item, shape: Shape) -> dict[str, Any]:
    """The inputs beside A and B, by name."""
    sizes = dict(zip("MNK", shape, strict=True))
    types = {"bf16": torch.bfloat16, "f32": torch.float32}
    return {
        name: torch.randn(*(sizes[d] for d in t.dims), device=device(torch), dtype=types[t.dtype])
        for name, t in item.matmul.problem.epilogue.inputs
        if name != "acc"
    }


def epilogue_case(torch: Any, items: Sequence[Item], shape: Shape, tuned: bool) -> Row:
    """One epilogue and size: all arms through the gate, then timed in alternation."""
    name = items[0].facts["case"]
    others = [epilogue_inputs(torch, items[0], shape) for _ in range(input_sets(shape))]
    pairs = [factors(torch, shape, "KK") for _ in others]
    types = {"bf16": torch.bfloat16, "f32": torch.float32}
    outputs = items[0].matmul.problem.epilogue.outputs
    results = [tuple(poisoned(torch, shape, types[o.dtype]) for o in outputs) for _ in others]
    functions: dict[str, Callable[[int], Any]] = {}
    for arm, f in peers(torch, name).items():
        functions[arm] = _peer(f, pairs, others)
    for arm, mode in (("compile", None), ("max-autotune", "max-autotune-no-cudagraphs")):
        if mode is None or tuned:
            torch._dynamo.reset()
            f = torch.compile(peers(torch, name)["eager"], dynamic=False, fullgraph=True, mode=mode)
            functions[arm] = _peer(f, pairs, others)
    for item in items:
        functions[f"ours {item.name}"] = _ours(item, pairs, others, results)
    want = exact(torch, name, [pairs[0][0], pairs[0][1].t(), *others[0].values()])
    arms: dict[str, tuple[Call, int]] = {}
    fails: dict[str, str] = {}
    first: dict[str, float] = {}
    for arm, f in functions.items():
        begun = time.monotonic()
        try:
            for x in results[0]:
                x.fill_(math.nan)
            got = f(0)
            torch.cuda.synchronize()
            first[arm] = round(time.monotonic() - begun, 2)
            got = got if isinstance(got, tuple) else (got,)
            worst = [errors(g, w) for g, w in zip(got, want, strict=True)]
            if any(r >= RELATIVE or d >= DEVIATION for r, d in worst):
                fails[arm] = f"wrong: {worst}"
            else:
                arms[arm] = captured(torch, [lambda f=f, k=k: f(k) for k in range(len(others))])  # type: ignore[misc]
        except Exception as e:
            if broken(e):
                raise
            fails[arm] = f"{type(e).__name__}: {e}"[:300]
        tell({"arm": arm})
    found = alternated(torch, arms)
    for times in found.values():
        times["tflops"] = round(2.0 * math.prod(shape) / times["us"] / 1e6, 1)
    mine = [t["us"] for a, t in found.items() if a.startswith("ours")]
    rest = {a: t["us"] for a, t in found.items() if not a.startswith("ours")}
    ahead = {a: round(us / min(mine), 3) for a, us in rest.items()} if mine else {}
    return {
        "ok": not fails,
        "times": found,
        "failed": fails,
        "first call s": first,
        "their time by ours": ahead,
    }


def _peer(f: Callable[..., Any], pairs: Sequence[Any], others: Sequence[Any]) -> Callable[[int], Any]:
    return lambda k: f(pairs[k][0], pairs[k][1].t(), *others[k].values())


def _ours(
    item: Item, pairs: Sequence[Any], others: Sequence[Any], results: Sequence[Any]
) -> Callable[[int], Any]:
    return lambda k: item.matmul(*pairs[k], out=results[k], proved=False, **others[k])


def epilogue_tasks(items: Sequence[Item]) -> list[Row]:
    """The first size with max-autotune for all, then the others."""
    groups: dict[str, list[int]] = {}
    for k, x in enumerate(items):
        groups.setdefault(x.facts["case"], []).append(k)
    names = list(groups)
    small, large = prepared.FUSED_SIZES
    order = [(x, small) for x in names[:4]] + [(x, large) for x in names[:4]]
    order += [(x, small) for x in names[4:]] + [(x, large) for x in names[4:]]
    return [{"case": x, "items": groups[x], "shape": s, "tuned": True} for x, s in order]


def run_epilogues(items: Sequence[Item], tasks: Sequence[Row]) -> None:
    import torch

    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    ready(torch)
    for task in tasks:
        try:
            found = epilogue_case(
                torch, [items[k] for k in task["items"]], tuple(task["shape"]), task["tuned"]
            )
        except Exception as e:
            found = failed(e)
        tell({"task": task, **found})
        if "error" in found and broken(RuntimeError(found["error"])):
            sys.exit(found["error"])


# ---------------------------------------------------------------- d: the store fence


def fence_tasks(items: Sequence[Item]) -> list[Row]:
    groups: dict[str, list[int]] = {}
    for k, x in enumerate(items):
        groups.setdefault(x.name, []).append(k)
    return [{"items": v, "shape": items[v[0]].facts["sizes"]} for v in groups.values()]


def run_fences(items: Sequence[Item], tasks: Sequence[Row]) -> None:
    """Each form many times: against cuBLAS, and bit by bit against the first form's first result."""
    import torch

    torch.manual_seed(0)
    ready(torch)
    for task in tasks:
        shape, forms = tuple(task["shape"]), [items[k] for k in task["items"]]
        layout = forms[0].matmul.problem.layout
        sets = [(*factors(torch, shape, layout), poisoned(torch, shape)) for _ in range(input_sets(shape))]
        a, b, out = sets[0]
        want, first = a @ b, None
        arms: dict[str, tuple[Call, int]] = {}
        rows: dict[str, Row] = {}
        for item in forms:
            wrong = unlike = elements = 0
            for _ in range(FENCE_RUNS):
                out.fill_(math.nan)
                item.matmul(a, b, out=out, proved=False)
                first = out.clone() if first is None else first
                relative, worst = errors(out, want)
                wrong += not (relative < RELATIVE and worst < DEVIATION)
                different = int((out.view(torch.int16) != first.view(torch.int16)).sum().item())
                unlike, elements = unlike + (different > 0), elements + different
            rows[item.facts["form"]] = {
                **item.facts, "runs": FENCE_RUNS, "wrong runs": wrong, "runs that differ": unlike,
                "elements that differ": elements,
            }  # fmt: skip
            calls = [lambda s=s, x=item: x.matmul(s[0], s[1], out=s[2], proved=False) for s in sets]  # type: ignore[misc]
            arms[item.facts["form"]] = captured(torch, calls)
            tell({"arm": item.facts["form"]})
        arms["cublas"] = captured(torch, [lambda s=s: torch.mm(s[0], s[1], out=s[2]) for s in sets])  # type: ignore[misc]
        times = alternated(torch, arms, replays=40)
        for form, row in rows.items():
            tell({"task": task, "kernel": forms[0].name, "shape": shape, **row, **times[form],
                  "cublas us": times["cublas"]["us"]})  # fmt: skip
        tell({"task": task, "done": True})


# ---------------------------------------------------------------- children and their parent

TASKS: dict[str, Callable[[Sequence[Item]], list[Row]]] = {
    "a": cluster_tasks, "c": epilogue_tasks, "d": fence_tasks, "e": ladder_tasks,
}  # fmt: skip
RUN: dict[str, Callable[[Sequence[Item], Sequence[Row]], None]] = {
    "a": run_products, "c": run_epilogues, "d": run_fences, "e": run_products,
}  # fmt: skip


def tasks_of(place: Path, part: str, seconds: float) -> Iterator[Row]:
    """Runs a part's tasks; a child that dies or hangs loses its task, and another goes on behind it."""
    end = time.monotonic() + seconds
    left = TASKS[part](prepared.load(place, part))
    command = [sys.executable, str(HERE / "matmul_on_gpu.py"), "--child", part]
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(Path(tempfile.gettempdir()) / "inductor"), **os.environ}
    while left and end - time.monotonic() > 8.0:
        work = pickle.dumps((str(place.resolve()), left))
        seen = watched(command, work, end - time.monotonic(), QUIET[part], environment)
        told = [json.loads(line) for line in seen.output.splitlines() if line.startswith("{")]
        if not told:
            yield {"task": {"part": part}, "ok": False, "ending": "did not start", "message": seen.message}
            return
        yield from (x for x in told if "task" in x and not x.get("done"))
        ended = {json.dumps(x["task"]) for x in told if "task" in x}
        behind = [t for t in left if json.dumps(t) not in ended]
        if seen.ending == "finished":
            left = behind
            break
        over = end - time.monotonic() <= 0
        if (
            behind
            and seen.ending in ("timeout", "crashed")
            and len(behind) < len(left)
            and "error" in told[-1]
        ):
            left = behind  # the task that broke the context has told so
        elif behind and not over:
            yield {"task": behind[0], "ok": False, "ending": seen.ending, "message": seen.message}
            left = behind[1:]
        else:
            left = behind
    yield from ({"task": t, "ok": False, "ending": NOT_RUN} for t in left)


def machine() -> str:
    query = "name,driver_version,clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu"
    try:
        asked = subprocess.run(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip().splitlines()[0] if asked.stdout.strip() else ""


def short(part: str, row: Row) -> str:
    if part == "b":
        expected = "as argued" if row["argument"] else row["verdict"]
        where = f"{row['schedule']:14} {row['what']:22} line {row['line']:<4} {expected:9} {row['rule']:6}"
        seen = f"{row['wrong launches']} of {row['launches']} launches wrong {row['message']}"
        return f"{where} -> {row['outcome']:8} {seen}"
    if part == "d" and "form" in row:
        judged = f"{row['kernel']:12} {row['form']:36} {row['verdict']:8} {','.join(row['warnings']):6}"
        seen = f"wrong {row['wrong runs']}, different {row['runs that differ']} of {row['runs']}"
        return f"{judged} {seen}, {row['us']} us"
    what = {k: v for k, v in row["task"].items() if k not in ("item", "items")}
    rest = {k: v for k, v in row.items() if k not in ("task", "first call s")}
    return f"{what} {rest}"


def run(place: Path, out: Path, parts: Iterable[str], seconds: Mapping[str, float]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for part in parts:
        begun = time.monotonic()
        print(f"== {part}", flush=True)
        found: list[Row] = []
        record: Row = {"machine": machine(), "seconds": 0.0, "rows": found}
        for row in mutants(place, seconds[part]) if part == "b" else tasks_of(place, part, seconds[part]):
            found.append(row)
            if row.get("ending") != NOT_RUN and not (row.get("ok") and row["task"].get("do") == "correct"):
                print("  ", short(part, row), flush=True)
            record["seconds"] = round(time.monotonic() - begun, 1)
            (out / f"matmul_{part}.json").write_text(json.dumps(record, indent=1) + "\n")
        if part == "b":
            counts = Counter((r["verdict"], bool(r["argument"]), r["outcome"]) for r in found)
            print("  ", {f"{v}{' (argued)' if x else ''}: {o}": c for (v, x, o), c in sorted(counts.items())})
        checks = [r for r in found if r.get("task", {}).get("do") == "correct"]
        skipped = sum(r.get("ending") == NOT_RUN or r.get("outcome") == "not run" for r in found)
        right = f"{sum(r['ok'] for r in checks)} of {len(checks)} products right, " if checks else ""
        print(f"   {right}{skipped} not run, {record['seconds']} s", flush=True)


def child(part: str) -> None:
    work = pickle.load(sys.stdin.buffer)
    if part == "b":
        run_mutant(*work)
    else:
        place, tasks = work
        RUN[part](prepared.load(Path(place), part), tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("place", nargs="?", type=Path, help="where the prepared kernels are")
    parser.add_argument("--prepare", type=Path)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--parts", default="abcde")
    parser.add_argument("--seconds", nargs="*", default=[], metavar="PART=SECONDS")
    parser.add_argument("--child")
    options = parser.parse_args()
    if options.child:
        child(options.child)
    elif options.prepare:
        prepared.prepare(options.prepare, options.parts, MUTANTS)
    elif options.place:
        limits = {**SECONDS, **{p: float(s) for p, _, s in (x.partition("=") for x in options.seconds)}}
        run(options.place, options.out, options.parts, limits)
    else:
        parser.error("give a folder of prepared kernels, or --prepare")


if __name__ == "__main__":
    main()
