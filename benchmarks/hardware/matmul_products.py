"""Plain products: clusters and warpgroups in turn, the ladder, the forms of the store fence."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.hardware import matmul_prepared as prepared
from benchmarks.hardware.matmul_prepared import Item
from benchmarks.hardware.matmul_timing import (
    DEVIATION,
    RELATIVE,
    Call,
    Row,
    Shape,
    alternated,
    broken,
    captured,
    errors,
    factors,
    failed,
    input_sets,
    poisoned,
    ready,
    tell,
)

FENCE_RUNS = 100


# ---------------------------------------------------------------- clusters, the ladder


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


# ---------------------------------------------------------------- the store fence


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
