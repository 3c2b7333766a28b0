"""Layers of experts of different sizes: ``backend="syncverify"`` beside Inductor, on a Hopper GPU.

    python benchmarks/hardware/torch_experts.py --seed N --out FILE [--count 3] [--processes 2] [--ranked 0]

Rows, widths and experts are drawn from a seed, and so is how many rows each expert has; one has none. First
come products alone: ``torch._grouped_mm``, the proved kernel for groups of rows, and that with the rows that
are taken of them, as medians of CUDA graph replays in alternation. Then each process compiles a gated layer
with its gradient by either arm, with what those before it left in caches, which are empty at first. In the
end it waits for proofs that were late. FILE gets a line of each: seconds of a first step, medians of
milliseconds, and how far results and gradients are from the same in float64, by one expert after the other.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE)]

from matmul_random import alternated, graph  # noqa: E402

from syncverify.gate.matmul import CompiledMatmul, Matmul  # noqa: E402
from syncverify.matmul import grouped_product  # noqa: E402
from syncverify.matmul.choose import ranked  # noqa: E402
from syncverify.matmul.problem import GROUP_ROWS  # noqa: E402
from syncverify.matmul.schedule import Schedule  # noqa: E402

PATIENCE = 25.0
ARMS = ("inductor", "syncverify")
SMS = 132
#: Rows, width of the model and of a layer, experts.
Shape = tuple[int, int, int, int]


def shapes(seed: int, count: int) -> list[Shape]:
    """Layers that models may have, few experts or many."""
    g = random.Random(seed)
    found: list[Shape] = []
    for _ in range(count):
        experts = g.choice((4, 8, 16, 32, 64))
        rows = g.randrange(max(2048, 320 * experts), 24576)
        found.append((rows, 64 * g.randrange(12, 64), 64 * g.randrange(12, 96), experts))
    return found


def ends_of(shape: Shape, seed: int) -> list[int]:
    """Where each expert's rows end; one expert has none."""
    rows, _, _, experts = shape
    g = random.Random(seed + rows)
    weights = [g.gammavariate(2.0, 1.0) for _ in range(experts)]
    weights[g.randrange(experts)] = 0.0
    whole = sum(weights)
    return [*(round(rows * sum(weights[: k + 1]) / whole) for k in range(experts - 1)), rows]


def products(shape: Shape) -> list[tuple[int, int, str]]:
    """Columns, K and layout of the products of a layer with those of their gradients."""
    _, width, inner, _ = shape
    return [(2 * inner, width, "KK"), (width, inner, "KK"), (width, 2 * inner, "KN"), (inner, width, "KN")]


def problem_of(columns: int, inner: int, layout: str, shape: Shape) -> tuple[Any, dict[str, int]]:
    from syncverify.torch.experts import groups_of

    rows, _, _, experts = shape
    sizes = {"M": groups_of(rows, experts) * GROUP_ROWS, "N": columns, "K": inner, "E": experts, "L": rows}
    return grouped_product(layout=layout, name="fused_grouped_mm", anywhere=True), sizes


def schedules(product: tuple[int, int, str], shape: Shape, most: int) -> list[Schedule]:
    """The chosen schedule, and those that rank first of persistent blocks that share nothing."""
    problem, sizes = problem_of(*product, shape)
    found = [s for s in ranked(problem, sizes, SMS) if s.persistent and s.cluster == 1 and s.resident == 1]
    return [Matmul(problem).schedule(sizes, SMS), *found[:most]]


def prove(asked: tuple[str, Schedule]) -> float:
    """Once for all sizes."""
    layout, schedule = asked
    began = time.perf_counter()
    CompiledMatmul(problem_of(64, 64, layout, (256, 64, 64, 2))[0], schedule).require_proof(
        {"M": 512, "N": 64, "K": 64, "E": 2, "L": 256}, SMS
    )
    return time.perf_counter() - began


def alone(shape: Shape, seed: int, most: int) -> list[dict[str, Any]]:
    """Products alone: how far results are off, and microseconds of each way."""
    import torch

    from syncverify.torch.experts import tables

    rows, _, _, experts = shape
    ends = torch.tensor(ends_of(shape, seed), dtype=torch.int32, device="cuda")
    number, starts, place = tables(ends, experts, rows)
    found = []
    for columns, inner, layout in products(shape):
        problem, sizes = problem_of(columns, inner, layout, shape)
        a = torch.randn(rows, inner, device="cuda").bfloat16()
        b = torch.randn(experts, columns, inner, device="cuda").bfloat16().mT
        b = b.contiguous() if layout == "KN" else b
        out = torch.empty(sizes["M"], columns, device="cuda", dtype=torch.bfloat16)
        ours = Matmul(problem)

        def kernel(a: Any = a, b: Any = b, out: Any = out, ours: Any = ours) -> Any:
            return ours(a, b, experts=number, starts=starts, out=out)

        want = torch._grouped_mm(a, b, offs=ends)
        got = kernel()[place]
        calls: dict[str, Callable[[], Any]] = {
            "grouped_mm": lambda a=a, b=b: torch._grouped_mm(a, b, offs=ends),  # type: ignore[misc]
            "kernel": kernel,
            "kernel and rows": lambda kernel=kernel: kernel().index_select(0, place),  # type: ignore[misc]
            "tables": lambda: tables(ends, experts, rows),
        }
        for s in schedules((columns, inner, layout), shape, most)[1:]:
            other = CompiledMatmul(problem, s)
            calls[s.title] = lambda a=a, b=b, out=out, other=other: other(  # type: ignore[misc]
                a, b, experts=number, starts=starts, out=out
            )
        us = alternated(torch, {name: graph(torch, [call]) for name, call in calls.items()})
        error = float((got - want).float().norm() / want.float().norm())
        found.append(
            {"shape": shape, "columns": columns, "K": inner, "layout": layout,
             "schedule": ours.schedule(sizes, SMS).title, "groups": sizes["M"] // GROUP_ROWS,
             "error": error, "us": us}
        )  # fmt: skip
        print(found[-1], flush=True)
    return found


