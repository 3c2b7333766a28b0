"""Kernels whose synchronization the passes synthesized: proved, compiled, run, compared with NumPy.

    python benchmarks/compiler/bench_synthesized.py [--seconds 120] [--jobs 8] [--out FILE]  # runs them on
        a GPU

Each kernel runs in a child process that is killed at a deadline, three times with other inputs, over outputs
filled with NaN. Without a GPU, the proofs of IR and PTX are made and nothing is run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from syncverify.base.diagnostics import Policy, Verdict  # noqa: E402
from syncverify.codegen import driver  # noqa: E402
from syncverify.codegen.arrays import DeviceArray  # noqa: E402
from syncverify.gate import Program, run_on_host  # noqa: E402
from syncverify.passes.synthesize import synthesize  # noqa: E402
from tests.passes.cases import CASES  # noqa: E402

#: stmatrix distributes registers over a tile; the IR's statement gives each thread its own run instead.
NOT_COMPILED = {"matrix_store"}
#: What reaches furthest, first: memory reused across proxies, clusters, the grid, wgmma.
FIRST = (
    "two_phases", "cluster_sum", "reduced", "converted_operand", "multiply_and_stage", "chained",
    "three_depths", "cp_async_roles", "cp_async_ring", "reduced_in_turn", "dependent",
)  # fmt: skip
SEEDS = (1, 2, 3)
KILL_AFTER = 60.0


def judge(name: str, runs: bool) -> dict[str, Any]:
    """What one kernel comes to: both proofs for its default sizes, and, with a GPU, its largest error."""
    case = CASES[name]
    kernel = synthesize(case.make(), Policy.PRACTICAL, case.options)
    values = {p.name: p.default for p in kernel.params if p.default is not None}
    program = Program(kernel, Policy.PRACTICAL)
    found: dict[str, Any] = {"kernel": name}
    for stage in ("ir", "ptx"):
        start = time.perf_counter()
        report = program.check(stage, values)
        found[stage] = str(report.verdict)
        found[f"{stage}_seconds"] = round(time.perf_counter() - start, 2)
        if report.verdict is not Verdict.PROVED:
            return found
    if not runs:
        return found
    errors = []
    for seed in SEEDS:
        inputs = case.inputs(np.random.default_rng(seed))
        expected = case.outputs(inputs)
        given = {t.name: _array(kernel, t.name, values, inputs) for t in kernel.tensors if t.mode != "out"}
        results = {t.name: _array(kernel, t.name, values, {}) for t in kernel.tensors if t.mode == "out"}
        run_on_host(
            program,
            {n: _described(np.ascontiguousarray(a)) for n, a in given.items()},
            {n: _described(a) for n, a in results.items()},
            values,
        )
        for output, want in expected.items():
            got = results[output].astype(np.float64).reshape(want.shape)
            error = np.abs(got - want.astype(np.float64)) / np.maximum(np.abs(want.astype(np.float64)), 1.0)
            errors.append(float(np.max(np.where(np.isnan(error), np.inf, error))))
    found["error"] = max(errors)
    found["right"] = max(errors) < 2e-2
    return found


def _described(a: Any) -> DeviceArray:
    return DeviceArray(a, a.ctypes.data, a.shape, str(a.dtype), None, True, "numpy")


def _array(kernel: Any, name: str, values: dict[str, int], inputs: dict[str, Any]) -> Any:
    """The caller's array; else zeros for what a kernel adds to, and NaN for what it writes."""
    if name in inputs:
        return inputs[name]
    from syncverify.ir.expr import evaluate
    from syncverify.simulate.ir.values import DTYPES

    tensor = next(t for t in kernel.tensors if t.name == name)
    shape = [evaluate(e, values) for e in tensor.shape]
    return np.full(shape, np.nan if tensor.mode == "out" else 0, dtype=DTYPES[tensor.dtype])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--out")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--only", choices=list(CASES))
    given = parser.parse_args()
    if given.only:
        print(json.dumps(judge(given.only, driver.available())))
        return
    names = [*FIRST, *(n for n in CASES if n not in FIRST and n not in NOT_COMPILED)]
    end = time.monotonic() + given.seconds
    with ThreadPoolExecutor(given.jobs) as pool:
        rows = list(pool.map(lambda name: _child(name, end), names))
    if given.out:
        Path(given.out).write_text(json.dumps(rows, indent=1) + "\n")


def _child(name: str, end: float) -> dict[str, Any]:
    limit = min(KILL_AFTER, end - time.monotonic())
    if limit < 5:
        return {"kernel": name, "skipped": "no time left"}
    row = _judged(name, limit)
    print(row, flush=True)
    return row


def _judged(name: str, limit: float) -> dict[str, Any]:
    command = [sys.executable, __file__, "--only", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return {"kernel": name, "failed": f"killed after {limit:.0f} s"}
    if done.returncode:
        return {"kernel": name, "failed": (done.stderr.strip().splitlines() or ["?"])[-1]}
    row: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return row


if __name__ == "__main__":
    main()
