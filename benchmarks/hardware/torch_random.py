"""Random functions on a Hopper GPU: proved kernels beside eager torch, both held against float64.

    python benchmarks/hardware/torch_random.py --out FILE [--first 0] [--count 120] [--jobs 8] [--seconds 80]

Functions are drawn as in tests/torch/random_graphs.py, with larger sizes. Groups become proved kernels, all
other nodes are run by torch one by one. Each function is called three times: with other numbers, then with
inputs that start at odd places. A third is trained. A result is wrong where its error is above four times
that of eager torch, and above 2e-2 (bf16) or 1e-2. FILE gets one line for each function.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

SIZES = (64, 128, 72, 200, 33, 512, 1024)
MOST = 2_000_000
#: Processor time of each proof.
PROOF_SECONDS = 6.0


def on_device(x: Any, dtype: Any, device: str, at: int = 0) -> Any:
    """The same numbers in memory that lies alike, ``at`` elements further."""
    import torch

    count = x.untyped_storage().nbytes() // x.element_size()
    memory = torch.empty(count + at, dtype=dtype, device=device)
    memory[at:].copy_(x.as_strided((count,), (1,), 0))
    return memory.as_strided(x.shape, x.stride(), x.storage_offset() + at)


def error(got: Any, want: Any) -> float:
    return float((got.double() - want.double()).norm() / want.double().norm().clamp_min(1e-2))


def wrong(got: list[Any], exact: list[Any], plain: list[Any]) -> list[tuple[float, float]]:
    """Errors of results that are too far from float64, and those of eager torch."""
    import torch

    found = []
    for g, w, p in zip(got, exact, plain, strict=True):
        if g is None or p is None:
            if (g is None) != (p is None):
                found.append((-1.0, -1.0))
            continue
        g, w, p = (x.detach() for x in (g, w, p))
        own, eager = error(g, w), error(p, w)
        if g.shape != p.shape or g.dtype != p.dtype:
            found.append((-2.0, -2.0))
        elif not own <= max(4 * eager, 2e-2 if g.dtype is torch.bfloat16 else 1e-2):
            found.append((own, eager))
    return found


def backend(runner: Any, found: dict[str, Any]) -> Any:
    """Kernels for groups; torch for the rest."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    from syncverify.torch import table
    from syncverify.torch.backend import lower

    def kernels(graph: Any, given: Any) -> Any:
        lowered, report = lower(graph, runner)
        found["kernels"] += len(report.regions)
        found["products"] += sum(r.kind == "product" for r in report.regions)
        found["refused"] += [r.refused[:90] for r in report.refused]
        return make_boxed_func(lowered.forward)

    return aot_autograd(
        fw_compiler=kernels, bw_compiler=kernels, decompositions=table.decompositions(),
        partition_fn=min_cut_rematerialization_partition, keep_inference_input_mutations=True,
    )  # fmt: skip


def one(seed: int, device: str, runner: Any) -> dict[str, Any]:
    import torch

    from tests.torch import random_graphs

    random_graphs.SIZES, random_graphs._MOST = SIZES, MOST  # type: ignore[assignment]
    trained, dynamic = seed % 3 == 0, seed % 5 == 0
    drawn = random_graphs.draw(seed, changes=not trained)
    exactly = replace(drawn, wide=True)
    row: dict[str, Any] = {"seed": seed, "trained": trained, "dynamic": dynamic, "kernels": 0, "products": 0,
                           "refused": [], "wrong": []}  # fmt: skip
    torch._dynamo.reset()
    function = torch.compile(
        lambda *given: drawn(*given), backend=backend(runner, row), dynamic=dynamic or None, fullgraph=True
    )
    for turn in range(3):
        at = turn // 2
        given = [on_device(x, x.dtype, device, at) for x in drawn.inputs]
        plain = [on_device(x, x.dtype, device) for x in drawn.inputs]
        exact = [on_device(x, torch.float64, device) for x in drawn.inputs]
        if trained:
            for x in (*given, *plain, *exact):
                x.requires_grad_()
        pairs = (function, given), (exactly, exact), (drawn, plain)
        made = [list(f(*inputs)) for f, inputs in pairs]
        row["wrong"] += wrong(*made)
        if trained:
            for results in made:
                terms = [
                    (
                        x.double() * torch.linspace(-1, 1, x.numel(), device=device).double().view(x.shape)
                    ).sum()
                    for x in results
                    if x.requires_grad
                ]
                if terms:
                    sum(terms[1:], terms[0]).backward()
            row["wrong"] += wrong(*([x.grad for x in inputs] for _, inputs in pairs))
        else:
            row["wrong"] += wrong(given, exact, plain)
    row["refused"] = sorted(row["refused"])
    return row


def worker(o: argparse.Namespace) -> None:
    # one core each: no job begins processes of its own for its proofs
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[o.worker % len(cores)]})
    import torch

    from syncverify.torch.runners import GateRunner, ReferenceRunner

    device = "cuda" if torch.cuda.is_available() else "cpu"
    runner = GateRunner(proof_seconds=PROOF_SECONDS) if device == "cuda" else ReferenceRunner()
    until = time.time() + o.seconds
    for seed in range(o.first + o.worker, o.first + o.count, o.jobs):
        if time.time() > until:
            break
        try:
            row = one(seed, device, runner)
        except Exception as e:  # it is a result, too
            row = {"seed": seed, "failed": f"{type(e).__name__}: {e}"[:400]}
        print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=80.0)
    parser.add_argument("--worker", type=int, default=-1, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.worker >= 0:
        worker(o)
        return
    own = [f"--{k}={getattr(o, k)}" for k in ("out", "first", "count", "jobs", "seconds")]
    parts = [Path(f"{o.out}.{k}") for k in range(o.jobs)]
    running = []
    for k, part in enumerate(parts):
        command = [sys.executable, __file__, *own, f"--worker={k}"]
        running.append(subprocess.Popen(command, stdout=part.open("w")))
    for process in running:
        process.wait()
    rows = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
    Path(o.out).write_text("".join(json.dumps(r) + "\n" for r in sorted(rows, key=lambda r: int(r["seed"]))))
    for part in parts:
        part.unlink()
    bad = [r for r in rows if r.get("wrong") or "failed" in r]
    count = {k: sum(r.get(k, 0) for r in rows) for k in ("kernels", "products")}
    print(len(rows), "functions,", count, "wrong or failed:", json.dumps(bad)[:3000])


if __name__ == "__main__":
    main()