def layer(x: Any, both: Any, down: Any, ends: Any) -> Any:
    import torch

    gate, up = torch._grouped_mm(x, both.mT, offs=ends).chunk(2, dim=-1)
    return torch._grouped_mm(torch.nn.functional.silu(gate) * up, down.mT, offs=ends)


def exact(x: Any, both: Any, down: Any, ends: Any) -> Any:
    """The same by one expert after the other."""
    import torch

    parts, at = [], 0
    for k, end in enumerate(ends.tolist()):
        gate, up = (x[at:end] @ both[k].mT).chunk(2, dim=-1)
        parts.append((torch.nn.functional.silu(gate) * up) @ down[k].mT)
        at = end
    return torch.cat(parts)


def step(f: Any, given: list[Any], ends: Any, gradient: Any) -> list[Any]:
    """The result and the gradients of everything."""
    for x in given:
        x.grad = None
    y = f(*given, ends)
    y.backward(gradient.to(y.dtype))
    return [y.detach(), *(x.grad for x in given)]


def compiled(shape: Shape, o: argparse.Namespace) -> tuple[dict[str, Any], list[Any]]:
    """A layer by both arms, and what is still to be proved for it."""
    import torch
    from torch_whole_models import REPORTS, timed

    rows, width, inner, experts = shape
    REPORTS.clear()
    row: dict[str, Any] = {"process": o.child, "shape": shape, "torch": torch.__version__}
    torch._dynamo.reset()
    x = torch.randn(rows, width, device="cuda")
    both = torch.randn(experts, 2 * inner, width, device="cuda") / width**0.5
    down = torch.randn(experts, width, inner, device="cuda") / inner**0.5
    given = [t.bfloat16().requires_grad_() for t in (x, both, down)]
    del x, both, down
    ends = torch.tensor(ends_of(shape, o.seed), dtype=torch.int32, device="cuda")
    gradient = torch.randn(rows, width, device="cuda").bfloat16()
    wanted = step(exact, [x.detach().double().requires_grad_() for x in given], ends, gradient)
    made: dict[str, Any] = {}
    for arm in ARMS:
        began = time.perf_counter()
        made[arm] = torch.compile(layer, backend=arm)
        got = step(made[arm], given, ends, gradient)
        first = time.perf_counter() - began
        errors = [float((g.double() - w).norm() / w.norm()) for g, w in zip(got, wanted, strict=True)]
        row[arm] = {"first_s": first, "errors": errors}
        del got
    row["regions"] = [
        [r.name, dict(r.sizes), r.refused or "; ".join(r.notes)]
        for report in REPORTS
        for r in (*report.regions, *report.refused)
    ]
    late = [one for report in REPORTS for one in report.late]
    row["late"] = len(late)
    for _ in range(2):
        for arm in ARMS:
            ms = timed(lambda f=made[arm]: step(f, given, ends, gradient))  # type: ignore[misc]
            row[arm].setdefault("step_ms", []).append(ms)
            with torch.no_grad():
                ms = timed(lambda f=made[arm]: f(*given, ends))  # type: ignore[misc]
            row[arm].setdefault("forward_ms", []).append(ms)
    for what in ("step", "forward"):
        row[f"{what}_ratio"] = min(row["inductor"][f"{what}_ms"]) / min(row["syncverify"][f"{what}_ms"])
    return row, late


def child(o: argparse.Namespace) -> None:
    import torch
    from torch_whole_models import collect

    from syncverify.gate.ahead import provers

    collect()
    torch.manual_seed(o.seed)
    for shape in shapes(o.seed, o.count):
        row, late = compiled(shape, o)
        row["proved_later"] = sum(provers().wait(late, PATIENCE))
        with open(o.out, "a") as file:
            file.write(json.dumps(row, default=str) + "\n")
        print({k: v for k, v in row.items() if k != "regions"}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--ranked", type=int, default=0, help="schedules that are timed beside the chosen one"
    )
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.child is not None:
        child(o)
        return
    drawn = [(p, shape) for shape in shapes(o.seed, o.count) for p in products(shape)]
    asked = list({(p[2], s): None for p, shape in drawn for s in schedules(p, shape, o.ranked)})
    with multiprocessing.get_context("spawn").Pool(
        max(1, min(len(asked), (os.cpu_count() or 2) - 1))
    ) as pool:
        print("proved in seconds", [round(s, 1) for s in pool.map(prove, asked, chunksize=1)], flush=True)
    for shape in shapes(o.seed, o.count):
        with open(o.out, "a") as file:
            for one in alone(shape, o.seed, o.ranked):
                file.write(json.dumps(one, default=str) + "\n")
                file.flush()
    caches = {"SYNCVERIFY_CACHE": "own", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
    own = {name: str(o.out.with_suffix("") / folder) for name, folder in caches.items()}
    same = [f"--{k}={getattr(o, k)}" for k in ("seed", "out", "count")]
    for k in range(o.processes):
        command = [sys.executable, __file__, f"--child={k}", *same]
        subprocess.run(command, env={**os.environ, **own}, check=False)


if __name__ == "__main__":
    main()
